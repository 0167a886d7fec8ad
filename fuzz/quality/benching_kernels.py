"""What `kernelfuzz bench kernels` does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fuzz.adapters.c_target import CTarget
from fuzz.adapters.pack import built_in, load
from fuzz.adapters.python_target import PythonTarget
from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.cli.exits import Exit
from fuzz.quality.speed.timing import ITEMSIZES, Shape, Timing
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import environment
from fuzz.report.totals import not_run_lines
from fuzz.transport.fork_server import environment as worker_environment
from fuzz.uses.starting import select_targets

_BASELINE = "composed"
"""the C kernel that the others are measured beside."""
_COMPILERS = 16


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz bench kernels`."""

    op: str
    targets: tuple[str, ...]
    keyword: str | None
    pack: Path | None
    json: Path | None
    rows: tuple[int, ...]
    lengths: tuple[int, ...]
    dtypes: tuple[str, ...]


def bench_kernels(request: Request) -> Exit:
    """Measure the targets that can be: C kernels of rms_norm on this processor, Python kernels on a GPU."""
    unknown = [dtype for dtype in request.dtypes if dtype not in ITEMSIZES]
    if unknown:
        raise UsageError(f"--dtype {unknown[0]}: kernels are measured in {', '.join(ITEMSIZES)}")
    pack = load(request.pack or built_in())
    chosen = select_targets(pack.kernels, request.op, request.targets or ("c-*@native", "triton@cuda"), request.keyword)
    missing = {target.id: reason for target in chosen if (reason := target.unavailable()) is not None}
    for line in not_run_lines(missing):
        console.progress().print(line, style="yellow")
    here = [target for target in chosen if target.id not in missing]
    native = [target for target in here if _is_measured(target)]
    cuda = [target for target in here if isinstance(target, PythonTarget) and target.device == "cuda"]
    if not native and not cuda:
        raise UsageError("nothing to measure: C kernels are measured for rms_norm, native, -O2; Python kernels on cuda")
    record: dict[str, Any] = {"environment": environment()}
    if native:
        record["native"] = _native(native, request)
    if cuda:
        record["cuda"] = _cuda(cuda, request)
    if request.json is not None:
        request.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return Exit.OK


def _is_measured(target: Target) -> bool:
    native = isinstance(target, CTarget) and not target.emulated and target.opt == "O2"
    return native and target.kernel.op == "rms_norm" and "f32" in target.kernel.capabilities.dtypes


def _native(targets: Sequence[Target], request: Request) -> list[dict[str, Any]]:
    from fuzz.quality.speed import native

    measured = [target for target in targets if isinstance(target, CTarget)]
    with console.progress().status(f"Measuring {len(measured)} kernels on one core ..."):
        timings = list(native.time_native(measured, request.lengths or native.LENGTHS))
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


def _is_baseline(name: str, beside: str) -> bool:
    """The plain composition, built by the same compiler."""
    return name.startswith(f"c-{_BASELINE}@") and name.partition(":")[2] == beside.partition(":")[2]


def _cuda(targets: Sequence[PythonTarget], request: Request) -> dict[str, Any]:
    import torch

    from fuzz.quality.speed import cuda

    shapes = _shapes(targets, request, request.rows or cuda.ROWS, request.lengths or cuda.LENGTHS)
    _compile(targets, shapes, request.pack)
    kernels, copy, timings = cuda.load(targets), cuda.copy_bandwidth(torch), []
    for op in dict.fromkeys(shape.op for shape in shapes):
        beside = cuda.peers_of(torch, op)
        of_op = {target.id: kernels[target.id] for target in targets if target.kernel.op == op}
        for shape in (shape for shape in shapes if shape.op == op):
            timings += list(cuda.time_shape(torch, shape, of_op, beside))
            torch.cuda.empty_cache()
    out = console.results()
    print_table(PlainTable(("op", "dtype", "rows", "n", "kernel", "us", "GB/s", "of copy", "eager/it", "compile/it"),
                           list(_lines(timings, copy))), markdown=False)  # fmt: skip
    device = torch.cuda.get_device_name()
    out.print(f"\n{device}, which copies {copy:,.0f} GB/s; times are of the device, in graphs of many calls")
    return {"device": device, "copy": copy, "timings": [_recorded(timing) for timing in timings]}


def _shapes(
    targets: Sequence[PythonTarget], request: Request, rows: Sequence[int], lengths: Sequence[int]
) -> list[Shape]:
    ops = dict.fromkeys(target.kernel.op for target in targets)
    return [Shape(op, dtype, m, n) for op in ops for dtype in request.dtypes for m in rows for n in lengths]


def _compile(targets: Sequence[PythonTarget], shapes: Sequence[Shape], pack: Path | None) -> None:
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
            beside = (_ratio(found, EAGER, timing), _ratio(found, COMPILED, timing))
            yield (*where, f"{timing.seconds * 1e6:.1f}", f"{speed:,.0f}", f"{speed / copy:.1%}", *beside)


def _ratio(found: Mapping[str, Timing], peer: str, timing: Timing) -> str:
    return "" if timing.who == peer else f"{found[peer].seconds / timing.seconds:.2f}x"


def _recorded(timing: Timing) -> dict[str, Any]:
    return {**asdict(timing.shape), "who": timing.who, "seconds": timing.seconds if timing.ran else None}
