"""A plain function that says what a kernel should compute, as the op of a check, and the contract that the kernel is
held to. The function fixes an order of additions, a way to calculate each value, and roundings. A correct kernel need
not share any of these, so a kernel without a declared contract is judged by a contract that leaves them open."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from fuzz.contracts.accepts import DTYPES, Accepts, accepts, usually
from fuzz.contracts.bench import UnmeasurableError, template
from fuzz.core.adapters.configured import usual
from fuzz.core.adapters.pack import make_known
from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case, CaseError, Layout
from fuzz.core.base.errors import error_line
from fuzz.core.base.platform import operations
from fuzz.core.base.platforms import platform_of
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.variations import extended, made
from fuzz.core.judge.values import problem_of
from fuzz.core.laws.transforms import IMPULSE, Impulses, is_kept, is_transform
from fuzz.core.transport.python.attest import interpreted_faults
from fuzz.core.transport.python.halves import is_complex
from fuzz.references.derive import ANY, FINITE, Derived, derive
from fuzz.references.dims import MisnamedError, NotTakenError, UnreadableError
from fuzz.references.examples import GIVEN, keeping
from fuzz.references.layers import remedy, weights_of
from fuzz.references.parameters import has_signature, library_of, name_of, parameters_of
from fuzz.references.reductions import WEAKER
from fuzz.references.text import identifier
from fuzz.tasks.check.function import Function, OwnProcess, declared, held, of_triton
from fuzz.tasks.check.request import NOTHING_SAID, Arrays, Calling, GivenData, Promises
from fuzz.tasks.check.results import CheckError, reason_of, told
from oracles.algorithm import BY_NORM, FORMULA
from oracles.dtypes import DOUBLE, FORMATS, NARROW, SINGLE, SPELLED
from oracles.elementary.functions import records
from oracles.formula.contract import DIVIDE, INPUT, Contract
from oracles.op import Op
from oracles.operand import AXIS, OUTER, OpError
from oracles.ops import OPS

__tracebackhide__ = told
_ULP = 4.0
"""The error, in ulp, that elementary functions of the libraries used by kernels may have. A quotient may have half of
it, since it may be calculated as a product with the reciprocal. Chosen: documented bounds are mostly smaller."""
_SPECIAL, _ZEROS, _EMPTY = "NaN, infinities, overflow, subnormals", "signs of zero", "tensors without elements"
"""The lines about inputs that are judged only if the user asks for it: NaN and infinities, zeros, and empty tensors."""
_REPLAY = '; oracle="replay" compares a kernel with the function itself in float64, which is weaker'
_SHOW = "; give example_inputs: where it takes no other extents, those of these are kept"
_F64 = DOUBLE.name
_MADE: dict[str, Op] = {}
"""The ops that checks made from references, by name. A new op replaces the earlier one of its name."""


_OF_VALUES = (Verdict.FAIL_NUMERIC, Verdict.FAIL_NONFINITE, Verdict.FAIL_SHAPE)
"""The verdicts that hang on the formula."""


def misread_of(derived: Derived, case: Case, verdict: Verdict) -> str:
    """Return how a reference differs from the formula that was read from it, at the extents of a case with wrong
    values; "" if it does not. Cases whose rows lie along an axis before the last are not looked at."""
    shape = case.inputs[derived.op.main].layout.shape
    if verdict not in _OF_VALUES or int(case.params.get(AXIS, -1)) not in (-1, len(shape) - 1):
        return ""
    said = derived.misread(problem_of(case).inputs)
    return f"does something else at larger extents than where it was read: {said}" if said else ""


@dataclass(frozen=True)
class ReadReference:
    """A reference that was read into an op, and the contract of its kernels."""

    derived: Derived
    contract: Contract
    said: str
    """The text that tells what was read, and what is not judged."""
    _taken: dict[Hashable, bool] = field(default_factory=dict, repr=False, compare=False)
    """Whether the reference takes tensors of these shapes."""

    @property
    def op(self) -> str:
        """The name of the reference's op."""
        return self.derived.op.name

    def capabilities(self, declared: Capabilities | None) -> Capabilities:
        """Return the declared capabilities, without empty tensors unless they are asked for and the reference takes
        them: a user who declares nothing, or other dtypes, does not expect them. Beside tensors of 16 bits, those of
        complex numbers are complex64. Raises CheckError if the first one is of complex numbers and shall be short."""
        found, parts = declared or Capabilities(), self.derived.complex_parts
        short = [dtype for dtype in found.dtypes if dtype in NARROW]
        if short and self.derived.op.main in parts:
            raise CheckError(f"capabilities.dtypes: {short[0]}: complex numbers have parts of f32 or f64")
        longer = parts - {name for name, _ in found.mixed} if short and _F64 not in found.dtypes else ()
        mixed = (*found.mixed, *((name, (SINGLE.name,)) for name in sorted(longer)))
        return replace(found, empty=bool(found.empty) and self.derived.agreement.empty, mixed=mixed)

    def takes(self, case: Case) -> bool:
        """Whether the reference takes a case. If the reference raises for it, the case has no meaning."""
        # In elements: `view_as_complex` takes even places alone.
        odd = {name: each.layout.alignment(1) % 2 for name, each in case.inputs.items()}
        shapes = tuple((name, each.layout.shape, odd[name]) for name, each in case.inputs.items())
        if shapes not in self._taken:  # cases of a failure are mostly of one shape
            self._taken[shapes] = self._takes_arrays(case) if self.derived.library == "jax" else self._takes(case, odd)
        return self._taken[shapes]

    def _takes(self, case: Case, odd: Mapping[str, int]) -> bool:
        import torch

        # The device "meta" is avoided: torch would import its compiler for it, and no drawn case takes long on the CPU.
        operand = self.derived.op.operand

        def zeros(name: str, layout: Layout) -> Any:
            of = operand(name)
            dtype = torch.int64 if of.index else torch.bool if of.integers else torch.float32
            return torch.zeros(layout.size + odd[name], dtype=dtype)[odd[name] :].view(layout.shape)

        tensors = {name: zeros(name, each.layout) for name, each in case.inputs.items()}
        with warnings.catch_warnings(), suppress(Exception):  # whatever the reference raises
            warnings.simplefilter("ignore")
            self.derived.reference(**tensors)
            return True
        return False

    def misread(self, case: Case, verdict: Verdict) -> str:
        """Return why a failing case says nothing of its kernel: at its extents the reference does something else than
        where it was read. "" if it does the same."""
        at = misread_of(self.derived, case, verdict)
        return f"reference {self.derived.op.name} {at}{_REPLAY}" if at else ""

    def _takes_arrays(self, case: Case) -> bool:
        from fuzz.references.jaxprs.tracing import traced

        kinds = {each.name: "int32" if each.index else "bool" for each in self.derived.op.inputs if each.integers}
        with suppress(UnreadableError):
            traced(
                self.derived.reference,
                {name: (each.layout.shape, kinds.get(name, "float32")) for name, each in case.inputs.items()},
            )
            return True
        return False

    def in_parts(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel that is called with the parts of complex numbers, if the reference has complex numbers."""
        parted = self.derived.parted
        return kernel if parted is None else parted.kernel(kernel, [each.name for each in self.derived.op.outputs])

    def of_rank(self, example_inputs: Sequence[Any] | Mapping[str, Any] | None) -> Mapping[str, str]:
        """Return the dimensions of the reference's tensors. "..." is replaced by as many dimensions as the examples
        have there, or by one without examples."""
        op = self.derived.op
        examples = example_inputs.values() if isinstance(example_inputs, Mapping) else example_inputs or ()
        ranks = [len(each.shape) for each in examples if hasattr(each, "shape")]
        inner = len(op.inputs[0].axes) - 1
        return with_names(self.derived, max(max(ranks, default=inner + 1) - inner, 0))

    def constants(self, kernel: Callable[..., Any]) -> Mapping[str, Any]:
        """Return the reference's constants, such as eps, for which the kernel has a parameter of that name."""
        try:
            names = inspect.signature(kernel).parameters
        except (TypeError, ValueError):
            return {}
        mine = {*self.called(kernel).values()}
        return {name: value for name, value in self.derived.constants.items() if name in names and name not in mine}

    def called(self, kernel: Callable[..., Any]) -> Mapping[str, str]:
        """Return the kernel's parameters by the reference's tensors, matched by position, for those whose names differ.
        Raises CheckError if it is unclear which is which."""
        try:
            parameters = inspect.signature(kernel).parameters.values()
        except (TypeError, ValueError):
            return {}
        own = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        theirs = self.derived.called
        if {*theirs} <= {*own} or len(own) < len(theirs):
            return {}
        by_name = {*theirs.values()} <= {*own}
        found = theirs if by_name else dict(zip(theirs, own, strict=False))
        astray = [mine for name, mine in found.items() if mine in theirs.values() and mine != theirs[name]]
        if astray:
            order = ", ".join(theirs.values())
            raise CheckError(
                f"the reference takes ({order}), and the kernel ({', '.join(own)}), whose {astray[0]!r} is at another "
                f"place: which is which? Call all of them alike, or wrap it: fuzz.check(lambda {order}: mine(...), ...)"
            )
        return {name: mine for name, mine in found.items() if name != mine}

    def said_of(self, kernel: Callable[..., Any]) -> str:
        """Return the text about the reference, and about parameters that are given tensors of other names."""
        given = ", ".join(f"{mine} is given {name}" for name, mine in self.called(kernel).items())
        return f"{self.said}; by its place {given}" if given else self.said

    @property
    def left_out(self) -> str:
        """A message about optional parameters of the reference that `shapes` or the examples do not name."""
        return self.derived.left_out


def spelled(dtypes: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Return the dtypes of tensors of integers and flags by torch's names. Raises CheckError for any other."""
    found = {name: str(getattr(each, "__name__", each)).removeprefix("torch.") for name, each in (dtypes or {}).items()}
    numbers = [name for name, each in SPELLED.items() if each.name not in FORMATS]
    for name, each in found.items():
        if each not in numbers and not is_complex(each):
            known = ", ".join(numbers)
            raise CheckError(
                f"dtypes: {name} is one of {known}, or complex64, not {each!r}; dtypes of floats are capabilities"
            )
    return found


def read(
    reference: Callable[..., Any], data: GivenData, promises: Promises = NOTHING_SAID, arrays: Arrays = "torch"
) -> ReadReference:
    """Read a reference, register its op, and return it with a contract: the given one, or the default for kernels that
    declare nothing, with the given fields replaced. Raises CheckError."""
    capabilities, values, examples = promises.capabilities, data.values, data.example_inputs
    dtypes = (capabilities or Capabilities()).dtypes
    drawn, name = FINITE if values is None else values, _name(reference)
    try:
        found = derive(
            reference, data.shapes, example_inputs=examples, values=drawn, name=name, dtype=_traced(dtypes),
            fixed=data.fixed, dtypes=spelled(data.dtypes),
        )  # fmt: skip
        if examples is not None:
            named = named_examples(reference, found.called, examples)
            named = named if found.parted is None else found.parted.examples(named)
            found = keeping(found, [named], GIVEN, any_values=data.any_values)
        OPS.pop(name, None)
        make_known(found.op)
        _MADE[name] = found.op
    except ImportError as error:
        raise CheckError(f"reference: it is read with torch: {error_line(error)}") from error
    except UnreadableError as error:
        shown = data.shapes is not None or examples is not None
        more = remedy(reference) if weights_of(reference) else ""
        more += "" if shown or not isinstance(error, NotTakenError) else _SHOW
        raise CheckError(f"{error}{more}{_REPLAY if is_replayable(reference, error) else ''}") from reason_of(error)
    except OpError as error:
        raise CheckError(str(error)) from None
    strict = values == ANY
    measures = promises.is_measured
    points = found.formula.points if measures else ()
    contract = held(promises.contract, contract_of(found, arrays, dtypes, strict=strict))
    rounded = " and ".join(points)
    text = f"{found.said}; {rounded} may be rounded to the dtype of the inputs" if rounded else found.said
    limits = " and ".join(each for each in found.op.open_ways if not isinstance(contract.algorithm.get(each), str))
    text = f"{text}; {limits} may be NaN, or the maximum of its terms, where that is infinite" if limits else text
    if measures and _F64 in dtypes and found.shortens:
        text = f"{text}; f64 is judged as calculated in f32 at least, which the reference casts to"
    unjudged = {
        _SPECIAL: not strict,
        _ZEROS: contract.zeros == "any",
        _EMPTY: capabilities is None or not capabilities.empty,
    }
    words = ", ".join(word for word, left_out in unjudged.items() if left_out)
    said = f"{text}; not judged: {words}" if words else text
    return ReadReference(found, contract, said)


def with_names(found: Derived, count: int) -> Mapping[str, str]:
    """Return the dimensions of a reference's tensors, with `count` names in the place of "..."."""
    op = found.op
    free = [each for each in "mbrgijpqoyzw" if each not in op.named][:count]
    return {
        theirs or name: op.operand(name).dims.replace(OUTER, " ".join(free)).strip()
        for name, theirs in found.called.items()
    }


def is_replayable(reference: Callable[..., Any], error: UnreadableError) -> bool:
    """Whether a reference that no formula is read from may be replayed. A function of JAX must compile for that."""
    if library_of(reference) == "jax":
        from jax.errors import JAXTypeError

        return not isinstance(error, MisnamedError) and not isinstance(error.__cause__, JAXTypeError)
    return not isinstance(error, MisnamedError)


def contract_of(found: Derived, arrays: Arrays, dtypes: Sequence[str], *, strict: bool) -> Contract:
    """Return the contract for a kernel of a reference that declares nothing. It is `lenient`, and in addition the
    kernel may round where the reference does, calculate f64 values in f32 if the reference does, and use any known
    algorithm for a value, unless it is a weaker one. What is right by norm includes what is right by parts."""
    plain, shortens = lenient(found.op, arrays, strict=strict), _F64 in dtypes and found.shortens
    short = NARROW[-1] if any(FORMATS[each].only_stores for each in dtypes) else INPUT  # 8 bits only store
    known = {local: [way for way in ways if way not in WEAKER] for local, ways in found.op.algorithms.items()}
    allowed = {local: BY_NORM if BY_NORM in ways else (FORMULA, *ways) for local, ways in known.items() if ways}
    return replace(
        plain,
        compute=SINGLE.name if shortens else plain.compute,
        wider=shortens,
        points=dict.fromkeys(found.formula.points, f"maybe {short}"),
        algorithm=allowed,
    )


def lenient(op: Op, arrays: Arrays, *, strict: bool = False) -> Contract:
    """Return a contract that leaves open the order of additions, the step at which a bias is added, and the accuracy of
    the library. Unless `strict`, it also demands nothing for infinities, NaN, overflow or subnormal numbers."""
    home, plain = platform_of(arrays, "cpu"), Contract()
    accuracy = {name: max(_ULP, plain.ulp(name)) for name, each in records().items() if not each.is_exact}
    absolute = {name: error for name, error in home.absolute.items() if name in operations(op)}
    found = replace(
        home.undeclared(op), addend="any", accuracy={**accuracy, DIVIDE: _ULP / 2}, absolute=absolute,
        platform="widens",
    )  # fmt: skip
    return found if strict else replace(found, nonfinite="unspecified", denormals="flush", zeros="any")


def named_examples(
    reference: Callable[..., Any], called: Mapping[str, str], examples: Sequence[Any] | Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the example inputs by the names that the reference has for them."""
    if isinstance(examples, Mapping):
        return examples
    names = [*parameters_of(reference)] if has_signature(reference) else [*called]
    return dict(zip(names, examples, strict=False))


def _traced(dtypes: Sequence[str]) -> str:
    """Return the dtype of the tensors that a reference is traced with: one of 16 bits if the kernel takes one, so that
    roundings to that dtype are seen."""
    return next((FORMATS[half].spelling for half in reversed(NARROW) if half in dtypes), SINGLE.spelling)


def _name(reference: Callable[..., Any]) -> str:
    """Return the name of the reference's op: the function's name, or with a word in front if such an op, such as
    "softmax", exists already."""
    plain = identifier(name_of(reference), "reference")
    for name in (plain, f"reference_{plain}"[:31]):
        if name not in OPS or OPS[name] is _MADE.get(name):
            return name
    raise CheckError(
        f"reference {plain}: there are ops of the names {plain} and reference_{plain}: rename the function"
    )


_UNTYPED = ("ctypes", "cffi", "data_ptr")
"""Names in a function that calls C code which does not know dtypes and would read all elements as floats of 32 bits."""


def tried(
    kernel: Callable[..., Any], found: ReadReference, able: Capabilities | None, calling: Calling
) -> Accepts | None:
    """Return what a function does with strides, dtypes and ranks that it does not declare. Return None if it declares
    some of them, or if its results are wrong even for usual inputs."""
    declaration, function = declared(
        kernel, found.op, Promises(found.contract, found.capabilities(able), laws=()), replace(calling, name=""),
        found.called(kernel), found.constants(kernel),
    )  # fmt: skip
    function = replace(function, widens=found.derived.widens, shortens=found.derived.shortens)
    targets = usual(expand([declaration]))
    if len(targets) != 1 or targets[0].unavailable() is not None:
        return None

    def here(target: Target) -> nullcontext[OwnProcess]:
        return nullcontext(OwnProcess([target], function, found.takes))

    faults = {dtype: why for dtype, why in _interpreter_faults(kernel).items() if dtype not in declaration.able.dtypes}
    is_long = _is_untyped(kernel) or found.derived.op.main in found.derived.complex_parts
    dtypes = [dtype for dtype in (DTYPES[:2] if is_long else DTYPES) if dtype not in faults]

    def contract(dtype: str) -> Contract:
        return contract_of(found.derived, calling.arrays, (dtype,), strict=False)

    told = accepts(here, targets[0], contract, dtypes=dtypes)
    return replace(told, untried=faults) if told is not None and told.usual == "right" else told


def lengthened(declaration: PythonKernel, function: Function, found: ReadReference) -> PythonKernel:
    """Return the declaration of a kernel with the outputs in f32 that both the kernel and the reference have in f32 of
    tensors of 16 bits, and that are as good as f32 in the reference: they are judged so. If f64 is declared too, none
    are: an output has one dtype for all inputs."""
    able = declaration.able
    short = [dtype for dtype in able.dtypes if dtype in NARROW]
    names = sorted(found.derived.widens - {name for name, _ in able.mixed})
    if not short or not names or _F64 in able.dtypes:
        return declaration
    mixed = (*able.mixed, *((name, (SINGLE.name,)) for name in names))
    longer = replace(declaration, capabilities=replace(able, mixed=mixed))
    inputs = frozenset(each.name for each in found.derived.op.inputs)
    own = Function(found.derived.reference, inputs, {}, tuple(each.name for each in found.derived.op.outputs), "")
    for kernel, each, wrong in (
        (replace(longer, framework="torch"), own, ("wrong values",)),
        (longer, replace(function, widens=frozenset()), ()),
    ):
        target = usual(expand([kernel]))[0]
        answer = usually(OwnProcess([target], each, found.takes), target, found.contract, short[-1])
        if answer in ("returns another dtype", "raises", "refuses", *wrong):
            return declaration
    return longer


_LONG = 101
"""The length of the rows in which the reference itself must keep the law of impulses: one written with angles that are
no longer exact in f32 does not, and a kernel like it is right."""


def with_laws(declaration: PythonKernel, found: ReadReference) -> PythonKernel:
    """Return the declaration of a kernel of a transform with the law of impulses, if it calculates in f32 and the
    reference keeps the law in long rows, too."""
    own, able = found.derived, declaration.able
    if not is_transform(own.op) or SINGLE.name not in able.dtypes:
        return declaration
    inputs, outputs = frozenset(each.name for each in own.op.inputs), tuple(each.name for each in own.op.outputs)
    plain = replace(declaration, capabilities=Capabilities(dtypes=(SINGLE.name,)), framework="torch")
    target = usual(expand([plain]))[0]
    with suppress(CaseError, UnmeasurableError, ValueError):
        draw = template(target, SINGLE.name).draw
        case = made(extended(draw, {own.op.row: _LONG} if own.op.row not in own.op.fixed else {}))
        impulses = Impulses(case)
        if not impulses.are_few:
            return declaration
        cases = [impulses.at(name, [size - 1] * impulses.batch) for name, size in impulses.sizes.items()]
        here = OwnProcess([target], Function(own.reference, inputs, {}, outputs, ""), found.takes)
        runs = [each.get(target.id) for each in here.submit(cases).outcomes()]
        if all(run is not None and is_kept(each, run.outputs) for each, run in zip(cases, runs, strict=True)):
            return replace(declaration, laws=(*declaration.laws, IMPULSE.name))
    return declaration


def _interpreter_faults(kernel: Callable[..., Any]) -> Mapping[str, str]:
    """Return why Triton's interpreter gets some dtypes wrong, by dtype, if it runs functions that the kernel calls.
    These dtypes are not tried."""
    return interpreted_faults(triton) if (triton := of_triton(kernel)) else {}


def _is_untyped(kernel: Callable[..., Any]) -> bool:
    own = inspect.unwrap(kernel)
    modules = (each.__name__ for each in getattr(own, "__globals__", {}).values() if isinstance(each, ModuleType))
    names = getattr(getattr(own, "__code__", None), "co_names", ())
    return any(each.partition(".")[0] in _UNTYPED for each in (*modules, *names))
