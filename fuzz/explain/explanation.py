"""An explanation: everything that is known of a failure, as data, which is stored once; reports are made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.explain.rule.rule import Atom, Learned, Rule

NO_SHRINK = "--no-shrink"
"""The option that turns off shrinking and the search for a rule."""

VERSION = 5
"""The version of the schema. It is raised by every change that a reader of the previous version would misunderstand."""


@dataclass(frozen=True)
class Number:
    """A value of a dtype, in decimal and as bits."""

    decimal: str
    bits: str
    """The bits of an element, or the hexadecimal form of a parameter; '' for a whole number."""


@dataclass(frozen=True)
class Memory:
    """A tensor of the smallest case: its dtype, its place in memory and, if they are few, its elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """The strides, counted in elements."""
    alignment: int
    """The address of the first element modulo 64, in bytes."""
    offset: int
    """The number of elements between the tensor and the guard page."""
    guard: Literal["before", "after"]
    """The side of the tensor on which the guard page lies."""
    values: tuple[str, ...] = ()
    """All elements in C order, in decimal; empty for an output, or if the tensor is too large to be read off a
    screen."""
    content: str = ""
    """A digest of the elements; '' for an output."""
    shares: str = ""
    """The name of the input whose memory the tensor shares; '' if none."""
    apart: int | None = None
    """The number of elements by which the tensor lies behind that input, negative if it lies before it; None if it is
    exactly in place."""

    def __post_init__(self) -> None:
        """Raise ValueError if the number of values does not match the shape: a file may come from anybody."""
        if self.values and (min(self.shape, default=1) < 1 or math.prod(self.shape) != len(self.values)):
            raise ValueError(f"{len(self.values)} values do not fill the shape {list(self.shape)}")


@dataclass(frozen=True)
class Call:
    """The arguments of a kernel's call."""

    parameters: Mapping[str, Number]
    inputs: Mapping[str, Memory]
    outputs: Mapping[str, Memory]


@dataclass(frozen=True)
class SmallestCase(Call):
    """The smallest case that fails in this way."""

    digest: str
    recipe: str
    """The recipe of its values."""
    structured: bool
    """Whether rounding errors may all have one direction, so that the worst-case budget decides."""
    twin: Call | None = None
    """The second call, if a law compares two calls."""
    original: str = ""
    """The digest of the case from which it was shrunk; '' if it was not."""
    changes: tuple[tuple[str, int, int], ...] = ()
    """What shrinking reduced: the dimension, its extent before, and its extent after."""


@dataclass(frozen=True)
class BudgetTerm:
    """A share of an element's error budget, as an absolute error of the output."""

    name: str
    value: float | None
    """The size of the share; None if it is infinite."""
    formula: str


