# SPDX-License-Identifier: Apache-2.0
"""kernel.html without a browser: its numbers are those of the metric files, foreign text is harmless, its size is bounded."""

import html.parser
import json
import math
import os
import re
from unittest import mock

import pytest
from perf_output import EPOCH, block, line, post_process, process, read_back, run_of, write_clock, write_output, write_topology
from published import without_mark

from kerneltools import catalogue, curves, page
from kerneltools.curves import Curves
from kerneltools.frames import Series

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(2)>"\'&@@DATA@@]]>'
EVENT = "<img src=x onerror=alert(1)>\"'&@@DATA@@"
VOID = {"meta", "link", "br", "input", "img"}


class Parsed(html.parser.HTMLParser):
    """Which elements there are, with their attributes, and the visible text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.open = []
        self.text = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(directory):
    return (directory / "postprocess" / "kernel.html").read_text(encoding="utf-8")


def data_of(directory):
    """The JSON that the page's script draws."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', read(directory), re.DOTALL)[1])


def chart_of(data, metric_type):
    return next(chart for chart in data["charts"] if chart["type"] == metric_type)


def drawn(data, chart):
    """What a chart draws, as rows (begin, end, value) in ms after EPOCH, holes left out."""
    axis = data["axes"][chart["axis"]]
    offset = data["from"] - EPOCH * 1000
    return [
        (begin + offset, end + offset, value) for begin, end, value in zip(axis["b"], axis["e"], chart["v"]) if value is not None
    ]  # fmt: skip


def merged(rows):
    found = []
    for begin, end, value in rows:
        if found and found[-1][2] == value and found[-1][1] + 1 == begin:
            found[-1] = (found[-1][0], end, value)
        else:
            found.append((begin, end, value))
    return found


# ---- the numbers


def test_every_chart_holds_the_samples_of_its_metric_file(data_dir):
    counts = [{"instructions": 3 * n * 10**6, "cycles": (n % 7 + 1) * 10**6, "context-switches": n % 3} for n in range(1, 61)]
    done = post_process(data_dir, run_of(*counts))
    assert done.rc == 0
    data = data_of(data_dir)
    assert {chart["type"] for chart in data["charts"]} == done.metrics.types
    for chart in data["charts"]:
        if chart["type"] != "counter-running":
            assert merged(drawn(data, chart)) == done.metrics.samples(chart["type"])
    running = chart_of(data, "counter-running")
    assert [place["names"] for place in running["places"]] == ["counter instructions", "counter cycles", "counter context-switches"]
    assert all(merged(drawn(data, place)) == [(1, 60_000, 100)] for place in running["places"])


def test_a_hole_is_not_joined(data_dir):
    counts = [{"instructions": n, "cycles": 0 if 4 <= n <= 9 else 2} for n in range(1, 13)]
    done = post_process(data_dir, run_of(*counts))
    data = data_of(data_dir)
    ipc = chart_of(data, "ipc")
    assert ipc["v"] == [0.5, 1, 1.5, None, None, None, None, None, None, 5, 5.5, 6]
    assert drawn(data, ipc) == done.metrics.samples("ipc")


def test_a_sample_that_reaches_back_is_drawn_as_long_as_it_is(data_dir):
    counts = [{"instructions": n, "cycles": 0 if n in (2, 3) else 2} for n in range(1, 6)]
    done = post_process(data_dir, run_of(*counts))
    data = data_of(data_dir)
    assert done.metrics.samples("ipc") == [(1, 1000, 0.5), (1001, 4000, 2), (4001, 5000, 2.5)]
    assert merged(drawn(data, chart_of(data, "ipc"))) == done.metrics.samples("ipc")


def test_lost_intervals_leave_a_hole_in_the_time_axis(data_dir):
    seconds = [1, 2, 3, 4, 14, 15, 16]
    records = [record for second in seconds for record in block(float(second), {"page-faults": second})]
    records.insert(4, "{ torn")
    done = post_process(data_dir, records)
    data = data_of(data_dir)
    assert merged(drawn(data, chart_of(data, "page-faults"))) == done.metrics.samples("page-faults")
    assert done.metrics.samples("page-faults")[4] == (13_001, 14_000, 14)


def per_cpu(counts, running=100.0):
    """Records of intervals 1, 2, ...; counts: for each interval a list with one {event: value} for each CPU."""
    return [
        line(float(second), event, value, running=running, cpu=str(cpu))
        for second, cpus in enumerate(counts, 1)
        for cpu, events in enumerate(cpus)
        for event, value in events.items()
    ]


