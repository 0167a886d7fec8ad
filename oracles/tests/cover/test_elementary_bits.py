"""Elementary functions give the same bits everywhere: in any array, and on every processor."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

from oracles.doubledouble import F64, DoubleDouble, Real, head
from oracles.elementary import elementwise, tables
from oracles.elementary.function import Elementary
from oracles.elementary.functions import NAMES, function
from oracles.tests.common.elementary import ARITHMETICS, Arithmetic, applied, arguments, called, every_function

every_arithmetic = pytest.mark.parametrize("arithmetic", ARITHMETICS)


@pytest.mark.some(14)
@every_function
@every_arithmetic
def test_elements_do_not_depend_on_their_neighbours(of: Elementary, arithmetic: Arithmetic) -> None:
    """In any shape, of any strides, and beside whatever else is in the array."""
    x = np.resize(np.abs(arguments(of, 900, 2)), 5000)
    whole = head(called(of, arithmetic, x))
    assert np.array_equal(head(called(of, arithmetic, x.reshape(20, 250)[:, ::5])), whole.reshape(20, 250)[:, ::5])
    assert np.array_equal(head(called(of, arithmetic, x[::-7])), whole[::-7])
    few = np.array([head(called(of, arithmetic, x[k])) for k in range(0, 5000, 251)])
    assert few.shape == (20,)
    assert np.array_equal(few, whole[::251])
    assert head(called(of, arithmetic, np.zeros((3, 0)))).shape == (3, 0)


def test_scaling_rounds_once_whatever_stands_beside() -> None:
    """Also where a result is subnormal: half of the way at a time would round twice."""
    number = np.arange(3000)
    x, exponent = np.ldexp(1 + (number * 7919 % 4096) * 2.0**-12 + 2.0**-52, number % 50 - 1022), -(number % 61)
    alone = elementwise.scaled(x, exponent)
    beside = elementwise.scaled(np.append(x, 1.0), np.append(exponent, -1060))
    assert np.array_equal(alone, beside[:-1])
    assert alone.tolist() == [math.ldexp(*pair) for pair in zip(x.tolist(), exponent.tolist(), strict=True)]


def fixed_arguments() -> F64:
    """Bit patterns of all kinds (Steele and Vigna's splitmix64) and numbers of ordinary size, by integers only."""
    with np.errstate(over="ignore"):
        z = np.arange(1, 20_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    counted = (z >> np.uint64(11)).astype(np.float64)
    return np.concatenate(
        [z.view(np.float64), counted * 2.0**-53, counted * 2.0**-49 - 8.0, counted * 2.0**-43 - 512.0]
    )


DIGESTS: dict[tuple[Arithmetic, str], str] = {
    ("float64", "exp"): "0128b5331285e442",
    ("float64", "log"): "35505f320481cb0a",
    ("float64", "tanh"): "8490a5fcce48290b",
    ("float64", "sigmoid"): "0bae48e8fda39539",
    ("float64", "binade"): "dc08aa2b49b756af",
    ("float64", "erf"): "b2941763c9bbf1ae",
    ("float64", "sin"): "e3634afd1e8f2612",
    ("float64", "cos"): "1e42cd41e0ee2c2b",
    ("float64", "sqrt"): "608b60d213a188d8",
    ("float64", "rsqrt"): "71702445043dee2b",
    ("float64", "abs"): "ac0050456264ea95",
    ("float64", "atan"): "5da03d1266e363fa",
    ("float64", "exp2"): "3b296d442aeb8839",
    ("float64", "expm1"): "ef4a0a5943d14b56",
    ("float64", "floor"): "90cf2b4603751952",
    ("float64", "log1p"): "be7f001bb1f9523b",
    ("float64", "log2"): "5e158c1288286fdb",
    ("float64", "round"): "9946cd4872532ebb",
    ("float64", "sign"): "704508c048713743",
    ("float64", "softplus"): "bb7b5956749fee9c",
    ("float64", "tgamma"): "b73e73dd52c6951d",
    ("float64", "lgamma"): "359e7917b9c89a69",
    ("float64", "erfc"): "1c291a16c4b83fed",
    ("float64", "cbrt"): "56b5baf4c2c5e307",
    ("float64", "log10"): "954cdd9c5a3dd807",
    ("float64", "exp10"): "09efd8637b3bae5f",
    ("float64", "atanh"): "162f60960f17a65a",
    ("float64", "acosh"): "a5f5168e1c8a528f",
    ("float64", "asinh"): "82dd86644ebf594e",
    ("float64", "cosh"): "7d3418a6b72aad9d",
    ("float64", "sinh"): "879ba637866739c5",
    ("float64", "acos"): "b04cf2f3e36392d2",
    ("float64", "asin"): "0fa78e1f6dc17d69",
    ("float64", "tan"): "ba18893de4af061d",
    ("double", "exp"): "061f6177d5994ef1",
    ("double", "log"): "00096d3bcb61b9bc",
    ("double", "tanh"): "fd2381ca2e64bcbf",
    ("double", "sigmoid"): "09ad7c963acfd408",
    ("double", "binade"): "d4c83312122cf683",
    ("double", "erf"): "096f7fdf21a1be74",
    ("double", "sin"): "d60b80cc491a9a74",
    ("double", "cos"): "48f7903ffb5f3b84",
    ("double", "sqrt"): "86fe77763d4703c0",
    ("double", "rsqrt"): "2b7f8c485d2d343c",
    ("double", "abs"): "4c3c57cc2b047d6d",
    ("double", "atan"): "5aef9ad1d44ece02",
    ("double", "exp2"): "acf08b87e073838b",
    ("double", "expm1"): "e461246acb308492",
    ("double", "floor"): "0d8190ec4508c2e4",
    ("double", "log1p"): "427a2bfb7a22aa6c",
    ("double", "log2"): "c0c71b8a66fa3dd7",
    ("double", "round"): "e3ae7caa168e772e",
    ("double", "sign"): "277dd13ae981ca0c",
    ("double", "softplus"): "15412e3a3fd74874",
    ("double", "tgamma"): "3447d48d2c10e4f8",
    ("double", "lgamma"): "b71b20f0940d2300",
    ("double", "erfc"): "4de00e383eae13b4",
    ("double", "cbrt"): "aa6542fe832d90c9",
    ("double", "log10"): "40656c82085bd38b",
    ("double", "exp10"): "981b1fa482979b03",
    ("double", "atanh"): "73bb746469c6f275",
    ("double", "acosh"): "5c3fed13a3cff977",
    ("double", "asinh"): "f4477e76c0813d2c",
    ("double", "cosh"): "00def42e5e981f17",
    ("double", "sinh"): "0a76aef5cd3ecb60",
    ("double", "acos"): "13a85c33e5d245a5",
    ("double", "asin"): "f02b59b00c13e79b",
    ("double", "tan"): "4794cb626dc294fc",
}
"""The first 16 digits of SHA-256 of the results, as little-endian float64, high parts before low ones."""


@pytest.mark.some(20)
@pytest.mark.parametrize(("arithmetic", "name"), DIGESTS)
def test_every_processor_gives_the_same_bits(name: str, arithmetic: Arithmetic) -> None:
    assert digest(name, arithmetic) == DIGESTS[arithmetic, name]


def digest(name: str, arithmetic: Arithmetic) -> str:
    """Return the digest of the results at `fixed_arguments`, with low parts for double-double."""
    x = fixed_arguments()
    with np.errstate(all="ignore"):
        low = np.where(np.isfinite(x), x * np.roll(x, 1).view(np.int64) * 2.0**-118, 0.0)
        total = x + low
        value: Real = x if arithmetic == "float64" else DoubleDouble(total, low - (total - x))
    result = applied(function(name), value)
    parts = [result.high, result.low] if isinstance(result, DoubleDouble) else [result]
    return hashlib.sha256(b"".join(part.astype("<f8").tobytes() for part in parts)).hexdigest()[:16]


ALLOWED = {
    "abs", "array", "asarray", "ascontiguousarray", "bool_", "clip", "copysign", "empty_like", "errstate", "float64",
    "floor", "full", "full_like", "inf", "int64", "isfinite", "isinf", "isnan", "ldexp", "maximum", "minimum", "nan",
    "ones", "ones_like", "rint", "shape", "sign", "sqrt", "where", "zeros", "zeros_like",
}  # fmt: skip
"""What is used of NumPy: what IEEE 754 or integers fix to the bit. `ldexp` makes tables only, of normal numbers."""

FILES = [import_module(f"oracles.elementary.functions.{name}") for name in NAMES]
BOUNDS_ALONE = ("tangent", "farthest", "strays", "apart")
"""What a file says of slopes is a bound, whose last bits decide nothing."""


def calculated(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what values are made of: all functions, and of the record the fields of values."""
    for each in ast.iter_child_nodes(tree):
        is_bound = isinstance(each, ast.FunctionDef) and each.name in BOUNDS_ALONE
        is_field = isinstance(each, ast.keyword) and each.arg not in ("float64", "double", None)
        if not is_bound and not is_field:
            yield each
            yield from calculated(each)


@pytest.mark.parametrize("module", [elementwise, tables, *FILES], ids=lambda module: module.__name__.rpartition(".")[2])
def test_nothing_is_called_that_a_processor_has_its_own_of(module: object) -> None:
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    used = {
        node.attr
        for node in calculated(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    }
    assert used <= ALLOWED


def test_naming_functions_loads_neither_numpy_nor_mpmath() -> None:
    code = (
        "import sys, fuzz.formula as f; f.exp(1.0); sys.exit(any(each in sys.modules for each in ('numpy', 'mpmath')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
