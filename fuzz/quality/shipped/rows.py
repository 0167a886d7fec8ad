"""The rows of `python3 -m fuzz.quality shipped`: each is a call of a library's function, and what that is by its
documentation, both as expressions of Python. A file of TOML has the rows of one or of a few libraries. And what was
found out about a row."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from fuzz.core.base.errors import UsageError

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class ShippedOp:
    """A function of a library and what it should compute."""

    library: str
    """The distribution that has the function."""
    name: str
    shapes: str
    call: str
    """The library's call, an expression in the tensors that `shapes` names."""
    means: str
    """What that is by the documentation, an expression in the same tensors, which are torch's."""
    modules: Mapping[str, str]
    """The modules that the expressions name."""
    options: Mapping[str, Any]
    """What `fuzz.check` is told besides: `arrays`, `oracle`, `values`, and `dtypes`, which a row calls `integers`."""
    capabilities: Mapping[str, Any]
    known: str
    """What a person found out about a deviation; '' if the function is expected to be right."""
    file: Path
    line: int

    @property
    def key(self) -> str:
        """The library and the name, such as "bottleneck nanmean"."""
        return f"{self.library} {self.name}"

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the library's function and the reference. Raises ImportError if the library is not here."""
        stated = import_module("fuzz.quality.shipped.stated")
        names = {**vars(stated), **{name: import_module(module) for name, module in self.modules.items()}}
        given = [part.partition("=") for part in self.shapes.split(",")]
        tensors = ", ".join(name.strip() for name, _, dims in given if not dims.strip().isdigit())
        both = (f"lambda {tensors}: {text}" for text in (self.call, self.means))
        kernel, reference = (eval(compile("\n" * (self.line - 1) + text, self.file, "eval"), names) for text in both)
        return kernel, reference


@cache
def shipped_ops() -> Mapping[str, ShippedOp]:
    """Return all rows by their keys."""
    return {each.key: each for path in sorted(_FOLDER.glob("*.toml")) for each in _of(path)}


def _of(path: Path) -> Sequence[ShippedOp]:
    text = path.read_text("utf-8")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name}: {error}") from error
    lines, found, here = dict[tuple[str, str], int](), list[ShippedOp](), ""
    for at, line in enumerate(text.splitlines(), 1):
        here = line.strip("[]").removesuffix(".ops") if line.startswith("[") else here
        lines[here, line.partition(" = ")[0].strip('"')] = at
    for library, table in tables.items():
        shared = table.get("every", {})
        for name, row in table["ops"].items():
            some = {**shared, **row}
            shapes, call, means, known = (some.pop(key, "") for key in ("shapes", "call", "means", "known"))
            own = {"dtypes": ("f32", "f64"), "strides": "any", "empty": False, **some.pop("capabilities", {})}
            own["max"] = {dim: most for dim, most in own.get("max", {}).items() if re.search(rf"\b{dim}\b", shapes)}
            own["dtypes"] = tuple(some.pop("dtypes", own["dtypes"]))
            own["strides"] = some.pop("strides", own["strides"])
            some |= {"dtypes": some.pop("integers")} if "integers" in some else {}
            found.append(
                ShippedOp(
                    library, name, shapes, call, means, table["modules"], some, own, known, path, lines[library, name]
                )
            )
    return found


ABSENT = "not installed"
"""The result of a row whose library is not here."""


@dataclass(frozen=True)
class ShippedAnswer:
    """What was found out about one row."""

    key: str
    result: str
    said: str = ""
    """What is wrong, or why nothing is judged."""
    by: str = ""
    """What judged it: a formula or a replay."""
    whole: str = ""
    """The whole report of a failure."""
