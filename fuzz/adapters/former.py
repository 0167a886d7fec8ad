"""What a pack is told whose declarations have words that they do not have, or have no longer."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path

from fuzz.adapters.build import plain_path
from fuzz.adapters.c import CKernel
from fuzz.adapters.python_kernel import PythonKernel
from fuzz.base.capability import Capabilities
from fuzz.base.kernel import Mutant
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.operand import Operand, Parameter

TABLE = "fuzz/docs/adding-a-kernel.md"
"""What each former word is now, with examples."""
FORMER: Mapping[str, str] = {
    "Numerics": "Contract", "oracles.numerics": "fuzz", "numerics": "contract",
    "accumulate": "compute", "summation": 'sums={"n": ...}', "dw_summation": 'sums={"...": ...}',
    "dw_accumulate": 'dtypes={"dw": ...}', "rsqrt_ulp": 'accuracy={"rsqrt": ...}',
    "multiply": 'dtypes={"h": ..., "w": ..., "y": ...}', "cast": 'points={"h": "input"}, compute="input", or nothing',
    "eps": 'points={"eps": ...}', "residual": 'points={"added": ...}', "dx": 'algorithm={"dx": ...}',
    "sum_range": "no field", "offset": 'dtypes={"w": ...} of a contract, params=(...) of capabilities',
    "weight_rows": "stacked=(...)",
}  # fmt: skip
"""Words of older versions and what they are now."""
_FIELDS = {
    each.__name__: each for each in (Contract, Capabilities, CKernel, PythonKernel, Mutant, Op, Operand, Parameter)
}
_CALLS = {*_FIELDS, "Numerics", "replace"}
"""What is called with these words."""
_UNKNOWN = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_IMPORTS = ("Numerics", "oracles.numerics")


def unknown_word(error: BaseException, folder: Path) -> str | None:
    """What to say of an error in a pack's own files, where a word is to blame that a declaration does not have: which
    line, and the right word. Where it is a word of an older version, all of them in that file are named at once."""
    folder = plain_path(folder)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).is_relative_to(folder)]
    unknown = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    imported = isinstance(error, ImportError) and any(word in str(error) for word in _IMPORTS)
    if not frames or not (imported or (unknown and unknown[1] in _FIELDS)):
        return None
    path, line = Path(frames[-1].filename), frames[-1].lineno
    where = "" if path == folder / "pack.py" else f"{path.name}: "
    word = "Numerics" if unknown is None else unknown[2]
    if word in FORMER:
        words = "; ".join(_former(path)) or f"line {line}: {word} is {FORMER[word]} now"
        return f"{where}{words}: see {TABLE}"
    assert unknown is not None
    known = [field.name for field in fields(_FIELDS[unknown[1]])]
    close = get_close_matches(unknown[2], known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
    return f"{where}line {line}: {unknown[1]} has no field {unknown[2]!r}: {hint}"


def _former(path: Path) -> Iterator[str]:
    """Each former word in a file once, in the order of lines: 'line 4: cast is ... now'."""
    first = dict[str, int]()
    for line, _, word in sorted(_words(path.read_text(encoding="utf-8"))):
        first.setdefault(word, line)
    before = 0
    for word, line in first.items():
        yield f"{'' if line == before else f'line {line}: '}{word} is {FORMER[word]} now"
        before = line


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    """The former words in a text: line, column, word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            named = [*(each.name for each in node.names), node.module]
            yield from (
                (node.lineno, node.col_offset, word) for word in ("Numerics", "oracles.numerics") if word in named
            )
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = node.keywords if called in _CALLS else []
            yield from ((key.value.lineno, key.col_offset, key.arg) for key in given if key.arg and key.arg in FORMER)
