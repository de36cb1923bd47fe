# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""boot_to_epoch.py: numbers by hand, and a window of a real recording."""

import contextlib
import io
import os
import subprocess
import time
from dataclasses import dataclass

import pytest
from conftest import REPO

import boot_to_epoch

PROGRAM = REPO / "boot_to_epoch.py"

# a recording that went from 1000.25 s to 1010.75 s of the node's clock
ENVIRONMENT = {
    "kernel": "6.1",
    "perf_record_clock": "CLOCK_MONOTONIC",
    "perf_record_clock_offset": "1700000000.123456789",
    "perf_record_clock_offset_at_stop": "1700000000.123400000",
}
CLOCK = "perf-stat begin 1\nperf-record begin 1700001000.373456789\nperf-record end 1700001010.873456789\n"


@pytest.fixture
def recording(data_dir):
    """recording(**environment): a data directory; a value of None takes a line away."""

    def make(clock=CLOCK, **environment):
        lines = [f"{key}={value}\n" for key, value in {**ENVIRONMENT, **environment}.items() if value is not None]
        (data_dir / "kerneltools-environment.txt").write_text("".join(lines))
        (data_dir / "kerneltools-clock.txt").write_text(clock)
        return data_dir

    return make


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def convert(*arguments, cwd="."):
    """The program in this process, which is quicker; test_help runs it as a user does."""
    before, out, err = os.getcwd(), io.StringIO(), io.StringIO()
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = boot_to_epoch.main([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code
    finally:
        os.chdir(before)
    return Done(code, out.getvalue(), err.getvalue())


def test_a_window_of_crucible_s_time_becomes_one_of_the_recording(recording):
    done = convert("--sample-start=1700001002123", "--sample-stop=1700001007500", cwd=recording())
    # 1700001002.123 - 1700000000.123456789; 1700001007.500 - 1700000000.123456789
    assert (done.returncode, done.stdout, done.stderr) == (0, "perf report --time 1001.999543211,1007.376543211\n", "")


def test_one_end_alone_leaves_the_other_open(recording):
    directory = recording()
    assert convert("-d", directory, "-s1", "1700001002123").stdout == "perf report --time 1001.999543211,\n"
    assert convert("-d", directory, "-s2", "1700001002123").stdout == "perf report --time ,1001.999543211\n"


def test_times_of_the_recording_become_milliseconds(recording):
    done = convert("--to-epoch", "1001.999543211", "1001.9", "1002", cwd=recording())
    assert (done.returncode, done.stdout) == (0, "1700001002123\n1700001002023\n1700001002123\n")


def test_explicit_numbers_need_no_directory(tmp_path):
    done = convert("-b", "1700000000", "-s1", "1700001002123", "-s2", "1700001007500.5", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "perf report --time 1002.123000000,1007.500500000\n", "")


def test_the_predecessor_s_options_are_taken(tmp_path):
    done = convert("-b", 1700000000, "-f", "1000.25", "-s1", 1700001002123, "-s2", 1700001007500, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "perf report --time 1002.123000000,1007.500000000\n", "")


def test_where_only_the_end_is_known_the_last_sample_tells_the_rest(recording):
    directory = recording(perf_record_clock="perf's own", perf_record_clock_offset="unknown")
    done = convert("-d", directory, "-s1", "1700001002123")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ERROR: samples were stamped with perf's own, ")
    assert "--last-sample" in done.stderr
    # 1700001010.873456789 is 500.0 there; the clock file is read as a float, to a microsecond
    done = convert("-d", directory, "-s1", "1700001002123", "--last-sample", "500")
    assert done.returncode == 0
    assert float(done.stdout.split()[-1].rstrip(",")) == pytest.approx(500 - 8.750457, abs=2e-6)


@pytest.mark.parametrize(
    ("start", "stop"), [(1700000000000, 1700001000373), (1700001010874, 1700001010999), (1700001010874, None), (None, 1700001000373)]
)
def test_a_window_of_which_there_is_nothing_is_an_error(recording, start, stop):
    window = [f"{option}={value}" for option, value in (("--sample-start", start), ("--sample-stop", stop)) if value]
    done = convert(*window, cwd=recording())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ERROR: the recording has nothing of that time: it goes from 1700001000373 to 1700001010873 (milliseconds since the epoch)\n"
    )


def test_a_window_of_which_there_is_a_part_is_given_and_said(recording):
    done = convert("-s1", "1700001000000", "-s2", "1700001005000", cwd=recording())
    assert (done.returncode, done.stdout) == (0, "perf report --time 999.876543211,1004.876543211\n")
    assert done.stderr.startswith("NOTE: the recording has only a part of that time: it goes from 1700001000373 ")


def test_a_clock_that_was_set_meanwhile_is_said(recording):
    done = convert("-s1", "1700001002123", cwd=recording(perf_record_clock_offset_at_stop="1699999998.023456789"))
    assert done.stdout == "perf report --time 1001.999543211,\n"
    assert done.stderr.startswith("NOTE: the node's time was set by -2.100 s during the recording")
    assert "--sys-boot-time 1699999998.023456789" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-s1", "1700001007500", "-s2", "1700001002123"], "the window ends (1700001002123) before it begins (1700001007500)"),
        (["-s1", "1600000000000", "-b", "1700000000"], "before the recording's clock was 0"),
        (["-s1", "1700001002123", "-d", "/nowhere"], "/nowhere/kerneltools-environment.txt cannot be read: name the data directory"),
    ],
)
def test_what_cannot_be_told_is_one_line_and_exit_1(recording, arguments, words):
    done = convert(*arguments, cwd=recording())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ERROR: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_without_perf_record_is_named_as_such(recording):
    done = convert("-s1", "1700001002123", cwd=recording(perf_record_clock=None, perf_record_clock_offset=None))
    assert done.returncode == 1
    assert "says nothing about perf-record" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["-s1", "x"], ["-s1", "-5"], ["-s1", "1e12"], ["-s1", "nan"], ["-s1", "1700001002"], ["-b", "1700000000"], ["-e"],
        ["-e", "1", "-s1", "1700001002123"], ["-s1", "1700001002123", "-b", "1", "-l", "1"], ["1700001002123"],
    ],
)  # fmt: skip
def test_bad_usage_is_exit_2(recording, arguments):
    done = convert(*arguments, cwd=recording())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


