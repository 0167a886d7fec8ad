"""A plain Python function as a kernel: its parameters are read from its signature, and it is called in this process,
with its tensors between margins that are poisoned and checked. Unlike in a worker, no inaccessible pages lie beside the
tensors: an access would end the user's process, unless its signal handlers were replaced, which are not ours. So a
stray read that stays within a margin is not seen, and a crash ends the test run: a function that may stray or crash
should be declared as a kernel, which runs in a worker."""

from __future__ import annotations

import dis
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, wraps
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from fuzz.core.adapters.python_kernel import Device, PythonKernel
from fuzz.core.adapters.signature import NOTHING_KNOWN, Signature, completed, misfits, signature_of
from fuzz.core.adapters.target import Attestation, NotRun, Target
from fuzz.core.base.capability import Capabilities, DeclarationError
from fuzz.core.base.case import Case
from fuzz.core.base.dispatch import SMALL, Dispatch
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.numbers import numbers_of
from fuzz.core.base.outcome import Outcome
from fuzz.core.base.platforms import platform_of
from fuzz.core.execute.batch import Batch, TargetBatch, Watch, patient
from fuzz.core.transport import records
from fuzz.core.transport.frames import decode_responses, outcome_of
from fuzz.core.transport.python.answer import Answer, is_of_device, respond
from fuzz.core.transport.python.arrays import arrays_of
from fuzz.core.transport.python.attempt import CaseRunner
from fuzz.core.transport.python.foreign import Maker, opened
from fuzz.core.transport.python.kernel import MARGIN_BYTES, Raised, Way, has_own_frame, is_rejection, misuse_of
from fuzz.core.transport.python.memory import CallMemory, FreshMemory
from fuzz.references.libraries import libraries_of
from fuzz.references.parameters import name_of, optional_of
from fuzz.tasks.check.request import Arrays, Calling, Promises
from fuzz.tasks.check.results import CheckError, told
from oracles.formula.contract import Contract
from oracles.op import Op
from oracles.ops import OPS
from oracles.summation import NumericsError

__tracebackhide__ = told
NO_OTHERS: Mapping[str, str] = MappingProxyType({})

_NOTED = {
    each: f"the kernel is given arrays of {words}, which it calls: arrays='torch' gives it tensors"
    for each, words in {"numpy": "NumPy", "jax": "JAX"}.items()
}
_WORDS_LIMIT = 1500
_INTERPRETER = "set TRITON_INTERPRET=1 in the environment, before triton is imported for the first time"


@dataclass(frozen=True)
class Function:
    """The function, called as the memory checks call a kernel: by keyword, with everything that it has parameters
    for."""

    function: Callable[..., Any]
    names: frozenset[str]
    neutral: Mapping[str, float]
    """The values of the op's parameters in a case that does not have them."""
    returns: tuple[str, ...]
    folder: str
    """The folder of its file; the files in it are the function's own."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Its parameters for tensors that its op calls otherwise."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of each call."""

    def takes(self, name: str) -> bool:
        """Return whether there is a parameter of that name; an output without one is returned."""
        return name in self.names

    def is_own(self, error: BaseException) -> bool:
        """Whether code of its folder was at work when that was raised."""
        return has_own_frame(error, (self.folder,))

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int], way: Way | None = None) -> Any:
        """Return its outputs by name, or what it raised, as `Raised`."""
        given = {name: value for name, value in {**self.neutral, **params}.items() if self.takes(name)}
        try:
            named = {self.called.get(name, name): tensor for name, tensor in tensors.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about overflow: whether a result is right is judged by its bits
                call = partial(self.function, **named, **given, **self.constants)
                returned = call() if way is None else way(call)
        except Exception as error:  # not what stops a test run: KeyboardInterrupt, and pytest's own outcomes
            names = ", ".join((*tensors, *given))
            wrapper = f"lambda {names}: mine({names})"
            if misuse := misuse_of(error, wrapper=wrapper, interpreter=_INTERPRETER):
                return Raised(rejected=False, words=misuse, misused=True)
            return Raised(is_rejection(error, (self.folder,)), _words(error))
        if isinstance(returned, (tuple, list)) and len(returned) == len(self.returns):
            returned = dict(zip(self.returns, returned, strict=True))
        return returned


def _words(error: Exception) -> str:
    said = " ".join(str(error).split())[:_WORDS_LIMIT]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}{': ' if said else ''}{said}{where}"


