"""The budget of a formula: how far a correct kernel's values may lie from the exact ones.

The formula is evaluated over affine forms, for one contract and one problem. The resulting half-width is the tolerance
by definition: the precise tier uses it around its own centre, and simulated kernels check it (`oracles.simulated`). It
is at least the supremum of the errors that the contract allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as fields_replaced

import numpy as np

from oracles.doubledouble import F64, two_sum
from oracles.dtypes import DOUBLE, Format, judged
from oracles.formula.affine.added import in_any_order
from oracles.formula.affine.edges import carried, lowered
from oracles.formula.affine.errors import again, either, half_width, is_same, marked, taken, zeroed
from oracles.formula.affine.forms import Form, Mask, blended, replace, shared
from oracles.formula.affine.narrowing import ALIKE, Narrowed, Spread, holds, maybe_narrowed, narrowed, stepped
from oracles.formula.affine.operations import FAR, OPERATIONS
from oracles.formula.affine.outcomes import Outcomes, PossibleValues, cast, is_limit
from oracles.formula.affine.read import ReadFormula, bits_of_whole, leaf
from oracles.formula.affine.reduced import REDUCED
from oracles.formula.affine.reductions import started
from oracles.formula.affine.setting import SettledProblem
from oracles.formula.affine.signs import Signs
from oracles.formula.affine.sums import any_along
from oracles.formula.affine.weighted import at_least, within
from oracles.formula.chains import ADDING, Chain
from oracles.formula.contract import RoundingPoint
from oracles.formula.exact.arithmetic import Float64
from oracles.formula.exact.centre import Replaced, step
from oracles.formula.exact.counts import counted
from oracles.formula.exact.rigorous import Near, Rigorous, UncertainError
from oracles.formula.node import TOLD
from oracles.formula.trace import REDUCTIONS, Kind, Node
from oracles.lazy import lazy
from oracles.summation import NumericsError

_MOVING: tuple[Kind, ...] = ("point", "take")
"""Operations that move values and never flush them. Choosing is not one: instructions like maxps may flush."""
_ADDING: tuple[Kind, ...] = ("add", "subtract", "sum")
"""Operations that may compute a product again inside themselves, without rounding it (fused multiply-add)."""
SAME = 2.0**-40
"""The relative change of a row's half-widths when it is joined with others, since sums may change their order."""
_LARGE = 1 << 20
"""Forms with more elements than this (8 MiB an array) drop the values that can be computed again."""
LOST = 2.0**-1000
"""A bound for values that underflow in float64; any other dtype rounds it to zero."""


