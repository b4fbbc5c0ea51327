import runpy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import media, plugins
from harness.chat import ChatRequest
from harness.rehearsal import responses, standins
from harness.rehearsal.malformed import KINDS
from harness.rehearsal.responses import draw, grammar_of
from harness.rehearsal.wording import Asked, pattern_of
from harness.spec import parse
from harness.testing import ScriptedChat
from harness.types import AnswerForm, FailureKind, Query

REQUESTS = runpy.run_path(str(Path(__file__).parent / "rehearsed_requests.py"))
DRAWS = 60
PIXELS = np.random.default_rng(0).integers(0, 255, (4, 60, 80, 3), np.uint8)
PIXELS[0, :, :] = 255
PIXELS[0, 10:30, 10:30] = (200, 0, 0)
PIXELS[0, 35:55, 40:70] = (0, 0, 200)
IMAGE = media.pixels([PIXELS[0]], times=[0.0], is_video=False, id="image")


def several(asked: Asked, number: int = DRAWS) -> list[responses.Drawn]:
    return [draw(replace(asked, key=f"q#{place}")) for place in range(number)]


@pytest.mark.parametrize("kind", list(REQUESTS["kinds"]()), ids=lambda kind: kind.name)
def test_a_request_is_known_and_its_method_reads_what_is_well_formed(kind) -> None:
    assert grammar_of(kind.asked).name == kind.name
    drawn = several(kind.asked)
    assert {one.text: kind.reads(one.text) for one in drawn} == {
        one.text: not one.fault for one in drawn
    }
    assert any(not one.fault for one in drawn)


def test_most_are_well_formed_and_every_fault_occurs() -> None:
    (kind, *_) = REQUESTS["kinds"]()
    drawn = several(kind.asked, 1000)
    assert 0.65 < sum(not one.fault for one in drawn) / len(drawn) < 0.75
    assert set(Counter(one.fault for one in drawn)) == {"", *KINDS}


def test_a_response_follows_from_request_key_and_seed() -> None:
    (kind, *_) = REQUESTS["kinds"]()
    again = [draw(kind.asked), draw(kind.asked)]
    assert again[0] == again[1]
    others = [draw(kind.asked, seed=1), draw(replace(kind.asked, key="other"))]
    assert len({again[0].text, *(one.text for one in others)}) == 3


def test_any_other_text_is_answered_in_words() -> None:
    assert grammar_of(Asked(text="Hello there.")).name == "qwen_vl/text"


def test_a_pattern_takes_filled_templates_apart() -> None:
    pattern = pattern_of('Find "{Question}" of {Times} s, as {"a": 1}.')
    found = pattern.filled('Now. Find "a "b" {Times}" of 1, 2 s, as {"a": 1}. So.')
    assert found == {"Question": 'a "b" {Times}', "Times": "1, 2"}
    assert pattern.filled('Find "a cup" of 1, 2 s, as {"b": 1}.') is None


def conversation(spec: str, text: str, number: int, **given: object) -> list:
    """Predictions of a model of several turns whose network says what is drawn."""
    chat = ScriptedChat(
        responses=lambda request: (
            draw(
                Asked(
                    text=request.text,
                    system=request.system or "",
                    written=request.prefix + "".join(map(chr, request.written)),
                    extent=(80, 60),
                    key=request.key,
                )
            ).text
        ),
        size=(80, 60),
    )
    model = plugins.build("models", parse(spec))
    model = replace(model, chat=chat, **given)
    queries = [
        Query(id=f"q{place}", text=text, media=(IMAGE,), forms=(AnswerForm.MASK,))
        for place in range(number)
    ]
    return list(model.predict(queries))


@pytest.mark.parametrize("method", ["dt_r1", "jit"])
def test_turns_of_twins_reach_plan_code_and_answer(method: str) -> None:
    found = conversation(f"{method}(backend=stored,nodes=local)", "the red cup", 12)
    assert not [one for one in found if one.failure and one.failure.kind is not FailureKind.PARSE]
    notes = "\n".join(note for one in found for note in one.notes)
    said = "\n".join(text for one in found for text in one.responses)
    assert "<dt_plan>" in said and "<execute>" in said and "<answer>" in said
    assert "failed: 0" in notes
    assert sum(one.answer is not None for one in found) >= 3


def test_tokens_of_a_network_in_process_are_forced(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = standins.make("Qwen/Qwen2.5-VL-3B-Instruct", None, tmp_path)
    prompt = REQUESTS["VisionReasoner"]()
    requests = [
        ChatRequest(
            key=f"q#{place}",
            text=prompt.render("the cup"),
            media=(IMAGE,),
            resize=(112, 112),
            max_new_tokens=200,
        )
        for place in range(5)
    ]
    undo = responses.install(0)
    try:
        texts = []
        for batching in ("true", "false"):
            chat = plugins.build(
                "backends",
                parse(f"transformers(checkpoint={folder},continuous_batching={batching})"),
            )
            texts.append([one.text for one in chat.generate(requests)])
        expected = [draw(responses.asked_of(chat, request)) for request in requests]
    finally:
        undo()
    for text, again, one in zip(*texts, expected, strict=True):
        assert text == again
        assert text.startswith(one.text) if one.fault == "cut" else text == one.text
    assert any(not one.fault for one in expected)
    again = plugins.build("backends", parse(f"transformers(checkpoint={folder})"))
    assert [one.text for one in again.generate(requests)] != texts[0], "it is undone"
    assert torch.is_grad_enabled()
