"""Tasks stream: memory and time of one pass over 1,000, 10,000 and 100,000 samples.

    python benchmarks/tasks.py --save

One task of each kind of file, made on the spot: questions in a table (Video-MME); an image and an
annotation file a sample (ReasonSeg); expressions on videos in two JSON files (MeViS); referents,
images and objects in COCO's files (gRefCOCO). Every measurement is a process of its own; memory is
the most that it ever held (VmHWM: Linux only). `pass`: its samples are read one after another.
`survey`: the pass before a run, which checks ids and hashes questions.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

RESULTS = Path(__file__).parent / "results" / "tasks.json"
SIZES = (1_000, 10_000, 100_000)
LINKS = 20_000  # hard links of one file; file systems allow no more than some ten thousands
VIDEOS = 100
PER_VIDEO, FRAMES, HEIGHT, WIDTH = 10, 8, 120, 160
PER_IMAGE = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=MADE, default=list(MADE))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, root, what = given.child
        print(json.dumps(measured(name, Path(root), what)))
        return
    found: dict[str, Any] = {
        "command": "python benchmarks/tasks.py --save",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "tasks": {},
    }
    if given.save and RESULTS.is_file():  # others keep what was measured before
        found["tasks"] = json.loads(RESULTS.read_text("utf-8"))["tasks"]
    for name in given.tasks:
        for size in given.sizes:
            with tempfile.TemporaryDirectory() as folder:
                MADE[name](Path(folder), size)
                for what in ("pass", "survey"):
                    one = child(name, folder, what)
                    found["tasks"].setdefault(name, {}).setdefault(what, {})[str(size)] = one
                    print(f"{name:16} {what:6} {size:7} samples: {one}", flush=True)
                    if given.save:
                        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def child(name: str, folder: str, what: str) -> dict[str, Any]:
    line = [sys.executable, __file__, "--child", name, folder, what]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    plain: dict[str, Any] = json.loads(done.stdout)
    return plain


def measured(name: str, root: Path, what: str) -> dict[str, Any]:
    """Seconds to open the task, to its first sample and through all, and the most memory.

    `cpu_s` is the process' own time, imports included, which other work on the machine leaves as
    it is.
    """
    from harness import plugins
    from harness.run.batching import select, survey

    begin = perf_counter()
    task = plugins.build("tasks", name, root)
    opened = perf_counter() - begin
    first, count = 0.0, 0
    if what == "survey":
        count = survey(task, select(task, None)).n_total
    else:
        for _ in task.samples():
            first = first or perf_counter() - begin
            count += 1
    return {
        "samples": count,
        "open_s": round(opened, 3),
        "first_sample_s": round(first, 3),
        "all_s": round(perf_counter() - begin, 2),
        "cpu_s": round(process_time(), 2),
        "peak_mib": peak(),
    }


def peak() -> float:
    """MiB; not ru_maxrss, in which a process begins with what its parent held."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def questions(root: Path, size: int) -> None:
    """Video-MME with so many questions on 100 videos of equal content."""
    import pyarrow as pa
    from pyarrow import parquet

    from harness.tasks.video_mme.writer import write
    from harness.world.shapes import make_world

    write(make_world(seed=11, size=3), root)
    place = root / "video_mme"
    table = place / "videomme" / "test-00000-of-00001.parquet"
    linked(next((place / "data").glob("*.mp4")), [place / "data" / f"{name}.mp4" for name in NAMES])
    (row, *_), schema = parquet.read_table(table).to_pylist(), parquet.read_schema(table)
    share = -(-size // VIDEOS)
    with parquet.ParquetWriter(table, schema) as writer:
        for start in range(0, size, 1000):
            rows = [
                {**row, "question_id": f"q{number}", "videoID": f"v{number // share}"}
                for number in range(start, min(start + 1000, size))
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


NAMES = tuple(f"v{number}" for number in range(VIDEOS))


def linked(first: Path, others: Iterable[Path]) -> None:
    """One file under further names."""
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(first, path)


def streamed(path: Path, before: str, after: str, parts: Iterable[str]) -> None:
    """Write JSON of many parts, none of which are kept."""
    with path.open("w", encoding="utf-8") as out:
        out.write(before)
        for number, part in enumerate(parts):
            out.write(f",{part}" if number else part)
        out.write(after)


def films(root: Path, size: int) -> None:
    """MeViS' valid_u with ten expressions a video and a track of masks for each."""
    import numpy as np
    from PIL import Image

    from harness.masks import Rle

    place = root / "mevis" / "valid_u"
    (place / "JPEGImages" / "v0").mkdir(parents=True)
    names = [f"{frame:05d}" for frame in range(FRAMES)]
    for name in names:
        path = place / "JPEGImages" / "v0" / f"{name}.jpg"
        Image.new("RGB", (WIDTH, HEIGHT), (40, 90, 140)).save(path)
    videos = -(-size // PER_VIDEO)
    for number in range(1, videos):  # links to folders: what is measured is the reading
        (place / "JPEGImages" / f"v{number}").symlink_to("v0")
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[30:80, 40:90] = True
    track = json.dumps([Rle.from_array(mask).to_json()] * FRAMES)

    def video(number: int) -> str:
        output = {
            str(k): {"exp": f"thing {k}", "obj_id": [k], "anno_id": [number * PER_VIDEO + k]}
            for k in range(PER_VIDEO)
        }
        entry = {"vid_id": number, "frames": names, "expressions": output}
        return f'"v{number}": {json.dumps(entry)}'

    streamed(place / "meta_expressions.json", '{"videos": {', "}}", map(video, range(videos)))
    tracks = (f'"{number}": {track}' for number in range(videos * PER_VIDEO))
    streamed(place / "mask_dict.json", "{", "}", tracks)


def referents(root: Path, size: int) -> None:
    """Validation split of gRefCOCO: five expressions an image, an object for each."""
    from PIL import Image

    place, images = root / "refer_seg" / "grefcoco", root / "refer_seg" / "images" / "train2014"
    place.mkdir(parents=True)
    images.mkdir(parents=True)
    Image.new("RGB", (WIDTH, HEIGHT), (40, 90, 140)).save(images / "x.jpg")

    def entry(number: int) -> dict[str, Any]:
        return {
            "ref_id": number,
            "ann_id": [number],
            "image_id": number // PER_IMAGE,
            "split": "val",
            "sentences": [{"sent_id": number, "sent": "it", "raw": "It", "tokens": []}],
        }

    def thing(number: int) -> dict[str, Any]:
        corners = [40, 30, 90, 30, 90, 80, 40, 80]
        return {
            "id": number,
            "image_id": number // PER_IMAGE,
            "category_id": 1,
            "iscrowd": 0,
            "bbox": [40, 30, 50, 50],
            "area": 2500,
            "segmentation": [corners],
        }

    def image(number: int) -> dict[str, Any]:
        return {"id": number, "file_name": "x.jpg", "width": WIDTH, "height": HEIGHT}

    def every(make: Callable[[int], Any], count: int) -> Iterator[str]:
        return (json.dumps(make(number)) for number in range(count))

    streamed(place / "grefs(unc).json", "[", "]", every(entry, size))
    with (place / "instances.json").open("w", encoding="utf-8") as out:
        for key, make, count in (
            ("images", image, -(-size // PER_IMAGE)),
            ("annotations", thing, size),
        ):
            out.write(("{" if key == "images" else ",") + f'"{key}": [')
            for number, part in enumerate(every(make, count)):
                out.write(f",{part}" if number else part)
            out.write("]")
        out.write(', "categories": [{"id": 1, "name": "thing"}]}')


def images(root: Path, size: int) -> None:
    """ReasonSeg's validation split with so many images of equal content."""
    from harness.tasks.reason_seg.writer import write
    from harness.world.shapes import make_world

    write(make_world(seed=11, size=1), root)
    (place,) = (root / "reason_seg").rglob("val")
    first = sorted(place.glob("*.jpg"))[0]
    files = {suffix: (place / f"{first.stem}{suffix}").read_bytes() for suffix in (".jpg", ".json")}
    for number in range(size - len(list(place.glob("*.jpg")))):
        for suffix, data in files.items():
            path = place / f"x{number:06}{suffix}"
            if number % LINKS:
                os.link(place / f"x{number // LINKS * LINKS:06}{suffix}", path)
            else:
                path.write_bytes(data)


MADE: Mapping[str, Callable[[Path, int], None]] = {
    "video_mme": questions,
    "reason_seg": images,
    "mevis": films,
    "grefcoco": referents,
}


if __name__ == "__main__":
    main()
