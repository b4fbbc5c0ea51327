"""Well-formed responses of a stand-in to every request of the methods, by their own grammars.

A request is recognised by the wording of the methods' prompt files; its response is written and
read by the methods' own writers and parsers, so that nothing here changes with them. `responses`
calls `grammars`.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from string import ascii_uppercase

from harness.coordinates import normalized_to
from harness.errors import ParseError
from harness.judging import FOLDER, rubric
from harness.models.dr2seg import grammar as dr2seg
from harness.models.grammar import Prompt
from harness.models.one_thinker import grammar as one_thinker
from harness.models.prompts import text_of
from harness.models.questions import answer_part, templates
from harness.models.qwen_vl.locate import Locate
from harness.models.seg_zero import grammar as seg_zero
from harness.models.video_str import answer_prompts, boxes
from harness.models.video_str import templates as spoken
from harness.models.video_str.grammar import answer_response
from harness.models.videoseg_r1 import grammar as videoseg_r1
from harness.models.videoseg_r1 import sampler
from harness.models.visionreasoner import grammar as visionreasoner
from harness.models.vlm.dialect import FOLDER as DIALECTS
from harness.models.vlm.dialect import dialect
from harness.rehearsal import drawn
from harness.rehearsal.conversations import CONVERSATIONS
from harness.rehearsal.wording import Asked, Grammar, pattern_of
from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.trainers.videoseg_r1.ratings import ASPECTS, read_rating
from harness.types import AnswerForm

Filled = Mapping[str, str]
NOTHING_SHARE = 0.08
"""Share of well-formed responses about places that say there is no such object."""
OPTION_LETTER = re.compile(r"(?<![A-Za-z])\(?([A-J])[.):] ")  # (A) or B.
NUMBERED_FRAMES = pattern_of(text_of("harness.models", "numbered_frames.txt"))
"""Text in a request that numbers the frames of a video."""


@cache
def grammars() -> tuple[Grammar, ...]:
    """Return the grammars of all requests, the more specific ones first; the last takes any."""
    return (
        *CONVERSATIONS,
        *_ratings(),
        *_rubrics(),
        *_votes(),
        *_places(),
        *_spoken(),
        *_descriptions(),
        *_questions(),
    )


# -- places -----------------------------------------------------------------------------------


def _places() -> Iterator[Grammar]:
    """Yield the grammars of requests for objects in an image: boxes and points."""
    for form in ("sam2", "sam3"):
        yield place_grammar(dr2seg.DR2Seg(form=form), dr2seg.template(f"{form}.txt"))
    for name, think in (("prompt.txt", True), ("prompt_direct.txt", False)):
        yield place_grammar(videoseg_r1.Prompt(think=think), videoseg_r1.template(name))
    yield place_grammar(visionreasoner.VisionReasoner(), visionreasoner.template())
    yield place_grammar(seg_zero.SegZero(), seg_zero.template(), nothing=False)
    for path in sorted(DIALECTS.iterdir(), key=lambda file: file.name):
        own = dialect(path.name.removesuffix(".toml"))
        side = normalized_to(own.coordinates)
        extent = None if side is None else (side, side)
        yield place_grammar(own, own.request, nothing=own.empty is not None, extent=extent)
    yield place_grammar(Locate(), text_of("harness.models.qwen_vl", "locate.txt"))
    yield place_grammar(visionreasoner.VisionReasoner(), text_of("harness.models", "short.txt"))


def place_grammar(
    prompt: Prompt, template: str, *, nothing: bool = True, extent: tuple[int, int] | None = None
) -> Grammar:
    """Return the grammar of requests for places by a template.

    Args:
        prompt: The method's grammar, which writes and reads responses.
        template: The text of the request, with a gap for the question.
        nothing: True if a response may say that there is no such object.
        extent: (width, height) of an image in the numbers of a response; None: that of the request.
    """

    def write(asked: Asked, filled: Filled, draw: random.Random) -> str:
        is_empty = nothing and draw.random() < NOTHING_SHARE
        objects = [] if is_empty else drawn.items(draw, extent or asked.extent)
        words = drawn.phrase(draw)
        text = prompt.write(
            [item._replace(phrase=words) for item in objects], frame=_frame(asked, draw)
        )
        for tag in ("description", "target_desc"):
            text = text.replace(f"<{tag}></{tag}>", f"<{tag}>{words}</{tag}>", 1)
        return text.replace("<think></think>", f"<think>{drawn.thoughts(draw)}</think>", 1)

    def reads(asked: Asked, filled: Filled, text: str) -> bool:
        parsed = prompt.parse(text)
        has_frame = parsed.frame is not None or NUMBERED_FRAMES.filled(asked.text) is None
        return parsed.ok and (has_frame or not (parsed.items or parsed.phrase))

    return Grammar(name=prompt.name, pattern=pattern_of(template), write=write, reads=reads)


def _frame(asked: Asked, draw: random.Random) -> int | None:
    """Return one of the numbers of frames in a request; None if it does not number frames."""
    gaps = NUMBERED_FRAMES.filled(asked.text)
    return None if gaps is None else int(draw.choice(gaps["Numbers"].split(", ")))


# -- answers in words -------------------------------------------------------------------------


def _spoken() -> Iterator[Grammar]:
    """Yield the grammars of Video-STR's and its relatives' questions, for every form of answer."""
    for method in ("one_thinker", "videochat_r1", "spacer", "video_str", "video_r1"):
        templates = spoken.templates(f"harness.models.{method}")
        # The longer common part first: `plain` may be its beginning.
        for common in filter(None, (templates.aided, templates.plain)):
            for form, outer in templates.form.items():
                kind = "choice" if form.startswith("choice") else form
                kind = {"ocr": "text", "regression": "number"}.get(kind, kind)
                yield Grammar(
                    name=f"{method}/{form}",
                    pattern=pattern_of(outer.replace("{Prompt}", common)),
                    write=partial(_write_spoken, kind, templates, common is templates.aided),
                    reads=partial(_reads_spoken, method, kind, templates.tag),
                )


def _write_spoken(
    kind: str,
    templates: spoken.Templates,
    aided: bool,
    asked: Asked,
    filled: Filled,
    draw: random.Random,
) -> str:
    """Return a response to a question of Video-STR or a relative.

    Args:
        kind: The form of the answer.
        templates: Templates of the method.
        aided: True if the request asks for the method's example tag in the thought.
        asked: The request.
        filled: Fillings of the template's gaps.
        draw: Random numbers.
    """
    if kind in ("mask", "mask_track"):
        moment = draw.random() * 2 if kind == "mask_track" else None
        text = one_thinker.write_prompt(drawn.items(draw, (1000, 1000)), time=moment)
    else:
        text = answer_response(_answer(kind, templates, asked, draw))
    place = (
        f"<{templates.tag}>{templates.example}</{templates.tag}>"
        if aided and draw.random() < 0.7
        else ""
    )
    return text.replace("<think></think>", f"<think>{drawn.thoughts(draw)}</think>{place}", 1)


def _answer(kind: str, templates: spoken.Templates, asked: Asked, draw: random.Random) -> str:
    """Return the answer part of a response in words."""
    if kind == "choice":
        return _letter(asked, draw)
    if kind == "number":
        return _number(draw)
    if kind == "interval":
        start, end = map(str, drawn.seconds(draw))
        return templates.interval.replace("{Start}", start).replace("{End}", end)
    if kind == "box_3d":
        return json.dumps([round(draw.uniform(0.1, 4), 1) for _ in range(6)])
    if kind in ("boxes", "box_track"):
        named = '"time"' in templates.interval  # keys, as OneThinker writes
        (item,) = drawn.items(draw, (1000, 1000) if named else asked.extent, most=1)
        numbers = [int(side) for side in item.bounds]
        if kind == "box_track":
            return json.dumps({"time": [0.0, 2.0], "boxes": {"0": numbers, "1": numbers}})
        return json.dumps({"boxes": numbers} if named else numbers)
    return drawn.sentence(draw)


def _letter(asked: Asked, draw: random.Random) -> str:
    listed: list[str] = OPTION_LETTER.findall(asked.text)
    return draw.choice(sorted(set(listed)) or ["A", "B", "C", "D"])


def _number(draw: random.Random) -> str:
    return str(draw.choice([draw.randint(0, 12), round(draw.uniform(0, 8), 1)]))


def _reads_spoken(
    method: str, kind: str, aid: str, asked: Asked, filled: Filled, text: str
) -> bool:
    """Return True if the method's own reader reads a response of this form."""
    if method == "one_thinker" and kind in ("mask", "mask_track"):
        return _reads(one_thinker.read_prompt, text)
    if method == "one_thinker" and kind == "box_track":
        return _reads(one_thinker.read_track, text)
    if method == "one_thinker" and kind in ("interval", "boxes"):
        return _reads(one_thinker.fields_of, text)
    if kind == "boxes":
        return boxes.parse(text, aid=aid).ok
    return _reads(lambda response: _PARTS[kind](answer_part(response, aid=aid)), text)


