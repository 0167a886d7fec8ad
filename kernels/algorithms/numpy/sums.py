"""Sums, means and what is kept up to date, of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
BLOCK = 32
"""The number of elements of a row that come at once where a maximum is kept up to date."""


def added(rows: Rows) -> Rows:
    """The sum of each row."""
    return np.asarray(rows.sum(-1, keepdims=True))


def averaged(rows: Rows) -> Rows:
    """The mean of each row."""
    return np.asarray(added(rows) / np.float32(rows.shape[-1]))


def welford(rows: Rows) -> tuple[Rows, Rows]:
    """The mean of each row and the sum of its squared deviations, one element after the other."""
    mean = squares = np.zeros((*rows.shape[:-1], 1), rows.dtype)
    for place in range(rows.shape[-1]):
        value = rows[..., place : place + 1]
        delta = value - mean
        mean = mean + delta / np.float32(place + 1)
        squares = squares + delta * (value - mean)
    return mean, squares


def online(rows: Rows) -> tuple[Rows, Rows]:
    """The maximum of each row and its sum of exponentials below that, scaled again whenever a greater element comes."""
    most = np.full((*rows.shape[:-1], 1), -np.inf, rows.dtype)
    mass = np.zeros_like(most)
    for start in range(0, rows.shape[-1], BLOCK):
        block = rows[..., start : start + BLOCK]
        greater = np.maximum(most, block.max(-1, keepdims=True))
        # While all so far is minus infinity there is nothing to be scaled, and minus infinity less itself is NaN.
        shift = np.where(greater == -np.inf, np.float32(0), greater)
        mass = mass * np.exp(most - shift) + added(np.exp(block - shift))
        most = greater
    return most, mass
