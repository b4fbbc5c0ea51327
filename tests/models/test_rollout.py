"""The core of rollouts on a network of text alone: tokens, templates that open the reasoning."""

import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from harness.chat import ChatRequest  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402
from harness.models.multi_turn import converse  # noqa: E402
from harness.models.rollout import Transcript, Turn, write_rollout  # noqa: E402

ensure_torchvision()

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\nTHINK{% endif %}"
)
STOPS = tuple("abcdefghijklmnopqrstuvwxyz ")
INJECTED = "<results>12</results>"


@pytest.fixture(scope="module", params=["", "{{ '<think>\\n' }}"], ids=["plain", "opened"])
def folder(request, tiny_qwen, tmp_path_factory):
    """A random Qwen2 that reads text alone, whose template may open the reasoning."""
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    words = AutoTokenizer.from_pretrained(tiny_qwen)
    words.chat_template = TEMPLATE.replace("THINK", request.param)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        initializer_range=0.3,
    )
    made = tmp_path_factory.mktemp("text")
    Qwen2ForCausalLM(config).save_pretrained(made)
    words.save_pretrained(made)
    path = made / "tokenizer_config.json"
    plain = json.loads(path.read_text("utf-8"))
    plain.pop("processor_class", None)
    path.write_text(json.dumps(plain), encoding="utf-8")
    return str(made)


def requests(count=7):
    return [
        ChatRequest(key=f"q{one}", text=f"{'why ' * one}?", max_new_tokens=8 + one)
        for one in range(count)
    ]


def test_rows_of_a_network_of_text_alone_write_what_each_writes_alone(folder):
    alone = transformers(checkpoint=folder, batch_size=1, continuous_batching=False)
    expected = alone.generate(requests())
    for size in (2, 3):
        rolled = transformers(checkpoint=folder, batch_size=size)
        assert rolled.generate(requests()) == expected


def test_what_the_template_opens_stands_in_the_response(folder, request):
    chat = transformers(checkpoint=folder)
    opened = "opened" in request.node.name
    assert chat.opening == ("<think>\n" if opened else "")
    (response,) = chat.generate(requests(1))
    assert response.text.startswith(chat.opening) and chat.decode(response.tokens) in response.text
    (later,) = chat.generate([replace(requests(1)[0], written=response.tokens)])
    assert not (opened and later.text.startswith("<think>"))


class Script:
    """An episode that injects twice."""

    def __init__(self):
        self.seen = []

    def __call__(self, written):
        self.seen.append(written)
        inject = INJECTED if len(self.seen) < 3 else None
        return Turn(inject=inject, stop=STOPS, facts={"turns": len(self.seen)})


def test_a_rollout_is_put_together_of_tokens_and_goes_on_after_exactly_them(folder):
    chat = transformers(checkpoint=folder, temperature=1.0, batch_size=2)
    episodes = [Script() for _ in range(4)]
    first = [replace(one, stop=STOPS, max_new_tokens=90) for one in requests(4)]
    found = converse(
        chat,
        [
            write_rollout(one, episode, chat, Transcript())
            for one, episode in zip(first, episodes, strict=True)
        ],
    )
    for one, episode, transcript in zip(first, episodes, found, strict=True):
        assert episode.seen[0].startswith(chat.opening)
        assert transcript.text.startswith("".join(episode.seen[:1]))
        injected = list(chat.encode(INJECTED))
        for part in transcript.parts:
            assert (part.call is None) == (list(part.tokens) == injected)
        assert len(transcript.mask) == len(transcript.tokens) <= 90
        for number, (sent, _) in enumerate(transcript.calls[1:], start=1):
            place = [part.call for part in transcript.parts].index(transcript.calls[number])
            before = [token for part in transcript.parts[:place] for token in part.tokens]
            assert list(sent.written) == before and sent.key == f"{one.key}/turn{number}"
            assert sent.max_new_tokens == 90 - len(before)


def test_a_rollout_ends_where_its_tokens_do(folder):
    chat = transformers(checkpoint=folder)
    limit = len(chat.encode(INJECTED)) + 2
    (first,) = requests(1)
    request = replace(first, stop=STOPS, max_new_tokens=limit)
    (found,) = converse(chat, [write_rollout(request, Script(), chat, Transcript())])
    assert found.cut and len(found.tokens) <= limit
