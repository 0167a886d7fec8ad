"""Row lengths, row counts and offsets: Hypothesis strategies biased towards where kernels break."""

from __future__ import annotations

from hypothesis import strategies as st

LARGEST_ROW = 2**16 + 2
"""elements; the longest row that is drawn."""
SWEPT_ROWS = 70
"""every row length from 1 to this is visited in turn, not left to chance."""
LARGEST_CASE = 16384
"""elements of one tensor, unless a single row is longer."""
USUAL_CASE = 1536
"""elements of one tensor, unless two rows are longer, or many rows are wanted."""

BLOCKS = (4, 8, 12, 16, 32, 48, 64, 128, 256)
"""elements that a vector or an unrolled group of vectors takes in one step: 4 lanes of NEON to 4 x 64 lanes of SVE."""
MODEL_WIDTHS = (768, 1024, 1536, 2048, 2560, 2880, 3072, 4096, 5120, 6144, 7168, 8192)


_LONGEST_ONE_IN = 4
"""draws of one kind in two of model widths, of which one is among the longest instead: a few of these take the oracle
as long as all others together, and the ones that matter, `THRESHOLDS`, are visited anyway."""

_NEAR = st.sampled_from([0, -1, 1, -2, 2])


def _around_blocks(block: int) -> st.SearchStrategy[int]:
    """k blocks plus any residue: every tail of every block width, short and long bodies."""
    most = max(2, 1024 // block)
    exact = st.builds(lambda k, d: max(k * block + d, 1), st.integers(0, most), st.sampled_from([0, -1, 1]))
    return st.one_of(exact, st.integers(1, most * block))


def row_lengths() -> st.SearchStrategy[int]:
    """n: small, around multiples of vector blocks, around powers of two, around model widths, rarely very long."""
    small = st.integers(1, SWEPT_ROWS)
    powers = st.builds(lambda k, d: max(2**k + d, 1), st.integers(1, 12), _NEAR)
    models = st.builds(lambda width, d: width + d, st.sampled_from(MODEL_WIDTHS), _NEAR)
    longest = st.builds(lambda k, d: min(2**k + d, LARGEST_ROW), st.integers(13, 16), _NEAR)
    blocks = [_around_blocks(block) for block in BLOCKS]
    rare = st.integers(0, _LONGEST_ONE_IN - 1).flatmap(lambda i: longest if i == _LONGEST_ONE_IN - 1 else models)
    return st.one_of(small, small, small, small, *blocks, powers, powers, models, rare)


MANY_ROWS = (131, 132, 133, 255, 256, 257, 263, 264, 265)
"""around the sizes of blocks, and once and twice the processors of a large GPU, which persistent kernels stride by."""
SHORT = 32
"""elements of a row of which there are many."""
THRESHOLDS = tuple(2**k + d for k in (9, 11, 13, 16) for d in (-1, 0, 1))
"""row lengths around which kernels are known to change their ways; each is visited."""

_FEW_ROWS = st.one_of(st.integers(1, 4), st.integers(1, 17))
_ROW_COUNTS = st.integers(0, 31).flatmap(lambda i: st.sampled_from(MANY_ROWS) if i == 31 else _FEW_ROWS)
_ENOUGH_ROWS = 2
"""rows of a case that is large by its row length alone."""


def row_counts(n: int) -> st.SearchStrategy[int]:
    """rows, such that the tensor stays within USUAL_CASE elements: more rows of one length are hardly ever another case
    for a kernel, but take the oracle longer. Many rows are short ones."""
    if n * MANY_ROWS[-1] <= LARGEST_CASE:
        return _ROW_COUNTS
    most = max(_ENOUGH_ROWS if n <= LARGEST_CASE // _ENOUGH_ROWS else 1, USUAL_CASE // n)
    return _FEW_ROWS if most >= 17 else st.integers(1, most)


def offsets(itemsize: int) -> st.SearchStrategy[int]:
    """Elements between the storage and the guard page: flush half of the time, else any alignment modulo 64 bytes."""
    return st.one_of(st.just(0), st.integers(0, 64 // itemsize - 1))
