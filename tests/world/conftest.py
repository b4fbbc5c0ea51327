from pathlib import Path

import pytest

from harness.tasks.counting.writer import write as write_counting
from harness.tasks.mevis.writer import write as write_mevis
from harness.tasks.reason_seg.writer import write as write_reason_seg
from harness.world.shapes import World, Writer, make, make_world

WRITERS: dict[str, Writer] = {
    "reason_seg": write_reason_seg,
    "mevis": write_mevis,
    "counting": write_counting,
}


@pytest.fixture(scope="session")
def writers() -> dict[str, Writer]:
    return WRITERS


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(seed=3, size=24)


@pytest.fixture(scope="session")
def small() -> World:
    return make_world(seed=5, size=9)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory, small: World) -> Path:
    out = tmp_path_factory.mktemp("shapes") / "data"
    make(out, seed=small.seed, size=small.size, writers=WRITERS)
    return out
