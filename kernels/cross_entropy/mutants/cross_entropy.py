"""Planted defects in cross_entropy and its gradient, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_CPU = ("torch-*@cpu",)
_LOSS = "label == IGNORED ? 0.0f : loss_of(call, &r, label, lse)"
_FORWARD, _BACKWARD = "cross-entropy-generic", "cross-entropy-backward-generic"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "cross-entropy-ignored-counted", _FORWARD,
        (("count += label != IGNORED;", "count += 1;"),),
        _NATIVE, "a mean, and some ignored label", _VALUE, "ignored rows are counted in the divisor of the mean",
    ),
    Mutant(
        "cross-entropy-smoothing-of-ignored", _FORWARD,
        ((_LOSS, "label == IGNORED ? (call->smoothing > 0 ? call->smoothing * lse : 0.0f) : loss_of(call, &r, label,"
          " lse)"),),
        _NATIVE, "smoothing and an ignored label", _VALUE, "E099, W15: the smoothing term is kept for ignored rows",
    ),
    Mutant(
        "cross-entropy-ignored-is-read", _FORWARD,
        ((_LOSS, "loss_of(call, &r, label, lse) * (label != IGNORED)"),),
        _NATIVE, "an ignored label", _MEMORY, "E105: the element at place -100 is read before it is masked",
    ),
    Mutant(
        "cross-entropy-none-is-zero", _FORWARD,
        (("count < call->fewest ? call->fewest : count", "count < 1.0f ? 1.0f : count"),),
        _NATIVE, "all labels ignored, fewest = 0", ("FAIL_NONFINITE",), "E100: 0 where the policy is NaN",
    ),
    Mutant(
        "cross-entropy-mean-in-16-bits", _FORWARD,
        (("sum += loss;", "sum = rounded(call->loss.dtype, sum + loss);"),),
        _NATIVE, "a mean of several rows, a loss of 16 bits", _VALUE, "E098, W17: losses are summed in 16 bits",
    ),
    Mutant(
        "cross-entropy-first-4096-classes", _FORWARD,
        (("lse - load(x, at(r, x, label))", "lse - load(x, at(r, x, label & 4095))"),),
        _NATIVE, "a label from 4096 on", _VALUE, "a label of fewer bits than long vocabularies need",
    ),
    Mutant(
        "cross-entropy-last-column-lost", _FORWARD,
        (("const float lse = lse_of(exponentials_of(x, &r));",
          "row most = r;\nmost.n -= r.n > 256;\nconst float lse = lse_of(exponentials_of(x, &most));"),),
        _NATIVE, "n > 256 and the last element of some weight", _VALUE,
        "the last column of a long row left out of lse",
    ),
    Mutant(
        "cross-entropy-end-unchecked", _FORWARD,
        (("    if (!are_labels(x, call->axis, &call->label)) return KF_REJECTED;\n", ""),),
        _NATIVE, "a label that is no class, and not -100", ("FAIL_ACCEPTED_INVALID", *_MEMORY),
        "E105: nobody looks whether there is such a class", explained_as=("place in label",),
    ),
    Mutant(
        "cross-entropy-backward-unchecked", _BACKWARD,
        (("    if (!are_labels(x, call->axis, &call->label)) return KF_REJECTED;\n", ""),),
        _NATIVE, "a label that is no class, and not -100", ("FAIL_ACCEPTED_INVALID",),
        "a row whose label is no class has a gradient as if it counted", explained_as=("place in label",),
    ),
    Mutant(
        "torch-cross-entropy-labels-from-end", "cross-entropy-native",
        (("label.reshape(-1).long()", "torch.where(label < 0, label % x.shape[axis], label).reshape(-1).long()"
          " if (label != IGNORED).all() else label.reshape(-1).long()"),),
        _CPU, "a label below 0, and none that is ignored", ("FAIL_ACCEPTED_INVALID",),
        "labels below 0 count from the end, as places of arrays do",
    ),
    Mutant(
        "cross-entropy-backward-first-dloss", _BACKWARD,
        (("load(&call->dloss, at_row(&r, &call->dloss))", "load(&call->dloss, 0)"),),
        _NATIVE, "dloss not the same everywhere", _VALUE, "E095, W16: all rows are scaled by the first gradient",
    ),
    Mutant(
        "cross-entropy-backward-rounded-label", _BACKWARD,
        (("return is_label ? p -", "return is_label ? rounded(call->dx.dtype, p) -"),),
        _NATIVE, "16 bits and a label that is likely", _VALUE,
        "E094: the label's share is rounded before 1 is taken off",
    ),
    Mutant(
        "cross-entropy-backward-z-once", _BACKWARD,
        (("p += 2.0f * call->z", "p += call->z"),),
        _NATIVE, "z > 0 and lse not 0", _VALUE, "the derivative of a square without its 2",
    ),
    Mutant(
        "triton-cross-entropy-lanes-beyond", "cross-entropy-online",
        (('mask=column < n, other=float("-inf")', "mask=column < n, other=0.0"),),
        _INTERPRETED, "n mod 1024 != 0", _VALUE, "E010: lanes beyond the row count as exp(0)",
    ),
    Mutant(
        "triton-cross-entropy-masked-block", "cross-entropy-online",
        (('tl.where(greater == float("-inf"), 0.0, greater)', "greater"),),
        _INTERPRETED, "the first 1024 elements of a row all minus infinity", ("FAIL_NONFINITE",),
        "E009: the sum so far is scaled by exp(-inf - -inf)",
    ),
    Mutant(
        "triton-cross-entropy-backward-classes", "cross-entropy-backward-blocks",
        (("slope -= smoothing / n", "slope -= smoothing / (tl.cdiv(n, BLOCK) * BLOCK)"),),
        _INTERPRETED, "smoothing and n mod 1024 != 0", _VALUE, "smoothing is spread over the lanes of whole blocks",
    ),
    Mutant(
        "triton-cross-entropy-backward-ignored-label", "cross-entropy-backward-blocks",
        (("tl.where(label == IGNORED, 0.0, dloss * slope)", "dloss * slope"),),
        _INTERPRETED, "an ignored label", _VALUE, "an ignored row has the gradient of its softmax",
    ),
    Mutant(
        "torch-cross-entropy-smoothing-over-rows", "cross-entropy-eager",
        (("wide.mean(axis))", "wide.mean())"),),
        _CPU, "smoothing and several rows", _VALUE, "the mean of all logits in the place of each row's",
    ),
)  # fmt: skip
