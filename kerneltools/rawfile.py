# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Raw outputs of collectors, plain or .xz, as a stream of lines; a damaged file gives all that is readable before the damage."""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

from kerneltools import files
from kerneltools.background import Background

READ_BYTES = 1 << 16
STEP_BYTES = 1 << 18  # what the decompressor gives at a time
# A step that meets damage gives back nothing of its own: small ones lose little.
STEP_BYTES_BEFORE_DAMAGE = 1 << 12
# No collector writes a longer line. What else is (a disk image of zeros, say) must not be held in memory as a whole: of
# its middle, so much at each end is kept, as a record may stand there.
LONGEST_LINE = 1 << 20

_LINE = itemgetter(1)


def find(directory: Path, name: str) -> Path | None:
    """The output `name` in `directory`: the raw file where it is (an archive beside it is not complete), else its .xz.

    Where there is no regular file, but something else of that name, it is that, for `RawFile.check` to say so.
    """
    paths = (directory / name, directory / (name + ".xz"))
    return next((path for is_one in (files.is_regular, files.is_there) for path in paths if is_one(path)), None)


def _decompressed(path: Path, step: int) -> Iterator[bytes]:
    """Pieces of at most `step` bytes of an .xz file (any number of streams); raises EOFError or LZMAError at the damage."""
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    with files.open_to_read(path) as archive:
        while True:
            if decompressor.eof:
                rest = decompressor.unused_data.lstrip(b"\0") or archive.read(READ_BYTES).lstrip(b"\0")
                if not rest:
                    return
                decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
                compressed = rest
            elif decompressor.needs_input:
                compressed = archive.read(READ_BYTES)
                if not compressed:
                    raise EOFError("the archive ends before its end mark")
            else:
                compressed = b""
            piece = decompressor.decompress(compressed, step)
            if piece:
                yield piece


def _archive_bytes(path: Path) -> Iterator[bytes]:
    """The decompressed pieces of an .xz file up to its damage, where it raises EOFError or LZMAError."""
    given = 0
    try:
        for piece in _decompressed(path, STEP_BYTES):
            given += len(piece)
            yield piece
        return
    except lzma.LZMAError:
        pass
    for piece in _decompressed(path, STEP_BYTES_BEFORE_DAMAGE):  # once more, for what the last step held before the damage
        if given >= len(piece):
            given -= len(piece)
            continue
        yield piece[given:]
        given = 0


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, each piece made in a thread while its predecessor is worked on: the decompressor needs no interpreter lock."""
    background = Background()
    try:
        following = background.submit(next, pieces, None)
        while (piece := following.result()) is not None:
            following = background.submit(next, pieces, None)
            for start in range(0, len(piece), READ_BYTES):
                yield piece[start : start + READ_BYTES]
    finally:
        background.close()


def _plain_bytes(path: Path) -> Iterator[bytes]:
    with files.open_to_read(path) as raw:
        while True:
            piece = raw.read(READ_BYTES)
            if not piece:
                return
            yield piece


def numbered(piece: str, first: int) -> Iterator[tuple[int, str, int]]:
    """The lines of a piece that are not empty, as RawFile.numbered gives them; first: the number of its first line."""
    if not piece or piece.isspace():
        return
    begin, before, times = first, "", 0
    for number, line in filter(_LINE, enumerate(piece.split("\n"), first)):
        if line == before:
            times += 1
            continue
        if times:
            yield begin, before, times
        begin, before, times = number, line, 1
    yield begin, before, times


class _Rest:
    """The beginning of a line whose end is not read yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def __bool__(self) -> bool:
        return self._size > 0

    def add(self, piece: bytes) -> None:
        """Continue it."""
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
        if self._size > 2 * LONGEST_LINE:
            whole = b"".join(self._pieces)
            # with a byte between that no line has: it is not to be read as one
            self._pieces = [whole[:LONGEST_LINE], b"\0", whole[-LONGEST_LINE // 2 :]]
            self._size = sum(map(len, self._pieces))

    def take(self) -> bytes:
        """All of it; from here on it is empty."""
        whole = b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        return whole


class RawFile:
    """One output, readable any number of times.

    After a pass over `pieces()` or `lines()`: `damage` says what ended it early ("" where nothing did),
    `last_line_cut` whether the last line lacks its line feed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self.last_line_cut = False

    @property
    def mtime(self) -> float:
        """When the output was last written (seconds since the epoch); compression keeps it."""
        with files.open_to_read(self.path) as opened:
            return os.fstat(opened.fileno()).st_mtime

    def check(self) -> None:
        """Raise OSError where it cannot be read, or is no regular file."""
        files.open_to_read(self.path).close()

    def pieces(self) -> Iterator[str]:
        """The text in pieces of many whole lines, without the last line feed of each piece.

        Bytes that are no UTF-8 come as lone surrogates (surrogateescape). Of a line beyond LONGEST_LINE the middle is
        left out.
        """
        self.damage = ""
        self.last_line_cut = False
        rest = _Rest()
        pieces = _ahead(_archive_bytes(self.path)) if self.path.suffix == ".xz" else _plain_bytes(self.path)
        while True:
            try:
                piece = next(pieces, None)
            except (EOFError, lzma.LZMAError, OSError) as error:
                self.damage = files.reason(error) or type(error).__name__
                piece = None
            if piece is None:
                break
            end = piece.rfind(b"\n")
            if end < 0:
                rest.add(piece)
                continue
            rest.add(piece[:end])
            whole = rest.take()
            rest.add(piece[end + 1 :])
            yield whole.decode("utf-8", "surrogateescape")
        self.last_line_cut = bool(rest)
        if rest:
            yield rest.take().decode("utf-8", "surrogateescape")

    def lines(self) -> Iterator[str]:
        """The lines of all pieces."""
        for piece in self.pieces():
            yield from piece.split("\n")

    def numbered(self) -> Iterator[tuple[int, str, int]]:
        """The lines that are not empty: the number of the line, from 1, the line, and how many like it follow each other.

        A file of blank lines, or of one line of garbage over and over, costs little more than its reading.
        """
        number = 1
        for piece in self.pieces():
            yield from numbered(piece, number)
            number += piece.count("\n") + 1

    def text(self, most: int) -> str:
        """All of it as one text, whatever its lines; raises ValueError where it is damaged, or has more bytes than `most`."""
        whole = bytearray()
        pieces = _archive_bytes(self.path) if self.path.suffix == ".xz" else _plain_bytes(self.path)
        try:
            for piece in pieces:
                whole += piece
                if len(whole) > most:
                    raise ValueError(f"it is larger than {most >> 20} MiB")
        except (EOFError, lzma.LZMAError) as error:
            raise ValueError(str(error)) from None
        return whole.decode("utf-8", "surrogateescape")
