# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""trace-cmd: a stand-in with trace-cmd's files, messages and exit codes; the real one where it is installed, if only to refuse."""

import os
import shutil
import signal
import subprocess

import pytest
from collection import STOP_LOG, lines_with, log_lines, recorded, wait_until, warnings
from conftest import start_time

# As version 3.1 does it: a file for each CPU while it records, one recording made of them when it is interrupted.
TRACE_CMD = r"""
printf '%s\0' "$@" $'\n' >>"$TRACE_CMD_CALLS"
die() { printf '%s\n' "$2" >&2; exit "$1"; }
case $1 in
    record)
        [[ " $* " == *" -e "* || " $* " == *" -p "* ]] || die 255 '  no event or plugin was specified... aborting'
        [[ " $* " != *" nosuch "* ]] || die 2 $'trace-cmd: No such file or directory\n  No events enabled with nosuch'
        finish() {
            sleep "${TRACE_CMD_LINGERS:-0}"
            cat trace.dat.cpu0 trace.dat.cpu1 >trace.dat
            rm trace.dat.cpu0 trace.dat.cpu1
            echo 'CPU0 data recorded at offset=0x1'
            exit 0
        }
        trap finish INT
        echo 'Hit Ctrl^C to stop recording'
        echo 'sleep-1 [000] 1.0: sched_switch: a' >trace.dat.cpu0
        echo 'sleep-2 [001] 1.1: sched_switch: b' >trace.dat.cpu1
        while sleep 0.02; do :; done
        ;;
    report)
        [[ -z ${TRACE_CMD_REPORT_FAILS:-} ]] || die 1 'no data'
        echo 'cpus=2'
        cat "$3"
        ;;
    restore)
        [[ -z ${TRACE_CMD_RESTORE_FAILS:-} ]] || die 22 'failed to append data'
        cat "${@:4}" >"$3"
        ;;
    --version) printf '\ntrace-cmd version 3.1.6 (stand-in)\n\n'; exit 0 ;;
esac
"""


@pytest.fixture
def trace_cmd(stand_in, tmp_path, monkeypatch):
    """The calls of a trace-cmd that is played, as a function: a list of lists of arguments."""
    calls = tmp_path / "trace-cmd-calls"
    monkeypatch.setenv("TRACE_CMD_CALLS", str(calls))
    stand_in("trace-cmd", TRACE_CMD)
    return lambda: [record.split("\0")[:-1] for record in calls.read_text().split("\n\0") if record]


def start(run_script, *arguments, **env):
    return run_script("kerneltools-start", "--subtools=trace-cmd", *arguments, env=env)


def text_of(archive):
    return subprocess.run(["xz", "-dc", archive], capture_output=True, text=True, check=True).stdout


def killed(directory):
    """Kill the recorder, as the kernel does it where memory is short."""
    (collector,) = recorded(directory)
    assert wait_until((directory / "trace.dat.cpu1").exists)
    os.kill(collector.pid, signal.SIGKILL)
    assert wait_until(lambda: start_time(collector.pid) is None)


def test_events_are_recorded_reported_and_cleared(trace_cmd, run_script, data_dir, tmp_path):
    # its options are split as a shell splits them, and not evaluated
    options = f"-e sched  -f 'prev_comm == \"a b\"' -R $(touch${{IFS}}{tmp_path}/evaluated) \\*"
    done = start(run_script, f"--trace-cmd-record-opts={options}")
    assert (done.rc, done.out, done.err) == (0, "", "")
    done = run_script("kerneltools-stop")
    assert (done.rc, done.out, done.err) == (0, "", ""), log_lines(data_dir, STOP_LOG)
    assert trace_cmd() == [
        ["--version"],
        [
            "record", "--date", "-o", "trace.dat",
            "-e", "sched", "-f", 'prev_comm == "a b"', "-R", f"$(touch${{IFS}}{tmp_path}/evaluated)", "*",
        ],
        ["report", "-i", "trace.dat"],
        ["clear"],
    ]
    events = "sleep-1 [000] 1.0: sched_switch: a\nsleep-2 [001] 1.1: sched_switch: b\n"
    assert text_of(data_dir / "trace.dat.xz") == events
    assert text_of(data_dir / "trace-cmd-report.txt.xz") == f"cpus=2\n{events}"
    assert sorted(path.name for path in data_dir.glob("trace*")) == ["trace-cmd-report.txt.xz", "trace-cmd-stderrout.txt", "trace.dat.xz"]
    assert not (tmp_path / "evaluated").exists()
    assert run_script("kerneltools-stop").rc == 0


