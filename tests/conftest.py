# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What the tests share: where things lie, programs that may be missing, and running the scripts as rickshaw runs them."""

import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent

# what a caller's shell may hold and a test must not depend on; a test that wants one gives it to run_script
FOREIGN_VARIABLES = ("TOOLBOX_HOME", "HK_CPUS", "WORKLOAD_CPUS", "KERNELTOOLS_STOP_DEADLINE", "PMU_TOOLS_HOME", "HWSHIM_UNSUPPORTED")

# A caller that runs the tests in the background ignores SIGINT, and so would every program that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Tests of the kernel's own tracing change what is the machine's: of those that run at once, only one process has them."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if not {"tracefs", "idle_tracer"}.isdisjoint(item.fixturenames):
                item.add_marker(pytest.mark.xdist_group("tracing"))


def pytest_terminal_summary(terminalreporter):
    """tests/run has already printed what shellcheck and ruff found; say it again where the reader looks."""
    if failed := os.environ.get("CHECKS_FAILED"):
        terminalreporter.section("other checks", red=True)
        terminalreporter.line(f"FAILED: {failed} (their words stand before pytest's)")


@pytest.fixture(scope="session")
def repo():
    """The repository's root."""
    return REPO


@pytest.fixture(scope="session")
def shared():
    """The folder of tools that some tests build: $KERNELTOOLS_SHARED, else ../shared beside the repository."""
    folder = Path(os.environ.get("KERNELTOOLS_SHARED") or REPO.parent / "shared")
    if not (folder / "tools").is_dir():
        pytest.skip(f"no folder of tools at {folder} (KERNELTOOLS_SHARED can name another)")
    return folder


@pytest.fixture(scope="session")
def schemas():
    """JSON schemas of the crucible family, and what CDM accepts."""
    return REPO / "tests" / "schemas"


@pytest.fixture(scope="session")
def recordings():
    """What real perfs and a real toplev wrote."""
    return REPO / "tests" / "recordings"


@pytest.fixture(scope="session")
def toolbox_home():
    """The real toolbox, where the caller has one."""
    home = os.environ.get("TOOLBOX_HOME")
    if not home or not (Path(home) / "python" / "toolbox").is_dir():
        pytest.skip("TOOLBOX_HOME names no toolbox")
    return Path(home)


@pytest.fixture(scope="session")
def real_perf():
    """The path of a perf that can count system-wide here."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    trial = subprocess.run([perf, "stat", "-a", "-e", "context-switches", "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        words = trial.stderr.strip().splitlines() or ["without a word"]
        pytest.skip(f"perf stat -a does not work here: {words[0]}")
    return perf


@pytest.fixture(scope="session")
def hwshim(shared, real_perf, tmp_path_factory):
    """Path of a library to LD_PRELOAD: lets the real perf count hardware events on a machine without a PMU."""
    source = shared / "tools" / "hwshim.c"
    compiler = shutil.which("gcc")
    if compiler is None or not source.is_file():
        pytest.skip("gcc is not installed" if compiler is None else f"{source} is missing")
    if platform.machine() != "x86_64":
        pytest.skip("hwshim.c is for x86_64 only")
    library = tmp_path_factory.mktemp("hwshim") / "hwshim.so"
    build = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True, check=False)
    if build.returncode != 0:
        pytest.skip(f"hwshim.c does not compile here: {build.stderr.strip()}")
    return library


@pytest.fixture
def data_dir(tmp_path):
    """An empty directory, as rickshaw hands to the tool; with a space in its path, which nothing may trip over."""
    directory = tmp_path / "tool data"
    directory.mkdir()
    return directory


@dataclass(frozen=True)
class Finished:
    """How a script ended: exit code, its words, and the seconds until its output had been read to the end of file."""

    rc: int
    out: str
    err: str
    seconds: float


def start_time(pid):
    """The start time of a process in clock ticks since boot, as /proc tells it; None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def end_recorded_collectors(directory):
    """Kill every collector that a kerneltools-pids.txt below directory records (subtool, pid, start time) and that still lives."""
    for record in directory.rglob("kerneltools-pids.txt"):
        for line in record.read_text(errors="replace").splitlines():
            _, pid, started, *_ = [*line.split(), "", "", ""]
            if not (pid.isdigit() and started.isdigit()) or start_time(pid) != int(started):
                continue
            pid = int(pid)
            group = os.getpgid(pid)
            if group == pid:
                os.killpg(group, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run_script(tmp_path, data_dir):
    """run_script(name, *args, cwd=data_dir, env={}, timeout=60): run one of the repository's scripts as rickshaw does.

    Standard input is closed, it is a session of its own without a terminal, and both outputs are read to the end of file: a
    collector that inherited one of them fails the test. env adds variables to this process's, a value of None takes one away.
    What the scripts recorded as started is ended after the test.
    """
    directories = {tmp_path}

    def run(name, *args, cwd=data_dir, env=None, timeout=60):
        directories.add(Path(cwd))
        environment = {key: value for key, value in os.environ.items() if key not in FOREIGN_VARIABLES}
        environment.update({key: str(value) for key, value in (env or {}).items() if value is not None})
        for key in (key for key, value in (env or {}).items() if value is None):
            environment.pop(key, None)
        began = time.monotonic()
        process = subprocess.Popen(
            [str(REPO / name), *map(str, args)], cwd=cwd, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            ended = process.poll() is not None
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
            process.stderr.close()
            reason = "ended, but something that it started holds its output open" if ended else "did not end"
            pytest.fail(f"{name} {reason} within {timeout} s")
        return Finished(process.returncode, out, err, time.monotonic() - began)

    yield run
    for directory in directories:
        end_recorded_collectors(directory)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """stand_in(name, body): put a program of that name in front of PATH; body is bash, unless it begins with its own #!.

    stand_in(name, body, python=True): body is Python, run by the tests' own without its site packages.
    """
    programs = tmp_path / "stand-ins"

    def write(name, body, python=False):
        if not programs.exists():
            programs.mkdir()
            monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
        if python:
            # not by #!, which takes no path with a blank
            script = tmp_path / f"stand-in-{name}.py"
            script.write_text(body)
            body = f'exec {shlex.quote(sys.executable)} -SE {shlex.quote(str(script))} "$@"'
        program = programs / name
        program.write_text(body if body.startswith("#!") else f"#!/usr/bin/env bash\n{body}\n")
        program.chmod(0o755)
        return program

    return write
