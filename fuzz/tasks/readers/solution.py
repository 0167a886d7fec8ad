"""Solutions: their files, and the function that calls each of them as a kernel. No code of theirs is run here."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.core.adapters.signature import belonging
from fuzz.core.base.case import SPARE
from fuzz.tasks.readers import source
from fuzz.tasks.readers.statement import KERNEL, MODULE, SEED, DataStatement, Module, Statement

ENTRY = "judged"
"""The name of the function that calls a solution. It comes last in the solution's file, whose lines keep their
numbers."""
_HEAD = "\n\n# How kernelfuzz calls it.\n"


@dataclass(frozen=True)
class Solution:
    """The files of a solution by name, and the function or class that is called."""

    name: str
    files: Mapping[str, str]
    file: str
    """The name of the file with the function or class."""
    function: str
    framework: str
    parameters: tuple[str, ...]
    """The parameters of the function; none for a module."""
    needed: tuple[str, ...] = ()
    """The parameters that have no default."""
    returns: bool = False
    """Whether the function returns a value other than its parameters and constants."""
    beside: Mapping[str, Path] = field(default_factory=dict)
    """Further files that the solution reads, by name."""

    @property
    def is_module(self) -> bool:
        """Whether the solution is a class, whose instances are called."""
        return self.function == MODULE

    def written(self, statement: Statement, inputs: Sequence[str], outputs: Sequence[str]) -> Mapping[str, str]:
        """Return the texts of the solution's files. The function `judged` of the op's tensors is appended to one."""
        inputs, spare = [each for each in inputs if each != SPARE], SPARE in inputs
        of = statement, inputs, outputs
        entry = calls_of(*of) if self.is_module else _of_function(self, inputs, outputs, statement)
        entry = entry.replace(f"def {ENTRY}(", f"def {ENTRY}({SPARE}, ") if spare else entry
        return {**self.files, self.file: f"{self.files[self.file]}{_HEAD}{entry}"}


Solutions = Mapping[str, tuple[str, Solution]]
"""The solutions by the name of their kernel, each with the words that name it on the command line."""


def solution_of(words: str, statement: Statement, against: str = "") -> Solution:
    """Return the solution in a file: a function, named as `FILE:NAME` if the file has several; the class `ModelNew`, if
    the statement is a `Model`; or JSON with sources and an entry point. Files beside it that belong to it are included,
    except the statement's own. Raises TaskError."""
    path, _, name = words.partition(":")
    text = source.text_of(Path(path))
    if Path(path).suffix == ".json":
        solution = _of_json(Path(path), text, statement)
        source.check_installed(Path(path), solution.files)
        return solution
    file, others = Path(path).name, statement.data.files if statement.data is not None else {}
    found = belonging(Path(path), text).items()
    beside = {each: place for each, place in found if _is_shown(place, against, statement)}
    own = {each: source.text_of(place) for each, place in beside.items() if place.suffix == ".py"}
    solution = _of_source(path, {**others, **own, file: _beside(text, others)}, file, name, statement)
    source.check_installed(Path(path), solution.files)
    further = {each: place for each, place in beside.items() if each not in own}
    framework = "triton" if any(map(_is_in_triton, further.values())) else solution.framework
    return replace(solution, framework=framework, beside=further)


def _is_in_triton(path: Path) -> bool:
    """Return whether a path is a package with a file that imports Triton."""
    texts = (each.read_text("utf-8", "replace") for each in path.rglob("*.py")) if path.is_dir() else ()
    return any(re.search(r"^\s*(import|from) triton\b", each, re.MULTILINE) for each in texts)


def _is_shown(path: Path, against: str, statement: Statement) -> bool:
    """Return whether a solution may see a file in its folder: not the statement's, nor those in a task's folder."""
    place = Path(against.partition(":")[0]).resolve()
    folder = place if place.is_dir() else place.parent
    return path.resolve() != place and (statement.data is None or path.resolve().parent != folder)


def solutions_of(words: tuple[str, ...], statement: Statement, against: str) -> Solutions:
    """Return the solutions in the named files and folders by kernel, each with its words. Raises
    UnreadSolutionsError."""
    found, unread = dict[str, tuple[str, Solution]](), dict[str, str]()
    for each in source.files_in(words):
        try:
            solution = solution_of(each, statement, against)
            found[source.kernel_name(solution.name, [*found])] = each, solution
        except source.TaskError as error:
            unread[each] = str(error)
    if unread:
        raise source.UnreadSolutionsError(unread)
    return found


