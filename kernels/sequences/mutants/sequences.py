"""Planted defects in cumsum, linear_recurrence and conv1d, modelled on documented bugs of such kernels."""

from __future__ import annotations

from fuzz import Mutant

__all__ = ["MUTANTS"]

_VALUE = ("FAIL_NUMERIC", "FAIL_NONFINITE")
_MEMORY = (*_VALUE, "FAIL_MEMORY", "CRASH")
_NATIVE = ("*@native:*-O2",)
_INTERPRETED = ("triton-*@interpret",)
_ADD = "sum += load(x, at(&r, x, i));"
_STEP = "state = load(gate, at(&r, gate, i)) * state + load(x, at(&r, x, i));"
_START = "float state = is_present(h0) ? load(h0, at_row(&r, h0)) : 0.0f;"
_FROM = "const int64_t from = i + k - (taps - 1);"
_TAP = "channel * weight->strides[0] + k * weight->strides[1]"
_SILU = "call->silu >= 0.5f ? z * (1.0f / (1.0f + expf(-z))) : z"
_BIAS = "if (is_present(bias)) z += load(bias, channel * bias->strides[0]);"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "cumsum-exclusive", "cumsum-generic",
        ((f"{_ADD}\n            store(y, at(&r, y, i), sum);", f"const float before = sum;\n            {_ADD}\n"
          "            store(y, at(&r, y, i), before);"),),
        _NATIVE, "any element that is not 0", _VALUE, "sums of what comes before each element, without itself",
    ),
    Mutant(
        "cumsum-carries-over", "cumsum-generic",
        (("    do {\n        float sum = 0.0f;", "    float sum = 0.0f;\n    do {"),),
        _NATIVE, "several rows", _VALUE, "the sum is not set back between rows",
    ),
    Mutant(
        "cumsum-block-without-carry", "cumsum-generic",
        ((_ADD, f"if (i % 1024 == 0 && i) sum = 0.0f;\n            {_ADD}"),),
        _NATIVE, "n > 1024", _VALUE, "the second block of a row begins without the sum of the first",
    ),
    Mutant(
        "cumsum-in-16-bits", "cumsum-generic",
        ((_ADD, f"{_ADD}\n            sum = rounded(x->dtype, sum);"),),
        _NATIVE, "16 bits and several elements", _VALUE, "the running sum in the dtype of the elements",
    ),
    Mutant(
        "cumsum-from-output", "cumsum-generic",
        ((f"{_ADD}\n            store(y, at(&r, y, i), sum);",
          "sum = (i ? load(y, at(&r, y, i - 1)) : 0.0f) + load(x, at(&r, x, i));\n"
          "            store(y, at(&r, y, i), sum);"),),
        _NATIVE, "an output of 16 bits", _VALUE, "the running sum read back from an output of fewer bits",
    ),
    Mutant(
        "cumsum-row-beyond-mask", "cumsum-whole-row",
        (("mask=column < n, other=0.0).to(tl.float32)\n    tl.store(y_ptr", "mask=column < n - (n > 64), other=0.0).to("
          "tl.float32)\n    tl.store(y_ptr"),),
        _INTERPRETED, "n > 64", _VALUE, "the last element left out by a mask",
    ),
    Mutant(
        "linear-recurrence-gate-of-before", "linear-recurrence-generic",
        ((_STEP, _STEP.replace("at(&r, gate, i)", "at(&r, gate, i ? i - 1 : 0)")),),
        _NATIVE, "gates that differ, and n > 1", _VALUE, "the gate of the place before",
    ),
    Mutant(
        "linear-recurrence-start-of-first-row", "linear-recurrence-generic",
        ((_START, _START.replace("at_row(&r, h0)", "0")),),
        _NATIVE, "a start, and several rows", _VALUE, "all rows start as the first one",
    ),
    Mutant(
        "linear-recurrence-start-after-gate", "linear-recurrence-generic",
        ((_STEP, "state = (i == 0 ? state : load(gate, at(&r, gate, i)) * state) + load(x, at(&r, x, i));"),),
        _NATIVE, "a start", _VALUE, "the start is added to the first element, without its gate",
    ),
    Mutant(
        "linear-recurrence-state-in-16-bits", "linear-recurrence-generic",
        ((_STEP, f"{_STEP}\n            state = rounded(x->dtype, state);"),),
        _NATIVE, "16 bits and several elements", _VALUE, "the state kept in the dtype of the elements between places",
    ),
    Mutant(
        "linear-recurrence-block-without-carry", "linear-recurrence-generic",
        ((_STEP, f"if (i && i % 256 == 0) state = 0.0f;\n            {_STEP}"),),
        _NATIVE, "n > 256", _VALUE, "a block of 256 places begins from nothing",
    ),
    Mutant(
        "linear-recurrence-pairs-swapped", "linear-recurrence-whole-row",
        (("next_gate * state + next_state", "gate * next_state + state"),),
        _INTERPRETED, "n > 1", _VALUE, "the two halves of a pair joined the wrong way round",
    ),
    Mutant(
        "conv1d-centred", "conv1d-generic",
        ((_FROM, "const int64_t from = i + k - taps / 2 < r.n ? i + k - taps / 2 : -1;"),),
        _NATIVE, "two taps or more", _VALUE, "padding on both sides, so that elements see what comes after them",
    ),
    Mutant(
        "conv1d-taps-reversed", "conv1d-generic",
        ((_TAP, _TAP.replace("k *", "(taps - 1 - k) *")),),
        _NATIVE, "taps that differ", _VALUE, "the taps from the last to the first",
    ),
    Mutant(
        "conv1d-before-the-row", "conv1d-generic",
        (("from < 0 ? 0.0f :", "from < 0 && r.number == 0 ? 0.0f :"),),
        _NATIVE, "several rows and two taps or more", _MEMORY, "what lies before a row is taken for its padding",
    ),
    Mutant(
        "conv1d-bias-after-silu", "conv1d-generic",
        ((f"{_BIAS}\n", "\n"),
         (_SILU, f"({_SILU}) + (is_present(bias) ? load(bias, channel * bias->strides[0]) : 0.0f)")),
        _NATIVE, "a bias and silu", _VALUE, "the bias added after the activation",
    ),
    Mutant(
        "conv1d-channel-of-row", "conv1d-generic",
        (("r.index[x->rank - 2];", "r.index[0] % x->shape[x->rank - 2];"),),
        _NATIVE, "a batch beside channels", _VALUE, "taps chosen by the first dimension, right where there is no batch",
    ),
    Mutant(
        "conv1d-fifth-tap", "conv1d-generic",
        (("k < taps;", "k < (taps > 4 ? 4 : taps);"),),
        _NATIVE, "more than 4 taps", _VALUE, "no more than four taps are there",
    ),
)  # fmt: skip
