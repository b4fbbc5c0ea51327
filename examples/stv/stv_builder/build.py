"""Builder of questions from official annotation files: deterministic by seed, one clip at a time.

OUT/questions.jsonl    one question a line (`harness.tasks.training.questions` reads them)
OUT/graphs.jsonl       graphs of questions that have one (`stv_builder.graphs`)
OUT/rl_ids.txt         ids of the subset for reinforcement learning, uniform over types
OUT/report.json        settings, numbers of questions, numbers of what was dropped
OUT/statistics.md      the same as a page
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from harness.errors import UsageError, raised_as
from harness.store.atomic import writing
from harness.types import Box
from harness.world.draws import Draws
from stv_builder import spatial, temporal
from stv_builder.answers import LEAD, Answers
from stv_builder.clips import Clip, Source
from stv_builder.drafts import (
    KINDS,
    TEMPORAL,
    Choice,
    Draft,
    Kind,
    Number,
    box_3d_text,
    box_text,
)
from stv_builder.filters import FilterCounts, Limits, with_clear_marks
from stv_builder.graphs import categories_of, graphs_of
from stv_builder.kitti import read_kitti
from stv_builder.letters import Letters
from stv_builder.sampling import uniform
from stv_builder.scannet import read_scannet
from stv_builder.statistics import Statistics, page
from stv_builder.tao import read_tao
from stv_builder.wording import question_text

GENERATORS: Mapping[Kind, Callable[[Clip, FilterCounts], Iterator[Draft]]] = {
    "object_counting": spatial.counting,
    "relative_direction": spatial.direction,
    "relative_distance": spatial.separation,
    "appearance_order": temporal.order,
    "object_size": spatial.size,
    "motion_tracking": temporal.tracking,
    "object_localization": spatial.localization,
    "displacement": temporal.displacement,
}
"""Generators of the questions about a video; an image has only the spatial ones."""

PARTIAL = ("questions.jsonl.partial", "graphs.jsonl.partial")
PER_CLIP = "beyond the questions of a type that one clip may have"
AGAIN = "the same question again"
TOO_OFTEN = f"{{}}: its right option leads another by {LEAD} questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """Settings for building a set."""

    sources: tuple[Source, ...] = ("tao", "kitti", "scannet")
    seed: int = 0
    frames: int = 16
    """Most frames of a clip, as the paper trains with."""
    per_clip: int = 3
    """Most questions of one type about one clip, and about one image."""
    images: int = 2
    """Number of frames of each clip that become separate images."""
    synonyms: bool = True
    rl: int = 12_000
    """Questions of the subset for reinforcement learning."""
    limits: Limits = field(default_factory=Limits)
    tao_split: str = "train"
    kitti_step: int = 5
    """Frames from one that is used to the next: two a second."""
    scannet_step: int = 30
    """The same: one a second."""
    without: frozenset[str] = frozenset()
    """ScanNet's scans that are left out."""

    def __post_init__(self) -> None:
        minimum = {
            "frames": 2,
            "per_clip": 1,
            "images": 0,
            "rl": 1,
            "kitti_step": 1,
            "scannet_step": 1,
            "seed": 0,
        }
        for name, low in minimum.items():
            if getattr(self, name) < low:
                raise UsageError(
                    f"{name} of a build", expected=f"at least {low}", found=str(getattr(self, name))
                )
        if not self.sources:
            raise UsageError("sources of a build", expected="tao, kitti or scannet", found="none")

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        plain = asdict(self) | {"sources": list(self.sources), "without": sorted(self.without)}
        del plain["seed"]  # stands beside them
        return plain


def clips(data: Path, settings: BuildSettings) -> Iterator[Clip]:
    """The clips of all sources, in order."""
    for source in settings.sources:
        if source == "tao":
            yield from read_tao(data, split=settings.tao_split, frames=settings.frames)
        elif source == "kitti":
            yield from read_kitti(data, frames=settings.frames, step=settings.kitti_step)
        else:
            yield from read_scannet(
                data, frames=settings.frames, step=settings.scannet_step, without=settings.without
            )


@dataclass(frozen=True, slots=True)
class Asked:
    """A line of each file."""

    question: dict[str, Any]
    graph: dict[str, Any] | None


def questions(
    found: Iterable[Clip], settings: BuildSettings, tally: FilterCounts
) -> Iterator[Asked]:
    """Yield every question about these clips, in order; `tally` counts the dropped ones."""
    letters, answers = Letters(settings.seed), Answers()
    for clip in found:
        known = with_clear_marks(clip, settings.limits, tally)
        for shown in (known, *_images(known, settings)):
            for kind in KINDS:
                if shown.is_video or kind not in TEMPORAL:
                    yield from _of_kind(shown, kind, settings, letters, answers, tally)


