"""Write a digital twin as one self-contained HTML page without scripts (`harness twin --html`)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.leaderboards.render.pages import fill
from harness.media import Frame


def render(
    title: str,
    data: Mapping[str, Any],
    *,
    images: Mapping[int, Frame],
    plan: Mapping[str, Sequence[str]],
    nodes: Mapping[str, str],
    text: str,
) -> str:
    """Return the page.

    Args:
        title: Title of the page.
        data: The twin's JSON, with boxes and centroids in pixels.
        images: Frames to show by their index, each (height, width, 3) of uint8.
        plan: For each node, the nodes that it depends on.
        nodes: SPEC of each node by its name.
        text: The twin as the language model reads it.
    """
    errors = data.get("errors", {})
    return fill(
        "twins.html",
        *("page.css", "twins.css"),
        title=title,
        summary=_summary(data),
        frames=[(_caption(index, data), image) for index, image in images.items()],
        plan=[
            (name, ", ".join(needed) or "pixels alone", nodes[name], errors.get(name, "done"))
            for name, needed in plan.items()
        ],
        instances=list(map(_instance, data["instances"])),
        json=json.dumps(data, indent=1, ensure_ascii=False),
        text=text,
    )


def _summary(data: Mapping[str, Any]) -> str:
    video = data["video"]
    size = f"{video['type']} of {video['width']} × {video['height']} pixels"
    length = f", {video['frames']} frames, {video['seconds']} s" if "frames" in video else ""
    count = len(data["instances"])
    description = f". {video['description']}" if video.get("description") else ""
    return f"{size}{length}; {count} instance{'' if count == 1 else 's'}{description}"


def _caption(index: int, data: Mapping[str, Any]) -> str:
    entries = {frame["frame"]: frame for frame in data["frames"]}
    entry: Mapping[str, Any] = entries.get(index, {})
    phrases = [f"frame {index}"]
    if "time" in entry and data["video"]["type"] == "video":
        phrases.append(f"{entry['time']} s")
    if "description" in entry:
        phrases.append(str(entry["description"]))
    return " · ".join(phrases)


def _instance(instance: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of an instance, by the first frame that shows it."""
    visible = [frame for frame in instance["frames"] if frame["box"]]
    frame = visible[0] if visible else instance["frames"][0]
    depth = frame.get("depth")
    return (
        str(instance["id"]),
        str(instance["name"]),
        str(instance["mask"] or "none"),
        str(frame["box"] or "not seen"),
        str(frame.get("centroid") or ""),
        str(frame.get("area", "")),
        f"{depth['mean']} ± {depth['std']}" if depth else "",
    )
