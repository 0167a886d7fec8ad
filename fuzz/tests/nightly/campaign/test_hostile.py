"""A pack of kernels that harm their process, each in its own way: every one is blamed for what it does, the honest ones
between them are not, and neither a run nor a night ends because of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from fuzz.core.adapters.target import TargetId
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.verdict import Verdict
from fuzz.tests.common.running import KERNELFUZZ, Running, ask, finished, judged, until
from fuzz.tests.conftest import run_cli

PACK = Path(__file__).resolve().parents[2] / "common" / "packs" / "hostile"
EXPECTED = json.loads((PACK / "expected.json").read_text())
ON_X86 = frozenset({"x87-state", "registers-clobbered"})
"""Their acts are written in the assembler of x86-64."""
HONEST = sorted(name for name, each in EXPECTED.items() if each["when"] == "never")


def blamed(folder: Path) -> Mapping[str, set[str]]:
    """Every verdict on each kernel in one search of them all, and NOT_RUN where some target ran nothing."""
    ended = run_cli(
        folder, "run", "--pack", str(PACK), "--max-cases", "1200", "--seed", "14", "--case-limit", "3", "--no-shrink",
        "--json", "runs.jsonl",
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    said: defaultdict[str, set[str]] = defaultdict(set)
    for line in (folder / "runs.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "run":
            said[TargetId.parse(record["target"]).kernel].add(record["verdict"])
        if record["kind"] == "summary":
            for target in record["targets"]:
                if target["not_run"]:
                    said[TargetId.parse(target["target"]).kernel].add(Verdict.NOT_RUN.value)
    return said


def is_right(name: str, seen: set[str]) -> bool:
    """While it waits for its limit a kernel that hangs is cut off: what is not run of it is no blame."""
    findings, right = {verdict for verdict in seen if Verdict(verdict).is_finding}, set(EXPECTED[name]["blame"])
    return bool(findings & right) or (not findings and bool(right & {"PASS", "NOT_RUN"}))


def test_each_kernel_is_blamed_for_what_it_does_and_an_honest_one_for_nothing(tmp_path: Path) -> None:
    said = blamed(tmp_path)
    elsewhere = ON_X86 if this_host().arch != "x86_64" else frozenset()
    assert {name: said[name] for name in EXPECTED if name not in elsewhere and not is_right(name, said[name])} == {}
    assert {name: said[name] for name in HONEST} == {name: {"PASS"} for name in HONEST}


def test_a_night_of_them_goes_on_and_is_resumed(tmp_path: Path) -> None:
    night = ("nightly", "--pack", str(PACK), "--case-limit", "3", "--state", "state")
    with Running([*KERNELFUZZ, *night, "--max-time", "1h"], tmp_path) as run:
        until(lambda: judged(tmp_path) > 100, run)
        run.kill()
        run.ended()
    [(used,)] = ask(tmp_path, "SELECT sum(used_s) FROM session")
    ended = finished(tmp_path, *night, "--resume", "--max-time", f"{used + 60:.0f}s")
    assert ended.returncode == 1, ended.stderr
    assert "internal error" not in ended.stderr
