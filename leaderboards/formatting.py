"""Format a board's numbers and footnotes as text, the same for Markdown, HTML and the terminal.

Numbers are fractions or metric values; `NOTHING` stands for a missing one. A row's marks (†, ‡, §,
¶) refer to its footnotes: the functions that take a `Row` return one of either.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from harness.errors import counted
from harness.leaderboards.row import Reproduction, Row, TrainingInfo
from harness.metrics.label_noise import NAME as LABEL_NOISE
from harness.plugin_code import changed_scoring_code
from harness.scores import Better
from harness.statistics.paired import Comparison
from harness.statistics.text import NOTHING as NOTHING
from harness.statistics.text import number as number
from harness.statistics.text import p_value as p_value

MAX_TEXT = 6000  # characters of one text that are shown
ARROWS: Mapping[Better, str] = {"higher": "↑", "lower": "↓"}


def beside(value: float | None, printed: str | None, unit: str) -> str:
    """Return a measured number in the unit and with the decimals of the printed one beside it.

    Empty for None.

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
    """Return a difference with its sign; the minus is U+2212, not a hyphen.

    >>> signed_number(-0.0123), signed_number(0.5)
    ('−0.012', '+0.500')
    """
    if value is None:
        return NOTHING
    text = number(abs(value))
    return ("−" if value < 0 and text.strip("0.") else "+") + text


def span(pair: tuple[float, float] | None) -> str:
    """Return an interval as text.

    >>> span((0.1, 0.25))
    '0.100 to 0.250'
    """
    return NOTHING if pair is None else f"{number(pair[0])} to {number(pair[1])}"


def signed_span(pair: tuple[float, float] | None) -> str:
    """Return an interval of a difference, with signs."""
    return NOTHING if pair is None else f"{signed_number(pair[0])} to {signed_number(pair[1])}"


def change(comparison: Comparison | None) -> str:
    """Return a paired difference with its interval; empty for None."""
    if comparison is None:
        return ""
    difference = signed_number(comparison.difference)
    return difference + (f" ({signed_span(comparison.interval)})" if comparison.interval else "")


def percent(fraction: float) -> str:
    """Return a share from 0 to 1 as per cent; only a share of 1 is 100 %, however it rounds.

    >>> percent(1.0), percent(0.9999), percent(0.5)
    ('100 %', '99.9 %', '50.0 %')
    """
    if fraction == 1:
        return "100 %"
    return f"{min(fraction * 100, 99.9):.1f} %"


