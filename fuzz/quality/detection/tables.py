"""The tables: what each way to test finds, and how small an error is seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from fuzz.base.kernel import Mutant
from fuzz.base.verdict import Verdict
from fuzz.quality.detection.hunt import OURS, Seen
from fuzz.report.console import PlainTable
from fuzz.uses.tolerance.needs import needs
from fuzz.uses.tolerance.plain import LANES
from oracles.op import Op

GPUEMU = (
    "published of gpuemu: 10 of 10 bugs of its own corpus found, 0 of 16 correct kernels accused (arXiv 2606.20128)"
)

_IN_VALUES = {Verdict.FAIL_NUMERIC.value, Verdict.FAIL_NONFINITE.value}
SHARPNESS = (
    "the smallest error that is seen, as a share of the value, in half of the elements of 32 normal rows: where a"
    " kernel declares how it adds / where it may add in any order / by assert_close, and the share of elements of which"
    " that refuses what a correct kernel may return"
)


@dataclass(frozen=True)
class Score:
    """What one way makes of all kernels that it has a test of."""

    way: str
    bugs: int
    found: int
    cases: float
    """The median of the cases until a bug is found, among those that are; 0 where none is."""
    seconds: float
    visible: int
    """The number of bugs that show in values, and `seen` how many of these are found: others write where they must not,
    or differ from call to call, which no comparison of outputs is made for."""
    seen: int
    right: int
    accused: int
    """The number of correct kernels, of `right`, of which it says that they are wrong."""

    @property
    def row(self) -> tuple[str, ...]:
        """Its row of the table."""
        until = (f"{self.cases:g}", f"{self.seconds:.2g}") if self.found else ("-", "-")
        accused = f"{self.accused} of {self.right}" if self.right else "-"
        return self.way, _share(self.found, self.bugs), _share(self.seen, self.visible), *until, accused


def _share(found: int, bugs: int) -> str:
    return f"{found} of {bugs} ({found / bugs:.0%})" if bugs else "-"


def scores(seen: Sequence[Seen], visible: Collection[str]) -> Iterator[Score]:
    """Yield the score of each way, of what it has a case for; `visible` are the bugs that show in values."""
    for way in dict.fromkeys(each.way for each in seen):
        own = [each for each in seen if each.way == way and each.cases]
        wrong = [each for each in own if not each.right]
        found = [each for each in wrong if each.accused]
        yield Score(
            way, len(wrong), len(found), median([each.cases for each in found] or [0]),
            median([each.seconds for each in found] or [0.0]),
            sum(each.kernel in visible for each in wrong), sum(each.kernel in visible for each in found),
            len(own) - len(wrong), sum(each.accused for each in own if each.right),
        )  # fmt: skip


def visible_of(mutants: Iterable[Mutant]) -> frozenset[str]:
    """The names of those that show in values."""
    return frozenset(each.name for each in mutants if {*each.caught_as} <= _IN_VALUES)


def found_table(found: Iterable[Score]) -> PlainTable:
    """What each way finds."""
    columns = (
        "test", "bugs found", "of those that show in values", "cases to the first, median", "seconds, median",
        "correct kernels accused",
    )  # fmt: skip
    return PlainTable(columns, [each.row for each in found])


def missed(seen: Sequence[Seen]) -> list[str]:
    """The bugs that this tool does not find."""
    return [each.kernel for each in seen if each.way == OURS and not each.right and not each.accused]


def alone(seen: Sequence[Seen]) -> int:
    """The number of bugs that no other way finds."""
    by_others = {each.kernel for each in seen if each.accused and not each.way.startswith(OURS)}
    return sum(each.accused and not each.right and each.way == OURS and each.kernel not in by_others for each in seen)


@dataclass(frozen=True)
class Sharpness:
    """How small an error is seen, as a share of the value, in half of the elements."""

    op: str
    output: str
    dtype: str
    n: int
    declared: float
    """By this tool, of a kernel that declares how it adds."""
    undeclared: float
    """By this tool, of one that may add in any order."""
    close: float
    """By assert_close with its defaults."""
    refused: float
    """The share of elements of which assert_close may refuse what a correct kernel returns."""

    @property
    def cell(self) -> str:
        """All of it."""
        mark = f" (refuses {self.refused:.0%})" if self.refused else ""
        return f"{self.declared:.1e} / {self.undeclared:.1e} / {self.close:.1e}{mark}"


def sharpness(op: Op, dtype: str, n: int) -> Sharpness | None:
    """How small an error is seen of the first output; None where rounding changes none of its numbers, or there is no
    default tolerance for it."""
    declared, undeclared = next(needs(op, dtype, n, order=LANES), None), next(needs(op, dtype, n), None)
    if declared is None or undeclared is None:
        return None
    theirs = next((each for each in undeclared.rulers if each.whose == "torch"), None)
    if theirs is None:
        return None
    refused = theirs.refuses / undeclared.elements
    return Sharpness(op.name, declared.output, dtype, n, declared.floor, undeclared.floor, theirs.lets_through, refused)


def sharpness_table(found: Sequence[Sharpness]) -> PlainTable:
    """A row for each op and dtype, a column for each length."""
    lengths, rows = list(dict.fromkeys(each.n for each in found)), dict[tuple[str, str], dict[int, str]]()
    for each in found:
        rows.setdefault((each.op, each.dtype), {})[each.n] = each.cell
    lines = [(*row, *(cells.get(n, "") for n in lengths)) for row, cells in rows.items()]
    return PlainTable(("op", "dtype", *(f"n = {n:,}" for n in lengths)), lines)
