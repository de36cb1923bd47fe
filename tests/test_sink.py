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

from kerneltools import archive, metric_files, toolbox
from kerneltools.catalogue import Metric
from kerneltools.frames import Series
from kerneltools.metric_files import MetricFiles, remove_files, remove_stale
from kerneltools.sink import BuiltinSink, check_descriptor, open_sink
from kerneltools.toolbox import toolbox_metrics

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


class Samples:
    """Metric files that are given samples one by one: those that end at one moment are a frame."""

    def __init__(self, directory, file_id, rows_per_series):
        self._files = MetricFiles(directory, file_id, rows_per_series)
        self._ends = []
        self._frame = {}
        self._end = None
        self.abandon = self._files.abandon

    def series(self, desc, names):
        metric = Metric("perf-stat", desc["type"], desc["class"], "", desc["default-aggregation"], "", "", 1.0, "field", "meaning")
        self._files.add(Series(metric, desc["type"], "", names))
        self._ends.append(None)
        return len(self._ends) - 1

    def sample(self, series, begin, end, value):
        if end != self._end:
            self.flush()
        self._end = end
        self._frame[series] = begin, value

    def flush(self):
        frame, self._frame = self._frame, {}
        if not frame:
            return
        begins = {series: begin for series, (begin, _) in frame.items() if self._ends[series] is None or begin != self._ends[series] + 1}
        self._files.publish(self._end, [frame[series][1] if series in frame else None for series in range(len(self._ends))], begins)
        self._ends = [self._end if series in frame else end for series, end in enumerate(self._ends)]

    def finish(self):
        self.flush()
        return self._files.finish()


@pytest.fixture
def most_rows(monkeypatch):
    """Sets how many rows a file may have."""
    return lambda number: monkeypatch.setattr(metric_files, "MOST_ROWS", number)


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

    def open_and_note(output_dir, file_id):
        opened.append(open_sink(output_dir, file_id))
        return opened[-1]

    monkeypatch.setattr(metric_files, "open_sink", open_and_note)
    yield
    assert {type(getattr(sink, "_metrics", sink)).__name__ for sink in opened} == {expected}
    assert os.listdir(cwd) == []


@pytest.fixture
def builtin(monkeypatch):
    use_toolbox(monkeypatch, None)


@pytest.fixture(autouse=True)
def every_warning_is_new(monkeypatch):
    monkeypatch.setattr(toolbox, "_warned", set())


def rows(directory, prefix="metric-data-perf-stat"):
    return lzma.open(directory / f"{prefix}.csv.xz", "rt").read().splitlines()


def descriptors(directory, prefix="metric-data-perf-stat"):
    return json.loads(lzma.open(directory / f"{prefix}.json.xz", "rt").read())


def files(directory):
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


# ------------------------------------------------------------------------------------------------ what the rows say


