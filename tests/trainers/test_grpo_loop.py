"""The loop of GRPO: what is trained on is what evaluation sees, and what counts in a step."""

import inspect
import itertools
import json
import typing
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import media, plugins  # noqa: E402
from harness.chat import ChatRequest  # noqa: E402
from harness.errors import DataError, UsageError  # noqa: E402
from harness.models.backends import row_scores  # noqa: E402
from harness.models.backends.inputs import joined_inputs, processor_inputs  # noqa: E402
from harness.models.backends.sampling import Sampling  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers as backend  # noqa: E402
from harness.models.multi_turn import converse  # noqa: E402
from harness.models.qwen_vl.model import qwen_vl  # noqa: E402
from harness.models.rollout import Part, Turn  # noqa: E402
from harness.models.visionreasoner.grammar import VisionReasoner  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainer import TrainingRun  # noqa: E402
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target, query_id  # noqa: E402

ensure_torchvision()

from harness.models.learning.loss import advantages, grpo_loss  # noqa: E402
from harness.models.learning.rows import answer_span  # noqa: E402
from harness.options import with_options  # noqa: E402
from harness.trainers import learner as training  # noqa: E402
from harness.trainers.grpo import loop, vllm  # noqa: E402
from harness.trainers.grpo.examples import (  # noqa: E402
    Example,
    example_of,
    prepare_examples,
)
from harness.trainers.grpo.method import request_of  # noqa: E402
from harness.trainers.grpo.rollouts import conversation  # noqa: E402
from harness.trainers.grpo.settings import LossType, Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.policy import accelerator_of  # noqa: E402
from harness.trainers.rows import encode_prompt  # noqa: E402
from harness.trainers.session import Session  # noqa: E402
from harness.trainers.state import newest_state, trained_tensors  # noqa: E402

FORM = AnswerForm
GROUP = 3


@pytest.fixture(scope="module")
def model(tiny_qwen):
    return qwen_vl(
        checkpoint=str(tiny_qwen), prompt="locate", keyframe="named", frames=4, max_new_tokens=9
    )


@pytest.fixture(scope="module")
def samples():
    """An image, a clip, and another image."""
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
    ours = joined_inputs(processor, [encode_prompt(processor, one) for one in requests])
    assert set(ours) == set(whole)
    for name, tensor in whole.items():
        assert torch.equal(ours[name], torch.as_tensor(tensor)), name


def test_the_prompt_of_training_is_the_prompt_of_evaluation(model, samples):
    processor = model.chat.processor
    resized = replace(model, prompt=VisionReasoner())
    for one, sample in itertools.product((model, resized), samples):
        (example,) = examples_of(one, [sample], limit=77)
        (request,) = one.requests(sample.query)
        assert example.request == replace(request, max_new_tokens=77)
        assert example.canvas == model.chat.canvas(request)
        theirs = processor_inputs(processor, [request])["input_ids"][0].tolist()
        assert encode_prompt(processor, example.request)["input_ids"][0].tolist() == theirs
    assert examples_of(model, samples)[1].frames == ((0, 1, 3, 4),)


def test_a_method_without_labels_sees_none_and_others_want_one(model, samples):
    settings = Settings(max_completion_length=9)
    method = GrpoTrainer(name="m", settings=settings, reward=lambda group: [])
    blind = replace(method, unlabelled=True)
    assert example_of(method, model, "t", samples[0]).sample.target is not None
    assert example_of(blind, model, "t", samples[0]).sample.target is None
    without = replace(samples[0], target=None)
    assert example_of(blind, model, "t", without).sample == without
    with pytest.raises(DataError, match="target"):
        example_of(method, model, "t", without)


def test_a_network_that_writes_y_before_x_is_not_trained_on_places(tiny_qwen, samples):
    chat = backend(checkpoint=str(tiny_qwen), coordinates="pixels_yx")
    model = qwen_vl(backend=chat, keyframe="named", frames=4)
    with pytest.raises(UsageError, match=r"coordinates=.*x before y"):
        examples_of(model, samples)


def query(form, *, name, size=(120, 90), frames=1, text="Where is the disc?"):
    draw = np.random.default_rng(len(name))
    images = [draw.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)] * frames
    shown = media.pixels(
        images, times=[place / 4 for place in range(frames)], is_video=frames > 1, id=name
    )
    return Query(id=query_id(name), text=text, media=(shown,), forms=(form,))


def examples_of(model, samples, limit=9):
    settings = Settings(max_completion_length=limit)
    method = GrpoTrainer(name="m", settings=settings, reward=lambda group: [])
    return [example_of(method, model, "t", sample) for sample in samples]