@pytest.mark.parametrize(
    ("options", "words"), [("-b 100", "no event or plugin was specified... aborting"), ("-e nosuch", "No events enabled with nosuch")]
)
def test_a_trace_cmd_that_refuses_is_skipped_with_its_own_words(trace_cmd, run_script, data_dir, options, words):
    done = start(run_script, f"--trace-cmd-record-opts={options}")
    assert done.rc == 1
    assert warnings(data_dir) == [f"WARNING: trace-cmd: skipped: {words}"]


def test_a_report_that_fails_costs_the_recording_nothing(trace_cmd, run_script, data_dir):
    start(run_script, "--trace-cmd-record-opts=-e sched")
    done = run_script("kerneltools-stop", env={"TRACE_CMD_REPORT_FAILS": "1"})
    assert done.rc == 1
    assert lines_with(warnings(data_dir, STOP_LOG), "trace-cmd report failed (exit 1")
    assert text_of(data_dir / "trace.dat.xz").count("sched_switch") == 2
    assert trace_cmd()[-1] == ["clear"]


def test_what_a_killed_trace_cmd_had_read_is_restored_and_tracing_reset(trace_cmd, run_script, data_dir):
    start(run_script, "--trace-cmd-record-opts=-e sched")
    killed(data_dir)
    done = run_script("kerneltools-stop")
    assert done.rc == 1, "it died, and that is said"
    assert "trace-cmd: had ended before stop" in done.err
    assert trace_cmd()[2:] == [
        ["reset"],
        ["restore", "-o", "trace.dat", "trace.dat.cpu0", "trace.dat.cpu1"],
        ["report", "-i", "trace.dat"],
        ["clear"],
    ]
    assert text_of(data_dir / "trace-cmd-report.txt.xz").count("sched_switch") == 2
    assert not list(data_dir.glob("trace.dat.cpu*"))


def test_what_cannot_be_restored_is_kept_as_it_is(trace_cmd, run_script, data_dir):
    start(run_script, "--trace-cmd-record-opts=-e sched")
    killed(data_dir)
    assert run_script("kerneltools-stop", env={"TRACE_CMD_RESTORE_FAILS": "1"}).rc == 1
    assert lines_with(warnings(data_dir, STOP_LOG), "trace-cmd restore failed", "trace.dat.cpu0 trace.dat.cpu1")
    assert text_of(data_dir / "trace.dat.cpu1.xz") == "sleep-2 [001] 1.1: sched_switch: b\n"


def test_without_the_program_it_is_skipped(run_script, data_dir, tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("bash", "env", "readlink", "lscpu", "uname", "mkdir", "cp", "flock", "rm", "stat", "nproc", "cat", "mv", "date"):
        if found := shutil.which(name):
            (tmp_path / "bin" / name).symlink_to(found)
    if os.path.exists("/usr/local/bin/trace-cmd"):
        pytest.skip("trace-cmd is in /usr/local/bin, where it is looked for too")
    done = start(run_script, "--trace-cmd-record-opts=-e sched", PATH=tmp_path / "bin")
    assert done.rc == 1
    assert warnings(data_dir) == ["WARNING: trace-cmd: skipped: trace-cmd is neither on PATH nor in /usr/local/bin"]


def test_the_real_one_refuses_in_its_own_words(run_script, data_dir):
    if os.geteuid() != 0 or shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed, or this is not root")
    done = start(run_script, "--trace-cmd-record-opts=-e nosuch:event")
    assert done.rc == 1
    (warning,) = warnings(data_dir)
    # where the kernel lets nobody trace, that is the reason
    assert warning.startswith("WARNING: trace-cmd: skipped: ")
    assert lines_with([warning], "No events enabled with nosuch:event") or lines_with([warning], "enable ftrace")