@dataclass(frozen=True)
class WorstElement:
    """The worst element of an output: the returned value, the values that are allowed, and why."""

    output: str
    index: tuple[int, ...]
    got: Number
    expected: Number
    """The exact value, rounded once to the dtype."""
    low: Number
    high: Number
    """The smallest and the largest allowed value."""
    exact: str
    ulp: float | None
    """The error in ulp; None if it is infinite."""
    ratio: float | None
    """The err/budget; None if it is infinite."""
    failing: int
    """The number of failing elements in the output."""
    of: int
    """The number of all elements in the output."""
    contradicts: bool
    """Whether the worst-case budget rules the value out, so that it contradicts the declared contract."""
    bad: tuple[tuple[int, int], ...] = ()
    """The failing elements in C order, as runs of neighbours: the first index and the length; at most 64 runs."""
    terms: tuple[BudgetTerm, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    given: tuple[tuple[str, str], ...] = ()
    """The operands from which the element was calculated, and their values in words."""
    remarks: tuple[str, ...] = ()
    may_be_nan: bool = False
    """Whether NaN is allowed, besides the other values or as the only one."""


@dataclass(frozen=True)
class Alternative:
    """One of several conditions under which the kernel fails."""

    cause: Rule
    shows_where: Rule = field(default_factory=Rule)
    """Further conditions, without which the failure does not show, though they are not its cause."""


@dataclass(frozen=True)
class Held:
    """A condition of a rule, and the number of cases that support it."""

    condition: Atom
    passing: int
    """The number of cases that pass although they meet all other conditions of the rule."""


@dataclass(frozen=True)
class StatedRule:
    """A rule that was tested on cases that it was not learned from, and stood."""

    alternatives: tuple[Alternative, ...]
    probes: int
    """The number of cases that agree with the rule; no case contradicts it."""
    inside: int
    outside: int
    """The numbers of cases that were drawn to refute the rule: those that it says fail, and those that it says pass."""
    searched: int = 0
    """The number of further cases of a search that agree with the rule."""
    hidden: int = 0
    """The number of cases that fail only with ordinary values: their own values hide the failure."""
    hides: Rule | None = None
    """The values that hide the failure, if one condition describes them."""
    bands: tuple[Rule, ...] = ()
    """The same condition with other numbers, under which other failures were seen."""
    not_varied: tuple[str, ...] = ()
    """The properties that all cases share although they could have been varied."""
    met: int = 0
    """The number of cases that meet the rule, hidden ones included; 0 if they were not counted."""
    held: tuple[Held, ...] = ()


@dataclass(frozen=True)
class SharedCondition:
    """A condition that all failing cases share, for a failure without a simple rule."""

    condition: Rule
    passing: int
    """The number of probes that lack the condition; all of them pass."""


@dataclass(frozen=True)
class Places:
    """A rule for the places of the bad elements of an output."""

    output: str
    learned: Learned


@dataclass(frozen=True)
class Attribution:
    """The cause of a failure, concluded from which kernels and targets fail on the same case."""

    cause: str
    """A short name of the cause: 'the kernel's source', 'compiler and flags', 'vector length', ..."""
    evidence: str
    """A sentence about which kernels and targets fail, and which do not."""
    configuration: str = ""
    """The configurations with which alone it fails, such as 'BLOCK = 128'; '' where they do not matter."""


@dataclass(frozen=True)
class Counterfactual:
    """The results of running the smallest failing case with one thing changed to each of some values."""

    subject: str
    """The changed thing, as `--set` calls it: 'n', 'rows', 'dtype', 'eps', 'values', 'layout of x', ..."""
    own: int | float | str
    """The value in the smallest case."""
    passing: tuple[int | float | str, ...]
    failing: tuple[int | float | str, ...]
    refuted: tuple[int | float | str, ...] = ()
    """Values with which the smallest case passes, but another known case fails: by themselves they prove nothing."""
    against: int = 0
    """The number of other failing cases with which the passing values were compared."""


@dataclass(frozen=True)
class Suggestion:
    """A declaration that would make the kernel's capabilities refuse all failing cases and no other ones."""

    says: str
    """The declaration to write, such as 'Capabilities(empty=False)'."""
    failing: int
    passing: int
    """The number of failing cases that it refuses, and of the passing cases, all of which it takes."""
    dim: str = ""
    step: int = 0
    """The dimension, and the step: passing extents are multiples of the step. With a step of 0, failing extents are
    longer than passing ones; with a dimension of '', failing cases have no elements."""


WIDE = 4.5
"""A contract that allows more than this many times the error, where the kernel passes, would fit many bugs. One order
of a sum allows up to 4 times as much as another; a step multiplied out 3.9 to 4.1 times, in the runs that were
drawn."""
ALIKE = 1.5
"""Two contracts whose widths differ by a smaller factor count as equally wide."""
MANY = 1e4
"""The factor beyond which a wider contract is of no interest, unless it is telling."""


@dataclass(frozen=True)
class FittingContract:
    """A contract other than the declared one that allows all failing runs that were tried."""

    says: str
    """The differing declaration, as it is written."""
    declared: str
    """The present declaration in its place."""
    width: float
    """The factor by which it allows larger errors, in failing runs."""
    typical: float
    """The same factor in passing runs."""
    used: float
    """The worst err/budget of failing runs under the contract."""
    failing: int
    passing: int
    """The numbers of failing and passing runs that conform to the contract."""
    others: int
    """The number of wider contracts that fit too."""
    telling: bool
    """Whether the contract is narrow enough to explain the failure: one that allows everything proves nothing."""
    meaning: str = ""
    """The differing declaration in plain words."""


@dataclass(frozen=True)
class Mechanism:
    """What a kernel does wrong, as one more experiment showed."""

    kind: Literal[
        "ignores",
        "keeps",
        "stale",
        "loses",
        "layout",
        "apart",
        "form",
        "scale",
        "down",
        "shift",
        "takes",
        "narrow",
        "inside",
        "step",
        "unless",
        "unordered",
        "tie",
        "power",
        "linear",
        "bins",
        "impulses",
        "coarse",
    ]
    about: str
    """The name of the tensor, or the other formula; '' for all tensors."""
    dim: str = ""
    """The dimension of the places. For a shift, what it is counted from, '' for 0; for an inner rounding, its value."""
    places: tuple[int, ...] = ()
    """The indices along the dimension."""
    of: int = 0
    """The extent of the dimension."""
    limit: float = 0.0
    """The magnitude up to which results are right."""
    step: str = ""
    """The step that overflows or cancels beyond the limit, if the formula tells."""


@dataclass(frozen=True)
class UnsetRead:
    """Memory that a kernel reads although nobody has set it, as shown by filling it with other values."""

    where: tuple[str, ...]
    """The kinds of memory in which zeros alone make the case pass: 'registers', 'stack', 'heap', 'shared'. Empty if all
    kinds must hold zeros together."""
    fails_with: tuple[str, ...]
    """The values, in words, with which the case fails if they fill all kinds."""


@dataclass(frozen=True)
class Unsteady:
    """How the result of the smallest case varies over repeated calls in one process."""

    calls: int
    others: int
    """The number of calls that gave another result than the usual one."""
    results: int
    """The number of different results."""
    output: str
    first: tuple[int, ...]
    """The index of the first element that varies."""
    changing: int
    """The number of elements that vary."""
    of: int
    """The number of all elements of the output."""

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.first))}]"
        which = f"{self.changing:,} of {counted(self.of, 'element')} of {self.output}, first {place}"
        results = f"{self.results} different results in {self.calls} equal calls, {self.others} not the usual one"
        return f"{results}: {place if self.of == 1 else which}"


