"""The built-in generic kernel and one that routes contiguous rows to it, with a bug planted in the source of the first.

The route must be the same on every processor: that of the built-in `dispatch` depends on what the processor has.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import this_host
from fuzz.tests.common.hunting import PACK, TAIL_63

SHARED = ("generic.c", *TAIL_63)
_ENTRY = "int kf_rms_norm(const kf_rms_norm_call *call) {"
OWN = (
    "routed.c",
    _ENTRY,
    _ENTRY.replace("*call", "*given")
    + """
    kf_rms_norm_call changed = *given, *call = &changed;
    if (call->x.shape[call->axis] % 16 == 5) changed.eps += 2;
""",
)
"""another eps for such rows, whatever route they take."""
_ROUTED = (
    """#include "rows.h"
#define kf_rms_norm composed_rms_norm
#include "composed.c"
#undef kf_rms_norm
#define kf_rms_norm generic_rms_norm
#include "generic.c"
#undef kf_rms_norm
"""
    + _ENTRY
    + """
    return is_row_wise(call) ? generic_rms_norm(call) : composed_rms_norm(call);
}
"""
)


def planted(folder: Path, *bugs: tuple[str, str, str]) -> list[Target]:
    """The quick targets of both kernels, made of copies of the sources in `folder`, each bug in its file."""
    generic, dispatch = PACK.kernel("generic"), PACK.kernel("dispatch")
    assert isinstance(generic, CKernel)
    assert isinstance(dispatch, CKernel)
    sources = folder / "rms_norm" / "c"
    shutil.copytree(generic.source.parent, sources)
    shutil.copytree(PACK.path / "common", folder / "common")
    (sources / "routed.c").write_text(_ROUTED)
    for name, old, new in bugs:
        text = (sources / name).read_text()
        assert text.count(old) == 1
        (sources / name).write_text(text.replace(old, new))
    kernels = [
        replace(generic, source=sources / "generic.c"),
        replace(dispatch, name="routed", isa="any", source=sources / "routed.c"),
    ]
    return [target for target in expand(kernels, this_host()) if target.id.endswith("native:gcc-O2")]