def held(contract: Contract | Mapping[str, Any] | None, plain: Contract) -> Contract:
    """Return the contract that is given, or the plain one, with what some of its fields say otherwise. Raises
    CheckError."""
    if isinstance(contract, Contract):
        return contract
    if not isinstance(contract, (Mapping, type(None))):
        raise CheckError(f"contract={contract!r}: it must be a fuzz.Contract or a dict of its fields")
    known, said = [each.name for each in fields(Contract)], dict[str, Any]()
    for name, value in (contract or {}).items():
        if name not in known:
            raise CheckError(f"contract: {name!r} is not in a contract; there are {', '.join(known)}")
        by_name = isinstance(own := getattr(plain, name), Mapping)
        if by_name != isinstance(value, Mapping):
            wanted = "a dict, a value for each name" if by_name else "one value"
            raise CheckError(f"contract: {name} is {value!r}; it must be {wanted}")
        said[name] = {**own, **value} if by_name else value
    try:
        return replace(plain, **said)
    except (NumericsError, TypeError) as error:
        raise CheckError(f"contract: {error}") from None


def declared(
    function: Callable[..., Any],
    op: str,
    promises: Promises,
    calling: Calling,
    called: Mapping[str, str] = NO_OTHERS,
    constants: Mapping[str, Any] = NO_OTHERS,
) -> tuple[PythonKernel, Function]:
    """Return the declaration of a function, and how it is called: by the names of its op, except those that are
    `called` otherwise, and with constants. Raises CheckError if it cannot be called like that."""
    of_op, returns = OPS[op], calling.returns
    signature = _signature(function, of_op, called, constants)
    names = {name for name in signature.parameters if name in {*of_op.params, *(o.name for o in of_op.operands)}}
    returned = tuple(returns) or tuple(o.name for o in of_op.outputs if not o.optional and o.name not in names)
    unknown = [each for each in returned if each not in {o.name for o in of_op.outputs}]
    if unknown:
        raise CheckError(f"returns: {op} has no output {unknown[0]!r}: {', '.join(o.name for o in of_op.outputs)}")
    written = [each for each in returned if each in names]
    if written:
        raise CheckError(f"returns: {written[0]!r} is a parameter too, which it would write: drop one of them")
    try:
        able = completed(promises.capabilities or Capabilities(), of_op, signature, returns=returned)
    except DeclarationError as error:
        raise CheckError(str(error)) from None
    kernel = HereKernel(
        name=calling.name or plain_name(function) or op,
        op=op,
        source=source_of(function),
        framework=calling.arrays,
        contract=held(promises.contract, platform_of(calling.arrays, calling.device).undeclared(of_op)),
        capabilities=able,
        entry=getattr(function, "__name__", op),
        devices=(calling.device,),
        laws=promises.laws,
        known=numbers_of(function),
        modes=_other_mode(function),
    )
    try:
        kernel.check_op()
    except DeclarationError as error:
        raise CheckError(str(error)) from None
    folder = str(kernel.source.parent.resolve())
    return kernel, Function(function, frozenset(names), of_op.neutral, returned, folder, called, constants)


