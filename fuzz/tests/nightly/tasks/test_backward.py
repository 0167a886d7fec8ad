"""Right backwards of torch are accused in none of 300 cases, and three wrong ones of each are caught."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

import fuzz

F = torch.nn.functional
Tensors = Mapping[str, Any]


pytestmark = pytest.mark.usefixtures("quick_checks")


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def rms_norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def gelu(x: Any) -> Any:
    return F.gelu(x)


def silu_mul(x: Any, g: Any) -> Any:
    return F.silu(x) * g


def cross_entropy(x: Any, t: Any) -> Any:
    return F.cross_entropy(x, t, reduction="none")


def matmul(x: Any, w: Any) -> Any:
    return x @ w


def conv1d(x: Any, w: Any, b: Any) -> Any:
    return F.conv1d(x, w, b, padding=1)


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def embedding(table: Any, t: Any) -> Any:
    return F.embedding(t, table)


REFERENCES: Mapping[Callable[..., Any], str] = {
    softmax: "x=... n", rms_norm: "x=... n, w=n", layer_norm: "x=... n, w=n, b=n", gelu: "x=... n",
    silu_mul: "x=... n, g=... n", cross_entropy: "x=b n, t=b", matmul: "x=m k, w=k n",
    conv1d: "x=b c n, w=m c k, b=m", attention: "q=b h i d, k=b h j d, v=b h j d", embedding: "table=v d, t=n",
}  # fmt: skip


def _made(name: str, reference: Callable[..., Any], changed: Callable[[Tensors, Sequence[Any]], Any]) -> Any:
    """A kernel with the parameters of a gradient, which changes what torch returns in f32."""
    gradient = fuzz.backward(reference)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(gradient).bind(*args, **kwargs).arguments
        return changed(given, [each.contiguous() for each in gradient(**given).values()])

    kernel.__name__ = name
    parameters = inspect.signature(gradient).parameters.values()
    plain = [each.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in parameters]
    kernel.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]
    return kernel


def _check(reference: Callable[..., Any], kernel: Any, cases: int = 300) -> None:
    fuzz.check(
        kernel, reference=fuzz.backward(reference), shapes=REFERENCES[reference], max_cases=cases, seed=1,
        fixed={"k": 3} if reference is conv1d else None,
    )  # fmt: skip


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda each: each.__name__)
def test_the_backward_of_torch_itself_is_right(reference: Callable[..., Any]) -> None:
    _check(reference, _made("eager", reference, lambda _, found: tuple(found)))


def _coarse(given: Tensors, found: Sequence[Any]) -> Any:
    """Gradients rounded to 11 bits on the way, as by products of tf32."""
    first = (found[0].double() * (1 + 2.0**12) - found[0].double() * 2.0**12).float()
    return (first.bfloat16().float() * 2.0**-3 + found[0] * (1 - 2.0**-3), *found[1:])


def _tail(given: Tensors, found: Sequence[Any]) -> Any:
    """What four do not divide of a row is left as it was."""
    first = found[0].clone()
    n = first.shape[-1]
    first[..., n - n % 4 :] = 0.0
    return (first, *found[1:])


def _unscaled(given: Tensors, found: Sequence[Any]) -> Any:
    """The gradient that is given is taken for ones where it is negative."""
    [name] = [name for name in given if name.startswith("d")]
    wrong = torch.where(given[name] < 0, 1.0, given[name])
    scale = float((given[name] - wrong).abs().amax()) if given[name].numel() else 0.0
    return (found[0] + min(scale, 1.0) * 2.0**-10 * found[0].abs().amax(), *found[1:])


@pytest.mark.parametrize("wrong", [_coarse, _tail, _unscaled], ids=["coarse", "tail", "unscaled"])
@pytest.mark.parametrize("reference", REFERENCES, ids=lambda each: each.__name__)
def test_what_is_not_it_is_caught(reference: Callable[..., Any], wrong: Any) -> None:
    with pytest.raises(fuzz.CheckFailed, match="FAIL  wrong"):
        _check(reference, _made("wrong", reference, wrong), 100)


def _no_projection(given: Tensors, found: Sequence[Any]) -> Any:
    """The sum over the row that a softmax shares is forgotten."""
    y = torch.softmax(given["x"], -1)
    return y * given["dy"]


def _sum_once(given: Tensors, found: Sequence[Any]) -> Any:
    """Rows that go to one place are not summed: the last one counts."""
    wrong = torch.zeros_like(given["table"])
    wrong[given["t"]] = given["dy"]
    return wrong


@pytest.mark.parametrize(
    ("reference", "wrong"), [(softmax, _no_projection), (embedding, _sum_once)], ids=["softmax", "embedding"]
)
def test_what_forgets_that_elements_meet_is_caught(reference: Callable[..., Any], wrong: Any) -> None:
    with pytest.raises(fuzz.CheckFailed, match="FAIL  wrong"):
        _check(reference, _made("wrong", reference, wrong), 100)