def test_every_sink_writes_the_rows_a_user_queries(any_sink, tmp_path):
    metrics = Samples(tmp_path / "postprocess", "perf-stat", rows_per_series=9)
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
    metrics.sample(cycles, 3001, 4000, 0)
    metrics.sample(ipc, 5001, 6000, 0.75)  # a hole before another value
    metrics.sample(ipc, 7001, 8000, 0.75)  # a hole before the same value
    assert metrics.finish() == ["metric-data-perf-stat"]

    assert rows(tmp_path / "postprocess") == [
        "1,1001,2000,7000000000",
        "0,1001,3000,1.25",
        "1,2001,3000,6999999999",
        "0,3001,4000,0.5",
        "0,5001,6000,0.75",
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
    metrics = Samples(tmp_path, "perf-stat", 9)
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
    metrics = Samples(tmp_path, "perf-stat", 9)
    series = metrics.series(CYCLES, {})
    for begin, end in [(1, 10), (21, 30), (31, 40), (41, 50), (51, 60)]:
        metrics.sample(series, begin, end, 4)
    metrics.finish()
    # The first row after the hole stays by itself: what keeps it from its predecessor keeps it from its successor.
    assert rows(tmp_path) == ["0,1,10,4", "0,21,30,4", "0,31,60,4"]


def test_an_int_and_a_float_of_one_value_are_one_row(any_sink, tmp_path):
    metrics = Samples(tmp_path, "perf-stat", 9)
    whole = metrics.series(CYCLES, {})
    real = metrics.series(IPC, {})
    metrics.sample(whole, 1001, 2000, 5)
    metrics.sample(real, 1001, 2000, 5.0)
    metrics.sample(whole, 2001, 3000, 5.0)
    metrics.sample(real, 2001, 3000, 5)
    metrics.sample(real, 3001, 4000, 1e-07)
    metrics.finish()
    assert rows(tmp_path) == ["1,1001,3000,5.0", "0,1001,3000,5", "1,3001,4000,1e-07"]


def test_every_file_is_compressed_cheaply(any_sink, tmp_path, monkeypatch, most_rows):
    most_rows(10)
    presets = []
    compress = lzma.compress

    def note_preset(data, **options):
        presets.append(options.get("preset"))
        return compress(data, **options)

    def refuse(*arguments, **options):
        raise AssertionError(f"{arguments} {options}: a file is opened with a compressor of its own")

    monkeypatch.setattr(lzma, "compress", note_preset)
    monkeypatch.setattr(lzma, "LZMAFile", refuse)
    metrics = Samples(tmp_path, "perf-stat", rows_per_series=10)
    for package in "012":
        metrics.sample(metrics.series(IPC, {"package": package}), 1, 10, 1.5)
    metrics.finish()
    assert presets == [archive.LZMA_PRESET] * 6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "builtin"])
@pytest.mark.parametrize("seed", range(8))
def test_random_samples_give_the_same_bytes_as_toolbox(kind, seed, monkeypatch, tmp_path, most_rows):
    random_numbers = random.Random(seed)
    most_rows(300)

    def publish(directory, kind):
        provide_sink(kind, monkeypatch, tmp_path)
        random_numbers.seed(seed)
        metrics = Samples(directory, "perf-stat", rows_per_series=60)
        numbers = [
            metrics.series(desc, dict(names))
            for desc in (IPC, CYCLES, BUSY, FAULTS)
            for names in ((), (("package", "0"),), (("package", "1"), ("core", "0")))
        ]
        ends = {}
        begin = 1_790_000_000_000
        for _ in range(60):
            begin += random_numbers.choice([0, 0, 0, 1, 1000])
            end = begin + random_numbers.choice([0, 999, 9999])
            for number in numbers:
                if random_numbers.random() < 0.8:
                    first = ends.get(number, begin - 1) + 1 if random_numbers.random() < 0.8 else begin
                    metrics.sample(number, first, end, random_numbers.choice([0, 0.0, 1, 1.0, -0.5, 1e-07, 1e22, 10**22, 2**60]))
                    ends[number] = end
            begin = end + 1
        return metrics.finish()

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    prefixes = publish(theirs, kind)
    assert publish(ours, "builtin") == prefixes
    assert len(prefixes) == 3  # 12 series, 5 a file
    for name in files(theirs):
        assert lzma.decompress((ours / name).read_bytes()) == lzma.decompress((theirs / name).read_bytes())


# ------------------------------------------------------------------------------- what would cost the run its indexing


@pytest.mark.parametrize("good", ["throughput", "latency", "count", "pass/fail", "boolean", "percentage"])
def test_a_class_that_toolbox_accepts_is_accepted(good):
    check_descriptor({**IPC, "class": good})


