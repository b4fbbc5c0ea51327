"""Recognise other programs' JSON objects, and return jq programs that turn them into predictions.

A `Form` has a test for an object, a jq program and the condition under which it is right. Only
`harness.foreign_lines` asks here, to write the command into an error message.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

Plain: TypeAlias = Mapping[str, Any]
"""An object of JSON."""


class Form(NamedTuple):
    """A form of JSON object that one program writes, and its conversion to prediction lines."""

    name: str
    fits: Callable[[Plain], bool]
    program: str
    """jq program that turns one such object into prediction lines."""
    condition: str
    """Condition of a right conversion, as the message states it."""
    lines: str = "such lines"
    """Name of the converted lines in the message."""
    parts: int = 0
    """Number of parts of a video's length that its times count; 0: seconds."""


def _has(*path: str) -> Callable[[Plain], bool]:
    """Return a function that is True for an object with a value at a path of nested keys."""

    def fits(plain: object) -> bool:
        for key in path:
            if not isinstance(plain, Mapping) or key not in plain:
                return False
            plain = plain[key]
        return True

    return fits


def is_object(value: object) -> bool:
    """Return True for an object of JSON."""
    return isinstance(value, Mapping)


def is_completion(plain: Plain) -> bool:
    """Return True for a row of TRL's completion logs."""
    return {"prompt", "completion"} <= plain.keys()


def _has_indices(plain: Plain) -> bool:
    """Return True for ScienceQA's results: numbers of options by question, without outputs."""
    results = plain.get("results")
    return "outputs" not in plain and _are_all(results, lambda value: type(value) is int)


def _are_all(values: object, fits: Callable[[Any], bool]) -> bool:
    """Return True for an object that is not empty and whose values all fit."""
    return isinstance(values, Mapping) and bool(values) and all(map(fits, values.values()))


def _is_perception_test(plain: Plain) -> bool:
    """Return True for Perception Test's answers: a list of objects with `answer_id` by video."""
    lists = list(plain.values())
    return bool(lists) and all(
        isinstance(answers, list) and all(map(_has("answer_id"), answers)) for answers in lists
    )


def _has_spans(plain: Plain) -> bool:
    """Return True for dense captions: a list of objects with a "timestamp" by video."""
    lists = list(plain.values())
    return bool(lists) and all(
        isinstance(spans, list) and spans and all(map(_has("timestamp"), spans)) for spans in lists
    )


def _has_segments(value: object) -> bool:
    """Return True for the list of a video's predicted segments, each [start, end]."""
    return isinstance(value, list) and all(map(_has("segment"), value))


def _has_moments(plain: Plain) -> bool:
    """Return True for TimeChat's results: by id, an object whose "timestamp" lists pairs."""
    values = list(plain.values())
    return all(map(_has("timestamp"), values)) and any(map(_has_pair, values))


def _has_query_keys(plain: Plain) -> bool:
    """Return True for keys `video>>>query>>>span` whose values contain a pair of numbers."""
    return all(key.count(">>>") == 2 for key in plain) and any(map(_has_pair, plain.values()))


def _has_pair(value: object, depth: int = 4) -> bool:
    """Return True for a list of two numbers, or for one nested at most `depth` levels deep."""
    if isinstance(value, Mapping):
        value = list(value.values())
    inner = value if isinstance(value, list) and depth else ()
    return _are_numbers(value, 2) or any(_has_pair(item, depth - 1) for item in inner)


def _has_image_masks(plain: Plain) -> bool:
    """Return True for the run-lengths of the objects in one image."""
    masks = next((plain[key] for key in MASKS if key in plain), None)
    masks = masks if isinstance(masks, list) else [masks]
    return not {"id", "image_id"}.isdisjoint(plain) and all(map(_is_run_length, masks))


def _by_id(fits: Callable[[Any], bool]) -> Callable[[Plain], bool]:
    """Return a function that is True for an object with two or more values that all fit.

    Its keys must be ids: a key that usually names a column (`NAMES`) makes it a table's row.
    """

    def fits_all(plain: Plain) -> bool:
        names = {*plain, *(key.removesuffix("s") for key in plain)}
        is_row = any(PREDICTED.fullmatch(key) or TRUTH.fullmatch(key) for key in names)
        are_ids = len(plain) > 1 and NAMES.isdisjoint(plain) and not is_row
        return are_ids and all(map(fits, plain.values()))

    return fits_all


