"""`--model` of all commands: from SPECs, presets and checkpoints to full SPECs.

Notes on standard error say what a name stands for, and which settings a checkpoint's training
adds. The rules are in `harness.chosen`.
"""

from collections.abc import Sequence

from harness import plugins
from harness.chosen.as_vendor import as_vendor, settings_note
from harness.chosen.names import is_checkpoint, named_models, stands_for
from harness.chosen.trained_settings import as_trained, settings_notes
from harness.cli.output import note
from harness.cli.spec_arguments import specs
from harness.model import Model
from harness.spec import Spec, parse


def model_specs(
    texts: Sequence[str] | None, *, tell: bool = True, vendor_tasks: Sequence[str] = ()
) -> list[Spec]:
    """Return the SPECs of `--model`; presets and checkpoints are replaced by theirs.

    Args:
        texts: The values of `--model` as typed; None or an empty list raises UsageError.
        tell: Print on standard error what a name stands for.
        vendor_tasks: Tasks for which the SPECs get their vendors' settings (`--as-vendor`).
    """
    if not texts:
        return specs(texts, "--model")
    pairs = [pair for text in texts for pair in named_models(text)]
    if vendor_tasks:
        pairs = [(text, as_vendor(text, spec, vendor_tasks)) for text, spec in pairs]
    if tell:
        for text, spec in dict.fromkeys((text, str(spec)) for text, spec in pairs):
            if sentence := stands_for(text, spec):
                note(sentence)
        for sentence in dict.fromkeys(settings_note(spec) for _, spec in pairs if vendor_tasks):
            note(sentence)
    return [spec for _, spec in pairs]


def model_spec(text: str, *, vendor_tasks: Sequence[str] = ()) -> Spec:
    """Return the SPEC of a text that names one model; see `model_specs`.

    Raises:
        UsageError: it names none, or several.
    """
    if not is_checkpoint(text):
        parse(text)  # one SPEC
    return model_specs([text], vendor_tasks=vendor_tasks)[0]


def requested_models(
    texts: Sequence[str] | None, *, tell: bool, vendor_tasks: Sequence[str] = ()
) -> list[Spec]:
    """Return the SPECs of `--model`, each with the settings that the checkpoint of its VLM carries.

    For the arguments see `model_specs`; `tell` also prints which settings were added.
    """
    model_specs_typed = model_specs(texts, tell=tell, vendor_tasks=vendor_tasks)
    if tell:
        tell_taken(model_specs_typed)
    return [as_trained(spec) for spec in model_specs_typed]


def built_model(text: str) -> tuple[Model, Spec]:
    """Build the model of a text with its training's settings; return the model and its SPEC.

    A note says which settings were added.
    """
    typed = model_spec(text)
    tell_taken([typed])
    spec = as_trained(typed)
    return plugins.build("models", spec), spec


def tell_taken(typed: Sequence[Spec]) -> None:
    """Print on standard error what `as_trained` adds to SPECs, equal sentences once."""
    for text in dict.fromkeys(text for spec in typed for text in settings_notes(spec)):
        note(text)
