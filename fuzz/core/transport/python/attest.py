"""The attestation of a worker, as the text of its hello."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fuzz.core.transport.python.kernel import LoadedKernel, Spec


def attested(spec: Spec, kernel: LoadedKernel, library: Any) -> str:
    """Return lines of name=value, or the one line 'missing=reason' if the worker cannot run here. `library` is the
    module whose arrays are passed to the kernel."""
    if spec.device == "cuda" and not library.cuda.is_available():
        version = f"torch {library.__version__}"
        built = f"{version} is built without it" if library.version.cuda is None else "torch finds none"
        return f"missing=no CUDA device: {built}"
    if spec.device == "interpret" and (fault := loop_fault_here()):
        return f"missing={fault}"
    return "\n".join(f"{name}={value}" for name, value in _facts(spec, kernel, library))


def loop_fault_here() -> str:
    """Return why Triton's interpreter cannot be used here, or '' if it can."""
    import numpy as np
    import triton

    from fuzz.core.transport.python.probe import loop_fault

    fault = loop_fault()
    versions = f"Triton {triton.__version__}'s interpreter cannot loop with NumPy {np.__version__}"
    return f"{versions} ({fault}): install an older NumPy or a newer Triton" if fault else ""


def _facts(spec: Spec, kernel: LoadedKernel, library: Any) -> Iterator[tuple[str, str]]:
    yield "digest", kernel.digest
    yield "pid", str(os.getpid())
    yield "python", platform.python_version()
    yield library.__name__, str(library.__version__)
    if spec.device == "interpret":  # NumPy does the arithmetic
        yield "numpy", metadata.version("numpy")
    yield "packages", json.dumps({name: _version(name) for name in spec.packages})
    yield "variables", json.dumps({name: os.environ.get(name) for name in spec.variables})
    yield "choices", json.dumps([*spec.choices])
    yield "configurations", json.dumps(_configurations(spec, kernel))
    yield "device", spec.device
    if spec.device == "cuda":
        yield "name", library.cuda.get_device_name()
        yield "capability", ".".join(map(str, library.cuda.get_device_capability()))
        yield "runtime", str(library.version.cuda)
        yield "driver", _driver()
    else:
        yield "processor", _processor()
    if spec.framework == "triton":
        yield from _triton_facts(spec, kernel)
    else:
        yield "mode", spec.framework


def _configurations(spec: Spec, kernel: LoadedKernel) -> Sequence[tuple[object, object]]:
    """Return the choices among a kernel's configurations: the settings of each, and the place of the configuration that
    each autotuner takes."""
    if not kernel.tuners:
        return ()
    from fuzz.core.transport.python.tuning import choices_of

    found = choices_of(kernel.tuners, interpreted=spec.device == "interpret")
    return [(each.settings, each.places) for each in found]


def _version(package: str) -> str:
    """Return the version that an imported package states, or else that of the installed distribution."""
    found = getattr(sys.modules.get(package), "__version__", None)
    return found if isinstance(found, str) else installed_version(package) or "of no known version"


def installed_version(package: str) -> str | None:
    """Return the version of the distribution that provides the import name `package`, or None if not installed."""
    names = metadata.packages_distributions().get(package, [package])
    try:
        return metadata.version(names[0])
    except metadata.PackageNotFoundError:
        return None


def _triton_facts(spec: Spec, kernel: LoadedKernel) -> Iterator[tuple[str, str]]:
    import triton

    from fuzz.core.transport.python import probe

    yield "triton", str(triton.__version__)
    is_compiled = getattr(probe.launched(spec.torch_device), "asm", {}).get("cubin")  # into code of the device
    modes = {"compiled" if is_compiled else "interpreted", *_modes(vars(kernel.module).values())}
    yield "mode", " and ".join(sorted(modes))
    if spec.device == "interpret":
        yield from faults_here().items()


def interpreted_faults(functions: Iterable[Any]) -> Mapping[str, str]:
    """Return the errors of Triton's interpreter, by dtype, if it runs one of the functions; else an empty mapping."""
    return faults_here() if is_interpreted(functions) else {}


def is_interpreted(functions: Iterable[Any]) -> bool:
    """Return whether Triton's interpreter runs one of the functions."""
    return "interpreted" in _modes(functions)


@cache
def faults_here() -> Mapping[str, str]:
    from fuzz.core.transport.python import probe

    faults = probe.bf16_faults()
    return {"bf16": f"Triton's interpreter gets bf16 wrong: {', '.join(faults)}"} if faults else {}


def _modes(values: Iterable[Any]) -> Iterator[str]:
    """Yield 'compiled' or 'interpreted' for each Triton function among the values, also inside tuning wrappers."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    for function in values:
        inner = function
        while not isinstance(inner, (JITFunction, InterpretedFunction)) and hasattr(inner, "fn"):
            inner = inner.fn
        if isinstance(inner, JITFunction):
            yield "compiled"
        elif isinstance(inner, InterpretedFunction):
            yield "interpreted"


def _processor() -> str:
    """Return the processor's maker, model and vector instructions, on which libraries' orders of sums depend."""
    named = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
    vectors = ("avx2", "fma", "avx512f", "asimd", "sve")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = f"{facts.get('flags', '')} {facts.get('Features', '')}".split()
    found = [f"{facts[name]}" for name in named if name in facts]
    return " ".join([platform.machine(), *found, f"({' '.join(name for name in vectors if name in flags)})"])


def _driver() -> str:
    """Return the version of the CUDA interface that the driver has, such as 13.0."""
    import ctypes

    version = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"
