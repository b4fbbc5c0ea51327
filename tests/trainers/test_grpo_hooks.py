"""Contracts with TRL's GRPOTrainer, and that what is trained on is what evaluation sees."""

import inspect
import typing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import media, plugins  # noqa: E402
from harness.errors import UsageError  # noqa: E402
from harness.model import ChatRequest  # noqa: E402
from harness.models.backends.inputs import processor_inputs  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers as backend  # noqa: E402
from harness.models.qwen_vl.model import qwen_vl  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainer import TrainingRun  # noqa: E402
from harness.types import (  # noqa: E402
    Answer,
    AnswerForm,
    Box,
    Query,
    Sample,
    Target,
    query_id,
)

ensure_torchvision()

from harness.trainers import trl_compat  # noqa: E402
from harness.trainers.grpo import hooks, passes, tokens  # noqa: E402
from harness.trainers.grpo import trainer as methods  # noqa: E402
from harness.trainers.grpo.encoding import (  # noqa: E402
    encoded,
    encoded_beside,
    joined,
    kinds,
    patches,
    reworded,
    tokens_of,
)
from harness.trainers.grpo.examples import Preparation, asked, example_of  # noqa: E402
from harness.trainers.grpo.loss import (  # noqa: E402
    UNCLIPPED,
    LossType,
    advantages,
    grpo_loss,
)
from harness.trainers.grpo.rounds import Rounds, drawn  # noqa: E402
from harness.trainers.grpo.settings import Settings, with_settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402

FORM = AnswerForm
GROUP = 3


@pytest.fixture(scope="module")
def model(tiny_qwen):
    return qwen_vl(checkpoint=str(tiny_qwen), keyframe="named", frames=4, max_new_tokens=9)


@pytest.fixture(scope="module")
def samples():
    """A picture, a clip, and another picture."""
    return [
        Sample(
            id=name,
            query=query(form, name=name, **given),
            target=Target(answer=Answer(boxes=(Box(1, 1, 9, 9),))),
        )
        for name, form, given in (
            ("still", FORM.BOXES, {}),
            ("clip", FORM.MASK_TRACK, {"frames": 5}),
            ("wide", FORM.BOXES, {"size": (150, 80), "text": "And the other one?"}),
        )
    ]


@pytest.fixture(scope="module")
def requests(model, samples):
    return [model.requests(sample.query)[0] for sample in samples]


def test_prompts_that_are_put_together_equal_those_encoded_together(model, requests):
    processor = model.chat.processor
    whole = processor_inputs(processor, requests)
    ours = joined(
        [encoded(processor, one) for one in requests], padding=processor.tokenizer.pad_token_id
    )
    assert set(ours) == set(whole)
    for name, tensor in whole.items():
        assert torch.equal(ours[name], torch.as_tensor(tensor)), name


def test_the_prompt_of_training_is_the_prompt_of_evaluation(model, samples):
    processor = model.chat.processor
    for sample in samples:
        example = example_of(model, "t", sample, ask=asked, max_completion_length=77)
        (request,) = model.requests(sample.query)
        assert example.request == replace(request, max_new_tokens=77)
        assert example.canvas == model.chat.canvas(request)
        theirs = processor_inputs(processor, [request])["input_ids"][0].tolist()
        assert tokens_of(encoded(processor, example.request)) == theirs
    assert example_of(model, "t", samples[1], ask=asked, max_completion_length=7).frames == (
        (0, 1, 3, 4),
    )


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
@pytest.mark.parametrize(
    "changes",
    [
        {"text": "Describe it: <|vision_end|> the disc  <answer>\n{'a': 1}", "key": "other"},
        {"text": "", "prefix": "<think>It", "max_new_tokens": 3, "stop": ("x",)},
    ],
)
def test_a_second_prompt_is_the_first_ones_media_with_other_words(
    request, samples, checkpoint, changes
):
    folder = str(request.getfixturevalue(checkpoint))
    model = qwen_vl(checkpoint=folder, keyframe="named", frames=4, max_new_tokens=9)
    processor = model.chat.processor
    for sample in samples:
        (first,) = model.requests(sample.query)
        second = replace(first, **changes)
        made = reworded(processor, second, first, encoded(processor, first))
        whole = encoded(processor, second)
        assert set(made) == set(whole)
        for name, tensor in whole.items():
            assert torch.equal(made[name], tensor) and made[name].dtype == tensor.dtype, name


