"""The README and the pages about use never promise what the code does not do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import fields
from html import unescape
from pathlib import Path

import pytest

import fuzz
from fuzz.cli import main
from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.verdict import Verdict
from fuzz.report.words import PHRASES
from fuzz.tasks.demonstration import next_lines, planted_lines
from fuzz.tests.conftest import CHECKOUT, Cli
from oracles.algorithm import FORMULA
from oracles.elementary.functions import NAMES
from oracles.formula.contract import Contract
from oracles.ops import OPS

README = (CHECKOUT / "README.md").read_text()
KERNELS = (CHECKOUT / "fuzz" / "docs" / "kernels.md").read_text()


def test_the_kernel_table_is_what_the_tool_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.core.adapters.registry.this_host", lambda: Host("x86_64", frozenset()))
    monkeypatch.setattr("sys.argv", ["kernelfuzz", "list", "kernels", "--markdown"])
    with pytest.raises(SystemExit):
        main()
    match = re.search(r"<!-- kernels -->\n(.*?)\n<!-- /kernels -->", KERNELS, re.DOTALL)
    assert match is not None
    assert match[1].strip() == capsys.readouterr().out.strip(), (
        "paste the output of: kernelfuzz list kernels --markdown"
    )


def test_where_kernels_differ_is_said_with_words_that_there_are() -> None:
    """Each word is a parameter of the op, one of its algorithms, or a field of a contract."""
    match = re.search(
        r"<!-- policies -->\n(.*?)<!-- /policies -->", (CHECKOUT / "fuzz" / "docs" / "ops.md").read_text(), re.DOTALL
    )
    assert match is not None
    for line in match[1].splitlines()[2:]:
        name, _, words = (cell.strip() for cell in line.strip("|").split("|"))
        op = OPS[name.strip("`")]
        known = {field.name for field in fields(Contract)}
        for word in re.findall(r"`([^`]+)`", words):
            algorithm = re.fullmatch(r'algorithm=\{"(\w+)": "([^"]+)"\}', word)
            if algorithm:
                assert algorithm[2] in (FORMULA, *op.algorithms[algorithm[1]]), line
            elif "=" in word:
                assert word.partition("=")[0] in known, line
            else:
                assert word.startswith('"') or word in {each.name for each in op.parameters}, line


def test_the_bug_that_lives_on_is_found_as_told(cli_here: Cli) -> None:
    [command] = re.findall(r"`kernelfuzz (repro corpora/.*?)`", KERNELS)
    done = cli_here(*(part.replace("corpora/", f"{CHECKOUT}/corpora/") for part in shlex.split(command)))
    assert done.returncode == 1
    verdicts = dict(re.findall(r"^c-sve-tail-dont-care@(\S+) +(\w+)", done.stdout, re.MULTILINE))
    assert len(verdicts) >= 12
    assert {verdict for name, verdict in verdicts.items() if name.endswith("O0")} == {"FAIL_NUMERIC"}
    assert {verdict for name, verdict in verdicts.items() if name.endswith("O2")} == {"PASS"}


def test_the_readme_is_short() -> None:
    assert 100 <= README.count("\n") <= 150


def test_what_an_index_shows_leads_to_no_file_of_a_checkout_and_has_the_listing_of_the_readme() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    shown = (CHECKOUT / project["readme"]).read_text()
    assert re.findall(r"\]\((?!https://)", shown) == []
    [code] = re.findall(r"```python\n(.*?)```", shown, re.DOTALL)
    assert code in README, "tests execute that one"


def test_the_readme_counts_the_ops() -> None:
    assert re.findall(r"\b(\d+) ops\b", README) == [str(len(OPS))]


def test_the_readme_says_how_many_bugs_are_found_as_the_page_that_measures_it() -> None:
    said = (
        r"Of (\d+) bugs that were planted in (\d+) correct kernels, `assert_close` finds (\d+), and\skernelfuzz (\d+)"
    )
    [(bugs, kernels, close, ours)] = re.findall(said, README)
    page = (CHECKOUT / "fuzz" / "docs" / "detection.md").read_text()
    table = page.partition("## All planted bugs")[2].partition("\n## ")[0]
    found = dict(re.findall(r"^\| (kernelfuzz|assert_close) \| (\d+ of \d+) ", table, re.MULTILINE))
    assert found == {"kernelfuzz": f"{ours} of {bugs}", "assert_close": f"{close} of {bugs}"}, (
        "write it in the README too"
    )
    assert f"{bugs} bugs were planted one at a time into {kernels} correct kernels" in page


def test_the_picture_is_of_what_the_demonstration_prints() -> None:
    """But for what the search found and how long it took, which a test of the night looks at."""
    drawn = unescape((CHECKOUT / "fuzz" / "docs" / "static" / "demo.svg").read_text()).replace("\xa0", " ")
    for line in (*planted_lines(), *next_lines(0)):
        assert line.partition(" in 0 s")[0] in drawn, "draw it again: python3 -m fuzz.docs.picture demo"
    assert f"FAIL  softmax  {PHRASES[Verdict.FAIL_NUMERIC]} when n mod 4 != 0" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")


def test_each_line_in_the_picture_of_a_failure_is_explained_below_it() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "reading-a-failure.md").read_text().partition("static/failure.svg")[2]
    texts = re.findall(r"<text [^>]*>(.*?)</text>", (CHECKOUT / "fuzz" / "docs" / "static" / "failure.svg").read_text())
    lines = [unescape(text).replace("\xa0", " ") for text in texts]
    labels = {
        match[1] for line in lines if (match := re.match(r"  (\w\w+(?: \w+)*)  +\S", line))
    }  # x and y are tensors
    assert len(labels) > 15
    assert [each for each in labels if f"`{each}`" not in page] == [], "draw it again, see fuzz/docs/picture.py"


def test_every_field_of_a_contract_is_in_the_table_of_what_a_kernel_declares() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "contracts.md").read_text()
    shown = re.findall(r"^\| `contract\.(\w+)` \|", page, re.MULTILINE)
    assert sorted(shown) == sorted(each.name for each in fields(Contract))


def test_every_instruction_set_is_in_that_table() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "contracts.md").read_text()
    [shown] = re.findall(r"^\| `isa` \| (.*?): the instruction set", page, re.MULTILINE)
    assert shown == ", ".join(f"`{name}`" for name in ISAS)


def test_the_page_about_ops_names_every_function_of_a_formula_and_every_field() -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "adding-an-op.md").read_text()
    functions = re.findall(r"^\| `f\.(\w+)\(", page, re.MULTILINE)
    listed = {name for name in fuzz.formula.__all__ if name.islower()} - {*NAMES}
    assert sorted(functions) == sorted(listed), "the elementary ones are what `kernelfuzz list functions` prints"
    for kind in (fuzz.Op, fuzz.Operand, fuzz.Parameter):
        shown = re.findall(rf"^\| `{kind.__name__}\.(\w+)` \|", page, re.MULTILINE)
        assert shown == [each.name for each in fields(kind)]


def test_the_package_shows_its_public_names() -> None:
    assert {*fuzz.__all__} <= {*dir(fuzz)}


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"^\| `(sh \.ci/setup.*?)` \|", README, re.MULTILINE)
    assert len(commands) == 2
    # Set-up and tests are timed apart there, and so are two lines.
    lines = [line.strip() for line in (CHECKOUT / ".ci" / "run").read_text().splitlines()]
    places = [lines.index(command) for command in commands[1].split(" && ")]
    assert len(places) == 2
    assert places == sorted(places)


def test_the_setup_script_is_valid_shell() -> None:
    for name in ("setup", "run", "nightly"):
        path = CHECKOUT / ".ci" / name
        assert os.access(path, os.X_OK)
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0


_FAKE = """#!/bin/sh
# Stands for python3 and for the environment's python: records how it was called, and makes the environment.
echo "$0 $*" >> "$RECORD"
case "$*" in
    *"-m venv"*) mkdir -p .venv/bin && cp "$FAKE" .venv/bin/python && cp "$FAKE" .venv/bin/kernelfuzz ;;
    *"import torch"*) exit "$NO_TORCH" ;;
    *sysconfig*) mkdir -p site && echo site ;;
    *"import setuptools"*) exit 1 ;;
    *"--json"*) echo '{"tools": []}' ;;
