"""What comes with the tool is listed wherever it is installed, and what a pack has only where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.campaign.inventory import summary_table, target_table
from fuzz.cli.exits import Exit
from fuzz.core.adapters.c import CAttestation
from fuzz.core.adapters.target import Attestation, NotRun
from fuzz.report.listings import listing
from fuzz.tests.conftest import Cli


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without a checkout, in a folder without kernels."""
    monkeypatch.setattr("fuzz.core.adapters.pack._candidates", tuple)


@pytest.mark.usefixtures("alone")
def test_ops_and_laws_are_listed_without_a_pack() -> None:
    ops, laws = (listing(what, None).rows for what in ("ops", "laws"))
    assert ("rms_norm", "formula") in [(name, what) for name, what, _ in ops]
    assert {text for _, what, text in ops if what == "kernels"} == {"none"}
    assert {holders for *_, holders in laws} == {"none"}


@pytest.mark.usefixtures("alone")
def test_kernels_need_one_and_the_line_says_how_to_get_it(cli_here: Cli) -> None:
    done = cli_here("list", "kernels")
    assert done.returncode == Exit.USAGE
    assert "--pack DIR; kernelfuzz init DIR --kind c writes one" in done.stderr


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("words", ["tolerance softmax --rows 1 --n 8", "header softmax"])
def test_what_is_said_of_an_op_needs_no_pack(cli_here: Cli, words: str) -> None:
    done = cli_here(*words.split())
    assert done.returncode == Exit.OK, done.stderr


def test_who_names_a_kernel_is_told_its_op(cli_here: Cli) -> None:
    assert cli_here("init", "mine", "--kind", "c").returncode == Exit.OK
    done = cli_here("tolerance", "mine", "--pack", "mine")
    said = "kernelfuzz: mine is a kernel, and its op is softmax: kernelfuzz tolerance softmax --pack mine\n"
    assert (done.returncode, done.stderr) == (Exit.USAGE, said)


def test_doctor_sums_up_targets_that_differ_in_a_setting_alone() -> None:
    plain = CAttestation(
        "", "aarch64", "any", frozenset(), frozenset({"sve"}), frozenset(), {"vl": 128}, "qemu", "gcc 12", "", 4096,
        flushes=False, misreads=False,
    )  # fmt: skip
    wide = replace(plain, settings={"vl": 256})
    statuses: dict[str, Attestation | NotRun] = {"c@128": plain, "c@256": wide, "c@gpu": NotRun("no GPU")}
    assert "vector length 256" in target_table(statuses).rows[1][1]
    assert summary_table(statuses).rows == [("2", "aarch64 emulated, sve, gcc 12"), ("1", "NOT_RUN: no GPU")]