def test_ratios_over_cpus_are_averaged_and_counts_added(data_dir):
    write_topology(data_dir, {0: (0, 0, 0, "0"), 1: (0, 0, 1, "1")})
    one = [{"instructions": 10, "cycles": 10}, {"instructions": 60, "cycles": 20}]
    other = [{"instructions": 20, "cycles": 10}, {"instructions": 20, "cycles": 20}]
    post_process(data_dir, per_cpu([one, other]))
    data = data_of(data_dir)
    ipc = chart_of(data, "ipc")
    assert (ipc["v"], ipc["low"], ipc["high"]) == ([2, 1.5], [1, 1], [3, 2])
    assert chart_of(data, "instructions")["v"] == [70, 40]
    assert "low" not in chart_of(data, "instructions")
    assert [(place["names"], place["v"]) for place in ipc["places"]] == [
        ("package 0 die 0 core 0 thread 0 cpu 0", [1, 2]),
        ("package 0 die 0 core 1 thread 0 cpu 1", [3, 1]),
    ]


def test_a_sum_that_lacks_a_cpu_is_none_and_said(data_dir):
    intervals = [[{"page-faults": 1}, {"page-faults": 2}] for _ in range(12)]
    for interval in intervals[3:10]:
        interval[1] = {"page-faults": "<not counted>"}
    post_process(data_dir, per_cpu(intervals))
    faults = chart_of(data_of(data_dir), "page-faults")
    assert faults["v"] == [3] * 3 + [None] * 7 + [3] * 2
    assert faults["notes"] == ["No sum in 7 intervals: not each series has a value there, and a part of a sum is none."]
    assert "No sum in 7 intervals" in read(data_dir)


def test_a_long_run_is_thinned_to_its_envelope_and_says_so(data_dir):
    values = [5] * 1000
    values[500], values[777] = 1000, 0
    done = post_process(data_dir, run_of(*({"page-faults": value} for value in values)))
    data = data_of(data_dir)
    faults = chart_of(data, "page-faults")
    assert len(faults["v"]) == len(faults["lo"]) == len(faults["hi"]) == 334  # 3 intervals in a column
    assert (faults["lo"][166], faults["v"][166], faults["hi"][166]) == (5, 336.6667, 1000)  # 498, 499, 500
    assert (faults["lo"][259], faults["v"][259], faults["hi"][259]) == (0, 3.333333, 5)  # 777, 778, 779
    assert "of 1000 intervals every 3 are one column" in read(data_dir)
    assert done.table["page-faults"][3:] == (5.99, 0, 1000)
    assert "<b>5.99</b>" in read(data_dir)


def test_of_many_series_the_extremes_are_drawn_and_all_are_in_the_map(data_dir):
    post_process(data_dir, per_cpu([[{"page-faults": 100 * cpu + second} for cpu in range(40)] for second in range(5)]))
    data = data_of(data_dir)
    faults = chart_of(data, "page-faults")
    assert [place["names"] for place in faults["places"]] == [f"cpu {cpu}" for cpu in (*range(6), *range(34, 40))]
    assert len(faults["heat"]["rows"]) == 40
    assert (faults["heat"]["least"], faults["heat"]["greatest"]) == (0, 3904)
    assert (faults["heat"]["rows"][0][0], faults["heat"]["rows"][39][4]) == ("A", "_")
    assert data["names"][faults["heat"]["names"]] == [f"cpu {cpu}" for cpu in range(40)]
    assert "12 of 40 series" in read(data_dir)


@pytest.mark.parametrize(("figure", "shown"), [
    (0, "0"), (0.00001234, "1.23e-05"), (0.2857142857, "0.28571"), (1.8121, "1.8121"), (9999, "9999"), (10_000.4, "10000"),
    (99_999, "99999"), (100_000, "100000"), (123_456, "123456"), (999_999, "999999"), (1_000_000, "1 M"), (1.8121e6, "1.8121 M"),
    (123_456_789, "123.46 M"), (1e9, "1 G"), (1.8121e9, "1.8121 G"), (1e12, "1 T"), (4.5e13, "45 T"), (1e15, "1 P"), (-2.5e6, "-2.5 M"),
    (123.456, "123.46"), (9999.4, "9999.4"), (None, "none"), (math.nan, "none"), (math.inf, "none"),
])  # fmt: skip
def test_figures_read_as_what_they_are(figure, shown):
    assert page._shown(figure) == shown


