"""Training sets: their examples, a small world in their layouts, and files made by hand."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from harness.task import Task
from harness.world.shapes import make_world

REPOSITORY = Path(__file__).resolve().parents[3]
BASES = ("reason_seg", "mevis", "ref_youtube_vos", "ref_davis17")


@pytest.fixture(scope="session")
def build() -> Callable[..., Task]:
    """A training set by name, from a data root."""

    def built(name: str, root: Path, **arguments: Any) -> Task:
        return getattr(import_module(f"harness.tasks.training.{name}.task"), name)(
            root, **arguments
        )

    return built


@pytest.fixture(scope="session")
def example() -> Callable[[str], Path]:
    """The data root that is committed beside a training set."""
    return lambda name: REPOSITORY / "tasks" / "training" / name / "example"


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The benchmarks whose training parts are read, in a very small world."""
    out = tmp_path_factory.mktemp("bases")
    world = make_world(seed=3, size=2)
    for name in BASES:
        import_module(f"harness.tasks.{name}.writer").write(world, out)
    return out


@pytest.fixture(scope="session")
def lines() -> Callable[[Path], list[dict[str, Any]]]:
    """The objects of a file of JSON lines."""
    return lambda path: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
