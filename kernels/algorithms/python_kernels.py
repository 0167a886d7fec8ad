"""The algorithms of ops that are shipped and that no other kernel here takes, in NumPy, as declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fuzz import AnyOrder, Capabilities, Contract, PythonKernel, Sequential

__all__ = ["KERNELS"]

_NUMPY = Path(__file__).resolve().parent / "numpy"
_PLAIN = Contract()
_ROWS = Capabilities(strides="any")
_WELFORD = {"mean": "welford", "var": "welford", "h": "apart"}
_RMS = replace(_ROWS, takes=("weight", "rstd", "dw"), params=("weight_offset",))
_FUSED = replace(_RMS, takes=("dsum", "weight", "rstd", "dresidual", "dw"))
_GROUPS = replace(_ROWS, takes=("weight", "bias", "mean", "rstd"))
_GROUPS_BACK = replace(_ROWS, takes=("weight", "mean", "rstd", "dw", "db"))
# Of a product with a reciprocal that lies at a tie either code is right, which the oracle settles one by one: rows are
# short, and cases fewer.
_FEW = {"n": 1024}
_OF_ZEROS = replace(_ROWS, params=("of_zeros",), max=_FEW)
_LABELLED = replace(_ROWS, mixed=(("label", ("int32", "int64")),))
_SMOOTHED = replace(_LABELLED, params=("smoothing",))
_RULES = replace(_ROWS, params=("scale_rule", "of_infinity"))
_SHORT = {"n": 4096}
"""The longest rows where a loop in Python goes along them."""
# Each step is rounded once, also where that is of what was divided before.
_EXACT = Contract(points={"step": "f32", "ratio": "f32"}, accuracy={"divide": 0.5})
_MXFP8 = Contract(points=dict.fromkeys(("edge", "share", "quotient", "ratio"), "f32"))
_NVFP4 = Contract(points=dict.fromkeys(("share", "units", "steps", "kept", "step", "ratio"), "f32"))


def _kernel(
    op: str, source: str, algorithm: Mapping[str, str], able: Capabilities = _ROWS, *, contract: Contract = _PLAIN,
    way: str = "",
) -> PythonKernel:  # fmt: skip
    """A kernel with the name of the last of its algorithms, which its source may know."""
    chosen = way or list(algorithm.values())[-1]
    return PythonKernel(
        f"{op} {chosen}".replace("_", "-").replace(" ", "-"), op, _NUMPY / f"{source}.py", "numpy",
        replace(contract, algorithm=algorithm), able, options=(("way", way),) if way else (),
        summary=", ".join(f"{local}: {name}" for local, name in algorithm.items()),
    )  # fmt: skip


def _ways(
    op: str, source: str, local: str, ways: Sequence[str], able: Capabilities, *, contract: Contract = _PLAIN,
    also: Mapping[str, str] | None = None,
) -> tuple[PythonKernel, ...]:  # fmt: skip
    """Kernels of one function, for each of the algorithms of one local."""
    return tuple(_kernel(op, source, {**(also or {}), local: way}, able, contract=contract, way=way) for way in ways)


_DX = ("rstd3 over n", "sum times rstd3", "rstd2 over n", "rstd first", "apart", "times n")
KERNELS: tuple[PythonKernel, ...] = (
    *_ways("rms_norm_backward", "norms", "dx", _DX, _RMS, also={"terms": "rstd last"}),
    *_ways("fused_add_rms_norm_backward", "norms", "dx", _DX, _FUSED, also={"terms": "rstd last"}),
    _kernel("layer_norm", "norms", {"var": "moments"}, _GROUPS),
    *_ways("group_norm", "norms", "var", ("moments",), _GROUPS),
    _kernel("group_norm", "norms", _WELFORD, replace(_GROUPS, max={"c": 64, "s": 64}, empty=False),
            contract=Contract(sums={"c s": Sequential()}), way="welford"),
    _kernel("group_norm_backward", "norms", {"h": "apart"}, _GROUPS_BACK),
    _kernel("gelu", "activations", {"y": "half first"}),
    *_ways("gelu_tanh", "activations", "y", ("half first", "half last"), _ROWS, also={"u": "apart"}),
    _kernel("gelu_tanh_backward", "activations", {"rise": "factors"}),
    *_ways("silu_mul_backward", "activations", "dgate", ("slope first", "slope last"), _ROWS,
           also={"s": "quotient", "h": "quotient", "slope": "sum"}),
    _kernel("softmax_backward", "reductions", {"dx": "products"}),
    _kernel("logsumexp", "reductions", {"mass": "online"}, way="online"),
    _kernel("logsumexp", "reductions", {"most": "finite"}, way="finite"),
    _kernel("logsumexp_backward", "reductions", {"mass": "online"}, replace(_ROWS, takes=("y",)), way="online"),
    _kernel("logsumexp_backward", "reductions", {"most": "finite"}, replace(_ROWS, takes=("y",)), way="finite"),
    _kernel("row_mean_backward", "reductions", {"share": "reciprocal"}),
    _kernel("row_var_backward", "reductions", {"mean": "welford"}, replace(_ROWS, max=_SHORT),
            contract=Contract(sums={"n": Sequential()})),
    *_ways("cross_entropy", "reductions", "even", ("shifted", "weighted"), _SMOOTHED, also={"nll": "shifted"}),
    _kernel("cross_entropy", "reductions", {"most": "finite"}, _SMOOTHED, way="finite"),
    _kernel("cross_entropy_backward", "reductions", {"most": "finite"}, _LABELLED),
    _kernel("topk_softmax", "reductions", {"mass": "online", "p": "reciprocal"},
            replace(_ROWS, params=("renormalise",))),
    _kernel("softmax_of_topk", "reductions", {"weight": "reciprocal"}),
    _kernel("scaled_matmul", "products", {"scaled": "column first"}, replace(_ROWS, takes=("bias",)),
            contract=Contract(dtypes={"count": "f64"})),
    _kernel("attention", "products", {"s": "query first"}, contract=Contract(sums={"d": AnyOrder(), "j": AnyOrder()})),
    *(replace(each, slow=True) for op in ("quantize_rows", "quantize_rows_e4m3")
      for each in _ways(op, "quantize", "ratio", ("reciprocal", "inverse"), _OF_ZEROS, contract=_EXACT)),
    *(_kernel(op, "quantize", {"share": "reciprocal"}, _RULES, contract=_MXFP8)
      for op in ("quantize_mxfp8", "quantize_mxfp8_e5m2")),
    replace(
        _kernel("quantize_nvfp4", "quantize", dict.fromkeys(("share", "units", "ratio"), "reciprocal"),
                replace(_ROWS, params=("least_scale",), max=_FEW), contract=_NVFP4), slow=True,
    ),
)  # fmt: skip
