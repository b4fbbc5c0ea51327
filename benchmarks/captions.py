"""Time caption metrics against the bare scorers of pycocoevalcap, side by side in one process.

    python benchmarks/captions.py [--captions 5000] [--rounds 3] [--meteor]

Each round makes other captions, so that nothing is remembered, and runs both in turn. "official" is
what pycocoevalcap's own evaluation does: two runs of the Java tokenizer, then each scorer. Ours is
asked for metric by metric, as a protocol does it.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from harness.metrics.captions import Name, caption_metrics

WORDS = (
    "a the one two brown small red old dog cat man woman child horse ball car tree street runs "
    "sits walks stands holds rides watches jumps over under near on in with and of park field"
)
NAMES: tuple[Name, ...] = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--captions", type=int, default=5000)
    parser.add_argument("--references", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--meteor", action="store_true")
    given = parser.parse_args()
    names: tuple[Name, ...] = (*NAMES, "METEOR") if given.meteor else NAMES
    seconds: dict[str, list[float]] = {"official": [], "ours": [], "tokens": []}
    for seed in range(given.rounds):
        items = captions(given.captions, given.references, seed=seed)
        ground_truth = clock(
            seconds["official"], partial(official, items, names, seconds["tokens"])
        )
        found = clock(seconds["ours"], partial(ours, items, names))
        if ground_truth != found:
            raise SystemExit(f"ours {found}, officially {ground_truth}")
    base, mine = median(seconds["official"]), median(seconds["ours"])
    print(f"{given.captions} captions, {given.references} reference(s) each, {', '.join(names)}")
    print(f"official {base:.2f} s (tokens {median(seconds['tokens']):.2f} s), ours {mine:.2f} s")
    print(f"ours takes {mine / base:.2f}× the official time; equal to the last bit")


def captions(count: int, references: int, *, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    words = WORDS.split()

    def sentence() -> str:
        return " ".join(draw.choices(words, k=draw.randint(6, 14))).capitalize() + "."

    return [
        {"candidate": sentence(), "references": [sentence() for _ in range(references)]}
        for _ in range(count)
    ]


def official(
    items: Sequence[dict[str, Any]], names: Sequence[str], tokens: list[float]
) -> list[float]:
    start = time.perf_counter()
    gts = {k: [{"caption": text} for text in one["references"]] for k, one in enumerate(items)}
    res = {k: [{"caption": one["candidate"]}] for k, one in enumerate(items)}
    gts, res = PTBTokenizer().tokenize(gts), PTBTokenizer().tokenize(res)
    tokens.append(time.perf_counter() - start)
    scorers: list[Any] = [Bleu(4), Rouge(), Cider()]
    if "METEOR" in names:
        scorers.append(Meteor())
    values: list[float] = []
    for scorer in scorers:
        given = {"verbose": 0} if isinstance(scorer, Bleu) else {}
        value, _ = scorer.compute_score(gts, res, **given)
        values += [float(one) for one in (value if isinstance(value, list) else [value])]
    return values


def ours(items: Sequence[dict[str, Any]], names: Sequence[Name]) -> list[float]:
    return [float(metric.corpus(items)) for metric in caption_metrics(names) if metric.corpus]


def clock(seconds: list[float], function: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = function()
    seconds.append(time.perf_counter() - start)
    return result


if __name__ == "__main__":
    main()
