# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What one subtool publishes: its series and samples on their way into metric files, and their summary."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from operator import le
from pathlib import Path
from typing import Callable, NamedTuple, Union

from kerneltools.catalogue import UNBOUNDED, Bound, Metric
from kerneltools.clock import Interval
from kerneltools.curves import Curves
from kerneltools.limits import MOST_SERIES, Distinct
from kerneltools.log import Log, shown
from kerneltools.sink import FileRow, Identity, MetricFiles, Shared, items

REACH_BACK = 3  # missing intervals of its own series that a sample may cover
SIGNIFICANT_DIGITS = 7

Value = Union[int, float]


def significant(value: float) -> float:
    """A derived value, rounded to the digits that are published."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


class TypeSummary(NamedTuple):
    """What was published of one type: unit, series, samples, and over the samples the mean (weighted by their
    duration, as CDM weighs them), least and greatest value."""

    type: str
    unit: str
    series: int
    samples: int
    mean: float
    least: Value
    greatest: Value


class Published(NamedTuple):
    """What there is to know of a publication that is finished: the prefixes of its metric files, a summary of each type
    in the catalogue's order, and the curves for the page."""

    prefixes: list[str]
    summary: list[TypeSummary]
    curves: Curves


class _Total:
    """Running figures of one type."""

    __slots__ = ("duration", "greatest", "least", "order", "samples", "series", "unit", "weighted")

    def __init__(self, unit: str, order: tuple[int, int]) -> None:
        self.unit = unit
        self.order = order
        self.series = 0
        self.samples = 0
        self.duration = 0
        self.weighted = 0.0
        self.least: Value | None = None
        self.greatest: Value | None = None

    def add(self, duration: int, weighted: float, samples: int, least: Value, greatest: Value) -> None:
        """Add so many samples: their durations together in ms, values times durations, least and greatest value."""
        self.samples += samples
        self.duration += duration
        self.weighted += weighted
        if self.least is None or least < self.least:
            self.least = least
        if self.greatest is None or greatest > self.greatest:
            self.greatest = greatest


class _Series:
    """Where one series stands: its handle in the files, the end and ordinal of its last sample; and between which values
    all must lie, of what `told` is the collector's name."""

    __slots__ = ("bound", "end", "handle", "names", "ordinal", "told", "total", "type")

    def __init__(self, handle: int, total: _Total, metric_type: str, names: dict[str, str], bound: Bound, told: str) -> None:
        self.handle = handle
        self.total = total
        self.type = metric_type
        self.names = names
        self.bound = bound
        self.told = told
        self.end = -1
        self.ordinal = -1

    def __str__(self) -> str:
        return shown(self.type) + "".join(f" {name}={shown(value)}" for name, value in self.names.items())


class _Limits(NamedTuple):
    """The places of a row whose series are bounded: pick gives their values, which must lie between least and greatest."""

    places: list[int]
    pick: Callable[[Sequence[Value | None]], Sequence[Value | None]]
    least: list[float]
    greatest: list[float]


class Row:
    """Series that are published together: their numbers as Publication.series gives them."""

    __slots__ = ("in_files", "is_distinct", "limits", "numbers", "parts")

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(numbers)
        self.is_distinct = len(set(self.numbers)) == len(self.numbers)
        self.in_files: FileRow | None = None
        self.limits: _Limits | None = None
        self.parts: list[tuple[_Total, Callable[[Sequence[Value]], Sequence[Value]]]] = []  # per type: its values in the row


