"""A kernel as its author declares it: where its source is, what it promises and accepts. A mutant is one that has
exactly one planted defect, by which the tool proves that it can find it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

from fuzz.core.base.capability import Capabilities, Capability, DeclarationError, one_of
from fuzz.core.base.numbers import in_turn, numbers_in
from fuzz.core.base.outcome import CHANGES
from fuzz.core.base.text import printable
from oracles.dtypes import COMPUTED, CUTS, FLOATS, FORMATS
from oracles.formula.contract import INPUT, WIDE, Contract
from oracles.formula.trace import Trace, ordered, run, trace
from oracles.op import Op
from oracles.operand import Operand
from oracles.ops import OPS
from oracles.summation import Summation

PLAIN = Contract()
"""What a kernel declares that says nothing: it promises what its platform documents, see `Platform.completed`."""


class Kernel:
    """A kernel as its author declares it: what kernels of every kind say. Each kind is a frozen dataclass in the
    module of its adapter, and has these fields where its authors expect them."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    name: str
    op: str
    source: Path
    contract: Contract
    capabilities: Capabilities
    edits: tuple[tuple[str, str], ...]
    """These (old, new) replacements are made in the source before it is built. Mutants are made by them."""
    laws: tuple[str, ...]
    """These laws hold bit for bit, as `kernelfuzz list laws` names them. A correct kernel may break all but the
    default: it may peel rows to an aligned address, split a reduction by the number of rows, or take another path for
    strides. One that adds in no fixed order, such as by atomic additions, declares `laws=()`."""
    keeps: tuple[str, ...]
    """What of its process it may leave changed, in the words of CHANGES: ("threads",) for a pool of threads that waits
    for the next call. Everything else that outlives a call is a finding."""
    summary: str
    """The line that `kernelfuzz list kernels` shows."""

    slow: bool = False
    """A result takes it seconds now and then."""
    untrusted: bool = False
    """Nobody vouches for it: its workers run in a sandbox."""
    shares_memory: ClassVar[bool] = True
    """It can be given strides that are negative, storages that are sparse, one input in another's memory and an output
    that overlaps an input in part."""

    @cached_property
    def texts(self) -> dict[Path, str]:
        """The texts of its files as they were when each was first read. What is saved while a run goes on is of the
        next run: workers that are started later run the same code as the first."""
        return {}

    @property
    def kind(self) -> str:
        """How it is declared: with this the ids of its targets begin."""
        raise NotImplementedError

    @property
    def arithmetic(self) -> str:
        """What platforms call kernels that are calculated so: its kind, or that with flags that change what holds."""
        return self.kind

    @property
    def adapter(self) -> str:
        """The name of its adapter."""
        return self.kind

    packages: tuple[str, ...] = ()
    """Its worker says which versions of these it has."""
    libraries: tuple[Path | str, ...] = ()
    """What else it is linked with: files, or names as a linker takes them."""

    @property
    def written(self) -> tuple[Path, ...]:
        """The files of its source: `source` first, and what is compiled beside it."""
        return (self.source,)

    @property
    def blamed(self) -> str:
        """What its author is to look at where it is wrong."""
        return "the kernel's source"

    fetch: str = ""
    """The command that brings those of its files that may be absent: where one is, its targets are NOT_RUN and say it.
    """

    @property
    def paths(self) -> Iterator[tuple[str, Path]]:
        """Every path that it is declared with, each with the field that names it."""
        yield "source", self.source

    @property
    def absent(self) -> tuple[str, Path] | None:
        """The first of its paths where nothing is, with the field that names it."""
        there = {"include": Path.is_dir}
        return next((each for each in self.paths if not there.get(each[0], Path.is_file)(each[1])), None)

    @property
    def unfetched(self) -> str | None:
        """What is absent and how it is got; None where nothing is, or nobody says how."""
        absent = self.absent if self.fetch else None
        return None if absent is None else f"{absent[1].name} is not here: {self.fetch}"

    @property
    def lost(self) -> str | None:
        """What is absent, and nobody says how it is got; None where nothing is."""
        absent = None if self.fetch else self.absent
        return None if absent is None else f"{absent[0]}: {absent[1]} does not exist"

    def at(self, folder: Path) -> Kernel:
        """It as a pack in that folder declares it: what is relative is from there."""
        return self

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that its worker has for its sake."""
        return {}

    @property
    def takes_threads(self) -> bool:
        """It can be told how many threads to use."""
        return False

    @property
    def never(self) -> tuple[str, ...]:
        """The ways in which users may call it and workers never do."""
        return ()

    @property
    def asks_tf32(self) -> bool:
        """Whether it says in its source that products of matrices take numbers of f32 as TF32."""
        return False

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Return the whole numbers in its source files, as `fuzz.core.base.numbers` reads them."""
        found = list[tuple[int, ...]]()
        for path in self.written:
            with suppress(OSError, UnicodeDecodeError):
                found.append(numbers_in(path, self.texts.get(path) or path.read_text("utf-8")))
        return in_turn(found)

    @cached_property
    def able(self) -> Capabilities:
        """What it accepts: as declared, and as its source says where that is left to the source."""
        declared = self.capabilities
        return replace(declared, takes=declared.takes or (), params=declared.params or ())

    @cached_property
    def capability(self) -> Capability:
        """What it takes."""
        return Capability(self.op, self.able, self.shares_memory, self.takes_threads)

    def __post_init__(self) -> None:
        """Raise DeclarationError for what is wrong whatever the kind."""
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
        """Raise DeclarationError for an op that nobody knows, and for what does not fit it. A pack may have an op of
        that name which is known only when all of it is read, so this is asked once it is loaded."""
        one_of("op", self.op, tuple(OPS))
        _check_contract(self.contract, OPS[self.op])
        _check_tensors(self.capabilities, OPS[self.op])
        _check_calculated(self.contract, self.capabilities, OPS[self.op])


