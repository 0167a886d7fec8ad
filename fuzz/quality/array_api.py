"""A namespace of arrays that judges in passing: the results of a library are judged while a suite of others calls it,
whatever the suite compares."""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from math import prod
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError, error_line
from fuzz.references.parameters import LIBRARIES
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record
from fuzz.tasks.bound import ReadTask
from fuzz.tasks.check.results import CheckError
from fuzz.tasks.comparison import OPEN, RIGHT, WRONG, JudgedCall

UNREAD = "not read"
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_MOST_ELEMENTS = 1 << 12
"""Calls on larger arrays are not judged."""


_NAMED: Sequence[Callable[[Any], Any]] = (
    lambda call: lambda a: call(a), lambda call: lambda a, b: call(a, b), lambda call: lambda a, b, c: call(a, b, c)
)  # fmt: skip
"""Functions that give a call one to three parameters, as references have them."""


@dataclass
class FunctionCalls:
    """What was found out about the calls of one function."""

    made: int = 0
    """The calls with an array of floats among their arguments and floats as their result."""
    results: dict[str, int] = field(default_factory=dict)
    example: str = ""
    """What is wrong with the first wrong result, or else why nothing was read first."""


@dataclass
class PassingJudge:
    """The judge of the results of a library's functions. It looks at `most` calls of each function, and reads it anew
    for arrays of other shapes."""

    most: int = 60
    calls: dict[str, FunctionCalls] = field(default_factory=lambda: defaultdict(FunctionCalls))
    _read: dict[Any, ReadTask | str] = field(default_factory=dict)

    def look(
        self, name: str, function: Callable[..., Any], args: Sequence[Any], more: Mapping[str, Any], got: Any
    ) -> None:
        """Judge what a call returned."""
        arrays = {at: each for at, each in enumerate(args) if not isinstance(each, np.generic) and _is_of_floats(each)}
        outputs = got if isinstance(got, tuple) else (got,)
        if not 1 <= len(arrays) <= len(_NAMED) or not all(map(_is_of_floats, outputs)):
            return
        if any(prod(each.shape) > _MOST_ELEMENTS for each in arrays.values()) or any(isinstance(x, list) for x in args):
            return
        calls = self.calls[name]
        calls.made += 1
        if sum(calls.results.values()) < self.most:
            result, said = self._judged(name, function, args, more, arrays, got)
            first = result == WRONG and WRONG not in calls.results
            calls.results[result] = calls.results.get(result, 0) + 1
            calls.example = said if first or not calls.example else calls.example

    def _judged(
        self, name: str, function: Callable[..., Any], args: Sequence[Any], more: Mapping[str, Any],
        arrays: Mapping[int, Any], got: Any,
    ) -> tuple[str, str]:  # fmt: skip
        if type(next(iter(arrays.values()))).__module__.partition(".")[0] not in (*LIBRARIES, "jaxlib"):
            # The reader knows no others, such as dask: by the standard NumPy's of that name means the same.
            try:
                function = resolve_name(f"numpy:{name}")
                arrays, got = {at: np.asarray(each) for at, each in arrays.items()}, _of_numpy(got)
            except Exception as error:
                return UNREAD, error_line(error)

        def called(*given: Any) -> Any:
            own = dict(zip(arrays, given, strict=True))
            return function(*(own.get(at, each) for at, each in enumerate(args)), **more)

        others = [each for at, each in enumerate(args) if at not in arrays]
        shapes = [(tuple(each.shape), _dtype(each)) for each in arrays.values()]
        key = name, repr((others, shapes, sorted(more.items())))
        if key not in self._read:
            try:
                self._read[key] = ReadTask.of(_NAMED[len(arrays) - 1](called), [*arrays.values()])
            except Exception as error:  # of a reader that was made for other calls
                self._read[key] = str(error) if isinstance(error, CheckError) else error_line(error)
        read = self._read[key]
        if isinstance(read, str):
            return UNREAD, read
        try:
            names = [theirs or own for own, theirs in read.derived.called.items()]
            named = dict(zip(names, arrays.values(), strict=True))
            found = JudgedCall.by_formula(ReadTask.of_read(read.derived, named), got)
        except Exception as error:
            return UNREAD, error_line(error)
        given = ", ".join(f"{_dtype(each)}{[*each.shape]}" for each in arrays.values())
        return found.result, f"of {given}: {found.said}" if found.said else ""


