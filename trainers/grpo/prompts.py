"""`PromptOrder`: the prompts of a training with `dynamic_sampling`.

A group whose rewards are all equal is dead: nothing is learned from it. Further prompts take its
place in the round (DAPO, arXiv:2503.14476). A prompt whose last groups were dead, since it is
solved or hopeless, will likely give another dead one. It is skipped before any token is written,
with a chance that grows with the number of dead groups in a row (GRESO, arXiv:2506.02177).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from harness.errors import StoreError, raised_as
from harness.models.backends.sampling import uniforms
from harness.store.atomic import read_json, write_json
from harness.trainers.grpo.examples import Example
from harness.trainers.learner import sample_order

FILE = "prompts.json"


@dataclass(kw_only=True)
class PromptOrder:
    """A position in the order of prompts, with the count of dead groups of each prompt."""

    seed: int
    revisit: float = 1.0
    """Chance that a prompt is shown again for each dead group in a row; 1: none is skipped."""
    examples: Sequence[Example] = ()
    """All prompts of the training."""
    drawn: int = 0
    """Prompts of the order so far, over all epochs, skipped ones included."""
    dead: dict[str, int] = field(default_factory=dict)
    """Number of latest groups in a row that were dead, by name of the prompt; never 0."""
    skipped: int = 0
    """Prompts that were skipped since `begin_round`."""
    _order: Iterator[int] | None = field(default=None, repr=False, compare=False)

    def begin_round(self) -> "PromptOrder":
        """Set `skipped` to 0; return a copy, which a state before the round keeps."""
        self.skipped = 0
        return replace(self, dead=dict(self.dead), _order=None)

    def take(self, number: int) -> list[Example]:
        """Return the next `number` prompts that are not skipped.

        At most one epoch of prompts is skipped in a row; the next one is then taken.
        """
        if self._order is None:
            self._order = islice(sample_order(self.seed, len(self.examples)), self.drawn, None)
        taken, in_a_row = list[Example](), 0
        while len(taken) < number:
            example = self.examples[next(self._order)]
            self.drawn += 1
            if in_a_row < len(self.examples) and self._is_skipped(example):
                in_a_row += 1
                self.skipped += 1
            else:
                taken.append(example)
                in_a_row = 0
        return taken

    def _is_skipped(self, example: Example) -> bool:
        """Return True with the chance 1 - revisit ^ (dead groups in a row)."""
        times = self.dead.get(example.name, 0)
        if not times or self.revisit == 1:
            return False
        drawn = float(uniforms(seed=self.seed, key=f"prompt/{self.drawn}", block=0)[0])
        return drawn >= self.revisit**times

    def record(self, groups: Iterable[tuple[str, bool]]) -> None:
        """Count the groups of a round in all processes: (name of the prompt, is dead)."""
        for name, is_dead in groups:
            times = self.dead.pop(name, 0)
            if is_dead:
                self.dead[name] = times + 1

    def save(self, folder: Path) -> None:
        """Write position and counts into the folder of a state."""
        write_json(folder / FILE, {"drawn": self.drawn, "dead": self.dead})

    def load(self, folder: Path) -> None:
        """Restore position and counts from the folder of a state.

        Raises:
            StoreError: the file is missing or damaged.
        """
        saved, wrong = read_json(folder / FILE), (AttributeError, KeyError, TypeError, ValueError)
        with raised_as(StoreError, f"file {folder / FILE}", "a place and counts", *wrong):
            self.drawn = int(saved["drawn"])
            self.dead = {str(name): int(times) for name, times in saved["dead"].items()}
        self._order = None