def test_of_second_prompts_only_those_with_other_media_are_encoded(model, samples):
    processor = model.chat.processor
    requests = [model.requests(sample.query)[0] for sample in samples]
    still, clip, _ = requests
    seconds = [
        replace(still, text="And now?"),
        replace(clip, frames=((0, 1),)),
        replace(still, system="You are."),
        replace(clip, text="And then?"),
    ]
    firsts = [(one, encoded(processor, one)) for one in (still, clip, still, clip)]
    made = encoded_beside(processor, seconds, firsts)
    for prompt, second in zip(made, seconds, strict=True):
        for name, tensor in encoded(processor, second).items():
            assert torch.equal(prompt[name], tensor), name
    pixels = [name for prompt in (made[0], made[3]) for name in prompt if "pixel" in name]
    assert pixels and all(
        made[place][name] is firsts[place][1][name]
        for place, name in zip((0, 3), pixels, strict=True)
    )


def test_words_before_the_media_are_encoded_anew(samples):
    model = plugins.build("models", parse("pocket"))
    first = model.requests(samples[0].query)[0]
    second = replace(first, text="Where is the other one?")
    prompt = encoded(model.chat.processor, first)
    assert reworded(model.chat.processor, second, first, prompt) is None


def query(form, *, name, size=(120, 90), frames=1, text="Where is the disc?"):
    draw = np.random.default_rng(len(name))
    pictures = [draw.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)] * frames
    shown = media.pixels(
        pictures, times=[place / 4 for place in range(frames)], is_video=frames > 1, id=name
    )
    return Query(id=query_id(name), text=text, media=(shown,), forms=(form,))


def build(model, samples, tmp_path, *, second=None, second_temperature=None, **settings):
    """The trainer of a method, as it is before its first step."""
    chosen = Settings(
        **{
            "num_generations": GROUP,
            "generation_batch_size": GROUP * len(samples),
            "per_device_train_batch_size": GROUP,
            "max_completion_length": 9,
            "max_steps": 1,
            "report_to": None,
            **settings,
        }
    )

    def reward(group):
        return [{"total": float(len(rollout.text) % 5)} for rollout in group.rollouts]

    method = GrpoTrainer(
        name="m",
        settings=chosen,
        reward=reward,
        second=second,
        second_temperature=second_temperature,
    )
    run = TrainingRun(out=tmp_path, seed=4)
    arguments = method._arguments(run, cpu=True)
    arguments.max_steps = 1
    examples = [
        example_of(model, "t", sample, ask=asked, max_completion_length=9) for sample in samples
    ]
    return method._trainer(run, model, model.chat, examples, arguments)


@pytest.fixture
def trainer(model, samples, tmp_path):
    return build(model, samples, tmp_path)


def rows(samples):
    return [{"row": row} for row in range(len(samples)) for _ in range(GROUP)]


def test_pictures_and_clips_reach_the_loss_as_evaluation_shows_them(trainer, model, samples):
    batch = trainer._generate_and_score_completions(rows(samples))
    written = batch["completion_ids"].shape[1]
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    trainer.seen = batch["seen"]
    with torch.no_grad():
        ours, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, written, batch_size=2, compute_entropy=True
        )
        # One by one, without padding, with the inputs that evaluation makes.
        for row in range(len(ids)):
            alone = processor_inputs(model.chat.processor, [trainer.turn.examples[row].request])
            reply = batch["completion_ids"][row][batch["completion_mask"][row] == 1]
            inputs = dict(alone)
            inputs["input_ids"] = torch.cat([alone["input_ids"][0], reply])[None]
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            kind = inputs["mm_token_type_ids"]
            inputs["mm_token_type_ids"] = torch.nn.functional.pad(kind, (0, len(reply)))
            logits = model.chat.network(**inputs).logits[0, -len(reply) - 1 : -1]
            choices = logits.float().log_softmax(dim=1)
            theirs = choices[range(len(reply)), reply]
            assert torch.allclose(ours[row, : len(reply)], theirs, atol=2e-4)
            spread = -(choices.exp() * choices).sum(dim=1)
            assert torch.allclose(entropies[row, : len(reply)], spread, atol=2e-4)


