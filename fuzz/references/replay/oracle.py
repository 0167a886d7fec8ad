"""The judge of a task with a reference from which no formula is read. Its op only has names and dtypes for workers; the
right outputs are found by running the reference."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import SPARE, Case, Origin, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits, quantise
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.core.judge.values import ORACLES, Bits, CaseOracle, Query
from fuzz.core.laws.registry import Entry, with_twins
from fuzz.references.dims import first_of
from fuzz.references.replay.cases import REPLAYED, Came, Meant, ReplayCase, ReplayError
from fuzz.references.replay.recipe import ReplayRecipe, rounded
from fuzz.references.rerun import Replayed
from fuzz.report.words import PHRASES
from oracles.dtypes import FORMATS, INDICES, SINGLE, SPELLED
from oracles.formula.contract import Contract
from oracles.formula.node import Node
from oracles.formula.trace import total
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import CODES, FLAGS, Operand, OpError
from oracles.truth import OutputCheck, Result

if TYPE_CHECKING:
    from fuzz.campaign.session import Session
    from fuzz.findings.tally import Tally

Shapes = Mapping[str, tuple[tuple[int, ...], str]]
"""The shape of each output, and its dtype by torch's name."""
ABLE = Capabilities(dtypes=REPLAYED)
NOTHING_PROMISED = Contract(platform="none")
"""The contract of replayed kernels: no formula judges them to which a contract could apply."""
_CLEAR = 16
"""An element counts as judged if its allowed error is less than 1 / `_CLEAR` of the output's largest element. In a
reference with random results, replays differ by as much as the elements themselves."""
_APART, _NEARER = 16.0, 1 / 64
"""Two references differ in an element if their values are this many allowed errors apart; a kernel's value is that of
the one whose distance is at most this share of theirs. The same numbers as in `fuzz.explain.stages`."""
_FLOORS = 1 << 16
"""The most elements of an output whose allowed errors are kept: as numbers of Python, all take long."""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the outputs of a case."""

    wrong: str
    """The text about wrong outputs; "" if none are wrong."""
    judged: int = 0
    """The number of judged elements."""
    ratio: float = 0.0
    """The largest error, divided by the allowed error."""
    place: tuple[str, str, str, str] | None = None
    """Texts about the worst wrong element: place, value, right value, and allowed error. None if none is wrong."""


@dataclass(frozen=True)
class ShownCause:
    """What a kernel does wrong, or when, as experiments showed it."""

    kind: str
    says: str
    """The cause in half a line, which begins the report."""
    evidence: str
    """The experiment."""


NOTHING = Comparison("")
"""The comparison of outputs about which nothing is known."""


def op_of(meant: Meant, name: str, seed: int) -> Op:
    """Return an op for workers, with the outputs of the first case of a seed. Each axis of an input is a dimension of
    its own, since cases state all shapes. If no float input has dimensions, `SPARE` comes first. The formula is a
    dummy, by which nothing is judged. Raises ReplayError."""

    def formula(**given: Node) -> Mapping[str, Node]:
        [*others, _] = inputs[0].axes
        sums = reduce(total, others, given[inputs[0].name])
        return {each.name: sums for each in returned}

    formula.__name__ = f"replayed_{name}"[:31]
    dims = {each: " ".join(f"d{at}_{axis}" for axis in range(len(some)))
            for at, (each, some) in enumerate(meant.asked.dims.items())}  # fmt: skip
    floats = sorted((each for each in dims if "float" in meant.dtypes[each]), key=lambda each: -len(dims[each]))
    inputs = [Operand(each, dims[each]) for each in floats]
    if not floats or not dims[floats[0]]:
        inputs.insert(0, Operand(SPARE, SPARE))
    row = inputs[0].axes[-1]
    for each in (each for each in dims if each not in floats):
        dtype = meant.dtypes[each]
        values = FLAGS if dtype == "bool" else CODES
        are_places = floats and dtype in INDICES and (meant.own is not None or meant.spans[each].high is None)
        inputs.append(
            Operand(each, dims[each], dtype=dtype, index=row) if are_places
            else Operand(each, dims[each], dtype=dtype, values=values)
        )  # fmt: skip
    outputs = meant.outputs(next(meant.cases(seed)))
    returned = [Operand(each, row, dtype=_dtype(each, dtype)) for each, (_, dtype) in outputs.items()]
    try:
        return Op(formula, tuple(inputs), tuple(returned))
    except OpError as error:
        raise ReplayError(str(error)) from error


def case_of(case: ReplayCase, outputs: Shapes, op: Op, seed: int, number: int) -> Case:
    """Return a case in the form that workers get, with contiguous tensors."""
    inputs = dict[str, Tensor]()
    for each in op.inputs:
        array = case.arrays.get(each.name, np.zeros(1))
        dtype = case.dtype if array.dtype.kind == "f" else each.dtype
        values = quantise(array, dtype) if dtype in FORMATS else array.astype(NUMPY_DTYPE[dtype])
        inputs[each.name] = Tensor(dtype, contiguous(array.shape), values.tobytes())
    made = {name: Output(_dtype(name, dtype), contiguous(shape)) for name, (shape, dtype) in outputs.items()}
    return Case(op.name, {}, inputs, made, origin=Origin("replay", "contiguous", seed, number, shard=0))


def arrays_of(case: Case) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return the inputs of a case's reference, with floats as float64."""
    inputs = {name: each for name, each in case.inputs.items() if name != SPARE}
    found = {name: from_bits(each.bits, each.dtype, each.layout.shape) for name, each in inputs.items()}
    return {name: each.astype(np.float64) if case.inputs[name].dtype in FORMATS else each.copy()
            for name, each in found.items()}  # fmt: skip


