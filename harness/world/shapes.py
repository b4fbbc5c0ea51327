"""The generated world as examples by family and split, and `make`, which writes it to a folder.

`harness data make shapes` calls `make` with writers, each of which writes one benchmark in its
official layout.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from harness.errors import DataError, UsageError, raised_as
from harness.version import __version__
from harness.world.families import draw_scene
from harness.world.fingerprint import fingerprint, fingerprints, manifest
from harness.world.language import Question
from harness.world.qa import QA, ask_qa
from harness.world.questions import ask_questions
from harness.world.scene import SPLITS, Scene, Split

TRAIN_FACTOR = 4  # `train` has so many times the samples of another split
MANIFEST = "shapes.json"


@dataclass(frozen=True, slots=True)
class Example:
    """A scene and the questions about it."""

    scene: Scene
    questions: tuple[Question, ...]
    """Questions with masks or counts as answers."""
    quizzes: tuple[QA, ...] = ()
    """Questions with an option or a number as the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A generated world: everything that writers turn into benchmarks."""

    seed: int
    size: int
    """Questions a family and split; `train` has four times as many."""
    examples: Mapping[tuple[str, Split], tuple[Example, ...]]
    """Examples by (family, split). A longer world begins with the scenes of a shorter one."""

    def examples_of(self, family: str, split: Split) -> tuple[Example, ...]:
        """The examples of one family and split."""
        return self.examples[family, split]

    def scenes(self, family: str, split: Split) -> tuple[Scene, ...]:
        """The scenes of these examples."""
        return tuple(example.scene for example in self.examples_of(family, split))


Writer: TypeAlias = Callable[[World, Path], None]
"""Writes one benchmark in its official layout below a data root."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Callback with (steps done, steps in all, name of the next step)."""


def make_world(*, seed: int, size: int) -> World:
    """Return a world whose scenes and questions are drawn at first access, family by family."""
    if size < 1:
        raise UsageError("size of a world", expected="at least 1 sample a split", found=str(size))
    return World(seed=seed, size=size, examples=_Examples(seed, size))


FAMILY_SPLITS: Mapping[str, tuple[Split, ...]] = MappingProxyType(
    {
        **{"still": SPLITS, "video": SPLITS, "count": SPLITS, "countbench": ("test",)},
        **{"qa": SPLITS, "referring": SPLITS, "qa_video": SPLITS, "arrivals": SPLITS},
    }
)
QUIZ_FAMILIES = ("qa", "qa_video", "arrivals")
"""Families whose scenes have questions with options or numbers."""
QUESTIONS_PER_SCENE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"video": (4, 3, 5), "qa": (2, 1), "qa_video": (3, 2, 4), "arrivals": (2, 1, 3)}
)
"""Number of questions of one scene, in turn; one for families without an entry."""


class _Examples(Mapping[tuple[str, Split], tuple[Example, ...]]):
    """Examples of a world; those of each family and split are drawn at their first access."""

    def __init__(self, seed: int, size: int) -> None:
        self._seed = seed
        self._size = size
        self._drawn: dict[tuple[str, Split], tuple[Example, ...]] = {}

    def __getitem__(self, key: tuple[str, Split]) -> tuple[Example, ...]:
        if key not in self._drawn:
            family, split = key
            if split not in FAMILY_SPLITS[family]:
                raise KeyError(key)
            number = self._size * (TRAIN_FACTOR if split == "train" else 1)
            self._drawn[key] = tuple(_draw_examples(self._seed, family, split, number))
        return self._drawn[key]

    def __iter__(self) -> Iterator[tuple[str, Split]]:
        return ((family, split) for family, splits in FAMILY_SPLITS.items() for split in splits)

    def __len__(self) -> int:
        return sum(map(len, FAMILY_SPLITS.values()))


