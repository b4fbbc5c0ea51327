"""Commands that convert other programs' JSON to our prediction lines, for error messages.

Readers of predictions call this module with a JSON value they cannot use and the file's name. It
recognises the form of the value and returns a `jq` command for the user, which keeps the id and
what the model wrote. Only the user knows whether that id is the benchmark's; the message asks.
"""

import json
import re
from collections.abc import Collection, Iterable
from itertools import compress, product
from shlex import quote, split

from harness import foreign_boxes
from harness.foreign import interpreter, new_name, to_lines
from harness.foreign_forms import (
    BY_ID,
    FORMS,
    INDICES,
    LISTS,
    NAMES,
    PREDICTED,
    READ,
    Form,
    Plain,
    id_keys,
    is_completion,
    is_object,
    nested_text,
    of_chosen,
    of_places,
    text_key,
    truths_of,
)

MAX_DEPTH = 8
"""Largest number of leading folders that `renamed` tries to remove from an id."""
MAX_NAMES = 1000
"""Largest number of a file's ids that `renamed` compares with the benchmark's."""
NOT_NUMBERS = re.compile(rb"[\[:,]\s*-?(?:NaN|Infinity)\b")
"""A value that Python's `json` writes and JSON does not have, as in `{"answer": NaN`."""
ONLY_NUMBERS = re.compile(rb"[-+\d.,;eE\s]+")
"""A line of numbers, as in MOTChallenge's files: not the header of a table."""
LINES = "filter(str.strip, open(sys.argv[1]))"
"""Python expression for the lines of a file that are not blank, in the commands below."""
NO_LINES_HINT = "Each line is an object: `jq -c .` writes one of several lines in a line."
CUT_HINT = (
    "It may be truncated: copy the file again. `jq -c . FILE > NEW` writes an "
    "object of several lines in one."
)
UNBOX = (
    'with_entries(if .key != "box_scores" and (.value | type == "array" and length == 1 and '
    '(.[0] | type | . == "string" or . == "number" or . == "boolean")) '
    "then .value |= .[0] else . end)"
)
"""jq program that replaces each list of one value by the value, except under "scores"."""

OWN_NAMES = (
    'def own_names(f): if (map(f) | unique | length) < length then error("two images of one name, '
    'in several folders") else . end; '
)
"""Function of jq that ends with an error if two members of a list have the same value of `f`."""
NAMED = (
    'def named($names): (if .label_id >= 0 then $names[.label_id].name else null end) // error("an '
    'object without a label of the list"); '
)
"""Function of jq for the name of one of Datumaro's objects, whose labels count from 0."""
LABELME = (
    f"{OWN_NAMES}"
    'own_names(.imagePath | split("/") | last | split("\\\\") | last) '
    '| [.[] | (.imagePath | split("/") | last | split("\\\\") | last) as $image '
    "| {image_id: $image, width: .imageWidth, height: .imageHeight} as $about | .shapes[] "
    "| (.points | map(.[0])) as $x | (.points | map(.[1])) as $y "
    '| if .shape_type == "rectangle" then {bbox: [($x | min), ($y | min), ($x | max) - ($x | min), '
    '($y | max) - ($y | min)]} elif .shape_type == "polygon" then {segmentation: [.points | '
    'flatten]} else error("a shape that is not a polygon") end + $about + {category_id: .label}]'
)
"""jq program for labelme's annotations, one object per image, read with `-s`."""
OF_LABELME = f"`jq -s {quote(LABELME)} *.json > NEW`"  # the command with this program
DATUMARO = (
    f'{OWN_NAMES}{NAMED}[.categories.label.labels as $names | .items | own_names(.id | split("/") '
    "| last)[] | (.image // .media).size as $size "
    '| ({image_id: (.id | split("/") | last)} + (if $size then {width: $size[1], height: $size[0]} '
    "else {} end)) as $about | .annotations[] | {category_id: named($names)} + $about "
    '+ (if .type == "bbox" then {bbox, attributes} elif .type == "polygon" then '
    '{segmentation: [.points]} elif .type == "mask" then {segmentation: .rle} else '
    'error("not a box, polygon or mask") end)]'
)
"""jq program for Datumaro's annotations, which CVAT exports too."""
JQ_COMMAND = re.compile(r"`jq -c (.*?) > NEW2?`", re.DOTALL)
"""A jq command of a message, "`jq -c '.[]' a.json > NEW`": the program and the file's name."""
MAKES = " makes such lines."  # after a command
OWN_KEYS = ("answer", "boxes", "points", "masks", "instances")
"""Keys of our own lines."""
BESIDE = frozenset(
    "score confidence conf correct is_correct prob logprob time latency model model_name".split()
)
"""Keys of facts about an answer, which a prediction line does not need."""
OWN_LINES_HINT = "docs/predictions.md says what a line holds; logs of other programs need --format."


