# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""The documents that other programs read (rickshaw, workshop, CDM), the examples, and what a checkout must hold."""

import ast
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import declared
import pytest
from conftest import REPO

RUN_FILES = sorted(REPO.glob("examples/run-file-*.json"))
EXAMPLES = [path for path in sorted(REPO.glob("examples/*.json")) if path not in RUN_FILES]
RICKSHAW = json.loads((REPO / "rickshaw.json").read_text())
DEPLOYED = [entry["src"] for entry in RICKSHAW["collector"]["files-from-controller"]]
PROGRAMS = ["kerneltools-start", "kerneltools-stop", "kerneltools-post-process", "examples/run-local", "tests/run", ".ci/run"]

# What current toolboxes and CDM accept; wider than any one version of either.
CLASSES = {"throughput", "latency", "count", "pass/fail", "boolean", "percentage"}
AGGREGATIONS = {"sum", "avg", "max", "min"}


def catalogue_rows():
    """The metrics of the catalogue as dictionaries, read without the project's own reader."""
    header = ["subtool", "type", "class", "unit", "aggregation", "formula", "meaning"]
    lines = (REPO / "kerneltools" / "catalogue.tsv").read_text().splitlines()
    return [dict(zip(header, line.split("\t"))) for line in lines if line and not line.startswith(("#", "bound\t"))]


def assert_valid(document, schema):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(document)] == []


@pytest.mark.parametrize(("document", "schema"), [("rickshaw.json", "rickshaw-tool.json"), ("workshop.json", "workshop.json")])
def test_rickshaw_and_workshop_accept_their_files(schemas, document, schema):
    assert_valid(json.loads((REPO / document).read_text()), json.loads((schemas / schema).read_text()))


def test_every_package_set_of_workshop_is_asked_for_and_there():
    workshop = json.loads((REPO / "workshop.json").read_text())
    defined = [requirement["name"] for requirement in workshop["requirements"]]
    used = [name for userenv in workshop["userenvs"] for name in userenv["requirements"]]
    assert sorted(used) == sorted(defined)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_rickshaw_accepts_the_example(schemas, example):
    fragment = json.loads(example.read_text())
    assert list(fragment) == ["tool-params"]
    assert_valid(fragment["tool-params"], json.loads((schemas / "rickshaw-tool-params.json").read_text()))


@pytest.mark.parametrize("run_file", RUN_FILES, ids=lambda path: path.stem)
def test_rickshaw_accepts_the_run_file(schemas, run_file):
    document = json.loads(run_file.read_text())
    assert_valid(document, json.loads((schemas / "rickshaw-run-file.json").read_text()))
    assert_valid(document["tool-params"], json.loads((schemas / "rickshaw-tool-params.json").read_text()))


def test_there_is_a_run_file_for_remotehosts():
    documents = [json.loads(path.read_text()) for path in RUN_FILES]
    assert [endpoint["type"] for document in documents for endpoint in document["endpoints"]] == ["remotehosts"]
    (document,) = documents
    (endpoint,) = document["endpoints"]
    placed = {(engine["role"], engine["ids"]) for remote in endpoint["remotes"] for engine in remote["engines"]}
    assert placed == {(role, benchmark["ids"]) for benchmark in document["benchmarks"] for role in ("client", "server")}
    assert "kernel" in [tool["tool"] for tool in document["tool-params"]]


# --- what rickshaw.json deploys


def test_deployed_paths_are_found_and_keep_their_names():
    assert {src.replace("%tool-dir%", "") for src in DEPLOYED} == {
        "kerneltools-start",
        "kerneltools-stop",
        "kerneltools-subtools",
        "kerneltools-post-process",
        "kerneltools",
    }
    for src in DEPLOYED:
        # the placeholder expands with its trailing slash; a slash at the end would spill a directory's files
        assert src.startswith("%tool-dir%")
        assert not src.endswith("/")
        assert (REPO / src.replace("%tool-dir%", "")).exists(), src
    assert {entry["dest"] for entry in RICKSHAW["collector"]["files-from-controller"]} == {"/usr/bin/"}


