"""`--as-vendor`: a model's SPEC with the settings of its vendor's own published evaluation."""

from collections.abc import Mapping, Sequence

from harness import plugins
from harness.chosen.names import is_checkpoint, split_checkpoint
from harness.errors import UsageError
from harness.models.vendors.settings import VendorSettings, names, vendor_settings
from harness.presets import usual_backend
from harness.spec import Spec, Value, parse

OPTION = "--as-vendor"


def as_vendor(text: str, spec: Spec, tasks: Sequence[str]) -> Spec:
    """Return a model's SPEC with the settings of its vendor's evaluation of these tasks.

    Args:
        text: The model as it was typed. Arguments in it override the vendor's settings and are
            recorded as deviations; arguments that a preset adds do not override them.
        spec: The SPEC that the text stands for.
        tasks: Names of the tasks.

    Raises:
        UsageError: the vendor published no evaluation of a task, or different ones of two; or the
            model's backend cannot hold one of its settings.
    """
    explicit = _typed_arguments(text)
    if "vendor" in explicit:
        raise UsageError(OPTION, expected="a model without vendor=…", found=text)
    if not plugins.accepts("models", spec.name, "vendor"):
        raise UsageError(
            f"{OPTION} with {spec.name}", expected="qwen_vl or vlm, or a preset of them", found=text
        )
    settings = _evaluation_of(spec, tasks)
    chosen = spec.arguments.get("backend") or usual_backend(spec.name)
    arguments = _without(spec.arguments, settings.settings, explicit)
    if isinstance(chosen, Spec):
        refused = [
            option
            for option in settings.backend
            if option not in explicit and not plugins.accepts("backends", chosen.name, option)
        ]
        if refused:
            raise UsageError(
                f"{OPTION} with backend={chosen.name}",
                expected=f"a backend that has {', '.join(refused)}, as {settings.name} does",
                found=f"{chosen.name}, which has not",
                fix="Use backend=transformers, or vendor=… to run with a deviation.",
            )
        arguments["backend"] = Spec(
            chosen.name, _without(chosen.arguments, settings.backend, explicit)
        )
    return Spec(spec.name, {**arguments, "vendor": settings.name})


def settings_note(spec: Spec) -> str:
    """Return lines with the settings of a SPEC's `vendor`, their source and what it omits."""
    return vendor_settings(str(spec.arguments["vendor"])).note()


def _evaluation_of(spec: Spec, tasks: Sequence[str]) -> VendorSettings:
    """Return the only published evaluation that covers all tasks for the checkpoint of a SPEC.

    Raises:
        UsageError: there is none, or more than one.
    """
    backend = spec.arguments.get("backend")
    inner = backend.arguments if isinstance(backend, Spec) else {}
    checkpoint = str(
        spec.arguments.get("checkpoint") or inner.get("checkpoint") or inner.get("model")
    )
    all_settings = map(vendor_settings, names())
    published = [settings for settings in all_settings if settings.is_for(checkpoint)]
    covering = [settings for settings in published if set(tasks) <= set(settings.tasks)]
    if len(covering) == 1:
        return covering[0]
    covered = sorted({task for settings in published for task in settings.tasks})
    reasons = [text for settings in published if not settings.tasks for text in settings.unverified]
    raise UsageError(
        f"{OPTION} for {checkpoint} on {', '.join(tasks)}",
        expected="one evaluation that its vendor published, of all these tasks",
        found=f"evaluations of {', '.join(covered)}" if covered else "none",
        fix=" ".join(reasons) or "See `docs/models/vendor.md`; vendor=NAME takes any settings.",
    )


def _typed_arguments(text: str) -> Mapping[str, Value]:
    """Return the arguments of a model and of its backend as they were typed."""
    spec = parse(f"x{split_checkpoint(text)[1]}" if is_checkpoint(text) else text)
    backend = spec.arguments.get("backend")
    return {**spec.arguments, **(backend.arguments if isinstance(backend, Spec) else {})}


def _without(
    arguments: Mapping[str, Value],
    settings: Mapping[str, object],
    explicit: Mapping[str, Value],
) -> dict[str, Value]:
    """Return arguments without those that settings replace; `explicit` (typed) ones stay."""
    return {
        name: value for name, value in arguments.items() if name not in settings or name in explicit
    }
