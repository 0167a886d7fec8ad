"""Finding the kernel of a check again, to run one of its cases. The check's test or program is run in a mode in which
checks only record what they would check. A case file names its test, but anybody may have written the file. So only the
file that the user names with `--pack`, as if it were a pack, is run."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import math
import runpy
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fuzz.core.adapters.pack import Pack, PackError
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.excerpt import bound, module_text
from fuzz.core.base.text import printable
from fuzz.findings import casefile, document
from fuzz.tasks.check.function import OwnProcess
from fuzz.tasks.check.setup import GIVEN, Checked, program, running_test

_BY_NAME = """
import functools

@functools.wraps({entry})
def by_name(**given):
    returned = {entry}(**{{{called!r}.get(name, name): each for name, each in given.items()}}, **{constants!r})
    return dict(zip({returns!r}, returned)) if isinstance(returned, (tuple, list)) else returned
"""
"""The source of a function that takes tensors by the op's names and returns results by the outputs' names."""
_MEMBER = "check"
"""The key of a case file that names the check which found the case."""


@dataclass(frozen=True)
class Retrieved:
    """The kernel of a check, found again."""

    pack: Pack
    here: OwnProcess | None
    """This process, if it runs a plain function; None for a declared kernel."""

    @contextlib.contextmanager
    def as_program(self, target: Target) -> Iterator[Target]:
        """Yield the target with a source file of its own that has the function but not the tests around it. A declared
        kernel stays as it is. Raises UsageError."""
        if self.here is None:
            yield target
            return
        text, entry = excerpt(self.here.function.function)
        function = self.here.function
        if len(function.returns) > 1 or function.called or function.constants:
            called, constants = dict(function.called), dict(function.constants)
            more = _BY_NAME.format(entry=entry, returns=function.returns, called=called, constants=constants)
            text, entry = text + more, "by_name"
        source = target.kernel.source
        with tempfile.TemporaryDirectory() as folder:
            for path in source.parent.glob("*.py"):  # the function may import them relatively
                with contextlib.suppress(OSError):
                    Path(folder, path.name).write_bytes(path.read_bytes())
            alone = Path(folder, source.name)
            alone.write_text(text, encoding="utf-8")
            yield replace(target, kernel=replace(PythonKernel.of(target.kernel), source=alone, entry=entry))


def command_of(named: Path) -> list[str]:
    """Return the words of a command: the file that calls `fuzz.check`, then the arguments of that file. `named` is one
    word, as `origin_words` writes it: a path, or a quoted command line. Nothing if it names no file."""
    if named.exists():
        return [str(named)] if named.is_file() else []
    with contextlib.suppress(ValueError):  # a quotation that does not end
        words = shlex.split(str(named))
        return words if words and Path(words[0]).is_file() else []
    return []


def sign(path: Path) -> None:
    """Write into a case file the test or program whose check found the case."""
    test = running_test()
    record = dict(document.read(path))
    record[_MEMBER] = {"test": test} if test else {"program": Path(program()).name}
    casefile.write(path, record)


def file_words(path: Path) -> tuple[str, ...]:
    """Return the words of a command line that name the file whose check found this case, if the case file names it;
    none for a case of a pack's kernel."""
    signed = _signature(path)
    file = str(signed.get("test") or signed.get("program", "")).partition("::")[0]
    return ("--pack", printable(file)) if file else ()


def refuse_alone(path: Path, verb: str) -> None:
    """Raise UsageError, saying what to type, if the case file was written by a check: no pack has its kernel."""
    words = file_words(path)
    if words:
        test = _signature(path).get("test")
        where = f"the test {printable(str(test))}" if test else words[-1]
        line = shlex.join(["kernelfuzz", verb, printable(str(path)), *words])
        raise UsageError(f"{printable(str(path))}: was found by fuzz.check in {where}, which has the kernel: {line}")


def _signature(path: Path) -> Mapping[str, Any]:
    try:
        record = document.read(path)
    except (CaseError, OSError):
        return {}
    signed = record.get(_MEMBER) if isinstance(record, dict) else None
    return signed if isinstance(signed, dict) else {}


def retrieved(command: Sequence[str], case: Path | None) -> Retrieved:
    """Return the kernel of the check that found the case, run by `command`, a file and arguments. Raises UsageError."""
    file = Path(command[0])
    signed = _signature(case) if case is not None else {}
    test = str(signed.get("test", ""))
    wanted = _target_of(case)
    found = _asked(command, test.partition("::")[2], program="program" in signed)
    fitting = [each for each in found if not wanted or wanted in {target.id for target in each.targets}]
    if not fitting:
        there = ", ".join(dict.fromkeys(target.id for each in found for target in each.targets))
        raise PackError(f"{file}: has no check of {wanted}, and of {there}")
    checked = fitting[0]
    return Retrieved(Pack(file, (checked.targets[0].kernel,)), checked.here)