def test_seconds_for_milliseconds_are_recognized(recording):
    assert "is not in milliseconds since the epoch" in convert("-s1", "1700001002", cwd=recording()).stderr


def test_help_shows_how_it_is_used(tmp_path):
    done = subprocess.run([PROGRAM, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "boot_to_epoch.py --sample-start" in done.stdout
    done = subprocess.run([PROGRAM, "-b1700000000", "-s1", "1700001002123"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "perf report --time 1002.123000000,\n", "")


def test_perf_finds_the_samples_of_a_window_and_no_others(real_perf, run_script, data_dir):
    done = run_script("kerneltools-start", "--subtools=perf-record", "--record-opts=-e cpu-clock -F 999 --all-kernel -B")
    if done.rc != 0:
        pytest.skip(f"perf record does not work here: {done.err}")
    time.sleep(0.3)
    begin = round(time.time() * 1000)
    time.sleep(0.3)
    end = round(time.time() * 1000)
    time.sleep(0.2)
    run_script("kerneltools-stop")
    subprocess.run(["xz", "-d", data_dir / "perf.data.xz"], check=True)
    done = convert("-s1", begin, "-s2", end, cwd=data_dir)
    assert (done.returncode, done.stderr) == (0, "")
    *command, window = done.stdout.split()
    assert command == ["perf", "report", "--time"]
    script = [real_perf, "script", "-i", data_dir / "perf.data", "-F", "time"]
    everything, inside = (
        [word.rstrip(":") for word in subprocess.run([*script, *more], capture_output=True, text=True, check=True).stdout.split()]
        for more in ([], ["--time", window])
    )
    assert 0 < len(inside) < len(everything)
    moments = [int(line) for line in convert("-e", *inside, cwd=data_dir).stdout.splitlines()]
    # perf script prints microseconds
    assert begin - 1 <= min(moments) <= max(moments) <= end + 1
