"""The gradient of a reference as a reference, calculated by torch's autograd or by `jax.vjp`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from fuzz.references.names import returned_names
from fuzz.references.parameters import library_of, name_of

OF, GIVEN = "__gradient_of__", "__gradients_given__"
"""Attributes of a gradient function: the forward function, and the names of arguments that are gradients of outputs."""


def backward(reference: Callable[..., Any], by: Sequence[str] = ()) -> Callable[..., Mapping[str, Any]]:
    """Return a function that takes the arguments of `reference` and the gradient of its output, `dy`, and returns the
    gradients of its tensors by name, `dx` for `x`: of all floating-point tensors on which the output depends, or of
    those that `by` names. If there are several outputs, each has a gradient, named after the output if the reference
    returns local variables. A class of `torch.autograd.Function` is differentiated by its own backward."""
    forward = _applied(reference)
    own = inspect.signature(getattr(forward, "forward", forward))
    given = _given(forward, [*own.parameters])
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in given]
    signature = inspect.Signature([*own.parameters.values(), *more])

    def by_jax(*args: Any, **kwargs: Any) -> Mapping[str, Any]:
        from fuzz.references.jaxprs.evaluation import pulled

        taken = dict(signature.bind(*args, **kwargs).arguments)
        return pulled(forward, taken, [taken.pop(name) for name in given], by)

    def by_torch(*args: Any, **kwargs: Any) -> Mapping[str, Any]:
        import torch

        taken = dict(signature.bind(*args, **kwargs).arguments)
        cotangents = [taken.pop(name) for name in given]
        floats = [
            name
            for name, each in taken.items()
            if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex())
        ]
        names = [*(by or floats)]
        with torch.enable_grad():
            taken |= {name: taken[name].detach().requires_grad_() for name in names}
            returned = forward(**taken)
            returned = [*returned.values()] if isinstance(returned, Mapping) else returned
            outputs = [*returned] if isinstance(returned, (list, tuple)) else [returned]
            found = torch.autograd.grad(outputs, [taken[name] for name in names], cotangents, allow_unused=not by)
        return {f"d{name}": each for name, each in zip(names, found, strict=True) if each is not None}

    gradients = by_jax if library_of(forward) == "jax" else by_torch
    name = f"{name_of(forward)}_backward"
    own_names = {"__name__": name, "__qualname__": name, "__doc__": f"Gradients of {name_of(forward)}."}
    for each, value in {**own_names, "__module__": forward.__module__, OF: forward, GIVEN: given}.items():
        setattr(gradients, each, value)
    setattr(gradients, "__signature__", signature)  # noqa: B010 (a function has none to a checker of types)
    return gradients


def _applied(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the reference: a function, a class of `torch.autograd.Function`, or its `apply`."""
    if library_of(reference) == "jax":
        return reference
    import torch

    given = getattr(reference, "__self__", reference)
    if not (isinstance(given, type) and issubclass(given, torch.autograd.Function)):
        return reference
    own: Any = given
    has_context = own.setup_context is torch.autograd.Function.setup_context
    parameters = [*inspect.signature(own.forward).parameters.values()][has_context:]
    signature = inspect.Signature(parameters)

    @wraps(own.forward)
    def applied(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return own.apply(*bound.args)

    applied.__name__, applied.__module__ = own.__name__, own.__module__
    setattr(applied, "__signature__", signature)  # noqa: B010
    return applied


def _given(forward: Callable[..., Any], parameters: Sequence[str]) -> Sequence[str]:
    """Return names for the gradients of outputs, such as dy, that no other tensor has."""
    names = returned_names(forward)
    taken, found = {*parameters, *(f"d{name}" for name in parameters)}, list[str]()
    for at, own in enumerate(names):
        number = str(at) if len(names) > 1 else ""
        known = (f"d{own or f'y{number}'}", f"dy{number}", f"dout{number}", f"gradient{number}")
        found.append(next(name for name in known if name not in {*taken, *found}))
    return found
