# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""When samples begin and end: perf's own seconds become epoch milliseconds, both ends included, without seams, overlaps or false rates.

All times are seconds or ms after perf_output.EPOCH.
"""

import lzma
import os
from fractions import Fraction

import pytest
from perf_output import EPOCH, as_bytes, block, line, merged, post_process, process, read_back, run_of, write_clock, write_output

SWITCHES = "context-switches"
THREE = [*block(1.0, {SWITCHES: 10}), *block(2.0, {SWITCHES: 20}), *block(2.5, {SWITCHES: 30})]


def timed(*intervals):
    """Records of context-switches: (time, count) each."""
    return [line(time, SWITCHES, count) for time, count in intervals]


# ---- the anchor


def test_perfs_last_interval_ended_when_perf_was_told_to_end(data_dir):
    """perf took 0.8 s to open its counters: what counts is its end."""
    done = post_process(data_dir, THREE, begin=99.2, end=102.5)
    assert done.rc == 0
    assert done.metrics.samples(SWITCHES) == [(100_001, 101_000, 10), (101_001, 102_000, 20), (102_001, 102_500, 30)]


def test_fractions_of_a_millisecond_are_rounded_once(data_dir):
    records = timed((1.0004, 10), (2.0008, 20), (3.0012, 30))
    done = post_process(data_dir, records, end=3.0012)
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2001, 20), (2002, 3001, 30)]


def test_without_an_end_times_count_from_the_launch(data_dir):
    done = post_process(data_dir, THREE, begin=50.25, end=None)
    assert done.rc == 0
    assert done.metrics.samples(SWITCHES) == [(50_251, 51_250, 10), (51_251, 52_250, 20), (52_251, 52_750, 30)]


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize(
    "clock",
    [None, "", "trace-cmd begin 5.0\ntrace-cmd end 9.0\n", "no clock\n\0\xff perf-stat begin\nperf-stat end soon\n"],
    ids=["none", "empty", "another subtool's", "damaged"],
)
def test_without_a_clock_the_outputs_mtime_is_its_last_interval(archive, clock, data_dir):
    path = write_output(data_dir, THREE, archive)
    os.utime(path, ns=(0, (EPOCH * 1000 + 7500) * 10**6))
    if clock is not None:
        (data_dir / "kerneltools-clock.txt").write_text(clock, encoding="latin-1")
    done = process(data_dir)
    assert done.rc == 0
    assert done.metrics.samples(SWITCHES) == [(5001, 6000, 10), (6001, 7000, 20), (7001, 7500, 30)]


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("cut", [1, 30, 150])
def test_a_cut_last_line_makes_times_count_from_the_launch(cut, archive, data_dir):
    """The disk was full at 2.0; perf was told to end long after."""
    output = as_bytes(THREE)[: -1 - cut]
    done = post_process(data_dir, output, archive, begin=0.5, end=60.0)
    assert done.rc == 1
    assert done.metrics.samples(SWITCHES) == [(501, 1500, 10), (1501, 2500, 20)]
    assert "perf-stat" in done.log


def test_a_truncated_archive_makes_times_count_from_the_launch(data_dir):
    counts = [(float(second), second * 7919 % 1000) for second in range(1, 2001)]
    archive = lzma.compress(as_bytes(timed(*counts)))
    (data_dir / "perf-stat-output.json.xz").write_bytes(archive[: len(archive) // 2])
    write_clock(data_dir, begin=0.5, end=2000.0)
    done = process(data_dir)
    assert done.rc == 1
    samples = done.metrics.samples(SWITCHES)
    assert 100 < len(samples) < 2000
    assert samples == [(500 + 1000 * second + 1, 1500 + 1000 * second, (second + 1) * 7919 % 1000) for second in range(len(samples))]


def test_a_stray_last_line_leaves_the_end_as_the_anchor(data_dir):
    """The tail is whole: something was printed after it."""
    done = post_process(data_dir, [*THREE, "perf: something else"], begin=-3.0, end=2.5)
    assert done.rc == 1
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 2500, 30)]


@pytest.mark.parametrize(("begin", "end"), [(-5.5, 2.5), (0.5, 2.5)], ids=["5.5 s of opening", "counting before the launch"])
def test_an_unlikely_start_is_said_in_the_log(begin, end, data_dir):
    usual = post_process(data_dir, THREE, begin=-1.0, end=2.5)
    done = post_process(data_dir, THREE, begin=begin, end=end)
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 2500, 30)]
    assert "end" in done.log
    assert done.log != usual.log
    assert done.rc == 0


def test_a_suspended_machine_is_named_as_a_reason_for_a_late_start(data_dir):
    """perf's clock stood still for 600 s; nothing in its output tells when."""
    done = post_process(data_dir, THREE, begin=-600.0, end=2.5)
    assert done.rc == 0
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 2500, 30)]
    assert "NOTE: perf-stat: times are counted back from the end of collection" in done.log
    assert "600.000 s after the launch" in done.log
    assert "the machine was suspended" in done.log


