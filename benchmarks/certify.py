"""What `harness certify` finds: planted faults, false alarms of equal pairs, and rates of types.

    python benchmarks/certify.py [--only NAME …] [--questions 50] [--save]
    python benchmarks/certify.py --rates [--save]

Networks are tiny random ones in the classes of Qwen2.5-VL, Qwen3-VL and Qwen3.5, and `pocket`, on
one CPU core. A fault is found if the verdict is `different` and a cause names it; an equal pair
raises a false alarm if the verdict is `different`. With `--save` rows go to `results/certify.json`,
and `--only` replaces those that it names. `--rates` measures how far responses in bfloat16 and
float16 are from those in float32, which `leaderboards/certification/rates.toml` bounds. A pair
takes 5 to 30 s.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch
from steps import RESULTS

from harness.leaderboards.certification.battery import battery
from harness.leaderboards.certification.certify import Certificate, certify

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "serving"))

from planted import FAULTS, POCKET, QWEN, QWEN3, QWEN35, Case, Networks, built, equal_cases

RESULT = RESULTS / "certify.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        networks = Networks(Path(folder))
        rows = rates(networks, given) if given.rates else pairs(networks, given)
    if not given.rates and not given.only:
        print(summary(rows))


def pairs(networks: Networks, given: argparse.Namespace) -> dict[str, Any]:
    """Certify all pairs, or those that are named; print and return their rows."""
    rows = {}
    for case in (*FAULTS, *equal_cases()):
        if given.only and case.name not in given.only:
            continue
        start = process_time()
        with built(case, networks) as (a, b):
            certificate = certify(("A", "B"), (a, b), battery(given.questions, a.forms))
        rows[case.name] = row(case, certificate, process_time() - start)
        print(line(case.name, rows[case.name]), flush=True)
        if given.save:
            save({case.name: rows[case.name]})
    return rows


def row(case: Case, certificate: Certificate, seconds: float) -> dict[str, Any]:
    """The result of a pair as plain data."""
    named = [cause for cause in certificate.causes if re.search(case.cause or "", cause)]
    right = bool(named) if case.cause else certificate.verdict != "different"
    return {
        "equal": case.cause is None,
        "right": right,
        "verdict": certificate.verdict,
        "causes": list(certificate.causes),
        "not_compared": [check.aspect for check in certificate.checks if check.equal is None],
        "questions": certificate.questions,
        "seconds": round(seconds, 1),
    }


def line(name: str, result: dict[str, Any]) -> str:
    """One pair in one line."""
    mark = "✓" if result["right"] else "✗"
    return f"{mark} {name}: {result['verdict']}; {'; '.join(result['causes'])}".rstrip("; ")


def summary(rows: dict[str, Any]) -> str:
    """Faults that are found, and false alarms."""
    faults = [result for result in rows.values() if not result["equal"]]
    equal = [result for result in rows.values() if result["equal"]]
    found = sum(result["right"] for result in faults)
    alarms = sum(not result["right"] for result in equal)
    proven = sum(result["verdict"] == "equal" for result in equal)
    return (
        f"{found} of {len(faults)} planted faults found with their cause; {alarms} false alarms in "
        f"{len(equal)} equal pairs, of which {proven} are shown to be equal"
    )


def rates(networks: Networks, given: argparse.Namespace) -> dict[str, Any]:
    """Measure how far responses of each type of numbers are from those in float32."""
    from harness.leaderboards.certification.questions import Questions

    rows: dict[str, Any] = {}
    for family in (QWEN, QWEN3, QWEN35, POCKET):
        exact = networks.reference(family)
        queries = battery(given.questions, exact.forms)
        requests = [request for query in queries for request in exact.requests(query)]
        for dtype in ("float16", "bfloat16"):
            other = networks.model(family, f"dtype={dtype},device=cpu")
            questions = Questions((exact.chat, other.chat))
            questions.ask(requests, requests)
            places = range(len(questions.pairs))
            off = [value for at in places if (value := questions.deviation(at)) is not None]
            ways = [
                questions.way(*(seen.response for seen in pair.seen)) for pair in questions.pairs
            ]
            turned, tokens = sum(way.turns for way in ways), sum(way.tokens for way in ways)
            rows[f"{family}, {dtype}"] = {
                "logprob": round(fmean(off), 4),
                "token": round(turned / tokens, 4),
                "responses": round(turned / len(ways), 2),
            }
            print(f"{family}, {dtype}: {rows[f'{family}, {dtype}']}", flush=True)
    if given.save:
        save({"rates": rows})
    return rows


def save(rows: dict[str, Any]) -> None:
    """Put rows into the result file, in the place of older ones of the same names."""
    old = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
    RESULT.write_text(json.dumps({**old, **rows}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