@dataclass(frozen=True)
class Budget(SettledProblem):
    """The forms of all values of a formula, for one contract and one problem."""

    complete: bool = True
    """Whether all operands are present. For an absent one a kernel may add a zero, which changes the sign of zeros."""
    sharp: bool = False
    """Whether only exact values are right. Then functions have their values at infinity only for infinite arguments."""

    @lazy
    def read(self) -> ReadFormula:
        """Build the forms of all nodes. Raises FormulaError for a formula that has no budget."""
        found = ReadFormula()
        signs = Signs(self.inputs, found.forms, self.complete, self.chains)
        with np.errstate(all="ignore"):
            for node in self.inputs.trace.nodes:
                form = self._form(found, node) if node.args else self._leaf(node)
                if (mirrored := signs.mirrored(node, form, self.contract.zeros == "ieee")) is not None:
                    found.mirrored[node] = mirrored  # values made from it may be anything
                    form = replace(form, may=marked(form.may, mirrored))
                found.forms[node] = shared(form) if node in self.inputs.trace.joined else form
        for form in found.forms.values():
            if form.centre.size > _LARGE:
                form.forget()
        return found

    @property
    def forms(self) -> Mapping[Node, Form]:
        """The form of each node, which covers the values of all kernels."""
        return self.read.forms

    @lazy
    def replaced(self) -> Replaced:
        """Return the numbers that replace centres, by node and by the index of an argument of the node (None: the
        node's result). A centre is replaced where all kernels round the value to the same number, or overflow."""
        if self.endless:
            return self.read.held
        infinite = {n: form.centre for n, form in self.forms.items() if n.args and np.isinf(form.centre).any()}
        found: Replaced = {(n, None): np.where(np.isinf(x), x, np.nan) for n, x in infinite.items()}
        return {**found, **self.read.held}

    def made(self, name: str, dtype: str) -> Node:
        """Return the node that an output rounds to its dtype."""
        return self._made(name, dtype)[0]

    def _made(self, name: str, dtype: str) -> tuple[Node, bool]:
        """Return the node that an output rounds to its dtype, and whether that is a declared rounding point."""
        node, pointed = self.inputs.trace.outputs[name], False
        while node.kind == "point" and ((point := self.pointed(node)) is None or point.dtype is judged(dtype)):
            pointed |= point is not None
            (node,) = node.args
        return node, pointed

    def output(self, name: str, dtype: str) -> Form:
        """Return the form of an output before it is rounded to its dtype."""
        node, pointed = self._made(name, dtype)
        found = self.forms[node]
        with np.errstate(all="ignore"):
            if self.contract.rounds_once(node) and self.dtype(node).name == dtype:
                held = self.read.held.get((node, None))
                own = None if held is None else np.isnan(held) & (found.spread > 0)
                if own is None:
                    found = self._unrounded(self.read, node)
                elif own.any():
                    found = blended(own, self._unrounded(self.read, node), found)
            return self._cast(node, found, judged(dtype), pointed)

    def outcome(self, name: str, dtype: str) -> PossibleValues | None:
        """Return the possible values of an output where its form does not bound it. Return None if they are unknown: if
        operations have dtypes of different ranges, so that they overflow one by one, or if kernels flush or round
        intermediate values, which makes infinities and zeros that no interval shows."""
        contract = self.contract
        if contract.nonfinite != "ieee" or contract.wider or self.wide:
            return None
        if contract.denormals != "preserve" or contract.flushing or contract.points:
            return None
        found = self._outcomes[self.made(name, dtype)]
        return cast(found, judged(dtype), saturate=self.contract.saturate)

    @lazy
    def _outcomes(self) -> Outcomes:
        signs = Signs(self.inputs, self.forms, self.complete, self.chains)
        return Outcomes(self, self.forms, self.chains, self.pointed, signs)

    def _cast(self, node: Node, found: Form, dtype: Format, pointed: bool) -> Form:
        """Return the form after the cast to an output's dtype. A cast is an operation: it may flush its operand, and
        its result too if the dtype has fewer small numbers."""
        if self.contract.nonfinite != "ieee":
            # If a value overflows at a point, anything may come out, whatever a cast does with its operand.
            beyond = np.isfinite(found.centre) & ~(found.size < dtype.limit)
            may = marked(either([found]), beyond if pointed and beyond.any() else None)
            found = replace(found, may=may, overflows=None)
        if dtype.name != found.dtype.name:
            found = taken(found, self.contract)
        return self._converted(self.read, node, found, dtype)

    def _converted(self, read: ReadFormula, node: Node, found: Form, dtype: Format) -> Form:
        """Return a node's form in a dtype that holds its values. A conversion from a dtype with smaller normal numbers
        may flush its results."""
        if not self.contract.flushes_results or dtype.tiny <= self._kept_in(read, node).tiny:
            return found
        return replace(zeroed(replace(found, dtype=dtype), True), dtype=found.dtype)

    def _kept_in(self, read: ReadFormula, node: Node) -> Format:
        """Return the dtype with the smallest numbers among those in which kernels may have a value. A value that is
        only moved or chosen stays a number of its operand's dtype, even if the contract gives it another one."""
        found = [read.forms[node].dtype]
        if node.kind == "point":
            point = self.pointed(node)
            found += [self._kept_in(read, node.args[0])] if point is None or not point.always else []
        elif node.is_exact and node.kind not in TOLD:
            among = node.args[1:] if node.kind == "where" else node.args[:1]
            found += [self._kept_in(read, arg) for arg in among if arg.args or arg.kind == "tensor"]
            found.append(self.dtype(node))
        return min(found, key=lambda each: each.tiny)

    @lazy
    def _counted(self) -> frozenset[Node]:
        return counted(self.inputs.trace, self.inputs.integers)

    @lazy
    def chains(self) -> Mapping[Node, Chain]:
        """Return the sums whose terms may be added in any order, each by its last addition."""
        return self.contract.chains(self.inputs.trace, self._counted if self.contract.addend == "any" else ())

    @lazy
    def within(self) -> frozenset[Node]:
        """Return the additions in the chains of these sums, except the last ones. A kernel need not make them."""
        return frozenset(node for chain in self.chains.values() for node in chain.inner)

    def _whole(self, read: ReadFormula, node: Node) -> Form:
        """Return the form of a count, which is the same number in every kernel."""
        args: list[F64 | Mask] = [read.forms[arg].centre for arg in node.args]
        if node.kind == "where":
            args[0] = args[0] != 0
        values = np.asarray(step(node, args, Float64(), self.inputs), dtype=np.float64)
        return Form(values, DOUBLE, bits=bits_of_whole(values))

    def _form(self, read: ReadFormula, node: Node) -> Form:
        if node in self._counted:
            return self._whole(read, node)
        if node.kind == "point":
            return self._rounded_at(read, node)
        if node in self.chains:
            return self.operated(read, node)
        args = self._taken(read, node)
        if node.kind == "function":
            exact = args[0].is_exact
            found = self._shared(read, node, self._step(node, args)) if exact else self._applied(read, node, args[0])
            return self._settled(read, node, args[0], found)
        if node.kind in ("at_most", "less"):
            return self._compared(read, node, args)
        if node.kind in ADDING and self._is_rounded_alike(node):
            return self._added(read, node, args)
        found = self._shared(read, node, self._step(node, args))
        if node.kind == "multiply" and any(arg.kind == "function" and arg.function.settles for arg in node.args):
            units = args[0].is_one & args[1].is_one
            found = blended(units, Form(args[0].centre * args[1].centre, found.dtype, found.bits), found)
        if found.ranks is not None and found.ranks.doubt is not None:
            read.doubts[node] = found.ranks.doubt
        if node.kind == "where" and (read.doubts or read.guesses):
            read.same[node] = is_same(found, *args[1:], wide=self.wide, most=SAME / 4)
        if node.kind == "take":
            from oracles.formula.affine.ranked import is_unsure

            unsure = is_unsure(args[1])
            if unsure.any():
                read.held[node, None] = np.where(unsure & (found.spread > 0), found.centre, np.nan)
        return found

    def _is_rounded_alike(self, node: Node) -> bool:
        """Whether an addition has the same operands in every kernel, and every kernel rounds the sum."""
        return not (self.contract.wider or node in self.within or any(arg.args for arg in node.args))

    def _applied(self, read: ReadFormula, node: Node, arg: Form) -> Form:
        """Return the form of a function whose argument differs between kernels. If the error of float64's argument is
        so large that the function has another value there, that value is the centre: the values of kernels may lie on
        either side of it."""
        found, of = self._step(node, [arg]), node.function
        if of.tangent is None:
            return self._keep(read, node, None, arg, stepped(found, of, arg, self._spread_of(read, node.args[0], arg)))
        far = of.share(arg.centre, arg.spread) > FAR
        if not far.any():
            return found
        share = self.own_share(self.wide)
        allowed = found.spread * (share + SAME) + np.abs(found.centre) * (4 * of.float64.bound.relative) + LOST

        def displaced(own: F64) -> Mask:
            away = of.hull(arg.centre - own, arg.centre + own, found.centre)
            return np.asarray(far & (away > allowed) & np.isfinite(away) & np.isfinite(found.centre))

        wrong = displaced(arg.spread * share)
        if wrong.any():  # float64's error is often less than its share of the half-width
            wrong = displaced(np.fmin(arg.spread * share, self._error(read, node.args[0]) * (1 + 2.0**-20) + LOST))
        if not wrong.any():
            return found
        return read.keep(node, None, Narrowed(found, np.where(wrong, found.centre, np.nan), wrong))

    def _settled(self, read: ReadFormula, node: Node, arg: Form, found: Form) -> Form:
        """Return the form of a function, with its limit at infinity wherever every kernel has reached it."""
        start = np.inf if self.sharp else self.contract.settles(node.function, self.dtype(node).u)
        if not (start < np.inf and (np.abs(arg.centre) >= start).any()):
            return found
        least = np.abs(arg.centre) - arg.spread * (1 + 2.0**-12)
        far = (least >= start) & (True if arg.may is None else ~arg.may)
        limit = Float64().apply(node.function, np.copysign(np.inf, arg.centre))
        settled = Form(limit, found.dtype, found.bits, least=found.least)
        doubt = np.abs(least - start) <= start * SAME
        own = far & np.isfinite(arg.centre)
        held = np.where(own, limit, np.nan) if own.any() else None
        narrow = Narrowed(blended(far, settled, found), held, doubt if doubt.any() else None)
        return self._keep(read, node, None, found, narrow)

    def _compared(self, read: ReadFormula, node: Node, args: Sequence[Form]) -> Form:
        """Return the form of a comparison. Where the error of float64 may decide the comparison, the node is marked as
        doubtful. Where both sides underflowed in float64, kernels may find them equal."""
        found, (a, b) = self._step(node, args), args
        vanished = (np.abs(a.centre) <= LOST) & (np.abs(b.centre) <= LOST)
        if vanished.any() and not (a.is_exact and b.is_exact):
            lost = self._near(read, node, 0).error + self._near(read, node, 1).error
            hidden = vanished & np.not_equal(lost, 0)  # or NaN, if it is unknown
            if hidden.any():
                found = replace(found, rest=np.where(hidden, 1.0, 0.0 if found.rest is None else found.rest))
        # The lesser of two values errs by at most as much as they do, whichever it is.
        if found.rest is not None and not all(map(is_limit, self.inputs.trace.uses[node])):
            own = (a.spread + b.spread) * (self.own_share(self.wide) + SAME)
            own = own + (np.abs(a.centre) + np.abs(b.centre)) * 2.0**-50 + LOST
            doubt = (found.rest > 0) & (np.abs(a.centre - b.centre) <= own)
            if doubt.any():  # float64's error is often less than its share, or none
                error = self._near(read, node, 0).error + self._near(read, node, 1).error
                doubt &= ~((np.abs(a.centre - b.centre) > error * (1 + 2.0**-20)) | np.equal(error, 0))
            if doubt.any():
                read.doubts[node] = doubt
        return found

    def _added(self, read: ReadFormula, node: Node, args: Sequence[Form]) -> Form:
        """Return the sum of two operands that are the same in every kernel, where every kernel rounds the sum: to
        float64, as here, or to so few bits that rounding to float64 first changes nothing. If float64 rounds nothing
        off, the formula's own sum stays the centre."""
        if not self.contract.flushes_results:
            nothing = [
                arg.kind != "tensor" and not form.centre.any() for arg, form in zip(node.args, args, strict=True)
            ]
            if nothing[1] or (nothing[0] and node.kind == "add"):
                return args[0 if nothing[1] else 1]
        exact, dtype = self._step(node, args, last=True), self.dtype(node)
        alike = exact.spread == 0
        if dtype is DOUBLE:
            found = exact if exact.is_exact else blended(alike, exact, self._step(node, args))
            narrow = Narrowed(replace(found, bits=dtype.precision))
        else:
            narrow = narrowed(exact, dtype, self.contract, self._spread_of(read, node, exact))
        sign = 1.0 if node.kind == "add" else -1.0
        lost = alike & (two_sum(args[0].centre, sign * args[1].centre).low != 0)
        if lost.any():
            held = np.full(lost.shape, np.nan) if narrow.held is None else narrow.held
            narrow = Narrowed(narrow.form, np.where(lost, narrow.form.centre, held), narrow.doubt)
        return self._keep(read, node, None, exact, narrow)

    def _keep(self, read: ReadFormula, node: Node, place: int | None, before: Form, narrow: Narrowed) -> Form:
        found = read.keep(node, place, narrow)
        if self.contract.nonfinite == "ieee":
            return found
        became = np.isfinite(before.centre) & ~np.isfinite(found.centre)
        return replace(found, may=marked(found.may, became)) if became.any() else found

    def _unrounded(self, read: ReadFormula, node: Node) -> Form:
        """Return the form of a node before its rounding."""
        return self.operated(read, node, last=True)

    def operated(self, read: ReadFormula, node: Node, *, last: bool = False) -> Form:
        """Return the form of an operation's result. With `last`, the operation's own rounding is left out."""
        if node not in self.chains:
            return self._shared(read, node, self._step(node, self._taken(read, node), last=last))
        chain = self.chains[node]
        taken = {taker: self._taken(read, taker) for taker in dict.fromkeys(term.taker for term in chain.terms)}
        args = [taken[term.taker][term.place] for term in chain.terms]
        return self._beside(node, args, in_any_order(self, node, chain, args, last=last))

    def _shared(self, read: ReadFormula, node: Node, found: Form) -> Form:
        """Return the form `found`; for a sum of exponentials, or a mean weighted by shares, with closer bounds."""
        shares = self.inputs.trace.shares
        if node in shares.masses and shares.masses[node] in read.forms:
            return at_least(self, node, shares.masses[node], read.forms, found)
        if node in shares.means and shares.means[node].mass in read.forms:
            return within(self, node, shares.means[node], read.forms, found)
        return found

    def pointed(self, node: Node) -> RoundingPoint | None:
        """Return how the contract rounds at a point; None if it does not."""
        point, uses = self.contract.point(self.name(node.args[0])), self.inputs.trace.uses[node]
        if point is not None and any(use.kind == "online_dot" for use in uses):  # shares are used unscaled
            return fields_replaced(point, always=False)
        return point

    def _rounded_at(self, read: ReadFormula, node: Node) -> Form:
        """Return the form at a point, rounded if the contract says so."""
        (arg,), point = node.args, self.pointed(node)
        before = read.forms[arg]
        if point is None:
            return before
        dtype = point.dtype
        if not point.always:
            if holds(before, dtype):
                return self._converted(read, arg, before, dtype)
            return lowered(maybe_narrowed(before, dtype, self.contract), dtype, self.contract.flushes_results)
        if before.is_exact and holds(before, dtype):
            return self._converted(read, arg, before, dtype)
        if self.dtype(arg).name == dtype.name and self.contract.rounds_once(arg) and dtype is not DOUBLE:
            before = self._unrounded(read, arg)  # a single rounding serves as both
        elif holds(before, dtype):
            return self._converted(read, arg, before, dtype)
        narrow = narrowed(before, dtype, self.contract, self._spread_of(read, arg, before), point=True)
        return lowered(self._keep(read, node, 0, before, narrow), dtype, self.contract.flushes_results)

    def _spread_of(self, read: ReadFormula, node: Node, form: Form) -> Spread:
        """Return how far kernels' values may lie from the centre of a node's form, before it is rounded."""
        if form.is_exact:
            return ALIKE
        width = self.half_width(form)
        own = width * self.own_share(False) + np.abs(form.centre) * 2.0**-52 + LOST
        if self.mixed:  # in fewer bits, kernels make most of the half-width, and float64 a small part
            own = np.fmin(own, self._error(read, node) * (1 + 2.0**-20) + LOST)
        own = np.where(width > 0, own, 0.0)  # where kernels do not err at all, neither does float64
        return Spread(width + own, width * SAME + 2 * own)

    def _error(self, read: ReadFormula, node: Node) -> F64:
        if node not in read.errors:
            read.errors[node] = self._calculated(read, node)
        return read.errors[node]

    def _calculated(self, read: ReadFormula, node: Node) -> F64:
        error = np.full((1,) * len(self.inputs.trace.dims), abs(node.low))
        if not node.args:
            return error
        args: list[Near | Mask] = [self._near(read, node, place) for place in range(len(node.args))]
        mask = read.forms[node.args[0]]
        if node.kind == "where":
            args[0] = mask.centre != 0
        try:
            found = step(node, args, Rigorous(), self.inputs)
        except UncertainError:
            return np.full_like(error, np.nan)
        if isinstance(found, Near):
            error = np.broadcast_to(found.error, found.value.shape)
        return np.where(mask.spread > 0, np.nan, error) if node.kind == "where" else error

    def _near(self, read: ReadFormula, node: Node, place: int) -> Near:
        """Return the value of a node's argument that float64 calculates with, and the possible error of that value."""
        arg = node.args[place]
        form, error = read.forms[arg], self._error(read, arg)
        value = form.centre
        for site in ((arg, None), (node, place)):
            if (held := read.held.get(site)) is not None:
                value, error = np.where(np.isnan(held), value, held), np.where(np.isnan(held), error, 0.0)
        if not error.any():
            return Near(value)
        # Some rows may be exact by chance, while rows beside them are not.
        return Near(value, np.zeros_like(error) if form.is_exact else error)

    def error(self, node: Node) -> F64:
        """Return how far float64's values of a node may be from the formula's; NaN where that is unknown."""
        with np.errstate(all="ignore"):
            return self._error(self.read, node) * (1 + 2.0**-20) + LOST

    def half_width(self, form: Form) -> F64:
        """Return how far values may lie from the centre, rounded up. A half-width is made of sums and products of
        float64 numbers that are not negative; `_slack` covers all their roundings."""
        return half_width(form, self.inputs) * self._slack

    @lazy
    def _slack(self) -> float | F64:
        reduced = {self.inputs.axes(node) for node in self.inputs.trace.nodes if node.kind in REDUCED}
        longest: int | F64 = 1
        for axes in reduced:
            longest = np.maximum(longest, self.inputs.count(axes))
        return 1.0 + 2.0**-52 * (longest + 16) * len(self.inputs.trace.nodes)

    def _taken(self, read: ReadFormula, node: Node) -> list[Form]:
        """Return the arguments as the node takes them: errors that several elements share become symbols, and values of
        more bits than the node's dtype are rounded to it."""
        wide = node.dims.union(node.over) if node.kind in REDUCTIONS else node.dims
        dtype, args = self.dtype(node), list[Form]()
        for place, arg in enumerate(node.args):
            if wide - arg.dims:
                read.forms[arg] = shared(read.forms[arg])
            each = read.forms[arg]
            if not node.is_exact and holds(each, dtype):
                each = self._converted(read, arg, each, dtype)
            elif not node.is_exact and (self.contract.wider or self._may_start(node)):  # kernels may skip this rounding
                each = maybe_narrowed(each, dtype, self.contract)
            elif not node.is_exact:
                narrow = narrowed(each, dtype, self.contract, self._spread_of(read, arg, each))
                each = self._keep(read, node, place, each, narrow)
                if wide - arg.dims:  # all elements that use it share this rounding
                    each = shared(each)
                if arg.kind == "extent" and np.isinf(each.centre).any():
                    raise NumericsError(f"compute: {dtype.name} cannot hold the row length {self.inputs.number(arg)}")
            if self.contract.flushes_operands and node.kind in _ADDING and self._is_formed_anew(arg):
                each = again(each, [read.forms[operand] for operand in arg.args], self.dtype(arg))
            moves = node.kind in _MOVING or (node.kind == "where" and not place)
            args.append(each if moves else taken(each, self.contract.keeping(node.operation)))
        return args

    def _may_start(self, node: Node) -> bool:
        """Whether a sum in another dtype may start with the other operand."""
        may = (self.starts(arg) and self.dtype(arg) is not self.dtype(node) for arg in node.args)
        return node.kind in ADDING and any(may)

    def _is_formed_anew(self, node: Node) -> bool:
        return node.kind == "multiply" and self.is_fused(node) and len(self.inputs.trace.uses[node]) > 1

    def _leaf(self, node: Node) -> Form:
        return leaf(self.inputs, self.contract, node)

    def _step(self, node: Node, args: Sequence[Form], *, last: bool = False) -> Form:
        if node.kind in REDUCED:
            found = REDUCED[node.kind](self, node, args)
        elif node.kind == "pair":
            from oracles.formula.affine.paired import paired

            found = paired(self, node, args, last)
        else:
            found = OPERATIONS[node.kind](self, node, args, last)
            if node.kind in ("add", "subtract") and self.contract.addend != "last":
                found = started(self, node, args, found)
        return self._beside(node, args, found)

    def _beside(self, node: Node, args: Sequence[Form], found: Form) -> Form:
        """Return the form with edges or marks where numbers overflow or are NaN."""
        ends = self.contract.nonfinite == "ieee"
        return carried(self, node, args, found) if ends else self._marked(node, args, found)

    def _marked(self, node: Node, args: Sequence[Form], form: Form) -> Form:
        """Return the form, marked where it became infinite or NaN at this node although no argument is, and where an
        argument may have overflowed."""
        masks: list[Mask | None] = [~np.isfinite(each.centre) for each in args]
        masks += [each.overflows for each in args]
        if node.kind in REDUCED:
            masks = [any_along(each, self.inputs.axes(node)) for each in masks]
        wild, over = marked(*masks[: len(args)]), marked(*masks[len(args) :])
        form = form if over is None else replace(form, may=marked(form.may, over))
        became = ~np.isfinite(form.centre)
        if wild is not None:
            nan = np.isnan(form.centre) if self.contract.nonfinite == "unspecified" else False
            became = became & ~wild | nan
        return replace(form, may=marked(form.may, became)) if became.any() else form
