# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What toplev.py or perf's metric groups wrote, and what becomes of it. Times are ms after EPOCH, the moment that toplev calls 0."""

import contextlib
import csv
import io
import json
import lzma
import re
from dataclasses import dataclass

import pytest
from perf_output import EPOCH, ROW, merged, number, read_either, table_of, write_topology
from published import MARK

from kerneltools import main
from kerneltools.subtools import toplev

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

HEADER = "Timestamp,Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck,Idle"
HEADER_CPUS = HEADER.replace("Timestamp,", "Timestamp,CPUs,")
CLOSING = "# 5.1-full on Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz [icx]"
SIX = ["frontend-bound", "bad-speculation", "backend-bound", "retiring", "memory-bound", "core-bound"]


# --- writing outputs, reading metric files


def row(time, area, value, unit="% Slots", description="", cpus=None):
    """A row as toplev prints it now."""
    text = io.StringIO()
    columns = [time, *([cpus] if cpus else []), area, value, unit, description, "", "0.0", "100.0", "", ""]
    csv.writer(text, lineterminator="").writerow(columns)
    return text.getvalue()


def table(*rows, header=HEADER, closing=CLOSING):
    return "".join(line + "\n" for line in (header, *rows, closing) if line is not None)


def node(time, name, value, event="ev", running=100.0, **place):
    """A record of perf with an event and a metric of that name behind it."""
    places = "".join(f'"{key}" : "{where}", ' for key, where in place.items())
    return (
        f'{{"interval" : {time:.9f}, {places}"counter-value" : "5.000000", "unit" : "", "event" : "{event}", "event-runtime" : 100, '
        f'"pcnt-running" : {running:.2f}, "metric-value" : "{value}", "metric-unit" : "{name}"}}'
    )


def further(time, name, value):
    """A record of perf without an event: a further metric of the event above."""
    return f'{{"interval" : {time:.9f}, "metric-value" : "{value}", "metric-unit" : "{name}"}}'


@dataclass
class Outcome:
    """What post-processing left: series as (descriptor, breakouts, rows), what it printed and the exit code."""

    rc: int
    out: str
    series: list

    @property
    def types(self):
        return sorted({desc["type"].partition(":")[2] for desc, _, _ in self.series})

    def rows(self, name, **names):
        """[(begin, end, value)] of the series with exactly these breakouts, times after EPOCH; equal neighbours are one."""
        (found,) = [rows for desc, has, rows in self.series if desc["type"] == f"toplev:{name}" and has == names]
        return [(begin - EPOCH * 1000, end - EPOCH * 1000, value) for begin, end, value in merged(found)]

    def values(self, name, **names):
        return [value for _, _, value in self.rows(name, **names)]

    def places(self, name):
        return sorted((has for desc, has, _ in self.series if desc["type"] == f"toplev:{name}"), key=lambda has: list(has.items()))

    def lost(self):
        return [line for line in self.out.splitlines() if line.startswith("WARNING: ")]

    def notes(self):
        return [line for line in self.out.splitlines() if line.startswith("NOTE: ")]


def read_back(directory):
    series = []
    for path in sorted((directory / "postprocess").glob("metric-data-*.json*")):
        assert re.fullmatch(rf"metric-data-toplev-{MARK}(-[0-9]+)?\.json(\.xz)?", path.name)
        prefix = path.name.partition(".json")[0]
        rows = {}
        for text in read_either(directory / "postprocess", prefix + ".csv").splitlines():
            match = ROW.fullmatch(text)
            assert match, f"the indexer does not take {text!r}"
            index, begin, end = (int(match[group]) for group in (1, 2, 3))
            before = rows.setdefault(index, [])
            assert begin <= end, text
            assert not before or before[-1][1] < begin, f"{text} overlaps {before[-1]}"
            before.append((begin, end, number(match[4])))
        for entry in json.loads(read_either(directory / "postprocess", prefix + ".json")):
            desc = entry["desc"]
            assert (desc["source"], desc["class"], desc["default-aggregation"]) == ("kernel", "percentage", "avg")
            assert all(isinstance(name, str) and name for name in entry["names"].values())
            series.append((desc, entry["names"], rows[entry["idx"]]))
    identities = [(desc["type"], *sorted(names.items())) for desc, names, _ in series]
    assert len(identities) == len(set(identities)), "one series twice"
    return series


