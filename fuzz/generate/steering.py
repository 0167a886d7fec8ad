"""From a hole of the coverage to a draw that fills it."""

from __future__ import annotations

from dataclasses import replace

from fuzz.execute.accept import Taker
from fuzz.generate.coverage import Label
from fuzz.generate.draw import Draw
from fuzz.generate.freedom import dtype_pairs
from fuzz.generate.plan import plan
from fuzz.generate.shapes import LARGEST_CASE
from fuzz.generate.sketch import Sketch, fitting_n
from fuzz.op import OPS


def steer(sketch: Sketch, taker: Taker, hole: Label, turn: int) -> Draw:
    """A draw for `taker` that fills a hole; `sketch` and `turn` vary what the hole leaves open.

    Where values decide (the position of a spike) the draw only makes it likely.
    """
    kind, value = hole
    plain = replace(
        sketch, taker=taker, odd=False, n=fitting_n(taker, sketch.n), rank=2, axis=1, rows=max(1, min(sketch.rows, 17))
    )
    shaped = _shaped(plain, taker, kind, value, turn)
    shaped = replace(shaped, rows=min(shaped.rows, max(1, LARGEST_CASE // max(shaped.n, 1))))
    return plan(shaped, _wish(taker, kind, value, turn))


def _shaped(sketch: Sketch, taker: Taker, kind: str, value: str, turn: int) -> Sketch:
    """The sketch with the size, axis, eps or recipe that the hole asks for."""
    if kind == "n":
        return replace(sketch, n=int(value))
    if kind.startswith("tail of "):
        return replace(sketch, n=_with_residue(taker, int(kind.removeprefix("tail of ")), int(value), turn))
    if kind == "rows":
        return replace(sketch, rows=int(value), n=fitting_n(taker, min(sketch.n, 300)))
    if kind == "axis":
        axis, rank = (int(part) for part in value.split(" of rank "))
        return replace(sketch, rank=rank, axis=axis, rows=1 if rank == 1 else sketch.rows)
    if kind == "eps":
        return replace(sketch, eps=float(value), recipe="normal" if sketch.recipe == "ties" else sketch.recipe)
    if kind == "x recipe":
        name, *position = value.split()
        return replace(sketch, recipe=name, n=fitting_n(taker, 64 + turn % 64) if position else sketch.n)
    if kind == "memory":
        return replace(sketch, n=fitting_n(taker, max(sketch.n, 2)))  # enough to overlap in part
    if kind.endswith((" layout", " stack")):
        # Classes differ only where there are several axes of several elements.
        return replace(sketch, rank=3, axis=2, n=fitting_n(taker, max(sketch.n, 2)), rows=6)
    return sketch


def _with_residue(taker: Taker, block: int, residue: int, turn: int) -> int:
    """A row longer than the block that leaves `residue` over, and of a length that the kernel takes."""
    most = taker.able.max_n or block * (taker.able.multiple_of + 4)
    fitting = [n for n in range(block + residue, most + 1, block) if n > block and n % taker.able.multiple_of == 0][:3]
    return fitting[turn % len(fitting)] if fitting else fitting_n(taker, block + residue)


def _wish(taker: Taker, kind: str, value: str, turn: int) -> dict[str, str]:
    """What the hole asks of single tensors."""
    op = OPS[taker.op]
    if kind == "dtype":
        return {"x dtype": value}
    if kind == "offset":
        return {"weight": "yes", "offset": value}
    if kind == "alias":
        if value == "none":
            return {f"{output.name} alias": "none" for output in op.outputs}
        output, source = value.split(" in ")
        return _shared(taker, output, source, turn)
    if kind == "memory":
        one, _, other = value.split()
        wish = _shared(taker, one, other, turn)
        return {**wish, f"{one} dtype": wish[f"{other} dtype"], f"{one} alias": "none"}
    name, _, what = kind.partition(" ")
    if name not in {operand.name for operand in op.operands}:
        return {}
    wish = {name: "yes", **({op.operand(name).only_with: "yes"} if op.operand(name).only_with else {})}
    if not what:
        return {**wish, name: value}
    if what == "dtype":
        dtype, x = value.split(" for x ")
        return {**wish, **_typed(taker, name, dtype, x)}
    if what.startswith("alignment "):
        dtype = what.removeprefix("alignment ")
        fitting = [pair for pair in dtype_pairs(taker, name) if pair[0] == dtype]
        return {**wish, **_typed(taker, name, *fitting[turn % len(fitting)]), f"{name} byte": value}
    return {**wish, kind: value} if kind != "x recipe" else wish


def _typed(taker: Taker, name: str, dtype: str, x: str) -> dict[str, str]:
    """Wishes that give a tensor its dtype, where that depends on the weight's with those as well."""
    wish = {"x dtype": x, f"{name} dtype": dtype}
    if name == "dw":
        fitting = [w for w in taker.able.dtypes_of("weight", x) if dtype in taker.able.dtypes_of("dw", x, w)]
        wish["weight dtype"] = fitting[0]
    return wish


def _shared(taker: Taker, output: str, source: str, turn: int) -> dict[str, str]:
    """Wishes under which `output` can be in the memory of `source`: both there, one dtype, no overlap within it."""
    op = OPS[taker.op]
    pairs = sorted({*dtype_pairs(taker, output)} & {*dtype_pairs(taker, source)}, key=str)
    dtype, x = pairs[turn % len(pairs)]
    wish = {output: "yes", source: "yes", "x dtype": x, f"{source} dtype": dtype, f"{source} layout": "contiguous"}
    others = {f"{other.name} alias": "none" for other in op.outputs if other.name != output}
    return {**others, **wish, f"{output} alias": source}
