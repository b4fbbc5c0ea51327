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
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

RESULT = Path(__file__).parent / "results" / "tasks.json"
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
    found: dict[str, Any] = {}
    if given.save and RESULT.is_file():  # others keep what was measured before
        found = json.loads(RESULT.read_text("utf-8"))["tasks"]
    for name in given.tasks:
        for size in given.sizes:
            with tempfile.TemporaryDirectory() as folder:
                MADE[name](Path(folder), size)
                for what in ("pass", "survey"):
                    one = child(name, folder, what)
                    found.setdefault(name, {}).setdefault(what, {})[str(size)] = one
                    print(f"{name:16} {what:6} {size:7} samples: {one}", flush=True)
    if given.save:
        from steps import write  # a child's memory is of the task alone

        about = {"command": "python benchmarks/tasks.py --save", "cores": os.cpu_count()}
        write(RESULT, {**about, "tasks": found})


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
    from harness.run.batching import select
    from harness.run.survey import survey

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
    film = next((place / "data").glob("*.mp4"))
    for number in range(VIDEOS):
        os.link(film, place / "data" / f"v{number}.mp4")
    (row, *_), schema = parquet.read_table(table).to_pylist(), parquet.read_schema(table)
    share = -(-size // VIDEOS)
    rows = [
        {**row, "question_id": f"q{number}", "videoID": f"v{number // share}"}
        for number in range(size)
    ]
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), table, row_group_size=1000)


def films(root: Path, size: int) -> None:
    """Make MeViS' valid_u with ten expressions a video and a track of masks for each."""
    import numpy as np

    from harness.masks import Rle

    place = root / "mevis" / "valid_u"
    names = [f"{frame:05d}" for frame in range(FRAMES)]
    for name in names:
        picture(place / "JPEGImages" / "v0" / f"{name}.jpg")
    videos = -(-size // PER_VIDEO)
    for number in range(1, videos):  # links to folders: what is measured is the reading
        (place / "JPEGImages" / f"v{number}").symlink_to("v0")

    def video(number: int) -> dict[str, Any]:
        phrases = {
            k: {"exp": f"thing {k}", "obj_id": [k], "anno_id": [number * PER_VIDEO + k]}
            for k in range(PER_VIDEO)
        }
        return {"vid_id": number, "frames": names, "expressions": phrases}

    asked = {f"v{number}": video(number) for number in range(videos)}
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[30:80, 40:90] = True
    track = [Rle.from_array(mask).to_json()] * FRAMES
    plain(place / "meta_expressions.json", {"videos": asked})
    plain(place / "mask_dict.json", dict.fromkeys(range(videos * PER_VIDEO), track))


def picture(path: Path) -> None:
    """Write an image of one colour."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (WIDTH, HEIGHT), (40, 90, 140)).save(path)


def plain(path: Path, value: object) -> None:
    """Write JSON; that it is held in memory here counts in no child's peak."""
    path.write_text(json.dumps(value), encoding="utf-8")


def referents(root: Path, size: int) -> None:
    """Make the validation split of gRefCOCO: five expressions an image, an object for each."""
    place = root / "refer_seg" / "grefcoco"
    place.mkdir(parents=True)
    picture(root / "refer_seg" / "images" / "train2014" / "x.jpg")
    entries = [
        {
            "ref_id": number,
            "ann_id": [number],
            "image_id": number // PER_IMAGE,
            "split": "val",
            "sentences": [{"sent_id": number, "sent": "it", "raw": "It", "tokens": []}],
        }
        for number in range(size)
    ]
    things = [
        {
            "id": number,
            "image_id": number // PER_IMAGE,
            "category_id": 1,
            "iscrowd": 0,
            "bbox": [40, 30, 50, 50],
            "area": 2500,
            "segmentation": [[40, 30, 90, 30, 90, 80, 40, 80]],
        }
        for number in range(size)
    ]
    images = [
        {"id": number, "file_name": "x.jpg", "width": WIDTH, "height": HEIGHT}
        for number in range(-(-size // PER_IMAGE))
    ]
    parts = {"images": images, "annotations": things, "categories": [{"id": 1, "name": "thing"}]}
    plain(place / "grefs(unc).json", entries)
    plain(place / "instances.json", parts)


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
