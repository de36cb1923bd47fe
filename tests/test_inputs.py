# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Several inputs in one run: published side by side where there are cores, and none costs another its metrics."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import REPO, start_time
from perf_output import block, process, read_back, run_of, write_clock, write_output
from published import without_mark

from kerneltools import archive, inputs
from kerneltools.subtools import perf_stat, turbostat

SUBTOOLS = ("perf-stat", "turbostat")
BOTH = "|".join(SUBTOOLS)
TABLE = "Time_Of_Day_Seconds\tCPU\tBzy_MHz\n" + "".join(f"1760000{100 + n}.000000\t-\t{n}00\n" for n in (1, 2, 3))


@pytest.fixture(params=[1, 2, 8], ids=lambda number: f"{number} cores")
def cores(request, monkeypatch):
    monkeypatch.setattr(inputs, "cores", lambda: request.param)
    return request.param


@pytest.fixture
def both(data_dir):
    """A run of perf-stat and turbostat."""
    write_output(data_dir, run_of({"instructions": 6, "cycles": 4}, {"instructions": 8, "cycles": 4}))
    (data_dir / "turbostat-stdout.txt").write_text(TABLE)
    write_clock(data_dir, -10, 2)  # long before it counted, which is worth a note
    return data_dir


def assert_turbostat_is_whole(done):
    assert [value for _, _, value in done.metrics.samples("turbostat:cpu-busy-freq-mhz")] == [100, 200, 300]


def test_inputs_are_published_alike_whatever_the_cores(both, cores):
    done = process(both, BOTH)
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 2000, 2)]
    assert_turbostat_is_whole(done)
    # what is said of one subtool stands together, in the order of their names
    speakers = [line.split(": ")[1] for line in done.out.splitlines() if line.startswith("NOTE: ")]
    assert speakers == sorted(speakers)
    assert set(speakers) == set(SUBTOOLS)


def test_inputs_are_read_at_the_same_time(both, cores, monkeypatch, tmp_path):
    """Each waits for the other to have begun."""
    if cores == 1:
        pytest.skip("with one core they are read one after the other")

    def meeting(frames, mine, other):
        def frames_together(*arguments):
            (tmp_path / mine).touch()
            deadline = time.monotonic() + 30
            while not (tmp_path / other).exists():
                assert time.monotonic() < deadline, f"{other} has not begun"
                time.sleep(0.01)
            return frames(*arguments)

        return frames_together

    monkeypatch.setattr(perf_stat, "Frames", meeting(perf_stat.Frames, "perf-stat", "turbostat"))
    monkeypatch.setattr(turbostat, "Frames", meeting(turbostat.Frames, "turbostat", "perf-stat"))
    assert process(both, BOTH).rc == 0


def test_a_killed_reader_costs_its_own_metrics_only(both, monkeypatch):
    monkeypatch.setattr(inputs, "cores", lambda: 2)

    class DyingFrames(perf_stat.Frames):
        def __iter__(self):
            yield from super().__iter__()
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(perf_stat, "Frames", DyingFrames)
    done = process(both, BOTH)
    assert done.rc == 1
    assert "WARNING: perf-stat: nothing is published: the process that read its output was killed by SIGKILL" in done.log
    assert_turbostat_is_whole(done)
    assert [name for name in os.listdir(both / "postprocess") if "perf-stat" in name] == []


def test_a_reader_that_dies_behind_its_last_word_leaves_no_files_that_the_page_does_not_have(both, monkeypatch):
    monkeypatch.setattr(inputs, "cores", lambda: 2)
    publish = inputs._publish

    def publish_and_die(run, subtool, *arguments):
        outcome = publish(run, subtool, *arguments)
        if subtool == "perf-stat":
            assert "metric-data-perf-stat.json.xz" in map(without_mark, os.listdir(both / "postprocess"))
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    monkeypatch.setattr(inputs, "_publish", publish_and_die)
    done = process(both, BOTH)
    assert done.rc == 1
    assert_turbostat_is_whole(done)
    assert [name for name in os.listdir(both / "postprocess") if "perf-stat" in name] == []


def test_a_reader_goes_with_the_process_that_asked_for_it(both, monkeypatch, tmp_path):
    monkeypatch.setattr(inputs, "cores", lambda: 2)
    frames = perf_stat.Frames

    def frames_late(*arguments):
        (tmp_path / "reader").write_text(str(os.getpid()))
        time.sleep(60)
        return frames(*arguments)

    monkeypatch.setattr(perf_stat, "Frames", frames_late)
    parent = os.fork()
    if not parent:
        try:
            process(both, BOTH)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 30
    while not (tmp_path / "reader").exists() or not (tmp_path / "reader").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    reader = int((tmp_path / "reader").read_text())
    while start_time(reader) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [name for name in os.listdir(both / "postprocess") if name.startswith("metric-data-perf-stat")] == []
    monkeypatch.undo()
    assert process(both, BOTH).rc == 0


def test_a_reader_that_fails_says_why(both, cores, monkeypatch, capsys):
    def fail(*arguments):
        raise OSError("the disk does not answer")

    monkeypatch.setattr(perf_stat, "Frames", fail)
    done = process(both, BOTH)
    assert done.rc == 1
    assert "WARNING: perf-stat: nothing is published: OSError: the disk does not answer" in done.log
    assert_turbostat_is_whole(done)


def no_process(*arguments, **options):
    raise BlockingIOError("a limit on processes")


def no_thread(*arguments):
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("limit", ["processes", "pipes", "threads", "all"])
def test_where_no_process_or_thread_may_be_started_all_is_published(both, monkeypatch, limit):
    monkeypatch.setattr(inputs, "cores", lambda: 2)
    if limit in ("processes", "all"):
        monkeypatch.setattr(os, "fork", no_process)
    if limit == "pipes":
        monkeypatch.setattr(multiprocessing.get_context("fork"), "Pipe", no_process)
    if limit in ("threads", "all"):
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        monkeypatch.setattr(archive, "_compressor", archive._Compressor())
    done = process(both, BOTH)
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 2000, 2)]
    assert_turbostat_is_whole(done)


def test_without_the_call_that_ties_a_process_to_its_parent_all_is_published(both, monkeypatch):
    monkeypatch.setattr(inputs, "cores", lambda: 2)
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert process(both, BOTH).rc == 0


def test_two_post_processings_of_one_directory_take_turns(both):
    write_output(both, [line for second in range(1, 3000) for line in block(float(second), {"instructions": 6, "cycles": 4})])
    write_clock(both, 0, 2999)
    command = [sys.executable, REPO / "kerneltools-post-process", both]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert read_back(both, BOTH).samples("ipc") == [(1, 2_999_000, 1.5)]


def test_a_closed_standard_output_is_no_loss(both):
    closed = ["bash", "-c", '"$0" "$1" >&-', REPO / "kerneltools-post-process", both]
    done = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_back(both, BOTH).samples("ipc") == [(1, 1000, 1.5), (1001, 2000, 2)]
