"""The public corpus of gpuemu: 16 correct kernels and 10 wrong ones, each written anew after the one line that table 1
of arXiv 2606.20128 says of it. No code of theirs is here; their kernels in Triton are functions of NumPy, which run
anywhere and have the same blocks.

It lies here, and not among the packs of tests, since it is measured: `python3 -m fuzz.quality detection --pack` this
folder, and `kernelfuzz selftest --pack` it.
"""

from __future__ import annotations

from pathlib import Path

from fuzz import Any, Capabilities, Contract, Mutant, Op, Operand, PythonKernel
from fuzz import formula as f

_SOURCE = Path(__file__).resolve().parent / "kernels.py"
_DTYPES = ("f32", "f16")
_SMALL = 0.009999999776482582
"""0.01 of float32."""
_X, _Y = Operand("x", "... n"), Operand("y", "... n")


def silu(x: f.Node) -> f.Outputs:
    """y = x / (1 + exp(-x))."""
    return {"y": x / (1.0 + f.exp(-x))}


def l2norm(x: f.Node) -> f.Outputs:
    """y = x / sqrt(sum(x^2) + 1e-6)."""
    return {"y": x / f.sqrt(f.total(x * x, "n") + 9.999999974752427e-07)}


def relu(x: f.Node) -> f.Outputs:
    """y = max(x, 0); NaN stays NaN."""
    return {"y": f.where(x <= 0.0, 0.0, x)}


def leaky_relu(x: f.Node) -> f.Outputs:
    """y = x, or 0.01 x where x is not positive."""
    return {"y": f.where(x <= 0.0, _SMALL * x, x)}


def sigmoid(x: f.Node) -> f.Outputs:
    """y = 1 / (1 + exp(-x))."""
    return {"y": 1.0 / (1.0 + f.exp(-x))}


def tanh(x: f.Node) -> f.Outputs:
    """y = tanh(x)."""
    return {"y": f.tanh(x)}


def elu(x: f.Node) -> f.Outputs:
    """y = x, or exp(x) - 1 where x is not positive."""
    return {"y": f.where(x <= 0.0, f.expm1(x), x)}


def attention_of_heads(q: f.Node, k: f.Node, v: f.Node) -> f.Outputs:
    """o = softmax(q k / sqrt(d)) v."""
    s = f.dot(q, k, "d") / f.sqrt(f.extent("d"))
    p = f.exp(s - f.greatest(s, "j"))
    mass = f.total(p, "j")
    acc = f.dot(p, v, "j")
    return {"o": acc / mass}


_ELEMENTWISE = tuple(Op(each, (_X,), (_Y,)) for each in (silu, relu, leaky_relu, sigmoid, tanh, elu))
OPS = (
    *_ELEMENTWISE,
    Op(l2norm, (_X,), (_Y,)),
    Op(
        attention_of_heads, (Operand("q", "i d"), Operand("k", "j d"), Operand("v", "j e")), (Operand("o", "i e"),),
        algorithms={
            "mass": {"online": lambda p: f.online_dot(p, 1.0, "j")},
            "acc": {"online": lambda p, v: f.online_dot(p, v, "j")},
        },
    ),
)  # fmt: skip


def _kernel(name: str, op: str, entry: str, *dims: str, **algorithm: str) -> PythonKernel:
    able = Capabilities(_DTYPES, empty=False, params=())
    contract = Contract(sums=dict.fromkeys(dims, Any()), algorithm=algorithm)
    return PythonKernel(name, op, _SOURCE, "numpy", contract, able, entry=entry)


def _mutant(name: str, base: str, old: str, new: str, trigger: str) -> Mutant:
    return Mutant(
        name, base, ((old, new),), ("*",), trigger, ("FAIL_NUMERIC", "FAIL_NONFINITE"), "arXiv 2606.20128, table 1"
    )


KERNELS = (
    _kernel("softmax", "softmax", "softmax", "n"),
    _kernel("softmax-blocks", "softmax", "softmax_blocks", "n"),
    _kernel("layernorm", "layer_norm", "layer_norm", "n"),
    _kernel("matmul", "matmul", "matmul", "k"),
    _kernel("matmul-tiles", "matmul", "matmul_tiles", "k"),
    _kernel("gelu", "gelu", "gelu"),
    _kernel("silu", "silu", "silu"),
    _kernel("rmsnorm", "rms_norm", "rms_norm", "n"),
    _kernel("l2norm", "l2norm", "l2norm", "n"),
    _kernel("relu", "relu", "relu"),
    _kernel("leaky-relu", "leaky_relu", "leaky_relu"),
    _kernel("sigmoid", "sigmoid", "sigmoid"),
    _kernel("tanh", "tanh", "tanh"),
    _kernel("elu", "elu", "elu"),
    _kernel("attention", "attention_of_heads", "attention_of_heads", "d", "j"),
    _kernel("flash-attention", "attention_of_heads", "flash_attention", "d", "j", mass="online", acc="online"),
)
MUTANTS = (
    _mutant(
        "softmax-tail-leaks", "softmax", "_padded(below, -math.inf)", "_padded(below, 0.0)",
        "what fills up the last block is added to the sum: n mod 64 != 0",
    ),
    _mutant(
        "softmax-other-is-zero", "softmax-blocks", "other := -math.inf", "other := 0.0",
        "what is beyond the row is loaded as 0: n mod 64 != 0, or no positive element",
    ),
    _mutant("gelu-without-half", "gelu", "np.float32(0.5) * _wide(x)", "_wide(x)", "any x"),
    _mutant(
        "silu-of-twice", "silu", "_wide(x) / (1.0 + np.exp(-_wide(x)))", "_wide(x) / (1.0 + np.exp(-2.0 * _wide(x)))",
        "any x but 0",
    ),
    _mutant(
        "rmsnorm-without-root", "rmsnorm", "np.sqrt(mean + np.float32(eps))", "(mean + np.float32(eps))",
        "any row whose mean square is not 1",
    ),
    _mutant(
        "l2norm-without-root", "l2norm", "np.sqrt(squares + np.float32(1e-6))", "(squares + np.float32(1e-6))",
        "any row whose sum of squares is not 1",
    ),
    _mutant("leaky-relu-of-a-tenth", "leaky-relu", "np.float32(0.01)", "np.float32(0.1)", "x below 0"),
    _mutant("matmul-last-tile-alone", "matmul-tiles", "acc = acc + tile", "acc = tile", "k > 64"),
    _mutant(
        "attention-without-scale", "attention", "s = (_wide(q) @ _wide(k).T) / np.sqrt(np.float32(q.shape[-1]))\n    e",
        "s = _wide(q) @ _wide(k).T\n    e", "d > 1",
    ),
    _mutant(
        "flash-attention-not-rescaled", "flash-attention", "acc = acc * alpha + p", "acc = acc + p",
        "more than 64 keys, and a maximum that grows",
    ),
)  # fmt: skip