def _has_message(choices: object) -> bool:
    """Return True for the choices of a completion of chat messages."""
    return isinstance(choices, list) and bool(choices) and _has("message", "content")(choices[0])


def are_texts(value: object) -> bool:
    """Return True for a text, or a list of texts that is not empty."""
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(map(_is_text, listed))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _are_numbers(value: object, count: int) -> bool:
    """Return True for a list of `count` numbers."""
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def _is_place(value: object, count: int) -> bool:
    """Return True for a box or a point of `count` numbers, or a list of such."""
    if isinstance(value, Mapping):
        return len(value) == count and all(map(_is_number, value.values()))
    return _are_numbers(value, count) or (bool(value) and _are_lists(value, count))


def _are_lists(value: object, count: int) -> bool:
    """Return True for a list, possibly empty, of lists of `count` numbers."""
    return isinstance(value, list) and all(_are_numbers(item, count) for item in value)


def _is_run_length(value: object) -> bool:
    return isinstance(value, Mapping) and {"size", "counts"} <= value.keys()


IDS = ("question_id", "sample_id", "problem_id", "image_id", "video_id", "qid", "uid", "index")
"""Names that other programs' lines have for the id, the likeliest first."""
OTHER_IDS = re.compile(
    r"(?:question|qa?|sample|example|problem|item|data|request|custom|record)_?(?:u?id|idx|index|uuid)",
    re.IGNORECASE,
)
"""Further names of the id: `questionId`, `q_uid`."""
TEXTS = (
    "response",
    "prediction",
    "text",
    "output",
    "pred",
    "model_output",
    "predict",
    "model_prediction",
    "model_response",
    "raw_response",
    "raw_output",
)
"""Names that other programs' lines have for what the model wrote, the likeliest first; not
`answer`, which is the ground truth in most of them."""
BELOW = ("content", "actual_output", "output_text")
"""Further names of a model's text below objects."""
ASKED = re.compile(
    r"prompts?|inputs?|model_?input|questions?|vars|metadata|usage|docs?|options",
    re.IGNORECASE,
)
"""Names of what a model was given."""
NOT_WRITTEN = re.compile(
    ".*(?:reason|think|thought|judg|eval|grad|critique|feedback|expect|query|context|task|source"
    "|prompt|input|question|request|instruct|example|shot).*",
    re.IGNORECASE,
)
"""Names of objects whose texts are not a model's answer."""
MASKS = ("pred_masks", "prediction_masks")
"""Names of the run-lengths of an image's objects."""
PREDICTED = re.compile(
    r"pred(?:ict(?:ed|ions?)?)?|generat(?:ed|ions?)|completions|outputs|responses"
    r"|(?:pred(?:ict(?:ed|ion))?|model|m?llm|vlm|gpt[\w.-]*|assistant|generated|extracted|parsed)_"
    r"(?:answer|ans|response|output|text|prediction|pred|caption|option|choice|letter|label|class"
    r"|idx|index|count|number|num|value)s?",
    re.IGNORECASE,
)
"""Further names of what a model wrote or chose."""
COUNT = re.compile("_(?:count|number|num|value)s?", re.IGNORECASE)
"""Ends of names in `PREDICTED` that hold numbers, such as `pred_count`."""
TRUTH = re.compile(
    r"(?:.*_)?(?:gts?|ground_?truth|truth|gold)(?:_.*)?|target|references?|labels?"
    r"|(?:correct|true|right|real)_(?:answer|ans|option|choice|letter|class|value)s?|solution|y_true",
    re.IGNORECASE,
)
"""Names of a ground truth: beside one of them, `answer` holds what the model wrote."""
CHANCES = re.compile(
    r"(?:(?:option|choice|answer)_)?(?:probs?|probabilit(?:y|ies)|logits|scores)", re.IGNORECASE
)
"""Names of lists with a number for each option."""
BOUNDS = (("pred_start", "pred_end"), ("start", "end"))
"""Names of the fields of a predicted interval."""
UNIT = re.compile(r"(?:.*_)?units?(?:_.*)?", re.IGNORECASE)
"""Names of the unit of a number."""
PLACES: Mapping[str, tuple[tuple[str, ...], int, str]] = {
    "boxes": (
        ("pred_bbox", "pred_bboxes", "pred_box", "pred_boxes", "bbox", "bboxes", "box", "boxes"),
        4,
        "[left, top, right, bottom]",
    ),
    "points": (("pred_point", "pred_points", "point", "points"), 2, "[x, y]"),
}
"""For each key of our lines: other programs' keys for it, the count of numbers of one box or
point, and the order of these numbers."""
ORDER_KEYS = ("format", "bbox_format", "box_format", "bbox_mode")
"""Keys of the order of a line's box, `xyxy` or `xywh`."""
CORNERS = (
    'if $order == "xyxy" then . elif $order == "xywh" then [.[0], .[1], .[0] + .[2], .[1] + .[3]] '
    'else error("an order that is neither xyxy nor xywh") end'
)
"""jq program that makes corners of a box in the order `$order`."""
SCORE_KEYS = ("box_scores", "scores", "pred_scores", "confidences", "logits")
"""Keys of lists with a score for each box of the line."""
CLASS_KEYS = (
    "labels",
    "classes",
    "class_ids",
    "pred_classes",
    "pred_labels",
    "class_names",
    "names",
)
"""Keys of lists with a class for each box of the line."""
OF_COCO = frozenset({"category_id", "score", "segmentation"})
"""Keys that only COCO's results have, whose boxes are [left, top, width, height]."""
LISTS = frozenset(
    {"results", "details", "res_list", "result_list", "predictions", "responses", "logs"}
)
"""Keys under which a file's single object holds the list of its entries."""
NAMES = frozenset(
    {
        *IDS,
        *TEXTS,
        "gt_answer",
        "gt",
        "ground_truth",
        "label",
        *LISTS,
        "id",
        "answer",
        "question",
        "prompt",
    }
)
"""Keys that name columns; an object with one of them does not map ids to values."""
INDICES = frozenset({"", "Unnamed: 0", "index", "level_0"})
"""Names that pandas gives to the column of row numbers."""
READ: Mapping[str, Callable[[Plain], bool]] = {
    "lmms-eval": lambda row: "doc_id" in row and not {"resps", "filtered_resps"}.isdisjoint(row),
    "every-eval-ever": lambda row: {"sample_id", "evaluation_result_id"} <= row.keys(),
    "perception-test": _is_perception_test,
    "qvhighlights": _has("pred_relevant_windows"),
}
"""Tests for objects of the formats that harness reads itself, by the value of `--format`."""
KEYS_ARE_IDS = "its keys are the benchmark's ids"  # a part of conditions below
CHAT = ".choices[0].message.content"  # jq path of the text in a completion of chat messages
FORMS = (
    Form(
        "a batch's results of OpenAI's form",
        lambda plain: "custom_id" in plain and "response" in plain,
        "select(.response.status_code == 200) "
        f"| {{id: .custom_id, response: (.response.body | {CHAT} // ([.output[]? "
        '| .content[]? | .text // empty] | join("")))}',
        "custom_id is the benchmark's id",
    ),
    Form(
        "a batch's results of Anthropic's form",
        lambda plain: "custom_id" in plain and _has("result", "type")(plain),
        'select(.result.type == "succeeded") | {id: .custom_id, response: ([.result.message'
        '.content[] | select(.type == "text") | .text] | join(""))}',
        "custom_id is the benchmark's id",
    ),
    Form(
        "a batch's results of Gemini's form",
        lambda plain: "key" in plain and _has("response", "candidates")(plain),
        "{id: .key, response: ([.response.candidates[0].content.parts[]? | "
        'select(.thought | not) | .text // empty] | if . == [] then null else join("") end)}',
        "key is the benchmark's id",
    ),
    Form(
        "EvalScope's predictions",
        lambda plain: "index" in plain and _has("model_output", "choices")(plain),
        f'{{id: (.index | tostring), response: (.model_output{CHAT} | if type == "array" then '
        'map(.text? // "") | join("") else . end)}',
        "index, the row in what was evaluated, is the benchmark's id",
    ),
    Form(
        "EvalScope's reviews",
        lambda plain: "index" in plain and _has("sample_score", "score", "prediction")(plain),
        "{id: (.index | tostring), response: .sample_score.score.prediction}",
        "index, the row in what was evaluated, is the benchmark's id",
    ),
    Form(
        "EvalScope's earlier predictions",
        lambda plain: "index" in plain and _has_message(plain.get("choices")),
        f"{{id: (.index | tostring), response: {CHAT}}}",
        "index, the row in what was evaluated, is the benchmark's id",
    ),
    Form(
        "conversations",
        lambda plain: "id" in plain and isinstance(plain.get("messages"), list),
        '{id: (.id | tostring), response: (.messages[-1] | if .role == "user" or .role == "system" '
        'then error("a last message that is not the model\'s") else .content end)}',
        "the last message is the model's",
    ),
    Form(
        "conversations of LLaVA's form",
        lambda plain: "id" in plain and isinstance(plain.get("conversations"), list),
        '{id: (.id | tostring), response: (.conversations[-1] | if .from == "gpt" then .value else '
        'error("a last turn that is not the model\'s") end)}',
        "the last turn is the model's, and not the right answer",
    ),
    Form(
        "TRL's completions",
        lambda plain: "id" in plain and is_completion(plain),
        '{id: (.id | tostring), response: (.completion | if type == "array" then .[-1].content '
        "else . end)}",
        "id is the benchmark's id",
    ),
    Form(
        "run-lengths by image",
        _has_image_masks,
        "{id: (.id // .image_id | tostring)} + (.pred_masks // .prediction_masks "
        "| if . == null then {response: null} else {instances: "
        '(if type == "array" then map([.]) else [[.]] end)} end)',
        "id or image_id is the benchmark's id, and the answer is all masks together",
    ),
    Form(
        "OpenCompass' predictions",
        lambda predictions: (
            bool(predictions) and all(map(_has("origin_prompt"), predictions.values()))
        ),
        "to_entries[] | {id: .key, response: .value.prediction}",
        "its keys, the rows in what was evaluated, are the benchmark's ids",
    ),
    Form(
        "ScienceQA's outputs, as LLaVA writes them too",
        lambda plain: "results" in plain and _are_all(plain.get("outputs"), _is_text),
        ".outputs | to_entries[] | {id: .key, response: .value}",
        "the keys of outputs are the benchmark's ids",
    ),
    Form(
        "ScienceQA's results",
        _has_indices,
        ".results | to_entries[] | {id: .key} + if .value < 0 then {response: null} else "
        '{answer: "ABCDEFGHIJ"[.value:.value + 1]} end',
        "the keys of results are the benchmark's ids, and its numbers those of options from 0",
    ),
    Form(
        "PromptPG's results",
        lambda plain: _are_all(plain.get("results"), _has("output")),
        ".results | to_entries[] | {id: .key, response: .value.output}",
        "the keys of results are the benchmark's ids, and output is what the model wrote",
    ),
    Form(
        "LLaVA's evaluation of ScienceQA",
        lambda plain: (
            {*plain} == {"correct", "incorrect"}
            and any(map(_has("pred"), [*plain["correct"], *plain["incorrect"]]))
        ),
        "(.correct + .incorrect)[] | {id: (.question_id | tostring), response: .pred}",
        "question_id is the benchmark's id",
    ),
    Form(
        "NExT-QA's results",
        lambda plain: (
            all("_" in key for key in plain)
            and _are_all(plain, _has("answer"))
            and _are_all(plain, lambda value: type(value.get("prediction")) is int)
        ),
        "to_entries[] | {id: .key} + (.value.prediction | if . < 0 then {response: null} else "
        '{answer: "ABCDE"[.:. + 1]} end)',
        "its keys (video_qid) are the benchmark's ids, and prediction the number of an option "
        "from 0",
    ),
    Form(
        "moments by video, query and ground truth",
        _has_query_keys,
        'to_entries[] | (.key | split(">>>")) as $key | .value as $value '
        "| {vid: $key[0], query: $key[1], "
        'pred_relevant_windows: ([.value | .. | select(type == "array" and length == 2 and '
        'all(.[]; type == "number"))] | if . == [] and ([$value | .. | numbers] != []) then '
        'error("numbers that are not pairs") else . end)}',
        "its pairs are [start, end] in seconds, and the first of each counts",
        "lines that --format qvhighlights reads",
    ),
    Form(
        "moments by video",
        _has_spans,
        "to_entries[] | {id: .key, answer: .value[0].timestamp}",
        "its keys are the benchmark's ids, and the first moment counts",
    ),
    Form(
        "ActivityNet's results",
        lambda plain: _are_all(plain.get("results"), _has_segments),
        ".results | to_entries[] | {id: .key} + (.value | if . == [] then {response: null} "
        'elif length > 1 and any(.[]; .score | type != "number") then error("segments without a '
        'score") else {answer: (max_by(.score) | .segment)} end)',
        "its keys are the benchmark's ids, and the segment of the highest score counts, in seconds",
    ),
    Form(
        "moments by id",
        _has_moments,
        "to_entries[] | {id: .key, answer: .value.timestamp[0]}",
        "its keys are the benchmark's ids, and the first moment counts, in seconds",
    ),
    Form(
        "boxes of Kaggle",
        lambda plain: isinstance(plain.get("PredictionString"), str) and len(plain) == 2,
        '(keys - ["PredictionString"])[0] as $key | ([.PredictionString | splits("[ ]+") '
        '| select(. != "") | tonumber] | if length % 5 == 0 then [range(0; length; 5) as $n '
        '| .[$n:$n + 5]] else error("not five numbers for each box") end '
        '| if any(.[0] < 0 or .[0] > 1) then error("a confidence above 1") else . end) as $rows '
        "| {id: (.[$key] | tostring), "
        "boxes: ($rows | map([.[1], .[2], .[1] + .[3], .[2] + .[4]])), "
        "box_scores: ($rows | map(.[0]))}",
        "the other column is the benchmark's id, and a box is its confidence, left, top, width and "
        "height",
    ),
    Form(
        "VTimeLLM's log",
        lambda plain: "answer" in plain and _has("info", "sentence_id")(plain),
        '{id: "\\(.video_id)/\\(.info.sentence_id)", response: .answer}',
        "video_id/sentence_id is the benchmark's id, each is asked once (query_id), and its times "
        "are hundredths of the video",
        parts=100,
    ),
)
"""Forms of a line or an object, in order of precedence: the first one that fits counts."""
BY_ID = (
    Form(
        "texts by id",
        _by_id(lambda value: value is None or are_texts(value)),
        "to_entries[] | {id: .key, response: .value}",
        f"{KEYS_ARE_IDS}, and its texts what the model wrote, a list in several samples",
    ),
    Form(
        "numbers by id",
        _by_id(lambda value: value is None or _is_number(value) or _are_numbers(value, 2)),
        "to_entries[] | {id: .key} + if .value == null then {response: null} else "
        "{answer: .value} end",
        f"{KEYS_ARE_IDS}, and its numbers the answers, or pairs [start, end] in seconds",
    ),
    Form(
        "boxes by id",
        _by_id(lambda value: _are_lists(value, 4)),
        "to_entries[] | {id: .key, boxes: .value}",
        f"{KEYS_ARE_IDS}, and its lists boxes [left, top, right, bottom] in pixels",
    ),
    Form(
        "points by id",
        _by_id(lambda value: _are_lists(value, 2)),
        "to_entries[] | {id: .key, points: .value}",
        f"{KEYS_ARE_IDS}, and its lists points [x, y] in pixels",
    ),
    Form(
        "run-lengths by id",
        _by_id(_is_run_length),
        "to_entries[] | {id: .key, masks: [.value]}",
        f"{KEYS_ARE_IDS}, and each mask is that of one image",
    ),
    Form(
        "A-OKVQA's two answers by id",
        _by_id(lambda value: _has("direct_answer")(value) and _has("multiple_choice")(value)),
        "to_entries[] | {id: .key, response: .value.multiple_choice}",
        f"{KEYS_ARE_IDS}, and the questions have options (the direct answer is for those without)",
    ),
    Form(
        "lists of one object by id",
        _by_id(lambda value: isinstance(value, list) and len(value) == 1 and is_object(value[0])),
        'to_entries[] | if (.value | length) == 1 then .value[0] + {id: .key} else error("several '
        'objects of one id") end',
        KEYS_ARE_IDS,
    ),
    Form(
        "objects by id",
        _by_id(lambda value: isinstance(value, Mapping)),
        "to_entries[] | .value + {id: .key}",
        KEYS_ARE_IDS,
    ),
)
"""Forms of a file that is one object whose keys are ids; not tested on rows of a table."""


