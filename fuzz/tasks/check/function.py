"""A plain Python function as a kernel that is called in this process. Its parameters are read from its signature. Its
tensors lie between margins that are filled with poison and checked afterwards. Unlike in a worker, no inaccessible
pages surround the tensors, because an access to one would end the user's process; only replacing the user's signal
handlers could prevent that. So a stray read within a margin is not seen, and a crash ends the test run. A function that
may stray or crash should be declared as a kernel, which runs in a worker."""

from __future__ import annotations

import dis
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, wraps
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, get_args

import numpy as np

from fuzz.core.adapters.python_kernel import Device, PythonKernel
from fuzz.core.adapters.signature import NOTHING_KNOWN, Signature, completed, misfits, signature_of
from fuzz.core.adapters.target import Attestation, Configuration, NotRun, Target
from fuzz.core.base.capability import Capabilities, DeclarationError
from fuzz.core.base.case import Case
from fuzz.core.base.dispatch import SMALL
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.numbers import numbers_of
from fuzz.core.base.outcome import LeftOutError, Outcome
from fuzz.core.base.platforms import platform_of
from fuzz.core.execute.batch import Batch, TargetBatch, Watch, patient
from fuzz.core.transport import records
from fuzz.core.transport.frames import decode_responses, outcome_of
from fuzz.core.transport.python.answer import Answer, is_of_device, respond
from fuzz.core.transport.python.arrays import arrays_of
from fuzz.core.transport.python.attempt import CaseRunner
from fuzz.core.transport.python.foreign import Maker, opened
from fuzz.core.transport.python.kernel import (
    MARGIN_BYTES,
    Raised,
    Way,
    choosing,
    has_own_frame,
    is_rejection,
    misuse_of,
)
from fuzz.core.transport.python.memory import CallMemory, FreshMemory
from fuzz.references.parameters import libraries_of, name_of, optional_of
from fuzz.tasks.check.request import Arrays, Calling, Promises
from fuzz.tasks.check.results import CheckError, told
from oracles.dtypes import DOUBLE, FORMATS, NARROW, SINGLE
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
    """A plain function that is called as a kernel: by keyword, with only the tensors and parameters of the op that the
    function has parameters for."""

    function: Callable[..., Any]
    names: frozenset[str]
    neutral: Mapping[str, float]
    """The neutral values of the op's parameters, for cases that do not set them."""
    returns: tuple[str, ...]
    folder: str
    """The folder of the function's file. All files in this folder count as the function's own code."""
    called: Mapping[str, str] = field(default_factory=dict)
    """The function's parameter by the op's tensor, for tensors whose names differ."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Further keyword arguments that are passed in every call."""
    within: Callable[[], AbstractContextManager[object]] = nullcontext
    """Returns the context in which each call is made: in it, Triton's autotuners take their configurations."""
    widens: frozenset[str] = frozenset()
    """The outputs that may be f32 although the inputs have 16 bits, as those of the reference are."""
    shortens: bool = False
    """Whether these may also be f32 if the inputs are f64: the reference casts to f32."""

    def takes(self, name: str) -> bool:
        """Return whether the function has a parameter of this name. An output without one is returned, not written."""
        return name in self.names

    def is_own(self, error: BaseException) -> bool:
        """Whether code in the function's folder was running when the error was raised."""
        return has_own_frame(error, (self.folder,))

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int], way: Way | None = None) -> Any:
        """Return the outputs by name, or a `Raised` that describes the exception."""
        given = {name: value for name, value in {**self.neutral, **params}.items() if self.takes(name)}
        try:
            named = {self.called.get(name, name): tensor for name, tensor in tensors.items()}
            with warnings.catch_warnings(), self.within():
                warnings.simplefilter("ignore")  # about overflow: whether a result is right is judged by its bits
                call = partial(self.function, **named, **given, **self.constants)
                returned = call() if way is None else way(call)
        except LeftOutError as error:
            return Raised(rejected=False, words=str(error), left_out=True)
        except Exception as error:  # not what stops a test run: KeyboardInterrupt, and pytest's own outcomes
            names = ", ".join((*tensors, *given))
            wrapper = f"lambda {names}: mine({names})"
            if misuse := misuse_of(error, wrapper=wrapper, interpreter=_INTERPRETER):
                return Raised(rejected=False, words=misuse, misused=True)
            return Raised(is_rejection(error, (self.folder,)), _words(error))
        if isinstance(returned, (tuple, list)) and len(returned) == len(self.returns):
            returned = dict(zip(self.returns, returned, strict=True))
        if self.widens.isdisjoint(self.returns) or not tensors:
            return returned
        first = next(iter(tensors.values()))
        if isinstance(returned, dict):
            return {name: self._as(each, first) if name in self.widens else each for name, each in returned.items()}
        return self._as(returned, first) if len(self.returns) == 1 else returned

    def _as(self, found: Any, first: Any) -> Any:
        """Return a result in f32 in the dtype of the first tensor, if it may be f32 beside that; others unchanged."""
        own, given = (str(getattr(each, "dtype", "")).removeprefix("torch.") for each in (found, first))
        beside = (*NARROW, *([DOUBLE.name] if self.shortens else []))
        if own != SINGLE.spelling or given not in {FORMATS[each].spelling for each in beside}:
            return found
        return found.to(first.dtype) if hasattr(found, "to") else found.astype(first.dtype)


