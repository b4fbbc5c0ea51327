"""Write the golden files of pointing: our inputs from a seed, the official scorers' outputs.

    python tests/golden/make_benchmarks.py --official FOLDER

FOLDER holds checkouts under the names and at the commits of `COMMITS` below. Their code is
compiled or run from there, without what it imports; none of it is kept here.
"""

import argparse
import json
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from checkouts import COMMITS, inside, parts, write
from inputs import KINDS, mask_of
from PIL import Image

from harness.masks import SoftMask

SEED = 20251125
COMMITS |= {
    "RoboRefer": "d97a995ad28376720a4c8beb64915c58ed16c844",
    "RoboPoint": "adbee8db06dcd9e12ac1f2f35bd280979ad5d4a5",
    "pointarena": "dcd82f29cfc80d6c2438e9be538ecfd241313d91",
    "RoboSpatial-Eval": "19f04a5d2290d496ec7bed509346d8a0b661a57d",
}


def regions(rng: np.random.Generator, number: int) -> list[np.ndarray]:
    """Images of masks, some of them grey."""
    found = []
    for place in range(number):
        size = tuple(map(int, rng.integers(8, 40, 2)))
        mask = mask_of(KINDS[place % len(KINDS)], size, rng).astype(np.uint8) * 255
        if place % 3 == 0:
            grey = rng.integers(0, 256, size)
            mask = np.where(rng.random(size) < 0.3, grey, mask).astype(np.uint8)
        found.append(mask)
    return found


def shares(rng: np.random.Generator, most: int = 6) -> list[list[float]]:
    """Points in shares of an image's sides, a few outside of it."""
    return [
        [round(float(v), 4) for v in rng.uniform(-0.1, 1.1, 2)] for _ in range(rng.integers(most))
    ]


def case(mask: np.ndarray, points: Any, **official: Any) -> dict[str, Any]:
    """One case: the region, points in pixels, and what official code says."""
    levels = SoftMask.from_array(mask / 255.0).to_json()
    return {"region": levels, "points": points, **official}


def in_pixels(points: list[list[float]], mask: np.ndarray) -> list[list[float]]:
    """Points in pixels, as official code has them before it cuts them."""
    height, width = mask.shape
    return [[x * width, y * height] for x, y in points]


def told(points: list[list[float]]) -> str:
    """Points as a response tells them."""
    return "[" + ", ".join(f"({x:.4f}, {y:.4f})" for x, y in points) + "]"


def refspatial(official: Path) -> None:
    """Share of points in the mask, by summarize_acc.py."""
    rng = np.random.default_rng(SEED)
    code = parts(
        official / "RoboRefer/Evaluation/summarize_acc.py",
        ["text2pts", "compute_accuracy"],
        np=np,
        os=os,
        re=re,
        Image=Image,
        tqdm=lambda items: items,
        List=list,
        Dict=dict,
        Callable=Callable,
    )
    masks = regions(rng, 90)
    points = [shares(rng) for _ in masks]
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        Path("RefSpatial-Bench/Location").mkdir(parents=True)
        answers = []
        for number, (mask, each) in enumerate(zip(masks, points, strict=True)):
            Image.fromarray(mask).save(f"RefSpatial-Bench/Location/{number}.png")
            answers.append(
                {"question_id": number, "mask_path": f"{number}.png", "text": told(each)}
            )
        code["compute_accuracy"](answers, "Location", code["text2pts"])
    cases = [
        case(mask, in_pixels(each, mask), accuracy=float(answer["accuracy"]))
        for mask, each, answer in zip(masks, points, answers, strict=True)
    ]
    write("pointing/refspatial.json", "RoboRefer", "Evaluation/summarize_acc.py", cases=cases)


def where2place(official: Path) -> None:
    """Grey under the points, by summarize_vqa.py, whose images are JPEG files."""
    rng = np.random.default_rng(SEED + 1)
    masks, points, cases = regions(rng, 90), [], []
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        Path("masks").mkdir()
        for number, mask in enumerate(masks):
            Image.fromarray(mask).resize((640, 480)).save(f"masks/{number:02d}.jpg")
            points.append(shares(rng))
        questions = "\n".join(json.dumps({"id": number}) for number in range(len(masks)))
        Path("point_questions.jsonl").write_text(questions)
        Path("answers.jsonl").write_text(
            "\n".join(json.dumps({"text": told(each)}) for each in points)
        )
        sys.argv = ["summarize_vqa.py", "--answer_file", "answers.jsonl", "--data_dir", "."]
        sys.modules.setdefault("tqdm", SimpleNamespace(tqdm=lambda items: items))  # type: ignore[arg-type]
        done = runpy.run_path(
            str(official / "RoboPoint/robopoint/eval/summarize_vqa.py"), run_name="__main__"
        )
        for number, (each, value) in enumerate(zip(points, done["accuracy"], strict=True)):
            image = np.array(Image.open(f"masks/{number:02d}.jpg"))
            pixels = in_pixels(each, image)
            # Only the pixels under points matter: the rest of a large region is left out.
            kept = np.zeros_like(image)
            for x, y in np.array(pixels, dtype=int).reshape(-1, 2):
                if 0 <= x < image.shape[1] and 0 <= y < image.shape[0]:
                    kept[y, x] = image[y, x]
            cases.append(case(kept, pixels, accuracy=float(value)))
    write("pointing/where2place.json", "RoboPoint", "robopoint/eval/summarize_vqa.py", cases=cases)


