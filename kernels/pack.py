"""The built-in pack: one folder for each family of ops, with its kernels in every language and its mutants."""

from __future__ import annotations

from fuzz import CKernel, PythonKernel

from .rms_norm import c_kernels, python_kernels
from .rms_norm.mutants import accuracy, history, laws, operands, rms_norm, triton

__all__ = ["KERNELS", "MUTANTS"]

KERNELS: tuple[CKernel | PythonKernel, ...] = (*c_kernels.KERNELS, *python_kernels.KERNELS)
MUTANTS = (*rms_norm.MUTANTS, *laws.MUTANTS, *operands.MUTANTS, *triton.MUTANTS, *history.MUTANTS, *accuracy.MUTANTS)
