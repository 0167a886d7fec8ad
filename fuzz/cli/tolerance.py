"""`kernelfuzz tolerance`: the tolerance that correct kernels need, and what it lets through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import declared_kernels, pack_words
from fuzz.core.base.text import counted

if TYPE_CHECKING:
    from oracles.op import Op

_MOST = 1 << 28
"""The most terms in a step of the formula: more would take minutes, and gigabytes of memory."""


@dataclass(frozen=True)
class ToleranceOptions:
    """The options of `kernelfuzz tolerance`."""

    op: Annotated[str, typer.Argument(help="An op, see kernelfuzz list ops.", show_default=False)]
    dtype: Annotated[str, typer.Option("--dtype", metavar="f64|f32|f16|bf16", help="Dtype of the inputs.")] = "f32"
    n: Annotated[int, typer.Option("--n", min=1, help="Elements in a row of the first input.")] = 4096
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of rows of normal values to look at.")] = 32
    extent: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="NAME=N",
            help="Extent of another dimension, see kernelfuzz list ops: j=4096 keys of attention. Repeatable.",
        ),
    ] = ()
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False
    pack: options.PackFolder = None


def tolerance(options: ToleranceOptions) -> Exit:
    """Say which tolerance a correct kernel needs, compared with those of assert_close and allclose.

    No kernel is run: the numbers follow from the exact result and from how far rounding can move a result.

    For example: kernelfuzz tolerance softmax --dtype bf16 --n 4096
    """
    import shlex

    from fuzz.campaign import tolerance as figures
    from fuzz.core.base.errors import UsageError
    from fuzz.core.base.validity import unknown_op
    from fuzz.report import console
    from oracles.ops import OPS

    kernels = declared_kernels(options.pack)
    if options.op not in OPS:
        computes = next((kernel.op for kernel in kernels if kernel.name == options.op), "")
        typed = shlex.join(["kernelfuzz", "tolerance", computes, *pack_words(options.pack)])
        said = f"{options.op} is a kernel, and its op is {computes}: {typed}"
        raise UsageError(said if computes else unknown_op(repr(options.op)))
    if options.dtype not in figures.DTYPES:
        raise UsageError(f"--dtype {options.dtype}: it is one of {', '.join(figures.DTYPES)}")
    op = OPS[options.op]
    extents = _extents(op, options.extent)
    work = figures.ordinary_draw(op, options.n, options.rows, {}, figures.SEED, (), extents).work
    if work > _MOST:
        raise UsageError(f"{work:,} terms are more than the {_MOST:,} that there is time for: name fewer --rows")
    found = tuple(figures.needs(op, options.dtype, options.n, options.rows, extents=extents))
    if options.json:
        print(figures.record_text(options.op, options.dtype, options.n, options.rows, extents, found))
        return Exit.OK
    out = console.results()
    sizes = "".join(f", {dim} = {size:,}" for dim, size in extents.items())
    rows = counted(options.rows, "row")
    out.print(f"{options.op} in {options.dtype}: {rows} of {counted(options.n, 'normal value')}{sizes}")
    for each in found:
        out.print()
        console.print_table(figures.tolerance_table(each), markdown=False)
        console.print_lines(out, figures.tolerance_lines(each))
    if not found:
        out.print("no output of it has numbers that rounding could change: compare exactly")
    return Exit.OK


def _extents(op: Op, said: tuple[str, ...]) -> Mapping[str, int]:
    """Return the extents by dimension. Raises UsageError for a text that is no extent."""
    from fuzz.core.base.errors import UsageError

    first = next((dim for dim in op.inputs[0].axes if dim != op.row), "")
    known = [dim for dim in op.named if dim not in {op.row, first, *op.fixed}]
    found = dict[str, int]()
    for each in said:
        dim, _, size = each.partition("=")
        if dim not in known:
            others = (
                f"{op.name} has {', '.join(known)}" if known else f"{op.name} has no other than those of --n and --rows"
            )
            raise UsageError(f"--extent {each}: {others}")
        if not size.isdigit() or int(size) == 0:
            raise UsageError(f"--extent {each}: write a number of at least 1, {dim}=4096")
        found[dim] = int(size)
    return found
