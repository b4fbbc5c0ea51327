"""Write the golden files of whole protocols: our inputs from a seed, official scorers' outputs.

    python tests/golden/make_benchmarks.py --official FOLDER

FOLDER holds checkouts under the names and at the commits of `COMMITS` below. Their code is
compiled or run from there, without what it imports; none of it is kept here.
"""

import argparse
import ast
import contextlib
import importlib
import io
import json
import multiprocessing
import os
import re
import runpy
import string
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import numpy as np
import pandas
from answers import choice_responses, number_responses
from checkouts import COMMITS, Silent, inside, parts, stub, write
from inputs import KINDS, answer_to, mask_of, transformed
from official import Queue, module, replace_scikit_image
from pieces import statements
from PIL import Image
from pycocotools import mask as cocomask

from harness.masks import Rle, SoftMask

SEED = 20251125
COMMITS |= {
    "RoboRefer": "d97a995ad28376720a4c8beb64915c58ed16c844",
    "RoboPoint": "adbee8db06dcd9e12ac1f2f35bd280979ad5d4a5",
    "pointarena": "dcd82f29cfc80d6c2438e9be538ecfd241313d91",
    "RoboSpatial-Eval": "19f04a5d2290d496ec7bed509346d8a0b661a57d",
    "VideoLISA": "146f2bca25c9bba18e754bd77b1454fa27cfb6ce",
    "Video-MME-v2": "b24176a14506c48a9f3e156d9f20068db6c4782b",
    "sam3": "99d02f28c8d34610ab35559b72642b01f10fdb1e",
    "Sa2VA": "9832e1a80e74ed513e8072bf882a09bdd80566c4",
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
        official / "RoboSpatial-Eval/evaluation.py",
        ["point_in_polygon", "evaluate_answer"],
        re=re,
        ast=ast,
    )
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


def points(official: Path) -> None:
    """All scores of points in regions."""
    for make in (refspatial, where2place, white, pointbench, robospatial):
        make(official)


def videos(rng: np.random.Generator, number: int) -> list[dict[str, Any]]:
    """Videos: the masks of one to three objects, which may overlap, and a prediction."""
    found = []
    for place in range(number):
        size, frames = [(20, 31), (24, 16), (15, 15)][place % 3], 1 + place % 4
        objects = []
        for _ in range(1 + place % 3):
            kind = ("ellipse", "rectangle", "empty", "noise")[int(rng.integers(4))]
            first = mask_of(kind, size, rng)
            objects.append([transformed(first, shift=(k, -k)) for k in range(frames)])
        union = [np.any([track[k] for track in objects], axis=0) for k in range(frames)]
        predicted = [answer_to(mask, rng) for mask in union]
        found.append({"objects": objects, "union": union, "predicted": predicted})
    return found


def runs(masks: Any) -> list[str]:
    """Run-lengths of a track."""
    return [Rle.from_array(mask).counts for mask in masks]


def reason_vos(official: Path) -> None:
    """J and F of expressions by `eval_queue`; some have no prediction."""
    rng = np.random.default_rng(SEED + 5)
    place = official / "VideoLISA/evaluation/reason_vos"
    sys.path.insert(0, str(place))
    code = runpy.run_path(str(place / "eval_reason_vos.py"))
    cases, queue, found = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for number, video in enumerate(videos(rng, 40)):
            key, answered = f"MOSE_v{number}_1", number % 5 != 0
            queue.append((key, "0"))
            for kind, masks in (("truth", video["union"]), ("answer", video["predicted"])):
                if kind == "answer" and not answered:
                    continue
                target = Path(folder) / kind / key / ("" if kind == "truth" else "0")
                target.mkdir(parents=True)
                for frame, mask in enumerate(masks):
                    Image.fromarray(mask.astype(np.uint8) * 255).save(target / f"{frame:05d}.png")
            case = {"size": list(video["union"][0].shape), "truth": runs(video["union"])}
            cases.append(case | {"predicted": runs(video["predicted"]) if answered else None})
        code["eval_queue"](Queue(queue), 0, found, f"{folder}/truth", f"{folder}/answer")
    for number, case in enumerate(cases):
        case["official"] = found.get(f"MOSE_v{number}_1_0")
    both = [float(np.mean([value[k] for value in found.values()])) for k in (0, 1)]
    write(
        "reason_vos/scores.json",
        "VideoLISA",
        "evaluation/reason_vos/eval_reason_vos.py; the means are its last lines",
        J=both[0],
        F=both[1],
        JF=(both[0] + both[1]) / 2,
        cases=cases,
    )


