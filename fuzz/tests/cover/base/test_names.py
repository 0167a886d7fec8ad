"""No module of the engine knows an operand or a parameter of an op by name: it asks the op."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from fuzz.tests.conftest import CHECKOUT
from oracles.ops import OPS

FOLDERS = tuple(sorted(path.parent.name for path in (CHECKOUT / "fuzz").glob("*/__init__.py")))

EXEMPT: Mapping[str, str] = {
    "quality/planted/": "a pack of kernels of the built-in ops, which are wrong in some of their cases",
    "references/": "the rules by which operations of torch, NumPy and JAX are read, by their names there",
    "quality/newcomer/": "seven kernels of built-in ops, as a user writes them",
    "quality/onnx_nodes/": "the attributes of ONNX's operators",
}
"""Modules that are about one op, and why."""

ATTRIBUTES: Mapping[str, str] = {
    "sum": "of NumPy, torch and SQL",
    "mean": "of NumPy",
    "dup": "of the module os",
    "sin": "of mpmath",
    "cos": "of mpmath",
    "gate": "the verb of the command line",
    "mask": "of what is said of an output's elements",
    "scale": "of a feature, and of rows in recipes",
}
"""Attributes and keywords that have the name of an operand or a parameter and are another thing."""

PLACES: Mapping[str, frozenset[str]] = {
    "core/base/platforms.py": frozenset({"sin", "cos"}),  # the functions
    "core/base/acceptance.py": frozenset({"sin", "cos"}),  # the same
    "cli/__init__.py": frozenset({"gate"}),  # the verb
    "cli/gate.py": frozenset({"gate"}),  # the same
    "contracts/bench.py": frozenset({"sum"}),  # a kind of node of a formula
    "core/generate/properties.py": frozenset({"causal"}),  # a property of a matrix
    "core/generate/structure.py": frozenset({"sum"}),  # a kind of node of a formula
    "core/laws/reach.py": frozenset({"sum"}),  # the same
    "core/laws/symmetry.py": frozenset({"sum"}),  # the same
    "quality/libraries.py": frozenset({"sin", "cos"}),  # the functions
    "quality/calibrate/contracts.py": frozenset({"mean"}),  # a field of a contract
    "quality/power.py": frozenset({"sum"}),  # a kind of node of a formula
    "explain/stages/forms.py": frozenset({"mean", "sum"}),  # a field of a contract, and a kind of node
}
"""Modules in which such a name is another thing even as a text."""


WORDS = frozenset(["a", "b", "c", "q", "k", "v", "o", "index", "label", "scale", "table"])
"""The operands of products of matrices and of attention, labels, scales, tables and their indices: code has these words
for anything."""
NAMES = (
    frozenset(each.name for op in OPS.values() for each in op.operands)
    | {each.name for op in OPS.values() for each in op.parameters}
) - WORDS
"""Those of the built-in ops."""


def _known(source: str, names: frozenset[str]) -> Iterator[tuple[int, str, bool]]:
    """Names that code has as a text, or as an attribute or a keyword: the line, the name, and whether it is a text.

    What an f-string has between its values is no name, nor what texts are joined by, nor the label of a random stream.
    """
    tree = ast.parse(source)
    other = {id(part) for node in ast.walk(tree) for part in _no_names(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in other and node.value in names:
            yield node.lineno, str(node.value), True
        elif isinstance(node, ast.Attribute) and node.attr in names:
            yield node.lineno, node.attr, False
        elif isinstance(node, ast.keyword) and node.arg in names:
            yield node.value.lineno, str(node.arg), False


def _no_names(node: ast.AST) -> Sequence[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        return node.values
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "child":
        return node.args
    return [node.value] if isinstance(node, ast.Attribute) and node.attr == "join" else []


def _alarms(folder: str) -> Iterator[str]:
    engine = CHECKOUT / "fuzz"
    for path in sorted((engine / folder).rglob("*.py")):
        place = path.relative_to(engine).as_posix()
        if any(place.startswith(each) for each in EXEMPT):
            continue
        for line, name, is_text in _known(path.read_text(), NAMES):
            if name not in PLACES.get(place, ()) and (is_text or name not in ATTRIBUTES):
                yield f"{place}:{line}: {name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_knows_an_operand_or_a_parameter_by_name(folder: str) -> None:
    assert list(_alarms(folder)) == []


def test_a_name_is_seen_wherever_code_has_one() -> None:
    source = (
        'a = {"eps": 1}\nf"{a}eps"\nb.eps\nf(eps=2)\n"""About eps."""\ndef eps(): pass\nc.child("eps")\n"eps".join(d)\n'
    )
    assert sorted(_known(source, frozenset({"eps"}))) == [(1, "eps", True), (3, "eps", False), (4, "eps", False)]


def test_every_exception_is_one() -> None:
    engine = CHECKOUT / "fuzz"
    for place in EXEMPT:
        paths = [engine / place] if Path(place).suffix else [*(engine / place).glob("*.py")]
        assert any(True for path in paths for _ in _known(path.read_text(), NAMES)), place
    for place, names in PLACES.items():
        assert names <= NAMES
        assert {name for _, name, _ in _known((engine / place).read_text(), names)} == names, place