def test_post_processing_is_not_skipped_without_a_word():
    script = RICKSHAW["controller"]["post-script"].replace("%tool-dir%", f"{REPO}/")
    assert os.access(script, os.X_OK), "rickshaw skips post-processing where the whole string is no path"


def test_collectors_run_on_profilers_and_compute_nodes_only():
    collector = RICKSHAW["collector"]
    assert {(entry["endpoint"], *entry["collector-types"]) for entry in collector["whitelist"]} == {
        ("osp", "compute"),
        ("remotehosts", "profiler"),
        ("kube", "profiler"),
    }
    assert {(entry["endpoint"], *entry["collector-types"]) for entry in collector["blacklist"]} == {
        ("remotehosts", "client", "server"),
        ("kube", "client", "server"),
    }
    assert (collector["start"], collector["stop"]) == ("kerneltools-start", "kerneltools-stop")


@pytest.fixture
def engine(tmp_path):
    """The deployed files as an engine has them: side by side, and without execute bits inside directories."""
    bin_dir = tmp_path / "usr" / "bin"
    bin_dir.mkdir(parents=True)
    for src in DEPLOYED:
        source = REPO / src.replace("%tool-dir%", "")
        if source.is_dir():
            shutil.copytree(source, bin_dir / source.name, ignore=shutil.ignore_patterns("__pycache__"))
            for path in (bin_dir / source.name).rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)
        else:
            shutil.copy(source, bin_dir)
    return bin_dir


def test_the_deployed_files_do_the_whole_job(engine, real_perf, data_dir, run_script):
    assert real_perf
    parameters = ["--subtools=perf-stat", "--interval=0.2", "--perf-stat-events=context-switches"]
    environment = {"PATH": f"{engine}{os.pathsep}{os.environ['PATH']}"}
    for step in (["kerneltools-start", *parameters], ["kerneltools-stop", *parameters], ["kerneltools-post-process"]):
        # found on PATH, as on the engine
        done = run_script("/usr/bin/env", *step, env=environment)
        assert done.rc == 0, (step, done, logs(data_dir))
        if step[0] == "kerneltools-start":
            time.sleep(0.7)
    published = json.loads((data_dir / "postprocess" / "post-process-data.json").read_text())
    assert published["primary-metric"]


# --- how rickshaw renders the parameters


def rendered_by_an_independent_reading(script, params, substitutions):
    """rickshaw's command line, from its documented behaviour: quoted tokens in one string, substituted, then split again."""
    command = script
    for arg, val in params:
        word = val if re.fullmatch(r"[\w@%+=:,./-]+", val, re.ASCII) else "'" + val.replace("'", "'\"'\"'") + "'"
        command += f" --{arg}={word}"
    for substitution in substitutions:
        delimiter = substitution[1]
        kind, pattern, replacement, flags = substitution.split(delimiter)
        assert kind == "s"
        command = re.sub(pattern, replacement.replace("$1", r"\1"), command, count=0 if "g" in flags else 1)
    return shlex.split(command)


