"""Sources of statements and solutions: reading and running them, and the names that are made from theirs."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.core.adapters.build import Builder, CacheError
from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.adapters.python_kernel import FRAMEWORKS
from fuzz.core.adapters.python_program import imports_of, sandbox_at
from fuzz.core.base.errors import UsageError, error_line
from fuzz.core.transport.fork_server import fork_server
from fuzz.core.transport.sandbox import unusable
from fuzz.references.named import first_in_path
from fuzz.references.text import TAKEN

_LONGEST = 31
"""The most characters in the name of an op or an operand."""


class TaskError(UsageError):
    """Raised for a statement or a solution that cannot be read. The message says which, and what to do."""


class UnreadSolutionsError(TaskError):
    """Raised for solutions that cannot be read or called; others may be."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """Say why, by the words that name each of them."""
        super().__init__("\n".join(reasons.values()))
        self.reasons = reasons


def text_of(path: Path) -> str:
    """Return the text of a file. Raises TaskError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: {getattr(error, 'strerror', None) or 'it is no text'}") from error


def parsed(text: str, file: str) -> ast.Module:
    """Return the syntax tree of a source. Raises TaskError with the file's name."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise TaskError(f"{file}: it is no Python: {error.msg}, line {error.lineno}") from error
    except ValueError as error:
        raise TaskError(f"{file}: it is no Python: {error}") from error


def definitions(path: Path, text: str) -> Mapping[str, ast.stmt]:
    """Return the top-level functions and classes of a source by name, without running it. A function `_name` is one of
    `name` too, if that is made of it, as in `name = torch.compile(_name)`. Raises TaskError."""
    body = parsed(text, str(path)).body
    found: dict[str, ast.stmt] = {each.name: each for each in body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    for each in body:
        if isinstance(each, ast.Assign) and isinstance(target := each.targets[0], ast.Name):
            own = f"_{target.id}"
            if own in found and any(getattr(part, "id", "") == own for part in ast.walk(each.value)):
                found[target.id] = found[own]
    return found


def chosen_function(path: str, defined: Mapping[str, ast.stmt], name: str, usual: tuple[str, ...]) -> str:
    """Return the name of the function that is meant: the one that `name` states, the first of the `usual` names, or the
    only function. Raises TaskError."""
    functions = [each for each, what in defined.items() if isinstance(what, ast.FunctionDef) and each[0] != "_"]
    functions = [each for each in functions if not each.startswith("test_")] or functions
    if name:
        if name in defined:
            return name
        raise TaskError(f"{path} has no function {name!r}; it has {', '.join(functions) or 'none'}")
    known = [each for each in usual if each in functions] or functions
    if len(known) != 1 and not any(each in functions for each in usual):
        said = f"it has {', '.join(functions)}: name one, {path}:{functions[0]}" if functions else "it has no function"
        raise TaskError(f"{path}: {said}")
    return known[0]


def executed(path: Path, text: str, tree: ast.Module | None = None) -> ModuleType:
    """Run a source and return it as a module. Raises TaskError."""
    module = ModuleType(f"_kernelfuzz_problem_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        with first_in_path(path.resolve().parent):
            exec(compile(tree or text, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # a SystemExit with code 0 would be taken for the verdict "right"
        raise TaskError(f"{path}: {error_line(error)}") from error
    return module


@contextmanager
def on_cpu() -> Iterator[None]:
    """Return a context in which tensors asked for on a GPU are made on the CPU, as only their values are wanted."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Here(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            if getattr(function, "__name__", "") == "cuda":
                return given[0]
            if getattr(function, "__name__", "") in ("device", "_TensorBase.device", "__get__"):
                return function(*given, **(named or {}))
            named = {name: each for name, each in (named or {}).items() if name != "device"}
            return function(*(each for each in given if not _is_device(each)), **named)

    class Anywhere(torch.Generator):  # type: ignore[misc]
        def __new__(cls, *given: Any, **named: Any) -> Any:
            return super().__new__(cls)

    generator = torch.Generator
    torch.Generator = Anywhere  # a class, as annotations may say `torch.Generator | None`
    try:
        with Here():
            yield
    finally:
        torch.Generator = generator


def _is_device(given: object) -> bool:
    return type(given).__name__ == "device" or (isinstance(given, str) and given.partition(":")[0] in ("cuda", "cpu"))


def signed(call: Callable[..., Any], name: str, parameters: list[str]) -> Callable[..., Any]:
    """Return `call` as a function whose signature has these parameters, the tensors, for others to read."""

    def reference(**tensors: Any) -> Any:
        return call(**tensors)

    kinds = [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in parameters]
    reference.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    reference.__name__ = identifier(name)
    return reference


def identifier(name: str) -> str:
    """Return a valid name of an op or operand that is like this name."""
    plain = "".join(each if each.isalnum() else "_" for each in name.lower()).strip("_0123456789")
    plain = plain[:_LONGEST].rstrip("_") or "reference"
    return f"{plain}_" if plain in TAKEN else plain


def identifiers(words: Iterable[str]) -> list[str]:
    """Return different valid names of operands, each like one of the words."""
    found = list[str]()
    for each in words:
        name, number = identifier(each), 1
        while name in found:
            number += 1
            name = f"{identifier(each)[: _LONGEST - 3]}_{number}"
        found.append(name)
    return found