def test_a_clip_changes_what_is_likely(trainer, samples):
    """Without this, a clip that is left out would go unnoticed."""
    batch = trainer._generate_and_score_completions(rows(samples))
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    clips = [dict(prompt) for prompt in batch["seen"]]
    found = []
    for shade in (1.0, 0.2):
        for prompt, seen in zip(clips, batch["seen"], strict=True):
            if "pixel_values_videos" in seen:
                prompt["pixel_values_videos"] = seen["pixel_values_videos"] * shade
        trainer.seen = clips
        with torch.no_grad():
            found.append(
                trainer._get_per_token_logps_and_entropies(
                    trainer.model, ids, mask, batch["completion_ids"].shape[1]
                )[0]
            )
    moved = (found[0] - found[1]).abs().amax(dim=1)
    assert (moved[GROUP : 2 * GROUP] > 1e-3).all()
    assert (moved[:GROUP] < 1e-5).all()


def test_rollouts_do_not_depend_on_their_batch_and_are_those_of_evaluation(
    trainer, model, samples, tiny_qwen
):
    trainer.turn = trainer._turn([row["row"] for row in rows(samples)])
    together = trainer.written(trainer.turn.prompts, trainer.turn.keys, 9)
    for prompt, key, reply in zip(trainer.turn.prompts, trainer.turn.keys, together, strict=True):
        assert trainer.written([prompt], [key], 9) == [reply]
    assert len(set(map(tuple, together))) == len(together)
    chat = backend(checkpoint=str(tiny_qwen), temperature=1.0, seed=4, roll=False)
    # An evaluation may write a medium's token, for which an untrained network has as much mass.
    chat.network.generation_config.suppress_tokens = trainer.generation_config.suppress_tokens
    asked_again = [
        replace(example.request, key=key)
        for example, key in zip(trainer.turn.examples, trainer.turn.keys, strict=True)
    ]
    same = [
        reply.text == trainer._rollout(ids, request).text
        for reply, ids, request in zip(
            chat.generate(asked_again), together, asked_again, strict=True
        )
    ]
    assert all(same)


def test_the_tokens_of_media_are_never_written(trainer, model):
    words = model.chat.processor.tokenizer
    wanted = words.convert_tokens_to_ids(["<|image_pad|>", "<|video_pad|>"])
    assert sorted(wanted) == trainer.generation_config.suppress_tokens


class Again:
    """A second pass that asks with what was said; limits differ, so that replies end apart."""

    def __init__(self, model):
        self.model = model

    def __call__(self, sample, rollout):
        query = replace(sample.query, text=f"{len(rollout.text)} {sample.id}")
        request = asked(self.model, replace(sample, query=query))
        return replace(request, max_new_tokens=2 + len(rollout.text) % 5)


def in_turn(trainer, samples, limits=(9, 3, 6)):
    """A round whose rollouts end apart; one prompt, many lengths, as policies have it."""
    trainer.turn = turn = trainer._turn([row["row"] for row in rows(samples)])
    examples = [
        replace(one, request=replace(one.request, max_new_tokens=limits[place % len(limits)]))
        for place, one in enumerate(turn.examples)
    ]
    trainer.turn = replace(turn, examples=tuple(examples))


