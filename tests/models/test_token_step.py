"""Single tokens by `TokenStep` against the forward pass of transformers."""

import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.chat import ChatRequest  # noqa: E402
from harness.models.backends import continuous_batching, token_step  # noqa: E402
from harness.models.backends.batching import input_worker  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402

SIZES = {
    "vocab_size": 50,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
TEXTS = [
    ("LlamaForCausalLM", {"num_key_value_heads": 4}),
    ("LlamaForCausalLM", {"num_key_value_heads": 2, "attention_bias": True}),
    ("Qwen2ForCausalLM", {"num_key_value_heads": 2}),
    ("Qwen2ForCausalLM", {"num_key_value_heads": 2, "rope_parameters": YARN}),
    ("Qwen3ForCausalLM", {"num_key_value_heads": 2, "head_dim": 32}),
]


def text_network(name, settings, **changed):
    ensure_torchvision()
    import transformers as library

    torch.manual_seed(0)
    kind = getattr(library, name)
    return kind(kind.config_class(**{**SIZES, **settings, **changed})).eval()


def rows_of(network, cut=()):
    """Prompts of unequal lengths, read; `written` begins with one token each."""
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 45, (3, 12), generator=draw)
    mask = torch.ones_like(tokens)
    for row, number in enumerate((0, 4, 9)):
        mask[row, :number] = 0
    part = continuous_batching.PromptBatch(
        [0, 1, 2], {"input_ids": tokens, "attention_mask": mask}, [0, 1, 2]
    )
    rows = continuous_batching._prefill(network, part).rows
    for written in rows.response_tokens:
        written.append(7)
    return rows


def logits(network, lean, steps=4):
    """Logits of some steps (steps × rows × vocabulary) after the same tokens."""
    rows, found = rows_of(network), []
    for token in range(10, 10 + steps):
        found.append(continuous_batching._step(network, lean, rows).float())
        for written in rows.response_tokens:
            written.append(token)
    return torch.stack(found)


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(("name", "settings"), TEXTS)
def test_networks_of_text(monkeypatch, name, settings, copied):
    if not copied:
        monkeypatch.setattr(token_step, "MAX_COPIED_WEIGHTS", 0)
    network = text_network(name, settings)
    with torch.inference_mode():
        lean = token_step.token_step(network)
        ours, whole = logits(network, lean), logits(network, None)
    assert lean is not None and (len(lean.layers[0].attention_inputs.parts) == 1) == copied
    assert whole.std() > 0.01, "there is something to compare"
    torch.testing.assert_close(ours, whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_networks_that_see(request, checkpoint):
    folder = str(request.getfixturevalue(checkpoint))
    network = transformers(checkpoint=folder, dtype="float32", device="cpu").network
    with torch.inference_mode():
        lean = token_step.token_step(network)
        ours, whole = logits(network, lean), logits(network, None)
    assert lean is not None
    torch.testing.assert_close(ours, whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("copied", [True, False])
def test_half_precision_is_rounded_no_worse_than_by_the_network(monkeypatch, copied):
    if not copied:
        monkeypatch.setattr(token_step, "MAX_COPIED_WEIGHTS", 0)
    exact = text_network(*TEXTS[0]).bfloat16().float()
    half = text_network(*TEXTS[0]).bfloat16()
    with torch.inference_mode():
        expected = logits(exact, None)
        errors = [
            (logits(half, lean) - expected).abs().mean()
            for lean in (token_step.token_step(half), None)
        ]
    assert 0 < errors[0] < 1.5 * errors[1]


def spoil_linear(network):
    class Other(torch.nn.Linear):
        pass

    network.model.layers[1].mlp.up_proj = Other(64, 96, bias=False)


def spoil_hook(network):
    network.model.layers[0].self_attn.register_forward_hook(lambda *_: None)


def spoil_outer_hook(network):
    network.register_forward_pre_hook(lambda *_: None)


def spoil_attention(network):
    network.set_attn_implementation("eager")


@pytest.mark.parametrize(
    "spoil", [spoil_linear, spoil_hook, spoil_outer_hook, spoil_attention], ids=lambda f: f.__name__
)
def test_where_more_than_the_weights_decides_the_network_computes(spoil):
    network = text_network(*TEXTS[0])
    with torch.inference_mode():
        assert token_step.token_step(network) is not None
        spoil(network)
        assert token_step.token_step(network) is None


@pytest.mark.parametrize("changed", [{"hidden_act": "gelu"}, {"rope_parameters": "dynamic"}])
def test_other_arithmetic_is_left_to_the_network(changed):
    if "rope_parameters" in changed:
        changed = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}
    with torch.inference_mode():
        assert token_step.token_step(text_network(*TEXTS[0], **changed)) is None


def test_gradients_are_left_to_the_network():
    network = text_network(*TEXTS[0])
    assert token_step.token_step(network) is None
    with torch.no_grad():
        assert token_step.token_step(network) is not None


def test_weights_that_change_between_calls_are_those_of_the_next_call(tiny_qwen, ask):
    """Also where torch does not see the change."""
    chat, fresh = (transformers(checkpoint=str(tiny_qwen), batch_size=2) for _ in range(2))
    requests = [
        ChatRequest(key=text, text=text, media=ask().media, max_new_tokens=8) for text in "abcde"
    ]
    before = chat.generate(requests)
    for network in (chat.network, fresh.network):
        for weight in network.base_model.language_model.parameters():
            weight.data.mul_(-1.3)
    after = chat.generate(requests)
    assert after != before
    assert after == fresh.generate(requests)


def test_inputs_are_made_by_one_thread_and_others_keep_theirs():
    """On a CPU; beside a GPU all cores are free."""
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        counts = {}
        for device in ("cpu", "cuda"):
            with input_worker("inputs", device=device) as worker:
                counts[device] = worker.submit(torch.get_num_threads).result()
        later = threading.Thread(target=lambda: counts.update(later=torch.get_num_threads()))
        later.start()
        later.join()
        assert counts == {"cpu": 1, "cuda": 3, "later": 3}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
