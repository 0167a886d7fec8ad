"""Contracts: what a kernel promises about the operations of a formula, as data: dtypes, orders of sums, accuracies."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from oracles.dtypes import CUTS, DOUBLE, FORMATS, SINGLE, Format, form, point_form
from oracles.elementary import CORRECT
from oracles.elementary.functions import NAMES, records
from oracles.formula.chains import Chain
from oracles.formula.node import Node
from oracles.formula.trace import Trace
from oracles.lazy import lazy
from oracles.summation import NumericsError, Sequential, Summation, VectorLanes


@dataclass(frozen=True, repr=False)
class Within:
    """The error bound of a function, or of "divide", in ulp of a normal result; one ulp is 2 u times the result.

    `growth` is needed because a GPU calculates e^x as 2^(x log2 e): the kernel rounds log2 e, with a relative error of
    0.224 u, and then the product, with one of u. The exponent is off by up to 1.224 u |x| log2 e, so that e^x is off by
    a factor of e^(1.224 u |x|): 0.612 ulp for each unit of |x|, in addition to the error of the instruction for 2^t.
    """

    ulp: float
    growth: float = 0.0
    """Further ulp for each unit of the argument's magnitude: e^x may be off by the factor e^(2 u growth |x|)."""
    flushes: bool = False
    """Whether subnormal arguments and results of this function may become zero, even if the contract's `denormals`
    keeps those of other operations."""
    low: float = -math.inf
    high: float = math.inf
    """The arguments between which results are judged. Beyond them every result is right, as with the sine of WGSL."""

    def __repr__(self) -> str:
        grows = f", growth={self.growth!r}" if self.growth else ""
        return f"Within({self.ulp!r}{grows}{', flushes=True' if self.flushes else ''}{_ends(self)})"

    def __str__(self) -> str:
        grows = f" + {self.growth:g} |x|" if self.growth else ""
        flushes = ", subnormals flushed" if self.flushes else ""
        return f"{self.ulp:g}{grows} ulp{flushes}{f', judged{_between(self)} alone' if _ends(self) else ''}"

    def wider(self, other: Within) -> Within:
        """Return the bound that allows everything that one of the two bounds allows."""
        growth, flushes = max(self.growth, other.growth), self.flushes or other.flushes
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Within(max(self.ulp, other.ulp), growth, flushes, low, high)

    @property
    def is_partial(self) -> bool:
        """Whether results are judged for a part of the domain alone."""
        return bool(_ends(self))

    def leaves(self, low: Any, high: Any) -> Any:
        """Return whether arguments between two may lie where nothing is judged; for arrays a mask."""
        return (low < self.low) | (high > self.high)


@dataclass(frozen=True, repr=False)
class Besides:
    """An additional absolute error of a function's results, in ulp of 1, for arguments between two numbers."""

    ulp: float
    low: float = -math.inf
    high: float = math.inf

    def __repr__(self) -> str:
        return f"Besides({self.ulp!r}{_ends(self)})"

    def __str__(self) -> str:
        power = math.log2(self.ulp)
        size = f"2^{power:.0f}" if power.is_integer() and power < 0 else f"{self.ulp:g}"
        return f"{size} ulp of 1 besides{_between(self)}"

    @property
    def plain(self) -> float | Besides:
        """The error as a number, if it is that of all arguments."""
        return self if _ends(self) else self.ulp

    def over(self, low: Any, high: Any) -> Any:
        """Return the error, in ulp of 1, for arguments between two numbers or arrays; 0 without one."""
        return self.ulp * ((low <= self.high) & (high >= self.low))


def besides(error: float | Besides) -> Besides:
    """Return an absolute error as a `Besides`; a number is that of all arguments."""
    return error if isinstance(error, Besides) else Besides(error)


def wider(one: float | Besides, two: float | Besides) -> float | Besides:
    """Return the absolute error that allows everything that one of two allows."""
    a, b = besides(one), besides(two)
    return Besides(max(a.ulp, b.ulp), min(a.low, b.low), max(a.high, b.high)).plain


def _ends(bound: Within | Besides) -> str:
    given = (("low", bound.low, -math.inf), ("high", bound.high, math.inf))
    return "".join(f", {name}={value!r}" for name, value, none in given if value != none)


