"""A tiny random Qwen2.5-VL (the one that tests of models use), and data roots with few samples."""

import importlib.util
import json
import random
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def _module(name: str, *place: str) -> Any:
    """A module of the tests by its place below tests/, where pytest would not find it."""
    if name not in sys.modules:
        path = REPOSITORY.joinpath("tests", *place)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


MODELS = _module("tests_models_conftest", "models", "conftest.py")
"""Fixtures that pytest shares only with the tests beside them."""
tiny_qwen = MODELS.tiny_qwen
tiny_qwen3 = MODELS.tiny_qwen3
tiny_qwen35 = MODELS.tiny_qwen35
networks_are_read_once = MODELS.networks_are_read_once


@pytest.fixture(scope="session")
def official_cases() -> list[Any]:
    """What the official rewards of VisionReasoner and Seg-Zero were asked about, drawn once."""
    made = _module("golden_responses", "golden", "visionreasoner_reward", "responses.py")
    stored = json.loads(Path(made.__file__).with_name("scores.json").read_text())
    assert (stored["seed"], stored["count"]) == (made.SEED, made.COUNT)
    rows = (stored["rows"][row] for row in stored["index"])
    return list(zip(made.cases(), rows, strict=True))


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples that come with reason_seg, counting and mevis, as one data root."""
    root = tmp_path_factory.mktemp("data")
    for name in ("reason_seg", "counting", "mevis"):
        shutil.copytree(REPOSITORY / "tasks" / name / "example" / name, root / name)
    return root


@pytest.fixture
def huge() -> list[str]:
    """Numbers that Python can read or write with difficulty, or not at all."""
    draws = random.Random(11)
    made = ["9" * 64, "9" * 309, "9" * 5_000, "0x" + "f" * 4_000, "1" + "_0" * 400, "1e999"]
    bases = (("0x", "123456789abcdef"), ("0o", "1234567"), ("0b", "1"), ("", "789"))
    made += [
        base + "".join(draws.choices(digits, k=draws.randrange(60, 4_400)))
        for base, digits in bases
        for _ in range(2)
    ]
    return [*made, "00x00 resolution", f"-{made[3]}", f"[{made[1]}, {made[3]}]"]


class Told:
    """Progress that remembers what it was told, and may end the process at a step."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.started: list[tuple[str, int, int]] = []
        self.dies_at: int | None = None

    def start(self, name: str, total: int, done: int) -> None:
        self.started.append((name, total, done))

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        if "loss" not in numbers:
            return
        self.steps.append(done)
        self.losses.append(numbers["loss"])
        if done == self.dies_at:
            raise Died

    def note(self, text: str) -> None:
        self.notes.append(text)

    def end(self) -> None:
        return


class Died(BaseException):
    """As abrupt as a kill: nothing catches it, nothing is saved because of it."""


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def died() -> type[BaseException]:
    return Died
