"""Writes README.md beside this file: the gains that `learning.py --save` left, study by study.

python examples/learning/results_page.py
"""

import json
from collections.abc import Iterator

from learned import table
from learning import RESULTS
from studies import STUDIES

PAGE = RESULTS.parent / "README.md"
HEAD = """# Learning: all numbers

What was trained and what follows from it: [learning.md](../../docs/learning.md). Means over seeds;
gains are paired by image, with intervals of 95 % over images and seeds. Studies marked ‡ mix
commits; `*` is an uncommitted state of one. Written by `python examples/learning/results_page.py`
from `examples/learning/results`.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for name in STUDIES for line in study(name))])


def study(name: str) -> Iterator[str]:
    """Yield the lines of one study: seeds with the commit of each, and the table of its gains."""
    saved = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    plan, courses = saved["plan"], next(iter(saved["training"].values()))
    commits = [f"{one['commit'][:7]}{'*' * one['dirty']}" for one in courses]
    yield f"## {name}{' ‡' if len(set(commits)) > 1 else ''}\n"
    yield (
        f"{plan['steps']} steps; {plan['held']} held-out samples a task; "
        f"seeds of {', '.join(commits)}.\n"
    )
    yield from table(saved["rows"])
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
