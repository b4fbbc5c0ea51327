"""Write the golden files of answers: our inputs from a seed, the official tools' outputs.

    python tests/golden/make_answers.py --official FOLDER

FOLDER holds checkouts named `parse_answer`, `TempCompass`, `spar`, `STI-Bench`,
`thinking-in-space` and `lmms-eval` at the commits that `checkouts.py` lists. Their code is
imported or compiled from there, without what it imports; none of it is kept here. The tools need
pandas, which harness does not.
"""

import argparse
import ast
import json
import re
import sys
import tempfile
import types
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from answers import CAPTIONS, OPTIONS, choice_responses, number_responses, spoilt, view_changes
from checkouts import Silent, inside, parts, watching, whole, write

from harness.metrics import choices, spar, vsi

SEED = 20250102


def video_mme(official: Path) -> None:
    """Letters, and numerator and denominator for each duration and for all."""
    module = whole(official / "parse_answer/eval_your_results.py")
    rng = np.random.default_rng(SEED)
    responses = choice_responses(rng, 900)
    rows, results = [], []
    for place, response in enumerate(responses):
        duration, answer = ("short", "medium", "long")[place // 300], "ABCD"[rng.integers(4)]
        rows.append([duration, response, answer, module.extract_characters_regex(response)])
        task = str(rng.choice(module.TASK_CATEGORIES))
        question = {"task_type": task, "answer": answer, "response": response}
        results.append(
            {
                "duration": duration,
                "domain": module.CATEGORIES[place % 6],
                "sub_category": "Law",
                "questions": [question],
            }
        )
    with tempfile.TemporaryDirectory() as folder, watching("eval_your_results") as seen:
        path = Path(folder, "results.json")
        path.write_text(json.dumps(results))
        module.eval_your_results(str(path), video_types="short,medium,long")
    totals = {"all": [int(seen[0]["total_correct"]), int(seen[0]["total_answered"])]}
    for duration, kinds in seen[0]["q_type_dict"].items():
        totals[duration] = [
            int(sum(kind[name] for kind in kinds.values())) for name in ("correct", "answered")
        ]
    write(
        "video_mme/choices.json",
        "parse_answer",
        "eval_your_results.py: [duration, response, answer, letter], [correct, answered]",
        totals=totals,
        cases=rows,
    )


def longvideobench(official: Path) -> None:
    """Letters (none where the official code draws one), and the accuracy with our draw."""
    drawn: list[str] = []
    requested = {"id": ""}

    def choice(letters: Sequence[str]) -> str:
        drawn.append(requested["id"])
        return choices.seeded_choice(requested["id"], letters)

    names = [
        "parse_multi_choice_response",
        "longvideobench_process_results",
        "eval_multi_choice",
        "evaluate_longvideobench",
        "calculate_ins_level_acc",
        "longvideobench_aggregate_results",
    ]
    functions = parts(
        official / "lmms-eval/lmms_eval/tasks/longvideobench/utils.py",
        names,
        re=re,
        random=types.SimpleNamespace(choice=choice),
        eval_logger=Silent(),
        defaultdict=defaultdict,
    )
    rng = np.random.default_rng(SEED + 1)
    rows, results = [], []
    for place, response in enumerate(choice_responses(rng, 500)):
        requested["id"], count = f"video_{place}", int(rng.integers(2, 6))
        right = int(rng.integers(count))
        doc = {
            "id": requested["id"],
            "duration_group": [15, 60, 600, 3600][place % 4],
            "question_category": ["E2O", "T3O"][place % 2],
            "correct_choice": right,
        }
        doc |= {f"option{i}": "x" if i < count else "N/A" for i in range(5)}
        result = functions["longvideobench_process_results"](doc, [response])["lvb_acc"]
        results.append(result)
        letter = None if requested["id"] in drawn else result["parsed_pred"]
        rows.append([requested["id"], response, count, result["answer"], letter])
    accuracy = functions["longvideobench_aggregate_results"](results)
    write(
        "longvideobench/choices.json",
        "lmms-eval",
        "tasks/longvideobench/utils.py: [id, response, options, answer, letter or null for a draw]",
        accuracy=accuracy,
        cases=rows,
    )


def sti_bench(official: Path) -> None:
    """What counts as correct; null where the official code fails."""
    path = official / "STI-Bench/opensource_test.py"
    functions = parts(path, ["ANSWER_PATTERNS", "extract_answer"], re=re)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    rules = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and "model_out" in ast.unparse(node)
    ]
    rule = eval(ast.unparse(rules[0]))
    rng = np.random.default_rng(SEED + 2)
    rows = []
    for response in choice_responses(rng, 500):
        output = functions["extract_answer"](response) or response.strip()
        letters = [x for x in "ABCDE" if output and rule({"model_out": output, "ans": x})]
        rows.append([response, letters[0] if letters else None])
    write(
        "sti_bench/choices.json",
        "STI-Bench",
        "opensource_test.py: [response, answer that it meets]",
        cases=rows,
    )


