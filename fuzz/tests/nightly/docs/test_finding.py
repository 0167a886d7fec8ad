"""The finding that the README shows is what the tool says."""

from __future__ import annotations

import re

from fuzz.adapters.registry import expand
from fuzz.execute.pool import WorkerPool
from fuzz.findings import casefile
from fuzz.tests.common.hunting import PACK, failing, mutant
from fuzz.tests.common.told import lines_of
from fuzz.tests.conftest import CHECKOUT
from fuzz.uses.selftest.explained import explained_on

_CASE = CHECKOUT / "corpora" / "historical" / "sve-tail-dont-care.json"


def test_the_shown_explanation_is_what_is_said_of_the_shown_case() -> None:
    shown = " ".join((CHECKOUT / "README.md").read_text().split())
    target = next(each for each in expand([mutant("sve-tail-dont-care")]) if each.id.endswith("vl=128,gcc-O0"))
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, casefile.load(_CASE)[0])
    finding = explained_on(PACK.kernel("sve"), target, case, judgement)
    said = [re.sub("^(cause|fails when): ", r"\1 ", line) for line in lines_of(finding, target)]
    for line in (each for each in said if each.startswith(("cause", "fails"))):
        assert line in shown, line
