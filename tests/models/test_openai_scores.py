"""One network, called in process, through a server and by its stored responses: the same scores."""

import hashlib
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatResponse
from harness.models.backends.openai import openai
from harness.models.qwen_vl.model import qwen_vl
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.spec import Spec

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.transformers import transformers  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract  # noqa: E402
from chat_server import serving  # noqa: E402

TASK = Spec("shapes_referring")


@dataclass(frozen=True)
class Boxing(Chat):
    """Makes an answer of what a network says: random weights say nothing that could be scored.

    Another response of the network is another box.
    """

    chat: Any

    batch_size = property(lambda self: self.chat.batch_size)
    coordinates = property(lambda self: self.chat.coordinates)
    rounds = property(lambda self: self.chat.rounds)
    goes_on = property(lambda self: self.chat.goes_on)

    def describe(self):
        return self.chat.describe()

    def prepare(self):
        self.chat.prepare()

    def canvas(self, request):
        return self.chat.canvas(request)

    def count_tokens(self, text):
        return self.chat.count_tokens(text)

    def generate(self, requests):
        return [self._boxed(response) for response in self.chat.generate(requests)]

    def _boxed(self, response: ChatResponse) -> ChatResponse:
        left, top, wide, high = hashlib.blake2b(response.text.encode(), digest_size=4).digest()
        left, top = left % 60, top % 60  # of the canvas, whose sides have 112 pixels at most
        box = [left, top, left + 20 + wide % 40, top + 20 + high % 40]
        answer = json.dumps([{"bbox_2d": box, "point_2d": [left + 9, top + 9]}])
        thought = hashlib.blake2b(response.text.encode()).hexdigest()
        return replace(response, text=f"<think>{thought}</think><answer>{answer}</answer>")


@pytest.fixture(scope="module")
def network(tiny_qwen):
    return transformers(checkpoint=str(tiny_qwen), dtype="float32", device="cpu")


def reached(served, folder, **settings):
    return openai(model=served.model, base_url=served.url, checkpoint=str(folder), **settings)


def scored(root, folder, model, spec=""):
    """The run of a model on a few samples."""
    task = plugins.build("tasks", TASK, root)
    return evaluate(task, model, folder, Options(subset="first6"), model_spec=spec or folder.name)


def model(chat):
    return qwen_vl(backend=chat, segmenter=Spec("box"), max_new_tokens=8)


def test_scores_do_not_depend_on_how_the_network_is_called(network, tiny_qwen, shapes, tmp_path):
    here = scored(shapes, tmp_path / "here", model(Boxing(network)))
    with serving(Boxing(network)) as served:
        there = scored(shapes, tmp_path / "there", model(reached(served, tiny_qwen)))
    assert journal(here) == journal(there)
    assert numbers(here) == numbers(there)
    assert scores(here) == scores(there)
    stored = tmp_path / "said.jsonl"
    rows = [
        {"id": one, "response": list(output.responses)} for one, output in predictions(here, shapes)
    ]
    stored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    canvas = Spec("stored", {"min_pixels": 56 * 56, "max_pixels": 112 * 112})
    reader = Spec("qwen_vl", {"backend": canvas, "segmenter": Spec("box")})
    spec = Spec("replay", {"file": str(stored), "model": reader})
    again = scored(shapes, tmp_path / "again", plugins.build("models", spec))
    assert numbers(here) == numbers(again)
    assert scores(here) == scores(again)
    assert any(value not in (0.0, None) for value in numbers(here).values())


def test_a_server_that_answers_all_alike_has_other_scores(network, tiny_qwen, shapes, tmp_path):
    class Constant(Boxing):
        def generate(self, requests):
            return [self._boxed(ChatResponse(text="always")) for _ in requests]

    here = scored(shapes, tmp_path / "here", model(Boxing(network)))
    with serving(Constant(network)) as served:
        there = scored(shapes, tmp_path / "there", model(reached(served, tiny_qwen)))
    assert journal(here) != journal(there)
    assert numbers(here) != numbers(there)