def command(program: str, name: str) -> str:
    """Return the shell command that converts file `name` by a jq program."""
    return f"`jq -c {quote(program)} {quote(name)} > {new_name(name)}`"


def rewrite(key: str, program: str, name: str) -> str:
    """Return the command that changes the value under a key in all lines that have the key."""
    # Not `|=`, which jq 1.6 evaluates wrongly for a program that may fail, as on another value.
    return command(f"if .{key} then .{key} = (.{key} | (({program})? // .)) else . end", name)


def failed_where(condition: str, name: str) -> str:
    """Return the command that turns lines whose "answer" meets a jq condition into failures."""
    program = f'if has("answer") and (.answer | {condition}) then {{id, response: null}} else . end'
    return command(program, name)


def number_of_option(start: str, letters: str, name: str) -> str:
    """Return the command that turns option numbers into letters.

    `start` is "" if option 0 is A; one character stands for each unused number before A.
    """
    letter = f'"{start}{letters}"[$n:$n + 1]'
    program = f"tonumber as $n | if $n >= 0 and $n == ($n | floor) then {letter} else . end"
    return rewrite("answer", program, name)


def of_line(line: bytes, name: str) -> str:
    """Return how to convert file `name` to JSON lines, given a line of it that is not JSON."""
    if line.lstrip().startswith(b"{'"):
        conversion = to_lines(f"map(ast.literal_eval, {LINES})", name, "ast")
        return f"It looks like Python's text of a dict: {conversion} makes JSON of it."
    if NOT_NUMBERS.search(line):
        parser = "json.loads(line, parse_constant=lambda name: None)"
        conversion = to_lines(f"({parser} for line in {LINES})", name)
        return (
            "Python's json.dumps writes it unless `allow_nan=False` is given. A failed sample has "
            f'null as its "response": {conversion} writes null.'
        )
    if line.startswith(b'{"') and line.rstrip()[-1:] != b"}":
        return CUT_HINT
    if line.lstrip()[:1] in (b"{", b"["):
        return "" if line.rstrip()[-1:] == b"}" else NO_LINES_HINT
    if foreign_boxes.YOLO.match(line.decode("utf-8", "replace")):
        return of_boxes("*.txt")
    if ONLY_NUMBERS.fullmatch(line):
        return OWN_LINES_HINT
    mark = max(b";", b"\t", b",", key=line.count)  # the separator that the line has most often
    if mark not in line:
        return NO_LINES_HINT
    if b"EncodedPixels" in line:
        return _of_pairs(name)
    separator = "\\t" if mark == b"\t" else mark.decode()
    opened = f'(open(sys.argv[1], encoding="utf-8-sig"), delimiter="{separator}")'
    typed = f"{to_lines(f'csv.DictReader{opened}', name, 'csv')} makes them of a table."
    names = [
        cell.strip('" \r\n') for cell in line.decode("utf-8-sig", "replace").split(mark.decode())
    ]
    is_header = len(names) > 2 and all(map(str.isidentifier, names))
    if is_header or any(name.lower() in NAMES or PREDICTED.fullmatch(name) for name in names):
        return f"Each line is an object: {typed}"
    pairs = f'({{"id": row[0], "response": row[1]}} for row in csv.reader{opened} if row)'
    return (
        "Each line is an object: without a header, and if the first cells are the id and what the "
        f"model wrote, {to_lines(pairs, name, 'csv')} makes them; with one, {typed}"
    )


def _of_pairs(name: str) -> str:
    """Return how to convert Kaggle's run-lengths: pairs of start, from 1, and length."""
    module = "harness.formats.kaggle"
    rows = f"{module}.masks_of_pairs(sys.argv[1], {_samples('TASK', 'ROOT')})"
    return (
        "It looks like Kaggle's run-lengths: if ImageId, with or without its suffix, is the id of "
        "a sample of TASK below ROOT, and pixels are numbered down the columns, "
        f"{to_lines(rows, name, 'harness', module)} makes lines of masks. docs/predictions.md has "
        "`from_pairs`, for the other order too."
    )


