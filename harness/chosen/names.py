"""The model that a text of `--model` names: a SPEC, a preset, or a checkpoint."""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from harness import checkpoint_config, plugins, presets
from harness.errors import UsageError
from harness.models.backends import checkpoint
from harness.models.own_prompt import text_of_file
from harness.spec import Spec, Value, parse, parse_list

ON_HUB = re.compile(r"[\w.-]+/[\w.-]+\Z")


def named_models(text: str) -> list[tuple[str, Spec]]:
    """Return each name in a text of `--model` with the SPEC that it stands for.

    The text is SPECs with commas, or one checkpoint.
    """
    if is_checkpoint(text):
        return [(text, _of_checkpoint(text))]
    return [(str(spec), spelled_out(spec)) for spec in parse_list(text)]


def spelled_out(spec: Spec) -> Spec:
    """Return a SPEC without presets, and with the words of a prompt that lies in a file.

    Raises:
        UnknownPlugin: neither a model nor a preset has its name.
        UsageError: a preset lacks an argument, or the file cannot be read.
    """
    spec = presets.resolve(spec)
    if spec.name not in plugins.installed_plugins("models"):
        presets.preset(spec.name)  # raises, naming the nearest

    def whole(name: str, value: Value) -> Value:
        if name in presets.INNER and isinstance(value, Spec):
            return spelled_out(value)
        return text_of_file(value) if name == "prompt" and isinstance(value, str) else value

    return Spec(spec.name, {name: whole(name, value) for name, value in spec.arguments.items()})


def is_checkpoint(text: str) -> bool:
    """Return True if a text is a checkpoint's folder or name, and no model's name.

    Raises:
        UsageError: it is a path, which no SPEC is, of no folder.
    """
    if not text.strip() or text in plugins.installed_plugins("models") or text in presets.presets():
        return False
    with suppress(OSError, RuntimeError, ValueError):  # no home, no such path
        if Path(text).expanduser().is_dir():
            return True
    if "/" not in text or set(text) & set("(,:="):
        return False
    if ON_HUB.match(text) and not text.startswith("."):
        return True
    raise UsageError(
        f"--model {text}",
        expected="NAME, NAME(key=value, …), or a checkpoint's folder or name",
        found="neither",
    )


def _of_checkpoint(text: str) -> Spec:
    """Return the model that asks a checkpoint: that of its training, else of its architecture.

    Raises:
        ModelError: it is not here.
        UsageError: no model asks networks of its architecture.
    """
    folder = checkpoint.find(text)
    if (trained := checkpoint_config.read(folder)) is not None:
        return Spec(trained.name, {"checkpoint": text})
    for name in architectures_of(folder):
        if name in _adapters():
            adapter = _adapters()[name]
            return Spec(adapter.name, {"checkpoint": text, **adapter.arguments})
    raise UsageError(
        f"--model {text}",
        expected=f"a training's checkpoint, with {checkpoint_config.FILE}, or a "
        f"checkpoint of one of these architectures: {', '.join(_adapters())}",
        found=", ".join(architectures_of(folder)) or "no config.json with an architecture",
        fix=f"Give the model: NAME(checkpoint={text}); see `harness list models`.",
    )


def architectures_of(folder: Path) -> tuple[str, ...]:
    """Return the architectures that a checkpoint's config.json names; none without the file."""
    path = folder / "config.json"
    named = checkpoint.read_json(path).get("architectures") if path.is_file() else None
    return tuple(map(str, named)) if isinstance(named, list) else ()


@cache
def _adapters() -> Mapping[str, Spec]:
    """Return the model that asks each architecture."""
    text = files("harness.models").joinpath("architectures.toml").read_text("utf-8")
    return {name: parse(spec) for name, spec in tomllib.loads(text).items()}


def stands_for(text: str, spec: str) -> str:
    """Return a sentence on the SPEC that a name stands for; empty where nothing is to be said.

    Of a checkpoint: which model asks it, why, and which presets ask it with all their parts. What
    the training of one adds is said by `trained_settings`.
    """
    if not is_checkpoint(text):
        return "" if text == spec else f"{text} is {spec}"
    folder = checkpoint.find(text)
    if checkpoint_config.read(folder) is not None:
        return ""
    why = " ".join(architectures_of(folder))
    others = [preset.name for preset in presets.of_checkpoint(text)]
    more = f"; presets with this checkpoint: {', '.join(others)}" if others else ""
    return f"{text} is a {why}; harness runs it as {spec}{more}"
