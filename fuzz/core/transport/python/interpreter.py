"""What Triton's interpreter gets wrong, and can be mended: it leaves `and`, `or` and `not` to Python, for which a block
of several elements is true. In a compiled program they act on each element."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any

_MODULE = "triton.runtime.interpreter"
_CHOICE, _NOT = "_kernelfuzz_choice", "_kernelfuzz_not"
"""The names of functions in the rewritten source of a program."""


def mend() -> None:
    """Make the interpreter, if it is loaded, run the logic of programs that it has not run yet as a compiler does."""
    interpreter: Any = sys.modules.get(_MODULE)
    rewriter: Any = getattr(interpreter, "FunctionRewriter", None)
    plain = getattr(rewriter, "ast_transformer", None)
    if plain is None or hasattr(interpreter, _CHOICE):
        return
    setattr(interpreter, _CHOICE, choice)
    setattr(interpreter, _NOT, negation)

    class Transformer(type(plain)):  # type: ignore[misc]
        """Rewrites the logic of a program, besides what the interpreter rewrites."""

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:  # noqa: N802
            """Return a call of `choice`, in which the later operands are functions."""
            self.generic_visit(node)
            first, *others = node.values
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            later = [ast.Lambda(nothing, each) for each in others]
            return _called(_CHOICE, ast.Constant(isinstance(node.op, ast.And)), first, *later)

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802
            """Return a call of `negation` for `not`."""
            self.generic_visit(node)
            return _called(_NOT, node.operand) if isinstance(node.op, ast.Not) else node

    rewriter.ast_transformer = Transformer()


def _called(name: str, *operands: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[*operands], keywords=[])


def choice(is_and: bool, first: Any, *later: Callable[[], Any]) -> Any:
    """Return `first and ...`, or `first or ...`, element by element from the first operand that is a block."""
    for each in later:
        if not _is_block(first):
            if bool(first) is not is_and:
                break
            first = each()
        elif not hasattr(other := each(), "handle"):  # a number of Python
            first = first if bool(other) is is_and else other
        else:
            first = first.logical_and(other) if is_and else first.logical_or(other)
    return first


def negation(operand: Any) -> Any:
    """Return `not operand`, element by element if it is a block."""
    return operand.__not__() if _is_block(operand) else not operand


def _is_block(value: Any) -> bool:
    return hasattr(value, "handle") and bool(value.type.is_block())