def renamed(names: Collection[str], known_ids: Collection[str]) -> str | None:
    """Return the jq program that turns the most file names into known ids; None if none does.

    It may remove leading folders, a suffix, and zeros before a number, and keeps names apart.

    >>> renamed(["val/000000200000.jpg"], {"200000"})
    'sub("^([^/]*/){1}"; "") | sub("[.][A-Za-z0-9]+$"; "") | sub("^0+(?=.)"; "")'
    """
    names = list(names)[:MAX_NAMES]
    depth = min(MAX_DEPTH, max((name.count("/") for name in names), default=0))
    n_known, program = sum(name in known_ids for name in names), None
    for n_folders, suffix, zeros in product(range(depth + 1), (False, True), (False, True)):
        patterns = (rf"^([^/]*/){{{n_folders}}}", "[.][A-Za-z0-9]+$", "^0+(?=.)")
        removed = list(compress(patterns, (n_folders, suffix, zeros)))
        ids = names
        for pattern in removed:
            ids = [re.sub(pattern, "", name) for name in ids]
        if len({*ids}) < len({*names}):  # `v/0` and `w/0` are not both the sample `0`
            continue
        count = sum(name in known_ids for name in ids)
        if count > n_known:
            n_known, program = count, " | ".join(f'sub("{pattern}"; "")' for pattern in removed)
    return program


def _samples(task: str, data: str) -> str:
    """Return the Python expression for a task's samples in their order."""
    return f"harness.load_task({json.dumps(task)}, data={json.dumps(data)}).samples()"


def of_parts(parts: float, name: str) -> str:
    """Return the command that makes seconds of times that are parts of their video's length."""
    module = "harness.formats.video_parts"
    rows = f"{module}.in_seconds(sys.argv[1], {_samples('TASK', 'ROOT')}, {parts:g})"
    return to_lines(rows, name, "harness", module)


def print_ids(task: str, data: str) -> str:
    """Return the command that prints the ids of a task's samples in their order."""
    program = f"import harness; [print(sample.id) for sample in {_samples(task, data)}]"
    return f"`{interpreter()} -c {quote(program)}`"


def in_order(written: str, name: str, task: str = "TASK", data: str = "ROOT") -> str:
    """Return the command that gives a file's lines the ids of a task's samples in their order.

    `written` is the Python index of what the model wrote, as `["text"]`; "": of lines that lack
    nothing but the right id.
    """
    members = f'"response": json.loads(line){written}' if written else "**json.loads(line)"
    module = "harness.formats.line_order"
    samples = f"{module}.checked({_samples(task, data)}, sys.argv[1])"
    row = f'{{{members}, "id": sample.id}}'
    rows = f"({row} for sample, line in zip({samples}, {LINES}, strict=True))"
    return to_lines(rows, name, "harness", module)


def of_boxes(name: str, plain: object = None) -> str:
    """Return the command that makes lines of the boxes in a file of detections, as in `plain`.

    It is a command for each order of numbers that `plain` does not state.
    """
    module = "harness.foreign_boxes"
    orders = {"": ""}
    if foreign_boxes.lacks_order(plain):
        orders = {
            ', order="xyxy"': "if four numbers are left, top, right and bottom, ",
            ', order="xywh"': "if they are left, top, width and height, ",
        }
    commands = [
        condition + to_lines(f"{module}.lines(sys.argv[1:]{order})", name, module)
        for order, condition in orders.items()
    ]
    typed = "; ".join(commands)
    if "*" in name:  # a pattern for the shell
        typed = typed.replace(f"{quote(name)} > ", f"{name} > ")
    return (
        f"It has boxes of objects: {typed} makes lines of all boxes of an image, in the file's "
        "unit: `--coordinates normalized_1` states fractions, and normalized_1000 Gemini's box_2d. "
        "x and y beside a class are the middle, as Roboflow and YOLO write it."
    )


def renaming(
    unknown: Collection[str], known_ids: Collection[str], name: str, key: str = ".id"
) -> str:
    """Return the command that makes ids of the names in file `name`; "" if none does.

    `unknown` are the names that are not among `known_ids`, `key` is the jq path of a name.
    """
    if (program := renamed(unknown, known_ids)) is None:
        return ""
    conversion = command(f"{key} |= ({program})", name)
    return f"Without a file name's folders, suffix or zeros they are ids: {conversion}."


def if_in_order(task: str, data: str, name: str) -> str:
    """Return the command for a file with a line a sample whose ids are others."""
    of_task = f" of {task} below {data}" if task == "TASK" else ""
    conversion = f"{in_order('', name, task, data)} gives them the ids"
    return f"If its lines are in the order of the samples{of_task}, {conversion}."


