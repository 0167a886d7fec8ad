"""`python -m fuzz.quality.speed`: compile what the kernels that stdin names need, before they are measured.

Compilation takes far longer than measuring does, and many processes can do it at a time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fuzz.adapters.pack import load as load_pack
from fuzz.quality.speed import Shape
from fuzz.quality.speed.cuda import load, peers_of, warm
from fuzz.uses.starting import select_targets


def main() -> None:
    """Stdin is {"pack": folder or null, "targets": ids, "shapes": [[op, dtype, rows, n], ...]}."""
    import torch

    asked = json.load(sys.stdin)
    pack = load_pack(Path(asked["pack"]) if asked["pack"] else None)
    targets = select_targets(pack.kernels, "*", asked["targets"])
    kernels = load(targets)
    for op, dtype, rows, n in asked["shapes"]:
        of_op = {target.id: kernels[target.id] for target in targets if target.kernel.op == op}
        warm(torch, Shape(op, dtype, rows, n), of_op, peers_of(torch, op))


if __name__ == "__main__":
    main()
