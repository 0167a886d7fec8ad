"""Packs: folders of kernels, which are loaded by path and never imported by name."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.core.adapters.build import plain_path
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.command_kernel import CommandKernel
from fuzz.core.adapters.prototyped_kernel import CudaKernel, SharedKernel
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.sites import own_targets
from fuzz.core.base.capability import Capabilities, DeclarationError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel, Mutant
from fuzz.core.base.text import printable
from fuzz.core.generate.menus import check_menus
from fuzz.core.laws.registry import LAWS
from fuzz.core.laws.symmetry import check_symmetries
from oracles.check import check
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.operand import Operand, OpError, Parameter
from oracles.ops import OPS, register
from oracles.summation import NumericsError

_DECLARATIONS = {
    each.__name__: each
    for each in (
        Contract,
        Capabilities,
        CKernel,
        CommandKernel,
        CudaKernel,
        PythonKernel,
        SharedKernel,
        Mutant,
        Op,
        Operand,
        Parameter,
    )
}
_UNKNOWN = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


IMPORT_S = 600.0
"""The longest time in seconds for importing a pack, by the wall clock. Torch takes one to three seconds of a processor,
a minute if it is busy, and a pack may compile something. A longer import counts as hanging. Chosen."""
_IMPORTED = 87
"""The exit code of a process that has imported a pack. Any rarely used code would do."""


class PackError(UsageError):
    """A pack that cannot be found or loaded."""


@dataclass(frozen=True)
class Pack:
    """The kernels, mutants and ops that a folder declares in its `pack.py`."""

    path: Path
    kernels: tuple[Kernel, ...]
    mutants: tuple[Mutant, ...] = ()
    ops: tuple[Op, ...] = ()

    def kernel(self, name: str) -> Kernel:
        """Return the kernel of this name. Raise PackError if there is none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise PackError(f"{self.path} has no kernel {name!r}; it has {', '.join(k.name for k in self.kernels)}")

    def distrusted(self) -> Pack:
        """Return the pack with its kernels in sandboxes. Loading the pack itself is not sandboxed."""
        return replace(self, kernels=tuple(replace(kernel, untrusted=True) for kernel in self.kernels))

    def mutated_kernels(self) -> tuple[Kernel, ...]:
        """Return every mutant as a kernel under the mutant's name."""
        return tuple(mutant.apply(self.kernel(mutant.base)) for mutant in self.mutants)


def found() -> Path | None:
    """Return the default folder of kernels: `kernels/` of the checkout that this package runs from, or of the current
    folder; None if neither exists."""
    return next((folder for folder in _candidates() if (folder / "pack.py").is_file()), None)


def built_in() -> Path:
    """Return the default folder of kernels. Raise PackError if there is none."""
    folder = found()
    if folder is None:
        raise PackError(
            "no kernels found: name a folder of yours with --pack DIR; kernelfuzz init DIR --kind c writes one "
            f"(there is no pack.py in {' and '.join(map(str, _candidates()))})"
        )
    return folder


def _candidates() -> tuple[Path, ...]:
    return Path(__file__).resolve().parents[3] / "kernels", Path.cwd() / "kernels"


def load(path: Path | None, *, sources: bool = True, rehearsed: bool = False) -> Pack:
    """Return the pack in folder `path`, or the built-in one.

    `pack.py` is executed as a package under a private name, so that it can use relative imports and cannot collide with
    any distribution called `kernels`. It defines `KERNELS` and, optionally, `MUTANTS` and `OPS`. Its ops are known from
    then on. With `sources=False`, sources of kernels need not exist yet. With `rehearsed`, a pack that ends the
    process, or whose import never ends, raises PackError too.
    """
    path = path or built_in()
    entry = path / "pack.py"
    if path.is_file():
        raise PackError(f"{path} is a file: name the folder of a pack; `repro` alone takes a file, with a check in it")
    if not entry.is_file():
        raise PackError(f"{path} is not a pack: it has no pack.py")
    if rehearsed:
        _rehearse(entry)
    module = _execute(entry)
    kernels = tuple(each.at(path) for each in _declared(module, "KERNELS", Kernel, entry))
    mutants: tuple[Mutant, ...] = _declared(module, "MUTANTS", Mutant, entry)
    ops: tuple[Op, ...] = _declared(module, "OPS", Op, entry)
    for op in ops:
        _make_known(op, entry)
    if not kernels:
        raise PackError(f"{entry} declares no kernels: define KERNELS = (CKernel(...), ...)")
    lost = [f"kernel {kernel.name}: {kernel.lost}" for kernel in kernels if kernel.lost]
    if len(lost) == len(kernels) and sources:  # else the others run, and these are reported as broken
        raise PackError(f"{entry}: {lost[0]}")
    for kernel in kernels:
        try:
            kernel.check_op()
            _ = kernel.able
        except DeclarationError as error:
            raise PackError(f"{entry}: kernel {kernel.name}: {error}") from error
    beside = own_targets(path)
    kernels = tuple(
        replace(each, beside=beside) if isinstance(each, (CKernel, SharedKernel)) else each for each in kernels
    )
    _require_unique([kernel.name for kernel in kernels], entry)
    _require_known_laws(kernels, entry)
    _require_unique([mutant.name for mutant in mutants], entry)
    return Pack(path, kernels, mutants, ops)


