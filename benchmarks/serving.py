"""How full a client keeps a server, and what a sample costs it.

    python benchmarks/serving.py [--photos FOLDER] [--samples 400] [--seconds 0.5] [--save]
    python benchmarks/serving.py --peers PYTHON [--rounds 3] …

The server (`fixed_time_server.py`) answers each request after `--seconds`, however many ask, so
with 64 at once it could answer 64 / seconds a second. Photographs of FOLDER (JPEG, of any size), or
generated ones, are cut to 854 × 480, shifted so that no two are equal, and asked about by `harness
eval` with boxes as masks. CPU seconds a sample are the difference between a long and a short run,
so that starting does not count; requests in flight are the mean between the first and the last
fifth of arrivals; memory is the largest resident one of the process.

Cases: `file`: images go as their own files; `resized`: each is resized to 840 × 840 and encoded
(VisionReasoner's canvas); `clip`: 32 frames of a video, of a tenth as many samples.

Peers: lmms-eval and EvalScope as released, in the environment of PYTHON, ask the same images and
questions. They make no masks, and need less time for it. Each round measures every client once.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask
from serving_peers import PEERS
from steps import RESULTS, save_part

SIZE, CONCURRENCY, FRAMES, TEXT = (854, 480), 64, 32, "the animal"
PLACE = {"bbox_2d": [10, 10, 300, 300], "point_2d": [100, 100], "label": "animal"}
ANSWER = f"<answer>{json.dumps([PLACE])}</answer>"
SETTINGS = {"file": "prompt=locate", "resized": "prompt=visionreasoner"}
SETTINGS["clip"] = f"prompt=locate,keyframe=named,frames={FRAMES}"
"""Settings of `qwen_vl` that lead to a case."""
MODEL = (
    "qwen_vl({settings},batch_size=64,segmenter=box,propagator=still,"
    "backend=openai(model=model,base_url={url}/v1,coordinates=normalized_1000,concurrency={most}))"
)
OURS = "harness"
TARGET = {"label": "target", "labels": ["target"], "shape_type": "polygon", "flags": {}}
TARGET |= {"points": [[10, 10], [300, 10], [300, 300], [10, 300]], "group_id": None}
HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--cases", default=",".join(SETTINGS))
    parser.add_argument("--peers", help="the interpreter of an environment that has them")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    photos = [] if given.photos is None else sorted(given.photos.rglob("*.jpg"))
    if given.photos is not None and not photos:
        raise SystemExit(f"{given.photos}: expected photographs as .jpg, found none")
    clients = [OURS, *(PEERS if given.peers else ())]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in given.cases.split(","):
            data, count = Path(folder) / case, given.samples
            count = max(20, count // 10) if case == "clip" else count
            sizes = (max(10, count // 10), count)
            for size in sizes:
                write_samples(case, photos or generated(Path(folder)), data / str(size), size)
            results: dict[str, list[dict[str, float]]] = {client: [] for client in clients}
            for turn in range(given.rounds):
                for client, rounds in results.items():
                    out = data / f"{client}-{turn}"
                    rounds.append(measure(client, case, data, sizes, out, given))
                    print(line(case, client, rounds[-1:], given.seconds), flush=True)
            rows += [
                line(case, client, rounds, given.seconds) for client, rounds in results.items()
            ]
            rows += [ratio(case, client, results) for client in clients[1:]]
    print("\n".join(rows))
    if given.save:
        environment = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
        head = f"{environment}, {given.samples} samples, {given.rounds} rounds"
        save_part(
            RESULTS / "serving.md", "client", "\n".join([head, "", *(f"- {r}" for r in rows)])
        )


def measure(
    client: str,
    case: str,
    data: Path,
    sizes: tuple[int, int],
    out: Path,
    given: argparse.Namespace,
) -> dict[str, float]:
    """Return what the larger of two runs costs more than the smaller one, a sample."""
    short, long = (run(client, case, data / str(size), out / str(size), given) for size in sizes)
    used = (long["cpu"] - short["cpu"]) / (long["requests"] - short["requests"])
    return {**long, "cpu_ms": 1e3 * used}


def line(case: str, client: str, rounds: Sequence[Mapping[str, float]], seconds: float) -> str:
    """Write the medians of a client's rounds."""
    middle = {name: median(one[name] for one in rounds) for name in rounds[0]}
    return (
        f"{case:8} {client:10} {middle['cpu_ms']:7.1f} ms of CPU and {middle['bytes'] / 1e3:8.1f} "
        f"kB a sample; {middle['in_flight']:4.1f} of {CONCURRENCY} in flight, "
        f"{middle['steady']:5.1f} samples/s of {CONCURRENCY / seconds:.0f}; "
        f"{middle['mib']:.0f} MiB"
    )


