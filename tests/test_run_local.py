# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""examples/run-local: what somebody sees who has just unpacked the repository and wants to know what it does."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import FOREIGN_VARIABLES, REPO
from perf_output import read_back, table_of

RUN_LOCAL = "examples/run-local"
SHORT = ["--seconds", "1.5", "--subtools=perf-stat", "--interval=0.5"]

# what each metric of the design is computed from
NEEDS = {
    "ipc": {"instructions", "cycles"},
    "l1d-cache-miss-rate": {"L1-dcache-load-misses", "cache-references"},
    "l1i-cache-miss-rate": {"L1-icache-load-misses", "instructions"},
    "cache-miss-rate": {"cache-misses", "cache-references"},
    "llc-miss-rate": {"LLC-load-misses", "LLC-loads"},
    "branch-miss-rate": {"branch-misses", "branches"},
    "dtlb-miss-rate": {"dTLB-load-misses", "dTLB-loads"},
    "itlb-miss-rate": {"iTLB-load-misses", "iTLB-loads"},
    "backend-stall-rate": {"stalled-cycles-backend", "cycles"},
    "frontend-stall-rate": {"stalled-cycles-frontend", "cycles"},
    "context-switches-sec": {"context-switches"},
    "cpu-migrations-sec": {"cpu-migrations"},
    "instructions-sec": {"instructions"},
    "cycles-sec": {"cycles"},
}
EVENTS = set().union(*NEEDS.values())


def at_work_in(directory):
    """Processes, but for this one, that work in a directory or below."""
    found = set()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            place = Path(os.readlink(process / "cwd"))
            if process.name.isdigit() and (directory == place or directory in place.parents):
                found.add(int(process.name))
    return found - {os.getpid()}


@pytest.fixture
def run_dir(tmp_path):
    """Where a run's files are to lie; nothing may be at work there after the test."""
    directory = tmp_path / "a run"
    yield directory
    left = at_work_in(directory)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"left behind: {left}"


def words(text):
    """Names as they stand in the text: cycles is not in cycles-sec."""
    return set(re.findall(r"[\w-]+", text))


def warned(out):
    """The words of the warnings; post-processing may have a NOTE about this or that metric, too."""
    return words("\n".join(text for text in out.splitlines() if text.startswith("WARNING: ")))


def test_it_measures_shows_a_table_and_says_where_the_files_lie(real_perf, run_script, run_dir):
    done = run_script(RUN_LOCAL, *SHORT, "--dir", run_dir)
    assert done.rc == 0, done.out + done.err
    table = table_of(re.split(r"^raw data and logs", done.out, flags=re.MULTILINE)[0].rstrip())
    unit, series, samples, mean, least, most = table["context-switches-sec"]
    assert (unit, series) == ("1/s", 1)
    assert 3 <= samples <= 8
    assert 0 < least <= mean <= most < 10_000_000
    assert table["cpu-migrations-sec"][:2] == ("1/s", 1)
    assert 0 <= table["cpu-migrations-sec"][3] <= mean
    assert str(run_dir) in done.out
    assert read_back(run_dir).types == set(table)
    assert {path.name for path in run_dir.glob("perf-stat-output*")} == {"perf-stat-output.json.xz"}
    assert 1.5 <= done.seconds < 30


def test_it_names_the_events_that_are_missing_and_the_metrics_that_costs(real_perf, run_script, run_dir):
    command = [real_perf, "stat", "-a", "-x,", "-e", ",".join(sorted(EVENTS)), "true"]
    trial = subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()
    missing = {event for event in EVENTS for line in trial if f"<not supported>,,{event}," in line}
    if not missing:
        pytest.skip("this machine counts every event")
    lost = {metric for metric, needs in NEEDS.items() if needs & missing}
    done = run_script(RUN_LOCAL, "--seconds=0.5", "--interval=0.2", "--dir", run_dir)
    assert done.rc == 0, done.err
    said = warned(done.out)
    assert missing | lost <= said
    assert not (EVENTS - missing) & said
    assert not (set(NEEDS) - lost) & said


def test_where_one_event_is_missing_it_names_that_and_its_metric_only(hwshim, run_script, run_dir):
    env = {"LD_PRELOAD": hwshim, "HWSHIM_UNSUPPORTED": "3:0x10002"}
    done = run_script(RUN_LOCAL, "--seconds=1", "--interval=0.3", "--dir", run_dir, env=env)
    assert done.rc == 0, done.err
    said = warned(done.out)
    assert said & (EVENTS | set(NEEDS)) == {"LLC-load-misses", "llc-miss-rate"}
    assert "ipc" in table_of(re.split(r"^raw data and logs", done.out, flags=re.MULTILINE)[0].rstrip())


NO_SECONDS = [["--seconds=0"], ["--seconds", "-1"], ["--seconds=soon"], ["--seconds="], ["--seconds"], ["--seconds=1e2"]]


@pytest.mark.parametrize("args", NO_SECONDS, ids=" ".join)
def test_seconds_that_are_none_are_refused_before_anything_happens(run_script, run_dir, args):
    done = run_script(RUN_LOCAL, "--dir", run_dir, *args)
    assert done.rc == 2
    assert done.err.startswith("ERROR: --seconds")
    assert len(done.err.splitlines()) == 1
    assert done.out == ""
    assert not run_dir.exists()


BAD_PARAMETERS = [("--nonsense=1", "--nonsense"), ("--subtools=nonesuch", "nonesuch"), ("--interval=soon", "soon")]


@pytest.mark.parametrize(("arg", "named"), BAD_PARAMETERS)
def test_starts_complaint_about_a_parameter_passes_through(real_perf, run_script, run_dir, arg, named):
    done = run_script(RUN_LOCAL, "--seconds=20", arg, "--dir", run_dir)
    assert done.rc == 2
    errors = [text for text in done.err.splitlines() if text.startswith("ERROR: ")]
    assert len(errors) == 1
    assert named in errors[0]
    assert done.seconds < 10
    assert not (run_dir / "kerneltools-pids.txt").exists()
    assert not table_of(done.out)


def test_without_a_directory_it_makes_a_new_one_each_time(real_perf, run_script, run_dir):
    run_dir.mkdir()
    for number in (1, 2):
        done = run_script(RUN_LOCAL, "--seconds=0.3", "--interval=0.1", env={"TMPDIR": run_dir})
        assert done.rc == 0, done.err
        made = list(run_dir.iterdir())
        assert len(made) == number
        assert any(str(directory) in done.out for directory in made)


@pytest.mark.parametrize("what", ["a terminal's Ctrl-C", "a signal to run-local alone"])
def test_interrupted_it_still_ends_and_shows_what_there_is(real_perf, run_dir, what):
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    process = subprocess.Popen(
        [REPO / RUN_LOCAL, "--seconds", "60", "--interval=0.2", "--dir", run_dir], env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        output = run_dir / "perf-stat-output.json"
        deadline = time.monotonic() + 20
        while not (output.exists() and output.read_text().count("context-switches") >= 3):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "nothing is collected"
            time.sleep(0.02)
        (os.killpg if "terminal" in what else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, err
    table = table_of(re.split(r"^raw data and logs", out, flags=re.MULTILINE)[0].rstrip())
    assert table["context-switches-sec"][2] >= 3
    assert (run_dir / "perf-stat-output.json.xz").exists()
    assert "context-switches-sec" in read_back(run_dir).types
    assert not at_work_in(run_dir)