def _images(clip: Clip, settings: BuildSettings) -> Iterator[Clip]:
    """Yield some frames as separate images: those with a clear object for a question.

    A clip of one frame is an image already.
    """
    if not clip.is_video:
        return
    frames = [
        one
        for one, sights in enumerate(clip.sights)
        if any(sight.clear and sight.category not in clip.unnamed_at(one) for sight in sights)
    ]
    draws = Draws(settings.seed, "stv", clip.id, "images")
    for frame in sorted(draws.shuffle(frames)[: settings.images]):
        yield clip.image(frame)


def _of_kind(
    clip: Clip,
    kind: Kind,
    settings: BuildSettings,
    letters: Letters,
    answers: Answers,
    tally: FilterCounts,
) -> Iterator[Asked]:
    drafts, seen = [], set()
    for draft in GENERATORS[kind](clip, tally):
        key = (draft.wording, tuple(draft.fields.items()))
        if key in seen:
            tally.add(clip.source, AGAIN)
            continue
        seen.add(key)
        drafts.append(draft)
    draws = Draws(settings.seed, "stv", clip.id, kind)
    chosen, refused = answers.choose(clip, draws.shuffle(drafts), settings.per_clip)
    if refused:
        tally.add(clip.source, TOO_OFTEN.format(kind), refused)
    tally.add(clip.source, PER_CLIP, len(drafts) - len(chosen) - refused)
    frames = graphs_of(clip) if chosen else []
    for number, draft in enumerate(chosen):
        line = _line(clip, draft, f"{clip.id}/{kind}-{number}", draws, settings, letters)
        line["objects"] = categories_of(frames)
        graph = {"id": line["problem_id"], "graphs": frames} if frames else None
        yield Asked(line, graph)


def _line(
    clip: Clip, draft: Draft, name: str, draws: Draws, settings: BuildSettings, letters: Letters
) -> dict[str, object]:
    options: list[str] = []
    if isinstance(draft.answer, Choice):
        form = "multiple choice"
        options, solution = letters.options(draft.kind, draft.answer, draws)
    elif isinstance(draft.answer, Number):
        form, solution = "numerical", draft.answer.text()
    elif isinstance(draft.answer, Box):
        form, solution = "IoU", box_text(draft.answer)
    else:
        form, solution = "IoU 3D", box_3d_text(draft.answer)
    return {
        "problem_id": name,
        "problem": question_text(draft, draws, synonyms=settings.synonyms),
        "data_type": "video" if clip.is_video else "image",
        "problem_type": form,
        "options": options,
        "solution": f"<answer>{solution}</answer>",
        "data_source": "STV-205k",
        "task": draft.kind,
        "source": clip.source,
        "frames": list(clip.images),
        "rate": clip.rate,
        "size": list(clip.size),
        "frame": draft.frame if clip.is_video else None,
    }


def build(data: Path, out: Path, settings: BuildSettings) -> dict[str, Any]:
    """Write a set from the files below `data` into the folder `out`, and return its report.

    Raises:
        UsageError: `out` holds a set already.
        DataError: a file of a source is missing or not in its layout.
        StoreError: `out` cannot be written.
    """
    if (out / "questions.jsonl").exists():
        raise UsageError(
            f"folder {out}",
            expected="no set of questions",
            found="one",
            fix="Name another folder, or remove it first.",
        )
    tally, statistics = FilterCounts(), Statistics()
    ids: dict[str, list[str]] = {kind: [] for kind in KINDS}
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        with _create(out / PARTIAL[0]) as lines, _create(out / PARTIAL[1]) as graphs:
            for one in questions(clips(data, settings), settings, tally):
                lines.write(json.dumps(one.question, ensure_ascii=False) + "\n")
                if one.graph is not None:
                    graphs.write(json.dumps(one.graph, ensure_ascii=False) + "\n")
                statistics.add(one.question, has_graph=one.graph is not None)
                ids[one.question["task"]].append(one.question["problem_id"])
        report = {
            "seed": settings.seed,
            "settings": settings.to_json(),
            "questions": statistics.to_json(),
            "filters": tally.to_json(),
        }
        chosen = uniform(ids, settings.rl, seed=settings.seed)
        _write(out / "rl_ids.txt", "".join(f"{one}\n" for one in chosen))
        _write(out / "report.json", json.dumps(report, indent=1) + "\n")
        _write(out / "statistics.md", page(report))
        for name in PARTIAL:  # last: a build that was stopped leaves no set
            (out / name).rename(out / name.removesuffix(".partial"))
    return report


def _create(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def excluded_scans(paths: Sequence[Path]) -> frozenset[str]:
    """Names of scans in text files, one a line.

    Raises:
        UsageError: a file cannot be read.
    """
    names: set[str] = set()
    for path in paths:
        what, expected = f"file {path}", "names of scans, one a line"
        with raised_as(UsageError, what, expected, OSError, UnicodeDecodeError):
            names.update(path.read_text("utf-8").split())
    return frozenset(names)
