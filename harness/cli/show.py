"""`harness list`: the installed plugins of a kind, or one with its settings.

Everything is read from entry points, cards and sources (`harness.catalog`). Only a single task
whose card does not describe its protocols, or without a card, is imported to list them.
"""

from argparse import Namespace
from dataclasses import asdict
from importlib.metadata import EntryPoint
from typing import Any

from harness import plugins, presets
from harness.catalog.task_facts import stated_facts, unstated_facts
from harness.cli.output import show_json
from harness.cli.tables import show_columns, wrap_lines
from harness.errors import counted
from harness.spec import KINDS

WITH_REQUIREMENTS = ("models", "backends", "segmenters", "propagators")
"""Kinds of plugins that are listed with their requirements."""
RANDOM_REWARD: dict[str, object] = {
    "name": "random",
    "module": "harness.trainers.grpo.rewards",
    "about": "Numbers from 0 to 1 that the seed decides: the control of an experiment.",
}
"""The reward that every trainer with rewards has, and no plugin."""


def list_plugins(arguments: Namespace) -> int:
    """List the plugins of a kind, or show one."""
    kind = arguments.kind
    if kind is None:
        return _list_kinds(arguments)
    if kind == "presets":
        return _list_presets(arguments)
    entries = plugins.installed_plugins(kind)
    if arguments.name is not None:
        if arguments.name not in entries:
            plugins.load(kind, arguments.name)  # raises, naming the nearest
        entries = {arguments.name: entries[arguments.name]}
    described = [describe(kind, entry) for entry in entries.values()]
    if arguments.name is not None or kind == "trainers":
        for plugin, entry in zip(described, entries.values(), strict=True):
            plugin |= details(kind, entry, complete=arguments.all or arguments.json)
            if kind == "tasks":
                plugin |= unstated_facts(entry)
    if arguments.name is not None:
        # Left out of lists: a package's name and version cost more to read than all the rest.
        package = entries[arguments.name].dist
        described[0]["package"] = f"{package.name} {package.version}" if package is not None else ""
    elif kind == "rewards":
        described.append(RANDOM_REWARD)
    if arguments.json:
        show_json(described)
    elif arguments.name is not None:
        _show_one(described[0])
    else:
        _show_all(kind, described)
    return 0


def _list_presets(arguments: Namespace) -> int:
    """List the presets, or show one with its SPEC."""
    chosen = presets.presets()
    if arguments.name is not None:
        chosen = {arguments.name: presets.preset(arguments.name)}
    described: list[dict[str, object]] = [
        {
            "name": preset.name,
            "about": preset.about,
            "task": preset.task,
            "needs": list(preset.needs),
            "model": str(preset.model),
            "revision": preset.revision or None,
        }
        for preset in chosen.values()
    ]
    if arguments.json:
        show_json(described)
    elif arguments.name is not None:
        _show_one(described[0])
    else:
        show_columns(
            [("name", "about"), *((preset.name, preset.about) for preset in chosen.values())]
        )
        note = (
            "`harness list presets NAME` shows the SPEC. `--model NAME` runs it; "
            '`--model "NAME(max_pixels=401408)"` changes an argument.'
        )
        print("", *wrap_lines(note), sep="\n")
    return 0


def _list_kinds(arguments: Namespace) -> int:
    """List the kinds of plugins, each with the number that is installed."""
    n_installed = {kind: len(plugins.installed_plugins(kind)) for kind in KINDS}
    n_installed["presets"] = len(presets.presets())
    if arguments.json:
        show_json([{"kind": kind, "installed": count} for kind, count in n_installed.items()])
        return 0
    rows = [("kind", "installed", "list them")]
    show_columns(
        rows + [(kind, str(count), f"harness list {kind}") for kind, count in n_installed.items()]
    )
    return 0