def _words(error: Exception) -> str:
    said = " ".join(str(error).split())[:_WORDS_LIMIT]
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}{': ' if said else ''}{said}{where}"


def held(contract: Contract | Mapping[str, Any] | None, plain: Contract) -> Contract:
    """Return the contract as given, or the plain contract with the given fields replaced. Raises CheckError."""
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
    """Return the declaration of a function as a kernel, and the way to call it: by the op's names, except for tensors
    that the function calls otherwise (`called`), and with `constants`. Raises CheckError if the function cannot be
    called in this way."""
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
        tuned=tuned_by(function, calling.device),
    )
    try:
        kernel.check_op()
    except DeclarationError as error:
        raise CheckError(str(error)) from None
    folder = str(kernel.source.parent.resolve())
    return kernel, Function(function, frozenset(names), of_op.neutral, returned, folder, called, constants)


def tuned_by(function: Callable[..., Any], device: Device) -> tuple[Configuration, ...]:
    """Return the configurations of the autotuners of Triton that a function calls."""
    tuners, _ = choosing(function, ())
    if not tuners:
        return ()
    from fuzz.core.transport.python.tuning import choices_of

    found = choices_of(tuners, interpreted=device != "cuda")
    return tuple(Configuration(each.settings, (), each.places) for each in found)