def process(directory, output, name="toplev-output.csv", begin=0.0, end=None):
    """Write an output (text or bytes) and a clock file (seconds after EPOCH, None leaves the line out), and post-process."""
    content = output if isinstance(output, bytes) else output.encode("utf-8", "surrogateescape")
    (directory / name).write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    moments = [("begin", begin), ("end", end)]
    lines = [f"toplev {moment} {EPOCH + seconds:.9f}\n" for moment, seconds in moments if seconds is not None]
    (directory / "kerneltools-clock.txt").write_text("".join(lines))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        rc = main.main([str(directory)])
    assert "Traceback" not in out.getvalue(), out.getvalue()
    return Outcome(rc, out.getvalue(), read_back(directory))


@pytest.fixture(autouse=True)
def without_toolbox(monkeypatch):
    monkeypatch.delenv("TOOLBOX_HOME", raising=False)


# --- the recordings: every value of the file, in every interval


def rows_of_csv(path):
    """[(time, cpus, area, value)] of a recording, read without the project's reader."""
    with path.open(newline="") as recording:
        lines = csv.DictReader(line for line in recording if not line.startswith("#"))
        return [(float(line["Timestamp"]), line.get("CPUs", ""), line["Area"], float(line["Value"])) for line in lines]


@pytest.mark.parametrize("name", ["icelake-server-l3-thresholded", "icelake-server-l3-verbose-global", "skylake-server-l3-verbose-global"])
def test_every_value_of_a_system_wide_recording_is_published(recordings, data_dir, name):
    path = recordings / "toplev" / f"{name}.csv"
    expected = {}
    for time, _, area, value in rows_of_csv(path):
        expected.setdefault(area.split(".")[-1].lower().replace("_", "-"), {})[round(time * 1000)] = value
    times = sorted({time for values in expected.values() for time in values})
    done = process(data_dir, path.read_bytes(), end=max(time for time, *_ in rows_of_csv(path)))
    assert done.rc == 0, done.out
    assert done.types == sorted(expected)
    for own_name, values in expected.items():
        (found,) = [rows for desc, names, rows in done.series if desc["type"] == f"toplev:{own_name}" and names == {}]
        published = {}
        for begin, end, value in found:
            for time in times:
                if begin - EPOCH * 1000 <= time <= end - EPOCH * 1000:
                    published[time] = value
        assert {time: published.get(time) for time in values} == values
    if "verbose" in name:
        assert set(SIX) <= set(done.types)
        assert all(len(values) == len(times) for values in expected.values())
        for time in times:
            parts = expected["memory-bound"][time] + expected["core-bound"][time]
            assert parts == pytest.approx(expected["backend-bound"][time], abs=0.11)  # three values, each rounded to 0.1


def test_per_core_rows_become_breakouts(recordings, data_dir):
    path = recordings / "toplev" / "skylake-server-l3-verbose-cpus.csv"
    expected = {}
    for _, cpus, area, value in rows_of_csv(path):
        expected.setdefault((area.split(".")[-1].lower().replace("_", "-"), cpus), []).append(value)
    # the recording's machine: one package, two cores, two threads each
    write_topology(data_dir, {0: ("0", "0", "0", "0,2"), 1: ("0", "0", "1", "1,3"), 2: ("0", "0", "0", "0,2"), 3: ("0", "0", "1", "1,3")})
    done = process(data_dir, path.read_bytes(), end=4.110167265)
    assert (done.rc, done.lost()) == (0, [])
    where = {
        "C0": {"package": "0", "core": "0"},
        "C1": {"package": "0", "core": "1"},
        "C0-T0": {"package": "0", "core": "0", "thread": "0", "cpu": "0"},
        "C0-T1": {"package": "0", "core": "0", "thread": "1", "cpu": "2"},
        "C1-T0": {"package": "0", "core": "1", "thread": "0", "cpu": "1"},
        "C1-T1": {"package": "0", "core": "1", "thread": "1", "cpu": "3"},
    }
    for (own_name, cpus), values in expected.items():
        alone = [value for n, value in enumerate(values) if n == 0 or values[n - 1] != value]
        assert done.values(own_name, **where[cpus]) == alone
    assert done.places("memory-bound") == [where["C0"], where["C1"]]
    assert len(done.places("dram-bound")) == 4