def describe(kind: str, entry: EntryPoint) -> dict[str, object]:
    """Return name, module, and card or summary of a plugin, without importing it."""
    plain: dict[str, object] = {"name": entry.name, "module": entry.value}
    card = plugins.find_card(entry.name) if kind == "tasks" else None
    if card is not None:
        plain |= asdict(card)
        plain["count"] = card.splits.get(card.default_split, 0)
        plain["count_videos"] = card.videos.get(card.default_split, 0)
    else:
        plain["about"] = plugins.summary_of(entry)
        if kind == "tasks":
            plain |= stated_facts(entry)
        if kind in WITH_REQUIREMENTS:
            from harness.catalog import requirements  # `ast` is slow, and not needed for tasks

            plain["needs"] = requirements.requirements_of(kind, entry)
    return plain


def details(kind: str, entry: EntryPoint, *, complete: bool = True) -> dict[str, object]:
    """Return the settings of a plugin, and a trainer's configurations.

    Args:
        kind: The kind of the plugin.
        entry: Its entry point; a task with a card has no settings here, as the card says more.
        complete: All settings; False: the main ones, and how many more there are.
    """
    from harness.catalog import settings

    fields: dict[str, object] = {}
    folder = plugins.folder(entry)
    if kind != "tasks" or folder is None or not (folder / "card.toml").is_file():
        lines = settings.settings(entry)
        names = (
            list(lines) if complete else settings.main_settings(settings.offered_settings(entry))
        )
        fields["settings"] = {name: lines[name] for name in names}
        if n_more := len(lines) - len(names):
            fields["more"] = f"{n_more} settings: harness list {kind} {entry.name} --all"
    return {**fields, "configs": configs(entry)} if kind == "trainers" else fields


def configs(entry: EntryPoint) -> list[str]:
    """List the names of a trainer's configurations, for `--config`."""
    folder = plugins.folder(entry)
    paths = (folder / "configs").glob("*.toml") if folder is not None else ()
    return sorted(path.stem for path in paths)


def _show_all(kind: str, described: list[dict[str, Any]]) -> None:
    """Print the plugins of a kind as a table."""
    if not described:
        print(f"no {kind} are installed")
        return
    if kind == "tasks":
        rows: list[tuple[str, ...]] = [
            ("name", "headline", "split", "samples", "title (answers; protocol)")
        ]
        for plugin in described:
            about = plugin.get("title") or plugin["about"] or plugin["module"]
            facts = filter(None, (", ".join(plugin.get("forms", ())), plugin.get("protocol")))
            if facts_text := "; ".join(facts):
                about = f"{about} ({facts_text})"
            split = plugin.get("default_split", "")
            headline = plugin.get("headline", "")
            rows.append((plugin["name"], headline, split, _count(plugin), about))
    else:
        titles = ("name", "needs", "about") if kind in WITH_REQUIREMENTS else ("name", "about")
        rows = [titles]
        for plugin in described:
            if_empty = {"needs": "nothing", "about": plugin["module"]}
            rows.append(tuple(_cell(plugin.get(title) or if_empty[title]) for title in titles))
    show_columns(rows)
    if kind == "tasks":
        note = (
            "?: not published, or decided when the data is made. `harness list tasks NAME` "
            "shows a card, `harness data check NAME --data ROOT` counts."
        )
        print("", *wrap_lines(note), sep="\n")


def _cell(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _count(plugin: dict[str, object]) -> str:
    """Return the number of samples of the default split, of videos if only that is published."""
    if plugin.get("count"):
        return str(plugin["count"])
    videos = plugin.get("count_videos")
    return f"? in {counted(int(str(videos)), 'video')}" if videos else "?"


def _show_one(plugin: dict[str, object]) -> None:
    """Print the fields of a plugin that are not empty, folded to the terminal."""
    for key, value in plugin.items():
        if value in (None, "", (), [], {}):
            continue
        if isinstance(value, dict):
            print(f"{key}:")
            lines = [
                f"  {name}{'' if key == 'settings' else ': '}{text}" for name, text in value.items()
            ]
        elif isinstance(value, (list, tuple)):
            lines = [f"{key}: {', '.join(map(str, value))}"]
        else:
            lines = [f"{key}: {str(value).strip()}"]
        for text in lines:
            for line in text.splitlines():
                print("\n".join(wrap_lines(line, indent=4)))
