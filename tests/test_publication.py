# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Publishing whole rows does what publishing their values one by one does, to the last byte, whatever is missing between."""

import lzma
import math
import os
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kerneltools import curves, sink
from kerneltools.catalogue import Bound, load
from kerneltools.clock import Interval
from kerneltools.log import Log
from kerneltools.publication import Publication, Row

CATALOGUE = load()
SUM = next(metric for metric in CATALOGUE if metric.type == "context-switches-sec")
MEAN = next(metric for metric in CATALOGUE if metric.type == "ipc")._replace(bound=Bound(0, 2**61))
SERIES = 5
TOOLBOX = os.environ.get("TOOLBOX_HOME", "")

VALUE = st.sampled_from([None, 0, 1, 1.0, 2, 0.1, 2**62])
# rows of some of the series, in some order, and what is in each interval: how many intervals are missing before it, how
# many ms lie between it and the one before, which row, its values; a row of None: its values come one by one
ROWS = st.lists(st.lists(st.integers(0, SERIES - 1), min_size=1, max_size=SERIES), min_size=1, max_size=2)
INTERVAL = st.tuples(
    st.sampled_from([0] * 12 + [1, 3, 4]),
    st.sampled_from([0] * 12 + [7]),
    st.sampled_from([0] * 12 + [1, None]),
    st.lists(VALUE, min_size=SERIES, max_size=SERIES) | st.lists(st.integers(0, 2), min_size=SERIES, max_size=SERIES),
)


def published(rows, intervals, by_row, max_rows, toolbox=""):
    """The bytes of the metric files, the summary, the curves as text, and the log, of these intervals."""
    with (
        tempfile.TemporaryDirectory() as directory,
        mock.patch.dict(os.environ, TOOLBOX_HOME=toolbox),
        mock.patch.multiple(sink.MetricFiles.__init__, __defaults__=(max_rows,)),
        mock.patch.multiple(curves, BUFFERED=40),
    ):
        log = Log()
        publication = Publication(Path(directory), "perf-stat", "perf-stat-0123456789ab", CATALOGUE, log)
        publication.expect(len(intervals))
        numbers = [publication.series((MEAN, SUM)[number % 2], {"cpu": str(number)}) for number in range(SERIES)]
        made = [Row([numbers[series] for series in row]) for row in rows]
        end, ordinal = 1000, -1
        for skipped, apart, which, values in intervals:
            ordinal += skipped + 1
            begin = end + 1 + apart + 10 * skipped
            end = begin + 9
            interval = Interval(begin, end, 0.01, ordinal)
            row = made[(which or 0) % len(made)]
            if by_row and which is not None:
                publication.publish(row, interval, values[: len(row.numbers)])
                continue
            for number, value in zip(row.numbers, values):
                if value is not None:
                    publication.sample(number, interval, value)
        begun = [publication.is_begun(number) for number in numbers]
        done = publication.finish()
        files = {path.name: lzma.decompress(path.read_bytes()) for path in Path(directory).iterdir()}
        assert not done.curves.fault
        return files, done.prefixes, done.summary, drawn(done.curves), begun, log.lines()


def drawn(of):
    """All that the curves of a publication hold."""
    found = [list(of.axis.begins), list(of.axis.ends), list(of.series_axis.ends), of.intervals]
    for type_curves in of.types.values():
        for curve in (type_curves.folded, type_curves.lowest, type_curves.highest, *(series.curve for series in type_curves.series)):
            while curve is not None and curve.means and math.isnan(curve.means[-1]):
                curve.means.pop()  # whether a curve ends with its last value or with holes behind it makes no difference
            found.append(curve and (str(list(curve.means)), str(list(curve.least)[: len(curve.means)])))
        found.append(type_curves.partial)
    return found


@settings(deadline=None, max_examples=400)
@example([[0, 1, 2, 3, 4]], [(0, 0, 0, [1, 2, 1, 2, 1])] * 3 + [(0, 0, 0, [1, None, 3, 2, 1])] * 2 + [(0, 0, 0, [1, 2, 1, 2, 1])] * 9, 1)
@example([[0, 1]], [(0, 0, 0, [1, 2, 0, 0, 0])] * 3 + [(0, 0, 0, [None] * 5)] * 5 + [(0, 0, 0, [1, 2, 0, 0, 0])] * 3, 100)
@given(ROWS, st.lists(INTERVAL, min_size=1, max_size=40), st.sampled_from([1, 40, 10_000]))
def test_rows_are_published_as_their_values_one_by_one_are(rows, intervals, max_rows):
    by_row, one_by_one = (published(rows, intervals, how, max_rows) for how in (True, False))
    if TOOLBOX:
        assert published(rows, intervals, True, max_rows, TOOLBOX)[0] == one_by_one[0]
    assert by_row[0] == one_by_one[0]
    assert by_row[1] == one_by_one[1]
    assert by_row[4] == one_by_one[4]
    # a row's values are held against their bounds before one of them is published
    assert sorted(by_row[5]) == sorted(one_by_one[5])
    for row, other in zip(by_row[2], one_by_one[2]):
        assert row._replace(mean=0) == other._replace(mean=0)
        assert math.isclose(row.mean, other.mean, rel_tol=1e-9)
    assert len(by_row[2]) == len(one_by_one[2])
    assert by_row[3] == one_by_one[3]


def test_a_value_beyond_its_bound_is_no_sample_and_the_next_one_covers_it():
    intervals = [(0, 0, 0, [1, 1]), (0, 0, 0, [2**62, 2**62]), (0, 0, 0, [3, 2**62])]
    for by_row in (True, False):
        files, _, summary, _, _, log = published([[0, 1]], intervals, by_row, 100)
        assert sorted(files["metric-data-perf-stat-0123456789ab.csv.xz"].decode().splitlines()) == [
            "0,1001,1010,1", "0,1011,1030,3", "1,1001,1010,1", f"1,1011,1030,{2**62}"
        ]  # fmt: skip
        assert [(row.type, row.samples, row.greatest) for row in summary] == [("ipc", 2, 3), ("context-switches-sec", 3, 2**62)]
        limits = f"values below 0 or above {2**61:.10g} are not published"
        assert log == [f"WARNING: perf-stat: ipc: {limits}: {2**62} (ipc cpu=0, at 1.020)"]