@pytest.mark.parametrize("place", ["system", "socket"])
def test_every_value_of_an_amd_recording_is_published(recordings, data_dir, place):
    path = recordings / "perf-6.12-amd-genoa" / f"topdown-{place}.json"
    expected, names = {}, {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        unit, _, metric = record["metric-unit"].rpartition("  ")
        if unit == "%":
            expected.setdefault(metric, []).append(float(record["metric-value"]) + 0.0)
            names = {"package": "0"} if "socket" in record else {}
    done = process(data_dir, path.read_bytes(), name="toplev-output.json", end=2.5)
    assert done.rc == 0, done.out
    known = {"backend_bound_memory": "memory-bound", "backend_bound_cpu": "core-bound"}
    types = {metric: known.get(metric, metric.replace("_", "-")) for metric in expected}
    assert done.types == sorted([*types.values(), "mux"])
    for metric, values in expected.items():
        assert len(values) == 3
        alone = [value for n, value in enumerate(values) if n == 0 or values[n - 1] != value]
        assert done.values(types[metric], **names) == alone
    for whole, memory, core in zip(expected["backend_bound"], expected["backend_bound_memory"], expected["backend_bound_cpu"]):
        assert memory + core == pytest.approx(whole, abs=2e-6)
    level1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring", "smt_contention")
    # the recording's counts are made up: they do not make 100, but the types for it are there
    assert {types[metric] for metric in level1} <= set(done.types)
    assert done.values("mux") == [100.0]


# --- toplev.py: layouts


def test_the_six_and_mux_have_their_times_and_units(data_dir):
    areas = ["Frontend_Bound", "Bad_Speculation", "Backend_Bound", "Retiring", "Backend_Bound.Memory_Bound", "Backend_Bound.Core_Bound"]
    rows = []
    for time in (1.0, 2.0, 2.5):
        rows += [row(time, area, 10.0 + n + time) for n, area in enumerate(areas)]
        rows += [row(time, "MUX", 100.0, "%")]
    done = process(data_dir, table(*rows), end=2.5)
    assert (done.rc, done.lost(), done.notes()) == (0, [], [])
    assert done.types == sorted([*SIX, "mux"])
    assert done.rows("memory-bound") == [(1, 1000, 15.0), (1001, 2000, 16.0), (2001, 2500, 16.5)]
    assert done.rows("mux") == [(1, 2500, 100.0)]
    printed = table_of(done.out)
    assert printed["toplev:core-bound"] == ("%", 1, 3, pytest.approx(16.7), 16.0, 17.5)
    assert list(printed)[:6] == [f"toplev:{name}" for name in SIX]


def test_values_below_0_and_above_100_are_toplevs_own(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", -12.9), row(2.0, "Retiring", 104.8), row(3.0, "Retiring", -0.0)), end=3.0)
    assert done.values("retiring") == [-12.9, 104.8, 0.0]


def test_a_description_with_delimiters_and_quotes_moves_no_column(data_dir):
    text = 'waits for "DRAM", <==, 99.9, and more'
    done = process(data_dir, table(row(1.0, "Backend_Bound.Memory_Bound.DRAM_Bound", 12.7, "% Stalls <", text)), end=1.0)
    assert (done.rc, done.values("dram-bound")) == (0, [12.7])


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_the_one_of_the_header(data_dir, delimiter):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3, "% Slots <")).replace(",", delimiter), end=1.0)
    assert (done.rc, done.values("retiring")) == (0, [31.3])


def test_lines_of_windows_and_of_old_versions_end_in_carriage_returns(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3)).replace("\n", "\r\n"), end=1.0)
    assert (done.rc, done.values("retiring")) == (0, [31.3])


