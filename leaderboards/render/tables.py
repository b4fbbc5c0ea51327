"""Tables of the page: the ranking with its intervals, breakdowns, and provenance of runs."""

from harness.leaderboards import formatting
from harness.leaderboards.board import Entry, Table
from harness.leaderboards.render.intervals import Axis, axis, bar, scale
from harness.leaderboards.render.markup import Markup, element, join
from harness.leaderboards.row import Row, TrainingInfo

NUMBER = {"class": "num"}


def ranking(table: Table) -> Markup:
    """The rows, best first; every column can be sorted by."""
    measure = scale([entry.row for entry in table.entries])
    best = table.entries[0].row.value
    better = table.entries[0].row.better
    metrics = [
        _head(formatting.heading(name, better[name]), first=better[name]) for name in table.metrics
    ]
    head = element(
        "tr",
        {},
        _head("Rank", first="lower", sorted_now=True),
        _head("Model", first="lower", number=False),
        metrics[0],
        element("th", {"scope": "col", "class": "bar"}, "95 % interval", axis(measure)),
        _head("To best", first=table.better),
        *metrics[1:],
        _head("Answered", first="higher"),
        _head("Failures", first="lower"),
    )
    rows = [_row(table, entry, measure, best) for entry in table.entries]
    return _scroll_element(
        f"Ranking for {table.title}",
        element(
            "table",
            {"class": "ranking"},
            element("caption", {"class": "hidden"}, f"Ranking for {table.title}"),
            element("thead", {}, head),
            element("tbody", {}, *rows),
        ),
    )


def _row(table: Table, entry: Entry, measure: Axis | None, best: float | None) -> Markup:
    row = entry.row
    return element(
        "tr",
        {"class": "first"} if entry.rank == 1 else {},
        _cell(formatting.NOTHING if entry.rank is None else str(entry.rank), entry.rank),
        element(
            "th",
            {"scope": "row", "data-sort": row.name},
            element("span", {"class": "model"}, formatting.marked_name(row)),
            element("code", {}, row.model_spec) if row.model_spec != row.model else "",
            _training_markup(row),
        ),
        element(
            "td",
            {"class": "num headline", "data-sort": _key(row.value)},
            formatting.number(row.value),
        ),
        element(
            "td",
            {"class": "bar"},
            bar(row, measure, best) if measure else "",
            element("small", {}, formatting.span(row.interval)),
        ),
        _to_best(entry),
        *(
            _cell(formatting.number(row.metrics.get(m)), row.metrics.get(m))
            for m in table.metrics[1:]
        ),
        _cell(formatting.percent(row.answered_share), row.answered_share),
        _failures(row),
    )


def _training_markup(row: Row) -> Markup:
    """The recorded training behind a row, under its model's name."""
    made = row.training
    if made is None or made.folder is None:
        return Markup("")
    text, title = formatting.training_name(made), formatting.training_title(made)
    return element("small", {"class": "training"}, "training ", _link(made, text, title))


def _link(made: TrainingInfo, text: str, title: str) -> Markup:
    """Link to a training's page, or the plain text where there is no page."""
    if made.link is None:
        return element("span", {"title": title}, text)
    return element("a", {"href": made.link, "title": title}, text)


def _to_best(entry: Entry) -> Markup:
    versus = entry.to_best
    if versus is None:
        # Of the rows that are compared with nothing, only the best has no basis for its rank.
        key = "0.0" if entry.basis is None else ""
        return element("td", {"class": "num none", "data-sort": key}, formatting.NOTHING)
    text = [formatting.signed_span(versus.interval)] if versus.interval else []
    text += [formatting.p_value(versus)] if versus.p_value is not None else []
    return element(
        "td",
        {
            "class": "num shown" if versus.is_worse else "num",
            "data-sort": _key(versus.difference),
        },
        formatting.signed_number(versus.difference),
        *(element("small", {}, part) for part in text),
    )


def _failures(row: Row) -> Markup:
    kinds = formatting.failures(row)
    return element(
        "td",
        {"class": "num failed" if row.n_failed else "num", "data-sort": str(row.n_failed)},
        f"{row.n_failed:,}",
        *([element("small", {}, kinds)] if kinds else []),
    )


