"""Shorten a digital twin's JSON to a limit of tokens, for injection into a rollout.

These steps are taken in order while the text is too long:
(1) leave out the frames in which an instance is not visible, feature references and scores;
(2) keep every second frame (always the first), repeatedly, until one is left;
(3) keep only id, name, mask and frames of instances, and only number and time of frames;
(4) keep as many instances as fit, those with the largest area in all frames;
(5) if none fits, leave out the frame level.
The key `shortened` states `[kept, all]` for instances and frames. If the text is still too long,
the video level remains, then only its numbers, then `{}`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
INSTANCE_KEYS = ("id", "name", "mask", "frames")
"""Keys of an instance that step 3 keeps."""
FRAME_KEYS = ("frame", "time")
"""Keys of a frame that step 3 keeps."""


def shortened(data: Mapping[str, Any], count_tokens: Callable[[str], int], limit: int) -> str:
    """Return JSON of at most `limit` tokens; the JSON itself if it fits."""
    text = _dump(data)
    if count_tokens(text) <= limit:
        return text
    short: Json = json.loads(_dump(data))  # a copy; step 1
    for instance in short["instances"]:
        instance.pop("feature", None)
        instance.pop("score", None)
        visible = [frame for frame in instance["frames"] if frame["box"] is not None]
        instance["frames"] = visible or instance["frames"][:1]
    totals = (len(data["instances"]), len(data["frames"]))
    while count_tokens(_json_with_note(short, totals)) > limit and len(short["frames"]) > 1:
        short["frames"] = short["frames"][::2]  # step 2
        numbers = {frame["frame"] for frame in short["frames"]}
        for instance in short["instances"]:
            remaining = [frame for frame in instance["frames"] if frame["frame"] in numbers]
            instance["frames"] = remaining or instance["frames"][:1]
    if count_tokens(_json_with_note(short, totals)) > limit:
        # step 3
        short["instances"] = [
            _only_keys(instance, INSTANCE_KEYS) for instance in short["instances"]
        ]
        short["frames"] = [_only_keys(frame, FRAME_KEYS) for frame in short["frames"]]
    if count_tokens(_json_with_note(short, totals)) > limit:
        fewer = _fewer_instances(short, totals, count_tokens, limit)  # step 4
        if not fewer["instances"]:
            # step 5
            fewer = _fewer_instances({**short, "frames": []}, totals, count_tokens, limit)
        short = fewer
    numbers_only = {
        name: value for name, value in data["video"].items() if not isinstance(value, str)
    }
    candidates = (
        _json_with_note(short, totals),
        _dump({"video": data["video"]}),
        _dump({"video": numbers_only}),
    )
    return next((text for text in candidates if count_tokens(text) <= limit), "{}")


def _fewer_instances(
    short: Json, totals: tuple[int, int], count_tokens: Callable[[str], int], limit: int
) -> Json:
    """Keep the largest instances, as many as fit (by bisection), in their original order."""
    by_size = sorted(short["instances"], key=lambda instance: -_total_area(instance["frames"]))
    low, high = 0, len(by_size)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(_json_with_note(_with_instances(short, by_size[:middle]), totals)) <= limit:
            low = middle
        else:
            high = middle - 1
    return _with_instances(short, by_size[:low])


def _with_instances(short: Json, instances: Sequence[Json]) -> Json:
    """Return the twin with these instances only, ordered by id."""
    return {**short, "instances": sorted(instances, key=lambda instance: int(instance["id"]))}


def _json_with_note(short: Json, totals: tuple[int, int]) -> str:
    """Return JSON with the key `shortened`; `totals` counts all instances and all frames."""
    note = {
        "instances": [len(short["instances"]), totals[0]],
        "frames": [len(short["frames"]), totals[1]],
    }
    return _dump({**short, "shortened": note})


def _total_area(frames: Sequence[Json]) -> float:
    """Return the area (pixels) of an instance summed over frames; of its boxes without masks."""
    total = 0.0
    for frame in frames:
        left, top, right, bottom = frame["box"] or (0, 0, 0, 0)
        total += frame.get("area", (right - left) * (bottom - top))
    return total


def _only_keys(entry: Json, names: Sequence[str]) -> Json:
    """Return an entry with only the keys `names`."""
    return {name: value for name, value in entry.items() if name in names}


def _dump(value: Any) -> str:
    """Return JSON without spaces; `<` is escaped, so that text in an image cannot form a tag."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
