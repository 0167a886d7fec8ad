"""What the words for a problem and for solutions say before anything is run: names, files, frameworks."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from fuzz.tasks.judge.source import ProblemError, chosen_function, definitions, identifier, parsed, text_of

_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".h")
REFERENCES = ("reference", "ref", "ref_kernel")
"""The names of a function that is a problem, where a file has several."""


def files_in(words: tuple[str, ...]) -> list[str]:
    """Return the files that are named, and those in folders that are. Raises ProblemError."""
    found = list[str]()
    for each in words:
        path = Path(each)
        if path.is_dir():
            inside = sorted(str(file) for file in path.iterdir() if file.suffix in (".py", ".json"))
            if not inside:
                raise ProblemError(f"{each}: the folder has no solutions, which are .py or .json")
            found += inside
        else:
            found.append(each)
    return found


def name_in(words: str) -> str:
    """Return the name of a problem, see `problems_of`. Raises ProblemError."""
    path, _, name = words.partition(":")
    if Path(path).is_dir() or Path(path).suffix in (".yml", ".yaml"):
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        return identifier(folder.resolve().name)
    text = text_of(Path(path))
    if Path(path).suffix == ".json":
        said = _json(Path(path), text)
        return identifier(str(said.get("name", "")))
    defined = definitions(Path(path), text)
    if {"Model", "get_inputs"} <= {*defined}:
        return identifier(Path(path).stem)
    return chosen_function(path, defined, name, REFERENCES)


def framework_in(words: str) -> tuple[str, str]:
    """Return the name of a solution, and the framework that it is written with. Raises ProblemError."""
    path = Path(words.partition(":")[0])
    if path.suffix in _COMPILED:
        raise ProblemError(f"{path}: a kernel in C or C++ is declared in a pack: see fuzz/docs/judging.md")
    text = text_of(path)
    if path.suffix != ".json":
        return path.stem, framework_of([text], str(path))
    sources = _json(path, text).get("sources")
    texts = (
        [str(each.get("content")) for each in sources if isinstance(each, dict)] if isinstance(sources, list) else []
    )
    return path.stem, framework_of(texts)


def framework_of(texts: Iterable[str], file: str = "its source") -> str:
    """Return the framework of sources, by what they import; beside JAX alone arrays are NumPy's. Raises ProblemError,
    which names the file."""
    imported = {name for text in texts for name in _imports(text, file)}
    known = {"triton": "triton", "torch": "torch", "numpy": "numpy", "jax": "numpy"}
    return next((framework for name, framework in known.items() if name in imported), "torch")


def _imports(text: str, file: str) -> set[str]:
    tree = parsed(text, file)
    plain = {
        each.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }
    return plain | {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def _json(path: Path, text: str) -> Mapping[str, object]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise ProblemError(f"{path}: it is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise ProblemError(f"{path}: it is no object")
    return said
