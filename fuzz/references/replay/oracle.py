"""The judge of a task whose reference no formula is read from. Its op is one in form alone: it has names and dtypes for
workers, and what outputs must be is found by running the reference."""

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
from fuzz.core.base.case import Case, Origin, Output, Tensor, contiguous
from fuzz.core.base.dtypes import NUMPY_DTYPE, from_bits, quantise
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.core.judge.values import ORACLES, Bits, CaseOracle, Query
from fuzz.core.laws.registry import Entry, with_twins
from fuzz.references.dims import first_of
from fuzz.references.replay.cases import REPLAYED, Came, Meant, ReplayCase, ReplayError
from fuzz.references.rerun import Replayed
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
"""The shape and the dtype of each output, as torch calls that."""
ABLE = Capabilities(dtypes=REPLAYED)
NOTHING_PROMISED = Contract(platform="none")
"""Kernels are not judged by a formula, to which a contract could apply."""
SPARE = "spare"
"""An input of one float that no kernel is given: an op must have one that has dimensions."""
_CLEAR = 16
"""An element counts as judged where less than this part of the largest one of its output is allowed: by what is random
in a reference its replays differ by as much as it is."""


@dataclass(frozen=True)
class Comparison:
    """What is said of the outputs of a case."""

    wrong: str
    """What is wrong with them; "" if nothing is."""
    judged: int = 0
    """How many elements are judged."""
    ratio: float = 0.0
    """The largest error, as a share of what is allowed."""
    place: tuple[str, str, str, str] | None = None
    """The place of the worst element that is wrong, what it is and must be, and how far it may be off."""


NOTHING = Comparison("")
"""What is said of outputs of which nothing is known."""


def op_of(meant: Meant, name: str, seed: int) -> Op:
    """Return the op, with the outputs that the first case of a seed has. Each axis of its inputs is a dimension of its
    own: shapes are said by cases. Where no float has dimensions, its first input is a `SPARE` one. Its formula only has
    the form of one: nothing is judged by it. Raises ReplayError."""

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
        are_places = dtype in INDICES and (meant.own is not None or meant.spans[each].high is None)
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
    """Return a case as workers are given it: all tensors are contiguous."""
    inputs = dict[str, Tensor]()
    for each in op.inputs:
        array = case.arrays.get(each.name, np.zeros(1))
        dtype = case.dtype if array.dtype.kind == "f" else each.dtype
        values = quantise(array, dtype) if dtype in FORMATS else array.astype(NUMPY_DTYPE[dtype])
        inputs[each.name] = Tensor(dtype, contiguous(array.shape), values.tobytes())
    made = {name: Output(_dtype(name, dtype), contiguous(shape)) for name, (shape, dtype) in outputs.items()}
    return Case(op.name, {}, inputs, made, origin=Origin("replay", "contiguous", seed, number, shard=0))


