"""Probes as laws: the same case is called in another way, which changes nothing for a correct kernel. The oracle judges
the result, and not the bits of the first call, since a kernel may add in another order each time.
`fuzz/core/base/probe.py` says how each call is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np

from fuzz.core.base import probe as probes
from fuzz.core.base.case import Case
from fuzz.core.base.dtypes import decimal, numbers
from fuzz.core.base.memory import overlaps_itself
from fuzz.core.base.probe import CALLS, WITH_GRADIENTS, before, gradients_of, place_of, probed
from fuzz.core.base.stream import Stream
from fuzz.core.laws.law import Law, Probe, has_elements
from oracles.dtypes import INTEGERS


def _by(probe: str) -> Callable[[Case, Stream], Case]:
    def twin(case: Case, stream: Stream) -> Case:
        # What autograd is asked for must not change with the shape, or changes of the shape would seem to matter.
        count = len(WITH_GRADIENTS) if probe == probes.AUTOGRAD else case.elements
        return probed(case, probe, int(stream.words(1)[0]) % count)

    return twin


def _has_input(case: Case) -> bool:
    return case.elements > 0 and has_elements(case)


def _changed(twin: Case) -> str:
    """Return words such as 'x[3] changed from 1 to 2 in place'."""
    name, element = place_of(twin)
    now, earlier = twin.inputs[name], before(twin).inputs[name]
    index = ", ".join(str(each) for each in np.unravel_index(element, now.layout.shape))
    old, new = (
        decimal(float(numbers(each.bits, each.dtype, (-1,))[element].astype(np.float64)), each.dtype)
        for each in (earlier, now)
    )
    return f"{name}[{index}] changed from {old} to {new} in place"


def _firsts(case: Case) -> Iterator[int]:
    """Yield the index of the first element of each input, among all elements of inputs."""
    return accumulate((tensor.layout.size for tensor in list(case.inputs.values())[:-1]), initial=0)


def _can_follow(case: Case) -> bool:
    return _has_input(case) and any(
        before(probed(case, probes.FRESH, at)).inputs != case.inputs for at in _firsts(case)
    )


def _is_looked_at(case: Case) -> bool:
    """Whether the probe is fair. If an input is all zeros, a kernel may rightly skip elements, which looks like a
    cache. Elements that share memory cannot be changed one by one."""
    if any(overlaps_itself(each.layout) for each in case.inputs.values()):
        return False
    floats = [tensor for tensor in case.inputs.values() if tensor.dtype not in INTEGERS]
    return _can_follow(case) and all(numbers(each.bits, each.dtype, (-1,)).astype(np.bool_).any() for each in floats)


def _law(
    name: str,
    summary: str,
    fits: Callable[[Case], bool],
    stale: Callable[[Case], str],
    wrong: Callable[[Case], str] | None = None,
    tickets: int = 1,
) -> Law:
    return Law(name, summary, fits, _by(name), tickets=tickets, probe=Probe(stale, wrong))


_FOLLOW = "the answer did not follow the input: "
_MOVED = f"after {CALLS} calls at one address the call at another one"
_BEHIND = "called on a side stream behind a slow fill"
OVERWRITE = _law(
    probes.OVERWRITE, "called again with one element of an input changed in place", _is_looked_at,
    lambda twin: f"{_FOLLOW}{_changed(twin)} and the output stayed the same (it is cached by address or object)",
    tickets=3,  # it finds something only if the kernel ignores the changed element
)  # fmt: skip
FRESH = _law(
    probes.FRESH, f"called at another address after {CALLS} calls at one", _can_follow,
    lambda twin: f"{_FOLLOW}{_MOVED} gave the output of the old one",
    lambda twin: f"{_MOVED} is wrong, which by itself is right",
)  # fmt: skip
CALLER = _law(
    probes.CALLER, "called in a loop of another file and thread, and on a GPU captured as a graph", _has_input,
    lambda twin: "the answer depends on who calls",
    lambda twin: "the answer depends on who calls: in a loop of a file benchmark.py, or in a graph, it is wrong",
)  # fmt: skip
STREAM = _law(
    probes.STREAM, "called on a side stream of a GPU behind a slow fill of its inputs", _can_follow,
    lambda twin: f"the work does not wait for its stream: {_BEHIND} it read what was there before",
    lambda twin: f"the work does not keep to its stream: {_BEHIND} it is wrong",
)  # fmt: skip
PAUSE = _law(
    probes.PAUSE, "called after a pause", _has_input,
    lambda twin: "the answer depends on the time",
    lambda twin: "the answer depends on the time: after a pause it is wrong",
    tickets=0,  # it takes long, so the balanced cases of a task alone have some
)  # fmt: skip
PROCESS = _law(
    probes.PROCESS, "called in a thread of a process with the name, arguments, variables and modules of a user's",
    _has_input,
    lambda twin: "the answer depends on the process or the caller",
    lambda twin: "the answer depends on the process or the caller: in a thread without a judge among its callers, where"
    " the name, arguments, variables and modules are those of a user's process, it is wrong",
)  # fmt: skip
AUTOGRAD = _law(
    probes.AUTOGRAD, "called with inputs that require gradients, under no_grad or in inference_mode", _has_input,
    lambda twin: f"the answer depends on autograd ({gradients_of(twin)})",
    lambda twin: f"the answer depends on autograd: with {gradients_of(twin)} it is wrong",
)  # fmt: skip
MODE = _law(
    probes.MODE, "called in the module's other mode, training or evaluation", _has_input,
    lambda twin: "the answer depends on the mode",
    lambda twin: "the answer depends on the mode, training or evaluation: in the other one it is wrong",
)  # fmt: skip
GHOST = _law(
    probes.GHOST, "nothing in the place of the kernel, which must not look right", _has_input,
    lambda twin: "with nothing in the place of the kernel the outputs are right: the judge leaks",
)  # fmt: skip
