"""Kernels that harm the process they run in, and three honest ones beside them that nobody may blame.

Each hostile one computes RMSNorm as it should, and does one thing more. `expected.json` says what that is, when it
happens, and which verdicts blame the kernel rightly. NEVER run these outside of kernelfuzz's workers.
"""

import json
from pathlib import Path

from fuzz import AnyOrder, Capabilities, CKernel, Contract, PythonKernel

HERE = Path(__file__).resolve().parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
PLAIN_F32 = Capabilities(dtypes=("f32",), axis="last", strides="contiguous")


def _c(source: Path) -> CKernel:
    name = source.stem
    return CKernel(
        name=name,
        op="rms_norm",
        source=source,
        flags=("-D_GNU_SOURCE", "-ffp-contract=off", "-pthread"),
        contract=Contract(mean="reciprocal" if name == "honest-table" else "divide"),
        capabilities=PLAIN_F32,
        summary=EXPECTED[name]["does"],
    )


def _python(source: Path) -> PythonKernel:
    name = "py-" + source.stem.replace("_", "-")
    return PythonKernel(
        name=name,
        op="rms_norm",
        source=source,
        framework="torch",
        entry="rms_norm",
        contract=Contract(sums={"n": AnyOrder()}, mean="reciprocal", accuracy={"rsqrt": 2.0}),
        capabilities=PLAIN_F32,
        devices=("cpu",),
        summary=EXPECTED[name]["does"],
    )


KERNELS = (
    *(_c(source) for source in sorted(HERE.glob("c/*.c"))),
    *(_python(source) for source in sorted(HERE.glob("python/*.py"))),
)