def arrays_of(case: Case) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return what a case holds for its reference, floats as float64."""
    inputs = {name: each for name, each in case.inputs.items() if name != SPARE}
    found = {name: from_bits(each.bits, each.dtype, each.layout.shape) for name, each in inputs.items()}
    return {name: each.astype(np.float64) if case.inputs[name].dtype in FORMATS else each.copy()
            for name, each in found.items()}  # fmt: skip


@dataclass(frozen=True)
class ReplayCheck(OutputCheck):
    """The judgement of outputs by a replay."""

    found: Comparison = NOTHING
    """What they come to, in words too."""


@dataclass
class Replay:
    """A reference that judges a task in place of a formula, and what was seen of the cases that were drawn for it."""

    meant: Meant
    op: Op
    recipes: list[Mapping[str, str]] = field(default_factory=list)
    """What the inputs of each case were drawn from, by the number of the case, which begins at 1."""
    came: Came = field(default_factory=Came)
    floors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By dtype, the error of an element, as a share of it, that is just allowed."""
    elements: int = 0
    """How many elements were judged of outputs that passed."""
    rows: Sequence[int] = ()
    """The rows of outputs that are compared; all where none is named."""

    def __post_init__(self) -> None:
        ORACLES[self.op.name] = lambda case: ReplayOracle(case, self)

    def replays(self, case: Case) -> Sequence[Replayed] | None:
        """Return what the outputs of a case are, or those rows of them; None where the reference raises."""
        return self.meant.replays(arrays_of(case))

    @property
    def cases(self) -> int:
        """How many cases were drawn."""
        return len(self.recipes)

    def entries(self, session: Session, enough: Callable[[Tally], bool]) -> Iterator[list[Entry]]:
        """Draw cases until a limit of the session is reached or it is `enough`; a twin follows its case. Raises
        ReplayError."""
        seed, terms, limits, began = session.seed, session.terms, session.limits, time.monotonic()
        most, seconds = (math.inf if each is None else each for each in (limits.max_cases, limits.max_time))
        drawn = self.meant.cases(seed)
        while self.cases < most and time.monotonic() - began <= seconds and not enough(session.tally):
            each = next(drawn)
            self.came.note(each.arrays, each.dtype)
            self.recipes.append(each.recipes)
            case = case_of(each, self.meant.outputs(each), self.op, seed, self.cases)
            yield with_twins([case], terms.laws, terms.twin_one_in)

    def failure(self, case: Case, judgement: Judgement) -> ReplayFailure:
        """Return what is told of a case that a kernel gets wrong."""
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
        return ReplayFailure(case, self.recipes[case.origin.number - 1], judgement.verdict, words, found)


