"""Laws are of dimensions, whatever the op: which ops get which, and that a correct product of matrices keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.adapters.pack import load
from fuzz.core.base.case import Case, Tensor
from fuzz.core.base.dtypes import from_bits, quantise
from fuzz.core.base.stream import Stream, dice_of
from fuzz.core.base.validity import check_case
from fuzz.core.generate.capabilities import anything
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import sketched
from fuzz.core.laws.law import LawCheck, first_difference
from fuzz.core.laws.registry import LAWS
from fuzz.tests.common.other_ops import write_other_ops
from oracles.dtypes import ITEMSIZE
from oracles.op import Op
from oracles.operand import Flip
from oracles.ops import OPS
from oracles.tests.common.dims import ALL, PRODUCT
from oracles.tests.common.judged import known

LINEAR = replace(PRODUCT, flips=(Flip(("a",), ("c",), zeros=True),), scaling={"a": 1, "c": 1})
_OF_SLICES = ("row_permutation", "batch_subset", "batch_append")
_ANYHOW = {"rerun", "layout", "surroundings", "alignment", "threads"}
WHICH: Mapping[str, tuple[str, str]] = {
    "rms_norm": ("rows", "scaling sign_flip in_place"),
    "fused_add_rms_norm": ("rows", "scaling sign_flip in_place"),
    "rms_norm_backward": ("rows", "scaling sign_flip in_place"),
    "fused_add_rms_norm_backward": ("rows", "scaling sign_flip in_place"),
    "layer_norm": ("rows", "scaling sign_flip in_place"),
    "layer_norm_backward": ("rows", "scaling sign_flip in_place"),
    "softmax": ("rows", "in_place"),
    "softmax_backward": ("rows", "scaling sign_flip in_place"),
    "log_softmax": ("rows", "in_place"),
    "log_softmax_backward": ("rows", "scaling sign_flip in_place"),
    "product": ("batch m n", "scaling sign_flip"),
    "gemm": ("m n", ""),
    "attend": ("batch e", ""),
    "turn": ("batch t", ""),
    "silu_gate": ("rows", ""),
    "l2_normalize": ("rows", ""),
    "logsumexp": ("rows", ""),
    "clipped": ("rows", ""),
    "dynamic_scale": ("rows", ""),
    "softplus": ("rows", ""),
    "cosine": ("rows", ""),
    "cross_entropy": ("rows", ""),
    "masked_mean": ("rows", ""),
    "embedded": ("t", ""),
}
"""The dimensions of each op along which it gets the laws of slices, and which of the laws that not all ops have."""


@pytest.fixture(autouse=True)
def _known(tmp_path: Path) -> Iterator[None]:
    others = [op for op in ALL if op is not PRODUCT]
    with known(LINEAR, *others):
        load(write_other_ops(tmp_path))
        yield


@pytest.mark.whole
def test_each_op_gets_the_laws_that_its_dimensions_allow() -> None:
    assert {name: _laws_of(OPS[name], laws) for name, laws in WHICH.items()} == WHICH


def _laws_of(op: Op, expected: tuple[str, str]) -> tuple[str, str]:
    """Return the dimensions along which all laws of slices are checked on some case, and the others that some ops lack:
    of 48 small cases, and of more until there are those that are expected, since some laws fit few cases."""
    dims, laws, small = set[tuple[str, str]](), set[str](), 0
    for dice in dice_of(Stream(3), 1024):
        case = realise(draw_from(sketched(anything(op.name), dice.below), dice=dice))
        if case.elements >= 4096:
            continue
        small += 1
        laws |= {n for n, law in LAWS.items() if law.probe is None and n not in laws and law.applies(case)}
        for name in (name for name in _OF_SLICES if LAWS[name].applies(case)):
            dims |= {(name, _dim(LawCheck(LAWS[name], 4 * small + key).told(case))) for key in range(4)}
        found = _told(op, dims, laws)
        if small >= 48 and found == expected and laws >= _ANYHOW:
            break
    assert laws >= _ANYHOW
    return found


def _told(op: Op, dims: set[tuple[str, str]], laws: set[str]) -> tuple[str, str]:
    told = [{"...": op.batch_name}.get(dim, dim) for dim in op.dimensions]
    further = [name for name in LAWS if name in laws - {*_ANYHOW, *_OF_SLICES}]
    return " ".join(dim for dim in told if all((name, dim) in dims for name in _OF_SLICES)), " ".join(further)


def _dim(told: str) -> str:
    """The dimension that a law's words name."""
    words = told.replace("slices of the ", "").replace("slices of ", "").split()
    return next(word for word in words if word not in ("some", "of", "the", "more"))


