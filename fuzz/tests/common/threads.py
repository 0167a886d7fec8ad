"""Imported before NumPy and torch, whose threads burn a processor while they wait for the next product or map: half of
what a check in the tests' own process took, and nine tenths of small products of matrices."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