def rendered_by_rickshaw(script, params, substitutions):
    """The same by rickshaw's own functions, taken out of its program so that nothing else of it is needed."""
    home = os.environ.get("RICKSHAW_HOME")
    if not home or not (Path(home) / "rickshaw-run.py").is_file():
        pytest.skip("RICKSHAW_HOME names no rickshaw")
    wanted = {"render_param", "perl_s_regex", "apply_param_regex_and_split"}
    tree = ast.parse((Path(home) / "rickshaw-run.py").read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    assert {node.name for node in tree.body} == wanted
    names = {"re": re, "shlex": shlex, "sys": sys, "logger": SimpleNamespace(error=print)}
    exec(compile(tree, "rickshaw-run.py", "exec"), names)
    command = " ".join([script, *(names["render_param"](arg, val) for arg, val in params)])
    return names["apply_param_regex_and_split"](command, substitutions, "test")


RENDERERS = [rendered_by_an_independent_reading, rendered_by_rickshaw]
REPORT = "perf-gen-local-report"


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ([(REPORT, "ON")], ["--perf-gen-local-report"]),
        ([(REPORT, "OFF")], []),
        (
            [("interval", "5"), (REPORT, "ON"), ("subtools", "perf-record")],
            ["--interval=5", "--perf-gen-local-report", "--subtools=perf-record"],
        ),
        ([("interval", "5"), (REPORT, "OFF"), ("subtools", "perf-record")], ["--interval=5", "--subtools=perf-record"]),
        ([(REPORT, "ON"), (REPORT, "ON")], ["--perf-gen-local-report", "--perf-gen-local-report"]),
        ([(REPORT, "OFF"), (REPORT, "OFF")], []),
        # other values, and other parameters, are theirs
        ([(REPORT, "ONCE")], ["--perf-gen-local-report=ONCE"]),
        ([(REPORT, "OFFSET")], ["--perf-gen-local-report=OFFSET"]),
        ([("x-perf-gen-local-report", "ON"), ("record-opts", "ON")], ["--x-perf-gen-local-report=ON", "--record-opts=ON"]),
        ([("record-opts", "--perf-gen-local-report=ON")], ["--record-opts=--perf-gen-local-report=ON"]),
        ([("record-opts", "-e x=ON --y=OFF"), (REPORT, "ON")], ["--record-opts=-e x=ON --y=OFF", "--perf-gen-local-report"]),
        (
            [("record-opts", "-g --perf-gen-local-report=ON -F 99"), (REPORT, "OFF"), ("interval", "2")],
            ["--record-opts=-g --perf-gen-local-report=ON -F 99", "--interval=2"],
        ),
        (
            [("record-opts", "-g --perf-gen-local-report=OFF"), (REPORT, "ON")],
            ["--record-opts=-g --perf-gen-local-report=OFF", "--perf-gen-local-report"],
        ),
        # apostrophes and quotation marks, which the quoting takes apart
        (
            [
                ("record-opts", "it's --perf-gen-local-report=ON it's"),
                (REPORT, "ON"),
                ("sysfs-trace-setup", "echo 'a \"b' > c --perf-gen-local-report=OFF "),
            ],
            [
                "--record-opts=it's --perf-gen-local-report=ON it's",
                "--perf-gen-local-report",
                "--sysfs-trace-setup=echo 'a \"b' > c --perf-gen-local-report=OFF ",
            ],
        ),
        (
            [("record-opts", "a\" --perf-gen-local-report=OFF \"b'c"), (REPORT, "OFF")],
            ["--record-opts=a\" --perf-gen-local-report=OFF \"b'c"],
        ),
    ],
)  # fmt: skip
def test_only_the_report_parameter_itself_becomes_a_flag(render, params, expected):
    substitutions = RICKSHAW["collector"]["param_regex"]
    assert render("kerneltools-start", params, substitutions) == ["kerneltools-start", *expected]


def parameters_of(path):
    """[[(arg, val) of each enabled parameter] of the kernel tool] in an example or a run file."""
    tools = [tool for tool in json.loads(path.read_text())["tool-params"] if tool["tool"] == "kernel"]
    return [[(param["arg"], param["val"]) for param in tool["params"] if param.get("enabled") != "no"] for tool in tools]


@pytest.mark.parametrize("path", [*EXAMPLES, *RUN_FILES], ids=lambda path: path.stem)
def test_the_parameters_of_an_example_are_accepted(path):
    """Also those that are not enabled: somebody will enable them. By start, as rickshaw renders them, and by multiplex."""
    rules = json.loads((REPO / "multiplex.json").read_text())["validations"].values()
    tools = [tool for tool in json.loads(path.read_text())["tool-params"] if tool["tool"] == "kernel"]
    assert tools
    for tool in tools:
        params = [(param["arg"], param["val"]) for param in tool["params"]]
        argv = rendered_by_an_independent_reading("kerneltools-start", params, RICKSHAW["collector"]["param_regex"])
        assert [argument for argument, good in zip(argv[1:], declared.accepted(argv[1:])) if not good] == []
        for arg, val in params:
            (rule,) = (rule for rule in rules if arg in rule["args"])
            assert re.match(rule["vals"], val), (arg, val)
            assert rule.get("repeatable") or [name for name, _ in params].count(arg) == 1, arg


