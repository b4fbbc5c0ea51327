"""Models of harness in lmms-eval: `lmms-eval --model harness --model_args method=dr2seg,…`.

A request becomes a query of one form of answer, and the answer becomes the text that lmms-eval's
tasks read:

| form | text |
| --- | --- |
| `text`, `choice`, `count`, `number` | the answer in words, without the reasoning |
| `boxes` | `[[left, top, right, bottom], …]`, each from 0 to 1 |
| `points` | `[[x, y], …]`, each from 0 to 1 |
| `mask` | `{"masks": [COCO RLE], "boxes": [], "scores": [1.0]}`, as its model `sam3` writes them |

A response that cannot be read is returned as it is.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from lmms_eval.api.model import lmms
from tqdm import tqdm

from harness import plugins
from harness.chosen.trained_settings import as_trained
from harness.errors import UsageError
from harness.lmms.visuals import medium
from harness.media import Media
from harness.model import Model
from harness.run.workers import build_model
from harness.spec import Spec, parse
from harness.types import Answer, AnswerForm, Prediction, Query, query_id


class HarnessModel(lmms):
    """A model of harness, built from `method=NAME` and its arguments as in a SPEC."""

    def __init__(self, model: Model, form: AnswerForm) -> None:
        super().__init__()
        self.harness_model = model
        self.form = form

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: Mapping[str, Any] | None = None
    ) -> Self:
        """Build the model of `--model_args`, which are the arguments of a SPEC.

        Raises:
            UsageError: `method` is missing, an argument is wrong, or `--device` is given.
        """
        arguments = dict(parse(f"harness({arg_string})").arguments)
        method = arguments.pop("method", None)
        form = arguments.pop("form", "text")
        seed = arguments.pop("seed", 0)
        if not isinstance(method, str) or form not in TEXT_OF_FORM or not isinstance(seed, int):
            raise UsageError(
                "--model_args",
                expected="method=NAME, its arguments, a whole number for seed, and form="
                + "|".join(TEXT_OF_FORM),
                found=arg_string or "nothing",
            )
        config = additional_config or {}
        if config.get("device") is not None:
            raise UsageError(
                "--device",
                expected="the device in --model_args",
                found=str(config["device"]),
                fix="Such as backend=transformers(device=cuda:0).",
            )
        size = str(config.get("batch_size", ""))
        if size.isdigit() and plugins.accepts("models", method, "batch_size"):
            arguments.setdefault("batch_size", int(size))
        return cls(build_model(as_trained(Spec(method, arguments)), seed), AnswerForm(str(form)))

    def query(self, task: str, document_id: object, text: str, media: Sequence[Media]) -> Query:
        """Return the question of one document."""
        return Query(
            id=query_id(f"{task}/{document_id}"), text=text, media=tuple(media), forms=(self.form,)
        )

    def queries(self, requests: Sequence[Any]) -> Iterator[Query]:
        """Yield the query of each request; its images are decoded when it is yielded."""
        raise NotImplementedError

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Return the text of each answer, in order."""
        model, texts = self.harness_model, list[str]()
        model.prepare()
        queries = self.queries(requests)
        with tqdm(total=len(requests), desc="harness") as progress:
            while batch := list(islice(queries, model.batch_size * model.rounds)):
                texts += map(answer_text, batch, model.predict(batch))
                progress.update(len(batch))
        return texts

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Raise UsageError: harness's models generate answers."""
        raise _unsupported("loglikelihood")

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        """Raise UsageError: a query is one question."""
        raise _unsupported("generate_until_multi_round")


class SimpleModel(HarnessModel):
    """A model to which lmms-eval gives a document's text and images."""

    is_simple = True

    def queries(self, requests: Sequence[Any]) -> Iterator[Query]:
        """Yield the query of each request."""
        for text, _, doc_to_visual, index, task, split in (request.args for request in requests):
            visuals = doc_to_visual(self.task_dict[task][split][index]) or []
            yield self.query(task, index, text, [medium(visual) for visual in visuals])


class ChatModel(HarnessModel):
    """A model to which lmms-eval gives messages; texts are joined, media stay in their order."""

    is_simple = False

    def queries(self, requests: Sequence[Any]) -> Iterator[Query]:
        """Yield the query of each request."""
        for _, doc_to_messages, _, index, task, split in (request.args for request in requests):
            messages = doc_to_messages(self.task_dict[task][split][index])
            parts = [part for message in messages for part in message["content"]]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            media = [medium(part["url"]) for part in parts if part["type"] != "text"]
            yield self.query(task, index, "\n".join(texts), media)


def answer_text(query: Query, prediction: Prediction) -> str:
    """Return an answer as the text that lmms-eval's tasks read; see the module's table."""
    if prediction.answer is None:
        return prediction.responses[-1] if prediction.responses else ""
    return TEXT_OF_FORM[query.form](prediction.answer, query.size if query.media else (1, 1))


def _normalized(places: Sequence[Sequence[float]] | None, size: tuple[int, int]) -> str:
    """Return boxes or points as JSON, x divided by the width and y by the height (`size`)."""
    return json.dumps(
        [
            [value / size[axis % 2] for axis, value in enumerate(coordinates)]
            for coordinates in places or ()
        ]
    )


def _mask(answer: Answer, _: tuple[int, int]) -> str:
    masks = [mask.to_json() for mask in answer.masks or () if mask.area]
    return json.dumps({"masks": masks, "boxes": [], "scores": [1.0] * len(masks)})


TEXT_OF_FORM: Mapping[str, Callable[[Answer, tuple[int, int]], str]] = {
    AnswerForm.TEXT: lambda answer, _: answer.text or "",
    AnswerForm.CHOICE: lambda answer, _: answer.choice or "",
    AnswerForm.COUNT: lambda answer, _: str(answer.count),
    AnswerForm.NUMBER: lambda answer, _: str(answer.number),
    AnswerForm.BOXES: lambda answer, size: _normalized(answer.boxes, size),
    AnswerForm.POINTS: lambda answer, size: _normalized(answer.points, size),
    AnswerForm.MASK: _mask,
}


def _unsupported(output_type: str) -> UsageError:
    return UsageError(
        "--model harness", expected="tasks with output_type: generate_until", found=output_type
    )
