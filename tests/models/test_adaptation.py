"""A network that adapts to a sample answers by it alone, and is what it was afterwards."""

import inspect
import json
import math
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
pytest.importorskip("peft")

from harness import plugins  # noqa: E402
from harness.adaptation import LearningSettings  # noqa: E402
from harness.catalog.settings import settings as settings_of  # noqa: E402
from harness.chat import ChatRequest  # noqa: E402
from harness.errors import ModelError, NotRestored, OutOfMemory, UsageError  # noqa: E402
from harness.interchange.journal_form import prediction_from_json, prediction_to_json  # noqa: E402
from harness.leaderboards.row import row  # noqa: E402
from harness.masks import Rle  # noqa: E402
from harness.models.backends import adaptation_context  # noqa: E402
from harness.models.backends.adaptation_context import Context  # noqa: E402
from harness.models.backends.restored_weights import (  # noqa: E402
    RestoredWeights,
    fingerprint,
)
from harness.models.backends.transformers import transformers  # noqa: E402
from harness.models.learning import weights  # noqa: E402
from harness.models.pocket import FOLDER  # noqa: E402
from harness.models.test_time.consensus import Group  # noqa: E402
from harness.models.test_time.memo import Memo, likelihoods  # noqa: E402
from harness.models.test_time.methods import GroupLoss, Trial  # noqa: E402
from harness.models.test_time.views import Jitter, views  # noqa: E402
from harness.run.evaluate import evaluate  # noqa: E402
from harness.run.options import Options  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.tasks.reason_seg import writer as reason_seg  # noqa: E402
from harness.types import Answer, FailureKind, Target  # noqa: E402
from harness.world.shapes import make  # noqa: E402

