"""Probes in the worker: ways to make a call that a correct kernel cannot tell from the usual one."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.core.base import probe as probes
from fuzz.core.base.case import Case
from fuzz.core.transport.python.arrays import Arrays
from fuzz.core.transport.python.kernel import Raised, Way
from fuzz.core.transport.python.slab import Slab

_LONG_S = 1.0
"""The longest time in seconds for which the calls before the judged one are repeated."""
_LEAST_LOOP = 4
"""The number of calls in a loop, however slow they are."""
_PAUSE_S = 0.6
"""The length of a pause, after which a clock or a device may have slowed down."""
_USER = {"HOME": "/home/user", "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash", "TERM": "xterm"}
_JUDGES = ("fuzz", "oracles", "hypothesis", "pytest")
"""The packages and variables of a judge begin so."""
_COMM = Path("/proc/self/comm")
_SLOW_CYCLES = 20_000_000
"""The length of a delay on a GPU, some 10 ms. Launching a kernel takes far less."""
_CALLING = """
def benchmark(kernel, least, most, is_late, found, failed):
    try:
        for number in range(most):
            found[:] = [kernel()]
            if number + 1 >= least and is_late():
                break
    except BaseException as error:
        failed.append(error)
"""
"""Named, like its file, after code that measures kernels, since some exploits look for such callers."""
_SCOPE: dict[str, Any] = {}
exec(compile(_CALLING, "benchmark.py", "exec"), _SCOPE)


@dataclass(frozen=True)
class Placed:
    """A case in memory, and how to call the kernel with it."""

    case: Case
    slabs: Mapping[str, Slab]
    given: Mapping[str, Any]
    """The arrays in that memory that are passed to the kernel, by name."""
    arrays: Arrays
    call: Callable[[Mapping[str, Any], Way | None], Any]
    image: Callable[[Case], Mapping[str, Slab]]
    """Returns, by tensor, slabs with another case of the same layouts, for `fill` to write over the memory."""
    elsewhere: Callable[[Case], Mapping[str, Any]]
    """Returns arrays in other memory for a case with the same layouts."""
    keep: Callable[[Any], Any]
    """Copies a tensor to memory that no later call can reach."""
    returned: Sequence[str]
    """The outputs that the kernel returns."""
    is_on_gpu: bool
    """Whether the memory is on a GPU, where calls are only queued."""

    def made(self, way: Way | None = None) -> Any:
        """Return the result of a call, or why there is none."""
        return self.call(self.given, way)

    def called(self) -> Any:
        """Return the result of the call that the probe of the case asks for."""
        return _WAYS[probes.probe_of(self.case)](self)

    def apart(self, found: Any) -> Any:
        """Return the result of a call on a GPU, with plain tensors replaced by copies unless they were arguments."""
        return _kept_apart(self, found)

    def fill(self, slabs: Mapping[str, Slab]) -> None:
        """Write the bytes of these slabs into the memory of the case without touching the arrays, which remain the same
        objects with the same version."""
        for name, slab in self.slabs.items():
            image = slabs[name].image
            slab.memory[:] = self.arrays.library.from_numpy(image) if self.is_on_gpu else image


def _as_usual(placed: Placed) -> Any:
    return placed.made()


def _overwritten(placed: Placed) -> Any:
    placed.fill(placed.image(probes.before(placed.case)))
    placed.made()
    placed.fill(placed.slabs)
    return placed.made()


def _fresh(placed: Placed) -> Any:
    earlier = placed.elsewhere(probes.before(placed.case))
    until = time.monotonic() + _LONG_S
    for _ in range(probes.CALLS):
        placed.call(earlier, None)
        if time.monotonic() > until:
            break
    found = placed.made()
    if placed.is_on_gpu:  # memory at the old address must last until then
        placed.arrays.library.cuda.synchronize()
    return found


def _by_another(placed: Placed) -> Any:
    found = placed.made(_in_a_loop)
    return _captured(placed, found) if placed.is_on_gpu else found


def _in_a_loop(call: Callable[[], Any], least: int = _LEAST_LOOP, most: int = probes.CALLS) -> Any:
    """Return the result of a call in another thread, so that nothing of this file is among its callers."""
    found, failed = list[Any](), list[BaseException]()
    until = time.monotonic() + _LONG_S
    told = call, least, most, lambda: time.monotonic() > until, found, failed
    thread = threading.Thread(target=_SCOPE["benchmark"], args=told)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _captured(placed: Placed, usual: Any) -> Any:
    """Return the outputs of the call, captured as a graph and replayed. A call that cannot be captured, because it
    waits for the GPU, is judged by its result in a loop instead. The loop has compiled the kernel and filled its
    caches, as is usual before a capture."""
    torch = placed.arrays.library
    if isinstance(usual, Raised):
        return usual
    torch.cuda.synchronize()
    kept, graph = _copies(placed, usual), torch.cuda.CUDAGraph()
    written = {name: slab.memory.clone() for name, slab in placed.slabs.items()}
    try:
        with torch.cuda.graph(graph):
            found = placed.made()
            if isinstance(found, Raised):
                raise RuntimeError(found.words)
    except Exception:  # whatever the driver says about it
        torch.cuda.synchronize()
        for name, memory in written.items():
            placed.slabs[name].memory.copy_(memory)
        return kept
    placed.fill(placed.slabs)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    return _copies(placed, found)


def _behind(placed: Placed) -> Any:
    """Return the result of a call on a side stream. The inputs arrive late and on that stream alone, and the outputs
    are read on it."""
    if not placed.is_on_gpu:
        return placed.made()
    torch, earlier = placed.arrays.library, placed.image(probes.before(placed.case))
    images = {name: torch.from_numpy(each.image).to(each.memory.device) for name, each in placed.slabs.items()}
    placed.fill(earlier)
    placed.made()  # the kernel compiles, which takes longer than the fill
    placed.fill(earlier)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(_SLOW_CYCLES)
        for name, image in images.items():
            placed.slabs[name].memory.copy_(image)
        found = _copies(placed, placed.made())
    side.synchronize()
    return found


def _paused(placed: Placed) -> Any:
    time.sleep(_PAUSE_S)
    return placed.made()


def _as_a_user(placed: Placed) -> Any:
    """Return the result of a call in a process that does not look like a judge's."""

    def way(call: Callable[[], Any]) -> Any:
        with _of_a_user():
            return _in_a_loop(call, least=1, most=1)

    return _if_taken(placed, placed.made(way))


