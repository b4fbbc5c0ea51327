"""`harness explain`: print all about a run's sample, or write a page of a training's rollouts."""

import io
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from PIL import Image

from harness.cli.output import show_json, tell
from harness.cli.spec_arguments import require_minimum
from harness.errors import UsageError, printable
from harness.explained.masks import lines as mask_lines
from harness.explained.overlay import draw_overlay
from harness.explained.parsed import lines as part_lines
from harness.explained.recorded import recorded_sample
from harness.explained.rollouts import is_training, page_of, select_groups
from harness.interchange.journal_form import prediction_to_json
from harness.record import Run
from harness.run.training_record import Training
from harness.store.atomic import write_bytes

DEFAULT_PAGE = "rollouts.html"
DEFAULT_GROUPS = 24  # default number of prompts, each with its rollouts, on a training's page


def explain(arguments: Namespace) -> int:
    """Print what a run recorded of one sample, or write the page of a training's rollouts."""
    if is_training(arguments.run):
        return _explain_training(arguments)
    for name in ("out", "groups"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name}", expected="a training's folder", found="a run's")
    sample, prediction, entries, reader = recorded_sample(
        Run.open(arguments.run), arguments.sample, arguments.data
    )
    if arguments.image is not None:
        encoded = io.BytesIO()
        Image.fromarray(draw_overlay(sample, prediction)).save(encoded, "PNG")
        write_bytes(arguments.image, encoded.getvalue())
        entries["image"] = str(arguments.image)
    if arguments.json:
        show_json({**entries, "prediction": prediction_to_json(prediction)})
    else:
        _print(entries, reader)
    return 0


def _explain_training(arguments: Namespace) -> int:
    """Write the page of a training's rollouts, and print where it is."""
    training = Training.open(arguments.run)
    if arguments.image is not None:
        raise UsageError(
            "--image",
            expected="a run folder",
            found="a training's",
            fix="Write its page with --out FILE.html.",
        )
    require_minimum(arguments, 1, "groups")
    groups, notes = select_groups(
        training,
        limit=arguments.groups or DEFAULT_GROUPS,
        sample=arguments.sample,
        data_root=arguments.data,
    )
    page = page_of(training, groups, notes)
    out = arguments.out or training.folder / DEFAULT_PAGE
    write_bytes(out, page.encode("utf-8", "replace"))
    steps = sorted({group.step for group in groups})
    plain = {"page": str(out), "groups": len(groups), "steps": steps, "notes": notes}
    tell(arguments, plain, out)
    return 0


def _print(explained: Mapping[str, Any], reader: str) -> None:
    """Print each entry of a sample: its name and value, with further lines below.

    `reader` names the protocol if that parses the response, "" if the model's grammar does.
    """
    for name, value in explained.items():
        if name == "parse":
            for part in value:
                _print_list("parse", part_lines(part, protocol=reader))
        elif name == "masks":
            _print_list("masks", mask_lines(value))
        elif name == "adaptation":
            _print_list(name, value)
        else:
            text = ", ".join(_pairs(value)) if isinstance(value, Mapping) else value
            _print_value(name, text)


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield `name value` for each entry; values [number, weight] are scores, ratios `a / b`."""
    for name, value in values.items():
        match value:
            case [number, 1.0]:
                yield f"{name} {number:.4f}"
            case [number, weight]:
                yield f"{name} {number:.4f} (weight {weight:g})"
            case {"ratio": [numerator, denominator]}:
                yield f"{name} {numerator:g} / {denominator:g}"
            case _:
                yield f"{name} {value}"


def _print_list(name: str, lines: Sequence[str]) -> None:
    first, *others = lines
    _print_value(name, first)
    for line in others:
        _print_value("", line, 12)


def _print_value(name: str, text: object, width: int = 10) -> None:
    """Print a name and a value, whose further lines are indented so that none looks like a name."""
    print(printable(f"{name:{width}} {text}").replace("\n", f"\n{'':{width}} "))
