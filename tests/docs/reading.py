"""Writes docs/reading-responses.md: spellings of answers against every reader.

    python tests/docs/reading.py

The spellings are those of spellings.py; `tests/models/test_reading_laws.py` holds readers to them.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from textwrap import fill

import numpy as np

from harness import media, plugins
from harness.errors import ModelError, ParseError, UsageError
from harness.metrics import choices, letter_readers, numeric, spar, tempcompass, vsi, vstar
from harness.models.dr2seg.grammar import DR2Seg
from harness.models.grammar import Item
from harness.models.pipeline import PromptedModel
from harness.models.vlm.dialect import names
from harness.spec import parse
from harness.stated.intervals import stated_interval
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.thoughts import after_thought
from harness.types import AnswerForm, Box, Point, Query, query_id

IMAGE = (1000, 800)
BOXES, POINTS = AnswerForm.BOXES, AnswerForm.POINTS
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # as it is where this file is run

import spellings  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "reading-responses.md"
OPTIONS = ("the cat", "the dog", "the cow", "the pig")
HEAD = """<!-- Written by `python tests/docs/reading.py`. -->
# Reading responses

How a response becomes an answer, by model and by protocol.

1. **The thought is cut off.** What follows its last end is read, by every grammar, reader, judge
   and reward of ours. A thought without an answer is a failed sample. Official code that reads the
   whole response keeps its rule: the rewards of `visionreasoner`, `seg_zero`, `video_r1`, `spacer`.
2. **`<answer>…</answer>`** is the answer where there is one. Of several after the thought the first
   counts for methods whose official code takes the first (VisionReasoner, Seg-Zero and what is
   built on them, Video-R1, VideoChat-R1, SpaceR, Video-STR, OneThinker), the last for everybody
   else, and in protocols; a note says so. Of several lines `Answer: …` the last counts, with a
   note.
3. **The value or a failure.** A spelling that a reader of ours does not know, or that can be read
   in two ways, fails; it never becomes another value. Negations and corrections are understood, or
   fail. Units are passed over, not converted.
4. **One turn is read.** A prompt that was decoded with the response, and what follows it as the
   user's next turn, are left out. `Question: …` and `Answer: …` after other text are a failure.

The tables show, for a spelling, what it says, what every reader of ours gives, and beside it what
official readers give, which are another rule each. – is a failure. **Bold** is another value.
"""
THOUGHTS = """
## Thoughts

| written by | form | `B` after it | nothing after it | not closed |
| --- | --- | --- | --- | --- |"""
NUMBERS = """
## Numbers

One reader, of `…/strict` protocols and of the models
{models}.
Two numbers, ranges, bounds and fractions fail, but for a sum that is right and says that it is the
total, for a last sentence that begins as a conclusion ("So", "Therefore"), and for numbers that
only say what is measured ("The number of chairs above 2 m is 3"). So does a number that counts two
things ("3 on the left and 3 on the right"), and one under a key of JSON that is not an answer's,
beside other keys. `1,500` is one thousand and five hundred, `1,5` is one and a half.

| response | says | ours | `vsi/official` | `vsi/lmms2026` | `spar/official` |
| --- | --- | --- | --- | --- | --- |"""
LETTERS = """
## Options

One reader, of the same models and of `…/strict` protocols. The options are A. the cat, B. the dog,
C. the cow, D. the pig; strict protocols do not take an option's text for its letter. An option's
text counts where it is all, or the first clause, and nothing after it denies it, leaves it open or
names another option.

| response | says | ours | `videomme/official` | `lvb/lmms` | `sti/official` | `blink/official` |
| --- | --- | --- | --- | --- | --- | --- |"""
YES_NO = """
## Yes and no

The same reader, of a question with the options A. Yes, B. No.

| response | says | ours | `tempcompass/rules` |
| --- | --- | --- | --- |"""
TIMES = """
## Stretches of time

One reader, in seconds; `one_thinker` reads its own `{"time": [s, e]}` alone. Between the two times
stands "to", a dash, a comma or the like; a start and a duration are read under these keys alone.

| response | says | ours | `vstar/official` |
| --- | --- | --- | --- |"""
PLACES = """
## Boxes and points

The question is "Where is the dog?". Numbers are read in the model's own coordinates. Each grammar
has its own form; grammars of boxes that begin with x read two corners too, `(x1,y1),(x2,y2)`, with
or without Qwen's marks. One wrong object makes the whole response wrong. Failures are also:

- numbers of another scale: from 0 to 1 where a side has more steps, percent, sizes in pixels where
  numbers are shares, numbers beyond the canvas by more than 5% of a side (less is clipped);
- another order: `[x, y, width, height]`, `[y1, x1, y2, x2]`, a key `format`;
- labels of which some have words of the question and others do not. Where none has, they are taken
  as other words for what was asked;
- places that words deny, doubt, or give to something else ("to the left of [10, 20, 30, 40]").

| response | says | read by |
| --- | --- | --- |"""


def models() -> Iterator[tuple[str, PromptedModel]]:
    """Yield every registered model that reads a network's text, of `vlm` each dialect."""
    for name in plugins.installed_plugins("models"):
        if not plugins.accepts("models", name, "backend"):
            continue
        for dialect in names() if plugins.accepts("models", name, "dialect") else [""]:
            given = f",dialect={dialect}" if dialect else ""
            try:
                model = plugins.build("models", parse(f"{name}(backend=stored{given})"))
            except (ModelError, UsageError):
                continue  # it wants checkpoints; none of these has a grammar of its own
            if isinstance(model, PromptedModel):
                yield f"{name}:{dialect}" if dialect else name, model


