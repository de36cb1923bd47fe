# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Metric files: the rows a user queries, the same from every sink, and none at all where they would be half-written."""

import contextlib
import errno
import json
import logging
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltools import archive
from kerneltools import sink as sink_module
from kerneltools.sink import BuiltinSink, MetricFiles, open_sink, remove_files, remove_stale, toolbox_sink

HOME = os.environ.get("TOOLBOX_HOME", "")
NO_TOOLBOX = "TOOLBOX_HOME is not set to a toolbox: the built-in sink is not compared with it"

# What a toolbox of that day consists of, by the commit in its own repository.
INSTALLS = {
    "2021, module, current directory, deletes zeros": ("881b8a4", ["metrics.py"]),
    "2024, module, current directory": ("0e61104", ["metrics.py"]),
    "May 2026, class, current directory": ("9f8ee71", ["metrics.py", "cdm_metrics.py"]),
    "May 2026, class, removes metric files": ("02fbfba", ["metrics.py", "cdm_metrics.py"]),
    "June 2026, class, without index": ("0defe88", ["metrics.py", "cdm_metrics.py"]),
}
KINDS = ["builtin", "toolbox", "deprecated module", *INSTALLS]

IPC = {"source": "kernel", "class": "throughput", "type": "ipc", "default-aggregation": "avg"}
CYCLES = {"source": "kernel", "class": "count", "type": "cycles", "default-aggregation": "sum"}
BUSY = {"source": "kernel", "class": "percentage", "type": "turbostat:cpu-busy-pct", "default-aggregation": "avg"}
FAULTS = {"source": "kernel", "class": "count", "type": "faults", "default-aggregation": "sum"}


def use_toolbox(monkeypatch, home):
    """Point TOOLBOX_HOME somewhere and forget the toolbox that was imported before."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "toolbox"]:
        monkeypatch.delitem(sys.modules, name)
    if home is None:
        monkeypatch.delenv("TOOLBOX_HOME", raising=False)
    else:
        monkeypatch.setenv("TOOLBOX_HOME", str(home))


def install_toolbox(home, commit, modules):
    package = home / "python" / "toolbox"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for module in modules:
        shown = subprocess.run(["git", "-C", HOME, "show", f"{commit}:python/toolbox/{module}"], stdout=subprocess.PIPE, check=False)
        if shown.returncode:
            pytest.skip(f"{HOME} has no history: that older toolbox is not compared")
        (package / module).write_bytes(shown.stdout)


def provide_sink(kind, monkeypatch, tmp_path):
    """Let open_sink find that sink, and say what it must be."""
    if kind == "builtin":
        use_toolbox(monkeypatch, None)
        return "BuiltinSink"
    if not HOME:
        pytest.skip(NO_TOOLBOX)
    home = tmp_path / "home"
    if kind == "toolbox":
        use_toolbox(monkeypatch, HOME)
        return "CDMMetrics"
    if kind == "deprecated module":
        shutil.copytree(Path(HOME) / "python" / "toolbox", home / "python" / "toolbox")
        module = home / "python" / "toolbox" / "cdm_metrics.py"
        module.write_text('POSTPROCESS_DIR = "postprocess"\n')  # all that its predecessor takes from it
    else:
        install_toolbox(home, *INSTALLS[kind])
    use_toolbox(monkeypatch, home)
    return "_WithoutIndex"


@pytest.fixture(params=KINDS)
def any_sink(request, monkeypatch, tmp_path):
    """Every sink that post-processing may meet, one after the other; the current directory is not where it shall write."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    expected = provide_sink(request.param, monkeypatch, tmp_path)
    opened = []

    def open_and_note(output_dir):
        opened.append(open_sink(output_dir))
        return opened[-1]

    monkeypatch.setattr(sink_module, "open_sink", open_and_note)
    yield open_and_note
    assert {type(sink).__name__ for sink in opened} == {expected}
    assert os.listdir(cwd) == []


@pytest.fixture
def builtin(monkeypatch):
    use_toolbox(monkeypatch, None)


@pytest.fixture(autouse=True)
def every_warning_is_new(monkeypatch):
    monkeypatch.setattr(sink_module, "_warned", set())


