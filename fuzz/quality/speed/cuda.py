"""Python kernels on a GPU, timed by its own clock: graphs of many calls, each on tensors that those before left alone.

A graph holds no work of the processor, which a small kernel would otherwise be measured by.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fuzz.adapters.build import Builder
from fuzz.adapters.python import spec_of
from fuzz.adapters.target import Target
from fuzz.quality.speed import EPS, Shape, Timing, peers
from fuzz.transport.python.arrays import torch_dtypes
from fuzz.transport.python.kernel import LoadedKernel, Raised
from oracles.operand import OUTER
from oracles.ops import OPS

ROWS = (4096, 32768)
LENGTHS = (1024, 2048, 2880, 4096, 8192, 16384)
EAGER, COMPILED, SHIPPED = "torch eager", "torch.compile", "liger-kernel"
_WORKING_SET = 400 << 20
"""This many bytes are gone through before a tensor is used again: several times what the cache of a GPU holds."""
_SETS = 24
_BUDGET_S = 0.012
_REPLAYS = 5
_WIPED_PER_S = 200e9
"""The device is surely rid of this many bytes of returned memory after a second. An H200 wipes 500 GB/s."""
_WRONG = 0.02
"""A result whose relative error, over all of an output, is beyond this is not worth timing."""

Called = Callable[[Mapping[str, Any]], object]


class SpeedError(Exception):
    """A kernel whose result is wrong, so that its time means nothing."""


def load(targets: Sequence[Target]) -> dict[str, LoadedKernel]:
    """The kernels in this process, by target."""
    specs = {target.id: spec_of(target, Builder())[0] for target in targets}
    for spec in specs.values():
        os.environ.update(spec.environment)
    return {name: LoadedKernel(spec) for name, spec in specs.items()}


def copy_bandwidth(torch: Any) -> float:
    """Gigabytes per second that the device's own copy reads and writes, the best of some sizes."""
    best = 0.0
    for size in (1 << 28, 1 << 30, 1 << 31):
        source, sink = (torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2))
        sink.copy_(source)
        seconds = statistics.median(_events(torch, partial(sink.copy_, source)) for _ in range(15))
        best = max(best, 2 * size / seconds / 1e9)
    return best


def time_shape(
    torch: Any, shape: Shape, kernels: Mapping[str, LoadedKernel], others: Mapping[str, Called]
) -> Iterator[Timing]:
    """Each of the kernels, then each of the others, on the same tensors."""
    sets = [_tensors(torch, shape, seed) for seed in range(_count(shape))]
    for name, kernel in kernels.items():
        call = caller(kernel)
        if not _takes(call, sets[0]):
            yield Timing(shape, name, float("nan"))
            continue
        _compare(torch, name, shape, sets[0])
        yield Timing(shape, name, _graph_seconds(torch, call, sets))
    for name, function in others.items():
        yield Timing(shape, name, _graph_seconds(torch, function, [_inputs(shape.op, one) for one in sets]))


def warm(torch: Any, shape: Shape, kernels: Mapping[str, LoadedKernel], others: Mapping[str, Called]) -> None:
    """Compile whatever is needed, into the caches on disk, with one call each."""
    tensors = _tensors(torch, shape, 0)
    for kernel in kernels.values():
        _takes(caller(kernel), tensors)
    for function in others.values():
        function(_inputs(shape.op, tensors))
    torch.cuda.synchronize()


def peers_of(torch: Any, op: str) -> dict[str, Called]:
    """What the kernels of an op are compared with."""
    found: dict[str, Called] = {EAGER: peers.eager(op, torch), COMPILED: peers.compiled(op, torch)}
    liger = peers.shipped(op)
    if liger is not None:
        found[SHIPPED] = liger
    return found


def caller(kernel: LoadedKernel) -> Called:
    """Calls the kernel on all tensors of a set."""
    params = {"axis": 1, **({"eps": EPS} if kernel.takes("eps") else {})}
    return lambda tensors: kernel.call(tensors, params)


def _takes(call: Called, tensors: Mapping[str, Any]) -> bool:
    """False where the kernel rejects the shape. Any other error is raised."""
    ended = call(tensors)
    if isinstance(ended, Raised) and not ended.rejected:
        raise SpeedError(ended.words)
    return not isinstance(ended, Raised)


def _count(shape: Shape) -> int:
    """Sets of tensors that are called in turn."""
    return max(1, min(_SETS, _WORKING_SET // (2 * shape.tensor_bytes)))


def _tensors(torch: Any, shape: Shape, seed: int) -> dict[str, Any]:
    """All tensors of a call: the op's own, with a weight, and the sums and gradients that training needs."""
    dtype, generator = torch_dtypes(torch)[shape.dtype], torch.Generator("cuda").manual_seed(seed)
    made: dict[str, Any] = {}
    for operand in OPS[shape.op].operands:
        if operand.name in ("dresidual", *(() if "backward" in shape.op else ("mean", "rstd"))):
            continue
        extent = OPS[shape.op].shape(operand.name, (shape.rows, shape.n), 1)
        kind = torch.float32 if operand.axes == (OUTER,) else dtype
        made[operand.name] = torch.empty(extent, dtype=kind, device="cuda").normal_(generator=generator)
    if "rstd" in made:
        made["rstd"].copy_(torch.rsqrt(made["x"].float().square().mean(-1) + EPS))
    return made


def _inputs(op: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {operand.name: tensors[operand.name] for operand in OPS[op].inputs if operand.name in tensors}


def _compare(torch: Any, name: str, shape: Shape, tensors: Mapping[str, Any]) -> None:
    """Raise SpeedError where an output is far from that of the composition on the same inputs."""
    wanted = peers.composed(shape.op, torch)(_inputs(shape.op, tensors))
    outputs = [operand.name for operand in OPS[shape.op].outputs if operand.name in tensors]
    for output, expected in zip(outputs, wanted, strict=True):
        wide = expected.float()
        off = float((tensors[output].float() - wide).norm() / wide.norm())
        if not off < _WRONG:
            raise SpeedError(f"{name}: {output} of {shape} is wrong: relative error {off:.2e}")


def _graph_seconds(torch: Any, call: Called, sets: Sequence[Mapping[str, Any]]) -> float:
    """Median seconds of a call. What calls return is kept for a round: it would share its memory otherwise."""
    for one in sets[:2]:
        call(one)
    once = max(_events(torch, lambda: call(sets[0])), 2e-6)
    rounds = max(1, min(60, int(_BUDGET_S / _REPLAYS / once)) // len(sets))
    _give_back(torch)
    graph, returned = torch.cuda.CUDAGraph(), [None] * len(sets)
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for number, one in enumerate(sets):
                returned[number] = call(one)  # type: ignore[call-overload]
    graph.replay()
    seconds = [_events(torch, graph.replay) / (rounds * len(sets)) for _ in range(_REPLAYS)]
    del returned
    return statistics.median(seconds)


def _give_back(torch: Any) -> None:
    """Free what is cached, which capturing a graph would do, and wait until the device has wiped it.

    Meanwhile a kernel that is bound by memory is a tenth slower: on an H200 for 16 ms after 8 GiB, 69 ms after 32 GiB.
    """
    held = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    time.sleep((held - torch.cuda.memory_reserved()) / _WIPED_PER_S)


def _events(torch: Any, work: Callable[[], object]) -> float:
    """Seconds between events before and after it."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
