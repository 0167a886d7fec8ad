"""Planted defects in group_norm and its gradients, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_FORWARD, _BACKWARD = "group-norm-generic", "group-norm-backward-generic"
_TRITON, _TRITON_BACKWARD = "group-norm-blocks", "group-norm-backward-blocks"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "group-norm-weight-of-first-group", _FORWARD,
        (("load(weight, at_channel(r, weight, c))", "load(weight, c * weight->strides[1])"),),
        _NATIVE, "a weight and several groups", _VALUE, "the channels of each group have the weights of the first one",
    ),
    Mutant(
        "group-norm-bias-before-weight", _FORWARD,
        (("if (is_present(weight)) value *= load(weight, at_channel(r, weight, c));",
          "const float scale = is_present(weight) ? load(weight, at_channel(r, weight, c)) : 1.0f;"),
         ("value += load(bias, at_channel(r, bias, c));", "value += load(bias, at_channel(r, bias, c));\n"
          "            value *= scale;")),
        _NATIVE, "a weight and a bias", _VALUE, "the bias is weighted too",
    ),
    Mutant(
        "group-norm-rstd-in-16-bits", _FORWARD,
        (("store(&call->rstd, at_group(r, &call->rstd), rstd)",
          "store(&call->rstd, at_group(r, &call->rstd), rounded(x->dtype, rstd))"),),
        _NATIVE, "rstd, and x of 16 bits", _VALUE, "statistics are stored in the dtype of x",
    ),
    Mutant(
        "group-norm-backward-batches-by-four", _BACKWARD,
        (("b < x->shape[0]; b++) {\n            const group r = group_of(x, b, g);\n            for",
          "b < x->shape[0] - (x->shape[0] % 4 == 3); b++) {\n            const group r = group_of(x, b, g);\n for"),),
        _NATIVE, "b mod 4 = 3, and dw or db", _VALUE, "W01: the last of a part of a group of four is skipped",
    ),
    Mutant(
        "group-norm-backward-mean-of-places", _BACKWARD,
        (("(float)(r->channels * r->places)", "(float)r->places"),),
        _NATIVE, "several channels in a group", _VALUE, "means over the places of one channel",
    ),
    Mutant(
        "triton-group-norm-lanes-beyond", _TRITON,
        (("tl.where(place < n, x - mean, 0.0)", "x - mean"),),
        _INTERPRETED, "c s mod 1024 != 0 and a mean that is not small", _VALUE,
        "lanes beyond the group add the square of its mean: data with a mean of 0 hides it",
    ),
    Mutant(
        "triton-group-norm-last-block-unwritten", _TRITON,
        (("triton.cdiv(channels * places, BLOCK)", "max(1, channels * places // BLOCK)"),),
        _INTERPRETED, "c s > 1024 and no multiple of it", ("FAIL_UNWRITTEN", *_VALUE),
        "the tail of a long group is lost",
    ),
    Mutant(
        "triton-group-norm-eps-outside", _TRITON,
        (("tl.sqrt_rn(var + eps)", "tl.sqrt_rn(var) + eps"),),
        _INTERPRETED, "eps large beside the variance", _VALUE, "eps is added to the root",
    ),
    Mutant(
        "triton-group-norm-group-of-batch", _TRITON,
        (("\n    channel = (group % groups) * channels", "\n    channel = group * channels"),),
        _INTERPRETED, "a weight or a bias, and several batches", _MEMORY, "weights are read beyond the last group",
    ),
    Mutant(
        "triton-group-norm-backward-first-block", _TRITON_BACKWARD,
        (("for start in range(0, places, BLOCK):", "for start in range(0, BLOCK, BLOCK):"),),
        _INTERPRETED, "s > 1024", _VALUE, "dw and db of the first 1024 places alone",
    ),
    Mutant(
        "torch-group-norm-backward-one-channel", "group-norm-backward-eager",
        (("g - g.mean((2, 3), keepdim=True)", "g - g.mean(3, keepdim=True)"),),
        ("torch-*@cpu",), "several channels in a group", _VALUE, "the mean of a gradient over one channel of its group",
    ),
)  # fmt: skip