def rows(directory, prefix="metric-data-perf-stat"):
    return lzma.open(directory / f"{prefix}.csv.xz", "rt").read().splitlines()


def descriptors(directory, prefix="metric-data-perf-stat"):
    return json.loads(lzma.open(directory / f"{prefix}.json.xz", "rt").read())


def files(directory):
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


# ------------------------------------------------------------------------------------------------ what the rows say


def test_every_sink_writes_the_rows_a_user_queries(any_sink, tmp_path):
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", rows_per_series=9)
    ipc = metrics.series(IPC, {"package": "0", "core": "1"})
    cycles = metrics.series(CYCLES, {})
    metrics.series(BUSY, {})  # never sampled
    faults = metrics.series(FAULTS, {})
    single = metrics.series(BUSY, {"package": "1"})

    metrics.sample(ipc, 1001, 2000, 1.25)
    metrics.sample(cycles, 1001, 2000, 7_000_000_000)
    metrics.sample(faults, 1001, 2000, 0)
    metrics.sample(single, 1001, 2000, 99.5)
    metrics.sample(ipc, 2001, 3000, 1.25)  # grows the row
    metrics.sample(cycles, 2001, 3000, 6_999_999_999)
    metrics.sample(faults, 2001, 3000, 0)
    metrics.sample(ipc, 3001, 4000, 0.5)
    metrics.sample(ipc, 5001, 6000, 0.75)  # a hole before another value
    metrics.sample(ipc, 7001, 8000, 0.75)  # a hole before the same value
    metrics.sample(cycles, 3001, 4000, 0)
    assert metrics.finish() == ["metric-data-perf-stat"]

    assert rows(tmp_path / "postprocess") == [
        "1,1001,2000,7000000000",
        "0,1001,3000,1.25",
        "0,3001,4000,0.5",
        "0,5001,6000,0.75",
        "1,2001,3000,6999999999",
        "0,7001,8000,0.75",
        "1,3001,4000,0",
        "2,1001,3000,0",
        "3,1001,2000,99.5",
    ]
    assert descriptors(tmp_path / "postprocess") == [
        {"idx": 0, "desc": IPC, "names": {"package": "0", "core": "1"}},
        {"idx": 1, "desc": CYCLES, "names": {}},
        {"idx": 2, "desc": FAULTS, "names": {}},
        {"idx": 3, "desc": BUSY, "names": {"package": "1"}},
    ]
    assert files(tmp_path / "postprocess") == ["metric-data-perf-stat.csv.xz", "metric-data-perf-stat.json.xz"]


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [(5, 5, "5"), (5.0, 5.0, "5.0"), (5, 5.0, "5.0"), (5.0, 5, "5"), (0, 0, "0"), (2.0**60, 2**60, str(2**60))],
)
def test_a_hole_is_never_closed_by_an_equal_value(any_sink, tmp_path, first, second, third):
    metrics = MetricFiles(tmp_path, "perf-stat", 9)
    series = metrics.series(CYCLES, {})
    metrics.sample(series, 1001, 2000, first)
    metrics.sample(series, 3001, 4000, second)
    metrics.sample(series, 5001, 6000, second)
    metrics.sample(series, 6001, 7000, 1)
    metrics.finish()
    assert rows(tmp_path) == [
        f"0,1001,2000,{first}",
        f"0,3001,4000,{third}",
        f"0,5001,6000,{third}",
        "0,6001,7000,1",
    ]


def test_a_series_goes_on_merging_after_a_hole(any_sink, tmp_path):
    metrics = MetricFiles(tmp_path, "perf-stat", 9)
    series = metrics.series(CYCLES, {})
    for begin, end in [(1, 10), (21, 30), (31, 40), (41, 50), (51, 60)]:
        metrics.sample(series, begin, end, 4)
    metrics.finish()
    # The first row after the hole stays by itself: what keeps it from its predecessor keeps it from its successor.
    assert rows(tmp_path) == ["0,1,10,4", "0,21,30,4", "0,31,60,4"]


