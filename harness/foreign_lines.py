"""Commands that make lines of predictions of the lines and objects that other programs write.

An object is recognised by its form. The command of `jq` keeps the id that the program has, and what
the model wrote; whether that id is the benchmark's, only the user knows.
"""

import json
import re
from collections.abc import Collection
from itertools import compress, product
from shlex import quote, split

from harness.foreign import to_lines
from harness.foreign_forms import (
    FORMS,
    IDS,
    INDICES,
    LISTS,
    READ,
    TEXTS,
    TRUTHS,
    Plain,
    is_completion,
)

MAX_DEPTH = 8
"""Folders before a name that are looked at."""
MAX_NAMES = 1000
"""Names of a file that are looked at."""
NOT_NUMBERS = re.compile(rb"[\[:,]\s*-?(?:NaN|Infinity)\b")
LINES = "filter(str.strip, open(sys.argv[1]))"
NO_LINES = "Each line is an object: `jq -c .` writes one of several lines in a line."
CUT = (
    "It may have been cut while it was copied: copy the file again. `jq -c . FILE > NEW` writes an "
    "object of several lines in one."
)
UNBOX = (
    'with_entries(if .key != "box_scores" and (.value | type == "array" and length == 1 and '
    '(.[0] | type | . == "string" or . == "number" or . == "boolean")) '
    "then .value |= .[0] else . end)"
)
"""jq's program that makes a value of each list of one, except scores."""

LABELME = (
    '[.[] | (.imagePath | split("/") | last | split("\\\\") | last) as $image '
    "| {image_id: $image, width: .imageWidth, height: .imageHeight} as $about | .shapes[] "
    "| (.points | map(.[0])) as $x | (.points | map(.[1])) as $y "
    '| if .shape_type == "rectangle" then {bbox: [($x | min), ($y | min), ($x | max) - ($x | min), '
    '($y | max) - ($y | min)]} elif .shape_type == "polygon" then {segmentation: [.points | '
    'flatten]} else error("a shape that is not a polygon") end + $about + {category_id: .label}]'
)
"""jq's program for annotations of labelme, an object an image, read with `-s`."""
OF_LABELME = f"`jq -s {quote(LABELME)} *.json > NEW`"
JQ = re.compile(r"`jq -c (.*?) > NEW`", re.DOTALL)
"""A command of jq, by which the program and the name of the file are told."""
OWN_LINES = "docs/predictions.md says what a line holds; logs of other programs need --format."


def command(program: str, name: str) -> str:
    """Return what to type to make lines of the file `name`, by a program of jq."""
    return f"`jq -c {quote(program)} {quote(name)} > NEW`"


def rewrite(key: str, program: str, name: str) -> str:
    """Return what to type to change the value under a key where a line has one."""
    # Not `|=`, which jq 1.6 evaluates wrongly for a program that may fail, as on another value.
    return command(f"if .{key} then .{key} = (.{key} | (({program})? // .)) else . end", name)


def failed_where(condition: str, name: str) -> str:
    """Return what to type to make failures of the lines whose "answer" meets a condition of jq."""
    program = f'if has("answer") and (.answer | {condition}) then {{id, response: null}} else . end'
    return command(program, name)


def number_of_option(start: str, letters: str, name: str) -> str:
    """Return what to type to make letters of whole numbers; `start` stands before the first one."""
    letter = f'"{start}{letters}"[$n:$n + 1]'
    program = f"tonumber as $n | if $n >= 0 and $n == ($n | floor) then {letter} else . end"
    return rewrite("answer", program, name)


def of_line(line: bytes, name: str) -> str:
    """Return how to make lines of JSON of file `name`, which has a line that is not JSON."""
    if line.lstrip().startswith(b"{'"):
        conversion = to_lines(f"map(ast.literal_eval, {LINES})", name, "ast")
        return f"It looks like Python's text of a dict: {conversion} makes JSON of it."
    if NOT_NUMBERS.search(line):
        read = "json.loads(line, parse_constant=lambda name: None)"
        conversion = to_lines(f"({read} for line in {LINES})", name)
        return (
            "Python's json.dumps writes it unless `allow_nan=False` is given. A failed sample has "
            f'null as its "response": {conversion} writes null.'
        )
    if line.startswith(b'{"') and line.rstrip()[-1:] != b"}":
        return CUT
    if line.lstrip()[:1] in (b"{", b"["):
        return "" if line.rstrip()[-1:] == b"}" else NO_LINES
    mark = max(b";", b"\t", b",", key=line.count)
    if mark not in line:
        return NO_LINES
    given = "\\t" if mark == b"\t" else mark.decode()
    table = f'csv.DictReader(open(sys.argv[1], encoding="utf-8-sig"), delimiter="{given}")'
    return f"Each line is an object: {to_lines(table, name, 'csv')} makes them of a table."