def _of_numpy(value: Any) -> Any:
    return tuple(map(np.asarray, value)) if isinstance(value, tuple) else np.asarray(value)


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).rpartition(".")[2]


def _is_of_floats(value: Any) -> bool:
    return hasattr(value, "shape") and _dtype(value) in _FLOATS


class JudgedNamespace(ModuleType):
    """A library's namespace whose functions are judged when they are called."""

    def __init__(self, library: Any, judge: PassingJudge, within: str = "") -> None:
        super().__init__(library.__name__)
        self.__dict__.update(_library=library, _judge=judge, _within=within)

    def __getattr__(self, name: str) -> Any:
        library, judge, within = (self.__dict__[each] for each in ("_library", "_judge", "_within"))
        found = getattr(library, name)
        if name in ("linalg", "fft") and isinstance(found, ModuleType):
            return JudgedNamespace(found, judge, f"{name}.")
        if isinstance(found, type) or not callable(found) or name.startswith("_"):
            return found

        def called(*args: Any, **more: Any) -> Any:
            got = found(*args, **more)
            judge.look(f"{within}{name}", found, args, more, got)
            return got

        called.__name__ = name
        return called

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_library"])


def namespace(library: Any, path: Path, most: int) -> JudgedNamespace:
    """Return the judged namespace of a library. What was found is written to a file as the process ends."""
    judge = PassingJudge(most)
    atexit.register(lambda: path.write_text(json.dumps({name: asdict(each) for name, each in judge.calls.items()})))
    return JudgedNamespace(library, judge)


@dataclass(frozen=True)
class ArrayApiOptions:
    """The options of `python3 -m fuzz.quality array-api`."""

    suite: Annotated[Path, typer.Argument(help="A checkout of array-api-tests.")]
    library: Annotated[
        str, typer.Option("--library", help="The module that is judged, such as array_api_compat.torch.")
    ] = "numpy"
    test: Annotated[str, typer.Option("--test", help="Only tests whose name has this, as pytest's -k.")] = ""
    calls: Annotated[int, typer.Option("--calls", min=1, help="Most calls of each function that are judged.")] = 60
    examples: Annotated[
        int, typer.Option("--examples", min=1, help="Examples of each test, as its --max-examples.")
    ] = 100
    markdown: options.Markdown = False
    json: options.Json = None


def array_api(options: ArrayApiOptions) -> Exit:
    """Judge the results of a library while the array API's own tests call it; exit code 1 if one is wrong."""
    try:
        import_module(options.library)
    except ImportError as error:
        raise UsageError(f"--library {options.library}: {error}") from error
    if not (options.suite / "array_api_tests").is_dir():
        raise UsageError(f"{options.suite}: no checkout of array-api-tests")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.json"
        script = (
            "from importlib import import_module; from pathlib import Path; "
            "from fuzz.quality.array_api import namespace; "
            f'xp = namespace(import_module("{options.library}"), Path("{path}"), {options.calls})'
        )
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "array_api_tests"]
        words += ["--disable-deadline", "--max-examples", str(options.examples)]
        words += ["-k", options.test] if options.test else []
        with console.progress().status("Running the suite ..."):
            done = subprocess.run(
                words, cwd=options.suite, check=False, capture_output=True, text=True,
                env={**os.environ, "ARRAY_API_TESTS_MODULE": f"exec('{script}')"},
            )  # fmt: skip
        if not path.exists() or done.returncode not in (0, 1):  # 1: some test failed
            raise UsageError(f"{options.suite}: the suite did not run: {done.stdout[-300:]}{done.stderr[-300:]}")
        found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    print_table(_table(found), markdown=options.markdown)
    console.results().print(f"\nthe suite itself: {_summary(done.stdout)}")
    write_record(options.json, {"calls": found})
    return Exit.FINDINGS if any(each["results"].get(WRONG) for each in found.values()) else Exit.OK


def _summary(printed: str) -> str:
    lines = [line for line in printed.splitlines() if re.search(r"\d+ (passed|failed)", line)]
    return lines[-1].strip("= ") if lines else "no summary"


def _table(found: Mapping[str, Any]) -> PlainTable:
    rows = [
        (name, f"{each['made']:,}", *(f"{each['results'].get(word, 0)}" for word in (RIGHT, WRONG, OPEN, UNREAD)),
         " ".join(each["example"].split())[:120])
        for name, each in sorted(found.items())
    ]  # fmt: skip
    return PlainTable(("function", "calls", RIGHT, WRONG, OPEN, UNREAD, "such as"), rows)