def test_an_int_and_a_float_of_one_value_are_one_row(any_sink, tmp_path):
    metrics = MetricFiles(tmp_path, "perf-stat", 9)
    whole = metrics.series(CYCLES, {})
    real = metrics.series(IPC, {})
    metrics.sample(whole, 1001, 2000, 5)
    metrics.sample(whole, 2001, 3000, 5.0)
    metrics.sample(real, 1001, 2000, 5.0)
    metrics.sample(real, 2001, 3000, 5)
    metrics.sample(real, 3001, 4000, 1e-07)
    metrics.finish()
    assert rows(tmp_path) == ["1,1001,3000,5.0", "0,1001,3000,5", "1,3001,4000,1e-07"]


def test_the_order_of_breakouts_makes_no_second_series(any_sink, tmp_path):
    sink = any_sink(tmp_path)
    first = sink.log_sample("perf-stat", IPC, {"core": "1", "cpu": "3"}, {"begin": 1, "end": 10, "value": 1})
    other = sink.log_sample("perf-stat", IPC, {"core": "2", "cpu": "3"}, {"begin": 1, "end": 10, "value": 7})
    again = sink.log_sample("perf-stat", IPC, {"cpu": "3", "core": "1"}, {"end": 20, "value": 2})
    assert (first, other, again) == (0, 1, 0)
    assert sink.finish_samples() == "metric-data-perf-stat"
    assert rows(tmp_path) == ["0,1,10,1", "0,11,20,2", "1,1,10,7"]
    assert [each["names"] for each in descriptors(tmp_path)] == [{"core": "1", "cpu": "3"}, {"core": "2", "cpu": "3"}]


def test_the_first_begin_is_guessed_from_the_second_end(any_sink, tmp_path):
    sink = any_sink(tmp_path)
    alone = sink.log_sample("perf-stat", BUSY, {}, {"end": 5000, "value": 3})
    ipc = sink.log_sample("perf-stat", IPC, {}, {"end": 5000, "value": 1.5})
    sink.log_sample_by_idx(ipc, 2.5, 8000)
    sink.log_sample_by_idx(ipc, 3.5, 9000, begin=8501)
    sink.finish_samples()
    assert (alone, ipc) == (0, 1)
    assert rows(tmp_path) == ["1,2001,5000,1.5", "1,5001,8000,2.5", "0,5000,5000,3", "1,8501,9000,3.5"]


def test_zeros_are_deleted_only_where_that_is_wanted(any_sink, tmp_path):
    sink = any_sink(tmp_path)
    for dont_delete in (True, False):  # one file after the other, in one sink
        file_id = f"keep-{dont_delete}"
        sink.log_sample(file_id, FAULTS, {}, {"begin": 1, "end": 10, "value": 0})
        ipc = sink.log_sample(file_id, IPC, {}, {"begin": 1, "end": 10, "value": 1})
        sink.log_sample_by_idx(ipc, 0, 20)
        assert sink.finish_samples(dont_delete=dont_delete) == f"metric-data-{file_id}"
    assert rows(tmp_path, "metric-data-keep-False") == ["1,1,10,1", "1,11,20,0"]
    assert [each["idx"] for each in descriptors(tmp_path, "metric-data-keep-False")] == [1]
    assert rows(tmp_path, "metric-data-keep-True") == ["1,1,10,1", "0,1,10,0", "1,11,20,0"]
    assert [each["idx"] for each in descriptors(tmp_path, "metric-data-keep-True")] == [0, 1]


def test_only_zeros_leave_no_descriptors(any_sink, tmp_path):
    sink = any_sink(tmp_path)
    sink.log_sample("perf-stat", FAULTS, {}, {"begin": 1, "end": 10, "value": 0})
    assert sink.finish_samples() == "metric-data-perf-stat"
    assert rows(tmp_path) == []
    assert not (tmp_path / "metric-data-perf-stat.json.xz").exists()


def test_a_sink_without_samples_writes_nothing(any_sink, tmp_path):
    assert any_sink(tmp_path / "postprocess").finish_samples() is None
    assert files(tmp_path / "postprocess") == []


