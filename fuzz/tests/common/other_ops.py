"""A pack of ops as others write them, by which budgets are calibrated that no built-in formula has."""

from __future__ import annotations

from pathlib import Path

PACK = """
from pathlib import Path

from fuzz import Op, Operand, Parameter, PythonKernel
from fuzz import formula as f

X, Y = Operand("x", "... n"), Operand("y", "... n")
G = Operand("g", "... n")


def silu_gate(x, g):
    gate = x * f.sigmoid(x)
    return {"y": gate * g}


def l2_normalize(x, *, eps):
    squares = f.total(x * x, "n")
    length = f.sqrt(squares)
    return {"y": x / f.where(length <= eps, eps, length)}


def logsumexp(x):
    most = f.greatest(x, "n")
    mass = f.total(f.exp(x - most), "n")
    return {"lse": most + f.log(mass)}


def clipped(x, *, low, high):
    least = f.where(x <= low, low, x)
    return {"y": f.where(high <= least, high, least)}


def dynamic_scale(x):
    largest = f.greatest(f.where(x <= 0.0, -x, x), "n")
    scale = largest / 127.0
    return {"y": f.where(scale <= 0.0, 0.0, x / f.where(scale <= 0.0, 1.0, scale)), "scale": scale}


def softplus(x):
    small = f.log(1.0 + f.exp(-f.where(x <= 0.0, -x, x)))
    return {"y": f.where(x <= 0.0, 0.0, x) + small}


def cosine(x, g, *, eps):
    xy = f.total(x * g, "n")
    xx = f.total(x * x, "n")
    yy = f.total(g * g, "n")
    return {"s": xy * f.rsqrt(xx * yy + eps)}


def cross_entropy(x, label):
    most = f.greatest(x, "n")
    mass = f.total(f.exp(x - most), "n")
    return {"loss": f.log(mass) + most - f.take(x, label, "n")}


def masked_mean(x, keep):
    kept = f.total(keep, "n")
    return {"y": f.where(kept <= 0.0, 0.0, f.total(f.where(keep, x, 0.0), "n") / f.where(kept <= 0.0, 1.0, kept))}


def embedded(table, place):
    return {"y": f.take(table, place, "v")}


EPS = Parameter("eps", (1e-5, 1e-12))
OPS = (
    Op(silu_gate, (X, G), (Y,)),
    Op(l2_normalize, (X,), (Y,), (EPS,)),
    Op(logsumexp, (X,), (Operand("lse", "..."),)),
    Op(clipped, (X,), (Y,), (Parameter("low", (-1.0, 0.0)), Parameter("high", (6.0, 1.0)))),
    Op(dynamic_scale, (X,), (Y, Operand("scale", "..."))),
    Op(softplus, (X,), (Y,)),
    Op(cosine, (X, G), (Operand("s", "..."),), (EPS,)),
    Op(cross_entropy, (X, Operand("label", "...", dtype="int64", index="n")), (Operand("loss", "..."),)),
    Op(masked_mean, (X, Operand("keep", "... n", dtype="bool", values="flags")), (Operand("y", "..."),)),
    Op(embedded, (Operand("table", "v d"), Operand("place", "t", dtype="int32", index="v")), (Operand("y", "t d"),)),
)
KERNELS = (PythonKernel("numpy", "softplus", Path(__file__).parent / "softplus.py", "numpy"),)
"""
KERNEL = """
import numpy as np

def softplus(x, y):
    y[...] = np.logaddexp(x, 0)
"""


def write_other_ops(folder: Path) -> Path:
    """The pack, in a folder that is there."""
    (folder / "pack.py").write_text(PACK)
    (folder / "softplus.py").write_text(KERNEL)
    return folder
