"""The text of a formula, as a person would write it, and the function that it defines."""

from __future__ import annotations

import ast
import builtins
import copy
import keyword
import linecache
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fuzz.references.dims import Dim, UnreadableError
from fuzz.references.lines import KEPT, FormulaLine, Lines, is_point, substituted
from oracles.formula import trace
from oracles.op import Op
from oracles.operand import OUTER, Operand

_WIDEST = 116
TAKEN = frozenset({"f", *keyword.kwlist, *dir(builtins)})
"""Names that no local variable of a formula may have."""


@dataclass(frozen=True)
class Formula:
    """A formula in Python."""

    name: str
    text: str
    """The source text of the function."""
    ways: Mapping[str, Mapping[str, str]]
    """Algorithms of locals: by local and name of the algorithm, the text of a lambda."""
    points: Sequence[str]
    """The names of locals that the reference rounds."""

    @property
    def algorithms(self) -> str:
        """Return the `algorithms` argument of an op's declaration as text; "" if there are none."""
        return _dict({local: _dict(ways) for local, ways in self.ways.items()}) if self.ways else ""

    def renamed(self, names: Mapping[str, str]) -> Formula:
        """Return the formula with other names of dimensions, and of the locals that are called like them."""
        if not names:
            return self
        found = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")

        def new(text: str) -> str:
            return found.sub(lambda each: names[each[0]], text)

        first, *body = self.text.split("\n")
        said = body[: body[0].startswith('    """')]
        text = "\n".join([first, *said, *map(new, body[len(said) :])])
        ways = {new(local): {way: new(each) for way, each in some.items()} for local, some in self.ways.items()}
        return Formula(self.name, text, ways, [*map(new, self.points)])

    def run(self, file: str, module: str) -> tuple[Callable[..., Any], Mapping[str, Mapping[str, Callable[..., Any]]]]:
        """Return the function that the text defines, and its algorithms, with `module` and `file` as origin."""
        text = f"{self.text}\n\nALGORITHMS = {self.algorithms or {}}\n"
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        space: dict[str, Any] = {"__name__": module, "f": trace}
        exec(compile(text, file, "exec"), space)
        return space[self.name], space["ALGORITHMS"]