RATE = 2e-3
"""Learning rate at which two updates of pocket change what it says."""
ADAPTERS = (
    "vr_ttrl",
    "anti_consensus",
    "random_label",
    "format_only",
    "ttrv",
    "sft_majority",
    "sft_greedy",
    "tent",
    "memo",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("shapes") / "data"
    make(root, seed=5, size=3, writers={"reason_seg": reason_seg.write})
    return root


@pytest.fixture(scope="module")
def task(data):
    """Two samples; the network learns from the first one."""
    whole = plugins.build("tasks", parse("reason_seg"), data)
    samples = list(whole.samples())[:2]
    return replace(whole, samples=lambda: iter(samples))


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
    """A finished run of the adapted model."""
    return evaluate(task, adapted(), tmp_path_factory.mktemp("run") / "whole", Options())


@pytest.fixture(scope="module")
def queries(task):
    return [sample.query for sample in task.samples()]


POCKET = "base=pocket(segmenter=box,propagator=still,max_new_tokens=24)"
"""Most responses are whole with 22 tokens."""


def adapted(name="vr_ttrl", *, base=POCKET, **given):
    given = {"steps": 2, "learning_rate": RATE, **given}
    if name not in ("sft_greedy", "tent", "memo"):
        given = {"temperature": 1.5, "rollouts": 4, **given}
    settings = ",".join(f"{key}={value}" for key, value in given.items())
    return plugins.build("models", parse(f"{name}({base},{settings})".replace("True", "true")))


@pytest.fixture(scope="module")
def unadapted(queries):
    """The prediction for the first sample of the network as it is."""
    (made,) = plugins.build("models", parse(POCKET.removeprefix("base="))).predict(queries[:1])
    return made


def plain(predictions):
    return [prediction_to_json(one) for one in predictions]


# -- laws of predictions ------------------------------------------------------------------------


def test_a_prediction_depends_on_its_own_sample_alone(task, run, queries):
    model = adapted()
    back = [model.predict([query])[0] for query in reversed(queries)]
    forth = [run.prediction(sample.id) for sample in task.samples()]
    assert forth == back[::-1]
    assert any(step.loss for one in forth for step in one.adaptation.steps), "it has learned"


def test_an_adapter_is_of_one_sample_alone(queries):
    model = adapted(finetune="lora", steps=1)
    first, _, again = (model.predict([query])[0] for query in (*queries, queries[0]))
    assert first == again
    assert first.adaptation.steps[0].loss, "it has learned"


def test_no_target_reaches_a_prediction(task, run, tmp_path):
    first = next(task.samples())
    swapped = replace(first, target=_opposite(first.target))
    changed = replace(task, samples=lambda: iter([swapped]))
    second = evaluate(changed, adapted(), tmp_path / "swapped", Options())
    assert run.prediction(first.id) == second.prediction(first.id)
    own, other = ((one.folder / "scores.jsonl").open().readline() for one in (run, second))
    own, other = json.loads(own), json.loads(other)
    assert own["unit"] == other["unit"] and own != other
    timing = json.loads((run.folder / "timing.json").read_text())
    parts = timing["attempts"][0]["stages"]["language"]["seconds_by_part"]
    named = {"rollouts", "updates", "reference", "reset", "step 1", "step 2"}
    assert named <= set(parts) and min(parts.values()) > 0
    made = row(run)
    assert made.transductive and made.adaptation == "vr_ttrl: 2 updates, 2 × 4 rollouts"


def _opposite(target):
    """Everything but what is meant."""
    masks = tuple(Rle.from_array(~mask.to_array()) for mask in target.answer.masks)
    return Target(answer=Answer(masks=masks))


@pytest.mark.parametrize(
    ("name", "finetune"),
    [("vr_ttrl", "full"), ("vr_ttrl", "lora"), ("sft_greedy", "full"), ("tent", "lora")],
)
def test_without_a_learning_rate_nothing_changes(queries, unadapted, name, finetune):
    (own,) = adapted(name, learning_rate=0, finetune=finetune, steps=1).predict(queries[:1])
    assert own.answer == unadapted.answer and own.responses == unadapted.responses
    assert own.adaptation.steps[0].grad_norm is not None


@pytest.mark.parametrize("name", [*ADAPTERS, "vote"])
def test_every_method_answers_and_its_numbers_are_kept(queries, name):
    model = (
        adapted(name, steps=1)
        if name != "vote"
        else plugins.build("models", parse(f"vote({POCKET})"))
    )
    before = fingerprint(model.base.chat.network, complete=True)
    (made,) = model.predict(queries[:1])
    assert made.failure is None or made.failure.kind is FailureKind.PARSE
    assert prediction_from_json(json.loads(json.dumps(prediction_to_json(made)))) == made
    (step,) = made.adaptation.steps
    if name in ("vr_ttrl", "anti_consensus", "random_label", "vote"):
        assert step.label is not None and len(step.rewards) == (8 if name == "vote" else 4)
    if name == "vote":
        assert made.responses == (made.calls[step.label].response,)
    else:
        assert step.grad_norm is not None
        assert fingerprint(model.base.chat.network, complete=True) == before
    described = model.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["adaptation"]["transductive"] is (name != "vote")


def test_updates_make_likelier_what_is_rewarded_more(queries):
    """Of one group: the advantage of each rollout times the change of its log-probability."""
    gains = torch.tensor([1.0, -1.0, 0.5, -0.5])
    made = context(learning_rate=1e-4)
    with made.adapting(request(queries)) as here:
        drawn = here.rollouts(4, temperature=1.5, name="a")
        tokens = float(sum(len(one.tokens) for one in drawn))
        loss = GroupLoss(gains, tokens, None, None, beta=0.01, epsilon=0.2)
        before = here.step(loss, drawn, temperature=1.5).logp
        after = here.step(loss, drawn, temperature=1.5).logp
    assert float((gains[:, None] * (after - before)).sum()) > 0


def test_draws_are_of_the_sample_and_rollouts_cost_tokens(queries, unadapted):
    model = adapted(steps=1)
    requests = [model.base.requests(query)[0] for query in queries[:2]]
    with model.network.adapting(requests[0]) as context:
        one, other = (
            model._trial(query, request, context)
            for query, request in zip(queries[:2], requests, strict=True)
        )
        assert one.uniform("x") != other.uniform("x")
    (learned,), alone = model.predict(queries[:1]), unadapted.usage
    assert learned.usage.prompt_tokens > 4 * alone.prompt_tokens, "four rollouts, an answer"
    assert learned.usage.completion_tokens > alone.completion_tokens


def test_a_sample_begins_with_a_new_optimizer(queries):
    model = adapted(steps=1)
    model.prepare()
    (request,) = model.base.requests(queries[0])
    with model.network.adapting(request) as context:
        before = context._optimizer
        for weight in (one for group in before.param_groups for one in group["params"]):
            weight.grad = torch.ones_like(weight)
        before.step()
        assert before.state
        context.reset()
        assert context._optimizer is not before and not context._optimizer.state


def test_a_trace_changes_no_prediction(task, run, queries):
    own = run.prediction(next(task.samples()).id)
    (traced,) = adapted(trace="true").predict(queries[:1])
    assert own.answer == traced.answer and own.adaptation == traced.adaptation
    assert [call.key for call in traced.calls if call.key.startswith("@after")] == [
        "@after1#0",
        "@after2#0",
    ]


def test_single_gen_draws_once_and_learns_often(queries):
    (made,) = adapted(single_gen="true", steps=3).predict(queries[:1])
    assert len([call for call in made.calls if call.key.startswith("@")]) == 4
    steps = made.adaptation.steps
    assert len(steps) == 3 and len({step.rewards for step in steps}) == 1
    assert len({step.loss for step in steps}) == 3, "the weights have moved on"


def test_a_killed_run_goes_on_to_the_same_predictions(task, run, tmp_path, monkeypatch):
    asked = []

    def interrupted(self, *given, **named):
        asked.append(1)
        if len(asked) == 4:  # the second update of the second sample
            raise KeyboardInterrupt
        return step(self, *given, **named)

    step = Context.step
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Context, "step", interrupted)
        evaluate(task, adapted(), tmp_path / "killed", Options())
    again = evaluate(task, adapted(), tmp_path / "killed", Options())
    samples = [sample.id for sample in task.samples()]
    assert [again.prediction(one) for one in samples] == [run.prediction(one) for one in samples]
    assert again.results["metrics"] == run.results["metrics"]


