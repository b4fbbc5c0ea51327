"""Name the causes of different responses from the requests and settings of two runs."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.leaderboards.differences.changed import (
    PROMPT_TEXT,
    cut_alike,
    sent_settings,
    setting_text,
)
from harness.record import Run, differences
from harness.types import GenerationSettings, Prediction

CAUSES = (
    "images",
    "frames",
    "canvas",
    "prompt",
    "reasoning",
    "network",
    "template",
    "processor",
    "sampling",
    "limit",
    "retry",
    "backend",
)
"""Causes of another response, in the order in which they are named."""
BACKEND_SETTINGS: Mapping[str, str] = {
    "images": "images",
    "reasoning": "reasoning",
    "network": "checkpoint revision model_type weights adapter model config.json",
    "template": "chat_template.jinja chat_template.json tokenizer_config.json template "
    "enable_thinking reasoning_effort",
    "processor": "processor_config.json preprocessor_config.json video_preprocessor_config.json "
    "min_pixels max_pixels",
    "sampling": "temperature top_p top_k seed repetition_penalty generation_config.json",
}
"""Names of a backend's settings, by cause; all other settings belong to the cause `backend`."""
MODEL_SETTINGS: Mapping[str, str] = {
    "max_new_tokens": "limit",
    "retry": "retry",
    "prompt_text": "prompt",
    "system": "prompt",
    "frames": "frames",
    "resize": "canvas",
    "words_resize": "canvas",
}
"""Cause of each setting of a model."""
OTHER_MODEL = "another model"
"""Cause if the models have different names, and one of them asks no network."""
UNKNOWN = "unknown cause"
"""Cause if a run has neither a network nor requests on record."""
IMPLIED_BY_NETWORK = ("template", "processor", "backend")
"""Causes that another network implies; they are not named besides `network`."""


def setting_causes(a: Run, b: Run) -> dict[str, list[str]]:
    """Return the differences between the settings of two runs' models, as lines by cause."""
    old, new = (run.manifest["model"]["description"] for run in (a, b))
    chats = [_chat(old), _chat(new)]
    if not all(chats):
        names = [run.manifest["model"]["name"] for run in (a, b)]
        if names[0] != names[1] and not ("predictions" in old or "predictions" in new):
            return {OTHER_MODEL: [" → ".join(names)]}
        return {UNKNOWN: ["one of the two runs has only answers, without requests and responses"]}
    lines = by_cause(chats[0], chats[1])
    old, new = sent_settings(a, b)
    in_words = (key for key in old if key.startswith(f"{PROMPT_TEXT}."))
    of_model = {**MODEL_SETTINGS, **dict.fromkeys(in_words, "prompt")}
    pairs = [(cause, key, old.get(key), new.get(key)) for key, cause in of_model.items()]
    pairs.append(("sampling", "seed", a.manifest["seed"], b.manifest["seed"]))
    data = a.manifest["data"], b.manifest["data"]
    if data[0].get("ids") == data[1].get("ids"):
        images = (record.get("images") for record in data)
        pairs.append(("images", "content of the images", *images))
    for cause, name, before, after in pairs:
        if before != after:
            values = cut_alike(*(setting_text(name, value) for value in (before, after)))
            line = f"{name}: {' → '.join(values)}"
            lines.setdefault(cause, []).append(line)
    return {cause: lines[cause] for cause in CAUSES if cause in lines}


def by_cause(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the differences between the descriptions of two backends, as lines by cause."""
    lines: dict[str, list[str]] = {}
    for line in differences(old, new):
        keys = line.partition(":")[0].split(".")
        keys = [*keys, ".".join(keys[-2:])]  # a key may be the name of a file, which has a dot
        matching = [
            cause for cause, names in BACKEND_SETTINGS.items() if set(names.split()) & set(keys)
        ]
        cause = matching[0] if matching else "backend"
        lines.setdefault(cause, []).append(line)
    return lines


def _chat(described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the description of a model's backend, without its training; empty: it has none."""
    chat = described.get("chat")
    return {key: chat[key] for key in chat if key != "trained"} if isinstance(chat, Mapping) else {}


def causes_of(a: Prediction, b: Prediction, settings: Mapping[str, object]) -> str:
    """Return the causes of two different responses to one question, joined by ` + `.

    The causes are the differences of the two requests, and those differences of the settings that
    can affect these responses. The result is `chance` if nothing on record differs.
    """
    causes = set(_request_causes(a, b))
    has_requests = bool(a.calls and b.calls)
    per_request = {"frames", "canvas", "prompt"}
    causes |= {cause for cause in settings if not has_requests or cause not in per_request}
    is_cut = any(response.cut for response in (*a.parsed, *b.parsed)) or _begins_the_other(a, b)
    if not is_cut:
        causes -= {"limit"}
    if len(a.calls) == len(b.calls):
        causes -= {"retry"}
    if "frames" in causes and "prompt" not in settings:
        causes -= {"prompt"}  # the prompts differ only in the numbers of the frames
    if "network" in causes:
        causes -= set(IMPLIED_BY_NETWORK)
    if len(causes) > 1:
        causes -= {"backend"}  # it only changes rounding errors, which another cause outweighs
    ordered = [cause for cause in (*CAUSES, OTHER_MODEL, UNKNOWN) if cause in causes]
    return " + ".join(ordered) or "chance"


def _begins_the_other(a: Prediction, b: Prediction) -> bool:
    """Return True if a response is the beginning of the other run's, so one of them was cut off."""
    ours, theirs = ({call.key: call.response for call in prediction.calls} for prediction in (a, b))
    pairs = [(ours[key] or "", theirs[key] or "") for key in ours.keys() & theirs.keys()]
    return any(x != y and (x.startswith(y) or y.startswith(x)) for x, y in pairs if x and y)


def _request_causes(a: Prediction, b: Prediction) -> Iterator[str]:
    """Yield a cause for each kind of difference between the requests with equal keys."""
    ours, theirs = ({call.key: call.request for call in prediction.calls} for prediction in (a, b))
    for key in ours.keys() & theirs.keys():
        of_a, of_b = ours[key], theirs[key]
        if (of_a.text, of_a.system, of_a.prefix) != (of_b.text, of_b.system, of_b.prefix):
            yield "prompt"
        shown_media = [
            [(s.medium, s.frames, s.times) for s in request.shown] for request in (of_a, of_b)
        ]
        if shown_media[0] != shown_media[1]:
            yield "frames"
        sizes = [[(s.resize, s.canvas) for s in request.shown] for request in (of_a, of_b)]
        if sizes[0] != sizes[1] and len(sizes[0]) == len(sizes[1]):
            yield "canvas"
        generation = [request.generation or GenerationSettings() for request in (of_a, of_b)]
        if generation[0].max_new_tokens != generation[1].max_new_tokens:
            yield "limit"
        if (of_a.temperature, generation[0].top_p) != (of_b.temperature, generation[1].top_p):
            yield "sampling"
