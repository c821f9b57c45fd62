"""One start of the server, before its arguments are read."""

from typing import NamedTuple


class Launch(NamedTuple):
    """One start of the server: the arguments after serve, or after the api_server module."""

    args: list[str]
    serve: bool
    env: dict[str, str]
    errors: list[str]
    files: dict[str, str]
    image: str = ""
    """The container image that it runs in, where one is named."""