esac
"""


@pytest.mark.parametrize(("no_torch", "extra"), [(0, "checks"), (1, "test")])
def test_setup_from_wheels_asks_no_network_and_for_torch_only_where_there_is_none(
    no_torch: int, extra: str, tmp_path: Path
) -> None:
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    for folder in (checkout / ".ci", tools, tmp_path / "wheels"):
        folder.mkdir(parents=True)
    shutil.copy(CHECKOUT / ".ci" / "setup", checkout / ".ci")
    (tmp_path / "wheels" / "numpy-2.3.5-cp312-cp312-manylinux_2_28_x86_64.whl").touch()
    for name in ("python3", "apt-get", "sudo"):
        (tools / name).write_text(_FAKE)
        (tools / name).chmod(0o755)
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}", "RECORD": str(tmp_path / "record"), "NO_TORCH": str(no_torch),
        "FAKE": str(tools / "python3"),
    }  # fmt: skip
    command = ["sh", "checkout/.ci/setup", "--wheels", "wheels", "test"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    called = (tmp_path / "record").read_text()
    [install] = re.findall(r"pip install (.*)", called)
    assert f"--no-index --find-links {tmp_path}/wheels -c .venv/wheels.txt -e .[{extra}]" in install
    assert (checkout / ".venv" / "wheels.txt").read_text() == "numpy==2.3.5\n", "what lies in the folder is wanted"
    assert "apt-get" not in called
    assert "--system-site-packages" in called
    assert (checkout / "site" / "machine.pth").read_text() == "site\n", "what python3 has is seen"


_PLAIN = """#!/bin/sh
case "$*" in
    *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/kernelfuzz ;;
    "doctor --json") echo record ;;
    "-c"*) cat ;;
    *) echo "asked: $*" ;;
esac
"""


def test_setup_without_apt_get_installs_no_program_and_names_them(tmp_path: Path) -> None:
    """As on Fedora and Arch; and on what is no Linux it says so."""
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    for folder in (checkout / ".ci", tools):
        folder.mkdir(parents=True)
    shutil.copy(CHECKOUT / ".ci" / "setup", checkout / ".ci")
    for name in ("sh", "dirname", "uname", "mkdir", "cp", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "python3").write_text(_PLAIN)
    (tools / "python3").chmod(0o755)
    command = ["sh", "checkout/.ci/setup"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "record", "what is missing is read off what doctor says"
    assert "doctor --install" not in done.stdout
    (tools / "uname").unlink()
    (tools / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (tools / "uname").chmod(0o755)
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "kernelfuzz runs on Linux, and this is Darwin: use a container" in done.stderr


def test_setup_says_what_is_wrong_with_its_folder(tmp_path: Path) -> None:
    command = ["sh", str(CHECKOUT / ".ci" / "setup"), "--wheels", "nowhere", "test"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nowhere is no folder" in done.stderr


def test_the_order_any_has_its_old_name_for_one_version() -> None:
    with pytest.warns(DeprecationWarning, match=r"fuzz\.Any is fuzz\.AnyOrder now") as warned:
        from fuzz import Any
    assert Any is fuzz.AnyOrder
    assert warned[0].filename == __file__