def test_where_no_rollout_can_be_read_the_format_still_teaches(queries, monkeypatch):
    """No label, rewards of format alone, an update; the response afterwards decides."""
    monkeypatch.setattr(Group, "candidates", [None] * 4)
    (made,) = adapted(steps=2).predict(queries[:1])
    assert made.failure is None, "the response after adaptation can be read"
    for step in made.adaptation.steps:
        assert step.label is None and step.agreement is None and step.parsed == 0
        assert max(step.rewards) <= 4.0 and step.grad_norm is not None


def test_a_response_that_cannot_be_read_after_adaptation_is_a_parse_failure(queries):
    short = POCKET.replace("max_new_tokens=24", "max_new_tokens=5,retry=false")
    (made,) = adapted(base=short).predict(queries[:1])
    assert made.failure.kind is FailureKind.PARSE
    assert [step.parsed for step in made.adaptation.steps] == [0, 0]
    assert all(step.label is None for step in made.adaptation.steps)


def test_memory_that_runs_out_in_a_sample_leaves_nothing_to_the_next(
    task, run, tmp_path, monkeypatch
):
    """Where a single row does not fit the sample fails; the engine may ask for it again."""
    samples = [sample.id for sample in task.samples()]
    update, calls = Context._update, []

    def starved(self, *given):
        made = update(self, *given)
        calls.append(self._request.key)
        if self._request.key == calls[0] and calls.count(calls[0]) > 1:
            raise OutOfMemory("updates", expected="memory", found="none")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Context, "_update", starved)
        second = evaluate(task, adapted(), tmp_path / "starved", Options(infrastructure_limit=1.0))
    assert second.prediction(samples[0]).failure is not None
    for one in samples[1:]:
        assert second.prediction(one) == run.prediction(one)