def figures_of(directory, metric_type):
    """The rows of a card's table, as {name of the row: [mean, min, max]}; "" is the name of the only one."""
    card = next(text for text in read(directory).split("<article ")[1:] if f"<h3>{metric_type}<" in text or f"<h3>{metric_type} <" in text)
    rows = {}
    for row in re.findall(r"<tr>(.*?)</tr>", re.search(r'<table class="figures">(.*?)</table>', card)[1]):
        name = re.match("<th>(.*?)</th>", row)
        assert re.findall(r"<td>(\w+) <b>", row) == ["mean", "min", "max"]
        rows[name[1] if name else ""] = re.findall(r"<b>(.*?)</b>", row)
    return rows


def test_figures_of_a_card_are_weighted_by_duration_and_stand_under_their_names(data_dir):
    """Two CPUs, an interval of 1 s and one of 3 s."""
    counts = {1.0: [(10, 10), (60, 20)], 4.0: [(20, 10), (20, 20)]}
    records = [
        line(second, event, value, cpu=str(cpu))
        for second, cpus in counts.items()
        for cpu, pair in enumerate(cpus)
        for event, value in zip(("instructions", "cycles"), pair)
    ]
    post_process(data_dir, records)
    # 70 for 1 s and 40 for 3 s; 10, 60 and 20, 20
    assert figures_of(data_dir, "instructions") == {"sum of 2 series": ["47.5", "40", "70"], "each series": ["23.75", "10", "60"]}
    # 2 for 1 s and 1.5 for 3 s; 1, 3 and 2, 1
    assert figures_of(data_dir, "ipc") == {"mean of 2 series": ["1.625", "1.5", "2"], "each series": ["1.625", "1", "3"]}


def test_figures_of_a_thinned_run_are_those_of_its_samples(data_dir):
    write_output(data_dir, per_cpu([[{"page-faults": 1000 if second == 500 else second % 3} for _ in range(2)] for second in range(1200)]))
    write_clock(data_dir, 0, 1200)
    process(data_dir)
    # 1200 intervals, 400 of 0, 1 and 2 each, but 1000 once in the place of 2
    assert figures_of(data_dir, "page-faults")["sum of 2 series"] == ["3.6633", "0", "2000"]
    assert figures_of(data_dir, "page-faults")["each series"] == ["1.8317", "0", "1000"]


def test_a_card_says_its_unit(data_dir):
    post_process(data_dir, run_of({"instructions": 123_456_000_000, "cycles": 10**9}))
    assert '<h3>instructions-sec <span class="unit">MIPS</span></h3>' in read(data_dir)
    assert '<h3>ipc</h3>' in read(data_dir)
    assert figures_of(data_dir, "instructions-sec") == {"": ["123456"] * 3}
    assert {chart["type"]: chart["unit"] for chart in data_of(data_dir)["charts"]} == {
        "ipc": "", "instructions-sec": "MIPS", "cycles-sec": "GHz", "instructions": "", "cycles": "", "counter-running": "%",
    }  # fmt: skip


def test_the_series_with_the_lowest_and_highest_means_are_drawn_whatever_their_order(data_dir):
    place = {cpu: cpu * 7 % 40 for cpu in range(40)}  # among the means, from the lowest
    post_process(data_dir, per_cpu([[{"page-faults": 100 * place[cpu] + second} for cpu in range(40)] for second in range(5)]))
    data = data_of(data_dir)
    drawn_places = [entry["names"] for entry in chart_of(data, "page-faults")["places"]]
    assert drawn_places == [f"cpu {cpu}" for cpu in range(40) if not 6 <= place[cpu] < 34]
    assert "Of the series of a type those 12 with the lowest and highest means are drawn; the folded curve is of all." in read(data_dir)


def test_series_that_have_no_room_in_the_map_are_counted(data_dir, monkeypatch):
    monkeypatch.setattr(page, "HEAT_ROWS", 10)
    post_process(data_dir, per_cpu([[{"page-faults": 100 * cpu + second} for cpu in range(40)] for second in range(5)]))
    heat = chart_of(data_of(data_dir), "page-faults")["heat"]
    assert (len(heat["rows"]), heat["missing"]) == (10, 30)
    assert "map of 10 series, and 12 of 40 series" in read(data_dir)


