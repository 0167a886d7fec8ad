"""The platforms: one row for each documented fact, with its source. A nightly test measures the facts on hardware. CUDA
documents errors relative to the rounded exact result; relative to the exact result the bound is half an ulp larger."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.core.base.platform import DOT, Fact, May, Platform, Usual
from oracles.formula.contract import Besides, Within
from oracles.summation import NumericsError

_TRITON, _TORCH, _NUMPY, _C, _SHARED = "triton@cuda", "torch@cpu", "numpy@cpu", "c", "shared"
_CUDA, _FAST = "cuda", "cuda --use_fast_math"
_GUIDE = "CUDA C++ Programming Guide, mathematical functions"
_NVCC = "CUDA compiler driver NVCC"
_LIBDEVICE = f"{_GUIDE}: {{0}}f within {{1}} ulp; Triton has libdevice flush (nvvm-reflect-ftz)"
_CUDA_ULP = {"erf": 2, "atan": 2, "expm1": 1, "log1p": 1, "atan2": 3, "hypot": 3}
_PLAIN_CUDA_ULP = {"exp": 2, "exp2": 2, "log": 1, "log2": 1, "sin": 2, "cos": 2, "tanh": 2, "pow": 4}
"""CUDA's documented bounds in ulp: `_CUDA_ULP` for functions that --use_fast_math does not change, `_PLAIN_CUDA_ULP`
for those that it replaces."""
_GLIBC = "GNU C Library manual, Errors in Math Functions: a few ulp; {0}f of glibc 2.36, measured of all f32: {1} ulp"
_ONEDNN = (
    "oneDNN has {0} of bf16, by AVX512_BF16 where it can; Intel SDM, {1}: denormal operands are zero, results flushed,"
    " and MXCSR is not consulted"
)
_SLEEF = "SLEEF, which torch calls with AVX2 and on: {0} has the suffix u10, within 1.0 ulp"

FACTS: tuple[Fact, ...] = (
    Fact(
        _TRITON, "exp", Within(2.5, growth=0.62),
        f"{_GUIDE}, intrinsics: __expf within 2 + floor(1.173 |x|) ulp, which is ex2.approx.f32 of x log2 e; Triton 3.9"
        " writes the same",
    ),
    Fact(
        _TRITON, "sigmoid", Within(5.6, growth=0.62),
        "tl.sigmoid is 1 / (1 + exp(-x)): the exponential, half an ulp, and a quotient",
    ),
    Fact(_TRITON, "sigmoid", Besides(2.0**-104), "the same: its exponential overflows, 0 in the place of up to 2^-128"),
    Fact(
        _TRITON, "tanh", Besides(11.2),
        "Triton has none of its own: 2 tl.sigmoid(2 x) - 1, twice what the sigmoid is off by",
    ),
    Fact(
        _TRITON, "exp2", Within(2.5, flushes=True),
        f"{_GUIDE}: exp2f within 2 ulp; Triton 3.9 writes ex2.approx.ftz.f32",
    ),
    Fact(_TRITON, "log", Within(1.5), f"{_GUIDE}: logf within 1 ulp"),
    Fact(_TRITON, "log2", Within(1.5), f"{_GUIDE}: log2f within 1 ulp"),
    Fact(
        _TRITON, "sqrt", Within(1.5, flushes=True),
        f"{_GUIDE}: sqrtf within 1 ulp without -prec-sqrt; Triton 3.9 writes sqrt.approx.ftz.f32, and sqrt.rn.f32 for"
        " tl.sqrt_rn",
    ),
    Fact(
        _TRITON, "rsqrt", Within(4.1, flushes=True),
        f"1 / tl.sqrt(x) is such a root and such a quotient; {_GUIDE}: rsqrtf within 2 ulp; Triton 3.9 writes"
        " rsqrt.approx.ftz.f32 for tl.rsqrt",
    ),
    Fact(
        _TRITON, "divide", Within(2.5),
        "PTX ISA, div.full.f32: within 2 ulp; Triton 3.9 writes it for x / y, and div.rn.f32 for tl.div_rn",
    ),
    *(
        Fact(_TRITON, name, Within(ulp + 0.5, flushes=True), _LIBDEVICE.format(name, ulp))
        for name, ulp in {**_CUDA_ULP, "sin": 2, "cos": 2, "tanh": 2, "pow": 4}.items()
    ),
    Fact(_TRITON, "sums", May.ANY_ORDER, "the Triton documentation of tl.sum and tl.dot promises no order"),
    Fact(
        _TRITON, "products", Usual("rounded or not, where a sum takes them"),
        "Triton contracts a * b + c, unless enable_fp_fusion or TRITON_DEFAULT_FP_FUSION says otherwise",
    ),
    Fact(
        _TRITON, "subnormal numbers", Usual("kept by +, -, *, / and where no function flushes them"),
        "Triton 3.9 writes add.f32, mul.f32, fma.rn.f32 and div.full.f32, without .ftz",
    ),
    Fact(
        _TRITON, "dot", May.TF32,
        "the Triton documentation of tl.dot: input_precision='tf32' or allow_tf32=True; it is so by default"
        " where there are tensor cores, and that default is held against a kernel; PyTorch, CUDA semantics: allow_tf32",
    ),
    # Measured with torch 2.13 on a processor with AVX2, at two million arguments for each function and 33 million for
    # `gelu`: `sqrt` errs by up to 0.75 ulp and `rsqrt` by 1.47. The error of `gelu` (oneDNN's) is as if its error
    # function erred by up to 5.02 ulp of 1, with AVX-512 by up to 6.37. The roundings around the error function account
    # for 0.5 to 1.5 of these.
    Fact(_TORCH, "sqrt", Within(1.0), "measured, 0.75 ulp: of vectors it is an estimate with a step"),
    Fact(_TORCH, "rsqrt", Within(2.0), "measured, 1.47 ulp: the same"),
    Fact(_TORCH, "erf", Besides(5.0), "measured of gelu, 5.0: oneDNN and SLEEF have a polynomial"),
    Fact(
        _TORCH, "sigmoid", Besides(2.0**-104),
        "it is 1 / (1 + exp(-x)), whose exponential overflows: 0 in the place of up to 2^-128",
    ),
    *(Fact(_TORCH, name, Within(1.0), _SLEEF.format(name)) for name in ("exp", "log", "tanh", "expm1", "log1p")),
    *(
        Fact(_TORCH, name, Within(3.0, low=-88.5, high=88.5), f"SLEEF, {name}f_u10: from 88.5 on it may be infinite")
        for name in ("sinh", "cosh")
    ),
    Fact(_TORCH, "lgamma", Within(4.0, high=4e36), "SLEEF, lgammaf_u10: from 4e36 on it may be infinite"),
    Fact(_TORCH, "lgamma", Besides(0.1, -(2.0**24), 0.0), "the same, of negative numbers: within 1 ulp or 1e-8"),
    # With AVX512_BF16 all numbers of bf16 were tried: these two functions flush, and 20 others do not.
    Fact(_TORCH, DOT, May.FLUSH_BF16, _ONEDNN.format("products of matrices and convolutions", "VDPBF16PS")),
    Fact(_TORCH, "erf", May.FLUSH_BF16, _ONEDNN.format("gelu", "VCVTNEPS2BF16")),
    Fact(
        _TORCH, "zeros", May.EITHER_SIGN,
        "gelu of -0 and logsigmoid of what is large are +0: a zero is added to what another formula multiplies",
    ),
    Fact(
        _TORCH, "sums", May.ANY_ORDER, "PyTorch, numerical accuracy: batches and slices are not promised the same bits"
    ),
    Fact(
        _TORCH, "16 bits", Usual("calculated in f32, and rounded at the end"),
        "PyTorch, numerical accuracy: reductions of 16 bits accumulate in f32 inside",
    ),
    Fact(
        "triton@interpret", "sigmoid", Besides(2.0**-104),
        "tl.sigmoid is 1 / (1 + exp(-x)), whose exponential overflows: 0 in the place of up to 2^-128",
    ),
    # measured with NumPy 2.4: 2.54 and 3.25
    Fact(_NUMPY, "exp", Within(3.0), "NumPy's vectorised f32 functions, as their source says: within 2.52 ulp"),
    Fact(_NUMPY, "log", Within(4.0), "NumPy's vectorised f32 functions, as their source says: within 3.83 ulp"),
    Fact(_NUMPY, "rsqrt", Within(2.0), "there is none: it is a root and a division, or an estimate with a step"),
    *(  # measured with AVX-512 of 12 million pairs: 3.26 and 1.14
        Fact(_NUMPY, name, Within(4.5), "NumPy has Intel's SVML for vectors of AVX-512, within 4 ulp")
        for name in ("atan2", "pow")
    ),
    Fact(_NUMPY, "sums", May.ANY_ORDER, "numpy.sum, notes: pairwise along the fast axis, and one by one along others"),
    *(
        Fact(_C, name, Within(ulp), _GLIBC.format(name, seen))
        for name, ulp, seen in (
            ("exp", 1.0, 0.502), ("exp2", 1.0, 0.502), ("log", 1.0, 0.818), ("log2", 1.0, 0.752), ("sin", 1.0, 0.561),
            ("cos", 1.0, 0.561), ("tanh", 2.5, 2.19), ("erf", 1.0, 0.968), ("expm1", 1.0, 0.813), ("log1p", 1.5, 1.30),
            ("atan", 1.0, 0.853),
        )
    ),
    Fact(_C, "sqrt", Within(0.5), "C11, annex F: sqrt and division are those of IEEE 754"),
    Fact(_C, "divide", Within(0.5), "C11, annex F: sqrt and division are those of IEEE 754"),
    Fact(_C, "sums", Usual("in the order of the source"), "C11, 5.1.2.3: a compiler may not reassociate"),
    Fact(
        _C, "products", Usual("rounded or not, where a sum takes them"),
        "GCC: -ffp-contract=fast is the default outside of ISO C",
    ),
    *(
        Fact(_SHARED, name, Within(4.5), "GNU C Library manual: libmvec, which a library may call, within 4 ulp")
        for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "expm1", "log1p", "atan", "pow",
                     "atan2", "hypot")
    ),
    Fact(_SHARED, "sums", May.ANY_ORDER, "nobody sees how a compiled library adds: -ffast-math lets it choose"),
    Fact(_SHARED, "products", Usual("rounded or not, where a sum takes them"), "the same, of what it contracts"),
    Fact("jax", "subnormal numbers", May.FLUSH, "XLA has them flushed on a processor, as measured of JAX 0.10"),
    Fact(
        "mlx", "exp", Within(4.5, growth=0.62, flushes=True),
        "MLX documents none; measured of 0.32 on a processor: it is 2^(x log2 e), and 0 below some -88",
    ),
    Fact("mlx", "erf", Within(4.5, flushes=True), "the same: that of a subnormal number is 0"),
    Fact("mlx", "sigmoid", Within(7.6, growth=0.62, flushes=True), "1 / (1 + exp(-x)), with such an exponential"),
    Fact("cupy", "subnormal numbers", May.FLUSH, "CuPy compiles all with -ftz=true: its issues 8382 and 9576"),
    Fact("jax", "rsqrt", Within(2.0), "XLA documents none: on a GPU it is rsqrt.approx.f32, within 2 ulp"),
    *(
        Fact(platform, name, Within(ulp + 0.5), f"{_GUIDE}: {name}f within {ulp} ulp")
        for platform, ulps in ((_CUDA, _CUDA_ULP | _PLAIN_CUDA_ULP), (_FAST, _CUDA_ULP))
        for name, ulp in ulps.items()
    ),
    *(
        Fact(name, about, value, source)
        for name in (_CUDA, _FAST)
        for about, value, source in (
            ("sigmoid", Besides(2.0**-104), "1 / (1 + expf(-x)): its exponential overflows, 0 in the place of 2^-128"),
            ("products", Usual("rounded or not, where a sum takes them"), f"{_NVCC}: --fmad=true is the default"),
            ("sums", May.ANY_ORDER, "CUDA C++ Programming Guide: nothing orders threads and blocks among each other"),
        )
    ),
    Fact(_CUDA, "sigmoid", Within(3.6), "1 / (1 + expf(-x)): the exponential, a sum and a quotient"),
    Fact(_CUDA, "rsqrt", Within(2.5), f"{_GUIDE}: rsqrtf within 2 ulp; 1 / sqrtf(x) is nearer"),
    Fact(_CUDA, "sqrt", Within(0.5), f"{_NVCC}: --prec-sqrt=true is the default"),
    Fact(_CUDA, "divide", Within(0.5), f"{_NVCC}: --prec-div=true is the default"),
    Fact(_CUDA, "subnormal numbers", Usual("kept"), f"{_NVCC}: --ftz=false is the default"),
    Fact(
        _FAST, "exp", Within(2.5, growth=0.62),
        f"{_NVCC}: --use_fast_math makes expf __expf; {_GUIDE}, intrinsics: within 2 + floor(1.173 |x|) ulp",
    ),
    Fact(_FAST, "exp2", Within(2.5), f"{_GUIDE}: exp2f within 2 ulp"),
    Fact(_FAST, "sigmoid", Within(5.6, growth=0.62), "1 / (1 + __expf(-x)): the exponential, a sum and a quotient"),
    Fact(_FAST, "sqrt", Within(1.5), f"{_NVCC}: it implies --prec-sqrt=false; {_GUIDE}: sqrtf within 1 ulp then"),
    Fact(_FAST, "rsqrt", Within(4.1), "1 / sqrtf(x) is such a root and such a quotient"),
    Fact(_FAST, "divide", Within(2.5), f"{_NVCC}: it implies --prec-div=false; {_GUIDE}: within 2 ulp then"),
    Fact(_FAST, "tanh", Within(4096.5), "PTX ISA, tanh.approx.f32, which tanhf becomes: within 2^-11 of its value"),
    Fact(_FAST, "subnormal numbers", May.FLUSH, f"{_NVCC}: it implies --ftz=true"),
)  # fmt: skip
"""All facts. If several rows of a platform are about one function, all of them hold."""

_ALSO: Mapping[str, tuple[str, ...]] = {
    "triton@interpret": (_NUMPY,),  # it calls NumPy
    **dict.fromkeys(("command", "jax", "mlx", "cupy", "dlpack"), (_SHARED,)),  # nobody can look inside either
    "torch@cuda": (_TORCH, _TRITON),  # torch.compile writes Triton, and so may a function of tensors
}
"""The platforms whose facts also hold for a platform, by its name."""


def _platform(name: str) -> Platform:
    others = _ALSO.get(name, ())

    def holds(fact: Fact) -> bool:  # the instructions of a processor exist nowhere else
        return fact.platform == name or (fact.platform in others and fact.value is not May.FLUSH_BF16)

    return Platform(name, tuple(filter(holds, FACTS)))


PLATFORMS: Mapping[str, Platform] = {
    name: _platform(name) for name in (*dict.fromkeys(each.platform for each in FACTS), *_ALSO)
}
"""The platforms, by the kind and site of a kernel, or by the kind alone."""


def platform_of(kind: str, site: str, named: str = "fills") -> Platform:
    """Return the platform of kernels of a kind on a site, or one without facts if none is known; or the platform that
    a contract names. Raises NumericsError for a name that no platform has."""
    if named in ("fills", "widens", "none"):
        return PLATFORMS.get(f"{kind}@{site}") or PLATFORMS.get(kind) or Platform(f"{kind}@{site}", ())
    from fuzz.core.base.acceptance import TABLES  # loaded only if one is asked for

    if (found := TABLES.get(named) or PLATFORMS.get(named)) is None:
        known = ", ".join((*TABLES, *PLATFORMS))
        raise NumericsError(f"platform: {named!r} is neither 'fills', 'widens', 'none' nor one of {known}")
    return found