def ratio(case: str, client: str, results: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Write the medians and ranges of a peer's numbers in ours."""
    pairs = list(zip(results[client], results[OURS], strict=True))
    cpu = [peer["cpu_ms"] / ours["cpu_ms"] for peer, ours in pairs]
    speed = [ours["steady"] / peer["steady"] for peer, ours in pairs]
    return (
        f"{case:8} {client:10} {_range(cpu)} × our CPU a sample; we answer {_range(speed)} × its "
        "samples a second"
    )


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


@contextmanager
def served(seconds: float, answer: str) -> Iterator[str]:
    """Start a server, and yield its address."""
    command = [sys.executable, HERE / "fixed_time_server.py", "--answer", answer]
    server = subprocess.Popen(
        [*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


def run(
    client: str, case: str, data: Path, out: Path, given: argparse.Namespace
) -> dict[str, float]:
    """Evaluate against a new server; return what it counted and the client's cost."""
    out.mkdir(parents=True)
    named = "<frame>0</frame>" if case == "clip" else ""
    with served(given.seconds, named + ANSWER) as url:
        if client == OURS:
            model = MODEL.format(settings=SETTINGS[case], url=url, most=CONCURRENCY)
            task = "mevis" if case == "clip" else "reason_seg"
            arguments = ["--model", model, "--tasks", task, "--data", data, "--out", out]
            command = [sys.executable, "-m", "harness", "eval", *arguments]
        else:
            arguments = [client, data / "questions.jsonl", url, CONCURRENCY, out]
            command = [given.peers, HERE / "serving_peers.py", *arguments]
        with (out / "log.txt").open("w") as log:
            process = subprocess.Popen(
                [*map(str, command)],
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            said = (out / "log.txt").read_text()[-2000:]
            raise SystemExit(f"{client} ended with {process.returncode}:\n{said}")
        with urllib.request.urlopen(f"{url}/counts") as answer:
            counts: dict[str, float] = json.load(answer)
    cpu = usage.ru_utime + usage.ru_stime
    return {**counts, "cpu": cpu, "mib": usage.ru_maxrss / 1024}


def generated(folder: Path) -> list[Path]:
    """Return eight images of blots with grain, of the size of photographs as JPEG."""
    paths = [folder / "photos" / f"{number}.jpg" for number in range(8)]
    if not paths[0].is_file():
        paths[0].parent.mkdir()
        for number, path in enumerate(paths):
            draw = np.random.default_rng(number)
            blots = Image.fromarray(draw.integers(0, 256, (24, 43, 3), dtype=np.uint8)).resize(SIZE)
            grain = draw.normal(0, 6, (SIZE[1], SIZE[0], 1))
            grainy = np.clip(np.asarray(blots) + grain, 0, 255).astype(np.uint8)
            Image.fromarray(grainy).save(path, quality=90)
    return paths


def photograph(photos: Sequence[Path], number: int) -> Image.Image:
    """Return the photograph of a number, 854 × 480; no two numbers give the same."""
    with Image.open(photos[number % len(photos)]) as image:
        cut = np.asarray(ImageOps.fit(image.convert("RGB"), SIZE))
    return Image.fromarray(np.roll(cut, 3 * (number // len(photos)), axis=1))


def write_samples(case: str, photos: Sequence[Path], root: Path, samples: int) -> None:
    """Write samples with one target each, and the questions that peers ask of the same files."""
    shown = (write_clips if case == "clip" else write_images)(photos, root, samples)
    with (root / "questions.jsonl").open("w", encoding="utf-8") as file:
        for number, paths in enumerate(shown):
            question = {"id": str(number), "prompt": TEXT, "images": [*map(str, paths)]}
            file.write(json.dumps(question) + "\n")


def write_images(photos: Sequence[Path], root: Path, samples: int) -> list[list[Path]]:
    """Write photographs in ReasonSeg's layout; return the files of each sample."""
    folder = root / "reason_seg" / "ReasonSeg" / "val"
    folder.mkdir(parents=True)
    paths = [folder / f"{number:05d}.jpg" for number in range(samples)]
    for number, path in enumerate(paths):
        photograph(photos, number).save(path, quality=90)
        annotation = {"text": [TEXT], "is_sentence": False, "shapes": [TARGET]}
        path.with_suffix(".json").write_text(json.dumps(annotation))
    return [[path] for path in paths]


def write_clips(photos: Sequence[Path], root: Path, samples: int) -> list[list[Path]]:
    """Write videos of photographs in MeViS' layout; return the files of each sample."""
    folder, videos, shown = root / "mevis" / "valid_u", {}, []
    runs = coco_mask.encode(np.asfortranarray(np.ones(SIZE[::-1], np.uint8)))
    track = [{"size": runs["size"], "counts": runs["counts"].decode()}] * FRAMES
    for number in range(samples):
        frames = folder / "JPEGImages" / f"video{number:03d}"
        frames.mkdir(parents=True)
        names = [f"{frame:05d}" for frame in range(FRAMES)]
        shown.append([frames / f"{name}.jpg" for name in names])
        for frame, path in enumerate(shown[-1]):
            photograph(photos, number * FRAMES + frame).save(path, quality=90)
        expressions = {"0": {"exp": TEXT, "obj_id": [0], "anno_id": [number]}}
        videos[frames.name] = {"vid_id": number, "frames": names, "expressions": expressions}
    (folder / "meta_expressions.json").write_text(json.dumps({"videos": videos}))
    masks = {str(number): track for number in range(samples)}
    (folder / "mask_dict.json").write_text(json.dumps(masks))
    return shown


if __name__ == "__main__":
    main()
