"""`harness list`."""

from argparse import Namespace
from dataclasses import asdict
from importlib.metadata import EntryPoint
from typing import Any

from harness import plugins, presets
from harness.cli.output import show_json
from harness.cli.tables import show_columns, wrap_lines
from harness.errors import counted
from harness.spec import KINDS

NEEDY = ("models", "backends", "segmenters", "propagators")
"""Kinds of plugins that are listed with their requirements."""


def list_plugins(arguments: Namespace) -> int:
    """List the plugins of a kind, or show one, without importing any of them."""
    kind = arguments.kind
    if kind is None:
        return _list_kinds(arguments)
    if kind == "presets":
        return _list_presets(arguments)
    known = plugins.installed_plugins(kind)
    if arguments.name is not None:
        if arguments.name not in known:
            plugins.load(kind, arguments.name)  # raises, naming the nearest
        known = {arguments.name: known[arguments.name]}
    described = [describe(kind, entry) for entry in known.values()]
    if arguments.name is not None or kind == "trainers":
        for plugin, entry in zip(described, known.values(), strict=True):
            plugin |= details(kind, entry, whole=arguments.all or arguments.json)
    if arguments.name is not None:
        # Left out of lists: a package's name and version cost more to read than all the rest.
        package = known[arguments.name].dist
        described[0]["package"] = f"{package.name} {package.version}" if package is not None else ""
    if arguments.json:
        show_json(described)
    elif arguments.name is not None:
        _show_one(described[0])
    else:
        _show_all(kind, described)
    return 0


def _list_presets(arguments: Namespace) -> int:
    """List the presets, or show one with its SPEC."""
    known = presets.presets()
    if arguments.name is not None:
        known = {arguments.name: presets.preset(arguments.name)}
    described: list[dict[str, object]] = [
        {
            "name": preset.name,
            "about": preset.about,
            "task": preset.task,
            "needs": list(preset.needs),
            "model": str(preset.model),
        }
        for preset in known.values()
    ]
    if arguments.json:
        show_json(described)
    elif arguments.name is not None:
        _show_one(described[0])
    else:
        show_columns(
            [("name", "about"), *((preset.name, preset.about) for preset in known.values())]
        )
        note = (
            "`harness list presets NAME` shows the SPEC. `--model NAME` runs it; "
            '`--model "NAME(max_pixels=401408)"` changes an argument.'
        )
        print("", *wrap_lines(note), sep="\n")
    return 0


def _list_kinds(arguments: Namespace) -> int:
    counts = {kind: len(plugins.installed_plugins(kind)) for kind in KINDS}
    counts["presets"] = len(presets.presets())
    if arguments.json:
        show_json([{"kind": kind, "installed": count} for kind, count in counts.items()])
        return 0
    rows = [("kind", "installed", "list them")]
    show_columns(
        rows + [(kind, str(count), f"harness list {kind}") for kind, count in counts.items()]
    )
    return 0


def describe(kind: str, entry: EntryPoint) -> dict[str, object]:
    """Describe a plugin without importing it: its name, module and card."""
    plain: dict[str, object] = {"name": entry.name, "module": entry.value}
    place = plugins.folder(entry)
    if kind == "tasks" and place is not None and (place / "card.toml").is_file():
        from harness.card import Card

        card = asdict(Card.read(place / "card.toml"))
        card["count"] = card["splits"].get(card["default_split"], 0)
        card["count_videos"] = card["videos"].get(card["default_split"], 0)
        plain.update(card)
    else:
        plain["about"] = plugins.summary_of(entry)
        if kind == "tasks":
            from harness.catalog.task_facts import stated_facts

            plain |= stated_facts(entry)
        if kind in NEEDY:
            from harness.catalog import requirements  # `ast` is slow, and not needed for tasks

            plain["needs"] = requirements.requirements_of(kind, entry)
    return plain


def details(kind: str, entry: EntryPoint, *, whole: bool = True) -> dict[str, object]:
    """The settings of a plugin (not `whole`: the main ones), and a trainer's configurations.

    A task's card says more than its settings do.
    """
    from harness.catalog import settings

    fields: dict[str, object] = {}
    place = plugins.folder(entry)
    if kind != "tasks" or place is None or not (place / "card.toml").is_file():
        lines = settings.settings(entry)
        names = list(lines) if whole else settings.main_settings(settings.offered_settings(entry))
        fields["settings"] = {name: lines[name] for name in names}
        if rest := len(lines) - len(names):
            fields["more"] = f"{rest} settings: harness list {kind} {entry.name} --all"
    return {**fields, "configs": configs(entry)} if kind == "trainers" else fields


def configs(entry: EntryPoint) -> list[str]:
    """List the names of a trainer's configurations, for `--config`."""
    place = plugins.folder(entry)
    paths = (place / "configs").glob("*.toml") if place is not None else ()
    return sorted(path.stem for path in paths)


def _show_all(kind: str, described: list[dict[str, Any]]) -> None:
    if not described:
        print(f"no {kind} are installed")
        return
    if kind == "tasks":
        rows: list[tuple[str, ...]] = [
            ("name", "headline", "split", "samples", "title (answers; protocol)")
        ]
        for plugin in described:
            about = plugin.get("title") or plugin["about"] or plugin["module"]
            known = filter(None, (", ".join(plugin.get("forms", ())), plugin.get("protocol")))
            if stated := "; ".join(known):
                about = f"{about} ({stated})"
            split = plugin.get("default_split", "")
            headline = plugin.get("headline", "")
            rows.append((plugin["name"], headline, split, _count(plugin), about))
    else:
        titles = ("name", "needs", "about") if kind in NEEDY else ("name", "about")
        rows = [titles]
        for plugin in described:
            usual = {"needs": "nothing", "about": plugin["module"]}
            rows.append(tuple(_cell(plugin.get(title) or usual[title]) for title in titles))
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
    """Return the default split's number of samples; of videos where only that is published."""
    if plugin.get("count"):
        return str(plugin["count"])
    videos = plugin.get("count_videos")
    return f"? in {counted(int(str(videos)), 'video')}" if videos else "?"


def _show_one(plugin: dict[str, object]) -> None:
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