def renamed(names: Collection[str], known: Collection[str]) -> str | None:
    """Return jq's program that makes known ids of the most names, if there is one.

    Names of files have a suffix, folders before them, and zeros before a number.

    >>> renamed(["val/000000200000.jpg"], {"200000"})
    'sub("^([^/]*/){1}"; "") | sub("[.][A-Za-z0-9]+$"; "") | sub("^0+(?=.)"; "")'
    """
    names = list(names)[:MAX_NAMES]
    depth = max((name.count("/") for name in names), default=0)
    best, program = sum(name in known for name in names), None
    for folders, *others in product(range(min(depth, MAX_DEPTH) + 1), (False, True), (False, True)):
        patterns = (rf"^([^/]*/){{{folders}}}", "[.][A-Za-z0-9]+$", "^0+(?=.)")
        wanted = list(compress(patterns, (folders, *others)))
        ids = names
        for pattern in wanted:
            ids = [re.sub(pattern, "", name) for name in ids]
        if (count := sum(name in known for name in ids)) > best:
            best, program = count, " | ".join(f'sub("{pattern}"; "")' for pattern in wanted)
    return program


def _samples(task: str, data: str) -> str:
    """Return Python's text of a task's samples in their order."""
    return f"harness.load_task({json.dumps(task)}, data={json.dumps(data)}).samples()"


def print_ids(task: str, data: str) -> str:
    """Return what to type to print the ids of a task's samples in their order."""
    program = f"import harness; [print(sample.id) for sample in {_samples(task, data)}]"
    return f"`python -c {quote(program)}`"


def in_order(written: str, name: str) -> str:
    """Return what to type to give the file's lines the ids of a task's samples in their order.

    `written` are the keys, in brackets, of what the model wrote.
    """
    samples = _samples("TASK", "ROOT")
    row = f'{{"id": sample.id, "response": json.loads(line){written}}}'
    return to_lines(
        f"({row} for sample, line in zip({samples}, {LINES}, strict=True))", name, "harness"
    )


def by_number(task: str, data: str, name: str) -> str:
    """Return what to type to make ids of the numbers of a task's samples, from 0."""
    ids = f"[sample.id for sample in {_samples(task, data)}]"
    row = '{**row, "id": ids[int(row["id"])]}'
    return to_lines(
        f"({row} for ids in [{ids}] for row in map(json.loads, {LINES}))", name, "harness"
    )


def polygons(name: str) -> str:
    """Return what to type to make COCO's results of lines whose "masks" are polygons."""
    program = (
        "map(if .masks then {image_id: .id, category_id: 1, segmentation: (.masks | "
        'if (.[0] | type) == "number" then [.] else map(flatten) end)} '
        'elif .no_target then empty else error("a line without masks") end)'
    )
    return f"`jq -cs {quote(program)} {quote(name)} > NEW`"


def of_whole(plain: object, name: str, kinds: Collection[str] = ("response",)) -> str:
    """Return how to make lines of the file `name`, whose first value, over several lines, is
    `plain`; `kinds` are the keys of our own lines besides the id.

    >>> of_whole([{"question_id": 3, "text": "B"}], "a.json")[:66]
    "If question_id is the benchmark's id and text what the model wrote"
    >>> of_whole([{"id": "3", "response": "B"}], "a.json")
    "`jq -c '.[]' a.json > NEW` makes such lines."
    """
    first = plain[0] if isinstance(plain, list) and plain else plain
    if isinstance(first, dict) and isinstance(first.get("id"), str):
        unknown = {*first} - {"id", *kinds}
        fix = other_keys(first, unknown, name) if unknown else ""
    elif first is not plain and isinstance(first, dict) and (renaming := _renaming(first)):
        fix = f"If {renaming[1]}, {command(renaming[0], name)} makes such lines."
    else:
        fix = way_out(first, name)
    if first is plain:
        return fix or f"{command('.', name)} makes such lines."
    if command_in_fix := JQ.search(fix):
        program, _ = split(command_in_fix[1])
        return fix.replace(command_in_fix[0], command(f".[] | {program}", name))
    return f"{command('.[]', name)} makes such lines."


