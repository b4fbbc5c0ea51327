"""A reader or a scorer that is right but for one thing does not reach the ceiling."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pytest

from harness import plugins
from harness.masks import Rle
from harness.models.grammar import Item, ParseResult
from harness.models.pipeline import PromptedModel
from harness.run.verify import verify
from harness.scores import Scores
from harness.segmentation import Propagator, Segmenter
from harness.spec import parse
from harness.types import Answer, Box, Point, Prediction, Query, Sample

STILL, MOVING, COUNT = "reason_seg", "mevis", "counting"
SEVERAL = "mevis(split=train)"  # in the other split every expression means one object


@pytest.fixture(scope="module")
def reader() -> PromptedModel:
    model = plugins.build("models", parse("qwen_vl(backend=stored)"))
    assert isinstance(model, PromptedModel)
    return model


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

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        return self.inner.render(text, numbered=numbered)

    def parse(self, response: str) -> ParseResult:
        return self.reading(self.inner.parse(response))

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        return self.inner.write(self.writing(items), frame=frame)


@dataclass(frozen=True)
class TwoReaders:
    """Writes as one reader does and reads as another."""

    writer: PromptedModel
    reader: PromptedModel

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        return self.writer.write(query, answer)

    def read(self, query: Query, responses: Sequence[str]) -> Prediction:
        return self.reader.read(query, responses)

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> "TwoReaders":
        return TwoReaders(self.writer, self.reader.with_perception(segmenter, propagator))


class NoRescale(PromptedModel):
    """Takes coordinates of the canvas for pixels of the image."""

    def _canvas(self, query, form, calls=()):
        return replace(super()._canvas(query, form, calls), size=query.size)


class LateStart(PromptedModel):
    """Tells the propagator that the masks are those of the next frame."""

    def with_perception(self, segmenter, propagator):
        return super().with_perception(segmenter, Late(propagator))


class NoPropagation(PromptedModel):
    """Leaves the object where it is in the key frame."""

    def with_perception(self, segmenter, propagator):
        return super().with_perception(segmenter, plugins.build("propagators", "still"))


@dataclass(frozen=True)
class Late(Propagator):
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
        lambda reader: with_prompt(reader, reading=each_item(inclusive)),
        (STILL, MOVING),
    ),
    "x and y are swapped": (
        lambda reader: with_prompt(reader, reading=each_item(swapped)),
        (STILL, MOVING),
    ),
    "nothing is rescaled": (
        lambda reader: TwoReaders(reader, as_class(NoRescale, reader)),
        (STILL, MOVING),
    ),
    "another key frame is read than written": (
        lambda reader: TwoReaders(reader, replace(reader, keyframe="first")),
        (MOVING,),
    ),
    "the frame that a response names is ignored": (
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
        (COUNT, SEVERAL),
    ),
    "the parser says the last item twice": (
        lambda reader: with_prompt(
            reader, reading=lambda said: replace(said, items=(*said.items, *said.items[-1:]))
        ),
        (COUNT,),
    ),
    "the propagator starts one frame late": (
        lambda reader: as_class(LateStart, reader),
        (MOVING,),
    ),
    "nothing is propagated": (lambda reader: as_class(NoPropagation, reader), (MOVING,)),
}
PLANTED = list(chain.from_iterable(((bug, name) for name in BUGS[bug][1]) for bug in BUGS))


@pytest.mark.parametrize(("bug", "name"), PLANTED)
def test_a_reader_with_a_planted_bug_does_not_reach_the_ceiling(build, shapes, reader, bug, name):
    answers, responses = verify(build(name, shapes), BUGS[bug][0](reader))
    assert answers.is_passed, "the answers themselves are right"
    assert not responses.is_passed and responses.value < 0.9
    lowest = [float(re.search(r"\((\d\.\d+)", unit)[1]) for unit in responses.worst]
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
    assert not answers.is_passed and answers.value is not None and answers.value < 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda reader: with_prompt(reader),
        lambda reader: TwoReaders(reader, reader),
        lambda reader: as_class(PromptedModel, reader),
    ],
    ids=["prompt", "two readers", "class"],
)
def test_the_wrappers_of_planted_bugs_are_right_by_themselves(build, shapes, reader, make):
    for name in (STILL, MOVING, COUNT):
        assert all(one.is_passed for one in verify(build(name, shapes), make(reader)))
