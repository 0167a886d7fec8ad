"""Kernels to begin with, one of each kind: a right softmax, to be changed into one's own."""

from __future__ import annotations

from collections.abc import Mapping

OP = FUNCTION_IN_PYTHON = "softmax"
PROTOTYPE = "void softmax_f32(const float *x, float *y, int n)"
_LOOPS = """{
    float top = x[0], total = 0.0f;
    for (int i = 1; i < n; i++) top = isnan(x[i]) || x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++) total += y[i] = expf(x[i] - top);
    for (int i = 0; i < n; i++) y[i] /= total;
}
"""
_ENTRY = """
/* What a call holds: kernelfuzz header softmax */
int kf_softmax(const kf_softmax_call *call) {
    const int64_t n = call->x.shape[call->x.rank - 1];
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < call->x.rank; axis++) rows *= call->x.shape[axis];
    for (int64_t row = 0; row < rows; row++)
        softmax_f32((const float *)call->x.data + row * n, (float *)call->y.data + row * n, (int)n);
    return KF_OK;
}
"""
LIBRARY = f"#include <math.h>\n\n{PROTOTYPE} {_LOOPS}"
"""The source of a library."""
_C = f'#include <math.h>\n#include "kernelfuzz.h"\n\nstatic {PROTOTYPE} {_LOOPS}{_ENTRY}'
_CPP = _C.replace("<math.h>", "<cmath>").replace("isnan", "std::isnan").replace("expf", "std::exp")
_CPP = _CPP.replace("\nint kf_", '\nextern "C" int kf_')
_TORCH = """import torch


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
"""
_NUMPY = """import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
_TRITON = """import torch
import triton
import triton.language as tl


@triton.jit
def _rows(x, y, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    there = columns < n
    values = tl.load(x + row * n + columns, mask=there, other=-float("inf"))
    e = tl.where(there, tl.exp(values - tl.max(values, axis=0)), 0.0)
    tl.store(y + row * n + columns, e / tl.sum(e, axis=0), mask=there)


def softmax(x):
    y, n = torch.empty_like(x), x.shape[-1]
    _rows[(x.numel() // n,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
"""
CUDA = """#include <math_constants.h>

__device__ float larger(float a, float b) { return isnan(b) || b > a ? b : a; }

/* What all threads of a block have, combined: the same for each of them. */
__device__ float combined(float mine, float *parts, bool adds) {
    parts[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = adds ? parts[threadIdx.x] + other : larger(parts[threadIdx.x], other);
        }
    }
    __syncthreads();
    const float found = parts[0];
    __syncthreads();
    return found;
}

/* A block for each row, of 256 threads. */
__global__ void softmax_f32(const float *x, float *y, int n) {
    __shared__ float parts[256];
    x += (size_t)blockIdx.x * n;
    y += (size_t)blockIdx.x * n;
    float top = -CUDART_INF_F, total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = larger(top, x[i]);
    top = combined(top, parts, false);
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += y[i] = expf(x[i] - top);
    total = combined(total, parts, true);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] /= total;
}
"""
"""The source of a kernel of CUDA, which has the prototype."""
COMMAND = """import math
import struct
import sys

# A program of any language: what it reads and writes is in fuzz/docs/worker-protocol.md of kernelfuzz.
CASE, PARAMETER, TENSOR = 40, 48, 152


def softmax(row):
    top = math.nan if any(map(math.isnan, row)) else max(row)
    e = [math.exp(each - top) for each in row]
    total = sum(e)
    return [each / total for each in e]


def answer(case, index):
    parameters, inputs, outputs = case[5:8]
    x = CASE + parameters * PARAMETER
    rank, size = case[x + 33], struct.unpack_from("<Q", case, x + 48)[0]
    n = struct.unpack_from("<6q", case, x + 56)[rank - 1] if rank else 1
    values = struct.unpack_from(f"<{size // 4}f", case, x + (inputs + outputs) * TENSOR)
    y = [each for at in range(0, len(values), n) for each in softmax(values[at : at + n])]
    head = struct.pack("<4sIIBBBbqqHHiII", b"KFRS", index, size, 0, 0, 0, -1, -1, -1, 0, 0, 0, 0, 0)
    return head + struct.pack(f"<{len(y)}f", *y)


def main():
    hello = b"protocol=1\\nop=softmax\\nlanguage=Python\\n"
    sys.stdout.buffer.write(b"KFHE" + struct.pack("<I", len(hello)) + hello)
    sys.stdout.flush()
    while head := sys.stdin.buffer.read(24):
        count, size = struct.unpack_from("<IQ", head, 4)
        cases, at = sys.stdin.buffer.read(size), 0
        for index in range(count):
            end = at + struct.unpack_from("<I", cases, at)[0]
            sys.stdout.buffer.write(answer(cases[at:end], index))
            sys.stdout.flush()
            at = end


main()
"""
"""A program that speaks the workers' protocol."""
_JAX = """import jax
import jax.numpy as jnp


@jax.jit
def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
SOURCES: Mapping[str, tuple[str, str]] = {
    "c": ("mine.c", _C),
    "c++": ("mine.cpp", _CPP),
    "torch": ("mine.py", _TORCH),
    "numpy": ("mine.py", _NUMPY),
    "triton": ("mine.py", _TRITON),
    "dlpack": ("mine.py", _JAX),
}
"""The name and the text of the source of each kind that has one."""
