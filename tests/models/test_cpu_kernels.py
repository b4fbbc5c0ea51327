"""Forms that cost less compute the same: patches as products, single queries in float32."""

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: E402

from harness.chat import ChatRequest  # noqa: E402
from harness.models.backends import cpu_kernels, kv_cache  # noqa: E402
from harness.models.backends.cpu_kernels import STEPS_IN_FLOAT32, one_query_in_float32  # noqa: E402
from harness.models.backends.transformers import transformers  # noqa: E402

CHECKPOINTS = ["tiny_qwen", "tiny_qwen3"]


def patches_of(network):
    return network.base_model.visual.patch_embed.proj


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_patches_times_weights_are_what_the_convolution_gives(request, checkpoint):
    network = transformers(checkpoint=str(request.getfixturevalue(checkpoint))).network
    patches = patches_of(network).double()
    cut = torch.randn(50, patches.in_channels, *patches.kernel_size, dtype=torch.float64)
    with torch.inference_mode():
        ours, whole = patches(cut), type(patches).forward(patches, cut)
    assert patches.forward.__func__ is cpu_kernels._patch_product
    assert ours.shape == whole.shape
    assert torch.allclose(ours, whole, atol=1e-10)
    assert whole.std() > 0.1, "there is something to compare"


def test_what_is_larger_than_a_patch_is_convolved(tiny_qwen):
    patches = patches_of(transformers(checkpoint=str(tiny_qwen)).network).double()
    several = torch.randn(2, 3, 4, 28, 28, dtype=torch.float64)
    with torch.inference_mode():
        assert torch.equal(patches(several), type(patches).forward(patches, several))


def test_a_convolution_that_is_not_one_product_a_patch_is_left_alone(tiny_qwen):
    network = transformers(checkpoint=str(tiny_qwen)).network
    overlapping = torch.nn.Conv3d(3, 4, (2, 14, 14), stride=(2, 7, 14))
    network.base_model.visual.patch_embed.proj = overlapping
    cpu_kernels.use_cpu_kernels(network, attn_implementation="auto")
    assert "forward" not in vars(overlapping)


@pytest.mark.parametrize(
    "shape", [(0, 24), (8, 1, 24), (16, 24), (17, 24), (63, 24), (65, 24), (2, 71, 24), (128, 24)]
)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("lacking", [True, False])
def test_products_of_made_up_rows_are_the_layers_own(shape, biased, lacking, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "lacks_half_products", lambda: lacking)
    layer = torch.nn.Linear(24, 40, bias=biased).bfloat16()
    values = torch.randn(shape).bfloat16()
    with torch.inference_mode():
        ours, whole = cpu_kernels._fast_linear(layer, values), layer(values)
    assert ours.shape == whole.shape
    assert torch.allclose(ours.float(), whole.float(), atol=2**-6, rtol=2**-7)


