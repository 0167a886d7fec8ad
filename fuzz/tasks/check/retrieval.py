"""The kernel of a check, found again where a case of it shall be replayed: its test, or its program, is run while
checks check nothing and only say what they would.

A case file says which test it came from, and is data from anybody: what is run is only the file that is named as
`--pack`, like the pack that it stands for.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzz.core.adapters.pack import Pack, PackError
from fuzz.core.adapters.python_kernel import python_kernel
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.text import printable
from fuzz.findings import casefile, document
from fuzz.tasks.check.excerpt import excerpt
from fuzz.tasks.check.function import OwnProcess
from fuzz.tasks.check.plan import GIVEN, Checked, running_test

_BY_NAME = """
import functools

@functools.wraps({entry})
def by_name(**given):
    returned = {entry}(**{{{called!r}.get(name, name): each for name, each in given.items()}}, **{constants!r})
    return dict(zip({returns!r}, returned)) if isinstance(returned, (tuple, list)) else returned
"""
"""A function that is called by the names of its op, and what it returns as a tuple by those of the outputs."""
_MEMBER = "check"
"""What a case file calls the check that found it."""


@dataclass(frozen=True)
class Retrieved:
    """The kernel of a check."""

    pack: Pack
    here: OwnProcess | None
    """The process that runs a plain function: this one."""

    @contextlib.contextmanager
    def as_program(self, target: Target) -> Iterator[Target]:
        """The target with the source that a program by itself has: without the tests beside a function. Raises
        UsageError."""
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
            for path in source.parent.glob("*.py"):  # it may import them relatively
                with contextlib.suppress(OSError):
                    Path(folder, path.name).write_bytes(path.read_bytes())
            alone = Path(folder, source.name)
            alone.write_text(text, encoding="utf-8")
            yield replace(target, kernel=replace(python_kernel(target.kernel), source=alone, entry=entry))


def origin_words() -> tuple[str, ...]:
    """The words that name, on a command line, the file whose check runs now; none where it is typed at a prompt."""
    test = running_test()
    file = GIVEN.options.root / test.partition("::")[0] if test else Path(_program())
    if not file.is_file():
        return ()
    more = [] if test else sys.argv[1:]
    return "--pack", shlex.join([os.path.relpath(file), *more]) if more else os.path.relpath(file)


def command_of(named: Path) -> list[str]:
    """The file of a check, and the arguments of a program after it, as `origin_words` writes both; nothing where no
    file is named."""
    if named.exists():
        return [str(named)] if named.is_file() else []
    with contextlib.suppress(ValueError):  # a quotation that does not end
        words = shlex.split(str(named))
        return words if words and Path(words[0]).is_file() else []
    return []


def _program() -> str:
    """The file that Python was started with."""
    return str(getattr(sys.modules["__main__"], "__file__", None) or "")


def sign(path: Path) -> None:
    """Note in a case file which check found the case."""
    test = running_test()
    record = dict(document.read(path))
    record[_MEMBER] = {"test": test} if test else {"program": Path(_program()).name}
    casefile.write(path, record)


def file_words(path: Path) -> tuple[str, ...]:
    """The words that name, on a command line, the file whose check found the case at that path, as far as its case file
    knows; none for a case of a pack's kernel."""
    signed = _signature(path)
    file = str(signed.get("test") or signed.get("program", "")).partition("::")[0]
    return ("--pack", printable(file)) if file else ()


def refuse_alone(path: Path, verb: str) -> None:
    """Raise UsageError, with the line to type, for a case file of a check, whose kernel is in no pack."""
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
    """The kernel that the check is about which found the case, in the file that `command` begins with. Raises
    UsageError."""
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
    """The target on which it was found."""
    if case is None:
        return ""
    record = document.read(case)
    found = record.get("found") if isinstance(record, dict) else None
    return str(found.get("target", "")) if isinstance(found, dict) else ""


def _asked(command: Sequence[str], test: str, *, program: bool) -> list[Checked]:
    """What the checks would check. What the file prints is not shown, unless there is no check."""
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
    except (Exception, SystemExit) as error:  # what came before it may be the check
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
    """With the first line of an error that was said, else with the last line."""
    lines = [line.strip(" =") for line in said.splitlines() if line.strip(" =")]
    errors = [line.removeprefix("E ").strip() for line in lines if line.startswith("E  ")]
    return printable(f"{what}: {[*errors, *lines[-1:]][0]}" if lines else what)