def kernel_name(words: str, taken: Sequence[str]) -> str:
    """Return a name that a kernel may have, made from the name of a solution and different from the names `taken`."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", words).strip("_") or "solution"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name


_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h")
REFERENCES = ("reference", "ref", "ref_kernel")
"""The usual names of the function that is the statement, if a file has several functions."""
OVERLOAD = re.compile(r"aten\.(\w+)\.\w+")
"""A pattern of names of torch's operations."""


def files_in(words: tuple[str, ...]) -> list[str]:
    """Return the files that are named, and the solutions in folders that are named. Raises TaskError."""
    found = list[str]()
    for each in words:
        path = Path(each)
        if path.is_dir():
            inside = sorted(str(file) for file in path.iterdir() if file.suffix in (".py", ".json"))
            if not inside:
                raise TaskError(f"{each}: the folder has no solutions, which are .py or .json")
            found += inside
        else:
            found.append(each)
    return found


def name_in(words: str) -> str:
    """Return the name of the statement that the words refer to, as `statements_of` reads them. Raises TaskError."""
    path, _, name = words.partition(":")
    if overload := OVERLOAD.fullmatch(words):
        return identifier(overload[1])
    if Path(path).is_dir() or Path(path).suffix in (".yml", ".yaml"):
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        return identifier(folder.resolve().name)
    text = text_of(Path(path))
    if Path(path).suffix == ".json":
        said = _json(Path(path), text)
        return identifier(str(said.get("name", "")))
    defined = definitions(Path(path), text)
    if {"Model", "get_inputs"} <= {*defined}:
        return identifier(Path(path).stem)
    return chosen_function(path, defined, name, REFERENCES)


def framework_in(words: str) -> tuple[str, str]:
    """Return the name of a solution, and the framework that it is written with. Raises TaskError."""
    path = Path(words.partition(":")[0])
    check_language(path, path.name)
    text = text_of(path)
    if path.suffix != ".json":
        return path.stem, framework_of({str(path): text})
    sources = _json(path, text).get("sources")
    parts = [each for each in sources if isinstance(each, dict)] if isinstance(sources, list) else []
    return path.stem, framework_of({str(each.get("path")): str(each.get("content")) for each in parts})


def check_language(path: Path, file: str) -> None:
    """Raise TaskError if the file of a solution's function is not in Python."""
    if Path(file).suffix in _COMPILED:
        raise TaskError(f"{path}: a kernel in C or C++ is declared in a pack: see fuzz/docs/judging.md")


def framework_of(texts: Mapping[str, str]) -> str:
    """Return the framework that sources, by file name, are written with, by the imports of those in Python.
    Raises TaskError."""
    imported = {
        name for file, text in texts.items() if file.endswith(".py") for name in _imported(ast.walk(parsed(text, file)))
    }
    known = {"triton": "triton", "torch": "torch", "jax": "jax", "numpy": "numpy"}
    return next((framework for name, framework in known.items() if name in imported), "torch")


def check_installed(path: Path, texts: Mapping[str, str]) -> None:
    """Raise TaskError if a solution cannot do without a package that is not installed: one of its sources imports it
    outside of any statement. What lies beside it is no package, though it may not be shown to it."""
    own = {each.stem for each in (*map(Path, texts), *path.absolute().parent.iterdir())} | {*sys.modules}
    for file, text in texts.items():
        if file.endswith(".py"):
            missing = [each for each in sorted(_imported(parsed(text, file).body) - own) if find_spec(each) is None]
            if missing:
                raise TaskError(f"{path}: it imports {missing[0]}, which is not installed")


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the first parts of the names of modules that these nodes import, those beside the source left out."""
    found = set[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    return found


def _json(path: Path, text: str) -> Mapping[str, object]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise TaskError(f"{path}: it is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise TaskError(f"{path}: it is no object")
    return said


_MOST = 2
"""The most solutions whose workers start at once; more would be more processes than most machines have processors."""


@contextmanager
def begun(solutions: tuple[str, ...], against: str, output: Path, *, untrusted: bool) -> Iterator[None]:
    """Start the servers from which workers of solutions are forked. Their sandboxes show the folders that solutions
    will be written to; these are made now, and removed at the end if nothing was written to them. Raises TaskError if a
    solution cannot be read, before time is spent on the statement."""
    made, named, files = list[Path](), files_in(solutions), list[tuple[str, str]]()
    for words in named:
        with suppress(*([TaskError] if len(named) > 1 else [])):  # it is reported with the rulings on the others
            files.append(framework_in(words))
    with suppress(TaskError, CacheError, OSError):  # an unreadable statement is reported when it is read
        folder, taken = output / name_in(against), list[str]()
        for name, framework in files if len(files) <= _MOST and not (untrusted and unusable()) else ():
            taken.append(kernel_name(name, taken))
            own, builder = folder / taken[-1], Builder()
            made += [each for each in (output, folder, own) if untrusted and not each.exists()]
            if untrusted:
                own.mkdir(parents=True, exist_ok=True)
            sandbox = sandbox_at(own, builder) if untrusted else None
            interpreted = framework == "triton" and no_cuda_device() is not None
            fork_server(imports_of(FRAMEWORKS[framework], untrusted=untrusted), interpreted, sandbox).begin()
    try:
        yield
    finally:
        for each in reversed(made):
            with suppress(OSError):  # something was written to the folder
                each.rmdir()
