"""Forms of the lines and objects that other programs write, and jq's programs that read them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

Plain: TypeAlias = Mapping[str, Any]
"""An object of JSON."""


class Form(NamedTuple):
    """Objects of one program, and what makes lines of them."""

    name: str
    fits: Callable[[Plain], bool]
    program: str
    """jq's program for one object, which yields one object a line."""
    condition: str
    """Condition under which the lines mean what the objects do."""
    lines: str = "such lines"
    """Kind of lines that the program makes."""


def _has(*path: str) -> Callable[[Plain], bool]:
    """Return a function that is True for an object with something at a path of keys."""

    def fits(plain: object) -> bool:
        for key in path:
            if not isinstance(plain, Mapping) or key not in plain:
                return False
            plain = plain[key]
        return True

    return fits


def is_completion(plain: Plain) -> bool:
    """True for a row of TRL's logs of completions."""
    return {"prompt", "completion"} <= plain.keys()


def _is_perception_test(plain: Plain) -> bool:
    """True for Perception Test's answers: a list of `answer_id` by video."""
    lists = list(plain.values())
    return bool(lists) and all(
        isinstance(answers, list) and all(map(_has("answer_id"), answers)) for answers in lists
    )


def _has_spans(plain: Plain) -> bool:
    """True for lists of objects with a "timestamp" by video, as dense captions are written."""
    lists = list(plain.values())
    return bool(lists) and all(
        isinstance(spans, list) and spans and all(map(_has("timestamp"), spans)) for spans in lists
    )


def _has_moments(plain: Plain) -> bool:
    """True for objects with a "timestamp", a list of pairs, by id, as TimeChat's results are."""
    values = list(plain.values())
    return all(map(_has("timestamp"), values)) and any(map(_has_pair, values))


def _has_query_keys(plain: Plain) -> bool:
    """True for values by `video>>>query>>>span` that hold a pair of numbers somewhere."""
    return all(key.count(">>>") == 2 for key in plain) and any(map(_has_pair, plain.values()))


def _has_pair(value: object, depth: int = 4) -> bool:
    """Return True for a list of two numbers, or what holds one so many levels below."""
    if isinstance(value, Mapping):
        value = list(value.values())
    inner = value if isinstance(value, list) and depth else ()
    return _are_numbers(value, 2) or any(_has_pair(item, depth - 1) for item in inner)


def _has_image_masks(plain: Plain) -> bool:
    """True for the run-lengths of the objects in one image."""
    masks = next((plain[key] for key in MASKS if key in plain), None)
    masks = masks if isinstance(masks, list) else [masks]
    return not {"id", "image_id"}.isdisjoint(plain) and all(map(_is_run_length, masks))


def _by_id(fits: Callable[[Any], bool]) -> Callable[[Plain], bool]:
    """Return a function that is True for two or more values of a kind, none under the name of a
    column.
    """

    def fits_all(plain: Plain) -> bool:
        return len(plain) > 1 and NAMES.isdisjoint(plain) and all(map(fits, plain.values()))

    return fits_all


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _are_numbers(value: object, count: int) -> bool:
    """Return True for a list of so many numbers."""
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def _are_lists(value: object, count: int) -> bool:
    """Return True for a list of lists of so many numbers, which may be empty."""
    return isinstance(value, list) and all(_are_numbers(item, count) for item in value)


def _is_run_length(value: object) -> bool:
    return isinstance(value, Mapping) and {"size", "counts"} <= value.keys()


IDS = ("question_id", "sample_id", "problem_id", "image_id", "video_id", "qid", "uid")
TEXTS = ("response", "prediction", "text", "output", "pred", "model_output", "predict")
"""Names that other programs' lines have for the id and for what the model wrote; not `answer`,
which is the ground truth in most of them."""
MASKS = ("pred_masks", "prediction_masks")
TRUTHS = (
    "gt_answer",
    "gt_bbox",
    "gt",
    "ground_truth",
    "label",
    "labels",
    "target",
    "gold",
    "reference",
)
"""Names of the ground truth, beside which an `answer` is what the model wrote."""
LISTS = frozenset({"results", "res_list", "result_list", "predictions", "responses", "logs"})
"""Names of a list of entries in one object."""
NAMES = frozenset({*IDS, *TEXTS, *TRUTHS, *LISTS, "id", "answer", "question", "prompt"})
"""Keys that name columns, and no samples."""
INDICES = frozenset({"", "Unnamed: 0", "index", "level_0"})
"""Names that pandas gives to the numbers of a table's rows."""
READ: Mapping[str, Callable[[Plain], bool]] = {
    "lmms-eval": lambda row: "doc_id" in row and not {"resps", "filtered_resps"}.isdisjoint(row),
    "every-eval-ever": lambda row: {"sample_id", "evaluation_result_id"} <= row.keys(),
    "perception-test": _is_perception_test,
    "qvhighlights": _has("pred_relevant_windows"),
}
"""Objects that a value of `--format` reads."""
KEYS = "its keys are the benchmark's ids"
CHAT = ".choices[0].message.content"
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
        'select(.thought | not) | .text // empty] | join(""))}',
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
        "conversations",
        lambda plain: "id" in plain and isinstance(plain.get("messages"), list),
        "{id: (.id | tostring), response: .messages[-1].content}",
        "the last message is the model's",
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
        "{id: (.id // .image_id | tostring), instances: (.pred_masks // .prediction_masks | "
        'if type == "array" then map([.]) else [[.]] end)}',
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
        "moments by video, query and ground truth",
        _has_query_keys,
        'to_entries[] | (.key | split(">>>")) as $key | {vid: $key[0], query: $key[1], '
        'pred_relevant_windows: [.value | .. | select(type == "array" and length == 2 and '
        'all(.[]; type == "number"))]}',
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
        "moments by id",
        _has_moments,
        "to_entries[] | {id: .key, answer: .value.timestamp[0]}",
        "its keys are the benchmark's ids, and the first moment counts, in seconds",
    ),
    Form(
        "texts by id",
        _by_id(lambda value: value is None or isinstance(value, str)),
        "to_entries[] | {id: .key, response: .value}",
        f"{KEYS}, and its texts what the model wrote",
    ),
    Form(
        "numbers by id",
        _by_id(lambda value: value is None or _is_number(value)),
        "to_entries[] | {id: .key} + if .value == null then {response: null} else "
        "{answer: .value} end",
        f"{KEYS}, and its numbers the answers",
    ),
    Form(
        "pairs by id",
        _by_id(lambda value: _are_numbers(value, 2)),
        "to_entries[] | {id: .key, answer: .value}",
        f"{KEYS}, and its pairs [start, end] in seconds",
    ),
    Form(
        "boxes by id",
        _by_id(lambda value: _are_lists(value, 4)),
        "to_entries[] | {id: .key, boxes: .value}",
        f"{KEYS}, and its lists boxes in pixels",
    ),
    Form(
        "points by id",
        _by_id(lambda value: _are_lists(value, 2)),
        "to_entries[] | {id: .key, points: .value}",
        f"{KEYS}, and its lists points in pixels",
    ),
    Form(
        "run-lengths by id",
        _by_id(_is_run_length),
        "to_entries[] | {id: .key, masks: [.value]}",
        f"{KEYS}, and each mask is that of one image",
    ),
    Form(
        "objects by id",
        _by_id(lambda value: isinstance(value, Mapping)),
        "to_entries[] | .value + {id: .key}",
        KEYS,
    ),
)
"""Forms of objects that are recognised, the first that fits."""
