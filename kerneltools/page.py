# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""postprocess/kernel.html: one page that says what ran where, what was degraded and why, and draws every metric.

It needs nothing but itself: page.html, page.css and page.js are put together with the numbers, and its own content
security policy forbids all else, scripts that foreign text might smuggle in included. Its size is bounded, whatever
the run (at most 2 * NUMBERS numbers, HEAT_CELLS cells of maps, MOST_TYPES charts, MOST_LINES lines of a log), and what
that costs is said on the page.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from itertools import islice
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

from kerneltools import files
from kerneltools.curves import Axis, Curve, Curves, SeriesCurve, TypeCurves
from kerneltools.log import printable
from kerneltools.publication import Published, TypeSummary
from kerneltools.run import ENVIRONMENT, Run

PAGE = "kernel.html"
LOGS = (("start", "kerneltools-start-stderrout.txt"), ("stop", "kerneltools-stop-stderrout.txt"))
FIRST_FACTS = ("hostname", "cpu_model", "kernel", "perf_version")  # of the environment, in this order; the others follow

NUMBERS = 150_000  # of the folded curves, and as many of the series; some 8 bytes each
PLACES = (12, 8, 4, 2, 0)  # series of a type that are drawn: as many as NUMBERS allows
FEWEST_COLUMNS = 30  # of a curve, before fewer series are drawn
HEAT_CELLS = 1_000_000  # of the maps of types with more series than are drawn; a byte each
HEAT_ROWS = 1024  # of a map
HEAT_LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
HOLE = "."
MOST_TYPES = 1000
MOST_LINES = 200  # of each log, and of the environment
LONGEST_TEXT = 2000
LONGEST_NAME = 200
SIGNIFICANT_DIGITS = 7
SCALES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))  # of figures
WHOLE = 1e4  # from here on no decimals
SMALL = 1e-4  # below that three digits, with an exponent


def remove_stale(output: Path) -> None:
    """Remove the page of an earlier post-processing."""
    files.remove(output / PAGE)


def write(run: Run, published: list[Published], output: Path) -> Path:
    """Write the page, whole or not at all, and return its path. Raises OSError where it cannot be written."""
    path = output / PAGE
    files.write_whole(path, page(run, published))
    return path


class _Metric(NamedTuple):
    """A chart: the type, its summary, the subtool's curves."""

    subtool: str
    of: TypeCurves
    summary: TypeSummary
    curves: Curves


# ---- the page


def page(run: Run, published: list[Published]) -> str:
    """The page's text."""
    for one in published:
        if one.curves.fault:
            raise RuntimeError(f"no curves of {one.curves.subtool}: {one.curves.fault}")
    metrics = [
        _Metric(one.curves.subtool, one.curves.types[summary.type], summary, one.curves)
        for one in published
        for summary in one.summary
        if summary.type in one.curves.types
    ]
    left_out = len(metrics) - MOST_TYPES
    metrics = metrics[:MOST_TYPES]
    drawing = _Drawing(metrics)
    facts = dict(islice(run.environment.items(), MOST_LINES))
    notes = drawing.notes()
    if left_out > 0:
        notes.append(f"{left_out} more metric types are in the metric files but have no chart here: the page has room for {MOST_TYPES}.")
    host = facts.get("hostname", "")
    style, script = files.own_text("page.css"), files.own_text("page.js")
    parts = {
        "POLICY": f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        "STYLE": style,
        "SCRIPT": script,
        "TITLE": _text(f"kernel tool{' on ' + host if host else ''}", LONGEST_NAME),
        "WHEN": _when(metrics, run),
        "FACTS": _facts(facts),
        "DEGRADED": _degraded(run),
        "NOTES": "".join(f"<li>{_text(note)}</li>" for note in notes),
        "METRICS": _sections(metrics, drawing),
        "DATA": _embedded(drawing.data()),
    }
    # in one pass: foreign text that looks like a marker is none
    return re.sub(r"@@([A-Z]+)@@", lambda marker: parts[marker[1]], files.own_text("page.html"))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(text: str, longest: int = LONGEST_TEXT) -> str:
    """Foreign text as it may stand in HTML, of bounded length and printable."""
    return escape(_printable(text, longest))


def _printable(text: str, longest: int = LONGEST_NAME) -> str:
    """Foreign text of bounded length without characters that disorder what is beside it."""
    return printable(text if len(text) <= longest else text[:longest] + " …", "\ufffd")


