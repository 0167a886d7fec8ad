"""`python -m fuzz.core.transport.python.nvrtc SOURCE OPTION... -o CUBIN`: NVRTC as a compiler, without nvcc."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main() -> None:
    source, *options = sys.argv[1:]
    at = options.index("-o")
    output = options.pop(at + 1)
    options.pop(at)
    from cuda.bindings import nvrtc

    path = Path(source)
    program = _made(nvrtc.nvrtcCreateProgram(path.read_bytes(), path.name.encode(), 0, [], []))
    error, *_ = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
    if int(error) != 0:
        log = b" " * _made(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.rstrip(b"\0").decode(errors="replace"))
    cubin = b" " * _made(nvrtc.nvrtcGetCUBINSize(program))
    _made(nvrtc.nvrtcGetCUBIN(program, cubin))
    Path(output).write_bytes(cubin)


def _made(answer: tuple[Any, ...]) -> Any:
    error, *found = answer
    if int(error) != 0:
        sys.exit(f"NVRTC: {error}")
    return found[0] if found else None


if __name__ == "__main__":
    main()
