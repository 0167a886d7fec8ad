"""Layers of torch as references: modules with weights of their own, which are no arguments of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fuzz.references.parameters import parameters_of


def weights_of(reference: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the weights and buffers of a layer, floats alone, by their names; nothing for a function."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(reference, torch.nn.Module):
        return {}
    state = {**dict(reference.named_parameters()), **dict(reference.named_buffers())}
    return {name: each.detach() for name, each in state.items() if each.is_floating_point()}


def as_function(layer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a layer with its weights in the dtype of the first float that it is given."""
    weights = weights_of(layer)

    def called(*args: Any, **given: Any) -> Any:
        tensors = [each for each in (*args, *given.values()) if hasattr(each, "is_floating_point")]
        dtype = next((each.dtype for each in tensors if each.is_floating_point()), None)
        return _called(layer, {name: each.to(dtype or each.dtype) for name, each in weights.items()}, args, given)

    return _signed(called, layer, parameters_of(layer))


def with_weights(layer: Callable[..., Any], inputs: Mapping[str, Any]) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """Return a function whose arguments are those of a layer by name, and its weights; and all of them."""
    weights = weights_of(layer)
    names = {own: own.replace(".", "_") for own in weights}

    def called(**given: Any) -> Any:
        return _called(layer, {own: given.pop(name) for own, name in names.items()}, (), given)

    known = {**inputs, **{names[own]: each for own, each in weights.items()}}
    parameters = {name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in known}
    return _signed(called, layer, parameters), known


def remedy(layer: Callable[..., Any]) -> str:
    """Return what to do about a layer that no formula is read from, as its weights are no arguments."""
    weights = weights_of(layer)
    names = ", ".join(each.replace(".", "_") for each in weights)
    inputs = ", ".join(parameters_of(layer))
    said = ", ".join(f'"{own}": {own.replace(".", "_")}' for own in weights)
    return (
        "; its weights are no arguments: give them to both functions, as "
        f"lambda {inputs}, {names}: torch.func.functional_call(layer, {{{said}}}, ({inputs},))"
    )


def _called(layer: Callable[..., Any], weights: Mapping[str, Any], args: Any, given: Mapping[str, Any]) -> Any:
    import torch

    assert isinstance(layer, torch.nn.Module)
    return torch.func.functional_call(layer, dict(weights), args, dict(given))


def _signed(
    called: Callable[..., Any], layer: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., Any]:
    vars(called).update(__signature__=inspect.Signature([*parameters.values()]), __name__=type(layer).__name__)
    return called