def ref_sav(official: Path) -> None:
    """J, F and A of expressions and of types, by eval_ref_sav.py."""
    rng = np.random.default_rng(SEED + 6)
    metrics = module(official / "Sa2VA/third_parts/revos/utils/metircs.py")
    names = ("db_eval_iou", "db_eval_boundary", "get_r2vos_accuracy")
    source = official / "Sa2VA/tools/eval/eval_ref_sav.py"
    exp_dict: dict[str, Any] = {}
    mask_dict: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    cases = []
    for number, video in enumerate(videos(rng, 40)):
        height, width = video["union"][0].shape
        ids = [str(len(mask_dict) + k) for k in range(len(video["objects"]))]
        for one, track in zip(ids, video["objects"], strict=True):
            mask_dict[one] = [Rle.from_array(m).to_json() if m.any() else None for m in track]
        kind = number % 2
        exp_dict[f"v{number}"] = {
            "frames": [str(k) for k in range(len(video["union"]))],
            "height": height,
            "width": width,
            "expressions": {"0": {"exp": "", "anno_id": ids, "type_id": kind}},
        }
        masks = [Rle.from_array(mask).to_json() for mask in video["predicted"]]
        answers[f"v{number}"] = {"0": {"prediction_masks": masks}}
        cases.append(
            {
                "size": [height, width],
                "type": kind,
                "objects": [runs(track) for track in video["objects"]],
                "predicted": runs(video["predicted"]),
            }
        )
    space = {
        "np": np,
        "cocomask": cocomask,
        "exp_dict": exp_dict,
        "mask_dict": mask_dict,
        "mask_pred_dict": answers,
        "output_dict": {},
        **{name: getattr(metrics, name) for name in names},
    }
    code = parts(source, ["eval_queue"], **space)
    code["eval_queue"](Queue([(name, "0") for name in exp_dict]), 0, code["output_dict"])
    exec(statements(source, "data_list = []", "results = "), code)
    for number, case in enumerate(cases):
        case["official"] = list(map(float, code["output_dict"][f"v{number}_0"]))
    what = "tools/eval/eval_ref_sav.py; fractions of expressions, percentages of all"
    write("ref_sav/scores.json", "Sa2VA", what, results=code["results"], cases=cases)


def video_mme_v2(official: Path) -> None:
    """Letters, scores of groups and the final rating, by `evaluate`."""
    rng = np.random.default_rng(SEED + 7)
    code = parts(
        official / "Video-MME-v2/evaluation/test_video_mme_v2.py",
        ["extract_characters_regex_v2", "cal_relevance", "cal_logic", "get_final_rating"],
        re=re,
        ast=ast,
    )
    letter = code["extract_characters_regex_v2"]
    responses = [one.replace("D", "H") for one in choice_responses(rng, 300)]
    letters = [[one, letter(one)] for one in responses]
    structures = ["[1, 2, 3, 4]", "[1, [2, 3], 4]", "[[1, 2], 3, 4]"]
    rows, groups = [], []
    for number in range(120):
        logic = number % 3 > 0
        structure, level = structures[number % len(structures)], 1 + number % 3
        scores = [int(one) for one in rng.choice([1, 0, -1], 4, p=[0.6, 0.25, 0.15])]
        kind = "logic" if logic else "relevance"
        groups.append({"type": kind, "structure": structure, "level": level, "scores": scores})
        rows += [
            {
                "level": level,
                "group_type": kind,
                "group_structure": structure,
                "score": one,
                "second_head": "h",
                "third_head": "t",
            }
            for one in scores
        ]
        points = code["cal_logic"](scores, structure) if logic else code["cal_relevance"](scores)[0]
        groups[-1]["points"] = points
    rating = code["get_final_rating"](pandas.DataFrame(rows))["final_rating"]
    what = "evaluation/test_video_mme_v2.py: [response, letter]; groups with scores and points"
    write(
        "video_mme_v2/scores.json",
        "Video-MME-v2",
        what,
        rating=rating,
        cases=groups,
        letters=letters,
    )