def test_every_file_is_compressed_cheaply(any_sink, tmp_path, monkeypatch):
    presets = []
    compress = lzma.compress

    def note_preset(data, **options):
        presets.append(options.get("preset"))
        return compress(data, **options)

    def refuse(*arguments, **options):
        raise AssertionError(f"{arguments} {options}: a file is opened with a compressor of its own")

    monkeypatch.setattr(lzma, "compress", note_preset)
    monkeypatch.setattr(lzma, "LZMAFile", refuse)
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series=10, max_rows=10)
    for package in "012":
        metrics.sample(metrics.series(IPC, {"package": package}), 1, 10, 1.5)
    metrics.finish()
    assert presets == [archive.LZMA_PRESET] * 6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "builtin"])
@pytest.mark.parametrize("seed", range(8))
def test_random_samples_give_the_same_bytes_as_toolbox(kind, seed, monkeypatch, tmp_path):
    random_numbers = random.Random(seed)

    def publish(directory, kind):
        provide_sink(kind, monkeypatch, tmp_path)
        random_numbers.seed(seed)
        metrics = MetricFiles(directory, "perf-stat", rows_per_series=60, max_rows=300)
        numbers = [
            metrics.series(desc, dict(names))
            for desc in (IPC, CYCLES, BUSY, FAULTS)
            for names in ((), (("package", "0"),), (("package", "1"), ("core", "0")))
        ]
        ends = {}
        for _ in range(600):
            number = random_numbers.choice(numbers)
            begin = ends.get(number, 1_790_000_000_000) + random_numbers.choice([1, 1, 1, 1, 2, 1001])
            end = begin + random_numbers.choice([0, 999, 9999])
            metrics.sample(number, begin, end, random_numbers.choice([0, 0.0, 1, 1.0, -0.5, 1e-07, 1e22, 10**22]))
            ends[number] = end
        return metrics.finish()

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    prefixes = publish(theirs, kind)
    assert publish(ours, "builtin") == prefixes
    assert len(prefixes) == 3  # 12 series, 5 a file
    for name in files(theirs):
        assert lzma.decompress((ours / name).read_bytes()) == lzma.decompress((theirs / name).read_bytes())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "builtin"])
@pytest.mark.parametrize("seed", range(8))
def test_random_use_of_the_interface_gives_the_same_bytes_as_toolbox(kind, seed, monkeypatch, tmp_path):
    random_numbers = random.Random(seed)

    def publish(directory, kind):
        provide_sink(kind, monkeypatch, tmp_path)
        random_numbers.seed(seed)
        sink = open_sink(directory)
        returned = []
        for _ in range(300):
            sample = {"end": random_numbers.randrange(1, 10_000), "value": random_numbers.choice([0, 0, 0, 2, 2.0, 0.25])}
            if random_numbers.random() < 0.5:
                sample["begin"] = random_numbers.randrange(10_000)
            desc = random_numbers.choice([IPC, CYCLES, BUSY, FAULTS])
            names = {"package": random_numbers.choice("0123")}
            if returned and random_numbers.random() < 0.5:
                idx = random_numbers.choice(returned)
                sink.log_sample_by_idx(idx, sample["value"], sample["end"], sample.get("begin"))
            else:
                returned.append(sink.log_sample("perf-stat", desc, names, sample))
        return returned, sink.finish_samples(dont_delete=seed % 2 == 0)

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert publish(theirs, kind) == publish(ours, "builtin")
    assert len(files(theirs)) == 2
    for name in files(theirs):
        assert lzma.decompress((ours / name).read_bytes()) == lzma.decompress((theirs / name).read_bytes())


# ------------------------------------------------------------------------------- what would cost the run its indexing


@pytest.mark.parametrize("good", ["throughput", "latency", "count", "pass/fail", "boolean", "percentage"])
def test_a_class_that_toolbox_accepts_is_accepted(builtin, tmp_path, good):
    BuiltinSink(tmp_path).log_sample("perf-stat", {**IPC, "class": good}, {}, {"begin": 1, "end": 2, "value": 1})