@pytest.mark.parametrize(
    ("checkpoint", "heat", "settings"),
    [
        ("tiny_qwen", None, {}),
        ("tiny_qwen", 0.0, {}),
        ("tiny_qwen", None, {"generation_micro_batch_size": 2}),
        ("tiny_qwen", 0.0, {"generation_micro_batch_size": 4}),
        ("tiny_qwen", None, {"finetune": "lora", "generation_micro_batch_size": 5}),
        ("tiny_qwen3", None, {"generation_micro_batch_size": 4}),
        ("tiny_qwen3", None, {}),
    ],
)
def test_both_passes_in_one_go_say_what_they_say_one_after_the_other(
    request, samples, tmp_path, checkpoint, heat, settings
):
    folder = str(request.getfixturevalue(checkpoint))
    model = qwen_vl(checkpoint=folder, keyframe="named", frames=4, max_new_tokens=9)
    trainer = build(
        model, samples, tmp_path, second=Again(model), second_temperature=heat, **settings
    )
    assert trainer._in_one_go()
    in_turn(trainer, samples)
    turn = trainer.turn
    firsts = trainer._written_in_one_go()
    for prompt, key, example, found in zip(
        turn.prompts, turn.keys, turn.examples, firsts, strict=True
    ):
        assert trainer.written([prompt], [key], example.request.max_new_tokens) == [found]
    rollouts = [
        trainer._rollout(ids, one.request) for ids, one in zip(firsts, turn.examples, strict=True)
    ]
    asked_next = [
        Again(model)(one.sample, rollout)
        for one, rollout in zip(turn.examples, rollouts, strict=True)
    ]
    keys = [f"{key}/second" for key in turn.keys]
    together = trainer._answered(asked_next, keys)
    assert list(trainer.seconds) == keys
    assert [trainer.seconds[key][1] for key in keys] != firsts
    trainer.seconds = {}
    assert trainer._answered(asked_next, keys) == together


def test_second_requests_are_answered_while_first_ones_are_and_a_prompt_is_read_once(
    model, samples, tmp_path
):
    trainer = build(model, samples, tmp_path, second=Again(model))
    in_turn(trainer, samples, limits=(40, 3, 3, 3, 3))
    called = []
    trainer.model.register_forward_pre_hook(
        lambda network, given, named: called.append(tuple(named["input_ids"].shape)),
        with_kwargs=True,
    )
    trainer._written_in_one_go()
    read = [rows for rows, width in called if width > 1]
    assert read[0] == len(samples), "groups share their prompts"
    begun = [place for place, (_, width) in enumerate(called) if width > 1]
    assert begun[1] == 3, "two steps after the prompts, most rollouts have ended"
    assert len(called) - len(begun) < 40 + 6 - 1, "second replies cost few steps of their own"
    assert max(rows for rows, _ in called) == len(samples) * GROUP


def test_of_a_second_request_the_media_are_not_read_again(model, samples, tmp_path):
    trainer = build(model, samples, tmp_path, second=Again(model))
    in_turn(trainer, samples)
    called = []
    trainer.model.register_forward_pre_hook(
        lambda network, given, named: called.append(named), with_kwargs=True
    )
    trainer._written_in_one_go()
    first, *later = [named for named in called if named["input_ids"].shape[1] > 1]
    assert {"pixel_values", "pixel_values_videos"} <= set(first)
    assert later and not any("pixel_values" in name for named in later for name in named)
    shortest = min(len(tokens_of(prompt)) for prompt in trainer.turn.prompts)
    assert max(named["input_ids"].shape[1] for named in later) < shortest


@pytest.mark.parametrize(
    ("other", "length"),
    [
        ({}, 4),  # at least one is left to read
        ({"input_ids": [[7, 1, 1, 5, 9, 9]]}, 4),
        ({"input_ids": [[7, 1, 1, 8, 9, 9]]}, 3),
        ({"input_ids": [[8, 1, 1, 5, 9]]}, 0),  # a medium follows what differs
        ({"pixel_values": [[1.0, 3.0]]}, 0),
        ({"image_grid_thw": None}, 0),
    ],
)
def test_prompts_are_alike_up_to_what_differs_if_their_media_are_there(other, length):
    whole = {
        "input_ids": [[7, 1, 1, 5, 6]],
        "mm_token_type_ids": [[0, 1, 1, 0, 0]],
        "pixel_values": [[1.0, 2.0]],
        "image_grid_thw": [[1, 1, 2]],
    }
    changed = {name: value for name, value in {**whole, **other}.items() if value is not None}
    width = len(changed["input_ids"][0])
    changed["mm_token_type_ids"] = [[0, 1, 1, 0, 0, 0][:width]]
    one, two = (
        {name: torch.tensor(value) for name, value in prompt.items()} for prompt in (whole, changed)
    )
    assert passes.alike_up_to(one, two) == length


