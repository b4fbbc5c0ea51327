"""A description in the making, and the fields of a table by what their names say they hold."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.tasks.table.cells import is_empty, plain_value, without_marks
from harness.tasks.table.description import CHECK
from harness.tasks.table.nested import OPTIONS
from harness.tasks.table.rows import Record
from harness.tasks.table.unread_fields import ORDERS, SIZES_OF_IMAGES

NAMES: Mapping[str, str] = {
    "image": r"images?(_path|_file|_name)?|img(_path|_name|_file)?|image_\d+|picture|file_?name"
    r"|image_?id|img_id|bild(datei|er)?|imagen|图[片像]",
    "video": r"videos?(_path|_file|_name|_u?id)?|vid",
    "question": r"question(_?text)?|query|prompt|problem|instruction|caption|phrase|expression"
    r"|sentence|ref|text|frage|pregunta|问题|description",
    "options": OPTIONS,
    "answer": r"(own_)?answers?|(extra|other|all|alternative)_answers?|(ground_?)?truth"
    r"|gt(_(answer|index|idx|label|option|choice))?|gold(_(answer|index|idx|label))?|reply"
    r"|solution|target|label|correct([_ ]answer)?"
    r"|(correct|right|answer|correct_answer)_?(choice|option|index|idx|id|letter|key|label)"
    r"(_?(index|idx|letter))?"
    r"|count|bbox(es)?|box(es)?|bounding_?box(es)?|gt_?b?box(es)?|b?box_2d|box_coordinates|mask|masks"
    r"|mask_(path|file|image|name)"
    r"|segmentation|polygons?|encoded_?pixels|rle(_mask)?|timestamps?|interval|span"
    r"|relevant_windows|times|affordance|consensus|majority(_vote)?|antwort|respuesta|réponse|答案|anzahl",
    "clip start": r"((clip|video)_)?(start|begin|st)(ing)?(_?(times?|timestamp|secs?|seconds?))?",
    "clip end": r"((clip|video)_)?(end|stop|ed)(ing)?(_?(times?|timestamp|secs?|seconds?))?",
    "id": r"(question_?|sample_?|q_?)?u?id|index|idx",
    "category": r"(l2-)?category|task(_type)?|type|question_type|subset|topic|dataset",
}
"""Names of fields by what they hold, in the order of preference."""

BOOKKEEPING = re.compile(
    r"(?:.*[_ ])?(?:ids?|u?uid|guid|index|idx|md5|sha\d*|hash|source|origin|licen[cs]e|author"
    r"|annotator|worker|dataset|version|key|split|subset|partition|fold|languages?|lang|date"
    r"|(?:created|updated)(?:_at)?|url|uri|width|height|fps|duration|n_?frames|category|domain"
    r"|topic|task|subject|skills?|tags?|ability|difficulty|level|grade|remarks?|comments?|notes?"
    r"|evidence|rationale|explanations?|reasoning|thoughts?|cot|evaluation|metric)"
    r"(?:[_ ](?:ids?|names?|types?|kinds?|index))?"
    r"|(?:question|answer|data|image|video|query|item|sample)?[_ ]?(?:type|kind)",
    re.IGNORECASE,
)
"""Names of fields that say where a record is from or of what kind it is, and not what is asked."""
ASKING = re.compile(
    r"(?:.*_)?(?:task|topic|subject|domain|category|key|skills?|notes?|level|ability)",
    re.IGNORECASE,
)
"""Names of `BOOKKEEPING` under which some files have a part of the question, as a sentence."""
OF_TRUTH = re.compile(
    r"(?:.*[_ ])?(?:label|class|object|target|gt|correct|answer|right|true|pred\w*)(?:[_ ].*)?",
    re.IGNORECASE,
)
"""Names of fields that may hold the ground truth although they end as those of `BOOKKEEPING`."""

PLAIN_WORDS = frozenset(
    "a x y n w h id text image images video box boxes mask masks point points time times number"
    " question answer options field form record records list part parts object objects name".split()
)
"""Words of doubts that name no field."""
INNERMOST = ("value", "text", "content", "path", "name", "file", "string")
"""Names of fields in an object that is named by what it holds."""


@dataclass
class Draft:
    """Keys and values of a description so far, and a doubt for each value that is a guess."""

    layout: str
    table: Path
    media: dict[str, object] = field(default_factory=dict)
    question: dict[str, object] = field(default_factory=dict)
    answer: dict[str, object] = field(default_factory=dict)
    scoring: dict[str, object] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    """Text that says what to check, by `section.key`."""
    columns: Sequence[str] = ()
    """The names of the table's fields."""
    of_layout: Collection[str] = ()
    """Names of the fields that are empty, or that the layout itself reads."""

    sentences: Collection[str] = ()
    """Names of the fields whose values are sentences, most of them different."""
    described: Collection[str] = ()
    """Names of the fields that a doubt calls the ground truth or a part of the question."""

    def doubt(self, key: str, text: str) -> None:
        """Add a doubt about a key behind those that it has."""
        self.doubts[key] = "; ".join(filter(None, (self.doubts.get(key), text)))

    def toml(self, name: str) -> str:
        """Return the description's text, with a comment beside each doubt."""
        lines = [f"name = {_plain(name)}"]
        if self.layout != "rows":
            lines.append(f"layout = {_plain(self.layout)}")
        unused = self._unused()
        doubtful = [
            name
            for name in unused
            if name not in self.of_layout
            and not (_is_bookkeeping(name) and not (name in self.sentences and _may_ask(name)))
        ]
        if others := [name for name in unused if name not in doubtful]:
            lines.append(_comment(f"not used: {', '.join(others)}"))
        if doubtful:
            doubt = f"part of the question{self._asking(doubtful[0])}, or of the ground truth?"
            lines.append(_comment(f"{CHECK}: not used: {', '.join(doubtful)}; {doubt}"))
        for section in ("media", "question", "answer", "scoring"):
            lines += ["", f"[{section}]"] if getattr(self, section) else []
            for key, value in getattr(self, section).items():
                checked = self.doubts.get(f"{section}.{key}", "")
                comment = checked and f"  {_comment(f'{CHECK}: {checked}')}"
                lines.append(f"{key} = {_plain(value)}{comment}")
        return "\n".join(lines) + "\n"

    def _asking(self, name: str) -> str:
        """Return how a question asks a further field; "" if the question's text is not known."""
        text = str(self.question.get("text", CHECK))
        if text == CHECK:
            return ""
        asked = text if "{" in text else f"{{{text}}}"
        pattern = _plain(f"{{{name}}}\n{asked}")
        return f" (text = {pattern} asks it)"

    def _unused(self) -> list[str]:
        """Return the fields that no value and no doubt of the description names."""
        sections = (self.media, self.question, self.answer)
        values = [value for section in sections for value in section.values()]
        all_names = ", ".join(map(str, self.columns))  # in a doubt that lists what there is
        doubts = "\n".join(doubt.replace(all_names, "") for doubt in self.doubts.values())
        said = set(re.findall(r"[\w.-]+", doubts)) - PLAIN_WORDS
        text = json.dumps(values, ensure_ascii=False)
        words = {*re.findall(r"[\w.-]+", text), *said}
        is_compared = self.answer.get("form") == "boxes"  # with the boxes and their images
        compared = (*ORDERS, *SIZES_OF_IMAGES) if is_compared else ()
        read = {"llava": "conversations", "messages": "messages"}.get(self.layout)
        columns = [str(name) for name in self.columns if name != read]
        plain = [n for n in columns if not n.startswith("_") and not {n, n.lower()} & {*compared}]
        odd = {n for n in plain if re.search(r"[^\w.-]", n) and _plain(n)[1:-1] in text}
        return [name for name in plain if name and name not in {*words, *odd, *self.described}]


