"""Extents that follow from others are read: rotary embeddings by halves and by pairs, packed tensors, parts written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fuzz.references.derive import Derived, derive
from fuzz.references.dims import UnreadableError
from fuzz.references.guard import drawn, value
from oracles.algorithm import traced
from oracles.check import check
from oracles.formula import trace as f
from oracles.formula.exact.centre import Inputs
from oracles.formula.made import grown, long
from oracles.formula.trace import FormulaError, Node, Outputs, trace
from oracles.op import Op
from oracles.operand import Operand, OpError
from oracles.tests.common.gradients import gradient


def halves(x, cos, sin):  # type: ignore[no-untyped-def]
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def chunks(x, cos, sin):  # type: ignore[no-untyped-def]
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def interleaved(x, cos, sin):  # type: ignore[no-untyped-def]
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1).flatten(-2)


def pairs(x, cos, sin):  # type: ignore[no-untyped-def]
    x1, x2 = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1).flatten(-2)


def in_numpy(x, cos, sin):  # type: ignore[no-untyped-def]
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return np.concatenate((x1 * cos - x2 * sin, x2 * cos + x1 * sin), axis=-1)


def written(x, cos, sin):  # type: ignore[no-untyped-def]
    y = np.empty_like(x)
    y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return y


def rotate_half(x: Any) -> Any:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def whole(x, cos, sin):  # type: ignore[no-untyped-def]
    return x * cos + rotate_half(x) * sin


def partial(x, cos, sin):  # type: ignore[no-untyped-def]
    turned = 2 * cos.shape[-1]
    x1, x2 = x[..., :turned].chunk(2, -1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin, x[..., turned:]), -1)


def with_a_rest(x: Any, cos: Any, sin: Any) -> Any:
    whole = x.shape[-1] // 2 * 2
    return torch.cat((halves(x[..., :whole], cos, sin), x[..., whole:]), -1)  # type: ignore[no-untyped-call]


def packed(x, wb):  # type: ignore[no-untyped-def]
    n = x.shape[-1]
    return x * wb[:n] + wb[n:]


def differences(x):  # type: ignore[no-untyped-def]
    return x[:, ::2] - x[:, 1::2]


def thirds(x):  # type: ignore[no-untyped-def]
    return x[:, ::3] - x[:, 1::3] + x[:, 2::3]


def appended(cache, new):  # type: ignore[no-untyped-def]
    found = cache.clone()
    found[:, cache.shape[1] - new.shape[1] :] = new
    found[:, 0] = 0.0
    return found


_ROPE = "x=... s d, cos=s h, sin=s h"
_READ: Mapping[Callable[..., Any], tuple[str, str]] = {
    halves: (_ROPE, "h = d / 2"),
    chunks: ("x=... s d, cos=s d/2, sin=s d/2", "d_half = d / 2"),
    interleaved: ("x=... s 2h, cos=s h, sin=s h", "h = h_twice / 2"),
    pairs: (_ROPE, "h = d / 2"),
    in_numpy: (_ROPE, "h = d / 2"),
    written: (_ROPE, "h = d / 2"),
    whole: ("x=... s d, cos=s d, sin=s d", ""),
    partial: (_ROPE, ""),
    with_a_rest: (_ROPE, "h = d / 2"),
    packed: ("x=m n, wb=k", "k = n * 2"),
    differences: ("x=m n", ""),
    thirds: ("x=m n", ""),
    appended: ("cache=b n, new=b m", ""),
}
_FOUND: dict[Callable[..., Any], Derived] = {}


def _read(reference: Callable[..., Any]) -> Derived:
    if reference not in _FOUND:
        _FOUND[reference] = derive(reference, _READ[reference][0])
    return _FOUND[reference]


@pytest.mark.some(6)
@pytest.mark.parametrize("reference", _READ, ids=lambda each: each.__name__)
def test_is_read_with_what_its_extents_have_to_do_with_each_other(reference: Callable[..., Any]) -> None:
    found, related = _read(reference), _READ[reference][1]
    assert (f", where {related}, " in found.said) if related else ", where " not in found.said
    check(found.op)
    given = {dim: 2 + 3 * at for at, dim in enumerate(reversed(found.op.named))} | {"...": 3, **found.op.least}
    arrays = drawn(found.op, grown(found.op.made, given), np.random.default_rng(5), ())
    in_order = [arrays[name] for name in found.called]
    theirs = reference(*(in_order if reference in (in_numpy, written) else map(torch.from_numpy, in_order)))
    [mine] = value(found.op, arrays).values()
    assert mine.shape == tuple(theirs.shape)
    assert np.allclose(mine, np.asarray(theirs), rtol=1e-12)


def test_an_input_is_as_long_as_its_formula_says() -> None:
    op = _read(halves).op
    assert (op.inner, op.further, {*op.made}) == (("s", "d"), (), {"h"})
    assert op.shape("cos", (5, 3, 8), 2) == (3, 4)
    assert op.possible_shapes("cos", (5, 3, 7), 2) == (), "no whole number is half of 7"
    assert '    h = f.position("h", f.extent("d") / 2.0)\n' in _read(halves).formula.text
    spread = '    spread = f.where(f.position("k", f.extent("n") * 2.0) >= 0.0, wb, 0.0)\n'
    assert spread in _read(packed).formula.text, "nothing else says how long it is"


def test_a_part_that_is_rotated_fits_in() -> None:
    """What is too long is shortened where a case is drawn, and not all else lengthened."""
    op = _read(partial).op
    assert op.whole({"...": 1, "s": 1, "d": 6, "h": 4}) is None
    assert long(op.made, {"...": 1, "s": 1, "d": 6, "h": 4}) == {"h"}
    assert long(op.made, {"...": 1, "s": 1, "d": 9, "h": 4}) == frozenset()


def packed_norm(x, wb):  # type: ignore[no-untyped-def]
    n = x.shape[-1]
    return torch.nn.functional.layer_norm(x, (n,), wb[:n], wb[n:])


def test_other_ways_and_gradients_have_such_extents_too() -> None:
    op = derive(packed_norm, "x=m n, wb=2n").op
    ways = {local: next(iter(known)) for local, known in op.algorithms.items()}
    graph = traced(op, [each.name for each in op.operands], ways)
    assert len(ways) == 3
    assert {*gradient(graph, "y", ["x", "wb"]).counts} == {"n_twice"}


def test_what_no_extents_fit_is_refused() -> None:
    with pytest.raises(UnreadableError, match="n_twice follows from n, and both are of one tensor"):
        derive(lambda x: x @ x, "x=n 2n")
    with pytest.raises(UnreadableError, match=r"it takes no x\[5, 11\], y\[13\]: RuntimeError"):
        derive(lambda x, y: x + torch.cat((y, y, y)), "x=m n, y=k")


def test_a_number_that_may_be_meant_as_an_extent_is_said() -> None:
    taps = lambda x, h, b: sum(h[k] * x[k : k + x.shape[-1] - 4] for k in range(5)) + b  # noqa: E731
    said = (
        r"h was taken as the number 5 and b was taken as the number 1: for a tensor of 5 elements write "
        r"'h=k, k=5'$"
    )
    with pytest.raises(UnreadableError, match=said):
        derive(taps, "x=t+4, h=5, b=1")
    with pytest.raises(UnreadableError, match=r"RuntimeError \(test_reference_relations.py line \d+\): [^;]*$"):
        derive(lambda x, by=2: x.reshape(3, by) * 0.5, "x=m n, by=3")


def test_a_relation_that_nothing_depends_on_holds_all_the_same() -> None:
    found = derive(lambda x: -x, "x=b 3h", name="minus")
    assert [n for n in range(1, 10) if found.op.whole({"b": 2, "h_times_3": n}) is not None] == [3, 6, 9]
    assert '    multiples={"h_times_3": 3},\n' in found.module
    assert not derive(lambda x: -x, "x=b h+1").op.multiples
    with pytest.raises(OpError, match="multiples: 'k' cannot be of 2"):
        replace(found.op, multiples={"k": 2})


@pytest.mark.parametrize(
    ("reference", "shapes", "multiple", "takes"),
    [
        (lambda x: -x, "x=b 2h+1", (2, 1), [1, 3, 5, 7, 9]),
        (lambda x: -x, "x=b 3h-1", (3, -1), [2, 5, 8]),
        (lambda x: x.sum(-1), "x=b h+3", (1, 3), [3, 4, 5, 6, 7, 8, 9]),
        (lambda x: x[..., x.shape[-1] // 2], "x=b 2h+1", (2, 1), [1, 3, 5, 7, 9]),
        (lambda x, y: x[..., 1:] * y, "x=b 2h+1, y=b 2h", (2, 1), [3, 5, 7, 9]),
        (lambda x: x[..., x.shape[-1] // 2], "x=b 2h", 2, [2, 4, 6, 8]),
    ],
)
def test_an_extent_may_be_more_or_less_than_a_multiple(
    reference: Any, shapes: str, multiple: object, takes: list[int]
) -> None:
    found = derive(reference, shapes, name="odd")
    [(dim, known)] = found.op.multiples.items()
    assert known == multiple
    assert [n for n in range(1, 10) if found.op.whole({"b": 2, dim: n}) is not None] == takes
    assert f'    multiples={{"{dim}": {multiple}}},\n' in found.module


def test_extents_that_cannot_be_read_are_one_line() -> None:
    with pytest.raises(UnreadableError, match="how long part is, which it makes on the way, follows from no tensor's"):
        derive(lambda x, y: x * y.repeat_interleave(2, -1).cumsum(-1)[..., : x.shape[-1]], "x=b 2h+1, y=b h+1")
    with pytest.raises(UnreadableError, match=r"'h\*2' is no name .* such as 2h, d/2, n\+1 or 2h-1: a factor, "):
        derive(lambda x: -x, "x=b h*2")


def test_a_rest_that_is_always_empty_is_no_output() -> None:
    def in_parts(x: Any, cos: Any, sin: Any) -> Any:
        return with_a_rest(x, cos, sin), x[..., 2 * cos.shape[-1] :] * cos[..., :1]

    with pytest.raises(UnreadableError, match="what it makes has no elements along some dimension"):
        derive(in_parts, "x=... s d, cos=s d/2, sin=s d/2")


def test_an_op_says_of_its_first_input_alone_what_others_follow_from() -> None:
    def turned(x: Node, w: Node) -> Outputs:
        return {"y": f.take(x, f.position("n", 2.0 * f.extent("h")), "n") * f.total(w, "h")}

    with pytest.raises(OpError, match="turned: 'n' follows from others, and its first input has it"):
        _ = Op(turned, (Operand("x", "m n"), Operand("w", "h")), (Operand("y", "m n"),)).made


def test_an_extent_that_never_changes_stands_beside_the_tensors() -> None:
    def causal(x: Any, w: Any) -> Any:
        return torch.conv1d(torch.nn.functional.pad(x, (3, 0)), w[:, None], groups=x.shape[1])

    assert derive(causal, "x=b c t, w=c k, k=4").op.fixed == {"k": 4}
    with pytest.raises(UnreadableError, match="it has no parameter 'm'"):
        derive(causal, "x=b c t, w=c k, m=4")


def test_extents_follow_from_those_of_a_tensor_of_floats() -> None:
    def scaled(q: Any, scale: Any) -> Any:
        return (q.unflatten(-1, (-1, 32)).float() * scale[..., None]).flatten(-2)

    found = derive(scaled, "q=b 32g, scale=b g", dtypes={"q": "int8"})
    assert [(each.name, each.dims) for each in found.op.inputs] == [("scale", "b g"), ("q", "b g_times_32")]
    assert "where g_times_32 = g * 32" in found.said


def test_values_of_other_extents_are_refused() -> None:
    def half(x: Node, w: Node) -> Outputs:
        return {"y": f.take(x, f.position("h", f.extent("n") / 2.0), "n") * w}

    graph = trace(half, {"x": ("n",), "w": ("h",)})
    assert graph.dims == ("n", "h")
    assert graph.meeting == {"n", "h"}
    assert Inputs(graph, {"x": np.ones(6), "w": np.ones(3)}, {}).extents == {"n": 6, "h": 3}
    with pytest.raises(FormulaError, match="'h' is 4 long, where 3 follow from the others"):
        _ = Inputs(graph, {"x": np.ones(6), "w": np.ones(4)}, {}).extents


@pytest.mark.parametrize(("reference", "step"), [(differences, 2), (thirds, 3)])
def test_extents_that_a_reference_raises_for_are_none_of_its_op(reference: Callable[..., Any], step: int) -> None:
    """Torch would stretch a part of one element, as of three by twos: such are not drawn either."""
    op = _read(reference).op
    assert [n for n in range(1, 13) if op.whole({"m": 2, "n": n}) is not None] == [*range(step, 13, step)]
