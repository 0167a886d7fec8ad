"""The content of a standalone program: one call or several, and the allowed values of the last one's outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from fuzz.core.adapters import export
from fuzz.core.adapters.export import Allowed, Script
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.core.judge.values import problem_of
from fuzz.core.laws.law import LawCheck, unchanged
from oracles.dtypes import FORMATS, ITEMSIZE
from oracles.enclosure import REQUIRED
from oracles.formula.contract import Contract
from oracles.precise import Bounds
from oracles.truth import Truth

_MOST = 2048
"""The most elements of one output that are compared, the failing ones first, since each is calculated with high
precision."""


_LEFT = ((0.0, 0.0), (math.inf, math.inf), (-math.inf, -math.inf))
"""The values that an overflow usually leaves, besides NaN: a rule has a bit for each of them."""


def script_of(
    target: Target, case: Case, judgement: Judgement | None, law: LawCheck | None, history: tuple[Case, ...]
) -> Script:
    """Return the content of the program for a finding. Raises UsageError if no program can show it."""
    cases = (*history, case)
    if any(each.exceeds_memory for each in cases):
        raise UsageError("--script: a tensor larger than memory needs the worker's sparse mapping: use repro itself")
    if not target.kernel.shares_memory and not all(each.apart for each in cases):
        raise UsageError("--script: tensors that share memory in part are shown by a C kernel only: choose its target")
    if judgement is not None and judgement.verdict is Verdict.FAIL_PROCESS:
        raise UsageError("--script: no program shows what a call leaves changed in its process: use repro itself")
    broken = law if judgement is None or judgement.verdict is Verdict.FAIL_LAW else None
    if broken is not None:
        return _by_law(cases, broken)
    invalid = target.kernel.capability.refusal(case)
    allowed = dict[str, list[Allowed]]()
    if not invalid:
        truth = Truth(problem_of(case))
        allowed = {name: [*_allowed(truth, case, name, target.contract, judgement)] for name in case.outputs}
    hung = judgement is not None and judgement.verdict is Verdict.TIMEOUT
    return Script(cases, allowed, bool(invalid), limit_s=math.ceil(target.case_limit) * len(cases) if hung else 0)


def _by_law(cases: tuple[Case, ...], law: LawCheck) -> Script:
    case = cases[-1]
    twin = law.twin(case)
    origins: dict[str, list[int]] = {}
    if law.law.probe is not None:
        raise UsageError(
            f"--script: how the probe {law.name} calls a kernel is not written as a program: use repro itself"
        )
    if law.law.rearranges:
        origins = {name: _origins(case, name, law) for name in law.expected(case, _nothing(case))}
    elif law.law.expected is not unchanged:
        raise UsageError(f"--script: what {law.name} expects of the twin is not written as a program: use repro itself")
    return Script((*cases, twin), law=True, origins=origins)


def _origins(case: Case, name: str, law: LawCheck) -> list[int]:
    """Return for each element of the twin the flat index of the case's element from which it comes. To find it, the law
    is given numbered elements as outputs, first the low and then the high bytes of the numbers."""
    size = case.outputs[name].layout.size
    word = f"<u{ITEMSIZE[case.outputs[name].dtype]}"
    halves = []
    for numbers in (np.arange(size) % 256, np.arange(size) // 256):
        if size > 256**2:
            raise CaseError("--script: too many elements to follow rows through a law")
        outputs = {**_nothing(case), name: numbers.astype(word).tobytes()}
        halves.append(np.frombuffer(law.expected(case, outputs)[name], word).astype(np.int64))
    picked: list[int] = (halves[0] + 256 * halves[1]).tolist()
    return picked


def _nothing(case: Case) -> Mapping[str, bytes]:
    """Return outputs of zeros."""
    return {name: bytes(output.layout.size * ITEMSIZE[output.dtype]) for name, output in case.outputs.items()}


def _allowed(truth: Truth, case: Case, name: str, contract: Contract, judgement: Judgement | None) -> Iterator[Allowed]:
    """Yield the allowed values of an output, for as many elements as there is time for. Elements on which the oracle
    gives up are left out."""
    shape = case.outputs[name].layout.shape
    for flat in _chosen(case, name, judgement):
        place = truth.canonical_index(name, tuple(int(i) for i in np.unravel_index(flat, shape)))
        bounds = truth.bounds(contract, name, place, case.structured, once=True)
        if bounds is not None and _is_told(bounds):
            low, high = bounds.ends
            yield Allowed(flat, float(low), float(high), rule_bits(bounds, case.outputs[name].dtype))


def _chosen(case: Case, name: str, judgement: Judgement | None) -> list[int]:
    """Return flat indices of elements: the failing ones first, then the first ones."""
    size = case.outputs[name].layout.size
    check = judgement.worst if judgement is not None else None
    mask = check.mask if check is not None and check.output == name else None
    failing = [] if mask is None else np.flatnonzero(mask).tolist()
    return sorted(list(dict.fromkeys([*failing, *range(min(size, _MOST))]))[:_MOST])


def _is_told(bounds: Bounds) -> bool:
    """Whether two ends and the bits of a rule describe all allowed values of an element."""
    left = bounds.beside
    return left is None or left.nan == REQUIRED or (left.ends in _LEFT and not left.mirrored)


def rule_bits(bounds: Bounds, dtype: str) -> int:
    beside = bounds if bounds.beside is None else bounds.beside
    low, high = bounds.ends
    # A format without infinities has NaN in their place; if one of them is allowed, the element must be NaN.
    overflows = dtype in FORMATS and not FORMATS[dtype].infinities and low == high and abs(low) == math.inf
    bits = {
        export.POSITIVE_ZERO: bounds.sign > 0,
        export.NEGATIVE_ZERO: bounds.sign < 0,
        export.MAY_BE_NAN: bounds.may_be_nan or beside.may_be_nan,
        export.MUST_BE_NAN: bounds.nan == REQUIRED or overflows,
        export.MAY_BE_ZERO: bounds.zero or beside.zero or beside.ends == (0.0, 0.0),
        export.MAY_BE_INFINITE: beside.nan != REQUIRED and beside.ends[1] == math.inf,
        export.MAY_BE_MINUS_INFINITE: beside.nan != REQUIRED and beside.ends[0] == -math.inf,
        export.OF_EITHER_SIGN: bounds.mirrored,
    }
    return sum(bit for bit, holds in bits.items() if holds)
