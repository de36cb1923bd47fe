# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Two post-processed runs side by side: what changed by more than it varied, and what is not comparable.

Both runs' metric files are read as the indexer would read them; nothing is written, and a run that was not
post-processed is an error, not something to be made up for in a directory that may be somebody's archive.

Every type is compared folded over its series, as a query without a breakout does it (default-aggregation), and every
series by itself. Means are weighted by duration, as CDM's are, over the time that has samples. The spread is the
standard deviation of the samples over time, weighted the same way and pooled over both runs (see `pooled`).
"""

from __future__ import annotations

import json
import math
import re
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kerneltools import catalogue, files, rawfile
from kerneltools.log import Log, cell, shown
from kerneltools.run import ENVIRONMENT, Run
from kerneltools.sink import is_metric_prefix

POSTPROCESS = "postprocess"
TYPES_SHOWN = 200
SERIES_SHOWN = 40
NAMES_SHOWN = 20
GREATEST = 1e150  # a value whose square is still a number
LAST_MS = 10**14  # a time beyond that is none
MOST_ROWS = 2_000_000  # of a metric file; the indexer takes some 1.6 million
LONGEST_ROW = 200
MOST_TEXT = 128 << 20  # of the descriptors of a metric file
CONSTANT = 1e-9  # a spread below this part of the mean is rounding

Identity = tuple[str, tuple[tuple[str, str], ...]]  # type and breakouts


class CannotRead(Exception):
    """A run that cannot be compared; the message says what is missing and what to do."""


class Figures:
    """Duration, mean and variance of samples that come one by one, and how many rows they were."""

    __slots__ = ("_squares", "duration", "mean", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.duration = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float, duration: int) -> None:
        """Take a value that held for `duration` ms (> 0).

        D. H. D. West, "Updating mean and variance estimates: an improved method", CACM 22 (1979) 532-535, with
        durations as weights: no difference of two great sums is taken.
        """
        total = self.duration + duration
        step = (value - self.mean) * (duration / total)
        self._squares += self.duration * (value - self.mean) * step
        self.mean += step
        self.duration = total
        self.rows += 1

    @property
    def variance(self) -> float:
        """The variance over time: sum(duration * (value - mean)^2) / sum(duration); 0 for a single sample."""
        return self._squares / self.duration if self.duration else 0.0


def pooled(a: Figures, b: Figures) -> float:
    """The spread of two runs: the square root of their variances' mean, weighted by duration.

    The pooled standard deviation (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.3) with durations instead of
    degrees of freedom. 0 where both were constant or had one sample only; differences of rounding count as constant.
    """
    variance = (a.variance * (a.duration / (a.duration + b.duration))) + (b.variance * (b.duration / (a.duration + b.duration)))
    spread = math.sqrt(variance)
    return spread if math.isfinite(spread) and spread > CONSTANT * max(abs(a.mean), abs(b.mean)) else 0.0


class Change(NamedTuple):
    """One metric in both runs: means, change in % of A's (None where that is 0), pooled spread, and by how many
    spreads the means differ (None where there is no spread)."""

    what: str
    unit: str
    a: float
    b: float
    percent: float | None
    spread: float
    excess: float | None


def change(what: str, unit: str, a: Figures, b: Figures) -> Change:
    """What became of a metric from run A to run B."""
    difference = b.mean - a.mean
    if abs(difference) <= CONSTANT * max(abs(a.mean), abs(b.mean)):
        difference = 0.0
    spread = pooled(a, b)
    return Change(
        what, unit, a.mean, b.mean,
        _finite(difference / abs(a.mean) * 100) if a.mean else (0.0 if difference == 0 else None),
        spread, _finite(abs(difference) / spread) if spread else (0.0 if difference == 0 else None),
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def by_excess(changes: list[Change]) -> list[Change]:
    """The changes, the clearest first: those where neither run varied at all, then by excess, equal ones by percent."""

    def key(of: Change) -> tuple[float, float, str]:
        percent = math.inf if of.percent is None else abs(of.percent)
        return (-(math.inf if of.excess is None else of.excess), -percent, of.what)

    return sorted(changes, key=key)


# ---- reading a run


class _Described(NamedTuple):
    """A series as its descriptor has it; label: type and breakouts in words."""

    type: str
    identity: Identity
    label: str
    sums: bool


class MetricsOfRun:
    """The metric files of one data directory: figures of every series, and of every type folded over its series.

    damaged: what could not be read of it, in words.
    """

    def __init__(self, directory: Path) -> None:
        self.series: dict[Identity, Figures] = {}
        self.folded: dict[str, Figures] = {}
        self.labels: dict[Identity, str] = {}
        self.numbers: dict[str, int] = {}  # of series of a type
        self.damaged: list[str] = []
        output = directory / POSTPROCESS
        prefixes = _metric_files(directory, output)
        of_files: dict[str, dict[str, _Described]] = {}
        for prefix in prefixes:
            try:
                of_files[prefix] = _descriptors(output, prefix)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                self.damaged.append(f"{shown(prefix)}: its descriptors cannot be read: {files.reason(error) or type(error).__name__}")
        steps: dict[str, _Steps] = {}
        for described in of_files.values():
            for of in described.values():
                self.series[of.identity] = Figures()
                self.labels[of.identity] = of.label
                self.numbers[of.type] = self.numbers.get(of.type, 0) + 1
                if self.numbers[of.type] == 1:
                    self.folded[of.type] = self.series[of.identity]
                else:
                    steps[of.type] = _Steps(of.sums)
        for prefix, described in of_files.items():
            self._read(output, prefix, described, steps)
        for metric_type, rows in steps.items():
            self.folded[metric_type] = rows.figures()

    def _read(self, output: Path, prefix: str, described: dict[str, _Described], steps: dict[str, _Steps]) -> None:
        path = rawfile.find(output, f"{prefix}.csv")
        if path is None:
            self.damaged.append(f"{shown(prefix)}: its rows are missing")
            return
        found = {idx: (self.series[of.identity], steps.get(of.type)) for idx, of in described.items()}
        raw = rawfile.RawFile(path)
        broken = 0
        for number, line in enumerate(raw.lines()):
            if number == MOST_ROWS:
                self.damaged.append(f"{shown(path.name)}: of its rows only the first {MOST_ROWS} are read, no indexer takes more")
                break
            try:
                if len(line) > LONGEST_ROW:
                    raise ValueError
                idx, first, last, text = line.split(",")
                figures, of = found[idx]
                begin, end, value = int(first), int(last), float(text)
                if not (0 <= begin <= end < LAST_MS and abs(value) < GREATEST):
                    raise ValueError
            except (ValueError, KeyError):
                broken += 1
                continue
            figures.add(value, end - begin + 1)
            if of is not None:
                of.add(begin, end, value)
        if broken:
            self.damaged.append(f"{shown(path.name)}: rows that are none: {broken}")
        if raw.damage:
            self.damaged.append(f"{shown(path.name)}: {shown(raw.damage)}")


def _metric_files(directory: Path, output: Path) -> list[str]:
    """The prefixes of the metric files that the last post-processing made; others' may lie beside them.

    Without its last word there may be some of them only: it is still at work, or was killed.
    """
    try:
        files.entries(directory, POSTPROCESS)
    except files.Refused as error:
        raise CannotRead(f"{shown(str(directory))}: {files.reason(error)}") from None
    except OSError:
        pass  # and so its file is missing, or cannot be read
    try:
        periods = _json(output, "post-process-data").get("periods", [])
        prefixes = sorted({prefix for period in periods for prefix in period["metric-files"]})
        if not all(map(is_metric_prefix, prefixes)):
            raise ValueError("it names a file that cannot be one")
    except FileNotFoundError:
        raise CannotRead(f"{shown(str(directory))} was not post-processed: run kerneltools-post-process on it first") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = files.reason(error) or type(error).__name__
        what = f"{shown(str(directory))}: its post-process-data.json does not tell the metric files"
        raise CannotRead(f"{what} ({why}): run kerneltools-post-process on it again") from None
    return prefixes


def _json(output: Path, name: str) -> Any:
    """What a .json or .json.xz holds. A plain one (indexing writes it) wins, as for the indexer."""
    path = rawfile.find(output, f"{name}.json")
    if path is None:
        raise FileNotFoundError("no such file")
    try:
        return json.loads(rawfile.RawFile(path).text(MOST_TEXT))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _descriptors(output: Path, prefix: str) -> dict[str, _Described]:
    """The series of a metric file by the idx of their rows."""
    described = {}
    for entry in _json(output, prefix):
        desc, names = entry["desc"], {str(name): str(value) for name, value in entry["names"].items()}
        metric_type = str(desc["type"])
        label = cell(metric_type) + "".join(f" {cell(name)}={cell(value)}" for name, value in names.items())
        sums = desc.get("default-aggregation", "sum") == "sum"
        described[str(entry["idx"])] = _Described(metric_type, (metric_type, tuple(sorted(names.items()))), label, sums)
    return described


class _Steps:
    """The rows of one type, until they can be folded over its series.

    The series of a type step at the same moments as a rule. Rows are kept as begin, end and value, 24 bytes each.
    """

    __slots__ = ("_begins", "_ends", "_sums", "_values")

    def __init__(self, sums: bool) -> None:
        self._sums = sums
        self._begins = array("q")
        self._ends = array("q")
        self._values = array("d")

    def add(self, begin: int, end: int, value: float) -> None:
        self._begins.append(begin)
        self._ends.append(end)
        self._values.append(value)

    def figures(self) -> Figures:
        """The figures of the fold: at each moment the sum or the mean of the values that hold then; a sum only where as
        many hold as ever do, since a part of it is none."""
        figures = Figures()
        for begin, end, values, complete in self._moments():
            if complete or not self._sums:
                total = math.fsum(values)
                figures.add(total if self._sums else total / len(values), end - begin)
        return figures

    def _moments(self) -> Iterator[tuple[int, int, list[float], bool]]:
        """From when until when (exclusive) which values hold, and whether as many as ever do."""
        starts: dict[int, list[int]] = {}
        stops: dict[int, list[int]] = {}
        for row, (begin, end) in enumerate(zip(self._begins, self._ends)):
            starts.setdefault(begin, []).append(row)
            stops.setdefault(end + 1, []).append(row)
        moments = sorted(starts.keys() | stops.keys())
        holding: dict[int, float] = {}
        most = number = 0
        for moment in moments:
            number += len(starts.get(moment, ())) - len(stops.get(moment, ()))
            most = max(most, number)
        for moment, following in zip(moments, moments[1:]):
            for row in stops.get(moment, ()):
                del holding[row]
            for row in starts.get(moment, ()):
                holding[row] = self._values[row]
            if holding:
                yield moment, following, list(holding.values()), len(holding) == most


# ---- saying it


def _units(types: list[str]) -> dict[str, str]:
    """The unit of each type that the catalogue knows; what an event counts in is perf's to say, and not in the files."""
    units = {}
    for metric in catalogue.load():
        pattern = re.compile("".join(".+" if part.startswith("<") else re.escape(part) for part in re.split(r"(<[^>]*>)", metric.type)))
        if pattern.pattern != ".+":
            units.update({name: metric.unit for name in types if name not in units and pattern.fullmatch(name)})
    return units