def _embedded(data: Any) -> str:
    """JSON that ends no script element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _time(ms: int, of_day: bool = False) -> str:
    """A moment that the page's script writes in UTC or local time; until then it reads in UTC."""
    try:
        written = datetime.fromtimestamp(ms // 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "beyond the calendar"
    return f'<time data-ms="{ms}"{" data-of-day" if of_day else ""}>{written[11:] if of_day else written}</time>'


def _when(metrics: list[_Metric], run: Run) -> str:
    rows = []
    for subtool in dict.fromkeys([*(subtool for subtool, _ in run.clock), *(metric.subtool for metric in metrics)]):
        began, ended = run.clock.get((subtool, "begin")), run.clock.get((subtool, "end"))
        axes = [metric.curves.axis for metric in metrics if metric.subtool == subtool and metric.curves.axis.ends]
        samples = f"{_time(axes[0].begins[0] - 1)} to {_time(axes[0].ends[-1], of_day=True)}" if axes else "none"
        intervals = next((str(metric.curves.intervals) for metric in metrics if metric.subtool == subtool), "0")
        moments = [_time(round(moment * 1000)) if moment is not None else "not recorded" for moment in (began, ended)]
        cells = (_text(subtool, LONGEST_NAME), *moments, samples, intervals)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "".join(rows) or '<tr><td colspan="5">nothing was collected</td></tr>'


def _facts(facts: dict[str, str]) -> str:
    keys = [key for key in FIRST_FACTS if key in facts] + [key for key in facts if key not in FIRST_FACTS]
    if not keys:
        return f"<p>{ENVIRONMENT} is not here: nothing is known of the machine.</p>"
    rows = (f"<div><dt>{_text(key.replace('_', ' '), LONGEST_NAME)}</dt><dd>{_text(facts[key])}</dd></div>" for key in keys)
    return f"<dl>{''.join(rows)}</dl>"


def _degraded(run: Run) -> str:
    parts = []
    for step, name in LOGS:
        lines, more = warnings(files.read_or_say(run.directory, run.log, name))
        parts += _log_lines(f"at {step}", lines, more)
    lines = run.log.lines()
    parts += _log_lines("in post-processing", lines[:MOST_LINES], len(lines) - MOST_LINES)
    return "".join(parts) or "<p>Nothing: start, stop and post-processing had nothing to remark.</p>"


def _log_lines(when: str, lines: list[str], more: int) -> list[str]:
    if not lines:
        return []
    items = "".join(f'<li class="is-{line.split(":", 1)[0].lower()}">{_text(line)}</li>' for line in lines)
    if more > 0:
        items += f"<li>and {more} more lines in the log</li>"
    return [f"<h3>{when}</h3><ul>{items}</ul>"]


def warnings(log: str) -> tuple[list[str], int]:
    """The WARNING and ERROR lines of a log's text, the first MOST_LINES, and how many more there are."""
    found: list[str] = []
    more = 0
    for line in log.split("\n"):
        if line.startswith(("WARNING: ", "ERROR: ")):
            if len(found) < MOST_LINES:
                found.append(line)
            else:
                more += 1
    return found, more


def _sections(metrics: list[_Metric], drawing: _Drawing) -> str:
    parts = []
    subtool = None
    for number, metric in enumerate(metrics):
        if metric.subtool != subtool:
            parts.append("</div></section>" if subtool is not None else "")
            subtool = metric.subtool
            parts.append(f'<section class="subtool"><h2>{_text(subtool)}</h2><div class="cards">')
        parts.append(_card(number, metric, drawing.charts[number]))
    parts.append("</div></section>" if subtool is not None else "<p>No metric was published.</p>")
    return "".join(parts)


def _card(number: int, metric: _Metric, chart: dict[str, Any]) -> str:
    of, summary = metric.of, metric.summary
    unit = f' <span class="unit">{_text(of.unit, LONGEST_NAME)}</span>' if of.unit else ""
    parts = [
        f'<article class="metric" id="metric-{number}"><header><h3>{_text(of.type, LONGEST_NAME)}{unit}</h3><output></output></header>',
        f'<p class="meaning">{_text(of.meaning)}</p>',
        f'<figure class="chart" data-chart="{number}"></figure>',
    ]
    several = summary.series > 1
    rows = []
    if several:
        folded = _figures(of.folded, metric.curves.axis)
        rows.append((f"{'sum' if of.sums else 'mean'} of {summary.series} series", folded))
    rows.append(("each series", (summary.mean, summary.least, summary.greatest)))
    lines = ""
    for what, figures in rows:
        cells = zip(("mean", "min", "max"), figures or (None, None, None))
        lines += f"<tr><th>{what}</th>" * several + "<tr>" * (not several)
        lines += "".join(f"<td>{name} <b>{_shown(figure)}</b></td>" for name, figure in cells) + "</tr>"
    parts.append(f'<table class="figures">{lines}</table>')
    parts += [f'<p class="note">{_text(note)}</p>' for note in chart["notes"]]
    if chart["places"]:
        drawn, all_of_them = len(chart["places"]), summary.series
        which = f"all {drawn} series"
        if drawn < all_of_them:
            mapped = f"map of {len(chart['heat']['rows'])} series, and " if "heat" in chart else ""
            which = f"{mapped}{drawn} of {all_of_them} series: those with the lowest and highest means"
        parts.append(f'<details><summary>{which}</summary><figure class="heat"></figure><div class="places"></div></details>')
    elif "heat" in chart:
        parts.append(
            f'<details><summary>map of {len(chart["heat"]["rows"])} of {summary.series} series</summary>'
            '<figure class="heat"></figure><div class="places"></div></details>'
        )
    elif several:
        parts.append(f'<p class="note">{summary.series} series are folded; the page has no room for their own curves.</p>')
    parts.append("</article>")
    return "".join(parts)


def _shown(figure: float | None) -> str:
    """A figure with five digits: 0.28571, 1024, 1.8121 G."""
    if figure is None or not math.isfinite(figure):
        return "none"
    for scale, letter in SCALES:
        if abs(figure) >= scale:
            return f"{figure / scale:.5g} {letter}"
    if abs(figure) >= WHOLE:
        return f"{figure:.0f}"
    return f"{figure:.5g}" if abs(figure) >= SMALL or figure == 0 else f"{figure:.3g}"


def _figures(curve: Curve | None, axis: Axis) -> tuple[float, float, float] | None:
    """Mean, least and greatest value of a curve; None where it has none."""
    if curve is None:
        return None
    duration, weighted = 0, 0.0
    for mean, begin, end in zip(curve.means, axis.begins, axis.ends):
        if mean == mean:
            duration += end - begin + 1
            weighted += mean * (end - begin + 1)
    if not duration:
        return None
    return weighted / duration, min(v for v in curve.least if v == v), max(v for v in curve.greatest if v == v)


# ---- the numbers of the charts


class _Drawing:
    """All that the script draws: axes and charts, thinned to what the page has room for."""

    def __init__(self, metrics: list[_Metric]) -> None:
        self._metrics = metrics
        self.begin = min((metric.curves.axis.begins[0] - 1 for metric in metrics if metric.curves.axis.begins), default=0)
        self.end = max((metric.curves.axis.ends[-1] for metric in metrics if metric.curves.axis.ends), default=0)
        self.axes: list[dict[str, Any]] = []
        self._axes: dict[tuple[int, int], int] = {}
        self._factor = self._room_for_folds()
        self._places, self._series_factor = self._room_for_series()
        self._heat_factor = self._room_for_heat()
        self.names: list[list[str]] = []  # of the rows of maps; maps share them
        self._names: dict[tuple[str, ...], int] = {}
        self.charts = [self._chart(metric) for metric in metrics]

    def data(self) -> dict[str, Any]:
        """What page.js reads; its head says how."""
        return {"from": self.begin, "to": self.end, "axes": self.axes, "names": self.names, "charts": self.charts}

    def _room_for_folds(self) -> int:
        """How many columns of the folded curves become one, so that NUMBERS are enough."""
        exact, thinned = 0, 0
        for metric in self._metrics:
            length = len(metric.curves.axis.ends)
            places = 2 if len(metric.of.begun()) > 1 and not metric.of.sums else 0  # their lowest and highest
            exact += length * (places + (1 if metric.curves.axis.stride == 1 else 3))
            thinned += length * (places + 3)
        return 1 if exact <= NUMBERS else math.ceil(thinned / NUMBERS)

    def _room_for_series(self) -> tuple[int, int]:
        """How many series of each type are drawn, and how many of their columns become one, so that NUMBERS are enough."""
        for places in PLACES:
            exact, thinned, columns = 0, 0, 0
            for metric in self._metrics:
                series = len(metric.of.begun())
                if series > 1:
                    length = len(metric.curves.series_axis.ends)
                    exact += min(places, series) * length * (1 if metric.curves.series_axis.stride == 1 else 3)
                    thinned += min(places, series) * length * 3
                    columns = max(columns, length)
            if exact <= NUMBERS:
                return places, 1
            factor = math.ceil(thinned / NUMBERS)
            if columns // factor >= FEWEST_COLUMNS:
                return places, factor
        return 0, 1

    def _room_for_heat(self) -> int:
        """How many columns of a map become one, so that HEAT_CELLS are enough; 0 where even that is too much."""
        cells, columns = 0, 0
        for metric in self._metrics:
            series = len(metric.of.begun())
            if series > max(1, self._places):
                cells += min(series, HEAT_ROWS) * len(metric.curves.series_axis.ends)
                columns = max(columns, len(metric.curves.series_axis.ends))
        factor = max(1, math.ceil(cells / HEAT_CELLS))
        return factor if columns // factor >= min(columns, 10) else 0

    def _axis(self, axis: Axis, factor: int) -> int:
        """The number of an axis on the page."""
        key = (id(axis), factor)
        if key not in self._axes:
            self._axes[key] = len(self.axes)
            begins, ends = axis.begins[::factor], [*axis.ends[factor - 1 :: factor]]
            if len(ends) < len(begins):
                ends.append(axis.ends[-1])
            self.axes.append({"b": [begin - self.begin for begin in begins], "e": [end - self.begin for end in ends]})
        return self._axes[key]

    def _chart(self, metric: _Metric) -> dict[str, Any]:
        of, curves = metric.of, metric.curves
        notes = []
        begun = of.begun()
        chart: dict[str, Any] = {"type": _printable(of.type), "unit": _printable(of.unit), "axis": self._axis(curves.axis, self._factor)}
        if of.folded is None or of.lowest is None or of.highest is None:
            notes.append("No curve: this type was seen too late, when there were too many already.")
            chart["v"] = []
        else:
            chart.update(_numbers(of.folded, curves.axis, self._factor))
            if len(begun) > 1 and not of.sums:
                chart["low"] = _numbers_of(_thinned(of.lowest.least, self._factor, min))
                chart["high"] = _numbers_of(_thinned(of.highest.greatest, self._factor, max))
        if of.partial:
            notes.append(f"No sum in {of.partial} intervals: not each series has a value there, and a part of a sum is none.")
        chart["places"] = [
            {"names": _label(series), "axis": self._axis(curves.series_axis, self._series_factor), **drawn}
            for series in _extremes(begun, self._places, curves.series_axis)
            for drawn in [_numbers(series.curve, curves.series_axis, self._series_factor)]
        ]
        if len(begun) > max(1, self._places) and self._heat_factor:
            chart["heat"] = self._heat(begun, curves.series_axis)
        chart["notes"] = notes
        return chart

    def _heat(self, begun: list[SeriesCurve], axis: Axis) -> dict[str, Any]:
        """A map of all series over time, in HEAT_LEVELS from the least to the greatest mean of a column."""
        there = [series for series in begun if series.curve is not None][:HEAT_ROWS]
        rows = [_thinned_means(series.curve.means, axis, self._heat_factor) for series in there if series.curve is not None]
        finite = [value for row in rows for value in row if math.isfinite(value)]
        least, greatest = min(finite, default=0.0), max(finite, default=0.0)
        scale = (len(HEAT_LEVELS) - 1) / (greatest - least) if math.isfinite(greatest - least) and greatest > least else 0.0
        labels = tuple(map(_label, there))
        if labels not in self._names:
            self._names[labels] = len(self.names)
            self.names.append(list(labels))
        return {
            "axis": self._axis(axis, self._heat_factor),
            "least": _numbers_of([least])[0],
            "greatest": _numbers_of([greatest])[0],
            "names": self._names[labels],
            "rows": [_levels(row, least, scale) for row in rows],
            "missing": len(begun) - len(there),
        }

    def notes(self) -> list[str]:
        """What was thinned or left out, for all charts."""
        notes = []
        for subtool, curves in {metric.subtool: metric.curves for metric in self._metrics}.items():
            strides = {curves.axis.stride * self._factor}
            if any(len(metric.of.begun()) > 1 for metric in self._metrics if metric.curves is curves):
                strides.add(curves.series_axis.stride * self._series_factor)
            if max(strides) > 1:
                every = " (single series: ".join(map(str, sorted(strides))) + ")" * (len(strides) - 1)
                notes.append(
                    f"{subtool}: of {curves.intervals} intervals every {every} are one column, drawn as their mean within a band from "
                    "their least to their greatest value. A hole shorter than a column is not seen."
                    + " The single series are too many to keep more than their means." * (not curves.series_axis.has_bands)
                )
            if curves.without_curve:
                notes.append(f"{subtool}: {curves.without_curve} series that began late have no curve of their own.")
        if any(len(metric.of.begun()) > max(1, self._places) for metric in self._metrics):
            drawn = f"those {self._places} with the lowest and highest means are drawn" if self._places else "none is drawn"
            notes.append(f"Of the series of a type {drawn}; the folded curve is of all.")
        return notes


def _levels(row: list[float], least: float, scale: float) -> str:
    """The letters of a map's row, HOLE where there is no value."""
    if math.isfinite(sum(row)):  # the common case, where no value needs a look of its own
        return "".join([HEAT_LEVELS[round((value - least) * scale)] for value in row])
    return "".join([HEAT_LEVELS[round((value - least) * scale)] if math.isfinite(value) else HOLE for value in row])


def _extremes(begun: list[SeriesCurve], places: int, axis: Axis) -> list[SeriesCurve]:
    """At most `places` series, all or those of the lowest and highest means, in the order in which they began."""
    there = [series for series in begun if series.curve is not None]
    if len(begun) < 2 or not places:
        return []
    if len(there) <= places:
        return there

    durations = [end - begin + 1 for begin, end in zip(axis.begins, axis.ends)]

    def mean(series: SeriesCurve) -> float:
        assert series.curve is not None
        means = series.curve.means
        weighted, duration = sum(map(mul, means, durations)), sum(durations[: len(means)])
        if weighted != weighted:  # a hole
            there = [(value * width, width) for value, width in zip(means, durations) if value == value]
            weighted, duration = sum(value for value, _ in there), sum(width for _, width in there)
        return weighted / duration if duration else 0.0

    ranked = sorted(there, key=mean)
    chosen = {id(series) for series in ranked[: places // 2] + ranked[-(places - places // 2) :]}
    return [series for series in there if id(series) in chosen]


def _label(series: SeriesCurve) -> str:
    return _printable(" ".join(f"{name} {value}" for name, value in series.names.items())) or "all"


def _thinned(values: Sequence[float], factor: int, fold: Any) -> list[float]:
    """Every `factor` values made one, nan left out of it."""
    if factor == 1:
        return list(values)
    groups = ([v for v in values[first : first + factor] if v == v] for first in range(0, len(values), factor))
    return [fold(group) if group else math.nan for group in groups]


def _thinned_means(means: Sequence[float], axis: Axis, factor: int) -> list[float]:
    """Every `factor` means made one, weighted by their columns' durations, nan left out of it."""
    if factor == 1:
        return list(means)
    thinned = []
    for first in range(0, len(means), factor):
        columns = [place for place in range(first, min(first + factor, len(means))) if means[place] == means[place]]
        weights = [axis.ends[place] - axis.begins[place] + 1 for place in columns]
        weighted = sum(means[place] * weight for place, weight in zip(columns, weights))
        thinned.append(weighted / sum(weights) if columns else math.nan)
    return thinned


def _numbers(curve: Curve | None, axis: Axis, factor: int) -> dict[str, list[float | None]]:
    """A curve as the script takes it: v, and where columns hold several intervals also lo and hi, if it has bands."""
    assert curve is not None
    numbers = {"v": _numbers_of(_thinned_means(curve.means, axis, factor))}
    if curve.has_bands and (factor > 1 or not curve.exact):
        numbers["lo"] = _numbers_of(_thinned(curve.least, factor, min))
        numbers["hi"] = _numbers_of(_thinned(curve.greatest, factor, max))
    return numbers


def _numbers_of(values: Sequence[float]) -> list[float | None]:
    """Numbers as published, seven digits, whole ones without a point; None for a hole."""
    numbers: list[float | None] = []
    for value in values:
        if not math.isfinite(value):
            numbers.append(None)
            continue
        rounded = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
        numbers.append(int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded)
    return numbers
