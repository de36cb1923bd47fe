# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Damaged and strange perf-stat output: it costs what it costs, is counted by line, and everything else is published.

That no nan, infinity or malformed row is ever published is asserted by perf_output.read_back, in every test.
"""

import json
import lzma
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perf_output import as_bytes, block, line, post_process, process, read_back, run_of, write_clock, write_output, write_topology

SWITCHES = "context-switches"
FOUR = run_of(*({SWITCHES: 10 * second, "instructions": 6, "cycles": 4} for second in (1, 2, 3, 4)))
FOUR_SWITCHES = [(1, 1000, 10), (1001, 2000, 20), (2001, 3000, 30), (3001, 4000, 40)]
HEAD = '{"interval" : 2.000000000, "counter-value" : '


def odd(counter='"5.000000"', event='"page-faults"', running="100.00", interval="2.000000000", place=""):
    """One record of page-faults in interval 2, its values given as JSON text."""
    return (
        f'{{"interval" : {interval}, {place}"counter-value" : {counter}, "unit" : "", "event" : {event}, '
        f'"event-runtime" : 1000000000, "pcnt-running" : {running}, "metric-value" : "0.000000", "metric-unit" : "(null)"}}'
    )


def inserted(*lines):
    """FOUR with lines put into its second interval; FOUR[5] is the last record of that."""
    return [*FOUR[:5], *lines, *FOUR[5:]]


def assert_four_are_whole(done):
    assert done.metrics.samples(SWITCHES) == FOUR_SWITCHES
    assert done.metrics.samples("context-switches-sec") == FOUR_SWITCHES
    assert done.metrics.samples("ipc") == [(1, 4000, 1.5)]


# ---- what perf itself does: no loss


@pytest.mark.parametrize("word", ["<not counted>", "<not supported>"])
def test_uncounted_intervals_cost_only_their_own_samples(word, data_dir):
    counts = [{SWITCHES: 10, "cycles": 4, "instructions": 6}, {SWITCHES: 20, "cycles": word, "instructions": 6},
              {SWITCHES: 30, "cycles": 8, "instructions": word}, {SWITCHES: 40, "cycles": 4, "instructions": 8}]  # fmt: skip
    done = post_process(data_dir, run_of(*counts))
    assert done.rc == 0
    assert done.metrics.samples(SWITCHES) == FOUR_SWITCHES
    assert done.metrics.samples("cycles") == [(1, 1000, 4), (1001, 3000, 8), (3001, 4000, 4)]
    assert done.metrics.samples("instructions") == [(1, 2000, 6), (2001, 4000, 8)]
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 4000, 2)]


def test_a_zero_denominator_makes_no_ratio(data_dir):
    counts = [(6, 4), (6, 0), (0, 0), (0, 4)]
    done = post_process(data_dir, run_of(*({"instructions": instructions, "cycles": cycles} for instructions, cycles in counts)))
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 4000, 0)]
    assert done.metrics.samples("cycles") == [(1, 1000, 4), (1001, 3000, 0), (3001, 4000, 4)]


def test_a_denominator_of_zero_all_along_makes_no_metric(data_dir):
    done = post_process(data_dir, run_of({"LLC-load-misses": 0, "LLC-loads": 0}, {"LLC-load-misses": 5, "LLC-loads": 0}))
    assert done.rc == 0
    assert done.metrics.types == {"LLC-load-misses", "LLC-loads", "counter-running"}


def test_an_interval_may_have_other_events_than_the_one_before(data_dir):
    done = post_process(data_dir, run_of({"instructions": 6, "cycles": 4}, {SWITCHES: 5}, {"cycles": 8, SWITCHES: 7, "instructions": 4}))
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 3000, 0.5)]
    assert done.metrics.samples(SWITCHES) == [(1001, 2000, 5), (2001, 3000, 7)]


def rewritten(old, new):
    return [record.replace(old, new) for record in FOUR]


METRIC = ', "metric-value" : "0.000000", "metric-unit" : "(null)"}'
FURTHER_KEYS = '"cgroup" : "/", "variance" : 0.00, "metric-threshold" : "good", "metricgroup" : "a;b", "new" : [{}], '
PRINTED = {
    "comma before brace (6.13)": rewritten(METRIC, ", }"),
    "no metric": rewritten(METRIC, "}"),
    "no opening brace": [record[1:] for record in FOUR],
    "neither": [record[1:].replace(METRIC, ", }") for record in FOUR],
    "empty lines between": [text for record in FOUR for text in (record, "")],
    "empty lines around": ["", "", *FOUR, "", ""],
    "blank lines": [text for record in FOUR for text in (record, "   ")],
    "nan": rewritten('"metric-value" : "0.000000"', '"metric-value" : nan'),
    "-nan": rewritten('"metric-value" : "0.000000"', '"metric-value" : -nan'),
    "nan in quotes": rewritten('"metric-value" : "0.000000"', '"metric-value" : "nan"'),
    "inf": rewritten('"metric-value" : "0.000000"', '"metric-value" : inf'),
    "unknown keys": rewritten('"metric-value"', FURTHER_KEYS + '"metric-value"'),
    "unknown key in front": ['{"host" : "a", ' + record[1:] for record in FOUR],
    "keys in another order": [json.dumps(dict(reversed(list(json.loads(record).items())))) for record in FOUR],
    "unit (null)": rewritten('"unit" : ""', '"unit" : "(null)"'),
    "no unit": rewritten('"unit" : "", ', ""),
    "no blanks": rewritten(" : ", ":"),
    "CRLF": [record.encode() + b"\r" for record in FOUR],
    "date": ["# started on Sun Nov 29 23:19:44 2026", "", *FOUR],
}


@pytest.mark.parametrize("output", PRINTED.values(), ids=PRINTED)
def test_how_a_version_of_perf_prints_costs_nothing(output, data_dir):
    done = post_process(data_dir, output, end=4.0)
    assert done.rc == 0
    assert "WARNING" not in done.log
    assert_four_are_whole(done)


def test_a_record_without_pcnt_running_still_counts(data_dir):
    done = post_process(data_dir, rewritten('"event-runtime" : 1000000000, "pcnt-running" : 100.00, ', ""))
    assert done.rc == 0
    assert_four_are_whole(done)
    assert "counter-running" not in done.metrics.types


# ---- counters that went wild


@pytest.mark.parametrize(
    "value", ["18446744073709551615", "9223372036854775808", "-1", "18446744073709551615.000000", "-1.000000", "1" + "0" * 39]
)
def test_a_wild_counter_is_no_sample(value, data_dir):
    counts = [{SWITCHES: 10 * second, "instructions": 6, "cycles": value if second == 2 else 4} for second in (1, 2, 3, 4)]
    done = post_process(data_dir, run_of(*counts))
    assert_four_are_whole(done)
    assert done.metrics.samples("cycles") == [(1, 4000, 4)]
    assert done.metrics.samples("cycles-sec") == [(1, 4000, 4e-09)]
    assert done.metrics.samples("instructions") == [(1, 4000, 6)]
    assert "cycles" in done.log
    assert value[:20] in done.log


def test_the_greatest_possible_count_is_published(data_dir):
    done = post_process(data_dir, run_of({"page-faults": "9223372036854775807"}))
    assert done.rc == 0
    assert done.metrics.samples("page-faults") == [(1, 1000, 2**63 - 1)]


def test_a_wild_counter_in_a_sum_over_instances_is_no_sample(data_dir):
    names = ["uncore_imc_0/clockticks/", "uncore_imc_1/clockticks/"]
    done = post_process(data_dir, run_of(*({names[0]: 5, names[1]: "18446744073709551615" if second == 2 else 7} for second in (1, 2, 3))))
    assert done.metrics.samples("uncore_imc/clockticks/") == [(1, 3000, 12)]


# ---- values of odd types


HUGE = "1" + "0" * 400  # an integer that no float can hold
READINGS = [("1e5", 100_000), (" 5 ", 5), ("5", 5), ("+5", 5)]  # of strings; what else is no number: None
NO_NUMBERS = ["", " ", "abc", "nan", "-nan", "inf", "1e999", "0x10", "--5", "5,5", "5.5.5", "<unknown>", "\u0665", "5_000"]
NO_NUMBERS += ["1" * 5000, "5" * 1_000_000]
NO_COUNTS = ["null", "[]", "[5]", "{}", "true", "false", "1e999", "NaN", "Infinity", "-Infinity", "-5", HUGE]


def short(parameter):
    return parameter if isinstance(parameter, str) and len(parameter) < 60 and parameter.isprintable() else None


@pytest.mark.parametrize(
    ("counter", "reading"),
    [
        *((json.dumps(text), reading) for text, reading in READINGS),
        *((json.dumps(text), None) for text in NO_NUMBERS),
        *((text, None) for text in NO_COUNTS),
        ("5", 5),
        ("5.0", 5),
    ],
    ids=short,
)
def test_an_odd_counter_value_is_read_as_what_it_says_or_not_at_all(counter, reading, data_dir):
    done = post_process(data_dir, inserted(odd(counter)), end=4.0)
    assert_four_are_whole(done)
    if "page-faults" in done.metrics.types:
        assert done.metrics.samples("page-faults") == [(1001, 2000, reading)]
    else:
        assert reading is None or done.rc == 1
    if reading is None:
        assert done.rc == 1
        assert "page-faults" in done.log or "line 6" in done.log


ODD_EVENTS = ["", " ", "\0", "a\nb", "\ud800", "/", "//", ":", "[x]", " [cpu]", "a/b/c/d", "{a,b}:W", "e" * 5000, "ünï", 'a,b"c']


@pytest.mark.parametrize("event", [json.dumps(event) for event in ODD_EVENTS], ids=short)
def test_an_odd_event_name_costs_no_other_event(event, data_dir):
    done = post_process(data_dir, inserted(odd(event=event)), end=4.0)
    assert_four_are_whole(done)
    assert done.rc in (0, 1)


@pytest.mark.parametrize(
    "record",
    [
        *(odd(event=event) for event in ("null", "5", "[]", "{}", "true")),
        odd().replace('"event"', '"evenu"'),
        odd().replace('"counter-value"', '"counter-valve"'),
        odd().replace('"interval"', '"intervbl"'),
    ],
    ids=["null", "5", "list", "object", "true", "event's key", "counter-value's key", "interval's key"],
)
def test_a_count_that_cannot_be_published_for_its_broken_record_is_a_counted_loss(record, data_dir):
    """Lines with neither event nor counter-value are perf's own; one of the two without the other is damage."""
    done = post_process(data_dir, inserted(record), end=4.0)
    assert_four_are_whole(done)
    assert "page-faults" not in done.metrics.types
    assert done.rc == 1
    assert "WARNING" in done.log


