"""A kernel as its author declares it: its source, its promises and its capabilities. A mutant is a kernel with exactly
one planted defect. Mutants prove that the tool can find defects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from fuzz.core.base.capability import Capabilities, Capability, DeclarationError, one_of
from fuzz.core.base.numbers import in_turn, numbers_in
from fuzz.core.base.outcome import CHANGES
from fuzz.core.base.text import printable
from oracles.dtypes import COMPUTED, CUTS, FLOATS, FORMATS
from oracles.formula.contract import INPUT, WIDE, Contract
from oracles.formula.trace import Trace, ordered, run, trace
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS, remembered
from oracles.summation import Summation

PLAIN = Contract()
"""The contract of a kernel that declares nothing. It promises what its platform documents, see `Platform.completed`."""

_COMPILING = re.compile(r"\btorch\.compile\b|\bload_inline\b|\bcpp_extension\b|\bnumba\b")
"""A pattern of what compiles when it is called, in the text of a source file."""


class Kernel:
    """A kernel as its author declares it, with the fields that all kinds have. Each kind is a frozen dataclass in the
    module of its adapter, with these fields in the order that authors expect."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    name: str
    op: str
    source: Path
    contract: Contract
    capabilities: Capabilities
    edits: tuple[tuple[str, str], ...]
    """The (old, new) replacements in the source before it is built. They make mutants."""
    laws: tuple[str, ...]
    """The laws that hold bit for bit, by their names in `kernelfuzz list laws`. A correct kernel may break all but the
    default: it may peel rows to an aligned address, split a reduction by the number of rows, or use other code for
    strides. A kernel that adds in no fixed order, for example by atomic additions, declares `laws=()`."""
    keeps: tuple[str, ...]
    """The changes to its process that the kernel may leave behind, by their names in CHANGES: ("threads",), for
    example, if a pool of threads waits for the next call. Any other change that outlives a call is a finding."""
    summary: str
    """The line that `kernelfuzz list kernels` prints."""

    slow: bool = False
    """Whether a result may take seconds."""
    untrusted: bool = False
    """Whether the workers of the kernel run in a sandbox, because nobody vouches for it."""
    shares_memory: ClassVar[bool] = True
    """Whether the kernel can be given negative strides, sparse storages, one input in another's memory, and an output
    that overlaps an input in part."""

    @cached_property
    def texts(self) -> dict[Path, str]:
        """The texts of the kernel's files, as they were when each was first read. A file that is saved during a session
        counts only in the next session, so that all workers of a session use the same code."""
        return {}

    @property
    def kind(self) -> str:
        """The word for how the kernel is declared. The ids of its targets begin with it."""
        raise NotImplementedError

    @property
    def arithmetic(self) -> str:
        """The name of the kernel's arithmetic among platforms: its kind, with flags that change the arithmetic."""
        return self.kind

    @property
    def adapter(self) -> str:
        """The name of the kernel's adapter."""
        return self.kind

    packages: tuple[str, ...] = ()
    """The packages whose versions the worker attests."""
    libraries: tuple[Path | str, ...] = ()
    """Further inputs of the linker: files, or names of libraries as the linker knows them."""

    @property
    def written(self) -> tuple[Path, ...]:
        """The source files of the kernel: `source`, and then those that are compiled with it."""
        return (self.source,)

    @property
    def blamed(self) -> str:
        """The file that the kernel's author should look at if it is wrong."""
        return "the kernel's source"

    fetch: str = ""
    """The command that fetches files of the kernel that may be absent. While one is absent, the kernel's targets are
    NOT_RUN and print the command."""

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        """Every path in the declaration, with the name of its field."""
        yield "source", self.source

    @property
    def absent(self) -> tuple[str, Path] | None:
        """The first declared path at which nothing exists, with the name of its field; None if all exist."""
        there = {"include": Path.is_dir}
        return next((each for each in self.paths if not there.get(each[0], Path.is_file)(each[1])), None)

    @property
    def unfetched(self) -> str | None:
        """The absent file and the command that fetches it; None if no file is absent, or without such a command."""
        absent = self.absent if self.fetch else None
        return None if absent is None else f"{absent[1].name} is not here: {self.fetch}"

    @property
    def lost(self) -> str | None:
        """The absent file if no command fetches it; None if no file is absent."""
        absent = None if self.fetch else self.absent
        return None if absent is None else f"{absent[0]}: {absent[1]} does not exist"

    @classmethod
    def of(cls, kernel: object) -> Self:
        """Return the kernel, which must be of this kind."""
        assert isinstance(kernel, cls)
        return kernel

    def at(self, folder: Path) -> Kernel:
        """Return the kernel as declared by a pack in this folder, where relative paths start."""
        return self

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables of the worker."""
        return {}

    @property
    def takes_threads(self) -> bool:
        """Whether the kernel can be told how many threads to use."""
        return False

    @property
    def never(self) -> tuple[str, ...]:
        """The ways of calling the kernel that users have but workers do not use."""
        return ()

    @property
    def asks_tf32(self) -> bool:
        """Whether the source of the kernel asks for TF32 in products of f32 matrices."""
        return False

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Return the whole numbers in the kernel's source files, as `fuzz.core.base.numbers` reads them."""
        return in_turn([numbers_in(path, text) for path, text in self.read])

    @property
    def read(self) -> Iterator[tuple[Path, str]]:
        """Yield the kernel's source files that can be read, with their texts."""
        for path in self.written:
            with suppress(OSError, UnicodeDecodeError):
                yield path, self.texts.get(path) or path.read_text("utf-8")

    @cached_property
    def compiles(self) -> bool:
        """Whether a call may compile first, as its declaration or its source says, and then take long once."""
        return self.slow or any(map(_COMPILING.search, (text for _, text in self.read)))

    @cached_property
    def able(self) -> Capabilities:
        """The capabilities of the kernel. Those that the declaration leaves open follow from the source."""
        declared = self.capabilities
        return replace(declared, takes=declared.takes or (), params=declared.params or ())

    @cached_property
    def capability(self) -> Capability:
        """The capability of the kernel, for generation."""
        return Capability(self.op, self.able, self.shares_memory, self.takes_threads)

    def __post_init__(self) -> None:
        """Raise DeclarationError for errors in fields that all kinds have."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise DeclarationError(f"name: {self.name!r} may hold letters, digits, '_', '.' and '-' only")
        if not isinstance(self.source, Path):
            raise DeclarationError(f"source: write a path, Path(__file__).parent / {str(self.source)!r}")
        for kind in self.keeps:
            one_of("keeps", kind, CHANGES)
        for field, wanted in (("contract", Contract), ("capabilities", Capabilities)):
            given, word = getattr(self, field), wanted.__name__
            if not isinstance(given, wanted):
                raise DeclarationError(
                    f"{field}: {given!r} is no {word}: write {word}(...), or leave it out to declare nothing"
                )
        object.__setattr__(self, "summary", printable(self.summary))

    def check_op(self) -> None:
        """Raise DeclarationError if the kernel's op is unknown, or if the declaration does not fit the op. Call this
        once the whole pack is read, since the pack may define the op."""
        one_of("op", self.op, tuple(OPS))
        _check_contract(self.contract, OPS[self.op])
        _check_tensors(self.capabilities, OPS[self.op])
        _check_calculated(self.contract, self.capabilities, OPS[self.op])


def capabilities_of(kernels: Iterable[Kernel], op: str) -> tuple[Capability, ...]:
    """Return the capabilities of all kernels of `op`, each distinct one once, in the order of the kernels."""
    return tuple(dict.fromkeys(kernel.capability for kernel in kernels if kernel.op == op))


def _check_contract(contract: Contract, op: Op) -> None:
    """Raise DeclarationError for a sum without an order, and for a local that the op's formula does not have. A
    misspelt local would promise nothing."""
    for name, order in contract.sums.items():
        if not isinstance(order, get_args(Summation)):
            raise DeclarationError(f"contract.sums: {name}: {order!r} is not a summation structure")
    known, dims = _locals(op), tuple(dict.fromkeys([*(dim for each in op.operands for dim in each.axes), *op.made]))
    several = {name: name.split() for name in contract.sums if " " in name}
    for field, names, said in (
        ("sums", (*known, *dims), [each for name in contract.sums for each in several.get(name, [name])]),
        ("dtypes", known, contract.dtypes),
        ("points", _points(op) if contract.points else (), contract.points),
    ):
        for name in said:
            _known(f"contract.{field}", name, names, op)
    for word in sorted(contract.words):
        one_of(
            "contract: dtype",
            word,
            (*FORMATS, *CUTS, INPUT, WIDE, *(each.name for each in op.operands if not each.integers)),
        )
    for name, chosen in contract.algorithm.items():
        one_of("contract.algorithm", name, tuple(op.algorithms))
        for each in (chosen,) if isinstance(chosen, str) else chosen:
            one_of(f"contract.algorithm: {name}", each, ("formula", *op.algorithms[name]))


@remembered(128)
def _locals(op: Op) -> tuple[str, ...]:
    """Return the names of all values that an algorithm calculates, or the formula with all optional inputs or none."""
    found = dict[str, None]()
    for graph in (_graph(op, op.inputs), _graph(op, [each for each in op.inputs if not each.optional])):
        rounded = {arg for node in graph.nodes if node.kind == "point" for arg in node.args}
        found.update((name, None) for name, node in graph.locals.items() if node.args or node in rounded)
    for ways in op.algorithms.values():
        found.update((name, None) for way in ways.values() for name in way.__code__.co_varnames)
    return tuple(found)


@remembered(128)
def _points(op: Op) -> tuple[str, ...]:
    """Return the names of the points at which the formula, or an algorithm, lets a kernel round a value."""
    found = dict[str, None]()
    optional = [(each,) for each in op.inputs if each.optional]
    for absent in ((), *optional, tuple(each for each in op.inputs if each.optional)):
        graph = _graph(op, [each for each in op.inputs if each not in absent])
        nodes, names = {*graph.nodes}, {**graph.names}
        for way in (way for ways in op.algorithms.values() for way in ways.values()):
            taken = way.__code__.co_varnames[: way.__code__.co_argcount]
            if all(name in graph.locals for name in taken):
                value, own = run(way, {name: graph.locals[name] for name in taken})
                nodes |= {*ordered([value])}
                names |= {node: name for name, node in own.items() if node not in names}
        found.update((names[node.args[0]], None) for node in nodes if node.kind == "point" and node.args[0] in names)
    return tuple(sorted(found))


def _graph(op: Op, inputs: Sequence[Operand]) -> Trace:
    try:
        return trace(op.formula, {each.name: each.axes for each in inputs}, [each.name for each in op.parameters])
    except Exception as error:
        raise DeclarationError(f"op: {op.name}: its formula: {type(error).__name__}: {error}") from error


def _check_tensors(able: Capabilities, op: Op) -> None:
    """Raise DeclarationError for a name that the op does not have. A misspelt tensor would never be given."""
    if able.axis != "last" and not op.any_axis:
        own = f"{op.main} of {op.name} is {op.inputs[0].dims!r}"
        raise DeclarationError(f"capabilities.axis: {able.axis!r} is for '... {op.row}', and {own}")
    if able.alignment != 1 and able.strides == "contiguous" and len(op.named) > 1:
        lengths = " and ".join(dict.fromkeys(each.axes[-1] for each in op.operands if op.has_rows(each.name)))
        raise DeclarationError(
            f"capabilities.alignment: {able.alignment}: contiguous rows of {lengths} elements may begin anywhere; add"
            " strides='pitched'"
        )
    stackable = tuple(operand.name for operand in op.operands if operand.stackable)
    for field, names, known in (
        ("takes", able.takes or (), op.optional),
        ("needs", able.needs, op.optional),
        ("params", able.params or (), tuple(op.neutral)),
        ("stacked", able.stacked, stackable),
        ("checks", able.checks, tuple(name for name, dim in op.integers.items() if dim)),
        ("max", able.max, op.named),
        ("multiple_of", able.multiple_of, op.named),
    ):
        for name in names:
            _known(f"capabilities.{field}", name, known, op)
    for dim, size in able.max.items():
        if not size:
            raise DeclarationError(f"capabilities.max: {dim}: 0 leaves no case with elements: nothing would be judged")
    for dim, size in op.fixed.items():
        if size > able.max.get(dim, size) or size % able.multiple_of.get(dim, 1):
            raise DeclarationError(f"capabilities: {dim} is always {size} in {op.name}, which is not taken")
    operands = tuple(operand.name for operand in op.operands)
    for mixed, dtypes in able.mixed:
        _known("capabilities.mixed", mixed, operands, op)
        for dtype in dtypes:
            one_of(f"capabilities.mixed: {mixed}", dtype, op.operand(mixed).integers or (op.main, *FLOATS))
    for field, pairs in (("aliases", able.aliases), ("overlap", able.overlap)):
        for pair in pairs:
            if pair not in op.aliases:
                theirs = ", ".join(map(str, op.aliases))
                raise DeclarationError(f"capabilities.{field}: {pair} is not one of {theirs}, the pairs of {op.name}")


def _check_calculated(contract: Contract, able: Capabilities, op: Op) -> None:
    """Raise DeclarationError if the contract calculates in the dtype of a tensor that can only store numbers."""
    for field, word in (("compute", contract.compute), *contract.dtypes.items()):
        for dtype in () if word in (*FORMATS, WIDE) else _dtypes_of(op.main if word == INPUT else word, able, op):
            one_of(f"contract: {field} in the dtype of {word}", dtype, COMPUTED)


def _dtypes_of(tensor: str, able: Capabilities, op: Op) -> tuple[str, ...]:
    """Return the dtypes that a tensor may have. If it follows another tensor, these are those of the first input."""
    if tensor == op.main:
        return able.dtypes
    usual = op.operand(tensor).dtype
    named = next((dtypes for name, dtypes in able.mixed if name == tensor), (usual if usual in FORMATS else op.main,))
    return tuple(dtype for each in named for dtype in (able.dtypes if each == op.main else (each,)))


def _known(field: str, name: str, known: tuple[str, ...], op: Op) -> None:
    if not known:
        raise DeclarationError(f"{field}: {op.name} has none, not even {name!r}")
    one_of(field, name, known)


@dataclass(frozen=True)
class Mutant:
    """The kernel `base` with textual `edits`. Each `old` occurs exactly once in the base's source."""

    name: str
    base: str
    edits: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    """The globs of targets. The mutant must be caught on targets that match."""
    trigger: str
    """The inputs that show the defect, in plain words."""
    caught_as: tuple[str, ...]
    """The verdicts that count as finding the defect for the right reason."""
    provenance: str
    """The real bug after which the mutant is modelled."""
    fails_when: Callable[[int], bool] | None = None
    """Returns whether the defect can show at row length n. A failure at another length has another cause."""

    big: bool = False
    """Whether only big cases of `fuzz/core/generate/big.py` show the defect. These are run first."""
    of_size: bool = False
    """Whether the defect is a loss of accuracy, for which a guided search looks. Only loss beyond the budget fails."""
    needs_history: bool = False
    """Whether no single case shows the defect, because another call must come before it in the same process."""
    explained_as: tuple[str, ...] = ()
    """Words that an explanation must contain to name the trigger."""

    def apply(self, base: Kernel) -> Kernel:
        """Return the base kernel with the defect planted, under the mutant's name."""
        return replace(base, name=self.name, edits=self.edits, summary=self.trigger)