@pytest.mark.parametrize("cpus", ["", "C0", "S0-C0", "C0-T1", "S1", "CPU0", "0"])
@pytest.mark.parametrize("idle", ["", ","])
def test_a_file_without_header_is_read_by_its_fields(data_dir, cpus, idle):
    column = f"{cpus}," if cpus else ""
    lines = [f'{time},{column}Backend_Bound.{name},{value},% Slots below,"a, b",ev,0.0,100.0,{idle}\n'
             for time, value in ((1.0, 24.3), (2.0, 12.7)) for name in ("Memory_Bound", "0_Ports_Utilized")]  # fmt: skip
    done = process(data_dir, "".join(lines), end=2.0)
    assert (done.rc, done.types) == (0, ["0-ports-utilized", "memory-bound"])
    (names,) = done.places("memory-bound")
    assert done.rows("memory-bound", **names) == [(1, 1000, 24.3), (1001, 2000, 12.7)]
    assert names == {
        "": {}, "C0": {"core": "0"}, "S0-C0": {"package": "0", "core": "0"}, "C0-T1": {"core": "0", "thread": "1"},
        "S1": {"package": "1"}, "CPU0": {"cpu": "0"}, "0": {"cpu": "0"},
    }[cpus]  # fmt: skip


def test_a_cpu_is_named_whole_where_the_topology_is_there(data_dir):
    write_topology(data_dir, {5: ("1", "0", "2", "4-5")})
    done = process(data_dir, table(row(1.0, "Retiring", 31.3, cpus="CPU5"), header=HEADER_CPUS), end=1.0)
    assert done.places("retiring") == [{"package": "1", "core": "2", "thread": "1", "cpu": "5"}]


def test_two_kinds_of_core_are_two_devices(data_dir):
    rows = [row(1.0, "Retiring", 31.3, cpus="core"), row(1.0, "Retiring", 13.1, cpus="atom")]
    done = process(data_dir, table(*rows, header=HEADER_CPUS), end=1.0)
    assert done.values("retiring", device="cpu_core") == [31.3]
    assert done.values("retiring", device="cpu_atom") == [13.1]


def test_one_kind_of_core_needs_no_device(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3, cpus="core"), header=HEADER_CPUS), end=1.0)
    assert done.values("retiring") == [31.3]


def test_both_kinds_of_core_under_one_name_do_not_mix(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3), row(1.0, "Retiring", 13.1), row(2.0, "Retiring", 32.0)), end=2.0)
    assert done.values("retiring") == [31.3, 32.0]
    assert done.rc == 1
    assert "stand twice in an interval" in done.out


def test_totals_beside_their_parts_are_not_counted_twice(data_dir):
    rows = [row(1.0, "Retiring", 31.3, cpus="S0"), row(1.0, "Retiring", 13.1, cpus="S0-C0")]
    done = process(data_dir, table(*rows, header=HEADER_CPUS), end=1.0)
    assert done.places("retiring") == [{"package": "0"}]
    assert (done.rc, len(done.lost())) == (1, 1)


def test_a_cpus_column_that_nobody_knows_is_not_published(data_dir):
    rows = [row(1.0, "Retiring", 31.3, cpus="X9"), row(1.0, "Retiring", 13.1, cpus="C0")]
    done = process(data_dir, table(*rows, header=HEADER_CPUS), end=1.0)
    assert (done.rc, done.places("retiring")) == (1, [{"core": "0"}])


def test_nodes_that_share_their_own_name_stay_apart(data_dir):
    rows = [row(1.0, "A.Other", 1.0), row(1.0, "A.B.Other", 2.0), row(1.0, "A.C.Other", 3.0)]
    done = process(data_dir, table(*rows), end=1.0)
    assert {name: done.values(name) for name in done.types} == {"other": [1.0], "b-other": [2.0], "c-other": [3.0]}
    assert "A.B.Other is b-other" in done.out
    assert done.rc == 0


def test_what_is_no_percentage_is_not_published_as_one(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3), row(1.0, "Info.Thread.IPC", 1.7, "Metric")), end=1.0)
    assert (done.rc, done.types) == (0, ["retiring"])
    assert "Info.Thread.IPC" in done.out


def test_titles_and_sums_of_further_options_are_no_rows(data_dir):
    output = table(row(1.0, "Retiring", 31.3), "", "Global:", row("SUMMARY", "Retiring", 99.0))
    done = process(data_dir, output, end=1.0)
    assert (done.rc, done.values("retiring")) == (0, [31.3])


# --- time


