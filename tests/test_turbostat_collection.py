# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The collection of turbostat: stand-ins of several ages, and the real one where it is installed, if only to refuse."""

import os
import re
import shlex
import shutil
import subprocess

import pytest
from collection import STOP_LOG, clock, environment_file, log_lines, wait_until, warnings

# Prints a table as turbostat does: to the file, a row for the system and one for each CPU, and once more when interrupted.
TURBOSTAT = r"""
printf '%s\0' "$@" $'\n' >>"$TURBOSTAT_CALLS"
die() { printf '%s\n' "$2" >&2; exit "$1"; }
interval=5 columns='' out='' command=''
while (( $# )); do
    case $1 in
        --version) echo 'turbostat version 2023.11.07 - Len Brown <lenb@kernel.org>' >&2; exit 0 ;;
        --interval) interval=$2; shift ;;
        --enable)
            [[ -z ${TURBOSTAT_OLD:-} ]] || die 1 $'turbostat: unrecognized option --enable\nUsage: turbostat ...\nFor help: man turbostat'
            columns="Time_Of_Day_Seconds	"; shift ;;
        -o) out=$2; shift ;;
        *) command=$1 ;;
    esac
    shift
done
[[ -z ${TURBOSTAT_REFUSES:-} ]] || die 255 'turbostat: no /dev/cpu/0/msr, Try "# modprobe msr": No such file or directory'
if [[ -n $command ]]; then
    "$command"
    exit
fi
exec >"$out"
table() { printf '%sCore\tCPU\tBusy%%\n-\t-\t1.0\n0\t0\t1.0\n' "$columns"; }
trap 'table; exit 0' INT
echo 'cpuidle driver: none'
while sleep "$interval"; do table; done
"""


@pytest.fixture
def turbostat(stand_in, tmp_path, monkeypatch):
    """The calls of a turbostat that is played, as a function: a list of lists of arguments."""
    calls = tmp_path / "turbostat-calls"
    monkeypatch.setenv("TURBOSTAT_CALLS", str(calls))
    stand_in("turbostat", TURBOSTAT)
    return lambda: [record.split("\0")[:-1] for record in calls.read_text().split("\n\0") if record]


def start(run_script, *arguments, **env):
    return run_script("kerneltools-start", "--subtools=turbostat", *arguments, env=env)


def table(directory):
    return subprocess.run(["xz", "-dc", directory / "turbostat-stdout.txt.xz"], capture_output=True, text=True, check=True).stdout


def test_every_row_has_its_time_of_day(turbostat, run_script, data_dir):
    done = start(run_script, "--interval=0.05")
    assert (done.rc, done.out, done.err) == (0, "", ""), log_lines(data_dir)
    assert turbostat()[-1] == ["--interval", "0.05", "--enable", "Time_Of_Day_Seconds", "-o", "turbostat-stdout.txt"]
    assert wait_until(lambda: (data_dir / "turbostat-stdout.txt").read_text().count("Time_Of_Day_Seconds") > 1)
    done = run_script("kerneltools-stop")
    assert (done.rc, done.err) == (0, ""), log_lines(data_dir, STOP_LOG)
    assert "\nTime_Of_Day_Seconds\tCore\tCPU\tBusy%\n" in table(data_dir)
    assert set(clock(data_dir)) == {("turbostat", "begin"), ("turbostat", "end")}
    environment = environment_file(data_dir)
    assert environment["turbostat_version"] == "turbostat version 2023.11.07 - Len Brown <lenb@kernel.org>"
    assert environment["turbostat_interval"] == "0.05"


def test_an_old_one_is_run_without_what_it_does_not_know(turbostat, run_script, data_dir):
    assert start(run_script, TURBOSTAT_OLD=1).rc == 0
    assert turbostat()[-1] == ["--interval", "10", "-o", "turbostat-stdout.txt"]
    assert warnings(data_dir) == []
    assert any(line.startswith("NOTE: turbostat: it does not know --enable Time_Of_Day_Seconds") for line in log_lines(data_dir))
    assert run_script("kerneltools-stop").rc == 0
    assert "\nCore\tCPU\tBusy%\n" in table(data_dir)


@pytest.mark.parametrize("old", ["", "1"])
def test_one_that_refuses_is_skipped_with_its_own_words(turbostat, run_script, data_dir, old):
    done = start(run_script, TURBOSTAT_REFUSES=1, TURBOSTAT_OLD=old)
    assert done.rc == 1
    words = 'turbostat: no /dev/cpu/0/msr, Try "# modprobe msr": No such file or directory'
    assert warnings(data_dir) == [f"WARNING: turbostat: skipped: {words}"]
    assert done.err == f"ERROR: nothing runs: turbostat: {words}\n"
    assert not (data_dir / "turbostat-stdout.txt").exists()


def test_one_that_does_not_come_back_is_skipped_after_one_try(stand_in, run_script, data_dir):
    stand_in("timeout", 'exec /usr/bin/timeout 0.3 "${@:2}"')  # for the 20 s of the subtool's own
    stand_in("turbostat", "[[ $1 == --version ]] || sleep 30")
    done = start(run_script)
    assert (done.rc, done.seconds < 5) == (1, True)
    assert warnings(data_dir) == ["WARNING: turbostat: skipped: turbostat did not come back within 20 s"]


# --- the real one


@pytest.fixture(scope="session")
def real_turbostat():
    program = shutil.which("turbostat")
    if program is None:
        pytest.skip("turbostat is not installed")
    return program


def measures(*command):
    return subprocess.run([*command, "-o", os.devnull, "true"], capture_output=True, text=True, timeout=30, check=False)


def test_the_real_one_runs_or_is_skipped_with_its_own_words(real_turbostat, run_script, data_dir):
    trial = measures(real_turbostat)
    done = start(run_script, "--interval=0.2")
    if trial.returncode == 0:
        assert done.rc == 0, log_lines(data_dir)
        assert run_script("kerneltools-stop").rc == 0
        assert "Time_Of_Day_Seconds" in table(data_dir)
    else:
        assert done.rc == 1
        assert warnings(data_dir) == [f"WARNING: turbostat: skipped: {trial.stderr.strip().splitlines()[-1].strip()}"]


def test_the_real_one_without_msr_gives_a_table(real_turbostat, hwshim, stand_in, run_script, data_dir, tmp_path):
    # hwshim has a setrlimit that never fails, for machines where nobody may raise it; some are built to call it setrlimit64
    library, source = tmp_path / "limit.so", tmp_path / "limit.c"
    source.write_text("int setrlimit64(int r, const void *l) { (void)r; (void)l; return 0; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    command = ["env", f"LD_PRELOAD={hwshim}:{library}", real_turbostat, "--no-msr"]
    trial = measures(*command)
    if trial.returncode != 0:
        pytest.skip(f"turbostat does not run here even with --no-msr: {trial.stderr.strip().splitlines()[-1]}")
    stand_in("turbostat", f'exec {shlex.join(map(str, command))} "$@"')
    assert start(run_script, "--interval=0.2").rc == 0
    assert wait_until(lambda: (data_dir / "turbostat-stdout.txt").read_text().count("Time_Of_Day_Seconds") > 1)
    assert run_script("kerneltools-stop").rc == 0, log_lines(data_dir, STOP_LOG)
    times = [float(time) for time in re.findall(r"^(\d{10}\.\d+)\t", table(data_dir), re.MULTILINE)]
    moments = clock(data_dir)
    assert float(moments["turbostat", "begin"]) < min(times)
    # it measures once more when it is told to end
    assert abs(max(times) - float(moments["turbostat", "end"])) < 0.1
