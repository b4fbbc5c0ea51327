"""Write the golden files of benchmarks whose authors read responses otherwise than lmms-eval does.

    python tests/golden/make_authors.py --official FOLDER

FOLDER holds checkouts under the names and at the commits of `COMMITS` below. Their functions are
compiled from there, without what they import; none of their code is kept here.
"""

import argparse
import ast
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np
from answers import choice_responses
from checkouts import COMMITS, inside, parts, write
from make_benchmarks import LETTERS, MORE, NoRandom, open_cases

SEED = 20261127
COMMITS |= {
    "BLINK_Benchmark": "2d6a779be4aa1ad0d38d7aa539bcb43b6dd81592",
    "MMSI-Bench": "4e28bffff2ba779843a46e76b73bff7fbc299485",
    "VideoMMMU": "88b4ac3e07326eaabda3a4afe8e7f30dd02bc143",
    "Ask-Anything": "4dd8210b030374bb0c510a57dfbe916f70d3ef71",
    "MindCube": "6d8fd9acdf5b80769373a21cdbfcf068ab356e0f",
    "ViewSpatial-Bench": "2e85a5e41a29e7919b1d326d8aba316661579983",
    "SITE-Bench": "36295bbf129cb5f2b3c3c51f61011b93162c5e2b",
}
OPTIONS = ("the left side", "right", "a very long way up", "down", "none of these")
TOLD = (
    "It is (B) right",
    "(A) is not it.\n\nIt is (B) right",
    "(A)\n\n(C) or (D)",
    "(A) and (C) and\n\nneither",
    "(E)",
    "Failed to obtain answer via API.",
    "API Error",
    "It has to be on the left side of it, or so",
    "It went down and then a very long way up, I am sure",
    "A. or B: or C.",
    "A: or B:",
    "B) left",
    "I say B since A is not it",
    "<answer>B</answer>",
    "A.left B",
    ".(b). It",
    "` A ` or B",
    "``b``",
    "a",
    "a dog",
    ".",
    "the",
    "\n B because",
)


def responses(rng: np.random.Generator, number: int = 160) -> list[str]:
    """What models say, by hand and from a seed."""
    return [*TOLD, *MORE, *choice_responses(rng, number)]