def driven(source, lengths, size):
    """The sizes of the parts that a source is begun in, as rows end after so many steps."""
    left, begun = {}, []
    while True:
        while part := source.take(size - len(left)):
            begun.append(part)
            left |= {place: lengths[place] for place in part.places}
            assert len(left) <= size
        if not left:
            return begun
        left = {place: more - 1 for place, more in left.items()}
        ended = [(place, [place]) for place, more in left.items() if more <= 0]
        source.write(iter(ended))
        left = {place: more for place, more in left.items() if more > 0}


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.data())
def test_all_is_begun_once_in_parts_of_a_share(size, groups, group, again, data):
    prompts = [{"input_ids": torch.tensor([[number, 8, 9]])} for number in range(groups)]
    count = groups * group
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=2 * count, max_size=2 * count))
    asks = [ChatRequest(key=str(place), text="first") for place in range(count)]
    source = passes.Passes(
        firsts=asks,
        prompts=[prompt for prompt in prompts for _ in range(group)],
        leads_to=(lambda place, ids: ChatRequest(key=f"{place}+", text=f"{place}"))
        if again
        else None,
        encode=lambda requests, _: [
            {"input_ids": torch.tensor([[7, int(one.text)]])} for one in requests
        ],
        padding=0,
        size=size,
        device=torch.device("cpu"),
    )
    source._known = lambda pairs: None  # nothing is read here
    parts = driven(source, lengths, size)
    places = [place for part in parts for place in part.places]
    assert sorted(places) == list(range(2 * count if again else count))
    share = max(1, size // 4)
    small = [part for part in parts if part.places[0] >= count and len(part.places) < share]
    assert len(small) <= share, "only what ends last is begun by fewer"
    assert all(source.written[place] == [place] for place in places)


def test_a_prompt_is_read_once_though_its_rollouts_are_begun_apart(model, samples, tmp_path):
    trainer = build(model, samples, tmp_path, generation_micro_batch_size=2)
    in_turn(trainer, samples)
    called = []
    trainer.model.register_forward_pre_hook(
        lambda network, given, named: called.append(tuple(named["input_ids"].shape)),
        with_kwargs=True,
    )
    firsts = trainer._written_in_one_go()
    assert len(firsts) == len(samples) * GROUP
    lengths = {len(tokens_of(prompt)) for prompt in trainer.turn.prompts}
    assert sum(rows for rows, width in called if width >= min(lengths)) == len(samples)


def test_rows_at_once_are_as_many_as_are_asked_for(model, samples, tmp_path):
    trainer = build(model, samples, tmp_path, second=Again(model), generation_micro_batch_size=2)
    in_turn(trainer, samples)
    called = []
    trainer.model.register_forward_pre_hook(
        lambda network, given, named: called.append(named["input_ids"].shape[0]), with_kwargs=True
    )
    trainer._written_in_one_go()
    assert max(called) == 2


def test_passes_are_apart_where_a_process_has_a_part_of_the_weights(model, samples, tmp_path):
    trainer = build(model, samples, tmp_path, second=Again(model))
    unwrapped = trainer.accelerator.unwrap_model

    def goes(stage=None, fsdp=False):
        plugin = None if stage is None else SimpleNamespace(zero_stage=stage)
        trainer.accelerator = SimpleNamespace(
            state=SimpleNamespace(deepspeed_plugin=plugin), unwrap_model=unwrapped
        )
        trainer.is_fsdp_enabled = fsdp
        return trainer._in_one_go()

    assert (goes(), goes(stage=2)) == (True, True)
    assert (goes(stage=3), goes(fsdp=True)) == (False, False)


def test_what_torch_draws_in_one_go_follows_its_generator(model, samples, tmp_path):
    trainer = build(model, samples, tmp_path, noise="torch", second=Again(model))
    trainer.turn = trainer._turn([row["row"] for row in rows(samples)])
    found = []
    for seed in (0, None, 0):
        if seed is not None:
            torch.manual_seed(seed)
        found.append((trainer._written_in_one_go(), trainer.seconds))
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("noise", ["keyed", "torch"])
def test_tokens_of_media_are_not_written_even_if_they_are_the_likeliest(noise):
    choice = passes.Choice(temperature=1.0, keyed=noise == "keyed", never=(1, 3))
    scores = torch.tensor([[0.0, 90.0, 1.0, 80.0]]).repeat(8, 1)
    numbers = choice.numbers([str(row) for row in range(8)], [0] * 8, device=scores.device)
    assert set(choice.chosen(scores, scores, numbers).argmax(dim=1).tolist()) == {0, 2}
    greedy = passes.Choice(temperature=0.0, keyed=True, never=(1, 3))
    assert greedy.chosen(scores, scores, None).argmax(dim=1).tolist() == [2] * 8


def test_advantages_are_those_of_the_pure_function(trainer, samples):
    batch = trainer._generate_and_score_completions(rows(samples))
    texts = [
        trainer._rollout(ids, example.request).text
        for ids, example in zip(
            [
                row[mask == 1].tolist()
                for row, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
            ],
            trainer.turn.examples,
            strict=True,
        )
    ]
    totals = torch.tensor([float(len(text) % 5) for text in texts])
    assert torch.allclose(batch["advantages"], advantages(totals, GROUP), atol=1e-6)


LOW, HIGH = 0.01, 0.03
"""A range of ratios that a small change of the weights leaves at both ends."""


@pytest.mark.parametrize("kind", typing.get_args(LossType))
def test_a_second_step_on_a_round_has_the_pure_loss(model, samples, tmp_path, kind):
    typed = {} if kind in UNCLIPPED else {"epsilon_high": HIGH}
    typed |= {"epsilon": LOW} if typed and kind != "cispo" else {}
    trainer = build(
        model,
        samples,
        tmp_path,
        loss_type=kind,
        num_iterations=2,
        per_device_train_batch_size=GROUP * len(samples),
        **typed,
    )
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows(samples))
    draw, mask = torch.Generator().manual_seed(1), batch["completion_mask"]
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight += 0.002 * torch.randn(weight.shape, generator=draw)
    trainer.current_gradient_accumulation_steps = 1
    found = trainer._compute_loss(trainer.model, batch)
    ids, seen = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    with torch.no_grad():
        logp, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, seen, mask.shape[1]
        )
    old = batch["old_per_token_logps"]
    ratio = (logp - old).exp()[mask == 1]
    assert ratio.min() < 1 - LOW and ratio.max() > 1 + HIGH
    expected = grpo_loss(
        logp,
        old,
        None,
        batch["advantages"],
        mask,
        loss_type=kind,
        epsilon=LOW,
        epsilon_high=HIGH,
        max_completion_length=9,
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)


