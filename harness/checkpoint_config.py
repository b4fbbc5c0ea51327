"""Inference settings of a checkpoint, in a file beside its weights, like `generation_config.json`.

A training writes them; `harness eval` reads them, so that a model is evaluated with the prompt and
input that it was trained with:

    {"version": 1, "model": "dr2seg(form=sam2,canvas=168,prompt=short,frames=8,…)"}

The model is `--eval-model` if it is given, else the model that was trained. Its arguments are the
options that the plugin declares as `harness.options.Carried`; options that were not given are
recorded with their defaults at the time of training.
"""

import inspect
from pathlib import Path

from harness import plugins
from harness.errors import HarnessError, ModelError, raised_as
from harness.options import carried_names
from harness.spec import Spec, Value, parse
from harness.store.atomic import read_json, write_json

FILE = "harness_inference.json"
VERSION = 1
MAX_BYTES = 2**20  # a file of ours has some hundred


def write(folder: Path, model: Spec) -> None:
    """Write the inference settings of a checkpoint.

    Args:
        folder: The folder of the checkpoint, or of an adapter.
        model: The model of the training; only its name and its carried options are written.
    """
    # A vendor's settings replace the defaults.
    defaults = {} if model.arguments.get("vendor") else _defaults(model.name)
    arguments = {**defaults, **model.arguments}
    carried = carried_names(plugins.load("models", model.name))
    settings = {name: value for name, value in arguments.items() if name in carried}
    write_json(folder / FILE, {"version": VERSION, "model": str(Spec(model.name, settings))})


def read(folder: Path) -> Spec | None:
    """Return what `write` wrote; None where there is no such file.

    Raises:
        ModelError: the file is damaged, or of another version.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    with raised_as(
        ModelError,
        f"checkpoint file {path}",
        f'an object with "version": {VERSION} and a SPEC as its "model"',
        *(HarnessError, OSError, RuntimeError, ValueError, KeyError, TypeError),
        fix="Delete it, and give the model with all its arguments.",
    ):
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        plain = read_json(path)
        if plain["version"] != VERSION:
            raise ValueError(f"version {plain['version']!r}")
        return parse(plain["model"])


def without_defaults(model: Spec) -> Spec:
    """Return a SPEC without the arguments that equal the plugin's defaults."""
    defaults = _defaults(model.name)
    arguments = model.arguments.items()
    return Spec(
        model.name,
        {key: value for key, value in arguments if key not in defaults or defaults[key] != value},
    )


def _defaults(name: str) -> dict[str, Value]:
    """Return the defaults of a model plugin's options, in their order."""
    parameters = inspect.signature(plugins.load("models", name)).parameters
    return {
        parameter.name: parameter.default
        for parameter in parameters.values()
        if parameter.default is not parameter.empty
    }
