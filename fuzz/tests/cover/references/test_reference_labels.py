"""Labels are compared with numbers, and cut: one that is no place is drawn where the reference tells it from others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from fuzz.references.backward import backward
from fuzz.references.derive import derive
from fuzz.references.dims import UnreadableError


def masked(x: Any, label: Any) -> Any:
    keep = label != -100
    loss = x.logsumexp(-1) - x.gather(-1, label.clamp(min=0)[:, None])[:, 0]
    return (loss * keep).sum() / keep.sum()


def filled(x: Any, label: Any) -> Any:
    keep = label >= 0
    return x.gather(1, label.masked_fill(~keep, 0)[:, None])[:, 0].masked_fill(~keep, 0.0)


def unguarded(x: Any, label: Any) -> Any:
    """It raises of -1."""
    return torch.where(label == -1, 0.0, x.gather(1, label[:, None])[:, 0])


def padded(x: Any, label: Any) -> Any:
    return x.gather(1, label[:, None])[:, 0] * (label != 0)


def ignoring(x: Any, label: Any) -> Any:
    return functional.cross_entropy(x, label, ignore_index=-1)


def first(x: Any, label: Any) -> Any:
    return functional.cross_entropy(x, label, ignore_index=0)


IGNORED, LOSS = -100, torch.nn.CrossEntropyLoss()


def named(x: Any, label: Any) -> Any:
    return functional.cross_entropy(x, label, ignore_index=IGNORED)


def usual(x: Any, label: Any) -> Any:
    return functional.cross_entropy(x, label)


def smoothing(x: Any, label: Any) -> Any:
    return functional.cross_entropy(x, label, label_smoothing=0.1)


def smoothing_but(x: Any, label: Any) -> Any:
    return functional.cross_entropy(x, label, label_smoothing=0.1) * (label != -100)


def of_module(x: Any, label: Any) -> Any:
    return LOSS(x, label)


def hot(x: Any, label: Any) -> Any:
    return torch.where(torch.arange(x.shape[1]) == label[:, None], x, 0.0).sum(-1)


def only_compared(x: Any, label: Any) -> Any:
    return x * (label != -100)[:, None]


@pytest.mark.some(7)
@pytest.mark.parametrize(
    ("reference", "words", "missing"),
    [
        (masked, "f.where(keep, 1.0, 0.0)", -100),
        (filled, 'f.take(x, f.where(mask, 0.0, label), "n")', -1),
        (unguarded, 'f.where(label == -1.0, 0.0, f.take(x, label, "n"))', None),
        (padded, "f.where(label != 0.0, 1.0, 0.0)", None),
        (ignoring, "mask = label != -1.0", -1),
        (first, "mask = label != 0.0", None),
        (usual, "f.avg(", None),
        (named, "mask = label != -100.0", -100),
        (of_module, "f.avg(", None),
        (smoothing, "f.avg(", None),
        (smoothing_but, "mask = label != -100.0", -100),
        (hot, 'f.where(f.position("n") == label, x, 0.0)', None),
        (only_compared, "label != -100.0", -100),
        (backward(ignoring), "mask = label != -1.0", -1),
        (backward(named), "mask = label != -100.0", -100),
    ],
)
def test_labels_are_told_apart(reference: Callable[..., Any], words: str, missing: int | None) -> None:
    found = derive(reference, {"x": "b n", "label": "b"}, dtypes={"label": "int64"})
    label = found.op.operand("label")
    assert words in found.formula.text
    assert (label.index, label.missing) == ("n", missing)
    assert missing is None or f'index="n", missing={missing}' in found.module
    says = "label never -100: name ignore_index=-100" in found.said
    assert says == (words == "f.avg("), "what torch leaves out by itself few kernels know"


def next_ones(x: Any, label: Any) -> Any:
    return x[:, :-1].gather(-1, label[:, 1:, None])[..., 0]


def test_labels_are_cut_as_other_tensors_are() -> None:
    assert 'f.take(label, y_axis1 + 1.0, "s")' in derive(next_ones, "x=b s n, label=b s").formula.text


def both_ways(x: Any, w: Any) -> Any:
    """Each row of x belongs to the row of w of the same index, and the other way round."""
    scores, labels = x @ w.T, torch.arange(x.shape[0])
    return functional.cross_entropy(scores, labels) + functional.cross_entropy(scores.T, labels)


def test_labels_of_a_transpose_are_places_of_its_own_rows() -> None:
    assert 'f.take(log_softmax2, b_copy, "b")' in derive(both_ways, "x=b n, w=b n").formula.text


def added(x: Any, label: Any) -> Any:
    return x + label[:, None]


def test_numbers_of_64_bits_are_refused_with_the_line_where_they_are_such() -> None:
    with pytest.raises(UnreadableError, match=r"aten.add \(.* line \d+\) calculates with 'label', which is of int64"):
        derive(added, {"x": "b n", "label": "b"}, dtypes={"label": "int64"})


def _counted(ids: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """The expert of each block of 4 rows, and -1 behind the last one."""
    count = (ids[:, None] == torch.arange(4)).sum(0)
    owner = (torch.ceil(count / 4).cumsum(0)[None, :] <= torch.arange(block.shape[0])[:, None]).sum(1)
    return torch.where(owner < 4, owner, -1).to(torch.int32)


def _padded(x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(torch.arange(x.shape[1])[None] >= length[:, None], 0.0)


def _labelled(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.where((labels == 1)[:, None], x, -x)


@pytest.mark.parametrize(
    ("reference", "shapes", "name", "index"),
    [(_counted, "ids=t, block=n", "ids", "part"), (_padded, "x=b n, length=b", "length", "n"),
     (_labelled, "x=b n, labels=b", "labels", "n")],
)  # fmt: skip
def test_what_is_only_compared_with_places_or_is_called_labels_is_of_integers(
    reference: Callable[..., torch.Tensor], shapes: str, name: str, index: str
) -> None:
    found = derive(reference, shapes).op.operand(name)
    assert (found.dtype, found.index) == ("int64", index)


def _masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(mask == 0, 0.0)


def _where(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.where(y != y, x, 0.0) + torch.where(y > 0, x, 0.0)


def test_where_nothing_decides_whether_it_is_of_integers_a_line_asks() -> None:
    found = derive(_masked, "x=b n, mask=b n")
    assert not found.op.operand("mask").integers
    assert "mask drawn as floats: give example_inputs" in found.said
    assert "drawn as floats" not in derive(_where, "x=b n, y=b n").said