# -- weights ------------------------------------------------------------------------------------


def context(folder=FOLDER, **given):
    """The network of a checkpoint, ready to learn."""
    settings = LearningSettings(**{"learning_rate": RATE, **given})
    chat = transformers(checkpoint=str(folder), device="cpu", continuous_batching=True)
    return chat.adaptable(settings)


def request(queries):
    query = queries[0]
    return ChatRequest(key=query.id, text=query.text, media=query.media, max_new_tokens=12)


def nll(rows):
    return -(rows.logp * rows.mask).sum()


def test_weights_are_put_back_and_that_is_proved(queries):
    made = context()
    made.prepare()
    before = fingerprint(made.network, complete=True)
    with made.adapting(request(queries)) as here:
        here.step(nll, here.rollouts(2, temperature=1.0, name="a"))
        assert fingerprint(made.network, complete=True) != before
        here.reset()
        assert fingerprint(made.network, complete=True) == before
        here.step(nll, here.rollouts(2, temperature=1.0, name="a"))
    assert fingerprint(made.network, complete=True) == before
    with pytest.raises(KeyError), made.adapting(request(queries)) as here:
        here.step(nll, here.rollouts(2, temperature=1.0, name="a"))
        raise KeyError("an error in between")
    assert fingerprint(made.network, complete=True) == before


def test_what_was_cut_short_while_weights_were_put_back_is_done_at_the_next_start(
    queries, monkeypatch
):
    made = context()
    made.prepare()
    before = fingerprint(made.network, complete=True)
    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        made.adapting(request(queries)) as here,
    ):
        here.step(nll, here.rollouts(2, temperature=1.0, name="a"))
        patch.setattr(RestoredWeights, "reset", interrupt)
    assert fingerprint(made.network, complete=True) != before
    with made.adapting(request(queries)):
        assert fingerprint(made.network, complete=True) == before


def interrupt(self):
    raise KeyboardInterrupt


def test_a_weight_that_is_not_put_back_ends_the_run(task, tmp_path, monkeypatch):
    model = adapted()
    model.prepare()
    (vision,) = [
        one for name, one in model.base.chat.network.named_parameters() if "patch_embed" in name
    ]
    step = Context.step

    def meddling(self, *given, **named):
        with torch.no_grad():
            vision.add_(1e-3)
        return step(self, *given, **named)

    monkeypatch.setattr(Context, "step", meddling)
    with pytest.raises(NotRestored, match="fingerprint"):
        evaluate(task, model, tmp_path / "run", Options())


def test_probabilities_are_those_of_logits_that_the_network_bounds(queries, monkeypatch):
    """As PaliGemma 2's are; bounded to nearly nothing, all tokens are equally likely."""
    made = context()
    with made.adapting(request(queries)) as here:
        said = here.rollouts(2, temperature=1.0, name="a")
        text = made.network.config.get_text_config()
        monkeypatch.setattr(text, "final_logit_softcapping", 1e-6, raising=False)
        found = here.log_probs(said, temperature=1.0)
    alike = -math.log(made.network.get_output_embeddings().out_features)
    for logps, one in zip(found.tolist(), said, strict=True):
        assert logps[: len(one.tokens)] == pytest.approx([alike] * len(one.tokens), abs=1e-4)


def test_an_update_that_is_no_number_is_not_made_and_counted(queries, monkeypatch):
    made = context()
    with made.adapting(request(queries)) as here:
        said = here.rollouts(2, temperature=1.0, name="a")
        before = fingerprint(made.network, complete=True)
        update = here.step(lambda rows: nll(rows) * float("nan"), said)
        assert update.rolled_back
        assert fingerprint(made.network, complete=True) == before
        assert not here.step(nll, said).rolled_back
        assert fingerprint(made.network, complete=True) != before
    scored = adaptation_context.score_rows

    def poisoned(*given, **named):
        rows = scored(*given, **named)
        return replace(rows, logp=rows.logp * float("inf"))

    monkeypatch.setattr(adaptation_context, "score_rows", poisoned)
    (one,) = adapted("sft_greedy").predict(queries[:1])
    assert one.adaptation.rolled_back == 2
    assert all(step.loss is None for step in one.adaptation.steps)