def test_without_an_end_a_suspended_machine_is_named_as_well(data_dir):
    path = write_output(data_dir, THREE)
    os.utime(path, ns=(0, (EPOCH * 1000 + 602_500) * 10**6))
    write_clock(data_dir, begin=0.0)
    done = process(data_dir)
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 2500, 30)]
    assert "modification time is 600.000 s later than its last time" in done.log
    assert "the machine was suspended" in done.log


@pytest.mark.parametrize("begin", [-4.9, -0.001])
def test_a_likely_start_needs_no_words(begin, data_dir):
    assert post_process(data_dir, THREE, begin=begin, end=2.5).log == ""


# ---- samples without seams


def test_samples_of_a_run_are_contiguous_from_its_start_to_its_end(data_dir):
    counts = [(Fraction(1_001_137, 1_000_000) * tick, 100 + tick) for tick in range(1, 101)]
    done = post_process(data_dir, timed(*((float(time), count) for time, count in counts)), end=100.1137)
    samples = done.metrics.samples(SWITCHES)
    assert [count for *_, count in samples] == list(range(101, 201))
    assert samples[0][0] == 1
    assert samples[-1][1] == 100_114
    assert [begin for begin, *_ in samples[1:]] == [end + 1 for _, end, _ in samples[:-1]]
    assert [end for _, end, _ in samples] == [round(time * 1000) for time, _ in counts]


def test_a_metric_that_appears_late_begins_with_its_own_interval(data_dir):
    done = post_process(data_dir, run_of({SWITCHES: 1}, {SWITCHES: 2}, {SWITCHES: 3, "cycles": 4}, {SWITCHES: 5, "cycles": 6}))
    assert done.rc == 0
    assert done.metrics.samples("cycles") == [(2001, 3000, 4), (3001, 4000, 6)]
    assert done.metrics.samples("cycles-sec") == [(2001, 3000, 4e-09), (3001, 4000, 6e-09)]


def test_the_short_last_interval_has_its_true_rate(data_dir):
    done = post_process(data_dir, timed((10.0, 1000), (20.0, 1000), (20.25, 1000)))
    assert done.metrics.samples("context-switches-sec") == [(1, 20_000, 100), (20_001, 20_250, 4000)]


def test_the_first_interval_is_as_long_as_perf_says(data_dir):
    done = post_process(data_dir, timed((0.5, 1000), (2.5, 1000)))
    assert done.metrics.samples("context-switches-sec") == [(1, 500, 2000), (501, 2500, 500)]


def test_a_jump_in_perfs_own_time_is_one_long_sample(data_dir):
    """The machine slept for two hours; the counts cover them."""
    done = post_process(data_dir, timed((1.0, 10), (2.0, 20), (7202.0, 720_000), (7203.0, 40)))
    assert done.rc == 0
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 7_202_000, 720_000), (7_202_001, 7_203_000, 40)]
    assert done.metrics.values("context-switches-sec") == [10, 20, 100, 40]


# ---- intervals without a value


def holed(missing, before, after):
    """context-switches counted in every second, cycles not in the `missing` ones after the second."""
    cycles = [before, before, *["<not counted>"] * missing, after, after]
    return run_of(*({SWITCHES: 100, "cycles": count} for count in cycles))


@pytest.mark.parametrize("after", [7, 5], ids=["another value after it", "the same value after it"])
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_sample_reaches_back_over_up_to_three_missing_intervals(missing, after, data_dir):
    done = post_process(data_dir, holed(missing, 5, after))
    end = (4 + missing) * 1000
    assert done.rc == 0
    assert done.metrics.samples("cycles") == merged([(1, 2000, 5), (2001, end, after)])
    assert done.metrics.samples("cycles-sec") == merged([(1, 2000, 5e-09), (2001, end, after / 1e9)])
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, end, 100)]
    assert done.metrics.samples(SWITCHES) == [(1, end, 100)]


