"""OneThinker's answers: JSON within `<answer>`, with the keys that its official code reads.

Feng et al., "OneThinker" (arXiv:2512.03043); tulerfeng/OneThinker at 768b20f, `eval_bench.py` and
`seg_post_sam2.py`. Coordinates are shares of 1000, times are seconds. An answer names one object.
The official code turns the corners of a box around and passes over what is none; here both are
failures, as in every grammar.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import ParseError, UsageError
from harness.files import read_text
from harness.models.envelope import Read, read_response
from harness.models.grammar import Item, ParseResult, frame_tag, loads, numerals, read_box
from harness.models.questions import answer_part
from harness.models.tracks import around
from harness.models.tracks import box_at as box_at
from harness.models.video_str.answer_prompts import AnswerPrompts, digits
from harness.models.video_str.grammar import answer_response
from harness.models.video_str.templates import Templates
from harness.responses import finite_numbers
from harness.types import Answer, AnswerForm, Box, Interval, ParsedObject, Point, Query

PROBLEMS = {
    "choice": "multiple choice",
    "number": "numerical",
    "text": "open-ended",
    "ocr": "OCR",
    "regression": "regression",
    "interval": "temporal grounding",
    "boxes": "spatial grounding",
    "box_track": "spatial-temporal grounding",
    "mask": "segmentation_image",
    "mask_track": "segmentation_video",
}
"""The official type of problem of each wording."""


@dataclass(frozen=True, slots=True)
class Prompted(ParsedObject):
    """Prompt of the segmenter that an answer gives, in the answer's own numbers."""

    time: float = 0.0
    """Seconds of the frame that it is in; 0 of an image, or where none is given."""


def fields_of(response: str) -> Mapping[str, object]:
    """Return the JSON object of a response's answer.

    Raises:
        ParseError: there is none.
    """
    value, _ = loads(answer_part(response), strict=False)
    if not isinstance(value, Mapping):
        raise ParseError("answer", expected="a JSON object", found=type(value).__name__)
    return value


def read_prompt(response: str) -> Prompted:
    """Read an answer about a mask: a box, points, or both.

    Raises:
        ParseError: there is neither, or one of them is not in its form.
    """
    value = fields_of(response)
    box = None if value.get("boxes") is None else read_box(value["boxes"], "boxes")
    positive, negative = (_points(value, key) for key in ("positive_points", "negative_points"))
    if box is None and not positive:
        raise ParseError("answer", expected="boxes or positive_points", found=", ".join(value)[:60])
    (time,) = finite_numbers([value.get("time") or 0.0], 1, "time")
    return Prompted(box=box, positive=positive, negative=negative, time=time)


def _points(value: Mapping[str, object], key: str) -> tuple[Point, ...]:
    several = value.get(key) or []
    if not isinstance(several, list):
        raise ParseError(key, expected="a list of points", found=type(several).__name__)
    return tuple(Point(*finite_numbers(entry, 2, key)) for entry in several)


def read_track(response: str) -> tuple[dict[float, Box], Interval | None]:
    """Read boxes by their seconds, and the span that they are in, where one is given.

    Raises:
        ParseError: there is no box, or a key is not a number.
    """
    value = fields_of(response)
    boxes = value.get("boxes")
    if not isinstance(boxes, Mapping) or not boxes:
        raise ParseError("boxes", expected="a box for each second", found=repr(boxes)[:60])
    try:
        known = {float(second): read_box(box, "boxes") for second, box in boxes.items()}
    except ValueError as error:
        raise ParseError("boxes", expected="seconds as keys", found=str(error)) from error
    given = value.get("time")
    span = None if given is None else Interval(*finite_numbers(given, 2, "time"))
    return known, span


@dataclass(frozen=True)
class Wording(AnswerPrompts):
    """Requests for every form of answer, and answers in words."""

    package: str = "harness.models.one_thinker"
    official: Templates | None = None
    """The official words, where a checkout has them; None: ours."""

    @property
    def templates(self) -> Templates:
        """The wording."""
        return self.official or AnswerPrompts(self.package).templates

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """The answer that a response gives; a stretch of time under the key `time`."""
        if form is not AnswerForm.INTERVAL:
            return super().read(query, form, response)
        start, end = finite_numbers(fields_of(response).get("time"), 2, "time")
        if end < start:
            raise ParseError("time", expected="start ≤ end", found=f"[{start}, {end}]")
        return Answer(interval=Interval(start, end))


def official_templates(file: Path) -> Templates:
    """Read the words of the official `eval_bench.py`; it is parsed and not run.

    Raises:
        UsageError: it is not there, or does not hold them.
    """
    try:
        constants = {
            statement.targets[0].id: ast.literal_eval(statement.value)
            for statement in ast.parse(read_text(file)).body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id in ("QUESTION_TEMPLATE", "TYPE_TEMPLATE")
        }
        types = constants["TYPE_TEMPLATE"]
        forms = {form: "{Prompt}" + types[problem] for form, problem in PROBLEMS.items()}
        ours = Wording().templates
        return replace(ours, plain=str(constants["QUESTION_TEMPLATE"]), form=forms)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError) as error:
        raise UsageError(
            f"one_thinker(prompts={file})",
            expected="Evaluation/Eval/eval_bench.py of tulerfeng/OneThinker",
            found=str(error) or type(error).__name__,
        ) from error


@dataclass(frozen=True, slots=True)
class Places:
    """The wording and the grammar of masks, as a model composition takes them."""

    words: Wording
    name: str = "one_thinker"
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for a mask in an image, or in a video where frames are `numbered`."""
        form = AnswerForm.MASK_TRACK if numbered else AnswerForm.MASK
        return self.words.templates.render(text, form=form)

    def parse(self, response: str) -> ParseResult:
        """Read the box, and the first point of each kind."""

        def read(rest: str) -> Read:
            prompt = read_prompt(rest)
            first, second, *_ = (*prompt.positive, None, None)
            negative = prompt.negative[0] if prompt.negative else None
            return (Item(prompt.box, first, negative, second),), ()

        return read_response(response, read)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items` as one object: a box around all, up to three points."""
        return frame_tag(frame) + write_prompt(items)


def write_prompt(items: Sequence[Item], *, time: float | None = None) -> str:
    """Return the response for `items` as one object, in the frame at `time` of a video.

    Raises:
        ParseError: there is nothing to say, which this grammar has no words for.
    """
    if not items:
        raise ParseError("answer to write", expected="one object", found="none")
    plain: dict[str, object] = {} if time is None else {"time": float(digits(round(time, 6)))}
    plain |= {
        "boxes": numerals(around([item.bounds for item in items]) or ()),
        "positive_points": [numerals(item.place) for item in items[:3]],
        "negative_points": [],
    }
    return answer_response(json.dumps(plain))
