"""One request of each kind that the methods send, with the method's own reading of responses."""

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from harness import media
from harness.errors import ParseError
from harness.judging import Case, rubric
from harness.models.dr2seg.grammar import DR2Seg
from harness.models.grammar import Prompt
from harness.models.one_thinker import grammar as one_thinker
from harness.models.prompts import text_of
from harness.models.questions import Questions
from harness.models.qwen_vl.locate import Locate
from harness.models.seg_zero.grammar import SegZero
from harness.models.video_str.answer_prompts import AnswerPrompts
from harness.models.video_str.boxes import BoxPrompt
from harness.models.videoseg_r1 import sampler
from harness.models.videoseg_r1.grammar import Prompt as VideoSegR1
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.models.vlm import dialect
from harness.rehearsal.wording import Asked
from harness.trainers.videoseg_r1.ratings import read_rating
from harness.types import AnswerForm, Query

PIXELS = np.zeros((4, 60, 80, 3), np.uint8)
VIDEO = media.pixels(list(PIXELS), times=[0.0, 0.5, 1.0, 1.5], is_video=True, id="video")
QUESTION = 'What is "left" of the {Options} dog?'  # with what templates are made of
OPTIONS = ("a cup", "two cups", "no cup")
WORDS = ("choice", "number", "interval", "text", "box_3d")


class Kind(NamedTuple):
    """A kind of request."""

    name: str
    """Name of its grammar."""
    asked: Asked
    reads: Callable[[str], bool]
    """Return True if the method reads a response."""


def places(prompt: Prompt, name: str = "", numbered: tuple[int, ...] = ()) -> Kind:
    text = prompt.render(QUESTION, numbered=numbered)
    asked = Asked(text=text, extent=prompt.resize or (80, 60))
    return Kind(name or prompt.name, asked, lambda response: prompt.parse(response).ok)


def words(
    name: str, prompt: AnswerPrompts | Questions, form: AnswerForm, *, listed: bool = True
) -> Kind:
    options = OPTIONS if form is AnswerForm.CHOICE and listed else ()
    query = Query(id="q", text=QUESTION, media=(VIDEO,), forms=(form,), options=options)

    def reads(response: str) -> bool:
        try:
            prompt.read(query, form, response)
        except ParseError:
            return False
        return True

    return Kind(name, Asked(text=prompt.render(query, form), extent=(80, 60)), reads)


def kinds() -> Iterator[Kind]:
    yield places(VisionReasoner())
    yield places(VisionReasoner(), numbered=(0, 2, 3))
    yield places(DR2Seg(form="sam2"))
    yield places(DR2Seg(form="sam3"))
    yield places(SegZero())
    yield places(VideoSegR1())
    yield places(VideoSegR1(think=False))
    yield places(Locate(), numbered=(1, 2))
    for name in dialect.names():
        yield places(dialect.dialect(name))
    for method in ("video_str", "spacer", "video_r1", "videochat_r1", "one_thinker"):
        package = f"harness.models.{method}"
        prompt = AnswerPrompts(package)
        if method == "one_thinker":
            prompt = one_thinker.Wording()
        for form in map(AnswerForm, WORDS):
            if form in prompt.forms:
                yield words(f"{method}/{form}", prompt, form)
    for method in ("video_str", "spacer", "video_r1", "videochat_r1"):
        yield places(BoxPrompt(f"harness.models.{method}"), f"{method}/boxes")
    yield places(one_thinker.Places(one_thinker.Wording()), "one_thinker/mask")
    for form in ("choice", "number", "interval", "text"):
        yield words(f"qwen_vl/{form}", Questions(), AnswerForm(form))
    yield from _votes()
    template = files("harness.trainers.videoseg_r1").joinpath("difficulty.txt").read_text("utf-8")
    for gap in ("Visual Description", "Textual Description", "Question"):
        template = template.replace(f"{{{gap}}}", QUESTION)
    yield Kind(
        "videoseg_r1/difficulty", Asked(text=template), lambda said: read_rating(said) is not None
    )
    for name in ("graded", "same_meaning"):
        by = rubric(name)
        text = by.prompt_for(Case(QUESTION, "a red dog", "a dog"))
        yield Kind(
            f"rubric/{name}", Asked(text=text), lambda said, by=by: by.read_grade(said) is not None
        )


def _votes() -> Iterator[Kind]:
    folder = "harness.models.videoseg_r1"
    coarse = text_of(folder, "coarse.txt").replace("{Times}", "0.0, 0.5, 1.0")
    yield Kind(
        "videoseg_r1/coarse",
        Asked(text=coarse.replace("{Question}", QUESTION)),
        lambda said: sampler.read_interval(said) is not None,
    )
    fine = text_of(folder, "fine.txt").replace("{Times}", "0.0, 0.5").replace("{Start}", "0.0")
    yield Kind(
        "videoseg_r1/fine",
        Asked(text=fine.replace("{End}", "1.0").replace("{Question}", QUESTION)),
        lambda said: sampler.read_percentage(said) is not None,
    )
