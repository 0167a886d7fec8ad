"""`fuzz.check_module`: a module of torch held against another one, from inside a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.base.capability import Capabilities
from fuzz.uses.check.check import CheckError, check
from fuzz.uses.check.reference import contract_of
from fuzz.uses.check.results import told
from fuzz.uses.judge.problem import Module, of_module
from fuzz.uses.judge.source import ProblemError, identifier, signed
from fuzz.uses.judge.written import derived, floats_of
from oracles.op import Op
from oracles.ops import OPS
from oracles.reference.derive import FINITE

__tracebackhide__ = told
_MADE: dict[str, Op] = {}
"""The ops of earlier checks, by name: one gives way to the next."""


def check_module(
    mine: Callable[..., Any],
    model: Callable[..., Any],
    get_inputs: Callable[[], Sequence[Any]],
    get_init_inputs: Callable[[], Sequence[Any]] = tuple,
    *,
    any_values: bool = False,
    max_cases: int | None = None,
    max_time: float | None = None,
    seed: int | None = None,
) -> None:
    """Search for inputs and weights with which a module of the class `mine` is wrong, held against one of `model`;
    raise CheckFailed where there are any.

    Both are made of `get_init_inputs()`, and stay in the mode in which they are constructed. `mine` is given the
    weights of `model`, by their names or by their shapes. The extents of weights stay as they are; those of the inputs
    vary. What `get_inputs()` always draws, such as a triangle, cases have too, unless there may be `any_values`. All
    runs in this process, on the CPU.
    """
    said = ModuleType(_name(model))
    vars(said).update(Model=model, get_inputs=get_inputs, get_init_inputs=get_init_inputs)
    refusal: ProblemError | None = None
    for problem in of_module(Path(said.__name__), said):
        try:
            found = derived(problem, FINITE, any_values=any_values)
        except ProblemError as error:
            refusal = refusal or error
            continue
        assert problem.module is not None
        if problem.module.mode.random:
            name = getattr(model, "__name__", "Model")
            raise CheckError(
                f"{name} draws random numbers in training mode, as constructed, so no result is right or wrong. "
                f"To check it in eval(), give lambda *args: {name}(*args).eval(), and the other one so"
            )
        dtypes, outputs = tuple(floats_of(problem)), [each.name for each in found.op.outputs]
        capabilities = Capabilities(dtypes=dtypes, empty=False)
        if OPS.get(found.op.name) is _MADE.get(found.op.name, found.op):  # the op of an earlier check
            OPS.pop(found.op.name)
        _MADE[found.op.name] = found.op
        contract = contract_of(found, "torch", dtypes, strict=False)
        check(
            _function(mine, problem.module, found.op), op=found.op, contract=contract, capabilities=capabilities,
            returns=outputs if len(outputs) > 1 else (), name=_name(mine), max_cases=max_cases, max_time=max_time,
            seed=seed,
        )  # fmt: skip
        return
    raise CheckError(str(refusal))


def _function(mine: Callable[..., Any], module: Module, op: Op) -> Callable[..., Any]:
    """A function of the tensors of an op, which calls a module with these weights."""
    import torch

    torch.manual_seed(0)
    made = mine(*module.made_of)
    buffers = dict(made.named_buffers())
    places = _places({**dict(made.named_parameters()), **buffers}, module, op)
    before = [(buffers[name], buffers[name].clone()) for name in module.mode.changed if name in buffers]
    modes = [(each, each.training) for each in made.modules()]

    def called(**tensors: Any) -> Any:
        with torch.no_grad():
            for own, value in [*before, *((own, tensors[name]) for name, own in places.items())]:
                own.copy_(value)
            made.train(made.training)  # as `load_state_dict` and `eval()`: what it keeps of its weights is made anew
            for each, mode in modes:
                each.training = mode
            given = {**module.constants, **tensors}
            return made(*(given[name] for name in module.inputs))

    found = signed(called, _name(mine), [each.name for each in op.inputs])
    vars(found)["training"] = made.training
    vars(found)["__wrapped__"] = type(made).forward  # whose lines are shown
    return found


def _name(module: Callable[..., Any]) -> str:
    return identifier(getattr(module, "__name__", "module"))


def _but_for_ones(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _places(state: Mapping[str, Any], module: Module, op: Op) -> Mapping[str, Any]:
    """By the names of the weights, or where these are others by their places among those of one shape."""
    rest = [each for name, each in state.items() if name not in module.weights.values() and each.is_floating_point()]
    found = dict[str, Any]()
    for name, own in module.weights.items():
        if not op.is_input(name):
            continue
        shape = tuple(op.fixed[dim] for dim in op.operand(name).axes)
        there = state.get(own)
        if there is None or tuple(there.shape) != shape:
            there = next((each for each in rest if tuple(each.shape) == shape), None)
            rest = [each for each in rest if each is not there]
        if there is None and own in state and _but_for_ones(state[own].shape) == _but_for_ones(shape):
            there = state[own].data.view(shape)
        if there is None and own in state:
            raise CheckError(f"its {own} has shape {[*state[own].shape]}, the reference's {[*shape]}")
        if there is not None:
            found[name] = there
    return found
