"""Write the golden files of the spatial benchmarks: what official code makes of the examples.

    python tests/golden/make_spatial.py --official FOLDER

FOLDER holds checkouts named `STI-Bench`, `thinking-in-space`, `spar` and `V-STaR` at the commits
that `checkouts.py` lists; their code is imported or compiled from there, without what it imports,
and none of it is kept here. What it reads are the examples that are committed beside the tasks:
questions as they are put to a model, the files that they show, and scores of responses from a seed.
The tools need pandas, which harness does not.
"""

import argparse
import ast
import hashlib
import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from answers import choice_responses, number_responses, view_changes
from checkouts import Silent, inside, parts, watching, whole, write

TASKS = Path(__file__).resolve().parents[2] / "tasks"
SEED = 20250103
ROUNDS = 8  # responses a question
KEYS = (
    "VQA_score",
    "temporal_IoU",
    "temporal_IoU_2",
    "spatial_mIoU",
    "spatial_mIoU_2",
    "AP1@0.1:0.9",
    "AP2@0.1:0.9",
)


def example(name: str) -> Path:
    """The committed example of a benchmark."""
    return TASKS / name / "example" / name


def nested(path: Path, names: tuple[str, ...], **namespace: Any) -> dict[str, Any]:
    """Run the assignments to these names that stand anywhere in a file, in its order."""
    found = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names
    ]
    found.sort(key=lambda node: node.lineno)
    exec(compile(ast.Module(found, []), str(path), "exec"), namespace)
    return namespace


def sti_bench(official: Path) -> None:
    """The prompt of every row (its empty letters left out), its scene, and letters of responses."""
    path = official / "STI-Bench/opensource_test.py"
    reading = parts(path, ["extract_answer", "ANSWER_PATTERNS", "scene_type"], re=re)
    key = parts(official / "STI-Bench/openai_test.py", ["make_key"], Dict=dict)["make_key"]
    rng = np.random.default_rng(SEED)
    questions, cases, correct = [], [], []
    for entry in pd.read_parquet(example("sti_bench") / "qa.parquet").to_dict(orient="records"):
        given = entry["Candidates"]
        entry["Candidates"] = {letter: text for letter, text in given.items() if text is not None}
        requested = nested(path, ("cand_str", "(ts, te)", "prompt_txt"), entry=entry)
        scene = reading["scene_type"](entry["Video"])
        questions.append([key(entry), requested["prompt_txt"], entry["Video"], scene])
        for response in choice_responses(rng, ROUNDS):
            output = reading["extract_answer"](response) or response.strip()
            right = bool(output) and output[-1] in "ABCDE" and output[-1] == entry["Answer"]
            cases.append([key(entry), response, right])
            correct.append([entry["Task"], scene, right])
    frame = pd.DataFrame(correct, columns=["Task", "scene", "correct"])
    totals = {
        "accuracy": frame["correct"].mean(),
        "task": frame.groupby("Task")["correct"].mean().to_dict(),
        "scene": frame.groupby("scene")["correct"].mean().to_dict(),
    }
    write(
        "readers/sti_bench.json",
        "STI-Bench",
        "opensource_test.py: [id, prompt, video, scene]; [id, response, correct]; empty is wrong",
        totals=totals,
        questions=questions,
        cases=cases,
    )


def vsi_bench(official: Path) -> None:
    """Prompt and video of every document, and scores of responses."""
    module = whole(official / "thinking-in-space/lmms_eval/tasks/vsibench/utils.py")
    rng = np.random.default_rng(SEED + 1)
    lines = (example("vsi_bench") / "test.jsonl").read_text("utf-8").splitlines()
    questions, cases, docs = [], [], []
    with inside(str(example("vsi_bench"))):
        for doc in map(json.loads, lines):
            module.base_cache_dir = "."
            (video,) = module.vsibench_doc_to_visual(doc)
            prompt = module.vsibench_doc_to_text(doc, {})
            questions.append([str(doc["id"]), prompt, str(Path(video))])
            for response in _responses(rng, doc["ground_truth"], doc["options"] is None):
                info = dict(doc)
                module.vsibench_process_results(info, [response])
                name = "MRA:.5:.95:.05" if doc["options"] is None else "accuracy"
                cases.append([str(doc["id"]), response, float(info[name])])
                docs.append(info)
    with watching("vsibench_aggregate_results") as seen:
        module.vsibench_aggregate_results(docs)
    totals = {
        key.partition("_accuracy")[0].partition("_MRA")[0]: float(value)
        for key, value in seen[0]["output"].items()
    }
    write(
        "readers/vsi_bench.json",
        "thinking-in-space",
        "tasks/vsibench/utils.py: [id, prompt, video]; [id, response, score]",
        totals=totals,
        questions=questions,
        cases=cases,
    )


