"""Places: gathers, sums by index, embeddings, paged caches, permutations, ragged batches."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from itertools import pairwise

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def added(base, at, v):
    return base.index_add(0, at, v)


def pages(cache, table):
    """Cache of pages of some slots of some elements, and a table of pages for each sequence."""
    return cache[table].flatten(1, 2)


def ragged_sums(x, offsets):
    at = torch.arange(len(x))
    inside = (at >= offsets[:-1, None]) & (at < offsets[1:, None])
    return torch.where(inside[..., None], x, 0).sum(1)


def permuted(x, order):
    return x[order]


def bag(table, ids):
    """Mean of the embeddings of a bag, without those of the id 0."""
    used = (ids != 0).to(table.dtype)
    return (table[ids] * used[..., None]).sum(1) / used.sum(1, keepdim=True).clamp(min=1)


def copied(base, at, v):
    return base.index_copy(0, at, v)


def checks_added(kernel, seed):
    fuzz.check(kernel, reference=added, shapes="base=n d, at=k, v=k d", seed=seed)


def checks_pages(kernel, seed):
    fuzz.check(kernel, reference=pages, shapes="cache=p s d, table=b m", seed=seed)


def checks_ragged(kernel, seed):
    examples = torch.randn(11, 5), torch.tensor([0, 3, 3, 7, 11])
    fuzz.check(kernel, reference=ragged_sums, example_inputs=examples, seed=seed)


def checks_permuted(kernel, seed):
    fuzz.check(kernel, reference=permuted, example_inputs=(torch.randn(7, 3), torch.randperm(7)), seed=seed)


def checks_bag(kernel, seed):
    fuzz.check(kernel, reference=bag, shapes="table=v d, ids=b k", seed=seed)


def checks_copied(kernel, seed):
    fuzz.check(kernel, reference=copied, shapes="base=n d, at=k, v=k d", seed=seed)


@right(checks_added)
def added_by_numpy(base, at, v):
    y = base.copy()
    np.add.at(y, at, v)
    return y


@right(checks_pages)
def pages_by_slots(cache, table):
    p, s, d = cache.shape
    slot = torch.arange(table.shape[1] * s)
    return cache.reshape(p * s, d)[table[:, slot // s] * s + slot % s]


@right(checks_ragged)
def ragged_by_slices(x, offsets):
    parts = [x[a:b].sum(0) for a, b in pairwise(offsets.tolist())]
    return torch.stack(parts)


@wrong("of several rows for one place one is added", checks_added)
def lost_duplicates(base, at, v):
    y = base.copy()
    y[at] += v
    return y


@wrong("an empty segment has the first row of the next", checks_ragged)
def ragged_by_reduceat(x, offsets):
    return np.add.reduceat(np.concatenate([x, np.zeros_like(x[:1])]), offsets[:-1], axis=0)


@wrong("a row of the table is taken to have as many pages as the cache", checks_pages)
def pages_by_a_wrong_stride(cache, table):
    p, (b, m) = len(cache), table.shape
    flat = table.flatten()
    at = (torch.arange(b)[:, None] * p + torch.arange(m)).clamp(max=b * m - 1)
    return cache[flat[at]].flatten(1, 2)


@wrong("the inverse permutation", checks_permuted)
def permuted_back(x, order):
    y = torch.empty_like(x)
    y[order] = x
    return y


@wrong("rows that something is added to begin with 0", checks_added)
def added_to_nothing(base, at, v):
    y = base.clone()
    y[at] = 0
    return y.index_add(0, at, v)


@wrong("divides by all ids", checks_bag)
def bag_by_length(table, ids):
    return (table[ids] * (ids != 0)[..., None]).sum(1) / ids.shape[1]


@wrong("the last place is out of bounds", checks_copied)
def copied_but_for_the_last(base, at, v):
    inside = at < len(base) - 1
    y = base.clone()
    y[at[inside]] = v[inside]
    return y