@pytest.mark.parametrize(
    ("desc", "complaint"),
    [
        ({**IPC, "class": "utilization"}, "kernel:ipc: class 'utilization' is not one of throughput, latency, count"),
        ({"source": "kernel", "type": "ipc"}, "class None is not one of"),
        ({**IPC, "default-aggregation": "mean"}, "default-aggregation 'mean' is not one of sum, avg, max, min"),
        ({**IPC, "default-aggregation": ""}, "default-aggregation '' is not one of"),
    ],
)
def test_a_descriptor_that_toolbox_refuses_is_refused(builtin, tmp_path, desc, complaint):
    sink = BuiltinSink(tmp_path)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        sink.log_sample("perf-stat", desc, {}, {"begin": 1, "end": 2, "value": 1})
    assert files(tmp_path) == []
    with pytest.raises(ValueError, match=re.escape(complaint)):
        MetricFiles(tmp_path, "perf-stat", 1).series(desc, {})


def test_an_absent_default_aggregation_is_accepted(builtin, tmp_path):
    desc = {"source": "kernel", "class": "count", "type": "cycles"}
    assert BuiltinSink(tmp_path).log_sample("perf-stat", desc, {}, {"begin": 1, "end": 2, "value": 1}) == 0


@pytest.mark.parametrize("value", ["", 0, None, 1])
def test_a_breakout_that_toolbox_would_take_for_absent_is_refused(builtin, tmp_path, value):
    with pytest.raises(ValueError, match="kernel:ipc: cpu is"):
        MetricFiles(tmp_path, "perf-stat", 1).series(IPC, {"cpu": value})


def test_one_series_is_not_published_twice(builtin, tmp_path):
    metrics = MetricFiles(tmp_path, "perf-stat", 1)
    metrics.series(IPC, {"core": "0", "cpu": "1"})
    with pytest.raises(ValueError, match="registered already"):
        metrics.series(IPC, {"cpu": "1", "core": "0"})


@pytest.mark.parametrize(
    ("begin", "end", "value", "complaint"),
    [
        (3001, 4000, float("nan"), "nan is no finite number"),
        (3001, 4000, float("inf"), "inf is no finite number"),
        (3001, 4000, float("-inf"), "-inf is no finite number"),
        (3001, 4000, True, "True is no finite number"),
        (3001, 4000, "1", "'1' is no finite number"),
        (3001, 4000, None, "None is no finite number"),
        (3001.0, 4000, 1, "whole ms"),
        (3001, 4000.0, 1, "whole ms"),
        (True, 4000, 1, "whole ms"),
        (3001, 3000, 1, "cannot last from 3001 to 3000"),
        (-1, 4000, 1, "cannot last from -1"),
        (3000, 4000, 1, "a sample from 3000 overlaps the one that ended at 3000"),
        (1001, 2000, 1, "overlaps"),
    ],
)
def test_a_sample_that_indexing_would_drop_is_refused(builtin, tmp_path, begin, end, value, complaint):
    metrics = MetricFiles(tmp_path, "perf-stat", 9)
    series = metrics.series(IPC, {"cpu": "3"})
    metrics.sample(series, 2001, 3000, 1.5)
    with pytest.raises(ValueError, match=complaint):
        metrics.sample(series, begin, end, value)
    metrics.sample(series, 3001, 4000, 2.5)  # the others are not lost
    assert metrics.finish() == ["metric-data-perf-stat"]
    assert rows(tmp_path) == ["0,2001,3000,1.5", "0,3001,4000,2.5"]


def test_a_sample_before_the_epoch_is_refused(builtin, tmp_path):
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", 9)
    with pytest.raises(ValueError, match="cannot last from -5 to 10"):
        metrics.sample(metrics.series(IPC, {}), -5, 10, 1)
    assert metrics.finish() == []
    assert files(tmp_path) == []


@pytest.mark.parametrize("file_id", ["", "a b", "../up", ".hidden", "x/y"])
def test_a_file_that_rickshaw_would_not_find_is_refused(tmp_path, file_id):
    with pytest.raises(ValueError, match="file_id"):
        MetricFiles(tmp_path, file_id, 1)


def test_a_sink_does_not_mix_two_files(builtin, tmp_path):
    sink = BuiltinSink(tmp_path)
    sink.log_sample("perf-stat", IPC, {}, {"begin": 1, "end": 2, "value": 1})
    with pytest.raises(ValueError, match="perf-stat is not finished yet"):
        sink.log_sample("toplev", IPC, {}, {"begin": 1, "end": 2, "value": 1})