def _draw_examples(seed: int, family: str, split: Split, number: int) -> Iterator[Example]:
    """Yield examples with `number` questions in all; the last example may have fewer than usual."""
    shares = cycle(QUESTIONS_PER_SCENE.get(family, (1,)))
    for index, share in enumerate(shares):
        scene = draw_scene(seed, family=family, split=split, index=index)
        if family in QUIZ_FAMILIES:
            example = Example(scene, (), ask_qa(scene, number=share)[:number])
        else:
            example = Example(scene, ask_questions(scene, number=share)[:number])
        number -= len(example.questions) + len(example.quizzes)
        yield example
        if number <= 0:
            return


def make(
    out: Path,
    *,
    seed: int,
    size: int = 24,
    writers: Mapping[str, Writer],
    progress: Progress | None = None,
) -> World:
    """Write a world into the folder `out`, all of it or nothing, and return it.

    `out` becomes a data root: one folder a benchmark, and `shapes.json` with seed, size, version
    and a digest of each file. `size` is the number of samples a split and benchmark (`train` has
    four times as many). If `out` has a world of the same seed, size and version, the benchmarks
    that it lacks are added.

    Raises:
        UsageError: `out` exists and is neither an empty folder nor such a world, a file in it has
            another content, or `size` is below 1.
    """
    out = Path(out)
    earlier_files = _known_files(out, seed=seed, size=size)
    report = progress or (lambda done, total, what: None)
    total = len(writers) + 2
    report(0, total, "scenes")
    world = make_world(seed=seed, size=size)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    partial.mkdir()
    try:
        for done, (name, write) in enumerate(sorted(writers.items()), start=1):
            report(done, total, name)
            write(world, partial)
        report(total - 1, total, MANIFEST)
        added = fingerprints(partial)
        text = manifest({**earlier_files, **added}, seed=seed, size=size)
        (partial / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        if (out / MANIFEST).is_file():
            _move_into(partial, out, added)
        else:
            _check_free(out)
            if out.exists():
                out.rmdir()
            partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report(total, total, "")
    return world


def _known_files(out: Path, *, seed: int, size: int) -> Mapping[str, Mapping[str, str]]:
    """Return the digests of a world's files by name; {} for a new or an empty folder.

    Raises:
        DataError: `shapes.json` cannot be read.
        UsageError: the folder has something else, or a world of another seed, size or version.
    """
    if not (out / MANIFEST).is_file():
        _check_free(out)
        return {}
    with raised_as(DataError, f"file {out / MANIFEST}", "JSON", OSError, ValueError):
        plain = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    expected = {"harness": __version__, "seed": seed, "size": size}
    recorded = {name: plain.get(name) for name in expected}
    if recorded != expected:
        same = f"--seed {recorded['seed']} --size {recorded['size']}"
        raise UsageError(
            f"folder {out}",
            expected="a new or an empty folder, or a world of "
            + ", ".join(f"{name} {value}" for name, value in expected.items()),
            found="a world of " + ", ".join(f"{name} {value}" for name, value in recorded.items()),
            fix=f"To add tasks to it: harness data make shapes --out {out} {same} --tasks …"
            if recorded["harness"] == __version__
            else "Name another folder, or remove it first.",
        )
    files: Mapping[str, Mapping[str, str]] = plain["files"]
    return files


def _move_into(partial: Path, out: Path, added: Mapping[str, Mapping[str, str]]) -> None:
    """Move the files that a world lacks into it, its manifest last.

    Raises:
        UsageError: a file is there with another content; nothing was moved.
    """
    lacking = [name for name in added if not (out / name).exists()]
    for name in added.keys() - {*lacking}:
        if fingerprint(out / name) != added[name]:
            raise UsageError(
                f"file {out / name}",
                expected="the content that the world's other benchmarks give it",
                found="another",
                fix="Name another folder, and give all tasks at once.",
            )
    for name in lacking:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (partial / name).rename(out / name)
    (partial / MANIFEST).replace(out / MANIFEST)


def _check_free(out: Path) -> None:
    """Raise UsageError unless a folder is new or empty."""
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        raise UsageError(
            f"folder {out}",
            expected="a new or an empty folder",
            found=f"a folder with {sum(1 for _ in out.iterdir())} entries"
            if out.is_dir()
            else "something that is not a folder",
            fix="Name another one, or remove it first.",
        )
