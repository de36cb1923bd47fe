# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The only way to files: nothing that lies in a data directory is believed to be what its name says.

A data directory comes from another machine, and is post-processed by root. Whoever made it may have put a FIFO, a device or a link
in the place of any file, in order to have this program wait for ever, fill the memory, or write and delete elsewhere. So only
regular files are read, no link is followed below the directory that the user named, what is read at once is bounded, and what
is written is a new file or nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from kerneltools.log import Log, shown

# Of a small file; those that kerneltools-start and -stop write have some kB.
MOST_BYTES = 4 << 20
MOST_ENTRIES = 1 << 14  # of a directory; no Linux has more than 8192 CPUs
DATA = "data directory"  # whom the log names for files that are no subtool's

_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO without a writer opens at once, and is refused
_TO_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Refused(OSError):
    """Something that lies where a regular file or a directory belongs; the message says what it is."""


class Small(NamedTuple):
    """What a small file holds; is_whole: whether that is all, or there is more behind its first MOST_BYTES."""

    text: str
    is_whole: bool


def reason(error: BaseException) -> str:
    """An error in words for the log, without the paths by which this program came to the file."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        name = f": {os.path.basename(os.fsdecode(error.filename))}" if isinstance(error.filename, (str, bytes)) else ""
        return shown(f"[Errno {error.errno}] {error.strerror}{name}")
    return shown(str(error))


def _kind(mode: int) -> str:
    return next((kind for is_one, kind in _KINDS if is_one(mode)), "something else")


def _refusal(name: str, parent: int, wanted: str) -> OSError | None:
    """Why what lies there is not opened; None where it does not say so itself."""
    with contextlib.suppress(OSError):
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) if wanted == "regular file" else stat.S_ISDIR(mode)):
            return Refused(f"{shown(name)} is {_kind(mode)}, no {wanted}")
    return None


@contextlib.contextmanager
def _parent(directory: Path, names: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the directory in which the last of `names` is, each of them one step below the one before."""
    here = os.open(directory, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for name in names[:-1]:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=here)
            except OSError as error:
                raise _refusal(name, here, "directory") or error from None
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _open(directory: Path, names: tuple[str, ...]) -> int:
    with _parent(directory, names) as parent:
        try:
            descriptor = os.open(names[-1], _TO_READ, dir_fd=parent)
        except OSError as error:
            raise _refusal(names[-1], parent, "regular file") or error from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise Refused(f"{shown(names[-1])} is {_kind(mode)}, no regular file")
    return descriptor


def open_to_read(path: Path) -> BinaryIO:
    """A regular file, to be read piece by piece; Refused where it is something else, OSError where it cannot be opened."""
    return os.fdopen(_open(path.parent, (path.name,)), "rb")


def is_there(path: Path) -> bool:
    """Whether anything has that name, whatever it is."""
    return os.path.lexists(path)


def is_regular(path: Path) -> bool:
    """Whether a regular file has that name."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def read_small(directory: Path, *names: str) -> Small:
    """The beginning of a small regular file below `directory`, each of `names` one step below the one before.

    Bytes that are no UTF-8 are replaced. Where there is more than MOST_BYTES it is as many whole lines. Raises
    FileNotFoundError where there is none, Refused where it is no regular file or behind a link, else OSError.
    """
    with os.fdopen(_open(directory, names), "rb") as file:
        content = file.read(MOST_BYTES + 1)
    is_whole = len(content) <= MOST_BYTES
    if not is_whole:
        content = content[: content.rfind(b"\n", 0, MOST_BYTES) + 1]
    return Small(content.decode("utf-8", "replace"), is_whole)


def read_or_say(directory: Path, log: Log, *names: str) -> str:
    """The text of a small file, as read_small gives it; "" where there is none. What cannot be read is a loss of the run."""
    try:
        small = read_small(directory, *names)
    except FileNotFoundError:
        return ""
    except OSError as error:
        log.lost(DATA, "files that cannot be read", f"{shown('/'.join(names))} ({reason(error)})")
        return ""
    if not small.is_whole:
        log.lost(DATA, f"files of which only the first {MOST_BYTES >> 20} MiB are read", shown("/".join(names)))
    return small.text


def entries(directory: Path, *names: str) -> list[str]:
    """The names in a directory below `directory`, each of `names` one step below the one before.

    Raises FileNotFoundError where there is none, Refused where it is none or behind a link, or has more than MOST_ENTRIES.
    """
    with _parent(directory, (*names, "")) as opened, os.scandir(opened) as scanned:
        found = [entry.name for entry, _ in zip(scanned, range(MOST_ENTRIES + 1))]
    if len(found) > MOST_ENTRIES:
        raise Refused(f"{shown('/'.join(names))} has more than {MOST_ENTRIES} entries")
    return found


def entries_or_say(directory: Path, log: Log, *names: str) -> list[str]:
    """The names in a directory; none where there is none. What cannot be read is a loss of the run."""
    try:
        return entries(directory, *names)
    except FileNotFoundError:
        return []
    except OSError as error:
        log.lost(DATA, "files that cannot be read", f"{shown('/'.join(names))} ({reason(error)})")
        return []


def own_text(name: str) -> str:
    """A file of this package, which lies beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


# ---- writing


def open_directory(path: Path) -> int:
    """A descriptor of a directory, which is made where there is none; Refused where something else has its name."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    try:
        return os.open(path, _DIRECTORY)
    except OSError as error:
        with _parent(path.parent, (path.name,)) as parent:
            raise _refusal(path.name, parent, "directory") or error from None


def path_of(descriptor: int, path: Path) -> Path:
    """A path that leads to an open directory, whatever becomes of its name; `path` itself where the kernel has none."""
    fixed = Path(f"/proc/self/fd/{descriptor}")
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(fixed), os.fstat(descriptor)):
            return fixed
    return path


def create(path: str | Path) -> BinaryIO:
    """A new file to write to; FileExistsError where anything has its name, a link included."""
    return os.fdopen(os.open(path, _TO_CREATE, 0o666), "wb")


def remove(path: Path) -> None:
    """Remove a file, or a link rather than what it leads to, if there is one."""
    path.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all, in the place of an earlier one; what UTF-8 does not have is replaced."""
    unfinished = path.with_name(f".{path.name}")
    remove(unfinished)  # of a process that was killed, or a trap
    try:
        with create(unfinished) as file:
            file.write(text.encode("utf-8", "replace"))
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(unfinished)
        raise


def nowhere() -> TextIO:
    """What takes all and keeps nothing, for a standard output that has no reader any more."""
    return open(os.devnull, "w")
