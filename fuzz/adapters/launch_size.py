"""How many threads a kernel of CUDA is launched with: expressions of the dimensions of its op."""

from __future__ import annotations

import ast
from collections.abc import Collection

from fuzz.base.capability import DeclarationError

Size = str | int | tuple[str | int, ...]
"""A size as authors write it: 256, "rows", "(n + 255) // 256, rows" or ("rows", 4)."""
FUNCTIONS = ("cdiv", "min", "max")
"""What an expression may call; cdiv(n, 256) is a quotient that is rounded up."""
_MOST = 3
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.UnaryOp,
    ast.USub, ast.IfExp, ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Load, ast.Call, ast.Name,
    ast.Constant,
)  # fmt: skip


def expressions(field: str, size: object, names: Collection[str], most: int = _MOST) -> tuple[str, ...]:
    """The size as expressions in Python, one for each dimension of a grid or a block. Raises DeclarationError for what
    is none of those `names`, and numbers."""
    parts = [str(each) for each in (size if isinstance(size, tuple) else (size,)) if isinstance(each, str | int)]
    wrong = f"{field}: {size!r}: write numbers and expressions of {', '.join(names)}, such as "
    wrong += '"cdiv(n, 256)"' if most == 1 else '"rows", or "cdiv(n, 256), rows"'
    try:
        tree = ast.parse(f"({', '.join(parts)},)", mode="eval")
    except (SyntaxError, ValueError) as error:
        raise DeclarationError(wrong) from error
    found = tree.body.elts if isinstance(tree.body, ast.Tuple) else []
    if not 0 < len(found) <= most:
        raise DeclarationError(f"{wrong}; there are {most} dimensions at most" if most > 1 else wrong)
    for node in (node for each in found for node in ast.walk(each)):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Constant) and type(node.value) is not int):
            raise DeclarationError(wrong)
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise DeclarationError(f"{field}: {size!r}: only {', '.join(FUNCTIONS)} can be called")
        if isinstance(node, ast.Name) and node.id not in (*names, *FUNCTIONS):
            raise DeclarationError(f"{field}: {size!r}: {node.id!r} is not one of {', '.join(names)}")
    return tuple(ast.unparse(each) for each in found)
