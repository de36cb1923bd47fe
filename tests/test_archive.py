# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Archives written piece by piece are what every reader of .xz takes for one."""

import lzma
import random
import shutil
import subprocess
import threading

import pytest

from kerneltools import archive
from kerneltools.background import Background

SEED = 7


def rows(number):
    draw = random.Random(SEED)
    return "".join(f"{draw.randrange(10_000)},{draw.randrange(10**12)},{draw.random()}\n" for _ in range(number))


def read(path):
    return lzma.decompress(path.read_bytes()).decode()


@pytest.fixture
def xz():
    if not shutil.which("xz"):
        pytest.skip("xz is not installed")
    return lambda *arguments: subprocess.run(["xz", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("number", [0, 1, 100, 5_000, 40_000])
def test_an_archive_is_one_stream_that_holds_what_was_written(tmp_path, xz, number):
    path = tmp_path / "rows.csv.xz"
    text = rows(number)
    with archive.open_archive(str(path)) as file:
        for line in text.splitlines(keepends=True):
            file.write(line)
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    assert decompressor.decompress(path.read_bytes()).decode() == text
    assert decompressor.eof
    assert decompressor.unused_data == b"", "a reader of the first stream alone has read all"
    assert xz("-t", path) == ""
    totals = xz("--robot", "-l", path).splitlines()[-1].split("\t")
    streams, blocks, compressed, uncompressed = map(int, totals[1:5])
    assert streams == 1
    assert blocks == -(-len(text) // archive.PIECE_BYTES) or abs(blocks - len(text) / archive.PIECE_BYTES) < 0.2 * blocks + 1
    assert (compressed, uncompressed) == (path.stat().st_size, len(text))


def test_many_archives_written_in_turns_stay_apart(tmp_path):
    texts = [rows(2_000 + number) for number in range(30)]
    files = [archive.open_archive(str(tmp_path / f"{number}.xz")) for number in range(30)]
    for start in range(0, max(map(len, texts)), 999):
        for file, text in zip(files, texts):
            file.write(text[start : start + 999])
    for file in files:
        file.close()
    assert [read(tmp_path / f"{number}.xz") for number in range(30)] == texts


def refuse(thread):
    raise RuntimeError("can't start new thread")


def test_without_a_thread_it_is_done_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(archive, "_compressor", archive._Compressor())
    text = rows(20_000)
    with archive.open_archive(str(tmp_path / "rows.xz")) as file:
        file.write(text)
    assert read(tmp_path / "rows.xz") == text
    background = Background()
    assert background.submit(divmod, 7, 2).result() == (3, 1)
    with pytest.raises(ZeroDivisionError):
        background.submit(divmod, 7, 0).result()
    background.close()
