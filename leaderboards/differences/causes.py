"""Causes of different responses: what two runs' requests and settings differ in, by sample."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.leaderboards.differences.changed import setting_text
from harness.record import Run, differences
from harness.types import GenerationSettings, Prediction

CAUSES = (
    *("images", "frames", "canvas", "prompt", "reasoning", "network", "template", "processor"),
    *("sampling", "limit", "retry", "backend"),
)
"""Causes of another response, in the order in which they are named."""
SETTINGS: Mapping[str, str] = {
    "images": "images",
    "reasoning": "reasoning",
    "network": "checkpoint revision model_type weights adapter model config.json",
    "template": "chat_template.jinja chat_template.json tokenizer_config.json template "
    "enable_thinking reasoning_effort",
    "processor": "processor_config.json preprocessor_config.json video_preprocessor_config.json "
    "min_pixels max_pixels",
    "sampling": "temperature top_p top_k seed repetition_penalty generation_config.json",
}
"""Settings of a network's backend by the cause that they are; all others are the backend's."""
OF_MODEL: Mapping[str, str] = {
    **{"max_new_tokens": "limit", "retry": "retry", "prompt_text": "prompt", "system": "prompt"},
    **{"frames": "frames", "resize": "canvas", "words_resize": "canvas"},
}
"""Causes by the setting of a model that they are."""
UNKNOWN = "unknown cause"
"""Cause of different responses where a run has no network and no requests on record."""
FOLLOWING = ("template", "processor", "backend")
"""Causes that come with another network, and are not named beside it."""


def setting_causes(a: Run, b: Run) -> dict[str, list[str]]:
    """Return what differs between the settings of two runs' networks, by cause; a line each."""
    old, new = (run.manifest["model"]["description"] for run in (a, b))
    chats = [_chat(old), _chat(new)]
    if not all(chats):
        return {
            UNKNOWN: [
                "one of the two runs has answers alone, without the requests that led to them"
            ]
        }
    lines = by_cause(chats[0], chats[1])
    pairs = [(cause, key, old.get(key), new.get(key)) for key, cause in OF_MODEL.items()]
    pairs.append(("sampling", "seed", a.manifest["seed"], b.manifest["seed"]))
    data = a.manifest["data"], b.manifest["data"]
    if data[0].get("ids") == data[1].get("ids"):
        images = (record.get("images") for record in data)
        pairs.append(("images", "content of the images", *images))
    for cause, name, before, after in pairs:
        if before != after:
            shown = (setting_text(name, value)[:60] for value in (before, after))
            line = f"{name}: {' → '.join(shown)}"
            lines.setdefault(cause, []).append(line)
    return {cause: lines[cause] for cause in CAUSES if cause in lines}


def by_cause(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what differs between the descriptions of two backends, by cause; a line each."""
    lines: dict[str, list[str]] = {}
    for line in differences(old, new):
        keys = line.partition(":")[0].split(".")
        keys = [*keys, ".".join(keys[-2:])]  # the name of a file has a dot
        matching = (known for known, names in SETTINGS.items() if set(names.split()) & set(keys))
        lines.setdefault(next(matching, "backend"), []).append(line)
    return lines


def _chat(described: Mapping[str, Any]) -> Mapping[str, Any]:
    chat = described.get("chat")
    return {key: chat[key] for key in chat if key != "trained"} if isinstance(chat, Mapping) else {}


def causes_of(a: Prediction, b: Prediction, settings: Mapping[str, object]) -> str:
    """Return the causes of two different responses to one question, joined by ` + `.

    Request by request what was shown and asked is compared; of the settings, those that can have
    decided these two responses. `chance` where nothing that is recorded differs.
    """
    causes = set(_request_causes(a, b))
    known = bool(a.calls and b.calls)
    per_request = {"frames", "canvas", "prompt"}
    causes |= {cause for cause in settings if not known or cause not in per_request}
    cut = any(response.cut for response in (*a.parsed, *b.parsed)) or _begins_the_other(a, b)
    if not cut:
        causes -= {"limit"}
    if len(a.calls) == len(b.calls):
        causes -= {"retry"}
    if "frames" in causes and "prompt" not in settings:
        causes -= {"prompt"}  # its words are the same, but for the numbers of the frames
    if "network" in causes:
        causes -= set(FOLLOWING)
    if len(causes) > 1:
        causes -= {"backend"}  # alone it changes last bits, beside another cause nothing more
    return " + ".join(cause for cause in (*CAUSES, UNKNOWN) if cause in causes) or "chance"


def _begins_the_other(a: Prediction, b: Prediction) -> bool:
    """Return True if a response begins the other run's: it was cut off, and asked again."""
    ours, theirs = ({call.key: call.response for call in prediction.calls} for prediction in (a, b))
    pairs = [(ours[key] or "", theirs[key] or "") for key in ours.keys() & theirs.keys()]
    return any(x != y and (x.startswith(y) or y.startswith(x)) for x, y in pairs if x and y)


def _request_causes(a: Prediction, b: Prediction) -> Iterator[str]:
    ours, theirs = ({call.key: call.request for call in prediction.calls} for prediction in (a, b))
    for key in ours.keys() & theirs.keys():
        left, right = ours[key], theirs[key]
        if (left.text, left.system, left.prefix) != (right.text, right.system, right.prefix):
            yield "prompt"
        shown = [
            [(s.medium, s.frames, s.times) for s in request.shown] for request in (left, right)
        ]
        if shown[0] != shown[1]:
            yield "frames"
        sizes = [[(s.resize, s.canvas) for s in request.shown] for request in (left, right)]
        if sizes[0] != sizes[1] and len(sizes[0]) == len(sizes[1]):
            yield "canvas"
        given = [request.generation or GenerationSettings() for request in (left, right)]
        if given[0].max_new_tokens != given[1].max_new_tokens:
            yield "limit"
        if (left.temperature, given[0].top_p) != (right.temperature, given[1].top_p):
            yield "sampling"