@pytest.mark.parametrize("biased", [True, False])
def test_products_of_few_rows_follow_the_weights_and_leave_gradients_alone(biased):
    layer = torch.nn.Linear(24, 40, bias=biased).bfloat16()
    values = torch.randn(8, 24).bfloat16()
    with torch.no_grad():
        before = cpu_kernels._fast_linear(layer, values)
        for weight in layer.parameters():
            weight.mul_(2)
        assert torch.allclose(
            cpu_kernels._fast_linear(layer, values), 2 * before, atol=2**-6, rtol=2**-7
        )
        layer.weight.data = torch.zeros_like(layer.weight)
        assert torch.equal(cpu_kernels._fast_linear(layer, values), layer(torch.zeros_like(values)))
        assert torch.is_tensor(vars(layer)["in_float32"][1]), "which is what was asked"
    cpu_kernels._fast_linear(layer, values).sum().backward()
    expected = values.sum(dim=0).expand_as(layer.weight)
    assert torch.allclose(layer.weight.grad, expected, atol=2**-6, rtol=2**-6)


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "quick"),
    [
        (16, 24, "bfloat16", True),
        (17, 24, "bfloat16", False),
        (8, 24, "float32", False),
        (8, 1 + cpu_kernels.MAX_FLOAT32_WEIGHTS // 40, "bfloat16", False),
    ],
)
def test_only_small_products_of_few_rows_in_half_precision_are_made_in_float32(
    rows, width, dtype, quick
):
    layer = torch.nn.Linear(width, 40).to(getattr(torch, dtype))
    with torch.inference_mode():
        cpu_kernels._fast_linear(layer, torch.ones(rows, width, dtype=layer.weight.dtype))
    assert ("in_float32" in vars(layer)) == quick


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_prompts_of_many_lengths_make_products_of_few(request, checkpoint, monkeypatch, ask):
    monkeypatch.setattr(cpu_kernels, "lacks_half_products", lambda: False)
    folder = str(request.getfixturevalue(checkpoint))
    rows = set()
    linear = torch.nn.functional.linear

    def watched(values, *rest):
        rows.add(values.numel() // values.shape[-1])
        return linear(values, *rest)

    monkeypatch.setattr("torch.nn.functional.linear", watched)
    for dtype, even in (("bfloat16", True), ("float32", False)):
        made = transformers(checkpoint=folder, dtype=dtype, device="cpu", batch_size=2)
        texts = [f"Where {'and when ' * 11 * length}?" for length in range(1, 6)]
        made.generate(
            [
                ChatRequest(key=text, text=text, media=ask().media, max_new_tokens=2)
                for text in texts
            ]
        )
        many = {count for count in rows if count > cpu_kernels.ROW_MULTIPLE}
        assert many and all(count % cpu_kernels.ROW_MULTIPLE == 0 for count in many) == even
        rows.clear()


@pytest.mark.parametrize(
    ("capability", "dtype"), [("AVX2", torch.float32), ("AVX512", torch.bfloat16)]
)
def test_products_of_a_cpu_without_avx512_are_made_in_float32(capability, dtype, monkeypatch):
    computed = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        "torch.nn.functional.linear",
        lambda values, *rest: computed.append(values.dtype) or linear(values, *rest),
    )
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    layer = torch.nn.Linear(24, 40).bfloat16()
    values = torch.ones(17, 24, dtype=torch.bfloat16, requires_grad=True)
    cpu_kernels._fast_linear(layer, values).sum().backward()
    assert computed == [dtype]
    assert torch.allclose(values.grad, layer.weight.sum(dim=0), atol=2**-6, rtol=2**-6)


def heads(rows=3, query_heads=4, key_heads=4, queries=1, tokens=40, width=16):
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(rows, query_heads, queries, width, generator=draw)
    key, value = torch.randn(2, rows, key_heads, tokens, width, generator=draw)
    seen = torch.ones(rows, 1, queries, tokens, dtype=torch.bool)
    seen[0, ..., :11] = False
    return query, key, value, seen


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", ["boolean", "added", "none"])
def test_a_single_query_reads_what_it_attends_to_and_rounds_once(dtype, mask):
    query, key, value, seen = (one.to(dtype) if one.is_floating_point() else one for one in heads())
    scores = (query.double() @ key.double().transpose(2, 3)) * 0.3
    if mask != "none":
        scores = scores.masked_fill(~seen, -math.inf)
    expected = (scores.softmax(dim=3) @ value.double()).transpose(1, 2)
    given = {
        "boolean": seen,
        "none": None,
        "added": torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min),
    }[mask]
    read, none = one_query_in_float32(SimpleNamespace(), query, key, value, given, scaling=0.3)
    assert read.dtype == dtype and none is None
    assert torch.equal(read, expected.to(dtype)) or (
        (read.double() - expected).abs().max() <= expected.abs().max() * torch.finfo(dtype).eps
    )


