# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What a caller's shell exports for itself changes nothing that is collected, and nothing that lies in a data directory is executed."""

import json
import lzma
import subprocess
import sys

import pytest
from collection import log_lines, option, played, recorded, wait_until
from conftest import REPO
from test_toplev_collection import CPUINFO

QUICK = ["--subtools=perf-stat", "--interval=0.05", "--perf-stat-events=cycles,page-faults"]
OUTPUT = "perf-stat-output.json"

EXPORTED = {
    "SHELLOPTS": "errexit:noclobber:noexec:noglob:nounset:onecmd:pipefail:posix",
    "BASHOPTS": "extdebug:extglob:failglob:lastpipe:localvar_inherit:nocasematch:nullglob:xpg_echo",
    "POSIXLY_CORRECT": "1",
    "CDPATH": "/usr:/",
    "IFS": "s",
    "GLOBIGNORE": "*",
    "EXECIGNORE": "*",
    "BASH_COMPAT": "3.1",
    "FUNCNEST": "1",
    "TMOUT": "1",
    "BASH_FUNC_printf%%": "() { :; }",
    "BASH_FUNC_read%%": "() { return 1; }",
    "BASH_FUNC_exec%%": "() { :; }",
}


def robust(tmp_path):
    """Stand-ins, and a Python, that no exported function breaks: scripts of others are not ours to mend."""
    perf = tmp_path / "stand-ins/perf"
    perf.write_text(perf.read_text().replace("#!/usr/bin/env bash", "#!/bin/bash -p"))
    (tmp_path / "stand-ins/python3").symlink_to(sys.executable)


def first_event(archive):
    with lzma.open(archive) as records:
        return json.loads(records.readline())["event"]


def slow(program, seconds):
    """Let a stand-in take that long before it does anything."""
    program.write_text(program.read_text().replace("exec ", f"sleep {seconds}\nexec ", 1))


@pytest.fixture
def exported(request, tmp_path):
    """The variables of one test: one of those above, or a file that bash reads first."""
    if request.param in ("BASH_ENV", "ENV"):
        (tmp_path / "rc").write_text("echo read >&2; exit 7\n")
        return {request.param: str(tmp_path / "rc")}
    return {request.param: EXPORTED[request.param]}


