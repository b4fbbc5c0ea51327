"""Compare what `pocket` answers in an older checkout and in this one, byte by byte.

    python benchmarks/same.py ../older [--size 8] [--keep DIR]

Each checkout makes the set `shapes` of seed 0 and evaluates `pocket` on images, videos and
questions in text, with this interpreter. Responses, answers (masks as run-lengths), scores of each
unit and metrics with their intervals are compared as they are written, after the older names are
mapped by `docs/design/names.toml`; their order may be another. Prints one line a task; exits with
1 where anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
TASKS = ("shapes_referring", "mevis", "shapes_qa", "counting")
NUMBERS = ("metrics", "intervals", "breakdowns")


def main() -> int:
    """Evaluate in both checkouts and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("older", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--size", type=int, default=8, help="scenes a split")
    parser.add_argument("--keep", type=Path, help="an empty folder for data and runs")
    given = parser.parse_args()
    words = tomllib.loads((HERE / "docs/design/names.toml").read_text())["words"]
    with tempfile.TemporaryDirectory() as temporary:
        out = (given.keep or Path(temporary)).resolve()
        runs = [
            evaluated(checkout, out / name, given.size)
            for checkout, name in ((given.older.resolve(), "older"), (HERE, "this"))
        ]
        faults = [compared(task, *(run / "pocket" / task for run in runs), words) for task in TASKS]
    return int(any(faults))


def evaluated(checkout: Path, out: Path, size: int) -> Path:
    """The runs of `pocket` that the code of `checkout` makes, below `out`."""
    out.mkdir(parents=True)
    data, runs = str(out / "data"), str(out / "runs")
    for arguments in (
        ["data", "make", "shapes", "--out", data, "--seed", "0", "--size", str(size)],
        ["eval", "--model", "pocket", "--tasks", ",".join(TASKS), "--data", data, "--out", runs],
    ):
        with (out / "log.txt").open("a") as log:
            subprocess.run(
                [sys.executable, "-m", "harness", *arguments],
                cwd=checkout,
                env={**os.environ, "PYTHONPATH": str(checkout)},
                stdout=log,
                stderr=log,
                check=True,
            )
    return Path(runs)


def compared(task: str, older: Path, this: Path, words: Mapping[str, str]) -> int:
    """Print how many lines of two runs of a task differ, in any order, and the first of them."""
    before, now = Counter(lines(older, words)), Counter(lines(this, {}))
    lost, new = before - now, now - before
    differ = max(lost.total(), new.total())
    print(f"{task}: {now.total()} lines, {differ} differ", flush=True)
    for name, only in (("older", lost), ("this", new)):
        for line in sorted(only)[:1]:
            print(f"  {name}: {line}")
    return differ


def lines(run: Path, words: Mapping[str, str]) -> Iterator[str]:
    """What is compared of a run: a line a prediction, a scored unit and a kind of number."""
    for journal in sorted(run.glob("samples.*.jsonl")):
        records = (plain["record"] for plain in read(journal, words))
        for record in records:
            if "prediction" in record:
                output = record["prediction"]
                kept = [record["sample"], responses(output), output.get("answer")]
                yield json.dumps([*kept, output.get("failure")], sort_keys=True)
    for row in read(run / "scores.jsonl", words):
        # The group of an image is its path, and folders of generated sets have new names too.
        group = "/".join(words.get(part, part) for part in row["group"].split("/"))
        yield json.dumps({**row, "group": group}, sort_keys=True)
    results = next(read(run / "results.json", words))
    yield from (json.dumps([name, results[name]], sort_keys=True) for name in NUMBERS)


class Number(str):
    """A whole number as it was written, which no text of a response is."""


def responses(prediction: Mapping[str, Any]) -> list[str]:
    """Return the responses of a prediction, also where they stand in its calls."""
    calls = [call.get("response") for call in prediction.get("calls", ())]
    own = prediction.get("responses", [Number(place) for place in range(len(calls))])
    return [calls[int(one)] if isinstance(one, Number) else one for one in own]


def read(path: Path, words: Mapping[str, str]) -> Iterator[Any]:
    """The JSON values of a file with mapped keys; numbers stay the text that was written."""

    def mapped(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {
            "_".join(words.get(part, part) for part in name.split("_")): value
            for name, value in pairs
        }

    text = path.read_text()
    for one in text.splitlines() if path.suffix == ".jsonl" else [text]:
        yield json.loads(one, object_pairs_hook=mapped, parse_float=str, parse_int=Number)


if __name__ == "__main__":
    sys.exit(main())