@contextmanager
def _of_a_user() -> Iterator[None]:
    variables, words, name = {**os.environ}, (sys.argv, sys.orig_argv), ""
    modules = {each: made for each, made in sys.modules.items() if each.partition(".")[0] in _JUDGES}
    with suppress(OSError):
        name = _COMM.read_text().rstrip("\n")  # a line end that is written becomes part of the name
        _COMM.write_text("python3")
    try:
        sys.argv, sys.orig_argv = ["train.py"], ["python3", "train.py"]
        for variable in [each for each in variables if each.lower().startswith(_JUDGES) or "FUZZ" in each]:
            del os.environ[variable]
        os.environ.update({each: value for each, value in _USER.items() if each not in variables})
        for each in modules:
            del sys.modules[each]
        yield
    finally:
        sys.modules.update(modules)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv, sys.orig_argv = words
        if name:
            _COMM.write_text(name)


def _with_gradients(placed: Placed) -> Any:
    torch, how, inputs = placed.arrays.library, probes.gradients_of(placed.case), [*placed.case.inputs]
    if not hasattr(torch, "inference_mode"):
        return placed.made()
    if how not in probes.WITH_GRADIENTS[:2]:

        def way(call: Callable[[], Any]) -> Any:
            with getattr(torch, how)():
                return call()

        return _if_taken(placed, placed.made(way))
    wanted = inputs if how == probes.WITH_GRADIENTS[0] else inputs[-1:]
    given = {name: _requiring(each, name in wanted) for name, each in placed.given.items()}
    return _if_taken(placed, _detached(placed.call(given, None)))


def _in_the_other_mode(placed: Placed) -> Any:
    def way(call: partial[Any]) -> Any:
        models: list[Any] = getattr(call.func, "models", list)()
        modes = [(each, each.training) for model in models for each in model.modules()]
        try:
            for model in models:
                model.train(not model.training)
            return call()
        finally:
            for each, mode in modes:
                each.training = mode

    return placed.made(way)


def _requiring(tensor: Any, wanted: bool) -> Any:
    return tensor.detach().requires_grad_() if wanted and tensor.is_floating_point() else tensor


def _if_taken(placed: Placed, found: Any) -> Any:
    """Return the result, or that of the usual call if the kernel refuses this one, as one that writes by `out=`
    refuses inputs that require gradients."""
    if not isinstance(found, Raised):
        return found
    placed.fill(placed.slabs)
    return placed.made()


def _detached(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _detached(each) for name, each in found.items()}
    if type(found) in (tuple, list):
        return type(found)(_detached(each) for each in found)
    return found.detach() if hasattr(found, "detach") else found


def _nothing(placed: Placed) -> Any:
    """Return uninitialised arrays in place of those that the kernel would return."""
    place = {"device": "cuda"} if placed.is_on_gpu else {}
    outputs = {name: placed.case.outputs[name] for name in placed.returned}
    return {
        name: placed.arrays.library.empty(each.layout.shape, dtype=placed.arrays.dtypes[each.dtype], **place)
        for name, each in outputs.items()
    }


_WAYS: Mapping[str, Callable[[Placed], Any]] = {
    "": _as_usual,
    probes.OVERWRITE: _overwritten,
    probes.FRESH: _fresh,
    probes.CALLER: _by_another,
    probes.STREAM: _behind,
    probes.GHOST: _nothing,
    probes.PAUSE: _paused,
    probes.PROCESS: _as_a_user,
    probes.AUTOGRAD: _with_gradients,
    probes.MODE: _in_the_other_mode,
}


def _kept_apart(placed: Placed, found: Any) -> Any:
    given = {each.data_ptr() for each in placed.given.values()}
    is_plain = type(found) is placed.arrays.library.Tensor and found.layout is placed.arrays.library.strided
    if is_plain and found.is_cuda and found.data_ptr() not in given:
        return placed.keep(found)
    if type(found) is dict:
        return {name: _kept_apart(placed, each) for name, each in found.items()}
    return type(found)(_kept_apart(placed, each) for each in found) if type(found) in (tuple, list) else found


def _copies(placed: Placed, found: Any) -> Any:
    """Return copies of the returned tensors, made on the current stream."""
    if isinstance(found, placed.arrays.library.Tensor):
        return found.detach().clone()
    if isinstance(found, dict):
        return {name: _copies(placed, each) for name, each in found.items()}
    return type(found)(_copies(placed, each) for each in found) if type(found) in (tuple, list) else found