def _other_mode(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the mode that a module is not in; nothing for a function, which has no mode."""
    training = getattr(function, "training", None)
    return () if training is None else ("evaluation mode",) if training else ("training mode",)


def never_given(function: Callable[..., Any], of: str, given: Collection[str], always: Sequence[str]) -> str:
    """Return a message about a function's optional parameters that may be tensors but are never given, since the op or
    reference named `of` has no such tensor. `always` are those that it cannot do without."""
    names = [name for name in optional_of(function) if name not in given]
    if not names:
        return ""
    needed = ", ".join(always)
    how = f"to have one tried, check lambda {needed}: mine({needed}, {names[0]}=...)"
    return f"left out: {', '.join(names)} of {name_of(function)}, which {of} does not have; {how}"


@dataclass(frozen=True)
class HereKernel(PythonKernel):
    """A kernel whose function is loaded here: its parameters are read from it, not from a source."""

    known: tuple[int, ...] = ()
    modes: tuple[str, ...] = ()

    @property
    def never(self) -> tuple[str, ...]:
        return (*super().never, *self.modes)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        return self.known

    @property
    def signature(self) -> Signature:
        return NOTHING_KNOWN


def _signature(
    function: Callable[..., Any], op: Op, called: Mapping[str, str], constants: Collection[str]
) -> Signature:
    """Return the signature by which the function can be called as a kernel of the op."""
    needed = ", ".join(always_of(op))
    advice = f"wrap it: fuzz.check(lambda {needed}: mine({needed}), ...)"
    try:
        parameters, found = inspect.signature(function).parameters.values(), signature_of(function)
    except (TypeError, ValueError) as error:
        raise CheckError(f"{function!r} has no signature to read; {advice}") from error
    nameless = [each for each in parameters if each.kind is each.POSITIONAL_ONLY and each.default is each.empty]
    names = {mine: name for name, mine in called.items()}
    own = {names.get(each, each): left for each, left in found.parameters.items() if each not in constants}
    found = replace(found, parameters=own)
    wrong = [f"parameter {each.name!r} is nothing that it can be called with" for each in nameless]
    for words in (*wrong, *(words for _, words in misfits(op, found))):
        raise CheckError(f"{getattr(function, '__name__', 'the kernel')}: {words}; {advice}")
    return replace(found, takes_all=False)  # it is not given what it has no parameter for


def always_of(op: Op) -> Sequence[str]:
    """Return what a function of the op cannot do without."""
    tensors = [each.name for each in op.inputs if not each.optional]
    return [*tensors, *(each.name for each in op.parameters if each.neutral is None)]


def plain_name(function: Callable[..., Any]) -> str:
    """Return the name of a function as a kernel may have it; '' if nothing of it is left."""
    return re.sub(r"[^A-Za-z0-9_.-]", "", getattr(function, "__name__", ""))


def source_of(function: Callable[..., Any]) -> Path:
    """Return the file that a report points at."""
    try:
        return Path(inspect.getsourcefile(inspect.unwrap(function)) or __file__)
    except TypeError:  # compiled, or an object with __call__
        return Path(__file__)


class OwnProcess:
    """Stands for a worker pool of one target."""

    def __init__(self, target: Target, function: Function, takes: Callable[[Case], bool] | None = None) -> None:
        reason = target.unavailable()
        self.watch: Watch = patient
        """Never called: a call in this process returns before anything else is done."""
        self.statuses: Mapping[str, Attestation | NotRun] = {} if reason is None else {target.id: NotRun(reason)}
        self.limits: Mapping[str, float] = {}
        self.target = target
        self.function = function
        self._dispatch = Dispatch(target.kernel.capability, target.size_limit)
        self._takes = takes or (lambda case: True)
        """Whether a case that the kernel takes has a meaning."""

    @property
    def threads(self) -> int:
        """The processor threads that arrays' own operations use here; 0 if unknown."""
        library: Any = sys.modules.get(self.target.name.kind)
        return int(library.get_num_threads()) if hasattr(library, "get_num_threads") else 0

    def submit(self, cases: Sequence[Case], without: Collection[str] = (), for_all: Collection[int] = ()) -> Batch:
        """Run them, now."""
        batch = Batch(tuple(cases))
        indices = [index for index, case in enumerate(cases) if self._dispatch.accepts(case) and self._takes(case)]
        if indices and not self.statuses and self.target.id not in without:
            batch.parts.append(TargetBatch(self.target.id, indices, [self._outcome(cases[index]) for index in indices]))
        return batch

    def renew(self) -> None:
        """Do nothing: what the function remembers stays in this process."""

    def _outcome(self, case: Case) -> Outcome:
        arrays = arrays_of(self.target.name.kind)
        cuda = self.target.name.place == "cuda"
        memory: CallMemory = FreshMemory(MARGIN_BYTES)
        if cuda:
            from fuzz.core.transport.python.device import device_memory

            memory = device_memory(MARGIN_BYTES)
        finish = arrays.library.cuda.synchronize if cuda else None
        try:
            [answers] = CaseRunner(self.function, arrays, memory, finish).answers([(case, False)])
        except RuntimeError as error:
            if not cuda or not is_of_device(error):
                raise
            # An illegal access: the device is lost for this process.
            answers = case, Answer(records.RAISED, {}, (), {}, str(error).splitlines()[0]), None
        [response], _ = decode_responses(respond(0, *answers))
        return outcome_of(response, case, self.target.id)


_OF_TENSORS = {"numpy", "detach", "cpu", "data_ptr", "contiguous", "new_tensor", "new_empty", "new_zeros", "new_full"}
_OF_ARRAYS = {"astype", "copy", "ctypes", "tobytes"}
"""Attributes that only one of torch's tensors and NumPy's arrays have."""


def meant_by(kernel: Callable[..., Any]) -> Literal["torch", "numpy", "jax"]:
    """Return whose arrays a function takes, by its code: those of the library that it calls, and torch's if it calls
    none or several."""
    while isinstance(kernel, partial):
        kernel = kernel.func
    plain: Any = inspect.unwrap(kernel)
    plain = plain if inspect.isroutine(plain) else type(plain).__call__
    code = getattr(plain, "__code__", None)
    steps = [*dis.get_instructions(code)] if code is not None else []
    has = {each.argval for each in steps if each.opname in ("LOAD_ATTR", "LOAD_METHOD")}
    inside = {str(each.argval).partition(".")[0] for each in steps if each.opname == "IMPORT_NAME"}
    used = libraries_of(kernel) | libraries_of(plain) | inside
    if "torch" in used or has & _OF_TENSORS:
        return "torch"
    return "jax" if "jax" in used else "numpy" if "numpy" in used or has & _OF_ARRAYS else "torch"


def called_with(
    kernel: Kernel | Callable[..., Any], arrays: Arrays | Literal["jax"] | Maker | None, device: Device
) -> tuple[Kernel | Callable[..., Any], Arrays, str]:
    """Return a kernel, whose arrays it is given and a remark on these: what is said, or what its code shows. One that
    takes others than torch's or NumPy's becomes a function of NumPy's. Raises CheckError."""
    noted = ""
    if arrays is None:
        arrays = "torch" if isinstance(kernel, Kernel) or device != "cpu" else meant_by(kernel)
        noted = _NOTED.get(arrays, "")
    if not callable(arrays) and arrays not in (known := (*get_args(Arrays), "jax")):
        words = ", ".join(known)
        raise CheckError(f"arrays={arrays!r}: it is one of {words}, or a function of an array of NumPy's")
    if not callable(arrays) and arrays != "jax":
        return kernel, arrays, noted
    made = arrays if callable(arrays) else of_jax()
    return kernel if isinstance(kernel, Kernel) else of_numpy(kernel, made), "numpy", noted


def of_jax() -> Maker:
    """Return what makes JAX's arrays, with copies of the elements. Raises CheckError if JAX is not installed, for which
    the function would be blamed."""
    if find_spec("jax") is None:
        raise CheckError("arrays='jax': JAX is not installed: pip install jax")
    import jax.numpy as jnp

    return jnp.array  # asarray may leave the elements where they are


def of_numpy(function: Callable[..., Any], made: Maker) -> Callable[..., Any]:
    """Return a function that takes and returns NumPy's arrays and calls one with other arrays, made by `made`. Results
    that NumPy does not know are read by `__dlpack__`."""

    def given(value: Any) -> Any:
        return made(value) if isinstance(value, np.ndarray) else value

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return opened(function(*map(given, args), **{name: given(each) for name, each in kwargs.items()}))

    return called


def of_triton(kernel: Callable[..., Any]) -> Sequence[Any]:
    """Return the functions of Triton beside a kernel."""
    near = [*getattr(inspect.unwrap(kernel), "__globals__", {}).values()]
    return [each for each in near if type(each).__module__.startswith("triton.")]


def spared(target: Target, kernel: Callable[..., Any]) -> Target:
    """Return the target, with small cases only if Triton's interpreter runs functions beside the kernel: each of its
    programs takes milliseconds."""
    if not (triton := of_triton(kernel)):
        return target
    from fuzz.core.transport.python.attest import is_interpreted

    return replace(target, size_limit=SMALL, slow=True) if is_interpreted(triton) else target
