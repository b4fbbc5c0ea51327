"""`harness.testing`: a scripted chat is a backend like others; worlds and tiny checkpoints."""

import json

import pytest

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.testing import ScriptedChat, make_shapes, tiny_checkpoint
from harness.testing.networks import FAMILIES


def request(**given):
    return ChatRequest(key="q", text="Where?", **given)


def test_texts_come_in_order_and_the_last_again():
    chat = ScriptedChat(responses=["a", "b"])
    assert [one.text for one in chat.generate([request()] * 3)] == ["a", "b", "b"]
    assert [one.text for one in chat.generate([request()])] == ["b"] and len(chat.requests) == 4


def test_limits_stops_and_prefixes_are_those_of_the_request():
    chat = ScriptedChat(responses=lambda asked: "one; two")
    (cut,) = chat.generate([request(max_new_tokens=3)])
    assert (cut.text, cut.cut, cut.completion_tokens) == ("one", True, 3)
    (stopped,) = chat.generate([request(stop=(";",), prefix="so ")])
    assert (stopped.text, stopped.stopped, stopped.cut) == ("so one", ";", False)
    assert chat.decode(stopped.tokens) == "one;" and chat.encode("one;") == stopped.tokens
    whole = ScriptedChat(responses=["x"], as_tokens=False).generate([request()])
    assert whole[0].tokens == ()


@pytest.mark.parametrize("responses", ["one", [], ()])
def test_a_script_is_a_sequence_of_texts(responses):
    with pytest.raises(UsageError, match="responses"):
        ScriptedChat(responses=responses).generate([request()])


def test_a_canvas_needs_a_size():
    with pytest.raises(UsageError, match="size"):
        ScriptedChat(responses=["a"]).canvas(request())
    assert ScriptedChat(responses=["a"], size=(4, 3)).canvas(request()) == (4, 3)


def test_a_world_has_the_benchmarks_that_were_named(tmp_path):
    assert make_shapes(tmp_path / "data", tasks=["mevis", "counting"], size=1, seed=2) == [
        "counting",
        "mevis",
    ]
    made = json.loads((tmp_path / "data" / "shapes.json").read_text())
    assert (made["seed"], made["size"]) == (2, 1)
    assert {"mevis"} < {file.partition("/")[0] for file in made["files"]}


def test_what_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no_such"):
        make_shapes(tmp_path / "data", tasks=["no_such"])
    with pytest.raises(UsageError, match="-1"):
        make_shapes(tmp_path / "data", size=1, seed=-1)
    with pytest.raises(UsageError, match="llama"):
        tiny_checkpoint("llama", tmp_path / "tiny")
    assert not any(tmp_path.iterdir())


def test_a_checkpoint_is_of_its_seed_and_leaves_the_generator_alone(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    family = next(iter(FAMILIES))
    before = torch.random.get_rng_state()
    first, again, other = (
        tiny_checkpoint(family, tmp_path / name, seed=seed)
        for name, seed in (("first", 0), ("again", 0), ("other", 1))
    )
    assert torch.equal(before, torch.random.get_rng_state())
    weights = [(one / "model.safetensors").read_bytes() for one in (first, again, other)]
    assert weights[0] == weights[1] != weights[2]