def by_number(task: str, data: str, name: str) -> str:
    """Return the command that replaces sample numbers, from 0, by the ids of a task's samples."""
    ids = f"[sample.id for sample in {_samples(task, data)}]"
    row = '{**row, "id": dict(enumerate(ids))[int(row["id"])]}'
    return to_lines(
        f"({row} for ids in [{ids}] for row in map(json.loads, {LINES}))", name, "harness"
    )


def polygons(name: str) -> str:
    """Return the command that converts lines whose "masks" are polygons to COCO's results."""
    program = (
        "map(if .masks then {image_id: .id, category_id: 1, segmentation: (.masks | "
        'if (.[0] | type) == "number" then [.] '
        'elif (.[0][0] | type) == "number" and (.[0] | length) == 2 '
        "then [flatten] else map(flatten) end)} "
        'elif .no_target then empty else error("a line without masks") end)'
    )
    return f"`jq -cs {quote(program)} {quote(name)} > {new_name(name)}`"


def of_repeated(kind: str, name: str) -> str:
    """Return how to make one line of each id of file `name`, in which one is repeated."""
    kept = "{id: .[0].id, response: map(.response)}" if kind == "response" else ".[0]"
    typed = f"`jq -cs {quote(f'group_by(.id)[] | {kept}')} {quote(name)} > {new_name(name)}`"
    if kind == "response":
        return f"Several samples of a question are a list: {typed} makes one."
    return f"If the first line of each id counts, {typed} keeps it."


def of_whole(plain: object, name: str, kinds: Collection[str] = ("response",)) -> str:
    """Return how to convert file `name`, which is one JSON value over several lines.

    `plain` is that value; `kinds` are the keys that our own lines have besides the id.

    >>> of_whole([{"question_id": 3, "text": "B"}], "a.json")[:66]
    "If question_id is the benchmark's id and text what the model wrote"
    >>> of_whole([{"id": "3", "response": "B"}], "a.json")
    "`jq -c '.[]' a.json > NEW` makes such lines."
    """
    first = plain[0] if isinstance(plain, list) and plain else plain
    renaming = _renaming(first) if first is not plain and isinstance(first, dict) else None
    if isinstance(first, dict) and isinstance(first.get("id"), str):
        unknown = {*first} - {"id", *kinds}
        fix = other_keys(first, unknown, name) if unknown else ""
    elif renaming:
        program, condition = renaming
        fix = f"If {condition}, {command(program, name)} makes such lines."
    else:
        fix = way_out(first, name, is_row=first is not plain)
    if first is plain:
        return fix or f"{command('.', name)} makes such lines."
    if command_in_fix := JQ_COMMAND.search(fix):
        program, _ = split(command_in_fix[1])
        return fix.replace(command_in_fix[0], command(f".[] | {program}", name))
    return f"{command('.[]', name)} makes such lines."


def way_out(plain: object, name: str, *, is_row: bool = False) -> str:
    """Return how to convert `plain`, a JSON value of file `name`, to lines with an "id".

    `is_row`: the value is one of several in the file, and not all of it.
    """
    if not isinstance(plain, dict):
        return OWN_LINES_HINT
    known = _known(plain, name, FORMS if is_row else (*FORMS, *BY_ID))
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
    written = text_key(plain) or ("answer" if {*plain} == {"question", "answer"} else "")
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
    if foreign_boxes.has_boxes(plain):
        return of_boxes(name, plain)
    key = next((key for key in plain if key in LISTS), None)
    if key and isinstance(plain[key], dict) and all(map(is_object, plain[key].values())):
        return (
            f"If the keys of {key} are the benchmark's ids, "
            f"{command(f'.{key} | to_entries[] | .value + {{id: .key}}', name)} makes a line of "
            f"each. {OWN_LINES_HINT}"
        )
    if key:
        return f"{command(f'.{key}[]', name)} makes a line of each entry. {OWN_LINES_HINT}"
    if is_row and "id" not in plain and (id_key := next(iter(id_keys(plain)), "")):
        program = f"del(.{id_key}) + {{id: (.{id_key} | tostring)}}"
        return f"If {id_key} is the benchmark's id, {command(program, name)} names it so."
    if is_row and "id" not in plain:
        without = f"`tail -n +2 {quote(name)} > {new_name(name)}` leaves out a line about all."
        return f"{if_in_order('TASK', 'ROOT', name)} {without} {OWN_LINES_HINT}"
    return OWN_LINES_HINT