def test_series_without_a_curve_are_counted(data_dir, monkeypatch):
    """Room for 2 * 8 curves of one column each."""
    monkeypatch.setattr(curves, "CELLS", 8)
    post_process(data_dir, per_cpu([[{"page-faults": 100 * cpu + second} for cpu in range(40)] for second in range(5)]))
    assert "perf-stat: 25 series that began late have no curve of their own." in read(data_dir)  # counter-running is one more


def test_columns_that_are_put_together_are_weighted_by_their_durations():
    axis = curves.Axis()
    axis.begins.extend([1, 1001, 4001])
    axis.ends.extend([1000, 4000, 5000])
    assert page._thinned_means([1, 3, math.nan], axis, 2) == [2.5, pytest.approx(math.nan, nan_ok=True)]
    assert page._thinned([5, 1, 7], 2, min) == [1, 7]


def test_a_band_goes_from_the_least_to_the_greatest_value():
    axis = curves.Axis()
    axis.stride = 3
    columns = curves._Columns(axis)
    columns.extend(axis.extend([1, 1001, 2001, 3001], [1000, 2000, 3000, 4000], [False] * 4), [[5], [1], [9], [4]], [1000] * 4)
    columns.extend(axis.extend([4001], [5000], [True]), [[3]], [1000])  # behind a hole
    columns.extend(axis.extend([5001], [6000], [False]), [[8]], [1000])
    (curve,) = columns.curves(1)
    assert (list(axis.begins), list(axis.ends)) == ([1, 3001, 4001], [3000, 4000, 6000])
    assert page._numbers(curve, axis, 1) == {"v": [5, 4, 5.5], "lo": [1, 4, 3], "hi": [9, 4, 8]}
    assert page._numbers(curve, axis, 2) == {"v": [4.75, 5.5], "lo": [1, 3], "hi": [9, 8]}


def test_in_a_thinned_run_a_hole_is_seen(data_dir):
    """900 intervals, three in a column, and ten minutes lost behind the 400th."""
    seconds = [*range(1, 401), *range(1001, 1501)]
    records = [record for second in seconds for record in block(float(second), {"page-faults": second})]
    records.insert(400, "{ torn")
    post_process(data_dir, records)
    data = data_of(data_dir)
    rows = drawn(data, chart_of(data, "page-faults"))
    before, behind = next((one, other) for one, other in zip(rows, rows[1:]) if other[0] > one[1] + 1)
    assert (before[1], behind[0]) == (400_000, 1_000_001)


def test_what_matters_of_the_machine_comes_first(data_dir):
    (data_dir / "kerneltools-environment.txt").write_text("smt=1\nperf_version=6.1\nkernel=6.9\ncpu_model=C\nhostname=h\n")
    post_process(data_dir, run_of({"page-faults": 1}))
    assert re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", read(data_dir)) == [
        ("hostname", "h"), ("cpu model", "C"), ("kernel", "6.9"), ("perf version", "6.1"), ("smt", "1"),
    ]  # fmt: skip


def test_when_names_each_moment_in_its_column(data_dir):
    (data_dir / "kerneltools-clock.txt").write_text(f"perf-stat begin {EPOCH - 3}\nperf-stat end {EPOCH + 2}\ntoplev end {EPOCH + 9}\n")
    write_output(data_dir, run_of({"page-faults": 1}, {"page-faults": 2}))
    process(data_dir)
    rows = re.findall("<tr>(<td>.*?)</tr>", re.search("<tbody>(.*?)</tbody>", read(data_dir))[1])
    cells = [[re.sub("<.*?>", "", cell) for cell in re.findall("<td>(.*?)</td>", row)] for row in rows]
    assert cells == [
        ["perf-stat", "2023-11-14 22:13:17", "2023-11-14 22:13:22", "2023-11-14 22:13:20 to 22:13:22", "2"],
        ["toplev", "not recorded", "2023-11-14 22:13:29", "none", "0"],
    ]


# ---- the curves themselves, against samples folded the plain way

METRIC = next(metric for metric in catalogue.load() if metric.type == "<event>")
RATIO = next(metric for metric in catalogue.load() if metric.type == "ipc")
REACH_BACK = 3


