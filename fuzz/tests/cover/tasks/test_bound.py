"""What right kernels may return for given inputs, and the assertion that an output is right."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import special

import fuzz
from fuzz import CheckError, CheckFailed, assert_right, bound


def rms_norm(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def largest(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.amax(-1), x.argmax(-1)


def _normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_what_a_right_kernel_returns_is_within_and_a_value_beyond_an_end_is_not(dtype: torch.dtype) -> None:
    x, w = _normal(3, 40, dtype=dtype), _normal(40, dtype=dtype)
    found = bound(rms_norm, (x, w))
    assert isinstance(found, fuzz.OutputBound)
    right = rms_norm(x.double(), w.double()).to(dtype)
    assert found.allows(right).all()
    assert_right(right, rms_norm, {"x": x, "w": w})
    for end, way in ((found.high, torch.inf), (found.low, -torch.inf)):
        beyond = torch.nextafter(end.to(dtype), torch.tensor(way, dtype=dtype))
        assert not found.allows(beyond).any()
        wrong = right.clone()
        wrong[1, 7] = beyond[1, 7]
        with pytest.raises(CheckFailed, match=r"y\[1, 7\] = .*; 1 of 120 elements wrong"):
            assert_right(wrong, rms_norm, (x, w))


def test_the_exact_value_has_a_tail_beyond_float64() -> None:
    x = np.array([[0.1, 0.7, 1e-9]], np.float64)
    found = bound(lambda x: x.sum(-1), x)
    with mpmath.workprec(200):
        exact = mpmath.mpf(0.1) + mpmath.mpf(0.7) + mpmath.mpf(1e-9)
        assert abs(mpmath.mpf(float(found.exact[0])) + mpmath.mpf(float(found.tail[0])) - exact) < 1e-28
    assert found.low[0] < found.exact[0] < found.high[0]


def test_random_values_bring_a_bound_that_grows_with_the_square_root() -> None:
    a, b = _normal(4, 1024), _normal(1024, 4)
    worst, usual = bound(product, (a, b)), bound(product, (a, b), random=True)
    shares = (worst.high - worst.low) / (usual.high - usual.low)
    assert usual.allows(a @ b).all()
    assert 2 < shares.median() < 32


def test_an_output_is_judged_in_its_own_dtype() -> None:
    a, b = _normal(4, 64, dtype=torch.bfloat16), _normal(64, 4, dtype=torch.bfloat16)
    wide = a.float() @ b.float()
    assert_right(wide, product, (a, b))
    with pytest.raises(CheckFailed):
        assert_right(wide.bfloat16().float(), product, (a, b))
    assert_right(wide.bfloat16(), product, (a, b))
    assert bound(product, (a, b), dtype="f32").allows(wide).all()


def test_a_number_of_f64_is_told_in_all_its_digits() -> None:
    x = torch.tensor([1.25], dtype=torch.float64)
    with pytest.raises(AssertionError, match=r"= 3\.4903429574618\d+, must be 3\.4903429574618\d+ \(or"):
        fuzz.assert_right(torch.exp(x) * (1 + 1e-14), torch.exp, (x,))


def test_a_contract_is_held_where_it_is_given() -> None:
    x = np.linspace(0.5, 3.0, 50, dtype=np.float32)
    wide, narrow = bound(np.exp, x), bound(np.exp, x, {"accuracy": {"exp": 0.5}})
    assert ((narrow.high - narrow.low) < (wide.high - wide.low)).any()
    with pytest.raises(CheckError, match="'speed' is not in a contract"):
        bound(np.exp, x, {"speed": 1})


def test_special_values_are_judged_where_that_is_asked() -> None:
    x = np.array([-1.0, 4.0], np.float32)
    asked, plain = bound(np.sqrt, x, values="any"), bound(np.sqrt, x)
    assert asked.nan.tolist() == [True, False]
    assert asked.open.tolist() == [False, False]
    assert asked.allows(np.array([np.nan, 2.0], np.float32)).all()
    assert not asked.allows(np.array([0.0, np.nan], np.float32)).any()
    assert plain.allows(np.array([0.0, 2.0], np.float32)).all()


def test_a_function_whose_parameters_have_no_names_takes_them_in_order() -> None:
    x, y = np.array([1.0, 5.0], np.float32), np.array([2.0, 3.0], np.float32)
    assert bound(np.maximum, (x, y)).exact.tolist() == [2.0, 5.0]


def test_several_outputs_come_as_several_and_places_by_the_assertion_alone() -> None:
    x = _normal(4, 9)
    values, places = largest(x)
    assert_right((values, places), largest, (x,))
    with pytest.raises(CheckFailed, match=r"y1\[0\] = .*, must be"):
        assert_right((values, (places + 1) % 9), largest, (x,))
    with pytest.raises(CheckError, match="say which output: output='y0' or 'y1'"):
        bound(largest, x)
    assert bound(largest, x, output="y0").allows(values).all()
    with pytest.raises(CheckError, match=r"y1 is of places.*assert_right"):
        bound(largest, x, output="y1")
    with pytest.raises(CheckError, match="2 outputs, y0, y1, and the output is 1 array"):
        assert_right(values, largest, (x,))


@pytest.mark.parametrize(
    ("output", "inputs", "said"),
    [
        (torch.zeros(2, 4, dtype=torch.complex64), (torch.ones(2, 4), torch.ones(4)), "its dtype is torch.complex64"),
        (torch.zeros(2, 4), (torch.ones(2, 4), torch.ones(3)), "reference rms_norm cannot be read"),
        (torch.zeros(2, 4), (torch.ones(2, 4),), "rms_norm"),
    ],
)
def test_what_does_not_fit_is_one_plain_error(output: Any, inputs: Any, said: str) -> None:
    with pytest.raises(CheckError, match=said):
        assert_right(output, rms_norm, inputs)


@pytest.mark.parametrize("output", [torch.zeros(2, 3), torch.zeros(1, 2, 4), torch.zeros(())])
def test_an_output_of_another_shape_is_wrong(output: torch.Tensor) -> None:
    with pytest.raises(CheckFailed, match=r"y: shape \(.*\), must be \(2, 4\)"):
        assert_right(output, rms_norm, (torch.ones(2, 4), torch.ones(4)))


def test_the_bound_of_a_number_has_the_shape_of_the_output() -> None:
    assert bound(lambda x: x.sum(), torch.ones(3, 4)).low.shape == ()


@pytest.mark.parametrize(
    ("inputs", "options", "said"),
    [
        ((torch.ones(3), torch.ones(3)), {}, "inputs are 2, and the reference takes 1"),
        (([1.0, 2.0],), {}, "make arrays of lists"),
        ((torch.ones(3),), {"values": "some"}, "values='some': it must be 'finite' or 'any'"),
        ((torch.ones(3),), {"contract": "strict"}, "contract='strict': it must be a fuzz.Contract or a dict"),
        ((torch.ones(3),), {"contract": {"compute": "bf17"}}, "unknown dtype 'bf17'"),
        ((torch.ones(3),), {"dtype": "bf17"}, "unknown dtype 'bf17'"),
    ],
)
def test_what_is_asked_wrongly_is_one_plain_error(inputs: Any, options: Any, said: str) -> None:
    with pytest.raises(CheckError, match=said):
        bound(lambda x: x.exp(), inputs, **options)


def test_an_output_of_another_shape_is_not_spread_over_the_bound() -> None:
    with pytest.raises(CheckError, match=r"shape is \(4,\), and must be \(2, 4\)"):
        bound(np.negative, np.ones((2, 4), np.float32)).allows(-np.ones(4, np.float32))


def test_without_torch_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*given: Any, **named: Any) -> Any:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("fuzz.tasks.bound.derive", missing)
    with pytest.raises(CheckError, match=r"read with torch: .*pip install"):
        bound(np.negative, np.ones(3, np.float32))


@pytest.mark.parametrize("layer", [torch.nn.Linear(32, 16), torch.nn.LayerNorm(32)], ids=["Linear", "LayerNorm"])
def test_a_layer_is_judged_with_the_weights_and_the_extents_that_it_has(layer: torch.nn.Module) -> None:
    """Both were refused, as they take no 11 elements in a row."""
    x = _normal(4, 32)
    right = layer(x).detach()
    assert_right(right, layer, x)
    right[2, 5] += 1e-3
    with pytest.raises(CheckFailed, match=r"y\[2, 5\] = .*; 1 of \d+ elements wrong"):
        assert_right(right, layer, {"input": x})


@pytest.mark.parametrize("inputs", [(torch.tensor(3.0), torch.tensor(0.5)), {"x": np.array(3.0), "y": np.array(0.5)}])
def test_inputs_without_dimensions_are_judged_as_they_are(inputs: Any) -> None:
    """They were refused, as an op has dimensions."""

    def times(x: Any, y: Any) -> Any:
        return x * y

    found = bound(times, inputs)
    assert found.exact.shape == ()
    assert float(found.exact) == 1.5
    assert_right(found.exact, times, inputs)
    with pytest.raises(CheckFailed, match=r"1\.51, must be 1\.5"):
        assert_right(found.exact * 0 + 1.51, times, inputs)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "shapes"),
    [
        (lambda x, y: x + y, [(5, 5), (5, 1)]),
        (lambda x, y: x + y, [(1, 5), (5, 5)]),
        (lambda x, y, z: torch.addcmul(x, y, z), [(5, 5, 5), (5, 5, 5), (5, 5, 5)]),
        (torch.baddbmm, [(1,), (4, 4, 4), (4, 4, 6)]),
    ],
    ids=["column", "row", "cubes", "square matrices"],
)
def test_tensors_with_equal_extents_are_read(reference: Any, shapes: Any) -> None:
    """A row or a column beside a square matrix met an internal error, and more than six equal axes were refused."""
    inputs = [_normal(*shape) for shape in shapes]
    right = reference(*inputs)
    assert_right(right, reference, inputs)
    right[(-1,) * right.ndim] += 1e-2
    with pytest.raises(CheckFailed, match="must be"):
        assert_right(right, reference, inputs)


def test_a_number_of_jax_is_judged_as_one_of_numpy_is() -> None:
    import jax.numpy as jnp

    x = jnp.float32(0.3)
    assert_right(jnp.exp(x), lambda x: jnp.exp(x), (x,))
    with pytest.raises(CheckFailed):
        assert_right(jnp.exp(x) * jnp.float32(1.001), lambda x: jnp.exp(x), (x,))


def test_functions_of_scipy_are_read_as_torch_has_them() -> None:
    x = np.linspace(0.1, 0.9, 5)
    references: list[Any] = [lambda x: special.erf(x), lambda x: special.expit(x), lambda x: special.xlogy(x, 2.0)]
    for reference in references:
        assert_right(reference(x), reference, (x,))
        with pytest.raises(CheckFailed):
            assert_right(reference(x) * (1 + 1e-12), reference, (x,))


def test_a_correction_is_what_numpy_called_ddof() -> None:
    x = np.linspace(0.1, 2.5, 12, dtype=np.float32).reshape(3, 4)
    assert_right(np.std(x, axis=1, correction=1), lambda x: np.std(x, axis=1, correction=1), (x,))
    with pytest.raises(CheckFailed):
        assert_right(np.var(x, axis=1), lambda x: np.var(x, axis=1, correction=1), (x,))


def test_a_gradient_is_judged_with_the_given_gradient_of_the_output() -> None:
    """The gradient of the output was taken for an input of the function itself, and refused."""
    gradients = fuzz.backward(rms_norm)
    x, w, dy = _normal(3, 8), _normal(8), _normal(3, 8)
    found = gradients(x, w, dy=dy)
    assert_right(found, gradients, (x, w, 1e-6, dy))
    assert_right(found, gradients, {"x": x, "w": w, "dy": dy})
    with pytest.raises(CheckFailed, match=r"dw\[\d\] = .*, must be"):
        assert_right({**found, "dw": found["dw"] * 1.001}, gradients, {"x": x, "w": w, "dy": dy})


def test_a_function_that_treats_one_element_differently_is_refused_for_equal_extents_too() -> None:
    """It was read for extents that are never one, if several are equal, and its own result was called wrong."""
    x = _normal(5, 1, 5, 1)
    with pytest.raises(CheckError, match="squeeze cannot be read: y has the shape"):
        assert_right(torch.squeeze(x), torch.squeeze, x)