ODD_NUMBERS = ["null", '"x"', '""', "[]", "{}", "true", "false", "NaN", "nan", "-nan", "Infinity", "-Infinity", "1e999", "-1e999", "1e300"]
ODD_NUMBERS += [HUGE]


@pytest.mark.parametrize("running", [*ODD_NUMBERS, '"50.00"', "-5", "-0.0", "250"], ids=short)
def test_an_odd_pcnt_running_never_costs_the_count(running, data_dir):
    done = post_process(data_dir, inserted(odd(running=running)), end=4.0)
    assert_four_are_whole(done)
    assert done.metrics.samples("page-faults") == [(1001, 2000, 5)]
    if {"counter": "page-faults"} in done.metrics.places("counter-running"):
        (value,) = done.metrics.values("counter-running", counter="page-faults")
        assert value == {'"50.00"': 50, "250": 250, "-0.0": 0, "1e300": 1e300}.get(running), "a share that perf did not print"


@pytest.mark.parametrize("interval", [*ODD_NUMBERS, '"2.0"', "-1.0", "1e-400", "1" + "0" * 5000], ids=short)
def test_an_odd_interval_costs_only_its_own_record(interval, data_dir):
    done = post_process(data_dir, inserted(odd(interval=interval)), end=4.0)
    assert_four_are_whole(done)
    if "page-faults" in done.metrics.types:
        assert interval == '"2.0"'
        assert done.metrics.samples("page-faults") == [(1001, 2000, 5)]
    else:
        assert done.rc == 1
        assert "line 6" in done.log


