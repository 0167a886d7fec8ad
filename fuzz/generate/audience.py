"""For whom cases are made, beside the kernels' own declarations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuzz.case import ITEMSIZE
from fuzz.execute.accept import Taker
from fuzz.kernel import Capabilities
from fuzz.op import OPS

_DTYPES = ("f32", "f16", "bf16", "f64")


def anything(op: str) -> Taker:
    """One who takes all that the op allows."""
    spec = OPS[op]
    assert {*_DTYPES} == {*ITEMSIZE}
    return Taker(
        op,
        Capabilities(
            dtypes=_DTYPES,
            axis="any",
            strides="any",
            aliases=spec.aliases,
            takes=tuple(operand.name for operand in spec.operands if operand.optional),
            mixed=tuple((operand.name, _DTYPES) for operand in spec.operands if operand.name != "x"),
            offset=True,
            weight_rows=any(operand.stackable for operand in spec.operands),
        ),
    )


def trespasser(audience: Sequence[Taker]) -> Taker | None:
    """One who takes every dtype, axis and layout, where some kernel promises to reject what it does not take.

    What such a kernel cannot hear of, such as a weight that it has no argument for, is not invalid: it is impossible.
    """
    strict = [taker for taker in audience if taker.able.outside == "rejects"]
    if not strict:
        return None
    able = replace(strict[0].able, dtypes=_DTYPES, axis="any", strides="any", aliases=OPS[strict[0].op].aliases)
    return replace(strict[0], able=replace(able, max_n=None, multiple_of=1, alignment=1, mixed=()))
