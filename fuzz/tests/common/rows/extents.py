"""Extents: products and places beyond 2^31 and 2^16, grids of more than 65,535 blocks, limits of shared memory."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def sums(x):
    return x.sum(-1)


def doubled(x):
    return 2 * x


def softmax(x):
    return torch.softmax(x, -1)


def checks_sums(kernel, seed):
    fuzz.check(kernel, reference=sums, shapes="x=b n", seed=seed)


def checks_doubled(kernel, seed):
    fuzz.check(kernel, reference=doubled, shapes="x=b n", seed=seed)


def checks_softmax(kernel, seed):
    fuzz.check(kernel, reference=softmax, shapes="x=b n", seed=seed)


def checks_far(kernel, seed):
    x = torch.randn(3, 50 + seed, generator=torch.Generator().manual_seed(seed))
    fuzz.assert_right(kernel(fuzz.far_apart(x)), sums, (x,))


@right(checks_far)
def far_sums_in_triton(x):
    from fuzz.tests.common.rows.triton_sums import row_sums  # the interpreter is chosen before triton is imported

    y = torch.empty(len(x))
    row_sums[(len(x),)](x, y, x.stride(0), x.shape[1], WIDE=True, BLOCK=64)
    return y


@right(checks_sums)
def sums_of_rows_by_numpy(x):
    return np.einsum("bn->b", x)


@right(checks_softmax)
def softmax_in_blocks(x):
    """Online, 1,024 elements at a time."""
    top = torch.full_like(x[:, :1], -torch.inf)
    total = torch.zeros_like(top)
    for each in x.split(1024, -1):
        new = torch.maximum(top, each.amax(-1, keepdim=True))
        total = total * torch.exp(top - new) + torch.exp(each - new).sum(-1, keepdim=True)
        top = new
    return torch.exp(x - top) / total


def _flat(x):
    """All places from the first element on, as a kernel has them that is given an address."""
    return torch.as_strided(x, (x.stride(0) * (len(x) - 1) + x.shape[1],), (1,))


@wrong("places are multiplied in 32 bits, and cut off at 0", checks_far)
def far_sums_in_32_bits(x):
    begin = (torch.arange(len(x), dtype=torch.int32) * x.stride(0)).to(torch.int32).clamp(min=0)
    flat = _flat(x)
    return torch.stack([flat[int(each) : int(each) + x.shape[1]].sum() for each in begin])


@wrong("a grid has 65,535 blocks at most, the rows after them are not written", checks_sums)
def sums_of_a_grid(x):
    y = np.full(len(x), np.nan, np.float32)
    y[:65535] = x[:65535].sum(-1)
    return y


@wrong("a row is kept in 48 KiB, what is longer begins again at 0", checks_softmax)
def softmax_in_shared_memory(x):
    n, room = x.shape[1], 12288
    kept = x.clone()
    if n > room:
        kept[:, : n - room] = x[:, room:][:, :room]
    e = torch.exp(kept - kept.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


@wrong("places are counted in 16 bits, of b times n elements", checks_doubled)
def doubled_in_16_bits(x):
    size = x.size
    y = np.zeros(size, np.float32)
    count = min(size, 65536)
    y[:count] = 2 * x.reshape(-1)[:count]
    return y.reshape(x.shape)


@wrong("a place along the row has 15 bits", checks_sums)
def sums_of_short_rows(x):
    return x[:, :32767].sum(-1)


@wrong("the loop over rows ends a block of 256 too early where there are more than 1,024", checks_doubled)
def doubled_but_for_the_last_rows(x):
    y = 2 * x
    if len(x) > 1024:
        y[len(x) // 256 * 256 :] = 0
    return y
