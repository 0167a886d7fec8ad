"""The pages of the reference that are written by code, from what the code itself says: `conf.py` has them built."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from msgspec import Struct
from typer.cli import get_docs_for_click

import fuzz
from fuzz.cli import app
from fuzz.core.laws.registry import LAWS
from fuzz.explain.explanation import Explanation
from fuzz.report.console import PlainTable, markdown_table
from fuzz.report.events import Ended, Found, Noted, Progressed, Started
from fuzz.report.listings import functions_table, recipes_table
from fuzz.report.platforms import platforms_table
from fuzz.tasks.judge.ruling import Ruling
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS

DOCS = Path(__file__).parent
DECLARATIONS: Mapping[str, tuple[str, ...]] = {
    "What a kernel promises": ("Contract", "Within"),
    "Orders of sums": ("Sequential", "Lanes", "VectorLanes", "Pairwise", "Tiles", "Blocks", "Steps", "AnyOrder"),
    "What a kernel accepts": ("Capabilities",),
    "Kernels": ("PythonKernel", "CKernel", "CudaKernel", "SharedKernel", "CommandKernel", "Mutant"),
    "Ops": ("Op", "Operand", "Parameter", "Flip"),
    "In a test or a program": (
        "check",
        "check_module",
        "judge",
        "drawn",
        "check_conversion",
        "check_blocks",
        "every",
        "backward",
        "repeated",
        "register",
    ),
}
"""What `fuzz` exports, in the order of the page."""
_SCHEMAS: Mapping[str, Sequence[type]] = {
    "explanation": (Explanation,),
    "ruling": (Ruling,),
    "events": (Started, Progressed, Found, Noted, Ended),
}
_EMPTY: Mapping[str, Any] = {"array": [], "object": {}}


def command_line() -> str:
    """Every command with its options, as typer documents it."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="kernelfuzz")
    verbs = (
        get_docs_for_click(obj=verb, ctx=context, name=name, indent=1, call_prefix="kernelfuzz").strip()
        for name, verb in group.commands.items()  # type: ignore[attr-defined]
    )
    intro = f"{group.help} `kernelfuzz COMMAND --help` prints the same.\n\n{group.epilog}"
    return "\n\n".join(["# The command line", intro, *verbs])


def ops() -> str:
    """Every op with its formula, as Python, its tensors and its parameters."""
    intro = (
        "What each op computes, as the Python that the exact values, the tolerances and the gradients follow from. "
        "`point` is where a [contract](../contracts.md) may say that a value is rounded."
    )
    return "\n\n".join(["# Ops and their formulas", intro, *map(_op, OPS.values())])


def _op(op: Op) -> str:
    tensors = [(f"`{each.name}`", f"`{each.dims}`", kind, _said(each)) for each, kind in _tensors(op)]
    parts = [
        f"## {op.name}",
        _sentence(op.summary),
        _fenced("\n\n".join(map(inspect.getsource, _parts(op.formula)))),
        markdown_table(PlainTable(("tensor", "dimensions", "", "what is known of it"), tensors)),
    ]
    numbers = [
        (f"`{each.name}`", ", ".join(f"{value:g}" for value in each.values), _neutral(each.neutral))
        for each in op.parameters
    ]
    if numbers:
        parts.append(markdown_table(PlainTable(("parameter", "values that are tried", "left out"), numbers)))
    ways = [(f"`{local}`", ", ".join(f"`{way}`" for way in known)) for local, known in op.algorithms.items()]
    if ways:
        parts.append(markdown_table(PlainTable(("local", "other algorithms for it"), ways)))
    return "\n\n".join(parts)