LETTERS = "ABCDEFGH"


def official_readers(tasks: Path) -> dict[str, Callable[[str], str | None]]:
    """The letter that each of lmms-eval's scorers takes from a response, None where it takes none.

    Those that give only a score are asked for each letter.
    """
    common = {"re": re, "np": np, "Optional": Optional, "random": NoRandom}

    def functions(file: str, *names: str) -> list[Any]:
        code = parts(tasks / file, names, **common)
        return [code[name] for name in names]

    def scored(score: Callable[[str, str], object]) -> Callable[[str], str | None]:
        return lambda said: next((one for one in LETTERS if score(one, said) == 1), None)

    (mvbench,) = functions("mvbench/utils.py", "mcq_acc")
    (perception,) = functions(
        "perceptiontest/val/utils.py", "perceptiontest_val_process_results_mc"
    )
    (mmsi,) = functions("mmsi_bench/utils.py", "extract_single_choice_with_word_boundary")
    (mindcube,) = functions("mindcube/utils.py", "extract_answer")
    (view_spatial,) = functions("viewspatial/utils.py", "extract_option")
    (leading,) = functions("embspatial/utils.py", "_extract_answer_letter")
    (three_dsr,) = functions("3dsrbench/utils.py", "extract_answer")
    (site,) = functions("sitebench/utils.py", "parse_multi_choice_response")
    mcq = module(tasks / "_task_utils/mcq_extract.py").extract_mcq_answer

    def perceived(letter: str, said: str) -> object:
        doc = {"answer_id": LETTERS.index(letter), "video_name": "", "question": ""}
        return perception(doc, [said])["accuracy"]["correct"]

    return {
        "mvbench": lambda said: next((one for one in "ABCDE" if mvbench(one, said) == 1), None),
        "perception_test": scored(perceived),
        "mmsi": scored(lambda letter, said: mmsi(said, letter)),
        "mindcube": lambda said: mindcube(said.strip()),
        "view_spatial": lambda said: view_spatial(said.split("\n")[-1]),
        "leading": lambda said: leading(said) or None,
        "three_dsr": three_dsr,
        "site": lambda said: site(said.strip(), list("ABCD")),
        "mcq": lambda said: mcq(said, list("ABCDE")) or None,
    }


class NoRandom:
    """In the place of `random`: nothing is drawn."""

    @staticmethod
    def choice(_: Any) -> None:
        return None


MORE = (
    "`B`",
    "``c``",
    "It is {D}",
    "<Answer>My answer is C</Answer>",
    "<Answer>B",
    "Not A.\nB",
    "B\n",
    "no\nAnswer: D",
    'She said "C"',
    "*B*",
    "A dog, B cats",
    "1,000 (c) left",
    "a.b.c. The answer is D.",
    "(A) or B or C ",
    "C: left",
    "answer:D",
    "the answer is A, not B",
    "I pick one: not A but C",
    "Is it (A) or (B)? My choice is hard, C: or D.",
    "答案是 B，不是 A",
    "NASA says no",
)


def letters(official: Path) -> None:
    """Letters that further scorers of lmms-eval take from responses."""
    rng = np.random.default_rng(SEED + 8)
    readers = official_readers(official / "lmms-eval/lmms_eval/tasks")
    responses = [*MORE, *choice_responses(rng, 250)]
    cases = [[one, *(read(one) for read in readers.values())] for one in responses]
    what = "tasks/*/utils.py: [response, a letter of each reader]"
    write("letters/lmms_eval.json", "lmms-eval", what, readers=list(readers), cases=cases)