@pytest.mark.parametrize("after", [7, 5], ids=["another value after it", "the same value after it"])
@pytest.mark.parametrize("missing", [4, 10])
def test_a_longer_hole_stays_and_is_said(missing, after, data_dir):
    done = post_process(data_dir, holed(missing, 5, after))
    end = (4 + missing) * 1000
    assert done.rc == 0
    assert done.metrics.samples("cycles") == [(1, 2000, 5), (end - 1999, end, after)]
    assert done.metrics.samples("cycles-sec") == [(1, 2000, 5e-09), (end - 1999, end, after / 1e9)]
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, 2000, 100), (end - 1999, end, 100)]
    assert done.metrics.samples(SWITCHES) == [(1, end, 100)]
    assert "cycles" in done.log
    assert "hole" in done.log


def test_a_hole_of_zeros_between_zeros_stays_visible(data_dir):
    done = post_process(data_dir, holed(4, 0, 0))
    assert done.metrics.samples("cycles") == [(1, 2000, 0), (6001, 8000, 0)]


def test_two_short_holes_are_each_reached_over(data_dir):
    cycles = [5, "<not counted>", "<not counted>", 6, "<not counted>", "<not counted>", "<not counted>", 7]
    done = post_process(data_dir, run_of(*({SWITCHES: 1, "cycles": count} for count in cycles)))
    assert done.metrics.samples("cycles") == [(1, 1000, 5), (1001, 4000, 6), (4001, 8000, 7)]


def test_a_rate_after_an_uncounted_interval_is_of_its_own_interval_only(data_dir):
    done = post_process(
        data_dir,
        [
            *block(1.0, {SWITCHES: 10, "instructions": 1}),
            *block(3.0, {SWITCHES: "<not counted>", "instructions": 1}),
            *block(5.0, {SWITCHES: 10, "instructions": 1}),
        ],
    )
    assert done.metrics.samples("context-switches-sec") == [(1, 1000, 10), (1001, 5000, 5)]


def test_a_rate_after_an_interval_without_its_event_is_of_its_own_interval_only(data_dir):
    done = post_process(
        data_dir, [*block(1.0, {SWITCHES: 10}), *block(3.0, {"instructions": 1}), *block(5.0, {SWITCHES: 10, "instructions": 1})]
    )
    assert done.rc == 0
    assert done.metrics.samples("context-switches-sec") == [(1, 1000, 10), (1001, 5000, 5)]


def test_a_ratio_reaches_back_over_an_interval_with_a_zero_denominator(data_dir):
    counts = [(6, 4), (6, 0), (2, 4)]
    done = post_process(data_dir, run_of(*({"instructions": instructions, "cycles": cycles} for instructions, cycles in counts)))
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 3000, 0.5)]
    assert done.metrics.samples("cycles") == [(1, 1000, 4), (1001, 2000, 0), (2001, 3000, 4)]


# ---- intervals that were lost


def test_where_lines_were_lost_a_rate_is_of_the_usual_length(data_dir):
    """Two intervals became garbage: the counts of the next cover one second, not three."""
    output = [*timed((1.0, 10), (2.0, 10), (3.0, 10)), "garbage", *timed((6.0, 10), (7.0, 10))]
    done = post_process(data_dir, output)
    assert done.rc == 1
    assert done.metrics.samples("context-switches-sec") == [(1, 7000, 10)]
    assert done.metrics.samples(SWITCHES) == [(1, 7000, 10)]


def test_where_many_intervals_were_lost_the_hole_stays(data_dir):
    output = [*timed((1.0, 10), (2.0, 10), (3.0, 10)), "garbage", *timed((103.0, 10), (104.0, 10))]
    done = post_process(data_dir, output)
    assert done.rc == 1
    assert done.metrics.samples("context-switches-sec") == [(1, 3000, 10), (102_001, 104_000, 10)]
    assert done.metrics.samples(SWITCHES) == [(1, 3000, 10), (102_001, 104_000, 10)]


def test_lines_lost_before_a_short_interval_do_not_lengthen_it(data_dir):
    done = post_process(data_dir, [*timed((1.0, 10), (2.0, 10), (3.0, 10)), "garbage", *timed((3.5, 10))])
    assert done.metrics.samples("context-switches-sec") == [(1, 3000, 10), (3001, 3500, 20)]