def vsi_bench(official: Path) -> None:
    """Scores of the paper's code and of lmms-eval's, and their averages."""
    for tool, name in (("thinking-in-space", "official"), ("lmms-eval", "lmms2026")):
        module = whole(official / tool / "lmms_eval/tasks/vsibench/utils.py")
        rng = np.random.default_rng(SEED + 3)
        rows, docs = [], []
        kinds = (*vsi.CHOICE_TYPES, *vsi.NUMBER_TYPES)
        for place in range(800):
            kind = kinds[place % len(kinds)]
            doc: dict[str, Any] = {"question_type": kind}
            if kind in vsi.CHOICE_TYPES:
                doc["ground_truth"] = "ABCD"[rng.integers(4)]
                response = (
                    choice_responses(rng, 1)[0] if place % 3 else f"{doc['ground_truth']}. it"
                )
            else:
                ground_truth = float(rng.choice([1, 2, 3, 7, 0.4, 1.6, 12.5, 36.0]))
                doc["ground_truth"] = f"{ground_truth:g}"
                response = number_responses(rng, ground_truth, 1)[0]
            module.vsibench_process_results(doc, [response])
            score = doc["accuracy" if kind in vsi.CHOICE_TYPES else "MRA:.5:.95:.05"]
            docs.append(doc)
            rows.append([kind, response, doc["ground_truth"], float(score)])
        if name == "official":
            with watching("vsibench_aggregate_results") as seen:
                module.vsibench_aggregate_results(docs)
            output = seen[0]["output"]
        else:
            output = module._compute_all_subscores(docs)
        totals = {
            key.partition("_accuracy")[0].partition("_MRA")[0]: float(value)
            for key, value in output.items()
        }
        write(
            f"vsi_bench/{name}.json",
            tool,
            "tasks/vsibench/utils.py: [type, response, ground truth, score]",
            totals=totals,
            cases=rows,
        )


def vsi_numbers(official: Path) -> None:
    """The numbers that lmms-eval finds in responses."""
    module = whole(official / "lmms-eval/lmms_eval/tasks/vsibench/utils.py")
    rng = np.random.default_rng(SEED + 13)
    words = [*module._NUMBER_WORDS, "and", "and", "a", "of", "-", ",", "7", "0.5", "hundred"]
    responses = number_responses(rng, 3.0, 150)
    for _ in range(150):
        chosen = [words[int(place)] for place in rng.integers(len(words), size=rng.integers(1, 8))]
        responses.append(" ".join(chosen))
    rows = [
        [response, module.extract_number(response)] for response in responses if len(response) < 500
    ]
    write(
        "vsi_bench/numbers.json",
        "lmms-eval",
        "tasks/vsibench/utils.py: [response, number]",
        cases=rows,
    )


def spar_bench(official: Path) -> None:
    """Scores of all three kinds of question, and the averages."""
    module = whole(official / "spar/lmms-eval/lmms_eval/tasks/sparbench/utils.py")
    rng = np.random.default_rng(SEED + 4)
    rows, docs = [], []
    for place in range(1000):
        task = spar.TASKS[place % len(spar.TASKS)]
        if task == spar.VIEW_CHANGE:
            response, answer = view_changes(rng)
        elif task in spar.LEVELS["Low"]:
            ground_truth = float(rng.choice([0, 1, 1.5, 2.4, 3, 0.6, 8]))
            response, answer = number_responses(rng, ground_truth, 1)[0], f"{ground_truth:g}"
        else:
            answer = "ABCD"[rng.integers(4)]
            response = (
                choice_responses(rng, 1)[0] if place % 3 else rng.choice(["", answer, answer + "."])
            )
        doc: dict[str, Any] = {"task": task, "answer": answer}
        module.sparbench_process_results(doc, [str(response)])
        score = next(doc[key] for key in ("accuracy", "MRA:.5:.95:.05", "vci_metric") if key in doc)
        docs.append(doc)
        rows.append([task, str(response), answer, float(score)])
    with watching("sparbench_aggregate_results") as seen:
        module.sparbench_aggregate_results(docs)
    totals = {
        re.sub("_(accuracy|MRA:.5:.95:.05|vci_metric)$", "", key): float(value)
        for key, value in seen[0]["output"].items()
    }
    write(
        "spar/scores.json",
        "spar",
        "tasks/sparbench/utils.py: [task, response, answer, score]",
        totals=totals,
        cases=rows,
    )


