"""Forms of elementwise operations: each adds its own rounding, and the remainder of what is not linear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from oracles.doubledouble import F64
from oracles.dtypes import DOUBLE, Format
from oracles.elementary.function import Elementary, Tangent
from oracles.formula.affine.errors import Rounding, either, marked, more, rounded, zeroed
from oracles.formula.affine.forms import ANY, DUST, Form, Mask, blended, combined, dust, replace, upwards
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.trace import Kind, Node
from oracles.rounding import round_to

_STEEP = 2.0**300
"""The largest slope: products of three such slopes, and of three reciprocals, stay in float64's range."""
_ROOT = 2.0**-512
"""Two float64 numbers that are multiplied by this have a product that does not overflow."""
FAR = 0.05
"""The relative radius of an argument above which values at its ends may bound a function better than a tangent."""


def added(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of a + b or a - b."""
    a, b = args
    sign = 1.0 if node.kind == "add" else -1.0
    parts, rest = combined([(a, None), (b, None if sign > 0 else np.full((1,) * b.centre.ndim, sign))])
    dtype = here.dtype(node)

    def half() -> tuple[F64, F64]:
        return a.centre / 2 + sign * b.centre / 2, here.far(a) / 2 + here.far(b) / 2

    centre = reached(dtype, a.centre + sign * b.centre, half)
    least = a.least + exactly(b) if a.least is not None and sign > 0 else None
    if b.least is not None and sign > 0:
        least = b.least + exactly(a) if least is None else np.fmax(least, b.least + exactly(a))
    found = Form(centre, dtype, ANY if last else dtype.precision, parts, rest, marked(a.may, b.may), least=least)
    if not last:
        least = None if least is None else least - np.abs(least) * dtype.u * (1 + 2.0**-20)
        found = replace(found, least=least)
        exact = ((a.centre == 0) & (a.spread == 0)) | ((b.centre == 0) & (b.spread == 0))
        errors = upwards(found.size * (dtype.u + dust(dtype)), dtype, found.size)
        found = more(found, np.where(exact, 0.0, errors) if exact.any() else errors)
    found = rounded(found, Rounding(underflow=0.0), here.contract)
    if node in here.inputs.trace.shares.below:
        here.tops[node] = here.slack(node.args[0], a)
    for each, other, side in ((a, b, 1.0), (b, a, sign)):  # where the sum is infinite with the product rounded or not
        if each.overflows is not None:
            sure = np.isinf(found.centre) & (np.sign(found.centre) == side * np.sign(each.centre))
            # If a product overflows in float64, it is unknown what a finite term leaves of it.
            sure = sure & ~(np.isinf(each.centre) & (sign * each.centre * other.centre < 0) & np.isfinite(other.centre))
            found = replace(found, may=marked(found.may, each.overflows & ~sure))
    return found


def reached(dtype: Format, centre: F64, scaled: Callable[[], tuple[F64, F64]], share: float = 0.5) -> F64:
    """Return the centre, with the largest number where float64 has an infinity but some kernels have a number. `scaled`
    gives the result and its error, both times `share`, which keeps them in float64's range."""
    if dtype is not DOUBLE or not np.isinf(centre).any():
        return centre
    middle, far = scaled()
    within = np.isinf(centre) & np.isfinite(middle) & (far > 0)
    within &= np.abs(middle) * (1 - 2 * dtype.u) - far < dtype.max * share
    return np.where(within, np.copysign(dtype.max, middle), centre)


def exactly(form: Form) -> F64:
    return np.where(np.isfinite(form.centre) & (form.spread == 0), form.centre, np.nan)


def multiplied(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of a * b."""
    return product(here, node, args, last, here.is_fused(node))


def product(here: SettledProblem, node: Node, args: Sequence[Form], last: bool, fused: bool) -> Form:
    """Return the form of a * b for the arguments of a node, in its dtype."""
    a, b = args
    remainder = None
    if not (a.is_exact or b.is_exact):
        remainder = upwards(here.far(a) * here.far(b), here.dtype(node), a.spread, b.spread)
    parts, rest = combined([(a, b.centre), (b, a.centre)], remainder)
    bits, dtype, least = bits_of_product(a, b), here.dtype(node), None
    if node.args[0] is node.args[1]:
        least = np.zeros((1,) * a.centre.ndim)
    elif a.least is not None and b.least is not None:
        least = np.where((a.least >= 0) & (b.least >= 0), 0.0, np.nan)
    may = marked(either(args), _of_either_sign(a.centre, b), _of_either_sign(b.centre, a))

    def scaled() -> tuple[F64, F64]:  # both are more than 1 where their product leaves the range of float64
        (one, far), (two, other) = ((each.centre * _ROOT, here.far(each) * _ROOT) for each in (a, b))
        return one * two, far * (np.abs(two) + other) + np.abs(one) * other

    centre = reached(dtype, a.centre * b.centre, scaled, _ROOT * _ROOT)
    found = Form(centre, dtype, bits if last else min(bits, dtype.precision), parts, rest, may, least=least)
    added = _is_only_added(here, node)
    inexact = (a.spread > 0) | (b.spread > 0)
    found = _vanished(here, found, args, inexact if added else True)
    relative = 0.0 if last or bits <= dtype.precision else dtype.u
    found = rounded(found, Rounding(relative, 0.0 if last else 0.5, fused), here.contract)
    if added and dtype is DOUBLE and (found.centre == 0).any():
        # A product of exact factors may be zero in every kernel, but count in the exact sum of many.
        counts = np.frexp(a.centre)[1] + np.frexp(b.centre)[1] > _SUMMED
        found = _vanished(here, found, args, ~inexact & counts)
    if fused and np.isinf(found.centre).any():  # it overflows only if it is rounded
        finite = np.isinf(found.centre) & np.isfinite(a.centre) & np.isfinite(b.centre)
        found = replace(found, overflows=marked(found.overflows, finite)) if finite.any() else found
    return found


_SUMMED = -1075 - 53
"""Products below two to this power do not count: even 2^53 of them add up to less than half the smallest number."""


def _is_only_added(here: SettledProblem, node: Node) -> bool:
    """Whether a product is only used in sums, and these sums only as outputs or in means, such as the mean under a
    root. If a sum were multiplied, or something subtracted from it, the errors of its products would be seen."""
    uses = here.inputs.trace.uses
    sums = uses.get(node, (node,))
    return all(use.kind == "sum" and all(each.kind in _AVERAGING for each in uses.get(use, ())) for use in sums)


_AVERAGING = ("add", "divide", "point")


def bits_of_product(a: Form, b: Form) -> int:
    """Return a number of bits that suffices for the products of two values."""
    return a.bits + b.bits if min(a.bits, b.bits) > 1 else max(a.bits, b.bits)


def _vanished(here: SettledProblem, found: Form, args: Sequence[Form], among: Mask | bool = True) -> Form:
    """Return the form with an error wherever a result underflowed to 0 in float64. Only operations in f64 can make a
    nonzero value of such a result again: in other dtypes the form stays the same."""
    if not here.wide:
        return found
    lost = (found.centre == 0) & among
    for each in args:
        lost = lost & np.isfinite(each.centre) & (each.centre != 0)
    return more(found, np.where(lost, found.dtype.eta, 0.0)) if lost.any() else found


def _of_either_sign(factor: F64, other: Form) -> Mask | None:
    """Return the mask of products of an infinite factor and a number whose sign differs between kernels."""
    if other.is_exact or np.isfinite(factor).all():
        return None
    return np.isinf(factor) & (other.spread >= np.abs(other.centre)) & (other.spread > 0)


def quotient(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of a / b."""
    a, b = args
    dtype, centre, remainder = here.dtype(node), a.centre / b.centre, None
    share = growth = np.zeros((1,) * centre.ndim)
    if not b.is_exact:
        share = np.where(b.spread == 0, 0.0, here.far(b) / np.abs(b.centre))
        growth = np.where(share < 1, share / (1 - share), np.inf)

    def half() -> tuple[F64, F64]:
        middle = a.centre / 2 / b.centre
        return middle, np.abs(middle) * growth + here.far(a) / 2 / np.abs(b.centre) * (1 + growth)

    centre = reached(dtype, centre, half)
    if not b.is_exact:
        remainder = np.abs(centre) * share * growth + here.far(a) / np.abs(b.centre) * growth
        remainder = np.where(b.spread == 0, 0.0, upwards(remainder, dtype, b.spread))
    of_b = (b, -centre / b.centre)
    if b.dtype is DOUBLE and not b.is_exact:  # one factor after the other: their product may underflow
        of_b = _over(b), -centre
    parts, rest = combined([(a, 1 / b.centre), of_b], remainder)
    ulp = here.contract.ulp("divide")
    exact = b.bits == 1 and node.args[1].kind == "constant" and a.bits <= dtype.precision and not a.spread.any()
    if exact := exact and here.is_whole(node.args[0]):  # by a power of two: every kernel has this quotient
        ulp = 0.0
    relative = 2 * dtype.u * ulp
    if node.args[1].kind == "extent" and here.contract.mean == "reciprocal":
        n = here.inputs.number(node.args[1])
        relative, last = 2 * dtype.u + dtype.u**2, False
        if dtype.precision < 24:  # n may be rounded before it is inverted, or not
            relative += 2 * float(np.max(np.abs(b.centre - n))) / max(n, 1)
    least = None
    if a.least is not None:
        most = b.centre + b.spread
        least = np.where((a.least >= 0) & (b.lowest > 0), a.least / most * (1 - DUST), np.nan)
    may = marked(either(args), _of_either_sign(1 / b.centre, a))
    found = Form(centre, dtype, dtype.precision if exact or not last else ANY, parts, rest, may, least=least)
    if (share > FAR).any():
        low = here.lowest(b)
        high = np.where(low > 0, b.centre + here.far(b), np.inf)
        ends = [(a.centre + side * here.far(a)) / end for side in (-1, 1) for end in (low, high)]
        away = np.maximum.reduce([np.abs(end - centre) for end in np.broadcast_arrays(*ends)]) * here.ends
        found = _bounded(found, np.where(low > 0, away, np.inf), share)
        found = _unbounded(found, (share >= 1) & ~(low > 0) & ~np.isnan(a.centre))
    found = _vanished(here, found, args)
    rounding = Rounding(0.0 if last else relative, 0.0 if last else ulp)
    return rounded(found, rounding, here.contract.keeping("divide"))


def _over(b: Form) -> Form:
    """Return b with each of its errors divided by b, so that they are relative."""
    parts = {symbol: coefficient / b.centre for symbol, coefficient in b.parts.items()}
    return replace(b, parts=parts, rest=None if b.rest is None else b.rest / np.abs(b.centre))


def function(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of an elementary function."""
    (arg,), of = args, node.function
    centre, dtype = Float64().apply(of, arg.centre), here.dtype(node)
    least = np.zeros((1,) * centre.ndim) if of.is_never_negative else None
    undecided = of.undecided(arg.centre)
    if of.is_exact:
        found = replace(arg, centre=centre, parts={}, rest=None, least=least, may=marked(arg.may, undecided))
    else:
        may = marked(either(args), undecided)
        found = Form(centre, dtype, ANY if last else dtype.precision, may=may, least=least)
    if not arg.is_exact:
        found = _moved(here, of, arg, found, here.tops.get(node.args[0]))
    if of.is_exact:
        return found
    bound, relative = here.contract.bound(of.name), here.contract.relative(of.name, dtype.u)
    if of.name in here.contract.absolute:
        off = 2 * dtype.u * here.contract.besides(of.name).over(*_range(here, arg))
        found = more(found, np.where(np.isfinite(found.centre), off, 0.0))
    if of.strays is not None:
        found = _strayed(here, of, arg, found)
    if bound.growth:
        found = _grown(found, arg, 2 * dtype.u * bound.growth)
    if of.sign != "any":  # else it may be an exact zero
        found = _vanished(here, found, args)
    rounding = Rounding(0.0 if last else relative, 0.0 if last else max(0.5, bound.ulp))
    found = rounded(found, rounding, here.contract.keeping(of.name))
    return _unjudged(found, bound.leaves(*_range(here, arg))) if bound.is_partial else found


def _range(here: SettledProblem, arg: Form) -> tuple[F64, F64]:
    """Return the least and the largest number that kernels may have as an argument."""
    return here.lowest(arg), arg.centre + here.far(arg)


def _grown(found: Form, arg: Form, growth: float) -> Form:
    """Return the form of a function whose error grows with its argument. It grows exponentially, so that the errors of
    several factors whose arguments add up to one argument are no more than the error at that argument."""
    with np.errstate(all="ignore"):
        share = np.expm1(np.minimum(growth * arg.size, 700.0)) * (1 + DUST)
        return more(found, np.where(np.isfinite(found.centre) & (found.size > 0), found.size * share, 0.0))


def _strayed(here: SettledProblem, of: Elementary, arg: Form, found: Form) -> Form:
    """Return the form of a function with a constant that kernels may round to its dtype, or not."""
    assert of.strays is not None
    off = abs(float(round_to(np.asarray(of.constant), found.dtype)) - of.constant) + abs(of.low)
    if not off:
        return found
    far = here.far(arg)
    share = of.strays(arg.centre - far, arg.centre + far, off)
    return more(found, np.where(np.isfinite(found.centre) & (found.size > 0), found.size * share, 0.0))


def _moved(here: SettledProblem, of: Elementary, arg: Form, found: Form, top: F64 | None) -> Form:
    """Return the form of a function with the errors that its argument passes on. The argument is at most `top`."""
    far, centre, dtype = here.far(arg), found.centre, found.dtype
    low, high = _range(here, arg)
    if of.tangent is None:
        jumped = of.hull(low, high, centre) * here.ends
        return replace(found, rest=np.where((far > 0) & np.isfinite(centre), jumped, 0.0))
    bend = of.bend(arg.centre, centre, far)
    if here.wide:
        bend = _in_range(of, arg, centre, bend)
    parts, rest = combined([(arg, bend.slope)], upwards(bend.remainder, dtype, arg.spread))
    found = replace(found, parts=parts, rest=rest)
    if (outside := of.misses(low, high)).any():
        nothing = Form(np.full(outside.shape, np.nan), dtype, found.bits, may=found.may)
        found = blended(outside, nothing, found)
    share = of.share(arg.centre, far)
    if not (share > FAR).any():
        return found
    if top is None:
        away = of.hull(low, high, centre)
    else:  # an exponential, whose slope is no more than its value; float64's own error grows with the argument's
        high = np.fmin(high, np.maximum(top, arg.centre))
        away = np.maximum(of.hull(low, high, centre), 2 * far * of.float64.value(high))
    found = _bounded(found, away * here.ends, share)
    found = _unbounded(found, (far > 0) & of.meets(low, high))
    beyond = np.isinf(centre) & np.isfinite(arg.centre) & (far > 0)
    if beyond.any():  # float64 overflows, but only some kernels do
        ends = np.minimum(*(np.abs(Float64().apply(of, end)) for end in (low, high)))
        found = _unbounded(found, beyond & ~(ends > dtype.limit))
    return found


def _in_range(of: Elementary, arg: Form, value: F64, bend: Tangent) -> Tangent:
    """Return the tangent; where the slope is so large or small that products with others might leave float64's range,
    errors are moved into the remainder, where they lose their sign."""
    if of.elasticity is None:
        return bend
    extreme = ~((np.abs(bend.slope) > 1 / _STEEP) & (np.abs(bend.slope) < _STEEP)) & (arg.spread > 0)
    if not extreme.any():
        return bend
    first = arg.spread / np.abs(arg.centre) * np.abs(of.elasticity(value)) * (1 + DUST)
    slope = np.where(extreme, 0.0, bend.slope)
    return Tangent(slope, bend.remainder + np.where(extreme, first, 0.0))


def _bounded(found: Form, far: F64, share: F64) -> Form:
    """Return the form, with the errors `far` in place of its own errors where its own are larger."""
    errors = far + np.abs(found.centre) * DUST
    less = (share > FAR) & ~(errors >= found.spread)
    if not less.any():
        return found
    rest = np.zeros((1,) * less.ndim) if found.rest is None else found.rest
    parts = {symbol: np.where(less, 0.0, each) for symbol, each in found.parts.items()}
    return replace(found, parts=parts, rest=np.where(less, errors, rest))


def _unbounded(found: Form, pole: Mask) -> Form:
    """Return the form, unbounded where the centre is not finite and kernels may meet a pole or leave the domain."""
    return _unjudged(found, pole & ~np.isfinite(found.centre))


def _unjudged(found: Form, free: Mask) -> Form:
    """Return the form, where the mask is set with any value."""
    if not free.any():
        return found
    rest = np.zeros((1,) * free.ndim) if found.rest is None else found.rest
    parts = {symbol: np.where(free, 0.0, each) for symbol, each in found.parts.items()}
    centre = np.where(free, 1.0, found.centre)
    return replace(found, centre=centre, parts=parts, rest=np.where(free, np.inf, rest), may=marked(found.may, free))


def chosen(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of a where the mask is set, else of b; of either where kernels may disagree about the mask."""
    mask, (a, b) = args[0].centre != 0, args[1:]
    zero, no = np.zeros((1,) * mask.ndim), np.zeros((1,) * mask.ndim, bool)
    parts = {s: np.where(mask, a.parts.get(s, zero), b.parts.get(s, zero)) for s in {**a.parts, **b.parts}}
    rest = np.where(mask, zero if a.rest is None else a.rest, zero if b.rest is None else b.rest)
    wild = [no if (found := either([each])) is None else found for each in (a, b)]
    may = np.where(mask, *wild)
    unsure = args[0].spread > 0  # not its rest alone: an error that several elements share through a mask is a symbol
    if unsure.any():
        other = np.where(mask, b.spread, a.spread)
        apart = np.where(a.centre == b.centre, 0.0, np.abs(a.centre - b.centre)) + other
        rest = np.where(unsure, rest + np.where(np.isnan(apart), np.inf, apart), rest)
        may = np.where(unsure, wild[0] | wild[1], may)
    dtype = b.dtype if _is_number_of(node.args[1], a, b.dtype) else None
    dtype = a.dtype if dtype is None and _is_number_of(node.args[2], b, a.dtype) else dtype
    dtype = max(a.dtype, b.dtype, key=lambda each: each.precision) if dtype is None else dtype
    bits = min(max(a.bits, b.bits), dtype.precision)
    centre = np.where(mask, a.centre, b.centre)
    least = None if a.least is None or b.least is None else np.minimum(a.least, b.least)
    chosen = Form(centre, dtype, bits, parts, rest if rest.any() else None, may if may.any() else None, least=least)
    return zeroed(chosen, here.contract.flushes_results)


def _is_number_of(node: Node, form: Form, dtype: Format) -> bool:
    """Whether a form is one number for each problem, such as -inf, that the dtype holds."""
    return not node.dims and form.is_exact and bool((round_to(form.centre, dtype) == form.centre).all())


def compared(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of a <= b or a < b. Its rest is 1 where kernels may find the opposite."""
    a, b = args
    mask = Float64().compare(node.kind, a.centre, b.centre).astype(np.float64)
    may = either(args)
    if a.is_exact and b.is_exact and may is None:
        return Form(mask, DOUBLE, bits=1)
    parts, rest = combined([(a, None), (b, np.full((1,) * mask.ndim, -1.0))])
    between = Form(a.centre - b.centre, DOUBLE, 53, parts, rest)
    unsure = (np.abs(between.centre) <= here.far(between)) & (between.spread > 0)
    unsure = unsure if may is None else unsure | may
    return Form(mask, DOUBLE, bits=1, rest=np.where(unsure, 1.0, 0.0) if unsure.any() else None)


def negated(here: SettledProblem, node: Node, args: Sequence[Form], last: bool) -> Form:
    """Return the form of -a."""
    parts, rest = combined([(args[0], np.full((1,) * args[0].centre.ndim, -1.0))])
    return replace(args[0], centre=-args[0].centre, parts=parts, rest=rest, least=None)


Operation = Callable[[SettledProblem, Node, Sequence[Form], bool], Form]
OPERATIONS: Mapping[Kind, Operation] = {
    "add": added, "subtract": added, "multiply": multiplied, "divide": quotient, "where": chosen, "at_most": compared,
    "less": compared, "negate": negated, "function": function,
}  # fmt: skip
"""The function that makes the form, by kind of node."""
