"""How fast kernels are, as ratios within one run to what they are to be faster than."""

from __future__ import annotations

import json
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
from fuzz.quality.speed import ITEMSIZES, Shape, Timing
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
    native = [target for target in here if _is_measured(target)]
    cuda = [target for target in here if target.name.place == "cuda"]
    if not native and not cuda:
        raise UsageError("nothing to measure: C kernels are measured for rms_norm, native, -O2; Python kernels on cuda")
    record: dict[str, Any] = {}
    if native:
        record["native"] = _native(native, options.n)
    if cuda:
        record["cuda"] = _cuda(cuda, dtypes, options)
    write_record(options.json, record)
    return Exit.OK


def _is_measured(target: Target) -> bool:
    native = (target.name.kind, target.name.place, target.name.opt) == ("c", "native", "O2")
    return native and target.kernel.op == "rms_norm" and "f32" in target.kernel.able.dtypes


def _native(targets: Sequence[Target], lengths: Sequence[int]) -> list[dict[str, Any]]:
    from fuzz.quality.speed import native

    with console.progress().status(f"Measuring {len(targets)} kernels on one core ..."):
        timings = list(native.time_native(targets, lengths or native.LENGTHS))
    out, rows = console.results(), []
    for timing in timings:
        slow = [t.seconds for t in timings if t.shape == timing.shape and _is_baseline(t.who, timing.who)]
        ratio = f"{slow[0] / timing.seconds:.1f}x" if slow and timing.ran else "-"
        speed = f"{timing.gigabytes_per_second:.1f}" if timing.ran else "-"
        each = f"{timing.seconds / timing.shape.rows * 1e9:,.0f}" if timing.ran else "-"
        rows.append((timing.who, str(timing.shape.n), each, speed, ratio))
    print_table(PlainTable(("target", "n", "ns a row", "GB/s", f"{_BASELINE}/it"), rows), markdown=False)
    fastest = "avx512" if any("avx512" in timing.who for timing in timings) else "avx2"
    out.print(f"\none core, f32, {native.ROWS} rows a call, every call on rows that 64 MiB of others came between; ")
    out.print(f"the widest instruction set of this processor that was asked for is {fastest}")
    return [_recorded(timing) for timing in timings]


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
    print_table(PlainTable(("op", "dtype", "rows", "n", "kernel", "us", "GB/s", "of copy", "eager/it", "compile/it"),
                           list(_lines(timings, copy))), markdown=False)  # fmt: skip
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
    from fuzz.quality.speed.cuda import COMPILED, EAGER

    by_shape: dict[Shape, dict[str, Timing]] = {}
    for timing in timings:
        by_shape.setdefault(timing.shape, {})[timing.who] = timing
    for shape, found in by_shape.items():
        for who, timing in found.items():
            where = (shape.op, shape.dtype, f"{shape.rows}", f"{shape.n}", who)
            if not timing.ran:
                continue
            speed = timing.gigabytes_per_second
            ratios = (_ratio(found, EAGER, timing), _ratio(found, COMPILED, timing))
            yield (*where, f"{timing.seconds * 1e6:.1f}", f"{speed:,.0f}", f"{speed / copy:.1%}", *ratios)


def _ratio(found: Mapping[str, Timing], peer: str, timing: Timing) -> str:
    return "" if timing.who == peer else f"{found[peer].seconds / timing.seconds:.2f}x"


def _recorded(timing: Timing) -> dict[str, Any]:
    return {**asdict(timing.shape), "who": timing.who, "seconds": timing.seconds if timing.ran else None}
