# SPDX-License-Identifier: Apache-2.0
"""What frames become: rows, sums and holes, held against a plain reading of the rules, value by value."""

import json
import lzma
import math
import os
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kerneltools import metric_files
from kerneltools.catalogue import Bound, load
from kerneltools.clock import Interval
from kerneltools.frames import Frame, SeriesList
from kerneltools.log import Log
from kerneltools.publication import Publication

CATALOGUE = load()
SUM = next(metric for metric in CATALOGUE if metric.type == "context-switches-sec")
MEAN = next(metric for metric in CATALOGUE if metric.type == "ipc")._replace(bound=Bound(0, 2**61))
METRICS = (MEAN, SUM)
SERIES = 5
REACH_BACK = 3
TOOLBOX = os.environ.get("TOOLBOX_HOME", "")

VALUE = st.sampled_from([None, 0, 1, 1.0, 2, 0.1, 2**62])
# how many intervals are missing before one, how many ms lie between it and the one before, how many series are known by now,
# and their values
FRAME = st.tuples(
    st.sampled_from([0] * 12 + [1, 3, 4]),
    st.sampled_from([0] * 12 + [7]),
    st.integers(1, SERIES),
    st.lists(VALUE, min_size=SERIES, max_size=SERIES) | st.lists(st.integers(0, 2), min_size=SERIES, max_size=SERIES),
)


def frames(drawn):
    """The intervals and values that were drawn, as (interval, values)."""
    end, ordinal, known = 1000, -1, 1
    found = []
    for skipped, apart, number, values in drawn:
        known = max(known, number)
        ordinal += skipped + 1
        begin = end + 1 + apart + 10 * skipped
        end = begin + 9
        found.append((Interval(begin, end, 0.01, ordinal), values[:known]))
    return found


def published(found, most_rows, toolbox=""):
    """The bytes of the metric files, what was published, and the log."""
    with (
        tempfile.TemporaryDirectory() as directory,
        mock.patch.dict(os.environ, TOOLBOX_HOME=toolbox),
        mock.patch.object(metric_files, "MOST_ROWS", most_rows),
    ):
        log, series = Log(), SeriesList()
        publication = Publication(Path(directory), "perf-stat", "perf-stat", CATALOGUE, series, len(found), log)
        for interval, values in found:
            for number in range(len(values)):
                assert series.number(METRICS[number % 2], {"cpu": str(number)}) == number
            publication.publish(Frame(interval, values))
        done = publication.finish()
        assert not done.curves.fault
        return {path.name: lzma.decompress(path.read_bytes()) for path in Path(directory).iterdir()}, done, log.lines()


def rows_of(files):
    """By CPU the rows of its series, as texts "begin,end,value"."""
    found = {}
    for name, content in files.items():
        if ".json" in name:
            cpus = {str(entry["idx"]): entry["names"]["cpu"] for entry in json.loads(content)}
            for row in files[name.replace(".json", ".csv")].decode().splitlines():
                idx, rest = row.split(",", 1)
                found.setdefault(cpus[idx], []).append(rest)
    return found


def plain_samples(found, number):
    """The samples of a series as (begin, end, value, whether it is behind a hole), by the rules, one value after the other."""
    samples = []
    last = None  # end and ordinal
    for interval, values in found:
        value = values[number] if number < len(values) else None
        if value is None or not METRICS[number % 2].bound.admits(value):
            continue
        follows = last is not None and interval.ordinal - last[1] - 1 <= REACH_BACK
        samples.append((last[0] + 1 if follows else interval.begin, interval.end, value, last is not None and not follows))
        last = interval.end, interval.ordinal
    return samples


def plain_rows(samples):
    """Equal values that follow each other are one row; the first behind a hole that is equal to its predecessor stays alone."""
    rows = []
    alone = False
    for begin, end, value, behind_hole in samples:
        if rows and not behind_hole and not alone and rows[-1][2] == value:
            rows[-1][1] = end
        else:
            alone = behind_hole and rows[-1][2] == value
            rows.append([begin, end, value])
            continue
        alone = False
    return [",".join(map(str, row)) for row in rows]


