"""Selection: top-k, sort, argmax, searchsorted, histograms; ties, infinities and NaN."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def top_three(x):
    return torch.topk(x, 3)


def gate(x):
    return torch.topk(torch.softmax(x, -1), 2)


def order(x):
    return torch.argsort(x, dim=-1, stable=True)


def largest(x):
    return torch.argmax(x, -1)


def found(edges, x):
    return torch.searchsorted(edges, x)


def counted(x):
    return torch.histc(x, 8, -2.0, 2.0)


def checks_top(kernel, seed):
    fuzz.check(kernel, reference=top_three, shapes="x=b n", values="any", seed=seed)


def checks_gate(kernel, seed):
    fuzz.check(kernel, reference=gate, shapes="x=b n", seed=seed)


def checks_order(kernel, seed):
    fuzz.check(kernel, reference=order, shapes="x=b n", seed=seed)


def checks_largest(kernel, seed):
    fuzz.check(kernel, reference=largest, shapes="x=b n", seed=seed)


def checks_largest_of_any(kernel, seed):
    fuzz.check(kernel, reference=largest, shapes="x=b n", oracle="replay", values="any", seed=seed)


def checks_found(kernel, seed):
    fuzz.check(kernel, reference=found, shapes="edges=k, x=n", oracle="replay", seed=seed)


def checks_counted(kernel, seed):
    fuzz.check(kernel, reference=counted, shapes="x=n", oracle="replay", seed=seed)


@right(checks_top)
def top_by_partition(x):
    """NaN counts as larger than any number, and is chosen first."""
    key, rank = np.where(np.isnan(x), np.inf, x), np.isnan(x)
    at = np.argpartition(-key, 2, axis=-1)[..., :3] if not rank.any() else np.lexsort((-key, ~rank), axis=-1)[..., :3]
    own = [np.take_along_axis(each, at, -1) for each in (key, rank)]
    at = np.take_along_axis(at, np.lexsort((-own[0], ~own[1]), axis=-1), -1)
    return np.take_along_axis(x, at, -1), at


@right(checks_gate)
def gate_by_logits(x):
    """The order of the logits is that of the softmax; near ties may fall the other way."""
    at = torch.topk(x, 2).indices
    return torch.softmax(x, -1).gather(-1, at), at


@right(checks_found)
def found_by_count(edges, x):
    return (edges[None, :] < x[:, None]).sum(1)


@right(checks_order)
def order_by_python(x):
    """Python's own sort is stable."""
    rows = x.reshape(-1, x.shape[-1])
    at = [sorted(range(len(row)), key=row.tolist().__getitem__) for row in rows]
    return np.array(at, np.int64).reshape(x.shape)


@wrong("picks an element again if fewer than three are above minus infinity", checks_top)
def top_by_masking(x):
    x, values, places = x.clone(), [], []
    for _ in range(3):
        at = x.argmax(-1, keepdim=True)
        values.append(x.gather(-1, at))
        places.append(at)
        x.scatter_(-1, at, float("-inf"))
    return torch.cat(values, -1), torch.cat(places, -1)


@wrong("NaN is never larger", checks_largest_of_any)
def largest_by_comparing(x):
    best, at = x[..., 0].clone(), torch.zeros(x.shape[:-1], dtype=torch.int64)
    for i in range(1, x.shape[-1]):
        more = x[..., i] > best
        best, at = torch.where(more, x[..., i], best), torch.where(more, i, at)
    return at


@wrong("equal elements are in reverse order", checks_order)
def order_from_the_end(x):
    n = x.shape[-1]
    return n - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")


@wrong("places in later blocks of 32 are those in the block", checks_largest)
def largest_in_blocks(x):
    n = x.shape[-1]
    blocks = [x[..., i : i + 32] for i in range(0, n, 32)]
    top = torch.stack([each.amax(-1) for each in blocks], -1)
    at = torch.stack([each.argmax(-1) for each in blocks], -1)
    return at.gather(-1, top.argmax(-1, keepdim=True))[..., 0]


@wrong("an element equal to an edge goes to its right", checks_found)
def found_right(edges, x):
    return np.searchsorted(edges, x, side="right")


@wrong("what equals the upper end is not counted", checks_counted)
def counted_without_end(x):
    at = torch.floor((x + 2.0) * 2.0)
    inside = (at >= 0) & (at < 8)
    return torch.bincount(at[inside].long(), minlength=8).to(x.dtype)
