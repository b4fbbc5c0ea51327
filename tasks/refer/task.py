"""Build the tasks RefCOCO, RefCOCO+ and RefCOCOg from any of three layouts of their data."""

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

PROTOCOLS_OF_LAYOUT: Mapping[str, tuple[str, ...]] = MappingProxyType(
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
"""Protocols whose ground truth each layout has. `layout=auto` tries the layouts in this order.

VisionReasoner's copies have the union of an object's polygons, so they cannot serve
`res/expression`, in which a pixel in two polygons is background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Name and folders of one benchmark of the family."""

    name: str
    """The task's name."""
    folder: str
    """Folder of the benchmark in refer's layout."""
    copies: str
    """First part of the folder names of VisionReasoner's copies, before `_val`."""
    boxes: str
    """Folder of the benchmark below `lmms-lab`."""


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
    """Build the task: one sample per expression, or per object if the protocol is `…/instance`.

    Raises:
        UsageError: there is no such protocol, or the layout does not have its ground truth.
        DataError: the layout's files are missing.
    """
    name = BOXED.get(protocol, protocol) if answer == "box" else protocol
    scoring: Protocol = choose("protocol", PROTOCOLS, name)
    root = folder(data / "refer_seg", fix=_fix(benchmark))
    folders = _folders(root, benchmark, split, name)
    layout_name = _find_layout(folders, name) if layout == "auto" else layout
    if name not in PROTOCOLS_OF_LAYOUT[layout_name]:
        raise UsageError(
            f"layout={layout_name}",
            expected=f"a layout with the ground truth of {name}",
            found=f"one for {', '.join(PROTOCOLS_OF_LAYOUT[layout_name])}",
        )
    source = _open(
        layout_name, folders[layout_name], split, split_by=split_by, name=name, fix=_fix(benchmark)
    )
    is_box = name.startswith("rec/")
    return Task(
        name=benchmark.name,
        version=1,
        split=split,
        forms=(AnswerForm.BOXES if is_box else AnswerForm.MASK,),
        protocol=scoring,
        samples=source.samples,
        annotations=source.files,
        check=source.check,
        check_samples=source.check_samples,
        arguments={
            "split": split,
            "protocol": name,
            "answer": "box" if is_box else "mask",
            "layout": layout_name,
            "split_by": split_by if layout_name == "refer" else None,
        },
    )


def _fix(benchmark: Benchmark) -> str:
    return f"`harness list tasks {benchmark.name}` prints the source of the data."


def _folders(root: Path, benchmark: Benchmark, split: str, protocol: str) -> dict[str, Path]:
    """Return the folder of each layout.

    VisionReasoner has two copies of a split: one row per object, and (`_all`) per expression.
    """
    suffix = "" if protocol.endswith("/instance") else "_all"
    return {
        "refer": root / benchmark.folder,
        "visionreasoner": root / f"{benchmark.copies}_{split}{suffix}",
        "lmms": root / "lmms-lab" / benchmark.boxes,
    }


def _find_layout(folders: Mapping[str, Path], protocol: str) -> str:
    """Return the first layout on disk that has the protocol's ground truth; else `refer`."""
    for layout, protocols in PROTOCOLS_OF_LAYOUT.items():
        if protocol in protocols and folders[layout].is_dir():
            return layout
    return "refer"


def _open(layout: str, root: Path, split: str, *, split_by: str, name: str, fix: str) -> Source:
    """Return the source of samples of a layout in its folder `root`; `name` is the protocol's."""
    if layout == "visionreasoner":
        return copies_source(root, protocol=name, fix=fix)
    if layout == "lmms":
        return lmms_source(root, split, fix=fix)
    return refer_source(root, split, split_by=split_by, protocol=name, fix=fix)