@settings(deadline=None, max_examples=400)
@example([(0, 0, 5, [1, 2, 1, 2, 1])] * 3 + [(0, 0, 5, [1, None, 3, 2, 1])] * 2 + [(0, 0, 5, [1, 2, 1, 2, 1])] * 9, 1)
@example([(0, 0, 5, [1, 2, 0, 0, 0])] * 3 + [(0, 0, 5, [None] * 5)] * 5 + [(0, 0, 5, [1, 2, 0, 0, 0])] * 3, 100)
@example([(0, 0, 1, [1.0] * 5), (4, 0, 1, [1] * 5), (4, 0, 1, [1.0] * 5), (0, 0, 1, [1] * 5)], 100)
@given(st.lists(FRAME, min_size=1, max_size=40), st.sampled_from([1, 40, 10_000]))
def test_frames_become_the_rows_that_the_rules_say(drawn, most_rows):
    found = frames(drawn)
    files, done, log = published(found, most_rows)
    samples = {str(number): plain_samples(found, number) for number in range(SERIES)}
    assert rows_of(files) == {cpu: plain_rows(of) for cpu, of in samples.items() if of}
    if TOOLBOX:
        assert published(found, most_rows, TOOLBOX)[0] == files
    for row in done.summary:
        of_type = [sample for cpu, of in samples.items() if METRICS[int(cpu) % 2].type == row.type for sample in of]
        durations = [end - begin + 1 for begin, end, _, _ in of_type]
        values = [value for _, _, value, _ in of_type]
        assert (row.samples, row.least, row.greatest) == (len(of_type), min(values), max(values))
        assert row.series == sum(bool(of) for cpu, of in samples.items() if METRICS[int(cpu) % 2].type == row.type)
        assert math.isclose(row.mean, sum(map(float.__mul__, map(float, values), map(float, durations))) / sum(durations), rel_tol=1e-9)
    assert {row.type for row in done.summary} == {METRICS[int(cpu) % 2].type for cpu, of in samples.items() if of}
    holes = sum(behind for of in samples.values() for *_, behind in of)
    assert sum("holes (more than 3 intervals" in line for line in log) == (holes > 0)
    assert not holes or (f"({holes} times)" in "".join(log)) == (holes > 1)


def test_a_value_beyond_its_bound_is_no_sample_and_the_next_one_covers_it():
    drawn = [(0, 0, 2, [1, 1]), (0, 0, 2, [2**62, 2**62]), (0, 0, 2, [3, 2**62])]
    files, done, log = published(frames(drawn), 100)
    assert rows_of(files) == {"0": ["1001,1010,1", "1011,1030,3"], "1": ["1001,1010,1", f"1011,1030,{2**62}"]}
    assert [(row.type, row.samples, row.greatest) for row in done.summary] == [("ipc", 2, 3), ("context-switches-sec", 3, 2**62)]
    limits = f"values below 0 or above {2**61:.10g} are not published"
    assert log == [f"WARNING: perf-stat: ipc: {limits}: {2**62} (ipc cpu=0, at 1.020)"]


def test_one_series_has_one_place_whatever_the_order_of_its_breakouts():
    series = SeriesList()
    assert series.number(MEAN, {"core": "1", "cpu": "3"}) == 0
    assert series.number(MEAN, {"core": "2", "cpu": "3"}) == 1
    assert series.number(MEAN, {"cpu": "3", "core": "1"}) == 0
    assert series.number(MEAN, {"core": "1", "cpu": "3"}, "another type") == 2


def test_frames_without_a_value_leave_nothing():
    files, done, log = published([(Interval(1001, 1010, 0.01, 0), [None]), (Interval(1011, 1020, 0.01, 1), [None])], 100)
    assert (files, done.prefixes, done.summary, log) == ({}, [], [], [])


def test_a_frame_that_is_not_later_than_the_one_before_is_refused():
    with pytest.raises(ValueError, match="an interval cannot end at 1010, 1010 was the last end"):
        published([(Interval(1001, 1010, 0.01, 0), [1]), (Interval(1001, 1010, 0.01, 1), [1])], 100)
