"""Ask vLLM's own parser about every line of tests/serve/answers.jsonl and write its answers there.

    python scripts/record_serve_answers.py tests/serve/answers.jsonl

Run it in an environment where `import vllm` works. A line is {"argv": ["serve" or "api", ...]}; the answer is "values"
(the given options only; of a JSON flag the given keys only) or "error": true. The parser's defaults are taken out.
"""

import argparse
import contextlib
import dataclasses
import enum
import io
import json
import sys
from pathlib import Path, PurePath
from typing import Any


def plain(value: Any) -> Any:
    """A parsed value as JSON holds it."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return value


def given_keys(parsed: Any, given: Any) -> Any:
    """Of a config object, the keys that were given; enum numbers as they were given."""
    if dataclasses.is_dataclass(parsed) and isinstance(given, dict):
        return {key: given_keys(getattr(parsed, key), value) for key, value in given.items()}
    return given if isinstance(parsed, enum.Enum) and isinstance(given, int) else plain(parsed)


def record_given(action: argparse.Action, expand: Any) -> None:
    """Make a JSON flag's converter return the given keys only."""
    convert = action.type

    def converted(text: str) -> Any:
        parsed = convert(text)  # type: ignore[operator,misc]
        return given_keys(parsed, json.loads(expand(text))) if dataclasses.is_dataclass(parsed) else plain(parsed)

    if callable(convert) and convert not in (str, int, float):
        action.type = converted


def parsers() -> tuple[Any, Any]:
    """The parser of `vllm` with its serve command, and the parser of the api_server module."""
    from vllm.engine.arg_utils import _expand_json_human_readable_numbers as expand
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    main = FlexibleArgumentParser()
    main.add_argument("-v", "--version", action="version", version="0")
    serve = make_arg_parser(main.add_subparsers(dest="subparser").add_parser("serve"))
    api = make_arg_parser(FlexibleArgumentParser())
    for parser in (serve, api):
        for action in parser._actions:
            if action.dest != "help":
                action.default = argparse.SUPPRESS
                record_given(action, expand)
    return main, api


def answer(argv: list[str], main: Any, api: Any) -> dict[str, Any]:
    """What vLLM's parser makes of a line."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            names = main.parse_args(argv) if argv[0] == "serve" else api.parse_args(argv[1:])
    except (SystemExit, Exception):
        return {"argv": argv, "error": True}
    values = {key: value for key, value in vars(names).items() if key not in ("subparser", "lora_modules")}
    return {"argv": argv, "values": plain(values)}


def record(path: Path) -> None:
    """Rewrite the file with fresh answers."""
    main, api = parsers()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(answer(line["argv"], main, api)) + "\n" for line in lines))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.argv = ["vllm", "serve"]
    record(target)