def test_every_example_is_explained_and_every_question_has_one():
    text = (REPO / "examples" / "README.md").read_text()
    assert {f"({path.name})" for path in [*EXAMPLES, *RUN_FILES]} == set(re.findall(r"\([\w-]+\.json\)", text))
    for path in EXAMPLES:
        assert f"\n[`{path.name}`]({path.name}): " in text, "its own section"
    assert {path.stem for path in EXAMPLES} == {
        "perf-stat", "toplev", "turbostat", "perf-stat-cpu-imbalance", "perf-stat-custom-events", "sysfs-trace", "everything",
    }  # fmt: skip


def test_everything_has_every_parameter():
    (tool,) = json.loads((REPO / "examples" / "everything.json").read_text())["tool-params"]
    assert {param["arg"] for param in tool["params"]} == set(declared.load().parameters)


COUNTING = [path for path in EXAMPLES if dict(parameters_of(path)[0])["subtools"] == "perf-stat"]


@pytest.mark.parametrize("example", COUNTING, ids=lambda path: path.stem)
def test_the_example_collects(example, real_perf, data_dir, run_script):
    """The others change the machine, or need one that is not here."""
    assert real_perf
    for params in parameters_of(example):
        for script in ("kerneltools-start", "kerneltools-stop"):
            argv = rendered_by_an_independent_reading(script, params, RICKSHAW["collector"]["param_regex"])
            done = run_script(*argv)
            assert done.rc == 0, (argv, done, logs(data_dir))


@pytest.mark.parametrize("example", ["toplev", "turbostat"])
def test_an_example_whose_hardware_is_missing_says_so(example, data_dir, run_script, stand_in):
    stand_in("perf", "exit 129")
    stand_in("turbostat", "echo no MSR today >&2; exit 255")
    (params,) = parameters_of(REPO / "examples" / f"{example}.json")
    done = run_script("kerneltools-start", *(f"--{arg}={val}" for arg, val in params))
    assert (done.rc, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f"ERROR: nothing runs: {example}: ")


# --- what CDM stores


def test_every_metric_of_the_catalogue_is_one_that_toolbox_accepts():
    rows = catalogue_rows()
    assert rows
    assert {row["class"] for row in rows} <= CLASSES
    assert {row["aggregation"] for row in rows} <= AGGREGATIONS
    assert all(row["meaning"] for row in rows)
    types = [row["type"] for row in rows]
    assert len(types) == len(set(types)), "one type, one meaning"


def test_ratios_are_not_added_up_over_cpus():
    for row in catalogue_rows():
        if row["class"] == "percentage" or row["unit"] in ("ratio", "%"):
            assert row["aggregation"] == "avg", row["type"]


