"""Find the options of a table's questions: in columns, in lines of a text, or in the question.

Columns of options are numbered or lettered from the first on, whatever else their names are:
`A`, `B`; `option_a`; `choice1`; `candidate-0`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, TypeGuard

from harness.foreign import to_lines
from harness.tasks.table.cells import is_absent, plain_value
from harness.tasks.table.conventions import CONVENTIONS
from harness.tasks.table.nested import at_path, jq_path
from harness.tasks.table.rows import DELIMITERS, ROWS, per_record

SERIES = re.compile(r"(.*?)([_\- .]*)(\d{1,2}|[A-Za-z])")
"""Name of a column in three parts: the name, a separator, and a number or letter."""
NOT_OPTIONS = re.compile(
    r".*question|image|img|picture|video|vid|frame|query|prompt|hint|mask|box|bbox|point|id|index|"
    r"split|level|category|l|x|y|hop|turn|path|file|url|"
    r"(?:human|user)?[_ ]?(?:rater|annotator|worker|reviewer|expert|judge|coder|vote|rating)",
    re.IGNORECASE,
)
"""Names of numbered columns that hold something else than options."""
NAME = re.compile(
    r"[\[{(]|(?:option|choice|answer|candidate)(?:\W|_)*\w{0,2}\Z|\w{0,2}\Z", re.IGNORECASE
)
"""Beginning of an answer that names its option, or several, and is not its text."""
TEXTS_OF_OBJECTS = (
    *("text", "content", "value", "choice", "option", "candidate", "description", "name", "answer"),
    "label",
)
"""Keys of the text of an option that is an object, in the order of preference."""
OBJECT_TEXT = re.compile(r"(?P<list>.+)\.(?P<place>\d+)\.(?P<key>[^.]+)")
"""Field of the text of an option that is an object in a list."""
STARTS = ("0", "1", "a", "A")
MARK = re.compile(
    r"(?:^|(?<=[\s;,]))(?:\((?P<small>[a-z])\)|\(?(?P<large>[A-Z])(?:\)|[.:](?=\s)))", re.MULTILINE
)
"""A letter that begins an option in a text; a small one stands in brackets."""
LINE = re.compile(r"\s*\(?([A-Z])\s*[.):]\s*\S")
LINE_MARK = re.compile(r"\s*\(?[A-Z]\s*[.):]\s*")


def option_columns(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the columns that hold an option each, in their order; [] if there are none."""
    series: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        if (match := SERIES.fullmatch(name)) and not any(
            NOT_OPTIONS.fullmatch(part) for part in (match[1], re.split(r"[._\s-]", match[1])[-1])
        ):
            separated = bool(match[2]) or not match[1] or match[3].isdecimal() or match[3].isupper()
            if separated:
                series.setdefault((match[1], match[2]), {})[match[3]] = name
    for members in series.values():
        for first in STARTS:
            columns: list[str] = []
            while (place := _after(first, len(columns))) in members:
                columns.append(members[place])
            if len(columns) > 1 and _hold_texts(columns[:2], rows):
                return columns
    return []


def _after(first: str, steps: int) -> str:
    """Return the number or letter that comes `steps` after `first`."""
    return str(int(first) + steps) if first.isdecimal() else chr(ord(first) + steps)