def revsi(official: Path) -> None:
    """Scores of samples and of types, by lmms-eval."""
    rng = np.random.default_rng(SEED + 9)
    code = parts(
        official / "lmms-eval/lmms_eval/tasks/revsi/utils.py",
        [
            "MCQ_QUESTION_TYPES",
            "NQ_QUESTION_TYPES",
            "REVSI_METRICS",
            "COMPOSITE_METRICS",
            "_mean_relative_accuracy",
            "revsi_process_results",
            "_collapse_question_types",
            "_compute_all_subscores",
        ],
        np=np,
        pd=pandas,
    )
    cases, docs = [], []
    for kind in code["MCQ_QUESTION_TYPES"]:
        for said in choice_responses(rng, 30):
            docs.append({"question_type": kind, "ground_truth": "ABCD"[int(rng.integers(4))]})
            cases.append([kind, docs[-1]["ground_truth"], said])
    for kind in code["NQ_QUESTION_TYPES"]:
        truth = round(float(rng.uniform(0.5, 9)), 1)
        for said in number_responses(rng, truth, 30):
            docs.append({"question_type": kind, "ground_truth": str(truth)})
            cases.append([kind, str(truth), said])
    for case, doc in zip(cases, docs, strict=True):
        case.append(float(code["revsi_process_results"](doc, [case[2]])["overall_acc"]["acc"]))
    totals = {name: float(value) for name, value in code["_compute_all_subscores"](docs).items()}
    what = "tasks/revsi/utils.py: [type, truth, response, score]"
    write("revsi/scores.json", "lmms-eval", what, totals=totals, cases=cases)


def charades_sta(official: Path) -> None:
    """Intervals in responses, and the numbers over all of them, by lmms-eval."""
    rng = np.random.default_rng(SEED + 10)
    code = parts(
        official / "lmms-eval/lmms_eval/tasks/charades_sta/utils.py",
        [
            "extract_time",
            "_time_to_seconds",
            "iou",
            "_parse_ground_truth",
            "_temporal_grounding_compute_metrics",
        ],
        re=re,
        ast=ast,
        eval_logger=Silent(),
    )
    forms = (
        "The event happens in the {a} - {b} seconds.",
        "It starts at {a} and ends at {b}.",
        "{a}-{b}",
        "From {a}s to {b}s",
        "{b} to {a} seconds",
        "Start time: {a}\nEnd time: {b}",
        "<answer>{a} – {b}</answer>",
        "00:{c:02d} - 00:{d:02d}",
        "start 0:{c:02d}, end 0:{d:02d}",
        "01:00:{c:02d} to 1:00:{d:02d}",
        "At {a} it begins! It ends at {b}?",
        "happens at {a}",
        "none",
        "",
        "{a}, {b}, {a} - {b}",
        "A specific example is : 20.8 - 30.0 seconds {a} - {b}",
        "in frame 3, {a} - {b} to {b}",
    )
    cases = []
    for number in range(204):
        truth = sorted(round(float(one), 1) for one in rng.uniform(0, 30, 2))
        guess = [abs(round(float(one + rng.normal() * 3), 1)) for one in truth]
        text = forms[number % len(forms)].format(
            a=guess[0], b=guess[1], c=int(guess[0]), d=int(guess[1])
        )
        found = code["extract_time"](text)
        both = [truth, text, list(map(float, found[0])) if len(found) == 1 else None]
        cases.append([*both, code["iou"](truth, found[0]) if len(found) == 1 else 0.0])
    results = [{f"v{k}>>>c>>>{case[0]}": case[1]} for k, case in enumerate(cases)]
    totals = code["_temporal_grounding_compute_metrics"](results)
    what = "tasks/charades_sta/utils.py: [truth, response, interval, IoU]"
    write("charades_sta/scores.json", "lmms-eval", what, totals=totals, cases=cases)


OPEN_TRUTHS = (
    "Depth-First Search (DFS)",
    "resistance",
    "O(n²)",
    "O(n log n)",
    "3 seconds",
    "12.5",
    "1,200",
    "A",
    "high-pass filter",
    "red blood cell count of the host",
)
OPEN_FORMS = (
    "{t}",
    "",
    " ",
    "The answer is {t}.",
    "so it is {t}\nnot that",
    "{l}",
    "{u}!",
    "{f}",
    "x = {n}",
    "about {n} of them, in total {m}",
    "n = {m}",
    "Depth first, then search",
    "O(n^2) or O(N²)",
    "{r}",
    "The count of the red blood cell",
    "equals {c}. Therefore it has {m}",
    "filter: high pass",
    "a",
    "1e3",
    "0.{m}",
)


