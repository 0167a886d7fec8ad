"""Guidance: what it learns from, what it proposes, and that nothing but judgements decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.toolchain import this_host
from fuzz.base.capability import Capability
from fuzz.base.case import Case
from fuzz.base.draw import Draw
from fuzz.base.verdict import Verdict
from fuzz.execute.pool import WorkerPool
from fuzz.findings.book import book_in
from fuzz.findings.tally import Observer
from fuzz.generate.plan import plan
from fuzz.generate.realise import realise
from fuzz.generate.search import PLACES, Search
from fuzz.generate.sketch import LARGEST_CASE, Sketch
from fuzz.generate.turn import BATCH
from fuzz.judge.judge import Judgement
from fuzz.laws.registry import declared
from fuzz.uses.search.guide import Guide, guided
from fuzz.uses.search.runner import Limits, Runner
from oracles.truth import OutputCheck

PACK = load(built_in())
KERNEL = PACK.kernel("generic")
TARGET = "c-generic@native:gcc-O2"


def _draw(n: int, dtype: str = "f32", recipe: str = "normal", seed: int = 1) -> tuple[Draw, Capability]:
    who = KERNEL.capability
    sketch = Sketch(who, n=n, rows=3, rank=2, axis=1, odd=False, eps=1.0, recipe=recipe, seed=seed)
    return plan(sketch, {"x dtype": dtype}), who


def _tell(
    guide: Guide, draw: Draw, who: Capability, ratio: float, verdict: Verdict = Verdict.PASS, blunt: bool = False
) -> Case:
    case = realise(draw)
    guide.drawn(case, draw, who)
    check = OutputCheck("y", "pass", (0, 0), ratio, blunt=blunt)
    guide.judged(case, [Judgement(TARGET, case.digest, verdict, ratio, check)])
    return case


def _lengths(found: Sequence[tuple[Draw, Capability]]) -> list[int]:
    return [draw.n for draw, _ in found]


def test_nothing_is_proposed_before_anything_is_known() -> None:
    assert Guide(1).relatives(4) == []


def test_relatives_are_near_the_worst_and_are_taken() -> None:
    guide = Guide(1)
    for seed, (n, ratio) in enumerate(((40, 0.1), (44, 0.2), (41, 0.9))):
        _tell(guide, *_draw(n, recipe=("normal", "uniform", "spike")[seed]), ratio)
    found = guide.relatives(200)
    assert all(who.refusal(realise(draw)) is None for draw, who in found)
    near = Counter(draw.part("x").recipe for draw, _ in found)
    assert near.most_common(1)[0][0] == "spike", "the worst is tried most"
    assert near["normal"] > 10, "but not alone"
    assert len({realise(draw).digest for draw, _ in found}) > 190


def test_failures_errors_that_rounding_hides_and_strangers_teach_nothing() -> None:
    guide = Guide(1)
    _tell(guide, *_draw(40), 9.0, Verdict.FAIL_NUMERIC)
    _tell(guide, *_draw(41, dtype="f16"), 0.99, blunt=True)
    stranger = realise(_draw(42)[0])
    check = OutputCheck("y", "pass", (0, 0), 0.9)
    guide.judged(stranger, [Judgement(TARGET, stranger.digest, Verdict.PASS, 0.9, check)])
    assert guide.relatives(4) == []


def test_long_rows_are_tried_although_short_ones_are_worse() -> None:
    guide = Guide(1)
    for seed in range(6):
        _tell(guide, *_draw(1 + seed % 3, recipe=("normal", "uniform", "ordinal")[seed % 3], seed=seed), 0.9)
    _tell(guide, *_draw(5000), 0.01)
    assert any(n > 1000 for n in _lengths(guide.relatives(40)))


def test_there_are_few_relatives_where_they_do_not_help_and_many_where_they_do() -> None:
    guide = Guide(1)
    _tell(guide, *_draw(100), 0.5)
    for _ in range(30):
        for draw, who in guide.relatives(8):
            _tell(guide, draw, who, 0.1)
    assert len(guide.relatives(8)) == 2
    worse = 0.5
    for _ in range(30):
        for draw, who in guide.relatives(8):
            worse += 0.001
            _tell(guide, draw, who, worse)
    assert len(guide.relatives(8)) == 8


def test_changes_that_make_cases_worse_are_made_more_often() -> None:
    """A kernel that is worse the longer the row."""
    guide = Guide(1)
    _tell(guide, *_draw(4), 0.01)
    for _ in range(40):
        for draw, who in guide.relatives(8):
            _tell(guide, draw, who, draw.n / 10000)
    lengths = _lengths(guide.relatives(40))
    assert 2000 < max(lengths) <= LARGEST_CASE, "but not without end"


def test_relatives_stay_cheap_to_judge_however_large_the_worst_cases_are() -> None:
    """A kernel that is worse the more elements there are."""
    guide = Guide(1)
    _tell(guide, *_draw(40), 0.01)
    found = []
    for _ in range(40):
        made = guide.relatives(8)
        for draw, who in made:
            _tell(guide, draw, who, min(1.0, draw.n * draw.rows / 50_000))
        found += [draw for draw, _ in made]
    assert all(draw.rows == 1 or (draw.n * draw.rows <= 4096 and draw.rows <= 256) for draw in found)
    assert any(draw.rows > 10 for draw in found)


def _run(folder: Path, pause: float) -> list[str]:
    """Digests of the cases of one guided run, whose clock goes as fast as is asked for."""
    seen: list[str] = []

    class Watch(Observer):
        def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
            seen.append(case.digest)

        def progress(self, elapsed: float) -> None:
            """Nothing to show."""

    targets = [target for target in expand([KERNEL], this_host()) if target.id == TARGET]
    with WorkerPool(targets) as pool:
        runner = Runner(pool, targets, Limits(max_cases=200), book_in(folder, 1), declared([KERNEL]), [KERNEL])
        runner.observers = [Watch()]
        now = iter(range(10**6))
        runner.clock = lambda: next(now) * pause
        runner.run("rms_norm", 3)
    return seen


def test_the_same_seed_gives_the_same_guided_cases_whatever_the_clock_says(tmp_path: Path) -> None:
    first = _run(tmp_path, 0.001)
    assert first == _run(tmp_path, 1000.0)
    assert len(first) == 200


def test_a_guide_adds_cases_and_changes_no_other() -> None:
    """Otherwise a case could not be named by its place in a search."""

    def cases(guide: Guide | None) -> list[Case]:
        found: list[Case] = []
        for batch in guided(Search("rms_norm", 3, [KERNEL]), guide):
            found.extend(batch)
            for case in batch:
                check = OutputCheck("y", "pass", (0, 0), len(case.digest.lstrip("0123456789")) / 64)
                if guide is not None:
                    guide.judged(case, [Judgement(TARGET, case.digest, Verdict.PASS, check.worst_ratio, check)])
            if len(found) > 150:
                break
        return found

    plain, more = cases(None), cases(Guide(3))
    own = [case.digest for case in more if case.origin.number % PLACES <= BATCH]
    assert own == [case.digest for case in plain][: len(own)]
    assert len(own) < len(more)
    assert len({case.origin.place for case in more}) == len(more)
