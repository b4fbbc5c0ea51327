"""Gain of adaptive attacks on a test server's scores, with and without the Ladder.

    python benchmarks/ladder_attack.py

Labels are yes or no, at random, so that every answer is right with probability 1/2 on new
questions. The gain is the score shown at the end less 1/2, under the Ladder the largest of all
seeds: with the default step, and with that of the least bound. Two attacks:

    majority   random answers; those that moved the score (without the Ladder: that scored above
               1/2) vote (Blum and Hardt 2015, section 4)
    climbing   the best answers so far with a part of them drawn anew, kept if the score moves
"""

import argparse
import sys

import numpy as np

from harness.leaderboards.server.release import bound, default_step, next_shown

ATTACKS = ("majority", "climbing")
PARTS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""Parts of the answers that climbing draws anew, in turns; without the Ladder one answer."""


class Labels:
    """Random labels behind a release."""

    def __init__(self, units: int, step: float, generator: np.random.Generator) -> None:
        self._labels = generator.integers(0, 2, units)
        self._step = step
        self.shown: float | None = None

    def upload(self, answers: np.ndarray) -> float | None:
        """Return the score that is shown; without a step that of these answers."""
        score = float((answers == self._labels).mean())
        self.shown = next_shown(self.shown, score, self._step)
        return self.shown if self._step else score


def gain(attack: str, *, units: int, step: float, uploads: int, seed: int) -> float:
    """Return the score shown at the end of an attack, less that on new questions."""
    generator = np.random.default_rng(seed)
    labels = Labels(units, step, generator)
    (_vote if attack == "majority" else _climb)(labels, units, step, uploads, generator)
    assert labels.shown is not None
    return labels.shown - 0.5


def _vote(
    labels: Labels, units: int, step: float, uploads: int, generator: np.random.Generator
) -> None:
    votes = np.zeros(units)
    before = 0.5
    for _ in range(uploads - 1):
        answers = generator.integers(0, 2, units)
        shown = labels.upload(answers)
        if shown is not None and shown > before:
            votes += 2 * answers - 1
            before = shown if step else before
    labels.upload((votes > 0).astype(int))


def _climb(
    labels: Labels, units: int, step: float, uploads: int, generator: np.random.Generator
) -> None:
    best = generator.integers(0, 2, units)
    shown = labels.upload(best) or 0.0
    for number in range(uploads - 1):
        answers = best.copy()
        count = max(1, round(PARTS[number % len(PARTS)] * units)) if step else 1
        places = generator.choice(units, count, replace=False)
        answers[places] = generator.integers(0, 2, count) if step else 1 - best[places]
        if (now := labels.upload(answers) or 0.0) > shown:
            best, shown = answers, now


def main() -> int:
    """Print a line for each size, step and attack; exit code 1 if a gain exceeds the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uploads", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    uploads, seeds = arguments.uploads, range(arguments.seeds)
    exceeded = False
    print("| units | attack | gain by exact scores | step | gain under the Ladder | bound |")
    print("|--:|---|--:|--:|--:|--:|")
    for units in (200, 1000, 5000):
        safest = min((1 / parts for parts in range(2, 100)), key=lambda x: bound(units, x, uploads))
        for attack in ATTACKS:
            gains = {
                step: [gain(attack, units=units, step=step, uploads=uploads, seed=s) for s in seeds]
                for step in (0.0, default_step(units), safest)
            }
            exact = np.mean(gains.pop(0.0))
            for step, values in gains.items():
                limit = bound(units, step, uploads)
                exceeded |= max(values) > limit
                print(
                    f"| {units:,} | {attack} | {exact:.3f} | {step:.4f} | {max(values):.3f} "
                    f"| {limit:.2f} |",
                    flush=True,
                )
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
