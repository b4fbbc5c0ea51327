"""Writes docs/commands.md, and llms.txt and skills/harness/SKILL.md, which coding agents read.

    python tests/docs/agents.py

The commands, their options and examples are those of `--help`, the pages those of README.md.
"""

import argparse
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from harness.cli.main import EXIT_CODES, GROUPS, build_parser

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "https://raw.githubusercontent.com/visual-reasoning-harness/harness/main"
NOT_PUBLIC = "The addresses are not public yet: until they are, read the same files in a checkout."
WRITTEN = "<!-- Written by `python tests/docs/agents.py`. -->"
HEAD = """---
name: harness
description: >-
  Evaluate, compare, gate and train models of visual reasoning (segmentation, grounding, counting,
  questions about images and videos) with the command `harness`. Use it to score a model or stored
  predictions on a benchmark, to find out why two scores differ, to build a leaderboard, or to
  reproduce a paper's table.
---

# harness

- First: `harness doctor`, `harness list tasks`, `harness list models`; `harness list tasks NAME`
  says how a benchmark's data is had.
- Below are the names of options; `harness COMMAND --help` says what they take.
- A SPEC is `name` or `name(key=value,…)`; quote it in a shell. Unknown names and keys are refused
  with those that exist.
- Without a GPU and a download: `harness data make shapes --out data`, then `--model pocket`.
- `--json`, which most commands take, prints one JSON value and nothing else. Errors say what to do.
- The same command resumes a killed run. Run folders are records: do not edit them.
- A number counts with its interval; `harness board check` says whether two runs differ.
- `--subset first20` tries a command; its score is none of the full set.
"""


def leaves(
    parser: argparse.ArgumentParser, name: str
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands that do something, with their whole names."""
    children = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    if not children:
        yield name, parser
    for action in children:
        for word, child in action.choices.items():
            yield from leaves(child, f"{name} {word}")


def usage(name: str, parser: argparse.ArgumentParser) -> str:
    """One line of a command's arguments, then its options, the same in every Python."""
    shown, options = [], []
    for action in parser._actions:
        if {"--help", "--json"} & {*action.option_strings}:
            continue
        # Those that may stand in a `--config` are named by the command's own usage.
        needed = action.required or {*action.option_strings} & {*(parser.usage or "").split()}
        if action.option_strings and not needed:
            options.append(action.option_strings[-1])
            continue
        given = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        values = " | ".join(map(str, action.choices)) if action.choices else given
        values = values if isinstance(values, str) else " ".join(values)
        text = " ".join(filter(None, (*action.option_strings[-1:], values)))
        shown.append(text if needed else f"[{text}]")
    return " ".join([name, *shown, *([f"[{' '.join(options)}]"] if options else [])])


def described() -> Iterator[tuple[str, list[tuple[str, argparse.ArgumentParser]]]]:
    """Yield each group of `harness --help` with its commands."""
    parser = build_parser()
    (commands,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    names = iter(commands.choices.items())
    for title, group in GROUPS.items():
        found = [next(names) for _ in group]
        yield title, [leaf for name, one in found for leaf in leaves(one, f"harness {name}")]


def skill() -> str:
    """The skill: what to know, and every command with its arguments and an example."""
    parts = [HEAD.strip(), WRITTEN]
    for title, commands in described():
        lines = []
        for name, parser in commands:
            lines.append(
                f"- `{usage(name, parser)}`: {' '.join((parser.description or '').split())}"
            )
            found = re.findall(r"^example: (.*)", parser.epilog or "", re.MULTILINE)
            lines += [f"  Example: `{one}`" for one in found]
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n" + "\n".join(lines))
    codes = re.findall(r"^ +(\d+)  (.*)$", EXIT_CODES, re.MULTILINE)
    parts.append("## Exit codes\n\n" + "\n".join(f"- {code}: {what}" for code, what in codes))
    parts.append(f"Pages: [llms.txt]({SOURCE}/llms.txt). {NOT_PUBLIC}")
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """llms.txt: what harness is, its pages, and its commands in a line each."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    summary = " ".join(readme.split("\n\n")[1].split())
    pages = re.search(r"^## Pages\n\n(.*?)\n\n", contents, re.DOTALL | re.MULTILINE)
    assert pages is not None, "docs/README.md lists the pages"
    linked = re.sub(
        r"\]\((?!https?:)([^)]+)",
        lambda link: f"]({SOURCE}/{posixpath.normpath(f'docs/{link[1]}')}",
        pages[1],
    )
    parts = ["# harness", f"> {summary}", WRITTEN, NOT_PUBLIC, "## Pages", linked, "## Commands"]
    parts.append(f"With their arguments: [SKILL.md]({SOURCE}/skills/harness/SKILL.md).")
    for title, commands in described():
        lines = [
            f"- `{name}`: {' '.join((one.description or '').split())}" for name, one in commands
        ]
        parts.append(f"### {title[0].upper()}{title[1:]}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """docs/commands.md: every command with every option, as its `--help` describes them."""
    parts = [
        "# Commands",
        WRITTEN,
        "Every option of every command, as in `harness COMMAND --help`. `-h` is left out.",
    ]
    for title, group in described():
        parts.append(f"## {title[0].upper()}{title[1:]}")
        for name, parser in group:
            parts.append(f"### {name}\n\n{' '.join((parser.description or '').split())}")
            rows = [
                f"| {_code(action)} | {_cell(parser, action)} |"
                for action in parser._actions
                if "--help" not in action.option_strings
            ]
            if rows:
                parts.append("\n".join(["| argument | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _code(action: argparse.Action) -> str:
    metavar = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    values = metavar if isinstance(metavar, str) else " ".join(metavar)
    names = ", ".join(action.option_strings) or values
    return f"`{' '.join(filter(None, (names, values * bool(action.option_strings))))}`".replace(
        "|", "\\|"
    )


def _cell(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """The help of an argument with its default put in, and its choices, in a cell of a table."""
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    if action.choices and not isinstance(action, argparse._SubParsersAction):
        names = [str(choice) for choice in action.choices]
        if not all(re.search(rf"\b{re.escape(name)}\b", text) for name in names):
            text = f"{text}: {', '.join(names)}"
    plain = " ".join(text.split()).replace("|", "\\|")
    code = r"(`[^`]*`)"  # needs no escape
    return "".join(
        part if re.fullmatch(code, part) else re.sub(r"[<>*_]", lambda match: f"\\{match[0]}", part)
        for part in re.split(code, plain)
    )


PAGES = {"llms.txt": index, "skills/harness/SKILL.md": skill, "docs/commands.md": commands}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(made(), encoding="utf-8", newline="\n")
