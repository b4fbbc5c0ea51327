"""Functions that the grammars of methods share: read objects (boxes, points, phrases) from JSON.

Each method's `Prompt` has its own tags, keys and wording, and builds on these functions. Numbers
stay as the response writes them; `canvas` rescales them later. Reading takes time linear in the
response's length, whatever is in it, and raises nothing but ParseError.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

from harness.errors import ParseError
from harness.models.prompts import fill, text_of
from harness.responses import MAX_TEXT, Which, finite_numbers, loads_lenient, loads_strict
from harness.stated.corrections import after_correction
from harness.thoughts import parts_of, split_thought
from harness.types import Box, Point

MAX_OBJECTS = 120
"""Most objects of a response that are read, as in the official VisionReasoner reward."""

LABELS = ("label", "name", "object", "class", "category", "description")
"""Keys of an object's name; their texts come first in `label_of`."""
MAX_LABEL = 200
"""Most characters of a text that may name an object; a longer one is an encoded mask or prose."""

FRAME = re.compile(r"\s*<frame>\s*(\d{1,9})\s*</frame>")  # "<frame>12</frame>"


class Item(NamedTuple):
    """One object, given by a box, a point or a phrase, or by several of them.

    Box and points have the same coordinate frame, which the function that returns them states.
    """

    box: Box | None = None
    point: Point | None = None
    negative: Point | None = None
    """A point outside the object."""
    second: Point | None = None
    """A second point on the object."""
    phrase: str = ""
    """Words for the object, a prompt. Without box and point they mean all objects that they fit."""
    label: str = ""
    """Name that the response gives the object. It is checked, and never prompts a segmenter."""

    @property
    def place(self) -> Point:
        """Return the point; without one, the middle of the box.

        Raises:
            ParseError: there is neither a point nor a box.
        """
        if self.point is not None:
            return self.point
        left, top, right, bottom = self.bounds
        return Point((left + right) / 2, (top + bottom) / 2)

    @property
    def bounds(self) -> Box:
        """Return the box, for a grammar or a reward that needs one.

        Raises:
            ParseError: there is no box.
        """
        if self.box is None:
            content = "a phrase alone" if self.point is None else "a point alone"
            raise ParseError("object", expected="a box", found=content)
        return self.box


def numerals(values: Iterable[float]) -> list[int | float]:
    """Return coordinates as a response writes them: whole, or with at most three decimals.

    >>> numerals(Box(12.0, 0.5, 123 / 10, 40))
    [12, 0.5, 12.3, 40]
    """
    short = (round(float(value), 3) for value in values)
    return [int(value) if value.is_integer() else value for value in short]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """Content of a response: `items` or a `phrase`, neither (no target), or an `error`."""

    items: tuple[Item, ...] = ()
    """Objects in the response's own numbers (`harness.coordinates.Coordinates`): the box of a `_yx`
    network holds (y1, x1, y2, x2), as written.
    """
    think: str = ""
    """The reasoning, without its tags."""
    phrase: str = ""
    """Words for every item without a phrase of its own; without items, the whole answer."""
    frame: int | None = None
    """Number of the video's frame that the response names; None: it names none."""
    notes: tuple[str, ...] = ()
    """Repairs that reading needed, such as "code fence"."""
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Return True if the response could be read."""
        return self.error is None


class Prompt(Protocol):
    """The wording of one method's requests for places, and the grammar of its responses."""

    @property
    def name(self) -> str:
        """Short name for records."""

    @property
    def resize(self) -> tuple[int, int] | None:
        """(width, height) in pixels that images are resized to; None: the processor's own rule."""

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for a question; a response must name one of the `numbered` frames."""

    def parse(self, response: str) -> ParseResult:
        """Read a response, with the repairs that inference may make (rewards may not)."""

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response for `items`, whose numbers are the response's own (see `numerals`).

        Each item has a box, a point and, as its phrase, the words of the question; a grammar writes
        those that it has a form for.
        """


