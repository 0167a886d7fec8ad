"""The judgement of the stored outputs of ONNX's tests: exactly, by a formula, or by a replay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from fuzz.core.base.errors import error_line
from fuzz.quality.asking import all_asked
from fuzz.quality.onnx_nodes.cases import EXACT, NodeAnswer, NodeCase
from fuzz.quality.onnx_nodes.conversions import CONVERSIONS, TELLS_KIND, stored
from fuzz.quality.onnx_nodes.formulas import FORMULAS, LOOPS, TAKES_INTEGERS, VALUES
from fuzz.quality.onnx_nodes.moves import MOVES, Function
from fuzz.references.parameters import with_names
from fuzz.tasks.comparison import RIGHT, WRONG, JudgedCall, effect
from oracles.dtypes import NARROW, SPELLED

_LIMIT_S = 20.0
"""The most seconds for one test; if its formula takes longer to read, it is replayed."""
_CASTS = frozenset(("saturate", "round_mode"))


def all_answers(cases: Sequence[NodeCase], jobs: int) -> Iterator[NodeAnswer]:
    """Yield the answers about tests, each found in a process of its own."""
    known, late = {each.name: each for each in cases}, list[str]()

    def asked(name: str, unread: str = "") -> Iterator[NodeAnswer]:
        yield answer(known[name], unread)

    for each in all_asked([*known], asked, jobs, _LIMIT_S):
        late += [each.name] if each.ended else []
        yield from () if each.ended else each.found
    for each in all_asked(late, partial(asked, unread="takes too long to read"), jobs, _LIMIT_S):
        yield each.found[0] if each.found else replace(_started(known[each.name]), said=each.ended)


def _started(case: NodeCase) -> NodeAnswer:
    given, returned = (
        ", ".join(dict.fromkeys(str(getattr(each, "dtype", "?")) for each in some if each is not None))
        for some in (case.inputs, case.outputs.values())
    )
    floats = any(_is_float(each) for each in case.outputs.values())
    return NodeAnswer(case.name, case.op, f"{given} to {returned}", floats, others=len(case.others))


def answer(case: NodeCase, unread: str = "") -> NodeAnswer:
    """Return the answer about a test. `unread` says why its formula must not be read."""
    found = _started(case)
    values = [each for each in (*case.inputs, *case.outputs.values()) if each is not None]
    if not all(isinstance(each, np.ndarray) for each in values):
        return replace(found, said="is of sequences or optional values")
    if any(each.dtype.kind in "OSUT" for each in values):
        return replace(found, said="is of strings")
    if any(type(each).__name__ == "GraphProto" for each in case.attributes.values()):
        return replace(found, said="has a graph as attribute")
    rounds_once = {**MOVES, **CONVERSIONS}
    function = rounds_once.get(case.op) or FORMULAS.get(case.op)
    if function is None:
        return replace(found, said=_OPEN.get(case.op, "has no function here"))
    try:
        if case.op in rounds_once or not found.floats:
            wrong = _difference(case, function)
            return replace(found, by=EXACT, result=WRONG if wrong else RIGHT, said=wrong)
        if max(each.ndim for each in values) > _MOST_AXES:
            unread = "has too many axes"
        return _by_formula(found, case, function, unread or ("is a loop" if case.op in LOOPS else ""))
    except Exception as error:  # of a function that was not made for such a test
        return replace(found, said=f"raises {error_line(error)}")


_OPEN = {"Bernoulli": "draws at random"}
_MOST_AXES = 5
"""Formulas of more are not read, which takes gigabytes."""


def _is_float(value: Any) -> bool:
    return "float" in str(getattr(value, "dtype", ""))


def _wide(value: Any) -> Any:
    """Return an array as a tensor of float64, int64 or bool, which has the same values."""
    if value is None:
        return None
    kind = np.float64 if _is_float(value) else bool if value.dtype == bool else np.int64
    return torch.from_numpy(np.array(value.astype(kind)))


def _difference(case: NodeCase, function: Function) -> str:
    """Return the text about the first stored element that is not the exact one, rounded once; "" if all are."""
    if case.op == "BitCast":
        return "" if case.inputs[0].tobytes() == case.outputs[0].tobytes() else "output 0: has other bits"
    told: dict[str, Any] = {"kind": str(case.outputs[0].dtype)} if case.op in TELLS_KIND else {}
    if case.op == "Split":
        told = {"num_outputs": len(case.outputs)}
    found = function(*map(_wide, case.inputs), **{**told, **case.attributes})
    every = found if isinstance(found, (tuple, list)) else [found]
    how = {name: each for name, each in case.attributes.items() if name in _CASTS}
    for at, have in case.outputs.items():
        exact = np.asarray(every[at])
        if exact.shape != have.shape:
            return f"output {at}: shape {[*have.shape]}, must be {[*exact.shape]}"
        wide = np.float64 if _is_float(have) else have.dtype if have.dtype.kind in "biu" else np.int64
        must, got = stored(exact, have.dtype, **how).astype(wide), have.astype(wide)
        wrong = (must != got) & ~((must != must) & (got != got))
        if wrong.any():
            place = tuple(int(each) for each in np.argwhere(wrong)[0])
            words = f"output {at}{[*place]} = {got[place]}, must be {must[place]}"
            return f"{words} ({exact[place]}); {wrong.sum()} of {wrong.size} wrong"
    return ""


def _by_formula(found: NodeAnswer, case: NodeCase, function: Function, unread: str) -> NodeAnswer:
    given = {f"x{at}": _tensor(each) for at, each in enumerate(case.inputs) if each is not None}
    values = [*given.items()][: VALUES.get(case.op)]
    read = {name: x for name, x in values if x.is_floating_point() or case.op in TAKES_INTEGERS}

    def called(**own: Any) -> Any:
        every = {**given, **own}
        found = function(*(every.get(f"x{at}") for at in range(len(case.inputs))), **case.attributes)
        some = [(found if isinstance(found, (tuple, list)) else [found])[at] for at in case.outputs]
        return tuple(some) if len(some) > 1 else some[0]

    returned = tuple(map(_tensor, case.outputs.values()))
    dtype = SPELLED[str(next(x for x in returned if x.is_floating_point()).dtype).removeprefix("torch.")].name
    several = dtype in NARROW and bool(case.others)  # ONNX says of which operators it consists, each of which rounds
    reference, outputs = with_names(called, [*read], case.name), returned if len(returned) > 1 else returned[0]
    try:
        call = JudgedCall.of(reference, read, outputs, (), dtype, steps_round=several, read=unread or None)
    except Exception as error:  # of a reader that was made for other functions
        if unread:
            raise
        return _by_formula(found, case, function, error_line(error))
    if call.task is not None and len(returned) == 1:
        wider, tight = effect(call.task, case.atol, case.rtol)
        found = found if math.isnan(wider) else replace(found, wider=wider, tight=tight)
    return replace(found, by=call.by, result=call.result, said=call.said, unread=call.unread)


def _tensor(value: Any) -> Any:
    if str(value.dtype) == "bfloat16":
        return torch.from_numpy(value.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(value))