def capabilities_of(kernels: Iterable[Kernel], op: str) -> tuple[Capability, ...]:
    """What kernels of `op` take, equal ones once, in the order of the kernels."""
    return tuple(dict.fromkeys(kernel.capability for kernel in kernels if kernel.op == op))


def _check_contract(contract: Contract, op: Op) -> None:
    """Raise DeclarationError for a sum in no order, and for a local that the op's formula does not have: misspelt, it
    would promise nothing."""
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


def _locals(op: Op) -> tuple[str, ...]:
    """What the formula calculates under a name, with all operands and without those that may be absent, and what its
    algorithms do."""
    found = dict[str, None]()
    for graph in (_graph(op, op.inputs), _graph(op, [each for each in op.inputs if not each.optional])):
        rounded = {arg for node in graph.nodes if node.kind == "point" for arg in node.args}
        found.update((name, None) for name, node in graph.locals.items() if node.args or node in rounded)
    for ways in op.algorithms.values():
        found.update((name, None) for way in ways.values() for name in way.__code__.co_varnames)
    return tuple(found)


def _points(op: Op) -> tuple[str, ...]:
    """The names of what the formula, or an algorithm of it, says that a kernel may round for a use."""
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
    """Raise DeclarationError for a name that the op does not have: misspelt, it would never be given."""
    if able.axis != "last" and not op.turns:
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
    """Raise DeclarationError where it calculates in the dtype of a tensor, and numbers are only stored in that."""
    for field, word in (("compute", contract.compute), *contract.dtypes.items()):
        for dtype in () if word in (*FORMATS, WIDE) else _dtypes_of(op.main if word == INPUT else word, able, op):
            one_of(f"contract: {field} in the dtype of {word}", dtype, COMPUTED)


def _dtypes_of(tensor: str, able: Capabilities, op: Op) -> tuple[str, ...]:
    """The dtypes that a tensor may have. One that has that of another is taken to have that of the first input."""
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
    """The kernel `base` with textual `edits`; each `old` occurs exactly once in the base's source."""

    name: str
    base: str
    edits: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    """It must be killed on the targets that match these globs."""
    trigger: str
    """Plain words say which inputs show the defect."""
    caught_as: tuple[str, ...]
    """These verdicts count as found for the right reason."""
    provenance: str
    """The real bug that this one is modelled on."""
    fails_when: Callable[[int], bool] | None = None
    """It is true of the row lengths n at which the defect can show. A failure elsewhere has another cause."""

    big: bool = False
    """Only cases that are big in one coordinate show it: they come first."""
    of_size: bool = False
    """It is a loss of accuracy, wrong only where it is more than is allowed: a guided search hunts for such."""
    needs_history: bool = False
    """No case shows it alone: some other call must come before it in the same process."""
    explained_as: tuple[str, ...] = ()
    """An explanation must have these words to name the trigger."""

    def apply(self, base: Kernel) -> Kernel:
        """The base with the defect planted, under the mutant's name."""
        return replace(base, name=self.name, edits=self.edits, summary=self.trigger)