@pytest.mark.parametrize("interval", ["93.000000000", "9000000000.0"])
def test_one_interval_far_in_the_future_does_not_cost_the_rest_of_the_run(interval, data_dir):
    """One damaged digit; the record behind it is lost, not every interval that is earlier than it, nor the time of those before."""
    done = post_process(data_dir, inserted(odd(interval=interval)), end=4.0)
    assert done.rc == 1
    assert "line 6" in done.log
    assert done.metrics.samples(SWITCHES)[-1] == FOUR_SWITCHES[-1]
    assert done.metrics.samples(SWITCHES)[0] == FOUR_SWITCHES[0]
    assert done.metrics.values(SWITCHES) == [10, 20, 30, 40]


@pytest.mark.parametrize(
    "place",
    [
        *(f'"cpu" : {json.dumps(cpu)}, ' for cpu in ("x", "", "-1", [], {}, "1e3", "\u0661", True, 1.5, "0-3", "9" * 5000)),
        *(f'"core" : "{core}", ' for core in ("S0", "S0-D0-Cx")),
        '"socket" : "0", ', '"node" : "S0", ', '"cache" : "S0-D0-L3-ID0", ',
    ],
    ids=short,
)  # fmt: skip
def test_a_place_that_is_none_costs_only_its_own_records(place, data_dir):
    write_topology(data_dir, {0: (0, 0, 0, "0")})
    names = {"package": "0", "die": "0", "core": "0", "thread": "0", "cpu": "0"}
    records = [*run_of({"cycles": 4}, {"cycles": 5}, cpu="0"), odd(place=place, event='"cycles"'), *block(3.0, {"cycles": 6}, cpu="0")]
    done = post_process(data_dir, records, end=3.0)
    assert done.metrics.places("cycles") == [names]
    assert done.metrics.samples("cycles", **names) == [(1, 1000, 4), (1001, 2000, 5), (2001, 3000, 6)]
    assert done.rc == 1
    assert done.log