class Publication:
    """The metric files of one subtool. Call `expect` once, then `series`, and `sample` or `publish`, then `finish`."""

    def __init__(self, directory: Path, subtool: str, file_id: str, catalogue: list[Metric], log: Log) -> None:
        self._directory = directory
        self._subtool = subtool
        self._file_id = file_id
        self._order = {metric.type: number for number, metric in enumerate(catalogue)}
        self._log = log
        self._files: MetricFiles | None = None
        self._series: list[_Series] = []
        self._numbers: dict[Identity, int] = {}
        self._names = Distinct(MOST_SERIES, "series")
        self._shared = Shared()
        self._totals: dict[str, _Total] = {}
        # the row and the interval that were published last, and the places in it whose series had no value then: the
        # end and ordinal of their last sample; of the others those are the interval's
        self._row: Row | None = None
        self._row_interval = Interval(0, 0, 0.0, 0)
        self._missing: dict[int, tuple[int, int]] = {}
        self.curves = Curves(subtool)  # of what is published, for the page

    def expect(self, intervals: int) -> None:
        """Say how many samples a series can have at most, by which series are spread over metric files."""
        self._files = MetricFiles(self._directory, self._file_id, rows_per_series=max(1, intervals))
        self.curves.expect(intervals, REACH_BACK)

    def series(
        self, metric: Metric, names: dict[str, str], metric_type: str | None = None, unit: str | None = None, told: str = ""
    ) -> int:
        """Register a series of `metric`; names are its breakouts. Where the metric is open (<event>), metric_type is
        the type to publish under and unit what the collector says it is in. The same type and names again are the same
        series. told: the collector's own name of it, for messages."""
        assert self._files is not None, "expect() comes first"
        descriptor = metric.descriptor(metric_type)
        published_type = descriptor["type"]
        key = self._shared.identity(descriptor, names)
        if key in self._numbers:
            return self._numbers[key]
        self._names.add({(published_type, *names.values())})
        names = self._shared.copy(names)
        total = self._totals.get(published_type)
        if total is None:
            total = _Total(metric.unit if unit is None else unit, (self._order[metric.type], len(self._totals)))
            self._totals[published_type] = total
        bound = metric.bound if names else metric.bound_of_all
        self._series.append(_Series(self._files.series(descriptor, names), total, published_type, names, bound, told))
        self.curves.series(metric, published_type, total.unit, names)
        self._numbers[key] = len(self._series) - 1
        return self._numbers[key]

    def sample(self, series: int, interval: Interval, value: Value) -> None:
        """Publish `value` for an interval of a series, later than all its earlier ones (a second one is refused), if its
        unit's bound admits it.

        The sample begins where the previous one of its series ended, over at most REACH_BACK missing intervals;
        beyond that the hole stays and is counted in the log.
        """
        if self.admits(series, interval, value):
            self._sample(series, interval, value)

    def _sample(self, series: int, interval: Interval, value: Value) -> None:
        if self._row is not None:
            self._leave_row()
        state = self._series[series]
        begin, end, _, ordinal = interval
        total = state.total
        if state.ordinal < 0:
            total.series += 1
        elif ordinal <= state.ordinal:
            self._log.lost(self._subtool, "second values of a series in one interval are not published", str(state))
            return
        elif ordinal - state.ordinal - 1 <= REACH_BACK:
            begin = state.end + 1
        else:
            missing = ordinal - state.ordinal - 1
            self._log.note(self._subtool, "holes (more than 3 intervals without a value)", f"{state}, {missing} intervals")
        assert self._files is not None
        self._files.sample(state.handle, begin, end, value)
        self.curves.sample(series, interval, begin, value)
        state.end = end
        state.ordinal = ordinal
        duration = end - begin + 1
        total.add(duration, duration * value, 1, value, value)

    def admits(self, series: int, interval: Interval, value: Value, told: str = "") -> bool:
        """Whether a value is one that a machine can have, by the catalogue's bound for its unit; counted in the log if not.

        told: the collector's name of it, where it is another than that of the series.
        """
        state = self._series[series]
        if state.bound.admits(value):
            return True
        least, greatest = state.bound
        name, most = shown(told or state.told or state.type), f"{greatest:.10g} {state.total.unit}".rstrip()
        where = f"{value} ({shown(str(state))}, at {interval.end / 1000:.3f})"
        self._log.lost(self._subtool, f"{name}: values below {least:.10g} or above {most} are not published", where)
        return False

    def is_begun(self, series: int) -> bool:
        """Whether a series has a sample."""
        return self._series[series].ordinal >= 0

    def publish(self, row: Row, interval: Interval, values: Sequence[Value | None]) -> None:
        """Publish the values of an interval, each for the series of its place in the row; None is no sample.

        It does what `sample` does for each, but quickly where the row was published in the interval before.
        """
        values = self._admitted(row, interval, values)
        if self._follows(row, interval, values):
            self._publish_row(row, interval, values)
            return
        if self._row is not None:
            self._leave_row()
        for number, value in zip(row.numbers, values):
            if value is not None:
                self._sample(number, interval, value)
        states = [self._series[number] for number in row.numbers]
        if row.is_distinct and any(value is not None for value in values) and all(state.ordinal >= 0 for state in states):
            self._row, self._row_interval = row, interval
            self._missing = {place: (state.end, state.ordinal) for place, state in enumerate(states) if state.ordinal != interval.ordinal}

    def _admitted(self, row: Row, interval: Interval, values: Sequence[Value | None]) -> Sequence[Value | None]:
        """The values with None for each that its unit's bound does not admit."""
        if row.limits is None:
            bounds = [self._series[number].bound for number in row.numbers]
            places = [place for place, bound in enumerate(bounds) if bound != UNBOUNDED]
            row.limits = _Limits(
                places, items(places), [bounds[place].least for place in places], [bounds[place].greatest for place in places]
            )
        places, pick, least, greatest = row.limits
        if not places:
            return values
        held = pick(values)
        if None not in held and all(map(le, least, held)) and all(map(le, held, greatest)):  # type: ignore[arg-type]
            return values
        admitted = list(values)
        for place, value in zip(places, held):
            if value is not None and not self.admits(row.numbers[place], interval, value):
                admitted[place] = None
        return admitted

    def _follows(self, row: Row, interval: Interval, values: Sequence[Value | None]) -> bool:
        """Whether the row was published in the interval before, has any value, and no series is behind a hole now."""
        before = self._row_interval
        if self._row is not row or interval.begin != before.end + 1 or interval.ordinal != before.ordinal + 1:
            return False
        return any(value is not None for value in values) and all(
            values[place] is None or interval.ordinal - ordinal - 1 <= REACH_BACK for place, (_, ordinal) in self._missing.items()
        )

    def _publish_row(self, row: Row, interval: Interval, values: Sequence[Value | None]) -> None:
        begin, end, _, _ = interval
        before = self._row_interval
        assert self._files is not None
        if row.in_files is None:
            self._settle(row)
            assert row.in_files is not None
        self._files.publish(row.in_files, begin, end, values)
        is_whole = None not in values
        duration = end - begin + 1
        for total, pick in row.parts:
            part = pick(values)
            if not is_whole:
                part = [value for value in part if value is not None]
                if not part:
                    continue
            total.add(duration * len(part), duration * sum(part), len(part), min(part), max(part))
        back = [place for place in self._missing if values[place] is not None]
        reaching = []
        for place in back:
            number, value, first = row.numbers[place], values[place], self._missing.pop(place)[0] + 1
            assert value is not None
            earlier = begin - first
            self._series[number].total.add(earlier, earlier * value, 0, value, value)
            reaching.append((number, first, value))
        self.curves.row(row.numbers, interval, values if is_whole else [nan if value is None else value for value in values], reaching)
        if not is_whole:
            for place, value in enumerate(values):
                if value is None:
                    self._missing.setdefault(place, (before.end, before.ordinal))
        self._row_interval = interval

    def _settle(self, row: Row) -> None:
        """Find out once where the series of a row are; all have had samples."""
        assert self._files is not None
        row.in_files = self._files.row([self._series[number].handle for number in row.numbers])
        places: dict[int, list[int]] = {}
        totals = {}
        for place, number in enumerate(row.numbers):
            total = self._series[number].total
            totals[id(total)] = total
            places.setdefault(id(total), []).append(place)
        row.parts = [(total, items(places[key])) for key, total in totals.items()]

    def _leave_row(self) -> None:
        """Bring the row's series up to date, which were published without looking at each."""
        assert self._row is not None
        now = self._row_interval.end, self._row_interval.ordinal
        for place, number in enumerate(self._row.numbers):
            state = self._series[number]
            state.end, state.ordinal = self._missing.get(place, now)
        self._row = None

    def finish(self) -> Published:
        """Complete the metric files and put them where the indexer looks. Raises as MetricFiles.finish does."""
        prefixes = self._files.finish() if self._files is not None else []
        self.curves.finish()
        return Published(prefixes, self._summary(), self.curves)

    def abandon(self) -> None:
        """Leave no metric file of this publication."""
        if self._files is not None:
            self._files.abandon()

    def _summary(self) -> list[TypeSummary]:
        rows = []
        for metric_type, total in sorted(self._totals.items(), key=lambda item: item[1].order):
            if total.least is not None and total.greatest is not None:
                mean = total.weighted / total.duration
                rows.append(TypeSummary(metric_type, total.unit, total.series, total.samples, mean, total.least, total.greatest))
        return rows