def _comment(text: str) -> str:
    """Return a comment of TOML, which is one line, also of names with line breaks."""
    return "# " + re.sub(r"[\x00-\x1f\x7f]+", " ", text)


def _is_bookkeeping(name: str) -> bool:
    """Return True if a field's name says that it holds neither a question nor a ground truth."""
    last = _what_holds(name) if "." in name else name
    words = _in_words(last).strip("_")
    is_kind = re.fullmatch(r".*(?:type|kind|confidence|score)", words, re.IGNORECASE)
    return bool(BOOKKEEPING.fullmatch(words)) and bool(is_kind or not OF_TRUTH.fullmatch(words))


def _may_ask(name: str) -> bool:
    """Return True if a field with sentences may be a part of the question by its name."""
    return bool(ASKING.fullmatch(_in_words(_what_holds(name) if "." in name else name)))


def sentences_in(records: Sequence[Record]) -> list[str]:
    """Return the fields whose values are texts of three words and more, most of them different."""
    names = []
    for name in columns_of(records):
        texts = values_of(records, name)
        are_long = all(isinstance(text, str) and len(text.split()) > 2 for text in texts)
        if texts and are_long and len({*map(str, texts)}) > len(texts) / 2:
            names.append(name)
    return names


def named(records: Sequence[Record], what: str) -> list[str]:
    """Return the fields whose name is in `NAMES[what]` and that have a value, the best first."""
    names = [name for name in records[0] if any(not is_empty(row.get(name)) for row in records)]
    patterns = re.split(r"\|(?![^(]*\))", NAMES[what])
    parts = {name: _what_holds(name) if "." in name else name for name in names}
    spelled = {name: (name, part, _in_words(part)) for name, part in parts.items()}
    fitting = [
        name
        for pattern in patterns
        for name in names
        if any(re.fullmatch(pattern, text, re.I) for text in spelled[name])
    ]
    return list(dict.fromkeys(fitting))


def _in_words(name: str) -> str:
    """Return a name with `_` between its words: `correctAnswer`, `Ground truth`, `multi-choice`."""
    return re.sub(r"[\s-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).strip())


def _what_holds(name: str) -> str:
    """Return the part of a name with dots that says what the field holds.

    >>> _what_holds("meta.image.path"), _what_holds("meta.question")
    ('image', 'question')
    """
    parts = [part for part in name.split(".") if part]
    return next((part for part in reversed(parts) if part.lower() not in INNERMOST), "")


def values_of(records: Sequence[Record], name: str) -> list[object]:
    """Return the values of a field, without empty ones and marks around an answer."""
    values = [row[name] for row in records if not is_empty(row.get(name))]
    return [plain_value(without_marks(value)) for value in values]


def field_names(records: Sequence[Record]) -> str:
    """Return the names of all fields, for messages."""
    return ", ".join(columns_of(records))


def columns_of(records: Sequence[Record]) -> list[str]:
    """Return the names of the fields of all records, in their order."""
    return list(dict.fromkeys(name for row in records for name in row))


def _plain(value: object) -> str:
    """Return a value in TOML's syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{_plain(key)} = {_plain(item)}" for key, item in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
