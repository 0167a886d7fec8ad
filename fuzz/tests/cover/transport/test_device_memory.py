"""The memory of a GPU, on the host: all tensors of a frame travel together, and each arrives as it left."""

from __future__ import annotations

import torch

from fuzz.core.base.case import Layout
from fuzz.core.transport.python import device
from fuzz.core.transport.python.arrays import TorchArrays
from fuzz.core.transport.python.device import DeviceMemory
from fuzz.core.transport.python.slab import Slab, slabs
from fuzz.tests.common.planted import a_case

_MARGIN = 512


def _staged(memory: DeviceMemory, count: int) -> list[Slab]:
    found = [slab for _ in range(count) for slab in slabs(a_case(), _MARGIN, 0x7FFD, guarded=False).values()]
    for slab in found:
        memory.stage(slab)
    memory.send()
    return found


def test_each_tensor_is_where_its_image_was_put_and_comes_back_as_it_is_then() -> None:
    memory = DeviceMemory(_MARGIN, torch, "cpu")
    for count in (3, 2):  # the second frame is in the memory of the first
        found = _staged(memory, count)
        assert all(bytes(slab.memory.numpy()) == slab.image.tobytes() for slab in found)
        for number, slab in enumerate(found):
            TorchArrays().view(slab).fill_(number)
        memory.fetch()
        for number, slab in enumerate(found):
            assert set(slab.array(slab.after(), "f4").reshape(-1)) == {float(number)}
            assert not len(slab.changes(slab.after(), rejected=False)) or not slab.writable


def test_what_is_returned_is_kept_whatever_becomes_of_it_then() -> None:
    memory = DeviceMemory(_MARGIN, torch, "cpu")
    _staged(memory, 1)
    returned = torch.arange(6.0).view(2, 3).t()
    kept, other = memory.keep(returned), memory.keep(torch.zeros(()))
    assert kept.shape == returned.shape
    expected = returned.contiguous().numpy().tobytes()
    returned.fill_(7)
    memory.fetch()
    assert memory.kept_bytes(kept) == expected
    assert memory.kept_bytes(other) == bytes(4)
    assert memory.kept_bytes(returned) is None
    assert memory.kept_bytes(torch.zeros(2).to_sparse()) is None, "which has no elements in memory"
    _staged(memory, 1)
    assert memory.kept_bytes(kept) is None, "the next frame is sent"


def test_more_than_fits_is_left_for_the_next_time_and_what_is_large_alone_is_given_back() -> None:
    memory = DeviceMemory(device._STAGED_BYTES, torch, "cpu")
    [first, *_] = slabs(a_case(), device._STAGED_BYTES, 0x7FFD, guarded=False).values()
    full = [memory.is_full]
    memory.stage(first)
    full.append(memory.is_full)
    assert full == [False, True]
    memory.send()
    memory.fetch()
    assert first.after().tobytes() == first.image.tobytes()
    memory.release()
    assert memory._sent is None
    assert memory.keep(torch.zeros(device._KEPT_BYTES // 4 + 1)).numel() == device._KEPT_BYTES // 4 + 1


def test_rows_far_apart_lie_by_themselves_and_only_what_is_near_them_is_copied() -> None:
    memory = DeviceMemory(_MARGIN, torch, "cpu")
    found = list(slabs(a_case(Layout((3, 4), (1 << 26, 1))), _MARGIN, 0x7FFD, guarded=False).values())
    for slab in found:
        memory.stage(slab)
    memory.send()
    memory.fetch()
    far, near = found
    assert (far.is_sparse, near.is_sparse) == (True, False)
    _, second, third = far.windows
    assert TorchArrays().view(far).numpy().tobytes() == a_case().inputs["x"].bits
    assert not len(far.changes(far.after(), rejected=False))
    far.memory[second.start + 5] = 1
    far.memory[third.stop - 5] = 1
    assert [*far.changes(far.after(), rejected=False)] == [second.start + 5, third.stop - 5]
