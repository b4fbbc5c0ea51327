"""Perfect answers reach every ceiling, and readers with a planted bug do not."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import DataError
from harness.masks import Rle
from harness.model import Propagator, ReplyReader, Segmenter
from harness.models.canvas import Canvas
from harness.models.compose import PromptedModel
from harness.models.grammar import Item, ParseResult
from harness.run.verify import verify
from harness.scores import Scores
from harness.spec import parse
from harness.types import Answer, Box, Point, Prediction, Query, Sample

READERS = (
    "qwen_vl(backend=stored)",
    "qwen_vl(backend=stored,prompt=locate)",
    "qwen_vl(backend=stored,keyframe=named)",
    "qwen_vl(backend=stored(coordinates=thousandths))",
)
TRAIN = 4  # times as many samples as the other splits
TASKS = {
    **{
        f"reason_seg(split={split},protocol={protocol})": 8 * factor
        for split, factor in (("val", 1), ("test", 1), ("train", TRAIN))
        for protocol in ("seg/lisa", "seg/visionreasoner")
    },
    "mevis(split=valid_u)": 8,
    "mevis(split=train)": 8 * TRAIN,
    **{
        f"counting(split={split})": 8 * (TRAIN if split == "pixmo_train" else 1)
        for split in ("pixmo_val", "pixmo_test", "pixmo_train", "countbench", "countbenchqa",
                      "countbench_visionreasoner")
    },
}  # fmt: skip
STILL, MOVING, COUNT = "reason_seg", "mevis", "counting"


def reader_of(text: str) -> PromptedModel:
    model = plugins.build("models", parse(text))
    assert isinstance(model, PromptedModel) and isinstance(model, ReplyReader)
    return model


@pytest.fixture(scope="module")
def reader() -> PromptedModel:
    return reader_of(READERS[0])


@pytest.mark.parametrize(("spec", "count"), TASKS.items())
def test_perfect_answers_reach_the_ceiling_both_ways(build, shapes, reader, spec, count):
    verdicts = list(verify(build(spec, shapes), reader))
    assert [one.way for one in verdicts] == ["answers", "replies"]
    for one in verdicts:
        assert one.passed and one.n == count and not one.worst
        assert one.value == pytest.approx(1.0, abs=one.tolerance) and one.ceiling == 1.0


@pytest.mark.parametrize("spec", [
    "reason_seg", "reason_seg(protocol=seg/visionreasoner)", "mevis", "counting",
])  # fmt: skip
def test_perfect_answers_reach_the_ceiling_on_the_committed_examples(build, example, reader, spec):
    verdicts = list(verify(build(spec, example(parse(spec).name)), reader))
    assert len(verdicts) == 2 and all(one.passed and one.n == 3 for one in verdicts)


@pytest.mark.parametrize("text", READERS[1:])
@pytest.mark.parametrize("name", [STILL, MOVING, COUNT])
def test_every_grammar_and_every_kind_of_coordinates_can_say_the_truth(build, shapes, text, name):
    assert all(one.passed for one in verify(build(name, shapes), reader_of(text)))


@pytest.mark.parametrize("name", [STILL, MOVING])
def test_perfect_answers_reach_the_ceiling_on_photographs(build, real, reader, name):
    assert all(one.passed for one in verify(build(name, real), reader))


def test_the_ceiling_of_the_copies_is_the_share_of_samples_with_a_target(
    build, shapes, reader, tmp_path
):
    place = tmp_path / "reason_seg" / "ReasonSeg" / "val"
    shutil.copytree(shapes / "reason_seg" / "ReasonSeg" / "val", place)
    paths = sorted(place.glob("*.json"))
    for path in paths[:2]:
        plain = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**plain, "shapes": []}), encoding="utf-8")
    for protocol, ceiling in (("seg/lisa", 1.0), ("seg/visionreasoner", 6 / 8)):
        verdicts = list(verify(build(f"reason_seg(protocol={protocol})", tmp_path), reader))
        assert [one.ceiling for one in verdicts] == [ceiling] * 2
        assert all(one.passed and one.why for one in verdicts)
        assert verdicts[0].value == pytest.approx(ceiling, abs=2.1e-5)


@pytest.mark.parametrize("protocol", ["seg/lisa", "seg/visionreasoner"])
def test_an_empty_folder_reaches_nothing(build, reader, tmp_path, protocol):
    (tmp_path / "reason_seg" / "ReasonSeg" / "val").mkdir(parents=True)
    task = build(f"reason_seg(protocol={protocol})", tmp_path)
    assert not any(one.passed for one in verify(task, reader))


def test_hidden_truth_cannot_be_verified(build, shapes, reader):
    with pytest.raises(DataError, match="truth to verify with"):
        list(verify(build("mevis(split=valid)", shapes), reader))


# Planted bugs: each is a reader that is right but for one thing.


@dataclass(frozen=True)
class SpoiledPrompt:
    """A grammar whose parser or writer changes what it reads or writes."""

    inner: Any
    reading: Callable[[ParseResult], ParseResult] = field(default=lambda said: said)
    writing: Callable[[Sequence[Item]], Sequence[Item]] = field(default=lambda items: items)

    @property
    def name(self) -> str:
        return "spoiled"

    @property
    def resize(self) -> tuple[int, int] | None:
        return self.inner.resize

    def ask(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        return self.inner.ask(text, numbered=numbered)

    def parse(self, reply: str) -> ParseResult:
        return self.reading(self.inner.parse(reply))

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        return self.inner.write(self.writing(items), frame=frame)


@dataclass(frozen=True)
class TwoReaders:
    """Writes as one reader does and reads as another."""

    writer: PromptedModel
    reader: PromptedModel

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        return self.writer.write(query, answer)

    def read(self, query: Query, replies: Sequence[str]) -> Prediction:
        return self.reader.read(query, replies)

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> "TwoReaders":
        return TwoReaders(self.writer, self.reader.with_perception(segmenter, propagator))


class NoRescale(PromptedModel):
    """Takes coordinates of the canvas for pixels of the picture."""

    def _canvas(self, query, form):
        return replace(super()._canvas(query, form), size=query.size)


class LateStart(PromptedModel):
    """Tells the propagator that the masks are those of the next frame."""

    def with_perception(self, segmenter, propagator):
        return super().with_perception(segmenter, Late(propagator))


class NoPropagation(PromptedModel):
    """Leaves the object where it is in the key frame."""

    def with_perception(self, segmenter, propagator):
        return super().with_perception(segmenter, plugins.build("propagators", "still"))


@dataclass(frozen=True)
class Late:
    inner: Propagator
    name: str = "late"

    def propagate(self, video, start, masks):
        return self.inner.propagate(video, min(start + 1, len(video) - 1), masks)


def as_class(kind, reader):
    return kind(**{name: getattr(reader, name) for name in reader.__dataclass_fields__})


def with_prompt(reader, **changes):
    return replace(reader, prompt=SpoiledPrompt(reader.prompt, **changes))


def each_item(change):
    """A parser whose items are changed one by one."""
    return lambda said: replace(said, items=tuple(map(change, said.items)))


def moved(item: Item, by: int) -> Item:
    assert item.point is not None
    return Item(Box(*(edge + by for edge in item.box)), Point(*(side + by for side in item.point)))


def swapped(item: Item) -> Item:
    assert item.point is not None
    left, top, right, bottom = item.box
    return Item(Box(top, left, bottom, right), Point(item.point.y, item.point.x))


def inclusive(item: Item) -> Item:
    """A box that ends 6 canvas pixels early."""
    left, top, right, bottom = item.box
    return Item(Box(left, top, right - 6, bottom - 6), item.point)


BUGS: dict[str, tuple[Callable[[PromptedModel], Any], tuple[str, ...]]] = {
    "boxes are shifted by 6 canvas pixels": (
        lambda reader: with_prompt(reader, reading=each_item(lambda item: moved(item, 6))),
        (STILL, MOVING),
    ),
    "boxes end 6 canvas pixels early": (
        lambda reader: with_prompt(reader, reading=each_item(inclusive)), (STILL, MOVING),
    ),
    "x and y are swapped": (
        lambda reader: with_prompt(reader, reading=each_item(swapped)), (STILL, MOVING),
    ),
    "nothing is rescaled": (
        lambda reader: TwoReaders(reader, as_class(NoRescale, reader)), (STILL, MOVING),
    ),
    "another key frame is read than written": (
        lambda reader: TwoReaders(reader, replace(reader, keyframe="first")), (MOVING,),
    ),
    "the frame that a reply names is ignored": (
        lambda reader: TwoReaders(
            replace(reader, keyframe="named"),
            with_prompt(reader, reading=lambda said: replace(said, frame=None)),
        ),
        (MOVING,),
    ),
    "the writer drops the last item": (
        lambda reader: with_prompt(reader, writing=lambda items: items[:-1]),
        (STILL, MOVING, COUNT),
    ),
    "the parser ignores the last item": (
        lambda reader: with_prompt(
            reader, reading=lambda said: replace(said, items=said.items[:-1])
        ),
        (STILL, MOVING, COUNT),
    ),
    "the parser reads the first item alone": (
        lambda reader: with_prompt(
            reader, reading=lambda said: replace(said, items=said.items[:1])
        ),
        (COUNT, MOVING),
    ),
    "the parser says the last item twice": (
        lambda reader: with_prompt(
            reader, reading=lambda said: replace(said, items=(*said.items, *said.items[-1:]))
        ),
        (COUNT,),
    ),
    "the propagator starts one frame late": (
        lambda reader: as_class(LateStart, reader), (MOVING,),
    ),
    "nothing is propagated": (lambda reader: as_class(NoPropagation, reader), (MOVING,)),
}  # fmt: skip
PLANTED = list(chain.from_iterable(((bug, name) for name in BUGS[bug][1]) for bug in BUGS))


@pytest.mark.parametrize(("bug", "name"), PLANTED)
def test_a_reader_with_a_planted_bug_does_not_reach_the_ceiling(build, shapes, reader, bug, name):
    answers, replies = verify(build(name, shapes), BUGS[bug][0](reader))
    assert answers.passed, "the answers themselves are right"
    assert not replies.passed and replies.value < 0.9
    lowest = [float(re.search(r"\((\d\.\d+)", unit)[1]) for unit in replies.worst]
    assert len(lowest) == 5 and lowest == sorted(lowest) and lowest[0] < 0.5


@pytest.mark.parametrize("name", [STILL, MOVING, COUNT])
def test_a_scorer_with_a_planted_bug_does_not_reach_the_ceiling(build, shapes, name):
    """It sees answers mirrored, or one too many."""
    task = build(name, shapes)

    def mirrored(unit: Sequence[Sample], predictions: Sequence[Prediction]) -> Scores:
        answer = predictions[0].answer
        assert answer is not None
        if answer.masks is not None:
            masks = (Rle.from_array(mask.to_array()[:, ::-1]) for mask in answer.masks)
            answer = replace(answer, masks=tuple(masks))
        else:
            answer = replace(answer, count=(answer.count or 0) + 1)
        return task.protocol.score(unit, [replace(predictions[0], answer=answer)])

    spoiled = replace(task, protocol=replace(task.protocol, score=mirrored))
    (answers,) = verify(spoiled, None)
    assert not answers.passed and answers.value is not None and answers.value < 0.5


@pytest.mark.parametrize("make", [
    lambda reader: with_prompt(reader), lambda reader: TwoReaders(reader, reader),
    lambda reader: as_class(PromptedModel, reader),
], ids=["prompt", "two readers", "class"])  # fmt: skip
def test_the_wrappers_of_planted_bugs_are_right_by_themselves(build, shapes, reader, make):
    for name in (STILL, MOVING, COUNT):
        assert all(one.passed for one in verify(build(name, shapes), make(reader)))


def test_the_command_says_who_missed_the_ceiling_and_fails(shapes, monkeypatch, capsys):
    monkeypatch.setattr(Canvas, "to_picture", lambda self, item: item)
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["verify", "--tasks", "reason_seg", "--data", str(shapes)]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "reached" in shown and "MISSED" in shown and "val_0000" in shown
    assert main([*arguments, "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["passed"]
    assert main([*arguments, "--model", "none"]) == 0