_SHORT = 80
"""The most characters of what is said of earlier calls in a headline."""


@dataclass(frozen=True)
class Earlier:
    """What must come before a failing call, in one process."""

    calls: int
    """The number of calls."""
    said: str
    """How each of them differs from the failing one, in words; '' if all are the same call."""
    on: bool = False
    """Whether each further call fails, too."""
    seconds: float = 0.0
    """The seconds after which the same call fails; 0 if time does not decide."""

    def __str__(self) -> str:
        """Return in words when the call fails."""
        if self.seconds:
            return f"when called again {self.seconds:g} s later"
        if self.said:
            after = f"after {counted(self.calls, 'earlier call')}"
            return f"{after}: {self.said}" if len(self.said) <= _SHORT else after
        return f"from call {self.calls + 1} on" if self.on else f"in call {self.calls + 1} of a process"


@dataclass(frozen=True)
class Explanation:
    """Everything that is known of a failure."""

    kernel: str
    op: str
    source: str
    """The name of the file that defines the kernel; '' if it is unknown."""
    verdict: Verdict
    target: str
    """The target on which the smallest case fails."""
    case: SmallestCase
    kernelfuzz: str
    """The version of kernelfuzz that wrote the explanation."""
    schema: int = VERSION
    law: str = ""
    """The name of the broken law, if any."""
    reason: str = ""
    """What happened, for a verdict that numbers do not explain."""
    worst: WorstElement | None = None
    """The worst element; None if no value was compared."""
    elsewhere: float | None = None
    """The relative error of another failing case, if that is large and the smallest case's error is so small that it
    looks like rounding."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """The verdicts of other targets on the smallest case."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """The numbers of failures with other verdicts that no rule separates from this failure."""
    contract: FittingContract | None = None
    suggestion: Suggestion | None = None
    """A declaration that would refuse the failing cases, if one fits."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    """The results of changing one thing about the smallest case; changes that make it pass come first."""
    attribution: Attribution | None = None
    mechanism: Mechanism | None = None
    """What the kernel does wrong, if an experiment showed it."""
    unset: UnsetRead | None = None
    """The unset memory that the kernel reads, if its content decides."""
    unsteady: Unsteady | None = None
    """How the result of the same call varies, if it does."""
    rule: StatedRule | None = None
    """The rule of when the kernel fails; None if no simple rule stood its test."""
    shared: SharedCondition | None = None
    """The condition that all failures share, if no rule is stated."""
    places: Places | None = None
    """The places of the bad elements."""
    earlier: Earlier | None = None
    """What must come before the failing call, if the case passes alone in a new process."""
    note: str = ""
    """The reason why nothing is explained, such as that the failure needs earlier calls."""
    explained: Literal["whole", "in part", "not yet"] = "not yet"
    option: str = ""
    """The option that gives the explanation more time, if it is not whole."""
