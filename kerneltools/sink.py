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
import lzma
import math
import os
import re
import shutil
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple, Protocol, TextIO, Union

log = logging.getLogger("kerneltools")

Number = Union[int, float]
Descriptor = dict[str, str]
Breakouts = dict[str, str]

# Measured on 400 000 rows of 400 series (Python 3.11): preset 0 costs 1.1 us a row, 1 costs 1.8, lzma's default 23;
# files of 0 and 1 are equally large, 1.4 times those of the default.
LZMA_PRESET = 0

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


def series_identity(desc: Descriptor, names: Breakouts) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """What makes two samples of one metric file belong together: source, type and breakouts in any order."""
    return desc["source"], desc["type"], tuple(sorted((name, str(value or "x")) for name, value in names.items()))


def metric_prefix(file_id: str) -> str:
    """The name of a metric file without `.csv.xz` and `.json.xz`."""
    return f"metric-data-{file_id}"


def open_rows(directory: str | Path, file_id: str) -> TextIO:
    """A new CSV of a metric file, compressed cheaply."""
    return lzma.open(os.path.join(directory, f"{metric_prefix(file_id)}.csv.xz"), "wt", preset=LZMA_PRESET)


class _OpenRow:
    """The row of a series that may still grow."""

    __slots__ = ("begin", "earlier_rows", "end", "value")

    def __init__(self, begin: int | None, end: int, value: Number) -> None:
        self.begin = begin
        self.end = end
        self.value = value
        self.earlier_rows = False


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
        self._indices: dict[Any, int] = {}
        self._described: list[tuple[Descriptor, Breakouts]] = []
        self._open_rows: dict[int, _OpenRow] = {}
        self._write: Callable[[str], Any] = _refuse_to_write

    def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int:
        """Add a sample (`end` in ms since the epoch, `value`, optionally `begin`) and return its series' index.

        Raises ValueError on a series' first sample if its descriptor is not one that CDM knows (check_descriptor).
        """
        if self._file_id not in (None, file_id):
            raise ValueError(f"{file_id}: {self._file_id} is not finished yet")
        identity = series_identity(desc, names)
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
        self._described.append((desc.copy(), names.copy()))
        self._open_rows[idx] = row
        return idx

    def log_sample_by_idx(self, idx: int, value: Number, end: int, begin: int | None = None) -> None:
        """Add a sample to the series that log_sample returned `idx` for; KeyError if there is none."""
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

    def finish_samples(self, dont_delete: bool = False) -> str | None:
        """Write what is open and the descriptors; return the files' prefix, None where no sample came.

        A series that was 0 throughout is left out unless `dont_delete`.
        """
        if self._file_id is None:
            return None
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
            with lzma.open(self.output_dir / f"{prefix}.json.xz", "wt", preset=LZMA_PRESET) as descriptors:
                json.dump(kept, descriptors)
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

    Whatever its age (from May 2021 on) it writes to `output_dir`, with LZMA_PRESET as far as it lets its output be
    opened for it.
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
    current = importlib.import_module("toolbox.cdm_metrics").CDMMetrics
    if hasattr(current, "log_sample_by_idx"):
        return _with_low_preset(current, output_dir)(output_dir)
    # May and June 2026: some write to the current directory, and one removes its metric-data-* at the first sample.
    module = _private_copy("toolbox.cdm_metrics", output_dir)
    former = module.CDMMetrics
    former._cleaned_up = True
    takes_directory = "output_dir" in inspect.signature(former).parameters
    return _WithoutIndex(former(output_dir) if takes_directory else former())


def _deprecated_metrics(output_dir: str) -> Sink:
    """A sink of the toolbox.metrics module; its state is global, so each sink needs a copy."""
    module = _private_copy("toolbox.metrics", output_dir)
    module.output_dir = output_dir
    return _WithoutIndex(module)


def _with_low_preset(cdm_metrics: type, output_dir: str) -> type:
    """CDMMetrics as it is, but for the CSV being open already at its first sample, with LZMA_PRESET."""

    class CheaplyCompressed(cdm_metrics):  # type: ignore[misc,valid-type]
        def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int:
            handles = getattr(self, "metric_data_fh", None)
            if isinstance(handles, dict) and file_id not in handles:
                handles[file_id] = open_rows(output_dir, file_id)
            return super().log_sample(file_id, desc, names, sample)

    return CheaplyCompressed