def fed(values, metric, cells, columns):
    """Curves with `values`, a row for each interval of 10 ms, an entry for each series, None for no value, as Publication feeds
    them: series are known from their first value on, and samples reach back."""
    with mock.patch.multiple(curves, CELLS=cells, BUFFERED=cells, COLUMNS=columns):
        of = Curves("perf-stat", len(values), REACH_BACK)
        numbers, last = {}, {}
        for ordinal, row in enumerate(values):
            earlier = {}
            for place, value in enumerate(row):
                if value is None:
                    continue
                if place not in numbers:
                    numbers[place] = len(numbers)
                    of.add(Series(metric, "type", "", {"cpu": str(place)}))
                if place in last and 0 < ordinal - last[place] - 1 <= REACH_BACK:
                    earlier[numbers[place]] = last[place] * 10 + 11
                last[place] = ordinal
            of.publish(ordinal * 10 + 1, ordinal * 10 + 10, ordinal, [row[place] for place in numbers], earlier)
        of.finish()
    return of


def published(values):
    """The same rows with every sample reaching back as Publication lets it."""
    filled = [list(row) for row in values]
    for place in range(len(values[0])):
        last = None
        for ordinal, row in enumerate(values):
            if row[place] is None:
                continue
            if last is not None and ordinal - last - 1 <= REACH_BACK:
                for between in range(last + 1, ordinal):
                    filled[between][place] = row[place]
            last = ordinal
    return filled


def columns_of(values, stride):
    """Mean, least and greatest of each `stride` values, None for a column without one."""
    found = []
    for first in range(0, len(values), stride):
        there = [value for value in values[first : first + stride] if value is not None]
        found.append((sum(there) / len(there), min(there), max(there)) if there else None)
    return found


def cells(curve, length):
    """The same of a curve, filled up to `length` columns."""
    if not curve.has_bands:  # there were too many of them
        found = [None if math.isnan(mean) else (mean,) for mean in curve.means]
    else:
        found = [None if math.isnan(cell[0]) else cell for cell in zip(curve.means, curve.least, curve.greatest)]
    return found + [None] * (length - len(found))


def nearly(found, expected):
    assert len(found) == len(expected)
    for cell, other in zip(found, expected):
        assert (cell is None) == (other is None), (found, expected)
        assert cell is None or cell == pytest.approx(other[: len(cell)])


ROWS = st.integers(1, 4).flatmap(
    lambda series: st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=series, max_size=series), min_size=1, max_size=60)
)


@hypothesis.settings(deadline=None, max_examples=300)
@hypothesis.example([[0]] * 9 + [[1]], (8, 400), False)  # more rows than the buffer holds
@hypothesis.given(ROWS, st.sampled_from([(1_000_000, 400), (8, 400), (40, 7), (1, 1)]), st.booleans())
def test_curves_are_the_samples_folded_whatever_the_buffer(rows, limits, sums):
    rows = [row for row in rows if any(value is not None for value in row)]  # an interval without any value is not there
    hypothesis.assume(rows)
    first = next(row for row in rows)
    order = sorted(range(len(first)), key=lambda place: next((o for o, row in enumerate(rows) if row[place] is not None), len(rows)))
    of = fed(rows, METRIC if sums else RATIO, *limits)
    filled = published(rows)
    begun = [place for place in order if any(row[place] is not None for row in rows)]
    of_type = of.types["type"]
    for place, series in enumerate(of_type.series):
        name = int(series.names["cpu"])
        assert name in begun, place
        if series.curve is not None:
            length = len(of.series_axis.ends)
            nearly(cells(series.curve, length), columns_of([row[name] for row in filled], of.series_axis.stride))
    folds = []
    for row in filled:
        there = [value for value in row if value is not None]
        folds.append((sum(there) if len(there) == len(begun) else None) if sums else (sum(there) / len(there) if there else None))
    expected = columns_of(folds, of.axis.stride)
    found = cells(of_type.folded, len(of.axis.ends))
    if sums and of_type.partial:
        # a series that began after others had gone into the curves costs the sums before it, of its own column too
        assert all(cell is None or cell[0] == pytest.approx(other[0]) or of.axis.stride > 1 for cell, other in zip(found, expected))
    else:
        nearly(found, expected)


def test_memory_is_that_of_the_columns_not_of_the_run():
    of = Curves("perf-stat", 200_000, REACH_BACK)
    of.add(Series(METRIC, "type", "", {}))
    for ordinal in range(200_000):
        of.publish(ordinal * 10 + 1, ordinal * 10 + 10, ordinal, [ordinal], {})
        assert len(of._rows) <= 10 * curves.COLUMNS
    of.finish()
    assert len(of.axis.ends) == len(of.types["type"].folded.means) == 400
    assert of.types["type"].folded.greatest[-1] == 199_999


