"""From a text of `--model` to a SPEC: the text is a SPEC, a preset's name, or a checkpoint.

A checkpoint is asked by the model of its training, or else by the model for its architecture.
"""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path

from harness import checkpoint_config, plugins, presets
from harness.errors import HarnessError, UsageError
from harness.models.backends import checkpoint, weights
from harness.models.own_prompt import text_of_file
from harness.run.checkpoint_provenance import INSIDE
from harness.spec import Spec, Value, parse, parse_list, split_list
from harness.store.atomic import read_json

PARTS = ("segmenter", "propagator")
"""Arguments of a training's model that a checkpoint given by its folder alone has too."""
WEIGHTS = "checkpoint"
ON_HUB = re.compile(r"[\w.-]+/[\w.-]+\Z")  # `Qwen/Qwen2.5-VL-7B-Instruct`


def named_models(text: str) -> list[tuple[str, Spec]]:
    """Return each name in a text of `--model` with the SPEC that it stands for.

    The text is SPECs and checkpoints with commas. The folder of a single checkpoint may have one.
    """
    with suppress(OSError, RuntimeError, ValueError):
        name, arguments = split_checkpoint(text)
        is_one = len(split_list(f"model{arguments}")) == 1
        if is_one and Path(name).expanduser().is_dir() and is_checkpoint(text):
            return [(text, _of_checkpoint(text))]
    models = []
    for part in split_list(text):
        if is_checkpoint(part):
            models.append((part, _of_checkpoint(part)))
        else:
            models += [(str(spec), spelled_out(spec)) for spec in parse_list(part)]
    return models


def split_checkpoint(text: str) -> tuple[str, str]:
    """Return a checkpoint's name and the arguments in parentheses, which may be empty.

    >>> split_checkpoint("./my-qwen(batch_size=4)"), split_checkpoint("org/name")
    (('./my-qwen', '(batch_size=4)'), ('org/name', ''))
    """
    if not text.rstrip().endswith(")"):
        return text, ""
    name, opening, arguments = text.partition("(")
    return name.strip(), opening + arguments


def spelled_out(spec: Spec) -> Spec:
    """Return a SPEC with presets and prompt files replaced by their content, and short paths.

    Raises:
        UnknownPlugin: neither a model nor a preset has its name.
        UsageError: a preset lacks an argument, or the file cannot be read.
    """
    spec = presets.resolve(spec)
    if spec.name not in plugins.installed_plugins("models"):
        presets.preset(spec.name)  # raises, naming the nearest

    # A plugin's own network may read the folder as it is typed; backends find what is in it.
    has_backend = plugins.accepts("models", spec.name, "backend")

    def spelled(name: str, value: Value) -> Value:
        if name in presets.MODEL_ARGUMENTS and isinstance(value, Spec):
            return spelled_out(value)
        if name == "prompt" and isinstance(value, str):
            return text_of_file(value)
        is_folder = has_backend and name == WEIGHTS and isinstance(value, str)
        return checkpoint.short_path(str(value)) if is_folder else value

    return Spec(spec.name, {name: spelled(name, value) for name, value in spec.arguments.items()})


def is_checkpoint(text: str) -> bool:
    """Return True if a text names a checkpoint by its folder or on the hub, False for a SPEC.

    The checkpoint may have arguments in parentheses.

    Raises:
        UsageError: it is a path, but there is no such folder.
    """
    name, _ = split_checkpoint(text)
    if not name.strip() or name in plugins.installed_plugins("models") or name in presets.presets():
        return False
    with suppress(OSError, RuntimeError, ValueError):  # no home, no such path
        if Path(name).expanduser().is_dir():
            return True
    if "/" not in name or set(name) & set("(,:="):
        return False
    if ON_HUB.match(name) and not name.startswith("."):
        return True
    raise UsageError(
        f"--model {text}",
        expected="NAME, NAME(key=value, …), or a checkpoint's folder or name",
        found=f"no folder {name}" if name != text else "neither",
    )


def _of_checkpoint(text: str) -> Spec:
    """Return the model that asks a checkpoint: that of its training, else of its architecture.

    Arguments in parentheses after the checkpoint are the model's.

    Raises:
        ModelError: it is not here.
        UsageError: no model asks networks of its architecture, or the arguments cannot be read.
    """
    text, arguments = split_checkpoint(text)
    typed = parse(f"checkpoint{arguments}").arguments
    if "checkpoint" in typed:
        raise UsageError(f"--model {text}{arguments}", expected="one checkpoint", found="two")
    folder = checkpoint.find(text)
    if (trained := checkpoint_config.read(folder)) is not None:
        parts = _parts_of_training(folder, trained.name)
        return spelled_out(
            presets.changed(Spec(trained.name, {"checkpoint": text, **parts}), typed)
        )
    for name in architectures_of(folder):
        if name in _adapters():
            adapter = _adapters()[name]
            spec = Spec(adapter.name, {"checkpoint": text, **adapter.arguments})
            return spelled_out(presets.changed(spec, typed))
    raise UsageError(
        f"--model {text}",
        expected=f"a training's checkpoint, with {checkpoint_config.FILE}, or a "
        f"checkpoint of one of these architectures: {', '.join(_adapters())}",
        found=", ".join(architectures_of(folder)) or "no config.json with an architecture",
        fix=f"Give the model: NAME(checkpoint={text},…); see `harness list models`.",
    )


def _parts_of_training(folder: Path, model: str) -> dict[str, Value]:
    """Return the segmenter and the propagator with which a checkpoint's training ran `model`.

    They are read from the training's manifest beside the weights; empty if it names neither, or
    cannot be read.
    """
    with suppress(HarnessError, OSError, ValueError, TypeError, AttributeError, KeyError):
        manifest = read_json(folder / INSIDE)
        spec = parse(manifest.get("eval_model") or manifest["model"]["spec"])
        if spec.name == model:
            parts = {name: spec.arguments[name] for name in PARTS if name in spec.arguments}
            return {name: part for name, part in parts.items() if "{checkpoint}" not in str(part)}
    return {}


def architectures_of(folder: Path) -> tuple[str, ...]:
    """Return the architectures that a checkpoint's config.json names; none without the file."""
    path = folder / "config.json"
    architectures = weights.read_json(path).get("architectures") if path.is_file() else None
    return tuple(map(str, architectures)) if isinstance(architectures, list) else ()


@cache
def _adapters() -> Mapping[str, Spec]:
    """Return the SPEC of the model that runs each architecture of networks, by its name."""
    text = files("harness.models").joinpath("architectures.toml").read_text("utf-8")
    return {name: parse(spec) for name, spec in tomllib.loads(text).items()}


def stands_for(text: str, spec: str) -> str:
    """Return the sentence that tells the user which SPEC a name stands for; "" for a SPEC itself.

    For a checkpoint it names its architecture, the model that asks it, and the presets that ask it
    with all their parts. `trained_settings` words what the training of a checkpoint adds.
    """
    if not is_checkpoint(text):
        return "" if text == spec else f"{text} is {spec}"
    name, _ = split_checkpoint(text)
    folder = checkpoint.find(name)
    if (trained := checkpoint_config.read(folder)) is not None:
        has_parts = bool(_parts_of_training(folder, trained.name))
        return f"{name} is {spec}, with the parts of its training" if has_parts else ""
    architecture = " ".join(architectures_of(folder))
    preset_names = [preset.name for preset in presets.of_checkpoint(name)]
    hint = f"; presets with this checkpoint: {', '.join(preset_names)}" if preset_names else ""
    return f"{name} is a {architecture}; harness runs it as {spec}{hint}"
