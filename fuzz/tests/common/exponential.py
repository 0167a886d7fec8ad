"""The exponential of the C kernels, built for an instruction set and tried on floats."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from fuzz.core.adapters.isa import ISAS, QEMU
from fuzz.core.adapters.toolchain import compiler, emulator, this_host

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
COMMON = KERNELS / "common"


def declared() -> float:
    """The bound in ulp that the kernels are declared with."""
    (found,) = re.findall(r"#define V_EXP_ULP (\S+)", (COMMON / "vector.h").read_text("utf-8"))
    return float(found)


def worst(isa: str, step: int, folder: Path, bits: int = 128) -> tuple[float, int]:
    """The largest error in ulp for one in `step` of all floats, and how many of them are wrong otherwise. Where this
    processor has the instructions they are not emulated: the results are the same bits, many times as fast."""
    row, program = ISAS[isa], folder / "exponential"
    assert row.arch is not None
    family = row.compilers[0] if row.compilers else "gcc"
    tool = compiler(family, row.arch, this_host())
    flags = ["-O2", "-std=gnu11", "-ffp-contract=off", *row.flags.get(family, ()), f"-I{COMMON}", "-static"]
    subprocess.run(
        [*tool.command, *flags, str(KERNELS / "tests" / "common" / "exponential.c"), "-lm", "-o", str(program)],
        check=True,
    )
    own = this_host().arch == row.arch and row.features <= this_host().features and not row.settings
    settings = tuple((setting, bits if setting.is_width else "ones") for setting in row.settings)
    prefix = [] if own else [*emulator(QEMU, row.arch).command, *row.processor_with(settings, row.arch)]
    done = subprocess.run([*prefix, str(program), str(step)], capture_output=True, text=True, check=True)
    error, wrong = done.stdout.split()
    return float(error), int(wrong)