def formula(
    name: str, inputs: Sequence[str], lines: Lines, outputs: Mapping[str, ast.expr], summary: str = ""
) -> Formula:
    """Return the formula with the lines that these outputs need."""
    kept = lines.needed([*outputs.values()])
    named = _named(kept, inputs, outputs)
    body, last = list[str](), {each.id for each in outputs.values() if isinstance(each, ast.Name)}
    returned = {key: _shown(each, named) for key, each in outputs.items()}
    for at, line in enumerate(kept):
        expression = _shown(line.expression, named)
        # The last line, if it is the only output, needs no name unless the reference gives it one.
        alone = len(outputs) == 1 and at == len(kept) - 1 and line.key in last and not (line.own or line.ways)
        if alone and len(f'    return {{"": {expression}}}') + len(named[line.key]) <= _WIDEST:
            returned = dict.fromkeys(outputs, expression)
            continue
        body.append(f"    {named[line.key]} = {expression}")
    parts = ", ".join(f'"{key}": {each}' for key, each in returned.items())
    said = [f'    """{summary}"""'] if summary else []
    text = "\n".join([f"def {name}({', '.join(inputs)}):", *said, *body, f"    return {{{parts}}}", ""])
    rounded = {
        argument.id
        for line in kept
        for node in ast.walk(line.expression)
        if isinstance(node, ast.expr) and is_point(node)
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    ways = {
        named[line.key]: {way: _lambda(each, named) for way, each in line.ways.items()} for line in kept if line.ways
    }
    return Formula(name, text, ways, [named[line.key] for line in kept if line.key in rounded])


def _dict(texts: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {text}' for name, text in texts.items()) + "}"


def _lambda(expression: ast.expr, named: Mapping[str, str]) -> str:
    """Return the text of a lambda of the locals in an expression."""
    own = (node.id for node in ast.walk(expression) if isinstance(node, ast.Name))
    names = dict.fromkeys(name for name in own if name not in ("f", "float", "abs"))
    return f"lambda {', '.join(named.get(name, name) for name in names)}: {_shown(expression, named)}"


def identifier(name: str, otherwise: str) -> str:
    """Return a name changed to one that ops and tensors may have, or `otherwise` if nothing is left."""
    plain = re.sub(r"[^a-z0-9_]", "", name.lower()).lstrip("_0123456789")[:31]
    return plain if plain and plain not in TAKEN else otherwise


def written(op: Op, formula: Formula, said: str) -> str:
    """Return the text of a module that declares an op with its formula, ready for a pack."""
    fields = [f"    {op.name},", *_operands("inputs", op.inputs), *_operands("outputs", op.outputs)]
    more = {"fixed": dict(op.fixed), "least": dict(op.least), "multiples": dict(op.multiples), "square": op.square,
            "shapes": tuple(map(dict, op.shapes))}  # fmt: skip
    fields += [f"    {name}={value!r},".replace("'", '"') for name, value in more.items() if value]
    fields += [f"    algorithms={formula.algorithms},"] if formula.ways else []
    fields += [f"    open_ways={dict(op.open_ways)!r},".replace("'", '"')] if op.open_ways else []
    words = textwrap.fill(f"{said[0].upper()}{said[1:]}.", _WIDEST)
    head = f'"""{words}"""\n\nfrom fuzz import Op, Operand\nfrom fuzz import formula as f\n\n\n'
    name = op.name.upper()
    return f"{head}{formula.text}\n\n{name} = Op(\n" + "\n".join(fields) + f"\n)\nOPS = ({name},)\n"


def _operands(field: str, operands: Iterable[Operand]) -> list[str]:
    said = [_operand(each) for each in operands]
    whole = f"    {field}=({', '.join(said)}{',' if len(said) == 1 else ''}),"
    return [whole] if len(whole) <= _WIDEST else [f"    {field}=(", *(f"        {each}," for each in said), "    ),"]


def _operand(operand: Operand) -> str:
    named = {
        "values": operand.values if operand.values != "any" else "",
        "dtype": operand.dtype,
        "index": operand.index,
    }
    more = "".join(f', {name}="{value}"' for name, value in named.items() if value)
    more += f", kept={operand.kept!r}".replace("'", '"') if operand.kept else ""
    more += "" if operand.missing is None else f", missing={operand.missing}"
    return f'Operand("{operand.name}", "{operand.dims}"{more})'


def _named(lines: Sequence[FormulaLine], inputs: Sequence[str], outputs: Mapping[str, ast.expr]) -> Mapping[str, str]:
    """Return the name of each line: that of the output that it makes, the reference's own name, or one by its hint."""
    found = {each.id: key for key, each in outputs.items() if isinstance(each, ast.Name)}
    found = {line.key: found[line.key] for line in lines if line.key in found}
    taken = {*inputs, *outputs, *TAKEN}
    for line in sorted(lines, key=lambda line: not line.own):
        if line.key not in found:
            wanted = line.own or line.hint
            name, number = wanted, 1
            while name in taken:
                number += 1
                name = f"{wanted}{number}"
            taken.add(name)
            found[line.key] = name
    return found


def _shown(expression: ast.expr, named: Mapping[str, str]) -> str:
    renamed = substituted(expression, {key: ast.Name(name) for key, name in named.items()})
    words = ast.unparse(_Plain().visit(copy.deepcopy(renamed)))
    return words.replace("'", '"').replace(" ** ", "**")


_OPPOSITE: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
}  # fmt: skip


class _Plain(ast.NodeTransformer):
    """The transformation to plain text: dimensions become names, and negated comparisons of places opposite ones."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value: Any = node.value
        if not isinstance(value, Dim):
            return node
        if value.name == OUTER:
            raise UnreadableError(
                f"has places along {OUTER!r}, where rows are by themselves: give the dimension a name in `shapes`"
            )
        return ast.Constant(value.name)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Write the dimensions of a reduction or extent as one name, or as a tuple of names."""
        if not (isinstance(node.func, ast.Attribute) and node.func.attr in (*KEPT, "extent")):
            self.generic_visit(node)
            return node
        *values, dims = node.args
        names = [each.value.name for each in ast.walk(dims) if isinstance(each, ast.Constant)]  # type: ignore[union-attr]
        along = [ast.Constant(name) for name in names]
        node.args = [*map(self.visit, values), along[0] if len(along) == 1 else ast.Tuple([*along], ast.Load())]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        inner = node.operand
        if isinstance(node.op, ast.Invert) and isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Invert):
            return inner.operand
        if isinstance(node.op, ast.Invert) and isinstance(inner, ast.Compare) and _is_of_places(inner):
            [operator] = inner.ops
            return ast.Compare(inner.left, [_OPPOSITE[type(operator)]()], inner.comparators)
        return node


def _is_of_places(node: ast.Compare) -> bool:
    """Whether a comparison has only places and numbers as operands, so that none can be NaN."""
    called = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return type(node.ops[0]) in _OPPOSITE and called <= {"position", "extent"} and names == {"f"}
