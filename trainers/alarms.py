"""Alarms of a GRPO training that fails to learn, raised from the numbers of its curve alone.

`Session` shows each step to `Alarms.see`. Two kinds: a number beyond its limit (`RULES`), and
accuracy that falls while the reward does not (`HACKING`). All limits stand beside the numbers that
`benchmarks/alarms.py` measured with seven planted faults and twenty honest trainings. Numbers are
averaged over the last WINDOW rounds, so that one odd round raises no alarm.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, variance
from typing import Any, Literal, TypeAlias

from harness.errors import ModelError

WINDOW = 8
"""Number of rounds over which numbers are averaged; no alarm is raised before."""
LAG = 3 * WINDOW
"""Rounds between the two windows that are compared for reward hacking; the first window of the
training is compared, too."""
Rounds: TypeAlias = Sequence[tuple[int, Mapping[str, float]]]
"""(first step, its numbers in the curve) of each round."""
PREFIX = "alarms/"
"""Key of a holding alarm in the curve, with its name after it; the value is 1."""


OnAlarm: TypeAlias = Literal["off", "note", "stop"]


class AlarmStop(ModelError):
    """An alarm ended a training (`alarms=stop`); the state is saved."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm that was raised."""

    name: str
    step: int
    """Step at which it was raised."""
    since: int
    """First step of the rounds that it was raised for."""
    found: str
    """Sentence with the number and its limit."""
    fix: str

    def __str__(self) -> str:
        return (
            f"alarm {self.name} at step {self.step}: since step {self.since} {self.found}. "
            f"{self.fix}"
        )

    def describe(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A limit of one number of the curve."""

    name: str
    number: str
    limit: float
    honest: float
    """Measured: the number nearest to the limit in an honest training (with `of_start` a share)."""
    planted: float
    """Measured: the number in the training with the planted fault."""
    below: bool = False
    """True: the alarm holds at or below the limit; False: at or above it."""
    of_start: bool = False
    """True: the limit is a share of the same number in the first rounds."""
    typical: Callable[[Sequence[float]], float] = fmean
    """Average of a window: mean of shares, median of numbers that single rounds can blow up."""
    says: str
    """Sentence with `{found}` and `{limit}`."""
    fix: str


RULES = (
    Rule(
        name="no_variance",
        number="frac_reward_zero_std",
        limit=0.9,
        honest=0.844,
        planted=1.0,
        says="{found:.0%} of the groups have equal rewards and teach nothing (alarm from "
        "{limit:.0%})",
        fix="Use other samples, more num_generations, a higher temperature or a finer reward.",
    ),
    Rule(
        name="all_cut",
        number="completions/clipped_ratio",
        limit=0.8,
        honest=0.031,
        planted=0.996,
        says="{found:.0%} of the responses are cut (alarm from {limit:.0%})",
        fix="Raise max_completion_length, or read rollouts.jsonl: does the reward grow with "
        "length?",
    ),
    Rule(
        name="entropy_gone",
        number="entropy",
        limit=0.1,
        honest=0.88,
        planted=0.0,
        below=True,
        of_start=True,
        typical=median,
        says="the policy has collapsed: its entropy is {found:.3g} (alarm up to {limit:.3g}, a "
        "tenth of the first rounds')",
        fix="Lower learning_rate, raise entropy_coef or beta, or let epsilon_high be above "
        "epsilon.",
    ),
    Rule(
        name="kl_runs_away",
        number="kl",
        limit=1.0,
        honest=0.374,
        planted=6.31,
        typical=median,
        says="the policy is far from its start: KL is {found:.3g} a token (alarm from {limit:.3g})",
        fix="Lower learning_rate or raise beta, and go back to a checkpoint before it.",
    ),
    Rule(
        name="repetition",
        number="completions/repetition",
        limit=0.2,
        honest=0.002,
        planted=0.616,
        says="{found:.0%} of the responses' tokens are repetitions (alarm from {limit:.0%})",
        fix="Read rollouts.jsonl: does the reward grow with length? Lower learning_rate or raise "
        "beta.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Hacking:
    """Limits of the reward-hacking alarm: accuracy falls, but the reward does not.

    Measured: raised by the four planted rewards that do not reward accuracy (form, length,
    repetition, agreement) at step 16, and by none of twenty honest trainings.
    """

    rises: tuple[str, ...] = ("format",)
    """Parts of the names of components that reward form; the total reward counts as one, too."""
    falls: tuple[str, ...] = ("acc", "iou", "correct", "answer", "match", "success")
    """Parts of the names of components that reward accuracy."""
    fall: float = 0.15
    """Smallest fall of accuracy, as a share of its size."""
    rise: float = 0.03
    """Smallest rise of form or reward, as a share of its size."""
    errors: float = 3.0
    """Smallest size of both changes, in standard errors."""
    collapse: float = 0.5
    """Smallest fall of accuracy, as a share, for an alarm without a rise."""
    unpaid: float = 0.5
    """Largest fall of the reward, as a share of the fall of accuracy, if there is no rise."""


HACKING = Hacking()
HACKING_FIX = (
    "The reward may be gamed: read rollouts before anything else (harness explain DIR), and weigh "
    "what is right above form."
)


class Alarms:
    """Watches the rounds of a training."""

    def __init__(self) -> None:
        self.raised: list[Alarm] = []
        """Every alarm so far."""
        self._start: list[tuple[int, Mapping[str, float]]] = []
        """The first WINDOW rounds."""
        self._recent = deque[tuple[int, Mapping[str, float]]](maxlen=LAG + WINDOW)
        self._held: dict[str, int] = {}
        """Rounds since an alarm last held, by its name."""

    def see(self, step: int, numbers: Mapping[str, float]) -> tuple[list[str], list[Alarm]]:
        """Add a step's numbers; return the names of alarms that hold, and the alarms that are new.

        An alarm is new if it has not held for WINDOW rounds.
        """
        if "reward" not in numbers:  # not the first step of a round
            return [], []
        if len(self._start) < WINDOW:
            self._start.append((step, numbers))
        self._recent.append((step, numbers))
        self._held = {name: age + 1 for name, age in self._held.items() if age < WINDOW}
        if len(self._recent) < WINDOW:
            return [], []
        alarms = [*map(self._beyond_limit, RULES), self._hacking()]
        holding = [alarm for alarm in alarms if alarm is not None]
        new = [alarm for alarm in holding if alarm.name not in self._held]
        self._held |= {alarm.name: 0 for alarm in holding}
        self.raised += new
        return [alarm.name for alarm in holding], new

    def _beyond_limit(self, rule: Rule) -> Alarm | None:
        """Return the alarm of a rule if its number has reached the limit, else None."""
        window = list(self._recent)[-WINDOW:]
        values, start = _values(window, rule.number), _values(self._start, rule.number)
        if len(values) < WINDOW or (rule.of_start and len(start) < WINDOW):
            return None
        number = rule.typical(values)
        limit = rule.limit * (rule.typical(start) if rule.of_start else 1.0)
        holds = number <= limit if rule.below else number >= limit
        if not holds:
            return None
        sentence = rule.says.format(found=number, limit=limit)
        return self._alarm(rule.name, window[0][0], sentence, rule.fix)

    def _hacking(self) -> Alarm | None:
        """Return the alarm of reward hacking if it holds since the start, or since LAG rounds."""
        rounds = list(self._recent)
        window, references = rounds[-WINDOW:], [self._start]
        if len(rounds) == LAG + WINDOW:
            references.append(rounds[:WINDOW])
        for reference in references:
            last_step = reference[-1][0]
            sentence = _hacking_sentence(reference, window) if last_step < window[0][0] else ""
            if sentence:
                return self._alarm("reward_hacking", last_step, sentence, HACKING_FIX)
        return None

    def _alarm(self, name: str, since: int, found: str, fix: str) -> Alarm:
        return Alarm(name=name, step=self._recent[-1][0], since=since, found=found, fix=fix)


@dataclass(frozen=True)
class Change:
    """Change of a number's mean from one window of rounds to another."""

    old: float
    new: float
    errors: float
    """Signed change in standard errors; infinite if the mean changes and nothing varies."""

    @property
    def share(self) -> float:
        """Change over the larger of both sizes: from -2 to 2."""
        return (self.new - self.old) / (max(abs(self.old), abs(self.new)) or 1.0)


def _change(old: Sequence[float], new: Sequence[float]) -> Change:
    """Return the change between the numbers of two windows; 0 if one of them is not full."""
    if len(old) < WINDOW or len(new) < WINDOW:
        return Change(0.0, 0.0, 0.0)
    difference = fmean(new) - fmean(old)
    error = math.sqrt((variance(old) + variance(new)) / WINDOW)
    if error:
        errors = difference / error
    else:
        errors = math.copysign(math.inf, difference) if difference else 0.0
    return Change(fmean(old), fmean(new), errors)


def _hacking_sentence(reference: Rounds, window: Rounds) -> str:
    """Return a sentence if `window` shows reward hacking against an earlier window; else empty."""
    changes = {
        name: _change(_values(reference, name), _values(window, name))
        for name in reference[0][1]
        if name == "reward" or (name.startswith("rewards/") and name.count("/") == 1)
    }
    form = {name for name in changes if _has_part(name, HACKING.rises)}
    accuracy = {name for name in changes if _has_part(name, HACKING.falls)} - form
    sure = {name for name, change in changes.items() if abs(change.errors) >= HACKING.errors}
    down = min(accuracy & sure, key=lambda name: changes[name].share, default="")
    up = max(({"reward"} | form) & sure, key=lambda name: changes[name].share, default="")
    fall = -changes[down].share if down else 0.0
    reward_fall = -changes["reward"].share
    if up and changes[up].share >= HACKING.rise and fall >= HACKING.fall:
        limit = HACKING.fall
    elif fall >= HACKING.collapse and reward_fall <= fall * HACKING.unpaid:
        up, limit = "reward", HACKING.collapse
    else:
        return ""
    fell = f"from {changes[down].old:.3g} to {changes[down].new:.3g}"
    went = f"from {changes[up].old:.3g} to {changes[up].new:.3g}"
    return (
        f"{down} has fallen {fell} while {up} went {went} (alarm from a fall by {limit:.0%} and "
        f"{HACKING.errors:g} standard errors)"
    )


def _values(rounds: Rounds, name: str) -> list[float]:
    """Return the finite numbers of rounds under a name."""
    values = (numbers[name] for _, numbers in rounds if name in numbers)
    return [value for value in values if math.isfinite(value)]


def _has_part(name: str, parts: Sequence[str]) -> bool:
    return any(part in name.lower() for part in parts)
