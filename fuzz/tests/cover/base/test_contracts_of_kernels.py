"""What kernels promise: in the words of their op, and of nothing that it does not have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.kernel import PLAIN
from oracles.dtypes import FLOATS
from oracles.formula.contract import Contract
from oracles.summation import Lanes, Tiles, VectorLanes
from oracles.tests.common.judged import TOYS, known


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with known(*TOYS):
        yield


HOST = Host("x86_64", frozenset({"avx2", "fma"}))


def _kernel(op: str, contract: Contract = PLAIN, isa: str = "any") -> CKernel:
    kernel = CKernel("k", op, Path("k.c"), isa, contract=contract)
    kernel.check_op()
    return kernel


def test_a_kernel_that_says_nothing_is_plain() -> None:
    assert _kernel("rms_norm").contract == _kernel("layer_norm").contract == Contract()


WRONG: Mapping[str, tuple[str, Contract]] = {
    "contract: 'f16' is no Contract: write Contract(...)": ("rms_norm", "f16"),  # type: ignore[dict-item]
    "contract.points: 'total' is not one of": ("fused_add_rms_norm", Contract(points={"total": "sum"})),
    "contract.points: 'rstd' is not one of added, eps, h, mean_square": (
        "fused_add_rms_norm",
        Contract(points={"rstd": "input"}),
    ),
    "contract.points: layer_norm has none, not even 'var'": ("layer_norm", Contract(points={"var": "bf16"})),
    "contract.sums: 'k' is not one of mean, centred, var,": ("layer_norm", Contract(sums={"k": Tiles(4)})),
    "contract.dtypes: 'vra' is not one of mean,": ("layer_norm", Contract(dtypes={"vra": "f16"})),
    "contract.algorithm: 'rstd' is not one of var": ("layer_norm", Contract(algorithm={"rstd": "newton"})),
    "contract.algorithm: var: 'moment' is not one of formula, moments": (
        "layer_norm",
        Contract(algorithm={"var": "moment"}),
    ),
    f"contract: dtype: 'tf-32' is not one of {', '.join(FLOATS)}, tf32,": (
        "matmul",
        Contract(points={"a": "tf-32"}),
    ),
    "contract.sums: n: 'any' is not a summation structure": ("layer_norm", Contract(sums={"n": "any"})),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("words", WRONG)
def test_what_no_kernel_of_the_op_can_promise_is_refused(words: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        _kernel(*WRONG[words])
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_points_that_only_some_operands_bring_are_known() -> None:
    rounded = dict.fromkeys(("m", "dx", "dsummed", "dw", "terms", "h"), "bf16")
    _kernel("fused_add_rms_norm_backward", Contract(points=rounded))


def test_names_that_only_some_operands_or_an_algorithm_bring_are_known() -> None:
    _kernel("layer_norm", Contract(algorithm={"var": ("formula", "moments")}, sums={"mean": Tiles(4)}))
    _kernel("layer_norm_backward", Contract(algorithm={"dx": "textbook"}, sums={"dvar": Tiles(8), "...": Tiles(4)}))


def test_the_order_of_a_sum_is_resolved_at_the_vector_length() -> None:
    targets = expand([_kernel("layer_norm", Contract(sums={"n": VectorLanes(2, "predicated")}), "sve")], HOST)
    found = {target.contract.sums["n"] for target in targets}
    assert Lanes(16, 2, "predicated") in found
    assert len(found) > 3


def test_a_pack_has_all_that_it_declares_an_op_with() -> None:
    code = (
        "from fuzz import Contract, Flip, Op, Operand, Parameter, register, formula as f\n"
        "import sys; assert 'numpy' not in sys.modules\n"
        "def scaled(x, *, scale): return {'y': f.exp(x) * scale}\n"
        "op = register(Op(scaled, (Operand('x', '... n'),), (Operand('y', '... n'),), (Parameter('scale', (1.0,)),)))\n"
        "print(op.name, Contract('f16').compute, Flip(('x',), ('y',)).zeros)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "scaled f16 False\n", done.stderr
