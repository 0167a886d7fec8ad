"""Writing a new pack to disk: a correct kernel, or a given one, and comments that say what to change."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.core.adapters import pack, toolchain
from fuzz.core.base.errors import UsageError
from fuzz.core.base.files import write_whole
from fuzz.tasks.beginning.declared import KINDS, Beginning, Wanted, declared, read
from oracles.op import Op
from oracles.ops import OPS

_SUFFIXES = {".c": "c", ".cpp": "c++", ".cc": "c++", ".cxx": "c++", ".so": "shared", ".cu": "cuda"}
_PACKAGES = {
    "triton": "triton", "jax": "dlpack", "mlx": "dlpack", "cupy": "dlpack", "torch": "torch", "numpy": "numpy",
}  # fmt: skip
"""The kind of a Python file by a package that it imports. The first package of this table that is imported decides."""
_IMPORTED = re.compile(r"(?:^|;)[ \t]*(?:import|from) ([^;\n]+)", re.MULTILINE)
"""A pattern of import statements; the group is the modules that are imported, or imported from."""
MODULE = "op.py"
"""The file of the pack that holds the user's own op."""
_CONTRACT = """
# A function says neither an order of additions nor how accurate a library is: neither is held against a kernel.
CONTRACT = {contract}
"""


@dataclass(frozen=True)
class OwnOp:
    """An op that is written from a user's function."""

    place: str
    """The user's function, as FILE.py:FUNCTION."""
    op: Op
    text: str
    """The text of a Python module with the op, and with the contract of a kernel that promises nothing."""
    constants: Mapping[str, float]
    """The numbers, such as an eps, that the function takes besides its tensors, by parameter."""


@dataclass(frozen=True)
class InitRequest:
    """The options of `kernelfuzz init` as the user typed them."""

    kind: str = ""
    given: str = ""
    """The kernel, as FILE or FILE:FUNCTION."""
    prototype: str = ""
    op: str = ""
    """The name of an op, or a function that defines the op, as FILE.py:FUNCTION."""
    shapes: str = ""
    """The dimensions of the tensors of the function in `op`."""
    arguments: Sequence[str] = ()
    """The meanings of arguments whose names differ from the op's, each as NAME=MEANING."""


@dataclass(frozen=True)
class Begun:
    """The files that were written, and the meanings that were found for arguments whose names differ from the op's."""

    paths: Sequence[Path]
    taken: Mapping[str, str]


def begin(folder: Path, asked: InitRequest) -> Begun:
    """Write a new pack into the folder. Existing files are never overwritten. Raises UsageError."""
    given, function = _place(asked.given)
    kind = asked.kind or _kind_of(given)
    if kind not in KINDS:
        raise UsageError(f"--kind{' ' * bool(kind)}{kind}: it is one of {', '.join(KINDS)}")
    if given is not None and not given.is_file():
        raise UsageError(f"--from {given}: there is no such file")
    if asked.prototype and kind not in ("c", "c++", "shared", "cuda"):
        raise UsageError(f"--prototype: a kernel of {kind} has none")
    if kind == "shared" and given is not None and not asked.prototype:
        other = "; if its op is not built in, name a Python function that computes the same, too: "
        more = "" if asked.op else f"{other}--op FILE.py:FUNCTION --shapes 'x=... n'"
        raise UsageError(f"--from {given}: say how C declares its function: --prototype 'void f(...)'{more}")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder")
    own = _own_op(asked.op, asked.shapes) if ".py" in asked.op else None
    wanted = _wanted(asked, function, own)
    found = declared(folder, Beginning(kind, given, asked.prototype, wanted, own.place if own is not None else ""))
    files = {**({MODULE: own.text} if own is not None else {}), **found.files}
    written = _write(folder, files)
    try:
        if kind == "shared" and given is None:
            written.append(_compiled(folder))
        pack.load(folder)
    except UsageError:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return Begun(written, found.taken)


def _wanted(asked: InitRequest, function: str, own: OwnOp | None) -> Wanted:
    """Return what the options say of the function that is meant. Raises UsageError."""
    if own is None and asked.shapes:
        raise UsageError("--shapes: they are of a function that says what it is: --op FILE.py:FUNCTION")
    if own is None and asked.op and asked.op not in OPS:
        raise UsageError(f"--op {asked.op}: no such op: see kernelfuzz list ops, or name a function, FILE.py:FUNCTION")
    arguments = dict[str, str]()
    for word in asked.arguments:
        name, equals, meaning = word.partition("=")
        if not (name and equals and meaning):
            raise UsageError(f"--argument {word}: write an argument and what it is, such as --argument gamma=weight")
        arguments[name] = meaning
    if own is None:
        return Wanted(OPS.get(asked.op), function, arguments)
    return Wanted(own.op, function, arguments, own.constants)


def _write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    for name in ("pack.py", *files):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists: nothing is overwritten")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_whole(folder / name, text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error
    return [folder / name for name in files]


def _place(given: str) -> tuple[Path | None, str]:
    """Return the file of FILE or FILE:FUNCTION, and the name of the function, or '' if none is named."""
    file, colon, name = given.rpartition(":")
    if colon and name.isidentifier() and not Path(given).exists():
        return Path(file), name
    return (Path(given) if given else None), ""


def _kind_of(path: Path | None) -> str:
    """Return the kind of a kernel's file, judged by the file's suffix and imports; '' if unknown."""
    if path is None:
        return ""
    if path.suffix != ".py":
        return _SUFFIXES.get(path.suffix, "")
    named = _IMPORTED.findall(read(path)) if path.is_file() else []
    imported = [re.split(r"\W", each.strip())[0] for names in named for each in names.split(" import ")[0].split(",")]
    return next((kind for package, kind in _PACKAGES.items() if package in imported), "")


def _compiled(folder: Path) -> Path:
    """Compile the sample to a shared library and return its path. Raises UsageError."""
    tool = toolchain.program("gcc")
    if tool.missing is not None:
        raise UsageError(tool.missing)
    library = folder / "libmine.so"
    words = [*tool.command, "-O2", "-shared", "-fPIC", str(folder / "mine.c"), "-o", str(library), "-lm"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"{library}: cannot be compiled: {done.stderr.strip().splitlines()[-1]}")
    return library


def _own_op(place: str, shapes: str) -> OwnOp:
    """Return the op that is read from a function, given as FILE.py:FUNCTION. Raises UsageError."""
    from fuzz.references.named import derived_at
    from fuzz.references.text import identifier
    from fuzz.tasks.check.reference import contract_of
    from fuzz.tasks.judge.written import classes_of, contract_text
    from oracles.dtypes import SINGLE

    name = identifier(place.rpartition(":")[2], "reference")
    found = derived_at(place, shapes, name=f"reference_{name}"[:31] if name in OPS else name)
    contract = contract_of(found, "torch", (SINGLE.name,), strict=False)
    names = ", ".join(sorted({"Contract", "Op", "Operand", *classes_of(contract)}))
    text = found.module.replace("from fuzz import Op, Operand\n", f"from fuzz import {names}\n")
    constants = {name: value for name, value in found.constants.items() if type(value) in (int, float)}
    return OwnOp(place, found.op, text + _CONTRACT.format(contract=contract_text(contract)), constants)