def test_a_line_lost_within_an_interval_does_not_shorten_the_next(data_dir):
    """perf slept for 8 s after it; nothing is missing between the two."""
    output = [
        *timed((1.0, 10), (2.0, 10)), '{"interval" : 2.000000000, "counter-val', line(2.0, "cycles", 5), *timed((10.0, 80), (11.0, 10))
    ]  # fmt: skip
    done = post_process(data_dir, output)
    assert done.rc == 1
    assert done.metrics.samples("context-switches-sec") == [(1, 11_000, 10)]


# ---- intervals that are none


def test_a_duplicated_block_is_dropped_and_counted(data_dir):
    one, two, three = timed((1.0, 10)), timed((2.0, 20)), timed((3.0, 30))
    done = post_process(data_dir, [*one, *two, *one, *two, *three])
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30)]
    assert done.metrics.values("context-switches-sec") == [10, 20, 30]
    assert "2 times" in done.log or "2 intervals" in done.log


def test_a_block_repeated_at_once_is_not_counted_twice(data_dir):
    done = post_process(data_dir, [*timed((1.0, 10), (2.0, 20), (2.0, 20), (3.0, 30))])
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30)]


def test_a_block_out_of_order_is_dropped_and_said(data_dir):
    done = post_process(data_dir, timed((1.0, 10), (3.0, 30), (2.0, 20), (4.0, 40)))
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 3000, 30), (3001, 4000, 40)]
    assert done.metrics.values("context-switches-sec") == [10, 15, 40]
    assert "dropped" in done.log


def test_a_sigint_right_after_a_tick_makes_no_wild_rate(data_dir):
    done = post_process(data_dir, timed((1.0, 10), (2.0, 20), (2.0003, 1)), end=2.0003)
    assert done.metrics.samples(SWITCHES) == [(1, 1000, 10), (1001, 2000, 20)]
    assert done.metrics.values("context-switches-sec") == [10, 20]
    assert "dropped" in done.log


def test_an_output_whose_only_interval_is_at_zero_has_no_sample(data_dir):
    done = post_process(data_dir, timed((0.0, 10)))
    assert SWITCHES not in done.metrics.types


# ---- what a query over the whole run gives


def cdm_average(rows, begin, end):
    """The average over [begin, end] as CDM folds it: weighted by duration over the window, a stretch without samples as zero."""
    inside = [(max(first, begin), min(last, end), value) for first, last, value in rows if first <= end and last >= begin]
    total = sum(Fraction(value) * (last - first + 1) for first, last, value in inside)
    return total / (end - begin + 1)


def test_the_average_of_a_rate_over_the_run_is_all_counts_by_all_time(data_dir):
    counts = [(1.0, 1000), (2.25, 500), (3.0, 90_000), (10.0, 3), (10.5, 777)]
    done = post_process(data_dir, timed(*counts))
    rows = done.metrics.samples("context-switches-sec")
    assert float(cdm_average(rows, 1, 10_500)) == pytest.approx(sum(count for _, count in counts) / 10.5, rel=1e-6)


def test_rates_of_places_add_up_to_the_machines(data_dir):
    records = [line(time, SWITCHES, count, socket=socket) for time, socket, count in (
        (2.0, "S0", 10), (2.0, "S1", 30), (3.0, "S0", 7), (3.0, "S1", 3), (3.5, "S0", 11), (3.5, "S1", 0))]  # fmt: skip
    metrics = post_process(data_dir, records).metrics
    averages = [cdm_average(metrics.samples("context-switches-sec", package=package), 1, 3500) for package in ("0", "1")]
    assert float(sum(averages)) == pytest.approx(61 / 3.5, rel=1e-6)


def test_times_are_those_of_the_real_command_too(data_dir, run_script):
    write_output(data_dir, THREE)
    write_clock(data_dir, begin=-0.2, end=2.5)
    done = run_script("kerneltools-post-process")
    assert (done.rc, done.err) == (0, "")
    assert read_back(data_dir).samples("context-switches-sec") == [(1, 1000, 10), (1001, 2000, 20), (2001, 2500, 60)]


def test_a_file_time_of_1970_publishes_nothing_before_the_epoch(data_dir):
    """With no clock file the mtime is all there is; a wrong one must not make times that no index takes."""
    path = write_output(data_dir, run_of({"cs": 1}, {"cs": 2}, {"cs": 3}))
    os.utime(path, (1.5, 1.5))
    done = process(data_dir)
    assert done.rc == 1
    assert "interval" in done.out
