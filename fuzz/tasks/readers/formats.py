"""Reading the statement in a file of any of the known formats. The file's code is run in this process."""

from __future__ import annotations

import inspect
import json
import operator
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from fuzz.references.named import function_at
from fuzz.references.parameters import defaults_of
from fuzz.tasks.readers import gpu_mode, kernelbench
from fuzz.tasks.readers.source import (
    OVERLOAD,
    REFERENCES,
    TaskError,
    chosen_function,
    definitions,
    executed,
    files_in,
    identifier,
    name_in,
    on_cpu,
    signed,
    text_of,
)
from fuzz.tasks.readers.statement import Statement
from oracles.dtypes import FORMATS, SPELLED


def statements_of(words: str, solutions: Sequence[str] = ()) -> Iterator[Statement]:
    """Yield the possible forms of the statement in a file, the most general first. The formats are: a function, named
    as `FILE:NAME` if the file has several; KernelBench's `Model`, `get_inputs` and `get_init_inputs`;
    flashinfer-bench's definition in JSON; GPU MODE's `task.yml`; and the name of an operation of torch, as the folders
    of BackendBench have. Raises TaskError."""
    path, _, name = words.partition(":")
    if OVERLOAD.fullmatch(words):
        yield _of_overload(words)
        return
    if Path(path).is_dir() and (Path(path) / "task.yml").is_file():
        path = str(Path(path) / "task.yml")
    if Path(path).suffix in (".yml", ".yaml"):
        yield from gpu_mode.statements_of(Path(path))
        return
    text = text_of(Path(path))
    if Path(path).suffix == ".json":
        yield _of_definition(Path(path), text)
        return
    defined = definitions(Path(path), text)
    if {"Model", "get_inputs"} <= {*defined}:
        text = kernelbench.model_text(Path(path))
        yield from kernelbench.statements_of(Path(path), text, [*map(_source, files_in(tuple(solutions)))])
        return
    chosen = chosen_function(path, defined, name, REFERENCES)
    with on_cpu() if "cuda" in text else nullcontext():  # such as for calls at the end of a file of TritonBench
        function = function_at(f"{path}:{chosen}")
    yield Statement(chosen, function)


def _of_overload(words: str) -> Statement:
    """Return the statement of an operation of torch, such as "aten.relu.default", whose arguments without a default are
    its tensors. Raises TaskError."""
    import torch

    try:
        overload = operator.attrgetter(words)(torch.ops)
    except AttributeError as error:
        raise TaskError(f"{words}: torch has no such operation") from error
    arguments = [each.name for each in overload._schema.arguments if not each.has_default_value()]
    return Statement(name_in(words), signed(lambda **given: overload(*given.values()), name_in(words), arguments))


def names_read(words: str, solutions: Sequence[str]) -> frozenset[str]:
    """Return the names in the file of a statement that solutions use too. The numbers under these names stay unchanged.
    Raises TaskError."""
    path = Path(words.partition(":")[0])
    if path.suffix != ".py":
        return frozenset()
    return kernelbench.names_of(kernelbench.model_text(path), [*map(_source, files_in(tuple(solutions)))])


def _source(solution: str) -> str:
    """Return the text of a solution that may be a module; "" for JSON."""
    return "" if solution.partition(":")[0].endswith(".json") else text_of(Path(solution.partition(":")[0]))


_FLOATS = tuple(each.spelling for each in FORMATS.values())
_KNOWN = (*SPELLED, "float4_e2m1")
"""The dtypes that a definition may state. For any other word the reference decides on the dtype."""


def _of_definition(path: Path, text: str) -> Statement:
    """Return the statement of a definition in flashinfer-bench's format, whose reference is run. Raises TaskError."""
    try:
        said = json.loads(text)
        axes, inputs = said["axes"], said["inputs"]
        fixed = {str(axis).lower(): int(each["value"]) for axis, each in axes.items() if each.get("type") == "const"}
        dims = {name: [*map(str, each["shape"] or ())] for name, each in inputs.items()}
        dtypes = {name: str(each.get("dtype")) for name, each in inputs.items()}
        scalars = {name for name, each in inputs.items() if each["shape"] is None}
        returns = [str(each.get("dtype")) for each in said.get("outputs", {}).values()]
        name, source = str(said["name"]), str(said["reference"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"{path}: it is no definition with name, axes, inputs and reference: {error!r}") from error
    run = getattr(executed(path, source), "run", None)
    if run is None:
        raise TaskError(f"{path}: its reference has no function run")
    # The reference is called by position, whatever the names of its parameters.
    own = [*inspect.signature(run).parameters]
    called = dict(zip(inputs, own, strict=False)) if len(own) >= len(inputs) else {}
    usual = {
        each: default for each in scalars
        if dtypes[each] not in _FLOATS and isinstance(default := defaults_of(run).get(called.get(each, each)), int)
    }  # fmt: skip
    numbers = {each for some in dims.values() for each in some if each.isdigit()}
    fixed |= {f"n{each}": int(each) for each in numbers}
    shapes = {
        called.get(each, each): " ".join(f"n{dim}" if dim in numbers else dim for dim in some)
        for each, some in dims.items() if each not in usual
    }  # fmt: skip
    arguments = [repr(usual[each]) if each in usual else "{}.item()" if each in scalars else "{}" for each in inputs]
    run.__name__ = identifier(name)
    return Statement(
        identifier(name), run, shapes,
        {called.get(each, each): dtype for each, dtype in dtypes.items() if each not in usual and dtype in _KNOWN},
        fixed, returns=returns, arguments=arguments if scalars else (),
    )  # fmt: skip
