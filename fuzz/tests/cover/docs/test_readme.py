"""The README never promises what the code does not do."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from fuzz.adapters.toolchain import Host
from fuzz.cli import main
from fuzz.tests.conftest import CHECKOUT, Cli

README = (CHECKOUT / "README.md").read_text()


def test_the_kernel_table_is_what_the_tool_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.report.listings.this_host", lambda: Host("x86_64", frozenset()))
    monkeypatch.setattr("sys.argv", ["kernelfuzz", "list", "kernels", "--markdown"])
    with pytest.raises(SystemExit):
        main()
    match = re.search(r"<!-- kernels -->\n(.*?)\n<!-- /kernels -->", README, re.DOTALL)
    assert match is not None
    assert match[1].strip() == capsys.readouterr().out.strip(), (
        "paste the output of: kernelfuzz list kernels --markdown"
    )


def test_the_shown_finding_is_what_the_tool_finds(cli_here: Cli) -> None:
    block = re.search(r"```console\n\$ kernelfuzz (.*?)\n(.*?)```", README, re.DOTALL)
    assert block is not None
    arguments = [part.replace("corpora/", f"{CHECKOUT}/corpora/") for part in shlex.split(block[1])]
    done = cli_here(*arguments)
    assert done.returncode == 1
    for line in block[2].splitlines():
        assert line == "..." or line.strip() in done.stdout, line
    verdicts = dict(re.findall(r"^c-sve-tail-dont-care@(\S+) +(\w+)", done.stdout, re.MULTILINE))
    assert len(verdicts) >= 12
    assert {verdict for name, verdict in verdicts.items() if name.endswith("O0")} == {"FAIL_NUMERIC"}
    assert {verdict for name, verdict in verdicts.items() if name.endswith("O2")} == {"PASS"}


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = re.findall(r"```sh\n(.*?)\n```", README, re.DOTALL)
    assert len(commands) == 2
    assert commands[1] in (CHECKOUT / ".ci" / "run").read_text()


def test_the_setup_script_is_valid_shell() -> None:
    for name in ("setup", "run"):
        path = CHECKOUT / ".ci" / name
        assert os.access(path, os.X_OK)
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