def _target_of(case: Path | None) -> str:
    """Return the id of the target on which the case was found."""
    if case is None:
        return ""
    record = document.read(case)
    found = record.get("found") if isinstance(record, dict) else None
    return str(found.get("target", "")) if isinstance(found, dict) else ""


def _asked(command: Sequence[str], test: str, *, program: bool) -> list[Checked]:
    """Run the file and return what its checks would check. Its output is hidden, unless it has no check."""
    file, before, said = Path(command[0]), (GIVEN.asked, sys.argv), io.StringIO()
    GIVEN.asked, sys.argv = [], [*command]
    sys.path.insert(0, str(Path.cwd()))  # as `python -m pytest` has it
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            _run_program(command) if program else _run_test(file, test)
        found = GIVEN.asked
    finally:
        GIVEN.asked, sys.argv = before
        sys.path.remove(str(Path.cwd()))
    if not found:
        raise PackError(_with_end(_no_check(command, program=program), said.getvalue()))
    return found


def _no_check(command: Sequence[str], *, program: bool) -> str:
    file, *more = command
    if not program:
        return f"{file}: no check was made"
    without = f"without arguments, which --pack '{file} ARGUMENT ...' gives it"
    return f"{file}: no check was made when it was run {f'with {shlex.join(more)}' if more else without}"


def _run_program(command: Sequence[str]) -> None:
    try:
        runpy.run_path(command[0], run_name="__main__")
    except (Exception, SystemExit) as error:  # the check may have come before the error
        if not GIVEN.asked:
            why = f"{type(error).__name__}: {error}"
            raise PackError(printable(f"{_no_check(command, program=True)}: {why}")) from error


def _run_test(file: Path, test: str) -> None:
    if find_spec("pytest") is None:
        raise UsageError(f"{file}: pytest is not installed, which runs its tests: pip install pytest")
    import pytest

    name = f"{file}::{test}" if test else str(file)
    pytest.main(["-q", "-p", "no:cacheprovider", "-o", "addopts=", name])


def _with_end(what: str, said: str) -> str:
    """Return a message, followed by the first line of the output that reports an error, else by the last line."""
    lines = [line.strip(" =") for line in said.splitlines() if line.strip(" =")]
    errors = [line.removeprefix("E ").strip() for line in lines if line.startswith("E  ")]
    return printable(f"{what}: {[*errors, *lines[-1:]][0]}" if lines else what)


ENTRY = "kernel"
"""The name that a lambda or an inner function gets in the program that shows its failure."""


def excerpt(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the text of a module with the function and everything in its file that it needs, and its name there.
    Raises UsageError if it needs a value that no file has."""
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType):
        raise _refused(f"the kernel is {type(plain).__name__!r}, and no function of a file")
    try:
        tree = ast.parse(Path(plain.__code__.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise _refused(f"the source of the kernel cannot be read: {error}") from error
    top = next((each for each in tree.body if bound(each) == {plain.__name__} and _begins(each, plain)), None)
    if top is not None:
        return module_text(tree.body, [top]), plain.__name__
    return module_text(tree.body, [*_enclosed(plain), _hoisted(tree, plain)]), ENTRY


def _refused(why: str) -> UsageError:
    return UsageError(f"--script: {why}; give it to fuzz.check as a function at the top of a file")


def _begins(node: ast.AST, function: FunctionType) -> bool:
    lines: list[int] = [getattr(node, "lineno", -1), *(e.lineno for e in getattr(node, "decorator_list", ()))]
    return min(lines) == function.__code__.co_firstlineno


def _hoisted(tree: ast.Module, function: FunctionType) -> ast.stmt:
    """Return a lambda or inner function as a definition at module level, named `ENTRY`."""
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Lambda, ast.FunctionDef))
        and _begins(node, function)
        and [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] == [*arguments]
    ]
    if len(found) != 1:
        raise _refused("the kernel is one of several that begin on one line, or none that its file has now")
    [node] = found
    if isinstance(node, ast.FunctionDef):
        node.name = ENTRY
        return node
    [made] = ast.parse(f"def {ENTRY}(): ...").body
    assert isinstance(made, ast.FunctionDef)
    made.args, made.body = node.args, [ast.Return(node.body)]
    return ast.fix_missing_locations(made)


def _enclosed(function: FunctionType) -> Iterator[ast.stmt]:
    """Yield assignments and imports for the variables that the function uses of the functions around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        value = cell.cell_contents
        if isinstance(value, ModuleType):
            yield ast.parse(f"import {value.__name__} as {name}").body[0]
        elif _is_literal(value):
            yield ast.parse(f"{name} = {value!r}").body[0]
        else:
            raise _refused(f"the kernel uses {name!r} of the function around it")


def _is_literal(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    plain = value is None or isinstance(value, (bool, int, str, bytes))
    return plain or (isinstance(value, float) and math.isfinite(value))
