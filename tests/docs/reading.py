"""Writes docs/reading-responses.md: spellings of answers against every reader.

    python tests/docs/reading.py

The spellings are those of spellings.py; `tests/models/test_reading_laws.py` holds readers to them.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from string import ascii_uppercase
from textwrap import fill

import numpy as np

from harness import media, plugins
from harness.errors import ModelError, ParseError, UsageError
from harness.metrics import choices, letter_readers, numeric, spar, tempcompass, vsi, vstar
from harness.models.dr2seg.grammar import DR2Seg
from harness.models.grammar import Item
from harness.models.pipeline import PromptedModel
from harness.models.vlm.dialect import names as dialects
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

A row of a table has the meaning of responses, the value that our readers and each official reader
give, and then all texts of which this holds. – is a failure, **bold** a wrong value, ⏎ the end
of a line. In the first row of numbers, a text says 3 and every reader gives 3.

These rules turn a response into an answer, by model and by protocol.

1. **Reasoning is removed.** All our grammars, readers, judges and rewards read the text after the
   last end of the reasoning. Reasoning without an answer is a failed sample. Official code that
   reads the whole response keeps its rule: the rewards of `visionreasoner`, `seg_zero`,
   `video_r1`, `spacer`.
2. **`<answer>…</answer>`** holds the answer, if present. If there are several after the reasoning,
   the first counts for methods whose official code takes the first (VisionReasoner, Seg-Zero and
   methods based on them, Video-R1, VideoChat-R1, SpaceR, Video-STR, OneThinker). The last counts
   for all others, and in protocols. Of several lines `Answer: …` the last counts. A
   note reports it.
3. **A response gives its value or a failure.** An unknown or ambiguous spelling fails; it never
   becomes another value. Negations and corrections are understood, or fail. In other languages than
   English and Chinese a value counts only alone or between words that are known to state it
   ("La réponse est B", "정답은 B입니다", "Es gibt 3 Stühle"); `1.250` and `1,250` fail there,
   unless the language writes numbers as English does (Korean, Hindi, …). Where the question asks
   for a unit ("in meters"), lengths, areas and times in other units are converted to it by our
   readers, and numbers of another measure (paces, m/s) fail; otherwise, and by official code, units
   are ignored.
4. **One turn is read.** A prompt decoded with the response, and a following user turn, are
   removed. `Question: …` and `Answer: …` after other text are a failure.
"""
THOUGHTS = """
## Thoughts

| source | form | `B` after it | nothing after it | not closed |
| --- | --- | --- | --- | --- |"""
NUMBERS = """
## Numbers

All `…/strict` protocols and these models share one reader:
{models}.
Two numbers, ranges, bounds, fractions, and numbers that their words leave open ("20-odd", "20
people, possibly more") fail, except for a correct sum with a stated total, a last sentence that
begins as a conclusion ("So", "Therefore"), a last clause with the sum, the difference, the product
or the quotient of two numbers before it ("5 of 8 wear one, so 3 do not"), numbers that only say
what is measured ("The number of chairs above 2 m is 3"), the year of a value, and a value to which
the end compares it ("45%, compared to 38% before"), unless the question may ask for both. A number
that counts two things fails ("3 on the left and 3 on the right"), and so does a number under
another JSON key than the answer's, or a count with a noun for another thing ("3 cats", "3 balls" or
"3 toy dogs" for dogs, "2 people" for women; "3 puppies" and "3 animals" count, and so do nouns that
the reader does not know, "3 mutts") or with another quality ("3 blue cars" for red ones), unless
the asked one is counted as well ("3 dogs and 2 cats"). So do numbers of another quantity ("The
height is 3 m" for the width) or another name ("Hamburg is 85 km away" for Berlin), or of another
thing in the role of the question's ("the rate of men" for women, "on the floor" for the table, "the
red bar" for the blue one). Beside a number in the asked unit, those in other known units do not
count ("2.4 bar (about 35 psi)"); of a list of labelled numbers, the one whose label the question
names counts. `1,500` is one thousand five hundred, `1,5` is one and a half.

| meaning | ours | `vsi/official` | `vsi/lmms2026` | `spar/official` | texts |
| --- | --- | --- | --- | --- | --- |"""
LETTERS = """
## Options

The same models and `…/strict` protocols share one reader. The options are A. the cat, B. the dog,
C. the cow, D. the pig. Strict protocols do not accept an option's text instead of its letter. An
option's text counts if it is the whole response or its first clause, and nothing after it denies
it, leaves it open or names another option; or if it ends a sentence that has only the question's
words ("The shirt is white" to "What color is the shirt?"). Of a list that calls its options correct
or incorrect, the one that is correct counts.

| meaning | ours | `videomme/official` | `lvb/lmms` | `sti/official` | `blink/official` | texts |
| --- | --- | --- | --- | --- | --- | --- |"""
YES_NO = """
## Yes and no

The same reader, of a question with the options A. Yes, B. No. The protocol `text/yes_no` compares
the sentence with the question as well: "Yes, the image lacks a dog", "No, there is a dog" fail, and
so does a sentence that states what "No" denies, or swaps the two things after "Yes".

| meaning | ours | `tempcompass/rules` | texts |
| --- | --- | --- | --- |"""
TIMES = """
## Time intervals

One reader gives seconds; `one_thinker` reads only its own `{"time": [s, e]}`. "to", a dash, a comma
or a similar word separates the two times. A start and a duration are read only under these keys. An
interval that begins after its video's end, or ends more than 5% after it, is a failure, and so is
one of another subject or action than the question's ("the dog barks from 3 to 5 s" for the door).

| meaning | ours | `vstar/official` | texts |
| --- | --- | --- | --- |"""
PLACES = """
## Boxes and points

The question is "Where is the dog?". Numbers are in the model's own coordinates. Each grammar has
its own form. Grammars whose boxes start with x also read two corners, `(x1,y1),(x2,y2)`, with or
without Qwen's special tokens. One invalid object makes the whole response a failure. So do:

- numbers of another scale: from 0 to 1 on a larger canvas, percent, pixels instead of fractions,
  numbers outside the canvas by more than 5% of a side (less is clipped);
- another order: `[x, y, width, height]`, `[y1, x1, y2, x2]`, a key `format`;
- fields that reject a box or give its numbers another scale, under any key (`"status":
  "rejected"`, `"coordinates": "normalized_1000"`), and a label that names the object only to set
  another apart from it ("the cat next to the dog");
- labels of which only some share words with the question (if none do, they count as synonyms, but
  for a known noun of another kind or another quality: "cat" or "toy dog" for a dog, "blue cup" for
  a red one); a label is every text beside the box under any key;
- boxes or points that the text denies, doubts, or assigns to another object ("to the left of
  [10, 20, 30, 40]"), and those with a word around them in another language that is neither of the
  question nor known to lead to a place.

Sets of readers that occur often have a letter:

{sets}

| meaning | read by | texts |
| --- | --- | --- |"""


