"""The metrics `evaluate_metric` and `token_f1`: Hugging Face's `evaluate`, from a local script.

Such a metric is a Python script, which runs with all the user's rights and without a sandbox. So a
script is used only if the user names its path: names on the hub are refused, and a file of a data
set, model or checkpoint is never used as a script. `evaluate` copies the script into its module
cache before it imports it; nothing is downloaded. Its parser needs one import on each line:
`import evaluate, datasets` fails.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from typing import Literal, Protocol

from harness.errors import DataError, UsageError
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.neural_metrics.texts import TextMetric, candidate_text, true_texts
from harness.plugins import missing_dependency
from harness.scores import Corpus, Metric, Scores
from harness.types import Prediction, Sample

SQUAD = Path(__file__).with_name("squad.py")
"""The script of `token_f1`."""


def evaluate_metric(
    *,
    path: Path,
    key: str | None = None,
    references: Literal["all", "first"] = "all",
    better: Literal["higher", "lower"] = "higher",
) -> TextMetric:
    """Score free text by an `evaluate` metric whose script lies on this machine, and runs.

    Predictions are the answers' texts, "" where there is none. Samples without a true text do not
    count. The name holds the script's name and hash.

    Args:
        path: The script, or the folder that holds a script of the folder's name.
        key: Field of the result to take; needed if there are several.
        references: Ground truth that the script gets for a sample: a list of `all` texts, or the
            `first` one.
        better: Direction in which the metric improves.

    Raises:
        UsageError: there is no such script here.
        MissingDependency: `evaluate` is not installed.
    """
    script = local_script(path)
    digest = hashlib.blake2b(script.read_bytes(), digest_size=16).hexdigest()
    name = f"evaluate[{script.stem}@{digest[:8]}]" + (f" {key}" if key else "")
    return _metric(name, script, digest, key=key, references=references, better=better)


def token_f1(*, key: Literal["f1", "exact_match"] = "f1") -> TextMetric:
    """Score free text by SQuAD v1.1's F1 of words, computed by the package `evaluate`.

    Args:
        key: `f1`, or `exact_match`: whether the same words are left.

    Raises:
        MissingDependency: `evaluate` is not installed.
    """
    digest = hashlib.blake2b(SQUAD.read_bytes(), digest_size=16).hexdigest()
    return _metric(f"SQuAD {key}", SQUAD, digest, key=key)


def _metric(
    name: str,
    script: Path,
    digest: str,
    *,
    key: str | None,
    references: Literal["all", "first"] = "all",
    better: Literal["higher", "lower"] = "higher",
) -> TextMetric:
    """Return the metric that a script computes over all samples together; see `evaluate_metric`."""
    metric = Metric(
        name,
        better=better,
        corpus=partial(_compute, _load_module(script), key=key),
        about=f"the script {script.name}, content {digest}",
    )
    return TextMetric(metric, partial(_collect, name, first_only=references == "first"))


def local_script(path: Path) -> Path:
    """Return the script that a path names: the file itself, or NAME.py in a folder NAME.

    Raises:
        UsageError: there is no such file, or the path is a URL.
    """
    script = path / f"{path.resolve().name}.py" if path.is_dir() else path
    if "://" in str(path) or script.suffix != ".py" or not script.is_file():
        raise UsageError(
            f"evaluate_metric(path={path})",
            expected="a Python script on this machine, or a folder NAME with NAME.py",
            found="neither",
            fix="Nothing is fetched: a metric is code that runs here, so get its script and read "
            "it first.",
        )
    return script.resolve()


class _LoadedScript(Protocol):
    """The object of the package `evaluate` that a script defines."""

    name: str

    def compute(
        self, *, predictions: Sequence[object], references: Sequence[object]
    ) -> Mapping[str, object] | None:
        """Return the metric's numbers by name."""


def _load_module(script: Path) -> _LoadedScript:
    """Load a script by `evaluate`.

    Raises:
        MissingDependency: `evaluate` is not installed.
    """
    if find_spec("torchvision") is not None:
        ensure_torchvision()  # `evaluate` imports torchvision, and fails if it is broken
    try:
        evaluate = import_module("evaluate")
    except ModuleNotFoundError as error:
        raise missing_dependency("evaluate_metric", error) from error
    # Only local files: a comment in a script can make `evaluate` download another script.
    files = import_module("evaluate.utils.file_utils")
    loaded: _LoadedScript = evaluate.load(
        str(script),
        keep_in_memory=True,
        download_config=files.DownloadConfig(local_files_only=True),
    )
    return loaded


def _collect(
    name: str, unit: Sequence[Sample], predictions: Sequence[Prediction], *, first_only: bool
) -> Scores:
    """Return the texts of the samples that have a true text, for `_compute`; empty if none has."""
    items = []
    for sample, prediction in zip(unit, predictions, strict=True):
        ground_truths = true_texts(sample)
        if ground_truths:
            items.append(
                {
                    "candidate": candidate_text(prediction),
                    "true": ground_truths[0] if first_only else list(ground_truths),
                }
            )
    return {name: Corpus(tuple(items))} if items else {}


def _compute(
    module: _LoadedScript, items: Sequence[Mapping[str, object]], *, key: str | None
) -> float:
    """Return the metric's number `key`, or its only number.

    Raises:
        DataError: there is no such number, or there are several and `key` is None.
    """
    result = module.compute(
        predictions=[item["candidate"] for item in items],
        references=[item["true"] for item in items],
    )
    numbers = {
        name: float(value) for name, value in (result or {}).items() if isinstance(value, Real)
    }
    if key is None and len(numbers) == 1:
        return next(iter(numbers.values()))
    if key not in numbers:
        raise DataError(
            f"evaluate metric {module.name!r}",
            expected="one number" if key is None else f"a number {key!r}",
            found=", ".join(numbers) or "none",
            fix="Choose one with key=…",
        )
    return numbers[key]
