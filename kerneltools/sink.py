# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Where samples end up: `metric-data-<file_id>.csv.xz` and `.json.xz`, as rickshaw indexes them.

MetricFiles is what a post-processor writes to. Below it lies a sink: toolbox's own where TOOLBOX_HOME has one,
else BuiltinSink, which writes the same bytes (before compression).

A row of the CSV is `idx,begin,end,value`: times are ms since the epoch, both included; idx is the place of the
series' descriptor, `{"idx", "desc", "names"}`, in the JSON list beside it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import json
import logging
import math
import os
import re
import shutil
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Callable, NamedTuple, Protocol, TextIO, Union

from kerneltools.archive import open_archive

log = logging.getLogger("kerneltools")

Number = Union[int, float]
Descriptor = dict[str, str]
Breakouts = dict[str, str]

CLASSES = ("throughput", "latency", "count", "pass/fail", "boolean", "percentage")
AGGREGATIONS = ("sum", "avg", "max", "min")

PRIVATE_PREFIX = ".partial-"  # must not begin like a metric file: rickshaw would index what is half-written


class Sink(Protocol):
    """The interface of toolbox's CDMMetrics, one instance for each metric file."""

    def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int: ...

    def log_sample_by_idx(self, idx: int, value: Number, end: int, begin: int | None = None) -> None: ...

    def finish_samples(self, dont_delete: bool = False) -> str | None: ...


def check_descriptor(desc: Descriptor) -> None:
    """Raise ValueError where current toolboxes would refuse `desc`, naming the field and what it may be."""
    what = f"metric {desc.get('source')}:{desc.get('type')}"
    if desc.get("class") not in CLASSES:
        raise ValueError(f"{what}: class {desc.get('class')!r} is not one of {', '.join(CLASSES)}")
    if "default-aggregation" in desc and desc["default-aggregation"] not in AGGREGATIONS:
        raise ValueError(f"{what}: default-aggregation {desc['default-aggregation']!r} is not one of {', '.join(AGGREGATIONS)}")


Identity = tuple[str, str, tuple[tuple[str, str], ...]]


def series_identity(desc: Descriptor, names: Breakouts) -> Identity:
    """What makes two samples of one metric file belong together: source, type and breakouts in any order."""
    return desc["source"], desc["type"], tuple(sorted((name, str(value or "x")) for name, value in names.items()))


class Shared:
    """One copy of equal descriptors and breakouts for all that hold them: ten thousand series have the breakouts of some
    hundred places."""

    def __init__(self) -> None:
        self._copies: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._breakouts: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}

    def copy(self, original: dict[str, str]) -> dict[str, str]:
        """A copy, in the original's order, that nobody may change."""
        key = tuple(original.items())
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = original.copy()
        return found

    def identity(self, desc: Descriptor, names: Breakouts) -> Identity:
        """series_identity, whose parts are kept once."""
        source, metric_type, breakouts = series_identity(desc, names)
        return source, metric_type, self._breakouts.setdefault(breakouts, breakouts)


def metric_prefix(file_id: str) -> str:
    """The name of a metric file without `.csv.xz` and `.json.xz`."""
    return f"metric-data-{file_id}"


def is_metric_prefix(name: object) -> bool:
    """Whether that is the name of a metric file, as metric_prefix makes it: no way out of its directory."""
    return isinstance(name, str) and re.fullmatch(r"metric-data-[A-Za-z0-9][A-Za-z0-9._-]*", name) is not None


