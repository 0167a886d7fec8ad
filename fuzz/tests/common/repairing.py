"""An agent in a few lines: it repairs a wrong kernel from the JSON of its ruling alone, by a table of edits."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import fuzz

Bug = Mapping[str, Any]
"""An object of `bugs` in a ruling."""
NORM = "import torch\n\n\ndef norm(x, w):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w\n"
SOFT = "import torch\n\n\ndef soft(x):\n    return torch.softmax(x, -1)\n"
SHAPES = {NORM: "x=b n, w=n", SOFT: "x=b n"}
_NORM = """import numpy as np


def kernel(x, w):
    with np.errstate(all="ignore"):
        n = x.shape[-1]
        some = x
        mean = (some * some).sum(-1, keepdims=True, dtype=np.float32) / np.float32(n)
        return x / np.sqrt(mean + np.float32(1e-6)) * w
"""
_SOFT = """import numpy as np


def kernel(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
"""


@dataclass(frozen=True)
class Edit:
    """What the agent changes in a source: some text becomes another one."""

    wrong: str
    right: str


@dataclass(frozen=True)
class Repairable:
    """A wrong kernel that one edit makes right."""

    reference: str
    edit: Edit

    @property
    def source(self) -> str:
        right = _NORM if self.reference == NORM else _SOFT
        assert right.count(self.edit.right) == 1
        return right.replace(self.edit.right, self.edit.wrong)


KINDS = {
    "eps": Repairable(NORM, Edit("(np.sqrt(mean) + np.float32(1e-6))", "np.sqrt(mean + np.float32(1e-6))")),
    "tail": Repairable(NORM, Edit("some = x[..., : n // 8 * 8]\n", "some = x\n")),
    "precision": Repairable(NORM, Edit("dtype=np.float16", "dtype=np.float32")),
    "overflow": Repairable(SOFT, Edit("np.exp(x)", "np.exp(x - x.max(-1, keepdims=True))")),
    "axis": Repairable(SOFT, Edit("e.sum(0, keepdims=True)", "e.sum(-1, keepdims=True)")),
    "raise": Repairable(NORM, Edit("some = x if n % 3 else np.concatenate([x, w])\n", "some = x\n")),
}  # fmt: skip
"""The kernels, by the kind that the agent must find out: none is told to it."""


def kind_of(bug: Bug) -> str:
    """Return the kind of a bug, from what the ruling says of it and nothing else."""
    passes, cause = bug["passes_at"], bug["cause"]
    if bug["line"] is not None:
        return next(kind for kind, each in KINDS.items() if bug["line"]["text"] in each.edit.wrong)
    if cause in ("scale", "step") and "overflows" in bug["headline"]:
        return "overflow"
    extents = [each for each in passes.get("n", ()) if each > 1]
    if extents and all(each % 8 == 0 for each in extents):
        return "tail"
    if not passes:
        made = eval(bug["inputs"], {"np": np, "fuzz": fuzz, "base64": base64, "zlib": zlib})
        assert made["x"].shape[0] > 1, "with one row the axes are told apart by the rest"
        return "axis"
    ordinary = {"ones", "integers", "large"} & {*passes.get("values", ())}
    return "eps" if ordinary else "precision"


def repaired(kind: str, judged: Callable[[str, str, str], Mapping[str, Any]]) -> list[str]:
    """Have a wrong kernel judged, repair it, and have it judged again; return both verdicts. `judged` returns the JSON
    of the ruling on a source, given with its reference and the shapes."""
    task = KINDS[kind]
    source, shapes = task.source, SHAPES[task.reference]
    first = judged(source, task.reference, shapes)
    [ruled] = first["solutions"]
    edit = KINDS[kind_of(ruled["bugs"][0])].edit
    assert source.count(edit.wrong) == 1, f"the ruling misled: {ruled['bugs'][0]}"
    second = judged(source.replace(edit.wrong, edit.right), task.reference, shapes)
    assert second["solutions"][0]["score"] > ruled["score"]
    return [first["verdict"], second["verdict"]]
