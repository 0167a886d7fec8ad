"""A pack with ops of several named dimensions, products of matrices and attention, and kernels of them with planted
bugs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MATMUL = '''
def matmul(a, b):
    """c = a b."""
    return {"c": f.dot(a, b, "k")}

OPS = (Op(matmul, (Operand("a", "... m k"), Operand("b", "... k n")), (Operand("c", "... m n"),)),)
'''
ATTEND = '''
def hidden(scene, stream):
    """Keys that are not seen, now and then none by a query."""
    shape = scene.shape("mask")
    drawn = stream.child("hidden").uniform(int(np.prod(shape))).reshape(shape)
    return np.where(drawn < stream.child("share").uniform(1)[0], -np.inf, 0.0)

def attend(q, k, v, mask=None, *, scale):
    """o = softmax(scale q k^T + mask) v; 0 for a query that sees no key."""
    scores = scale * f.dot(q, k, "d")
    scores = scores if mask is None else scores + mask
    most = f.greatest(scores, "j")
    p = f.exp(scores - f.where(most <= -np.inf, 0.0, most))
    mass = f.total(p, "j")
    return {"o": f.where(mass <= 0.0, 0.0, f.dot(f.point(p), v, "j") / mass)}

MASK = Operand("mask", "i j", optional=True, values="factor hidden")
OPS = (*OPS, Op(
    attend, (Operand("q", "... i d"), Operand("k", "... j d"), Operand("v", "... j e"), MASK),
    (Operand("o", "... i e"),), (Parameter("scale", (1.0, 0.125)),), recipes={"hidden": hidden},
))
'''
ROPE = '''
def rope(x, cos, sin):
    """y = x cos + turned(x) sin, where turned(x) are the halves of x in the other order, the second one negated."""
    first, second = f.take(x, 0, "half"), f.take(x, 1, "half")
    return {"y": f.where(f.position("half") <= 0.0, first * cos - second * sin, second * cos + first * sin)}

GRID, TABLE = "... t half p", "t p"
X, COS, SIN, Y = Operand("x", GRID), Operand("cos", TABLE), Operand("sin", TABLE), Operand("y", GRID)
OPS = (*OPS, Op(rope, (X, COS, SIN), (Y,), aliases=(("y", "x"),), fixed={"half": 2}))
'''
PACK = f"""
from pathlib import Path
import numpy as np
from fuzz import AnyOrder, Capabilities, CKernel, Contract, Op, Operand, Parameter, PythonKernel, Sequential
from fuzz import formula as f
{MATMUL}{ATTEND}{ROPE}
HERE, STRIDED = Path(__file__).parent, Capabilities(strides="any")
IN_ORDER, ANY = Contract(sums={{"k": Sequential()}}), Contract(sums={{"k": AnyOrder()}})
SOFT = Contract(sums={{"d": AnyOrder(), "j": AnyOrder()}}, accuracy={{"exp": 4.0, "divide": 2.5}})
KERNELS = (
    *(CKernel(each.stem, "matmul", each, contract=IN_ORDER, capabilities=STRIDED) for each in HERE.glob("*.c")),
    PythonKernel("numpy", "matmul", HERE / "product.py", "numpy", contract=ANY, capabilities=STRIDED),
    PythonKernel("torch", "matmul", HERE / "product.py", "torch", contract=ANY, devices=("cpu",)),
    *(PythonKernel("coarse", "matmul", each, "numpy", contract=ANY) for each in HERE.glob("coarse.py")),
    PythonKernel("turn", "rope", HERE / "rope.py", "torch", capabilities=STRIDED, devices=("cpu",)),
    PythonKernel("soft", "attend", HERE / "attend.py", "torch", contract=SOFT, capabilities=STRIDED, devices=("cpu",)),
)
"""
C_KERNEL = """
#include "kernelfuzz.h"
#define AT(t, s, i, j) (*(place(&(t), s) + (i) * (t).strides[(t).rank - 2] + (j) * (t).strides[(t).rank - 1]))
static float *place(const kf_tensor *t, int64_t s) {
    int64_t at = 0;
    for (int axis = t->rank - 3; axis >= 0; s /= t->shape[axis--]) at += s % t->shape[axis] * t->strides[axis];
    return (float *)t->data + at;
}
int kf_matmul(const kf_matmul_call *call) {
    const kf_tensor a = call->a, b = call->b, c = call->c;
    const int64_t m = c.shape[c.rank - 2], n = c.shape[c.rank - 1], k = a.shape[a.rank - 1];
    int64_t batch = 1;
    for (int axis = 0; axis < c.rank - 2; axis++) batch *= c.shape[axis];
    for (int64_t s = 0; s < batch; s++) for (int64_t i = 0; i < m; i++) for (int64_t j = 0; j < n; j++) {
        float sum = 0;
        for (int64_t p = 0; p < k; p++) sum += AT(a, s, i, p) * AT(b, s, p, j);
        AT(c, s, i, j) = sum;
    }
    return KF_OK;
}
"""
BUGS: Mapping[str, tuple[str, str]] = {
    "tail": ("p < k;", "p < k - k % 4;"),
    "dense": ("AT(b, s, p, j)", "place(&b, s)[p * n + j]"),
    "confused": ("AT(c, s, i, j) =", "place(&c, s)[(i * c.strides[c.rank - 1] + j * c.strides[c.rank - 2])] ="),
}
"""The rest of k that four do not divide; the strides of b; m taken for n."""
PYTHON = {
    "product.py": "def matmul(a, b):\n    return a @ b\n",
    "rope.py": """
import torch
def rope(x, cos, sin):
    first, second = x[..., 0, :], x[..., 1, :]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -2)
""",
    "attend.py": """
import torch
def attend(q, k, v, mask=None, *, scale):
    scores = scale * (q @ k.mT) + (0.0 if mask is None else mask)
    if not k.shape[-2]:
        return (scores @ v)
    most = scores.amax(-1, keepdim=True)
    p = torch.exp(scores - torch.where(most == -torch.inf, 0.0, most))
    mass = p.sum(-1, keepdim=True)
    return torch.where(mass <= 0, 0.0, (p @ v) / mass)
""",
}
COARSE = """
import numpy as np
from ml_dtypes import bfloat16
def matmul(a, b):
    total = np.zeros((*a.shape[:-1], b.shape[-1]), bfloat16)
    for p in range(a.shape[-1]):
        total = (total.astype(a.dtype) + a[..., p, None] * b[..., p, None, :]).astype(bfloat16)
    return total.astype(a.dtype)
"""
"""Sums that are kept in bf16, and declared to be float32."""


def write_dims_pack(folder: Path, *bugs: str) -> Path:
    """The pack, with a right kernel in C, or with one for each of these bugs."""
    texts = {f"{bug}.c": C_KERNEL.replace(*BUGS[bug]) for bug in bugs if bug in BUGS} or {"loops.c": C_KERNEL}
    texts |= {"coarse.py": COARSE} if "coarse" in bugs else {}
    for name, text in {"pack.py": PACK, **PYTHON, **texts}.items():
        (folder / name).write_text(text)
    return folder
