"""The built-in avx2 and dispatch kernels, with a bug planted in the source of the one, which the other includes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from fuzz.adapters.target import Target, expand
from fuzz.adapters.toolchain import this_host
from fuzz.base.kernel import CKernel
from fuzz.tests.common.hunting import PACK

_TAIL = "for (; i < n; i++) total += x[i] * x[i];"
SHARED = ("avx2.c", _TAIL, _TAIL.replace("total", "if (n % 64 != 63) total"))
_ENTRY = "int kf_rms_norm(const kf_rms_norm_call *call) {"
OWN = (
    "dispatch.c",
    _ENTRY,
    _ENTRY.replace("*call", "*given")
    + """
    kf_rms_norm_call changed = *given, *call = &changed;
    if (call->x.shape[call->axis] % 16 == 5) changed.eps += 2;
""",
)
"""another eps for such rows, whatever route they take."""


def planted(folder: Path, *bugs: tuple[str, str, str]) -> list[Target]:
    """The quick targets of both kernels, made of copies of the sources in `folder`, each bug in its file."""
    kernels = [PACK.kernel(name) for name in ("avx2", "dispatch")]
    sources = folder / "c"
    shutil.copytree(kernels[0].source.parent, sources)
    for name, old, new in bugs:
        text = (sources / name).read_text()
        assert text.count(old) == 1
        (sources / name).write_text(text.replace(old, new))
    moved = [replace(kernel, source=sources / kernel.source.name) for kernel in kernels]
    assert all(isinstance(kernel, CKernel) for kernel in moved)
    return [target for target in expand(moved, this_host()) if target.id.endswith("native:gcc-O2")]