def breakdowns(table: Table) -> list[Markup]:
    """One table a category, closed: the headline of every model for each of its values."""
    categories = dict.fromkeys(c for entry in table.entries for c in entry.row.breakdowns)
    return [_breakdown(table, category) for category in categories]


def _breakdown(table: Table, category: str) -> Markup:
    parts = [entry.row.breakdowns.get(category, {}) for entry in table.entries]
    values = dict.fromkeys(value for part in parts for value in part)
    rows = []
    for value in values:
        cells = [part.get(value) for part in parts]
        found = [cell["metrics"].get(table.headline) if cell else None for cell in cells]
        rows.append(
            element(
                "tr",
                {},
                element("th", {"scope": "row"}, value),
                element("td", NUMBER, f"{next(cell['n'] for cell in cells if cell):,}"),
                *(element("td", NUMBER, formatting.number(number)) for number in found),
            )
        )
    head = element(
        "tr",
        {},
        element("th", {"scope": "col"}, category),
        element("th", {"scope": "col", **NUMBER}, "Samples"),
        *(element("th", {"scope": "col", **NUMBER}, e.row.name) for e in table.entries),
    )
    return _details_element(
        join(formatting.heading(table.headline, table.better), " by ", element("b", {}, category)),
        _scroll_element(
            f"{table.headline} by {category}",
            element("table", {}, element("thead", {}, head), element("tbody", {}, *rows)),
        ),
    )


PROVENANCE = (
    "Model",
    "Run",
    "Seed",
    "Prompt tokens",
    "Completion tokens",
    "Reasoning tokens",
    "Frames",
    "Time",
    "Peak memory",
    "Device",
    "Code",
    "Configuration",
    "Training",
)


def provenance(table: Table) -> Markup:
    """Return the closed table of each row's provenance and cost."""
    head = [
        element("th", {"scope": "col", **(NUMBER if 2 <= index <= 7 else {})}, name)
        for index, name in enumerate(PROVENANCE)
    ]
    rows = [_source(entry.row) for entry in table.entries]
    body = element(
        "table",
        {"class": "provenance"},
        element("thead", {}, element("tr", {}, *head)),
        element("tbody", {}, *rows),
    )
    return _details_element(
        Markup("Runs and cost"), _scroll_element(f"Runs of {table.title}", body)
    )


def _source(row: Row) -> Markup:
    code = (row.commit or "")[:10] + (" with changes" if row.dirty else "")
    counts = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "frames")
    numbers = [
        formatting.NOTHING if row.seed is None else str(row.seed),
        *(f"{row.usage.get(name, 0):,}" for name in counts),
        formatting.duration(row.seconds),
    ]
    return element(
        "tr",
        {},
        element("th", {"scope": "row"}, row.name),
        element("td", {}, element("code", {}, row.run)),
        *(element("td", NUMBER, number) for number in numbers),
        element("td", {}, formatting.memory(row)),
        element("td", {}, row.device or formatting.NOTHING),
        element("td", {}, element("code", {}, code or formatting.NOTHING)),
        element("td", {}, element("code", {}, row.config_hash[:12])),
        _training(row),
    )


def _training(row: Row) -> Markup:
    made, text = row.training, formatting.training(row)
    if made is None:
        return element("td", {}, text)
    linked = text if made.link is None else _link(made, text, formatting.training_title(made))
    return element("td", {"title": made.method}, linked)


def _head(name: str, *, first: str, number: bool = True, sorted_now: bool = False) -> Markup:
    """Return a heading that sorts; `first` names the end of the column that comes first."""
    attributes: dict[str, str | None] = {
        "scope": "col",
        "data-first": "descending" if first == "higher" else "ascending",
        "aria-sort": "ascending" if sorted_now else "none",
    }
    if number:
        attributes["class"] = "num"
    return element("th", attributes, element("button", {"type": "button"}, name))


def _cell(text: str, value: float | None) -> Markup:
    return element("td", {"class": "num", "data-sort": _key(value)}, text)


def _key(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _details_element(summary: Markup, content: Markup) -> Markup:
    return element("details", {}, element("summary", {}, summary), content)


def _scroll_element(label: str, content: Markup) -> Markup:
    # Focusable, so that a wide table can be scrolled from the keyboard.
    return element(
        "div",
        {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": label},
        content,
    )
