"""An explanation: all that is known of a failure, as data. It is stored once, and every report renders it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.explain.rule.rule import Atom, Learned, Rule

NO_SHRINK = "--no-shrink"
"""The option by which nothing is made smaller, and no rule is sought."""

VERSION = 2
"""The version of the schema. It grows with every change that a reader of the version before would not understand."""


@dataclass(frozen=True)
class Number:
    """A value of a dtype: in decimal, and exactly."""

    decimal: str
    bits: str
    """The bits of an element, or the hexadecimal number of a parameter; '' for a whole number."""


@dataclass(frozen=True)
class Memory:
    """A tensor of the smallest case: its elements' type, where they lie, and what they are where they are few."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    alignment: int
    """The address of the first element modulo 64, in bytes."""
    offset: int
    """The elements between it and the guard page."""
    guard: Literal["before", "after"]
    """The side of the tensor on which the guard page lies."""
    values: tuple[str, ...] = ()
    """All elements in C order, in decimal; none of a tensor that is too large to be read off a screen, or of an
    output."""
    content: str = ""
    """A digest of the elements, '' of an output."""
    shares: str = ""
    """The input whose memory it has."""
    apart: int | None = None
    """The number of elements by which it lies after that input, or before it where negative; None where it lies
    exactly in place of it."""

    def __post_init__(self) -> None:
        """Raise ValueError where the values are not those of the shape: files come from anybody."""
        if self.values and (min(self.shape, default=1) < 1 or math.prod(self.shape) != len(self.values)):
            raise ValueError(f"{len(self.values)} values do not fill the shape {list(self.shape)}")


@dataclass(frozen=True)
class Call:
    """What a kernel was called with."""

    parameters: Mapping[str, Number]
    inputs: Mapping[str, Memory]
    outputs: Mapping[str, Memory]


@dataclass(frozen=True)
class SmallestCase(Call):
    """The smallest case that fails in this way."""

    digest: str
    recipe: str
    """How its values were made."""
    structured: bool
    """Whether rounding errors may all go in one direction, so that the worst-case budget decides."""
    twin: Call | None = None
    """The other call, of a law that compares two."""
    original: str = ""
    """The digest of the case that it was shrunk from."""
    changes: tuple[tuple[str, int, int], ...] = ()
    """What shrinking made smaller: a dimension, its extent before, and after."""


@dataclass(frozen=True)
class BudgetTerm:
    """A share of the error budget of an element, in units of the output."""

    name: str
    value: float | None
    """None where it is infinite."""
    formula: str


