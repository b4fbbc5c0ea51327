"""How full the client keeps a server, and what a sample costs it.

    python benchmarks/serving.py --photos FOLDER [--samples 400] [--seconds 0.5] [--save]

The server (`fixed_time_server.py`) answers each request after `--seconds`, however many ask, so
with 64 at once it could answer 64 / seconds a second. Photographs of FOLDER (JPEG, of any size) are
cut to 854 × 480, shifted so that no two are equal, and asked about by `harness eval` with boxes as
masks. CPU seconds a sample are the difference between a long and a short run, so that starting
does not count; requests in flight are the mean between the first and the last fifth of arrivals.

Cases: `file`: images go as their own files; `resized`: each is resized to 840 × 840 and encoded
(VisionReasoner's canvas).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from steps import RESULTS, save_part

SIZE, CONCURRENCY = (854, 480), 64
PLACE = {"bbox_2d": [10, 10, 300, 300], "point_2d": [100, 100], "label": "animal"}
ANSWER = f"<answer>{json.dumps([PLACE])}</answer>"
CASES: Mapping[str, str] = {"file": "locate", "resized": "visionreasoner"}
"""Names of cases, and the prompts of `qwen_vl` that lead to them."""
MODEL = (
    "qwen_vl(prompt={prompt},batch_size=64,segmenter=box,propagator=still,"
    "backend=openai(model=model,base_url={url}/v1,coordinates=normalized_1000,concurrency={most}))"
)
HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    photos = sorted(given.photos.rglob("*.jpg"))
    if not photos:
        raise SystemExit(f"{given.photos}: expected photographs as .jpg, found none")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in given.cases.split(","):
            results[case] = measure(case, photos, Path(folder), given.samples, given.seconds)
            print(line(case, results[case], given.seconds), flush=True)
    if given.save:
        rows = [line(case, result, given.seconds) for case, result in results.items()]
        environment = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
        text = "\n".join(
            [f"{environment}, {given.samples} samples", "", *(f"- {row}" for row in rows)]
        )
        save_part(RESULTS / "serving.md", "client", text)


def measure(
    case: str, photos: Sequence[Path], folder: Path, samples: int, seconds: float
) -> dict[str, float]:
    """Return what a run of `samples` costs more than one of a tenth of them, a sample."""
    usages = []
    for count in (samples // 10, samples):
        data = folder / case / str(count)
        write_images(photos, data, count)
        usages.append(run(CASES[case], data, folder / case / f"runs-{count}", seconds))
    (few, short), (many, long) = usages
    return {
        "cpu_ms": 1e3 * (long - short) / (many["requests"] - few["requests"]),
        **{name: many[name] for name in ("requests", "bytes", "in_flight", "steady", "seconds")},
    }


def line(case: str, result: Mapping[str, float], seconds: float) -> str:
    """Write the result of a case for a terminal."""
    most = CONCURRENCY / seconds
    return (
        f"{case:8} {result['cpu_ms']:6.1f} ms of CPU and {result['bytes'] / 1e3:8.1f} kB a sample; "
        f"{result['in_flight']:4.1f} of {CONCURRENCY} in flight, {result['steady']:5.1f} samples/s "
        f"of {most:.0f} that the server could answer"
    )


def run(prompt: str, data: Path, out: Path, seconds: float) -> tuple[dict[str, float], float]:
    """Evaluate against a new server; return what the server counted and the client's CPU time."""
    command = [sys.executable, HERE / "fixed_time_server.py", "--answer", ANSWER]
    server = subprocess.Popen(
        [*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        model = MODEL.format(prompt=prompt, url=url, most=CONCURRENCY)
        arguments = ["--model", model, "--tasks", "reason_seg", "--data", data, "--out", out]
        client = subprocess.Popen(
            [sys.executable, "-m", "harness", "eval", *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(client.pid, 0)
        client.returncode = os.waitstatus_to_exitcode(status)
        if client.returncode != 0:
            raise SystemExit(f"harness eval ended with {client.returncode}")
        with urllib.request.urlopen(f"{url}/counts") as answer:
            counts: dict[str, float] = json.load(answer)
        return counts, usage.ru_utime + usage.ru_stime
    finally:
        server.kill()
        server.wait()


def photograph(photos: Sequence[Path], number: int) -> Image.Image:
    """Return the photograph of a number, 854 × 480; no two numbers give the same."""
    with Image.open(photos[number % len(photos)]) as image:
        cut = np.asarray(ImageOps.fit(image.convert("RGB"), SIZE))
    return Image.fromarray(np.roll(cut, 3 * (number // len(photos)), axis=1))


def write_images(photos: Sequence[Path], root: Path, samples: int) -> None:
    """Write photographs with one target each in ReasonSeg's layout."""
    folder = root / "reason_seg" / "ReasonSeg" / "val"
    folder.mkdir(parents=True)
    target = {
        "label": "target",
        "labels": ["target"],
        "shape_type": "polygon",
        "points": [[10, 10], [300, 10], [300, 300], [10, 300]],
        "group_id": None,
        "flags": {},
    }
    for number in range(samples):
        photograph(photos, number).save(folder / f"{number:05d}.jpg", quality=90)
        annotation = {"text": ["the animal"], "is_sentence": False, "shapes": [target]}
        (folder / f"{number:05d}.json").write_text(json.dumps(annotation))


if __name__ == "__main__":
    main()
