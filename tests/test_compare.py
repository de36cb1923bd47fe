# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""kerneltools-post-process --compare: means, changes and spreads by hand, and what cannot be compared."""

import contextlib
import io
import json
import lzma
import math
import random
import re

import pytest
from perf_output import line, post_process, run_of

from kerneltools import compare, main
from kerneltools.compare import Figures, pooled

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")


def compared(a, b):
    """Exit code, standard output and error of the comparison of two directories."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main(["--compare", str(a), str(b)])
    return code, out.getvalue(), err.getvalue()


def rows_of(out):
    """The rows of both tables, {what: (unit, A, B, change, spread, change / spread)}, in their order."""
    found = {}
    for text in out.splitlines():
        match = re.fullmatch(
            r"(\S+(?: \w+=\S+)*) +(|\S+) +(-?[\d.e+-]+) +(-?[\d.e+-]+) +([+-][\d.e+]+ %|from 0) +([\d.e+-]+) +([\d.e+]+|no spread)", text
        )
        if match:
            found[match[1]] = (match[2], float(match[3]), float(match[4]), match[5], float(match[6]), match[7])
    return found


def directory(root, name, series, environment=None, prefix="metric-data-perf-stat"):
    """A post-processed data directory; series: {(type, aggregation, names as a tuple of pairs): [(begin, end, value), ...]}."""
    where = root / name
    (where / "postprocess").mkdir(parents=True)
    descriptors, rows = [], []
    for idx, ((metric_type, aggregation, names), samples) in enumerate(series.items()):
        desc = {"source": "kernel", "class": "count", "type": metric_type, "default-aggregation": aggregation}
        descriptors.append({"idx": idx, "desc": desc, "names": dict(names)})
        rows += [f"{idx},{begin},{end},{value}\n" for begin, end, value in samples]
    with lzma.open(where / "postprocess" / f"{prefix}.json.xz", "wt") as file:
        json.dump(descriptors, file)
    with lzma.open(where / "postprocess" / f"{prefix}.csv.xz", "wt") as file:
        file.writelines(rows)
    names_metric_files(where, prefix)
    if environment is not None:
        (where / "kerneltools-environment.txt").write_text("".join(f"{key}={value}\n" for key, value in environment.items()))
    return where


def names_metric_files(where, *prefixes):
    """What post-processing says of its metric files when they are whole."""
    document = {"tool": "kernel", "periods": [{"name": "measurement", "metric-files": prefixes}]}
    (where / "postprocess" / "post-process-data.json").write_text(json.dumps(document))


def samples(*values, length=1000):
    return [(n * length + 1, (n + 1) * length, value) for n, value in enumerate(values)]


IPC = ("ipc", "avg", ())
RATE = ("context-switches-sec", "sum", ())


# ---- the figures


def test_means_are_weighted_by_duration(tmp_path):
    a = directory(tmp_path, "a", {IPC: [(1, 1000, 1.0), (1001, 4000, 2.0)]})
    b = directory(tmp_path, "b", {IPC: [(1, 3000, 1.0), (3001, 4000, 2.0)]})
    code, out, err = compared(a, b)
    assert (code, err) == (0, "")
    # A: (1 + 3 * 2) / 4 = 1.75, B: (3 + 2) / 4 = 1.25; both variances 1/4 * 3/4 = 0.1875; change -0.5 / 1.75
    assert rows_of(out)["ipc"] == ("", 1.75, 1.25, "-28.57 %", 0.433013, "1.15")


def test_the_spread_of_two_runs_is_pooled_by_duration(tmp_path):
    a = directory(tmp_path, "a", {RATE: samples(10, 14)})  # mean 12, variance 4, 2 s
    b = directory(tmp_path, "b", {RATE: samples(18, 18, 18, 18, 18, 18)})  # mean 18, variance 0, 6 s
    _, out, _ = compared(a, b)
    # (4 * 2 + 0 * 6) / 8 = 1; the means differ by 6 spreads
    assert rows_of(out)["context-switches-sec"] == ("1/s", 12, 18, "+50.00 %", 1, "6.00")


def test_the_clearest_change_comes_first(tmp_path):
    keys = [(name, "avg", ()) for name in ("noisy", "clear", "same", "constant")]
    a = directory(tmp_path, "a", dict(zip(keys, [samples(0, 200), samples(10, 12), samples(1, 3), samples(5)])))
    b = directory(tmp_path, "b", dict(zip(keys, [samples(100, 300), samples(20, 22), samples(3, 1), samples(6)])))
    _, out, _ = compared(a, b)
    assert list(rows_of(out)) == ["constant", "clear", "noisy", "same"]
    assert [row[5] for row in rows_of(out).values()] == ["no spread", "10.00", "1.00", "0.00"]


def test_from_nothing_to_something_has_no_percentage(tmp_path):
    a = directory(tmp_path, "a", {RATE: samples(0)})
    b = directory(tmp_path, "b", {RATE: samples(4)})
    _, out, _ = compared(a, b)
    assert rows_of(out)["context-switches-sec"] == ("1/s", 0, 4, "from 0", 0, "no spread")
    _, out, _ = compared(b, a)
    assert rows_of(out)["context-switches-sec"] == ("1/s", 4, 0, "-100.00 %", 0, "no spread")
    _, out, _ = compared(a, a)
    assert rows_of(out)["context-switches-sec"] == ("1/s", 0, 0, "+0.00 %", 0, "0.00")


def test_a_rise_of_a_negative_mean_is_a_rise(tmp_path):
    a = directory(tmp_path, "a", {("toplev:dsb", "avg", ()): samples(-10)})
    b = directory(tmp_path, "b", {("toplev:dsb", "avg", ()): samples(-5)})
    assert rows_of(compared(a, b)[1])["toplev:dsb"] == ("%", -10, -5, "+50.00 %", 0, "no spread")


@hypothesis.given(
    st.lists(st.tuples(st.floats(-1e100, 1e100), st.integers(1, 10**9)), min_size=1),
    st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(-1e100, 1e100)), st.integers(1, 10**9)), min_size=1),
)
def test_there_is_never_a_nan_or_an_infinity(first, second):
    a, b = Figures(), Figures()
    for figures, values in ((a, first), (b, second)):
        for value, duration in values:
            figures.add(value, duration)
    change = compare.change("x", "", a, b)
    assert all(number is None or math.isfinite(number) for number in change[2:])
    text = "\n".join(compare._table([change], "type"))
    assert not re.search(r"\b(nan|inf)\b", text)


@hypothesis.given(st.lists(st.tuples(st.integers(-1000, 1000), st.integers(1, 1000)), min_size=1))
def test_mean_and_variance_are_those_of_their_definition(values):
    figures = Figures()
    for value, duration in values:
        figures.add(value, duration)
    total = sum(duration for _, duration in values)
    mean = sum(value * duration for value, duration in values) / total
    assert figures.mean == pytest.approx(mean, abs=1e-9)
    assert figures.variance == pytest.approx(sum(duration * (value - mean) ** 2 for value, duration in values) / total, abs=1e-6)


def test_rounding_is_no_spread():
    a, b = Figures(), Figures()
    for figures, base in ((a, 0.1), (b, 0.3)):
        for n in range(1000):
            figures.add(base + n % 2 * 1e-16, 7)
    assert pooled(a, b) == 0


# ---- series and types


def cpus(aggregation, *values):
    return {("type", aggregation, (("package", "0"), ("cpu", str(cpu)))): samples(*of) for cpu, of in enumerate(values)}


def test_a_type_is_folded_as_a_query_folds_it_and_its_series_follow(tmp_path):
    a = directory(tmp_path, "a", cpus("sum", (1, 3), (5, 5)))
    b = directory(tmp_path, "b", cpus("sum", (2, 4), (9, 9)))
    _, out, _ = compared(a, b)
    rows = rows_of(out)
    # sums 6, 8 and 11, 13: means 7 and 12, variances 1
    assert rows["type"] == ("", 7, 12, "+71.43 %", 1, "5.00")
    assert rows["type package=0 cpu=0"] == ("", 2, 3, "+50.00 %", 1, "1.00")
    assert rows["type package=0 cpu=1"] == ("", 5, 9, "+80.00 %", 0, "no spread")
    a = directory(tmp_path, "c", cpus("avg", (1, 3), (5, 5)))
    b = directory(tmp_path, "d", cpus("avg", (2, 4), (9, 9)))
    assert rows_of(compared(a, b)[1])["type"] == ("", 3.5, 6, "+71.43 %", 0.5, "5.00")


def test_a_merged_row_is_folded_with_the_short_ones_of_the_others(tmp_path):
    series = {
        ("type", "sum", (("cpu", "0"),)): [(1, 4000, 10)],
        ("type", "sum", (("cpu", "1"),)): [(1, 1000, 1), (1001, 2000, 2), (2001, 3000, 1), (3001, 4000, 2)],
    }
    a = directory(tmp_path, "a", series)
    _, out, _ = compared(a, a)
    assert rows_of(out)["type"] == ("", 11.5, 11.5, "+0.00 %", 0.5, "0.00")


def test_half_a_sum_is_none(tmp_path):
    series = {("type", "sum", (("cpu", "0"),)): samples(1, 1, 1, 1), ("type", "sum", (("cpu", "1"),)): samples(2, 2)}
    a = directory(tmp_path, "a", series)
    assert rows_of(compared(a, a)[1])["type"][:3] == ("", 3, 3)


def test_a_type_in_two_files_is_one(tmp_path):
    a = directory(tmp_path, "a", {("type", "sum", (("cpu", "0"),)): samples(1)})
    more = directory(tmp_path, "more", {("type", "sum", (("cpu", "1"),)): samples(2)}, prefix="metric-data-perf-stat-2")
    for path in (more / "postprocess").glob("metric-data-*"):
        path.rename(a / "postprocess" / path.name)
    names_metric_files(a, "metric-data-perf-stat", "metric-data-perf-stat-2")
    assert rows_of(compared(a, a)[1])["type"][:3] == ("", 3, 3)


def test_the_output_is_bounded(tmp_path):
    chance = random.Random(1)
    series = {("type", "avg", (("cpu", str(cpu)),)): samples(chance.random(), chance.random()) for cpu in range(500)}
    series.update({(f"event-{n}", "sum", ()): samples(n) for n in range(500)})
    other = {key: samples(1) for key in series if key[0] != "event-7"}
    code, out, _ = compared(directory(tmp_path, "a", series), directory(tmp_path, "b", other))
    assert code == 0
    assert len(out.splitlines()) < 300
    assert "and 300 more, whose change exceeds the spread by less" in out
    assert "and 460 more, whose change exceeds the spread by less" in out
    assert "only A has: event-7\n" in out


def test_what_only_one_has_is_named(tmp_path):
    a = directory(tmp_path, "a", {IPC: samples(1), ("llc-miss-rate", "avg", ()): samples(1), **cpus("sum", (1,), (2,))})
    b = directory(tmp_path, "b", {IPC: samples(1), ("page-faults", "sum", ()): samples(1), **cpus("sum", (1,), (2,), (3,))})
    _, out, _ = compared(a, b)
    assert "only A has: llc-miss-rate\n" in out
    assert "only B has: page-faults\n" in out
    assert "only B has: type package=0 cpu=2\n" in out
    assert "not as many series in A as in B: type (2 and 3)\n" in out


# ---- environments


def test_environments_that_differ_are_named(tmp_path):
    same = {"kernel": "6.1.0", "smt": "on"}
    a = directory(tmp_path, "a", {IPC: samples(1)}, {**same, "governor": "performance", "cpu_microcode": "0x1"})
    b = directory(tmp_path, "b", {IPC: samples(1)}, {**same, "governor": "powersave", "perf_version": "perf version 6.1"})
    _, out, _ = compared(a, b)
    assert "environment, what differs:\n" in out
    assert "  governor: A performance, B powersave\n" in out
    assert "  cpu_microcode: A 0x1, B (not recorded)\n" in out
    assert "  perf_version: A (not recorded), B perf version 6.1\n" in out
    assert "kernel" not in out
    assert "environment: the same in both runs\n" in compared(a, a)[1]


def test_long_lists_are_told_by_what_they_have_more(tmp_path):
    events = [f"some-event-{n}" for n in range(30)]
    a = directory(tmp_path, "a", {IPC: samples(1)}, {"perf_stat_events_counted": ",".join(events)})
    b = directory(tmp_path, "b", {IPC: samples(1)}, {"perf_stat_events_counted": ",".join([*events[1:], "other"])})
    _, out, _ = compared(a, b)
    assert "  perf_stat_events_counted:\n    only A: some-event-0\n    only B: other\n" in out


# ---- what cannot be compared


def test_real_runs_compare(tmp_path):
    runs = []
    for name, factor in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        counts = [{"instructions": factor * (100 + n % 2), "cycles": 100, "page-faults": 3} for n in range(10)]
        post_process(tmp_path / name, run_of(*counts))
        runs.append(tmp_path / name)
    before = sorted(path for run in runs for path in run.rglob("*"))
    code, out, _ = compared(*runs)
    assert code == 0
    rows = rows_of(out)
    assert rows["ipc"][:4] == ("", 1.005, 2.01, "+100.00 %")
    assert rows["page-faults"] == ("", 3, 3, "+0.00 %", 0, "0.00")
    assert set(list(rows)[:3]) == {"ipc", "instructions", "instructions-sec"}
    assert sorted(path for run in runs for path in run.rglob("*")) == before


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "c"], ["a", "--b"], ["", "b"]])
def test_bad_usage_is_2_and_says_what_is_accepted(arguments, capsys):
    assert main.main(["--compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"ERROR: --compare .*: accepted are two data directories, --compare DIR_A DIR_B\n", printed.err)


def test_a_run_that_is_not_there_or_not_post_processed_is_1(tmp_path):
    a = directory(tmp_path, "a", {IPC: samples(1)})
    code, out, err = compared(a, tmp_path / "nowhere")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"ERROR: .*: no such directory; accepted is the data directory of a run\n", err)
    (tmp_path / "raw").mkdir()
    code, out, err = compared(tmp_path / "raw", a)
    assert (code, out) == (1, "")
    assert "was not post-processed: run kerneltools-post-process on it first" in err
    assert not list((tmp_path / "raw").iterdir())


def test_a_run_that_published_nothing_compares_to_nothing(tmp_path):
    (tmp_path / "empty" / "postprocess").mkdir(parents=True)
    (tmp_path / "empty" / "postprocess" / "post-process-data.json").write_text("{}")
    code, out, _ = compared(directory(tmp_path, "a", {IPC: samples(1)}), tmp_path / "empty")
    assert code == 0
    assert "no metric type is in both runs" in out
    assert "only A has: ipc" in out


def test_metric_files_that_are_not_of_the_last_post_processing_are_not_compared(tmp_path):
    a = directory(tmp_path, "a", {IPC: samples(1)})
    other = directory(tmp_path, "other", {IPC: samples(3), RATE: samples(5)}, prefix="metric-data-of-another-tool")
    for path in (other / "postprocess").glob("metric-data-*"):
        path.rename(a / "postprocess" / path.name)
    code, out, err = compared(a, a)
    assert (code, err) == (0, "")
    assert list(rows_of(out)) == ["ipc"]
    assert rows_of(out)["ipc"][:3] == ("", 1, 1)


def test_half_a_post_processing_is_not_compared(tmp_path):
    """It removes its last word first and writes it last: what is there without may be some of the metrics only."""
    a = directory(tmp_path, "a", {IPC: samples(1)})
    b = directory(tmp_path, "b", {IPC: samples(1)})
    (b / "postprocess" / "post-process-data.json").unlink()
    code, out, err = compared(a, b)
    assert (code, out) == (1, "")
    assert err == f"ERROR: {b} was not post-processed: run kerneltools-post-process on it first\n"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[" * 100_000, '{"periods": 1}', '{"periods": [{}]}', '{"periods": [{"metric-files": [1]}]}',
     '{"periods": [{"metric-files": ["../../other/postprocess/metric-data-x"]}]}', '{"periods": [{"metric-files": ["metric-data-/x"]}]}'],
)  # fmt: skip
def test_metric_files_that_are_named_wrongly_are_not_looked_for(tmp_path, text):
    directory(tmp_path, "other", {IPC: samples(1)}, prefix="metric-data-x")
    a = directory(tmp_path, "a", {IPC: samples(1)})
    (a / "postprocess" / "post-process-data.json").write_text(text)
    code, out, err = compared(a, a)
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"ERROR: .*: its post-process-data\.json does not tell the metric files \(.+\): run kerneltools-post-process on it again\n", err
    )


@pytest.mark.parametrize("name", ["metric-data-perf-stat.csv.xz", "metric-data-perf-stat.json.xz"])
def test_a_damaged_metric_file_is_said_and_1(tmp_path, name):
    chance = random.Random(2)
    values = [chance.random() for _ in range(5000)]
    a = directory(tmp_path, "a", {IPC: samples(*values)})
    b = directory(tmp_path, "b", {IPC: samples(*values)})
    damaged = b / "postprocess" / name
    damaged.write_bytes(damaged.read_bytes()[: -len(damaged.read_bytes()) // 3])
    code, out, err = compared(a, b)
    assert (code, err) == (1, "")
    assert out.startswith("WARNING: B, metric-data-perf-stat")
    assert ("ipc" in rows_of(out)) == name.endswith("csv.xz")


def test_rows_that_are_none_are_counted(tmp_path):
    a = directory(tmp_path, "a", {IPC: samples(1, "nan", "inf", 2, "x", "1e300")})
    code, out, _ = compared(a, a)
    assert code == 1
    assert "WARNING: A, metric-data-perf-stat.csv.xz: rows that are none: 4\n" in out
    assert rows_of(out)["ipc"][:3] == ("", 1.5, 1.5)


def test_foreign_names_are_one_line(tmp_path):
    a = directory(tmp_path, "a", {("a\nb\x1b[2J", "sum", (("cpu", "\n0"),)): samples(1)}, {"kernel": "\x1b[2J"})
    b = directory(tmp_path, "b", {("a\nb\x1b[2J", "sum", (("cpu", "\n0"),)): samples(2)}, {"kernel": "6"})
    code, out, _ = compared(a, b)
    assert code == 0
    assert "\x1b" not in out
    assert "a?b?[2J" in out


def test_units_come_from_the_catalogue(tmp_path):
    types = ["turbostat:C1E-pct", "toplev:dram-bound", "package-power", "turbostat:package-power-watt", "cycles-sec"]
    a = directory(tmp_path, "a", {(name, "avg", ()): samples(1) for name in types})
    rows = rows_of(compared(a, a)[1])
    assert {name: rows[name][0] for name in types} == {
        "turbostat:C1E-pct": "%", "toplev:dram-bound": "%", "package-power": "", "turbostat:package-power-watt": "W", "cycles-sec": "GHz"
    }  # fmt: skip


def test_it_reads_what_per_cpu_post_processing_writes(tmp_path):
    (tmp_path / "a").mkdir()
    records = [line(float(n), "page-faults", (cpu + 1) * n, cpu=str(cpu)) for n in range(1, 5) for cpu in range(3)]
    post_process(tmp_path / "a", records)
    _, out, _ = compared(tmp_path / "a", tmp_path / "a")
    assert rows_of(out)["page-faults"][:3] == ("", 15, 15)  # (1 + 2 + 3) * (1 + 2 + 3 + 4) / 4
    assert rows_of(out)["page-faults cpu=2"][:3] == ("", 7.5, 7.5)
