"""From a text of `--model` to a SPEC: the text is a SPEC, a preset's name, or a checkpoint.

A checkpoint becomes the SPEC of the model that was trained, as its folder records it, or else of
the model that harness uses for its architecture (`architectures.toml`).
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

PART_ARGUMENTS = ("segmenter", "propagator")
"""Arguments of a training's model that are taken over for its checkpoint."""
CHECKPOINT_ARGUMENT = "checkpoint"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+\Z")  # `Qwen/Qwen2.5-VL-7B-Instruct`


def named_models(text: str) -> list[tuple[str, Spec]]:
    """Return each name in a text of `--model` with the SPEC that it stands for.

    The text is SPECs and checkpoints with commas between them. The folder of a checkpoint that
    stands alone may have a comma in its name.
    """
    with suppress(OSError, RuntimeError, ValueError):
        name, arguments = split_checkpoint(text)
        is_one = len(split_list(f"model{arguments}")) == 1
        if is_one and Path(name).expanduser().is_dir() and is_checkpoint(text):
            return [(text, _spec_of_checkpoint(text))]
    models = []
    for part in split_list(text):
        if is_checkpoint(part):
            models.append((part, _spec_of_checkpoint(part)))
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
    """Return a SPEC with presets and prompt files replaced by their content.

    A checkpoint's folder becomes a short path if a backend loads it.

    Raises:
        UnknownPlugin: neither a model nor a preset has its name.
        UsageError: a preset lacks an argument, or the file cannot be read.
    """
    spec = presets.resolve(spec)
    if spec.name not in plugins.installed_plugins("models"):
        presets.preset(spec.name)  # raises, naming the nearest

    # A model without a backend may load the folder itself: its path stays as it was typed.
    has_backend = plugins.accepts("models", spec.name, "backend")

    def spelled(name: str, value: Value) -> Value:
        if name in presets.MODEL_ARGUMENTS and isinstance(value, Spec):
            return spelled_out(value)
        if name == "prompt" and isinstance(value, str):
            return text_of_file(value)
        is_folder = has_backend and name == CHECKPOINT_ARGUMENT and isinstance(value, str)
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
    if HUB_NAME.match(name) and not name.startswith("."):
        return True
    raise UsageError(
        f"--model {text}",
        expected="NAME, NAME(key=value, …), or a checkpoint's folder or name",
        found=f"no folder {name}" if name != text else "neither",
    )


def _spec_of_checkpoint(text: str) -> Spec:
    """Return the SPEC of a checkpoint's model: that of its training, else of its architecture.

    Arguments in parentheses after the checkpoint are the model's.

    Raises:
        ModelError: the checkpoint is not on this machine.
        UsageError: no model runs networks of its architecture, or the arguments cannot be read.
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
        if name in _spec_of_architecture():
            adapter = _spec_of_architecture()[name]
            spec = Spec(adapter.name, {"checkpoint": text, **adapter.arguments})
            return spelled_out(presets.changed(spec, typed))
    raise UsageError(
        f"--model {text}",
        expected=f"a training's checkpoint, with {checkpoint_config.FILE}, or a "
        f"checkpoint of one of these architectures: {', '.join(_spec_of_architecture())}",
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
            given = spec.arguments
            parts = {name: given[name] for name in PART_ARGUMENTS if name in given}
            return {name: part for name, part in parts.items() if "{checkpoint}" not in str(part)}
    return {}


def architectures_of(folder: Path) -> tuple[str, ...]:
    """Return the architectures that a checkpoint's config.json names; none without the file."""
    path = folder / "config.json"
    architectures = weights.read_json(path).get("architectures") if path.is_file() else None
    return tuple(map(str, architectures)) if isinstance(architectures, list) else ()


@cache
def _spec_of_architecture() -> Mapping[str, Spec]:
    """Return the SPEC of the model that runs each architecture of networks, by its name."""
    text = files("harness.models").joinpath("architectures.toml").read_text("utf-8")
    return {name: parse(spec) for name, spec in tomllib.loads(text).items()}


def stands_for(text: str, spec: str) -> str:
    """Return a sentence for the user: which SPEC a name of `--model` stands for; "" for a SPEC.

    For a checkpoint it names the architecture, the model that runs it, and the presets that use
    it. The settings that a trained checkpoint carries are in `trained_settings.settings_notes`.
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