# ---- lines that are none


@pytest.mark.parametrize(
    "garbage",
    [
        "Warning: Some events weren't counted.",
        "{", "}", "{}", "[]", "null", "5", '"text"', "{]", "\\", '{"interval"', '{"interval" : 2.0, ',
        HEAD + '"5.000000", "unit" : "", "ev',
        "[" * 100_000,
        '{"a":' * 100_000,
        HEAD + "[" * 100_000,
        "x" * 1_000_000,
        odd()[:-1] + "x" * 1_000_000,
        b"\0", b"\0" * 4096, b"\xff\xfe\x80", b"\xef\xbb\xbf",
        b'{"interval" : 2.0, "counter-value" : "5.\0", "unit" : "", "event" : "cyc\0les"}',
        b'{"interval" : 2.000000000, "counter-value" : "5\xb3.000000", "unit" : "", "event" : "page-faults"}',
        b'{"interval" : 2.000000000, "counter-value" : "5.000000", "unit" : "", "event" : "page-\xe6aults"}',
        "0.000000", "      2.000000000      <not counted>      cycles",
    ],
    ids=lambda garbage: repr(garbage[:24]),
)  # fmt: skip
def test_garbage_between_lines_costs_nothing_else(garbage, data_dir):
    done = post_process(data_dir, inserted(garbage), end=4.0)
    assert_four_are_whole(done)
    assert done.metrics.types == {
        SWITCHES, "context-switches-sec", "instructions", "instructions-sec", "cycles", "cycles-sec", "ipc", "counter-running"
    }  # fmt: skip
    if garbage not in ("{}", b"\xef\xbb\xbf"):
        assert done.rc == 1
        assert "line 6" in done.log
    assert len(done.log) < 2000
    assert all(text.isprintable() for text in done.log.splitlines())


def test_unreadable_lines_are_counted(data_dir):
    done = post_process(data_dir, [*FOUR[:4], "garbage", "more of it", *FOUR[4:], "and more"], end=4.0)
    assert done.rc == 1
    assert "3" in done.log
    assert "line 5" in done.log


def test_a_broken_record_costs_only_itself(data_dir):
    broken = [*FOUR]
    broken[4] = broken[4].replace('"unit"', '"unit', 1)  # instructions of the second interval
    done = post_process(data_dir, broken)
    assert done.rc == 1
    assert "line 5" in done.log
    assert done.metrics.samples(SWITCHES) == FOUR_SWITCHES
    assert done.metrics.samples("instructions") == [(1, 4000, 6)]
    assert done.metrics.samples("cycles") == [(1, 4000, 4)]
    assert done.metrics.samples("ipc") == [(1, 4000, 1.5)]