# ---- the words


def test_it_says_what_ran_where_when_and_what_was_degraded(data_dir):
    (data_dir / "kerneltools-environment.txt").write_text("kernel=6.1.0\nhostname=client-7\ncpu_model=A CPU = B\n")
    (data_dir / "kerneltools-start-stderrout.txt").write_text("one\nWARNING: toplev: skipped: no Intel CPU\nNo WARNING: here\n")
    (data_dir / "kerneltools-stop-stderrout.txt").write_text("ERROR: perf-stat died\n")
    post_process(data_dir, [*run_of({"page-faults": 1}, {"page-faults": 2}), "{ torn"])
    parsed = Parsed(read(data_dir))
    text = " ".join(parsed.text)
    for words in ("kernel tool on client-7", "A CPU = B", "6.1.0", "WARNING: toplev: skipped: no Intel CPU", "ERROR: perf-stat died"):
        assert words in text
    assert "No WARNING: here" not in text
    assert "WARNING: perf-stat: " in text  # the torn line, in post-processing
    assert "page-faults" in text
    assert next(metric.meaning for metric in catalogue.load() if metric.type == "<event>") in text
    moments = [int(attrs["data-ms"]) - EPOCH * 1000 for tag, attrs in parsed.elements if tag == "time"]
    assert moments == [-10, 2000, 0, 2000]
    assert "2023-11-14 22:13:20" in text  # without its script it reads in UTC


def test_foreign_text_is_text(data_dir):
    (data_dir / "kerneltools-environment.txt").write_text(f"hostname={HOSTILE}\n{HOSTILE}={HOSTILE}\n")
    for name in ("kerneltools-start-stderrout.txt", "kerneltools-stop-stderrout.txt"):
        (data_dir / name).write_text(f"WARNING: {HOSTILE}\n")
    (data_dir / "kerneltools-clock.txt").write_text("<b>x</b> begin 1700000000\n")
    # the torn line is in another interval: it may have been a part of what is counted there
    records = [line(1.0, EVENT, 5, unit=HOSTILE), line(1.0, "a\x00\x1b[2J\u2028b", 5), line(2.0, "page-faults", 5), "<script>torn"]
    write_output(data_dir, records)
    process(data_dir)
    text = read(data_dir)
    parsed = Parsed(text)
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert tags.count("b") == sum(text.count(f"<td>{name} <b>") for name in ("mean", "min", "max"))
    assert not [attrs for _, attrs in parsed.elements if any(name.startswith("on") or name in ("href", "src") for name in attrs)
                and attrs.get("href") != "data:,"]
    assert HOSTILE in " ".join(parsed.text)
    assert "\x1b" not in text
    assert "\x00" not in text
    assert EVENT in {chart["type"] for chart in data_of(data_dir)["charts"]}
    assert text.count('id="data"') == 1


def test_nothing_in_the_numbers_can_be_taken_for_html(data_dir):
    """"<!--<script" would have a browser overlook the end of the element, and all that follows."""
    post_process(data_dir, [line(1.0, "<!--<script>&amp;</script>", 5, unit="<!--<script>", cpu="0")])
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', read(data_dir), re.DOTALL)[1]
    assert re.findall("[<>&]", embedded) == []
    (chart,) = (chart for chart in json.loads(embedded)["charts"] if chart["type"] != "counter-running")
    assert (chart["type"], chart["unit"]) == ("<!--<script>&amp;</script>", "<!--<script>")


def test_bytes_that_are_no_text_and_endless_lines_do_no_harm(data_dir):
    (data_dir / "kerneltools-environment.txt").write_bytes(b"kernel=\xff\xfe\n=\nnothing\n" + b"x" * 3_000_000)
    (data_dir / "kerneltools-start-stderrout.txt").write_bytes(b"WARNING: " + b"y" * 3_000_000 + b"\n" + b"WARNING: z\n" * 500)
    done = post_process(data_dir, run_of({"page-faults": 1}))
    assert done.rc == 0
    assert "and 301 more lines in the log" in read(data_dir)
    assert len(read(data_dir)) < 200_000


def test_it_needs_nothing_from_elsewhere(data_dir):
    post_process(data_dir, run_of({"page-faults": 1}))
    text = read(data_dir)
    assert re.findall(r"https?://[^\s\"]+", text) == ["http://www.w3.org/2000/svg"]  # a name, never fetched
    policy = next(attrs["content"] for tag, attrs in Parsed(text).elements if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"@@[A-Z]+@@", text)