def chosen(samples, **given):
    return Settings(
        **{
            "num_generations": GROUP,
            "generation_batch_size": GROUP * len(samples),
            "per_device_train_batch_size": GROUP,
            "max_completion_length": 9,
            "max_steps": 1,
            "report_to": None,
            **given,
        }
    )


def build(model, samples, *, reward=None, seed=4, **given):
    """The policy of a method that learns, as it is before its first step."""
    parts = {
        name: given.pop(name)
        for name in ("second", "second_temperature", "environment")
        if name in given
    }

    def lengths(group):
        return [{"total": float(len(rollout.text) % 5)} for rollout in group.rollouts]

    settings = chosen(samples, **given)
    method = GrpoTrainer(name="m", settings=settings, reward=reward or lengths, **parts)
    accelerator = accelerator_of(settings, model.chat)
    return loop.GrpoLearner(method, model.chat, accelerator, seed=seed)


def written(learner, examples, number=0):
    """The rollouts of a round, before they are rewarded."""
    found = []
    batch = learner._batch

    def noted(drafts, advantage):
        found.extend(drafts)
        return batch(drafts, advantage)

    learner._batch = noted
    try:
        return learner.round(examples, number), found
    finally:
        learner._batch = batch


@pytest.fixture
def learner(model, samples):
    return build(model, samples)


def test_images_and_clips_reach_the_loss_as_evaluation_shows_them(learner, model, samples):
    examples = examples_of(model, samples)
    round_, drafts = written(learner, examples)
    assert [draft.example for draft in drafts] == [one for one in examples for _ in range(GROUP)]
    with torch.no_grad():
        scored = [learner.policy(batch.inputs, batch.mask) for batch in round_.batches]
    logps, entropies = (
        [row for several in kind for row in several] for kind in zip(*scored, strict=True)
    )
    with torch.no_grad():  # one by one, without padding, with the inputs that evaluation makes
        for row, draft in enumerate(drafts):
            alone = processor_inputs(model.chat.processor, [draft.example.request])
            response = torch.tensor(draft.tokens)
            inputs = dict(alone)
            inputs["input_ids"] = torch.cat([alone["input_ids"][0], response])[None]
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
            kind = inputs["mm_token_type_ids"]
            inputs["mm_token_type_ids"] = torch.nn.functional.pad(kind, (0, len(response)))
            logits = model.chat.network(**inputs).logits[0, -len(response) - 1 : -1]
            choices = logits.float().log_softmax(dim=1)
            theirs = choices[range(len(response)), response]
            assert torch.allclose(logps[row][: len(response)], theirs, atol=2e-4)
            spread = -(choices.exp() * choices).sum(dim=1)
            assert torch.allclose(entropies[row][: len(response)], spread, atol=2e-4)


def test_probabilities_are_those_at_the_rollouts_temperature(model, samples):
    batch = build(model, samples).round(examples_of(model, samples), 0).batches[0]
    logps = {}
    for heat in (1.0, 2.0):
        learner = build(model, samples, temperature=heat)
        with torch.no_grad():
            logps[heat] = learner.policy(batch.inputs, batch.mask)[0]
            hidden = learner.network.base_model(**batch.inputs).last_hidden_state
            logits = learner.network.lm_head(hidden[:, -batch.mask.shape[1] - 1 : -1]) / heat
        ids = batch.inputs["input_ids"][:, -batch.mask.shape[1] :, None]
        expected = logits.log_softmax(dim=-1).gather(2, ids)[..., 0] * batch.mask
        assert torch.allclose(logps[heat], expected, atol=1e-5)
    assert not torch.allclose(logps[1.0], logps[2.0], atol=1e-3)


def test_bounded_logits_are_scored_as_the_network_makes_them():
    draw = torch.Generator().manual_seed(0)
    states, targets = torch.randn(5, 4, generator=draw), torch.tensor([0, 3, 6, 1, 2])
    head = torch.nn.Linear(4, 7, bias=False)
    torch.nn.init.normal_(head.weight, std=20, generator=draw)
    with torch.no_grad():
        logits = 30 * torch.tanh(head(states) / 30)  # as Gemma's networks, with 30
        expected = (logits / 1.5).log_softmax(dim=-1)[range(5), targets]
        given = {"head": head, "temperature": 1.5}
        bounded, _ = row_scores.score_tokens(states, targets, **given, softcap=30.0)
        free, _ = row_scores.score_tokens(states, targets, **given)
    assert torch.allclose(bounded, expected, atol=1e-5) and not torch.allclose(free, expected)