def _between(bound: Within | Besides) -> str:
    if bound.low == -math.inf:
        return f" up to {bound.high:g}" if bound.high < math.inf else ""
    return f" from {bound.low:g} {'on' if bound.high == math.inf else f'to {bound.high:g}'}"


def within(bound: float | Within) -> Within:
    """Return a bound as a `Within`; a number is a bound in ulp."""
    return bound if isinstance(bound, Within) else Within(bound)


if TYPE_CHECKING:  # a contract is declared without NumPy
    from oracles.elementary.function import Elementary

DIVIDE = "divide"
"""The only operator whose accuracy a contract may state, as for a function; other operators are rounded correctly."""
INPUT = "input"
"""The word for the dtype of the first input."""
WIDE = "at least f32"
"""The word for f64 if an input has that dtype, else for f32. Outputs do not count: f32 results may be stored in f64."""
_CORRECTLY = Within(CORRECT)
Denormals = Literal["preserve", "flush", "flush operands", "flush results", "flush bf16"]
"""Which subnormal numbers may be replaced by zero: see `Contract.denormals`."""
FLUSHES_BF16: Final = "flush bf16"
"""Subnormal numbers are flushed if an operand is bf16, and nowhere else."""
MAYBE = "maybe "
"""A prefix of a point's dtype: some kernels round there, and some do not."""
ALL, EXPANDED, INHERITED = "*", "expanded", "inherited "
"""The key of an arrangement of the whole formula in `Contract.algorithms`, the one that multiplies out, and the first
word of the one that calculates some functions, whose names follow, from others."""
COLLECTED = "first factor", "last factor"
"""The arrangements that multiply out and then take a common factor out of several terms: the first, or the last."""
STEPS = "from one end", "from the other end"
"""The arrangements that write a blend of two values as a step from either value: see `oracles.formula.expansion`."""
LERP = tuple(f"{way}, by a rounded number" for way in STEPS)
"""The same steps as torch.lerp makes them: a constant share is rounded before it is subtracted from one."""
_ARRANGED: Mapping[bool | str, tuple[str, ...]] = {
    False: (), True: (EXPANDED, *COLLECTED, *STEPS), "lerp": (*COLLECTED, *LERP)
}  # fmt: skip


@dataclass(frozen=True)
class RoundingPoint:
    """The rounding of a value where a formula says `point`."""

    dtype: Format
    always: bool
    """Whether every kernel of the contract rounds the value; otherwise some kernels may leave it unrounded."""


