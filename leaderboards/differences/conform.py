"""Compare an external scorer with a protocol, case by case.

For each case of the corpus the scorer's command gets the ground truth and the predictions as files.
Its last line of output must be a number (the headline), or a JSON object of numbers by metric:

    {truth}, {pred}              JSON lines: {"id": …, "masks": […]} and so on, as `harness score`
                                 reads them; a truth may have "ignore" and "options" too. A sample
                                 without an answer has no line in {pred}
    {truth_masks}, {pred_masks}  folders of the same masks: <id>/<frame>.png, foreground 255
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from harness import plugins
from harness.errors import HarnessError, UsageError
from harness.files import temporary_prefix
from harness.interchange.journal_form import answer_to_json, as_requested
from harness.leaderboards.differences.corpus import Case, corpus
from harness.masks import Rle
from harness.run.batching import units
from harness.scores import Totals
from harness.task import Protocol
from harness.types import AnswerForm, Prediction, Sample

TIMEOUT = 120  # seconds that the command may take
MIN_RIGHT = 0.99  # smallest score of a right answer; metrics may add epsilons
MAX_DRAWN = 200  # pixels of a mask that is drawn as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A case for which the scorer gives another number than the protocol."""

    case: str
    size: int
    metric: str
    expected: float | None
    found: float | None
    """The scorer's number; None if it gave no number, for the reason in `error`."""
    error: str = ""
    example: tuple[str, ...] = ()
    """The case in a few lines of text."""


def find_protocol(name: str) -> tuple[Protocol, tuple[AnswerForm, ...]]:
    """Return a protocol by its name, and the forms of the first task that has it.

    Raises:
        UsageError: no installed task has the protocol, or the task's module does not list it.
    """
    protocol_names: set[str] = set()
    for task in plugins.installed_plugins("tasks"):
        card = plugins.find_card(task)
        if card is None:
            continue
        protocol_names |= set(card.protocols)
        if name in card.protocols:
            module = sys.modules[plugins.load("tasks", task).__module__]
            protocol = getattr(module, "PROTOCOLS", {}).get(name)
            if isinstance(protocol, Protocol):
                return protocol, tuple(map(AnswerForm, card.forms))
    raise UsageError(
        f"--protocol {name}", expected=", ".join(sorted(protocol_names)), found="another"
    )


def cases_for(name: str) -> tuple[Protocol, list[tuple[Case, dict[str, float | None]]]]:
    """Return a protocol, and the cases of the corpus with the protocol's numbers.

    Raises:
        UsageError: the corpus has no cases for this protocol.
    """
    protocol, forms = find_protocol(name)
    refused = UsageError(
        f"--protocol {name}",
        expected="one whose samples are masks, counts or choices and nothing else",
        found=f"{', '.join(forms)}, of which the corpus has no cases",
    )
    try:
        cases = [(case, _numbers(protocol, case)) for case in corpus(forms[0])]
    except (KeyError, HarnessError, AttributeError, AssertionError, TypeError) as error:
        raise refused from error
    for case, numbers in cases:  # a protocol that scores other answers fails on the obvious cases
        score = numbers[protocol.headline] or 0.0
        if (case.is_perfect and score < MIN_RIGHT) or (case.is_missed and score > 0.5):
            raise refused
    return protocol, cases


def _numbers(protocol: Protocol, case: Case) -> dict[str, float | None]:
    totals = Totals(protocol.metrics)
    prediction_of = dict(zip((sample.id for sample in case.samples), case.predictions, strict=True))
    for unit in units(case.samples):
        totals.add(protocol.score(unit, [prediction_of[sample.id] for sample in unit]))
    return totals.values()


def conform(
    command: str, name: str, *, tolerance: float = 1e-6, scale: float = 1.0
) -> tuple[int, list[Deviation]]:
    """Run a scorer on every case.

    Args:
        command: The scorer's command line, with the placeholders above.
        name: Name of the protocol that the scorer should implement.
        tolerance: Largest difference that does not count.
        scale: The scorer's number for a score of 1, such as 100 for per cent.

    Returns:
        The number of cases, and the deviations, the smallest case first.

    Raises:
        UsageError: there is no such protocol, or the command cannot be run.
    """
    protocol, cases = cases_for(name)
    deviations: list[Deviation] = []
    headline = protocol.headline
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda pair: _run(command, pair[0], headline), cases))
    for (case, expected), (numbers, error) in zip(cases, outputs, strict=True):
        if not error and not expected.keys() & numbers.keys():
            error = f"none of {', '.join(expected)} among {', '.join(numbers)}"[:200]
        deviates = partial(Deviation, case=case.name, size=case.size, example=tuple(_text(case)))
        if error:
            ours = expected[headline]
            deviations.append(deviates(metric=headline, expected=ours, found=None, error=error))
        shared_metrics = [metric for metric in expected if metric in numbers]
        for metric in shared_metrics:
            ours, theirs = expected[metric], numbers[metric]
            theirs = None if theirs is None else theirs / scale
            if not _same(ours, theirs, tolerance):
                deviations.append(deviates(metric=metric, expected=ours, found=theirs))
    return len(cases), deviations


