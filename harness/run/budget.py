"""The limit of time or money for a command (`--budget`), and the rest that is left.

`piloted` stops a run when nothing is left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter

from harness.errors import UsageError

SECONDS_OF_UNIT: Mapping[str, float] = {"s": 1, "min": 60, "h": 3600}
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
TIME = re.compile(rf"{NUMBER} ?({'|'.join(SECONDS_OF_UNIT)})\Z")
"""A time: `2h`, `1.5 h`, `90min`, `45s`."""
CURRENCY = "([$€£¥]|[A-Z]{3})"
MONEY = (
    re.compile(rf"{NUMBER} ?{CURRENCY}\Z"),
    re.compile(rf"{CURRENCY} ?{NUMBER}\Z"),
)
"""A sum of money: `5$`, `0.5 EUR`; `$5`, `EUR 0.5`."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """A limit of time, counted from its creation, or of money. All runs of a command share it."""

    text: str
    """The limit as it was typed."""
    seconds: float | None = None
    """The limit in seconds; None: it is a limit of money."""
    money: float | None = None
    """The limit in the currency of the prices in the model's SPEC; None: it is one of time."""
    began: float = field(default_factory=perf_counter)
    spent: float = 0.0
    """Money spent so far."""

    @property
    def currency(self) -> str:
        """The currency as it was typed; empty for a time."""
        return "" if self.money is None else re.sub(r"[\d. ]", "", self.text)

    @property
    def left(self) -> float:
        """Seconds or money left, at least 0."""
        if self.seconds is not None:
            return max(0.0, self.seconds - (perf_counter() - self.began))
        return max(0.0, (self.money or 0.0) - self.spent)


def budget(text: str) -> Budget:
    """Return the budget of a text such as `2h`, `90min`, `45s`, `5$` or `0.5EUR`.

    >>> budget("1.5h").seconds, budget("$5").money
    (5400.0, 5.0)

    Raises:
        UsageError: it is neither a time nor a sum of money, or it is 0.
    """
    typed = text.strip()
    time = TIME.match(typed)
    if time and float(time[1]) > 0:
        return Budget(text=typed, seconds=float(time[1]) * SECONDS_OF_UNIT[time[2]])
    for pattern in MONEY:
        if match := pattern.match(typed):
            (money,) = (float(part) for part in match.groups() if part[0].isdigit())
            if money > 0:
                return Budget(text=typed, money=money)
    raise UsageError(
        "--budget",
        expected="a time such as 2h, 90min or 45s, or a sum such as 5$ or 0.5EUR",
        found=repr(text)[:40],
        fix="" if typed else "A shell reads $5 as a variable: type 5$ or '$5'.",
    )