def _number(value: float) -> str:
    return f"{value:.6g}"


def _table(changes: list[Change], first: str) -> list[str]:
    head = (first, "unit", "A", "B", "change", "spread", "change / spread")
    cells = [head]
    for of in changes:
        percent = "from 0" if of.percent is None else f"{of.percent:+.2f} %" if abs(of.percent) < 1e5 else f"{of.percent:+.1e} %"
        excess = "no spread" if of.excess is None else f"{of.excess:.2f}" if of.excess < 1e5 else f"{of.excess:.1e}"
        cells.append((of.what, of.unit, _number(of.a), _number(of.b), percent, _number(of.spread), excess))
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))).rstrip()
        for line in cells
    ]


def _bounded(changes: list[Change], first: str, most: int) -> list[str]:
    lines = _table(changes[:most], first)
    if len(changes) > most:
        lines.append(f"and {len(changes) - most} more, whose change exceeds the spread by less")
    return lines


def _only(which: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return [f"only {which} has: {', '.join(names[:NAMES_SHOWN])}{more}"]


def _differing(key: str, a: str | None, b: str | None) -> list[str]:
    """A line for a key of the environment, for a long list only what one run has more than the other."""
    if a is None or b is None or len(a) + len(b) < 100 or "," not in a + b:
        return [f"  {shown(key)}: A {'(not recorded)' if a is None else shown(a)}, B {'(not recorded)' if b is None else shown(b)}"]
    in_a, in_b = a.split(","), b.split(",")
    lines = [f"  {shown(key)}:"]
    for which, words in (("A", [word for word in in_a if word not in in_b]), ("B", [word for word in in_b if word not in in_a])):
        if words:
            more = f", and {len(words) - NAMES_SHOWN} more" if len(words) > NAMES_SHOWN else ""
            lines.append(f"    only {which}: {', '.join(map(shown, words[:NAMES_SHOWN]))}{more}")
    return lines if len(lines) > 1 else [f"  {shown(key)}: the same words in another order"]


def report(directory_a: Path, directory_b: Path) -> tuple[list[str], list[str]]:
    """The comparison as lines of text, and what could not be read of the runs. Raises CannotRead where one is none."""
    a, b = MetricsOfRun(directory_a), MetricsOfRun(directory_b)
    lines = [f"A: {shown(str(directory_a))}", f"B: {shown(str(directory_b))}", ""]
    logs = Log(), Log()
    environments = Run(directory_a, logs[0]).environment, Run(directory_b, logs[1]).environment
    keys = list(dict.fromkeys([*environments[0], *environments[1]]))
    differ = [key for key in keys if environments[0].get(key) != environments[1].get(key)]
    if not keys:
        lines.append(f"environment: neither run has a {ENVIRONMENT}")
    elif differ:
        lines.append("environment, what differs:")
        for key in differ:
            lines += _differing(key, environments[0].get(key), environments[1].get(key))
    else:
        lines.append("environment: the same in both runs")

    both = [metric_type for metric_type in a.folded if metric_type in b.folded]
    units = _units(both)
    changes = []
    for metric_type in both:
        if a.folded[metric_type].rows and b.folded[metric_type].rows:
            changes.append(change(cell(metric_type), units.get(metric_type, ""), a.folded[metric_type], b.folded[metric_type]))
    lines.append("")
    if changes:
        lines += _bounded(by_excess(changes), "type", TYPES_SHOWN)
    else:
        lines.append("no metric type is in both runs")
    different = [f"{shown(name)} ({a.numbers[name]} and {b.numbers[name]})" for name in both if a.numbers[name] != b.numbers[name]]
    if different:
        lines.append(f"not as many series in A as in B: {', '.join(different[:NAMES_SHOWN])}{' …' if len(different) > NAMES_SHOWN else ''}")
    lines += _only("A", [shown(name) for name in a.folded if name not in b.folded])
    lines += _only("B", [shown(name) for name in b.folded if name not in a.folded])

    several = {name for name in both if a.numbers[name] > 1 or b.numbers[name] > 1}
    single = []
    for identity, figures in a.series.items():
        other = b.series.get(identity)
        if identity[0] in several and other is not None and figures.rows and other.rows:
            single.append(change(a.labels[identity], units.get(identity[0], ""), figures, other))
    if single:
        lines += ["", "single series of the types above:", *_bounded(by_excess(single), "series", SERIES_SHOWN)]
    for which, run, another in (("A", a, b), ("B", b, a)):
        alone = [identity for identity in run.series if identity[0] in several and identity not in another.series]
        lines += _only(which, [run.labels[identity] for identity in alone])
    lines += [
        "",
        "A, B: means over time; change: of B against A; spread: standard deviation over time, of both runs together;",
        'series of a type are added or averaged as a query without a breakout does it; "no spread": neither run varied',
        "(or each has one sample only), so that any change exceeds it. Counters are per interval: compare them only where",
        "the interval was the same.",
    ]
    damaged = []
    for which, run, log in (("A", a, logs[0]), ("B", b, logs[1])):
        losses = [line.partition(": ")[2] for line in log.lines() if line.startswith("WARNING: ")]
        damaged += [f"{which}, {text}" for text in (*run.damaged, *losses)]
    return lines, damaged


def main(arguments: list[str], out: TextIO, err: TextIO) -> int:
    """`--compare DIR_A DIR_B`; arguments are the two directories. 0 compared, 1 something cannot be read, 2 usage."""
    if len(arguments) != 2 or any(not argument or argument.startswith("-") for argument in arguments):
        print(f"ERROR: --compare {shown(' '.join(arguments))}: accepted are two data directories, --compare DIR_A DIR_B", file=err)
        return 2
    missing = [argument for argument in arguments if not Path(argument).is_dir()]
    if missing:
        for argument in missing:
            print(f"ERROR: {shown(argument)}: no such directory; accepted is the data directory of a run", file=err)
        return 1
    try:
        lines, damaged = report(Path(arguments[0]), Path(arguments[1]))
    except (CannotRead, OSError) as error:
        print(f"ERROR: {error if isinstance(error, CannotRead) else files.reason(error)}", file=err)
        return 1
    try:
        print("\n".join([*(f"WARNING: {text}" for text in damaged), *lines]), file=out, flush=True)
    except BrokenPipeError:  # who reads it has seen enough
        sys.stdout = files.nowhere()  # or Python tries once more when it ends
    return 1 if damaged else 0