# ------------------------------------------------------------------------------------- files too large for the indexer


def test_more_rows_than_the_indexer_reads_are_spread_by_series(any_sink, tmp_path):
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series=3, max_rows=8)  # two series a file
    unsampled = metrics.series(FAULTS, {})
    series = [metrics.series(IPC, {"cpu": str(cpu)}) for cpu in range(5)]
    for interval in range(3):
        for cpu in (4, 0, 1, 2, 3):
            metrics.sample(series[cpu], 10 * interval + 1, 10 * interval + 10, 10 * cpu + interval)
    assert unsampled == 0
    assert metrics.finish() == ["metric-data-perf-stat", "metric-data-perf-stat-2", "metric-data-perf-stat-3"]
    assert rows(tmp_path, "metric-data-perf-stat") == [
        "0,1,10,40", "1,1,10,0", "0,11,20,41", "1,11,20,1", "0,21,30,42", "1,21,30,2",
    ]  # fmt: skip
    assert rows(tmp_path, "metric-data-perf-stat-3") == ["0,1,10,30", "0,11,20,31", "0,21,30,32"]
    assert [each["names"]["cpu"] for each in descriptors(tmp_path, "metric-data-perf-stat")] == ["4", "0"]
    assert [each["names"]["cpu"] for each in descriptors(tmp_path, "metric-data-perf-stat-2")] == ["1", "2"]
    assert [each["names"]["cpu"] for each in descriptors(tmp_path, "metric-data-perf-stat-3")] == ["3"]


@pytest.mark.parametrize(("rows_per_series", "file_count"), [(0, 1), (1, 1), (1000, 3), (10**9, 3)])
def test_a_file_takes_at_least_one_series(builtin, tmp_path, rows_per_series, file_count):
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series, max_rows=1000)
    for cpu in "012":
        metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    assert len(metrics.finish()) == file_count


# ------------------------------------------------------------------------------------------------ nothing half-written


def test_no_samples_leave_nothing(builtin, tmp_path):
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", 9)
    metrics.series(IPC, {})
    assert metrics.finish() == []
    assert files(tmp_path) == []


def test_nothing_of_an_indexers_name_exists_before_finish(any_sink, tmp_path):
    metrics = MetricFiles(tmp_path, "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), 1, 10, 1.5)
    (private,) = set(files(tmp_path)) - {"cwd", "home"}
    assert not re.search(r"metric-data-\S+\.json", private)
    metrics.abandon()
    metrics.abandon()
    assert set(files(tmp_path)) - {"cwd", "home"} == set()


def test_rows_are_in_place_before_the_first_descriptors(any_sink, tmp_path, monkeypatch):
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series=1, max_rows=1)
    for cpu in "01":
        metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    moved = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (moved.append(new.name), replace(old, new)))
    metrics.finish()
    assert moved == [
        "metric-data-perf-stat.csv.xz",
        "metric-data-perf-stat-2.csv.xz",
        "metric-data-perf-stat.json.xz",
        "metric-data-perf-stat-2.json.xz",
    ]


def sample_until_the_disk_is_full(metrics, series):
    random_numbers = random.Random(1)
    for number in range(200_000):
        metrics.sample(series, 10 * number + 1, 10 * number + 10, random_numbers.random())
    metrics.finish()


class FullDisk:
    """Files that fail with ENOSPC from the n-th write on."""

    def __init__(self, monkeypatch, good_writes):
        self.left = good_writes
        append = archive._Blocks.append

        def append_or_fail(blocks, data):
            if self.left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.left -= 1
            return append(blocks, data)

        monkeypatch.setattr(archive._Blocks, "append", append_or_fail)


@pytest.mark.parametrize("good_writes", [0, 1, 2, 3])
def test_a_disk_that_fills_up_at_the_end_publishes_nothing(any_sink, tmp_path, monkeypatch, good_writes):
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series=1, max_rows=1)
    for cpu in "01":
        metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    FullDisk(monkeypatch, good_writes)
    with pytest.raises(OSError, match="No space left"):
        metrics.finish()
    assert set(files(tmp_path)) - {"cwd", "home"} == set()
    assert metrics.finish() == []