def _parts(formula: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A formula, and the functions of files of ops that it is made of."""
    found = [formula]
    for each in found:
        names = (each.__globals__.get(name) for name in each.__code__.co_names)
        found += [more for more in names if inspect.isfunction(more) and _is_of_ops(more) and more not in found]
    return found


def _is_of_ops(function: Callable[..., Any]) -> bool:
    return function.__module__.startswith("oracles.ops.")


def _tensors(op: Op) -> Iterator[tuple[Operand, str]]:
    yield from ((each, "input") for each in op.inputs)
    yield from ((each, "output") for each in op.outputs)


def _said(operand: Operand) -> str:
    known = [
        "may be left out" if operand.optional else "",
        f"dtype of `{operand.dtype}`" if operand.dtype in OPERANDS else operand.dtype,
        operand.meant if operand.integers else "",
    ]
    return ", ".join(filter(None, known))


OPERANDS = {each.name for op in OPS.values() for each in op.operands}
"""The names of tensors, which stand for their dtypes."""


def _neutral(value: float | None) -> str:
    return "never" if value is None else f"then it is {value:g}"


def tables() -> str:
    """What lists print: functions, recipes, laws, and facts of platforms."""
    laws = PlainTable(("law", "what changes no bit"), [(f"`{each.name}`", each.summary) for each in LAWS.values()])
    listed = {
        "Elementary functions": ("functions", functions_table(None)),
        "Recipes": ("recipes", recipes_table(None)),
        "Laws": ("laws", laws),
        "Platforms": ("platforms", platforms_table()),
    }
    parts = ["# Functions, recipes, laws, platforms"]
    for heading, (name, table) in listed.items():
        parts += [f"## {heading}", f"`kernelfuzz list {name}` prints these.", markdown_table(table)]
    return "\n\n".join(parts)


def declarations() -> str:
    """Everything that a pack or a test imports from `fuzz`, with its fields."""
    parts = ["# What a pack and a test may import", "All of these are imported from `fuzz`."]
    for heading, names in DECLARATIONS.items():
        parts.append(f"## {heading}")
        parts += [_declared(name, getattr(fuzz, name)) for name in names]
    return "\n\n".join(parts)


def _declared(name: str, thing: Any) -> str:
    said = inspect.getdoc(thing) or ""
    if inspect.isfunction(thing):
        return f"### {name}\n\n{_fenced(_signature(thing))}\n\n{said}"
    told = _field_docs(thing)
    rows = [(f"`{each.name}`", f"`{each.type}`", _default(each), told.get(each.name, "")) for each in fields(thing)]
    table = markdown_table(PlainTable(("field", "type", "default", "what it says"), rows)) if rows else ""
    return f"### {name}\n\n{said}\n\n{table}".strip()


def _signature(function: Callable[..., Any]) -> str:
    """What stands before the docstring."""
    return inspect.getsource(function).partition('"""')[0].rstrip().removesuffix(":")


def _default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"`{field.default_factory()!r}`"
    if field.default is MISSING:
        return ""
    kind = type(field.default)
    plain = is_dataclass(kind) and field.default == kind()
    return f"`{kind.__name__}()`" if plain else f"`{field.default!r}`"


def _field_docs(kind: type) -> dict[str, str]:
    """What the docstrings below the fields of a class say, and those of its bases where it says nothing."""
    found: dict[str, str] = {}
    ours = [each for each in kind.__mro__ if each.__module__.startswith(("fuzz.", "oracles."))]
    for each in reversed(ours):
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                    found[name] = " ".join(text.split())
    return found


def schemas() -> str:
    """The records of the JSON that `show --json` and `judge --json` print."""
    parts = [
        "# The JSON of findings, rulings and events",
        "`kernelfuzz show CASE --json` prints an explanation, `kernelfuzz judge --json` a ruling. A case file and a "
        "run's `--json` have the same explanation. With `--events` every command writes events to stderr. `schema` "
        "is raised when a field changes its meaning or goes.",
    ]
    told: set[str] = set()
    for name, kinds in _SCHEMAS.items():
        classes = _classes(kinds)
        records = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))["$defs"]
        parts += [f"## {name.title()}", f"As a JSON Schema: [`{name}.schema.json`](../{name}.schema.json)."]
        parts += [_record(each, schema, classes) for each, schema in records.items() if each not in told]
        told |= {*records}
    return "\n\n".join(parts)


def _record(name: str, schema: Mapping[str, Any], classes: Mapping[str, type]) -> str:
    said = schema.get("description", "").strip()
    if "properties" not in schema:
        return f"### {name}\n\n{said}\n\n{_kind(schema)}"
    needed, told = schema.get("required", ()), _field_docs(classes[name])
    rows = [
        (f"`{field}`", _kind(each), "" if field in needed else f"`{_left_out(each)}`", told.get(field, ""))
        for field, each in schema["properties"].items()
    ]
    return f"### {name}\n\n{said}\n\n{markdown_table(PlainTable(('field', 'type', 'default', 'what it says'), rows))}"


def _left_out(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema.get("default", _EMPTY.get(schema.get("type", ""))))


def _classes(kinds: Sequence[type]) -> dict[str, type]:
    """The classes of some records and of all records in them, by name."""
    found: dict[str, type] = {}
    todo: list[Any] = [*kinds]
    while todo:
        each = todo.pop()
        is_record = is_dataclass(each) or (isinstance(each, type) and issubclass(each, Struct))
        if is_record and isinstance(each, type) and each.__name__ not in found:
            found[each.__name__] = each
            todo += get_type_hints(each).values()
        todo += get_args(each)
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        items = [*schema.get("prefixItems", ()), *([schema["items"]] if schema.get("items") else [])]
        return " ".join([kind, *(["of"] if items else []), ", ".join(map(_kind, items))]).strip()
    more = schema.get("additionalProperties")
    return f"{kind} of {_kind(more)}" if isinstance(more, Mapping) else kind


def _sentence(text: str) -> str:
    """Return it with a capital letter and a full stop; a name of one letter stays as it is."""
    first, *rest = text.split(" ", 1)
    return " ".join([first if len(first) == 1 else first[:1].upper() + first[1:], *rest]).rstrip(".") + "."


def _fenced(source: str) -> str:
    return f"```python\n{source.strip()}\n```"


PAGES: Mapping[str, Callable[[], str]] = {
    "command-line": command_line,
    "ops": ops,
    "tables": tables,
    "declarations": declarations,
    "json": schemas,
}
"""The pages by the names of their files, which stand in the folder `generated` and in no repository."""


def write(folder: Path) -> None:
    """Write every page, and leave those as they are that say the same already."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", page().rstrip() + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