@contextmanager
def little_memory(monkeypatch, most):
    """Only so many rows fit at once."""
    after = adaptation_context.states_after

    def limited(network, prefix, tokens, mask):
        if len(tokens) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return after(network, prefix, tokens, mask)

    with monkeypatch.context() as patch:
        patch.setattr(adaptation_context, "states_after", limited)
        yield


def test_half_as_many_rows_give_the_same_update(queries, monkeypatch):
    def updated():
        made = context()
        made.network.double()
        with made.adapting(request(queries)) as here:
            said = here.rollouts(3, temperature=1.5, name="a")
            update = here.step(nll, said, temperature=1.5)
            moved = [one.detach().clone() for one in made.network.parameters()]
            return update, here.log_probs(said, temperature=1.5), moved

    whole = updated()
    with little_memory(monkeypatch, 2):
        parts = updated()
    assert parts[0].loss == pytest.approx(whole[0].loss, abs=1e-6)
    torch.testing.assert_close(parts[0].logp, whole[0].logp, rtol=0, atol=1e-6)
    torch.testing.assert_close(parts[1], whole[1], rtol=0, atol=1e-6)
    for own, other in zip(parts[2], whole[2], strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-6)
    with little_memory(monkeypatch, 0), pytest.raises(OutOfMemory):
        updated()


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen3"])
def test_shared_prompts_and_kept_features_change_nothing(checkpoint, queries, request):
    """Tokens, log-probabilities and updates, of two steps: the second has changed weights."""
    found = []
    for share in (True, False):
        made = context(request.getfixturevalue(checkpoint), share_prefix=share, learning_rate=1e-4)
        made.network.double()
        query = queries[0]
        asked = ChatRequest(
            key="q", text=query.text, media=query.media, max_new_tokens=12, resize=(112, 112)
        )
        with made.adapting(asked) as here:
            assert here.prompts.shares is share
            for step in range(2):
                said = here.rollouts(3, temperature=0.8, name=f"step{step}")
                first = here.log_probs(said, temperature=0.8)
                update = here.step(nll, said, temperature=0.8)
                found.append((said, first, update))
            found.append([one.detach().clone() for one in made.network.parameters()])
    shared, alone = found[:3], found[3:]
    for (said, first, update), (other, second, whole) in zip(shared[:2], alone[:2], strict=True):
        assert [one.tokens for one in said] == [one.tokens for one in other]
        torch.testing.assert_close(first, second, rtol=0, atol=1e-6)
        torch.testing.assert_close(update.logp, whole.logp, rtol=0, atol=1e-6)
        assert update.grad_norm == pytest.approx(whole.grad_norm, rel=1e-6)
    for own, other in zip(shared[2], alone[2], strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-6)


def test_prompts_of_linear_attention_are_not_shared(tiny_qwen35, queries):
    """It has a state, and no keys and values that could be shared."""
    made = context(tiny_qwen35, learning_rate=1e-4)
    made.network.double()
    query = queries[0]
    asked = ChatRequest(
        key="q", text=query.text, media=query.media, max_new_tokens=8, resize=(112, 112)
    )
    with made.adapting(asked) as here:
        assert not here.prompts.shares
        said = here.rollouts(2, temperature=0.8, name="a")
        first = here.log_probs(said, temperature=0.8)
        update = here.step(nll, said, temperature=0.8)
        torch.testing.assert_close(update.logp, first, rtol=0, atol=1e-6)
        assert not torch.equal(here.step(nll, said, temperature=0.8).logp, first)