def temp_compass(official: Path) -> None:
    """Ratings by rule of the three formats with rules, their averages, and the captioning rule."""
    folder = official / "TempCompass"
    sys.path.insert(0, str(folder))
    printing = whole(folder / "utils/eval_utils.py").print_result
    kinds = {
        "action": ["fine-grained action", "coarse-grained action"],
        "direction": ["object motion", "camera motion"],
        "speed": ["absolute speed", "relative speed"],
        "attribute_change": [
            "color & light change",
            "size & shape change",
            "combined change",
            "other change",
        ],
    }
    meta = {
        str(turn): {
            "eval_dim": {
                aspect: {"type": names[turn % len(names)]} for aspect, names in kinds.items()
            }
        }
        for turn in range(4)
    }
    formats: dict[str, Callable[[np.random.Generator], tuple[str, str, Any]]] = {
        "multi-choice": multiple_choice_case,
        "yes_no": yes_no_case,
        "caption_matching": caption_case,
    }
    for place, (name, make) in enumerate(formats.items()):
        module = whole(folder / f"eval_{name}.py")
        rng = np.random.default_rng(SEED + 5 + place)
        predictions: dict[str, Any] = {video: {} for video in meta}
        for video in meta:
            for aspect in (*kinds, "order"):
                cases = [make(rng) for _ in range(20)]
                predictions[video][aspect] = [
                    {"question": question, "answer": answer, "prediction": response}
                    for question, answer, response in cases
                ]
        raw = json.loads(json.dumps(predictions))
        results: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as work, inside(work):
            Path("meta_info.json").write_text(json.dumps(meta))
            module.print_result = lambda _: None
            module.main(predictions, results, "out.json", True)
            with watching("print_result") as seen:
                printing(results)
        rows = [
            [
                aspect,
                case["question"],
                case["answer"],
                case["prediction"],
                result["rating"] if result["match_success"] else None,
            ]
            for video, aspects in raw.items()
            for aspect, cases in aspects.items()
            for case, result in zip(cases, results[video][aspect], strict=True)
        ]
        write(
            f"tempcompass/{name}.json",
            "TempCompass",
            f"eval_{name}.py --disable_llm: [aspect, question, answer, response, rating or null]",
            totals=seen[0]["result_asp"],
            cases=rows,
        )
    rule = whole(folder / "eval_captioning.py").parse_llm_output
    rng = np.random.default_rng(SEED + 8)
    rows = []
    for _ in range(200):
        answer = str(rng.choice(OPTIONS))
        output = str(rng.choice([*OPTIONS, "", "invalid_request_error", "A. and B.", "C", "none"]))
        forms = (
            "{}",
            "Reasoning: it says so\nAnswer: {}",
            "My Answer: {}",
            "Answer: {}\nReasoning: x",
            "Answer: none\n  Answer: {}  ",
        )
        form = str(rng.choice(forms))
        judgement = output if output in ("", "invalid_request_error") else form.format(output)
        judgement = spoilt(rng, judgement)
        rows.append([judgement, answer, rule(judgement, answer)["rating"]])
    write(
        "tempcompass/captioning.json",
        "TempCompass",
        "eval_captioning.py: [judgement, answer, rating]",
        cases=rows,
    )


def picked(rng: np.random.Generator, responses: list[str | None]) -> str | None:
    """One of the responses, perhaps spoilt."""
    response = responses[int(rng.integers(len(responses)))]
    return None if response is None else spoilt(rng, response)


def multiple_choice_case(rng: np.random.Generator) -> tuple[str, str, Any]:
    answer = str(rng.choice(OPTIONS))
    responses = [
        answer,
        answer[0],
        f"{answer[0]}.",
        f"{answer[0]}) x",
        f" {answer}</s>",
        None,
        *OPTIONS,
        *"ABCDE",
        "B) no",
        "D. no",
        answer[3:],
        "",
        "A: no",
        "(A)",
    ]
    return "Which?\n" + "\n".join(OPTIONS), answer, picked(rng, responses)


def yes_no_case(rng: np.random.Generator) -> tuple[str, str, Any]:
    answer = str(rng.choice(["yes", "no"]))
    responses = [
        "yes",
        "No.",
        "YES</s>",
        " no",
        "Nothing",
        "It is",
        "",
        None,
        "Yesterday",
        "maybe no",
    ]
    return "Is it?", answer, picked(rng, responses)


def caption_case(rng: np.random.Generator) -> tuple[str, str, Any]:
    head, kind, names = CAPTIONS[int(rng.integers(len(CAPTIONS)))]
    sentences = ["A man runs.", "A man sits: still.", "Nobody moves."]
    first, second = rng.permutation(len(sentences))[:2]
    options = [
        f"{kind} {name}: {sentences[place]}"
        for name, place in zip(names, (first, second), strict=True)
    ]
    answer = str(rng.choice(options))
    responses = [
        *options,
        *(option.split(": ")[1] for option in options),
        *names,
        f"{kind} {names[0]}",
        f"{kind} {names[1]}.",
        f"{names[0]}.",
        f"(b) {sentences[first]}",
        "neither",
        "",
        None,
        f"{options[0]}</s>",
        f"{names[1]}) {options[1].split(': ')[1]}",
    ]
    return "\n".join([head, *options]), answer, picked(rng, responses)


def main(official: Path) -> None:
    """Write every file."""
    for family in (
        video_mme,
        longvideobench,
        sti_bench,
        vsi_bench,
        vsi_numbers,
        spar_bench,
        temp_compass,
    ):
        family(official.resolve())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
