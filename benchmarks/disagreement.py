"""How often responses differ between ways of computing them that should be the same.

    python benchmarks/disagreement.py [--device cuda] [--ways NAME,…] [--seed N] [--size N]
                                      [--runs DIR] [--save]

Pocket on unseen scenes of `shapes`, greedily: the same weights, images and questions, answered
one at a time, in batches of 8, and rolled (others take the places of rows that have ended); with
`sdpa` and with `eager` attention; in float32 and in bfloat16; with `--device cuda` on the GPU, and
there also against the CPU. What should be the same differs by the rounding of sums in another
order, and where two tokens are nearly as likely, by a response.

Each way is compared with the one that stands beside it: responses letter by letter; answers as they
are recorded (masks, boxes, counts, letters, or that there is none); the score, as the difference of
the headline. Boxes are taken for masks and stand still in videos (`segmenter=box`,
`propagator=still`), so that nothing but the language network rounds. Every number comes from a run
folder of `harness eval`; the commands are printed as they run, and a run that is there already is
not made again, only the comparison. `again` is the first way a second time.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parts import save
from pocket_card import harness

from harness.errors import UsageError
from harness.record import Run, runs_below

RESULT = Path(__file__).parent / "results" / "disagreement.md"
TASKS = (
    "shapes_referring(asks=single)",
    "shapes_referring(asks=several)",
    "counting",
    "shapes_qa",
    "mevis",
)
DATA = ("shapes_referring", "counting", "shapes_qa", "mevis")
MODEL = (
    "pocket(segmenter=box,propagator=still,batch_size={batch},backend=transformers(dtype={dtype},"
    "device={device},attn_implementation={attn_implementation},continuous_batching={continuous_batching}))"
)


@dataclass(frozen=True, slots=True)
class Way:
    """How responses are computed, and the way that they should not differ from."""

    title: str
    against: str = ""
    """The name of another way; none of the first."""
    batch: int = 1
    continuous_batching: bool = False
    dtype: str = "float32"
    attn_implementation: str = "sdpa"
    device: str = ""
    """Empty: the one that is measured."""

    def spec(self, device: str) -> str:
        """The model's SPEC, on this device unless the way has one of its own."""
        return MODEL.format(
            batch=self.batch,
            dtype=self.dtype,
            device=self.device or device,
            attn_implementation=self.attn_implementation,
            continuous_batching=str(self.continuous_batching).lower(),
        )


FIRST = "alone"
HALF = "bfloat16"
WAYS: Mapping[str, Way] = {
    FIRST: Way("one at a time"),
    "again": Way("one at a time, again", FIRST),
    "batch": Way("batches of 8", FIRST, batch=8),
    "rolled": Way("8 rows, rolled", FIRST, batch=8, continuous_batching=True),
    "eager": Way("`eager` attention", FIRST, attn_implementation="eager"),
    HALF: Way("bfloat16", FIRST, dtype="bfloat16"),
    "bfloat16-batch": Way("bfloat16, batches of 8", HALF, batch=8, dtype="bfloat16"),
    "bfloat16-rolled": Way(
        "bfloat16, 8 rows, rolled", HALF, batch=8, continuous_batching=True, dtype="bfloat16"
    ),
    "bfloat16-eager": Way("bfloat16, `eager`", HALF, dtype="bfloat16", attn_implementation="eager"),
    "cpu": Way("on the CPU", FIRST, device="cpu"),
}
"""`cpu` is measured where the device is another one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two ways of answering the same samples."""

    total: int
    responses: int
    """Samples whose responses are not equal, letter by letter."""
    answers: int
    """Samples whose answers are not equal, or of which one is none."""


def main() -> None:
    given = arguments()
    try:
        wanted = asked_for(given.ways, given.device)
    except UsageError as error:
        sys.exit(f"error: {error}")
    data = given.runs / f"data-{given.seed}-{given.size}"
    if not (data / "shapes.json").exists():
        harness(
            "data",
            "make",
            "shapes",
            "--out",
            str(data),
            "--seed",
            str(given.seed),
            "--size",
            str(given.size),
            "--tasks",
            ",".join(DATA),
        )
    folder = given.runs / given.device.replace(":", "-")
    runs = {
        name: evaluated(WAYS[name].spec(given.device), data, folder / f"{data.name}-{name}")
        for name in wanted
    }
    text = "\n".join(table(runs, given))
    print(text)
    if given.save:
        save(RESULT, given.device, text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="such as cuda")
    parser.add_argument("--ways", default=",".join(WAYS), help="names; others that they need too")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--size", type=int, default=100, help="samples a task")
    parser.add_argument("--runs", type=Path, default=Path("runs/disagreement"))
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