def check_calls(solutions: Solutions, statement: Statement, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raise UnreadSolutionsError if some solutions cannot be called with these inputs and outputs."""
    unread = dict[str, str]()
    for words, solution in solutions.values():
        try:
            solution.written(statement, inputs, outputs)
        except source.TaskError as error:
            unread[words] = str(error)
    if unread:
        raise source.UnreadSolutionsError(unread)


def _beside(text: str, others: Iterable[str]) -> str:
    """Return the text with imports of the statement's modules made relative; its lines keep their numbers."""
    stems = "|".join(re.escape(Path(each).stem) for each in others)
    if not stems:
        return text
    text = re.sub(rf"^(\s*)from ({stems}) import ", r"\1from .\2 import ", text, flags=re.MULTILINE)
    return re.sub(rf"^(\s*)import ({stems})(?=\s*(#|$))", r"\1from . import \2", text, flags=re.MULTILINE)


def _of_source(path: str, files: Mapping[str, str], file: str, name: str, statement: Statement) -> Solution:
    defined, parameters, needed = source.definitions(Path(path), files[file]), tuple[str, ...](), tuple[str, ...]()
    returns = False
    if statement.module is not None and not name and MODULE in defined:
        function = MODULE
    else:
        if statement.module is not None and not any(isinstance(each, ast.FunctionDef) for each in defined.values()):
            raise source.TaskError(f"{path}: it has no class {MODULE}, as the solution of a Model has, and no function")
        function = source.chosen_function(
            path, defined, name, (KERNEL, "run", "custom_kernel", statement.name, "kernel")
        )
        node = defined[function]
        assert isinstance(node, ast.FunctionDef)
        parameters, needed = _parameters(node)
        returns = any(map(partial(_is_made, parameters), _returned(node)))
    return Solution(Path(path).stem, files, file, function, source.framework_of(files), parameters, needed, returns)


def _of_json(path: Path, text: str, statement: Statement) -> Solution:
    try:
        said = json.loads(text)
        files = {Path(str(each["path"])).name: str(each["content"]) for each in said["sources"]}
        file, _, function = str(said["spec"]["entry_point"]).partition("::")
        source.check_language(path, file)
        found = _of_source(str(path), files, Path(file).name, function, statement)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise source.TaskError(f"{path}: it is no solution with sources and spec.entry_point: {error!r}") from error
    return found


def _parameters(node: ast.FunctionDef) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return all parameters of a function, and those without a default."""
    own = node.args
    places = [each.arg for each in (*own.posonlyargs, *own.args)]
    keywords = [each.arg for each, usual in zip(own.kwonlyargs, own.kw_defaults, strict=True) if usual is None]
    needed = places[: len(places) - len(own.defaults)]
    return (*places, *(each.arg for each in own.kwonlyargs)), (*needed, *keywords)


def _returned(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that a function returns, without those of functions inside it."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Return) and each.value is not None:
            yield from each.value.elts if isinstance(each.value, ast.Tuple) else [each.value]
        elif not isinstance(each, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _returned(each)


def _is_made(parameters: Sequence[str], value: ast.expr) -> bool:
    return not isinstance(value, ast.Constant) and not (isinstance(value, ast.Name) and value.id in parameters)


def _of_function(solution: Solution, inputs: Sequence[str], outputs: Sequence[str], statement: Statement) -> str:
    """Return the text of `judged`, which calls a function."""
    if statement.data is not None:
        return _of_data(solution.function, inputs, outputs, statement.data)
    own = statement.module
    call, written = (_call_of(solution, inputs, own), ()) if own else _call(solution, inputs, outputs, statement)
    body = [f"    {call}"] if written else [f"    found = {call}", *_named(outputs)]
    return f"def {ENTRY}({', '.join([*inputs, *written])}):\n" + "\n".join(body) + "\n"


def _of_data(function: str, inputs: Sequence[str], outputs: Sequence[str], data: DataStatement) -> str:
    """Return the text of `judged`, which calls a function of `data`. What it returns is copied to the room for outputs,
    unless it is that."""
    call = f"{function}({data.words.format(*outputs)})"
    if not data.has_rooms:
        return f"def {ENTRY}({', '.join(inputs)}):\n" + "\n".join([f"    found = {call}", *_named(outputs)]) + "\n"
    return (
        f"def {ENTRY}({', '.join([*inputs, *outputs])}):\n    found = {call}\n"
        "    found = found if isinstance(found, (tuple, list)) else (found,)\n"
        f"    for own, other in zip(({', '.join(outputs)},), found, strict=True):\n"
        "        if own is not other:\n            own[...] = other.reshape(own.shape)\n"
    )


def _call_of(solution: Solution, inputs: Sequence[str], module: Module) -> str:
    """Return the call of a function in place of a module: inputs by position; weights and construction arguments by
    name. Raises TaskError if a name is missing."""
    weights = {name: own for name, own in module.weights.items() if name in inputs}
    last = Counter(own.rpartition(".")[2] for own in weights.values())
    known = {name: repr(each) for name, each in module.arguments.items()}
    known |= {short: name for name, own in weights.items() if last[short := own.rpartition(".")[2]] == 1}
    known |= {name: name for name in weights}
    placed = [repr(module.constants[each]) if each in module.constants else each for each in module.inputs]
    count = len(placed)
    named = {name: known[name] for name in solution.parameters[count:] if name in known}
    missing = [name for name in solution.needed[count:] if name not in named]
    unused = [name for name in weights if name not in named.values()]
    if meant := _meant(missing, {name: weights[name] for name in unused}):
        named, missing, unused = named | meant, [], []
    if missing or unused:
        wrong = f"needs {' and '.join(missing)}" if missing else f"does not take {' and '.join(unused)}"
        there, given = ", ".join(known) or "nothing", ", ".join(module.inputs)
        raise source.TaskError(
            f"{solution.file}: {solution.function} {wrong}: beside {given}, Model has {there}. Write a class {MODULE} "
            f"whose forward({given}) calls it"
        )
    return f"{solution.function}({', '.join([*placed, *(f'{name}={each}' for name, each in named.items())])})"


def _meant(names: Sequence[str], weights: Mapping[str, str]) -> dict[str, str]:
    """Return the weight for each parameter by the beginning of the weight's name, as `w` for `weight`. Empty unless
    each parameter stands for exactly one weight and no weight is left."""
    begun = {each: (each, own.rpartition(".")[2]) for each, own in weights.items()}
    told = [[each for each in weights if any(said.startswith(name.lower()) for said in begun[each])] for name in names]
    found = {name: fitting[0] for name, fitting in zip(names, told, strict=True) if len(fitting) == 1}
    return found if len({*found.values()}) == len(names) == len(weights) else {}


def _call(
    solution: Solution, inputs: Sequence[str], outputs: Sequence[str], statement: Statement
) -> tuple[str, Sequence[str]]:
    """Return the call of a function, and the outputs that it writes. Parameters correspond to those of the reference by
    name, else by position. If as many further parameters are needed as there are outputs, the function writes the
    outputs to them, unless it returns something. Raises TaskError."""
    tensors, own = iter(inputs), solution.parameters
    values = [each.format(next(tensors)) if "{}" in each else each for each in statement.arguments] or [*inputs]
    by_name = {*inputs} <= {*own} and len(values) == len(inputs)
    placed = inputs if by_name else own[: len(values)]
    numbers = {name: repr(each) for name, each in statement.others.items() if name not in inputs}
    more = {name: each for name, each in numbers.items() if name in own and name not in placed}
    left = [name for name in solution.needed if name not in (*placed, *more)]
    unsaid = [each for name, each in numbers.items() if name not in more]
    written = outputs if left and len(left) == len(outputs) and not solution.returns else ()
    if not written and left and (by_name or len(left) > len(unsaid)):
        raise source.TaskError(
            f"{solution.file}: {solution.function} needs {' and '.join(left)}: no argument of the reference, which has "
            f"{', '.join([*inputs, *numbers])}, is called so, and it does not write {' and '.join(outputs)}"
        )
    more |= dict(zip(left, written or unsaid, strict=False))
    first = [f"{name}={value}" for name, value in zip(inputs, values, strict=True)] if by_name else values
    return f"{solution.function}({', '.join([*first, *(f'{name}={each}' for name, each in more.items())])})", written


def _named(outputs: Sequence[str]) -> list[str]:
    """Return the lines that return the results by the names of the outputs."""
    if len(outputs) == 1:
        return ["    return found[0] if isinstance(found, (tuple, list)) else found"]
    return [
        "    if isinstance(found, dict):", "        return found", f"    return dict(zip({tuple(outputs)!r}, found))"
    ]  # fmt: skip


_MODELS = "judged.models = lambda: [model for model, _ in _judged_made.values()]\n"
"""By which a probe sets another mode."""


def calls_of(
    statement: Statement, inputs: Sequence[str], outputs: Sequence[str], said: Callable[[Any], str] = repr
) -> str:
    """Return the text of `judged`, which calls `ModelNew`, with arguments as `said` writes them."""
    module = statement.module
    assert module is not None
    given = {} if module.one_seed else module.weights
    weights = ", ".join(f"{own!r}: {name}" for name, own in given.items() if name in inputs)
    made = Path(__file__).with_name("module_call.txt").read_text("utf-8").format(
        made_of=said(module.made_of), seed=SEED, mode=module.mode.to_set, changed=module.mode.changed,
        parameters=", ".join(inputs), weights=weights,
        dtypes=tuple(f"torch.{each}" for each in dict.fromkeys(("float32", *statement.dtypes.values()))),
        inputs=", ".join(said(module.constants[each]) if each in module.constants else each for each in module.inputs),
    )  # fmt: skip
    return made + "\n".join([*_named(outputs), "", "", _MODELS])