@dataclass(frozen=True)
class Contract:
    """The numeric contract of one kernel.

    The defaults describe a plain kernel on a processor, completed by what the kernel's platform documents. The names in
    mappings are names of locals in the formula. In place of a dtype a field may say "input", for the dtype of the first
    input; "at least f32", for f64 if an input has that dtype, else f32; or the name of an operand, for its dtype.
    """

    compute: str = WIDE
    """The dtype of all operations."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """The dtype of the last operation that makes each of these locals, if it is not `compute`. For a mean this is the
    dtype of the division, not of the sum or its terms."""
    algorithm: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """The name of the algorithm that makes each of these locals, if it is not the formula's own; or several names, any
    of which is allowed. "formula" is the name of the formula's own algorithm."""
    sums: Mapping[str, Summation] = field(default_factory=dict)
    """The order in which the terms of a sum are added. The key is the name of the local that the sum makes, or else its
    dimension, or several such as "c s", in whose order terms are counted. The default is one term after the other."""
    accuracy: Mapping[str, float | Within] = field(default_factory=dict)
    """The error bounds of elementary functions in ulp, if they differ from the usual bounds of `Elementary`; also the
    bound of "divide", which is otherwise rounded correctly. `Within` states a bound that grows with the argument."""
    absolute: Mapping[str, float | Besides] = field(default_factory=dict)
    """Additional absolute errors of functions with bounded results, in ulp of 1; of other functions, `Besides` states
    them for a part of the domain. A polynomial that replaces an error function may have an error of that size even
    where the result is close to zero."""
    inherited: tuple[str, ...] = ()
    """The functions that a kernel may also calculate from others, see `oracles.formula.expansion`: a tangent as a sine
    over a cosine, with the errors of both."""
    points: Mapping[str, str] = field(default_factory=dict)
    """The dtypes that locals are rounded to where the formula says `point`; without an entry nothing is rounded there.
    "maybe bf16" or "maybe input" allows the rounding and its absence. Only this field also accepts the dtypes of
    `CUTS`, such as "tf32" for factors."""
    mean: Literal["divide", "reciprocal"] = "divide"
    """How a mean is calculated: 'divide' is sum / n, and 'reciprocal' is sum * (1/n) with 1/n rounded first."""
    addend: Literal["last", "either", "any"] = "last"
    """When a kernel adds the value c in `sum(x) + c`. With 'last' it adds c after all terms. With 'either' the
    accumulator may also start with c, as BLAS does with beta = 1, so that c is rounded as often as any other term. With
    'any' the terms of `a + b - c + d` may also be added in any order, including the terms of sums among them."""
    wider: bool = False
    """Whether any operation may be calculated in a wider dtype than stated, without rounding its operands first."""
    fused: bool = True
    """Whether a product may go into a sum without being rounded."""
    expanded: Literal[False, True, "lerp"] = False
    """Whether a kernel may rearrange the formula. With True, it may multiply out products of sums, `(x - m) * r` into
    `x * r - m * r`; then take out another common factor, `(1 - t) * a + t * b` for `a + t * (b - a)`; or make a step
    from the other end, `b - (b - a) * (1 - t)`. 'lerp' allows common factors and steps only, and to round a constant t
    before it is subtracted from one: in f32, 1 - 0.999 has a relative error of 1.3e-5."""
    denormals: Denormals = "preserve"
    """Which subnormal numbers any operation may replace by zero: none; all; its operands (DAZ); its results (FTZ); or
    all, if an operand of the kernel is bf16: processors have bf16 instructions that always flush."""
    nonfinite: Literal["ieee", "overflow", "unspecified"] = "ieee"
    """How NaN, infinities and overflow are judged. With 'ieee' they follow IEEE arithmetic. If an intermediate value
    overflows although the exact output is a number, two outputs are right: that number, and the result of the overflow
    in the formula as it is written. For a dtype promises how exactly a kernel calculates, not its range. But a value
    that is rounded at a point is a number of that dtype, and overflows there. With 'overflow' NaN and infinities in
    inputs are judged as with 'ieee', but no output is judged if a number overflows on the way to it, or if an operation
    on numbers has no number as its result: some kernels have NaN there. With 'unspecified' (fast math) no output is
    judged that is made from NaN, an infinity or an overflow. Infinities in the formula itself count as numbers."""
    ties: Literal["formula", "either"] = "formula"
    """Which of several equal elements a selection returns: the one that the formula says, as `argmax` of torch returns
    the first, or any of them."""
    saturate: bool = False
    """Whether the last cast returns the largest finite number in place of an overflow."""
    zeros: Literal["ieee", "any"] = "ieee"
    """Whether zeros must have the sign of IEEE arithmetic, or may have any sign."""
    platform: str = "fills"
    """Whether the platform's documentation of functions, orders of sums and subnormal numbers completes the contract:
    with 'fills' the documentation applies where the contract says nothing; with 'widens' what it allows is allowed in
    addition to what the contract allows; with 'none' it is ignored, and the defaults above apply. The name of another
    platform, such as 'wgsl', fills with the documentation of that one. The oracle itself ignores this field."""

    def __post_init__(self) -> None:
        for name, options in _CHOICES.items():
            if (value := getattr(self, name)) not in options:
                raise NumericsError(f"{name}: {value!r} is not one of {', '.join(map(repr, options))}")
        for name, dtype in [("compute", self.compute), *self.dtypes.items(), *self.points.items()]:
            if not isinstance(dtype, str):
                raise NumericsError(f"{name}: {dtype!r} is no dtype, such as 'f32'")
            if dtype in FORMATS and FORMATS[dtype].only_stores and name not in self.points:
                raise NumericsError(f"{name}: {dtype} is a storage format, not one to calculate in")
        for name, dtype in [("compute", self.compute), *self.dtypes.items()]:
            if dtype in CUTS:
                raise NumericsError(f"{name}: {dtype} is what points round to, not one to calculate in")
        for name, bound in self.accuracy.items():
            _check_bound(name, within(bound))
        for name in self.absolute:
            _check_absolute(name, self.besides(name))
        for name in self.inherited:
            if name not in INHERITING:
                raise NumericsError(f"inherited: {name!r} is made of no others; there are {', '.join(INHERITING)}")
        for name, known in self.algorithm.items():
            if not known:
                raise NumericsError(f"algorithm: {name} has none")

    def __hash__(self) -> int:
        return self._hash

    @lazy
    def _hash(self) -> int:
        values = (getattr(self, each.name) for each in fields(self))
        return hash(tuple(tuple(sorted(v.items(), key=str)) if isinstance(v, Mapping) else v for v in values))

    def at(self, vector_bits: int | None) -> Contract:
        """Return the contract with the orders of sums that depend on the vector length resolved for `vector_bits`."""
        if vector_bits is None or not any(isinstance(order, VectorLanes) for order in self.sums.values()):
            return self
        orders = {n: o.at(vector_bits) if isinstance(o, VectorLanes) else o for n, o in self.sums.items()}
        return replace(self, sums=orders)

    @lazy
    def words(self) -> frozenset[str]:
        """Return the words in the contract that stand for dtypes, such as "input"."""
        points = (dtype.removeprefix(MAYBE) for dtype in self.points.values())
        return frozenset((self.compute, *self.dtypes.values(), *points)) - {*FORMATS, *CUTS}

    def settled(self, inputs: Mapping[str, str], others: Mapping[str, str] = MappingProxyType({})) -> Contract:
        """Return the contract with words replaced by the dtypes that they stand for. `inputs` are the dtypes of the
        present inputs by name, the first input first; `others` those of outputs and absent operands. Raises
        `NumericsError` for a dtype that no operation can have, and for an unknown word."""
        if self.is_settled:
            return self
        dtypes = {**others, **inputs}
        known = {INPUT: next(iter(inputs.values())), WIDE: widest(inputs.values()), **dtypes}
        for word in self.words - {*known}:
            form(word, "contract")
        narrow = any(dtype == "bf16" for dtype in dtypes.values())
        return _settled(self, tuple((word, known[word]) for word in sorted(self.words)), narrow)

    @lazy
    def is_settled(self) -> bool:
        """Whether no word in the contract stands for a dtype, so that it is the same for operands of any dtypes."""
        return not self.words and self.denormals != FLUSHES_BF16

    @lazy
    def algorithms(self) -> Sequence[Mapping[str, str]]:
        """Return the allowed combinations of algorithms. Each has one algorithm for each local that `algorithm` names;
        with `expanded`, each combination also comes with each arrangement of the whole formula, under the key `ALL`."""
        known = [(each,) if isinstance(each, str) else each for each in self.algorithm.values()]
        named = [dict(zip(self.algorithm, each, strict=True)) for each in product(*known)]
        ways = (*_ARRANGED[self.expanded], *([INHERITED + " ".join(self.inherited)] if self.inherited else []))
        return [*named, *({**each, ALL: way} for each in named for way in ways)]

    def unrounded(self, inputs: Mapping[str, str]) -> Contract | None:
        """Return this contract narrowed to kernels that calculate the formula as it is written, in float64, and round
        only at the end and at points where every kernel rounds. None if the contract has `dtypes`, or if its `compute`
        is neither float64 nor the `widest` dtype of the inputs. `inputs` are the dtypes of the inputs by name; the
        contract must be settled for them."""
        if self.dtypes or self.compute not in (widest(inputs.values()), DOUBLE.name):
            return None
        points = {name: dtype for name, dtype in self.points.items() if not dtype.startswith(MAYBE)}
        plain = replace(self, compute=DOUBLE.name, algorithm={}, points=points, expanded=False, wider=True)
        return replace(plain, inherited=())

    @property
    def follows(self) -> bool:
        """Whether every kernel of the contract calculates the formula as it is written."""
        return not (self.algorithm or self.expanded or self.inherited)

    @lazy
    def is_wide(self) -> bool:
        """Whether some operation of a settled contract is calculated in float64."""
        return DOUBLE.name in (self.compute, *self.dtypes.values())

    @lazy
    def flushes_operands(self) -> bool:
        """Whether any operation may take a subnormal operand for zero."""
        return self.denormals in ("flush", "flush operands")

    @lazy
    def flushes_results(self) -> bool:
        """Whether any operation may return zero in place of a subnormal result."""
        return self.denormals in ("flush", "flush results")

    def point(self, name: str) -> RoundingPoint | None:
        """Return the rounding of a local at its point; None if the contract rounds nothing there."""
        dtype = self.points.get(name)
        return (
            None if dtype is None else RoundingPoint(point_form(dtype.removeprefix(MAYBE)), not dtype.startswith(MAYBE))
        )

    def decided(self, rounds: Callable[[], bool]) -> Contract:
        """Return the contract of one kernel: `rounds()` decides whether it rounds at each point that is left open."""
        points = {
            name: dtype.removeprefix(MAYBE)
            for name, dtype in self.points.items()
            if not dtype.startswith(MAYBE) or rounds()
        }
        return self if points == self.points else replace(self, points=points)

    def order(self, name: str, dim: str) -> Summation:
        """Return the order of the sum that makes a local, over one or several dimensions."""
        return self.sums.get(name) or self._orders.get(frozenset(dim.split())) or Sequential()

    @lazy
    def _orders(self) -> Mapping[frozenset[str], Summation]:
        return {frozenset(name.split()): order for name, order in self.sums.items()}

    def chains(self, trace: Trace, whole: Collection[Node]) -> Mapping[Node, Chain]:
        """Return the chains of a formula whose terms this contract allows to be added in any order. Chains with
        additions in several dtypes are excluded, since each change of dtype rounds, and chains through `whole` numbers,
        calculated in integers."""
        if self.addend != "any":
            return {}

        def is_open(last: Node, chain: Chain) -> bool:
            dtypes = {self.dtypes.get(trace.names.get(node, ""), self.compute) for node in (last, *chain.inner)}
            return len(dtypes) == 1 and last not in whole and chain.inner.isdisjoint(whole)

        return {last: chain for last, chain in trace.chains.items() if is_open(last, chain)}

    def settles(self, of: Elementary, u: float) -> float:
        """Return the magnitude of arguments from which on every kernel returns the function's value at infinity, in a
        dtype of unit roundoff u. It is infinite if there is none, and in f64, where all tiers would have to agree."""
        if of.settles is None or of.name in self.absolute or (u <= DOUBLE.u and not self.wider):
            return math.inf
        bound = self.bound(of.name)
        keeps = bound.growth or bound.ulp > of.loose
        return math.inf if keeps else of.settles(DOUBLE.u if self.wider else u)

    def bound(self, name: str) -> Within:
        """Return the error bound of an elementary function or of "divide"."""
        if name in self.accuracy:
            return within(self.accuracy[name])
        return Within(CORRECT if name == DIVIDE else records()[name].usual)

    def ulp(self, name: str) -> float:
        """Return the error bound of a function or of "divide" in ulp, without the part that grows with the argument."""
        return self.bound(name).ulp

    def besides(self, name: str) -> Besides:
        """Return the additional absolute error of a function; 0 ulp of 1 if there is none."""
        return besides(self.absolute.get(name, 0.0))

    def keeping(self, name: str) -> Contract:
        """Return the contract with the `denormals` that apply to one operation."""
        return self._flushing if name in self.flushing else self

    @lazy
    def flushing(self) -> frozenset[str]:
        """Return the names of operations whose own bound in `accuracy` allows subnormal numbers to be flushed."""
        return frozenset(name for name, bound in self.accuracy.items() if within(bound).flushes)

    @lazy
    def _flushing(self) -> Contract:
        return replace(self, denormals="flush")

    def relative(self, name: str, u: float) -> float:
        """Return the error bound of a function as a relative error, at unit roundoff u, without the part that grows."""
        ulp = self.ulp(name)
        if name != DIVIDE and records()[name].reciprocal_of and ulp == records()[name].usual:
            return 2 * u / (1 - u)  # two correct roundings, one after the other
        return 2 * u * ulp

    def rounds_once(self, node: Node) -> bool:
        """Whether a node is one operation whose result is rounded correctly. If the result has the dtype of an output,
        this rounding is the rounding of the output."""
        if node.kind == "function":
            return not node.is_exact and self.bound(node.label) == _CORRECTLY and node.label not in self.absolute
        return node.kind in ("add", "subtract", "multiply") or (
            node.kind == DIVIDE and self.bound(DIVIDE) == _CORRECTLY
        )


