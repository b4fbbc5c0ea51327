"""Rollouts of a training as one self-contained HTML page without scripts.

Every text goes through `markup`, which escapes it.
"""

from collections.abc import Sequence
from itertools import groupby

from harness.leaderboards import formatting
from harness.leaderboards.formatting import cut
from harness.leaderboards.render.markup import Markup, element, join, page
from harness.leaderboards.render.transcripts import transcript
from harness.leaderboards.rollouts import Group, Rollout

TOTAL = "total"


def render(title: str, groups: Sequence[Group], *, summary: str, notes: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        title: Its heading.
        groups: In the order of their steps.
        summary: What the training is, in one line.
        notes: Remarks for the reader, such as the reason for missing images.
    """
    steps = [
        _step(number, list(of_step))
        for number, of_step in groupby(groups, key=lambda group: group.step)
    ]
    texts = {
        "title": title,
        "summary": summary,
        "notes": join(*(element("p", {"class": "note"}, note) for note in notes)),
        "steps": join(*steps),
    }
    return page("rollouts.html", ("page.css", "rollouts.css", "transcripts.css"), texts)


def _step(number: int, groups: Sequence[Group]) -> Markup:
    name = f"step-{number}"
    return element(
        "section",
        {"class": "step", "aria-labelledby": name},
        element("h2", {"id": name}, f"Step {number}"),
        *(_group(group) for group in groups),
    )


def _group(group: Group) -> Markup:
    facts = [
        group.sample,
        *([group.task] if group.task else []),
        *([f"ground truth: {group.ground_truth}"] if group.ground_truth else []),
    ]
    return element(
        "article",
        {"class": "prompt"},
        element("p", {"class": "question"}, cut(group.question)) if group.question else "",
        element("p", {"class": "facts"}, " · ".join(facts)),
        element("p", {"class": "note"}, group.note) if group.note else "",
        element(
            "div",
            {"class": "responses"},
            *(_rollout(group, number, one) for number, one in enumerate(group.rollouts, 1)),
        ),
    )


def _rollout(group: Group, number: int, rollout: Rollout) -> Markup:
    name = f"Response {number} to {group.sample}"
    image = {"src": rollout.image, "alt": f"{name}, drawn", "decoding": "async"}
    said = transcript(rollout.blocks) if rollout.blocks else _text(rollout.text)
    second = rollout.second
    return element(
        "figure",
        {"class": "rollout turns" if rollout.blocks else "rollout", "aria-label": name},
        element("img", image) if rollout.image else "",
        element(
            "figcaption",
            {},
            _advantage(rollout),
            _components(rollout),
            element("p", {"class": "unread"}, cut(rollout.unread)) if rollout.unread else "",
            _folded(_length(rollout), said),
            "" if second is None else _folded("Second pass", _text(second)),
        ),
    )


def _advantage(rollout: Rollout) -> Markup:
    value = rollout.advantage
    sign = "" if not value else " up" if value > 0 else " down"
    return element(
        "p",
        {"class": f"value advantage{sign}"},
        "advantage ",
        element("b", {}, formatting.signed_number(value)),
    )


def _components(rollout: Rollout) -> Markup:
    """Each term of the reward under its name, the total last."""
    ordered = sorted(rollout.components.items(), key=lambda one: one[0] == TOTAL)
    rows = [
        element(
            "div",
            {"class": "total"} if name == TOTAL else {},
            element("dt", {}, name),
            element("dd", {}, formatting.number(value)),
        )
        for name, value in ordered
    ]
    return element("dl", {}, *rows)


def _length(rollout: Rollout) -> str:
    noun = "token" if rollout.tokens == 1 else "tokens"
    frame = f", frame {rollout.frame}" if rollout.frame else ""
    return f"Response, {rollout.tokens:,} {noun}{', cut off' if rollout.cut else ''}{frame}"


def _text(text: str) -> Markup:
    return element("pre", {"tabindex": "0"}, cut(text))


def _folded(summary: str, content: Markup) -> Markup:
    attributes = {"class": "response", "open": None}
    return element("details", attributes, element("summary", {}, summary), content)