def test_a_broken_instance_makes_no_false_sum(data_dir):
    """Half a machine's memory traffic is a number that nobody counted."""
    names = ["uncore_imc_0/clockticks/", "uncore_imc_1/clockticks/"]
    records = run_of(*({names[0]: 5, names[1]: 7} for _ in range(3)))
    records[3] = records[3][:60]
    done = post_process(data_dir, records)
    assert done.rc == 1
    assert done.metrics.samples("uncore_imc/clockticks/") == [(1, 3000, 12)]


def test_of_two_records_on_one_line_nothing_else_is_lost(data_dir):
    done = post_process(data_dir, [*FOUR[:4], FOUR[4] + FOUR[5], *FOUR[6:]])
    assert done.rc in (0, 1)
    assert done.metrics.samples(SWITCHES) == FOUR_SWITCHES
    assert done.metrics.samples("instructions") == [(1, 4000, 6)]
    assert done.metrics.samples("ipc") == [(1, 4000, 1.5)]
    if done.rc == 1:
        assert "line 5" in done.log


def test_a_whole_record_behind_a_cut_one_costs_at_most_itself(data_dir):
    done = post_process(data_dir, [*FOUR[:4], FOUR[4][:50] + FOUR[5], *FOUR[6:]])
    assert done.rc == 1
    assert "line 5" in done.log
    assert done.metrics.samples(SWITCHES) == FOUR_SWITCHES
    assert done.metrics.samples("cycles") == [(1, 4000, 4)]


def test_a_file_of_garbage_publishes_nothing(data_dir):
    done = post_process(data_dir, ["garbage"] * 1000)
    assert done.rc == 1
    assert done.metrics.types == set()
    assert "1000" in done.log
    assert len(done.log) < 2000


def test_random_bytes_publish_nothing(data_dir):
    done = post_process(data_dir, bytes(value * value * 7 % 251 for value in range(20_000)))
    assert done.rc == 1
    assert done.metrics.types == set()


# ---- files that are cut or damaged


@pytest.mark.parametrize("keep", range(1, len(FOUR[-1]), 25))
def test_a_file_cut_in_its_last_line_loses_only_that(keep, data_dir):
    done = post_process(data_dir, as_bytes(FOUR[:-1]) + FOUR[-1][:keep].encode(), begin=0.0, end=4.0)
    assert done.rc == 1
    assert "line 12" in done.log
    assert done.metrics.samples(SWITCHES) == FOUR_SWITCHES
    assert done.metrics.samples("ipc") == [(1, 3000, 1.5)]


def test_a_last_line_that_lacks_only_its_line_feed_is_whole(data_dir):
    done = post_process(data_dir, as_bytes(FOUR)[:-1])
    assert done.rc == 0
    assert_four_are_whole(done)


@pytest.mark.parametrize("archive", [False, True])
def test_an_empty_file_publishes_nothing(archive, data_dir):
    done = post_process(data_dir, b"", archive)
    assert done.rc == 0
    assert done.metrics.types == set()


def test_an_archive_of_no_bytes_is_a_loss(data_dir):
    (data_dir / "perf-stat-output.json.xz").write_bytes(b"")
    write_clock(data_dir, 0, 4)
    done = process(data_dir)
    assert done.rc == 1
    assert done.metrics.types == set()


def many(intervals):
    """An output that does not compress into one block's worth of nothing: counts vary."""
    return [line(float(second), SWITCHES, second * second * 7919 % 99_991) for second in range(1, intervals + 1)]


