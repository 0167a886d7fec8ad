"""What the gate tests of native workers alone, on an emulated instruction set."""

from __future__ import annotations

import pytest

from fuzz.tests.cover.transport.test_containment import *  # noqa: F403
from fuzz.tests.cover.transport.test_crashes import *  # noqa: F403
from fuzz.tests.cover.transport.test_frames_of_many import *  # noqa: F403


@pytest.fixture(params=["qemu"])  # type: ignore[no-redef]  # in place of theirs
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)
