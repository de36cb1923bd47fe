# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Every recording of a real perf, post-processed: each sample against one that is computed here from the recording, in exact fractions.

Nothing of the project's formulas, catalogue or parsing is used: the table below is the design's, written out once more.
"""

import json
import re
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from conftest import REPO
from perf_output import merged, read_back, table_of, write_output, write_topology

RECORDINGS = [
    *(f"perf-{perf}/perf-stat-{aggregation}.json" for perf in ("6.1-no-pmu", "6.1-pmu", "6.12-no-pmu", "6.12-pmu")
      for aggregation in ("system", "socket", "die", "node", "core", "cpu")),
    "perf-6.12-amd-genoa/topdown-socket.json",
    "perf-6.12-amd-genoa/topdown-system.json",
]  # fmt: skip

# type: (class, numerator, denominator, factor, aggregation); a denominator of None is the interval's length in seconds
DERIVED = {
    "ipc": ("throughput", "instructions", "cycles", 1, "avg"),
    "l1d-cache-miss-rate": ("throughput", "L1-dcache-load-misses", "cache-references", 1, "avg"),
    "l1i-cache-miss-rate": ("throughput", "L1-icache-load-misses", "instructions", 1, "avg"),
    "cache-miss-rate": ("throughput", "cache-misses", "cache-references", 1, "avg"),
    "llc-miss-rate": ("throughput", "LLC-load-misses", "LLC-loads", 1, "avg"),
    "branch-miss-rate": ("throughput", "branch-misses", "branches", 1, "avg"),
    "dtlb-miss-rate": ("throughput", "dTLB-load-misses", "dTLB-loads", 1, "avg"),
    "itlb-miss-rate": ("throughput", "iTLB-load-misses", "iTLB-loads", 1, "avg"),
    "backend-stall-rate": ("percentage", "stalled-cycles-backend", "cycles", 100, "avg"),
    "frontend-stall-rate": ("percentage", "stalled-cycles-frontend", "cycles", 100, "avg"),
    "context-switches-sec": ("count", "context-switches", None, 1, "sum"),
    "cpu-migrations-sec": ("count", "cpu-migrations", None, 1, "sum"),
    "instructions-sec": ("throughput", "instructions", None, Fraction(1, 10**6), "sum"),
    "cycles-sec": ("throughput", "cycles", None, Fraction(1, 10**9), "sum"),
}

# literal clock: perf was launched 0.3 s before it began to count, and ended at this moment
END = "1764458384.123456789"
BEGIN_BEFORE = Fraction("0.3")
# literal snapshot: two threads of one core of the second package
TOPOLOGY = {0: (1, 2, 14, "0-1"), 1: (1, 2, 14, "0-1")}
CPU_NAMES = {
    "0": {"package": "1", "die": "2", "core": "14", "thread": "0", "cpu": "0"},
    "1": {"package": "1", "die": "2", "core": "14", "thread": "1", "cpu": "1"},
}


def place_of(text):
    """The breakouts of a record, from its text."""
    if match := re.search(r'"cpu" : "([0-9]+)"', text):
        return CPU_NAMES[match[1]]
    if match := re.search(r'"core" : "S([0-9]+)-D([0-9]+)-C([0-9]+)"', text):
        return dict(zip(("package", "die", "core"), match.groups()))
    if match := re.search(r'"die" : "S([0-9]+)-D([0-9]+)"', text):
        return dict(zip(("package", "die"), match.groups()))
    if match := re.search(r'"socket" : "S([0-9]+)"', text):
        return {"package": match[1]}
    if match := re.search(r'"node" : "N([0-9]+)"', text):
        return {"node": match[1]}
    return {}


def event_of(perfs_name):
    """The metric type of an event: without PMU (all of these are core PMUs or the kernel's own software)."""
    name = re.sub(r" \[\w+\]$", "", perfs_name)
    if match := re.fullmatch(r"cpu/(.*)/", name):
        return match[1]
    return name


def seven_digits(value):
    with localcontext() as context:
        context.prec = 7
        return float(Decimal(value.numerator) / Decimal(value.denominator))


def read_recording(text):
    """{interval: {place as sorted tuple: {event: Fraction}}} and {interval: {event: lowest pcnt-running}}, first occurrences only."""
    counts, running = {}, {}
    for record in text.splitlines():
        fields = re.search(
            r'"interval" : ([0-9.]+), .*"counter-value" : "([^"]*)", .*"event" : "([^"]*)", .*"pcnt-running" : ([0-9.]+)', record
        )
        if not fields:
            assert '"counter-value"' not in record, record
            continue
        time, value, event, share = Fraction(fields[1]), fields[2], event_of(fields[3]), Fraction(fields[4])
        at_place = counts.setdefault(time, {}).setdefault(tuple(sorted(place_of(record).items())), {})
        if value.startswith("<") or event in at_place:
            continue
        at_place[event] = Fraction(value)
        of_event = running.setdefault(time, {})
        of_event[event] = min(share, of_event.get(event, share))
    return counts, running


def expected_series(text):
    """{(type, breakouts as sorted tuple): [(begin, end, value)]} and {type: (class, aggregation)}, all from the recording's text."""
    counts, running = read_recording(text)
    times = sorted(counts)
    start = Fraction(END) - times[-1]
    series, kinds = {}, {"counter-running": ("percentage", "avg")}

    def add(key, begin, end, value):
        """A sample; it reaches back over intervals without one (recordings have three, so never more than one is missing between two)."""
        rows = series.setdefault(key, [])
        rows.append((rows[-1][1] + 1 if rows else begin, end, value))

    previous = Fraction(0)
    for time in times:
        begin, end = round((start + previous) * 1000) + 1, round((start + time) * 1000)
        length = time - previous
        for place, events in counts[time].items():
            for event, value in events.items():
                assert value.denominator == 1
                add((event, place), begin, end, int(value))
                kinds[event] = ("count", "sum")
            for metric_type, (metric_class, numerator, denominator, factor, aggregation) in DERIVED.items():
                divisor = length if denominator is None else events.get(denominator, 0)
                if numerator in events and divisor:
                    add((metric_type, place), begin, end, seven_digits(events[numerator] / divisor * factor))
                    kinds[metric_type] = (metric_class, aggregation)
        for event, share in running.get(time, {}).items():
            add(("counter-running", (("counter", event),)), begin, end, float(share))
        previous = time
    return series, kinds


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_sample_of_a_recording_is_published_as_computed_by_hand(recording, recordings, data_dir, run_script):
    text = (recordings / recording).read_text()
    last = max(Fraction(time) for time in re.findall(r'"interval" : ([0-9.]+)', text))
    write_output(data_dir, text.encode(), archive=RECORDINGS.index(recording) % 2 == 1)
    write_topology(data_dir, TOPOLOGY)
    begin = Decimal(END) - Decimal(last.numerator) / Decimal(last.denominator) - Decimal("0.3")
    (data_dir / "kerneltools-clock.txt").write_text(f"perf-stat begin {begin:.9f}\nperf-stat end {END}\n")
    series, kinds = expected_series(text)

    done = run_script("kerneltools-post-process")

    assert (done.rc, done.err) == (0, "")
    metrics = read_back(data_dir)
    published = {(desc["type"], tuple(sorted(names.items()))): merged(rows) for desc, names, rows, _ in metrics.series}
    assert set(published) == set(series)
    for key, samples in series.items():
        assert published[key] == merged(samples), key
    for desc, *_ in metrics.series:
        assert (desc["class"], desc["default-aggregation"]) == kinds[desc["type"]], desc
    table = table_of(done.out)
    assert set(table) == {metric_type for metric_type, _ in series}
    for metric_type, (_, series_count, samples, mean, least, greatest) in table.items():
        own = [rows for (name, _), rows in series.items() if name == metric_type]
        values = [value for rows in own for *_, value in rows]
        assert (series_count, samples) == (len(own), len(values)), metric_type
        assert least == pytest.approx(min(values), rel=1e-4)
        assert greatest == pytest.approx(max(values), rel=1e-4)
        assert least <= mean <= greatest
    summary = json.loads((data_dir / "postprocess" / "post-process-data.json").read_text())
    assert summary["periods"] == [{"name": "measurement", "metric-files": sorted(metrics.prefixes)}]
    if "6.1-pmu" in recording or "6.12-pmu" in recording:
        assert summary["primary-metric"] == "ipc"


@pytest.mark.parametrize(
    ("recording", "types", "places"),
    [
        ("perf-6.12-pmu/perf-stat-cpu.json", 17 + 13 + 1, 2),  # all but LLC-load-misses and what is made of it
        ("perf-6.12-no-pmu/perf-stat-system.json", 2 + 2 + 1, 1),
    ],
)
def test_a_recording_holds_what_it_says(recording, types, places, recordings):
    """Guards the reader above: what it expects of two recordings, counted by eye."""
    series, _ = expected_series((recordings / recording).read_text())
    assert len({metric_type for metric_type, _ in series}) == types
    assert len({place for metric_type, place in series if metric_type == "context-switches"}) == places
    # iTLB-loads of CPU 0 read 0 in the first interval, those of CPU 1 in the second: no ratio there
    incomplete = [(metric_type, len(rows)) for (metric_type, _), rows in series.items() if len(rows) != 3]
    assert incomplete == ([("itlb-miss-rate", 2), ("itlb-miss-rate", 2)] if places == 2 else [])


def test_no_recording_is_left_out(recordings):
    found = {str(path.relative_to(recordings)) for path in recordings.glob("perf-*/*") if path.is_file()}
    assert found >= set(RECORDINGS)
    assert {name for name in found if name.startswith("perf-6")} == set(RECORDINGS)


def test_the_table_here_is_the_documented_one():
    """README names every type that is expected here."""
    readme = REPO / "README.md"
    if not readme.is_file():
        pytest.skip("no README yet")
    words = readme.read_text()
    assert [name for name in (*DERIVED, "counter-running") if name not in words] == []
