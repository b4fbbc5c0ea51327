"""A digital twin as one self-contained HTML page without scripts."""

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
    """The whole page.

    `data` is the twin's JSON, `text` the same as a language model is shown it; `plan` has what each
    node depends on, and `nodes` the SPEC behind each name.
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
    said = f". {video['description']}" if video.get("description") else ""
    return f"{size}{length}; {count} instance{'' if count == 1 else 's'}{said}"


def _caption(index: int, data: Mapping[str, Any]) -> str:
    entry: Mapping[str, Any] = next(
        (frame for frame in data["frames"] if frame["frame"] == index), {}
    )
    parts = [f"frame {index}"]
    if "time" in entry and data["video"]["type"] == "video":
        parts.append(f"{entry['time']} s")
    if "description" in entry:
        parts.append(str(entry["description"]))
    return " · ".join(parts)


def _instance(instance: Mapping[str, Any]) -> tuple[str, ...]:
    seen = next((frame for frame in instance["frames"] if frame["box"]), instance["frames"][0])
    depth = seen.get("depth")
    return (
        str(instance["id"]),
        str(instance["name"]),
        str(instance["mask"] or "none"),
        str(seen["box"] or "not seen"),
        str(seen.get("centroid") or ""),
        str(seen.get("area", "")),
        f"{depth['mean']} ± {depth['std']}" if depth else "",
    )
