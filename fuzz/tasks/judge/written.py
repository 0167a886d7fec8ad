"""Writing the pack in which solutions are judged to a folder, for all commands to use and people to read."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.core.base.errors import error_line
from fuzz.core.base.files import write_whole
from fuzz.core.base.probe import AUTOGRAD, CALLER, MODE, PROBES
from fuzz.core.transport.python.halves import is_complex, part_dtype, wholes_of
from fuzz.references.derive import ANY, Derived, derive
from fuzz.references.dims import UnreadableError
from fuzz.references.examples import keeping, samples_of
from fuzz.references.named import unread
from fuzz.references.parts import Parted
from fuzz.tasks.check.reference import contract_of, is_replayable
from fuzz.tasks.readers.solution import ENTRY, Solution
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import Statement, UnreadStatementError
from oracles.dtypes import COMPUTED, FORMATS, SINGLE
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.ops import OPS

_PACK = """{module}
# A function says neither an order of additions nor how accurate a library is: neither is held against a kernel.
CONTRACT = {contract}
CAPABILITIES = Capabilities(dtypes={dtypes!r}, empty=False)
# Other ways to make the same call, which a right kernel cannot tell from the usual one.
PROBES = {probes!r}
HERE = Path(__file__).parent
KERNELS = ("""
_KERNEL = """    PythonKernel(
        "{name}", "{op}", HERE / "{name}" / "{file}", "{framework}", CONTRACT, CAPABILITIES, entry="{entry}",
        shown="{shown}", laws={laws}, untrusted={untrusted},
    ),"""
_KERNELS = re.compile(r'^    PythonKernel\(\n        "(\w+)", .*?\n    \),$', re.MULTILINE | re.DOTALL)
"""A pattern of the kernels in the text of a pack; the group is the kernel's name."""


def derived(problem: Statement, values: str, *, any_values: bool = False) -> Derived:
    """Return the op of a problem. Properties that the problem's inputs always have are kept, unless `any_values`.
    Raises TaskError if its function cannot be read, or UnreadStatementError if the function may be replayed."""
    ours = problem.name in OPS and OPS[problem.name].formula.__module__.startswith("oracles.")
    name = f"reference_{problem.name}"[:31] if ours else problem.name
    try:
        found = derive(
            problem.reference, problem.shapes, example_inputs=problem.numbers, fixed=problem.fixed,
            dtypes=problem.dtypes if problem.shapes else None,
            values=values, name=name,
        )  # fmt: skip
        examples = [{dim: size for dim, size in each.items() if dim in found.op.named} for each in problem.examples]
        op = replace(found.op, shapes=tuple(each for each in examples if each))
        found = replace(found, op=_typed(op, problem, found))
        samples = samples_in_parts(problem, found)
        return keeping(found, samples, problem.source, any_values=any_values) if samples else found
    except ImportError as error:
        raise TaskError(f"{problem.name}: it is read with torch: {error_line(error)}") from error
    except (OpError, SystemExit) as error:  # the exit code of a SystemExit would be taken for a verdict
        said = str(error) if problem.shapes else unread(error, problem.reference)
        replayable = isinstance(error, UnreadableError) and is_replayable(problem.reference, error)
        if replayable and not any(map(is_complex, problem.dtypes.values())):
            raise UnreadStatementError(said, problem) from error
        raise TaskError(said) from error


def samples_in_parts(problem: Statement, found: Derived) -> Sequence[Mapping[str, Any]]:
    """Return examples that come with a problem, in parts where the op is one of parts."""
    samples = samples_of(problem.draw) if problem.draw is not None else ()
    return samples if found.parted is None else [found.parted.examples(each) for each in samples]


def _typed(op: Op, problem: Statement, found: Derived) -> Op:
    """Return the op with the dtypes that the problem states for floats, if they differ from the first input's."""
    spelled = {each.spelling: name for name, each in FORMATS.items()}
    said = {name: problem.dtypes.get(found.called[name] or name, "") for name in found.called}
    first = said[op.main]

    def typed(operand: Operand, dtype: str) -> Operand:
        known = first in spelled and dtype in spelled and dtype != first and not operand.integers
        return replace(operand, dtype=spelled[dtype]) if known else operand

    returns = problem.returns if len(problem.returns) == len(op.outputs) else [first] * len(op.outputs)
    return replace(
        op, inputs=tuple(typed(each, said[each.name]) for each in op.inputs),
        outputs=tuple(typed(each, dtype) for each, dtype in zip(op.outputs, returns, strict=True)),
    )  # fmt: skip


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and lock it against other processes. The lock also ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_pack(
    folder: Path, problem: Statement, solutions: Mapping[str, Solution], found: Derived, *, values: str, untrusted: bool
) -> None:
    """Write the pack: the op, and for each solution a folder named like its kernel, with the solution's files. The
    function that calls a solution is appended to one of them. Earlier solutions of the same problem stay in the pack,
    as their findings do."""
    write_solutions(folder, problem, solutions, *tensors_of(found), partial(_in_parts, found))
    head, kernels = _pack(problem, solutions, found, values=values, untrusted=untrusted)
    earlier = _earlier(folder / "pack.py", head, solutions)
    write_whole(folder / "pack.py", "\n".join([head, *earlier, *kernels, ")\n"]))


def tensors_of(found: Derived) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the inputs and outputs of solutions, which take and return complex tensors whole."""
    inputs, outputs = [*found.called], [each.name for each in found.op.outputs]
    return (inputs, outputs) if found.parted is None else (wholes_of(inputs), wholes_of(outputs))


_IN_PARTS = """

from fuzz.core.transport.python.halves import of_parts as _judged_of_parts

_judged_whole = {entry}
_judged_parts = _judged_of_parts({entry}, {own!r}, {inputs!r}, {complexes!r}, {outputs!r}, is_named=True)


def {entry}({parts}):
    return _judged_parts({parts})


vars({entry}).update(vars(_judged_whole))
"""
"""What makes a solution with complex tensors a function of their parts."""


def _in_parts(found: Derived, text: str) -> str:
    """Return the text of a solution's file, whose function that is judged takes and returns parts."""
    if found.parted is None:
        return text
    *_, names = re.findall(rf"^def {ENTRY}\((.*)\):$", text, re.MULTILINE)
    parted, outputs = found.parted, [each.name for each in found.op.outputs]
    made = Parted(names.split(", "), [*parted.complexes, *(each for each in wholes_of(outputs) if each not in outputs)])
    return text + _IN_PARTS.format(
        entry=ENTRY,
        own=[*made.names],
        inputs=[*parted.names],
        complexes=[*parted.complexes],
        outputs=outputs,
        parts=", ".join(made.halves),
    )


def write_solutions(
    folder: Path, problem: Statement, solutions: Mapping[str, Solution], inputs: Sequence[str], outputs: Sequence[str],
    changed: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Write the folders of the solutions, each named like its kernel, as `write_pack` does. The text of the file with
    the function that calls the solution is `changed`."""
    for name, solution in solutions.items():
        for each, path in solution.beside.items():
            if path.is_dir():
                shutil.copytree(
                    path, _there(folder / name) / each, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copyfile(path, _there(folder / name) / each)
        for file, text in solution.written(problem, inputs, outputs).items():
            write_whole(_there(folder / name) / file, changed(text) if file == solution.file else text)


def _there(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pack(
    problem: Statement, solutions: Mapping[str, Solution], found: Derived, *, values: str, untrusted: bool
) -> tuple[str, list[str]]:
    """Return the text of the pack up to its kernels, and the text of each kernel."""
    dtypes = floats_of(problem, found.called[found.op.main] or found.op.main)
    contract = contract_of(found, "torch", dtypes, strict=values == ANY)
    names = ", ".join(sorted({"Capabilities", "Contract", "Op", "Operand", "PythonKernel", *classes_of(contract)}))
    imports = f"from pathlib import Path\n\nfrom fuzz import {names}\n"
    kernels = [
        _KERNEL.format(
            name=name,
            op=found.op.name,
            file=each.file,
            entry=ENTRY,
            framework=each.framework,
            untrusted=untrusted,
            shown=shown_line(each),
            laws=_laws(each, problem),
        )
        for name, each in solutions.items()
    ]
    head = _PACK.format(
        module=found.module.replace("from fuzz import Op, Operand\n", imports),
        contract=contract_text(contract),
        dtypes=tuple(dtypes),
        probes=probes_of(problem),
    )
    return head, kernels


def classes_of(contract: Contract) -> frozenset[str]:
    """Return the names of the classes that the text of a contract uses, for its orders of sums and absolute errors."""
    values = (*contract.sums.values(), *contract.absolute.values())
    return frozenset(type(each).__name__ for each in values if not isinstance(each, float))


def floats_of(problem: Statement, first: str = "") -> Sequence[str]:
    """Return the dtype of `first`, which tensors without a dtype share, or those of the problem's tensors of floats in
    which kernels calculate."""
    shapes = problem.shapes
    tensors = {name: part_dtype(each) for name, each in problem.dtypes.items() if shapes is None or shapes[name]}
    there = [tensors[first]] if first in tensors else [*tensors.values()]
    known = FORMATS if first in tensors else COMPUTED
    return sorted({name for name in known if FORMATS[name].spelling in there} or {SINGLE.name})


def probes_of(problem: Statement) -> Sequence[str]:
    """Return the probes of any framework, without the capture of a graph if solutions read numbers out of tensors."""
    return tuple(each for each in PROBES if each not in (AUTOGRAD, MODE, *([CALLER] if problem.arguments else [])))


def _laws(solution: Solution, problem: Statement) -> str:
    """Return the probes of a solution as Python: those of any framework, and those of its own."""
    in_modes = solution.is_module and problem.module is not None and problem.module.mode.alike
    more = [*([] if solution.framework in ("numpy", "jax") else [AUTOGRAD]), *([MODE] if in_modes else [])]
    return f"(*PROBES, {', '.join(map(repr, more))})".replace("'", '"') if more else "PROBES"


def shown_line(solution: Solution) -> str:
    """Return the beginning of the source line that reports refer to."""
    return f"{'class' if solution.is_module else 'def'} {solution.function}"


def _earlier(path: Path, head: str, names: Collection[str]) -> list[str]:
    """Return the texts of the other kernels in an earlier pack at this path, if it begins with the same text."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [found[0] for found in _KERNELS.finditer(text) if text.startswith(head) and found[1] not in names]


def contract_text(contract: Contract) -> str:
    """Return the contract as Python source, with the fields that differ from the defaults."""
    usual, lines = Contract(), list[str]()
    for field in fields(Contract):
        value = getattr(contract, field.name)
        if value != getattr(usual, field.name):
            plain = dict(value) if isinstance(value, Mapping) else value
            lines.append(f"    {field.name}={plain!r},".replace("'", '"'))
    return "\n".join(["Contract(", *lines, ")"])
