"""The models of `--model`: SPECs, presets and checkpoints, each with what its training set."""

from collections.abc import Sequence

from harness import plugins
from harness.chosen.names import is_checkpoint, named_models, stands_for
from harness.chosen.trained_settings import as_trained, settings_notes
from harness.cli.output import note
from harness.cli.spec_arguments import specs
from harness.model import Model
from harness.spec import Spec, parse


def model_specs(texts: Sequence[str] | None, *, tell: bool = True) -> list[Spec]:
    """Return the SPECs of `--model`; presets and checkpoints are replaced by theirs.

    `tell`: print on standard error what a name stands for.
    """
    if not texts:
        return specs(texts, "--model")
    pairs = [pair for text in texts for pair in named_models(text)]
    if tell:
        for text, spec in dict.fromkeys((text, str(spec)) for text, spec in pairs):
            if sentence := stands_for(text, spec):
                note(sentence)
    return [spec for _, spec in pairs]


def model_spec(text: str) -> Spec:
    """Return the SPEC of a text that names one model.

    Raises:
        UsageError: it names none, or several.
    """
    if not is_checkpoint(text):
        parse(text)  # one SPEC
    return model_specs([text])[0]


def requested_models(texts: Sequence[str] | None, *, tell: bool) -> list[Spec]:
    """Return the SPECs of `--model`, each with the settings that the checkpoint of its VLM carries.

    `tell`: print on standard error what was added.
    """
    given = model_specs(texts, tell=tell)
    if tell:
        tell_taken(given)
    return [as_trained(spec) for spec in given]


def built_model(text: str) -> tuple[Model, Spec]:
    """Build the model of a text as it was trained; tell what that adds, and return its SPEC too."""
    typed = model_spec(text)
    tell_taken([typed])
    spec = as_trained(typed)
    return plugins.build("models", spec), spec


def tell_taken(given: Sequence[Spec]) -> None:
    """Print on standard error what `as_trained` adds, each setting once."""
    for text in dict.fromkeys(text for spec in given for text in settings_notes(spec)):
        note(text)