def test_the_real_toolbox_knows_the_classes(toolbox_home):
    code = (
        "import json; from toolbox import cdm_metrics as m;"
        "print(json.dumps([sorted(getattr(m, 'VALID_CLASSES', [])), sorted(getattr(m, 'VALID_AGGREGATIONS', []))]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(toolbox_home / "python")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    classes, aggregations = json.loads(done.stdout)
    if not classes:
        pytest.skip("this toolbox takes any class")
    assert {row["class"] for row in catalogue_rows()} <= set(classes)
    assert {row["aggregation"] for row in catalogue_rows()} <= set(aggregations)


@pytest.mark.parametrize("aggregation", ["system", "socket", "die", "node", "core", "cpu"])
def test_cdm_indexes_every_field_and_breakout(recordings, schemas, data_dir, run_script, aggregation):
    cdm = json.loads((schemas / "cdm-metric-desc.json").read_text())
    shutil.copy(recordings / "perf-6.12-pmu" / f"perf-stat-{aggregation}.json", data_dir / "perf-stat-output.json")
    done = run_script("kerneltools-post-process")
    assert done.rc == 0, done
    described = [metric for file in decompressed_json(data_dir / "postprocess") for metric in file]
    assert described
    for metric in described:
        descriptor = metric["desc"]
        assert set(descriptor) <= set(cdm["desc_fields"]), descriptor
        assert set(metric["names"]) <= set(cdm["names"]), metric
        assert descriptor["source"] == "kernel"
        assert descriptor["class"] in CLASSES
        assert descriptor["default-aggregation"] in AGGREGATIONS
        assert all(isinstance(name, str) and name for name in metric["names"].values()), metric


def decompressed_json(directory):
    """Every metric file's descriptors."""
    for path in sorted(directory.glob("metric-data-*.json.xz")):
        text = subprocess.run(["xz", "--decompress", "--stdout", path], capture_output=True, text=True, check=True).stdout
        yield json.loads(text)


# --- what a checkout holds


def test_the_licence_is_there():
    text = (REPO / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_have_their_run_bit(program):
    assert os.access(REPO / program, os.X_OK)


def text_files():
    skipped = {".git", ".venv", "__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis"}
    for path in sorted(REPO.rglob("*")):
        if path.is_file() and not skipped & set(path.relative_to(REPO).parts):
            try:
                yield path.relative_to(REPO), path.read_text()
            except UnicodeDecodeError:
                continue


def test_no_file_names_a_path_of_one_machine():
    # homes, and where this very checkout and its neighbour lie
    places = [r"/(?:home|Users)/\w+/", r"/root/"]
    places += [re.escape(str(place)) + r"\b" for place in (REPO, REPO.parent / "shared") if len(place.parts) > 2]
    pattern = re.compile(rf"(?<![\w.}}])(?:{'|'.join(places)})")
    this = Path(__file__).relative_to(REPO)
    assert [f"{name}: {match.group()}" for name, text in text_files() if name != this for match in pattern.finditer(text)] == []


# --- examples/run-local


def logs(directory):
    return {path.name: path.read_text(errors="replace") for path in directory.glob("*-stderrout.txt")}


def test_run_local_tells_how_it_is_used(run_script):
    done = run_script("examples/run-local", "--help")
    assert (done.rc, done.err) == (0, "")
    assert done.out.startswith("run-local - ")
    assert "--seconds N" in done.out


@pytest.mark.parametrize("seconds", ["0", "0.0", "-1", "ten", "1e3", "5s", "", "0x10", "1 2"])
def test_run_local_refuses_a_time_that_is_none(run_script, tmp_path, seconds):
    done = run_script("examples/run-local", f"--seconds={seconds}", env={"TMPDIR": tmp_path / "none"})
    assert done.rc == 2
    assert done.out == ""
    assert done.err.startswith("ERROR: --seconds: ")
    assert done.err.count("\n") == 1


def test_run_local_does_not_write_among_other_files(run_script, data_dir):
    (data_dir / "precious").write_text("mine")
    done = run_script("examples/run-local", "--dir", data_dir)
    assert done.rc == 2
    assert done.err == f"ERROR: --dir: '{data_dir}' is not an empty directory\n"


def test_run_local_passes_a_bad_parameter_on_and_leaves_nothing(run_script, real_perf, tmp_path):
    assert real_perf
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run_script("examples/run-local", "--interval=never", env={"TMPDIR": temporary})
    assert done.rc == 2
    assert done.err.startswith("ERROR: ")
    assert done.err.count("\n") == 1
    assert list(temporary.iterdir()) == []


def test_run_local_shows_what_was_measured(run_script, real_perf, tmp_path):
    assert real_perf
    target = tmp_path / "my run"
    done = run_script("examples/run-local", "--seconds", "1.5", "--dir", target, "--interval=0.5", env={"LD_PRELOAD": None})
    assert done.rc == 0, (done, logs(target))
    assert re.search(r"^context-switches-sec\s", done.out, re.MULTILINE), done.out
    assert re.search(r"^cpu-migrations-sec\s", done.out, re.MULTILINE), done.out
    assert str(target) in done.out
    assert (target / "postprocess" / "post-process-data.json").is_file()
    warnings = [line for text in logs(target).values() for line in text.splitlines() if line.startswith("WARNING: ")]
    assert [line for line in warnings if line not in done.out.splitlines()] == []


def test_run_local_ended_by_ctrl_c_publishes_what_there_is(real_perf, run_script, tmp_path):
    assert real_perf
    assert run_script  # ends what is left
    target = tmp_path / "run"
    process = subprocess.Popen(
        [REPO / "examples/run-local", "--seconds=60", f"--dir={target}", "--interval=0.2"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith("collecting for"):
            break
    time.sleep(0.7)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, (out, logs(target))
    assert "ended early" in out
    assert re.search(r"^context-switches-sec\s", out, re.MULTILINE), out
