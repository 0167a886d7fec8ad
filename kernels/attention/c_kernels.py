"""Attention in C, as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fuzz import Capabilities, CKernel, Contract, Steps

__all__ = ["KERNELS"]

_C = Path(__file__).resolve().parent / "c"

# Multiply and add are two roundings in the scalar parts; compilers fuse them where nobody forbids it.
_FLAGS = ("-ffp-contract=off",)
_PARAMS = ("causal", "window", "cap", "blank")
_OPTIONAL = ("mask", "bias", "lse")
_ELEMENTS = Capabilities(
    dtypes=("f32", "f16", "bf16"), strides="any", takes=_OPTIONAL, params=_PARAMS,
    mixed=(("bias", ("q", "f32")), ("o", ("q", "f32"))), outside="rejects",
)  # fmt: skip
_DOUBLES = Capabilities(
    dtypes=("f64",), strides="any", takes=_OPTIONAL, params=_PARAMS, mixed=(("lse", ("f64",)),), outside="rejects"
)
_BACKWARD = replace(
    _ELEMENTS, takes=("mask", "bias", "o", "lse"), params=("causal", "window", "cap"),
    mixed=tuple((name, ("q", "f32")) for name in ("bias", "o", "dq", "dk", "dv")),
)  # fmt: skip

# A maximum for each block of 16 keys.
_FLASH = Contract(sums={"j": Steps(16)}, algorithm={"mass": "online", "acc": "online"})

# Each query is a problem by itself, read where it lies.
_LAWS = ("rerun", "row_permutation", "batch_subset", "batch_append", "sign_flip", "layout", "surroundings",
         "alignment")  # fmt: skip

KERNELS: tuple[CKernel, ...] = (
    CKernel(
        "attention-generic", "attention", _C / "attention.c", "any", Contract(), _ELEMENTS, _FLAGS, laws=_LAWS,
        summary="all scores of a query, then their shares; any strides",
    ),
    CKernel(
        "attention-double", "attention", _C / "attention.c", "any", Contract(), _DOUBLES,
        (*_FLAGS, "-DREAL=double"), laws=_LAWS, summary="the same in float64",
    ),
    CKernel(
        "attention-rounded", "attention", _C / "attention.c", "any", Contract(points={"p": "input"}), _ELEMENTS,
        (*_FLAGS, "-DROUNDED"), laws=_LAWS, summary="the same with shares rounded before they are multiplied",
    ),
    CKernel(
        "attention-flash", "attention", _C / "flash.c", "any", _FLASH, _ELEMENTS, _FLAGS,
        laws=_LAWS, summary="blocks of 16 keys, rescaled as the maximum grows",
    ),
    CKernel(
        "attention-flash-rounded", "attention", _C / "flash.c", "any",
        replace(_FLASH, points={"p": "maybe input"}), _ELEMENTS, (*_FLAGS, "-DROUNDED"), laws=_LAWS,
        summary="the same with shares rounded before they are multiplied",
    ),
    CKernel(
        "attention-backward-generic", "attention_backward", _C / "attention_backward.c", "any", Contract(), _BACKWARD,
        _FLAGS, laws=_LAWS, summary="one query after the other; any strides",
    ),
)  # fmt: skip
