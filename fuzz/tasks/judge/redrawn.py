"""Making the inputs of a failing case again from the recipe that a ruling has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from fuzz.core.adapters.pack import load
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import from_bits
from fuzz.core.generate.realise import realise
from fuzz.references.replay.recipe import ReplayRecipe, given
from fuzz.tasks.judge.own import own_statement


def drawn(pack: str | Path, recipe: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a case that was drawn, by name, as contiguous arrays. `recipe` is what the `inputs` of a bug
    in a ruling have. `pack` is the folder that the ruling names, or for a replay the file of the reference, which is
    read for inputs that come with a `Model` alone."""
    if "key" in recipe:
        replayed = msgspec.convert(recipe, ReplayRecipe)
        own = None if replayed.tensors else own_statement(str(pack)).own
        return given(own(replayed.key) if own is not None else replayed.arrays(), replayed.dtype)
    load(Path(pack))
    inputs = realise(msgspec.convert(recipe, Draw)).inputs
    return {name: from_bits(each.bits, each.dtype, each.layout.shape).copy() for name, each in inputs.items()}