def test_nothing_published_is_a_page_that_says_so(data_dir):
    done = process(data_dir)
    assert done.rc == 0
    assert "No metric was published." in read(data_dir)
    assert data_of(data_dir)["charts"] == []


def test_size_is_bounded_whatever_the_run(data_dir):
    """1500 events over 100 intervals, and 300 CPUs over 700: some MB each."""
    records = [record for second in range(1, 21) for record in block(float(second), {f"sched:event_{n}": n * second for n in range(1500)})]
    post_process(data_dir, records)
    assert len(read(data_dir)) < 4_000_000
    assert len(data_of(data_dir)["charts"]) == page.MOST_TYPES
    assert "more metric types are in the metric files but have no chart here" in read(data_dir)


def test_many_cpus_and_many_intervals_fit_too(data_dir):
    write_output(data_dir, per_cpu([[{"page-faults": cpu * second % 1013} for cpu in range(300)] for second in range(700)]))
    write_clock(data_dir, 0, 700)
    process(data_dir)
    assert len(read(data_dir)) < 2_000_000


# ---- failures


def test_a_page_that_cannot_be_written_costs_no_metric_and_is_said(data_dir):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with mock.patch.object(page, "write", full):
        done = post_process(data_dir, run_of({"page-faults": 1}))
    assert done.rc == 1
    assert done.metrics.samples("page-faults") == [(1, 1000, 1)]
    assert "page-faults" in done.table
    assert "WARNING: kernel.html: was not written; the metrics are whole: OSError: [Errno 28] No space left on device" in done.log


def test_a_fault_in_the_page_costs_the_page_only(data_dir, capsys):
    (data_dir / "postprocess").mkdir()
    (data_dir / "postprocess" / "kernel.html").write_text("an old one")
    write_output(data_dir, run_of({"page-faults": 1}))
    write_clock(data_dir, 0, 1)
    from kerneltools import main  # noqa: PLC0415  (process() takes a traceback for a failure)

    with mock.patch.object(page, "page", side_effect=ZeroDivisionError("oops")), mock.patch.dict(os.environ):
        os.environ.pop("TOOLBOX_HOME", None)
        assert main.main([str(data_dir)]) == 1
    assert "WARNING: kernel.html: was not written; the metrics are whole: ZeroDivisionError: oops" in capsys.readouterr().out
    assert sorted(without_mark(path.name) for path in (data_dir / "postprocess").iterdir()) == [
        "metric-data-perf-stat.csv.xz", "metric-data-perf-stat.json.xz", "post-process-data.json"
    ]  # fmt: skip


def test_a_fault_in_the_curves_costs_the_page_only(data_dir, capsys):
    write_output(data_dir, run_of(*({"page-faults": n} for n in range(5))))
    write_clock(data_dir, 0, 5)
    from kerneltools import main  # noqa: PLC0415

    with mock.patch.object(curves.Axis, "fit", side_effect=ZeroDivisionError("oops")), mock.patch.dict(os.environ):
        os.environ.pop("TOOLBOX_HOME", None)
        assert main.main([str(data_dir)]) == 1
    assert "kernel.html: was not written; the metrics are whole: RuntimeError: no curves of perf-stat" in capsys.readouterr().out
    assert read_back(data_dir).samples("page-faults") == [(n * 1000 + 1, n * 1000 + 1000, n) for n in range(5)]


def test_the_page_of_an_earlier_run_is_replaced(data_dir):
    post_process(data_dir, run_of({"page-faults": 1}))
    (data_dir / "perf-stat-output.json").unlink()
    (data_dir / "kerneltools-clock.txt").unlink()
    process(data_dir)
    assert data_of(data_dir)["charts"] == []


def test_run_local_says_where_the_page_lies(real_perf, run_script, tmp_path):
    done = run_script("examples/run-local", "--seconds", "1.2", "--interval=0.5", "--dir", tmp_path / "a run")
    assert done.rc == 0, done.out + done.err
    path = re.search(r"^charts: +(.*)$", done.out, re.MULTILINE)[1]
    assert path == str(tmp_path / "a run" / "postprocess" / "kernel.html")
    assert "context-switches-sec" in read(tmp_path / "a run")
    assert "hostname" in read(tmp_path / "a run")
