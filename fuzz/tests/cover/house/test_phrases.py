"""Who changes the words of a report edits one place and records the snapshots again: few tests have its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fuzz.tests.conftest import CHECKOUT

_MOST_FILES = 3
"""The files of tests that may have a phrase: those of what it is about."""
_LEAST = 10
"""The letters of a phrase: shorter words in a row are found anywhere."""
_OF_OTHERS = {
    "import numpy as np", "numpy as np", "import torch", "kernelfuzz repro",  # code and commands
    "cannot be written", "case file", "in place of", "what it is", "failing cases",  # errors, features, prose
}  # fmt: skip
"""What a report prints and others say too."""
_WORDS = re.compile(r"[a-z]+(?: [a-z]+)+")


def _texts(source: str) -> Iterator[str]:
    """The literals of a file, without docstrings and the messages of assertions."""
    tree = ast.parse(source)
    said = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    told = [each.msg for each in ast.walk(tree) if isinstance(each, ast.Assert) and each.msg is not None]
    said |= {id(part) for each in told for part in ast.walk(each)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in said:
            yield each.value


def _phrases() -> set[str]:
    """Words in a row that a report prints as they are: what stands between the values that differ."""
    files = (CHECKOUT / "fuzz" / "report").glob("*.py")
    texts = (text for path in files for text in _texts(path.read_text()) if not text.startswith("fuzz."))
    parts = (part for text in texts for part in re.split(r"\{[^{}]*\}|\n", text))
    return {found for part in parts for found in _WORDS.findall(part) if len(found) >= _LEAST} - _OF_OTHERS


def _tests() -> dict[str, str]:
    """The texts of all files of tests, by their paths."""
    tests = (path for folder in ("fuzz", "oracles", "kernels") for path in (CHECKOUT / folder / "tests").rglob("*.py"))
    return {path.relative_to(CHECKOUT).as_posix(): path.read_text() for path in tests}


def _has(phrase: str, source: str) -> bool:
    return any(re.search(rf"\b{phrase}\b", text) for text in _texts(source) if phrase in text)


def test_no_phrase_of_a_report_is_in_many_tests() -> None:
    names = re.compile(r".*/test_(?!snapshots)\w+\.py")
    tests = {path: text for path, text in _tests().items() if names.fullmatch(path)}
    many = dict[str, list[str]]()
    for phrase in _phrases():
        found = [path for path, text in tests.items() if phrase in text]
        literal = [path for path in found if _has(phrase, tests[path])] if len(found) > _MOST_FILES else []
        if len(literal) > _MOST_FILES:
            many[phrase] = literal
    assert not many, "compare records, or look at the snapshot that has it"


def test_no_test_imports_a_private_name() -> None:
    tests = _tests()
    assert len(tests) > 300
    private = re.compile(r"\b_[a-zA-Z]\w*")
    imports = re.compile(r"^\s*from (?:fuzz|oracles)[\w.]* import (?:\([^)]*\)|.*)", re.MULTILINE)
    found = {path: private.findall("\n".join(imports.findall(text))) for path, text in tests.items()}
    assert {path: names for path, names in found.items() if names} == {}
