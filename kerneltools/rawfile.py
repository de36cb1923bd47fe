# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Raw outputs of collectors, plain or .xz, as a stream of lines; a damaged file gives all that is readable before the damage."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

READ_BYTES = 1 << 16
# A call of the decompressor that meets damage gives back nothing of its own: small steps lose little.
STEP_BYTES = 1 << 12


def find(directory: Path, name: str) -> Path | None:
    """The output `name` in `directory`: the raw file where it is (an archive beside it is not complete), else its .xz."""
    for path in (directory / name, directory / (name + ".xz")):
        if path.is_file():
            return path
    return None


def _archive_bytes(path: Path) -> Iterator[bytes]:
    """Decompressed pieces of an .xz file (any number of streams); raises EOFError or LZMAError at the damage."""
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    with path.open("rb") as archive:
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
            piece = decompressor.decompress(compressed, STEP_BYTES)
            if piece:
                yield piece


def _plain_bytes(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        while True:
            piece = raw.read(READ_BYTES)
            if not piece:
                return
            yield piece


class RawFile:
    """One output, readable any number of times.

    After a pass over `lines()`: `damage` says what ended it early ("" where nothing did), `last_line_cut` whether
    the last line lacks its line feed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self.last_line_cut = False

    @property
    def mtime(self) -> float:
        """When the output was last written (seconds since the epoch); compression keeps it."""
        return self.path.stat().st_mtime

    def lines(self) -> Iterator[str]:
        """The lines without their line feed. Bytes that are no UTF-8 come as lone surrogates (surrogateescape)."""
        self.damage = ""
        rest: list[bytes] = []
        pieces = _archive_bytes(self.path) if self.path.suffix == ".xz" else _plain_bytes(self.path)
        while True:
            try:
                piece = next(pieces, None)
            except (EOFError, lzma.LZMAError, OSError) as error:
                self.damage = str(error) or type(error).__name__
                piece = None
            if piece is None:
                break
            end = piece.rfind(b"\n")
            if end < 0:
                rest.append(piece)
                continue
            rest.append(piece[:end])
            whole = b"".join(rest).decode("utf-8", "surrogateescape").split("\n")
            rest = [piece[end + 1 :]] if end + 1 < len(piece) else []
            yield from whole
        self.last_line_cut = bool(rest)
        if rest:
            yield b"".join(rest).decode("utf-8", "surrogateescape")
