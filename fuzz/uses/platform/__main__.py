"""A process of its own measures a platform, so that a library that ends it ends nothing else: it prints JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from fuzz.base.platforms import PLATFORMS
from fuzz.uses.platform.functions import bf16_of, calls_of, halves_of
from fuzz.uses.platform.measurement import Measurement, attempted, in_bf16, in_halves, measured


def main(name: str) -> None:
    """Measure a platform."""
    found = [*measured(PLATFORMS[name], calls_of(name)), *in_halves(halves_of(name))]
    if narrow := bf16_of(name):
        found.append(attempted("subnormals of bf16", lambda: in_bf16(PLATFORMS[name], narrow)))
    if name.startswith("triton"):
        from fuzz.uses.platform.triton_functions import bits_of_products

        def dot() -> Measurement:
            bits = bits_of_products("cuda" if name.endswith("cuda") else "cpu")
            said = f"f32 operands have {bits} bits{' (TF32)' if bits == 11 else ''}, where nothing is said"
            return Measurement("dot", "24 bits, or TF32 where there are tensor cores", said, bits in (11, 24))

        found.append(attempted("dot", dot))
    print(json.dumps([asdict(each) for each in found]))


main(sys.argv[1])
