"""Formatting of a board's numbers and texts, the same in Markdown and HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import counted
from harness.leaderboards.published_results import title_of
from harness.leaderboards.row import Reproduction, Row, TrainingInfo
from harness.scores import Better
from harness.statistics.paired import Comparison
from harness.statistics.text import NOTHING as NOTHING
from harness.statistics.text import number as number
from harness.statistics.text import p_value as p_value

MAX_TEXT = 6000  # characters of one text that are shown
ARROWS: Mapping[Better, str] = {"higher": "↑", "lower": "↓"}


def beside(value: float | None, printed: str | None, unit: str) -> str:
    """A measured number as the printed one that it stands beside is written; empty for none.

    >>> beside(0.6512, "64.9", "percent"), beside(26.92, "26.9", "tokens")
    ('65.1', '26.920')
    >>> beside(0.6512, None, "percent")
    '65.1'
    """
    if value is None:
        return ""
    if unit != "percent":
        return number(value)
    return f"{100 * value:.{1 if printed is None else len(printed.partition('.')[2])}f}"


def signed_number(value: float | None) -> str:
    """A difference with its sign; a true minus, not a hyphen.

    >>> signed_number(-0.0123), signed_number(0.5)
    ('−0.012', '+0.500')
    """
    if value is None:
        return NOTHING
    text = number(abs(value))
    return ("−" if value < 0 and text.strip("0.") else "+") + text


def span(pair: tuple[float, float] | None) -> str:
    """An interval.

    >>> span((0.1, 0.25))
    '0.100 to 0.250'
    """
    return NOTHING if pair is None else f"{number(pair[0])} to {number(pair[1])}"


def signed_span(pair: tuple[float, float] | None) -> str:
    """An interval of a difference."""
    return NOTHING if pair is None else f"{signed_number(pair[0])} to {signed_number(pair[1])}"


def change(comparison: Comparison | None) -> str:
    """A paired difference with its interval; empty for none."""
    if comparison is None:
        return ""
    difference = signed_number(comparison.difference)
    return difference + (f" ({signed_span(comparison.interval)})" if comparison.interval else "")


def percent(share: float) -> str:
    """A share as per cent; never rounded up to 100 %.

    >>> percent(1.0), percent(0.9999), percent(0.5)
    ('100 %', '99.9 %', '50.0 %')
    """
    if share == 1:
        return "100 %"
    return f"{min(share * 100, 99.9):.1f} %"


def failures(row: Row) -> str:
    """Failed samples by kind, the frequent first: `3 parse, 1 model`; empty if there are none."""
    kinds = sorted(row.failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds if count)


def marked_name(row: Row) -> str:
    """Return the model's name and its toys and classical parts, with † where evaluated samples were
    trained on, ‡ where the run differs from the paper of its method, § where it is
    transductive, and ¶ where responses were cut off.
    """
    return marked_names([row])


def marked_names(rows: Sequence[Row]) -> str:
    """Return the name of rows of one model, with the marks that any of them has (`marked_name`)."""
    badges = dict.fromkeys(badge for row in rows for badge in row.badges)
    marks = {
        "†": any(row.trained_on_some for row in rows),
        "‡": any(row.deviations for row in rows),
        "§": any(row.transductive for row in rows),
        "¶": any(row.cut for row in rows),
    }
    name = rows[0].name + f" [{', '.join(badges)}]" * bool(badges)
    return name + "".join(f" {mark}" for mark, has in marks.items() if has)


def weights(row: Row) -> str:
    """The hash of each part's weights."""
    parts = [f"{part} {digest[:12]}" for part, digest in row.weights.items()]
    return ", ".join(parts) or NOTHING


def paper_note(row: Row) -> str:
    """Compare a row with its paper's number, and list the known differences."""
    reproduction = row.published
    if reproduction is None:
        return ""
    where = f"{title_of(reproduction.paper)}, Table {reproduction.table}, {reproduction.row}"
    return f"{row.name} ({row.run}): {where}: {comparison_text(reproduction)}"


def comparison_text(reproduction: Reproduction) -> str:
    """A comparison with a paper's number, and the known differences."""
    return (
        f"{reproduction.text}. Known differences: {'; '.join(reproduction.differences) or 'none'}."
    )