def _same(ours: float | None, theirs: float | None, tolerance: float) -> bool:
    """Return True if the numbers are equal; if ours is None, theirs may be None or NaN."""
    if ours is None or theirs is None or np.isnan(theirs):
        return ours is None and (theirs is None or bool(np.isnan(theirs)))
    return abs(ours - theirs) <= tolerance


def _run(command: str, case: Case, headline: str) -> tuple[Mapping[str, float | None], str]:
    """Return the numbers that a scorer prints for a case, and the reason if there are none."""
    try:
        with tempfile.TemporaryDirectory(prefix=temporary_prefix("conform")) as folder:
            line = shlex.split(command)
            for name, path in _write(Path(folder), case).items():
                line = [argument.replace(f"{{{name}}}", path) for argument in line]
            process = subprocess.run(
                line, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
    except subprocess.TimeoutExpired:
        return {}, f"no end after {TIMEOUT} s"
    except OSError as error:
        raise UsageError(f"--scorer {command}", expected="a program", found=str(error)) from error
    if process.returncode != 0:
        last = (process.stderr.strip().splitlines() or [""])[-1]
        return {}, f"exit code {process.returncode}: {last[:200]}"
    try:
        plain = json.loads((process.stdout.strip().splitlines() or [""])[-1])
        numbers = plain if isinstance(plain, dict) else {headline: plain}
        return {key: None if value is None else float(value) for key, value in numbers.items()}, ""
    except (ValueError, TypeError) as error:
        return {}, f"its last line is neither a number nor a JSON object: {error}"


def _write(folder: Path, case: Case) -> dict[str, str]:
    """Write a case's files; return their paths by placeholder."""
    truths, predictions = [], []
    for sample, prediction in zip(case.samples, case.predictions, strict=True):
        assert sample.target is not None, "every case has ground truth"
        row = {"id": sample.id, **answer_to_json(as_requested(sample.query, sample.target.answer))}
        if sample.target.ignore is not None:
            row["ignore"] = [mask.to_json() for mask in sample.target.ignore]
        if sample.query.options:
            row["options"] = list(sample.query.options)
        truths.append(row)
        _masks(folder / "truth_masks", sample, sample.target.answer.masks)
        if prediction.answer is not None:
            predictions.append({"id": sample.id, **_answer(prediction)})
            _masks(folder / "pred_masks", sample, prediction.answer.masks)
    paths: dict[str, str] = {}
    for name, rows in (("truth", truths), ("pred", predictions)):
        file, masks = folder / f"{name}.jsonl", folder / f"{name}_masks"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        masks.mkdir(exist_ok=True)
        paths |= {name: str(file), masks.name: str(masks)}
    return paths


def _answer(prediction: Prediction) -> dict[str, object]:
    if prediction.responses:
        return {"response": prediction.responses[0]}
    assert prediction.answer is not None, "failures have no line"
    return answer_to_json(prediction.answer)


def _masks(folder: Path, sample: Sample, masks: Sequence[Rle] | None) -> None:
    subfolder = folder / sample.id
    subfolder.mkdir(parents=True, exist_ok=True)
    for index, mask in enumerate(masks or ()):
        Image.fromarray(mask.to_array().astype(np.uint8) * 255).save(subfolder / f"{index:05}.png")


def _text(case: Case) -> Iterator[str]:
    """Yield the lines that show a case to the user.

    Small masks are drawn: `#` is in both masks, `-` is missed, `+` is wrong, `.` is in neither.
    """
    for sample, prediction in zip(case.samples, case.predictions, strict=True):
        assert sample.target is not None, "every case has ground truth"
        truth, answer = sample.target.answer, prediction.answer
        if truth.masks is None:
            answer_text = "no answer" if answer is None else str(_answer(prediction))
            yield f"{sample.id}: ground truth {answer_to_json(truth)}, {answer_text}"
            continue
        last = truth.masks[-1]
        size = f"{len(truth.masks)} of {last.height} × {last.width} pixels"
        yield f"{sample.id}: {size}" + (", no answer" if answer is None else "")
        if last.height * last.width <= MAX_DRAWN:
            values = last.to_array().astype(int)  # 1: true, 2: predicted, 3: both
            if answer is not None and answer.masks is not None:
                values = values + 2 * answer.masks[-1].to_array().astype(int)
            yield from ("   " + "".join(".-+#"[value] for value in row) for row in values.tolist())