def well_formed(response: str, *between: str) -> bool:
    r"""Return True if a response is `<think>…</think>`, each tag of `between`, and `<answer>`.

    The result is that of `fullmatch` with
    `<think>.*?</think>\s*<tag>.*?</tag>\s*<answer>.*?</answer>` (`.` matches line breaks too), but
    takes linear time. From left to right, it takes the first place where a tag closes and the next
    one opens, which leaves the most text for the tags that follow.

    >>> well_formed("<think>a</think>\n<answer>b</answer>")
    True
    >>> well_formed("<think>a</think> so <answer>b</answer>")
    False
    """
    opening, end = "<think>", "</answer>"
    if not (response.startswith(opening) and response.endswith(end)):
        return False
    at = len(opening)
    for tag, next_tag in pairwise(("think", *between, "answer")):
        seam = re.compile(rf"</{tag}>\s*<{next_tag}>").search(response, at)
        if seam is None:
            return False
        at = seam.end()
    return at <= len(response) - len(end)


def split_frame(response: str) -> tuple[int | None, str]:
    """Return (number of the frame in a leading `<frame>k</frame>` or None, the text after it).

    >>> split_frame("<frame>12</frame><think>…")
    (12, '<think>…')
    """
    match = FRAME.match(response[:MAX_TEXT])
    return (int(match[1]), response[match.end() :]) if match else (None, response)


class ResponseParts(NamedTuple):
    """The parts of a response, before its answer is read."""

    frame: int | None
    """Number of the frame that it names before or after its thought; None: it names none."""
    think: str
    text: str
    """The text after the thought and the frame."""


def take_apart(response: str) -> ResponseParts:
    """Split a response into the frame that it names, its thought, and the text after both.

    >>> take_apart("<think>the third</think><frame>3</frame>[]")
    ResponseParts(frame=3, think='the third', text='[]')
    """
    parts = parts_of(response)
    frame, text = split_frame(parts.after)
    if frame is None:  # it may stand before a thought; the latest counts
        earlier_frames = (split_frame(turn)[0] for turn in reversed(parts.before))
        frame = next((number for number in earlier_frames if number is not None), None)
    return ResponseParts(frame, split_thought(response)[0], text)


def several_answers(n_answers: int, which: Which) -> tuple[str, ...]:
    """Return a note that a response has several answers, and which one counts; () for one."""
    return (f"{n_answers} answers: the {which} counts",) if n_answers > 1 else ()


def frame_tag(frame: int | None) -> str:
    """Return the tag that `split_frame` reads, `<frame>k</frame>`; "" for None."""
    return "" if frame is None else f"<frame>{frame}</frame>"


def ask_for_frame(numbered: Sequence[int]) -> str:
    """Return the sentence that asks to name one of the `numbered` frames; "" without any."""
    listed, prefix = ", ".join(map(str, numbered)), text_of("harness.models", "numbered_frames.txt")
    return fill(prefix.strip(), Numbers=listed) + "\n" if numbered else ""


def loads(text: str, *, strict: bool) -> tuple[object, tuple[str, ...]]:
    """Return the value of JSON and notes on repairs; `strict`: without repairs, or ParseError."""
    if strict:
        return loads_strict(text), ()
    body = fenced(text)
    # Repairs are not made if a fence is open or nested, as it is unclear where the JSON ends.
    if body is None:
        return loads_lenient(text) if "```" not in text else (loads_strict(text), ())
    value, notes = loads_lenient(body) if "```" not in body else (loads_strict(body), ())
    return value, ("code fence", *notes)


def fenced(text: str) -> str | None:
    """Return the text inside the first ``` … ``` fence, without the word `json`; None: no fence.

    If there are several, fences before a correction ("no, it is …") do not count.
    """
    if text.count("```") > 2:
        text = after_correction(text)
    start = text.find("```")
    end = text.find("```", start + 3) if start >= 0 else -1
    return text[start + 3 : end].removeprefix("json").strip() if end >= 0 else None