def id_keys(plain: Plain) -> list[str]:
    """Return the keys that may hold the id of a question, the likeliest first.

    >>> id_keys({"image_id": 1, "questionId": 2, "data_id": 3})
    ['questionId', 'image_id', 'data_id']
    """

    def rank(key: str) -> float:
        if key in IDS:
            return IDS.index(key)
        return 0.5 if key.lower().startswith("q") else len(IDS)  # 0.5: after `question_id`

    return sorted((key for key in plain if key in IDS or OTHER_IDS.fullmatch(key)), key=rank)


def truths_of(plain: Plain) -> list[str]:
    """Return the keys of a ground truth."""
    return [key for key in plain if TRUTH.fullmatch(key) and not PREDICTED.fullmatch(key)]


def text_key(plain: Plain) -> str | None:
    """Return the key that holds what the model wrote; None if no known key is there."""
    keys = [*TEXTS, *filter(PREDICTED.fullmatch, plain), *(["answer"] if truths_of(plain) else [])]
    texts = [key for key in keys if are_texts(plain.get(key))]
    return next((key for key in texts if not COUNT.search(key)), None)


def nested_text(plain: Plain, id_path: str = ".id") -> tuple[str, str] | None:
    """Return (jq program that makes lines of the only text below objects, its place); else None.

    It is under a usual name, and not the system's or the user's, nor reasoning. Of a list of
    messages the last counts.

    >>> nested_text({"id": "a", "message": {"role": "assistant", "content": "B"}})[1]
    'message.content'
    """
    paths = list(_texts_below(plain, ()))
    if len(paths) != 1:
        return None
    path = json.dumps(paths[0])
    text = (
        f"if (getpath({path}[:-1]) | objects | .role) as $role "
        '| $role == "user" or $role == "system" then error("a message that is not the model\'s") '
        f"else getpath({path}) end"
    )
    checked = f'({text}) | if type == "string" then . else error("a line without this text") end'
    return f"{{id: {id_path}, response: ({checked})}}", ".".join(map(str, paths[0]))


