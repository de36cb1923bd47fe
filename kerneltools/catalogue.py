# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The metric catalogue: every metric is one row of catalogue.tsv, its formula stands there and nowhere else.

Other rows of it are bounds: between which values those of a unit lie on any machine.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

CATALOGUE = Path(__file__).with_name("catalogue.tsv")
SOURCE = "kernel"
SECONDS = "seconds"  # in a formula: the length of the interval
BOUND = "bound"  # the first field of a row that is no metric


class Bound(NamedTuple):
    """The least and the greatest value that a machine can have."""

    least: float
    greatest: float

    def admits(self, value: float) -> bool:
        """Whether the value is one of those."""
        return self.least <= value <= self.greatest


UNBOUNDED = Bound(-math.inf, math.inf)


class Metric(NamedTuple):
    """One row of the catalogue.

    A derived metric has numerator, denominator (event names, or SECONDS) and scale, and its value is
    numerator / denominator * scale. A metric that is published as the collector gives it has a `field` instead.
    bound: of its values at a place; bound_of_all: of those that stand for the whole machine.
    """

    subtool: str
    type: str
    metric_class: str
    unit: str
    aggregation: str
    numerator: str
    denominator: str
    scale: float
    field: str
    meaning: str
    bound: Bound = UNBOUNDED
    bound_of_all: Bound = UNBOUNDED

    def descriptor(self, metric_type: str | None = None) -> dict[str, str]:
        """The CDM descriptor, under `metric_type` where the row stands for many types (<event>)."""
        return {
            "source": SOURCE,
            "class": self.metric_class,
            "type": metric_type or self.type,
            "default-aggregation": self.aggregation,
        }


def _formula(text: str) -> tuple[str, str, float, str]:
    """"A / B", "A / B * k" or "A / B / k" as (A, B, scale, ""); a single word as ("", "", 1.0, word)."""
    words = text.split(" ")
    if len(words) == 1:
        return "", "", 1.0, text
    if len(words) not in (3, 5) or words[1] != "/" or (len(words) == 5 and words[3] not in ("*", "/")):
        raise ValueError(f'formula "{text}": accepted are "A / B", "A / B * k", "A / B / k" and a field\'s name')
    scale = 1.0
    if len(words) == 5:
        scale = float(words[4]) if words[3] == "*" else 1.0 / float(words[4])
    return words[0], words[2], scale, ""


class _Bounds:
    """The rows that are bounds."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], Bound] = {}

    def add(self, subtool: str, of: str, unit: str, least: str, greatest: str) -> None:
        """Take a row; raises ValueError where its limits are no numbers."""
        self._rows[subtool, of, unit] = Bound(float(least), float(greatest))

    def bounded(self, metric: Metric) -> Metric:
        """The metric with the bounds of its unit."""
        unit = metric.unit or "-"
        kind = self._rows.get((metric.subtool, metric.metric_class, unit), UNBOUNDED)
        bound = self._rows.get((metric.subtool, metric.type, unit), kind)
        of_all = bound
        if metric.aggregation == "sum":
            alike = [row for (subtool, _, of_unit), row in self._rows.items() if (subtool, of_unit) == (metric.subtool, unit)]
            of_all = max([bound, *alike], key=lambda row: row.greatest)
        return metric._replace(bound=bound, bound_of_all=of_all)


def load(path: Path = CATALOGUE) -> list[Metric]:
    """The metrics of the catalogue in their order; raises ValueError that names the line where one cannot be read."""
    metrics = []
    bounds = _Bounds()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 7:
            raise ValueError(f"{path.name}, line {number}: {len(fields)} fields, 7 are expected")
        try:
            if fields[0] == BOUND:
                bounds.add(*fields[1:6])
                continue
            subtool, metric_type, metric_class, unit, aggregation, formula, meaning = fields
            derived = _formula(formula)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from None
        metrics.append(Metric(subtool, metric_type, metric_class, "" if unit == "-" else unit, aggregation, *derived, meaning))
    return [bounds.bounded(metric) for metric in metrics]
