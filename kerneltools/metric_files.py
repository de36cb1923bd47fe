# SPDX-License-Identifier: Apache-2.0
"""The metric files of a subtool: `metric-data-<file_id>.csv.xz` and `.json.xz`, as many as its series need."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Callable, cast

from kerneltools.frames import Series, Value, items
from kerneltools.sink import Descriptor, Sink, check_descriptor, metric_prefix, open_sink

PRIVATE_PREFIX = ".partial-"  # must not begin like a metric file: rickshaw would index what is half-written
MOST_ROWS = 1_200_000  # the indexer drops a file of more than about 1.6 million without a word
VALUE_TYPES = {int, float, type(None)}


class _File:
    """One metric file: its sink, the numbers of its series, and what gives their values in a frame."""

    def __init__(self, file_id: str, sink: Sink) -> None:
        self.file_id = file_id
        self.sink = sink
        self.numbers: list[int] = []
        self.pick: Callable[[Sequence[Any]], Sequence[Any]] = items([])


class MetricFiles:
    """The metric files `<file_id>`, `<file_id>-2`, ... of one subtool.

    No file gets more than MOST_ROWS rows: series are spread over files, in the order of their first samples.
    `rows_per_series` is an upper bound on the rows of one series, the number of its intervals; a file takes at most
    `MOST_ROWS // rows_per_series` series, but at least one.

    Until finish, everything lies in a private directory inside `postprocess_dir` that no indexer looks at. Where
    publish raises OSError, call abandon; finish does so itself.

    All files stay open until the end, as samples come by time, each with up to archive.PIECE_BYTES that wait for the compressor.
    A day of 10 s intervals and 8000 series makes 58 files.
    """

    def __init__(self, postprocess_dir: Path, file_id: str, rows_per_series: int) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", file_id):
            raise ValueError(f"file_id {file_id!r} does not make a file name that rickshaw finds")
        self._postprocess_dir = Path(postprocess_dir)
        self._file_id = file_id
        self._series_per_file = max(1, MOST_ROWS // max(1, rows_per_series))
        self._series: list[Series] = []
        self._descriptors: dict[str, Descriptor] = {}  # by type
        self._where: dict[int, tuple[_File, int]] = {}  # of each series that has a sample: its file, its place there
        self._files: list[_File] = []
        self._grown: list[_File] = []  # by the present frame
        self._private: Path | None = None
        self._damaged = False
        self._end = -1

    def add(self, series: Series) -> None:
        """Register the next series; one that never gets a sample is not written.

        Raises ValueError for an unknown class or aggregation and for a breakout's value that is no string or empty.
        """
        descriptor = self._descriptors.get(series.type)
        if descriptor is None:
            descriptor = series.metric.descriptor(series.type)
            check_descriptor(descriptor)
            self._descriptors[series.type] = descriptor
        for name, value in series.names.items():
            if not isinstance(value, str) or not value:
                raise ValueError(f"metric {descriptor['source']}:{series.type}: {name} is {value!r}, not a string with text")
        self._series.append(series)

    def publish(self, end: int, values: Sequence[Value | None], begins: dict[int, int]) -> None:
        """Add the values that the series had up to `end` (ms since the epoch, included), None where there is none.

        Each is from 1 ms after the last sample of its series on; of first samples, and of those behind a hole, `begins`
        says from when, by the series' number. Raises ValueError for an end that is not after the last one or before a
        begin, and for a value that is neither int nor finite float; OSError where it cannot be written, after which only
        abandon is possible.
        """
        kinds = set(map(type, values))
        present = [value for value in values if value is not None] if type(None) in kinds else cast("Sequence[Value]", values)
        good = kinds <= VALUE_TYPES and isfinite(sum(present)) and type(end) is int and end > self._end
        if not good or any(not 0 <= begin <= end for begin in begins.values()):
            self._object(end, values, begins)
        self._end = end
        holes: dict[int, dict[int, int]] = {}  # by file
        later = list(values)  # but for the first samples
        try:
            for number, begin in begins.items():
                if number not in self._where:
                    self._place(number, begin, end, values[number])
                    later[number] = None
                else:
                    file, place = self._where[number]
                    holes.setdefault(id(file), {})[place] = begin
            for file in self._grown:
                file.pick = items(file.numbers)
            self._grown = []
            for file in self._files:
                file.sink.write(end, file.pick(later), holes.get(id(file), {}))
        except BaseException:
            self._damaged = True  # the compressed stream may lack a piece
            raise

    def _object(self, end: Any, values: Sequence[Any], begins: dict[int, int]) -> None:
        """Raise ValueError that says what of a frame would be no row, if anything."""
        if type(end) is not int or end <= self._end:
            raise ValueError(f"an interval cannot end at {end!r}, {self._end} was the last end")
        for number, begin in begins.items():
            if not 0 <= begin <= end:
                raise ValueError(f"metric {self._series[number]}: a sample cannot last from {begin} to {end}")
        for number, value in enumerate(values):
            if type(value) not in VALUE_TYPES or (type(value) is float and not isfinite(value)):
                raise ValueError(f"metric {self._series[number]}: {value!r} is no finite number")

    def _place(self, number: int, begin: int, end: int, value: Any) -> None:
        """Give a series its place in a file, with its first sample."""
        file_number, place = divmod(len(self._where), self._series_per_file)
        if place == 0:
            self._open_file(file_number)
        file, series = self._files[-1], self._series[number]
        file.sink.add(self._descriptors[series.type], series.names, begin, end, value)
        file.numbers.append(number)
        if file not in self._grown:
            self._grown.append(file)
        self._where[number] = file, place

    def _open_file(self, number: int) -> None:
        if self._private is None:
            self._postprocess_dir.mkdir(parents=True, exist_ok=True)
            self._private = Path(tempfile.mkdtemp(prefix=f"{PRIVATE_PREFIX}{self._file_id}-", dir=self._postprocess_dir))
        file_id = self._file_id if number == 0 else f"{self._file_id}-{number + 1}"
        self._files.append(_File(file_id, open_sink(self._private, file_id)))

    def finish(self) -> list[str]:
        """Publish the files and return their prefixes in order: `["metric-data-perf-stat", "metric-data-perf-stat-2"]`.

        Every `.csv.xz` is in its place before the first `.json.xz`, which is what an indexer looks for. If anything
        fails, nothing is published and the reason is raised (OSError: disk full; RuntimeError: an earlier sample
        failed).
        """
        if self._private is None:
            return []
        published: list[Path] = []
        try:
            if self._damaged:
                raise RuntimeError(f"{self._file_id}: a sample could not be written, so no file is published")
            for file in self._files:
                file.sink.finish()
            prefixes = [metric_prefix(file.file_id) for file in self._files]
            for suffix in (".csv.xz", ".json.xz"):
                for prefix in prefixes:
                    target = self._postprocess_dir / (prefix + suffix)
                    os.replace(self._private / target.name, target)
                    published.append(target)
        except BaseException:
            for target in reversed(published):  # descriptors first: rows alone are not looked at
                with contextlib.suppress(OSError):
                    target.unlink()
            raise
        finally:
            self.abandon()
        return prefixes

    def abandon(self) -> None:
        """Close and remove what is not published. May be called at any time, and twice."""
        for file in self._files:
            file.sink.abandon()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        self._private = None
        self._files = []


def remove_stale(postprocess_dir: Path, subtools: Iterable[str]) -> None:
    """Remove what an earlier run left of these subtools: metric files, plain and `.xz`, and private directories of a killed one.

    All that are called by a subtool: an indexer would take those of a former place of the directory (other hex digits) and
    of former versions (none) for further metrics. A plain `.json`, written by indexing, would win over a new `.json.xz`.
    Call it before any MetricFiles gets a sample.
    """
    names = "|".join(map(re.escape, subtools))
    theirs = re.compile(rf"metric-data-({names})(-[0-9a-f]{{8,}})?(-[0-9]+)?\.(csv|json)(\.xz)?|{re.escape(PRIVATE_PREFIX)}({names})-.*")
    _remove(path for path in Path(postprocess_dir).glob("*") if theirs.fullmatch(path.name))


def remove_files(postprocess_dir: Path, file_id: str) -> None:
    """Remove the metric files of one file_id, finished or not, that a killed process left."""
    patterns = f"metric-data-{file_id}.*", f"metric-data-{file_id}-[0-9]*", f"{PRIVATE_PREFIX}{file_id}-*"
    _remove(path for pattern in patterns for path in Path(postprocess_dir).glob(pattern))


def _remove(found: Iterable[Path]) -> None:
    # descriptors first: rows alone are not looked at
    for path in sorted(found, key=lambda path: (".json" not in path.suffixes, path)):
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        elif path.name.startswith(PRIVATE_PREFIX):
            shutil.rmtree(path, ignore_errors=True)
