"""A digital twin as one self-contained HTML page without scripts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.leaderboards.images import data_uri
from harness.leaderboards.render.markup import Markup, element, join, page, table
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

    Args:
        title: Its heading.
        data: The twin's JSON.
        images: The drawn frames by number.
        plan: Dependencies of each node.
        nodes: SPEC of the node behind each name.
        text: The JSON as a language model is shown it.
    """
    texts = {
        "title": title,
        "summary": _summary(data),
        "frames": join(*(_figure(index, image, data) for index, image in images.items())),
        "plan": _plan(plan, nodes, data.get("errors", {})),
        "instances": _instances(data["instances"]),
        "json": element("pre", None, json.dumps(data, indent=1, ensure_ascii=False)),
        "text": element("pre", None, text),
    }
    return page("twins.html", ("page.css", "twins.css"), texts)


def _summary(data: Mapping[str, Any]) -> str:
    video = data["video"]
    size = f"{video['type']} of {video['width']} × {video['height']} pixels"
    length = f", {video['frames']} frames, {video['seconds']} s" if "frames" in video else ""
    count = len(data["instances"])
    said = f". {video['description']}" if video.get("description") else ""
    return f"{size}{length}; {count} instance{'' if count == 1 else 's'}{said}"


def _figure(index: int, image: Frame, data: Mapping[str, Any]) -> Markup:
    entry: Mapping[str, Any] = next((one for one in data["frames"] if one["frame"] == index), {})
    told = [f"frame {index}"]
    if "time" in entry and data["video"]["type"] == "video":
        told.append(f"{entry['time']} s")
    if "description" in entry:
        told.append(str(entry["description"]))
    caption = " · ".join(told)
    return element(
        "figure",
        None,
        element("img", {"src": data_uri(image), "alt": f"Instances of {caption}"}),
        element("figcaption", None, caption),
    )


def _plan(
    plan: Mapping[str, Sequence[str]], nodes: Mapping[str, str], errors: Mapping[str, str]
) -> Markup:
    rows = [
        (name, ", ".join(needed) or "pixels alone", nodes[name], errors.get(name, "done"))
        for name, needed in plan.items()
    ]
    return table(("node", "after", "computed by", "result"), rows, {"class": "wide"})


def _instances(instances: Sequence[Mapping[str, Any]]) -> Markup:
    names = ("id", "name", "mask", "box", "centroid", "area", "depth")
    rows = []
    for one in instances:
        seen = next((frame for frame in one["frames"] if frame["box"]), one["frames"][0])
        depth = seen.get("depth")
        rows.append(
            (
                str(one["id"]),
                str(one["name"]),
                str(one["mask"] or "none"),
                str(seen["box"] or "not seen"),
                str(seen.get("centroid") or ""),
                str(seen.get("area", "")),
                f"{depth['mean']} ± {depth['std']}" if depth else "",
            )
        )
    return table(names, rows, {"class": "wide"})
