"""Failed rewards: they end the training, or their groups are dropped up to a limit.

`reward_errors=stop` ends the training at the first failure. With `reward_errors=drop` a group
without a reward is left out, as long as the share of such groups among the last prompts is at most
`reward_error_limit`.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.errors import DataError, HarnessError, ModelError, ParseError
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents
from harness.trainers.grpo.rewards import reward_group
from harness.trainers.grpo.settings import Settings

WINDOW = 100
"""Prompts of the window: it holds the fewest latest rounds that have at least this many."""
SHARE_KEY = "frac_reward_errors"
"""Key of the curve: the share of a round's prompts whose reward failed."""


class RoundCount(NamedTuple):
    """Numbers of prompts of one round."""

    failed: int
    total: int


def reward_or_drop(
    method: GrpoMethod,
    group: Group,
    keys: Sequence[str],
    *,
    seed: int,
    fault: HarnessError | None = None,
) -> tuple[list[RewardComponents], str]:
    """Return the rewards of a group and an empty text, or NaN rewards and the error's text.

    Args:
        method: Rewards the group.
        group: The rollouts of one prompt.
        keys: The key of each rollout.
        seed: Seed of random rewards.
        fault: Error that happened before the reward, such as a second prompt that is too long.

    Raises:
        DataError, ModelError, ParseError: the reward failed, and `reward_errors=stop`.
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
    """Count of the failed rewards in a window of the last rounds; equal in all processes."""

    settings: Settings
    rounds: deque[RoundCount] = field(default_factory=deque)
    """The rounds of the window, oldest first."""

    def resume(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Restore the window from the rows of a curve."""
        for row in rows:
            if SHARE_KEY in row:
                total = self.settings.samples_per_round() + int(row.get("extra_prompts", 0))
                self._add_round(round(row[SHARE_KEY] * total), total)

    def add(
        self, faults: Sequence[str], *, number: int, note: Callable[[str], object]
    ) -> dict[str, float]:
        """Add a round; return the share of its prompts whose reward failed, under `SHARE_KEY`.

        Args:
            faults: The error text of each group in all processes; empty if it has a reward.
            number: Index of the round, from 0.
            note: Shows the user a text; it is called if a reward failed.

        Raises:
            ModelError: the share of failed rewards in the window exceeds `reward_error_limit`.
        """
        messages = list(filter(None, faults))
        self._add_round(len(messages), len(faults))
        failed = sum(entry.failed for entry in self.rounds)
        total = sum(entry.total for entry in self.rounds)
        # At first the share is of WINDOW prompts, so that an early failure weighs like a later one.
        limit, step = self.settings.reward_error_limit, number * self.settings.num_iterations + 1
        if messages and failed > limit * max(total, WINDOW):
            raise ModelError(
                f"training, step {step}",
                expected=f"rewards of all but {limit:.1%} of {WINDOW} prompts (reward_error_limit)",
                found=f"none of {failed} of the last {total} ({failed / total:.1%}); the last one: "
                f"{messages[-1]}",
                fix="Nothing was learned from this round. Correct the reward, or raise "
                "reward_error_limit; the same command continues.",
            )
        if messages:
            note(
                f"round {number + 1}: the reward of {len(messages)} of {len(faults)} samples "
                f"failed; they are left out (reward_errors=drop): {messages[0]}"
            )
        return {SHARE_KEY: len(messages) / len(faults)}

    def _add_round(self, failed: int, total: int) -> None:
        """Add a round; remove the oldest rounds that a window of WINDOW prompts does not need."""
        self.rounds.append(RoundCount(failed, total))
        while sum(entry.total for entry in self.rounds) - self.rounds[0].total >= WINDOW:
            self.rounds.popleft()
