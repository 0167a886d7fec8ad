"""What is said of solutions, as one record; it is a JSON object with a published schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from fuzz.campaign.measured import Measuring
from fuzz.contracts.accepts import Accepts
from fuzz.contracts.record import Measured
from fuzz.core.adapters.target import Target
from fuzz.core.base.exits import Exit
from fuzz.findings.book import FindingBook
from fuzz.findings.codec import encoded
from fuzz.findings.tally import Largest, Tally
from fuzz.references.examples import Beyond
from fuzz.report.totals import remarks
from fuzz.report.use_outcome import outcome_of

VERSION = 6
Said = Literal["right", "wrong", "undecided", "did not run"]
_RANK: tuple[Said, ...] = ("right", "undecided", "did not run", "wrong")


@dataclass(frozen=True)
class OwnShapes:
    """What is said of a solution at the shapes that come with its task, by a replay."""

    shapes: Mapping[str, tuple[int, ...]]
    """Those of the inputs; none where they were not tried."""
    changed: str
    """What is smaller in them than in the task, which would take too long, such as "batch_size = 8"; else ''."""
    verdict: Said
    judged: int
    failing: int
    failures: tuple[dict[str, Any], ...]
    """The case that fails, as of a replay."""
    reason: str
    """Why they were not tried, or are undecided; else ''."""


@dataclass(frozen=True)
class FullSize:
    """What is said of a solution at the shapes of its task where these are too large for a whole replay: it ran once,
    and some of its rows were compared."""

    shapes: Mapping[str, tuple[int, ...]]
    """Those of the inputs; none where it was not tried."""
    verdict: Said
    judged: int
    """The elements that were judged, among the `elements` of all outputs."""
    elements: int
    failure: str
    """What is wrong; else ''."""
    reason: str
    """Why it was not tried, or is undecided; else ''."""


@dataclass(frozen=True)
class SolutionRuling:
    """What is said of one solution."""

    solution: str
    """The file that it came from."""
    verdict: Said
    judged: int
    """The runs that were judged, and `failing` those of them that failed."""
    failing: int
    largest_error: Mapping[str, float]
    """The largest error of a run that passed, as a share of what is allowed, by dtype."""
    failures: tuple[dict[str, Any], ...]
    """What is known of each bug, as `explanation.schema.json` has it; by a replay, the smallest case that fails: its
    shapes, recipes and dtype, the worst element, what it is and must be, and how far it may be off."""
    reason: str
    """Why it did not run, or is undecided; else ''."""
    measured: tuple[Measured, ...] = ()
    """What was measured of it, on each of its targets."""
    accepts: tuple[Accepts, ...] = ()
    """What each of its targets does with strides, dtypes, ranks and extents that it does not declare: that is told, and
    held against nobody."""
    right_as: str = ""
    """What a wrong one is right as, such as "right as TF32; wrong as f32"; '' where it is nothing of that kind."""
    own_shapes: OwnShapes | None = None
    """What is said of it at the shapes that come with the task: those of all other cases are the judge's. None where
    none come with it, or where these alone were asked for."""
    full_size: FullSize | None = None
    """What is said of it at those shapes as they are, where they were made smaller; None if it is wrong
    already."""
    other_mode: SolutionRuling | None = None
    """What a replay says of it in the other mode of a module, such as `eval()`; None where the reference returns the
    same there. It does not change the verdict."""
    one_seed: OwnShapes | None = None
    """What is said at the shapes that come with the task if both modules are constructed from one seed and the solution
    is given no weights, as KernelBench does; only of one that is wrong there else. It does not change the verdict."""
    beyond: Beyond | None = None
    """What it does with inputs that those of the task never are, where the cases had what these always are; or with
    such as these, where it is wrong. None where nothing was seen of these."""


@dataclass(frozen=True)
class Ruling:
    """What is said of all solutions of a problem."""

    schema: int
    verdict: Said
    """The verdict of the worst of them: "wrong" before "did not run", "undecided" and "right"."""
    problem: str
    reference: str
    """What was read of the reference, how it was checked, and what is not judged; or what of it cannot be read."""
    oracle: Literal["formula", "replay"]
    """What solutions were judged by: the formula that was read, or the reference itself, replayed in float64."""
    guarantee: str
    """What a replay does not see, which is weaker than a formula; '' of a formula."""
    seed: int
    cases: int
    pack: str
    """The folder of the op and the kernels that were judged."""
    probes: Mapping[str, int]
    """How many calls were made in other ways that a right kernel cannot tell from the usual one, by the probe."""
    detection_floor: Mapping[str, float]
    """By dtype, the error of an output, as a share of it, that is seen in half of the elements of ordinary cases."""
    largest: Mapping[str, Largest]
    """How large the cases were that a formula judged, by the dtype of the first input."""
    never_ran: tuple[str, ...]
    """In which ways else nothing ran."""
    not_exercised: tuple[str, ...]
    solutions: tuple[SolutionRuling, ...]
    mode: str
    """The mode in which a module was judged, such as "in training mode, as constructed"; '' of a function."""
    other_mode: str
    """The other one, where the reference returns something else there; else ''."""

    def text(self) -> str:
        """Return it as a JSON object."""
        return json.dumps(msgspec.to_builtins(self), indent=1)


def solution_ruling(
    solution: str, kernel: str, targets: Mapping[str, Target], tally: Tally, book: FindingBook,
    measuring: Measuring, accepting: Mapping[str, Accepts], *, untried: str = "", refuses: str = "",
    interrupted: bool = False, beyond: Beyond | None = None,
) -> SolutionRuling:  # fmt: skip
    """Return what is said of the solution that a kernel was made of. It is undecided where it was not tried, and wrong
    where it refuses what comes with the problem; each says why."""
    own = [name for name in tally.targets if targets[name].kernel.name == kernel]
    lines = [tally.targets[name] for name in own]
    failures = tuple(encoded(each.told) for each in book.buckets.values() if each.kernel == kernel)
    worst = dict[str, float]()
    for line in lines:
        for dtype, each in line.worst.items():
            worst[dtype] = max(each.ratio, worst.get(dtype, 0.0))
    counted = Tally({each.target: each for each in lines})
    outcome = outcome_of(counted, failing=counted.findings > 0, errors=book.errors, interrupted=interrupted)
    said = "undecided" if untried else "wrong" if refuses else _SAID.get(outcome.code, "undecided")
    reason = next((each.broken or each.not_run_reason for each in lines if each.broken or each.not_run_reason), "")
    if untried or refuses:
        reason = untried or refuses
    elif said == "undecided":
        reason = "; ".join(remarks(outcome))
    records = tuple(measuring.records[name] for name in own if name in measuring.records)
    right_as = next((measuring.right_as[name] for name in own if measuring.right_as.get(name)), "")
    return SolutionRuling(
        solution, said, 0 if untried else sum(each.judged for each in lines),
        0 if untried else sum(each.findings for each in lines), worst, failures,
        "" if said == "right" or (failures and not refuses) else reason, records,
        tuple(accepting[name] for name in own if name in accepting), right_as, beyond=beyond,
    )  # fmt: skip


def worst_of(verdicts: Iterable[Said]) -> Said:
    """Return the worst of the verdicts; without any, nothing ran."""
    return max(verdicts, key=_RANK.index, default="did not run")


_SAID: Mapping[Exit, Said] = {Exit.OK: "right", Exit.FINDINGS: "wrong", Exit.NOTHING_RAN: "did not run"}
"""What is said of the outcome of a solution. It is undecided with any other: nothing fails, and not all was judged."""


def schema() -> dict[str, Any]:
    """Return the JSON schema of a ruling."""
    said = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kernelfuzz ruling {VERSION}",
        **msgspec.json.schema(Ruling),
    }
    found: dict[str, Any] = json.loads(json.dumps(said))  # a default may be a tuple
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
