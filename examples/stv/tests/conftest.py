"""TAO, KITTI and ScanNet of the generated world, and the set that is built of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stv_builder.shapes import write

from harness.world.shapes import make_world


@pytest.fixture(scope="session")
def stv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three sources, and `stv_205k` beside them."""
    out = tmp_path_factory.mktemp("stv")
    write(make_world(seed=3, size=3), out)
    return out


@pytest.fixture(scope="session")
def lines() -> Callable[[Path], list[dict[str, Any]]]:
    """The objects of a file of JSON lines."""
    return lambda path: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
