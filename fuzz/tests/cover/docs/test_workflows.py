"""The workflows and the action that other projects copy: valid, and made of commands that exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from fuzz.cli import app
from fuzz.core.adapters.build import cache_directory
from fuzz.quality.__main__ import app as quality
from fuzz.report.formats import parse
from fuzz.report.github import MARK
from fuzz.tests.common.validity import valid_junit, valid_sarif
from fuzz.tests.conftest import CHECKOUT, edited

_GITHUB = CHECKOUT / ".github"
_ACTION = _GITHUB / "actions" / "kernelfuzz" / "action.yml"
_CITATION = _GITHUB / "CITATION.cff"
_WORKFLOWS = sorted((_GITHUB / "workflows").glob("*.yml"))
_COPIED = [path for path in _WORKFLOWS if path.stem not in ("release", "weekly")]
"""The workflows that other projects copy."""
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
_DROPS_EPS = edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.0f * eps)")
_RECORDER = """#!{python}
import json, os, sys
with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return record


def _steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in _read(_ACTION)["runs"]["steps"]}


def test_every_file_is_valid_by_the_schema_of_its_kind() -> None:
    assert [path.name for path in _WORKFLOWS] == ["gate.yml", "nightly.yml", "release.yml", "weekly.yml"]
    config = _GITHUB / "ISSUE_TEMPLATE" / "config.yml"
    forms = [path for path in (_GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path != config]
    kinds = {"workflows": _WORKFLOWS, "actions": [_ACTION], "issue-forms": forms, "issue-config": [config]}
    files = {f"vendor.github-{kind}": paths for kind, paths in kinds.items()}
    for schema, paths in (files | {"vendor.citation-file-format": [_CITATION]}).items():
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_give_the_action_what_it_takes_and_may_do_what_it_does() -> None:
    inputs = _read(_ACTION)["inputs"]
    for path in _COPIED:
        workflow = _read(path)
        [job] = workflow["jobs"].values()
        [use] = [step for step in job["steps"] if step["uses"] == "./.github/actions/kernelfuzz"]
        assert set(use["with"]) <= set(inputs)
        assert use["with"]["verb"] == path.stem
        assert workflow["permissions"]["contents"] == "read"
        assert job["timeout-minutes"] > 0
    gate = _read(_GITHUB / "workflows" / "gate.yml")
    assert gate["permissions"]["security-events"] == "write"
    checkout = gate["jobs"]["gate"]["steps"][0]
    assert checkout["with"]["fetch-depth"] == 0, "the gate compares with the base, which a shallow clone does not have"


def test_every_action_of_others_is_pinned_to_a_commit() -> None:
    """A tag can be moved to any code, which would run with what the job may do."""
    used = [
        (path.name, line.partition("uses:")[2].strip())
        for path in (*_WORKFLOWS, _ACTION)
        for line in path.read_text().splitlines()
        if re.match(r"\s*(- )?uses:", line)
    ]
    parsed = [step for path in _WORKFLOWS for job in _read(path)["jobs"].values() for step in job["steps"]]
    assert len(used) == sum("uses" in step for step in [*parsed, *_steps().values()])
    assert [each for each in used if not each[1].startswith("./") and not _PINNED.fullmatch(each[1])] == []
    versions = {(use.partition("@")[0].split("/")[1], use.partition("# ")[2]) for _, use in used if "@" in use}
    assert len(versions) == len({action for action, _ in versions}), "one action in two versions"


def test_a_release_is_what_was_tried_and_only_its_upload_may_sign() -> None:
    workflow = _read(_GITHUB / "workflows" / "release.yml")
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert {str(key): value for key, value in workflow.items()}["True"] == {"push": {"tags": ["v*"]}}, "its key is `on`"
    assert (workflow["permissions"], build["permissions"]) == ({}, {"contents": "read"})
    assert (publish["needs"], publish["permissions"]) == ("build", {"id-token": "write"})
    assert not any("run" in step for step in publish["steps"]), "nothing of ours runs where the upload is signed"
    scripts = {step["name"]: step["run"] for step in build["steps"] if "run" in step}
    assert scripts["Install the wheel with each Python, and run it"] == ".ci/matrix dist"
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    assert _read(_CITATION)["version"] == version
    for tag, code in ((f"v{version}", 0), (version, 1), (f"v{version}.1", 1)):
        command = ["bash", "-e", "-o", "pipefail", "-c", scripts["The tag is the version"]]
        found_first = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "GITHUB_REF_NAME": tag, "PATH": found_first}
        done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, check=False)
        assert done.returncode == code, done.stdout