def from_class(path: Path, name: str, function: str, **namespace: Any) -> Any:
    """Compile a static method of a class, without the class."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == name:
            found = [one for one in node.body if getattr(one, "name", "") == function]
            for one in found:
                one.decorator_list = []  # type: ignore[attr-defined]
            exec(compile(ast.Module(found[:1], []), str(path), "exec"), namespace)
            return namespace[function]
    raise SystemExit(f"{path}: no {name}.{function}")


def from_notebook(path: Path, function: str) -> Any:
    """Compile a function of a notebook."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if f"def {function}(" in source:
            namespace: dict[str, Any] = {}
            exec(compile(source, str(path), "exec"), namespace)
            return namespace[function]
    raise SystemExit(f"{path}: no {function}")


def readers(official: Path) -> dict[str, tuple[str, Callable[[str], str | None]]]:
    """The repository and the reader of each benchmark."""
    blink = parts(
        official / "BLINK_Benchmark/eval/test_benchmark.py",
        ["analyze_answer"],
        match_multiple_choice=lambda *_: None,
    )["analyze_answer"]
    mmsi = from_class(
        official / "MMSI-Bench/vlmeval/dataset/mmsi_bench.py",
        "MMSIBenchDataset",
        "extract_single_choice_with_word_boundary",
        re=re,
    )
    check = from_notebook(official / "Ask-Anything/video_chat2/mvbench.ipynb", "check_ans")
    names = {"re": re, "np": np, "Optional": Optional, "random": NoRandom}
    video = parts(
        official / "VideoMMMU/lmms_eval/tasks/videommmu/utils.py",
        ["parse_multi_choice_response", "get_multi_choice_info"],
        **names,
    )
    index, choices = video["get_multi_choice_info"](list(OPTIONS))
    mind = parts(
        official / "MindCube/src/evaluation/core/extractors.py", ["extract_answer"], **names
    )["extract_answer"]
    view = parts(official / "ViewSpatial-Bench/evaluate.py", ["extract_option"], **names)
    site = parts(
        official / "SITE-Bench/eval_scripts/sitebench/utils.py",
        ["parse_multi_choice_response"],
        **names,
    )["parse_multi_choice_response"]
    gpt = ["(A)", "(B)", "(C)", "(D)"]

    def mvbench(said: str) -> str | None:
        line = said.strip().split("\n")[0]  # as `infer_mvbench` keeps it
        fitting = [one for one in LETTERS if check(line, f"({one}) an option")]
        return "".join(fitting) or None

    def videommmu(said: str) -> str | None:
        found = video["parse_multi_choice_response"](said, choices, index)
        return found if len(found) == 1 else None

    return {
        "blink": (
            "BLINK_Benchmark",
            lambda said: (
                (blink({"question": "", "choices": OPTIONS[:4]}, said, gpt) or "()")[1:-1] or None
            ),
        ),
        "mmsi": ("MMSI-Bench", mmsi),
        "mvbench": ("Ask-Anything", mvbench),
        "video_mmmu": ("VideoMMMU", videommmu),
        "mindcube": ("MindCube", mind),
        "view_spatial": (
            "ViewSpatial-Bench",
            lambda said: view["extract_option"](said.split("\n")[-1]),
        ),
        "site": ("SITE-Bench", lambda said: site(said.strip(), list("ABCD"))),
    }


def letters(official: Path) -> None:
    """Letters that the authors' readers take from responses, each in a file of its own."""
    rng = np.random.default_rng(SEED)
    said = responses(rng)
    for name, (tool, read) in readers(official).items():
        cases = [[one, read(one) or None] for one in said]
        what = "[response, letter; of mvbench, every letter that fits]"
        write(f"letters/{name}.json", tool, what, options=OPTIONS, cases=cases)


def blink(official: Path) -> None:
    """Accuracies of tasks, and their mean, by `eval_prediction` of evaluate.py."""
    rng = np.random.default_rng(SEED + 1)
    tree = ast.parse((official / "BLINK_Benchmark/eval/evaluate.py").read_text("utf-8"))
    tasks = next(
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "subtasks"
    )
    code = parts(
        official / "BLINK_Benchmark/eval/evaluate.py",
        ["eval_prediction"],
        json=json,
        subtasks=tasks,
        print=lambda *_: None,
    )
    cases = [
        [f"val_{task}_{place + 1}", task, f"({'ABCD'[int(rng.integers(4))]})"]
        for number, task in enumerate(tasks)
        for place in range(3 + number)
    ]
    odd = ("(C) Point C", "(Z) Failed to get multiple choice", "", "(A) or (B)", "(a)", "(A) ")
    for number, case in enumerate(cases):
        if number % 9 == 0:
            case.append(odd[number // 9 % len(odd)])
            continue
        case.append(case[2] if rng.random() < 0.6 else f"({'ABCD'[int(rng.integers(4))]})")
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        Path("val_predictions").mkdir()
        Path("val_answers.json").write_text(json.dumps({one[0]: one[2] for one in cases}))
        Path("val_predictions/ours.json").write_text(json.dumps({one[0]: one[3] for one in cases}))
        totals = code["eval_prediction"]("val", "ours")
    what = "eval/evaluate.py: [id, task, truth, prediction]"
    write("blink/scores.json", "BLINK_Benchmark", what, totals=totals, cases=cases)


def video_mmmu(official: Path) -> None:
    """Questions of both types, right or left out, and their mean, by Video-MMMU's own code."""
    rng = np.random.default_rng(SEED + 2)
    names = "parse_open_response normalize_str check_is_number extract_numbers eval_open"
    names += " eval_multi_choice evaluate_mmmu videoperception_aggregate_results"
    names += " videoperception_process_results get_multi_choice_info extract_subset_name"
    names += " parse_multi_choice_response calculate_ins_level_acc DOMAIN_CAT2SUB_CAT"
    code = parts(
        official / "VideoMMMU/lmms_eval/tasks/videommmu/utils.py",
        names.split(),
        re=re,
        np=np,
        defaultdict=defaultdict,
        print=lambda _: None,
    )
    free = [(truth, said, None) for truth, said in open_cases(rng, 90)]
    chosen = [
        (LETTERS[int(rng.integers(4))], said, list(OPTIONS))
        for said in responses(rng, 60)
        if "</answer>" not in said
    ]
    failed = [("A", "", list(OPTIONS)), ("red", "API Error", None), ("12", "", None)]
    cases, results = [], []
    for number, (truth, said, options) in enumerate([*failed, *free, *chosen]):
        kind = "open" if options is None else "multiple-choice"
        doc = {"id": f"dev_Art_{number}", "question_type": kind, "answer": truth}
        found = code["videoperception_process_results"]({**doc, "options": options}, [said])
        results.append(found["mmmu_acc"])
        alone = code["videoperception_aggregate_results"]([results[-1]])
        left_out = results[-1]["parsed_pred"] == "API Error"
        cases.append([truth, said, options, None if left_out else bool(alone)])
    total = code["videoperception_aggregate_results"](results)
    what = "tasks/videommmu/utils.py: [truth, response, options, right]"
    write("video_mmmu/official.json", "VideoMMMU", what, total=total, cases=cases)


def number(rng: np.random.Generator) -> str:
    """A coordinate as models write it."""
    kind = int(rng.integers(7))
    share, whole = rng.uniform(-0.1, 1.2), int(rng.integers(0, 60))
    return [f"{share:.3f}", f"{abs(share):.2f}", str(whole), "1.", f"+{abs(share):.1f}", "-3", "0"][
        kind
    ]


def tuples(rng: np.random.Generator) -> str:
    """Tuples of two numbers, a few of other lengths and other brackets, between words."""
    pieces = []
    for _ in range(int(rng.integers(5))):
        length = int(rng.choice([1, 2, 2, 2, 2, 3, 4]))
        inner = ("," if rng.random() < 0.3 else ", ").join(number(rng) for _ in range(length))
        left, right = [("(", ")"), ("(", ")"), ("[", "]"), ("( ", " )")][int(rng.integers(4))]
        pieces.append(left + inner + right)
    words = ["", " the cup (left) at ", "[", "\n"]
    return "".join(words[int(rng.integers(4))] + one for one in pieces) + "]"


SHOWN = 12
HAND = (
    '<points x1="12.5" y1="50" x2="70." y2="-1">cups</points>',
    'x1="1" y1="2" and x2="3" y1=4"',
    '```json\n[{"point": [250, 500], "label": "a"}, {"point": [10, 999.5]}]\n```',
    '```json\n[{"point_2d": [10, 20], "label": "a"}, {"point_2d": [3.5, 4]}]\n```',
    "[10, 20], [5, 6]",
    "[[.5, 0.25]]",
    "[0.5,0.25, 3]",
    "10, 20 and 3 4",
    "nothing",
)


def found(read: Callable[..., Any], *given: Any) -> list[list[float]]:
    """The points of an official reader; none where it ends with an error."""
    try:
        return [[float(x), float(y)] for x, y in read(*given)]
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError):
        return []


def points(official: Path) -> None:
    """Points that the official scripts of pointing read from texts."""
    names = {"np": np, "re": re, "json": json, "List": list, "ast": ast}
    robo_refer = parts(
        official / "RoboRefer/Evaluation/summarize_acc.py",
        ["text2pts", "xml2pts", "json2pts"],
        **names,
    )
    robo_point = parts(
        official / "RoboPoint/robopoint/eval/summarize_vqa.py", ["text2pts"], **names
    )
    lmms = parts(
        official / "lmms-eval/lmms_eval/tasks/where2place/utils.py", ["_text2pts"], **names
    )
    spatial = parts(
        official / "RoboSpatial-Eval/evaluation.py",
        ["point_in_polygon", "evaluate_answer"],
        **names,
    )

    def share(text: str, width: int, height: int) -> list[Any]:
        _, _, point, _ = spatial["evaluate_answer"]("[(0, 0), (1, 0), (1, 1)]", text)
        return [] if point is None else [point]

    for name, tool, read in (
        ("refspatial_texts", "RoboRefer", robo_refer["text2pts"]),
        ("xml", "RoboRefer", robo_refer["xml2pts"]),
        ("gemini", "RoboRefer", robo_refer["json2pts"]),
        ("where2place_texts", "RoboPoint", robo_point["text2pts"]),
        ("white_texts", "lmms-eval", lmms["_text2pts"]),
        ("robospatial_texts", "RoboSpatial-Eval", share),
    ):
        rng = np.random.default_rng(SEED + 3)
        texts = [*HAND, *(tuples(rng) for _ in range(120))]
        sizes = [[int(v) for v in rng.integers(8, 30, 2)] for _ in texts]
        cases = []
        for text, size in zip(texts, sizes, strict=True):
            each = found(read, text, *size)  # a rectangle may have thousands
            cases.append([text, size, len(each), each[:SHOWN]])
        what = f"[text, [width, height], number of points, first {SHOWN} points]"
        write(f"pointing/{name}.json", tool, what, cases=cases)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", type=Path, required=True)
    given = parser.parse_args().official.resolve()
    sys.setrecursionlimit(10_000)
    for make in (letters, blink, video_mmmu, points):
        make(given)
