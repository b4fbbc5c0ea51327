"""DR2Seg: `<think>…</think><description>…</description><answer>[{"bbox_2d": […], …}]</answer>`.

He et al., "DR2Seg: Decomposed Two-Stage Rollouts for Efficient Reasoning Segmentation in Multimodal
Large Language Models" (arXiv:2601.09981). The answer is VisionReasoner's (`models/visionreasoner`),
on the same 840 × 840 canvas. The description is new: it must be able to replace the question. There
are two forms: `sam2` (the paper's Table 9) asks for boxes and points; `sam3` (its C.3) asks for
boxes only, and the description, under `<target_desc>`, is a prompt of the segmenter.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import ParseError
from harness.models.grammar import (
    MAX_OBJECTS,
    Item,
    ParseResult,
    ask_for_frame,
    frame_tag,
    numerals,
    read_items,
    take_apart,
)
from harness.models.prompts import Wording, asked_briefly, fill, text_of
from harness.models.visionreasoner import grammar as visionreasoner
from harness.responses import tag_text
from harness.thoughts import after_thought

Form: TypeAlias = Literal["sam2", "sam3"]

CANVAS = visionreasoner.CANVAS
"""(width, height) in pixels that every image is squashed to, bilinear."""

TAGS: dict[Form, str] = {"sam2": "description", "sam3": "target_desc"}
"""The tag of the description in each form."""

FORBIDDEN = ("think", "answer", *TAGS.values())
"""Tags that a reasoning or description to write must not contain."""


def template(name: str) -> str:
    """Return the content of a text file of this folder."""
    return text_of("harness.models.dr2seg", name)


def build_prompt(
    text: str, *, form: Form = "sam2", answer: str | None = None, wording: Wording = "paper"
) -> str:
    """Return the request for a question, or for a description in its place (second pass).

    Args:
        text: The question; put into the prompt in lower case and without marks at its ends, as in
            the official evaluation of VisionReasoner.
        form: Form of the prompt: `sam2`, or `sam3`, which also asks for a description.
        answer: Replaces the example answer in the prompt.
        wording: `paper`, or `short`: little but the question.
    """
    requested = visionreasoner.question(text)
    if wording == "short":
        return asked_briefly(requested)
    if answer is None and form == "sam2":
        answer = visionreasoner.template("example_answer.txt")
    elif answer is None:
        answer = template("sam3_example_answer.txt")
    return fill(template(f"{form}.txt"), Question=requested, Answer=answer)


def description(response: str, *, form: Form = "sam2") -> str:
    """Return the stripped description after the thought; empty if it is absent or not closed.

    >>> description("<think>…</think><description> the red cup </description>")
    'the red cup'
    """
    return tag_text(after_thought(response), TAGS[form]) or ""


def reasoning_text(response: str, *, form: Form = "sam2") -> str:
    """Return the reasoning whose tokens a reward counts: N1 and N2 of the paper's Eq. 3 and 4.

    It is the stripped text of the first `<think>`. If that is absent or not closed, it is all text
    before the description, or the whole response, so that omitting a tag cannot shorten it.
    """
    closed = tag_text(response, "think")
    return response.partition(f"<{TAGS[form]}>")[0].strip() if closed is None else closed


def parse(response: str, *, form: Form = "sam2", strict: bool = False) -> ParseResult:
    """Parse a response; an unreadable one gives a result with an error, nothing is raised.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        form: `sam2`: the answer is read as VisionReasoner's, and the description is not needed.
            `sam3`: the description is the result's phrase; invalid boxes are left out, and if no
            valid box remains, the phrase alone is the answer (C.3).
        strict: Read as a reward does: without repairs of the JSON; in the `sam2` form, any four
            numbers are a box.
    """
    if form == "sam2":
        return visionreasoner.parse(response, strict=strict)
    frame, think, text = take_apart(response)
    phrase = description(text, form=form)
    try:
        value, notes = visionreasoner.answer_value(text, strict=strict)
        items, dropped = valid_boxes(value)
        notes = (*notes, *dropped)
    except ParseError as error:
        if not phrase:
            return ParseResult(think=think, frame=frame, error=str(error))
        items, notes = (), (str(error),)
    if phrase and not items:
        notes = (*notes, "no valid box: the phrase alone")
    return ParseResult(items=items, phrase=phrase, think=think, frame=frame, notes=notes)


def valid_boxes(value: object) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Return the valid boxes of an answer, and a note of how many objects were left out (C.3).

    Raises:
        ParseError: the answer is not a list, or it holds objects and none has a valid box.
    """
    if not isinstance(value, list):
        raise ParseError("answer", expected="a list of objects", found=type(value).__name__)
    items: list[Item] = []
    first_error: ParseError | None = None
    for entry in value[:MAX_OBJECTS]:
        try:
            items += read_items([entry], keys=("bbox_2d",))[0]
        except ParseError as error:
            first_error = first_error or error
    if first_error is not None and not items:
        raise first_error
    lost = len(value) - len(items)
    return tuple(items), (f"{lost} of {len(value)} objects have no valid box",) if lost else ()


def write(
    items: Sequence[Item],
    *,
    think: str = "",
    description: str = "",
    frame: int | None = None,
    form: Form = "sam2",
) -> str:
    """Return the response for `items`; coordinates are written as whole numbers.

    Raises:
        ParseError: a text holds a tag of the grammar, or an item of the `sam2` form has no point.
    """
    for text in (think, description):
        if any(f"<{end}{tag}>" in text for tag in FORBIDDEN for end in ("", "/")):
            raise ParseError("text to write", expected="no tag of the grammar", found=text[:60])
    if form == "sam2":
        answer = "<answer>" + visionreasoner.write(items).partition("<answer>")[2]
    else:
        boxes = [{"bbox_2d": numerals(item.bounds)} for item in items]
        answer = f"<answer>{json.dumps(boxes)}</answer>"
    tag = TAGS[form]
    return f"{frame_tag(frame)}<think>{think}</think><{tag}>{description}</{tag}>{answer}"


@dataclass(frozen=True, slots=True)
class DR2Seg:
    """The prompt and the parser of DR2Seg, for a `PromptedModel`."""

    form: Form = "sam2"
    resize: tuple[int, int] | None = CANVAS
    """(width, height) in pixels that images are squashed to."""
    strict: bool = False
    """Read without repairs, as a reward does."""
    wording: Wording = "paper"
    newline: bool = False
    """Put a newline between image and prompt, as VisionReasoner's training does."""

    @property
    def name(self) -> str:
        """`dr2seg/sam2` or `dr2seg/sam3`."""
        return f"dr2seg/{self.form}"

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt; before it, the request to name a frame of `numbered`, if any."""
        prompt = build_prompt(text, form=self.form, wording=self.wording)
        newline = "\n" if self.newline else ""
        return newline + ask_for_frame(numbered) + prompt

    def parse(self, response: str) -> ParseResult:
        """Parse a response of this form."""
        return parse(response, form=self.form, strict=self.strict)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items`, with an empty description: their names are not known."""
        return write(items, frame=frame, form=self.form)