def test_a_week_asks_for_the_impact_and_may_only_read() -> None:
    workflow = _read(_GITHUB / "workflows" / "weekly.yml")
    [job] = workflow["jobs"].values()
    assert (workflow["permissions"], job["timeout-minutes"] > 0) == ({"contents": "read"}, True)
    script = next(step["run"] for step in job["steps"] if "releases" in step.get("name", ""))
    [words] = [line.partition("fuzz.quality ")[2].split() for line in script.splitlines() if "fuzz.quality" in line]
    verb, *arguments = words[: words.index(">")]
    command: Any = typer.main.get_command(quality)
    options = command.commands[verb].make_context(verb, arguments).params  # a usage error raises
    upload, [written] = job["steps"][-1]["with"]["path"], options["json"]
    assert Path(written).parent == Path(upload)
    assert f"mkdir {upload}" in script


def test_expressions_reach_scripts_as_variables_only() -> None:
    for name, step in _steps().items():
        assert "${{" not in step.get("run", ""), f"{name}: what a branch is called would be run"


def test_reports_are_uploaded_however_the_gate_ended() -> None:
    steps = _steps()
    for name in ("Reports, page and case files", "Code scanning", "Keep the state for the next night"):
        assert steps[name]["if"].startswith("always()")


@dataclass(frozen=True)
class Runner:
    """A machine of a code host, as far as the scripts see it."""

    folder: Path
    fake: Path
    environment: Mapping[str, str] = field(default_factory=lambda: {"PYTHONPATH": str(CHECKOUT)})

    def run(self, name: str, **given: str) -> subprocess.CompletedProcess[str]:
        """The script of one step, with the defaults of the action's inputs."""
        step = _steps()[name]
        inputs = {key: each.get("default", "") for key, each in _read(_ACTION)["inputs"].items()}
        values = {f"${{{{ inputs.{key} }}}}": value for key, value in {**inputs, **given}.items()}
        values |= {"${{ github.token }}": "a token", "${{ github.event.pull_request.number }}": "7"}
        environment = {
            **os.environ,
            **self.environment,
            **{key: values[text] for key, text in step.get("env", {}).items()},
            "PATH": os.pathsep.join([*self._found_first(), str(self.fake), os.environ["PATH"]]),
            "HOME": str(self.folder),
            "KERNELFUZZ_CACHE": str(cache_directory()),
            "RECORD": str(self.folder / "record"),
            "GITHUB_REPOSITORY": "an/owner",
            "RUNNER_OS": "Linux",
            "RUNNER_ARCH": "X64",
            **{f"GITHUB_{what}": str(self.folder / what) for what in ("OUTPUT", "PATH", "STEP_SUMMARY")},
        }
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    def _found_first(self) -> list[str]:
        """Folders of programs that earlier steps have named."""
        named = self.folder / "PATH"
        return named.read_text().split() if named.is_file() else []

    @property
    def called(self) -> list[list[str]]:
        """The commands that were recorded."""
        return [json.loads(line) for line in (self.folder / "record").read_text().splitlines()]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """Commands that install or search are recorded, not run."""
    fake, venv = tmp_path / "fake", tmp_path / ".kernelfuzz" / "venv" / "bin"
    for path in (fake / "kernelfuzz", fake / "sudo", venv / "kernelfuzz", venv / "python"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_RECORDER.format(python=sys.executable))
        path.chmod(0o755)
    return Runner(tmp_path, fake)