@pytest.mark.parametrize(
    "shape",
    [
        {"queries": 2},
        {"query_heads": 8},
        {"tokens": 1 + cpu_kernels.MAX_CONVERTED // (3 * 4 * 16)},
    ],
)
def test_everything_else_is_left_to_transformers(shape):
    query, key, value, seen = (
        one.bfloat16() if one.is_floating_point() else one for one in heads(**shape)
    )
    layer = SimpleNamespace(num_key_value_groups=query.shape[1] // key.shape[1])
    ours, _ = one_query_in_float32(layer, query, key, value, seen, scaling=0.3)
    theirs, _ = sdpa_attention_forward(layer, query, key, value, seen, scaling=0.3)
    assert torch.equal(ours, theirs)


def chosen(folder, **settings):
    network = transformers(checkpoint=str(folder), device="cpu", **settings).network
    text, vision = network.config.get_text_config(), network.config.vision_config
    return text._attn_implementation, vision._attn_implementation


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_single_queries_are_read_so_on_a_cpu_in_half_precision_unless_something_is_asked_for(
    request, checkpoint
):
    folder = request.getfixturevalue(checkpoint)
    assert chosen(folder, dtype="bfloat16") == (STEPS_IN_FLOAT32, "sdpa")
    assert chosen(folder, dtype="float32") == ("sdpa", "sdpa")
    assert chosen(folder, dtype="bfloat16", attn_implementation="sdpa") == ("sdpa", "sdpa")
    assert chosen(folder, dtype="bfloat16", attn_implementation="eager") == ("eager", "eager")


def test_it_is_what_a_network_is_answered_with(ask, monkeypatch):
    """The heads of pocket have their own keys; two queries and more stay in its own precision."""
    seen = set()

    def watched(module, query, key, *rest, **named):
        seen.add((query.shape[2] == 1, query.dtype, key.dtype))
        return sdpa_attention_forward(module, query, key, *rest, **named)

    monkeypatch.setattr("transformers.integrations.sdpa_attention.sdpa_attention_forward", watched)
    made = transformers(checkpoint="pocket", dtype="bfloat16", device="cpu")
    (response,) = made.generate(
        [ChatRequest(key="a", text="Where?", media=ask().media, max_new_tokens=5)]
    )
    assert response.completion_tokens == 5
    half, whole = torch.bfloat16, torch.float32
    assert seen == {(True, whole, whole), (False, half, half)}


@pytest.mark.parametrize("room", [cpu_kernels.MAX_CONVERTED, 3 * 4 * 40 * 16, 0])
def test_keys_that_are_held_in_float32_change_no_bit(room, monkeypatch):
    """Also where they become too many for it, and are in half precision again, or always were."""
    monkeypatch.setattr(kv_cache, "MAX_CONVERTED", room)
    query, key, value, seen = (
        one.bfloat16() if one.is_floating_point() else one for one in heads(tokens=41)
    )
    config = SimpleNamespace(
        _attn_implementation=STEPS_IN_FLOAT32, num_attention_heads=4, num_key_value_heads=4
    )
    network = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: config))
    half, given = (
        kv_cache.preallocated_cache([(key[:, :, :40], value[:, :, :40])]) for _ in range(2)
    )
    held = kv_cache.as_steps_read(network, given)
    assert held.layers[0].keys.dtype == (torch.float32 if room else torch.bfloat16)
    reads = []
    for cache in (half, held):
        both = cache.update(key[:, :, 40:], value[:, :, 40:], 0)
        reads.append(one_query_in_float32(SimpleNamespace(), query, *both, seen, scaling=0.3)[0])
    wide = room == cpu_kernels.MAX_CONVERTED
    assert both[0].dtype == (torch.float32 if wide else torch.bfloat16)
    assert torch.equal(*reads)
    config.num_key_value_heads = 2  # heads that share keys are read as they are
    assert kv_cache.as_steps_read(network, half) is half


@pytest.mark.parametrize(
    ("weights", "device", "variable", "threads"),
    [
        (10_000_000, "cpu", None, 1),
        (10_000_001, "cpu", None, 3),
        (1, "cpu", "2", 3),
        (1, "meta", None, 3),
    ],
)
def test_a_small_network_on_the_cpu_gets_one_thread(
    weights, device, variable, threads, monkeypatch
):
    chosen = [3]
    monkeypatch.setattr(torch, "set_num_threads", lambda number: chosen.append(number))
    monkeypatch.delenv(cpu_kernels.THREADS_VARIABLE)
    if variable:
        monkeypatch.setenv(cpu_kernels.THREADS_VARIABLE, variable)
    network = SimpleNamespace(
        parameters=lambda: [torch.empty(weights, device="meta")], device=torch.device(device)
    )
    cpu_kernels._use_one_thread_if_small(network)
    assert chosen[-1] == threads
