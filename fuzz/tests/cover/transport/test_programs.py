"""Which programs Triton makes, as its own compiler tells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fuzz.core.adapters.cuda import VISIBLE
from fuzz.core.transport.python.programs import Programs, programs_in
from fuzz.tests.conftest import CHECKOUT

_COMPILES = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fuzz.core.transport.python.programs import note_programs

@triton.jit
def program(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

def compile(block):
    source = ASTSource(program, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": block})
    triton.compile(source, target=GPUTarget("cuda", 80, 32))

compile(8)
note_programs(sys.argv[1])
for block in (8, 16, 16, 32):
    compile(block)
"""


def test_programs_are_counted_once_by_how_they_were_first_made(tmp_path: Path) -> None:
    """Compiled for a GPU that need not be there; one was in the cache before."""
    source, noted = tmp_path / "compiles.py", tmp_path / "noted"
    source.write_text(_COMPILES)
    noted.touch()
    known = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TRITON_CACHE_DIR": str(tmp_path / "cache"), VISIBLE: ""}
    subprocess.run([sys.executable, str(source), str(noted)], env=known, check=True)
    assert programs_in(noted) == Programs(compiled=2, cached=1)
    assert str(Programs(1200, 34)) == "1,234 programs, 34 of them from the cache"