def _texts_below(plain: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of each text of a model."""
    if isinstance(plain, list) and plain:
        has_roles = all(isinstance(entry, Mapping) and "role" in entry for entry in plain)
        places = [-1] if has_roles else range(len(plain))
        for place in places:
            yield from _texts_below(plain[place], (*path, place))
        if all(isinstance(entry, str) for entry in plain) and len(plain) == 1 and path:
            yield (*path, 0)
    if not isinstance(plain, Mapping) or plain.get("role") in ("user", "system"):
        return
    for key, value in plain.items():
        is_predicted = PREDICTED.fullmatch(key) and not COUNT.search(key)
        is_written = key in (*TEXTS, *BELOW) or is_predicted
        if isinstance(value, str) and is_written:
            yield (*path, key)
        elif not isinstance(value, str) and not any(
            names.fullmatch(key) for names in (ASKED, TRUTH, NOT_WRITTEN)
        ):
            yield from _texts_below(value, (*path, key))


def of_chosen(plain: Plain, id_path: str) -> tuple[str, str] | None:
    """Return (jq program that makes lines of answers, its condition); None if there is no answer.

    An answer is a number, a pair of times or true for yes under a name of `PREDICTED`, the option
    with the largest number of a list (`CHANCES`), or a pair of fields in `BOUNDS`.

    >>> of_chosen({"id": "a", "pred_count": 3, "gt_count": 4}, ".id")
    ('{id: .id, answer: .pred_count}', 'pred_count is what the model predicted')
    """
    unit_key = next(filter(UNIT.fullmatch, plain), "")
    unit = f", in the unit that is asked ({unit_key} is left out)" if unit_key else ""
    for key in filter(PREDICTED.fullmatch, plain):
        if _is_number(plain[key]):
            return f"{{id: {id_path}, answer: .{key}}}", f"{key} is what the model predicted{unit}"
        if _are_numbers(plain[key], 2):
            return f"{{id: {id_path}, answer: .{key}}}", f"{key} is [start, end] in seconds"
        if COUNT.search(key) and isinstance(plain[key], str):
            number = f"(.{key} | tonumber? // .)"
            return f"{{id: {id_path}, answer: {number}}}", f"{key} is what the model predicted"
        if isinstance(plain[key], bool):
            says = 'if . == true then "yes" elif . == false then "no" else . end'
            condition = f"{key} is what the model predicted, true for yes"
            return f"{{id: {id_path}, answer: (.{key} | {says})}}", condition
    for key in filter(CHANCES.fullmatch, plain):
        value = plain[key]
        if isinstance(value, list) and len(value) > 1 and all(map(_is_number, value)):
            letter = 'index(max) as $n | "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[$n:$n + 1]'
            single = f"if arrays and (indices(max) | length) == 1 then {letter} else null end"
            condition = f"the largest number of {key} is that of the chosen option, the first A, "
            condition += "and two largest ones are no answer"
            return f"{{id: {id_path}, answer: (.{key} | {single})}}", condition
    for start, end in BOUNDS if "answer" not in plain else BOUNDS[:1]:
        if _is_number(plain.get(start)) and _is_number(plain.get(end)):
            span = f"(if .{start} == null then null else [.{start}, .{end}] end)"
            condition = f"{start} and {end} are what the model predicted, in seconds"
            return f"{{id: {id_path}, answer: {span}}}", condition
    return None


def of_places(plain: Plain, id_path: str) -> tuple[str, str] | None:
    """Return (jq program that makes lines of boxes or points, its condition); None without any.

    The order of a box's numbers is the one that its line states, if it does. `id_path` is the jq
    path of the id.

    >>> of_places({"id": "a", "pred_point": [3, 4]}, ".id")[1]
    'pred_point is what the model predicted, [x, y] in pixels of the original image'
    """
    for kind, (keys, count, order) in PLACES.items():
        key = next((key for key in keys if key in plain), "")
        value = plain.get(key)
        if not _is_place(value, count):
            continue
        if not OF_COCO.isdisjoint(plain):
            return None
        others = {name for name in plain if name != key and _is_place(plain[name], count)}
        others -= {*truths_of(plain)}
        instead = f" and not {' or '.join(sorted(others))}," if others else ""
        if isinstance(value, Mapping):
            program = f"{{id: {id_path}, {kind}: (.{key} | if . then [.] else . end)}}"
            return (
                program,
                f"{key} is what the model predicted,{instead} in pixels of the original image",
            )
        scores = _beside(plain, SCORE_KEYS, value)
        named = [
            key for key, names in plain.items() if isinstance(names, list) and are_texts(names)
        ]
        classes = _beside(plain, (*CLASS_KEYS, *named), value)
        stated = next((name for name in ORDER_KEYS if name in plain), "")
        places, order_as = 'if (.[0] | type) == "number" then [.] else . end', ""
        if kind == "boxes":
            order_as = f".{stated} as $order | " if stated else '(.format // "xyxy") as $order | '
            order = f"in the order that {stated} names," if stated else order
            places += f" | map({CORNERS})"
        kept = f", box_scores: .{scores}" if scores and kind == "boxes" else ""
        program = (
            f'if has("{key}") then {order_as}{{id: {id_path}, '
            f"{kind}: (.{key} | if . then ({places}) else . end){kept}}} else . end"
        )
        condition = (
            f"{key} is what the model predicted,{instead} {order} in pixels of the original image"
        )
        if classes:
            several = f'error("{key} of several {classes}: keep those that are asked")'
            is_several = f'(.{classes} | type == "array" and (unique | length) > 1)'
            program = f"if {is_several} then {several} else ({program}) end"
            condition += f", and all are of the class that is asked ({classes} is left out)"
        return program, condition
    return None


def _beside(plain: Plain, keys: Iterable[str], places: object) -> str:
    """Return the key of a list with a member for each place of a line; "" if there is none."""
    count = len(places) if isinstance(places, list) else 0
    values = {key: plain.get(key) for key in keys}
    fitting = [key for key, value in values.items() if isinstance(value, list)]
    return next((key for key in fitting if len(plain[key]) == count), "")