@dataclass(frozen=True)
class ReplayCheck(OutputCheck):
    """The judgement of outputs by a replay."""

    found: Comparison = NOTHING
    """The comparison of the outputs, with the text about wrong ones."""


@dataclass
class Replay:
    """A reference that judges a task in place of a formula, and statistics of the cases that were drawn for it."""

    meant: Meant
    op: Op
    recipes: list[Mapping[str, str]] = field(default_factory=list)
    """The recipes of the inputs of each case. Case number 1 comes first."""
    drawn: list[ReplayRecipe] = field(default_factory=list)
    """How these inputs are drawn, of each case."""
    came: Came = field(default_factory=Came)
    floors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By dtype, the allowed relative error of each element."""
    elements: int = 0
    """The number of judged elements in outputs that passed."""
    rows: Sequence[int] = ()
    """The rows of outputs that are compared; () for all rows."""
    seed: int = 0
    """The seed of the cases that were drawn last."""
    causes: dict[tuple[str, str], ShownCause] = field(default_factory=dict)
    """What is known of failures, by target and the digest of the case."""

    def __post_init__(self) -> None:
        ORACLES[self.op.name] = lambda case: ReplayOracle(case, self)

    def replays(self, case: Case) -> Sequence[Replayed] | None:
        """Return the replayed outputs of a case; None if the reference raises."""
        return self.meant.replays(arrays_of(case))

    @property
    def cases(self) -> int:
        """The number of cases drawn so far."""
        return len(self.recipes)

    def entries(self, session: Session, enough: Callable[[Tally], bool]) -> Iterator[list[Entry]]:
        """Yield cases, each followed by its twins, until a limit of the session is reached or `enough` returns True.
        Raises ReplayError."""
        seed, scope, limits, began = session.seed, session.scope, session.limits, time.monotonic()
        most, seconds = (math.inf if each is None else each for each in (limits.max_cases, limits.max_time))
        drawn, self.seed = self.meant.cases(seed), seed
        while self.cases < most and time.monotonic() - began <= seconds and not enough(session.tally):
            each = next(drawn)
            self.came.note(each.arrays, each.dtype)
            self.recipes.append(each.recipes)
            self.drawn.append(each.drawn)
            case = case_of(each, self.meant.outputs(each), self.op, seed, self.cases)
            yield with_twins([case], scope.laws, scope.twin_one_in)

    def failure(self, case: Case, judgement: Judgement) -> ReplayFailure:
        """Return the report about a case for which a kernel is wrong."""
        found, check, law = NOTHING, judgement.worst, judgement.broken_law
        if isinstance(check, ReplayCheck):
            found = check.found
        elif law is not None and judgement.outcome is not None and {*case.outputs} <= {*judgement.outcome.outputs}:
            bits = tuple(judgement.outcome.outputs[name] for name in case.outputs)
            found = ReplayOracle(law.twin(case), self).compared(bits)
        known = {Verdict.FAIL_NUMERIC: found.wrong, Verdict.FAIL_PROCESS: judgement.reason}
        words = known.get(judgement.verdict, f"{judgement.verdict.name}: {judgement.reason}")
        if law is not None:
            words = f"breaks {law.name}\n    {judgement.reason}"
        cause = self.causes.get((judgement.target, case.digest))
        if cause is not None:
            words = f"{words.replace(PHRASES[Verdict.FAIL_NUMERIC], cause.says, 1)}\n    {cause.evidence}"
        place = case.origin.number - 1
        drawn = self.drawn[place] if self.drawn else None
        return ReplayFailure(case, self.recipes[place], judgement.verdict, words, found, judgement.target, drawn, cause)


@dataclass(frozen=True)
class ReplayFailure:
    """A case for which a kernel is wrong, with the text about it."""

    case: Case
    recipes: Mapping[str, str]
    verdict: Verdict
    words: str
    found: Comparison
    target: str = ""
    """The target on which it is wrong."""
    drawn: ReplayRecipe | None = None
    """How its inputs are drawn; None if they are not to be drawn again."""
    cause: ShownCause | None = None
    """What the kernel does wrong, if experiments showed it."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each input."""
        return {name: self.case.inputs[name].layout.shape for name in self.recipes}

    @property
    def text(self) -> str:
        """The shapes and recipes of the inputs, and the dtype, as text."""
        words = (f"{name} {'x'.join(map(str, each)) or 'scalar'}" for name, each in self.shapes.items())
        drawn = first_of([f"{word} ({recipe})" for word, recipe in zip(words, self.recipes.values(), strict=True)])
        return ", ".join(filter(None, (drawn, self.dtype)))

    @property
    def dtype(self) -> str:
        """The dtype of the floats; '' if the case has none."""
        return "" if SPARE in self.case.inputs else dtype_of(self.case)

    @property
    def record(self) -> dict[str, Any]:
        """The failure as an entry of a ruling."""
        place, got, expected, allowed = self.found.place or ("", "", "", "")
        return {
            "verdict": self.verdict.name, "said": self.words, "case": self.text,
            "shapes": {name: list(each) for name, each in self.shapes.items()},
            "recipes": dict(self.recipes), "dtype": self.dtype,
            "place": place, "got": got, "expected": expected, "allowed": allowed,
            "cause": self.cause.says if self.cause is not None else "",
        }  # fmt: skip


