"""`fuzz.check_module`: checks a module of torch against another one, from inside a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fuzz.core.base.capability import Capabilities
from fuzz.references.derive import FINITE, Derived
from fuzz.tasks.check.check import CheckError, check
from fuzz.tasks.check.reference import contract_of
from fuzz.tasks.check.results import told
from fuzz.tasks.judge.written import derived, floats_of, tensors_of
from fuzz.tasks.readers.kernelbench import of_module
from fuzz.tasks.readers.solution import calls_of
from fuzz.tasks.readers.source import TaskError, identifier, signed
from fuzz.tasks.readers.statement import Statement
from oracles.op import Op
from oracles.ops import OPS

__tracebackhide__ = told
_MADE: dict[str, Op] = {}
"""The ops of earlier checks, by name. A new op replaces the earlier one of its name."""


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
    """Search for inputs and weights with which a module of the class `mine` returns other outputs than one of `model`;
    raise CheckFailed with the report if there are any.

    Both are constructed with `get_init_inputs()`, and stay in the mode that they are constructed in. `mine` is given
    the weights of `model`, matched by name or by shape. The extents of weights and of construction arguments stay as
    they are; other extents vary. A property that `get_inputs()` always draws, such as a triangular matrix, holds for
    all cases unless `any_values` is set. Everything runs in this process, on the CPU.
    """
    said = ModuleType(_name(model))
    vars(said).update(Model=model, get_inputs=get_inputs, get_init_inputs=get_init_inputs)
    refusal: TaskError | None = None
    for problem in of_module(Path(said.__name__), said):
        try:
            found = derived(problem, FINITE, any_values=any_values)
        except TaskError as error:
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
        if OPS.get(found.op.name) is _MADE.get(found.op.name, found.op):  # an earlier check registered this op
            OPS.pop(found.op.name)
        _MADE[found.op.name] = found.op
        contract = contract_of(found, "torch", dtypes, strict=False)
        check(
            _function(mine, problem, found), op=found.op, contract=contract, capabilities=capabilities,
            returns=outputs if len(outputs) > 1 else (), name=_name(mine), max_cases=max_cases, max_time=max_time,
            seed=seed,
        )  # fmt: skip
        return
    raise CheckError(str(refusal))


def _function(mine: Callable[..., Any], problem: Statement, of: Derived) -> Callable[..., Any]:
    """Return a function of the op's tensors, weights included, that calls a module of `mine`."""
    import torch

    known: dict[str, Any] = {"ModelNew": mine}

    def said(value: Any) -> str:
        known[name := f"_given_{len(known)}"] = value
        return name

    op, (names, outputs) = of.op, tensors_of(of)
    exec(calls_of(problem, names, outputs, said), known)
    made, before = known["_judged_model"](torch.zeros(()))
    assert problem.module is not None
    weights = {name: own for name, own in problem.module.weights.items() if name in names}
    shapes = {own: [op.fixed[dim] for dim in op.operand(name).axes] for name, own in weights.items()}
    try:
        with torch.no_grad():
            known["_judged_fill"](made, before, {own: torch.zeros(shape) for own, shape in shapes.items()})
    except RuntimeError as error:  # a weight has another shape
        raise CheckError(str(error)) from None
    found = signed(known["judged"], _name(mine), [*names])
    found = found if of.parted is None else of.parted.kernel(found, [each.name for each in op.outputs])
    vars(found)["training"] = made.training
    vars(found)["__wrapped__"] = type(made).forward  # reports show the lines of this function
    return found


def _name(module: Callable[..., Any]) -> str:
    return identifier(getattr(module, "__name__", "module"))
