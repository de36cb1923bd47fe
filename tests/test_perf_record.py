# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""perf-record: the real perf with a software event; a perf that is played where things have to go wrong."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from collection import STOP_LOG, clock, environment_file, lines_with, log_lines, recorded, wait_until, warnings
from conftest import start_time

# software, and of the kernel only: few binaries are hit, so the archive is small
EVENT = "-e cpu-clock -F 199 --all-kernel"
ARCHIVE = "perf.data.tar.bz2"


@pytest.fixture(scope="module")
def real_record(real_perf, tmp_path_factory):
    """A perf that can record system-wide here."""
    command = [real_perf, "record", "-a", "-B", "-N", "-e", "cpu-clock", "-o", tmp_path_factory.mktemp("trial") / "perf.data", "true"]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        pytest.skip(f"perf record -a does not work here: {trial.stderr.strip()}")
    return real_perf


def start(run_script, *arguments, **env):
    return run_script("kerneltools-start", "--subtools=perf-record", *arguments, env=env)


def raw(directory):
    """perf.data.xz decompressed beside it."""
    subprocess.run(["xz", "-dk", directory / "perf.data.xz"], check=True)
    return directory / "perf.data"


def sample_times(perf, recording, *options):
    """The times of a recording's samples, in its own seconds."""
    command = [perf, "script", "-i", recording, "-F", "time", *options]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(word.rstrip(":")) for word in output.split()]


def archived(directory):
    return subprocess.run(["tar", "-tjf", directory / ARCHIVE], capture_output=True, text=True, check=True).stdout.splitlines()