def many_samples(intervals):
    return [(1000 * second - 999, 1000 * second, second * second * 7919 % 99_991) for second in range(1, intervals + 1)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_archive_gives_what_is_before_the_cut(share, data_dir):
    archive = lzma.compress(as_bytes(many(3000)))
    (data_dir / "perf-stat-output.json.xz").write_bytes(archive[: int(len(archive) * share)])
    write_clock(data_dir, 0, 3000)
    done = process(data_dir)
    assert done.rc == 1
    assert "perf-stat-output.json.xz" in done.log
    samples = done.metrics.samples(SWITCHES)
    assert samples == many_samples(3000)[: len(samples)]
    assert len(samples) > 3000 * share * 0.7


def test_an_archive_without_its_last_bytes_has_all_its_samples(data_dir):
    archive = lzma.compress(as_bytes(many(3000)))
    (data_dir / "perf-stat-output.json.xz").write_bytes(archive[:-10])
    write_clock(data_dir, 0, 3000)
    done = process(data_dir)
    assert done.rc == 1
    assert done.metrics.samples(SWITCHES) == many_samples(3000)


def test_an_archive_corrupt_in_its_middle_gives_what_is_before(data_dir):
    archive = bytearray(lzma.compress(as_bytes(many(3000))))
    middle = len(archive) // 2
    archive[middle : middle + 64] = bytes(64)
    (data_dir / "perf-stat-output.json.xz").write_bytes(archive)
    write_clock(data_dir, 0, 3000)
    done = process(data_dir)
    assert done.rc == 1
    assert "perf-stat-output.json.xz" in done.log
    samples = done.metrics.samples(SWITCHES)
    assert len(samples) > 500
    assert samples[:500] == many_samples(500)


def test_two_concatenated_xz_streams_are_one_file(data_dir):
    halves = as_bytes(FOUR[:7]), as_bytes(FOUR[7:])
    (data_dir / "perf-stat-output.json.xz").write_bytes(b"".join(lzma.compress(half) for half in halves))
    write_clock(data_dir, 0, 4)
    done = process(data_dir)
    assert done.rc == 0
    assert_four_are_whole(done)


def test_garbage_behind_an_archive_costs_none_of_it(data_dir):
    (data_dir / "perf-stat-output.json.xz").write_bytes(lzma.compress(as_bytes(FOUR)) + b"garbage!")
    write_clock(data_dir, 0, 4)
    done = process(data_dir)
    assert done.rc == 1
    assert_four_are_whole(done)


@pytest.mark.parametrize("archive", [b"not an archive", as_bytes(FOUR), lzma.compress(as_bytes(FOUR), lzma.FORMAT_ALONE)])
def test_what_is_no_archive_is_a_loss(archive, data_dir, run_script):
    (data_dir / "perf-stat-output.json.xz").write_bytes(archive)
    write_clock(data_dir, 0, 4)
    done = run_script("kerneltools-post-process")
    assert done.rc == 1
    assert "perf-stat-output.json.xz" in done.out
    assert "Traceback" not in done.out + done.err


def test_the_real_command_tells_a_loss_by_its_exit_code_and_its_line(data_dir, run_script):
    write_output(data_dir, inserted(b"\xff\xfe garbage \x1b[31m"))
    write_clock(data_dir, 0, 4)
    done = run_script("kerneltools-post-process", env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert (done.rc, done.err) == (1, "")
    assert "line 6" in done.out
    assert "\x1b" not in done.out
    assert read_back(data_dir).samples(SWITCHES) == FOUR_SWITCHES


def test_a_foreign_event_name_never_breaks_the_terminal(data_dir, run_script):
    write_output(data_dir, inserted(odd(event='"\\u001b[31m"'), odd(event='"\\ud800"')))
    write_clock(data_dir, 0, 4)
    done = run_script("kerneltools-post-process")
    assert done.rc in (0, 1)
    assert "Traceback" not in done.out + done.err
    assert "\x1b" not in done.out
    assert read_back(data_dir).samples(SWITCHES) == FOUR_SWITCHES


@pytest.mark.parametrize("text", [odd(event='"ünï"'), "garbage " * 100], ids=["event name", "long garbage"])
def test_what_is_printed_never_needs_more_than_the_callers_encoding(text, data_dir, run_script):
    write_output(data_dir, inserted(text))
    write_clock(data_dir, 0, 4)
    done = run_script("kerneltools-post-process", env={"PYTHONIOENCODING": "ascii"})
    assert done.rc == (0 if "page" in text or "ünï" in text else 1)
    assert done.err == ""
    assert read_back(data_dir).samples(SWITCHES) == FOUR_SWITCHES


def test_the_raw_file_counts_where_its_archive_is_incomplete(data_dir):
    (data_dir / "perf-stat-output.json.xz").write_bytes(lzma.compress(as_bytes(FOUR[:6]))[:-20])
    done = post_process(data_dir, FOUR)
    assert done.rc == 0
    assert_four_are_whole(done)


def test_a_damaged_topology_costs_only_breakouts(data_dir):
    write_topology(data_dir, {0: (0, 0, 0, "0"), 1: ("", "x\0", "\xff", "1-"), 2: ("-1", "", "5", "nonsense")})
    done = post_process(data_dir, [line(1.0, "cycles", 10 + cpu, cpu=str(cpu)) for cpu in range(3)])
    by_cpu = {names["cpu"]: done.metrics.values("cycles", **names) for names in done.metrics.places("cycles")}
    assert by_cpu == {"0": [10], "1": [11], "2": [12]}


# ---- anything at all


SMALL = as_bytes(
    [
        *run_of({"instructions": 6, "cycles": 4, SWITCHES: 3}, {"instructions": 7, "cycles": "<not counted>", SWITCHES: 0}, cpu="0"),
        *block(2.5, {"instructions": 8, "cycles": 5, SWITCHES: 9}, cpu="0"),
    ]
)
TOKENS = [b"\n", b'"', b"e999", b"-", b"{", b"}", b",", b"9" * 30, b"0" * 320, b"null", b"NaN", b"\r", b"true", b"["]
MUTATION = st.tuples(
    st.sampled_from(["insert", "delete", "flip", "overwrite", "repeat", "truncate"]),
    st.integers(0, len(SMALL)),
    st.one_of(st.binary(max_size=6), st.sampled_from(TOKENS)),
)


def mutated(mutations):
    content = SMALL
    for kind, position, data in mutations:
        if kind == "insert":
            content = content[:position] + data + content[position:]
        elif kind == "delete":
            content = content[:position] + content[position + len(data) :]
        elif kind == "flip" and position < len(content):
            content = content[:position] + bytes([content[position] ^ (1 << len(data) % 8)]) + content[position + 1 :]
        elif kind == "overwrite":
            content = content[:position] + data + content[position + len(data) :]
        elif kind == "repeat":
            content = content[:position] + content[position // 2 :]
        elif kind == "truncate" and len(data) == 0:
            content = content[:position]
    return content


def assert_survives(content, archive_bytes=None):
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if archive_bytes is None:
            write_output(directory, content)
        else:
            (directory / "perf-stat-output.json.xz").write_bytes(archive_bytes)
        write_topology(directory, {0: (0, 0, 0, "0")})
        write_clock(directory, -0.1, 2.5)
        done = process(directory)  # reads back, asserts rows, descriptors, no overlap and no Traceback
        assert done.rc in (0, 1)
        summary = json.loads((directory / "postprocess" / "post-process-data.json").read_text())
        assert set(summary["periods"][0]["metric-files"]) == done.metrics.prefixes
        assert ("primary-metric" in summary) == bool(done.metrics.types)


ANYTHING = settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])


@ANYTHING
@given(st.lists(MUTATION, min_size=1, max_size=4))
def test_no_mutation_of_an_output_breaks_post_processing(mutations):
    assert_survives(mutated(mutations))


KEYS = ["interval", "counter-value", "event", "pcnt-running", "cpu", "unit"]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.just(10**400), st.floats(), st.text(max_size=8),
    st.lists(st.integers(), max_size=2), st.just({}), st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{0,8})?(e[0-9]{1,3})?", fullmatch=True),
)  # fmt: skip


@ANYTHING
@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3), VALUES, st.integers(0, 8))
def test_no_value_of_any_field_breaks_post_processing(keys, value, place):
    lines = SMALL.decode().splitlines()
    record = json.loads(lines[place])
    record.update(dict.fromkeys(keys, value))
    lines[place] = json.dumps(record)
    assert_survives(as_bytes(lines))


@ANYTHING
@given(st.integers(0, 600), st.binary(min_size=1, max_size=8))
def test_no_damage_to_an_archive_breaks_post_processing(position, data):
    archive = lzma.compress(SMALL)
    position = min(position, len(archive))
    assert_survives(None, archive[:position] + data + archive[position + len(data) :])
