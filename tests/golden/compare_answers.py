"""Golden files of answers against our numbers: the benchmarks of choices and numbers.

A check takes the modules to test, so that the mutation tests can hand it spoiled ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from comparison import Comparison, gap
from scored import OURS, Check, Modules, line, read

from harness.scores import Mean, Metric, Ratio, Totals


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    for check in CHECKS.values():
        yield check(OURS)


def video_mme(m: Modules) -> Comparison:
    file = read("video_mme/choices.json")
    wrong = [
        float((m.choices.video_mme_choice(response) or "") != letter)
        for _, response, _, letter in file["cases"]
    ]
    return line("videomme/official: letters", "eval_your_results.py", file, wrong)


def video_mme_totals(m: Modules) -> Comparison:
    file = read("video_mme/choices.json")
    deviations = []
    for name, (correct, answered) in file["totals"].items():
        totals = Totals((Metric("accuracy"),))
        for duration, response, answer, _ in file["cases"]:
            letter = m.choices.video_mme_choice(response)
            if name in ("all", duration):
                totals.add({"accuracy": Ratio(letter == answer, letter is not None)})
        deviations.append(gap(totals.values()["accuracy"], correct / answered))
    return line("videomme/official: accuracy", "eval_your_results.py", file, deviations)


def longvideobench(m: Modules) -> Comparison:
    file = read("longvideobench/choices.json")
    wrong = [
        float(m.choices.longvideobench_choice(response) != letter)
        for _, response, _, _, letter in file["cases"]
    ]
    return line("lvb/lmms: letters", "longvideobench/utils.py", file, wrong)


def longvideobench_totals(m: Modules) -> Comparison:
    """The official accuracy is rounded to five places; so is ours here."""
    file = read("longvideobench/choices.json")
    totals = Totals((Metric("accuracy"),))
    for name, response, count, answer, _ in file["cases"]:
        letter = m.choices.longvideobench_choice(response)
        letter = letter or m.choices.seeded_choice(name, "ABCDE"[:count])
        totals.add({"accuracy": Mean(letter == answer)})
    found = round(totals.values()["accuracy"] or 0.0, 5)
    deviations = [gap(found, file["accuracy"])]
    return line("lvb/lmms: accuracy, our draws", "longvideobench/utils.py", file, deviations)


def sti_bench(m: Modules) -> Comparison:
    file = read("sti_bench/choices.json")
    wrong = [
        float(m.choices.sti_bench_choice(response) != letter) for response, letter in file["cases"]
    ]
    return line("sti/official: letters", "opensource_test.py", file, wrong)


def vsi_score(m: Modules, name: str, kind: str, response: str, ground_truth: str) -> float:
    """The score of a sample by `vsi/official` or `vsi/lmms2026`."""
    if kind in m.vsi.CHOICE_TYPES:
        found = m.vsi.choice_score(response, ground_truth)
    elif name == "official":
        found = m.vsi.number_score(response, float(ground_truth))
    else:
        found = m.numeric.mean_relative_accuracy(
            m.numeric.first_number(response), float(ground_truth)
        )
    return float(found)


def vsi_samples(m: Modules, name: str) -> Comparison:
    file = read(f"vsi_bench/{name}.json")
    deviations = [
        gap(vsi_score(m, name, kind, response, ground_truth), score)
        for kind, response, ground_truth, score in file["cases"]
    ]
    return line(f"vsi/{name}: samples", "vsibench/utils.py", file, deviations)


def vsi_totals(m: Modules, name: str) -> Comparison:
    file = read(f"vsi_bench/{name}.json")
    totals = Totals(m.vsi.METRICS)
    for kind, response, ground_truth, _ in file["cases"]:
        totals.add({kind: Mean(vsi_score(m, name, kind, response, ground_truth))})
    return line(f"vsi/{name}: averages", "vsibench/utils.py", file, averaged(totals, file))


def vsi_numbers(m: Modules) -> Comparison:
    file = read("vsi_bench/numbers.json")
    deviations = [
        gap(m.numeric.first_number(response), number) for response, number in file["cases"]
    ]
    return line("vsi/lmms2026: numbers in responses", "vsibench/utils.py", file, deviations)


def averaged(totals: Totals, file: Any) -> list[float]:
    """The deviations of every average that the official tool has."""
    values = totals.values()
    return [gap(values[name], official) for name, official in file["totals"].items()]


def spar_score(m: Modules, task: str, response: str, answer: str) -> float:
    """The score of a sample by `spar/official`."""
    if task == m.spar.VIEW_CHANGE:
        found = m.spar.view_change_score(response, answer)
    elif task in m.spar.LEVELS["Low"]:
        found = m.spar.number_score(response, float(answer), task=task)
    else:
        found = m.spar.choice_score(response, answer)
    return float(found)


def spar_samples(m: Modules) -> Comparison:
    file = read("spar/scores.json")
    deviations = [gap(spar_score(m, *case), score) for *case, score in file["cases"]]
    return line("spar/official: samples", "sparbench/utils.py", file, deviations)


def spar_totals(m: Modules) -> Comparison:
    file = read("spar/scores.json")
    totals = Totals(m.spar.METRICS)
    for task, response, answer, _ in file["cases"]:
        totals.add({task: Mean(spar_score(m, task, response, answer))})
    official = dict(file["totals"])
    official["Middle, as printed"] = official.pop("Middle")
    deviations = averaged(totals, {"totals": official})
    return line("spar/official: averages", "sparbench/utils.py", file, deviations)


def temp_compass_rating(m: Modules, name: str, case: list[Any]) -> bool | None:
    """What the rules of a format say of a response; a response that is missing fits no rule."""
    _, question, answer, response, _ = case
    if response is None:
        return None
    rule = {
        "multi-choice": lambda: m.tempcompass.multiple_choice(response, answer),
        "yes_no": lambda: m.tempcompass.yes_no(response, answer),
        "caption_matching": lambda: m.tempcompass.caption_match(response, question, answer),
    }[name]
    return rule()  # type: ignore[no-any-return, no-untyped-call]


def temp_compass(m: Modules, name: str) -> Comparison:
    file = read(f"tempcompass/{name}.json")
    deviations = [gap(temp_compass_rating(m, name, case), case[4]) for case in file["cases"]]
    return line(f"tempcompass/rules: {name}", f"eval_{name}.py", file, deviations)


def temp_compass_totals(m: Modules, name: str) -> Comparison:
    """The official percentages are rounded to one place; so are ours here, from whole numbers."""
    file = read(f"tempcompass/{name}.json")
    totals = Totals(m.tempcompass.METRICS)
    counts: Counter[str] = Counter()
    for case in file["cases"]:
        rating = Mean(float(temp_compass_rating(m, name, case) or 0))
        totals.add({case[0]: rating, "avg": rating})
        counts.update((case[0], "avg"))
    values = totals.values()
    deviations = []
    for aspect, official in file["totals"].items():
        right = (values[aspect] or 0.0) * counts[aspect]
        whole = round(right) if abs(right - round(right)) < 1e-6 else right
        deviations.append(gap(round(whole * 100 / counts[aspect], 1), official))
    return line(f"tempcompass/rules: {name}, averages", "eval_utils.py", file, deviations)


def temp_compass_captioning(m: Modules) -> Comparison:
    file = read("tempcompass/captioning.json")
    deviations = []
    for judgement, answer, rating in file["cases"]:
        found = m.tempcompass.captioning(judgement, answer)
        deviations.append(gap(-1 if found is None else found, rating))
    return line("tempcompass: captioning, judged", "eval_captioning.py", file, deviations)


def of(check: Callable[[Modules, str], Comparison], name: str) -> Check:
    """A check of one of several files."""
    return lambda modules: check(modules, name)


FORMATS = ("multi-choice", "yes_no", "caption_matching")
CHECKS: dict[str, Check] = {
    "video_mme": video_mme,
    "video_mme totals": video_mme_totals,
    "longvideobench": longvideobench,
    "longvideobench totals": longvideobench_totals,
    "sti_bench": sti_bench,
    **{f"vsi {name}": of(vsi_samples, name) for name in ("official", "lmms2026")},
    **{f"vsi {name} totals": of(vsi_totals, name) for name in ("official", "lmms2026")},
    "vsi numbers": vsi_numbers,
    "spar": spar_samples,
    "spar totals": spar_totals,
    **{f"tempcompass {name}": of(temp_compass, name) for name in FORMATS},
    **{f"tempcompass {name} totals": of(temp_compass_totals, name) for name in FORMATS},
    "tempcompass captioning": temp_compass_captioning,
}