def test_a_disk_that_fills_up_under_way_publishes_nothing(any_sink, tmp_path, monkeypatch):
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series=10_000)
    series = metrics.series(IPC, {})
    disk = FullDisk(monkeypatch, 2)
    with pytest.raises(OSError, match="No space left"):
        sample_until_the_disk_is_full(metrics, series)
    disk.left = 10**6  # somebody made room: what was lost is lost all the same
    with pytest.raises(RuntimeError, match="perf-stat: a sample could not be written"):
        metrics.finish()
    assert set(files(tmp_path)) - {"cwd", "home"} == set()


@pytest.mark.parametrize("failing", range(4))
def test_a_move_that_fails_takes_back_the_earlier_ones(builtin, tmp_path, monkeypatch, failing):
    metrics = MetricFiles(tmp_path, "perf-stat", rows_per_series=1, max_rows=1)
    for cpu in "01":
        metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    replace = os.replace
    calls = []

    def replace_or_fail(old, new):
        calls.append(new)
        if len(calls) > failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(old, new)

    monkeypatch.setattr(os, "replace", replace_or_fail)
    with pytest.raises(OSError, match="Input/output error"):
        metrics.finish()
    assert files(tmp_path) == []


@contextlib.contextmanager
def small_disk(directory):
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)], stderr=subprocess.DEVNULL, check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs may be mounted here: a disk that is really full is not tried")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_a_disk_that_is_really_full_publishes_nothing(any_sink, tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk):
        metrics = MetricFiles(disk, "perf-stat", rows_per_series=200_000)
        series = metrics.series(IPC, {})
        with pytest.raises(OSError, match="No space left"):
            sample_until_the_disk_is_full(metrics, series)
        metrics.abandon()
        assert files(disk) == []


def test_what_an_earlier_run_left_is_removed(tmp_path):
    for name in [
        "metric-data-perf-stat.csv.xz",
        "metric-data-perf-stat.json.xz",
        "metric-data-perf-stat.json",
        "metric-data-toplev-2.csv",
        "metric-data-perf-stat-0123456789ab.json",
        "metric-data-perf-stat-0123456789ab-12.csv.xz",
        ".partial-perf-stat-77/metric-data-perf-stat.csv.xz",
        ".partial-toplev-0123456789ab-x_1/metric-data-toplev-0123456789ab.csv.xz",
        "post-process-output.txt",
        "post-process-data.json",
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    remove_stale(tmp_path, ["perf-stat", "toplev"])
    assert files(tmp_path) == ["post-process-data.json", "post-process-output.txt"]
    remove_stale(tmp_path / "nowhere", ["perf-stat"])


def test_another_tools_metric_files_are_left_alone(tmp_path):
    """Whoever runs it in a directory that is another tool's loses none of that tool's metrics."""
    theirs = [
        ".partial-sar-1",
        "metric-data-0.csv.xz",
        "metric-data-0.json.xz",
        "metric-data-mpstat.json.xz",
        "metric-data-perf-0123456789ab.json.xz",
        "metric-data-perf-stat-of-kvm.json.xz",
        "metric-data-perf.json.xz",
        "metric-data-turbostats.csv.xz",
    ]
    for name in theirs:
        (tmp_path / name).touch()
    remove_stale(tmp_path, ["perf-stat", "toplev", "turbostat"])
    assert files(tmp_path) == theirs


def test_a_killed_subtool_takes_no_files_of_one_whose_name_begins_like_its_own(tmp_path):
    theirs = [
        ".partial-perf-stat-0123456789ab-x_1",
        "metric-data-perf-stat-0123456789ab-2.csv.xz",
        "metric-data-perf-stat-0123456789ab.csv.xz",
    ]
    for name in [*theirs, "metric-data-perf-0123456789ab.csv.xz", "metric-data-perf-0123456789ab-2.csv.xz"]:
        (tmp_path / name).touch()
    (tmp_path / ".partial-perf-0123456789ab-x_1").mkdir()
    remove_files(tmp_path, "perf-0123456789ab")
    assert files(tmp_path) == theirs


# --------------------------------------------------------------------------------------------------- a toolbox's state


def write_module(home, name, text):
    package = home / "python" / "toolbox"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / name).write_text(text)