@pytest.mark.parametrize(
    ("desc", "complaint"),
    [
        ({**IPC, "class": "utilization"}, "kernel:ipc: class 'utilization' is not one of throughput, latency, count"),
        ({**IPC, "class": None}, "class None is not one of"),
        ({**IPC, "default-aggregation": "mean"}, "default-aggregation 'mean' is not one of sum, avg, max, min"),
        ({**IPC, "default-aggregation": ""}, "default-aggregation '' is not one of"),
    ],
)
def test_a_descriptor_that_toolbox_refuses_is_refused(builtin, tmp_path, desc, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        Samples(tmp_path, "perf-stat", 1).series(desc, {})
    assert files(tmp_path) == []


def test_an_absent_default_aggregation_is_accepted():
    check_descriptor({"source": "kernel", "class": "count", "type": "cycles"})


@pytest.mark.parametrize("value", ["", 0, None, 1])
def test_a_breakout_that_toolbox_would_take_for_absent_is_refused(builtin, tmp_path, value):
    with pytest.raises(ValueError, match="kernel:ipc: cpu is"):
        Samples(tmp_path, "perf-stat", 1).series(IPC, {"cpu": value})


@pytest.mark.parametrize(
    ("begin", "end", "value", "complaint"),
    [
        (3001, 4000, float("nan"), "nan is no finite number"),
        (3001, 4000, float("inf"), "inf is no finite number"),
        (3001, 4000, float("-inf"), "-inf is no finite number"),
        (3001, 4000, True, "True is no finite number"),
        (3001, 4000, "1", "'1' is no finite number"),
        (3001, 4000.0, 1, "cannot end at 4000.0"),
        (3002, 3001, 1, "cannot last from 3002 to 3001"),
        (-1, 4000, 1, "cannot last from -1 to 4000"),
        (1001, 2000, 1, "cannot end at 2000, 3000 was the last end"),
    ],
)
def test_a_frame_that_indexing_would_not_take_is_refused(builtin, tmp_path, begin, end, value, complaint):
    metrics = Samples(tmp_path, "perf-stat", 9)
    series = metrics.series(IPC, {"cpu": "3"})
    metrics.sample(series, 2001, 3000, 1.5)
    metrics.sample(series, begin, end, value)
    with pytest.raises(ValueError, match=complaint):
        metrics.flush()
    metrics.sample(series, 3001, 4000, 2.5)  # the others are not lost
    assert metrics.finish() == ["metric-data-perf-stat"]
    assert rows(tmp_path) == ["0,2001,3000,1.5", "0,3001,4000,2.5"]


def test_a_sample_before_the_epoch_is_refused(builtin, tmp_path):
    metrics = Samples(tmp_path / "postprocess", "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), -5, 10, 1)
    with pytest.raises(ValueError, match="cannot last from -5 to 10"):
        metrics.flush()
    assert metrics.finish() == []
    assert files(tmp_path) == []


@pytest.mark.parametrize("file_id", ["", "a b", "../up", ".hidden", "x/y"])
def test_a_file_that_rickshaw_would_not_find_is_refused(tmp_path, file_id):
    with pytest.raises(ValueError, match="file_id"):
        Samples(tmp_path, file_id, 1)


# ------------------------------------------------------------------------------------- files too large for the indexer


def test_more_rows_than_the_indexer_reads_are_spread_by_series(any_sink, tmp_path, most_rows):
    most_rows(8)
    metrics = Samples(tmp_path, "perf-stat", rows_per_series=3)  # two series a file
    metrics.series(FAULTS, {})  # never sampled
    series = [metrics.series(IPC, {"cpu": str(cpu)}) for cpu in range(5)]
    for interval in range(3):
        for cpu in (4, 0, 1, 2, 3):
            if (interval, cpu) != (0, 0):  # that of CPU 0 begins late
                metrics.sample(series[cpu], 10 * interval + 1, 10 * interval + 10, 10 * cpu + interval)
    assert metrics.finish() == ["metric-data-perf-stat", "metric-data-perf-stat-2", "metric-data-perf-stat-3"]
    assert rows(tmp_path, "metric-data-perf-stat") == [
        "0,1,10,40", "1,1,10,10", "0,11,20,41", "1,11,20,11", "0,21,30,42", "1,21,30,12",
    ]  # fmt: skip
    assert rows(tmp_path, "metric-data-perf-stat-3") == ["0,11,20,1", "0,21,30,2"]
    assert [each["names"]["cpu"] for each in descriptors(tmp_path, "metric-data-perf-stat")] == ["4", "1"]
    assert [each["names"]["cpu"] for each in descriptors(tmp_path, "metric-data-perf-stat-2")] == ["2", "3"]
    assert [each["names"]["cpu"] for each in descriptors(tmp_path, "metric-data-perf-stat-3")] == ["0"]


@pytest.mark.parametrize(("rows_per_series", "file_count"), [(0, 1), (1, 1), (1000, 3), (10**9, 3)])
def test_a_file_takes_at_least_one_series(builtin, tmp_path, rows_per_series, file_count, most_rows):
    most_rows(1000)
    metrics = Samples(tmp_path, "perf-stat", rows_per_series)
    for cpu in "012":
        metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    assert len(metrics.finish()) == file_count


# ------------------------------------------------------------------------------------------------ nothing half-written


def test_no_samples_leave_nothing(builtin, tmp_path):
    metrics = Samples(tmp_path / "postprocess", "perf-stat", 9)
    metrics.series(IPC, {})
    assert metrics.finish() == []
    assert files(tmp_path) == []


def test_nothing_of_an_indexers_name_exists_before_finish(any_sink, tmp_path):
    metrics = Samples(tmp_path, "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), 1, 10, 1.5)
    metrics.flush()
    (private,) = set(files(tmp_path)) - {"cwd", "home"}
    assert not re.search(r"metric-data-\S+\.json", private)
    metrics.abandon()
    metrics.abandon()
    assert set(files(tmp_path)) - {"cwd", "home"} == set()


def test_rows_are_in_place_before_the_first_descriptors(any_sink, tmp_path, monkeypatch, most_rows):
    most_rows(1)
    metrics = Samples(tmp_path, "perf-stat", rows_per_series=1)
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
def test_a_disk_that_fills_up_at_the_end_publishes_nothing(any_sink, tmp_path, monkeypatch, good_writes, most_rows):
    most_rows(1)
    metrics = Samples(tmp_path, "perf-stat", rows_per_series=1)
    for cpu in "01":
        metrics.sample(metrics.series(IPC, {"cpu": cpu}), 1, 10, 1.5)
    FullDisk(monkeypatch, good_writes)
    with pytest.raises(OSError, match="No space left"):
        metrics.finish()
    assert set(files(tmp_path)) - {"cwd", "home"} == set()
    assert metrics.finish() == []


def test_a_disk_that_fills_up_under_way_publishes_nothing(any_sink, tmp_path, monkeypatch):
    metrics = Samples(tmp_path, "perf-stat", rows_per_series=10_000)
    series = metrics.series(IPC, {})
    disk = FullDisk(monkeypatch, 2)
    with pytest.raises(OSError, match="No space left"):
        sample_until_the_disk_is_full(metrics, series)
    disk.left = 10**6  # somebody made room: what was lost is lost all the same
    with pytest.raises(RuntimeError, match="perf-stat: a sample could not be written"):
        metrics.finish()
    assert set(files(tmp_path)) - {"cwd", "home"} == set()


@pytest.mark.parametrize("failing", range(4))
def test_a_move_that_fails_takes_back_the_earlier_ones(builtin, tmp_path, monkeypatch, failing, most_rows):
    most_rows(1)
    metrics = Samples(tmp_path, "perf-stat", rows_per_series=1)
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
        metrics = Samples(disk, "perf-stat", rows_per_series=200_000)
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
    assert toolbox_metrics(tmp_path) is None
    assert type(open_sink(tmp_path, "perf-stat")) is BuiltinSink
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
def test_a_toolbox_that_cannot_be_imported_costs_one_line(monkeypatch, tmp_path, caplog, modules, reason, most_rows):
    most_rows(1)
    home = tmp_path / "home"
    home.mkdir()
    for name, text in modules.items():
        write_module(home, name, text)
    use_toolbox(monkeypatch, home)
    path_before = list(sys.path)
    metrics = Samples(tmp_path / "postprocess", "perf-stat", rows_per_series=1)
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
    metrics = Samples(tmp_path / "postprocess", "perf-stat", 9)
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
    metrics = Samples(tmp_path / "postprocess", "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), 1, 10, 1.5)
    assert metrics.finish() == ["metric-data-perf-stat"]
    assert rows(tmp_path / "postprocess") == ["0,1,10,1.5"]
    assert "SyntaxError" in caplog.text


def test_an_older_toolbox_does_not_remove_the_data_directorys_metric_files(monkeypatch, tmp_path):
    provide_sink("May 2026, class, removes metric files", monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metric-data-somebody-elses.json.xz").touch()
    metrics = Samples(tmp_path / "postprocess", "perf-stat", 9)
    metrics.sample(metrics.series(IPC, {}), 1, 10, 1.5)
    metrics.finish()
    assert "metric-data-somebody-elses.json.xz" in files(tmp_path)