def test_the_commands_of_every_script_are_known_to_the_command_line(runner: Runner) -> None:
    given = {"base": "origin/main", "arguments": "--pack kernels --require c-*@native*"}
    for name, step in _steps().items():
        if "run" in step:
            done = runner.run(name, **given)
            assert done.returncode == 0, f"{name}: {done.stderr}"
    calls = [call[1:] for call in runner.called if call[0] == "kernelfuzz"]
    assert [call[0] for call in calls] == ["doctor", "gate", "nightly"]
    for verb, *arguments in calls:
        group: Any = typer.main.get_command(app)
        command = group.commands[verb]
        options = command.make_context(verb, arguments).params  # a usage error raises
        parse(options.get("report") or [])
    assert calls[1][calls[1].index("--base") + 1] == "origin/main"
    assert calls[1][-2:] == ["--require", "c-*@native*"], "a glob must reach the command as it is"
    assert "--base" not in _gate_without_base(runner)
    pip = next(call for call in runner.called if call[:3] == ["python", "-m", "pip"])
    assert pip[-1] == "kernelfuzz"
    assert (runner.folder / "OUTPUT").read_text().startswith("key=kernelfuzz-Linux-X64-Python-3")
    assert (runner.folder / "PATH").read_text().strip().endswith("/venv/bin")


def test_a_store_is_read_from_the_environment_alone_and_no_kernel_inherits_it(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arguments of a process are shown to every user of its machine, and printed."""
    url = "postgresql://me:hunter2@host/found"
    for name in ("Gate", "Night"):
        assert runner.run(name, store=url).returncode == 0
        assert "hunter2" not in " ".join(runner.called[-1])
        [given] = [name for name, text in _steps()[name]["env"].items() if text == "${{ inputs.store }}"]
        monkeypatch.setenv(given, url)
        verb, *arguments = runner.called[-1][1:]
        command: Any = typer.main.get_command(app)
        assert command.commands[verb].make_context(verb, arguments).params["store"] == [url]
        assert given not in os.environ


def _gate_without_base(runner: Runner) -> list[str]:
    assert runner.run("Gate").returncode == 0
    return runner.called[-1]


_GH = """#!/bin/sh
echo "$@" >> {record}
case "$*" in
*--paginate*) cat {known} ;;
*) [ ! -e {refuses} ] ;;
esac
"""


def test_one_comment_is_written_and_then_edited_in_place(runner: Runner) -> None:
    record, known, refuses = (runner.folder / name for name in ("asked", "known", "refuses"))
    (runner.fake / "gh").write_text(_GH.format(record=record, known=known, refuses=refuses))
    (runner.fake / "gh").chmod(0o755)
    known.write_text("")
    assert runner.run("Comment").returncode == 0
    body = runner.folder / "kernelfuzz-results" / "comment.md"
    assert body.read_text().startswith(f"{MARK}\n### kernelfuzz gate: ENDED WITHOUT A REPORT\n"), "no gate has run"
    body.write_text(f"{MARK}\nsaid\n")
    written = "-F body=@kernelfuzz-results/comment.md"
    for there, asked in (("", "-X POST repos/an/owner/issues/7/comments"),
                         ("31\n32\n", "-X PATCH repos/an/owner/issues/comments/31")):  # fmt: skip
        known.write_text(there)
        assert runner.run("Comment").returncode == 0
        assert record.read_text().splitlines()[-1] == f"api {asked} {written}"
    assert MARK in _steps()["Comment"]["run"]
    refuses.touch()
    done = runner.run("Comment")
    assert (done.returncode, "::warning::" in done.stdout) == (0, True), "a fork may not write"


@pytest.mark.whole
def test_a_red_gate_leaves_valid_reports_and_a_summary(runner: Runner, planted: Callable[..., Path]) -> None:
    pack = planted(_DROPS_EPS)
    (runner.folder / "corpora").mkdir()
    program = f'#!/bin/sh\nexec {sys.executable} -m fuzz "$@"\n'
    (runner.fake / "kernelfuzz").write_text(program)
    done = runner.run("Gate", arguments=f"--pack {pack} --corpora corpora --max-cases 64 --no-shrink")
    assert done.returncode == 1, done.stderr
    assert "::error file=" in done.stdout
    results = runner.folder / "kernelfuzz-results"
    log = valid_sarif((results / "kernelfuzz.sarif").read_text())
    assert {result["ruleId"] for result in log["runs"][0]["results"]} & {"FAIL_NUMERIC", "FAIL_NONFINITE"}
    assert int(valid_junit((results / "junit.xml").read_text()).attrib["failures"]) > 0
    assert "## kernelfuzz gate: FAILED" in (runner.folder / "STEP_SUMMARY").read_text()
    assert (results / "comment.md").read_text().startswith(f"{MARK}\n### kernelfuzz gate: FAILED")
    assert list((results / "findings").glob("planted-fail_n*.json"))