def _private_copy(name: str, output_dir: str) -> Any:
    """A module of that source, executed anew and entered nowhere, that opens its files in `output_dir` with LZMA_PRESET.

    Left alone, it opens them in the current directory before June 2026. ImportError if there is no such module.
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
    if not hasattr(module, "lzma"):
        raise ImportError(f"{spec.origin} is older than May 2021 and does not compress")

    def open_there(filename: str, mode: str) -> Any:
        return lzma.open(os.path.join(output_dir, os.path.basename(filename)), mode, preset=LZMA_PRESET)

    os.makedirs(output_dir, exist_ok=True)
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
    __slots__ = ("desc", "end", "idx", "log", "names", "value")

    def __init__(self, desc: Descriptor, names: Breakouts) -> None:
        self.desc = desc
        self.names = names
        self.end = -1  # of the last sample, ms since the epoch
        self.value: Number = math.nan
        self.idx = -1  # in its file
        self.log: Callable[..., None] | None = None  # the file's log_sample_by_idx, once there was a sample


class _File(NamedTuple):
    file_id: str
    sink: Sink


class MetricFiles:
    """The metric files `<file_id>`, `<file_id>-2`, ... of one subtool.

    The indexer drops a file of more than about 1.6 million rows without a word, so no file gets more than
    `max_rows`: series are spread over files, in the order of their first samples. `rows_per_series` is an upper
    bound on the rows of one series, the number of its intervals; a file takes at most
    `max_rows // rows_per_series` series, but at least one.

    Until finish, everything lies in a private directory inside `postprocess_dir` that no indexer looks at. Where
    sample raises OSError, call abandon; finish does so itself.

    Each file's compressor stays open until the end, as samples come by time: some 3 MB each at preset 0, 94 MB
    at lzma's default (a toolbox that does not let its output be opened for it). A day of 10 s intervals and 8000
    series makes 58 files.
    """

    def __init__(self, postprocess_dir: Path, file_id: str, rows_per_series: int, max_rows: int = 1_200_000) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", file_id):
            raise ValueError(f"file_id {file_id!r} does not make a file name that rickshaw finds")
        self._postprocess_dir = Path(postprocess_dir)
        self._file_id = file_id
        self._series_per_file = max(1, max_rows // max(1, rows_per_series))
        self._series: list[_Series] = []
        self._identities: set[Any] = set()
        self._sampled = 0  # series that have a sample, and so a place in a file
        self._files: list[_File] = []
        self._private: Path | None = None
        self._damaged = False

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
        identity = series_identity(desc, names)
        if identity in self._identities:
            raise ValueError(f"metric {desc['source']}:{desc['type']} {names} is registered already")
        self._identities.add(identity)
        self._series.append(_Series(desc.copy(), names.copy()))
        return len(self._series) - 1

    def sample(self, series: int, begin: int, end: int, value: Number) -> None:
        """Add the value that held from `begin` to `end`, ms since the epoch, both included.

        Samples of one series come in the order of time, and a hole between two stays one. Raises ValueError for times
        that are no ints, negative, reversed or not after the series' previous sample, and for a value that is neither
        int nor finite float; OSError where it cannot be written, after which only abandon is possible.
        """
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
        of.log = sink.log_sample_by_idx
        self._sampled += 1

    def _open_file(self, number: int) -> None:
        if self._private is None:
            self._postprocess_dir.mkdir(parents=True, exist_ok=True)
            self._private = Path(tempfile.mkdtemp(prefix=f"{PRIVATE_PREFIX}{self._file_id}-", dir=self._postprocess_dir))
        file_id = self._file_id if number == 0 else f"{self._file_id}-{number + 1}"
        self._files.append(_File(file_id, open_sink(self._private)))

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
                # A full disk is no news here; the file goes away.
                with contextlib.suppress(OSError, ValueError):
                    handle.close()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        self._private = None
        self._files = []
        self._series = []


def remove_stale(postprocess_dir: Path) -> None:
    """Remove what an earlier run left: its metric files, plain and `.xz`, and the private directories of a killed one.

    A plain `.json`, written by indexing, would win over a new `.json.xz`. Call it before any MetricFiles gets a sample.
    """
    for path in Path(postprocess_dir).glob("metric-data-*"):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
    for path in Path(postprocess_dir).glob(f"{PRIVATE_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)