def test_no_rollout_has_a_token_that_stands_for_an_image(tiny_qwen, queries):
    """Such a response, read again, would want the patches of a second image."""
    made = context(tiny_qwen, learning_rate=1e-4)
    image = made.chat.processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    head = made.network.lm_head
    head.forward = lambda hidden: torch.nn.functional.linear(hidden, head.weight).index_fill(
        -1, torch.tensor(image), 1e4
    )
    with made.adapting(request(queries)) as here:
        said = here.rollouts(2, temperature=1.0, name="a")
        assert all(image not in one.tokens for one in said)
        here.step(nll, said)


def test_an_adapter_leaves_the_weights_alone_and_begins_as_nothing(queries):
    made = context(finetune="lora")
    with made.adapting(request(queries)) as here:
        said = here.rollouts(2, temperature=1.0, name="a")
        first = here.step(nll, said).logp
        torch.testing.assert_close(first, here.log_probs(said, temperature=1.0))
        assert not torch.equal(first, here.step(nll, said).logp)
    learning = [name for name, one in made.network.named_parameters() if one.requires_grad]
    assert learning and all(".lora_" in name and "visual" not in name for name in learning)


def test_the_language_side_and_the_merging_layers_learn_and_the_vision_tower_does_not():
    made = context()
    made.prepare()
    learning = {name for name, one in made.network.named_parameters() if one.requires_grad}
    vision = {name for name, _ in made.network.named_parameters() if weights.is_of_tower(name)}
    assert learning & vision == {n for n in vision if weights.MERGER in n}
    assert learning - vision


def test_a_rate_of_the_paper_is_rounded_away_in_bfloat16():
    """Of float32 copies that are computed with in bfloat16 too: so weights here are float32."""
    torch.manual_seed(0)
    saved = (torch.randn(10_000) * 0.02).bfloat16()

    def steps(weight):
        optimizer = torch.optim.AdamW([weight], lr=5e-7, weight_decay=0.01)
        for _ in range(10):
            weight.grad = torch.randn(10_000).to(weight.dtype)
            optimizer.step()
        return weight.detach()

    in_half = steps(saved.clone().requires_grad_())
    in_full = steps(saved.float().requires_grad_())
    moved = (saved.float() - in_full).abs()
    assert (moved > 0).float().mean() > 0.99
    assert (in_half == saved).float().mean() > 0.95
    assert (in_full.bfloat16() == saved).float().mean() > 0.95


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_a_group_that_agrees_moves_weights_by_their_decay_alone(queries, weight_decay):
    """The advantages are 0. What decays is told by the divergence from the first weights later."""
    made = context(weight_decay=weight_decay)
    with made.adapting(request(queries)) as here:
        before = fingerprint(made.network, complete=True)
        drawn = here.rollouts(4, temperature=1e-3, name="a")
        loss = GroupLoss(torch.zeros(4), 1.0, None, None, beta=0.01, epsilon=0.2)
        assert here.step(loss, drawn).grad_norm == 0.0
        assert (fingerprint(made.network, complete=True) == before) is (weight_decay == 0)
        later = replace(loss, reference=here.log_probs(drawn, temperature=1.0))
        assert (here.step(later, drawn).grad_norm > 0) is (weight_decay > 0)


# -- what cannot be adapted ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "backend",
    [
        "stored",
        "openai(model=m,base_url=http://127.0.0.1:1,coordinates=pixels)",
        "ablation(checkpoint=pocket)",
        "vllm(checkpoint=pocket)",
        "lmms(name=qwen2_5_vl,coordinates=pixels)",
    ],
)
def test_other_backends_refuse_and_say_why(backend):
    chat = plugins.build("backends", parse(backend))
    with pytest.raises(UsageError, match="backend=transformers") as refused:
        chat.adaptable(LearningSettings())
    assert chat.why_not_adaptable in str(refused.value)


def test_a_quantised_checkpoint_is_refused_before_it_is_loaded(tmp_path):
    folder = tmp_path / "quantised"
    shutil.copytree(FOLDER, folder)
    plain = json.loads((folder / "config.json").read_text())
    plain["quantization_config"] = {"quant_method": "awq", "bits": 4}
    (folder / "config.json").write_text(json.dumps(plain))
    with pytest.raises(UsageError, match="awq"):
        context(folder)