def _responses(rng: np.random.Generator, ground_truth: str, numeric: bool) -> list[str]:
    if numeric:
        return number_responses(rng, float(ground_truth), ROUNDS)
    return [f"{ground_truth}. it", ground_truth, *choice_responses(rng, ROUNDS - 2)]


def spar_bench(official: Path) -> None:
    """Prompt and images of every row, and scores of responses."""
    module = whole(official / "spar/lmms-eval/lmms_eval/tasks/sparbench/utils.py")
    rng = np.random.default_rng(SEED + 2)
    questions, cases, docs = [], [], []
    (path,) = example("spar_bench").glob("SPAR-Bench/data/test-*.parquet")
    for doc in pd.read_parquet(path).to_dict(orient="records"):
        shown = [
            hashlib.blake2b(one["bytes"], digest_size=16).hexdigest()
            for one in module.sparbench_doc_to_visual(doc)
        ]
        prompt = module.sparbench_doc_to_text(doc, {})
        questions.append([str(doc["id"]), prompt, shown])
        for response in _spar_responses(rng, doc):
            info = dict(doc)
            module.sparbench_process_results(info, [response])
            name = next(key for key in ("accuracy", "MRA:.5:.95:.05", "vci_metric") if key in info)
            cases.append([str(doc["id"]), response, float(info[name])])
            docs.append(info)
    with watching("sparbench_aggregate_results") as seen:
        module.sparbench_aggregate_results(docs)
    totals = {
        re.sub("_(accuracy|MRA.*|vci_metric)$", "", key): float(value)
        for key, value in seen[0]["output"].items()
    }
    write(
        "readers/spar_bench.json",
        "spar",
        "tasks/sparbench/utils.py: [id, prompt, digests of images]; [id, response, score]",
        totals=totals,
        questions=questions,
        cases=cases,
    )


def _spar_responses(rng: np.random.Generator, doc: dict[str, Any]) -> list[str]:
    if doc["task"] == "view_change_infer":
        return ["", doc["answer"], *(view_changes(rng)[0] for _ in range(ROUNDS - 2))]
    return ["", *_responses(rng, doc["answer"], doc["task"].startswith(("depth", "distance_p")))]


