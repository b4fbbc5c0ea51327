"""Alarms of a training with GRPO that goes nowhere, from the numbers of its rounds alone.

Every threshold is in `RULES` and `HACKING`, beside what was measured by `benchmarks/alarms.py`:
seven planted faults, and twenty honest trainings. Numbers are of the last WINDOW rounds, so that
one odd round raises nothing, and a resumed training reads its curve again to know as much.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, variance
from typing import Any, Literal, TypeAlias

from harness.errors import ModelError

WINDOW = 8
"""Rounds that a number is taken over; no alarm is raised before so many."""
LAG = 3 * WINDOW
"""Rounds from which accuracy may have fallen, beside the first ones."""
Rounds: TypeAlias = Sequence[tuple[int, Mapping[str, float]]]
"""Steps that began a round, with their numbers."""
PREFIX = "alarms/"
"""A row of the curve has 1 under this and the name of each alarm that holds."""


OnAlarm: TypeAlias = Literal["off", "note", "stop"]


class AlarmStop(ModelError):
    """An alarm ended a training, as its setting wants (`alarms=stop`); the state is saved."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm that was raised."""

    name: str
    step: int
    """Step at which it was raised."""
    since: int
    """First step of the rounds that it was raised for."""
    found: str
    """Number that was found, and the threshold."""
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
    """Number that came nearest to the limit in an honest training (a share of the start's)."""
    planted: float
    """Number that the planted fault came to."""
    below: bool = False
    """Alarm at or below the limit, not at or above it."""
    of_start: bool = False
    """The limit is a share of the same number in the first rounds."""
    typical: Callable[[Sequence[float]], float] = fmean
    """Mean of shares; median of what single rounds can blow up."""
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
        says="{found:.0%} of the groups earn alike and teach nothing (alarm from {limit:.0%})",
        fix="Take other samples, more num_generations, a higher temperature or a finer reward.",
    ),
    Rule(
        name="all_cut",
        number="completions/clipped_ratio",
        limit=0.8,
        honest=0.031,
        planted=0.996,
        says="{found:.0%} of the responses are cut (alarm from {limit:.0%})",
        fix="Raise max_completion_length, or read rollouts.jsonl: does the reward pay for length?",
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
        says="the policy says one thing: its entropy is {found:.3g} (alarm up to {limit:.3g}, a "
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
        says="the policy has left its start: KL is {found:.3g} a token (alarm from {limit:.3g})",
        fix="Lower learning_rate or raise beta, and go back to a checkpoint before it.",
    ),
    Rule(
        name="repetition",
        number="completions/repetition",
        limit=0.2,
        honest=0.002,
        planted=0.616,
        says="{found:.0%} of the responses' tokens repeat what they said (alarm from {limit:.0%})",
        fix="Read rollouts.jsonl: does the reward pay for length? Lower learning_rate or raise "
        "beta.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Hacking:
    """Limits of the reward-hacking sign: accuracy falls, and what is paid does not.

    Measured: raised by the four planted rewards that do not pay for accuracy (form, length,
    repetition, agreement) at step 16, and by none of twenty honest trainings.
    """

    rises: tuple[str, ...] = ("format",)
    """Parts of names of components that pay for form; the total reward counts too."""
    falls: tuple[str, ...] = ("acc", "iou", "correct", "answer", "match", "success")
    """Parts of names of components that pay for being right."""
    fall: float = 0.15
    """Share of its size that accuracy falls by, at least."""
    rise: float = 0.03
    """Share of its size that the other rises by, at least."""
    errors: float = 3.0
    """Standard errors that each changes by, at least."""
    collapse: float = 0.5
    """Share that accuracy falls by where nothing has to rise: it is not paid for."""
    unpaid: float = 0.5
    """Share of such a fall that the reward falls by, at most."""


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
        self._recent = deque[tuple[int, Mapping[str, float]]](maxlen=LAG + WINDOW)
        self._held: dict[str, int] = {}
        """Rounds, by name of an alarm, since it held."""

    def see(self, step: int, numbers: Mapping[str, float]) -> tuple[list[str], list[Alarm]]:
        """Take a step's numbers; returns names of alarms that hold, and those that are new.

        An alarm is new if it has not held for WINDOW rounds. Steps that begin no round are passed
        over.
        """
        if "reward" not in numbers:
            return [], []
        if len(self._start) < WINDOW:
            self._start.append((step, numbers))
        self._recent.append((step, numbers))
        self._held = {name: age + 1 for name, age in self._held.items() if age < WINDOW}
        if len(self._recent) < WINDOW:
            return [], []
        holding = [alarm for alarm in map(self._broken, RULES) if alarm is not None]
        holding += [alarm for alarm in [self._hacking()] if alarm is not None]
        new = [alarm for alarm in holding if alarm.name not in self._held]
        self._held |= {alarm.name: 0 for alarm in holding}
        self.raised += new
        return [alarm.name for alarm in holding], new

    def _broken(self, rule: Rule) -> Alarm | None:
        """Return the alarm of a rule, if its limit is reached."""
        window = list(self._recent)[-WINDOW:]
        values, start = _values(window, rule.number), _values(self._start, rule.number)
        if len(values) < WINDOW or (rule.of_start and len(start) < WINDOW):
            return None
        found = rule.typical(values)
        limit = rule.limit * (rule.typical(start) if rule.of_start else 1.0)
        if not (found <= limit if rule.below else found >= limit):
            return None
        said = rule.says.format(found=found, limit=limit)
        return self._alarm(rule.name, window[0][0], said, rule.fix)

    def _hacking(self) -> Alarm | None:
        """Return the alarm of a reward that is gamed."""
        rounds = list(self._recent)
        window, references = rounds[-WINDOW:], [self._start]
        if len(rounds) == LAG + WINDOW:
            references.append(rounds[:WINDOW])
        for reference in references:
            if reference[-1][0] < window[0][0] and (said := _gamed(reference, window)):
                return self._alarm("reward_hacking", reference[-1][0], said, HACKING_FIX)
        return None

    def _alarm(self, name: str, since: int, found: str, fix: str) -> Alarm:
        return Alarm(name=name, step=self._recent[-1][0], since=since, found=found, fix=fix)


@dataclass(frozen=True)
class Change:
    """Change of a number's mean from one window of rounds to another."""

    old: float
    new: float
    errors: float
    """Standard errors that it changed by; infinite where nothing varies."""

    @property
    def share(self) -> float:
        """Change over the larger of both sizes: from -2 to 2."""
        return (self.new - self.old) / (max(abs(self.old), abs(self.new)) or 1.0)


def _change(old: Sequence[float], new: Sequence[float]) -> Change:
    if len(old) < WINDOW or len(new) < WINDOW:
        return Change(0.0, 0.0, 0.0)
    apart = fmean(new) - fmean(old)
    error = math.sqrt((variance(old) + variance(new)) / WINDOW)
    errors = apart / error if error else math.copysign(math.inf, apart) if apart else 0.0
    return Change(fmean(old), fmean(new), errors)


def _gamed(reference: Rounds, window: Rounds) -> str:
    """Return what is said of the change between two windows; empty: nothing is gamed."""
    changes = {
        name: _change(_values(reference, name), _values(window, name))
        for name in reference[0][1]
        if name == "reward" or (name.startswith("rewards/") and name.count("/") == 1)
    }
    form = {name for name in changes if _any_in(name, HACKING.rises)}
    right = {name for name in changes if _any_in(name, HACKING.falls)} - form
    sure = {name for name, change in changes.items() if abs(change.errors) >= HACKING.errors}
    down = min(right & sure, key=lambda name: changes[name].share, default="")
    up = max(({"reward"} | form) & sure, key=lambda name: changes[name].share, default="")
    fall, paid = (-changes[down].share if down else 0.0), -changes["reward"].share
    if up and changes[up].share >= HACKING.rise and fall >= HACKING.fall:
        limit = HACKING.fall
    elif fall >= HACKING.collapse and paid <= fall * HACKING.unpaid:
        up, limit = "reward", HACKING.collapse
    else:
        return ""
    fell, went = (f"from {changes[one].old:.3g} to {changes[one].new:.3g}" for one in (down, up))
    return (
        f"{down} has fallen {fell} while {up} went {went} (alarm from a fall by {limit:.0%} and "
        f"{HACKING.errors:g} standard errors)"
    )


def _values(rounds: Rounds, name: str) -> list[float]:
    """Return the finite numbers of rounds under a name."""
    values = (numbers[name] for _, numbers in rounds if name in numbers)
    return [value for value in values if math.isfinite(value)]


def _any_in(name: str, parts: Sequence[str]) -> bool:
    return any(part in name.lower() for part in parts)
