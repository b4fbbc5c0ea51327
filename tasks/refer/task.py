"""RefCOCO, RefCOCO+ and RefCOCOg: one function that builds the task of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from harness.errors import UsageError
from harness.layout import folder
from harness.task import Protocol, Task, choose
from harness.tasks.refer.expressions import refer_source
from harness.tasks.refer.hub import copies_source, lmms_source
from harness.tasks.refer.scoring import BOXED, PROTOCOLS
from harness.tasks.refer.source import Source
from harness.types import AnswerForm

Layout: TypeAlias = Literal["auto", "refer", "visionreasoner", "lmms"]
AnswerKind: TypeAlias = Literal["mask", "box"]

SERVED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "refer": tuple(PROTOCOLS),
        "visionreasoner": (
            "res/instance",
            "rec/instance",
            "res/expression-strict",
            "rec/expression",
        ),
        "lmms": ("rec/expression",),
    }
)
"""The protocols that each layout has the ground truth for, in the order in which layouts are looked
for.

The copies on the hub hold masks that are already joined, so that LISA's reading is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Particulars of one benchmark of the family."""

    name: str
    """The task's name."""
    folder: str
    """Folder of the benchmark in refer's layout."""
    copies: str
    """First part of the folder names of VisionReasoner's copies, before `_val`."""
    boxes: str
    """Folder of the benchmark among those of lmms-lab."""


def refer(
    data: Path,
    benchmark: Benchmark,
    *,
    split: str,
    protocol: str,
    answer: AnswerKind,
    split_by: str,
    layout: Layout,
) -> Task:
    """One sample an expression, or an object where the protocol ends with `instance`.

    Raises:
        UsageError: there is no such protocol, or the layout does not have its ground truth.
        DataError: the layout's files are not there.
    """
    name = BOXED.get(protocol, protocol) if answer == "box" else protocol
    scoring: Protocol = choose("protocol", PROTOCOLS, name)
    root = folder(data / "refer_seg", fix=_fix(benchmark))
    places = _places(root, benchmark, split, name)
    chosen = _find_layout(places, name) if layout == "auto" else layout
    if name not in SERVED[chosen]:
        raise UsageError(
            f"layout={chosen}",
            expected=f"a layout with the ground truth of {name}",
            found=f"one for {', '.join(SERVED[chosen])}",
        )
    source = _open(chosen, places[chosen], split, split_by=split_by, name=name, fix=_fix(benchmark))
    boxed = name.startswith("rec/")
    return Task(
        name=benchmark.name,
        version=1,
        split=split,
        forms=(AnswerForm.BOXES if boxed else AnswerForm.MASK,),
        protocol=scoring,
        samples=source.samples,
        annotations=source.files,
        check=source.check,
        check_samples=source.check_samples,
        arguments={
            "split": split,
            "protocol": name,
            "answer": "box" if boxed else "mask",
            "layout": chosen,
            "split_by": split_by if chosen == "refer" else None,
        },
    )


def _fix(benchmark: Benchmark) -> str:
    return f"`harness list tasks {benchmark.name}` prints the source of the data."


def _places(root: Path, benchmark: Benchmark, split: str, protocol: str) -> dict[str, Path]:
    """Each layout's folder; VisionReasoner has one for objects and one for all expressions."""
    kind = "" if protocol.endswith("/instance") else "_all"
    return {
        "refer": root / benchmark.folder,
        "visionreasoner": root / f"{benchmark.copies}_{split}{kind}",
        "lmms": root / "lmms-lab" / benchmark.boxes,
    }


def _find_layout(places: Mapping[str, Path], protocol: str) -> str:
    """Return the first layout on disk that has the protocol's ground truth; else `refer`."""
    there = (name for name in SERVED if protocol in SERVED[name] and places[name].is_dir())
    return next(there, "refer")


def _open(layout: str, place: Path, split: str, *, split_by: str, name: str, fix: str) -> Source:
    if layout == "visionreasoner":
        return copies_source(place, protocol=name, fix=fix)
    if layout == "lmms":
        return lmms_source(place, split, fix=fix)
    return refer_source(place, split, split_by=split_by, protocol=name, fix=fix)