def _text(part: str) -> str:
    if not part:
        raise ParseError("answer", expected="a text", found=part[:40])
    return part


_PARTS: Mapping[str, Callable[[str], object]] = {
    "choice": lambda part: stated_letter(part, ascii_uppercase),
    "number": stated_number,
    "interval": stated_interval,
    "box_3d": answer_prompts.boxes_3d,
    "text": _text,
}
"""Readers of the answer part of a response, by its form."""


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ParseError:
        return False
    return True


def _questions() -> Iterator[Grammar]:
    """Yield the grammars of short questions; the last takes any text, and answers a sentence."""
    for package in ("pocket", "qwen_vl"):
        for form, template in templates(f"harness.models.{package}").items():
            yield Grammar(
                name=f"{package}/{form}",
                pattern=pattern_of(template),
                write=partial(write_plain, form, package == "pocket"),
                reads=partial(reads_plain, form),
            )


def write_plain(form: str, tagged: bool, asked: Asked, filled: Filled, draw: random.Random) -> str:
    """Return an answer in words for a form of answer; `tagged`: in `<answer>`, after a thought."""
    if form == AnswerForm.INTERVAL:
        start, end = drawn.seconds(draw)
        text = json.dumps({"start": start, "end": end})
    elif form == AnswerForm.CHOICE:
        text = _letter(asked, draw)
    else:
        text = _number(draw) if form == AnswerForm.NUMBER else drawn.sentence(draw)
    think = f"<think>{drawn.thoughts(draw)}</think>"
    return f"{think}<answer>{text}</answer>" if tagged else text


