"""Kernels written in Python, as their authors declare them. The differences between Triton, torch, NumPy and other
frameworks are rows of data."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from fuzz.core.adapters.signature import (
    NOTHING_KNOWN,
    Signature,
    asks_tf32,
    completed,
    imported_beside,
    misfits,
    pairs,
    signature_in,
)
from fuzz.core.adapters.target import Configuration
from fuzz.core.base.capability import CONTIGUOUS_F32, Capabilities, DeclarationError, one_of
from fuzz.core.base.dispatch import SMALL, SizeLimit
from fuzz.core.base.kernel import PLAIN, Kernel
from fuzz.core.base.probe import AUTOGRAD
from oracles.dtypes import DOUBLE
from oracles.formula.contract import Contract
from oracles.ops import OPS

Device = Literal["interpret", "cpu", "cuda"]
Value = str | int | float | bool


@dataclass(frozen=True)
class DevicePlacement:
    """A device on which kernels of a framework run."""

    device: Device
    mode: str
    """How code must run on this device: 'interpreted' or 'compiled' by Triton, or by 'torch', 'numpy' and so on."""
    case_limit: float
    """The time limit of a case in seconds. The first call may compile, and a GPU has a whole frame in flight."""
    size_limit: SizeLimit | None = None
    slow: bool = False


@dataclass(frozen=True)
class Framework:
    """A library with which Python kernels are written."""

    packages: tuple[str, ...]
    places: tuple[DevicePlacement, ...]
    imports: tuple[str, ...]
    """The modules that are imported before workers are forked."""
    threads: bool = False
    """Whether kernels of the framework can be told how many threads to use."""
    makers: Mapping[str, str] = field(default_factory=dict)
    """The dotted name of the function that makes the framework's arrays, by device; none for NumPy and torch."""
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The environment variables that the framework needs on each device."""

    @property
    def is_foreign(self) -> bool:
        """Whether the framework's arrays are made from those in the memory of a case, and converted back by DLPack."""
        return not {"torch", "numpy"} & {*self.packages}


_TORCH = ("torch", "triton.language")
"""The imports of one server for both frameworks, since importing torch takes most of the time of either."""

FRAMEWORKS: dict[str, Framework] = {
    "triton": Framework(
        ("torch", "triton"),
        # the interpreter needs milliseconds for each program
        (
            DevicePlacement("interpret", "interpreted", 30.0, SMALL, slow=True),
            DevicePlacement("cuda", "compiled", 120.0),
        ),
        _TORCH,
    ),
    "torch": Framework(
        ("torch",),
        (DevicePlacement("cpu", "torch", 60.0), DevicePlacement("cuda", "torch", 120.0)),
        _TORCH,
        threads=True,
    ),
    "numpy": Framework(("numpy",), (DevicePlacement("cpu", "numpy", 60.0),), ("numpy",)),
    "jax": Framework(
        ("jax",),
        (DevicePlacement("cpu", "jax", 60.0), DevicePlacement("cuda", "jax", 120.0)),
        ("numpy",),
        makers={"cpu": "jax.numpy.array", "cuda": "fuzz.core.transport.python.foreign.jax_array"},
        # otherwise JAX takes most of a GPU's memory
        variables={"cpu": {"JAX_PLATFORMS": "cpu"}, "cuda": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}},
    ),
    "mlx": Framework(("mlx",), (DevicePlacement("cpu", "mlx", 60.0),), ("numpy",), makers={"cpu": "mlx.core.array"}),
    "cupy": Framework(
        ("cupy",), (DevicePlacement("cuda", "cupy", 120.0),), ("numpy",), makers={"cuda": "cupy.from_dlpack"}
    ),
    "dlpack": Framework(
        (), (DevicePlacement("cpu", "dlpack", 60.0), DevicePlacement("cuda", "dlpack", 120.0)), ("numpy",)
    ),
}
"""All frameworks. A kernel of "dlpack" declares itself which function makes its arrays."""
_LIBRARIES = frozenset(package for each in FRAMEWORKS.values() for package in each.packages)