def _values(tensor: Tensor) -> NDArray[Any]:
    return from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).astype(np.float32)


def product(case: Case) -> Mapping[str, bytes]:
    """Sums in order, each step rounded to float32."""
    a, b = map(_values, case.inputs.values())
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    with np.errstate(all="ignore"):
        for at in range(a.shape[-1]):
            total = total + a[..., at, None] * b[..., at, None, :]
        return {"c": quantise(total.astype(np.float64), case.outputs["c"].dtype).tobytes()}


def _cases(turns: int) -> list[Case]:
    made = (each.case for batch in islice(batches(Search(LINEAR.name, 2)), turns) for each in batch)
    return [case for case in made if case.elements < 4096 and case.apart and "f64" not in case.dtypes]


@pytest.mark.whole
def test_a_correct_product_keeps_every_law() -> None:
    compared = Counter[str]()
    for case in _cases(20):
        outputs = product(case)
        for name in (
            name
            for name, law in LAWS.items()
            if law.probe is None and law.applies(case) and 0 not in case.outputs["c"].layout.shape
        ):
            check = LawCheck(LAWS[name], int(case.digest[:16], 16))
            twin = check.twin(case)
            check_case(twin)
            expected, leeway = check.expected(case, outputs), check.leeway(case, outputs)
            assert first_difference(twin.outputs, expected, product(twin), leeway) is None, (name, case)
            compared[f"{name} {_dim(check.told(case))}" if name in _OF_SLICES else name] += 1
    wanted = {f"{name} {dim}" for name in _OF_SLICES for dim in ("batch", "m", "n")}
    others = {name for name, law in LAWS.items() if law.probe is None}
    assert compared.keys() >= wanted | others - {*_OF_SLICES, "in_place"}, compared


SECRETS: Mapping[str, Callable[[tuple[int, ...]], bool]] = {
    "m": lambda shape: shape[-2] > 3,
    "n": lambda shape: shape[-1] > 3,
    "batch": lambda shape: int(np.prod(shape[:-2])) > 2,
}
"""What the last bit of a kernel depends on and must not: the number of slices along a dimension."""


@pytest.mark.some(1)
@pytest.mark.parametrize("dim", SECRETS)
def test_a_broken_law_is_told_by_the_name_of_its_dimension(dim: str) -> None:
    def dishonest(case: Case) -> Mapping[str, bytes]:
        output, found = case.outputs["c"], product(case)["c"]
        words = np.frombuffer(found, f"<u{ITEMSIZE[output.dtype]}")
        return {"c": (words ^ words.dtype.type(1)).tobytes() if SECRETS[dim](output.layout.shape) else found}

    told = Counter[str]()
    for case in _cases(12):
        for name in (name for name in ("batch_subset", "batch_append") if LAWS[name].applies(case)):
            check = LawCheck(LAWS[name], int(case.digest[:16], 16))
            twin, known = check.twin(case), dishonest(case)
            if first_difference(twin.outputs, check.expected(case, known), dishonest(twin)) is not None:
                told[check.told(case)] += 1
    assert told
    assert {_dim(each) for each in told} <= {dim}
    name = "the batch" if dim == "batch" else dim
    assert {*told} <= {f"some of the slices of {name} alone", f"more slices of {name} after the last one"}
