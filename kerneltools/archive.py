# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Writing .xz files of which many are open at a time: compressed in a thread, and without a compressor's memory for each.

What is written is compressed piece by piece, each with a compressor that lives no longer than that: 3 MB at preset 0, 94 MB
at lzma's default. The pieces become the blocks of one stream, as `xz --block-size` makes them: there are readers that take the
first of several streams for the whole file. The format is that of xz's own description, "The .xz File Format" 1.2.1, section
numbers below.
"""

from __future__ import annotations

import io
import lzma
import os
import zlib
from collections import deque
from concurrent.futures import Future
from threading import BoundedSemaphore
from typing import Any, BinaryIO, TextIO

from kerneltools import files
from kerneltools.background import Background

# Measured on 400 000 rows of 400 series (Python 3.11): preset 0 costs 1.1 us a row, 1 costs 1.8, lzma's default 23;
# files of 0 and 1 are equally large, 1.4 times those of the default.
LZMA_PRESET = 0
PIECE_BYTES = 1 << 16  # of text, compressed on their own: 3 % larger than all in one
WAITING_PIECES = 4  # for the compressor

HEADER_SIZE = FOOTER_SIZE = 12  # of a stream: 2.1.1, 2.1.2


class _Blocks:
    """One .xz stream, block by block."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._header = b""
        self._flags = b""
        self._records = bytearray()  # of the index: the size of each block, and of what is in it
        self._number = 0

    def append(self, piece: bytes) -> None:
        """Compress a piece and write its block."""
        header, block, record, flags = _taken_apart(lzma.compress(piece, preset=LZMA_PRESET))
        if not self._header:
            self._header, self._flags = header, flags
            self._file.write(header)
        self._file.write(block)
        self._records += record
        self._number += bool(block)

    def finish(self) -> None:
        """Write the index and the footer."""
        if not self._header:
            self.append(b"")
        index = b"\0" + _multibyte(self._number) + self._records
        index += b"\0" * (-len(index) % 4)
        index += zlib.crc32(index).to_bytes(4, "little")
        backward = (len(index) // 4 - 1).to_bytes(4, "little") + self._flags
        self._file.write(index + zlib.crc32(backward).to_bytes(4, "little") + backward + b"YZ")


def _taken_apart(stream: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Of a stream with at most one block: its header, the block, the block's record in the index (4.3), and the flags."""
    footer = stream[-FOOTER_SIZE:]
    index_size = (int.from_bytes(footer[4:8], "little") + 1) * 4
    end_of_blocks = len(stream) - FOOTER_SIZE - index_size
    # an index (4): a zero byte, the number of records, the records, zeros up to a multiple of four, a checksum
    index = stream[end_of_blocks : -FOOTER_SIZE - 4]
    end = 2
    for _ in range(2 * index[1]):
        while index[end] & 0x80:
            end += 1
        end += 1
    return stream[:HEADER_SIZE], stream[HEADER_SIZE:end_of_blocks], index[2:end], footer[8:10]


def _multibyte(number: int) -> bytes:
    """A number as the format writes it: seven bits a byte, the low ones first, the eighth bit: more follow (1.2)."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


class _Compressor:
    """Compresses what comes from any number of files."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin with nothing submitted; a child process does so too, as it has none of its parent's threads."""
        self._background = Background()
        self._room = BoundedSemaphore(WAITING_PIECES)

    def submit(self, blocks: _Blocks, piece: bytes) -> Future[None]:
        """Have a piece appended to a file; waits while many others do."""
        self._room.acquire()
        written = self._background.submit(blocks.append, piece)
        written.add_done_callback(lambda _: self._room.release())
        return written


_compressor = _Compressor()
os.register_at_fork(after_in_child=_compressor.begin)


class _Archive(io.RawIOBase):
    """An .xz file in which every write makes a block. What a write fails of is raised by a later one or by close."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = files.create(path)
        self._blocks = _Blocks(self._file)
        self._unfinished: deque[Future[None]] = deque()

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        while self._unfinished and self._unfinished[0].done():
            self._unfinished.popleft().result()
        whole = bytes(piece)
        self._unfinished.append(_compressor.submit(self._blocks, whole))
        return len(whole)

    def close(self) -> None:
        if self.closed:
            return
        try:
            while self._unfinished:
                self._unfinished.popleft().result()
            self._blocks.finish()
        finally:
            for written in self._unfinished:  # behind one that failed
                written.exception()
            try:
                self._file.close()
            finally:
                super().close()


def open_archive(path: str) -> TextIO:
    """A new .xz file to write text to, compressed cheaply, in a thread, with little memory while it is open."""
    return io.TextIOWrapper(io.BufferedWriter(_Archive(path), PIECE_BYTES), encoding="utf-8")