@dataclass(frozen=True)
class WorstElement:
    """The worst element of the output: what the kernel returned, what it must be, and why."""

    output: str
    index: tuple[int, ...]
    got: Number
    expected: Number
    """The exact value rounded once."""
    low: Number
    high: Number
    """The ends of what is allowed."""
    exact: str
    ulp: float | None
    """The error in units in the last place; None where it is infinite."""
    ratio: float | None
    """The error over the budget; None where it is infinite."""
    failing: int
    """The number of failing elements of the output."""
    of: int
    """The number of its elements."""
    contradicts: bool
    """Whether the worst-case budget rules it out too, so that the declared contract is contradicted."""
    bad: tuple[tuple[int, int], ...] = ()
    """The failing elements in C order: the first of some that lie side by side, and how many; the first 64 such."""
    terms: tuple[BudgetTerm, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    given: tuple[tuple[str, str], ...] = ()
    """What it was calculated from: operands and their values in words."""
    remarks: tuple[str, ...] = ()
    may_be_nan: bool = False
    """Whether NaN is right, too, or alone."""


@dataclass(frozen=True)
class Alternative:
    """One of the conditions under which it fails."""

    cause: Rule
    shows_where: Rule = field(default_factory=Rule)
    """What else must hold for the failure to show, though it is no cause of it."""


@dataclass(frozen=True)
class Held:
    """A condition of a rule, and what was held against it."""

    condition: Atom
    passing: int
    """The cases that pass, though they meet all else that the rule asks for."""


@dataclass(frozen=True)
class StatedRule:
    """A rule that stood when it was put to the test on cases that it was not learnt from."""

    alternatives: tuple[Alternative, ...]
    probes: int
    """The cases that agree with it; none is against it."""
    inside: int
    outside: int
    """How many of them were drawn to refute it: where it says that the kernel fails, and where it says that it
    passes."""
    searched: int = 0
    """How many further cases of a search it is true of."""
    hidden: int = 0
    """Cases that fail with ordinary values only: their own hide the failure."""
    hides: Rule | None = None
    """The values that hide it, as far as one condition says so."""
    bands: tuple[Rule, ...] = ()
    """The same condition with other numbers, under which other failures were seen."""
    not_varied: tuple[str, ...] = ()
    """What all cases had in common that could have been varied."""
    met: int = 0
    """How many of the cases meet it, those included that are hidden; 0 where that was not counted."""
    held: tuple[Held, ...] = ()


@dataclass(frozen=True)
class SharedCondition:
    """What all failing cases have in common, where no simple rule says when it fails."""

    condition: Rule
    passing: int
    """The number of probes that have it not: all of them pass."""


@dataclass(frozen=True)
class Places:
    """Which elements of an output are bad, as a rule about their places."""

    output: str
    learned: Learned


@dataclass(frozen=True)
class Attribution:
    """What the failure is tied to, by who fails on one and the same case and who does not."""

    cause: str
    """The short name of what is to blame: 'the kernel's source', 'compiler and flags', 'vector length', ..."""
    evidence: str
    """Who fails and who does not, in a sentence."""


@dataclass(frozen=True)
class Counterfactual:
    """What became of the smallest failing case with one thing changed to each of some values."""

    subject: str
    """What was changed, as `--set` calls it: 'n', 'rows', 'dtype', 'eps', 'values', 'layout of x', ..."""
    own: int | float | str
    """Its value in the smallest case."""
    passing: tuple[int | float | str, ...]
    failing: tuple[int | float | str, ...]
    refuted: tuple[int | float | str, ...] = ()
    """Values with which the smallest case passes, and another known one fails: alone they say nothing."""
    against: int = 0
    """How many failing cases, of other values each, the passing ones were held against."""


@dataclass(frozen=True)
class Suggestion:
    """What a kernel may be meant to declare that refuses some cases, where that word tells them from all others."""

    says: str
    """The field to write, such as 'Capabilities(empty=False)'."""
    failing: int
    passing: int
    """How many cases it refused, and how many others pass."""
    dim: str = ""
    step: int = 0
    """The dimension that is a multiple of this wherever it passes or, with 0, is longer wherever it fails; '' if what
    fails has no elements."""


WIDE = 4.5
"""A contract that allows more than this many times as much where the kernel passes would fit many bugs. One order of a
sum stands for another at most by 4 times; a step multiplied out allows 3.9 to 4.1 times as much, by the runs drawn."""
ALIKE = 1.5
"""Contracts whose widths differ by less are as wide as each other."""
MANY = 1e4
"""The factor above which nobody asks how much wider a contract is: it is told only if it is telling for all that."""


@dataclass(frozen=True)
class FittingContract:
    """A contract beside the declared one that all failing runs that were tried conform to."""

    says: str
    """What it declares otherwise, as in a declaration."""
    declared: str
    """What is declared now in its place."""
    width: float
    """How many times as much it allows where the kernel fails."""
    typical: float
    """The same where it passes."""
    used: float
    """The worst err/budget under it where the kernel fails."""
    failing: int
    passing: int
    """How many runs of each kind conform to it."""
    others: int
    """How many wider contracts fit too."""
    telling: bool
    """Whether it is narrow enough to say much: what allows everything proves nothing."""
    meaning: str = ""
    """What it declares otherwise, in plain words."""


@dataclass(frozen=True)
class Mechanism:
    """What a kernel does wrong, as one more experiment showed."""

    kind: Literal[
        "ignores",
        "keeps",
        "stale",
        "loses",
        "layout",
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
    ]
    about: str
    """The tensor, or the other formula; '' where it is all tensors."""
    dim: str = ""
    """The dimension along which; of a shift what it is from, '' for 0; what is rounded of what is rounded inside."""
    places: tuple[int, ...] = ()
    """Where along that dimension."""
    of: int = 0
    """The extent of that."""
    limit: float = 0.0
    """The magnitude up to which its results are right."""
    step: str = ""
    """What overflows or cancels out beyond, as far as the formula says."""


@dataclass(frozen=True)
class UnsetRead:
    """What a kernel reads that nobody has set, by what becomes of the smallest case with other values there."""

    where: tuple[str, ...]
    """Where 0 alone makes it pass: 'registers', 'stack', 'heap', 'shared'; none where it takes 0 in all of them."""
    fails_with: tuple[str, ...]
    """The values, in words, with which it fails where they are in all of them."""


@dataclass(frozen=True)
class Unsteady:
    """How the result of the smallest case changes, called again and again in one process."""

    calls: int
    others: int
    """How many of the calls gave another result than the usual one."""
    results: int
    """The number of different results."""
    output: str
    first: tuple[int, ...]
    """The first element that changes."""
    changing: int
    """The number of elements that change."""
    of: int
    """The number of elements of the output."""

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.first))}]"
        which = f"{self.changing:,} of {counted(self.of, 'element')} of {self.output}, first {place}"
        results = f"{self.results} different results in {self.calls} equal calls, {self.others} not the usual one"
        return f"{results}: {place if self.of == 1 else which}"


@dataclass(frozen=True)
class Explanation:
    """All that is known of a failure."""

    kernel: str
    op: str
    source: str
    """The name of the file that defines the kernel; '' where it is not known."""
    verdict: Verdict
    target: str
    """The target on which the smallest case fails."""
    case: SmallestCase
    kernelfuzz: str
    """The version of kernelfuzz that wrote this."""
    schema: int = VERSION
    law: str = ""
    """The law that is broken."""
    reason: str = ""
    """What happened, for verdicts that no number explains."""
    worst: WorstElement | None = None
    """None where no value was compared."""
    elsewhere: float | None = None
    """How far another failing case is off, as a share of its exact value, where that is much and the smallest case is
    off by so little that it looks like rounding."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """What other targets say of the smallest case."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """How many failures of other verdicts no rule tells from this one."""
    contract: FittingContract | None = None
    suggestion: Suggestion | None = None
    """What the kernel may be meant to declare, where it refuses the cases that it fails for."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    """What becomes of the smallest case with one thing changed; those that make it pass come first."""
    attribution: Attribution | None = None
    mechanism: Mechanism | None = None
    """What it does wrong, where an experiment shows it."""
    unset: UnsetRead | None = None
    """What it reads that nobody has set, where that decides."""
    unsteady: Unsteady | None = None
    """How often the same call gives another result, where it does."""
    rule: StatedRule | None = None
    """When it fails; None where no simple rule stood when it was put to the test."""
    shared: SharedCondition | None = None
    """What all failures have in common, where no rule is stated."""
    places: Places | None = None
    """Which elements are bad."""
    note: str = ""
    """Why nothing is explained, such as that the failure needs earlier calls."""
    explained: Literal["whole", "in part", "not yet"] = "not yet"
    option: str = ""
    """The option that gives the explanation more time, where it is not whole."""
