"""What lies beside a source in Python and belongs to it: modules that it imports, files that it reads."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path


def imported_beside(folder: Path, texts: Mapping[str, str], libraries: Collection[str]) -> tuple[str, ...]:
    """Return the modules of a folder that its texts, by their names, import as if it were the first place to look. What
    is called like a library is that."""
    packages = (path.name for path in folder.glob("*/") if _is_package(path))
    there = {*(name.removesuffix(".py") for name in texts), *packages}
    imported = {name for text in texts.values() for name, dots in _imports(text) if not dots}
    return tuple(sorted((there & imported) - {*sys.stdlib_module_names, *libraries}))


def belonging(source: Path, text: str) -> Mapping[str, Path]:
    """Return what lies beside a source that its text names, or that of a module that belongs to it, by their names:
    modules and packages that are imported, files, folders in quotes, and what is called like the source itself."""
    there = {
        path.name: path for path in sorted(source.absolute().parent.iterdir()) if path.name[0] != "." and path.exists()
    }
    found, waiting = {source.name: source}, [text]
    while waiting:
        named = waiting.pop()
        new = [name for name, path in there.items() if name not in found and _is_named(path, named, source.stem)]
        found |= {name: there[name] for name in new}
        waiting += [there[name].read_text("utf-8", "replace") for name in new if name.endswith(".py")]
    return {name: path for name, path in found.items() if name != source.name}


def _is_named(path: Path, text: str, stem: str) -> bool:
    name = re.escape(path.name)
    if path.is_dir() and re.search(rf"""["'/]{name}["'/]""", text):
        return True
    if path.suffix == ".py" or _is_package(path):
        return path.stem in {each for each, _ in _imports(text)}
    return path.is_file() and (path.stem == stem or bool(re.search(rf"(?<![\w.-]){name}(?![\w.-])", text)))


def _is_package(path: Path) -> bool:
    return path.is_dir() and any(path.glob("*.py"))


@lru_cache(maxsize=1024)
def _imports(text: str) -> frozenset[tuple[str, int]]:
    """The first names of what is imported, each with the number of dots before it."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError):  # who runs it says so
        return frozenset()
    return frozenset(each for node in nodes for each in _named(node))


def _named(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Import):
        yield from ((each.name.partition(".")[0], 0) for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module.partition(".")[0], node.level
    elif isinstance(node, ast.ImportFrom):
        yield from ((each.name, node.level) for each in node.names)
