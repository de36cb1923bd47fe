# SPDX-License-Identifier: Apache-2.0
"""Toolbox's metrics API as a sink, of whatever age it is: the class CDMMetrics, or the module that preceded it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import logging
import os
import sys
import types
from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from pathlib import Path
from typing import Any, Protocol, TextIO

from kerneltools.archive import open_archive
from kerneltools.frames import Breakouts, Value
from kerneltools.sink import Descriptor, metric_prefix

log = logging.getLogger("kerneltools")


class Metrics(Protocol):
    """The interface of toolbox's CDMMetrics, one instance for each metric file."""

    def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int: ...

    def log_sample_by_idx(self, idx: int, value: Value, end: int, begin: int | None = None) -> None: ...

    def finish_samples(self, dont_delete: bool = False) -> str | None: ...


class ToolboxSink:
    """Hands the samples of one metric file to toolbox."""

    def __init__(self, metrics: Metrics, file_id: str) -> None:
        self._metrics = metrics
        self._file_id = file_id
        self._indices: list[int] = []
        self._values: list[Any] = []  # of the last samples

    def add(self, desc: Descriptor, names: Breakouts, begin: int, end: int, value: Value) -> None:
        self._indices.append(self._metrics.log_sample(self._file_id, desc, names, {"begin": begin, "end": end, "value": value}))
        self._values.append(value)

    def write(self, end: int, values: Sequence[Value | None], begins: dict[int, int]) -> None:
        indices: Sequence[int] = self._indices
        starts: list[int | None] = [None] * len(indices)
        before = self._values
        handed: list[Any] = list(values)
        for place, begin in begins.items():
            starts[place] = begin
            value = values[place]
            if value is not None and value == before[place]:
                # Equal values would grow into one row, begin or not: the hole would be gone.
                handed[place] = _Apart(value)
        self._values = list(values)
        if None in values:
            self._values = [old if value is None else value for old, value in zip(before, values)]
            there = [value is not None for value in values]
            indices, handed, starts = list(compress(indices, there)), list(compress(handed, there)), list(compress(starts, there))
        for _ in map(self._metrics.log_sample_by_idx, indices, handed, repeat(end), starts):
            pass

    def finish(self) -> None:
        self._metrics.finish_samples(dont_delete=True)

    def abandon(self) -> None:
        for handle in dict(getattr(self._metrics, "metric_data_fh", {})).values():
            # Whatever it fails of (a full disk, say) is no news here; the file goes away.
            with contextlib.suppress(Exception):
                handle.close()


class _Apart(float):
    """A value that is written like the one given, but is unequal to whatever it is compared with.

    A float, because on the right of `!=` it is asked first where the left is a float, and second where that is an int.
    """

    _text: str

    def __new__(cls, value: Value) -> _Apart:
        self = super().__new__(cls, value)
        self._text = str(value)  # exact, also for an int that no float holds
        return self

    def __ne__(self, other: object) -> bool:
        return True

    def __str__(self) -> str:
        return self._text

    __hash__ = float.__hash__


class _WithoutIndex:
    """An older toolbox (its `metrics` module, or a CDMMetrics before log_sample_by_idx) behind the current interface.

    Both keep their state under the same names, the module as globals and the class as attributes.
    """

    def __init__(self, toolbox: Any) -> None:
        self._toolbox = toolbox
        self._logged: list[tuple[str, Descriptor, Breakouts]] = []

    @property
    def metric_data_fh(self) -> dict[str, TextIO]:
        handles: dict[str, TextIO] = self._toolbox.metric_data_fh
        return handles

    def log_sample(self, file_id: str, desc: Descriptor, names: Breakouts, sample: dict[str, Any]) -> int:
        self._toolbox.log_sample(file_id, desc, names, sample)
        self._logged.append((file_id, desc, names))
        return len(self._logged) - 1

    def log_sample_by_idx(self, idx: int, value: Value, end: int, begin: int | None = None) -> None:
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
        return metric_prefix(self._logged[-1][0])  # the module's own return value was empty before 2024


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    """A warning for the log, not repeated for each of dozens of files."""
    if message not in _warned:
        _warned.add(message)
        log.warning(message)


def toolbox_metrics(output_dir: str | Path) -> Metrics | None:
    """Toolbox's API writing to `output_dir`; None without TOOLBOX_HOME, or, with a warning, without a usable one.

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


@contextlib.contextmanager
def _on_module_path(directory: str) -> Iterator[None]:
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(directory)


def _cdm_metrics(output_dir: str) -> Metrics:
    """Toolbox's API of toolbox.cdm_metrics.CDMMetrics."""
    module = _private_copy("toolbox.cdm_metrics", output_dir)
    metrics = module.CDMMetrics
    if hasattr(metrics, "log_sample_by_idx"):
        current: Metrics = metrics(output_dir)
        return current
    # May and June 2026: some write to the current directory, and one removes its metric-data-* at the first sample.
    metrics._cleaned_up = True
    takes_directory = "output_dir" in inspect.signature(metrics).parameters
    return _WithoutIndex(metrics(output_dir) if takes_directory else metrics())


def _deprecated_metrics(output_dir: str) -> Metrics:
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
    vars(module)["compresses"] = hasattr(module, "lzma")
    vars(module)["lzma"] = types.SimpleNamespace(open=open_there)
    return module