def failures(row: Row) -> str:
    """Return failed samples by kind, most frequent first: `3 parse, 1 model`; empty for none."""
    n_by_kind = sorted(row.failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {kind}" for kind, count in n_by_kind if count)


def marked_name(row: Row) -> str:
    """Return the model's name with its badges and marks, such as `x [toy] † ¶`.

    † trained on evaluated samples, ‡ differs from its method's paper, § transductive, ¶ responses
    cut off. Badges name toy and classical parts.
    """
    return marked_names([row])


def marked_names(rows: Sequence[Row]) -> str:
    """Return the name of several rows of one model, with every mark that a row has."""
    return rows[0].name + marks(rows)


MARKS = {
    "†": "trained on some of the samples",
    "‡": "differs from the paper of the method",
    "§": "learns from test samples",
    "¶": "some responses were cut off",
}
"""Meanings of the marks behind a model's name."""


def marks(rows: Sequence[Row], *, with_badges: bool = True) -> str:
    """Return what stands behind the name of several rows of one model: badges and marks."""
    badges = dict.fromkeys(badge for row in rows for badge in row.badges)
    present = {
        "†": any(row.trained_on_some for row in rows),
        "‡": any(row.deviations for row in rows),
        "§": any(row.transductive for row in rows),
        "¶": any(row.cut for row in rows),
    }
    text = f" [{', '.join(badges)}]" if badges and with_badges else ""
    return text + "".join(f" {mark}" for mark, is_set in present.items() if is_set)


def weights(row: Row) -> str:
    """Return the first 12 characters of the hash of each part's weights."""
    hashes = [f"{part} {digest[:12]}" for part, digest in row.weights.items()]
    return ", ".join(hashes) or NOTHING


def paper_note(row: Row) -> str:
    """Return a row's comparison with its paper's number, or an empty text."""
    reproduction = row.published
    if reproduction is None:
        return ""
    source = f"{reproduction.title}, Table {reproduction.table}, {reproduction.row}"
    return f"{row.name} ({row.run}): {source}: {comparison_text(reproduction)}"


def comparison_text(reproduction: Reproduction) -> str:
    """Return the comparison with a paper's number, and the known differences of the two runs."""
    return (
        f"{reproduction.text}. Known differences: {'; '.join(reproduction.differences) or 'none'}."
    )


def adaptation_note(row: Row) -> str:
    """Return the footnote of §; without learning, say that the model chooses among responses."""
    if not row.transductive:
        return f"{row.name} ({row.run}) chooses among its own responses ({row.adaptation})."
    return (
        f"§ {row.name} ({row.run}) is transductive: weights learned from each test sample, without "
        f"its target, before it was answered, and were put back ({row.adaptation})."
    )


def trained_on(row: Row) -> str:
    """Return the footnote of †: the overlap with the training data."""
    return f"† {row.name} ({row.run}): {row.trained_on}."


def label_noise_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a note on each metric of label noise (`harness.metrics.label_noise`) that rows have."""
    of_metric: dict[str, list[Row]] = {}
    for row in rows:
        for name, value in row.metrics.items():
            if name.startswith(LABEL_NOISE) and value is not None:
                of_metric.setdefault(name, []).append(row)
    for name, with_noise in of_metric.items():
        values = ", ".join(f"{number(row.metrics[name])} of {row.name}" for row in with_noise)
        about = with_noise[0].about.get(name, name)
        yield (
            f"{name[0].upper()}{name[1:]}: {values}. It is the {about}: smaller differences "
            "between rows may be the labels'."
        )


def ledger_note(row: Row) -> str:
    """Return the footnote of ¶, without the mark if no response was cut off; empty for none."""
    text = ledger_text(row.ledger, row.headline, row.n_total) if row.ledger else ""
    mark = "¶ " if row.cut else ""
    return f"{mark}{row.name} ({row.run}): {text}." if text else ""


def ledger_text(ledger: Mapping[str, Any], headline: str, n_total: int) -> str:
    """Describe the responses of a run that were not answered as usual; empty if all were.

    They are: cut off by the limit of tokens (with the bounds of the headline if none or all of them
    were right), named places beyond the image, repaired, or served by several models.

    Args:
        ledger: `Row.ledger`.
        headline: Name of the metric.
        n_total: Number of samples.
    """
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
    for mark, predicate in (
        ("outside", "named places beyond the image"),
        ("repaired", "were repaired"),
    ):
        if ledger[mark]:
            text.append(f"{ledger[mark]:,} of {counted(n_total, 'sample')} {predicate}")
    served = ledger.get("served", {})
    if len(served) > 1:
        names = ", ".join(f"{name} ({count:,})" for name, count in served.items())
        text.append(f"the server answered as {len(served)} models: {names}")
    return "; ".join(text)


def cut_of(row: Row, category: str, value: str) -> str:
    """Return the number of cut samples of one part of a breakdown as ` ¶ 3`; empty for none."""
    values_by_category = row.ledger.get("categories", {}) if row.ledger else {}
    count = values_by_category.get(category, {}).get(value, {}).get("cut")
    return f" ¶ {count:,}" if count else ""


def deviation_note(row: Row) -> str:
    """Return the footnote of ‡: the deviations from the paper."""
    text = "; ".join(map(str, row.deviations))
    return f"‡ {row.name} ({row.run}) does not reproduce the paper of its method: {text}."


def changed_note(row: Row) -> str:
    """Return the footnote of a run whose samples were predicted by different code."""
    return (
        f"{row.name} ({row.run}) was predicted in parts by different code: "
        f"{'; '.join(row.changed)} changed."
    )


def older_scorer_note(rows: Sequence[Row]) -> str:
    """Return a note on rows of a task whose scorer's code was changed since; empty for none."""
    changed = [changed_scoring_code(row.scoring_code) for row in rows]
    older = [row for row, modules in zip(rows, changed, strict=True) if modules]
    if not older:
        return ""
    verb = "is" if len(older) == 1 else "are"
    return (
        f"{counted(len(older), 'number')} of {older[0].task} {verb} of an older scorer "
        f"({', '.join(sorted({*chain.from_iterable(changed)}))} changed since): "
        f"{', '.join(f'{row.name} ({row.run})' for row in older)}. `harness score RUN` makes such "
        "a number anew, and the same `harness eval` with --rescore records it."
    )


def training_name(training: TrainingInfo) -> str:
    """Return a training's folder, method, steps and seed: `sft-1: sft, 100 steps, seed 0`."""
    steps = [] if training.steps is None else [counted(training.steps, "step")]
    facts = [training.method.partition("(")[0], *steps, f"seed {training.seed}"]
    return f"{training.folder}: {', '.join(facts)}"


def heading(name: str, better: Better) -> str:
    """Return a metric's name with an arrow in the direction in which it gets better."""
    return f"{name} {ARROWS[better]}"


def sentence(phrases: Sequence[str]) -> str:
    """Join phrases into one sentence.

    >>> sentence(["protocol seg/lisa", "200 samples"])
    'Protocol seg/lisa, 200 samples.'
    """
    text = ", ".join(phrases)
    return text[:1].upper() + text[1:] + "."


def ranking_rule(level: float) -> str:
    """Describe in one paragraph how rows are ranked."""
    return (
        "Rows share rank 1 if they are not shown to be worse than the best row. A row begins a new "
        "rank if it is shown to be worse than the first row of the rank above. Shown means p ≤ "
        f"{1 - level:.2g} in a paired test, which swaps the two rows' results of whole images or "
        "videos; then the interval of the difference does not contain 0. p is not corrected for "
        "the number of comparisons."
    )


def cut(text: str) -> str:
    """Return a text cut to MAX_TEXT characters, followed by the number of characters left out."""
    left_out = len(text) - MAX_TEXT
    return text if left_out <= 0 else f"{text[:MAX_TEXT]} … ({left_out:,} more characters)"
