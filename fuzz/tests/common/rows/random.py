"""Random: dropout and what else keeps elements by chance."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import numpy as np
import torch

import fuzz
from fuzz.tests.common.rows.table import right, wrong


def dropped(x, keep):
    return x * keep / 0.9


def checks_arrays(kernel, seed):
    x = np.random.default_rng(seed).normal(size=(64 + seed, 509)).astype(np.float32)
    return fuzz.check_random(kernel, dropped, (x,), share=0.9)


def checks_share(kernel, seed):
    """These are enough calls for a share that is off by a part in 600."""
    x = np.random.default_rng(seed).normal(size=(64 + seed, 509)).astype(np.float32)
    return fuzz.check_random(kernel, dropped, (x,), share=0.9, calls=128)


def checks_tensors(kernel, seed):
    x = torch.randn(64 + seed, 509, generator=torch.Generator().manual_seed(seed))
    return fuzz.check_random(kernel, dropped, (x,), share=0.9)


def checks_gradients(kernel, seed):
    x = torch.randn(64 + seed, 509, generator=torch.Generator().manual_seed(seed))
    return fuzz.check_random(kernel, dropped, (x,), share=0.9, gradient=True)


@right(checks_arrays)
def dropped_by_philox(x, seed):
    mask = fuzz.philox_uniform(seed, np.arange(x.size)).reshape(x.shape) >= 0.1
    return np.where(mask, x / np.float32(0.9), 0)


@right(checks_gradients)
def dropped_by_torch(x):
    return torch.nn.functional.dropout(x, 0.1)


def mixed(number):
    """The mixing function of SplitMix64."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@right(checks_arrays)
def dropped_by_splitmix(x, seed):
    with np.errstate(over="ignore"):
        begin = mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
        drawn = mixed(begin + np.arange(1, x.size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    mask = (drawn >> np.uint64(11)) >= np.uint64(round(0.1 * 2**53))
    return x * mask.reshape(x.shape) * np.float32(1 / 0.9)


@wrong("scales by 1 / 0.1's rest twice", checks_tensors)
def scaled_twice(x):
    return torch.nn.functional.dropout(x, 0.1) / 0.9


@wrong("compares 8 bits, of which 26 of 256 are dropped", checks_share)
def dropped_by_bytes(x, seed):
    drawn = np.random.default_rng(seed).integers(0, 256, x.shape)
    return x * (drawn >= 26) / np.float32(0.9)


@wrong("the last 13 columns, a tail, are kept", checks_arrays)
def dropped_but_for_the_tail(x, seed):
    mask = np.random.default_rng(seed).random(x.shape) >= 0.1
    mask[:, x.shape[1] // 16 * 16 :] = True
    return x * mask / np.float32(0.9)


@wrong("row i with seed s has the mask of row i + 1 with seed s - 1", checks_arrays)
def seeded_by_sum(x, seed):
    rows = [np.random.default_rng(seed + i).random(x.shape[1]) >= 0.1 for i in range(len(x))]
    return x * np.stack(rows) / np.float32(0.9)


class _Dropped(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx, x):
        return x * (torch.rand_like(x) >= 0.1) / 0.9

    @staticmethod
    def backward(ctx, dy):
        return dy * (torch.rand_like(dy) >= 0.1) / 0.9


@wrong("the gradient draws a mask of its own", checks_gradients)
def dropped_anew(x):
    return _Dropped.apply(x)


@wrong("one mask for each block of 128 elements", checks_arrays)
def one_mask_for_blocks(x, seed):
    mask = np.random.default_rng(seed).random(128) >= 0.1
    return x * np.resize(mask, x.size).reshape(x.shape) / np.float32(0.9)


@wrong("draws by the clock, not by the seed", checks_arrays)
def seed_unused(x, seed):
    return x * (np.random.default_rng().random(x.shape) >= 0.1) / np.float32(0.9)
