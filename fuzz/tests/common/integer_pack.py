"""A pack whose op takes a label for each row: a right kernel in C, one of torch, and ones with bugs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PACK = """
from pathlib import Path
from fuzz import Capabilities, CKernel, Op, Operand, PythonKernel
from fuzz import formula as f

HERE = Path(__file__).parent

def cross_entropy(x, label):
    most = f.greatest(x, "n")
    mass = f.total(f.exp(x - most), "n")
    return {"loss": f.log(mass) + most - f.take(x, label, "n")}

X, LABEL = Operand("x", "... n"), Operand("label", "...", dtype="int64", index="n")
OPS = (Op(cross_entropy, (X, LABEL), (Operand("loss", "..."),)),)
EITHER = Capabilities(mixed=(("label", ("int32", "int64")),))
KERNELS = (
    *(CKernel(path.stem, "cross_entropy", path) for path in sorted(HERE.glob("*.c"))),
    PythonKernel("gathered", "cross_entropy", HERE / "gathered.py", "torch", devices=("cpu",), capabilities=EITHER),
)
"""
GATHERED = """
def cross_entropy(x, label):
    most = x.amax(-1)
    mass = (x - most[..., None]).exp().sum(-1)
    return mass.log() + most - x.gather(-1, label[..., None].long())[..., 0]
"""
C = """
#include <math.h>
#include "kernelfuzz.h"

int kf_cross_entropy(const kf_cross_entropy_call *call) {
    const int64_t n = call->x.shape[call->x.rank - 1];
    int64_t count = 1;
    for (int axis = 0; axis + 1 < call->x.rank; axis++) count *= call->x.shape[axis];
    const int64_t *label = call->label.data;
    for (int64_t r = 0; r < count; r++) {
        const float *x = (const float *)call->x.data + r * n;
        float most = x[0], mass = 0;
        for (int64_t i = 1; i < n; i++) most = fmaxf(most, x[i]);
        for (int64_t i = 0; i < n; i++) mass += expf(x[i] - most);
        ((float *)call->loss.data)[r] = logf(mass) + most - x[LABEL];
    }
    return KF_OK;
}
"""
BUGS: Mapping[str, str] = {
    "first": "label[0]",
    "last": "label[r] == n - 1 ? 0 : label[r]",
    "narrow": "((const int *)label)[r]",
}
"""What takes the place of the label of a row."""


def write_integer_pack(folder: Path, *bugs: str) -> Path:
    """The pack, with the right kernels, or with a C kernel of each of these bugs beside that of torch."""
    texts = {bug: BUGS[bug] for bug in bugs} or {"right": "label[r]"}
    for name, label in texts.items():
        (folder / f"{name}.c").write_text(C.replace("LABEL", label))
    (folder / "pack.py").write_text(PACK)
    (folder / "gathered.py").write_text(GATHERED)
    return folder
