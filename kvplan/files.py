"""Opening a file that cannot keep kvplan waiting; writing one whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from kvplan.errors import KvplanError

_HANDED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes that the shell hands over: somebody writes to them."""
_DEVICES = ("/dev/", "/proc/")


def open_read(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading. OSError also for a named pipe: opening it would wait for a writer for ever."""
    if stat.S_ISFIFO(os.stat(path).st_mode) and not os.fspath(path).startswith(_HANDED):
        raise OSError(errno.EINVAL, "a named pipe")
    return open(path, "rb")


def write_whole(path: str, text: str) -> None:
    """Put ``text`` into ``path`` in one step: readers see the old file or the new one, never a part.

    A link stays and the file behind it is replaced; what is no file (a device, a pipe) is written to as it is.
    KvplanError, naming the file, where it cannot be written; the old file is then unharmed.
    """
    import tempfile

    try:
        if _is_no_file(path):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
            return
        path = os.path.realpath(path) if path else path
        folder, name = os.path.split(os.path.abspath(path))
        handle, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
    except (OSError, ValueError) as error:
        raise KvplanError(f"{path or repr(path)}: cannot be written ({_why(error)}).") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException as error:  # Ctrl-C leaves no half file either
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise KvplanError(f"{path}: cannot be written ({error.strerror}).") from None
        raise


def _is_no_file(path: str) -> bool:
    """Whether something is there that a file must not take the place of."""
    if path.startswith(_DEVICES):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "no file name"


def _mode(path: str) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