def test_a_prompt_that_rows_share_is_read_once_for_the_same_gradients(model, samples):
    """In one batch an image, a clip and a wider image, of which the shorter ones are padded."""
    rows = GROUP * len(samples)
    learner = build(model, samples, per_device_train_batch_size=rows)
    (batch,) = learner.round(examples_of(model, samples), 0).batches
    assert batch.prompts["rows"].tolist() == [0] * GROUP + [1] * GROUP + [2] * GROUP
    read, seen = [], []
    network = learner.network
    network.base_model.register_forward_pre_hook(
        lambda _, args, given: read.append(given["input_ids"].shape[0]), with_kwargs=True
    )
    network.base_model.visual.register_forward_pre_hook(
        lambda _, args, given: seen.append(len(given["grid_thw"])), with_kwargs=True
    )

    def scored(prompts):
        network.zero_grad()
        logp, entropy = learner.policy(batch.inputs, batch.mask, prompts)
        (logp * batch.advantage[:, None] + 0.1 * entropy).sum().backward()
        gradients = [one.grad.clone() for one in network.parameters()]
        return logp.detach(), entropy.detach(), gradients

    logp, entropy, gradients = scored(batch.prompts)
    assert (read, sum(seen)) == ([len(samples), rows], len(samples))
    plain_logp, plain_entropy, plain_gradients = scored(None)
    assert torch.allclose(logp, plain_logp, atol=1e-5)
    assert torch.allclose(entropy, plain_entropy, atol=1e-5)
    for ours, theirs in zip(gradients, plain_gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 + 1e-4 * float(theirs.abs().max()))


def test_prompts_are_read_for_each_row_where_layers_keep_no_cache(model, samples):
    learner = build(model, samples, gradient_checkpointing=True)
    batch = learner.round(examples_of(model, samples), 0).batches[0]
    assert batch.prompts is None
    assert learner.loss(batch, 1.0)[0].isfinite()


def test_a_clip_changes_what_is_likely(learner, model, samples):
    """Without this, a clip that is left out would go unnoticed."""
    (still, clip, wide) = learner.round(examples_of(model, samples), 0).batches
    moved = []
    for batch in (still, clip, wide):
        shaded = dict(batch.inputs)
        if "pixel_values_videos" in shaded:
            shaded["pixel_values_videos"] = shaded["pixel_values_videos"] * 0.2
        with torch.no_grad():
            first, second = (
                learner.policy(inputs, batch.mask)[0] for inputs in (batch.inputs, shaded)
            )
        moved.append((first - second).abs().max())
    assert moved[1] > 1e-3 and max(moved[0], moved[2]) < 1e-5