def adaptation_note(row: Row) -> str:
    """Return the footnote of the section sign, or of what was drawn without learning."""
    if not row.transductive:
        return f"{row.name} ({row.run}) chooses among its own responses ({row.adaptation})."
    return (
        f"§ {row.name} ({row.run}) is transductive: weights learned from each test sample, without "
        f"its target, before it was answered, and were put back ({row.adaptation})."
    )


def trained_on(row: Row) -> str:
    """Return the footnote of the dagger."""
    return f"† {row.name} ({row.run}): {row.trained_on}."


def ledger_note(row: Row) -> str:
    """Return the footnote of the pilcrow, or of places beyond the image and of repairs."""
    text = ledger_text(row.ledger, row.headline, row.n_total) if row.ledger else ""
    return f"{'¶ ' * bool(row.cut)}{row.name} ({row.run}): {text}." if text else ""


def ledger_text(ledger: Mapping[str, Any], headline: str, n_total: int) -> str:
    """Describe what a limit may have cost, places beyond the image, repairs, several models."""
    cut, text = ledger["cut"], []
    if cut:
        were = "was" if cut == 1 else "were"
        where = "" if ledger["limit"] is None else f" at {ledger['limit']:,} tokens"
        text.append(
            f"{cut:,} of {counted(n_total, 'sample')} ({percent(cut / n_total)}) "
            f"{were} cut off{where}"
        )
    if cut and ledger["if_right"] is not None:
        wrong, right = (number(ledger[name][headline]) for name in ("if_wrong", "if_right"))
        text.append(
            f"{headline} would be {wrong} if none of them had an answer, {right} if all were right"
        )
    for mark, words in (
        ("outside", "named places beyond the image"),
        ("repaired", "were repaired"),
    ):
        if ledger[mark]:
            text.append(f"{ledger[mark]:,} of {counted(n_total, 'sample')} {words}")
    served = ledger.get("served", {})
    if len(served) > 1:
        names = ", ".join(f"{name} ({count:,})" for name, count in served.items())
        text.append(f"the server answered as {len(served)} models: {names}")
    return "; ".join(text)


def cut_of(row: Row, category: str, value: str) -> str:
    """Return how many samples of one part were cut off, with the pilcrow; empty for none."""
    parts = row.ledger.get("categories", {}) if row.ledger else {}
    count = parts.get(category, {}).get(value, {}).get("cut")
    return f" ¶ {count:,}" if count else ""


def deviation_note(row: Row) -> str:
    """Return the footnote of the double dagger."""
    text = "; ".join(map(str, row.deviations))
    return f"‡ {row.name} ({row.run}) does not reproduce the paper of its method: {text}."


def training_name(training: TrainingInfo) -> str:
    """A training in short: its folder's name, method, steps, seed."""
    steps = [] if training.steps is None else [counted(training.steps, "step")]
    facts = [training.method.partition("(")[0], *steps, f"seed {training.seed}"]
    return f"{training.folder}: {', '.join(facts)}"


def heading(name: str, better: Better) -> str:
    """A metric's name with the direction in which it gets better."""
    return f"{name} {ARROWS[better]}"


def sentence(phrases: Sequence[str]) -> str:
    """Phrases as one sentence.

    >>> sentence(["protocol seg/lisa", "200 samples"])
    'Protocol seg/lisa, 200 samples.'
    """
    text = ", ".join(phrases)
    return text[:1].upper() + text[1:] + "."


def ranking_rule(level: float) -> str:
    """Describe in one paragraph how rows are ranked."""
    return (
        "Rank 1 is shared by all rows that are not shown to be worse than the best; another row "
        "starts a new rank when it is shown to be worse than the first row of the rank above. "
        f"Shown means p ≤ {1 - level:.2g}: p and interval are of one paired test, which swaps the "
        "two rows' results of whole images or videos, so that the interval leaves out 0 where p is "
        "that small. No correction is made for the number of comparisons."
    )


def cut(text: str) -> str:
    """Return a text, cut to MAX_TEXT characters; the number of the others is appended."""
    rest = len(text) - MAX_TEXT
    return text if rest <= 0 else f"{text[:MAX_TEXT]} … ({rest:,} more characters)"