class ReplayOracle(CaseOracle):
    """The judge of one case: it compares outputs with the reference in float64 and with randomly rounded replays."""

    def __init__(self, case: Case, replay: Replay) -> None:
        super().__init__(case)
        self._replay = replay
        self.is_patient = replay.meant.own is not None  # extents of a given problem may take long

    @lazy
    def replays(self) -> Sequence[Replayed] | None:
        """The replayed outputs; None if the reference raises."""
        found, dtype = self._replay.replays(self.case), dtype_of(self.case)
        inexact = [each for each in found or () if each.exact is None and each.equation is None]
        for output in inexact if not self.case.params else ():  # only probes have parameters
            with np.errstate(all="ignore"):
                shares = (width_of(output, dtype) / np.abs(output.compared)).reshape(-1)
            shares = shares[:: len(shares) // _FLOORS + 1]
            self._replay.floors[dtype] += shares[np.isfinite(shares)].tolist()
        return found

    def compared(self, bits: Bits) -> Comparison:
        """Return the comparison of outputs with the replay."""
        wanted, rows = self.replays, [*self._replay.rows]
        outputs = zip(self.case.outputs.values(), bits, strict=True)
        arrays = [from_bits(each, of.dtype, of.layout.shape)[rows or ...] for of, each in outputs]
        arrays = [each.astype(np.float64) if each.dtype.kind not in "iub" else each for each in arrays]
        names = [*self.case.outputs]
        return NOTHING if wanted is None else compared(wanted, arrays, dtype_of(self.case), names, rows)

    def check(self, query: Query) -> OutputCheck:
        if query not in self.known:
            found = self.compared(query[1])
            result: Result = "numeric" if found.wrong else "pass" if found.judged else "gave_up"
            self._replay.elements += found.judged if result == "pass" and not self.case.params else 0
            self.known[query] = ReplayCheck(next(iter(self.case.outputs)), result, None, found.ratio, found=found)
        return super().check(query)

    def decided(self, contract: Contract) -> Mapping[str, bool]:
        named = zip(self.case.outputs, self.replays or (), strict=False)
        return {name: judged_in(each, dtype_of(self.case)) > 0 for name, each in named if each.value.size}


def dtype_of(case: Case) -> str:
    """Return the dtype of the floats in a case."""
    return next(iter(case.inputs.values())).dtype


def _dtype(name: str, torch: str) -> str:
    if torch not in SPELLED:
        raise ReplayError(f"its output {name} is of {torch}, which is not compared")
    return SPELLED[torch].name


def compared(
    wanted: Sequence[Replayed], returned: Sequence[NDArray[Any]], dtype: str, names: Sequence[str] = (),
    rows: Sequence[int] = (),
) -> Comparison:  # fmt: skip
    """Return the comparison of a kernel's outputs, in this dtype, with the replayed ones. If they are only these `rows`
    of larger outputs, the text gives places in the larger ones."""
    if len(returned) != len(wanted):
        return Comparison(f"returned {counted(len(returned), 'output')}, where the reference has {len(wanted)}")
    judged, ratio = 0, 0.0
    for at, (got, one) in enumerate(zip(returned, wanted, strict=True)):
        output = names[at] if names else f"output {at}" if len(wanted) > 1 else "the output"
        if got.shape != one.value.shape:
            shapes = f"{list(got.shape)}, where the reference has {list(one.value.shape)}"
            return Comparison(f"{output} has the shape {shapes}")
        if one.equation is not None and not rows:
            judged += judged_in(one, dtype)
            said, worst = one.equation.wrong(returned, FORMATS[dtype])
            if said:
                words = f"{PHRASES[Verdict.FAIL_NUMERIC]}\n    {output}: {said}"
                return Comparison(words, judged, worst, (output, "", "", f"{one.equation.limit:g}"))
            ratio = max(ratio, worst)
            continue
        if one.exact is not None:
            judged += int(one.settled.sum())
            if (unequal := wrong_in(one, got, dtype)).any():
                return _unequal(output, got, _exact(one, dtype), unequal, judged)
            continue
        judged += judged_in(one, dtype)
        got, share = got.astype(np.float64), _share(one, got.astype(np.float64), dtype)
        if (wrong := ~(share <= 1.0)).any():
            return _worst(output, got, one, width_of(one, dtype), np.where(wrong, share, -1.0), judged, rows)
        ratio = max(ratio, float(share.max(initial=0.0)))
    return Comparison("", judged, ratio)


def _exact(one: Replayed, dtype: str) -> NDArray[Any]:
    assert one.exact is not None
    return one.exact if one.whole else rounded(one.exact, dtype).astype(np.float64)


def _share(one: Replayed, got: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return the errors of elements, divided by the allowed ones; 0 where nothing is judged."""
    must, values = one.compared, got if one.places is None else one.places.elements(got)
    known = _known(one, dtype)
    with np.errstate(all="ignore"):
        far = np.abs(values - must)
        share = np.where(known & (far != 0.0), far / width_of(one, dtype), 0.0)
        if one.moved:  # a selection keeps NaN and infinities
            same = (values == must) | (np.isnan(values) & np.isnan(must))
            share = np.where((one.allowed == 0.0) & ~known & ~same, math.inf, share)
    if one.places is not None:
        late = one.places.first & known & (far == 0.0) & (got != one.value)
        share = np.where(late | ~one.places.exist(got), math.inf, share)
    return share


def wrong_in(one: Replayed, got: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """Return the mask of wrong elements of an output that no equation judges."""
    if one.exact is None:
        return np.asarray(~(_share(one, got.astype(np.float64), dtype) <= 1.0))
    must = _exact(one, dtype)
    return np.asarray(one.settled & (got != must) & ~((got != got) & (must != must)))


def matching(
    one: Replayed, got: NDArray[Any], other: NDArray[Any], dtype: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the masks of elements that are as another reference than the replayed one says, and of those in which the
    two differ clearly. Where they hardly differ, an element must be right."""
    wrong, exact = wrong_in(one, got, dtype), one.exact is not None or one.whole
    other = other if exact or one.places is not None else rounded(other, dtype).astype(np.float64)
    other = rounded(other, dtype).astype(np.float64) if exact and not one.whole else other
    same = (got == other) | ((got != got) & (other != other))
    if exact or one.places is not None:
        differs = wrong_in(one, other, dtype)
        return np.asarray(same | (~wrong & ~differs)), differs
    with np.errstate(all="ignore"):
        away = np.abs(other - one.value)
        differs = wrong_in(one, other, dtype) & ~(away <= _APART * width_of(one, dtype))
        near = np.abs(got - other) <= away * _NEARER
    return np.asarray(np.where(differs, same | near, ~wrong | (wrong_in(one, other, dtype)))), differs


def _unequal(output: str, got: NDArray[Any], must: NDArray[Any], wrong: NDArray[Any], judged: int) -> Comparison:
    """Return the comparison of integers that are not all equal, with the first one that is wrong."""
    at = np.unravel_index(int(np.argmax(wrong)), got.shape)
    place, is_got, value = f"{output}[{', '.join(str(int(each)) for each in at)}]", str(got[at]), str(must[at])
    count = f"{int(wrong.sum()):,} of {counted(got.size, 'element is', 'elements are')} wrong"
    words = f"{PHRASES[Verdict.FAIL_NUMERIC]}\n    {place} = {is_got}, must be {value}; {count}"
    return Comparison(words, judged, math.inf, (place, is_got, value, "0"))


def judged_in(one: Replayed, dtype: str) -> int:
    """Return the number of judged elements of an output in this dtype."""
    if one.equation is not None:
        return one.equation.judged(FORMATS[dtype], one.value.size)
    if one.exact is not None:
        return int(one.settled.sum())
    known = _known(one, dtype)
    most = np.abs(one.compared[known]).max(initial=0.0) / _CLEAR + 4 * SINGLE.tiny
    same = one.moved & ~known & (one.allowed == 0.0)  # a selection keeps NaN and infinities
    return int((width_of(one, dtype)[known] <= most).sum()) + int(same.sum())


def _known(one: Replayed, dtype: str) -> NDArray[np.bool_]:
    """Return the mask of elements that are finite and do not overflow in this dtype."""
    found = np.isfinite(one.compared) & np.isfinite(one.allowed)
    return found & (one.whole | (np.abs(one.compared) + one.allowed < FORMATS[dtype].limit))


def width_of(one: Replayed, dtype: str) -> NDArray[Any]:
    """Return the allowed errors of elements in this dtype, with its rounding."""
    if one.whole:
        return one.allowed
    must, form = one.compared, FORMATS[dtype]
    return one.allowed + form.u * (np.abs(np.where(np.isfinite(must), must, 0.0)) + one.allowed) + form.eta / 2


def _worst(
    output: str, got: NDArray[Any], one: Replayed, width: NDArray[Any], share: NDArray[Any], judged: int,
    rows: Sequence[int],
) -> Comparison:  # fmt: skip
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(share), np.inf, share))), got.shape)
    value, far = float(one.value[at]), float(width[at])
    told = [int(each) for each in at]
    told[:1] = [rows[each] for each in told[:1]] if rows else told[:1]
    place, is_got = f"{output}[{', '.join(map(str, told))}]", f"{float(got[at]):.8g}"
    others = f"{value - far:.8g} to {value + far:.8g}" if one.places is None else "another place of as much"
    is_only = one.places.first if one.places is not None else not math.isfinite(value) or far == 0.0
    others = "" if is_only else f" (or {others})"
    wrong = f"{int((share != -1.0).sum()):,} of {counted(got.size, 'element is', 'elements are')} wrong"
    words = f"{PHRASES[Verdict.FAIL_NUMERIC]}\n    {place} = {is_got}, must be {value:.8g}{others}; {wrong}"
    return Comparison(words, judged, float(share[at]), (place, is_got, f"{value:.8g}", f"{far:.3g}"))
