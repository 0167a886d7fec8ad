"""What a file says that solutions are judged by, whatever its format. Its code is run here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzz.references.named import function_at
from fuzz.tasks.readers import definition, gpu_mode, kernelbench
from fuzz.tasks.readers.problem import Problem
from fuzz.tasks.readers.source import chosen_function, definitions, text_of
from fuzz.tasks.readers.words import REFERENCES, files_in


def problems_of(words: str, solutions: Sequence[str] = ()) -> Iterator[Problem]:
    """Return what may be the problem in a file, the most general first: a function, which `FILE:NAME` names where the
    file has several; `Model`, `get_inputs` and `get_init_inputs`, as KernelBench has them; a definition in JSON, as
    flashinfer-bench has it; or `task.yml`, as GPU MODE has it. Raises ProblemError."""
    path, _, name = words.partition(":")
    if Path(path).is_dir() and (Path(path) / "task.yml").is_file():
        path = str(Path(path) / "task.yml")
    if Path(path).suffix in (".yml", ".yaml"):
        yield gpu_mode.problem_of(Path(path))
        return
    text = text_of(Path(path))
    if Path(path).suffix == ".json":
        yield definition.problem_of(Path(path), text)
        return
    defined = definitions(Path(path), text)
    if {"Model", "get_inputs"} <= {*defined}:
        yield from kernelbench.problems_of(Path(path), text, [*map(_source, files_in(tuple(solutions)))])
        return
    chosen = chosen_function(path, defined, name, REFERENCES)
    yield Problem(chosen, function_at(f"{path}:{chosen}"))


def _source(solution: str) -> str:
    """The text of a solution where it may have a module; "" of others."""
    return "" if solution.partition(":")[0].endswith(".json") else text_of(Path(solution.partition(":")[0]))
