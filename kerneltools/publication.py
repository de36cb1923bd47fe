# SPDX-License-Identifier: Apache-2.0
"""What one subtool publishes: its frames on their way into metric files and curves, and their summary."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, Callable, NamedTuple

from kerneltools.catalogue import UNBOUNDED, Bound, Metric
from kerneltools.curves import Curves
from kerneltools.frames import Frame, SeriesList, Value, admits, items
from kerneltools.log import Log
from kerneltools.metric_files import MetricFiles

REACH_BACK = 3  # missing intervals of its own series that a sample may cover


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


class _Part(NamedTuple):
    """The values of one type in a frame, the least and the greatest of them."""

    values: Sequence[Value]
    least: Value
    greatest: Value


class _Total:
    """Running figures of one type, over the samples of all its series."""

    def __init__(self, unit: str, order: tuple[int, int]) -> None:
        self.unit = unit
        self.order = order
        self.numbers: list[int] = []
        self.bound = UNBOUNDED  # which the values of each of the series must keep
        self.pick: Callable[[Sequence[Any]], Sequence[Any]] = items([])
        self.series = 0  # with a sample
        self.samples = 0
        self.duration = 0
        self.weighted = 0.0
        self.least: Value = inf
        self.greatest: Value = -inf

    def part(self, values: Sequence[Value | None]) -> _Part | None:
        """The values that its series have in a frame; None where there is none."""
        part = self.pick(values)
        if None in part:
            part = [value for value in part if value is not None]
        return _Part(part, min(part), max(part)) if part else None

    def add(self, duration: int, part: _Part) -> None:
        """Add the samples of an interval, each of that many ms."""
        self.samples += len(part.values)
        self.duration += duration * len(part.values)
        self.weighted += duration * sum(part.values)
        self.least = min(self.least, part.least)
        self.greatest = max(self.greatest, part.greatest)


class Publication:
    """The metric files of one subtool. Call `publish` with each frame, then `finish`.

    A value that no machine has is no sample. A sample begins where the last one of its series ended, over at most
    REACH_BACK missing intervals; beyond that the hole stays. Either is counted in the log.
    """

    def __init__(
        self, directory: Path, subtool: str, file_id: str, catalogue: list[Metric], series: SeriesList, intervals: int, log: Log
    ) -> None:
        """intervals: how many frames there can be at most."""
        self._subtool = subtool
        self._order = {metric.type: number for number, metric in enumerate(catalogue)}
        self._log = log
        self._list = series
        self._files = MetricFiles(directory, file_id, rows_per_series=max(1, intervals))
        self._totals: dict[str, _Total] = {}
        self._total_of: list[_Total] = []  # by series
        # of the last frame; of series without a value in it, the end and ordinal of their last sample (None: there is none)
        self._end = -1
        self._ordinal = -1
        self._behind: dict[int, tuple[int, int] | None] = {}
        self.curves = Curves(subtool, max(1, intervals), REACH_BACK)  # of what is published, for the page

    def publish(self, frame: Frame) -> None:
        """Publish the values of an interval that is later than all before. Raises as MetricFiles.publish does."""
        self._register(len(frame.values))
        frame, parts = self._admitted(frame)
        present = sum(len(part.values) for _, part in parts)
        if not present:
            return
        (begin, end, _, ordinal), values = frame
        if self._ordinal >= 0 and ordinal - self._ordinal - 1 > REACH_BACK:
            for number in range(len(values)):
                self._behind.setdefault(number, (self._end, self._ordinal))
        begins = self._returning(frame)
        # where the samples begin of all others, whose series had one in the last frame
        usual = self._end + 1 if present > len(begins) else begin
        self._files.publish(end, values, {number: first for number, (first, follows) in begins.items() if not follows})
        for total, part in parts:
            total.add(end - usual + 1, part)
        for number, (first, _) in begins.items():
            total, value = self._total_of[number], values[number]
            assert value is not None  # a sample that begins has a value
            total.duration += usual - first
            total.weighted += (usual - first) * value
        self.curves.publish(usual, end, ordinal, values, {number: first for number, (first, _) in begins.items() if first < usual})
        self._end, self._ordinal = end, ordinal

    def _register(self, count: int) -> None:
        """Take the series that are new, up to that number of them."""
        grown = {}
        for number in range(len(self._total_of), count):
            series = self._list.all[number]
            total = self._totals.get(series.type)
            if total is None:
                order = self._order[series.metric.type], len(self._totals)
                total = self._totals[series.type] = _Total(series.unit, order)
            total.numbers.append(number)
            total.bound = Bound(max(total.bound.least, series.bound.least), min(total.bound.greatest, series.bound.greatest))
            grown[series.type] = total
            self._total_of.append(total)
            self._files.add(series)
            self.curves.add(series)
            self._behind[number] = None
        for total in grown.values():
            total.pick = items(total.numbers)

    def _admitted(self, frame: Frame) -> tuple[Frame, list[tuple[_Total, _Part]]]:
        """The frame without the values that no machine has, and its values by type."""
        parts = []
        for total in self._totals.values():
            part = total.part(frame.values)
            if part is not None and not total.bound.least <= part.least <= part.greatest <= total.bound.greatest:
                values = list(frame.values)
                for number in total.numbers:
                    value = values[number]
                    if value is not None and not admits(self._list.all[number], frame.interval, value, self._log, self._subtool):
                        values[number] = None
                frame = frame._replace(values=values)
                part = total.part(values)
            if part is not None:
                parts.append((total, part))
        return frame, parts

    def _returning(self, frame: Frame) -> dict[int, tuple[int, bool]]:
        """Of the series that have a value now and had none in the last frame: where the sample begins, and whether it
        follows the last one of its series; what is missing now is noted."""
        (begin, _, _, ordinal), values = frame
        begins: dict[int, tuple[int, bool]] = {}
        for number in sorted(number for number in self._behind if values[number] is not None):
            last = self._behind.pop(number)
            if last is None:
                begins[number] = begin, False
                self._total_of[number].series += 1
            elif (missing := ordinal - last[1] - 1) <= REACH_BACK:
                begins[number] = last[0] + 1, True
            else:
                begins[number] = begin, False
                where = f"{self._list.all[number]}, {missing} intervals"
                self._log.note(self._subtool, "holes (more than 3 intervals without a value)", where)
        if None in values:
            for number, value in enumerate(values):
                if value is None:
                    self._behind.setdefault(number, (self._end, self._ordinal))
        return begins

    def finish(self) -> Published:
        """Complete the metric files and put them where the indexer looks. Raises as MetricFiles.finish does."""
        prefixes = self._files.finish()
        self.curves.finish()
        return Published(prefixes, self._summary(), self.curves)

    def abandon(self) -> None:
        """Leave no metric file of this publication."""
        self._files.abandon()

    def _summary(self) -> list[TypeSummary]:
        totals = sorted((item for item in self._totals.items() if item[1].samples), key=lambda item: item[1].order)
        return [
            TypeSummary(name, of.unit, of.series, of.samples, of.weighted / of.duration, of.least, of.greatest) for name, of in totals
        ]
