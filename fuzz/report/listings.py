"""The tables of `kernelfuzz list`."""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fuzz.core.adapters.pack import Pack, found, load
from fuzz.core.adapters.registry import expand
from fuzz.core.base.kernel import Kernel
from fuzz.core.generate.menus import recipes
from fuzz.core.laws.registry import LAWS
from fuzz.report.console import PlainTable
from fuzz.report.platforms import platforms_table
from oracles.elementary.function import Elementary, FunctionFamily, OfTwo
from oracles.elementary.functions import records
from oracles.op import Op
from oracles.operand import Operand, Parameter
from oracles.ops import OPS


def listing(what: str, pack: Path | None) -> PlainTable:
    """Return the table of `what`: 'kernels', 'targets', 'ops', 'functions', 'recipes', 'laws' or 'platforms'."""
    return _LISTINGS[what](pack)


def kernels_table(path: Path | None) -> PlainTable:
    """Return the table of `fuzz/docs/kernels.md`, with a line for each kernel: what it accepts, and its targets."""
    pack = load(path, rehearsed=True)
    rows = [
        (kernel.name, kernel.op, " ".join(kernel.able.dtypes), _takes(kernel), _places(kernel), kernel.summary)
        for kernel in pack.kernels
    ]
    return PlainTable(("kernel", "op", "dtypes", "takes", "targets", "what it is"), rows)


_STRIDES = {
    "contiguous": "contiguous rows",
    "spaced": "spaced rows",
    "pitched": "pitched rows",
    "rows": "unit stride in rows",
    "any": "any strides",
}


def _takes(kernel: Kernel) -> str:
    able = kernel.able
    parts = [f"{able.axis} axis"] if OPS[kernel.op].any_axis else []
    parts.append(_STRIDES[able.strides])
    if able.aliases:
        parts.append("in place")
    return ", ".join(parts)


def _places(kernel: Kernel) -> str:
    """Return the places where a kernel runs, without compilers and flags, and its variables: 'native; qemu vl=128,
    256'."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for target in expand([kernel]):
        known = found.setdefault(target.name.site, {})
        for word, value in target.name.settings:
            known.setdefault(word, {})[value] = None
    places = "; ".join(" ".join([where, _said(known)]).strip() for where, known in found.items())
    return ", ".join([places, *(f"{name}={value!r}" for name, value in kernel.variables.items())])


def _said(settings: Mapping[str, Iterable[str]]) -> str:
    """Return each setting with its values: 'vl=128, 256'."""
    return ", ".join(f"{word}={', '.join(values)}" for word, values in settings.items())


def targets_table(path: Path | None) -> PlainTable:
    """Return a table with a line for each target, and the reason if it cannot run here."""
    rows = [
        (target.id, "yes" if (reason := target.unavailable()) is None else f"NOT_RUN: {reason}")
        for target in expand(load(path, rehearsed=True).kernels)
    ]
    return PlainTable(("target", "runs here"), rows)


def ops_table(path: Path | None) -> PlainTable:
    """Return a table with some lines for each op, those of the pack first: its formula, inputs, outputs and kernels."""
    pack = _here(path)
    rows = []
    for op in dict.fromkeys((*pack.ops, *OPS.values())):
        said = [
            ("formula", formula_text(op)),
            ("inputs", ", ".join(map(_shaped, op.inputs))),
            ("outputs", ", ".join(map(_shaped, op.outputs))),
            ("parameters", ", ".join(map(_number, op.parameters))),
            ("algorithms", ", ".join(f"{local}: {' or '.join(ways)}" for local, ways in op.algorithms.items())),
            ("kernels", ", ".join(kernel.name for kernel in pack.kernels if kernel.op == op.name) or "none"),
        ]
        there = [(what, text) for what, text in said if text]
        rows += [(op.name if not number else "", *each) for number, each in enumerate(there)]
    return PlainTable(("op", "", "what it is; a tensor with ? may be absent"), rows)


def _here(path: Path | None) -> Pack:
    """Return the pack at that path. If kernelfuzz is installed alone, the pack is empty, but has all ops and laws."""
    return load(path, rehearsed=True) if path or found() else Pack(Path(), ())


def formula_text(op: Op) -> str:
    """Return the formula's docstring, or else its source code."""
    said = inspect.getdoc(op.formula)
    if said:
        return " ".join(said.split())
    try:
        return textwrap.dedent(inspect.getsource(op.formula)).rstrip()
    except (OSError, TypeError):  # the formula was made at run time
        return op.summary or "has no text"


def _shaped(operand: Operand) -> str:
    meant = f" ({operand.meant})" if operand.integers else ""
    return f"{operand.name}[{', '.join(operand.axes)}]{'?' if operand.optional else ''}{meant}"


def _number(parameter: Parameter) -> str:
    least = f" >= {parameter.least:g}" if math.isfinite(parameter.least) else ""
    neutral = f" = {parameter.neutral:g} if absent" if parameter.neutral is not None else ""
    return f"{parameter.name}{least}{neutral}"


def functions_table(path: Path | None) -> PlainTable:
    """Return a table with a line for each elementary function, and the accuracy that contracts promise by default."""
    rows = [(_call(of), "exact" if of.is_exact else f"{of.usual:g} ulp", of.summary) for of in records().values()]
    return PlainTable(("function", "accuracy", "what it is"), rows)


def _call(of: Elementary | FunctionFamily | OfTwo) -> str:
    more = f", {of.constant}" if isinstance(of, FunctionFamily) else ", other" if isinstance(of, OfTwo) else ""
    return f"f.{of.name}(value{more})"


def recipes_table(path: Path | None) -> PlainTable:
    """Return a table with a line for each recipe."""
    rows = [
        (recipe.name, "worst case" if recipe.structured else "statistical", recipe.summary)
        for recipe in recipes().values()
    ]
    return PlainTable(("recipe", "budget", "what it draws"), rows)


def laws_table(path: Path | None) -> PlainTable:
    """Return a table with a line for each law, and the kernels that declare it."""
    kernels = _here(path).kernels
    rows = []
    for law in LAWS.values():
        holders = [kernel.name for kernel in kernels if law.name in kernel.laws]
        everyone = holders and len(holders) == len(kernels)
        rows.append((law.name, law.summary, "all" if everyone else ", ".join(holders) or "none"))
    return PlainTable(("law", "what changes no bit", "declared by"), rows)


_LISTINGS: Mapping[str, Callable[[Path | None], PlainTable]] = {
    "kernels": kernels_table,
    "targets": targets_table,
    "ops": ops_table,
    "functions": functions_table,
    "recipes": recipes_table,
    "laws": laws_table,
    "platforms": lambda path: platforms_table(),
}