def test_logits_that_are_made_some_at_a_time_are_the_same(learner, model, samples, monkeypatch):
    batch = learner.round(examples_of(model, samples), 0).batches[0]

    def scored():
        learner.policy.zero_grad()
        logp, entropy = learner.policy(batch.inputs, batch.mask)
        (logp.sum() + entropy.sum()).backward()
        weight = learner.network.get_output_embeddings().weight
        return logp.detach(), weight.grad.clone()

    whole = scored()
    monkeypatch.setattr(row_scores, "LOGITS_AT_ONCE", 1)
    for one, other in zip(whole, scored(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_rollouts_do_not_depend_on_their_batch_and_are_those_of_evaluation(
    model, samples, tiny_qwen
):
    examples = examples_of(model, samples)
    _, together = written(build(model, samples), examples)
    _, apart = written(build(model, samples, generation_micro_batch_size=2), examples)
    assert [one.tokens for one in together] == [one.tokens for one in apart]
    assert len({tuple(one.tokens) for one in together}) == len(together)
    chat = backend(checkpoint=str(tiny_qwen), temperature=1.0, seed=4, continuous_batching=False)
    # An evaluation may write a medium's token, for which an untrained network has as much mass.
    chat = replace(chat, suppress_tokens=build(model, samples).suppressed)
    again = [replace(one.example.request, key=one.key) for one in together]
    for response, draft in zip(chat.generate(again), together, strict=True):
        assert response.tokens == tuple(draft.tokens) and response.text == draft.rollout.text


def test_the_tokens_of_media_are_never_written(learner, model):
    words = model.chat.processor.tokenizer
    wanted = words.convert_tokens_to_ids(["<|image_pad|>", "<|video_pad|>"])
    assert sorted(wanted) == list(learner.suppressed)


@pytest.mark.parametrize("keyed", [True, False])
def test_tokens_that_are_suppressed_are_not_chosen_even_if_they_are_the_likeliest(keyed):
    choice = Sampling(temperature=1.0, keyed=keyed, suppress_tokens=(1, 3))
    scores = torch.tensor([[0.0, 90.0, 1.0, 80.0]]).repeat(8, 1)
    numbers = choice.numbers([str(row) for row in range(8)], [0] * 8, device=scores.device)
    assert set(choice.choose(scores, scores, numbers).argmax(dim=1).tolist()) == {0, 2}
    greedy = Sampling(suppress_tokens=(1, 3))
    assert greedy.choose(scores, scores, None).argmax(dim=1).tolist() == [2] * 8


class Again:
    """A second pass that asks with what was said; limits differ, so that responses end apart."""

    def __init__(self, model):
        self.model = model

    def __call__(self, sample, rollout):
        query = replace(sample.query, text=f"{len(rollout.text)} {sample.id}")
        request = request_of(self.model, replace(sample, query=query))
        return replace(request, max_new_tokens=2 + len(rollout.text) % 5)


@pytest.mark.parametrize(
    ("checkpoint", "heat", "settings"),
    [
        ("tiny_qwen", None, {}),
        ("tiny_qwen", 0.0, {"finetune": "lora", "generation_micro_batch_size": 5}),
        ("tiny_qwen3", None, {"generation_micro_batch_size": 4}),
    ],
)
def test_second_passes_beside_rollouts_say_what_they_say_after_them(
    request, samples, checkpoint, heat, settings
):
    folder = str(request.getfixturevalue(checkpoint))
    model = qwen_vl(
        checkpoint=folder, prompt="locate", keyframe="named", frames=4, max_new_tokens=9
    )
    again = {"second": Again(model), "second_temperature": heat}
    learner = build(model, samples, **again, **settings)
    round_, drafts = written(learner, examples_of(model, samples))
    whole = learner.chat_of(learner.network.eval())
    chat = replace(whole, continuous_batching=False)
    vars(chat).update(network=learner.network, processor=model.chat.processor)
    firsts = [replace(draft.example.request, key=draft.key) for draft in drafts]
    texts = [one.text for one in chat.generate(firsts)]
    assert texts == [draft.rollout.text for draft in drafts]
    after = [
        replace(
            Again(model)(draft.example.sample, draft.rollout),
            key=f"{draft.key}/second",
            temperature=heat,
        )
        for draft in drafts
    ]
    texts = [one.text for one in chat.generate(after)]
    assert texts == [draft.second.text for draft in drafts]
    seconds = [one for group in round_.groups for one in group.seconds]
    assert seconds == [draft.second for draft in drafts]


def test_a_prompt_is_read_once_and_no_more_rows_are_written_than_are_asked_for(model, samples):
    called = []
    for size, rows in ((None, len(samples) * GROUP), (2, 2)):
        called.clear()
        learner = build(model, samples, generation_micro_batch_size=size)
        learner.network.register_forward_pre_hook(
            lambda network, given, named: called.append(tuple(named["input_ids"].shape)),
            with_kwargs=True,
        )
        examples = examples_of(model, samples)
        drafts = [
            loop.Draft(
                example=one,
                prompt=encode_prompt(model.chat.processor, one.request),
                key=f"{one.request.key}#{place}",
            )
            for one in examples
            for place in range(GROUP)
        ]
        with learner.answering() as chat:
            converse(
                chat,
                [
                    conversation(learner.method, learner.chat, learner.network, draft)
                    for draft in drafts
                ],
            )
        lengths = [one.prompt["input_ids"].shape[1] for one in drafts]
        assert sum(count for count, width in called if width >= min(lengths)) == len(samples)
        assert max(count for count, _ in called) == rows


def test_what_torch_draws_follows_from_the_round(model, samples):
    learner, examples = build(model, samples, noise="torch"), examples_of(model, samples)
    found = []
    for number in (0, 1, 0):
        torch.rand(3)
        found.append([draft.tokens for draft in written(learner, examples, number)[1]])
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_any_whole_number_is_a_seed(model, samples, seed):
    learner = build(model, samples, seed=seed)
    assert learner.round(examples_of(model, samples), 0).batches


def test_advantages_are_those_of_the_pure_function(learner, model, samples):
    round_ = learner.round(examples_of(model, samples), 0)
    texts = [one.text for group in round_.groups for one in group.rollouts]
    totals = torch.tensor([float(len(text) % 5) for text in texts])
    expected = advantages(totals, GROUP)
    assert torch.allclose(torch.tensor(round_.advantages), expected, atol=1e-6)
    learned = torch.cat([batch.advantage for batch in round_.batches])
    assert torch.allclose(learned, expected, atol=1e-6)


def test_moving_averages_of_rewards_go_on_from_a_state(model, samples, tmp_path):
    learner, again = (build(model, samples, ema_decay=0.5) for _ in range(2))
    examples = examples_of(model, samples)
    learner.round(examples, 0)
    learner.changed = True  # a state is of the end of a round
    assert set(learner.moments.moments) == {"boxes", "mask_track"}
    learner.save(tmp_path)
    again.load(tmp_path)
    expected, other = learner.round(examples, 1), build(model, samples).round(examples, 1)
    assert again.round(examples, 1).advantages == expected.advantages != other.advantages


def test_a_state_is_read_into_main_memory_whatever_device_wrote_it(
    model, samples, tmp_path, monkeypatch
):
    """Each process would put the first one's moments on the first GPU, beside its own."""
    learner, again = (build(model, samples) for _ in range(2))
    learner.update(learner.round(examples_of(model, samples), 0), 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(torch.serialization, "location_tag", lambda storage: "cuda:7")
        learner.save(tmp_path)
    again.load(tmp_path)
    kept, back = (one.optimizer.state_dict()["state"] for one in (learner, again))
    assert kept and all(kept[name]["exp_avg"].equal(back[name]["exp_avg"]) for name in kept)


def test_a_training_that_is_stopped_inside_a_round_ends_it_first(model, samples, tmp_path):
    learner = build(model, samples, num_iterations=2, max_steps=6, save_steps=1)
    run = TrainingRun(out=tmp_path, stopping=lambda: True)
    session = Session(run, learner.export, report_to=None, settings={})
    with pytest.raises(KeyboardInterrupt):
        training.train(learner, examples_of(model, samples), session)
    assert newest_state(run.state).name == "step-2"
    assert [row["step"] for row in run.curve.read()] == [1, 2]


LOW, HIGH = 0.01, 0.03
"""A range of ratios that a small change of the weights leaves at both ends."""


@pytest.fixture(scope="module")
def repeated(model, samples):
    """Settings of two steps on a round, and such a round; it knows nothing of a kind of loss."""
    size = GROUP * len(samples)
    given = {"num_iterations": 2, "per_device_train_batch_size": size}
    given |= {"epsilon": LOW, "epsilon_high": HIGH}
    return given, build(model, samples, **given).round(examples_of(model, samples), 0)


@pytest.mark.parametrize("kind", typing.get_args(LossType))
def test_a_second_step_on_a_round_has_the_pure_loss(model, samples, repeated, kind):
    given, round_ = repeated
    high = 1 + HIGH if kind == "cispo" else HIGH
    learner = build(model, samples, loss_type=kind, **{**given, "epsilon_high": high})
    (batch,) = round_.batches
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in learner.network.parameters():
            weight += 0.002 * torch.randn(weight.shape, generator=draw)
        logp, _ = learner.policy(batch.inputs, batch.mask)
    ratio = (logp - batch.old).exp()[batch.mask == 1]
    assert ratio.min() < 1 - LOW and ratio.max() > 1 + HIGH
    expected = grpo_loss(
        logp,
        batch.old,
        None,
        batch.advantage,
        batch.mask,
        loss_type=kind,
        epsilon=LOW,
        epsilon_high=high,
        max_completion_length=9,
    )
    found = learner.update(round_, 0.0)["loss"]
    assert found == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)


# -- several turns --------------------------------------------------------------------------------

OUTPUT = " 12 cups"


class Sandbox:
    """Injects its output after the first turn, which three tokens end; notes what it ran."""

    def __init__(self):
        self.seen = []

    def __call__(self, query):
        turns = []

        def step(text):
            turn = len(turns)
            turns.append(text)
            self.seen.append((query.id, text, turn))
            return Turn(inject=OUTPUT if turn == 0 else None, facts={f"code{turn}": turn})

        return step


def turned(model, samples, *, environment, limit=40, **given):
    """A round of several turns; the first ends at a text that the tiny network often writes."""
    learner = build(model, samples, environment=environment, max_completion_length=limit, **given)
    examples = [
        replace(one, request=replace(one.request, stop=tuple("abcdefghijklmnopqrstuvwxyz ")))
        for one in examples_of(model, samples, limit)
    ]
    return learner, *written(learner, examples)


def test_injected_tokens_are_followed_and_are_told_apart(model, samples):
    sandbox = Sandbox()
    learner, _, drafts = turned(model, samples, environment=sandbox)
    words = model.chat.processor.tokenizer
    injected = words(OUTPUT, add_special_tokens=False)["input_ids"]
    both = [draft for draft in drafts if 0 in draft.mask]
    assert both, "some rollouts have two turns"
    for draft in both:
        start = draft.mask.index(0)
        end = start + len(injected)
        assert draft.tokens[start:end] == injected and set(draft.mask[start:end]) == {0}
        assert set(draft.mask[:start]) == set(draft.mask[end:]) == {1}
        assert OUTPUT in draft.rollout.text and draft.rollout.tokens == len(draft.tokens) - len(
            injected
        )
        assert draft.rollout.facts == {"code0": 0, "code1": 1}
        text = draft.rollout.text
        assert (draft.example.sample.query.id, text[: text.index(OUTPUT)], 0) in sandbox.seen
    # The second turn is what the network writes after exactly these tokens.
    draft = both[0]
    start = draft.mask.index(0) + len(injected)
    request = replace(
        draft.example.request,
        key=f"{draft.key}/turn1",
        written=tuple(draft.tokens[:start]),
        max_new_tokens=40 - start,
        stop=(),
    )
    chat = learner.chat_of(learner.network.eval())
    assert chat.generate([request])[0].tokens == tuple(draft.tokens[start:])
    assert len(processor_inputs(model.chat.processor, [request])["input_ids"][0]) == (
        draft.prompt["input_ids"].shape[1] + start
    )


@pytest.fixture(scope="module")
def injected(model, samples):
    """Settings with every term, a round of several turns and what was written in it."""
    given = {"beta": 0.1, "entropy_coef": 0.1, "num_iterations": 2}
    return given, *turned(model, samples, environment=Sandbox(), **given)[1:]


@pytest.mark.parametrize("kind", typing.get_args(LossType))
def test_injected_tokens_count_in_no_loss_gradient_entropy_or_length(
    model, samples, injected, kind
):
    given, round_, drafts = injected
    more = {"epsilon_high": 5.0} if kind == "cispo" else {}
    learner = build(model, samples, max_completion_length=40, loss_type=kind, **more, **given)
    found = []

    def noted(inputs, mask, prompts):
        logp, entropy = policy(inputs, mask, prompts)
        logp.retain_grad()
        entropy.retain_grad()
        found.append((logp, entropy, mask))
        return logp, entropy

    policy, learner.policy = learner.policy, noted
    losses = [learner.loss(batch, round_.tokens / len(round_.batches)) for batch in round_.batches]
    torch.stack([loss for loss, _ in losses]).sum().backward()
    places = iter(drafts)
    for logp, entropy, mask in found:
        assert mask.sum() < logp.numel()
        for tensor in (logp, entropy):
            assert (tensor.grad[mask == 0] == 0).all() and (tensor.detach()[mask == 0] == 0).all()
            assert tensor.grad[mask == 1].any()
        for row in mask:
            own = next(places).mask
            assert row[: len(own)].tolist() == own and not row[len(own) :].any()
    tokens = sum(sum(draft.mask) for draft in drafts)
    counts, sums = 0.0, 0.0
    for _, logged in losses:
        several, counting = logged["entropy"]
        counts, sums = counts + counting.sum(), sums + (several * counting).sum()
    assert counts == tokens == round_.tokens < sum(len(draft.tokens) for draft in drafts)
    assert round_.numbers["completions/mean_length"] == tokens / len(drafts)
    entropies = torch.cat([entropy.detach()[mask == 1] for _, entropy, mask in found])
    assert sums.item() == pytest.approx(entropies.sum().item(), rel=1e-5)
    lengths = [one.tokens for group in round_.groups for one in group.rollouts]
    assert sum(lengths) == tokens


def test_the_answers_entropy_is_that_of_its_own_tokens(learner, model, samples):
    """Between the tags, and not of what was injected there."""
    (example,) = examples_of(model, samples[:1])
    words = model.chat.processor.tokenizer
    several = [
        words(text, add_special_tokens=False)["input_ids"]
        for text in ("a thought <answer>", "12", " cups", "</answer> the end")
    ]
    asked = (example.request, None)
    parts = [Part(text="", tokens=tuple(tokens), call=asked) for tokens in several]
    parts[2] = replace(parts[2], call=None)
    prompt = encode_prompt(model.chat.processor, example.request)
    draft = loop.Draft(example=example, prompt=prompt, key="k", parts=parts)
    batch = learner._batch([draft], torch.ones(1))
    before, answer, injected, after = map(len, several)
    assert batch.answers.tolist() == [[0] * before + [1] * answer + [0] * (injected + after)]
    assert batch.mask.tolist() == [[1] * (before + answer) + [0] * injected + [1] * after]
    numbers = learner.loss(batch, 1.0)[1]["answer_entropy"]
    assert torch.equal(numbers[1], batch.answers)


def test_a_weight_of_the_entropy_holds_it_high(model, samples):
    losses = []
    for weight in (0.0, 0.5):
        learner = build(model, samples, entropy_coef=weight)
        (batch, *_) = learner.round(examples_of(model, samples), 0).batches
        loss, numbers = learner.loss(batch, 1.0)
        losses.append(loss.item())
    entropy, mask = numbers["entropy"]
    mean = (entropy * mask).sum() / mask.sum()
    assert losses[0] - losses[1] == pytest.approx(0.5 * mean.item(), rel=1e-4)


def test_other_targets_in_place_of_injected_tokens_change_no_gradient(model, samples):
    """What the network reads stays as it is; only what it is held to have written is another."""
    learner, round_, _ = turned(model, samples, environment=Sandbox(), entropy_coef=0.1)
    # One where something was injected, which the network went on from.
    batch = next(one for one in round_.batches if (one.mask[:, :-1] < one.mask[:, 1:]).any())
    ids = batch.inputs["input_ids"]
    width = batch.mask.shape[1]
    own = torch.zeros_like(ids, dtype=torch.bool)
    own[:, -width:] = batch.mask.bool()
    others = own.clone()
    others[:, -width:] = ~others[:, -width:]

    def gradient(targets):
        def reads_the_same(_, args, given):
            after = given["past_key_values"].get_seq_length()  # 0: the prompt is read
            read = ids[:, -width:-1] if after else given["input_ids"]
            return args, {**given, "input_ids": read}

        held = learner.network.base_model.register_forward_pre_hook(
            reads_the_same, with_kwargs=True
        )
        learner.network.zero_grad()
        inputs = {**batch.inputs, "input_ids": targets}
        learner.loss(replace(batch, inputs=inputs), 1.0)[0].backward()
        held.remove()
        return [one.grad.clone() for one in learner.network.parameters() if one.grad is not None]

    before = gradient(ids)
    same = gradient(torch.where(others, (ids + 7) % 100, ids))
    assert before and all(torch.equal(*pair) for pair in zip(before, same, strict=True))
    changed = gradient(torch.where(own, (ids + 7) % 100, ids))
    assert not all(torch.equal(*pair) for pair in zip(before, changed, strict=True))


# -- text alone -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_text(tiny_qwen, tmp_path_factory):
    """A checkpoint folder of a random Qwen2, which reads text alone."""
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    words = AutoTokenizer.from_pretrained(tiny_qwen)
    words.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
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
    folder = tmp_path_factory.mktemp("text")
    Qwen2ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    plain = json.loads(path.read_text())
    plain.pop("processor_class", None)  # of the network that sees
    path.write_text(json.dumps(plain))
    return folder


@pytest.mark.parametrize("finetune", ["full", "lora"])
def test_a_network_of_text_alone_is_trained_in_several_turns(tiny_text, finetune):
    chat = backend(checkpoint=str(tiny_text), coordinates="pixels")
    requests = [
        ChatRequest(key=name, text=text, system="Count.", max_new_tokens=24, stop=tuple("abcde "))
        for name, text in (("a", "How many cups?"), ("b", "And in all of the rooms?"))
    ]
    samples = [
        Sample(
            id=one.key,
            query=Query(id=one.key, text=one.text, media=(), forms=(FORM.TEXT,)),
            target=Target(answer=Answer(text="4")),
        )
        for one in requests
    ]
    examples = [
        Example("t", sample, request, (1000, 1000))
        for sample, request in zip(samples, requests, strict=True)
    ]
    learner = build(
        SimpleNamespace(chat=chat),
        samples,
        environment=Sandbox(),
        finetune=finetune,
        beta=0.1,
        learning_rate=0.01,
        max_completion_length=24,
    )
    before = {name: one.clone() for name, one in trained_tensors(learner.network).items()}
    round_, drafts = written(learner, examples)
    assert any(0 in draft.mask for draft in drafts)
    numbers = learner.update(round_, 0.01)
    assert numbers["kl"] == 0 and numbers["grad_norm"] > 0
    moved = trained_tensors(learner.network)
    assert any(not torch.equal(one, before[name]) for name, one in moved.items())
    again, _ = written(learner, examples)
    assert learner.update(again, 0.0)["kl"] > 0


# -- one sample at test time ----------------------------------------------------------------------


class Shown:
    """As much of a task as preparation looks at."""

    name, split = "t", "train"

    def __init__(self, samples):
        self.samples = lambda: iter(samples)


def test_clips_for_vllm_are_refused_before_any_prompt_is_encoded(model, samples, tmp_path):
    def kept(vllm_mode, *some):
        run = TrainingRun(out=tmp_path, tasks=(Shown(some),))
        settings = Settings(max_completion_length=9, vllm_mode=vllm_mode)
        method = GrpoTrainer(name="m", settings=settings, reward=lambda group: [])
        return prepare_examples(method, model, model.chat.processor, run)

    still, clip, wide = samples
    with pytest.raises(UsageError, match=r"\bt: .*4 frames.*vllm_mode"):
        kept("server", still, clip)
    assert len(kept("server", still, wide)[0]) == 2
    assert len(kept(None, still, clip)[0]) == 2


@pytest.mark.parametrize("limits", ["max_pixels=3136", "min_pixels=6272,max_pixels=6272"])
def test_limits_that_vllm_would_not_have_are_refused(
    tiny_qwen, samples, tmp_path, monkeypatch, limits
):
    monkeypatch.setattr(vllm, "import_module", lambda name: name)
    spec = parse(f"qwen_vl(backend=transformers(checkpoint={tiny_qwen},{limits}))")
    run = TrainingRun(out=tmp_path, tasks=(Shown(samples[:1]),), model=spec)
    chosen = Settings(vllm_mode="server", report_to=None)
    method = GrpoTrainer(name="m", settings=chosen, reward=lambda group: [])
    for way in (method.check, method.train):
        with pytest.raises(UsageError, match=rf"vllm_mode=server\b.*{limits.split(',')[-1]}"):
            way(run)
    replace(method, settings=replace(chosen, vllm_mode=None)).check(run)
    model = plugins.build("models", spec)
    request = request_of(model, samples[0])
    (seen,) = encode_prompt(model.chat.processor, replace(request, resize=None))["image_grid_thw"]
    whole = backend(checkpoint=str(tiny_qwen)).processor.image_processor
    images = vllm.images_of(replace(request, resize=None))
    (without,) = whole(images=images, return_tensors="pt")["image_grid_thw"]
    assert seen.prod() != without.prod(), "which is why"


def decode(text):
    return lambda ids: "".join(text[place] for place in ids)


@given(st.text("ab<", max_size=5), st.text("ab.", max_size=9), st.text("ab", max_size=5))
def test_the_answers_tokens_are_those_between_its_tags(before, answer, after):
    text = f"{before}<answer>{answer}</answer>{after}"
    start, end = answer_span(decode(text), range(len(text)))
    assert text[start:end] == answer
    cut = f"{before}<answer>{answer}"
    start, end = answer_span(decode(cut), range(len(cut)))
    assert cut[start:end] == answer
    assert answer_span(decode(answer), range(len(answer))) == (0, 0)


@given(st.integers(0, 9), st.integers(1, 9), st.integers(1, 12), st.integers(0, 20))
def test_every_sample_comes_once_an_epoch(seed, samples, prompts, rounds):
    stream = list(islice(training.sample_order(seed, samples), prompts * rounds))
    for start in range(0, len(stream) - samples + 1, samples):
        assert sorted(stream[start : start + samples]) == list(range(samples))


def test_every_epoch_has_an_order_of_its_own():
    stream = list(islice(training.sample_order(3, 50), 150))
    first, second, third = stream[:50], stream[50:100], stream[100:]
    assert first != second != third != first
    assert stream != list(islice(training.sample_order(4, 50), 150))


@pytest.mark.parametrize("kind", ["constant_with_warmup", "linear", "cosine"])
def test_learning_rates_are_those_of_transformers(kind):
    from transformers import get_scheduler

    settings = Settings(lr_scheduler_type=kind, warmup_steps=3, max_steps=11)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_scheduler(kind, optimizer, num_warmup_steps=3, num_training_steps=11)
    ours = training.learning_rates(settings, 11)
    for step in range(11):
        assert ours(step) == theirs.get_last_lr()[0] * settings.peak_learning_rate
        optimizer.step()
        theirs.step()


def test_a_method_offers_every_setting_beside_its_own():
    @with_options(Settings, beta=0.5)
    def method(settings: Settings, *, own: int = 3):
        """A method."""
        return own, settings

    parameters = inspect.signature(method).parameters
    assert next(iter(parameters)) == "own" and {"beta", "num_generations", "finetune"} <= set(
        parameters
    )
    assert parameters["beta"].default == 0.5
    own, settings = method(own=4, num_generations=4)
    assert (own, settings.num_generations, settings.beta) == (4, 4, 0.5)
    with pytest.raises(UsageError, match=r"num_generation=….*\bnum_generations\?"):
        plugins.build("trainers", parse("visionreasoner(num_generation=8)"))
    built = plugins.build("trainers", parse("visionreasoner(num_generations=4,semantics=paper)"))
    assert built.describe() | {"num_generations": 4, "semantics": "paper"} == built.describe()
    with pytest.raises(UsageError, match="'grpo' or 'bnpo'"):
        plugins.build("trainers", parse("seg_zero(loss_type=ppo)"))
