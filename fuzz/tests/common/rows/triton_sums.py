"""Sums of rows in Triton."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803

import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, stride, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    begin = row.to(tl.int64) * stride if WIDE else row * stride.to(tl.int32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x + begin + start + at, mask=start + at < n, other=0.0)
    tl.store(y + row, tl.sum(total))