def predictions(run, root):
    task = plugins.build("tasks", TASK, root)
    known = set(run.journal.places)
    for sample in task.samples():
        if sample.query.id in known:
            yield sample.id, run.prediction(sample.id)


def journal(run):
    """Every prediction of a run, by the query's id, without the name that a server gives itself."""
    records = {query: run.journal.record(query)["prediction"] for query in run.journal.places}
    for record in records.values():
        for call in record.get("calls", ()):
            call.pop("model", None)
    return records


def scores(run):
    return (run.folder / "scores.jsonl").read_bytes()


def numbers(run):
    return run.results["metrics"]


def test_the_network_behind_a_server_sees_and_says_the_same(network, tiny_qwen):
    with serving(network) as served:
        chat = reached(served, tiny_qwen, clips="video")
        requested = contract.requests(clips=True)
        contract.check(chat, network, requested)
        direct = network.generate(list(requested.values()))
        assert [one.canvases for one in chat.generate(list(requested.values()))] == [
            one.canvases for one in direct
        ]
        assert [chat.canvas(one) for one in requested.values()] == [
            network.canvas(one) for one in requested.values()
        ]
        assert chat.count_tokens("abc ä") == network.count_tokens("abc ä")
        assert chat.coordinates == network.coordinates == "pixels"
        assert chat.describe()["repetition_penalty"] == network.penalty


def test_the_weights_need_not_be_here(tiny_qwen, tmp_path, network):
    import shutil

    folder = shutil.copytree(tiny_qwen, tmp_path / "bare")
    (folder / "model.safetensors").unlink()
    with serving(network) as served:
        chat = openai(model=served.model, base_url=served.url, tokenizer=str(folder))
        chat.prepare()
        request = contract.requests()["first"]
        (here,), (there,) = network.generate([request]), chat.generate([request])
        assert there == replace(here, tokens=()), "a server tells no tokens"


def test_limits_on_pixels_are_kept_before_images_are_sent(tiny_qwen, network, ask):
    request = replace(contract.requests()["first"], media=ask(size=(200, 100)).media)
    with serving(network) as served:
        chat = reached(served, tiny_qwen, min_pixels=3136, max_pixels=9_000)
        (response,) = chat.generate([request])
    # The server's own limits allow 112 × 112, so that it must have been sent a smaller image.
    small = transformers(checkpoint=str(tiny_qwen), min_pixels=3136, max_pixels=9_000)
    assert chat.canvas(request) == small.canvas(request) != network.canvas(request)
    (expected,) = small.generate([request])
    assert response.prompt_tokens == expected.prompt_tokens


def test_a_clip_is_seen_as_the_server_has_it_where_frames_are_below_its_own_limits(
    tiny_qwen, network
):
    requested = contract.requests(clips=True)
    request = next(one for one in requested.values() if len(one.media[0]) > 1)
    request = replace(request, resize=(200, 100), resize_others=None)
    with serving(network) as served:
        chat = reached(served, tiny_qwen, clips="video", min_pixels=784, max_pixels=2_000)
        (response,) = chat.generate([request])
    sent = chat.remote_processor.fit((200, 100))
    assert sent[0] * sent[1] <= 2_000
    (seen,) = network.generate([replace(request, resize=sent)])
    assert chat.canvas(request) == seen.canvases[0] != sent
    assert (response.canvases, response.prompt_tokens) == (seen.canvases, seen.prompt_tokens)


def test_limits_on_pixels_are_kept_by_the_frames_of_a_clip(tiny_qwen, network):
    requested = contract.requests(clips=True)
    request = next(one for one in requested.values() if len(one.media[0]) > 1)
    request = replace(request, resize=(200, 100), resize_others=None)
    limits = {"min_pixels": 3136, "max_pixels": 9_000}
    with serving(network) as served:
        chat = reached(served, tiny_qwen, clips="video", **limits)
        (response,) = chat.generate([request])
    small = transformers(checkpoint=str(tiny_qwen), **limits)
    assert chat.canvas(request) == small.canvas(request) != network.canvas(request)
    (expected,) = small.generate([request])
    assert response.prompt_tokens == expected.prompt_tokens
