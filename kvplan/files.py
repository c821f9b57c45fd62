"""Opening a file that cannot keep kvplan waiting; writing one whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from kvplan.errors import KvplanError

_HANDED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes that the shell hands over: somebody writes to them."""


def open_read(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading. OSError also for a named pipe: opening it would wait for a writer for ever."""
    if stat.S_ISFIFO(os.stat(path).st_mode) and not os.fspath(path).startswith(_HANDED):
        raise OSError(errno.EINVAL, "a named pipe")
    return open(path, "rb")


def write_whole(path: str, text: str) -> None:
    """Put ``text`` into ``path`` in one step: readers see the old file or the new one, never a part.

    KvplanError, naming the file, where it cannot be written; the old file is then unharmed.
    """
    import tempfile

    folder, name = os.path.split(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    except OSError as error:
        raise KvplanError(f"{path}: cannot be written ({error.strerror}).") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise KvplanError(f"{path}: cannot be written ({error.strerror}).") from None


def _mode(path: str) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