def open_cases(rng: np.random.Generator, number: int) -> list[tuple[str, str]]:
    """Ground truths, and responses that say some of them, or of their numbers."""
    cases = []
    for place in range(number):
        truth = OPEN_TRUTHS[place % len(OPEN_TRUTHS)]
        form = OPEN_FORMS[(place // len(OPEN_TRUTHS)) % len(OPEN_FORMS)]
        about = OPEN_TRUTHS[int(rng.integers(len(OPEN_TRUTHS)))] if rng.random() < 0.4 else truth
        numbers = re.findall(r"[\d.]+", about) or ["7"]
        words = about.split()
        cases.append(
            (
                truth,
                form.format(
                    t=about,
                    l=about.lower(),
                    u=about.upper(),
                    f=words[0],
                    n=numbers[0],
                    m=int(rng.integers(1, 2000)),
                    c=f"{int(rng.integers(1000, 2000)):,}",
                    r=" ".join(rng.permutation(words)),
                ),
            )
        )
    return cases


def mmvu(official: Path) -> None:
    """Responses that lmms-eval's rules accept, of both types of questions."""
    rng = np.random.default_rng(SEED + 11)
    code = parts(
        official / "lmms-eval/lmms_eval/tasks/mmvu/utils.py",
        ["evaluate_with_rule_based", "normalize_math_notation"],
        re=re,
        string=string,
        Dict=dict,
        Any=Any,
    )
    is_right = code["evaluate_with_rule_based"]
    choices = dict(zip("ABCDE", ("a red chair", "10.0", "Lenz's law", "on", "C"), strict=True))
    responses = [*MORE, *choices.values(), "a chair, an apple", *choice_responses(rng, 120)]
    doc: dict[str, Any] = {"question_type": "multiple-choice", "choices": choices}
    cases = [
        [letter, said, bool(is_right({**doc, "answer": letter}, said))]
        for said in responses
        for letter in "ABCDE"
    ]
    doc = {"question_type": "open-ended"}
    free = [
        [truth, said, bool(is_right({**doc, "answer": truth}, said))]
        for truth, said in open_cases(rng, 200)
    ]
    what = "tasks/mmvu/utils.py: [truth, response, right]"
    write("mmvu/rules.json", "lmms-eval", what, choices=choices, cases=cases, free=free)


def video_mmmu(official: Path) -> None:
    """Free answers that lmms-eval takes for right, None where it leaves them out, and its total."""
    rng = np.random.default_rng(SEED + 12)
    names = "parse_open_response normalize_str check_is_number extract_numbers eval_open"
    names += " eval_multi_choice evaluate_videommmu videommmu_aggregate_results extract_subset_name"
    names += " calculate_ins_level_acc DOMAIN_CAT2SUB_CAT"
    path = official / "lmms-eval/lmms_eval/tasks/videommmu/utils.py"
    code = parts(path, names.split(), re=re, defaultdict=defaultdict, print=lambda _: None)
    cases, results = [], []
    for number, (truth, said) in enumerate(open_cases(rng, 200)):
        parsed = code["parse_open_response"](said)
        right = None if parsed == "API Error" else bool(code["eval_open"](truth, parsed))
        cases.append([truth, said, right])
        result = {"id": f"dev_Art_{number}", "subdomain": "Art", "question_type": "open"}
        results.append({**result, "answer": truth, "parsed_pred": parsed})
    total = code["videommmu_aggregate_results"](results)
    what = "tasks/videommmu/utils.py: [truth, response, right]"
    write("video_mmmu/open.json", "lmms-eval", what, total=total, cases=cases)


def instances(
    rng: np.random.Generator, frames: int, near: list[list[Rle]] | None = None
) -> list[list[Rle]]:
    """Objects of up to `frames` masks of 24 × 30: new ones, or near given ones and a few new."""
    if near is not None:
        moved = [
            [
                Rle.from_array(np.roll(mask.to_array(), int(rng.integers(-2, 3)), axis=1))
                if rng.random() < 0.9
                else Rle.empty(24, 30)
                for mask in one
            ]
            for one in near
            if rng.random() < 0.8
        ]
        return moved + (instances(rng, frames) if rng.random() < 0.2 else [])
    found = []
    for _ in range(int(rng.choice([0, 1, 2, 4], p=[0.3, 0.3, 0.25, 0.15]))):
        top, left, height, width = (int(one) for one in rng.integers(3, 12, 4))
        masks = np.zeros((frames, 24, 30), bool)
        for frame in range(frames):
            if rng.random() < 0.85 or frame == 0:
                masks[frame, top : top + height, left + frame : left + frame + width] = True
        found.append([Rle.from_array(mask) for mask in masks])
    return found


def plain_tracks(tracks: list[list[Rle]]) -> list[list[str]]:
    """The run-lengths of objects."""
    return [[mask.counts for mask in one] for one in tracks]


def scored(rng: np.random.Generator, truth: list[list[Rle]], frames: int) -> dict[str, Any]:
    """Predictions near a truth, with scores, some of them just at the threshold."""
    said = instances(rng, frames, truth)
    said = [one for one in said if any(mask.area for mask in one)]
    scores = rng.choice([0.3, 0.5, 0.9], len(said), p=[0.15, 0.15, 0.7]).tolist()
    return {"predicted": said, "scores": scores}


def saco(official: Path) -> None:
    """Masks of images, and tracks."""
    saco_masks(official)
    veval(official)


def saco_masks(official: Path) -> None:
    """cgF1, pmF1 and IL_MCC of masks, with one and with three annotators."""
    evaluator = module(official / "sam3/sam3/eval/cgf1_eval.py").CGF1Evaluator
    rng = np.random.default_rng(SEED + 13)
    cases: list[dict[str, Any]] = []
    for _ in range(60):
        first = instances(rng, 1)
        second = first if rng.random() < 0.5 else instances(rng, 1, first)
        truths = [
            [one for one in each if one[0].area]
            for each in (first, instances(rng, 1, first), second)
        ]
        cases.append({"truths": truths, **scored(rng, truths[int(rng.integers(3))], 1)})
    totals = {}
    for count in (1, 3):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            paths = [str(Path(folder, f"{one}.json")) for one in range(count)]
            for annotator, path in enumerate(paths):
                listed = [
                    {
                        "image_id": k,
                        "category_id": 1,
                        "iscrowd": 0,
                        "segmentation": one[0].to_json(),
                    }
                    | {"area": one[0].area}
                    for k, case in enumerate(cases)
                    for one in case["truths"][annotator]
                ]
                numbered = [{**one, "id": k + 1} for k, one in enumerate(listed)]
                size = {"height": 24, "width": 30, "is_instance_exhaustive": 1}
                images = [{"id": k, **size} for k in range(len(cases))]
                plain = {"images": images, "annotations": numbered, "categories": [{"id": 1}]}
                Path(path).write_text(json.dumps(plain))
            said = [
                {"image_id": k, "category_id": 1, "score": score, "bbox": [0.0, 0.0, 1.0, 1.0]}
                | {"segmentation": one[0].to_json()}
                for k, case in enumerate(cases)
                for one, score in zip(case["predicted"], case["scores"], strict=True)
            ]
            Path(folder, "said.json").write_text(json.dumps(said))
            found = evaluator(paths, iou_type="segm").evaluate(str(Path(folder, "said.json")))
        names = {"cgF1": "cgF1", "pmF1": "positive_micro_F1", "IL_MCC": "IL_MCC"}
        totals[str(count)] = {name: found[f"cgF1_eval_segm_{key}"] for name, key in names.items()}
    for case in cases:
        case["truths"] = [plain_tracks(one) for one in case["truths"]]
        case["predicted"] = plain_tracks(case["predicted"])
    what = "cgf1_eval.py: masks of 24 × 30, scores; numbers by annotators"
    write("saco/masks.json", "sam3", what, totals=totals, cases=cases)


def veval_numbers(official: Path, truth: Path, said: Path) -> dict[str, float]:
    """cgF1 and pHOTA of masks by SAM 3's evaluators, their other imports replaced by nothing."""
    place = official / "sam3/sam3"
    packages = "sam3 sam3.train sam3.train.utils sam3.model iopath iopath.common"
    for name in packages.split():
        stub(name, __path__=[str(place)] if name == "sam3" else [])
    stub("iopath.common.file_io", g_pathmgr=None)
    stub("sam3.train.utils.distributed")
    stub("sam3.train.masks_ops", rle_encode=None)
    stub("sam3.model.box_ops", box_xywh_inter_union=None)
    stub("sam3.eval.coco_eval_offline", convert_to_xywh=None)
    stub("sam3.train.nms_helper", process_frame_level_nms=None, process_track_level_nms=None)
    stub("sam3.eval.teta_eval_toolkit", config=None, Evaluator=None, metrics=None, __path__=[])
    stub("sam3.eval.teta_eval_toolkit.datasets", COCO=None, TAO=None)
    names = {"convert_ytbvis_to_cocovid_gt": None, "convert_ytbvis_to_cocovid_pred": None}
    stub("sam3.eval.conversion_util", **names)
    code = importlib.import_module("sam3.eval.saco_veval_evaluators")
    # Numbers of single pairs, which today's numpy refuses.
    code.VideoCGF1Evaluator.extract_video_np_level_results = lambda *_: None
    with contextlib.redirect_stdout(io.StringIO()):
        found, _ = code.VideoCGF1Evaluator(str(truth), iou_types=["segm"]).evaluate(str(said))
        tracked = code.VideoPhraseHotaEvaluator(str(truth), iou_types=["segm"])
        found |= tracked.evaluate(str(said))[0]
    keys = {"cgF1": "demo_cgf1_micro_50_95", "pmF1": "demo_positive_micro_f1_50_95"}
    keys |= {"IL_MCC": "demo_ilmcc_50_95", "pHOTA": "all_phrase_HOTA"}
    keys |= {"pDetA": "all_phrase_DetA", "pAssA": "all_phrase_AssA"}
    return {name: float(found[f"video_mask_{key}"]) for name, key in keys.items()}


def veval(official: Path) -> None:
    """cgF1 and pHOTA of pairs of a video of five frames and a phrase."""
    multiprocessing.set_start_method("fork", force=True)  # its workers see the stubs
    rng = np.random.default_rng(SEED + 14)
    cases: list[dict[str, Any]] = []
    for _ in range(40):
        true = instances(rng, 5)
        cases.append({"true": true, **scored(rng, true, 5)})
    with tempfile.TemporaryDirectory() as folder:
        truth, said = Path(folder, "truth.json"), Path(folder, "said.json")
        size = {"height": 24, "width": 30}

        def track(k: int, masks: list[Rle]) -> dict[str, Any]:
            boxes = [None if not one.area else [0.0, 0.0, 1.0, 1.0] for one in masks]
            return {
                **{"video_id": k, "category_id": 1, "iscrowd": 0, "bboxes": boxes},
                "segmentations": [one.to_json() if one.area else None for one in masks],
                "areas": [one.area or None for one in masks],
            }

        pairs = [{"id": k, "video_id": k, "category_id": 1} for k in range(len(cases))]
        videos = [
            {"id": k, "file_names": [f"v{k}/{one}.jpg" for one in range(5)], **size}
            for k in range(len(cases))
        ]
        every = [track(k, one) for k, case in enumerate(cases) for one in case["true"]]
        plain = {"videos": videos, "categories": [{"id": 1, "name": "x"}], "video_np_pairs": pairs}
        plain["annotations"] = [{**one, "id": k + 1} for k, one in enumerate(every)]
        truth.write_text(json.dumps(plain))
        predictions = [
            {**track(k, one), "score": score}
            for k, case in enumerate(cases)
            for one, score in zip(case["predicted"], case["scores"], strict=True)
        ]
        said.write_text(json.dumps(predictions))
        totals = veval_numbers(official, truth, said)
    for case in cases:
        case |= {name: plain_tracks(case[name]) for name in ("true", "predicted")}
    what = "saco_veval_evaluators.py: tracks of five masks of 24 × 30, scores"
    write("saco/tracks.json", "sam3", what, totals=totals, cases=cases)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", type=Path, required=True)
    given = parser.parse_args().official.resolve()
    replace_scikit_image()
    for make in (
        points,
        reason_vos,
        ref_sav,
        video_mme_v2,
        letters,
        revsi,
        charades_sta,
        mmvu,
        video_mmmu,
        saco,
    ):
        make(given)
