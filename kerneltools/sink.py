# SPDX-License-Identifier: Apache-2.0
"""The sinks: what writes the two files of one metric file, toolbox's own API or this project's writer of the same bytes.

A sink takes the samples of an interval together. Equal consecutive values of a series make one row of the CSV,
`idx,begin,end,value`: times are ms since the epoch, both included; idx is the place of the series' descriptor,
`{"idx", "desc", "names"}`, in the JSON list beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Sequence
from itertools import compress
from operator import ne
from pathlib import Path
from typing import Any, Protocol

from kerneltools.archive import open_archive
from kerneltools.frames import Breakouts, Value

Descriptor = dict[str, str]

CLASSES = ("throughput", "latency", "count", "pass/fail", "boolean", "percentage")
AGGREGATIONS = ("sum", "avg", "max", "min")


class Sink(Protocol):
    """What writes one metric file. An OSError says that it cannot be completed."""

    def add(self, desc: Descriptor, names: Breakouts, begin: int, end: int, value: Value) -> None:
        """Begin the next series with its first sample."""

    def write(self, end: int, values: Sequence[Value | None], begins: dict[int, int]) -> None:
        """Add a sample for each series, None for none (its first one, say, is there already), up to `end`. It begins 1 ms
        after the last one of its series; for those behind a hole, `begins` says where, by the series' place."""

    def finish(self) -> None:
        """Complete the files; a series that was 0 throughout is kept."""

    def abandon(self) -> None:
        """Close what is open."""


def check_descriptor(desc: Descriptor) -> None:
    """Raise ValueError where current toolboxes would refuse `desc`, naming the field and what it may be."""
    what = f"metric {desc.get('source')}:{desc.get('type')}"
    if desc.get("class") not in CLASSES:
        raise ValueError(f"{what}: class {desc.get('class')!r} is not one of {', '.join(CLASSES)}")
    if "default-aggregation" in desc and desc["default-aggregation"] not in AGGREGATIONS:
        raise ValueError(f"{what}: default-aggregation {desc['default-aggregation']!r} is not one of {', '.join(AGGREGATIONS)}")


def metric_prefix(file_id: str) -> str:
    """The name of a metric file without `.csv.xz` and `.json.xz`."""
    return f"metric-data-{file_id}"


def is_metric_prefix(name: object) -> bool:
    """Whether that is the name of a metric file, as metric_prefix makes it: no way out of its directory."""
    return isinstance(name, str) and re.fullmatch(r"metric-data-[A-Za-z0-9][A-Za-z0-9._-]*", name) is not None


class BuiltinSink:
    """Writes the bytes that toolbox's CDMMetrics writes of the same samples.

    For each series a row is open: where it begins, where its last sample ended, its value.
    """

    def __init__(self, directory: str | Path, file_id: str) -> None:
        self._base = os.path.join(directory, metric_prefix(file_id))
        self._file = open_archive(f"{self._base}.csv.xz")
        self._described: list[tuple[Descriptor, Breakouts]] = []
        self._labels: list[str] = []  # these two as they stand in a row
        self._begins: list[str] = []
        self._ends: list[int] = []
        self._values: list[Value] = []
        # series whose row begins behind a hole with the value from before it: toolbox's never grows (toolbox._Apart)
        self._single: set[int] = set()

    def add(self, desc: Descriptor, names: Breakouts, begin: int, end: int, value: Value) -> None:
        self._labels.append(f"{len(self._labels)},")
        self._described.append((desc, names))
        self._begins.append(f"{begin},")
        self._ends.append(end)
        self._values.append(value)

    def write(self, end: int, values: Sequence[Value | None], begins: dict[int, int]) -> None:
        before, lasts = self._values, self._ends
        is_whole = None not in values
        present: list[Any] = list(values) if is_whole else [old if value is None else value for old, value in zip(before, values)]
        changed = list(map(ne, before, present))
        if self._single or begins:
            for place in [place for place in self._single if values[place] is not None]:
                changed[place] = True
                self._single.remove(place)
            for place in begins:
                if before[place] == values[place]:
                    self._single.add(place)
                changed[place] = True
        if True in changed:
            text = {last: f"{last}," for last in set(lasts)}
            rows = compress(zip(self._labels, self._begins, lasts, before), changed)
            self._file.write("".join([f"{label}{begin}{text[last]}{old!s}\n" for label, begin, last, old in rows]))
            following = {last: f"{last + 1}," for last in text}
            self._begins = [following[last] if new else begin for begin, last, new in zip(self._begins, lasts, changed)]
            for place, begin in begins.items():
                self._begins[place] = f"{begin},"
            # of equal values the first counts: 1 and 1.0 are written differently
            self._values = [value if new else old for old, value, new in zip(before, present, changed)]
        self._ends = [end] * len(before) if is_whole else [last if value is None else end for last, value in zip(lasts, values)]

    def finish(self) -> None:
        rows = zip(self._labels, self._begins, self._ends, self._values)
        self._file.write("".join([f"{label}{begin}{end},{value!s}\n" for label, begin, end, value in rows]))
        self._file.close()
        described = [{"idx": idx, "desc": desc, "names": names} for idx, (desc, names) in enumerate(self._described)]
        with open_archive(f"{self._base}.json.xz") as descriptors:
            descriptors.write(json.dumps(described))

    def abandon(self) -> None:
        # Whatever it fails of (a full disk, say) is no news here; the file goes away.
        with contextlib.suppress(Exception):
            self._file.close()


def open_sink(directory: str | Path, file_id: str) -> Sink:
    """Toolbox's sink where TOOLBOX_HOME has one that can be used, else the built-in one."""
    if os.environ.get("TOOLBOX_HOME"):
        from kerneltools import toolbox  # noqa: PLC0415  (which takes long to load)

        metrics = toolbox.toolbox_metrics(directory)
        if metrics is not None:
            return toolbox.ToolboxSink(metrics, file_id)
    return BuiltinSink(directory, file_id)
