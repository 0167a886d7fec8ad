"""Gradients of a reference in JAX, by `jax.vjp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def pulled(
    forward: Callable[..., Any], taken: Mapping[str, Any], cotangents: Sequence[Any], by: Sequence[str]
) -> Mapping[str, Any]:
    """Return the gradients of what a function takes, or of those that `by` names, from those of what it returns."""
    import jax
    import jax.numpy as jnp

    floats = [name for name, each in taken.items() if jnp.issubdtype(jnp.result_type(each), jnp.floating)]
    names = [*(by or [name for name in floats if hasattr(taken[name], "shape")])]

    def outputs(*given: Any) -> tuple[Any, ...]:
        returned = forward(**{**taken, **dict(zip(names, given, strict=True))})
        returned = tuple(returned.values()) if isinstance(returned, Mapping) else returned
        return tuple(returned) if isinstance(returned, (list, tuple)) else (returned,)

    _, pull = jax.vjp(outputs, *(taken[name] for name in names))
    return {f"d{name}": each for name, each in zip(names, pull(tuple(cotangents)), strict=True)}
