"""Statements in the format of GPU MODE: `task.yml` with tests, and beside it `reference.py` with `generate_input` and
`ref_kernel`. `ref_kernel` takes and returns the same as a solution's `custom_kernel(data)`. The code is run here."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.core.base.errors import error_line
from fuzz.tasks.readers.source import TaskError, executed, identifiers, signed, text_of
from fuzz.tasks.readers.statement import DataStatement, Statement

_MOST_TESTS = 8
_PLAIN = (int, float, bool, str, type(None))
"""The types that `data` may contain besides tensors."""


def statement_of(path: Path) -> Statement:
    """Return the statement of a `task.yml` file. Raises TaskError."""
    said = _read(path)
    tests = said.get("tests")
    if not isinstance(tests, list) or not tests or not all(isinstance(each, dict) for each in tests):
        raise TaskError(f"{path}: it has no tests, such as - {{'n': 64, 'seed': 1}}")
    files = _files(path, said)
    file = path.parent / "reference.py"
    with _modules(file, files), _on_cpu():
        module = executed(file, text_of(file))
        missing = [each for each in ("generate_input", "ref_kernel") if not hasattr(module, each)]
        if missing:
            raise TaskError(f"{file}: it has no function {missing[0]}")
        examples = [_example(file, module, test) for test in tests[:_MOST_TESTS]]
    return _problem(path, module, examples, tests, files)


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


@contextlib.contextmanager
def _on_cpu() -> Iterator[None]:
    """Return a context in which tensors asked for on a GPU are made on the CPU, as only their values are wanted."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Here(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
            if getattr(function, "__name__", "") == "cuda":
                return given[0]
            if getattr(function, "__name__", "") in ("device", "_TensorBase.device", "__get__"):
                return function(*given, **(named or {}))
            named = {name: each for name, each in (named or {}).items() if name != "device"}
            return function(*(each for each in given if not _is_device(each)), **named)

    generator = torch.Generator
    torch.Generator = lambda *given, **named: generator()
    try:
        with Here():
            yield
    finally:
        torch.Generator = generator


def _is_device(given: object) -> bool:
    return type(given).__name__ == "device" or (isinstance(given, str) and given.partition(":")[0] in ("cuda", "cpu"))


def _example(file: Path, module: ModuleType, test: Mapping[str, Any]) -> tuple[bool, Sequence[Any]]:
    """Return whether the data of a test are a sequence of several parts, and the parts."""
    data = module.generate_input(**test)
    is_several = isinstance(data, (tuple, list))
    parts = [*data] if is_several else [data]
    for each in parts:
        if not isinstance(each, _PLAIN) and not hasattr(each, "shape"):
            raise TaskError(f"{file}: generate_input makes a {type(each).__name__}: data are tensors and numbers")
    return is_several, parts


def _problem(
    path: Path,
    module: ModuleType,
    examples: Sequence[tuple[bool, Sequence[Any]]],
    tests: Sequence[Mapping[str, Any]],
    files: Mapping[str, str],
) -> Statement:
    is_several, first = examples[0]
    names = identifiers(_unpacked(module, len(first)))
    tensors = {name: at for at, (name, each) in enumerate(zip(names, first, strict=True)) if hasattr(each, "shape")}
    shapes, sizes = _dimensions(
        {name: [tuple(each[at].shape) for _, each in examples] for name, at in tensors.items()}, tests
    )
    words = [name if name in tensors else repr(each) for name, each in zip(names, first, strict=True)]
    constants = {name: each for name, each in zip(names, first, strict=True) if name not in tensors}

    def reference(**given: Any) -> Any:
        data = tuple(given[name] if name in tensors else constants[name] for name in names)
        with _on_cpu():
            return module.ref_kernel(data if is_several else data[0])

    dtypes = {name: str(first[at].dtype).removeprefix("torch.") for name, at in tensors.items()}
    return Statement(
        identifiers([path.resolve().parent.name])[0], signed(reference, path.resolve().parent.name, [*tensors]), shapes,
        dtypes, data=DataStatement(f"({', '.join(words)},)" if is_several else words[0], files), examples=sizes,
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
    shapes: Mapping[str, Sequence[tuple[int, ...]]], tests: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, str], tuple[Mapping[str, int], ...]]:
    """Return the dimensions of each tensor, and the extents of each test. Axes of different tensors that have the same
    extent in every test are one dimension. It is named after a parameter of the tests that has these extents."""
    named, found = dict[tuple[tuple[int, ...], int], str](), dict[str, str]()
    for name, some in shapes.items():
        if len({len(each) for each in some}) > 1:
            raise TaskError(f"{name} has another rank in each test")
        dims, own = list[str](), [*zip(*some, strict=True)]
        for axis, extents in enumerate(own):
            key = extents, own[:axis].count(extents)
            own_names = [
                each for each in tests[0] if tuple(test.get(each) for test in tests[: len(extents)]) == extents
            ]
            free = [each for each in own_names if each.isidentifier() and each not in named.values()]
            dims.append(named.setdefault(key, free[0] if free else f"d{len(named)}"))
        found[name] = " ".join(dims)
    count = len(next(iter(shapes.values())))
    return found, tuple({dim: extents[at] for (extents, _), dim in named.items()} for at in range(count))