@pytest.mark.parametrize("finetune", ["full", "lora"])
def test_a_network_without_layers_of_a_language_model_is_refused(finetune, monkeypatch):
    made = context(finetune=finetune)
    monkeypatch.setitem(weights.LAYERS, "language", r"nothing\.has\.this\.name")
    with pytest.raises(ModelError, match="language"):
        made.prepare()


@pytest.mark.parametrize(
    "spec",
    [
        "vr_ttrl(base=saliency)",
        "vr_ttrl(base=pocket,steps=0)",
        "vr_ttrl(base=pocket,rollouts=1)",
        "vr_ttrl(base=pocket,temperature=0)",
        "vr_ttrl(base=pocket,learning_rate=2)",
        "memo(base=pocket,views=1)",
        f"memo(base=seg_zero(checkpoint={FOLDER}),geometric=true)",
        "vr_ttrl(base=pocket(backend=stored))",
        f"vr_ttrl(base=seg_zero(checkpoint={FOLDER}))",
    ],
)
def test_what_cannot_be_adapted_is_refused(spec):
    with pytest.raises(UsageError):
        plugins.build("models", parse(spec))


def test_every_setting_is_listed():
    entry = plugins.installed_plugins("models")["vr_ttrl"]
    listed = set(settings_of(entry))
    assert listed == set(inspect.signature(plugins.load("models", "vr_ttrl")).parameters)
    assert {"steps", "learning_rate", "rollouts", "base"} <= listed


# -- views --------------------------------------------------------------------------------------


@pytest.mark.parametrize("geometric", [False, True])
def test_the_gradient_of_memo_is_that_of_the_mean_divergence(queries, geometric):
    """The mean is held fixed, view by view; computed at once, the gradient is the same."""
    method = Memo(name="memo", steps=1, views=3, strength=0.5, geometric=geometric)
    made = context()
    made.network.double()
    asked = pocket_request(queries)
    with made.adapting(asked) as here:
        trial = Trial(
            request=asked,
            context=here,
            canvas=(168, 168),
            must_name_frame=False,
            uniform=float,
            trace=False,
        )
        (said,) = here.rollouts(1, temperature=0.0, name="a")
        seen = method.step_views(trial, said, 0)
        assert all(bool(one.numbers) is geometric for one in seen)
        found = []
        for place, one in enumerate(seen):
            prefix = here.prompts.read(one.request)
            (rows,) = here._score(one.request, prefix, [one.response], 1.0, indices=[place])
            found += likelihoods(rows, seen)
        whole = torch.stack([one.tokens for one in found])
        mean = whole.exp().mean(dim=0)
        apart = (whole.exp() * (whole - mean.log())).sum(dim=(1, 2))
        if geometric:
            chance = torch.stack([one.numbers for one in found]).exp()
            for own in (chance, 1 - chance):
                apart = apart + (own * (own / own.mean(dim=0)).log()).sum(dim=1)
        apart.mean().backward()
        gradients = [one.grad for one in made.network.parameters() if one.grad is not None]
        norm = torch.stack([one.norm() for one in gradients]).norm()
        here._optimizer.zero_grad()
        method(trial)
    (step,) = trial.steps
    assert step.loss == pytest.approx(float(apart.mean().detach()), rel=1e-5)
    assert step.grad_norm == pytest.approx(float(norm), rel=1e-5)


def test_responses_to_several_requests_may_have_different_lengths(queries):
    """A number that has moved with a view may be written with fewer tokens."""
    made, asked = context(), pocket_request(queries)
    requests = views(asked, 2, seed=0, strength=0.3)[::-1]
    with made.adapting(asked) as here:
        (long,) = here.rollouts(1, temperature=0.0, name="a")
        responses = [replace(long, tokens=long.tokens[:-3]), long]
        alone = here.scored(responses, requests=requests)
        update = here.step(
            lambda rows: -(rows.logp * rows.mask).sum(), responses, requests=requests
        )
    assert update.logp.shape == (2, len(long.tokens))
    assert not update.logp[0, -3:].any()
    for found, rows in zip(update.logp, alone, strict=True):
        own = rows.logp[0]
        assert own.any() and torch.allclose(found[: len(own)], own, atol=1e-5)