def models() -> Iterator[tuple[str, PromptedModel]]:
    """Yield every registered model that reads a network's text, of `vlm` each dialect."""
    for name in plugins.installed_plugins("models"):
        if not plugins.accepts("models", name, "backend"):
            continue
        for dialect in dialects() if plugins.accepts("models", name, "dialect") else [""]:
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
    """Yield a row for each set of values that readers give, with its spellings."""
    return grouped((text, _cells(text, says, ours, official)) for text, says in table.items())


def _cells(
    text: str,
    says: object,
    ours: Callable[[str], object],
    official: Sequence[Callable[[str], object]],
) -> tuple[str, ...]:
    """Return the meaning of a text and every reader's value; officials' wrong ones are bold."""
    values = (read(text) for read in official)
    return (
        shown(says),
        shown(of(ours, text)),
        *(
            shown(value) if value is None or value == says else f"**{shown(value)}**"
            for value in values
        ),
    )


def grouped(spelt: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """Yield a row for each tuple of cells, with its texts; rows of one meaning stand together.

    Args:
        spelt: Texts, each with the cells of its row, of which the first is its meaning.
    """
    by_meaning: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for text, cells in spelt:
        by_meaning.setdefault(cells[0], {}).setdefault(cells, []).append(code(text))
    failures = by_meaning.pop(shown(None), {})  # the longest rows; they stand behind the values
    for texts_by_cells in (*by_meaning.values(), failures):
        for cells, texts in texts_by_cells.items():
            yield f"| {' | '.join(cells)} | {', '.join(texts)} |"


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


def _read_by() -> list[tuple[str, object, str]]:
    """Return for each spelling of places its text, its meaning and the names of its readers."""
    readers = locators()
    return [
        (
            text,
            says,
            ", ".join(f"`{name}`" for name, model in readers.items() if places(model, text, form)),
        )
        for table, form in ((spellings.BOXES, BOXES), (spellings.POINTS, POINTS))
        for text, says in table.items()
    ]


def _places() -> Iterator[str]:
    read_by = _read_by()
    counts = Counter(names for _, _, names in read_by if "," in names)
    often = [names for names, count in counts.most_common() if count > 1]
    letters = dict(zip(often, ascii_uppercase, strict=False))
    sets = "\n".join(f"- {letter}: {names}" for names, letter in letters.items())
    yield PLACES.replace("{sets}", sets)
    yield from grouped(
        (text, (shown(says), letters.get(names, names) or "–")) for text, says, names in read_by
    )


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
        *_places(),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
