"""Prompts that have no reward: they end a training, or are left out up to a limit of their share.

`reward_errors=drop` leaves them out; `reward_error_limit` is the limit.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import DataError, HarnessError, ModelError, ParseError
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents
from harness.trainers.grpo.rewards import reward_group
from harness.trainers.grpo.settings import Settings

WINDOW = 100
"""Prompts that the share is of: those of the last rounds that have so many, or of one round."""
SHARE = "frac_reward_errors"


def reward_or_drop(
    method: GrpoMethod,
    group: Group,
    keys: Sequence[str],
    *,
    seed: int,
    fault: HarnessError | None = None,
) -> tuple[list[RewardComponents], str]:
    """Return `reward_group` and why it failed: with `reward_errors=drop` no rollout earns then.

    `fault` is why there is nothing to reward, such as a second prompt that does not fit.
    """
    try:
        if fault is not None:
            raise fault
        return reward_group(method, group, keys, seed=seed), ""
    except (DataError, ModelError, ParseError) as error:
        if method.settings.reward_errors == "stop":
            raise
        return [{TOTAL: math.nan} for _ in group.rollouts], str(error)


@dataclass
class FailedRewards:
    """How many prompts of the last rounds had no reward; equal in all processes."""

    settings: Settings
    rounds: deque[tuple[int, int]] = field(default_factory=deque)
    """(failed, all) prompts of each round of the window."""

    def resume(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Go on from the rows of a curve."""
        for row in rows:
            if SHARE in row:
                total = self.settings.samples_per_round() + int(row.get("extra_prompts", 0))
                self._add(round(row[SHARE] * total), total)

    def add(
        self, faults: Sequence[str], *, number: int, note: Callable[[str], object]
    ) -> dict[str, float]:
        """Count a round; returns the share of its prompts whose reward failed, as SHARE.

        Args:
            faults: Why the reward of each group in all processes failed; empty where it did not.
            number: Of the round, from 0.
            note: Is told of them.

        Raises:
            ModelError: more of the window's prompts failed than `reward_error_limit`.
        """
        reasons = list(filter(None, faults))
        self._add(len(reasons), len(faults))
        failed, total = map(sum, zip(*self.rounds, strict=True))
        limit, step = self.settings.reward_error_limit, number * self.settings.num_iterations + 1
        if reasons and failed > limit * max(total, WINDOW):
            raise ModelError(
                f"training, step {step}",
                expected=f"rewards of all but {limit:.1%} of {WINDOW} prompts (reward_error_limit)",
                found=f"none of {failed} of the last {total} ({failed / total:.1%}); the last one: "
                f"{reasons[-1]}",
                fix="Nothing was learned from this round. Mend the reward, or raise "
                "reward_error_limit; the same command goes on.",
            )
        if reasons:
            note(
                f"round {number + 1}: the reward of {len(reasons)} of {len(faults)} samples "
                f"failed; they are left out (reward_errors=drop): {reasons[0]}"
            )
        return {SHARE: len(reasons) / len(faults)}

    def _add(self, failed: int, total: int) -> None:
        self.rounds.append((failed, total))
        while sum(total for _, total in self.rounds) - self.rounds[0][1] >= WINDOW:
            self.rounds.popleft()