def way_out(plain: object, name: str) -> str:
    """Return how to make lines with an "id" of the JSON in file `name` that has another form."""
    if not isinstance(plain, dict):
        return OWN_LINES
    known = _known(plain, name)
    if type(plain.get("id")) is int and not known:
        return f"{command('.id |= tostring', name)} writes it as text."
    if {"shapes", "imagePath"} <= plain.keys():
        return f"--format coco reads what {OF_LABELME} makes of labelme's files, one an image."
    if isinstance(plain.get("id"), list) and len(plain["id"]) == 1:
        return f"Each value is in a list: {command(UNBOX, name)} makes such lines."
    if known:
        return known
    if renaming := _renaming(plain):
        program, condition = renaming
        return f"If {condition}, {command(program, name)} makes such lines."
    written = _written(plain)
    if written and "id" not in plain:
        return (
            f"If its lines are in the order of the samples of TASK below ROOT, and {written} is "
            f"""what the model wrote, {in_order(f'["{written}"]', name)} gives them the ids."""
        )
    if is_completion(plain):
        last = "" if isinstance(plain["completion"], str) else '[-1]["content"]'
        return (
            "It looks like TRL's completions, which training draws in an order of its own. If "
            "there is one for each sample of TASK below ROOT, in their order, "
            f"""{in_order(f'["completion"]{last}', name)} gives them the ids."""
        )
    key = next((key for key in plain if key in LISTS), None)
    listed = f"{command(f'.{key}[]', name)} makes a line of each entry. " if key else ""
    return f"{listed}{OWN_LINES}"


def _renaming(plain: Plain) -> tuple[str, str] | None:
    """Return jq's program that renames the keys of a line, and what must be so; None if unknown."""
    called = next((key for key in (*IDS, "id") if type(plain.get(key)) in (str, int)), None)
    if called is None or type(plain.get("id")) is str:
        return None
    name = f"(.{called} | tostring)"
    if written := _written(plain):
        condition = f"{called} is the benchmark's id and {written} what the model wrote"
        return _response(written, name), condition
    answers = {"count": "answer", **{kind: kind for kind in ("answer", "boxes", "points")}}
    kinds = [key for key in answers if key in plain]
    if len(kinds) != 1 or not set(TRUTHS).isdisjoint(plain):
        return None
    (kind,) = kinds
    condition = f"{called} is the benchmark's id and {kind} the answer"
    return f"{{id: {name}, {answers[kind]}: .{kind}}}", condition


def _written(plain: Plain) -> str | None:
    """Return the key of what a model wrote; None where no key is known for it."""
    texts = TEXTS if set(TRUTHS).isdisjoint(plain) else (*TEXTS, "answer")
    return next((key for key in texts if isinstance(plain.get(key), str)), None)


def _known(plain: Plain, name: str) -> str:
    """Return what makes lines of objects of a form that is recognised; "" for others."""
    if read := next((option for option, fits in READ.items() if fits(plain)), None):
        return f"--format {read} reads it."
    form = next((form for form in FORMS if form.fits(plain)), None)
    if form is None:
        return ""
    conversion = command(form.program, name)
    return f"It looks like {form.name}: if {form.condition}, {conversion} makes {form.lines}."


def other_keys(plain: Plain, unknown: Collection[str], name: str) -> str:
    """Return what to type where a line with an id has keys that a prediction does not have.

    Where one of them is what a model wrote, an "answer" beside it is the ground truth.
    """
    if known := _known(plain, name):
        return known
    if written := next((key for key in TEXTS if key in unknown), None):
        conversion = command(_response(written), name)
        return f"If {written} is what the model wrote, {conversion} makes such lines."
    truth = next((key for key in TRUTHS if key in unknown), None)
    if truth and "answer" in plain:
        conversion = command(_response("answer"), name)
        return f"If answer is what the model wrote, and {truth} the right one, {conversion}."
    if INDICES.issuperset(unknown):
        return f"Without the numbers of rows: {command(_without(unknown), name)}."
    return ""


def _response(written: str, name: str = ".id") -> str:
    """Return jq's program that makes a line of what a model wrote, and leaves lines without it."""
    return f'if has("{written}") then {{id: {name}, response: .{written}}} else . end'


def _without(keys: Collection[str]) -> str:
    listed = ", ".join(f'."{key}"' for key in sorted(keys))
    return f"del({listed})"