def white(official: Path) -> None:
    """Share of points on pixels above half of white, by lmms-eval."""
    rng = np.random.default_rng(SEED + 2)
    code = parts(
        official / "lmms-eval/lmms_eval/tasks/where2place/utils.py",
        ["_text2pts", "_where2place_acc", "where2place_process_results"],
        np=np,
        re=re,
        Dict=dict,
        List=list,
        config={},
    )
    cases = []
    for mask in regions(rng, 90):
        each = shares(rng)
        doc = {"mask": mask, "question_id": 0}
        found = code["where2place_process_results"](doc, [told(each)])["where2place_acc"]
        cases.append(case(mask, in_pixels(each, mask), accuracy=float(found["accuracy"])))
    write("pointing/white.json", "lmms-eval", "tasks/where2place/utils.py", cases=cases)


def pointbench(official: Path) -> None:
    """Success of each question, by `evaluate_model` with a model that gives our points."""
    rng = np.random.default_rng(SEED + 3)
    masks, entries, points = regions(rng, 120), [], []
    for number, mask in enumerate(masks):
        rows, columns = np.nonzero(mask > 127)
        count = int(rng.integers(1, 4))
        given = in_pixels(shares(rng, 3), mask)
        if len(rows) and number % 4:  # points that hit, as many as are asked for or one more
            chosen = rng.integers(0, len(rows), count + (number % 8 == 1))
            given = [[float(columns[k]) + 0.25, float(rows[k]) + 0.75] for k in chosen]
        category = "counting" if number % 2 else "spatial"
        name = f"{number}.png"
        entry = {"image_filename": name, "mask_filename": name, "category": category}
        entries.append({**entry, "user_input": str(number), "count": count})
        points.append(given)

    def answer(path: str, query: str, model: str, category: str) -> list[dict[str, list[float]]]:
        given = points[int(query)]
        return [{"point": one} for one in (given if category == "counting" else given[:1])]

    with tempfile.TemporaryDirectory() as folder, inside(folder):
        for entry, mask in zip(entries, masks, strict=True):
            place = Path("images") / str(entry["category"])
            place.mkdir(parents=True, exist_ok=True)
            Path("masks").mkdir(exist_ok=True)
            for one in (place, Path("masks")):
                Image.fromarray(mask).save(one / str(entry["image_filename"]))
        Path("data.json").write_text(json.dumps(entries))
        code = parts(
            official / "pointarena/model_evaluator.py",
            ["load_mask", "is_point_in_mask", "evaluate_model"],
            np=np,
            os=os,
            json=json,
            Path=Path,
            Image=Image,
            IMAGES_DIR=Path("images"),
            MASKS_DIR=Path("masks"),
            POINT_ON_MASK_DIR=Path("shown"),
            call_openai=answer,
            visualize_points_on_mask=lambda *_: None,
            print=lambda *_: None,
        )
        code["evaluate_model"]("ours", "openai", resume=False)
        (file,) = Path("static_results").glob("*.json")
        details = json.loads(file.read_text())["details"]
    right = {one["image"]: one["success"] for one in details}
    cases = [
        case(
            mask,
            given,
            count=entry["count"] if entry["category"] == "counting" else None,
            success=right[entry["image_filename"]],
        )
        for mask, given, entry in zip(masks, points, entries, strict=True)
    ]
    write("pointing/pointbench.json", "pointarena", "model_evaluator.py", cases=cases)


def robospatial(official: Path) -> None:
    """Whether an answer is right, by `evaluate_answer`."""
    rng = np.random.default_rng(SEED + 4)
    code = parts(
        official / "RoboSpatial-Eval/evaluation.py", ["point_in_polygon", "evaluate_answer"], re=re
    )
    import ast

    code["ast"] = ast
    cases: list[dict[str, Any]] = []
    for number in range(300):
        polygon = [tuple(map(float, row.round(3))) for row in rng.random((3 + number % 5, 2))]
        point = [float(v) for v in rng.random(2).round(3)]
        if number % 10 == 0:
            point = list(polygon[number % 3])
        right, *_ = code["evaluate_answer"](str(polygon), f"[({point[0]}, {point[1]}), (0.5, 0.5)]")
        cases.append({"polygon": polygon, "point": point, "right": right})
    for truth in ("Yes", "no", "NO"):
        for said in ("yes", "No.", "  YES, it is", "not sure", "", "It is yes", "nope", "n"):
            right, *_ = code["evaluate_answer"](truth, said)
            cases.append({"truth": truth, "said": said, "right": right})
    write("pointing/robospatial.json", "RoboSpatial-Eval", "evaluation.py", cases=cases)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", type=Path, required=True)
    given = parser.parse_args().official.resolve()
    for make in (refspatial, where2place, white, pointbench, robospatial):
        make(given)