def read_items(
    value: object, *, keys: Sequence[str], point: str | None = None, strict: bool = False
) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Read `[{"<one of keys>": [x1, y1, x2, y2], "<point>": [x, y]}, …]`; return items and notes.

    Unless `strict`, a single object is read as a list of one, and if `point` is None, four numbers
    are read as an object.

    One wrong object makes the whole response wrong, as in the official parsers: leaving it out
    would silently change a count. A box needs x1 < x2 and y1 < y2; corners are never swapped.
    `strict` is for rewards, which take any four numbers as a box.

    Raises:
        ParseError: `value` has another form; text, true, false and NaN are not numbers.
    """
    notes: tuple[str, ...] = ()
    if not strict:
        value, notes = as_objects(value, keys[0], point)
    if not isinstance(value, list):
        raise ParseError("answer", expected="a list of objects", found=_type_name(value))
    if len(value) > MAX_OBJECTS:
        notes = (*notes, f"only the first {MAX_OBJECTS} of {len(value)} objects are read")
    items = tuple(
        _item(entry, f"object {number}", keys=keys, point=point, strict=strict)
        for number, entry in enumerate(value[:MAX_OBJECTS], start=1)
    )
    return items, notes


def as_objects(value: object, key: str, point: str | None = None) -> tuple[object, tuple[str, ...]]:
    """Return one object, or boxes without keys, as a list of objects; any other value as it is.

    Also returned are notes of the repair. A box without a key gets `key`; it is read only if
    `point` is None, as an object then needs nothing but a box.
    """
    notes: tuple[str, ...] = ()
    # [x1, y1, x2, y2] itself, not a list of objects or boxes
    is_row = isinstance(value, list) and bool(value) and not isinstance(value[0], (list, Mapping))
    if (isinstance(value, Mapping) and value) or (is_row and point is None):
        value, notes = [value], ("one object without a list",)
    if isinstance(value, list) and point is None and any(isinstance(row, list) for row in value):
        value = [{key: row} if isinstance(row, list) else row for row in value]
        notes = notes or ("boxes without keys",)
    return value, notes


def read_box(value: object, what: str, *, strict: bool = False) -> Box:
    """Return the box of four numbers; `what` names it in errors.

    Raises:
        ParseError: it is not four finite numbers, or, unless `strict`, has no area.
    """
    box = Box(*finite_numbers(value, 4, what))
    if not strict and (box.right <= box.left or box.bottom <= box.top):
        raise ParseError(what, expected="x1 < x2 and y1 < y2", found=str(list(box)))
    return box


def _item(
    value: object, what: str, *, keys: Sequence[str], point: str | None, strict: bool
) -> Item:
    """Return one object of `read_items`; `what` names it in errors."""
    expected_keys = (" or ".join(keys), *([point] if point else []))
    fields = value if isinstance(value, Mapping) else {}
    key = next((key for key in keys if key in fields), None)
    if key is None or (point is not None and point not in fields):
        names = ", ".join(map(str, value))[:60] if isinstance(value, Mapping) else _type_name(value)
        raise ParseError(what, expected=" and ".join(expected_keys), found=names or "neither")
    box = read_box(fields[key], f"{what}: {key}", strict=strict)
    coordinates = None if point is None else finite_numbers(fields[point], 2, f"{what}: {point}")
    spot = None if coordinates is None else Point(*coordinates)
    return Item(box, spot, label="" if strict else label_of(fields))


def label_of(fields: Mapping[str, object]) -> str:
    """Return all texts of an object's JSON fields, also in lists and maps: any may be its name.

    >>> label_of({"bbox_2d": [1, 2, 3, 4], "names": {"zh": "狗", "en": "dog"}, "label": "animal"})
    'animal 狗 dog'
    """
    keys = sorted(fields, key=lambda key: key not in LABELS)
    texts = (text for key in keys for text in _texts_of(fields[key]))
    return " ".join(text for text in texts if len(text) <= MAX_LABEL)


def _texts_of(value: object) -> list[str]:
    """Return the texts of a value: itself, or those in a list or a mapping."""
    rows = value.values() if isinstance(value, Mapping) else value
    listed = [rows] if isinstance(rows, str) or not isinstance(rows, Iterable) else rows
    return [text for text in listed if isinstance(text, str)]


def _type_name(value: object) -> str:
    """Return the type and the beginning of a value, for errors."""
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]}"
