"""NVIDIA's compute-sanitizer: the tools that watch a kernel on a GPU, each as one more target of it.

How a tool is asked for, and what it writes: its documentation, "Compute Sanitizer", command line options.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

from fuzz.adapters.target import Target
from fuzz.base.dispatch import SMALL

SETTING = "sanitizer"
"""The setting of a target's place that names its tool."""
TOOLS = {
    "memcheck": "accesses outside of what is allocated",
    "initcheck": "reads of device memory that nothing was written to",
    "racecheck": "threads of a block that do not wait for one another where they share memory",
}
"""What each tool sees."""
MISSING = "compute-sanitizer is not installed; it comes with NVIDIA's CUDA toolkit"
_TOOLKIT = "/usr/local/cuda/bin"
"""The CUDA toolkit installs itself here, often without being on the PATH."""
_ONLY = {"memcheck": ("--destroy-on-device-error", "kernel")}
"""The options of one tool. A stray access ends the kernel, not the context with all that is in it: the process would
have to be started again after each, and torch aborts where it cannot free a tensor."""
_SLOWER = 4
"""Its limit of a case is so much longer: a tool looks at each access. The number is chosen, not measured."""


def sanitized(target: Target) -> Iterator[Target]:
    """The target under each of the tools, if they are of use to it. It is given small cases one after the other, so
    that each report is of one call."""
    for tool in TOOLS if target.sanitizable else ():
        yield replace(
            target,
            name=replace(target.name, settings=((SETTING, tool),)),
            traits=(*target.traits, (SETTING, tool)),
            case_limit=_SLOWER * target.case_limit,
            size_limit=SMALL,
            slow=True,
            specialised=False,  # or each case would be followed by others of its program
            batched=False,
            sanitizable=False,
            sanitizer=tool,
        )


def program_of(tool: str) -> tuple[str, ...] | None:
    """The command that a worker runs under, without the file that is to be reported to; None where there is none."""
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), _TOOLKIT]))
    # Each report is of a call of its own, so that no number of them is enough. What libraries ask of the driver in vain
    # is no fault of the kernel.
    errors = ("--print-limit", "0", "--show-backtrace", "device", "--report-api-errors", "no")
    return None if found is None else (found, "--tool", tool, *errors, *_ONLY.get(tool, ()))
