"""Statements in the format of GPU MODE: `task.yml` with tests, and beside it `reference.py` with `generate_input` and
`ref_kernel`. `ref_kernel` takes and returns the same as a solution's `custom_kernel(data)`. The code is run here."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.core.base.errors import error_line
from fuzz.tasks.readers.kernelbench import NAMINGS, Naming
from fuzz.tasks.readers.source import TaskError, executed, identifier, identifiers, on_cpu, signed, text_of
from fuzz.tasks.readers.statement import DataStatement, Statement
from oracles.op import TAKEN

_MOST_TESTS = 8
_PLAIN = (int, float, bool, str, type(None))
"""The types that `data` may contain besides tensors."""


def statements_of(path: Path) -> Iterator[Statement]:
    """Yield the forms of the statement of a `task.yml` file, one for each way to name dimensions. Raises TaskError."""
    said = _read(path)
    tests = said.get("tests")
    if not isinstance(tests, list) or not tests or not all(isinstance(each, dict) for each in tests):
        raise TaskError(f"{path}: it has no tests, such as - {{'n': 64, 'seed': 1}}")
    files = _files(path, said)
    file = path.parent / "reference.py"
    with _modules(file, files), on_cpu():
        module = executed(file, text_of(file))
        missing = [each for each in ("generate_input", "ref_kernel") if not hasattr(module, each)]
        if missing:
            raise TaskError(f"{file}: it has no function {missing[0]}")
        examples = [_example(file, module, test) for test in tests[:_MOST_TESTS]]
        rooms = _rooms(module, *examples[0])
    found = list[Statement]()
    # Where the reference reads the shape of room that does not follow from the inputs, room is an input, and a copy of
    # it is written to.
    for naming, own, cloned in [*product(NAMINGS, [rooms], [()]), *product(NAMINGS, [()], [rooms] if rooms else [])]:
        made = _problem(path, module, examples, tests, files, own, naming, cloned)
        if all(made.shapes != each.shapes for each in found):
            found.append(made)
            yield made
    for each in found:
        if same := dict(set.intersection(*({*one.items()} for one in each.examples))):
            words = ", ".join(f"{dim} = {size}" for dim, size in sorted(same.items()))
            rest = tuple({dim: size for dim, size in one.items() if dim not in same} for one in each.examples)
            yield replace(each, fixed=same, examples=rest, kept=f"kept as all tests have it: {words}")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise TaskError(f"{path}: YAML is read by PyYAML, which is not installed: pip install pyyaml") from error
    try:
        said = yaml.safe_load(text_of(path))
    except yaml.YAMLError as error:
        raise TaskError(f"{path}: it is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(said, dict):
        raise TaskError(f"{path}: it has no tests")
    return said


def _files(path: Path, said: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the texts of the modules that the task lists for its reference and solutions to import, by file name."""
    found, listed = dict[str, str](), said.get("files")
    for each in listed if isinstance(listed, list) else ():
        name, source = Path(str(each.get("name"))), str(each.get("source"))
        place = path.parent / source
        if name.suffix == ".py" and name.stem not in ("reference", "eval") and place.is_file():
            found[name.name] = text_of(place)
    return found


@contextlib.contextmanager
def _modules(file: Path, files: Mapping[str, str]) -> Iterator[None]:
    """Return a context in which the modules of a task can be imported by their names."""
    before = {Path(name).stem: sys.modules.get(Path(name).stem) for name in files}
    try:
        for name, text in files.items():
            module = ModuleType(Path(name).stem)
            module.__file__ = str(file.parent / name)
            sys.modules[Path(name).stem] = module
            exec(compile(text, module.__file__, "exec"), module.__dict__)
        yield
    except TaskError:
        raise
    except (Exception, SystemExit) as error:  # whatever the files of the task raise
        raise TaskError(f"{file}: {error_line(error)}") from error
    finally:
        for stem, known in before.items():
            if known is None:
                sys.modules.pop(stem, None)
            else:
                sys.modules[stem] = known


def _example(file: Path, module: ModuleType, test: Mapping[str, Any]) -> tuple[bool, Sequence[Any]]:
    """Return whether the data of a test are a sequence of several parts, and the parts."""
    data = module.generate_input(**test)
    is_several = isinstance(data, (tuple, list))
    parts = [*data] if is_several else [data]
    for each in parts:
        if not isinstance(each, _PLAIN) and not hasattr(each, "shape"):
            raise TaskError(f"{file}: generate_input makes a {type(each).__name__}: data are tensors and numbers")
    return is_several, parts


def _rooms(module: ModuleType, is_several: bool, parts: Sequence[Any]) -> Sequence[int]:
    """Return the places of the tensors that are there for outputs: as large as one, and with whatever values, the
    reference returns the same. Empty unless there is one for each output."""
    import torch
    from torch.utils import _pytree

    def returned(at: int = -1, value: int = 0) -> Sequence[Any]:
        data = [each.clone() if torch.is_tensor(each) else each for each in parts]
        if at >= 0:
            data[at].fill_(value)
        found = module.ref_kernel(tuple(data) if is_several else data[0])
        return [each.clone() for each in _pytree.tree_leaves(found)]

    def is_read(at: int) -> bool:
        try:
            pairs = [pair for value in (0, 1) for pair in zip(usual, returned(at, value), strict=True)]
            return not all(torch.allclose(a.double(), b.double(), 0.0, 0.0, equal_nan=True) for a, b in pairs)
        except Exception:  # such as for a place that is none
            return True

    try:
        usual = returned()
    except Exception:  # what cannot be run here is refused when it is read
        return ()
    sizes = [each.numel() for each in usual]
    found, free = list[int](), [at for at, each in enumerate(parts) if torch.is_tensor(each)] if is_several else []
    for size in sizes:
        at = next((at for at in free if parts[at].numel() == size and at not in found and not is_read(at)), None)
        if at is None:
            return ()
        found.append(at)
    return found


