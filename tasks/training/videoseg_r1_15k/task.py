"""VideoSeg-R1's 15,000 training samples: MeViS, Ref-YouTube-VOS and Ref-DAVIS17 as 60 : 30 : 10.

The set has no files of its own: it draws expressions from the `train` splits of the three tasks.
The paper says how many are from each, not which: they are drawn uniformly, by a seed. Ref-DAVIS17
has fewer expressions than its share, so its expressions are repeated under other ids.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from harness.errors import UsageError
from harness.layout import field, read_json
from harness.task import Problem, Task, choose
from harness.tasks.mevis.task import mevis
from harness.tasks.ref_davis17.task import ref_davis17
from harness.tasks.ref_youtube_vos.task import ref_youtube_vos
from harness.tasks.rvos.scoring import by_expressions
from harness.types import AnswerForm, Sample, query_id
from harness.world.draws import Draws

SHARES: Mapping[str, int] = {"mevis": 6, "ref_youtube_vos": 3, "ref_davis17": 1}
"""Share of each set in the mixture, in tenths."""
TENTHS = 10  # sum of SHARES
EXPRESSION_FILES: Mapping[str, str] = {
    "mevis": "mevis/train/meta_expressions.json",
    "ref_youtube_vos": "ref_youtube_vos/meta_expressions/train/meta_expressions.json",
    "ref_davis17": "ref_davis17/meta_expressions/train/meta_expressions.json",
}
"""The file of expressions of each set, below the data root."""

PROTOCOLS = {"rvos/mevis": by_expressions("J and F over all frames, all expressions alike")}


def videoseg_r1_15k(
    data: Path,
    *,
    split: Literal["train"] = "train",
    total: int = 15_000,
    seed: int = 0,
    repeat: bool = True,
    protocol: str = "rvos/mevis",
) -> Task:
    """One sample per drawn expression; ids are `set/video/expression`, with `#2` at a repetition.

    Args:
        seed: Decides which samples are drawn.
        total: Number of samples; a multiple of ten.
        repeat: True: expressions of a set with too few are repeated. False: it gives fewer samples.
        protocol: `rvos/mevis`, for curves.
    """
    scoring = choose("protocol", PROTOCOLS, protocol)
    if total < TENTHS or total % TENTHS:
        raise UsageError("videoseg_r1_15k(total=…)", expected="a multiple of 10", found=str(total))
    sets = [
        _DrawnSet(
            name,
            BUILD[name](data),
            _draw_counts(data, name, total * tenths // TENTHS, seed, repeat),
        )
        for name, tenths in SHARES.items()
    ]
    return Task(
        name="videoseg_r1_15k",
        version=1,
        split=split,
        forms=(AnswerForm.MASK_TRACK,),
        protocol=scoring,
        samples=partial(_samples, sets),
        annotations=tuple(path for set_ in sets for path in set_.task.annotations),
        check=partial(_check, sets),
        arguments={
            "split": split,
            "total": total,
            "seed": seed,
            "repeat": repeat,
            "protocol": protocol,
            "samples": {set_.name: set_.times.total() for set_ in sets},
            "expressions": {set_.name: len(set_.times) for set_ in sets},
        },
    )


@dataclass(frozen=True, slots=True)
class _DrawnSet:
    """One of the three sets, with the number of times that each of its expressions is used."""

    name: str
    task: Task
    times: Counter[str]
    """Number of uses by the expression's id in the set."""


BUILD: Mapping[str, Callable[[Path], Task]] = {
    "mevis": lambda data: mevis(data, split="train"),
    "ref_youtube_vos": lambda data: ref_youtube_vos(data, split="train"),
    "ref_davis17": lambda data: ref_davis17(data, split="train", protocol="rvos/visa_davis"),
}


def _draw_counts(data: Path, name: str, total: int, seed: int, repeat: bool) -> Counter[str]:
    """Return the number of times that each expression of a set is used."""
    return Counter(
        draw_ids(
            expressions(data / EXPRESSION_FILES[name]), total, seed=seed, name=name, repeat=repeat
        )
    )


def expressions(path: Path) -> list[str]:
    """Return the ids of all expressions of a file, `video/expression`; no mask is read."""
    videos: dict[str, object] = field(read_json(path), "videos", dict, str(path))
    return [
        f"{video}/{number}"
        for video, entry in videos.items()
        for number in field(entry, "expressions", dict, f"{path}, video {video!r}")
    ]


def draw_ids(
    ids: Sequence[str], total: int, *, seed: int, name: str, repeat: bool = True
) -> list[str]:
    """Draw `total` ids in random order; every id is drawn n times before any is drawn n + 1 times.

    >>> sorted(draw_ids(["a", "b"], 3, seed=0, name="x"))[:1] == ["a"]
    True
    >>> len(draw_ids(["a", "b"], 3, seed=0, name="x", repeat=False))
    2
    """
    ids_in_order: list[str] = []
    rounds = 0
    while ids and len(ids_in_order) < total and (repeat or not rounds):
        ids_in_order += Draws(seed, "training", "videoseg_r1", name, rounds).shuffle(list(ids))
        rounds += 1
    return ids_in_order[:total]


def _samples(sets: Sequence[_DrawnSet]) -> Iterator[Sample]:
    """Yield the drawn samples of each set, as often as they were drawn."""
    for set_ in sets:
        for sample in set_.task.samples():
            for occurrence in range(1, set_.times[sample.id] + 1):
                name = f"{set_.name}/{sample.id}" + (f"#{occurrence}" if occurrence > 1 else "")
                yield replace(
                    sample,
                    id=name,
                    unit=name,
                    group=f"{set_.name}/{sample.group}",
                    query=replace(sample.query, id=query_id(name)),
                    categories={"set": set_.name},
                )


def _check(sets: Sequence[_DrawnSet]) -> Iterator[Problem]:
    """Yield the faults of the three sets, and those of sets without expressions."""
    for set_ in sets:
        yield from set_.task.check()
        if not set_.times:
            yield Problem(set_.name, "its training part has no expressions")
