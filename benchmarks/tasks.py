"""Tasks stream: memory and time of one pass over 1,000 and over 100,000 samples.

    python benchmarks/tasks.py --save

Two tasks, one of questions in a table (Video-MME) and one with a picture and an annotation file a
sample (ReasonSeg), made on the spot from one scene of the generated world. Every measurement is a
process of its own; memory is the most that it ever held (VmHWM: Linux only). `pass`: its samples
are read one after another. `survey`: the pass before a run, which checks ids and hashes questions.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

RESULTS = Path(__file__).parent / "results" / "tasks.json"
SIZES = (1_000, 100_000)
LINKS = 20_000  # hard links of one file; file systems allow no more than some ten thousands
VIDEOS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, root, what = given.child
        print(json.dumps(measured(name, Path(root), what)))
        return
    found: dict[str, Any] = {
        "command": "python benchmarks/tasks.py --save", "python": platform.python_version(),
        "cores": os.cpu_count(), "tasks": {},
    }  # fmt: skip
    for name, make in (("video_mme", questions), ("reason_seg", pictures)):
        for size in given.sizes:
            with tempfile.TemporaryDirectory() as folder:
                make(Path(folder), size)
                for what in ("pass", "survey"):
                    one = child(name, folder, what)
                    found["tasks"].setdefault(name, {}).setdefault(what, {})[str(size)] = one
                    print(f"{name:10} {what:6} {size:7} samples: {one}", flush=True)
    if given.save:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def child(name: str, folder: str, what: str) -> dict[str, Any]:
    line = [sys.executable, __file__, "--child", name, folder, what]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    plain: dict[str, Any] = json.loads(done.stdout)
    return plain


def measured(name: str, root: Path, what: str) -> dict[str, Any]:
    """Seconds to open the task, to its first sample and through all, and the most memory."""
    from harness import plugins
    from harness.run.plan import select, survey

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
        "samples": count, "open_s": round(opened, 3), "first_sample_s": round(first, 3),
        "all_s": round(perf_counter() - begin, 2),
        "peak_mib": peak(),
    }  # fmt: skip


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
    (video,) = (place / "data").glob("*.mp4")
    for number in range(VIDEOS):
        os.link(video, place / "data" / f"v{number}.mp4")
    (row, *_), schema = parquet.read_table(table).to_pylist(), parquet.read_schema(table)
    share = -(-size // VIDEOS)
    with parquet.ParquetWriter(table, schema) as writer:
        for start in range(0, size, 1000):
            rows = [{**row, "question_id": f"q{number}", "videoID": f"v{number // share}"}
                    for number in range(start, min(start + 1000, size))]  # fmt: skip
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def pictures(root: Path, size: int) -> None:
    """ReasonSeg's validation split with so many pictures of equal content."""
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


if __name__ == "__main__":
    main()