def _make_known(op: Op, entry: Path) -> None:
    try:
        make_known(op)
    except OpError as error:
        raise PackError(f"{entry}: {error}") from error


def make_known(op: Op) -> None:
    """Register an op that a pack or a user defines. Raise OpError if it contradicts itself or cannot be drawn."""
    check(op)
    check_symmetries(op)
    check_menus(op)
    register(op)


def _rehearse(entry: Path) -> None:
    """Import the pack in a separate process first. A pack that ends its process would otherwise end this one without a
    message and with any exit code, even 0. Raise PackError."""
    if threading.active_count() > 1 or sys.modules.keys() & {"torch", "jax"}:
        return  # a forked process has no threads, so the import could wait for them forever
    from multiprocessing import get_context  # imported here, since this takes longer than importing most packs

    process = get_context("fork").Process(target=_imported, args=(entry,), daemon=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns about NumPy's threads, which only wait
        process.start()
    try:
        process.join(IMPORT_S)
        code = process.exitcode
    finally:
        process.kill()
        process.join()
    if code is None:
        raise PackError(f"{entry}: its import does not end: it was given {IMPORT_S:g} seconds")
    if code != _IMPORTED:
        how = f"exit code {code}" if code >= 0 else f"signal {-code}, {signal.strsignal(-code)}"
        raise PackError(f"{entry}: its import ends the process ({how})")


def _imported(entry: Path) -> None:
    """Import the pack, and end with a special exit code. A later import shows its output and errors."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    with suppress(BaseException):
        _execute(entry)
    os._exit(_IMPORTED)


def _execute(entry: Path) -> ModuleType:
    name = "_kernelfuzz_pack_" + hashlib.sha256(os.fsencode(entry.resolve())).hexdigest()[:12]
    for op in list(OPS.known.values()):  # they may come from an earlier load of the pack, and may have changed
        if f"{op.formula.__module__}.".startswith(f"{name}."):
            del OPS[op.name]
    spec = importlib.util.spec_from_file_location(name, entry, submodule_search_locations=[str(entry.parent)])
    if spec is None or spec.loader is None:
        raise PackError(f"{entry} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise PackError(f"{entry}: {_unknown_field(error, entry.parent) or _said(error)}") from error
    return module


def _unknown_field(error: BaseException, folder: Path) -> str | None:
    """Return a message if an error is about a declaration with an unknown field: the line in the pack, and the field
    that may be meant. Return None for any other error."""
    unknown = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    frames = [each for each in traceback.extract_tb(error.__traceback__)
              if Path(each.filename).is_relative_to(plain_path(folder))]  # fmt: skip
    if unknown is None or unknown[1] not in _DECLARATIONS or not frames:
        return None
    path = Path(frames[-1].filename)
    where = "" if path == plain_path(folder) / "pack.py" else f"{path.name}: "
    known = [field.name for field in fields(_DECLARATIONS[unknown[1]])]
    close = get_close_matches(unknown[2], known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
    return f"{where}line {frames[-1].lineno}: {unknown[1]} has no field {unknown[2]!r}: {hint}"


def _said(error: BaseException) -> str:
    """Return the message of a declaration's error; for other errors the type and the line of the pack at fault."""
    if isinstance(error, (DeclarationError, NumericsError, OpError)):
        return str(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith("pack.py")]
    where = f"line {lines[-1]}: " if lines and not isinstance(error, SyntaxError) else ""  # which names its line
    return printable(f"{where}{type(error).__name__}: {error}")


def _declared(module: ModuleType, name: str, kind: type, entry: Path) -> tuple[Any, ...]:
    """Return the tuple called `name`. Raise PackError for a value that is easily written instead of a tuple."""
    declared, example = getattr(module, name, ()), "CKernel" if kind is Kernel else kind.__name__
    if not isinstance(declared, (tuple, list)):
        raise PackError(f"{entry}: {name} must be a tuple: {name} = ({example}(...),) - mind the comma")
    for each in declared:
        if not isinstance(each, kind):
            raise PackError(printable(f"{entry}: {name} holds {each!r}: each must be one like {example}(...)"))
    return tuple(declared)


def _require_known_laws(kernels: tuple[Kernel, ...], entry: Path) -> None:
    for kernel in kernels:
        unknown = [law for law in kernel.laws if law not in LAWS]
        if unknown:
            raise PackError(f"{entry}: {kernel.name}: laws: {unknown[0]!r} is not one of {', '.join(LAWS)}")


def _require_unique(names: list[str], entry: Path) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PackError(f"{entry} declares {', '.join(twice)} more than once")