def asked_for(names: str, device: str) -> list[str]:
    """The ways that are named, with those that they are compared with, in the order of `WAYS`.

    >>> asked_for("bfloat16-batch,cpu", "cpu")
    ['alone', 'bfloat16', 'bfloat16-batch']
    >>> asked_for("cpu", "cuda:0")
    ['alone', 'cpu']
    """
    wanted = set(names.split(","))
    if unknown := wanted - set(WAYS):
        raise UsageError("--ways", expected=", ".join(WAYS), found=", ".join(sorted(unknown)))
    if device == "cpu":
        wanted.discard("cpu")
    while missing := {WAYS[name].against for name in wanted} - wanted - {""}:
        wanted |= missing
    return [name for name in WAYS if name in wanted | {FIRST}]


def evaluated(spec: str, data: Path, out: Path) -> dict[str, Run]:
    """The runs of all tasks, by the task's SPEC."""
    harness(
        "eval", "--model", spec, "--tasks", ",".join(TASKS), "--data", str(data), "--out", str(out)
    )
    runs = [Run.open(folder) for folder in runs_below(out)]
    return {run.manifest["task"]["spec"]: run for run in runs}


def difference(one: Run, other: Run) -> Difference:
    """Compare two runs on the same samples."""
    ids = set(one.journal.places)
    assert ids == set(other.journal.places), "both answered the whole task"
    pairs = [
        (one.journal.record(query)["prediction"], other.journal.record(query)["prediction"])
        for query in ids
    ]
    return Difference(
        total=len(ids),
        responses=sum(mine.get("responses") != theirs.get("responses") for mine, theirs in pairs),
        answers=sum(outcome(mine) != outcome(theirs) for mine, theirs in pairs),
    )


def outcome(prediction: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The recorded answer, and the kind of failure: its message quotes the response.

    >>> outcome({"answer": {"count": 3}}), outcome({"failure": ["parse", "no list in 'A'"]})
    (({'count': 3}, None), (None, 'parse'))
    """
    kind, *_ = prediction.get("failure") or (None,)
    return prediction.get("answer"), kind


def added(several: Sequence[Difference]) -> Difference:
    """The same of all tasks together."""
    return Difference(
        total=sum(one.total for one in several),
        responses=sum(one.responses for one in several),
        answers=sum(one.answers for one in several),
    )


def share(part: int, total: int) -> str:
    """A part of a total in percent.

    >>> share(3, 400)
    '3 (0.8 %)'
    """
    return f"{part} ({100 * part / total:.1f} %)"


def table(runs: Mapping[str, Mapping[str, Run]], given: argparse.Namespace) -> Iterator[str]:
    """The results, in markdown: what was measured, the shares, and the scores."""
    first = runs[FIRST]
    total = sum(run.results["n_total"] for run in first.values())
    made = next(iter(first.values())).manifest["provenance"]
    packages = made["packages"]
    yield (
        f"`python benchmarks/disagreement.py --device {given.device} --seed {given.seed} --size "
        f"{given.size}` on {made['device']}, torch {packages.get('torch')}, transformers "
        f"{packages.get('transformers')}:"
    )
    yield f"{total} samples of {len(first)} tasks. The first row has the scores, the others their"
    yield "change from the way that they are compared with."
    yield ""
    heads = [f"{task}: {run.results['headline']}" for task, run in first.items()]
    yield "| | against | responses differ | answers differ | " + " | ".join(heads) + " |"
    yield "| --- " * (4 + len(heads)) + "|"
    for name, of in runs.items():
        yield "| " + " | ".join(row(name, of, runs)) + " |"


def row(name: str, of: Mapping[str, Run], runs: Mapping[str, Mapping[str, Run]]) -> Iterator[str]:
    """The cells of one way."""
    way = WAYS[name]
    yield way.title
    if not way.against:
        yield from ("", "", "")
        yield from (f"{headline(run):.3f}" for run in of.values())
        return
    other = runs[way.against]
    found = added([difference(of[task], other[task]) for task in of])
    yield WAYS[way.against].title
    yield from (share(found.responses, found.total), share(found.answers, found.total))
    yield from (f"{headline(of[task]) - headline(other[task]):+.3f}" for task in of)


def headline(run: Run) -> float:
    """The run's score."""
    return float(run.results["metrics"][run.results["headline"]])


if __name__ == "__main__":
    main()
