"""lmms-eval's side of `throughput.py`: run by the interpreter of an environment that has it.

It measures on request (`busy.serve`). Nothing of lmms-eval is changed. Its model `qwen2_5_vl` (the
chat class, which it takes by default) is built by its registry and evaluated by
`simple_evaluate` on a task in a folder of its own;
`device_map=cpu` keeps it from moving tensors to CUDA, which `auto` does.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from busy import Busy, serve

from harness.models.backends.torchvision_cpu import ensure_torchvision

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {questions}}}}}
test_split: test
output_type: generate_until
doc_to_visual: !function reading.images
doc_to_text: !function reading.text
doc_to_messages: !function reading.messages
doc_to_target: id
generation_kwargs: {{max_new_tokens: {limit}, temperature: 0, do_sample: false}}
process_results: !function reading.answered
metric_list:
  - {{metric: answered, aggregation: !function reading.mean, higher_is_better: true}}
metadata: [{{version: 0.0}}]
"""
READING = '''\
"""What the task's file names."""

from PIL import Image


def images(doc):
    return [Image.open(doc["image"]).convert("RGB")]


def text(doc, lmms_eval_specific_kwargs=None):
    return doc["prompt"]


def messages(doc, lmms_eval_specific_kwargs=None):
    image = {"type": "image", "url": images(doc)[0]}
    return [{"role": "user", "content": [image, {"type": "text", "text": doc["prompt"]}]}]


def answered(doc, results):
    return {"answered": float(bool(results[0]))}


def mean(values):
    return sum(values) / len(values)
'''


class Lmms:
    """lmms-eval's side; it keeps the model of a cell of the table."""

    def __init__(self) -> None:
        self._settings: Mapping[str, Any] = {}

    def measure(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Evaluate once; a cell's first time after a model was loaded and warmed up."""
        if settings != self._settings:
            self._load(settings)
            evaluated(self._model, Path(settings["warm"]), settings)
            self._settings = settings
        self._model._model = self._network  # an evaluation lets go of it when it is done
        self._busy.reset()
        return evaluated(self._model, Path(settings["set"]), settings) | self._busy.found()

    def _load(self, settings: Mapping[str, Any]) -> None:
        import torch
        from lmms_eval.models import get_model

        torch.set_num_threads(settings["threads"])
        arguments = {key: settings[key] for key in ("min_pixels", "max_pixels")}
        arguments |= {"pretrained": settings["checkpoint"], "device_map": settings["device"]}
        self._model = get_model("qwen2_5_vl").create_from_arg_string(
            ",".join(f"{key}={value}" for key, value in arguments.items()),
            {"batch_size": settings["batch"], "device": settings["device"]},
        )
        self._network = self._model.model
        self._busy = Busy(self._network)


def evaluated(model: Any, folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of the whole evaluation, of `generate_until` in it, and the responses by id."""
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.tasks import TaskManager

    name = f"{folder.parent.name}_{folder.name}"
    place = folder / "lmms"
    place.mkdir(exist_ok=True)
    (place / "reading.py").write_text(READING, encoding="utf-8")
    questions = json.dumps(str(folder / "questions.jsonl"))
    text = TASK.format(name=name, questions=questions, limit=settings["max_new_tokens"])
    (place / f"{name}.yaml").write_text(text, encoding="utf-8")
    window: list[float] = []
    answer = type(model).generate_until

    def timed(requests: Any) -> Any:
        start = perf_counter()
        responses = answer(model, requests)
        window.append(perf_counter() - start)
        return responses

    model.generate_until = timed
    start = perf_counter()
    found = simple_evaluate(
        model=model,
        tasks=[name],
        task_manager=TaskManager(include_path=str(place)),
        batch_size=settings["batch"],
        device=settings["device"],
        bootstrap_iters=0,
    )
    whole = perf_counter() - start
    responses = {one["doc"]["id"]: said(one) for one in found["samples"][name]}
    return {"window": sum(window), "whole": whole, "responses": responses}


def said(sample: dict[str, Any]) -> str:
    """The response in a logged sample, whichever way lists are nested around it."""
    response = sample["filtered_resps"]
    while isinstance(response, list):
        response = response[0]
    return str(response)


if __name__ == "__main__":
    ensure_torchvision()
    serve(Lmms().measure)
