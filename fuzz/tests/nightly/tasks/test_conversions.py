"""What libraries make of all pairs of formats, with their policies: right but for what the page of it lists."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import fuzz
from fuzz.tasks.codes import CODED, KNOWN, storage

_PAIRS = [pair for pair in permutations(KNOWN, 2) if max(CODED[name].bits for name in pair) > 8]


def _deviation(library: str, source: str, target: str) -> str:
    """Return what must be said of a pair that the page names, '' of others."""
    narrow = CODED[target].bits <= 8
    if target == "e8m0" and source in ("f64", "f32", "bf16"):
        return "that are rounded: "
    if source == "f64" and target not in ("f64", "f32") and not (library == "jax" and narrow):
        return "" if (library, target) == ("numpy", "f16") else "that are rounded: "
    flushed = {("f64", "f32"), ("f32", "f64"), ("bf16", "f64")}
    return "right if subnormal" if library == "jax" and (source, target) in flushed else ""


def _policy(library: str, target: str) -> dict[str, Any]:
    if library == "torch":
        policies: dict[str, dict[str, Any]] = {
            "e4m3fn": {"overflow": "saturate"}, "e8m0": {"ties": "away", "codes": {"zeros": 0}},
        }  # fmt: skip
        return policies.get(target, {})
    if target == "e8m0":
        return {"ties": "away", "codes": {"zeros": 255, "negative": 255}}
    return {"overflow": "saturate"} if CODED[target].specials == "finite" else {}


def _kernel(library: str, source: str, target: str) -> Any:
    """Return the library's own conversion, None if it lacks a format. XLA on the processor has none of 6 bits."""
    if library == "numpy":
        return lambda x: x.astype(storage(CODED[target]))
    module = jnp if library == "jax" else torch
    if any(CODED[name].bits == 6 or not hasattr(module, CODED[name].spelling) for name in (source, target)):
        return None
    own = getattr(module, CODED[target].spelling)
    return (lambda x: x.astype(own)) if library == "jax" else lambda x: x.to(own)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_libraries_convert_rightly_but_for_what_the_page_lists(library: str) -> None:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    wrong, tried = list[str](), 0
    try:
        for source, target in _PAIRS:
            if (kernel := _kernel(library, source, target)) is None:
                continue
            said = ""
            try:
                fuzz.check_conversion(kernel, source, target, arrays=library, **_policy(library, target))  # type: ignore[arg-type]
            except fuzz.CheckFailed as error:
                said = str(error)
            known, tried = _deviation(library, source, target), tried + 1
            if bool(said) != bool(known) or known not in said:
                wrong.append(f"{source} to {target}: {said or 'right'}, expected: {known or 'right'}")
    finally:
        jax.config.update("jax_enable_x64", before)
    assert not wrong, "\n".join(wrong)
    assert tried >= 42


def test_numpy_keeps_a_signalling_nan_of_f16_and_torch_turns_nans_of_bf16_to_one() -> None:
    with pytest.raises(fuzz.CheckFailed, match="signalling NaN: 1,022 of 1,022"):
        fuzz.check_conversion(lambda x: x.astype(np.float32), "f16", "f32", nan="quiet")
    fuzz.check_conversion(lambda x: x.bfloat16(), "f32", "bf16", codes={"NaN": 0xFFFF})
    fuzz.check_conversion(lambda x: x.to(torch.float8_e5m2), "f32", "e5m2", nan="sign")