def need_archive(perf):
    executables = subprocess.run([perf, "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.exists(f"{executables}/perf-archive") or shutil.which("bzip2") is None or shutil.which("tar") is None:
        pytest.skip("perf archive, tar or bzip2 is not installed")


# --- the real perf


def test_samples_binaries_and_report_are_kept(real_record, run_script, data_dir, tmp_path):
    need_archive(real_record)
    done = start(run_script, f"--record-opts={EVENT} -g", "--perf-gen-local-report", HOME=tmp_path)
    assert (done.rc, done.out, done.err) == (0, "", "")
    time.sleep(0.3)
    # by hand, stop is called without any parameter
    done = run_script("kerneltools-stop", env={"HOME": tmp_path})
    assert (done.rc, done.out, done.err) == (0, "", ""), log_lines(data_dir, STOP_LOG)
    assert warnings(data_dir, STOP_LOG) == []
    assert not (data_dir / "perf.data").exists()
    if (data_dir / ARCHIVE).exists():
        assert any(line.startswith("[kernel.kallsyms]/") for line in archived(data_dir))
    else:
        assert lines_with(log_lines(data_dir, STOP_LOG), "NOTE: perf-record: no perf.data.tar.bz2: ")
    assert "of event 'cpu-clock" in (data_dir / "perf-report.txt").read_text()
    assert not (data_dir / "perf-record-buildids").exists()
    assert not (tmp_path / ".debug").exists(), "nothing is written elsewhere"
    done = run_script("kerneltools-stop")
    assert (done.rc, "nothing to do" in log_lines(data_dir, STOP_LOG)[-1]) == (0, True)
    recording = raw(data_dir)
    header = subprocess.run([real_record, "report", "--header-only", "-i", recording], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^# clockid: monotonic", header, re.MULTILINE)


def test_the_former_name_is_accepted_and_said(perf, run_script, data_dir):
    done = run_script("kerneltools-start", "--subtools=perf")
    assert done.rc == 0
    assert warnings(data_dir) == ["WARNING: --subtools: perf is the former name of perf-record"]
    assert [collector.subtool for collector in recorded(data_dir)] == ["perf-record"]


def test_the_times_of_samples_are_epoch_times_by_what_start_noted(real_record, run_script, data_dir):
    start(run_script, f"--record-opts={EVENT}")
    time.sleep(0.2)
    assert run_script("kerneltools-stop").rc == 0
    environment, moments = environment_file(data_dir), clock(data_dir)
    assert environment["perf_record_clock"] == "CLOCK_MONOTONIC"
    offset, at_stop = (float(environment[f"perf_record_clock_offset{moment}"]) for moment in ("", "_at_stop"))
    assert abs(offset - at_stop) < 0.01, "unless somebody set the clock just now"
    times = [time + offset for time in sample_times(real_record, raw(data_dir))]
    assert float(moments["perf-record", "begin"]) < times[0]
    assert times[-1] < float(moments["perf-record", "end"]) + 0.1


@pytest.mark.parametrize(
    ("options", "words"), [("-e no-such-event", "parser error|Bad event name"), ("--no-such-option", "unknown option `no-such-option'")]
)
def test_options_that_perf_does_not_take_are_named_in_its_words(real_record, run_script, data_dir, options, words):
    assert start(run_script, f"--record-opts={options}").rc == 1
    (warning,) = warnings(data_dir)
    assert warning.startswith("WARNING: perf-record: skipped: ")
    assert re.search(words, warning)
    assert start(run_script, f"--record-opts={EVENT}").rc == 0, "nothing is in the way of another try"


def test_a_killed_perf_is_said_and_what_it_wrote_is_kept(real_record, run_script, data_dir):
    start(run_script, "--record-opts=-e cpu-clock -F 4000 --no-buffering")
    (collector,) = recorded(data_dir)
    assert wait_until(lambda: (data_dir / "perf.data").stat().st_size > 20000)
    os.kill(collector.pid, signal.SIGKILL)
    assert wait_until(lambda: start_time(collector.pid) is None)
    done = run_script("kerneltools-stop")
    assert done.rc == 1
    assert "perf-record: had ended before stop" in done.err
    assert (data_dir / "perf.data.xz").exists()
    assert run_script("kerneltools-stop").rc == 0


# --- a perf that is played

PERF = r"""
printf '%s\0' "$@" $'\n' >>"$PERF_CALLS"
[[ $1 != --buildid-dir ]] || { buildids=$2; shift 2; }
case $1 in
    record)
        trap 'mkdir -p "$buildids/.build-id"; echo copy >"$buildids/.build-id/copy"; echo end >>perf.data; exit 130' INT
        echo PERFILE2 >perf.data
        while sleep 0.02; do :; done
        ;;
    archive)
        [[ -s perf.data ]] || exit 9
        case ${PERF_ARCHIVE:-} in
            '') tar -cjf perf.data.tar.bz2 -C "$buildids" .build-id/copy ;;
            none) echo 'perf archive: no build-ids found'; exit 1 ;;
            no-copies)
                rm "$buildids/.build-id/copy"
                echo 'tar: .build-id/24/a3: Cannot stat: No such file or directory' >&2
                tar -cjf perf.data.tar.bz2 -T /dev/null ;;
            tar) echo 'tar (child): bzip2: Cannot exec: No such file or directory' >&2; : >perf.data.tar.bz2 ;;
            absent) echo "perf: 'archive' is not a perf-command. See 'perf --help'." >&2; exit 1 ;;
        esac
        echo 'Now please run: ...'
        ;;
    report)
        [[ -s perf.data ]] || exit 9
        [[ -z ${PERF_REPORT:-} ]] || { echo 'incompatible file format' >&2; exit 3; }
        echo "report of $(wc -l <perf.data) lines, debuginfod: ${DEBUGINFOD_URLS-unset}"
        ;;
    --version) echo 'perf version 0.0.played' ;;
esac
"""


@pytest.fixture
def perf(stand_in, tmp_path, monkeypatch):
    """The calls of a perf that is played, as a function: a list of lists of arguments."""
    calls = tmp_path / "perf-calls"
    monkeypatch.setenv("PERF_CALLS", str(calls))
    stand_in("perf", PERF)
    return lambda: [record.split("\0")[:-1] for record in calls.read_text().split("\n\0") if record]


def record_options(calls):
    (call,) = [call[2:] for call in calls if call[2:3] == ["record"]]
    return call[1:]


def test_record_opts_are_split_as_a_shell_splits_them_and_not_evaluated(perf, run_script, tmp_path):
    start(run_script, f"--record-opts=-g --filter 'a == \"b c\"' \"d e\" f\\ g $(touch${{IFS}}{tmp_path}/evaluated) *")
    assert record_options(perf()) == [
        "-a", "-k", "CLOCK_MONOTONIC", "-o", "perf.data", "-g", "--filter", 'a == "b c"', "d e", "f g",
        f"$(touch${{IFS}}{tmp_path}/evaluated)", "*",
    ]  # fmt: skip
    assert not (tmp_path / "evaluated").exists()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("-g", "CLOCK_MONOTONIC"),
        ("-k mono", "CLOCK_MONOTONIC"),
        ("-kCLOCK_REALTIME", "CLOCK_REALTIME"),
        ("--clockid=monotonic_raw", "monotonic_raw"),
        ("-g --clockid boottime", "boottime"),
        # perf refuses any clock for this
        ("-e intel_pt//u", "perf's own"),
        ("--no-clockid", "perf's own"),
    ],
)
def test_a_clock_that_record_opts_decide_on_is_not_asked_for_twice(perf, run_script, data_dir, options, name):
    assert start(run_script, f"--record-opts={options}").rc == 0
    asked = ["-k", "CLOCK_MONOTONIC"] if options == "-g" else []
    assert record_options(perf()) == ["-a", *asked, "-o", "perf.data", *options.split()]
    environment = environment_file(data_dir)
    assert environment["perf_record_clock"] == name
    known = {"CLOCK_MONOTONIC": r"\d{10}\.\d{9}", "CLOCK_REALTIME": "0"}
    assert re.fullmatch(known.get(name, "unknown"), environment["perf_record_clock_offset"])


def test_archive_and_report_are_made_of_the_whole_recording_before_it_is_compressed(perf, run_script, data_dir):
    start(run_script, "--perf-gen-local-report")
    assert run_script("kerneltools-stop", env={"DEBUGINFOD_URLS": "https://out.of.reach.invalid"}).rc == 0
    assert (data_dir / "perf-report.txt").read_text() == "report of 2 lines, debuginfod: \n"
    assert archived(data_dir) == [".build-id/copy"]
    assert (data_dir / "perf.data.xz").exists()
    assert not (data_dir / "perf-record-buildids").exists()


@pytest.mark.parametrize("parameter", [[], ["--perf-gen-local-report=OFF"]])
def test_without_the_parameter_there_is_no_report(perf, run_script, data_dir, parameter):
    start(run_script, *parameter)
    assert run_script("kerneltools-stop", "--perf-gen-local-report=ON").rc == 0, "what counts is what start was told"
    assert not (data_dir / "perf-report.txt").exists()


@pytest.mark.parametrize(("archive", "code"), [("tar", 0), ("absent", 1)])
def test_an_archive_that_fails_is_said_and_costs_the_recording_nothing(perf, run_script, data_dir, archive, code):
    start(run_script)
    done = run_script("kerneltools-stop", env={"PERF_ARCHIVE": archive})
    assert done.rc == 1
    (warning,) = lines_with(warnings(data_dir, STOP_LOG), "perf archive made no perf.data.tar.bz2")
    assert f"(exit {code}, its words are above); what belongs into it stays in perf-record-buildids" in warning
    assert lines_with(log_lines(data_dir, STOP_LOG), "Cannot exec" if archive == "tar" else "is not a perf-command")
    assert (data_dir / "perf-record-buildids" / ".build-id" / "copy").exists()
    assert not (data_dir / ARCHIVE).exists()
    assert (data_dir / "perf.data.xz").exists()
    assert run_script("kerneltools-stop").rc == 0


@pytest.mark.parametrize("archive", ["none", "no-copies"])
def test_a_recording_that_hit_no_binary_has_no_archive_and_that_is_no_failure(perf, run_script, data_dir, archive):
    start(run_script)
    assert run_script("kerneltools-stop", env={"PERF_ARCHIVE": archive}).rc == 0
    assert lines_with(log_lines(data_dir, STOP_LOG), "NOTE: perf-record: no perf.data.tar.bz2")
    assert not (data_dir / ARCHIVE).exists()
    assert not (data_dir / "perf-record-buildids").exists()


def test_a_report_that_fails_is_said_and_costs_the_rest_nothing(perf, run_script, data_dir):
    start(run_script, "--perf-gen-local-report=ON")
    assert run_script("kerneltools-stop", env={"PERF_REPORT": "fails"}).rc == 1
    assert lines_with(warnings(data_dir, STOP_LOG), "perf report failed (exit 3")
    assert archived(data_dir) == [".build-id/copy"]
    assert (data_dir / "perf.data.xz").exists()


def test_a_stop_that_was_interrupted_after_the_archive_does_not_make_an_empty_one(perf, run_script, data_dir):
    start(run_script)
    assert run_script("kerneltools-stop").rc == 0
    subprocess.run(["xz", "-d", data_dir / "perf.data.xz"], check=True)
    record = data_dir / "kerneltools-pids.txt"
    record.write_text("".join(line for line in record.read_text().splitlines(True) if not line.startswith("finished")))
    assert run_script("kerneltools-stop").rc == 0
    assert archived(data_dir) == [".build-id/copy"]
    assert [call[2] for call in perf() if call[2:3] == ["archive"]] == ["archive"]


@pytest.mark.parametrize("options", ["-o other.data", "-oother.data", "--output=other.data", "--switch-output=1s", "-F 99 --switch-output"])
def test_a_recording_that_would_go_elsewhere_is_refused(perf, run_script, data_dir, options):
    done = run_script("kerneltools-start", "--subtools=perf-record", f"--record-opts={options}")
    assert done.rc == 1
    assert "--record-opts must not say where the recording goes" in done.err
