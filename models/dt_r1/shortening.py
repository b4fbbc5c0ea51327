"""A twin as text within a budget of tokens, by a rule that the text states.

The steps, each taken only while the text is too long: (1) leave out frames in which an instance is
not seen, its references to features and its scores; (2) keep every second frame of the instances
and of the frame level, again and again, the first one always, until one is left; (3) leave out the
attributes of instances but for id, name, mask and frames, and descriptions and text of frames; (4)
keep as many instances as fit, the largest first by the area that they have in all frames; (5) where
none fits, leave out the frame level. What was left out is in `shortened`: counts of `[kept, of]`.
If even that is too long, the video level remains, then its numbers, then `{}`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
KEPT = ("id", "name", "mask", "frames")
FRAME_KEPT = ("frame", "time")


def shortened(data: Mapping[str, Any], count_tokens: Callable[[str], int], limit: int) -> str:
    """Return JSON of at most `limit` tokens; the JSON itself if it fits."""
    text = _dump(data)
    if count_tokens(text) <= limit:
        return text
    short: Json = json.loads(_dump(data))
    for instance in short["instances"]:
        instance.pop("feature", None)
        instance.pop("score", None)
        seen = [frame for frame in instance["frames"] if frame["box"] is not None]
        instance["frames"] = seen or instance["frames"][:1]
    of = (len(data["instances"]), len(data["frames"]))
    while count_tokens(_noted(short, of)) > limit and len(short["frames"]) > 1:
        short["frames"] = short["frames"][::2]
        kept = {frame["frame"] for frame in short["frames"]}
        for instance in short["instances"]:
            seen = [frame for frame in instance["frames"] if frame["frame"] in kept]
            instance["frames"] = seen or instance["frames"][:1]
    if count_tokens(_noted(short, of)) > limit:
        short["instances"] = [_only(instance, KEPT) for instance in short["instances"]]
        short["frames"] = [_only(frame, FRAME_KEPT) for frame in short["frames"]]
    if count_tokens(_noted(short, of)) > limit:
        fewer = _fewer_instances(short, of, count_tokens, limit)
        if not fewer["instances"]:
            fewer = _fewer_instances({**short, "frames": []}, of, count_tokens, limit)
        short = fewer
    plain = {name: value for name, value in data["video"].items() if not isinstance(value, str)}
    texts = (_noted(short, of), _dump({"video": data["video"]}), _dump({"video": plain}))
    return next((text for text in texts if count_tokens(text) <= limit), "{}")


def _fewer_instances(
    short: Json, of: tuple[int, int], count_tokens: Callable[[str], int], limit: int
) -> Json:
    """Keep the largest instances, as many as fit, in the order in which they were."""
    by_size = sorted(short["instances"], key=lambda instance: -_size(instance["frames"]))
    low, high = 0, len(by_size)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(_noted(_with(short, by_size[:middle]), of)) <= limit:
            low = middle
        else:
            high = middle - 1
    return _with(short, by_size[:low])


def _with(short: Json, instances: Sequence[Json]) -> Json:
    return {**short, "instances": sorted(instances, key=lambda instance: int(instance["id"]))}


def _noted(short: Json, of: tuple[int, int]) -> str:
    """The text, saying how many instances and frames of all it has."""
    note = {
        "instances": [len(short["instances"]), of[0]],
        "frames": [len(short["frames"]), of[1]],
    }
    return _dump({**short, "shortened": note})


def _size(frames: Sequence[Json]) -> float:
    total = 0.0
    for frame in frames:
        left, top, right, bottom = frame["box"] or (0, 0, 0, 0)
        total += frame.get("area", (right - left) * (bottom - top))
    return total


def _only(entry: Json, names: Sequence[str]) -> Json:
    return {name: value for name, value in entry.items() if name in names}


def _dump(value: Any) -> str:
    """JSON without spaces; `<` is escaped, so that text in an image is never a tag."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