def pocket_request(queries):
    """The request as pocket asks it: its response is in the grammar."""
    (asked,) = plugins.build("models", parse(POCKET.removeprefix("base="))).requests(queries[0])
    return asked


def test_views_depend_on_seed_and_sample_and_keep_the_first_as_it_is(queries):
    asked = request(queries)
    own, again, other = (views(asked, 3, seed=seed, strength=0.3) for seed in (0, 0, 1))
    assert own[0] is asked and own[1].key == again[1].key
    frames = [one[1].media[0].frame(0) for one in (own, again, other)]
    assert (frames[0] == frames[1]).all() and (frames[0] != frames[2]).any()
    assert (Jitter(1.0, 1.0, 1.0).apply(asked.media[0].frame(0)) == asked.media[0].frame(0)).all()


@pytest.mark.parametrize("checkpoint", ["tiny_qwen", "tiny_qwen35"])
def test_rows_read_together_say_what_each_says_alone(checkpoint, queries, request):
    made = context(request.getfixturevalue(checkpoint), share_prefix=False)
    made.network.double()
    query = queries[0]
    asked = ChatRequest(key="q", text=query.text, media=query.media, max_new_tokens=12)
    with made.adapting(asked) as here:
        said = here.rollouts(3, temperature=1.0, name="a")
        said = [replace(one, tokens=one.tokens[: 4 * n]) for n, one in enumerate(said, start=1)]
        together = here.log_probs(said, temperature=1.0)
        for row, one in zip(together, said, strict=True):
            (alone,) = here.log_probs([one], temperature=1.0)
            own = row[: len(one.tokens)]
            torch.testing.assert_close(own, alone[: len(one.tokens)], rtol=0, atol=1e-9)


@pytest.mark.parametrize("finetune", ["full", "lora"])
def test_an_optimizer_on_the_cpu_makes_the_same_numbers(finetune, queries):
    """Weights, log-probabilities and norms, of steps in parts whose gradients are added up."""

    def steps(offload):
        made = context(offload=offload, finetune=finetune, micro_batch_size=2, weight_decay=0.1)
        found = []
        made.prepare()
        before = fingerprint(made.network, complete=True)
        for _ in range(2):  # two samples: the second begins with a new optimizer
            with made.adapting(request(queries)) as here:
                for step in range(2):
                    said = here.rollouts(3, temperature=1.0, name=f"step{step}")
                    first = here.log_probs(said, temperature=1.0)
                    update = here.step(nll, said)
                    found += [said, first, update.logp, update.loss, update.grad_norm]
                    found.append([one.detach().clone() for one in made.network.parameters()])
                    assert all(one.grad is None for one in made.network.parameters())
            assert fingerprint(made.network, complete=True) == before
        return found

    for own, other in zip(steps("none"), steps("optimizer"), strict=True):
        if isinstance(own, torch.Tensor):
            assert torch.equal(own, other)
        elif isinstance(own, list) and isinstance(own[0], torch.Tensor):
            assert all(torch.equal(*pair) for pair in zip(own, other, strict=True))
        else:
            assert own == other


def test_what_was_cut_short_while_the_first_weights_were_there_is_put_right(queries):
    made = context(offload="optimizer")
    with made.adapting(request(queries)) as here:
        said = here.rollouts(2, temperature=1.0, name="a")
        here.step(nll, said)
        learned = fingerprint(made.network, complete=True)
        with pytest.raises(KeyError), made.weights.with_first_weights():
            assert fingerprint(made.network, complete=True) != learned
            raise KeyError("an error in between")
        assert fingerprint(made.network, complete=True) == learned