@pytest.mark.parametrize("exported", [*EXPORTED, "BASH_ENV", "ENV"], indirect=True)
def test_a_run_is_collected_whatever_the_callers_shell_exports(exported, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    if "TMOUT" in exported:  # bash's read would give up after that second
        slow(tmp_path / "stand-ins/perf", 1.3)
    robust(tmp_path)
    done = run_script("kerneltools-start", *QUICK, env=exported)
    assert (done.rc, done.out, done.err) == (0, "", "")
    (collector,) = recorded(data_dir)
    assert collector.subtool == "perf-stat"
    assert wait_until(lambda: (data_dir / OUTPUT).exists() and (data_dir / OUTPUT).stat().st_size > 0)
    done = run_script("kerneltools-stop", *QUICK, env=exported)
    assert (done.rc, done.out, done.err) == (0, "", "")
    assert first_event(data_dir / f"{OUTPUT}.xz") == "cycles"


@pytest.mark.parametrize("exported", [*EXPORTED, "BASH_ENV"], indirect=True)
def test_run_local_does_the_whole_job_whatever_the_callers_shell_exports(exported, run_script, stand_in, tmp_path):
    played(stand_in, tmp_path)
    robust(tmp_path)
    done = run_script("examples/run-local", "--seconds=0.2", f"--dir={tmp_path}/run", *QUICK, env=exported)
    assert (done.rc, done.err) == (0, ""), done.out
    assert "cycles" in done.out


def test_run_local_is_found_through_a_link(run_script, tmp_path):
    (tmp_path / "here").symlink_to(REPO / "examples/run-local")
    done = run_script(tmp_path / "here", "--seconds=none")
    assert (done.rc, done.err.split(";")[0]) == (2, "ERROR: --seconds: 'none' is not accepted")


def test_commands_of_sysfs_trace_run_in_a_shell_of_their_own():
    """What runs them is the only bash beside the launchers; each of them is told to ignore what the caller exports."""
    files = sorted((REPO / "kerneltools-subtools").glob("*.sh"))
    starts = [line.strip() for file in files for line in file.read_text().splitlines() if "bash " in line and " -c " in line]
    assert len(starts) == 3
    assert [line for line in starts if "bash -p -c" not in line] == []


# ---- Python and what lies in the current directory

TRAPS = ("json", "argparse", "sitecustomize", "re", "lzma", "decimal")


@pytest.fixture
def trapped(data_dir, tmp_path):
    """A data directory with modules under the names of Python's own, and how to tell whether one of them was executed."""
    executed = tmp_path / "executed"
    for name in TRAPS:
        (data_dir / f"{name}.py").write_text(f"open({str(executed)!r}, 'a').write(__name__)\n")
    return lambda: executed.read_text() if executed.exists() else ""


@pytest.mark.parametrize("path", [":", "", "/nowhere:", ":/nowhere", "."])
@pytest.mark.parametrize("program", ["kerneltools-post-process", "boot_to_epoch.py"])
def test_python_does_not_execute_what_lies_in_the_data_directory(program, path, run_script, data_dir, trapped):
    arguments = {"kerneltools-post-process": [], "boot_to_epoch.py": ["--sys-boot-time=1700000000", "--to-epoch", "1.5"]}[program]
    done = run_script(program, *arguments, env={"PYTHONPATH": path})
    assert (done.rc, done.err) == (0, "")
    assert trapped() == ""
    assert not arguments or done.out == "1700000001500\n"


@pytest.mark.parametrize("program", ["kerneltools-post-process", "boot_to_epoch.py"])
def test_nor_where_python_is_named_by_hand(program, data_dir, trapped):
    """Only sitecustomize is then beyond reach: Python runs it before it reads the program."""
    (data_dir / "sitecustomize.py").unlink()
    (data_dir / "re.py").unlink()
    command = [sys.executable, REPO / program, "--help"]
    done = subprocess.run(command, cwd=data_dir, env={"PYTHONPATH": ":"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert trapped() == ""


def test_run_local_has_python_execute_nothing_of_the_current_directory(run_script, data_dir, stand_in, tmp_path, trapped):
    played(stand_in, tmp_path)
    done = run_script("examples/run-local", "--seconds=0.2", f"--dir={tmp_path}/run", *QUICK, env={"PYTHONPATH": ":"})
    assert (done.rc, done.err) == (0, "")
    assert trapped() == ""


def test_toplev_is_run_without_the_data_directory_on_pythons_path(run_script, data_dir, stand_in, tmp_path, trapped):
    """It is told by its options, and by what its import of json brings."""
    words = tmp_path / "words"
    stand_in("perf", "echo perf version 6.12.0")
    place = tmp_path / "pmu-tools"
    place.mkdir()
    (place / "mine.py").write_text("own = 1\n")
    (place / "toplev.py").write_text(
        "import json, re, sys, time\nimport mine\n"
        'if "--version" in sys.argv:\n    print("toplev, CPU: icx, TMA version: 5.1-full")\n    sys.exit()\n'
        f"open({str(words)!r}, 'w').write(json.__file__)\nopen('toplev-output.csv', 'w').write('begun')\n"
    )
    (place / "pmu-events").mkdir()
    (place / "pmu-events" / "GenuineIntel-6-6A-core.json").write_text("[]")
    processes = tmp_path / "proc"
    processes.mkdir()
    (processes / "cpuinfo").write_text(CPUINFO)
    (tmp_path / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
    settings = {
        "PYTHONPATH": ":",
        "PMU_TOOLS_HOME": place,
        "KERNELTOOLS_PROCFS": processes,
        "KERNELTOOLS_SYSFS": tmp_path / "sys",
        "KERNELTOOLS_TOPLEV_OPTIONS": "--force-cpu=icx",
    }
    run_script("kerneltools-start", "--subtools=toplev", env=settings)
    assert wait_until(words.exists), "\n".join(log_lines(data_dir))
    assert json.__file__.rpartition("/")[2] == words.read_text().rpartition("/")[2] == "__init__.py"
    assert trapped() == ""


# ---- what the programs that are called are told


def test_perf_writes_in_the_c_locale_though_the_caller_names_none(run_script, data_dir, stand_in, tmp_path):
    """LANG alone is what most machines have: LC_ALL must be exported, not only set."""
    calls = played(stand_in, tmp_path)
    german = {"LC_ALL": None, "LANG": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"}
    assert run_script("kerneltools-start", *QUICK, env=german).rc == 0
    stat = [(option(arguments, "-I") is None, noted["LC_ALL"]) for arguments, noted in calls.all() if arguments[0] == "stat"]
    assert stat == [(True, "C"), (False, "C")], "the trial, and the collection"


@pytest.mark.parametrize("variable", ["XZ_OPT", "XZ_DEFAULTS"])
def test_what_xz_is_told_elsewhere_does_not_cost_the_archive(variable, run_script, data_dir, stand_in, tmp_path):
    """A limit on memory below what the lowest level takes: xz gives up then."""
    told = {variable: "--memlimit-compress=1MiB --no-adjust"}
    refused = subprocess.run(["xz", "-0", "-c"], input=b"x", env={"PATH": "/usr/bin:/bin", **told}, capture_output=True, check=False)
    assert refused.returncode != 0, "this xz does not mind"
    played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0
    assert wait_until(lambda: (data_dir / OUTPUT).stat().st_size > 0)
    done = run_script("kerneltools-stop", env=told)
    assert (done.rc, done.err) == (0, "")
    assert first_event(data_dir / f"{OUTPUT}.xz") == "cycles"
    assert not (data_dir / OUTPUT).exists()