@dataclass(frozen=True)
class PythonKernel(Kernel):
    """A kernel written in Python, with Triton, torch or NumPy: a function of tensors in the file `source`.

    The function is called as `entry(**inputs, **params, **outputs, **options)` with torch tensors, or NumPy arrays, of
    exactly the case's shapes, dtypes and strides. In NumPy, bf16 and formats of 8 bits are dtypes of ml_dtypes.
    Optional tensors that the case does not have are not passed. The axis, and parameters that a case may omit, are
    passed only if the function has parameters for them. The module can import and read the files beside it, as in its
    own folder. The function either writes its outputs in place or, if it has no parameters with their names, returns
    them: one tensor, or a dict by name. Returning another tensor for an output that is a parameter ends the session
    with a usage error.

    For input that it does not take, the function may raise ValueError or NotImplementedError before it writes anything,
    by a `raise` in its own file or one below its folder. An exception that a library raises is a crash.
    """

    name: str
    op: str
    source: Path
    framework: str
    """The name of the framework: 'triton', 'torch', 'numpy', 'jax', 'mlx' or 'cupy', or 'dlpack' with `arrays`."""
    contract: Contract = PLAIN
    capabilities: Capabilities = CONTIGUOUS_F32
    entry: str = ""
    """The name of the function. By default it is the name of the op."""
    shown: str = ""
    """The start of the source line that reports name, such as "class Kernel", if `entry` only calls that."""
    options: tuple[tuple[str, Value], ...] = ()
    """More keyword arguments, such as (("mode", "multi_wave_cached"),)."""
    configs: Sequence[Mapping[str, Any] | tuple[tuple[str, Value], ...]] = ()
    """The configurations that the kernel can be called with, each a target of its own: keyword arguments besides
    `options`, such as ({"block": 64}, {"block": 128}). Configurations of Triton's `autotune` need not be declared."""
    arguments: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """The op's tensor or parameter for function parameters that have another name, such as {"gamma": "weight"}."""
    devices: tuple[Device, ...] = ()
    """The devices that the kernel runs on. By default these are all devices of its framework."""
    slow: bool = False
    """Whether a call sometimes takes seconds, say to compile for another dtype. A search then gives it fewer cases."""
    programs: tuple[str, ...] = ()
    """The programs that must be installed for the kernel to run on a processor, like the compiler for torch.compile."""
    packages: tuple[str, ...] = ()
    """The packages that the kernel imports besides its framework's, by the names under which they are imported, such as
    ("keras",). If one is not installed, the kernel does not run. Their versions are attested and reported."""
    environment: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    """The environment variables that the worker has when the source is imported, such as {"KERAS_BACKEND": "torch"}.
    The framework itself is imported before."""
    arrays: str = ""
    """The dotted name of the function that makes the kernel's arrays, if the framework is 'dlpack'. Its argument is an
    array of NumPy or, on a GPU, a tensor of torch. An example is "dask.array.from_array"."""
    edits: tuple[tuple[str, str], ...] = ()
    laws: tuple[str, ...] = ("rerun",)
    summary: str = ""
    keeps: tuple[str, ...] = ()
    untrusted: bool = False
    """Whether the kernel's workers run in a sandbox, because nobody vouches for it."""

    shares_memory: ClassVar[bool] = False  # torch does not allow this

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", _pairs(self.environment))
        object.__setattr__(self, "configs", tuple(map(_config, self.configs)))
        object.__setattr__(self, "arguments", pairs(self.arguments))
        super().__post_init__()
        for package in self.packages:
            if not package.isidentifier():
                raise DeclarationError(f"packages: {package!r} is no name that can be imported: leave out the version")
        one_of("framework", self.framework, tuple(FRAMEWORKS))
        if bool(self.arrays) != (self.framework == "dlpack"):
            raise DeclarationError(
                'arrays: name what makes its arrays of NumPy\'s, such as arrays="mlx.core.array"'
                if not self.arrays
                else f"arrays: those of {self.framework} are made already: it is for framework='dlpack'"
            )
        if self.arrays and not re.fullmatch(r"\w+(\.\w+)+", self.arrays):
            raise DeclarationError(f"arrays: {self.arrays!r} is no function with its module, such as 'mlx.core.array'")
        known = tuple(place.device for place in FRAMEWORKS[self.framework].places)
        for device in self.devices:
            one_of("devices", device, known)

    def check_op(self) -> None:
        super().check_op()
        known = self.signature
        op = OPS[self.op]
        names = (*(each.name for each in op.operands), *op.params)
        for own, meant in dict(self.arguments).items():
            if meant not in names:
                raise DeclarationError(f"arguments: {own}: {meant!r} is not one of {', '.join(names)}")
            if not known.takes(meant):
                raise DeclarationError(f"arguments: {self.function} has no parameter {own!r}")
        given = {**dict(self.options), **{name: value for each in self.configs for name, value in dict(each).items()}}
        for name, words in misfits(op, known, given) if known.lines else ():
            raise DeclarationError(f"{self.source.name} line {known.lines[name or self.function]}: {words}")

    @property
    def kind(self) -> str:
        return self.framework

    @property
    def variables(self) -> Mapping[str, str]:
        return dict(self.environment)

    @property
    def imported(self) -> tuple[str, ...]:
        """The packages that the kernel needs, with attested versions: those that it names, and that of its arrays."""
        own = FRAMEWORKS[self.framework]
        arrays = own.packages if own.is_foreign else ()
        return tuple(
            dict.fromkeys((*arrays, *([self.arrays.partition(".")[0]] if self.arrays else []), *self.packages))
        )

    @property
    def takes_threads(self) -> bool:
        return FRAMEWORKS[self.framework].threads

    @property
    def never(self) -> tuple[str, ...]:
        is_tried = AUTOGRAD in self.laws  # else no input requires a gradient
        return ("autograd",) if self.framework == "torch" and not is_tried else ()

    @cached_property
    def able(self) -> Capabilities:
        given = [name for name, _ in (*self.options, *(pair for each in self.configurations for pair in each.options))]
        return completed(self.capabilities, OPS[self.op], self.signature, given)

    tuned: ClassVar[tuple[Configuration, ...] | None] = None
    """The configurations of the kernel's autotuners, if known. None: a worker that loads the source reports them."""

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """The configurations that the kernel declares."""
        if not self.configs:
            return ()
        from fuzz.core.adapters.configured import settings_of

        configs = [dict(each) for each in self.configs]
        both = zip(settings_of(configs), configs, strict=True)
        return tuple(Configuration(settings, tuple(each.items())) for settings, each in both)

    @property
    def signature(self) -> Signature:
        """The signature of the function, as its source has it, with parameters renamed to the op's names."""
        try:
            text = self.source.read_text("utf-8", "replace")
        except OSError:
            return NOTHING_KNOWN
        return signature_in(text, self.function).renamed(dict(self.arguments))

    @cached_property
    def modules(self) -> Mapping[str, str]:
        """The Python files in the kernel's folder, which it may import, as they were when it was first started. If its
        source is a symbolic link, files beside the link's target count too."""
        found: dict[str, str] = {}
        for folder in (self.source.resolve().parent, self.source.parent):
            for path in sorted(folder.glob("*.py")):
                with contextlib.suppress(OSError, UnicodeDecodeError):  # an editor's lock is a link to nowhere
                    found[path.name] = path.read_text(encoding="utf-8")
        return found

    @cached_property
    def siblings(self) -> tuple[str, ...]:
        """The modules beside the kernel that it, or one of them, imports as if their folder came first on the path. A
        module with the name of a library is not among them: a folder may well have a `triton.py`."""
        return imported_beside(self.source.parent, self.modules, {*self.packages, *_LIBRARIES})

    @cached_property
    def asks_tf32(self) -> bool:
        if DOUBLE.name in self.capabilities.dtypes:  # TF32 is for f32, but a contract would allow it for any dtype
            return False
        try:
            text = self.source.read_text("utf-8", "replace")
        except OSError:
            return False
        return asks_tf32(text, self.function) or any(value == "tf32" for _, value in self.options)

    @property
    def function(self) -> str:
        """The name of the kernel's function."""
        return self.entry or self.op


def _config(declared: object) -> tuple[tuple[str, Value], ...]:
    """Return a configuration as pairs, which can be hashed. Raises DeclarationError."""
    try:
        pairs = tuple(dict(declared).items())  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise DeclarationError('configs: write a tuple of dicts, such as ({"block": 64}, {"block": 128})') from error
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):
            raise DeclarationError(
                f"configs: {name!r} = {value!r}: a configuration is of names, and numbers or strings"
            )
    return pairs


def _pairs(environment: object) -> tuple[tuple[str, str], ...]:
    """Return the environment variables as pairs, which can be hashed. Raise DeclarationError."""
    example = '{"NAME": "value"}'
    try:
        pairs = tuple(sorted(dict(environment).items()))  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"environment: write {example}") from error
    for name, value in pairs:
        if not (isinstance(name, str) and isinstance(value, str)) or "\0" in name + value or not name or "=" in name:
            raise DeclarationError(f"environment: {name!r} = {value!r}: names and values are strings: write {example}")
        if name == "TRITON_INTERPRET":
            raise DeclarationError("environment: TRITON_INTERPRET follows from the target: declare devices=")
    return pairs