@dataclass(frozen=True)
class ReplayFailure:
    """A case that a kernel gets wrong."""

    case: Case
    recipes: Mapping[str, str]
    verdict: Verdict
    words: str
    found: Comparison

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of its inputs."""
        return {name: self.case.inputs[name].layout.shape for name in self.recipes}

    @property
    def text(self) -> str:
        """The shapes, and what they are drawn from."""
        words = (f"{name} {'x'.join(map(str, each)) or 'scalar'}" for name, each in self.shapes.items())
        drawn = first_of([f"{word} ({recipe})" for word, recipe in zip(words, self.recipes.values(), strict=True)])
        return f"{drawn}, {dtype_of(self.case)}"

    @property
    def record(self) -> dict[str, Any]:
        """The failure as a ruling has it."""
        place, got, expected, allowed = self.found.place or ("", "", "", "")
        return {
            "verdict": self.verdict.name, "said": self.words, "case": self.text,
            "shapes": {name: list(each) for name, each in self.shapes.items()},
            "recipes": dict(self.recipes), "dtype": dtype_of(self.case),
            "place": place, "got": got, "expected": expected, "allowed": allowed,
        }  # fmt: skip


class ReplayOracle(CaseOracle):
    """Judges outputs of one case by what its reference returns in float64, and where it rounds at random."""

    def __init__(self, case: Case, replay: Replay) -> None:
        super().__init__(case)
        self._replay = replay
        self.is_patient = replay.meant.own is not None  # extents that come with a problem may take long

    @lazy
    def replays(self) -> Sequence[Replayed] | None:
        """What the outputs are; None where the reference raises."""
        found, dtype = self._replay.replays(self.case), dtype_of(self.case)
        for output in (found or ()) if not self.case.params else ():  # the parameters are those of a probe
            with np.errstate(all="ignore"):
                shares = width_of(output, dtype) / np.abs(output.compared)
            self._replay.floors[dtype] += shares[np.isfinite(shares)].tolist()
        return found

    def compared(self, bits: Bits) -> Comparison:
        """Return what outputs come to."""
        wanted, rows = self.replays, [*self._replay.rows]
        outputs = zip(self.case.outputs.values(), bits, strict=True)
        arrays = [from_bits(each, of.dtype, of.layout.shape)[rows or ...].astype(np.float64) for of, each in outputs]
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
    """Return the dtype of the floats of a case."""
    return next(iter(case.inputs.values())).dtype


def _dtype(name: str, torch: str) -> str:
    if torch not in SPELLED:
        raise ReplayError(f"its output {name} is of {torch}, which is not compared")
    return SPELLED[torch].name


def compared(
    wanted: Sequence[Replayed], returned: Sequence[NDArray[Any]], dtype: str, names: Sequence[str] = (),
    rows: Sequence[int] = (),
) -> Comparison:  # fmt: skip
    """Compare what a kernel returned with what a reference is, tensors of that dtype. Where they are these `rows` of
    larger ones, places are told as places in those."""
    if len(returned) != len(wanted):
        return Comparison(f"returned {counted(len(returned), 'output')}, where the reference has {len(wanted)}")
    judged, ratio = 0, 0.0
    for at, (got, one) in enumerate(zip(returned, wanted, strict=True)):
        output = names[at] if names else f"output {at}" if len(wanted) > 1 else "the output"
        if got.shape != one.value.shape:
            shapes = f"{list(got.shape)}, where the reference has {list(one.value.shape)}"
            return Comparison(f"{output} has the shape {shapes}")
        must, values = one.compared, got if one.places is None else one.places.elements(got)
        known = np.isfinite(must) & np.isfinite(one.allowed)
        width = width_of(one, dtype)
        judged += judged_in(one, dtype)
        with np.errstate(all="ignore"):
            far = np.abs(values - must)
            share = np.where(known & (far != 0.0), far / width, 0.0)
            if one.moved:  # every kernel has the same NaN and infinities there
                same = (values == must) | (np.isnan(values) & np.isnan(must))
                share = np.where((one.allowed == 0.0) & ~known & ~same, math.inf, share)
        if one.places is not None:
            late = one.places.first & known & (far == 0.0) & (got != one.value)
            share = np.where(late | ~one.places.exist(got), math.inf, share)
        if (wrong := ~(share <= 1.0)).any():
            return _worst(output, got, one, width, np.where(wrong, share, -1.0), judged, rows)
        ratio = max(ratio, float(share.max(initial=0.0)))
    return Comparison("", judged, ratio)


def judged_in(one: Replayed, dtype: str) -> int:
    """Return how many elements of an output are judged, tensors of that dtype."""
    known = np.isfinite(one.compared) & np.isfinite(one.allowed)
    most = np.abs(one.compared[known]).max(initial=0.0) / _CLEAR + 4 * SINGLE.tiny
    same = one.moved & ~known & (one.allowed == 0.0)  # every kernel has the same NaN and infinities there
    return int((width_of(one, dtype)[known] <= most).sum()) + int(same.sum())


def width_of(one: Replayed, dtype: str) -> NDArray[Any]:
    """Return how far elements of that dtype may be off."""
    if one.whole:
        return one.allowed
    must = one.compared
    return one.allowed + FORMATS[dtype].u * (np.abs(np.where(np.isfinite(must), must, 0.0)) + one.allowed)


def _worst(
    output: str, got: NDArray[Any], one: Replayed, width: NDArray[Any], share: NDArray[Any], judged: int,
    rows: Sequence[int],
) -> Comparison:  # fmt: skip
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(share), np.inf, share))), got.shape)
    value, far = float(one.value[at]), float(width[at])
    told = [int(each) for each in at]
    told[:1] = [rows[each] for each in told[:1]] if rows else told[:1]
    place, is_got = f"{output}[{', '.join(map(str, told))}]", f"{float(got[at]):.8g}"
    count = int((share != -1.0).sum())
    others = f"{value - far:.8g} to {value + far:.8g}" if one.places is None else "another place of as much"
    is_only = one.places.first if one.places is not None else not math.isfinite(value)
    others = "" if is_only else f" (or {others})"
    wrong = f"{count:,} of {counted(got.size, 'element is', 'elements are')} wrong"
    words = f"wrong values\n    {place} = {is_got}, must be {value:.8g}{others}; {wrong}"
    return Comparison(words, judged, float(share[at]), (place, is_got, f"{value:.8g}", f"{far:.3g}"))