def test_without_toolbox_home_the_builtin_sink_is_taken_silently(builtin, tmp_path, caplog):
    assert toolbox_sink(tmp_path) is None
    assert type(open_sink(tmp_path)) is BuiltinSink
    assert caplog.records == []


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ({}, "ModuleNotFoundError: No module named 'toolbox'"),
        ({"cdm_metrics.py": "class CDMMetrics(\n"}, "SyntaxError"),
        ({"cdm_metrics.py": "import nowhere_to_be_found\n"}, "No module named 'nowhere_to_be_found'"),
        ({"cdm_metrics.py": "raise RuntimeError('not\\nhere')\n"}, "RuntimeError: not here"),
        ({"cdm_metrics.py": "Metrics = None\n"}, "AttributeError"),
        ({"cdm_metrics.py": "class CDMMetrics:\n    log_sample_by_idx = None\n"}, "TypeError"),
        ({"metrics.py": "metric_data_fh = {}\n"}, "older than May 2021"),
    ],
)
def test_a_toolbox_that_cannot_be_imported_costs_one_line(monkeypatch, tmp_path, caplog, modules, reason):
    home = tmp_path / "home"
    home.mkdir()
    for name, text in modules.items():
        write_module(home, name, text)
    use_toolbox(monkeypatch, home)
    path_before = list(sys.path)
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", rows_per_series=1, max_rows=1)
    with caplog.at_level(logging.INFO, logger="kerneltools"):
        for cpu in "01":
            metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    assert len(metrics.finish()) == 2
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert reason in record.getMessage()
    assert str(home) in record.getMessage()
    assert "\n" not in record.getMessage()
    assert sys.path == path_before


FUTURE_TOOLBOX = """
import lzma, os
class CDMMetrics:
    def __init__(self, output_dir):
        self.path = os.path.join(output_dir, "metric-data-perf-stat")
    def log_sample(self, file_id, desc, names, sample):
        self.rows = [[0, sample["begin"], sample["end"], sample["value"]]]
        return 0
    def log_sample_by_idx(self, idx, value, end, begin=None):
        self.rows.append([idx, begin or self.rows[-1][2] + 1, end, value])
    def finish_samples(self, dont_delete=False):
        with lzma.open(self.path + ".csv.xz", "wt") as file:
            file.writelines(",".join(map(str, row)) + "\\n" for row in self.rows)
        with lzma.open(self.path + ".json.xz", "wt") as file:
            file.write("[]")
        return "metric-data-perf-stat"
"""


def test_a_toolbox_that_opens_its_output_otherwise_is_left_to_it(monkeypatch, tmp_path):
    write_module(tmp_path / "home", "cdm_metrics.py", FUTURE_TOOLBOX)
    use_toolbox(monkeypatch, tmp_path / "home")
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", 9)
    series = metrics.series(IPC, {})
    metrics.sample(series, 1, 10, 1.5)
    metrics.sample(series, 11, 20, 2.5)
    assert metrics.finish() == ["metric-data-perf-stat"]
    assert rows(tmp_path / "postprocess") == ["0,1,10,1.5", "0,11,20,2.5"]


def test_a_toolbox_that_was_released_with_a_syntax_error_costs_no_metrics(monkeypatch, tmp_path, caplog):
    if not HOME:
        pytest.skip(NO_TOOLBOX)
    install_toolbox(tmp_path / "home", "818d364", ["metrics.py"])
    use_toolbox(monkeypatch, tmp_path / "home")
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), 1, 10, 1.5)
    assert metrics.finish() == ["metric-data-perf-stat"]
    assert rows(tmp_path / "postprocess") == ["0,1,10,1.5"]
    assert "SyntaxError" in caplog.text


def test_an_older_toolbox_does_not_remove_the_data_directorys_metric_files(monkeypatch, tmp_path):
    provide_sink("May 2026, class, removes metric files", monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metric-data-somebody-elses.json.xz").touch()
    metrics = MetricFiles(tmp_path / "postprocess", "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), 1, 10, 1.5)
    metrics.finish()
    assert "metric-data-somebody-elses.json.xz" in files(tmp_path)