def test_an_interval_that_lacks_a_node_is_covered_up_to_three(data_dir):
    times = [float(n) for n in range(1, 11)]
    rows = [row(time, "Retiring", time) for time in times]
    rows[1:1] = [row(1.0, "Backend_Bound", 1.0)]
    rows += [row(10.0, "Backend_Bound", 10.0)]
    rows.insert(6, row(5.0, "Backend_Bound", 5.0))
    done = process(data_dir, table(*rows), end=10.0)
    assert done.rc == 0
    # 2, 3 and 4 are covered by the fifth; 6 to 9 are four, a hole
    assert done.rows("backend-bound") == [(1, 1000, 1.0), (1001, 5000, 5.0), (9001, 10000, 10.0)]
    assert "toplev:backend-bound, 7 of 10" in done.out


def test_times_count_back_from_the_signal(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", 1.0), row(1.5, "Retiring", 2.0)), begin=0.0, end=2.2)
    assert done.rows("retiring") == [(701, 1700, 1.0), (1701, 2200, 2.0)]


def test_a_toplev_that_was_killed_is_timed_from_its_launch(data_dir):
    # it writes some intervals late: the last one in the file is not the one that ended with it
    done = process(data_dir, table(row(1.0, "Retiring", 1.0), row(2.0, "Retiring", 2.0), closing=None), begin=0.25, end=9.0)
    assert done.rows("retiring") == [(251, 1250, 1.0), (1251, 2250, 2.0)]
    assert "closing line is missing" in done.out
    assert done.rc == 0


def test_a_whole_file_without_header_needs_no_closing_line(data_dir):
    done = process(data_dir, "1.0,Retiring,31.3,% Slots,,,0.0,100.0,\n", begin=0.25, end=9.0)
    assert done.rows("retiring") == [(8001, 9000, 31.3)]


# --- salvage


@pytest.mark.parametrize("archive", ["", ".xz"])
def test_an_output_is_read_plain_and_compressed(data_dir, archive):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3)), name=f"toplev-output.csv{archive}", end=1.0)
    assert (done.rc, done.values("retiring")) == (0, [31.3])


@pytest.mark.parametrize(
    "garbage",
    [
        "1.5,Retiring",  # a cut line
        "perf: interrupted system call",
        "\0\0\0\0",
        "2.0,Retiring,3\udcff,% Slots,,,0.0,100.0,,",  # a byte that is no UTF-8
        '2.0,Retiring,31.3,% Slots,"never closed,,0.0,100.0,,',
        "nan,Retiring,31.3,% Slots,,,0.0,100.0,,",
        "1e99,Retiring,31.3,% Slots,,,0.0,100.0,,",
        "2.0,,31.3,% Slots,,,0.0,100.0,,",
        "2.0,Retiring,31.3,% Slots,,,0.0,100.0,,,,,",
        "Timestamp,Area",
        "x" * 200_000,
    ],
    ids=lambda text: text[:24].encode("unicode-escape").decode(),
)
def test_a_broken_line_costs_itself_only(data_dir, garbage):
    rows = [row(1.0, "Retiring", 1.0), row(1.0, "Backend_Bound", 9.0), garbage, row(2.0, "Retiring", 2.0), row(2.0, "Backend_Bound", 8.0)]
    done = process(data_dir, table(*rows), end=2.0)
    assert done.values("retiring") == [1.0, 2.0]
    assert done.values("backend-bound") == [9.0, 8.0]
    assert done.rc == 1
    assert "line 4" in done.out


def test_a_whole_row_behind_a_cut_one_on_its_line_is_published(data_dir):
    rows = [row(1.0, "Retiring", 1.0), "2.0,Backend_Bound.Mem" + row(2.0, "Retiring", 2.0)]
    done = process(data_dir, table(*rows), end=2.0)
    assert done.values("retiring") == [1.0, 2.0]
    assert done.rc == 1


@pytest.mark.parametrize("value", ["nan", "-nan", "", "inf"])
def test_no_value_is_no_sample_and_no_loss(data_dir, value):
    done = process(data_dir, table(row(1.0, "Retiring", 1.0), row(2.0, "Retiring", value), row(3.0, "Retiring", 3.0)), end=3.0)
    assert done.rows("retiring") == [(1, 1000, 1.0), (1001, 3000, 3.0)]
    assert done.rc == 0


