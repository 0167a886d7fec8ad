"""Values of scipy.special's functions by mpmath. No document says how exact they are: only what is far off is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mpmath
import numpy as np

_FAR = 2.0**10
"""How many units in the last place a value may be off, or how many times as far as the exact value moves if an argument
does by one unit: more than three of the sixteen digits. Chosen, as nothing is documented."""
_MOST, _LARGEST = 64, 1e3
"""The most elements that are compared, and the largest argument: mpmath takes long beyond it. Chosen."""
_DIGITS = (50, 100, 200, 400, 800)
"""The digits that mpmath calculates with, until two results agree in half of 50: differences of nearly equal numbers
lose any number of them."""

EXACT: Mapping[str, Callable[..., Any]] = {
    "agm": mpmath.agm, "bei": lambda x: mpmath.bei(0, x), "ber": lambda x: mpmath.ber(0, x), "beta": mpmath.beta,
    "betainc": lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
    "betaincc": lambda a, b, x: mpmath.betainc(a, b, x, 1, regularized=True),
    "betaln": lambda a, b: mpmath.log(abs(mpmath.beta(a, b))), "binom": mpmath.binomial,
    "dawsn": lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
    "ellipe": mpmath.ellipe, "ellipeinc": mpmath.ellipe, "ellipk": mpmath.ellipk, "ellipkinc": mpmath.ellipf,
    "ellipkm1": lambda p: mpmath.ellipk(1 - p), "elliprc": mpmath.elliprc, "elliprd": mpmath.elliprd,
    "elliprf": mpmath.elliprf, "elliprg": mpmath.elliprg, "elliprj": mpmath.elliprj,
    "erf": mpmath.erf, "erfc": mpmath.erfc, "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x), "erfi": mpmath.erfi,
    "erfinv": mpmath.erfinv, "exp1": mpmath.e1, "exp10": lambda x: mpmath.mpf(10) ** x, "expi": mpmath.ei,
    "expn": mpmath.expint, "gamma": mpmath.gamma, "gammainc": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
    "gammaincc": lambda a, x: mpmath.gammainc(a, x, regularized=True),
    "gammaln": lambda x: mpmath.log(abs(mpmath.gamma(x))), "hyp0f1": mpmath.hyp0f1, "hyp1f1": mpmath.hyp1f1,
    "hyp2f1": mpmath.hyp2f1, "hyperu": mpmath.hyperu, "i0": lambda x: mpmath.besseli(0, x),
    "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), "i1": lambda x: mpmath.besseli(1, x),
    "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), "iv": mpmath.besseli,
    "ive": lambda v, x: mpmath.besseli(v, x) * mpmath.exp(-abs(x)), "j0": mpmath.j0, "j1": mpmath.j1,
    "jv": mpmath.besselj, "k0": lambda x: mpmath.besselk(0, x), "k0e": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "k1": lambda x: mpmath.besselk(1, x), "k1e": lambda x: mpmath.besselk(1, x) * mpmath.exp(x), "kv": mpmath.besselk,
    "kve": lambda v, x: mpmath.besselk(v, x) * mpmath.exp(x), "modstruve": mpmath.struvel, "ndtr": mpmath.ncdf,
    "log_ndtr": lambda x: mpmath.log1p(-mpmath.ncdf(-x)) if x > 0 else mpmath.log(mpmath.ncdf(x)), "poch": mpmath.rf,
    "psi": mpmath.digamma, "rgamma": mpmath.rgamma,
    "spence": lambda z: mpmath.polylog(2, 1 - z), "struve": mpmath.struveh, "y0": lambda x: mpmath.bessely(0, x),
    "y1": lambda x: mpmath.bessely(1, x), "yv": mpmath.bessely, "zetac": lambda x: mpmath.zeta(x) - 1,
}  # fmt: skip
"""Each function by the name of its ufunc, of real arguments and with a real value."""


def strayed(name: str, args: Sequence[Any], value: Any) -> str | None:
    """Return how far the values of a function of scipy.special are off, "" if they are near enough, or None if nothing
    is known: there is no row, an element is no finite number or too large, or mpmath does not give a real number."""
    shaped = np.broadcast_arrays(value, *args)
    if name not in EXACT or shaped[0].dtype != np.float64 or shaped[0].size > _MOST or not shaped[0].size:
        return None
    if not all(np.isfinite(each).all() and (np.abs(each) <= _LARGEST).all() for each in shaped[1:]):
        return None
    worst, said = 0.0, ""
    for got, *given in zip(*(each.ravel().tolist() for each in shaped), strict=True):
        off = _off(EXACT[name], given, got)
        if off is None:
            return None
        if off > max(worst, _FAR):
            exact = mpmath.nstr(_exact(EXACT[name], given), 17)
            worst, said = off, f"{name}({', '.join(map(repr, given))}) = {got!r}, must be {exact}: off by {off:,.0f}"
    return said and f"{said} times as far as a unit in the last place of an argument or of the value is"


def _exact(function: Callable[..., Any], given: Sequence[float]) -> Any:
    """Return the exact value, or None if mpmath does not give it as a real number, or as 0."""
    before = None
    for digits in _DIGITS:
        with mpmath.workdps(digits):
            found = function(*map(mpmath.mpf, given))
            if not isinstance(found, mpmath.mpf) or not mpmath.isfinite(found):
                return None
            if (
                before is not None
                and found
                and abs(found - before) <= abs(found) * mpmath.mpf(10) ** (-_DIGITS[0] // 2)
            ):
                return found
            before = found
    return None


def _off(function: Callable[..., Any], given: Sequence[float], got: float) -> float | None:
    """Return the error of a value by a unit in its last place, or by what a unit of an argument changes."""
    try:
        exact = _exact(function, given)
        if exact is None or not np.isfinite(got):
            return None
        unit = mpmath.mpf(np.spacing(max(abs(float(exact)), np.finfo(float).tiny)))
        for at, each in enumerate(given):
            moved = _exact(function, [*given[:at], float(np.nextafter(each, np.inf)), *given[at + 1 :]])
            unit = max(unit, abs(moved - exact) if moved is not None else unit)
        with mpmath.workdps(_DIGITS[0]):
            return float(abs(exact - got) / unit)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError, mpmath.NoConvergence, NotImplementedError):
        return None
