"""Kernels that draw random numbers, such as dropout. No element of an output is right or wrong by itself: it must be
what was kept or what was dropped, within the bounds of each, and laws hold for which elements are kept.

The laws are tested by the relative entropy of shares (Chernoff's bound), so that no table of a distribution is needed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.text import counted
from fuzz.references.backward import GIVEN, backward
from fuzz.references.parameters import has_signature, parameters_of
from fuzz.report.words import element
from fuzz.tasks.bound import Inputs, OutputBound, array_of, assert_right, bound
from fuzz.tasks.check.results import CheckError, CheckFailed, told
from oracles.formula.contract import Contract

__tracebackhide__ = told
ODDS = 1e-9
"""The largest probability with which a right kernel fails a check, over all of its laws."""
_SHOWN = 3
"""The most laws that a failure names: one fault breaks several."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RandomCheck:
    """What was seen of a kernel that passed."""

    calls: int
    seen: int
    """The number of elements, of all calls, of which is known whether they were kept. Both is possible of 0, for
    example."""
    kept: int
    share: float
    """The share that should be kept."""
    within: tuple[float, float]
    """The least and the largest share of all elements that would have passed: more calls know it better."""

    def __str__(self) -> str:
        share = self.kept / self.seen if self.seen else math.nan
        kept = f"{share:.4%} of {self.seen:,} elements kept, stated {self.share:.4%}"
        return f"{counted(self.calls, 'call')}, {kept}; {self.within[0]:.2%} to {self.within[1]:.2%} pass"