def widest(dtypes: Collection[str]) -> str:
    """Return the dtype that "at least f32" means for inputs with these dtypes."""
    return DOUBLE.name if DOUBLE.name in dtypes else SINGLE.name


def _check_bound(name: str, bound: Within) -> None:
    """Raise NumericsError if a contract cannot state this error bound for the function of that name."""
    if name not in (*NAMES, DIVIDE):
        raise NumericsError(f"accuracy: {name!r} is no function; there are {', '.join(stated())}")
    if name != DIVIDE and records()[name].is_exact:
        raise NumericsError(f"accuracy: {name} needs none: its results are exact")
    if not CORRECT <= bound.ulp < 2**20:
        raise NumericsError(f"accuracy: {name} within {bound.ulp} ulp: it must be at least {CORRECT}, and sensible")
    if not 0 <= bound.growth < 2**10:
        raise NumericsError(f"accuracy: {name}: a growth of {bound.growth} ulp: it must be at least 0, and sensible")
    if bound.growth and (name == DIVIDE or getattr(records()[name], "power", True)):  # True for the family pow
        raise NumericsError(f"accuracy: {name}: a growth of {bound.growth} ulp: its errors are in proportion to it")
    _check_part("accuracy", name, bound)


def _check_absolute(name: str, error: Besides) -> None:
    """Raise NumericsError if a contract cannot state this absolute error for the function of that name."""
    known = [each for each in stated() if each != DIVIDE]
    if name not in known or not (records()[name].is_bounded or -math.inf < error.low <= error.high < math.inf):
        bounded = ", ".join(each for each in known if records()[each].is_bounded)
        raise NumericsError(
            f"absolute: {name!r} is no bounded function; there are {bounded}; others take Besides(ulp, low, high)"
        )
    if not 0 < error.ulp < 2**20:
        raise NumericsError(f"absolute: {name} within {error.ulp} ulp of 1: it must be more than 0, and sensible")
    _check_part("absolute", name, error)