def items(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that gives the items of a sequence at these places."""
    first, count = (places[0], len(places)) if places else (0, 0)
    if list(places) == list(range(first, first + count)):
        return itemgetter(slice(first, first + count))
    return itemgetter(*places)


def open_rows(directory: str | Path, file_id: str) -> TextIO:
    """A new CSV of a metric file."""
    return open_archive(os.path.join(directory, f"{metric_prefix(file_id)}.csv.xz"))


class _OpenRow:
    """The row of a series that may still grow."""

    __slots__ = ("begin", "earlier_rows", "end", "value")

    def __init__(self, begin: int | None, end: int, value: Number) -> None:
        self.begin = begin
        self.end = end
        self.value = value
        self.earlier_rows = False


class _WideRow:
    """The open rows of series that get samples together: their begins, ends and values."""

    __slots__ = ("_begins", "_end", "_ends", "_rows", "_texts", "_values", "indices")

    def __init__(self, indices: Sequence[int], rows: list[_OpenRow]) -> None:
        self.indices = indices
        self._rows = rows
        self._texts = list(map(str, indices))
        self._begins = [row.begin for row in rows]
        self._values: Sequence[Number] = [row.value for row in rows]
        self._end = rows[0].end
        self._ends: list[int] | None = [row.end for row in rows]  # None: all of them are _end
        if set(self._ends) == {self._end}:
            self._ends = None

    def follow(self, values: Sequence[Number | None], end: int) -> str:
        """Continue with a sample for each, None for none; the CSV of the rows that are complete with that."""
        if self._ends is not None or None in values:
            return self._follow_each(values, end)
        last, following, before = self._end, self._end + 1, self._values
        written = [
            f"{idx},{begin},{last},{old!s}\n"
            for idx, begin, old, value in zip(self._texts, self._begins, before, values)
            if old != value  # not ==: a value may be made unequal to all
        ]
        if len(written) == len(self._texts):
            self._begins = [following] * len(written)
            self._values = values
        else:
            self._begins = [following if old != value else begin for begin, old, value in zip(self._begins, before, values)]
            # of equal values the first counts: 1 and 1.0 are written differently
            self._values = [value if old != value else old for old, value in zip(before, values)]
        self._end = end
        return "".join(written)

    def _follow_each(self, values: Sequence[Number | None], end: int) -> str:
        before, ends = self._values, self._ends or [self._end] * len(self._texts)
        changes = [value is not None and bool(old != value) for old, value in zip(before, values)]
        written = [
            f"{idx},{begin},{last},{old!s}\n"
            for idx, begin, last, old, changed in zip(self._texts, self._begins, ends, before, changes)
            if changed
        ]
        self._begins = [last + 1 if changed else begin for begin, last, changed in zip(self._begins, ends, changes)]
        self._values = [value if changed else old for old, value, changed in zip(before, values, changes)]
        self._end = end
        self._ends = [last if value is None else end for last, value in zip(ends, values)] if None in values else None
        return "".join(written)

    def leave(self) -> None:
        """Give the open rows back what is known of them."""
        for row, begin, end, value in zip(self._rows, self._begins, self._ends or [self._end] * len(self._rows), self._values):
            row.earlier_rows = row.earlier_rows or row.begin != begin
            row.begin, row.end, row.value = begin, end, value


class BuiltinSink:
    """Writes what toolbox's CDMMetrics writes, and behaves like it.

    Equal consecutive values of a series make one row, even where a given `begin` leaves a hole between them. A sample
    without `begin` starts 1 ms after its predecessor's end; a series' first sample starts as long before its end as
    the second ends after it, or at its end where it stays alone.

    One metric file at a time: unlike toolbox, which then mixes their rows, a second file_id before finish_samples
    is a ValueError. `output_dir` is created.
    """

    def __init__(self, output_dir: str | Path = "postprocess") -> None:
        self.output_dir = Path(output_dir)
        self.output_dir.mkdir(parents=True, exist_ok=True)
        self.metric_data_fh: dict[str, TextIO] = {}
        self._restart()

    def _restart(self) -> None:
        self._file_id: str | None = None
        self._indices: dict[Identity, int] = {}
        self._described: list[tuple[Descriptor, Breakouts]] = []
        self._shared = Shared()
        self._open_rows: dict[int, _OpenRow] = {}
        self._wide: _WideRow | None = None
        self._write: Callable[[str], Any] = _refuse_to_write

    def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int:
        """Add a sample (`end` in ms since the epoch, `value`, optionally `begin`) and return its series' index.

        Raises ValueError on a series' first sample if its descriptor is not one that CDM knows (check_descriptor).
        """
        if self._file_id not in (None, file_id):
            raise ValueError(f"{file_id}: {self._file_id} is not finished yet")
        identity = self._shared.identity(desc, names)
        idx = self._indices.get(identity)
        if idx is not None:
            self.log_sample_by_idx(idx, end=sample["end"], value=sample["value"], begin=sample.get("begin"))
            return idx
        check_descriptor(desc)
        row = _OpenRow(sample.get("begin"), sample["end"], sample["value"])
        if self._file_id is None:
            rows = self.metric_data_fh[file_id] = open_rows(self.output_dir, file_id)
            self._write = rows.write
            self._file_id = file_id
        idx = self._indices[identity] = len(self._described)
        self._described.append((self._shared.copy(desc), self._shared.copy(names)))
        self._open_rows[idx] = row
        return idx

    def log_sample_by_idx(self, idx: int, value: Number, end: int, begin: int | None = None) -> None:
        """Add a sample to the series that log_sample returned `idx` for; KeyError if there is none."""
        self._leave_wide()
        row = self._open_rows[idx]
        if row.begin is None:
            if not row.end:
                raise RuntimeError(f"series {idx}: its first sample has neither a begin nor an end to guess it from")
            row.begin = row.end - (end - row.end) + 1
        if row.value != value:
            self._write(f"{idx},{row.begin},{row.end},{row.value!s}\n")
            row.earlier_rows = True
            row.begin = row.end + 1 if begin is None else begin
            row.value = value
        row.end = end

    def log_row(self, indices: Sequence[int], values: Sequence[Number | None], end: int) -> None:
        """Add a sample to each of these series, without a begin; None is no sample. Each has had one with a begin.

        Calls with the same `indices` object are quick.
        """
        wide = self._wide
        if wide is None or wide.indices is not indices:
            self._leave_wide()
            wide = self._wide = _WideRow(indices, [self._open_rows[idx] for idx in indices])
        self._write(wide.follow(values, end))

    def _leave_wide(self) -> None:
        """Give the series of the last log_row back what it knows of them."""
        if self._wide is not None:
            self._wide.leave()
            self._wide = None

    def finish_samples(self, dont_delete: bool = False) -> str | None:
        """Write what is open and the descriptors; return the files' prefix, None where no sample came.

        A series that was 0 throughout is left out unless `dont_delete`.
        """
        if self._file_id is None:
            return None
        self._leave_wide()
        kept = []
        for idx, row in self._open_rows.items():
            if row.value == 0 and not row.earlier_rows and not dont_delete:
                continue
            begin = row.end if row.begin is None else row.begin
            self._write(f"{idx},{begin},{row.end},{row.value!s}\n")
            desc, names = self._described[idx]
            kept.append({"idx": idx, "desc": desc, "names": names})
        self.metric_data_fh.pop(self._file_id).close()
        prefix = metric_prefix(self._file_id)
        if kept:
            with open_archive(os.path.join(self.output_dir, f"{prefix}.json.xz")) as descriptors:
                descriptors.write(json.dumps(kept))
        self._restart()
        return prefix


def _refuse_to_write(row: str) -> None:
    raise RuntimeError(f"no metric file is open for the row {row.rstrip()}")


class _WithoutIndex:
    """An older toolbox (its `metrics` module, or a CDMMetrics before log_sample_by_idx) behind the current interface.

    Both keep their state under the same names, the module as globals and the class as attributes.
    """

    def __init__(self, toolbox: Any) -> None:
        self._toolbox = toolbox
        self._indices: dict[Any, int] = {}
        self._logged: list[tuple[str, Descriptor, Breakouts]] = []

    @property
    def metric_data_fh(self) -> dict[str, TextIO]:
        return self._toolbox.metric_data_fh

    def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int:
        identity = series_identity(desc, names)
        idx = self._indices.get(identity)
        if idx is not None:
            self.log_sample_by_idx(idx, end=sample["end"], value=sample["value"], begin=sample.get("begin"))
            return idx
        # The module joins names as strings, and tells {a, b} from {b, a}: it is always given the first spelling.
        names = {name: str(value) if value else "" for name, value in names.items()}
        self._toolbox.log_sample(file_id, desc, names, sample.copy())
        idx = self._indices[identity] = len(self._logged)
        self._logged.append((file_id, desc.copy(), names))
        return idx

    def log_sample_by_idx(self, idx: int, value: Number, end: int, begin: int | None = None) -> None:
        file_id, desc, names = self._logged[idx]
        sample = {"end": end, "value": value}
        if begin is not None:
            sample["begin"] = begin
        self._toolbox.log_sample(file_id, desc, names, sample)

    def finish_samples(self, dont_delete: bool = False) -> str | None:
        if not self._logged:
            return None
        for idx, stored in self._toolbox.stored_sample.items():
            stored.setdefault("begin", stored["end"])  # the module dies of a single sample without
            if dont_delete:  # before 2024 there is no such parameter; a series that has rows already is never deleted
                self._toolbox.num_written_samples.setdefault(idx, 0)
        self._toolbox.finish_samples()
        prefix = metric_prefix(self._logged[-1][0])  # the module's own return value was empty before 2024
        self._toolbox.num_written_samples.clear()  # it forgets to: the next file would keep its zeros
        self._indices = {}
        self._logged = []
        return prefix


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    """A warning for the log, not repeated for each of dozens of files."""
    if message not in _warned:
        _warned.add(message)
        log.warning(message)


def toolbox_sink(output_dir: str | Path) -> Sink | None:
    """Toolbox's sink writing to `output_dir`; None without TOOLBOX_HOME, or, with a warning, without a usable one.

    Whatever its age (from May 2021 on) it writes to `output_dir`, compressed as open_archive does.
    """
    home = os.environ.get("TOOLBOX_HOME")
    if not home:
        return None
    failures = []
    for load in (_cdm_metrics, _deprecated_metrics):
        try:
            with _on_module_path(os.path.join(home, "python")):
                return load(str(output_dir))
        except Exception as failure:  # others' code of any age: nothing in it may cost the run its metrics
            failures.append(f"{type(failure).__name__}: {failure}")
    reason = "; ".join(" ".join(failure.split()) for failure in dict.fromkeys(failures))
    _warn_once(f"toolbox in {home} cannot be used ({reason}): writing the same metric files without it")
    return None


def open_sink(output_dir: str | Path) -> Sink:
    """Toolbox's sink where there is one, else the built-in one."""
    return toolbox_sink(output_dir) or BuiltinSink(output_dir)


@contextlib.contextmanager
def _on_module_path(directory: str) -> Iterator[None]:
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(directory)


def _cdm_metrics(output_dir: str) -> Sink:
    """A sink of toolbox.cdm_metrics.CDMMetrics."""
    module = _private_copy("toolbox.cdm_metrics", output_dir)
    metrics = module.CDMMetrics
    if hasattr(metrics, "log_sample_by_idx"):
        return metrics(output_dir)
    # May and June 2026: some write to the current directory, and one removes its metric-data-* at the first sample.
    metrics._cleaned_up = True
    takes_directory = "output_dir" in inspect.signature(metrics).parameters
    return _WithoutIndex(metrics(output_dir) if takes_directory else metrics())


def _deprecated_metrics(output_dir: str) -> Sink:
    """A sink of the toolbox.metrics module; its state is global, so each sink needs a copy."""
    module = _private_copy("toolbox.metrics", output_dir)
    if not module.compresses:
        raise ImportError(f"{module.__file__} is older than May 2021 and does not compress")
    module.output_dir = output_dir
    return _WithoutIndex(module)


def _private_copy(name: str, output_dir: str) -> Any:
    """A module of that source, executed anew and entered nowhere, that opens its files in `output_dir` by open_archive.

    Left alone, it compresses with lzma's default (23 times slower, 94 MB an open file), and before June 2026 in the
    current directory. ImportError if there is no such module.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module {name}")
    package = name.rpartition(".")[0]
    private = importlib.util.spec_from_file_location(f"{package}._kerneltools_copy", spec.origin)
    if private is None or private.loader is None:
        raise ImportError(f"{spec.origin} cannot be loaded")
    module = importlib.util.module_from_spec(private)
    private.loader.exec_module(module)

    def open_there(filename: str, mode: str) -> Any:
        return open_archive(os.path.join(output_dir, os.path.basename(filename)))

    os.makedirs(output_dir, exist_ok=True)
    module.compresses = hasattr(module, "lzma")
    vars(module)["lzma"] = types.SimpleNamespace(open=open_there)
    return module


class _ApartInt(int):
    """A value that is never merged into its predecessor's row."""

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class _ApartFloat(float):
    """The same for a float."""

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class _ApartWhole(_ApartFloat):
    """The same for an int whose predecessor is a float: left of `!=`, that one lets only floats answer for it."""

    def __str__(self) -> str:
        return str(int(self))


def _apart(value: Number, previous: Number) -> Number:
    """`value`, equal to `previous` and written like itself, but unequal to whatever it is compared with."""
    if type(value) is float:
        return _ApartFloat(value)
    return _ApartWhole(value) if type(previous) is float else _ApartInt(value)


class _Series:
    __slots__ = ("desc", "end", "file_id", "idx", "log", "names", "value")

    def __init__(self, desc: Descriptor, names: Breakouts) -> None:
        self.desc = desc
        self.names = names
        self.end = -1  # of the last sample, ms since the epoch
        self.value: Number = math.nan
        self.file_id = ""
        self.idx = -1  # in its file
        self.log: Callable[..., None] | None = None  # the file's log_sample_by_idx, once there was a sample


class _File(NamedTuple):
    file_id: str
    sink: Sink


class FileRow(NamedTuple):
    """Series that get samples together: their numbers; by file its sink, their indices there, and which values are theirs."""

    numbers: Sequence[int]
    groups: list[tuple[Sink, Sequence[int], Callable[[Sequence[Any]], Sequence[Any]]]]


class _OfRow:
    """The ends and values of the last samples of a row's series, while they get them together."""

    __slots__ = ("_behind", "_values", "end", "row")

    def __init__(self, row: FileRow, series: list[_Series]) -> None:
        self.row = row
        self.end = max(series[number].end for number in row.numbers)
        self._values: Sequence[Number | None] = [series[number].value for number in row.numbers]
        # places whose last sample is not of the last call: its end and value
        self._behind = {
            place: (series[number].end, series[number].value) for place, number in enumerate(row.numbers) if series[number].end != self.end
        }

    def follow(self, end: int, values: Sequence[Number | None]) -> None:
        """Take the values of the next call."""
        if self._behind or None in values:
            for place, value in enumerate(values):
                if value is not None:
                    self._behind.pop(place, None)
                elif place not in self._behind:
                    last = self._values[place]
                    assert last is not None
                    self._behind[place] = self.end, last
        self.end = end
        self._values = values

    def leave(self, series: list[_Series]) -> None:
        """Tell the series."""
        for place, number in enumerate(self.row.numbers):
            of, value = series[number], self._values[place]
            of.end, of.value = self._behind.get(place, (self.end, value))  # type: ignore[assignment]


class MetricFiles:
    """The metric files `<file_id>`, `<file_id>-2`, ... of one subtool.

    The indexer drops a file of more than about 1.6 million rows without a word, so no file gets more than
    `max_rows`: series are spread over files, in the order of their first samples. `rows_per_series` is an upper
    bound on the rows of one series, the number of its intervals; a file takes at most
    `max_rows // rows_per_series` series, but at least one.

    Until finish, everything lies in a private directory inside `postprocess_dir` that no indexer looks at. Where
    sample raises OSError, call abandon; finish does so itself.

    All files stay open until the end, as samples come by time, each with up to archive.PIECE_BYTES that wait for the compressor.
    A day of 10 s intervals and 8000 series makes 58 files.
    """

    def __init__(self, postprocess_dir: Path, file_id: str, rows_per_series: int, max_rows: int = 1_200_000) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", file_id):
            raise ValueError(f"file_id {file_id!r} does not make a file name that rickshaw finds")
        self._postprocess_dir = Path(postprocess_dir)
        self._file_id = file_id
        self._series_per_file = max(1, max_rows // max(1, rows_per_series))
        self._series: list[_Series] = []
        self._identities: set[Identity] = set()
        self._shared = Shared()
        self._sampled = 0  # series that have a sample, and so a place in a file
        self._files: list[_File] = []
        self._private: Path | None = None
        self._damaged = False
        self._of_row: _OfRow | None = None  # what publish added last

    def series(self, desc: Descriptor, names: Breakouts) -> int:
        """Register a series and return its number for sample(); one that never gets a sample is not written.

        `desc` has source, class, type and default-aggregation (or further fields of CDM's metric_desc), `names` the
        breakouts. Raises ValueError for an unknown class or aggregation, a name's value that is no string or empty,
        and a series registered twice (same source, type and names).
        """
        check_descriptor(desc)
        for name, value in names.items():
            if not isinstance(value, str) or not value:
                raise ValueError(f"metric {desc['source']}:{desc['type']}: {name} is {value!r}, not a string with text")
        identity = self._shared.identity(desc, names)
        if identity in self._identities:
            raise ValueError(f"metric {desc['source']}:{desc['type']} {names} is registered already")
        self._identities.add(identity)
        self._series.append(_Series(self._shared.copy(desc), self._shared.copy(names)))
        return len(self._series) - 1

    def sample(self, series: int, begin: int, end: int, value: Number) -> None:
        """Add the value that held from `begin` to `end`, ms since the epoch, both included.

        Samples of one series come in the order of time, and a hole between two stays one. Raises ValueError for times
        that are no ints, negative, reversed or not after the series' previous sample, and for a value that is neither
        int nor finite float; OSError where it cannot be written, after which only abandon is possible.
        """
        if self._of_row is not None:
            self._leave_row()
        of = self._series[series]
        if (
            type(begin) is not int
            or type(end) is not int
            or not of.end < begin <= end
            or (not -math.inf < value < math.inf if type(value) is float else type(value) is not int)
        ):
            raise ValueError(self._objection(of, begin, end, value))
        try:
            if of.log is None:
                self._first_sample(of, begin, end, value)
            elif begin == of.end + 1:
                of.log(of.idx, value, end)
            elif value != of.value:
                of.log(of.idx, value, end, begin)
            else:
                # A sink lets equal values grow into one row, begin or not: the hole would be gone.
                of.log(of.idx, _apart(value, of.value), end, begin)
        except BaseException:
            self._damaged = True  # the compressed stream may lack a piece
            raise
        of.end = end
        of.value = value

    def row(self, series: Sequence[int]) -> FileRow:
        """These series, different ones that have had samples, for publish."""
        places: dict[str, list[int]] = {}
        for place, number in enumerate(series):
            places.setdefault(self._series[number].file_id, []).append(place)
        sinks = dict(self._files)
        groups = [
            (sinks[file_id], [self._series[series[place]].idx for place in there], items(there)) for file_id, there in places.items()
        ]
        return FileRow(tuple(series), groups)

    def publish(self, row: FileRow, begin: int, end: int, values: Sequence[Number | None]) -> None:
        """Add a value for each series of a row, None for none: from 1 ms after the end of its last sample until `end`.

        begin: where all of them begin but those that had none in the call before. Raises as sample does.
        """
        present = values if None not in values else [value for value in values if value is not None]
        of_row = self._of_row
        if of_row is None or of_row.row is not row:
            self._leave_row()
            of_row = self._of_row = _OfRow(row, self._series)
        good = 0 <= begin <= end and of_row.end < end and set(map(type, present)) <= {int, float}
        if not good or not -math.inf < sum(present) < math.inf:
            for number, value in zip(row.numbers, values):
                if value is not None:
                    self.sample(number, begin, end, value)
            return
        of_row.follow(end, values)
        try:
            for sink, indices, pick in row.groups:
                log_row = getattr(sink, "log_row", None)
                if log_row is not None:
                    log_row(indices, pick(values), end)
                    continue
                log = sink.log_sample_by_idx
                for idx, value in zip(indices, pick(values)):
                    if value is not None:
                        log(idx, value, end)
        except BaseException:
            self._damaged = True
            raise

    def _leave_row(self) -> None:
        """Bring the series of the last row up to date, which publish does not look at one by one."""
        if self._of_row is not None:
            self._of_row.leave(self._series)
            self._of_row = None

    @staticmethod
    def _objection(of: _Series, begin: Any, end: Any, value: Any) -> str:
        what = f"metric {of.desc['source']}:{of.desc['type']} {of.names}: "
        if type(begin) is not int or type(end) is not int:
            return f"{what}times must be whole ms, not {begin!r} and {end!r}"
        if begin < 0 or end < begin:
            return f"{what}a sample cannot last from {begin} to {end}"
        if begin <= of.end:
            return f"{what}a sample from {begin} overlaps the one that ended at {of.end}"
        return f"{what}{value!r} is no finite number"

    def _first_sample(self, of: _Series, begin: int, end: int, value: Number) -> None:
        number, place = divmod(self._sampled, self._series_per_file)
        if place == 0 and number == len(self._files):
            self._open_file(number)
        file_id, sink = self._files[number]
        of.idx = sink.log_sample(file_id, of.desc, of.names, {"begin": begin, "end": end, "value": value})
        of.file_id = file_id
        of.log = sink.log_sample_by_idx
        self._sampled += 1

    def _open_file(self, number: int) -> None:
        if self._private is None:
            self._postprocess_dir.mkdir(parents=True, exist_ok=True)
            self._private = Path(tempfile.mkdtemp(prefix=f"{PRIVATE_PREFIX}{self._file_id}-", dir=self._postprocess_dir))
        file_id = self._file_id if number == 0 else f"{self._file_id}-{number + 1}"
        self._files.append(_File(file_id, open_sink(self._private)))

    def finish(self) -> list[str]:
        """Publish the files and return their prefixes in order: `["metric-data-<file_id>", "metric-data-<file_id>-2"]`.

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
            for _, sink in self._files:
                sink.finish_samples(dont_delete=True)
            prefixes = [metric_prefix(file_id) for file_id, _ in self._files]
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
        for _, sink in self._files:
            for handle in dict(getattr(sink, "metric_data_fh", {})).values():
                # Whatever it fails of (a full disk, say) is no news here; the file goes away.
                with contextlib.suppress(Exception):
                    handle.close()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        self._private = None
        self._files = []
        self._series = []
        self._identities = set()
        self._of_row = None


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