def test_drawn_tokens_are_drawn_by_torch_where_that_is_asked_for(model, samples, tmp_path):
    trainer = build(model, samples, tmp_path, noise="torch")
    trainer.turn = trainer._turn([row["row"] for row in rows(samples)])
    torch.manual_seed(0)
    first = trainer.written(trainer.turn.prompts, trainer.turn.keys, 9)
    assert trainer.written(trainer.turn.prompts, trainer.turn.keys, 9) != first
    torch.manual_seed(0)
    assert trainer.written(trainer.turn.prompts, trainer.turn.keys, 9) == first


def test_the_hooks_that_are_overridden_are_there():
    """If one of these fails, TRL has changed: see what `hooks.Rollouts` says of it."""
    base = trl_compat.trl("GRPOTrainer")

    def takes(name):
        return list(inspect.signature(getattr(base, name)).parameters)

    assert takes("_generate_and_score_completions") == ["self", "inputs"]
    assert takes("_tokenize_prompts") == ["self", "prompts"]
    assert takes("_generate_single_turn") == [
        "self",
        "prompt_ids",
        "images",
        "multimodal_fields",
        "num_generations",
        "has_tool_images",
    ]
    assert takes("_get_per_token_logps_and_entropies")[:7] == [
        "self",
        "model",
        "input_ids",
        "attention_mask",
        "logits_to_keep",
        "batch_size",
        "compute_entropy",
    ]
    assert takes("_calculate_rewards") == [
        "self",
        "inputs",
        "prompts",
        "completions",
        "completion_ids_list",
    ]
    assert takes("_compute_loss") == ["self", "model", "inputs"]
    assert takes("_get_train_sampler") == ["self", "dataset"]
    source = inspect.getsource(base)
    for used in (
        "self._log_metric",
        "self._dist",
        "self.eos_token_ids",
        "self.num_iterations",
        "shuffle_sequence_dict",
        "split_tensor_dict",
        "self._step",
    ):
        assert used in source, used