def _renaming(plain: Plain) -> tuple[str, str] | None:
    """Return the jq program that renames a line's keys, and its condition; None if unknown."""
    id_key = next(
        (key for key in (*id_keys(plain), "id") if type(plain.get(key)) in (str, int)), None
    )
    if id_key is None or type(plain.get("id")) is str:
        return None
    name, of_id = f"(.{id_key} | tostring)", f"{id_key} is the benchmark's id and"
    completion = "completion" if isinstance(plain.get("completion"), str) else ""
    if written := text_key(plain) or completion:
        instead = _instead(plain, written)
        return _response(written, name), f"{of_id} {written} what the model wrote{instead}"
    if nested := nested_text(plain, name):
        return nested[0], f"{of_id} {nested[1]} what the model wrote"
    if of_numbers := of_places(plain, name) or of_chosen(plain, name):
        return of_numbers[0], f"{of_id} {of_numbers[1]}"
    answers = {
        "count": "answer",
        "option": "answer",
        **{answer_key: answer_key for answer_key in ("answer", "boxes", "points")},
    }
    answer_keys = [key for key in answers if key in plain]
    if len(answer_keys) != 1 or truths_of(plain):
        return None
    (answer_key,) = answer_keys
    program = f"{{id: {name}, {answers[answer_key]}: .{answer_key}}}"
    return program, f"{of_id} {answer_key} the answer"


def _known(plain: Plain, name: str, forms: Iterable[Form] = FORMS) -> str:
    """Return how to convert an object of a recognised form to lines; "" for other objects."""
    if read := next((option for option, fits in READ.items() if fits(plain)), None):
        return f"--format {read} reads it."
    form = next((form for form in forms if form.fits(plain)), None)
    if form is None:
        return ""
    conversion, new = command(form.program, name), new_name(name)
    seconds = f", of which {of_parts(form.parts, new)} makes seconds" if form.parts else ""
    return (
        f"It looks like {form.name}: if {form.condition}, {conversion} makes {form.lines}{seconds}."
    )


def other_keys(plain: Plain, unknown: Collection[str], name: str) -> str:
    """Return the command for a line with an id and keys that a prediction does not have.

    If an unknown key holds what the model wrote, an "answer" beside it is the ground truth.
    """
    if known := _known(plain, name):
        return known
    texts = {key: value for key, value in plain.items() if key in unknown or key == "response"}
    written = text_key(texts)
    if written and written != "answer":
        is_written = f"is what the model wrote{_instead(texts, written)}"
        return f"If {written} {is_written}, {command(_response(written), name)}{MAKES}"
    if of_numbers := of_places(plain, ".id") or of_chosen(plain, ".id"):
        return f"If {of_numbers[1]}, {command(of_numbers[0], name)}{MAKES}"
    truths = truths_of(plain)
    if "answer" in plain and truths:
        conversion = command(_response("answer"), name)
        return f"If answer is what the model wrote, and {truths[0]} the right one, {conversion}."
    if foreign_boxes.has_boxes(plain):
        return of_boxes(name, plain)
    if INDICES.issuperset(unknown):
        return f"Without the numbers of rows: {command(_without(unknown), name)}."
    own_keys = [key for key in OWN_KEYS if key in plain]
    if BESIDE.issuperset(unknown) and own_keys:
        conversion = command(_without(unknown), name)
        return f"If {own_keys[0]} is what the model predicted, {conversion}{MAKES}"
    if nested := nested_text(plain):
        return f"If {nested[1]} is what the model wrote, {command(nested[0], name)}{MAKES}"
    typed = command('if has("KEY") then {id, response: .KEY} else error("no KEY") end', name)
    return f"If the model wrote what is under one key, {typed}, with that key for KEY,{MAKES}"


def _response(text_key: str, name: str = ".id") -> str:
    """Return the jq program that makes a prediction line, and skips objects without a response.

    `text_key` is the key of what the model wrote, `name` the jq path of the id.
    """
    return f'if has("{text_key}") then {{id: {name}, response: .{text_key}}} else . end'


def _instead(plain: Plain, written: str) -> str:
    """Return words on the next key that may hold what the model wrote; "" if there is none."""
    other = text_key({key: value for key, value in plain.items() if key != written})
    return f", and not {other}" if other else ""


def _without(keys: Collection[str]) -> str:
    key_list = ", ".join(f'."{key}"' for key in sorted(keys))
    return f"del({key_list})"
