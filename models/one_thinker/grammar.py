"""Read and write OneThinker's answers: JSON within `<answer>`, with the keys of its official code.

Feng et al., "OneThinker" (arXiv:2512.03043); tulerfeng/OneThinker at 768b20f, `eval_bench.py` and
`seg_post_sam2.py`. Coordinates are shares of 1000, times are seconds; an answer names one object.
The official code swaps the corners of an inverted box and skips an invalid one; here both are
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

PROBLEM_TYPES = {
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
"""The official name of the problem type, by the form of answer."""


@dataclass(frozen=True, slots=True)
class Prompted(ParsedObject):
    """A prompt for the segmenter that an answer gives, in the answer's own numbers (of 1000)."""

    time: float = 0.0
    """Time in seconds of the frame that it is in; 0 for an image, or if the answer states none."""


def fields_of(response: str) -> Mapping[str, object]:
    """Return the JSON object of a response's answer.

    Raises:
        ParseError: the response has no answer, or it is not a JSON object.
    """
    value, _ = loads(answer_part(response), strict=False)
    if not isinstance(value, Mapping):
        raise ParseError("answer", expected="a JSON object", found=type(value).__name__)
    return value


def read_prompt(response: str) -> Prompted:
    """Read an answer about a mask: `boxes` (one box), `positive_points`, or both.

    Raises:
        ParseError: both are absent, or one of them is malformed.
    """
    fields = fields_of(response)
    box = None if fields.get("boxes") is None else read_box(fields["boxes"], "boxes")
    positive, negative = _points(fields, "positive_points"), _points(fields, "negative_points")
    if box is None and not positive:
        keys = ", ".join(fields)[:60]
        raise ParseError("answer", expected="boxes or positive_points", found=keys)
    (time,) = finite_numbers([fields.get("time") or 0.0], 1, "time")
    return Prompted(box=box, positive=positive, negative=negative, time=time)


def _points(fields: Mapping[str, object], key: str) -> tuple[Point, ...]:
    """Return the points under a key; () if it is absent."""
    points = fields.get(key) or []
    if not isinstance(points, list):
        raise ParseError(key, expected="a list of points", found=type(points).__name__)
    return tuple(Point(*finite_numbers(point, 2, key)) for point in points)


def read_track(response: str) -> tuple[dict[float, Box], Interval | None]:
    """Read an answer about boxes in a video, `{"boxes": {"0.5": […], …}, "time": [0.5, 2]}`.

    Returns:
        Boxes by time in seconds, and the interval `time`, or None if the answer states none.

    Raises:
        ParseError: there is no box, or a key is not a number.
    """
    fields = fields_of(response)
    boxes = fields.get("boxes")
    if not isinstance(boxes, Mapping) or not boxes:
        raise ParseError("boxes", expected="a box for each second", found=repr(boxes)[:60])
    try:
        by_second = {float(second): read_box(box, "boxes") for second, box in boxes.items()}
    except ValueError as error:
        raise ParseError("boxes", expected="seconds as keys", found=str(error)) from error
    time = fields.get("time")
    span = None if time is None else Interval(*finite_numbers(time, 2, "time"))
    return by_second, span


@dataclass(frozen=True)
class Wording(AnswerPrompts):
    """Makes the request for every form of answer, and reads answers in words."""

    package: str = "harness.models.one_thinker"
    official: Templates | None = None
    """The official words, read from a checkout; None: this project's own words."""

    @property
    def templates(self) -> Templates:
        """The words of the requests."""
        return self.official or AnswerPrompts(self.package).templates

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """Return the answer that a response gives; an interval is under the key `time`.

        Raises:
            ParseError: the response has no answer of this form.
        """
        if form is not AnswerForm.INTERVAL:
            return super().read(query, form, response)
        start, end = finite_numbers(fields_of(response).get("time"), 2, "time")
        if end < start:
            raise ParseError("time", expected="start ≤ end", found=f"[{start}, {end}]")
        return Answer(interval=Interval(start, end))


def official_templates(file: Path) -> Templates:
    """Return the words of the official `eval_bench.py`, which is parsed but never run.

    Raises:
        UsageError: the file cannot be read, or lacks the templates.
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
        forms = {form: "{Prompt}" + types[problem] for form, problem in PROBLEM_TYPES.items()}
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
    """The prompt and the parser for questions about masks, for a `PromptedModel`."""

    words: Wording
    name: str = "one_thinker"
    resize: tuple[int, int] | None = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for a mask: in a video if frames are `numbered`, else in an image."""
        form = AnswerForm.MASK_TRACK if numbered else AnswerForm.MASK
        return self.words.templates.render(text, form=form)

    def parse(self, response: str) -> ParseResult:
        """Read the box, the first two positive points and the first negative one."""

        def read(text: str) -> Read:
            prompt = read_prompt(text)
            first, second, *_ = (*prompt.positive, None, None)  # None for those that are absent
            negative = prompt.negative[0] if prompt.negative else None
            return (Item(prompt.box, first, negative, second),), ()

        return read_response(response, read)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items` as one object: a box around all, up to three points."""
        return frame_tag(frame) + write_prompt(items)


def write_prompt(items: Sequence[Item], *, time: float | None = None) -> str:
    """Return the response for `items` as one object, in a video at `time` (seconds).

    Raises:
        ParseError: `items` is empty; the grammar cannot express that there is no object.
    """
    if not items:
        raise ParseError("answer to write", expected="one object", found="none")
    fields: dict[str, object] = {} if time is None else {"time": float(digits(round(time, 6)))}
    fields |= {
        "boxes": numerals(around([item.bounds for item in items]) or ()),
        "positive_points": [numerals(item.place) for item in items[:3]],
        "negative_points": [],
    }
    return answer_response(json.dumps(fields))