def _problem(
    path: Path,
    module: ModuleType,
    examples: Sequence[tuple[bool, Sequence[Any]]],
    tests: Sequence[Mapping[str, Any]],
    files: Mapping[str, str],
    rooms: Sequence[int],
    naming: Naming,
    cloned: Sequence[int] = (),
) -> Statement:
    import torch

    is_several, first = examples[0]
    names = identifiers(_unpacked(module, len(first)))
    tensors = {name: at for at, (name, each) in enumerate(zip(names, first, strict=True)) if hasattr(each, "shape")}
    shapes, sizes = _dimensions(
        {name: [tuple(each[at].shape) for _, each in examples] for name, at in tensors.items()}, tests, naming
    )
    same = {dim: size for dim, size in sizes[0].items() if all(each[dim] == size for each in sizes)}
    inputs = [name for name, at in tensors.items() if at not in rooms]
    known = {dim for name in inputs for dim in shapes[name].split()}
    words = [name if name in tensors else repr(each) for name, each in zip(names, first, strict=True)]
    for output, at in enumerate(rooms):
        words[at] = f"{{{output}}}"
    for at in cloned:
        words[at] = f"{names[at]}.clone()"
    constants = {name: each for name, each in zip(names, first, strict=True) if name not in tensors}

    def reference(**given: Any) -> Any:
        own = [pair for name in inputs for pair in zip(shapes[name].split(), given[name].shape, strict=False)]
        extents = {**same, **dict(own)}
        tensors_given = [*given.values()]
        for at in rooms:  # room of another shape than follows from the inputs is for solutions alone
            dims = shapes[names[at]].split()
            shape = [extents[dim] for dim in dims] if {*dims} <= {*extents} else [0]
            dtype = first[at].dtype  # a replay calculates in float64
            if dtype.is_floating_point:
                dtype = reduce(torch.promote_types, (each.dtype for each in tensors_given), dtype)
            given[names[at]] = tensors_given[0].new_empty(shape, dtype=dtype)
        for at in cloned:
            given[names[at]] = given[names[at]].clone()
        data = tuple(given[name] if name in tensors else constants[name] for name in names)
        with on_cpu():
            return module.ref_kernel(data if is_several else data[0])

    dtypes = {name: str(first[tensors[name]].dtype).removeprefix("torch.") for name in inputs}
    return Statement(
        identifiers([path.resolve().parent.name])[0], signed(reference, path.resolve().parent.name, inputs),
        {name: shapes[name] for name in inputs}, dtypes,
        data=DataStatement(f"({', '.join(words)},)" if is_several else words[0], files, bool(rooms)),
        examples=tuple({dim: size for dim, size in each.items() if dim in known} for each in sizes),
    )  # fmt: skip


def _unpacked(module: ModuleType, count: int) -> Sequence[str]:
    """Return the names that the reference gives to the parts of its data when it unpacks them; else "input0" etc."""
    with contextlib.suppress(OSError, SyntaxError, TypeError):
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(module.ref_kernel)))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                [target] = node.targets[:1]
                if isinstance(target, ast.Tuple) and len(target.elts) == count:
                    return [each.id if isinstance(each, ast.Name) else "part" for each in target.elts]
    return [f"input{at}" for at in range(count)] if count > 1 else ["data"]


def _dimensions(
    shapes: Mapping[str, Sequence[tuple[int, ...]]], tests: Sequence[Mapping[str, Any]], naming: Naming
) -> tuple[Mapping[str, str], tuple[Mapping[str, int], ...]]:
    """Return the dimensions of each tensor, and the extents of each test. Axes of different tensors that have the same
    extent in every test are one dimension. It is named after a parameter of the tests that has these extents."""
    named, found = dict[tuple[tuple[int, ...], int], str](), dict[str, str]()
    before = Counter[tuple[int, ...]]()
    for name, some in shapes.items():
        if len({len(each) for each in some}) > 1:
            raise TaskError(f"{name} has another rank in each test")
        dims, own = list[str](), [*zip(*some, strict=True)]
        for axis, extents in enumerate(own):
            again = (own[axis + 1 :] if naming == "last" else own[:axis]).count(extents)
            key = extents, again + before[extents]
            own_names = [
                each for each in tests[0] if tuple(test.get(each) for test in tests[: len(extents)]) == extents
            ]
            allowed = [f"{each}_" if each in TAKEN else each for each in map(identifier, own_names)]
            free = [each for each in allowed if each not in named.values()]
            dims.append(named.setdefault(key, free[0] if free else f"d{len(named)}"))
        found[name] = " ".join(dims)
        if naming == "chained":
            before.update({extents: times - 1 for extents, times in Counter(own).items()})
    count = len(next(iter(shapes.values())))
    return found, tuple({dim: extents[at] for (extents, _), dim in named.items()} for at in range(count))
