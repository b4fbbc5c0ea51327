"""`harness twin`: build the digital twins of tasks' images and videos in advance, and draw one.

A twin is the output of perception nodes on one medium by a plan (`harness.models.dt_r1`).
"""

import io
import json
import math
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from harness.cli.output import say, tell
from harness.cli.spec_arguments import require_minimum
from harness.cli.spec_arguments import tasks as requested_tasks
from harness.errors import MediaError, ParseError, StoreError, UsageError
from harness.files import read_text
from harness.frame_folder import SUFFIXES, frames_in
from harness.frames import uniform
from harness.leaderboards.render import twins as page
from harness.leaderboards.twin_view import MAX_FRAMES, draw_frame, stacked
from harness.media import Media, frame_files, open_image
from harness.models.dt_r1.catalog import default_plans
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.output_cache import OUTPUTS, OutputCache
from harness.models.dt_r1.phrases import phrases_of
from harness.models.dt_r1.plan import Plan, parse_plan
from harness.models.dt_r1.twin import Twin
from harness.run.batching import select
from harness.spec import parse
from harness.store.atomic import write_bytes, writing
from harness.types import Sample
from harness.video.media import video_file

TWIN_LIST = "twins.jsonl"
CHARACTERS_A_TOKEN = 4  # approximately: no tokenizer is loaded here


def build(arguments: Namespace) -> int:
    """Build the twins of all images and videos of tasks that the list in `--out` lacks."""
    out: Path = arguments.out
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        builder = _builder(arguments, OutputCache(folder=out / OUTPUTS))
    plans = _plans(arguments, builder)
    for plan in plans:
        builder.prepare(plan)
    done = {_key(row) for row in _rows(out / TWIN_LIST)}
    nodes = json.dumps(builder.describe(), sort_keys=True)
    n_by_state = {"built": 0, "there": 0, "with_errors": 0, "unreadable": 0}
    try:
        with writing(out), (out / TWIN_LIST).open("a", encoding="utf-8") as file:
            for task, sample in _samples(arguments):
                of_question = phrases_of(sample.query.text)
                for media in sample.query.media:
                    for plan in plans:
                        phrases = of_question if builder.by_question(plan) else ()
                        key = media.id, plan.text(), nodes, phrases
                        if key in done:
                            n_by_state["there"] += 1
                            continue
                        done.add(key)
                        try:
                            twin = builder.build(media, plan, phrases)
                        except MediaError as error:
                            n_by_state["unreadable"] += 1
                            if not arguments.json:
                                say(f"{task} {sample.query.id}: {error}")
                            continue
                        n_by_state["built"] += 1
                        if twin.faults:
                            n_by_state["with_errors"] += 1
                        row = _row(task, sample, media, plan, twin, nodes)
                        row |= {"phrases": phrases} if phrases else {}
                        file.write(json.dumps(row) + "\n")
                        file.flush()
    finally:
        builder.close()
    tell(
        arguments,
        {"out": str(out), **n_by_state, "outputs": builder.cache.counts},
        f"{out}: {n_by_state['built']} twins built, {n_by_state['there']} were there, "
        f"{n_by_state['with_errors']} with a node that failed, "
        f"{n_by_state['unreadable']} unreadable",
    )
    return 0


def show(arguments: Namespace) -> int:
    """Draw the twin of one image or video: an HTML page, and a PNG beside it."""
    builder = _builder(arguments, OutputCache())
    plan = _plans(arguments, builder)[-1]
    media = media_at(arguments.media)
    try:
        builder.prepare(plan if arguments.plan else None)
        twin = builder.build(media, plan, phrases_of(arguments.question))
    finally:
        builder.close()
    described = [int(frame["frame"]) for frame in twin.data["frames"]]
    images = {}
    for index in (described[position] for position in uniform(range(len(described)), MAX_FRAMES)):
        masks = {path: track[index] for path, track in twin.masks.items()}
        depth = twin.depth.maps.get(index) if twin.depth is not None else None
        images[index] = draw_frame(index, media.frame(index), twin.data, masks, depth)
    text = twin.text(lambda text: math.ceil(len(text) / CHARACTERS_A_TOKEN), arguments.tokens)
    html = page.render(
        f"Twin of {arguments.media.name}",
        twin.data,
        images=images,
        plan=plan.nodes,
        nodes=twin.nodes,
        text=text,
    )
    image = arguments.out.with_suffix(".png")
    encoded = io.BytesIO()
    Image.fromarray(stacked(list(images.values()))).save(encoded, format="PNG")
    for path, data in ((arguments.out, html.encode()), (image, encoded.getvalue())):
        with writing(path):
            write_bytes(path, data)
    tell(
        arguments,
        {"page": str(arguments.out), "image": str(image), "twin": twin.data},
        f"{arguments.out} and {image}: {len(twin.data['instances'])} instances",
        *(f"{name}: {fault.reason}" for name, fault in twin.faults.items()),
    )
    return 0


def media_at(path: Path) -> Media:
    """Open an image, a video or a folder of frames; raise MediaError if it is none of them."""
    if path.is_dir():
        return frame_files(frames_in(path))
    if path.suffix.lower() in SUFFIXES:
        return open_image(path)
    return video_file(path)


def _builder(arguments: Namespace, cache: OutputCache) -> TwinBuilder:
    require_minimum(arguments, 1, "frames")
    return TwinBuilder(
        parse(arguments.nodes), frames=arguments.frames, timeout=arguments.timeout, cache=cache
    )


def _plans(arguments: Namespace, builder: TwinBuilder) -> list[Plan]:
    """Return the plans of `--plan`, or the default ones; raise UsageError for an unreadable one."""
    if not arguments.plan:
        return [parse_plan(text, builder.catalog) for text in default_plans(builder.catalog)]
    plans = []
    for path in arguments.plan:
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--plan {path}", expected="a JSON file", found=str(error)) from error
        try:
            plans.append(parse_plan(text, builder.catalog))
        except ParseError as error:
            raise UsageError(f"--plan {path}: {error}") from error
    return plans


def _samples(arguments: Namespace) -> Iterator[tuple[str, Sample]]:
    for key, _, task in requested_tasks(arguments):
        for sample in select(task, arguments.subset).samples(task):
            yield key, sample


def _row(
    task: str, sample: Sample, media: Media, plan: Plan, twin: Twin, nodes: str
) -> dict[str, Any]:
    """Return the entry of a twin in the list; `again`: a server was missing, so build it again."""
    return {
        "task": task,
        "sample": sample.query.id,
        "media": media.id,
        "plan": plan.text(),
        "nodes": nodes,
        "instances": len(twin.data["instances"]),
        "fingerprint": twin.fingerprint,
        "errors": twin.data.get("errors", {}),
        "again": any(fault.infrastructure for fault in twin.faults.values()),
    }


def _key(row: dict[str, Any]) -> tuple[str, str, str, tuple[str, ...]]:
    """Return the medium's id, plan, nodes and phrases of a twin, which identify it in the list."""
    return row["media"], row["plan"], row["nodes"], tuple(row.get("phrases", ()))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a list of twins, and rewrite it without those that must be built again.

    These are a last line that was cut off, and twins for which a server was missing.

    Raises:
        StoreError: another line is damaged.
    """
    if not path.exists():
        return
    text, finished_lines = read_text(path), []
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        try:
            row = json.loads(line)
            _key(row)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}", expected="a line a twin", found=line[:60]) from error
        if not row.get("again"):
            finished_lines.append(line)
            yield row
    if "".join(finished_lines) != text:
        write_bytes(path, "".join(finished_lines).encode())