def reads_plain(form: str, asked: Asked, filled: Filled, text: str) -> bool:
    """Return True if an answer of the form can be read from a response in words."""
    return _reads(lambda response: _PARTS[form](answer_part(response)), text)


def _descriptions() -> Iterator[Grammar]:
    """Yield the grammars of requests of the node that describes images (semantic analysis)."""
    for what in ("instance", "frame", "video"):
        template = files("harness.models.nodes").joinpath(f"semantic_{what}.txt").read_text("utf-8")

        def write(asked: Asked, filled: Filled, draw: random.Random, what: str = what) -> str:
            sentence = drawn.sentence(draw)
            return f"{draw.choice(drawn.NOUNS)}: {sentence}" if what == "instance" else sentence

        yield Grammar(
            name=f"semantic_analysis/{what}",
            pattern=pattern_of(template),
            write=write,
            reads=lambda asked, filled, text: bool(text.strip()),
        )


# -- votes, ratings, verdicts -----------------------------------------------------------------


def _votes() -> Iterator[Grammar]:
    """Yield the grammars of the questions of VideoSeg-R1's frame sampler."""

    def segment(asked: Asked, filled: Filled, draw: random.Random) -> str:
        times = _times(filled["Times"]) or [0.0, 1.0]
        start, end = sorted(draw.choices(times, k=2))
        return json.dumps({"start": start, "end": end})

    def share(asked: Asked, filled: Filled, draw: random.Random) -> str:
        return json.dumps({"percent": draw.randint(0, 100)})

    for name, write, read in (
        ("coarse", segment, sampler.read_interval),
        ("fine", share, sampler.read_percentage),
    ):
        yield Grammar(
            name=f"videoseg_r1/{name}",
            pattern=pattern_of(videoseg_r1.template(f"{name}.txt")),
            write=write,
            reads=_finds(read),
        )


def _finds(read: Callable[[str], object]) -> Callable[[Asked, Filled, str], bool]:
    """Return a `Grammar.reads` from a parser that returns None for a text that it cannot read."""
    return lambda asked, filled, text: read(text) is not None


def _write_grade(grades: Sequence[str], asked: Asked, filled: Filled, draw: random.Random) -> str:
    return draw.choice(grades)


def _times(listed: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", listed)]


def _ratings() -> Iterator[Grammar]:
    """Yield the grammar of VideoSeg-R1's request for the difficulty of a sample."""
    template = files("harness.trainers.videoseg_r1").joinpath("difficulty.txt").read_text("utf-8")
    yield Grammar(
        name="videoseg_r1/difficulty",
        pattern=pattern_of(template),
        write=lambda asked, filled, draw: json.dumps(
            {aspect: draw.randint(1, 10) for aspect in ASPECTS}
        ),
        reads=_finds(read_rating),
    )


def _rubrics() -> Iterator[Grammar]:
    """Yield the grammars of requests to judges, one for each rubric of this package."""
    for path in sorted(FOLDER.glob("*.toml")):
        by = rubric(path.stem)
        if by.scale is None:
            yield Grammar(
                name=f"rubric/{by.name}",
                pattern=pattern_of(by.prompt),
                write=lambda asked, filled, draw: (
                    f"Reasoning: {drawn.sentence(draw)}\nAnswer: {_letter(asked, draw)}. so it says"
                ),
                reads=lambda asked, filled, text: "Answer:" in text,
            )
            continue
        scale = by.scale
        grades: Sequence[str] = [
            *scale.words,
            *(
                str(grade)
                for grade in range(scale.lowest, scale.highest + 1)
                if grade not in scale.words.values()
            ),
        ]
        yield Grammar(
            name=f"rubric/{by.name}",
            pattern=pattern_of(by.prompt),
            write=partial(_write_grade, grades),
            reads=_finds(by.read_grade),
        )