def check_random(
    kernel: Callable[..., Any], reference: Callable[..., Any], inputs: Inputs, *, share: float, keep: str = "keep",
    seed: str = "seed", calls: int = 16, gradient: bool = False, contract: Contract | Mapping[str, Any] | None = None,
) -> RandomCheck:  # fmt: skip
    """Check a kernel that keeps a random `share` of elements, and return what was seen.

    The reference is a function of the inputs and of `keep`, an array of the output's shape that is 1 where an element
    is kept and 0 where it is dropped; each element of the output may depend on its own element of `keep` alone. The
    kernel is called with the inputs, and with a number as `seed` if it has such a parameter; otherwise the generators
    of torch, NumPy and Python are seeded before each call. With `gradient`, the gradients of all inputs of floats must
    use the mask of their output; both are in torch. Raises CheckFailed for a wrong kernel, and CheckError for a
    reference that cannot be judged so.
    """
    names = [each for each in parameters_of(reference) if each != keep]
    several = inputs if isinstance(inputs, (Mapping, list, tuple)) else (inputs,)
    given = several if isinstance(several, Mapping) else dict(zip(names, several, strict=False))
    if keep not in parameters_of(reference) or {*given} != {*names} or len(several) != len(names):
        raise CheckError(
            f"the reference must take {keep!r} and, in its order, the inputs of the kernel: {', '.join(names)}"
        )
    named = {name: given[name] for name in names}
    if not 0 <= share <= 1 or calls < 2:
        raise CheckError("share must be from 0 to 1, and calls at least 2")
    runs = _Runs(kernel, named, seed)
    begun = random.Random(0).sample(range(1 << 30), calls // 2)
    seeds = [each + by for each in begun for by in (0, 1)][: calls - 1]  # of each pair one is the next of the other
    first = runs.output(seeds[0])
    if gradient and not hasattr(first, "requires_grad"):
        raise CheckError("gradient=True: the output must be a tensor of torch")
    judge = _Judge.of(reference, named, keep, first, contract)
    outputs = [array_of(first, "output")[0], *(array_of(runs.output(each), "output")[0] for each in seeds)]
    if not np.array_equal(outputs[0], outputs[1], equal_nan=True):
        at = tuple(map(int, np.argwhere(outputs[0] != outputs[1])[0]))
        both = f"{outputs[0][at]:.9g} and {outputs[1][at]:.9g}"
        raise CheckFailed(f"two calls with the same seed differ: {element('output', at)} = {both}")
    masks = [judge.masks(each) for each in outputs[1:]]
    kept, seen = (np.array(each) for each in zip(*masks, strict=True))
    _check(looks := list(_looks(kept, seen, share)))
    if gradient:
        _check_gradient(runs, judge, seeds[0])
    within = _within(int(seen.sum()), share, math.log(2 * len(looks) / ODDS))
    return RandomCheck(calls, int(seen.sum()), int(kept.sum()), share, within)


@dataclass(frozen=True)
class _Runs:
    kernel: Callable[..., Any]
    named: Mapping[str, Any]
    seed: str

    def output(self, seed: int, **others: Any) -> Any:
        """Return the output for a seed, with copies of the inputs unless `others` has them."""
        given = {**{name: _copied(each) for name, each in self.named.items()}, **others}
        if has_signature(self.kernel) and self.seed in parameters_of(self.kernel):
            return self.kernel(*given.values(), **{self.seed: seed})
        random.seed(seed)
        np.random.seed(seed)
        if any(hasattr(each, "data_ptr") for each in given.values()):
            import torch

            torch.manual_seed(seed)
        return self.kernel(*given.values())


@dataclass(frozen=True)
class _Judge:
    """The bounds of an output whose elements are all kept, or all dropped."""

    reference: Callable[..., Any]
    named: Mapping[str, Any]
    keep: str
    like: Any
    kept: OutputBound
    dropped: OutputBound

    @staticmethod
    def of(
        reference: Callable[..., Any], named: Mapping[str, Any], keep: str, like: Any,
        contract: Contract | Mapping[str, Any] | None,
    ) -> _Judge:  # fmt: skip
        """Return the judge of outputs like `like`. Raises CheckError if elements hang together."""
        dtype = array_of(like, "output")[1]
        mixed = np.random.default_rng(0).random(np.shape(like)) < 0.5

        def of(mask: Mask) -> OutputBound:
            return bound(reference, {**named, keep: _as_input(mask, named)}, contract, dtype=dtype)

        kept, dropped, either = (of(each) for each in (np.ones_like(mixed), np.zeros_like(mixed), mixed))
        for which, mask in ((kept, mixed), (dropped, ~mixed)):
            if not np.allclose(
                _array(either.exact)[mask], _array(which.exact)[mask], rtol=1e-9, atol=0, equal_nan=True
            ):
                raise CheckError(f"an element of the output depends on several of {keep}: no mask can be seen in it")
        return _Judge(reference, named, keep, like, kept, dropped)

    def masks(self, output: NDArray[Any]) -> tuple[Mask, Mask]:
        """Return the masks of elements that were kept, and of those of which it is known. Raises CheckFailed for an
        element that is neither what is kept nor what is dropped."""
        output = output.astype(np.float64)
        values = output if not hasattr(self.kept.low, "data_ptr") else _tensor(output, self.kept.low)
        kept, dropped = (_array(each.allows(values)) for each in (self.kept, self.dropped))
        if not (kept | dropped).all():
            wrong = np.argwhere(~(kept | dropped))
            at = tuple(map(int, wrong[0]))
            ends = ((float(each.low[at]), float(each.high[at])) for each in (self.kept, self.dropped))
            one, other = (f"{low:.9g} to {high:.9g}" if low != high else f"{low:.9g}" for low, high in ends)
            raise CheckFailed(
                f"{element('output', at)} = {output[at]:.9g}, must be {one} if it is kept, or {other} if it is "
                f"dropped; {len(wrong):,} of {counted(output.size, 'element')} wrong"
            )
        return kept & ~dropped, kept ^ dropped


def _entropy(part: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return the relative entropy of shares that were seen to the one that should be: how unlikely an element is."""
    with np.errstate(all="ignore"):
        one, other = (
            np.where(seen > 0, seen * np.log(seen / stated), 0.0)
            for seen, stated in ((part, np.float64(share)), (1 - part, np.float64(1 - share)))
        )
    return one + other


def _within(count: int, share: float, limit: float) -> tuple[float, float]:
    """Return the least and the largest part of `count` elements whose entropy is within a limit, to 0.01%."""
    parts = np.arange(10_001) / 10_000
    near = parts[count * _entropy(parts, share) <= limit]
    return (float(near[0]), float(near[-1])) if near.size else (share, share)


@dataclass(frozen=True)
class _Look:
    """How often something happens, in groups that are each looked at alone."""

    what: str
    """What happens, with the index of the group in it."""
    hits: NDArray[np.int64]
    counts: NDArray[np.int64]
    share: float

    def broken(self, odds: float) -> tuple[float, str] | None:
        """Return how unlikely the worst group is (a logarithm), and the line about it; None if a right kernel may have
        such a group with these odds."""
        hits, counts = (each.reshape(-1).astype(np.float64) for each in (self.hits, self.counts))
        with np.errstate(all="ignore"):
            part = hits / counts
            far = np.where(counts > 0, counts * _entropy(part, self.share), 0.0)
        at = int(np.argmax(far)) if far.size else 0
        if not far.size or far[at] <= math.log(2 * far.size / odds):
            return None
        seen = f"{int(hits[at]):,} of {int(counts[at]):,} ({part[at]:.4%})"
        return float(far[at]), f"{self.what.format(at)}: {seen}, must be {self.share:.4%}"


def _looks(kept: Mask, seen: Mask, share: float) -> Iterator[_Look]:
    """Yield the looks at masks, shape `[calls, ...]`."""

    def look(what: str, hits: Mask, known: Mask, of: float, axes: tuple[int, ...] | None) -> _Look:
        return _Look(what, np.asarray((hits & known).sum(axes)), np.asarray(known.sum(axes)), of)

    last, every = kept.ndim - 1, tuple(range(kept.ndim))
    yield look("kept", kept, seen, share, None)
    yield look("kept in call {}", kept, seen, share, every[1:])
    for axis in every[1:]:
        name = "the last axis" if axis == last else f"axis {axis - 1}"
        yield look(f"kept at place {{}} of {name}", kept, seen, share, tuple(each for each in every if each != axis))
    same = share**2 + (1 - share) ** 2
    flat, known = kept.reshape(len(kept), -1), seen.reshape(len(seen), -1)
    pairs, size = len(flat) // 2, flat.shape[1]  # each call is in one pair, so that pairs are independent
    (one, other), (seen_one, seen_other) = ([each[at : 2 * pairs : 2] for at in (0, 1)] for each in (flat, known))
    if pairs:
        yield look("alike in two calls with other seeds, pair {}", one == other, seen_one & seen_other, same, (1,))
    lags = {1 << power for power in range(size.bit_length())} | {kept.shape[-1]}
    for lag in sorted(each for each in lags if 2 * each <= size):
        moved = f"alike {counted(lag, 'element')} {{}} in a call with seed s and one with seed s + 1"
        if pairs:
            first, second = one[:, lag:] == other[:, :-lag], one[:, :-lag] == other[:, lag:]
            yield look(moved.format("back"), first, seen_one[:, lag:] & seen_other[:, :-lag], same, None)
            yield look(moved.format("on"), second, seen_one[:, :-lag] & seen_other[:, lag:], same, None)
        whole = size // (2 * lag) * 2 * lag  # in blocks, so that each element is in one pair
        blocks, all_known = (each[:, :whole].reshape(len(flat), -1, 2, lag) for each in (flat, known))
        alike, both = blocks[:, :, 0] == blocks[:, :, 1], all_known[:, :, 0] & all_known[:, :, 1]
        yield look(f"alike {counted(lag, 'element')} apart", alike, both, same, None)


def _check(looks: Sequence[_Look]) -> None:
    found = [worst for each in looks if (worst := each.broken(ODDS / len(looks)))]
    broken = sorted(found, key=lambda each: -float(f"{each[0]:.6g}"))  # of equally strong ones, the first
    if broken:
        more = f"; {counted(len(broken) - _SHOWN, 'more law')} broken" if len(broken) > _SHOWN else ""
        chance = f"a right kernel is as far off less than once in {1 / ODDS:,.0f} checks{more}"
        raise CheckFailed("\n".join([*(said for _, said in broken[:_SHOWN]), chance]))


def _check_gradient(runs: _Runs, judge: _Judge, seed: int) -> None:
    """Raise CheckFailed if the gradients use another mask than their output."""
    import torch

    leaves = {
        name: each.detach().clone().requires_grad_()
        for name, each in runs.named.items()
        if isinstance(each, torch.Tensor) and each.is_floating_point()
    }
    output = runs.output(seed, **leaves)
    if not output.requires_grad:
        raise CheckFailed("the output has no gradient")
    kept, seen = judge.masks(array_of(output.detach(), "output")[0])
    if not seen.all():
        raise CheckError("gradient=True: inputs for which what is kept and what is dropped is the same, such as 0")
    given = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    output.backward(given)
    missing = [name for name, each in leaves.items() if each.grad is None]
    if missing:
        raise CheckFailed(f"no gradient of {', '.join(missing)}")
    function = backward(judge.reference, [*leaves])
    found = {f"d{name}": each.grad for name, each in leaves.items()}
    taken = {**runs.named, judge.keep: _as_input(kept, runs.named), getattr(function, GIVEN)[0]: given}
    try:
        assert_right(found if len(found) > 1 else next(iter(found.values())), function, taken)
    except CheckFailed as error:
        raise CheckFailed(f"with the mask of the output, a gradient is wrong:\n{error}") from None


def _copied(value: Any) -> Any:
    return value.detach().clone() if hasattr(value, "detach") else value.copy() if hasattr(value, "copy") else value


def _as_input(mask: Mask, named: Mapping[str, Any]) -> Any:
    """Return a mask as an array or tensor like the first input of floats."""
    for each in named.values():
        if hasattr(each, "data_ptr") and each.is_floating_point():
            return _tensor(mask, each).to(each.dtype)
        if isinstance(each, np.ndarray) and each.dtype.kind == "f":
            return mask.astype(each.dtype)
    raise CheckError("inputs must hold an array or a tensor of floats")


def _tensor(array: NDArray[Any], like: Any) -> Any:
    import torch

    return torch.tensor(array, device=like.device)


def _array(value: Any) -> NDArray[Any]:
    return np.asarray(value.cpu() if hasattr(value, "data_ptr") else value)


_MULTIPLIERS, _KEYS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)


def philox(seed: int, places: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the four words that Philox-4x32 with ten rounds (Salmon and others 2011) makes of each place, shape
    `[4, ...]`, as `tl.randint4x` of Triton does. The key is the seed of 64 bits, the counter the place."""
    wide = np.asarray(places).astype(np.uint64)
    low = np.uint64(0xFFFFFFFF)
    words = [wide & low, wide >> np.uint64(32), np.zeros_like(wide), np.zeros_like(wide)]
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        one, other = (words[at] * np.uint64(by) for at, by in zip((0, 2), _MULTIPLIERS, strict=True))
        words = [
            other >> np.uint64(32) ^ words[1] ^ np.uint64(keys[0]), other & low,
            one >> np.uint64(32) ^ words[3] ^ np.uint64(keys[1]), one & low,
        ]  # fmt: skip
        keys = [key + by & 0xFFFFFFFF for key, by in zip(keys, _KEYS, strict=True)]
    return np.array(words).astype(np.uint32)


def philox_uniform(seed: int, places: NDArray[Any]) -> NDArray[np.float32]:
    """Return the f32 numbers from 0 to 1 that `tl.rand` of Triton draws at places."""
    words = philox(seed, places)[0].view(np.int32)
    found: NDArray[np.float32] = np.where(words < 0, -words - 1, words).astype(np.float32) * np.float32(
        4.6566127342e-10
    )
    return found
