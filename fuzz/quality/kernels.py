"""How fast kernels are, as ratios within one run to what they are to be faster than."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.adapters.target import Target, TargetId
from fuzz.base.errors import UsageError
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.quality.speed import ITEMSIZES, Shape, Timing, native
from fuzz.quality.speed.native import RowTimes
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.report.totals import not_run_lines
from fuzz.transport.fork_server import worker_environment

_BASELINE = "composed"
"""The C kernel that the others are compared with."""
_COMPILERS = 16


@dataclass(frozen=True)
class KernelsOptions:
    """The options of `python3 -m fuzz.quality kernels`."""

    selection: options.Selection = field(default_factory=options.Selection)
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help="bf16, f16 or f32. Default: all. Repeatable.")] = ()
    rows: Annotated[
        tuple[int, ...], typer.Option("--rows", min=1, help="Rows, on a GPU. Default: 4096, 32768. Repeatable.")
    ] = ()
    n: Annotated[
        tuple[int, ...], typer.Option("--n", min=1, help="Length of a row. Default: several. Repeatable.")
    ] = ()
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None


def kernels(options: KernelsOptions) -> Exit:
    """Compare C kernels with the plain composition, and Python kernels on a GPU with torch."""
    dtypes = options.dtype or ("bf16", "f16", "f32")
    unknown = [dtype for dtype in dtypes if dtype not in ITEMSIZES]
    if unknown:
        raise UsageError(f"--dtype {unknown[0]}: kernels are measured in {', '.join(ITEMSIZES)}")
    wanted = replace(options.selection, target=options.selection.target or ("c-*@native", "triton@cuda"))
    chosen = wanted.targets(loaded(options.pack))
    missing = {target.id: reason for target in chosen if (reason := target.unavailable()) is not None}
    for line in not_run_lines(missing):
        console.progress().print(line, style="yellow")
    here = [target for target in chosen if target.id not in missing]
    in_c = [target for target in here if _is_measured(target)]
    cuda = [target for target in here if target.name.place == "cuda"]
    if not in_c and not cuda:
        raise UsageError("nothing to measure: C kernels are measured for rms_norm, native, -O2; Python kernels on cuda")
    record: dict[str, Any] = {}
    if in_c:
        record["native"] = _native(in_c, options)
    if cuda:
        record["cuda"] = _cuda(cuda, dtypes, options)
    write_record(options.json, record)
    return Exit.OK


def _is_measured(target: Target) -> bool:
    native = (target.name.kind, target.name.place, target.name.opt) == ("c", "native", "O2")
    return native and target.kernel.op == "rms_norm" and "f32" in target.kernel.able.dtypes


def _native(targets: Sequence[Target], options: KernelsOptions) -> list[dict[str, Any]]:
    with console.progress().status(f"Measuring {len(targets)} kernels on one core ..."):
        times = list(native.time_native(targets, options.n or native.LENGTHS))
    columns = ("target", "n", "hot: ns a row", "limit", "of limit", f"{_BASELINE}/it",
               "cold: ns a row", "GB/s", f"{_BASELINE}/it")  # fmt: skip
    print_table(PlainTable(columns, [_native_line(each, times) for each in times]), markdown=options.markdown)
    console.results().print(
        "\none core, f32. Hot: the same rows again and again, in the caches nearest to the core; the limit is a loop "
        "of two passes that only loads and stores, in vectors as wide. Cold: every call on rows that 64 MiB of others "
        "came between.",
        soft_wrap=True,
    )
    return [{key: None if value != value else value for key, value in asdict(each).items()} for each in times]


def _native_line(each: RowTimes, times: Sequence[RowTimes]) -> tuple[str, ...]:
    if math.isnan(each.hot):
        return (each.who, str(each.n), *["-"] * 7)
    plain = [other for other in times if other.n == each.n and _is_baseline(other.who, each.who)]
    hot, cold = (f"{plain[0].hot / each.hot:.1f}x", f"{plain[0].cold / each.cold:.1f}x") if plain else ("-", "-")
    near = (f"{each.hot * 1e9:,.1f}", f"{each.limit * 1e9:,.1f}", f"{each.of_limit:.0%}", hot)
    speed = Timing(Shape("rms_norm", "f32", 1, each.n), each.who, each.cold).gigabytes_per_second
    return (each.who, str(each.n), *near, f"{each.cold * 1e9:,.0f}", f"{speed:.1f}", cold)


def _is_baseline(name: str, measured: str) -> bool:
    """The plain composition, built by the same compiler."""
    plain, other = TargetId.parse(name), TargetId.parse(measured)
    return plain.implementation == f"c-{_BASELINE}" and (plain.compiler, plain.opt) == (other.compiler, other.opt)


def _cuda(targets: Sequence[Target], dtypes: Sequence[str], options: KernelsOptions) -> dict[str, Any]:
    import torch

    from fuzz.quality.speed import cuda

    ops = dict.fromkeys(target.kernel.op for target in targets)
    sizes = [(m, n) for m in options.rows or cuda.ROWS for n in options.n or cuda.LENGTHS]
    shapes = [Shape(op, dtype, m, n) for op in ops for dtype in dtypes for m, n in sizes]
    _compile(targets, shapes, options.pack)
    kernels, copy, timings = cuda.load(targets), cuda.copy_bandwidth(torch), []
    for op in ops:
        others = cuda.peers_of(torch, op)
        of_op = {target.id: kernels[target.id] for target in targets if target.kernel.op == op}
        for shape in (shape for shape in shapes if shape.op == op):
            timings += list(cuda.time_shape(torch, shape, of_op, others))
            torch.cuda.empty_cache()
    out = console.results()
    print_table(PlainTable(("op", "dtype", "rows", "n", "kernel", "us", "GB/s", "of copy", "eager/it", "compile/it",
                            "liger/it"),
                           list(_lines(timings, copy))), markdown=options.markdown)  # fmt: skip
    device = torch.cuda.get_device_name()
    out.print(f"\n{device}, which copies {copy:,.0f} GB/s; times are of the device, in graphs of many calls")
    return {"device": device, "copy": copy, "timings": [_recorded(timing) for timing in timings]}


def _compile(targets: Sequence[Target], shapes: Sequence[Shape], pack: Path | None) -> None:
    """In as many processes as there are processors: what is compiled is kept on disk."""
    distinct = {(shape.op, shape.dtype, shape.n): shape for shape in shapes}
    shares = [list(distinct.values())[start::_COMPILERS] for start in range(_COMPILERS)]
    waiting = []
    for share in filter(None, shares[: os.cpu_count()] if len(distinct) < _COMPILERS else shares):
        asked = {
            "pack": str(pack) if pack else None,
            "targets": [target.id for target in targets],
            "shapes": [(shape.op, shape.dtype, shape.rows, shape.n) for shape in share],
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.quality.speed"],
            stdin=subprocess.PIPE,
            text=True,
            env=worker_environment(False),
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        waiting.append(process)
    codes = [process.wait() for process in waiting]
    if any(codes):
        raise UsageError("a kernel cannot be measured; see above")


def _lines(timings: Sequence[Timing], copy: float) -> Iterator[tuple[str, ...]]:
    from fuzz.quality.speed.cuda import COMPILED, EAGER, SHIPPED

    by_shape: dict[Shape, dict[str, Timing]] = {}
    for timing in timings:
        by_shape.setdefault(timing.shape, {})[timing.who] = timing
    for shape, found in by_shape.items():
        for who, timing in found.items():
            where = (shape.op, shape.dtype, f"{shape.rows}", f"{shape.n}", who)
            if not timing.ran:
                continue
            speed = timing.gigabytes_per_second
            ratios = (_ratio(found, peer, timing) for peer in (EAGER, COMPILED, SHIPPED))
            yield (*where, f"{timing.seconds * 1e6:.1f}", f"{speed:,.0f}", f"{speed / copy:.1%}", *ratios)


def _ratio(found: Mapping[str, Timing], peer: str, timing: Timing) -> str:
    return "" if timing.who == peer or peer not in found else f"{found[peer].seconds / timing.seconds:.2f}x"


def _recorded(timing: Timing) -> dict[str, Any]:
    return {**asdict(timing.shape), "who": timing.who, "seconds": timing.seconds if timing.ran else None}