def locators() -> dict[str, PromptedModel]:
    """Return a model for every grammar of places."""
    found = dict(models())
    found["dr2seg:sam3"] = replace(found["dr2seg"], prompt=DR2Seg(form="sam3"))
    located = plugins.build("models", parse("qwen_vl(backend=stored,prompt=locate)"))
    assert isinstance(located, PromptedModel)
    return {**found, "qwen_vl:locate": located}


def places(model: PromptedModel, text: str, form: AnswerForm) -> list[list[float]] | None:
    """Return the boxes or points that a model reads, in pixels of `IMAGE`; None for a failure."""
    answer = model.read(_query(form), [text]).answer
    found = None if answer is None else answer.boxes or answer.points or ()
    return None if found is None else [list(place) for place in found]


def in_image(
    model: PromptedModel, meant: Sequence[Sequence[float]] | None, form: AnswerForm
) -> list[list[float]] | None:
    """Return boxes or points of a model's own numbers in pixels of `IMAGE`."""
    if meant is None:
        return None
    canvas = model.canvas(model.requests(_query(BOXES))[0])
    if form is AnswerForm.POINTS:
        return [list(canvas.to_image(Item(point=Point(*point))).place) for point in meant]
    return [list(canvas.to_image(Item(Box(*box))).bounds) for box in meant]


@cache
def _query(form: AnswerForm) -> Query:
    image = media.pixels(
        [np.zeros((*IMAGE[::-1], 3), np.uint8)], times=[0.0], is_video=False, id="q"
    )
    return Query(id=query_id("places"), text="Where is the dog?", media=(image,), forms=(form,))


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    if not text:
        return "(nothing)"
    return f"<code>{escape(text).replace('|', '&#124;').replace(chr(10), '⏎')}</code>"


def shown(value: object) -> str:
    """Return a value as a cell shows it."""
    if value is None:
        return "–"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def of(read: Callable[[str], object], text: str) -> object:
    """Return what a reader of ours gives; None for a failure."""
    try:
        return read(text)
    except ParseError:
        return None


def rows(
    table: Mapping[str, object],
    ours: Callable[[str], object],
    official: Sequence[Callable[[str], object]],
) -> Iterator[str]:
    """Yield a row of a table for each spelling."""
    for text, says in table.items():
        cells = [shown(of(ours, text))]
        for read in official:
            value = read(text)
            known = value is None or value == says
            cells.append(shown(value) if known else f"**{shown(value)}**")
        yield f"| {code(text)} | {shown(says)} | {' | '.join(cells)} |"


def yes_or_no(text: str) -> str:
    """Return what a reader of ours gives for a question with the options Yes and No."""
    return {"A": "yes", "B": "no"}[stated_letter(text, "AB", ("Yes", "No"))]


def _tempcompass(text: str) -> str | None:
    is_yes = tempcompass.yes_no(text, "yes")
    return None if is_yes is None else "yes" if is_yes else "no"


def _spar_number(text: str) -> float | None:
    found = spar.read_official(text, task="depth_prediction_oc")
    return None if found is None else float(str(found))


def _interval(text: str) -> tuple[float, ...] | None:
    found = vstar.interval_in(text)
    return None if found is None else tuple(found)


def _thoughts() -> Iterator[str]:
    for who, (form, note) in spellings.THOUGHTS.items():
        opening = form.partition("{}")[0]
        whole = form.replace("{}", "A?")
        said = [
            after_thought(text).strip() or None for text in (f"{whole}B", whole, f"{opening}A?")
        ]
        about = f" ({note})" if note else ""
        yield f"| {who} | {code(form.replace('{}', '…'))}{about} | {' | '.join(map(shown, said))} |"


def _places() -> Iterator[str]:
    readers = locators()
    for table, form in ((spellings.BOXES, BOXES), (spellings.POINTS, POINTS)):
        for text, says in table.items():
            read_by = [f"`{name}`" for name, model in readers.items() if places(model, text, form)]
            yield f"| {code(text)} | {shown(says)} | {', '.join(read_by) or '–'} |"


def page() -> str:
    """Return the text of the page."""
    numbers: Iterable[str] = (
        f"`{name}`" for name, model in models() if "number" in model.forms and ":" not in name
    )
    official = (vsi.leading_number, numeric.first_number, _spar_number)
    letters = (
        choices.video_mme_choice,
        choices.longvideobench_choice,
        choices.sti_bench_choice,
        lambda text: letter_readers.mcq_choice(text, "ABCD"),
    )
    lines = [
        HEAD.rstrip(),
        THOUGHTS,
        *_thoughts(),
        NUMBERS.replace("{models}", fill(", ".join(numbers), 100)),
        *rows(spellings.NUMBERS, stated_number, official),
        LETTERS,
        *rows(spellings.LETTERS, lambda text: stated_letter(text, "ABCD", OPTIONS), letters),
        YES_NO,
        *rows(spellings.YES_NO, yes_or_no, (_tempcompass,)),
        TIMES,
        *rows(spellings.TIMES, stated_interval, (_interval,)),
        PLACES,
        *_places(),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