def _hold_texts(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> bool:
    """Return True if every record has a text or a number in these columns."""
    cells = [plain_value(row.get(name)) for row in rows for name in columns]
    return not any(is_absent(cell) or isinstance(cell, (list, dict)) for cell in cells)


def are_lettered_lines(values: Sequence[object]) -> bool:
    """Return True if all values are texts of two or more lines that begin with A., B., …."""
    return bool(values) and all(
        isinstance(value, str) and letters_of_lines(value) >= 2 for value in values
    )


def letters_of_lines(text: str) -> int:
    """Return the number of lines of a text, if these begin with A., B., …; else 0."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) if are_lettered(lines) else 0


def are_lettered(options: Sequence[object]) -> bool:
    """Return True if options begin with A., B., … in this order."""
    letters = [match[1] if (match := LINE.match(str(text))) else "" for text in options]
    return letters == list(ascii_uppercase[: len(letters)])


def with_options(table: Path, name: str) -> str:
    """Return what to do about records whose list of options, the field `name`, is empty."""
    return kept(table, f'select(."{name}" | length > 0)')


def lack_answers(pairs: Iterable[tuple[object, Sequence[str]]]) -> bool:
    """Return True if no answer is, or is a part of, one of its question's options in any spelling.

    >>> lack_answers([("Two.", ["One.", "Three."])]), lack_answers([("two", ["One.", "Two."])])
    (True, False)
    """
    listed = list(pairs)
    if not all(isinstance(answer, str) and not NAME.match(answer.strip()) for answer, _ in listed):
        return False
    spelled = [(_bare(answer), list(map(_bare, options))) for answer, options in listed]
    return bool(spelled) and all(
        len(answer) > 1
        and options
        and not any(answer in text or text in answer for text in options)
        for answer, options in spelled
    )


def _bare(text: object) -> str:
    """Return the letters and digits of a text, the letters small."""
    return re.sub(r"[\W_]", "", str(text).casefold())


def objects_texts(name: str, lists: Sequence[Sequence[object]]) -> list[str]:
    """Return the fields of options that are objects, `choices.0.text` and so on; [] for others.

    >>> objects_texts("choices", [[{"id": 0, "choice": "a cat"}, {"id": 1, "choice": "a dog"}]])
    ['choices.0.choice', 'choices.1.choice']
    """
    entries = [entry for listed in lists for entry in listed]
    if not entries or not all(isinstance(entry, Mapping) for entry in entries):
        return []
    cells = {
        key: [entry.get(key) for entry in entries if isinstance(entry, Mapping)]
        for key in TEXTS_OF_OBJECTS
    }
    keys = [key for key, texts in cells.items() if all(isinstance(text, str) for text in texts)]
    keys.sort(key=lambda key: all(re.fullmatch(r"\d+|\w?", str(text)) for text in cells[key]))
    return [f"{name}.{place}.{key}" for key in keys[:1] for place in range(max(map(len, lists)))]


def by_keys(
    table: Path, options: Sequence[str], field: str, rows: Sequence[Mapping[str, object]]
) -> tuple[str, str]:
    """Return (convention, "") or ("", doubt) if answers name options, which are objects, by a key.

    Args:
        table: The table.
        options: The fields of the options' texts, as `objects_texts` returns them.
        field: The field of the answers.
        rows: The records.

    ("", "") is for options of other kinds, and for answers that are not the value of a key.
    """
    if not (path := OBJECT_TEXT.fullmatch(options[0])):
        return "", ""
    answers = [str(plain_value(row.get(field))).strip() for row in rows]
    lists: list[Any] = [plain_value(next(iter(at_path(row, path["list"])), [])) for row in rows]
    if not lists or not all(isinstance(entries, list) and entries for entries in lists):
        return "", ""
    for key in (key for key in lists[0][0] if key != path["key"]):
        names = [[str(entry.get(key)) for entry in entries] for entries in lists]
        if any(named.count(answer) != 1 for answer, named in zip(answers, names, strict=True)):
            continue
        pairs = list(zip(answers, names, strict=True))
        places = [named.index(answer) for answer, named in pairs]
        for convention in ("letter", "place", "place_from_1"):
            read = CONVENTIONS[convention]
            if [read(answer, named, ()) for answer, named in pairs] == places:
                return convention, ""
        program = (
            f"getpath({jq_path(field)}) as $key | setpath({jq_path(field)}; "
            f"first((getpath({jq_path(path['list'])})[] | select((.[{json.dumps(key)}] | tostring) "
            f"== ($key | tostring)) | .[{json.dumps(path['key'])}]), "
            'error("an answer of no option")))'
        )
        typed = per_record(table, program, "has its text") or "write its text"
        return "", f"answers are the {key!r} of an option, which is not its place: {typed}"
    return "", ""


def with_answer(table: Path, options: str | Sequence[str], answer: str) -> str:
    """Return what to do about wrong options, to which the right one has to be added.

    Its place goes round from record to record: the same letter would be right in all.
    """
    is_text = isinstance(options, str) and table.suffix.lower() in DELIMITERS
    if is_text or table.suffix.lower() not in ROWS:
        return "options lack the answer: write lists that have it"
    rows, modules = ROWS[table.suffix.lower()]
    names = [options] if isinstance(options, str) else [*options]
    wrong = f"row[{options!r}]" if isinstance(options, str) else f"[row[n] for n in {names!r}]"
    right = f"row[{answer!r}]"
    records = (
        f"({{**{{n: row[n] for n in row if n not in {[*names, answer]!r}}}, 'answer': {right}, "
        f"'options': wrong[:i % (len(wrong) + 1)] + [{right}] + wrong[i % (len(wrong) + 1):]}} "
        f"for i, row in enumerate({rows}) for wrong in [{wrong}])"
    )
    return (
        f"options lack the answer: {to_lines(records, table.name, *modules)}, named NEW.jsonl, "
        "puts it among them, at a place that goes round"
    )


def places_in_lists(records: Sequence[Mapping[str, object]], field: str) -> str:
    """Return a doubt if all numbers of a field may be places in a list of texts; "" without one."""
    numbers = [plain_value(record.get(field)) for record in records]
    if not all(map(_is_whole, numbers)):
        return ""
    for name in records[0]:
        lists = [plain_value(record.get(name)) for record in records]
        texts = [value for value in lists if _are_texts(value)]
        if len(texts) < len(records):
            continue
        pairs = [(int(str(number)), len(row)) for number, row in zip(numbers, texts, strict=True)]
        if all(number == length for number, length in pairs):
            continue  # they count the texts
        for written, first in (("place", 0), ("place_from_1", 1)):
            if all(first <= number < first + length for number, length in pairs):
                return (
                    f"are they places in {name!r}? options = {json.dumps(name)} in [question], "
                    f'form = "choice", written = "{written}" read them so'
                )
    return ""


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, str) for v in value)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, str)) and str(value).isdecimal()


def kept(table: Path, program: str) -> str:
    """Return what to do about records that a program of jq does not select."""
    return per_record(table, program, "keeps the others") or "make two tables"


def without_letters(texts: Iterable[object]) -> list[str]:
    """Return options without the letters that they begin with.

    >>> without_letters(["A. cat", "(B) dog"])
    ['cat', 'dog']
    """
    return [LINE_MARK.sub("", str(text)).strip() for text in texts if str(text).strip()]


def letters_in(question: str) -> int:
    r"""Return how many options a question's text has, by their letters from A on.

    >>> letters_in("Which?\nA. the cat\nB. the dog"), letters_in("(A) or (B)?"), letters_in("A.")
    (2, 2, 0)
    >>> letters_in("Which? (a) 0.1 (b) 0.2"), letters_in("a. the cat b. the dog")
    (2, 0)
    """
    count = 0
    for match in MARK.finditer(question):
        letter = match["large"] or match["small"].upper()
        count += letter == ascii_uppercase[min(count, 25)]
    return count if count > 1 else 0