def test_vllm_is_asked_as_second_passes_rely_on():
    """If this fails, TRL has changed: see `Rollouts._second_by_vllm`."""
    from trl.generation.vllm_generation import VLLMGeneration

    assert list(inspect.signature(VLLMGeneration.generate).parameters) == [
        "self",
        "prompts",
        "images",
        "num_generations",
        "profiler",
    ]
    source = inspect.getsource(VLLMGeneration.generate)
    for used in (
        "temperature = self.temperature",
        "max_completion_length = self.max_completion_length",
        "accelerator.process_index * len(prompts)",
        "gather_object(prompts)",
        "generation_kwargs.update(self.generation_kwargs)",
        '"generation_kwargs": self.generation_kwargs',
    ):
        assert used in source, used
    turn = inspect.getsource(trl_compat.trl("GRPOTrainer")._generate_single_turn)
    for used in (
        "self.vllm_generation.generate(",
        "self.state.global_step != self._last_loaded_step",
    ):
        assert used in turn, used


def test_trl_by_itself_still_knows_no_videos():
    """The reason for prompts of our own. If this fails, TRL was mended."""
    base = trl_compat.trl("GRPOTrainer")
    loss = base._get_per_token_logps_and_entropies
    assert "pixel_values_videos" not in inspect.getsource(loss)


def test_the_hooks_come_before_the_mends_and_trl():
    kind = trl_compat.engine("GRPOTrainer", hooks.Rollouts)
    names = [one.__name__ for one in kind.__mro__[1:4]]
    assert names == ["Rollouts", "Mended", "GRPOTrainer"]


class Shown:
    """As much of a task as preparation looks at."""

    name, split = "t", "train"

    def __init__(self, samples):
        self.samples = lambda: iter(samples)


def test_clips_for_vllm_are_refused_before_any_prompt_is_encoded(model, samples, tmp_path):
    def prepared(vllm, *chosen):
        run = TrainingRun(out=tmp_path, tasks=(Shown(chosen),))
        return Preparation(
            model=model,
            processor=model.chat.processor,
            ask=asked,
            usable=lambda sample: None,
            max_completion_length=9,
            max_prompt_length=None,
            vllm_mode=vllm,
        ).prepared(run)

    still, clip, wide = samples
    with pytest.raises(
        UsageError, match=r"clip of t.*single pictures.*4 frames.*Leave vllm_mode out"
    ):
        prepared("server", still, clip)
    assert len(prepared("server", still, wide)[0]) == 2
    assert len(prepared(None, still, clip)[0]) == 2


@pytest.mark.parametrize("limits", ["max_pixels=3136", "min_pixels=6272,max_pixels=6272"])
def test_limits_that_vllm_would_not_have_are_refused(
    tiny_qwen, samples, tmp_path, monkeypatch, limits
):
    monkeypatch.setattr(methods, "find_spec", lambda name: name)
    spec = parse(f"qwen_vl(backend=transformers(checkpoint={tiny_qwen},{limits}))")
    run = TrainingRun(out=tmp_path, tasks=(Shown(samples[:1]),), model=spec)
    chosen = Settings(vllm_mode="server", report_to=None)
    method = GrpoTrainer(name="m", settings=chosen, reward=lambda group: [])
    for way in (method.check, method.train):
        with pytest.raises(UsageError, match=rf"vllm_mode=server with .*{limits.split(',')[-1]}"):
            way(run)
    replace(method, settings=replace(chosen, vllm_mode=None)).check(run)
    model = plugins.build("models", spec)
    request = asked(model, samples[0])
    (seen,) = encoded(model.chat.processor, replace(request, resize=None))["image_grid_thw"]
    whole = backend(checkpoint=str(tiny_qwen)).processor.image_processor
    pictures = tokens.pictures_of(replace(request, resize=None))
    (without,) = whole(images=pictures, return_tensors="pt")["image_grid_thw"]
    assert seen.prod() != without.prod(), "which is why"