def test_a_value_that_is_no_number_is_said(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", "12..5"), row(2.0, "Retiring", 3.0)), end=2.0)
    assert done.values("retiring") == [3.0]
    assert done.rc == 1
    assert "12..5" in done.out


@pytest.mark.parametrize(("node_name", "name"), [("Retiring", "retiring"), ("Retiring.Some_Node", "some-node")])
@pytest.mark.parametrize("value", ["18446744073709.6", "1000.1", "-1000.1"])
def test_a_value_that_no_share_can_have_is_no_sample_and_is_said(data_dir, node_name, name, value):
    done = process(data_dir, table(*(row(time, node_name, each) for time, each in ((1.0, 1.5), (2.0, value), (3.0, 1000.0)))), end=3.0)
    assert done.rows(name) == [(1, 1000, 1.5), (1001, 3000, 1000.0)]
    assert done.rc == 1
    assert f"toplev:{name}: values below -1000 or above 1000 % are not published: {value} (toplev:{name}, at" in done.out


def test_a_header_that_is_cut_leaves_the_rows(data_dir):
    done = process(data_dir, table(row(1.0, "Retiring", 31.3), header="Timestamp,Are"), end=1.0)
    assert (done.rc, done.values("retiring")) == (1, [31.3])


def test_a_truncated_archive_gives_what_is_before_the_damage(data_dir):
    whole = lzma.compress(table(*(row(float(n), "Retiring", n % 89 / 7) for n in range(1, 4000))).encode())
    path = data_dir / "toplev-output.csv.xz"
    path.write_bytes(whole[: len(whole) // 2])
    (data_dir / "kerneltools-clock.txt").write_text(f"toplev begin {EPOCH}\ntoplev end {EPOCH + 3999}\n")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main.main([str(data_dir)]) == 1
    (_, _, rows), = read_back(data_dir)
    assert len(rows) > 500
    assert rows[0][:2] == (EPOCH * 1000 + 1, EPOCH * 1000 + 1000)


@pytest.mark.parametrize("name", toplev.OUTPUTS)
def test_an_empty_output_is_said(data_dir, name):
    done = process(data_dir, "", name=name, end=1.0)
    assert (done.rc, done.series) == (0, [])
    assert "holds no interval" in done.out


def test_an_output_that_is_missing_is_a_loss(data_dir):
    (data_dir / "kerneltools-clock.txt").write_text(f"toplev begin {EPOCH}\n")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main.main([str(data_dir)]) == 1
    assert "toplev-output.csv, toplev-output.json" in out.getvalue()


LINES = [row(time, area, value) for time, value in ((1.0, 1.5), (2.0, 2.5), (3.0, 3.5)) for area in ("Retiring", "Backend_Bound")]


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(data=st.data())
def test_no_damage_invents_a_value(tmp_path_factory, data):
    content = bytearray(table(*LINES).encode())
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    content[start:end] = data.draw(st.binary(max_size=12).filter(lambda junk: not re.search(rb"[0-9.\n-]", junk)))
    done = process(tmp_path_factory.mktemp("damaged"), bytes(content), end=3.0)
    assert done.rc in (0, 1)
    for desc, _, rows in done.series:
        if desc["type"] in ("toplev:retiring", "toplev:backend-bound"):
            assert {value for *_, value in rows} <= {1.5, 2.5, 3.5, *cut_numbers()}


def cut_numbers():
    """What 1.5, 2.5 and 3.5 read where a piece of the number is gone: a row that is whole but for that cannot be told."""
    for text in ("1.5", "2.5", "3.5"):
        for start in range(4):
            for end in range(start, 4):
                with contextlib.suppress(ValueError):
                    yield float(text[:start] + text[end:])


# --- perf's metric groups


def test_amds_names_become_the_common_ones(data_dir):
    lines = [node(1.0, "%  backend_bound", 30.0), further(1.0, "%  backend_bound_memory", 20.0), further(1.0, "%  backend_bound_cpu", 10.0)]
    done = process(data_dir, "\n".join(lines) + "\n", name="toplev-output.json", end=1.0)
    assert {name: done.values(name) for name in done.types} == {
        "backend-bound": [30.0], "memory-bound": [20.0], "core-bound": [10.0], "mux": [100.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("%  tma_memory_bound", "memory-bound"),
        ("%  tma_fetch_latency", "fetch-latency"),
        ("percent of slots  frontend_bound", "frontend-bound"),  # Arm
        ("%  backend_bound_by_memory", "memory-bound"),
    ],
)
def test_intels_and_arms_names_become_the_common_ones(data_dir, unit, name):
    done = process(data_dir, node(1.0, unit, 12.5) + "\n", name="toplev-output.json", end=1.0)
    assert done.values(name) == [12.5]


@pytest.mark.parametrize("unit", ["(null)", "", "insn per cycle", "GHz", "of all branches", "MB/s  backend_bound"])
def test_other_metrics_of_perf_are_no_nodes(data_dir, unit):
    done = process(data_dir, node(1.0, unit, 12.5) + "\n", name="toplev-output.json", end=1.0)
    assert done.types == ["mux"]


@pytest.mark.parametrize("value", ['"nan"', '"-nan"', "nan", "null", '""'])
def test_a_metric_that_perf_cannot_compute_is_no_sample(data_dir, value):
    lines = [node(1.0, "%  retiring", 10.0), node(2.0, "%  retiring", 11.0).replace('"11.0"', value), node(3.0, "%  retiring", 12.0)]
    done = process(data_dir, "\n".join(lines) + "\n", name="toplev-output.json", end=3.0)
    assert done.rows("retiring") == [(1, 1000, 10.0), (1001, 3000, 12.0)]
    assert done.rc == 0


def test_a_metric_of_perf_that_no_share_can_have_is_no_sample(data_dir):
    lines = [node(time, "%  retiring", value) for time, value in ((1.0, 10.0), (2.0, 184467440737.09), (3.0, 12.0))]
    done = process(data_dir, "\n".join(lines) + "\n", name="toplev-output.json", end=3.0)
    assert done.rows("retiring") == [(1, 1000, 10.0), (1001, 3000, 12.0)]
    assert done.rc == 1


def test_a_number_of_older_perfs_is_a_value_too(data_dir):
    record = node(1.0, "%  retiring", 16.666671).replace('"16.666671"', "16.666671")
    done = process(data_dir, record + "\n", name="toplev-output.json", end=1.0)
    assert done.values("retiring") == [16.666671]


def test_mux_is_the_lowest_share_of_its_interval(data_dir):
    lines = [node(1.0, "%  retiring", 10.0, running=66.5), node(1.0, "%  backend_bound", 20.0, running=33.25),
             node(2.0, "%  retiring", 10.0).replace('"5.000000"', '"<not supported>"').replace("100.00", "0.00"),
             node(2.0, "%  backend_bound", 21.0, running=99.0)]  # fmt: skip
    done = process(data_dir, "\n".join(lines) + "\n", name="toplev-output.json", end=2.0)
    assert done.rows("mux") == [(1, 1000, 33.25), (1001, 2000, 99.0)]


def test_kinds_of_core_are_devices_with_perf_too(data_dir):
    lines = [
        node(1.0, "%  tma_retiring", 10.0, event="cpu_core/topdown-retiring/"),
        further(1.0, "%  tma_backend_bound", 40.0),
        node(1.0, "%  tma_retiring", 20.0, event="cpu_atom/TOPDOWN_RETIRING.ALL/"),
        further(1.0, "%  tma_backend_bound", 50.0),
    ]
    done = process(data_dir, "\n".join(lines) + "\n", name="toplev-output.json", end=1.0)
    assert done.values("retiring", device="cpu_core") == [10.0]
    assert done.values("backend-bound", device="cpu_core") == [40.0]
    assert done.values("backend-bound", device="cpu_atom") == [50.0]
    assert done.values("mux") == [100.0]


def test_perfs_cut_line_and_comments_cost_what_they_cost(data_dir):
    lines = ["# started on Mon Nov 30 2026", "", node(1.0, "%  retiring", 10.0), node(2.0, "%  retiring", 11.0)[:60]]
    done = process(data_dir, "\n".join(lines), name="toplev-output.json", begin=0.5, end=9.0)
    assert done.rows("retiring") == [(501, 1500, 10.0)]
    assert done.rc == 1
