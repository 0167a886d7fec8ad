"""A program that shows a failing case by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fuzz.adapters.registry import ADAPTERS
from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.findings.casefile import Found
from fuzz.judge.judge import Judgement
from fuzz.report.script import calls_of
from fuzz.uses.repro.chosen_case import ChosenCase


def check_name(path: Path | None) -> None:
    """Raise UsageError for a file whose language its name does not tell."""
    if path is not None and path.suffix not in {adapter.suffix for adapter in ADAPTERS.values()}:
        raise UsageError(f"--script {path}: the name must end in .c or .py")


def chosen_for_script(
    path: Path, judgements: Sequence[Judgement], targets: Mapping[str, Target], found: Found | None
) -> Judgement:
    """The judgement that the program shows: a failure in the language of `path`, that of the file's target first."""
    fitting = [j for j in judgements if targets[j.target].adapter.suffix == path.suffix]
    if not fitting:
        raise UsageError(f"--script {path}: no chosen kernel is written in that language; choose one with --target")

    def rank(judgement: Judgement) -> tuple[bool, bool]:
        return not judgement.verdict.is_finding, found is None or judgement.target != found.target

    return min(fitting, key=rank)


def write_script(path: Path, chosen: ChosenCase, judgement: Judgement, target: Target) -> None:
    """Write the program. Raises UsageError where none can show it."""
    case, found = chosen.case, chosen.found
    failing = judgement if judgement.verdict.is_finding else None
    calls = calls_of(target, case, failing, chosen.law, chosen.history)
    about = [
        f"{judgement.verdict.value} of {target.id}, case {case.digest[:12]}",
        *([judgement.reason] if judgement.reason else []),
        *(found.explanation if found is not None else ()),
    ]
    text = target.adapter.script(target, calls, about, path.name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--script {path}: cannot be written: {error.strerror}") from error
