"""Trouble: an internal error about one outcome, which leaves all other outcomes intact."""

from __future__ import annotations

import traceback
from pathlib import Path

from fuzz.core.adapters.target import Target
from fuzz.core.base.errors import InternalError
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import EntryJudge, Judgement
from oracles.truth import OracleDisagreement


def error_words(error: Exception) -> str:
    """Return an internal error in one line, with its place in the code unless it was raised on purpose."""
    said = " ".join(str(error).split())
    if isinstance(error, (InternalError, OracleDisagreement)):
        return said
    [*_, last] = traceback.extract_tb(error.__traceback__) or [None]
    where = f" ({Path(last.filename).name} line {last.lineno})" if last is not None else ""
    return f"{type(error).__name__}{': ' if said else ''}{said}{where}"


def judged(judge: EntryJudge, target: Target) -> tuple[Judgement, str]:
    """Return the judgement of a target's outcome, and "" or the words of an internal error that leaves it undecided."""
    try:
        return judge.judge(target), ""
    except Exception as error:
        words = f"internal error: {error_words(error)}"
        return Judgement(target.id, judge.entry.case.digest, Verdict.ORACLE_GAVE_UP, reason=words, is_ours=True), words
