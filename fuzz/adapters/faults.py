"""The library by which a worker of Python kernels notes what they touch beyond their tensors."""

from __future__ import annotations

from fuzz.adapters import toolchain
from fuzz.adapters.build import NATIVE, Builder, BuildError, digest_of

_SOURCE = NATIVE.parent / "python" / "faults.c"
_FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC")


def fault_watcher(builder: Builder) -> str:
    """Its path; nothing where no compiler makes it, as where none is installed. Then a touch ends the worker."""
    tool = next((found for name in toolchain.COMPILERS if (found := toolchain.program(name)).path is not None), None)
    if tool is None:
        return ""
    texts = [path.read_text(encoding="utf-8") for path in (_SOURCE, NATIVE / "access.h")]
    digest = digest_of([tool.command, tool.version, _FLAGS, *texts])
    words = [*tool.command, *_FLAGS, str(_SOURCE)]
    try:
        return str(builder.compiled(f"faults-{digest[:32]}.so", lambda output: [*words, "-o", str(output)]))
    except BuildError:
        return ""
