"""Causes of different responses: what two runs' requests and settings differ in, by sample."""

from collections.abc import Iterator, Mapping
from typing import Any

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
FOLLOWING = ("template", "processor", "backend")
"""Causes that come with another network, and are not named beside it."""


def setting_causes(a: Run, b: Run) -> dict[str, list[str]]:
    """Return what differs between the settings of two runs' networks, by cause; a line each."""
    found: dict[str, list[str]] = {}
    old, new = (run.manifest["model"]["description"] for run in (a, b))
    chats = [_chat(old), _chat(new)]
    if not all(chats):
        return {"not on record": ["one of the two records holds no network and no requests"]}
    for line in differences(chats[0], chats[1]):
        keys = line.partition(":")[0].split(".")
        keys = [*keys, ".".join(keys[-2:])]  # the name of a file has a dot
        cause = next((one for one in SETTINGS if set(SETTINGS[one].split()) & set(keys)), "backend")
        found.setdefault(cause, []).append(line)
    pairs = [(cause, key, old.get(key), new.get(key)) for key, cause in OF_MODEL.items()]
    pairs.append(("sampling", "seed", a.manifest["seed"], b.manifest["seed"]))
    data = a.manifest["data"], b.manifest["data"]
    if data[0].get("ids") == data[1].get("ids"):
        images = (one.get("images") for one in data)
        pairs.append(("images", "content of the images", *images))
    for cause, name, before, after in pairs:
        if before != after:
            line = f"{name}: {str(before)[:60]} → {str(after)[:60]}"
            found.setdefault(cause, []).append(line)
    return {cause: found[cause] for cause in CAUSES if cause in found}


def _chat(described: Mapping[str, Any]) -> Mapping[str, Any]:
    chat = described.get("chat")
    return {key: chat[key] for key in chat if key != "trained"} if isinstance(chat, Mapping) else {}


def causes_of(a: Prediction, b: Prediction, settings: Mapping[str, object]) -> str:
    """Return the causes of two different responses to one question, joined by ` + `.

    Request by request what was shown and asked is compared; of the settings, those that can have
    decided these two responses. `chance` where nothing that is recorded differs.
    """
    found = set(_request_causes(a, b))
    known = bool(a.calls and b.calls)
    per_request = {"frames", "canvas", "prompt"}
    found |= {one for one in settings if not known or one not in per_request}
    cut = any(one.cut for one in (*a.parsed, *b.parsed)) or _begins_the_other(a, b)
    if not cut:
        found -= {"limit"}
    if len(a.calls) == len(b.calls):
        found -= {"retry"}
    if "frames" in found and "prompt" not in settings:
        found -= {"prompt"}  # its words are the same, but for the numbers of the frames
    if "network" in found:
        found -= set(FOLLOWING)
    if len(found) > 1:
        found -= {"backend"}  # alone it changes last bits, beside another cause nothing more
    return " + ".join(one for one in (*CAUSES, "not on record") if one in found) or "chance"


def _begins_the_other(a: Prediction, b: Prediction) -> bool:
    """Return True if a response begins the other run's: it was cut off, and asked again."""
    ours, theirs = ({call.key: call.response for call in one.calls} for one in (a, b))
    pairs = [(ours[key] or "", theirs[key] or "") for key in ours.keys() & theirs.keys()]
    return any(x != y and (x.startswith(y) or y.startswith(x)) for x, y in pairs if x and y)


def _request_causes(a: Prediction, b: Prediction) -> Iterator[str]:
    ours, theirs = ({call.key: call.request for call in one.calls} for one in (a, b))
    for key in ours.keys() & theirs.keys():
        one, other = ours[key], theirs[key]
        if (one.text, one.system, one.prefix) != (other.text, other.system, other.prefix):
            yield "prompt"
        shown = [[(s.medium, s.frames, s.times) for s in each.shown] for each in (one, other)]
        if shown[0] != shown[1]:
            yield "frames"
        sizes = [[(s.resize, s.canvas) for s in each.shown] for each in (one, other)]
        if sizes[0] != sizes[1] and len(sizes[0]) == len(sizes[1]):
            yield "canvas"
        given = [each.generation or GenerationSettings() for each in (one, other)]
        if given[0].max_new_tokens != given[1].max_new_tokens:
            yield "limit"
        if (one.temperature, given[0].top_p) != (other.temperature, given[1].top_p):
            yield "sampling"