def test_second_replies_of_generate_end_at_their_stop_strings(trainer, samples, monkeypatch):
    ids = trainer._tokenizer("one two; three", add_special_tokens=False)["input_ids"]
    request = ChatRequest(key="a", text="?", max_new_tokens=99, stop=("; ",))
    monkeypatch.setattr(trainer, "written", lambda *given, **named: [ids] * 2)
    two = [request, replace(request, key="b", max_new_tokens=2)]
    first, second = trainer._answered(two, ["a", "b"])
    assert "; " in first.text and "three" not in first.text
    assert second.tokens == 2


def decode(text):
    return lambda ids: "".join(text[place] for place in ids)


@given(st.text("ab<", max_size=5), st.text("ab.", max_size=9), st.text("ab", max_size=5))
def test_the_answers_tokens_are_those_between_its_tags(before, answer, after):
    text = f"{before}<answer>{answer}</answer>{after}"
    start, end = tokens.answer_span(decode(text), range(len(text)))
    assert text[start:end] == answer
    cut = f"{before}<answer>{answer}"
    start, end = tokens.answer_span(decode(cut), range(len(cut)))
    assert cut[start:end] == answer
    assert tokens.answer_span(decode(answer), range(len(answer))) == (0, 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_a_rollout_ends_with_its_first_end_token(ids):
    kept = tokens.upto(ids, [0])
    assert kept == (ids[: ids.index(0) + 1] if 0 in ids else ids)


@given(st.integers(0, 9), st.integers(1, 9), st.integers(1, 12), st.integers(0, 20))
def test_every_sample_comes_once_an_epoch(seed, samples, prompts, rounds):
    stream = [row for number in range(rounds) for row in drawn(seed, samples, prompts, number)]
    for start in range(0, len(stream) - samples + 1, samples):
        assert sorted(stream[start : start + samples]) == list(range(samples))
    sampler = Rounds(seed, samples, prompts, 2, repeats=3, rounds=rounds)
    assert len(list(sampler)) == len(sampler)
    first = [row for row in drawn(seed, samples, prompts, 0) for _ in range(2)] if rounds else []
    assert list(sampler)[: 3 * len(first)] == 3 * first


def test_a_method_offers_every_setting_beside_its_own():
    @with_settings(beta=0.5)
    def method(*, own: int = 3, **settings):
        """A method."""
        return own, Settings(**settings)

    parameters = inspect.signature(method).parameters
    assert next(iter(parameters)) == "own" and {"beta", "num_generations", "finetune"} <= set(
        parameters
    )
    assert parameters["beta"].default == 0.5
    own, settings = method(own=4, num_generations=4)
    assert (own, settings.num_generations, settings.beta) == (4, 4, 0.5)
    with pytest.raises(UsageError, match="Did you mean"):
        plugins.build("trainers", parse("visionreasoner(num_generation=8)"))
    built = plugins.build("trainers", parse("visionreasoner(num_generations=4,semantics=paper)"))
    assert built.describe() | {"num_generations": 4, "semantics": "paper"} == built.describe()
    with pytest.raises(UsageError, match="'grpo' or 'bnpo'"):
        plugins.build("trainers", parse("seg_zero(loss_type=ppo)"))


def test_patches_and_kinds_follow_the_rows():
    prompts = [
        {
            "input_ids": torch.ones(1, 3),
            "mm_token_type_ids": torch.tensor([[0, 1, 0]]),
            "pixel_values": torch.zeros(2, 4),
        },
        {
            "input_ids": torch.ones(1, 2),
            "mm_token_type_ids": torch.tensor([[0, 2]]),
            "pixel_values_videos": torch.ones(3, 4),
        },
    ]
    assert {name: len(one) for name, one in patches(prompts).items()} == {
        "pixel_values": 2,
        "pixel_values_videos": 3,
    }
    assert kinds(prompts, 4, 2)["mm_token_type_ids"].tolist() == [
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 2, 0, 0],
    ]