def _other_mode(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the mode that a module is not in, training or evaluation, in words; nothing for other functions."""
    training = getattr(function, "training", None)
    return () if training is None else ("evaluation mode",) if training else ("training mode",)


def never_given(function: Callable[..., Any], of: str, given: Collection[str], always: Sequence[str]) -> str:
    """Return a message about optional parameters that may be tensors but are never given, because the op or reference
    named `of` has no such tensor; '' if there are none. `always` are the arguments of every call."""
    names = [name for name in optional_of(function) if name not in given]
    if not names:
        return ""
    needed = ", ".join(always)
    how = f"to have one tried, check lambda {needed}: mine({needed}, {names[0]}=...)"
    return f"left out: {', '.join(names)} of {name_of(function)}, which {of} does not have; {how}"


@dataclass(frozen=True)
class HereKernel(PythonKernel):
    """A kernel whose function is loaded in this process, so that nothing is read from a source file."""

    known: tuple[int, ...] = ()
    modes: tuple[str, ...] = ()
    tuned: tuple[Configuration, ...] = ()  # type: ignore[misc]  # an attribute of the class there
    """The configurations of Triton's autotuners that it calls."""

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
    """Return the signature by which the function is called as a kernel of the op. Raises CheckError if none fits."""
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
    return replace(found, takes_all=False)  # the function is not given what it has no parameter for


def always_of(op: Op) -> Sequence[str]:
    """Return the names of the tensors and parameters that every function of the op needs."""
    tensors = [each.name for each in op.inputs if not each.optional]
    return [*tensors, *(each.name for each in op.parameters if each.neutral is None)]


def plain_name(function: Callable[..., Any]) -> str:
    """Return a function's name without the characters that a kernel's name cannot have; '' if none remain."""
    return re.sub(r"[^A-Za-z0-9_.-]", "", getattr(function, "__name__", ""))


def source_of(function: Callable[..., Any]) -> Path:
    """Return the file of a function, for reports; this module's file if the function has none."""
    try:
        return Path(inspect.getsourcefile(inspect.unwrap(function)) or __file__)
    except TypeError:  # a compiled function, or an object with __call__
        return Path(__file__)


class OwnProcess:
    """A stand-in for a pool of workers: runs one kernel in this process, in each of its configurations."""

    def __init__(
        self, targets: Sequence[Target], function: Function, takes: Callable[[Case], bool] | None = None,
        own: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        """`own` is the user's function, if `function` only calls it."""
        reasons = {each.id: each.unavailable() for each in targets}
        self.watch: Watch = patient
        """Never called, because a call in this process returns before anything else can be done."""
        self.statuses: Mapping[str, Attestation | NotRun] = {
            name: NotRun(reason) for name, reason in reasons.items() if reason is not None
        }
        self.limits: Mapping[str, float] = {}
        self.targets, self.target = tuple(targets), targets[0]
        self.function = function
        choices = {each.id: each.configuration.choices for each in targets}
        self._functions = {
            name: replace(function, within=choosing(own or function.function, each)[1])
            for name, each in choices.items()
        }
        self._dispatch = replace(self.target.dispatch(), far=False)  # a wrong access would end this process
        self._takes = takes or (lambda case: True)
        """A function that returns whether a case that the kernel takes has a meaning for the reference."""

    def only(self, targets: Sequence[Target]) -> OwnProcess:
        """Return the pool with some of its targets."""
        names = {each.id for each in targets} & {*self._functions}
        some = copy(self)
        some._functions = {name: each for name, each in self._functions.items() if name in names}
        return some

    @property
    def threads(self) -> int:
        """The number of processor threads that the arrays' library uses here; 0 if unknown."""
        library: Any = sys.modules.get(self.target.name.kind)
        return int(library.get_num_threads()) if hasattr(library, "get_num_threads") else 0

    def submit(self, cases: Sequence[Case], without: Collection[str] = (), for_all: Collection[int] = ()) -> Batch:
        """Run the cases at once and return the finished batch."""
        batch = Batch(tuple(cases))
        indices = [index for index, case in enumerate(cases) if self._dispatch.accepts(case) and self._takes(case)]
        for name in self._functions if indices else ():
            if name not in self.statuses and name not in without:
                outcomes = [self._outcome(name, cases[index]) for index in indices]
                batch.parts.append(TargetBatch(name, indices, outcomes))
        return batch

    def renew(self) -> None:
        """Do nothing: in this process the function's state cannot be reset."""

    def _outcome(self, target: str, case: Case) -> Outcome:
        arrays = arrays_of(self.target.name.kind)
        cuda = self.target.name.site == "cuda"
        memory: CallMemory = FreshMemory(MARGIN_BYTES)
        if cuda:
            from fuzz.core.transport.python.device import device_memory

            memory = device_memory(MARGIN_BYTES)
        finish = arrays.library.cuda.synchronize if cuda else None
        try:
            [answers] = CaseRunner(self._functions[target], arrays, memory, finish).answers([(case, False)])
        except RuntimeError as error:
            if not cuda or not is_of_device(error):
                raise
            # Such an error is an illegal access; afterwards this process cannot use the device any more.
            answers = case, Answer(records.RAISED, {}, (), {}, str(error).splitlines()[0]), None
        [response], _ = decode_responses(respond(0, *answers))
        return outcome_of(response, case, target)


_OF_TENSORS = {"numpy", "detach", "cpu", "data_ptr", "contiguous", "new_tensor", "new_empty", "new_zeros", "new_full"}
_OF_ARRAYS = {"astype", "copy", "ctypes", "tobytes"}
"""Attributes that only torch's tensors have, and attributes that only NumPy's arrays have."""


def meant_by(kernel: Callable[..., Any]) -> Literal["torch", "numpy", "jax"]:
    """Return the library whose arrays a function takes, judged by the function's code: the library that it calls, or
    torch if it calls none or several of them."""
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
    """Return a kernel, the library whose arrays it is called with, and a remark about these. The library is the
    declared one or, by default, the one that the kernel's code shows. A kernel that takes arrays of other libraries
    than torch and NumPy becomes a function of NumPy's. Raises CheckError."""
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
    """Return the function that makes JAX's arrays by copying. Raises CheckError if JAX is not installed, since
    otherwise the user's function would be blamed."""
    if find_spec("jax") is None:
        raise CheckError("arrays='jax': JAX is not installed: pip install jax")
    import jax.numpy as jnp

    return jnp.array  # a copy; asarray may share memory with its argument


def of_numpy(function: Callable[..., Any], made: Maker) -> Callable[..., Any]:
    """Return a function of NumPy's arrays that calls `function` with the arrays that `made` makes of them. Results of
    types that NumPy does not know are read through `__dlpack__`."""

    def given(value: Any) -> Any:
        return made(value) if isinstance(value, np.ndarray) else value

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return opened(function(*map(given, args), **{name: given(each) for name, each in kwargs.items()}))

    return called


def of_triton(kernel: Callable[..., Any]) -> Sequence[Any]:
    """Return the Triton functions that a kernel's function can reach, and those of modules that its code names."""
    if "triton" not in sys.modules:
        return ()
    from fuzz.core.transport.python.tuning import reached_by

    near = [*reached_by(kernel)]
    for each in [*near]:
        if isinstance(each, ModuleType) and each.__name__.partition(".")[0] not in ("torch", "triton"):
            near += vars(each).values()  # torch has Triton functions of its own
    return [each for each in near if type(each).__module__.startswith("triton.")]


def spared(target: Target, kernel: Callable[..., Any]) -> Target:
    """Return the target, limited to small cases if Triton's interpreter runs functions that the kernel calls: each
    program takes milliseconds there. Raises CheckError if the interpreter cannot be used here."""
    if not (triton := of_triton(kernel)):
        return target
    from fuzz.core.transport.python.attest import is_interpreted, loop_fault_here

    if not is_interpreted(triton):
        return target
    if fault := loop_fault_here():
        raise CheckError(fault)
    return replace(target, size_limit=SMALL, slow=True)