def _check_part(field_name: str, name: str, bound: Within | Besides) -> None:
    """Raise NumericsError if a bound cannot be stated for a part of the function's domain alone."""
    if _ends(bound) and name in (DIVIDE, "exp"):
        raise NumericsError(f"{field_name}: {name}: it has no part of a domain: sums that are rescaled also use it")
    if not bound.low <= bound.high:
        raise NumericsError(f"{field_name}: {name} from {bound.low} to {bound.high}: these are no arguments")


def stated() -> tuple[str, ...]:
    """Return the names of all functions whose accuracy a contract may state, and "divide"."""
    return *(name for name, each in records().items() if not each.is_exact), DIVIDE


@lru_cache(maxsize=4096)
def _settled(contract: Contract, words: tuple[tuple[str, str], ...], is_of_bf16: bool) -> Contract:
    meant = dict(words)

    def of(dtypes: Mapping[str, str]) -> Mapping[str, str]:
        found = {name: meant.get(each, each) for name, each in dtypes.items()}
        maybe = {name: each.removeprefix(MAYBE) for name, each in dtypes.items() if each.startswith(MAYBE)}
        return {**found, **{name: MAYBE + meant.get(each, each) for name, each in maybe.items()}}

    compute = meant.get(contract.compute, contract.compute)
    found = replace(contract, compute=compute, dtypes=of(contract.dtypes), points=of(contract.points))
    if contract.denormals != FLUSHES_BF16:
        return found
    return replace(found, denormals="flush" if is_of_bf16 else "preserve")


INHERITING = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "pow", "sinh", "sqrt", "tan", "tanh")
"""The functions that can be made of others: those of `oracles.formula.expansion`."""
_CHOICES = {name: get_args(hint) or (False, True) for name, hint in get_type_hints(Contract).items()
            if hint is bool or get_origin(hint) is Literal}  # fmt: skip
"""The allowed values of each boolean or `Literal` field of `Contract`."""
