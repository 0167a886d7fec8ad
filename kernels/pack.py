"""The built-in pack: one folder for each family of ops, with its kernels in every language and its mutants."""

from __future__ import annotations

from fuzz import CKernel, PythonKernel

from .activations import c_kernels as activations_in_c
from .activations import python_kernels as activations_in_python
from .activations.mutants import gelu, silu_mul
from .algorithms import python_kernels as algorithms_in_python
from .attention import c_kernels as attention_in_c
from .attention import python_kernels as attention_in_python
from .attention.mutants import attention
from .cross_entropy import c_kernels as cross_entropy_in_c
from .cross_entropy import python_kernels as cross_entropy_in_python
from .cross_entropy.mutants import cross_entropy
from .dequantize_matmul import c_kernels as dequantize_matmul_in_c
from .dequantize_matmul import python_kernels as dequantize_matmul_in_python
from .dequantize_matmul.mutants import dequantize_matmul
from .embedding import c_kernels as embedding_in_c
from .embedding import python_kernels as embedding_in_python
from .embedding.mutants import embedding
from .group_norm import c_kernels as group_norm_in_c
from .group_norm import python_kernels as group_norm_in_python
from .group_norm.mutants import group_norm
from .grouped_matmul import c_kernels as grouped_matmul_in_c
from .grouped_matmul import python_kernels as grouped_matmul_in_python
from .grouped_matmul.mutants import grouped_matmul, grouped_rows_matmul
from .int4_matmul import c_kernels as int4_matmul_in_c
from .int4_matmul import python_kernels as int4_matmul_in_python
from .int4_matmul.mutants import int4_matmul
from .layer_norm import c_kernels as layer_norm_in_c
from .layer_norm import python_kernels as layer_norm_in_python
from .layer_norm.mutants import layer_norm
from .matmul import c_kernels as matmul_in_c
from .matmul import python_kernels as matmul_in_python
from .matmul.mutants import matmul, scaled_matmul, tf32
from .paged_attention import c_kernels as paged_attention_in_c
from .paged_attention import python_kernels as paged_attention_in_python
from .paged_attention.mutants import paged_attention
from .quantize_blocks import c_kernels as quantize_blocks_in_c
from .quantize_blocks import python_kernels as quantize_blocks_in_python
from .quantize_blocks.mutants import quantize_mxfp8, quantize_mxfp8_e5m2, quantize_nvfp4
from .quantize_rows import c_kernels as quantize_rows_in_c
from .quantize_rows import python_kernels as quantize_rows_in_python
from .quantize_rows.mutants import quantize_rows
from .reductions import c_kernels as reductions_in_c
from .reductions import python_kernels as reductions_in_python
from .reductions.mutants import gradients, reductions
from .rms_norm import c_kernels, python_kernels
from .rms_norm.mutants import accuracy, history, laws, operands, rms_norm, triton
from .rope import c_kernels as rope_in_c
from .rope import python_kernels as rope_in_python
from .rope.mutants import rope
from .sequences import c_kernels as sequences_in_c
from .sequences import python_kernels as sequences_in_python
from .sequences.mutants import sequences
from .softmax import c_kernels as softmax_in_c
from .softmax import python_kernels as softmax_in_python
from .softmax.mutants import softmax
from .topk_softmax import c_kernels as topk_softmax_in_c
from .topk_softmax import python_kernels as topk_softmax_in_python
from .topk_softmax.mutants import topk_softmax

__all__ = ["KERNELS", "MUTANTS"]

KERNELS: tuple[CKernel | PythonKernel, ...] = (
    *c_kernels.KERNELS, *python_kernels.KERNELS, *layer_norm_in_c.KERNELS, *layer_norm_in_python.KERNELS,
    *softmax_in_c.KERNELS, *softmax_in_python.KERNELS,
    *activations_in_c.KERNELS, *activations_in_python.KERNELS, *rope_in_c.KERNELS, *rope_in_python.KERNELS,
    *matmul_in_c.KERNELS, *matmul_in_python.KERNELS,
    *reductions_in_c.KERNELS, *reductions_in_python.KERNELS, *sequences_in_c.KERNELS, *sequences_in_python.KERNELS,
    *cross_entropy_in_c.KERNELS, *cross_entropy_in_python.KERNELS,
    *group_norm_in_c.KERNELS, *group_norm_in_python.KERNELS,
    *embedding_in_c.KERNELS, *embedding_in_python.KERNELS,
    *attention_in_c.KERNELS, *attention_in_python.KERNELS,
    *paged_attention_in_c.KERNELS, *paged_attention_in_python.KERNELS,
    *quantize_rows_in_c.KERNELS, *quantize_rows_in_python.KERNELS,
    *quantize_blocks_in_c.KERNELS, *quantize_blocks_in_python.KERNELS,
    *dequantize_matmul_in_c.KERNELS, *dequantize_matmul_in_python.KERNELS,
    *int4_matmul_in_c.KERNELS, *int4_matmul_in_python.KERNELS,
    *grouped_matmul_in_c.KERNELS, *grouped_matmul_in_python.KERNELS,
    *topk_softmax_in_c.KERNELS, *topk_softmax_in_python.KERNELS,
    *algorithms_in_python.KERNELS,
)  # fmt: skip
MUTANTS = (
    *rms_norm.MUTANTS, *laws.MUTANTS, *operands.MUTANTS, *triton.MUTANTS, *history.MUTANTS, *accuracy.MUTANTS,
    *layer_norm.MUTANTS, *softmax.MUTANTS, *gelu.MUTANTS, *silu_mul.MUTANTS, *rope.MUTANTS, *matmul.MUTANTS,
    *cross_entropy.MUTANTS, *group_norm.MUTANTS, *embedding.MUTANTS, *quantize_rows.MUTANTS, *quantize_mxfp8.MUTANTS,
    *quantize_mxfp8_e5m2.MUTANTS, *quantize_nvfp4.MUTANTS, *dequantize_matmul.MUTANTS, *int4_matmul.MUTANTS,
    *grouped_matmul.MUTANTS, *grouped_rows_matmul.MUTANTS,
    *reductions.MUTANTS, *gradients.MUTANTS, *scaled_matmul.MUTANTS, *tf32.MUTANTS, *attention.MUTANTS,
    *paged_attention.MUTANTS, *sequences.MUTANTS, *topk_softmax.MUTANTS,
)  # fmt: skip