def v_star(official: Path) -> None:
    """The five prompts of every item, and what responses to them score."""
    demo = official / "V-STaR/inference_demo.py"
    requested: list[str] = []

    def inference(video: str, prompt: Any, **_: Any) -> tuple[str, int, int]:
        requested.append(prompt[0] if isinstance(prompt, tuple) else prompt)
        return "", 1, 1

    steps = ["vqa", "temporal", "spatial", "spatial_2", "temporal_2"]
    functions = parts(
        demo,
        [
            *(f"get_answer_{step}" for step in steps),
            "extract_timestamps",
            "fix_incomplete_json",
            "extract_bounding_boxes",
        ],
        inference=inference,
        math=math,
        re=re,
        json=json,
        print=Silent(),
    )
    items = json.loads((example("v_star") / "V_STaR_test.json").read_text("utf-8"))
    rng = np.random.default_rng(SEED + 3)
    questions, info = [], []
    for item in items:
        boxes = [[box[side] for side in ("xmin", "ymin", "xmax", "ymax")] for box in item["bboxes"]]
        for step in steps:
            given = (boxes,) if step.endswith("_2") else ()
            functions[f"get_answer_{step}"](item, "", *given)
        questions.append([item["vid"], requested[-5:]])
        info += [_told(rng, item, functions) for _ in range(ROUNDS)]

    class Judge:
        def __init__(self) -> None:
            self.ratings = iter([one["rating"] for one in info if one["answer_vqa"]])

        def __call__(self, *_: Any) -> int:
            return next(self.ratings)

    names = [
        "calculate_temporal_iou",
        "compute_iou",
        "calculate_bbox_iou",
        "calculate_spatial_metrics",
        "calculate_spatial_random",
        "evaluate_json",
    ]
    scoring = parts(
        official / "V-STaR/eval.py",
        names,
        ast=ast,
        np=np,
        math=math,
        json=json,
        tqdm=lambda items, **_: items,
        qwen2_5_evaluation=Judge(),
    )
    with tempfile.TemporaryDirectory() as folder, inside(folder), watching("print_stats") as seen:
        Path("metrics").mkdir()
        Path("results.json").write_text(json.dumps(info))
        scoring["evaluate_json"]("results.json")
        (written,) = Path("metrics").iterdir()
        scored = json.loads(written.read_text())
    overall = {key: value for key, value in seen[0].items() if isinstance(value, float)}
    cases = [
        [
            one["vid"],
            one["responses"],
            one["rating"],
            {key: done[key] for key in KEYS if key in done},
        ]
        for one, done in zip(info, scored, strict=True)
    ]
    write(
        "readers/v_star.json",
        "V-STaR",
        "inference_demo.py: [vid, prompts]; eval.py: [vid, responses, rating, scores]",
        totals=overall,
        questions=questions,
        cases=cases,
    )


def _told(
    rng: np.random.Generator, item: dict[str, Any], reading: dict[str, Any]
) -> dict[str, Any]:
    """An item with answers, read from responses as the official demo reads them."""
    start, end = item["timestamps"]
    what = ["", item["answer"], "no idea", "a red one"][rng.integers(4)]
    when = [_time_response(rng, start, end) for _ in range(2)]
    where = [_box_response(rng, item["bboxes"]) for _ in range(2)]
    spatial = [reading["extract_bounding_boxes"](response, item, 1, 1) for response in where]
    temporal = [reading["extract_timestamps"](response) for response in when]
    return {
        **item,
        "answer_vqa": what,
        "rating": 3 if what == item["answer"] else int(rng.integers(-1, 4)),
        "responses": [what, when[0], where[0], where[1], when[1]],
        "answer_temporal": temporal[0],
        "answer_temporal_2": temporal[1],
        "answer_spatial": spatial[0],
        "answer_spatial_2": spatial[1],
    }


def _time_response(rng: np.random.Generator, start: float, end: float) -> str:
    first, last = start + float(rng.integers(-1, 3)), end + float(rng.integers(-2, 2))
    forms = ("From {} to {} seconds.", "{}s - {}s", "<{}, {}>", "at {}, not after {} or 3", "never")
    return str(rng.choice(forms)).format(abs(first), abs(last))


def _box_response(rng: np.random.Generator, boxes: list[dict[str, Any]]) -> str:
    """Boxes near the true ones, in one of the forms that models write."""
    near = {
        box["timestamp"]: [
            box[side] + int(rng.integers(-3, 4)) * int(rng.integers(0, 2))
            for side in ("xmin", "ymin", "xmax", "ymax")
        ]
        for box in boxes
        if rng.random() < 0.8
    }
    texts = {str(time): box for time, box in near.items()}
    forms = (
        json.dumps(texts),
        f"Here it is:\n```json\n{json.dumps(texts, indent=1)}\n```\nI am sure.",
        str(texts),
        json.dumps({f"{time}.0": box for time, box in near.items()}),
        json.dumps([{time: box} for time, box in texts.items()]),
        json.dumps([[time, box] for time, box in near.items()]),
        json.dumps({time: [box, [0, 0, 9, 9]] for time, box in texts.items()}),
        json.dumps(texts)[:-3],
        json.dumps(list(near.values())),
        "It is nowhere.",
        json.dumps(dict.fromkeys(texts, "left")),
        f"[{json.dumps(texts)}",
    )
    return forms[int(rng.integers(len(forms)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", type=Path, required=True)
    official = parser.parse_args().official.resolve()
    for make in (sti_bench, vsi_bench, spar_bench, v_star):
        make(official)


if __name__ == "__main__":
    main()
