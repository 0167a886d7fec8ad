"""Guidance: what it learns from, what it proposes, and that nothing but judgements decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fuzz.campaign.search.guide import Guide, Relative, lessons_from, packed_lessons
from fuzz.campaign.search.schedule import one_by_one
from fuzz.campaign.search.turn_runner import SearchScope, TurnRunner
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import this_host
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw
from fuzz.core.base.feature import Feature
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Proposal
from fuzz.core.generate.sketch import LARGEST_CASE, Sketch
from fuzz.core.generate.turn import BATCH, PLACES, Made
from fuzz.core.judge.judge import Judgement
from fuzz.tests.common.hunting import PACK
from oracles.truth import OutputCheck

KERNEL = PACK.kernel("generic")
TARGET = "c-generic@native:gcc-O2"


def _made(n: int, dtype: str = "f32", recipe: str = "normal", seed: int = 1) -> Made:
    who = KERNEL.capability
    sketch = Sketch(who, n=n, rows=3, rank=2, axis=1, odd=False, parameters={"eps": 1.0}, recipe=recipe, seed=seed)
    draw = draw_from(sketch, {Feature("dtype", "x"): dtype})
    return Made(realise(draw), draw, who)


def _tell(guide: Guide, made: Made, ratio: float, verdict: Verdict = Verdict.PASS, blunt: bool = False) -> None:
    check = OutputCheck("y", "pass", (0, 0), ratio, blunt=blunt)
    guide.learn(guide.lessons([(made, [Judgement(TARGET, made.case.digest, verdict, ratio, check)])]))


def _relatives(guide: Guide, *turns: int) -> list[Relative]:
    def make(proposed: Sequence[Proposal]) -> list[Made | None]:
        made = [Made(realise(draw), draw, who) for draw, who, _ in proposed]
        return [None if each.capability.refusal(each.case) else each for each in made]

    return [relative for turn in turns for relative in guide.relatives(turn, make)]


def _draw(relative: Relative) -> Draw:
    assert relative.draw is not None
    return relative.draw


def test_nothing_is_proposed_before_anything_is_known() -> None:
    assert _relatives(Guide(1, (KERNEL.capability,)), 0, 1) == []


def test_relatives_are_near_the_worst_and_are_taken() -> None:
    guide = Guide(1, (KERNEL.capability,))
    for seed, (n, ratio) in enumerate(((40, 0.1), (44, 0.2), (41, 0.9))):
        _tell(guide, _made(n, recipe=("normal", "uniform", "spike")[seed]), ratio)
    found = []
    for turn in range(80):
        found += (made := _relatives(guide, turn))
        guide.learn(guide.lessons([(each, []) for each in made]))
    assert len(found) >= 160
    assert all(KERNEL.capability.refusal(each.case) is None for each in found)
    near = Counter(_draw(each).part("x").recipe for each in found)
    assert near.most_common(1)[0][0] == "spike", "the worst is tried most"
    assert near["normal"] > 10, "but not alone"
    assert len({each.case.digest for each in found}) > 150


def test_failures_errors_that_rounding_hides_and_strangers_teach_nothing() -> None:
    guide = Guide(1, (KERNEL.capability,))
    _tell(guide, _made(40), 9.0, Verdict.FAIL_NUMERIC)
    _tell(guide, _made(41, dtype="f16"), 0.99, blunt=True)
    _tell(guide, replace(_made(42), draw=None), 0.9)
    assert _relatives(guide, 0) == []


def test_long_rows_are_tried_although_short_ones_are_worse() -> None:
    guide = Guide(1, (KERNEL.capability,))
    for seed in range(6):
        _tell(guide, _made(1 + seed % 3, recipe=("normal", "uniform", "ordinal")[seed % 3], seed=seed), 0.9)
    _tell(guide, _made(5000), 0.01)
    assert any(_draw(each).n > 1000 for each in _relatives(guide, *range(5)))


def test_there_are_few_relatives_where_they_do_not_help_and_many_where_they_do() -> None:
    guide = Guide(1, (KERNEL.capability,))
    _tell(guide, _made(100), 0.5)
    for turn in range(30):
        for relative in _relatives(guide, turn):
            _tell(guide, relative, 0.1)
    assert len(_relatives(guide, 30)) == 2
    worse = 0.5
    for turn in range(31, 61):
        for relative in _relatives(guide, turn):
            worse += 0.001
            _tell(guide, relative, worse)
    assert len(_relatives(guide, 61)) == 8


def test_changes_that_make_cases_worse_are_made_more_often() -> None:
    """A kernel that is worse the longer the row."""
    guide = Guide(1, (KERNEL.capability,))
    _tell(guide, _made(4), 0.01)
    for turn in range(40):
        for relative in _relatives(guide, turn):
            _tell(guide, relative, _draw(relative).n / 10000)
    lengths = [_draw(each).n for each in _relatives(guide, *range(40, 45))]
    assert 2000 < max(lengths) <= LARGEST_CASE, "but not without end"


def test_relatives_stay_cheap_to_judge_however_large_the_worst_cases_are() -> None:
    """A kernel that is worse the more elements there are."""
    guide = Guide(1, (KERNEL.capability,))
    _tell(guide, _made(40), 0.01)
    found = []
    for turn in range(40):
        made = _relatives(guide, turn)
        for relative in made:
            draw = _draw(relative)
            _tell(guide, relative, min(1.0, draw.n * draw.rows / 50_000))
        found += [_draw(each) for each in made]
    assert all(draw.rows == 1 or (draw.n * draw.rows <= 4096 and draw.rows <= 256) for draw in found)
    assert any(draw.rows > 10 for draw in found)


def test_what_is_told_again_in_the_same_order_makes_the_same_guide() -> None:
    """Every process has one of its own, and a turn may be taken twice."""
    told, first = [], Guide(1, (KERNEL.capability,))
    _tell(first, _made(100), 0.5)
    told.append(first.lessons([(_made(100), [])]))
    for turn in range(20):
        relatives = _relatives(first, turn)
        check = OutputCheck("y", "pass", (0, 0), 0.5 + turn / 100)
        judged = [(each, [Judgement(TARGET, "", Verdict.PASS, check.worst_ratio, check)]) for each in relatives]
        told.append(first.lessons(judged))
        first.learn(told[-1])
    again = Guide(1, (KERNEL.capability,))
    _tell(again, _made(100), 0.5)
    for lessons in told:
        again.learn(lessons_from(packed_lessons(lessons)))
    seen = [[each.case.digest for each in _relatives(guide, 50, 51)] for guide in (first, again)]
    assert seen[0] == seen[1]


def test_a_guide_adds_cases_and_changes_no_other(tmp_path: Path) -> None:
    """Otherwise a case could not be named by its place in a search."""
    targets = [target for target in expand([KERNEL], this_host()) if target.id == TARGET]

    def cases(guided: bool) -> list[Case]:
        found: list[Case] = []
        with WorkerPool(targets) as pool:
            scope = SearchScope([KERNEL], (), ([TARGET],), guided=guided)
            turn_runner = TurnRunner(pool, targets, scope, lambda judge: found.append(judge.entry.case))
            for _ in zip(range(12), one_by_one(turn_runner, "rms_norm", 3), strict=False):
                pass
        return found

    plain, more = cases(False), cases(True)
    own = [case.digest for case in more if case.origin.number % PLACES <= BATCH]
    assert own == [case.digest for case in plain]
    assert len(own) < len(more)
    assert len({case.origin.name for case in more}) == len(more)
