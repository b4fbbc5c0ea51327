"""`engine=trl`: the same method by TRL's own trainer; what it cannot do is refused by name."""

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
trl = pytest.importorskip("trl")
if trl.__version__.startswith("1.15."):
    pytest.importorskip("triton", reason="this release computes losses by Triton's kernels alone")

from safetensors.torch import load_file  # noqa: E402
from transformers import AutoTokenizer, GenerationMixin  # noqa: E402

from harness import media, plugins  # noqa: E402
from harness.errors import ModelError, UsageError  # noqa: E402
from harness.models.rollout import Turn  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.task import Task  # noqa: E402
from harness.tasks.training.scoring import ANSWERS  # noqa: E402
from harness.trainers import stopwatch  # noqa: E402
from harness.trainers.grpo import trl_engine, trl_steps  # noqa: E402
from harness.trainers.grpo.loop import GrpoLearner  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.trainers.guards import UnstableTraining  # noqa: E402
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id  # noqa: E402

SETTINGS = {
    "reward": "random",  # of seed, prompt and place alone
    "num_generations": 4,
    "generation_batch_size": 8,
    "per_device_train_batch_size": 8,
    "max_completion_length": 8,
    "max_steps": 3,
    "learning_rate": 1e-3,
    "report_to": "none",
}


def nothing(group):
    return [{"total": 0.0}] * len(group.rollouts)


def question(name, *sizes):
    """A question about a number, of one image a size."""
    draw = np.random.default_rng(len(name) + len(sizes))
    shown = tuple(
        media.pixels(
            [draw.integers(0, 255, (height, width, 3), dtype=np.uint8)],
            times=[0.0],
            is_video=False,
            id=f"{name}{place}",
        )
        for place, (width, height) in enumerate(sizes)
    )
    query = Query(
        id=query_id(name), text=f"How many {name}?", media=shown, forms=(AnswerForm.NUMBER,)
    )
    return Sample(id=name, query=query, target=Target(answer=Answer(number=2.0)))


def clip(name, frames=4):
    still = question(name, (56, 56))
    (shown,) = still.query.media
    images = [np.array(shown.frame(0)) + frame for frame in range(frames)]
    moving = media.pixels(images, times=[k / 2 for k in range(frames)], is_video=True, id=name)
    return replace(still, query=replace(still.query, media=(moving,)))


IMAGES = [
    question("one", (56, 84)),
    question("several", (56, 56), (84, 56)),
    question("wide", (112, 56)),
]


def task_of(*samples):
    return Task(
        name="set",
        version=1,
        split="train",
        forms=(AnswerForm.NUMBER,),
        protocol=ANSWERS["train/answers"],
        samples=lambda: samples,
        annotations=(),
        check=lambda: (),
    )


@pytest.fixture
def trained(tiny_qwen, tmp_path, told):
    """Trains and returns curve, rollouts, weights and manifest of the folder."""

    def begin(engine, *, samples=IMAGES, method=None, every=None, evaluate=None, **settings):
        chosen = Settings(**{**SETTINGS, **settings, "engine": engine})
        trainer = GrpoTrainer(name="m", settings=chosen, reward=nothing)
        trainer = replace(trainer, **(method or {}))
        out = tmp_path / engine
        spec = parse(f"qwen_vl(checkpoint={tiny_qwen})")
        options = TrainingOptions(seed=5, progress=told, every=every, evaluate=evaluate)
        train(trainer, [task_of(*samples)], spec, out, options)

        def rows(name):
            return [json.loads(line) for line in (out / name).read_text().splitlines()]

        return SimpleNamespace(
            curve=rows("curve.jsonl"),
            rollouts=rows("rollouts.jsonl"),
            weights=load_file(out / "checkpoint" / "model.safetensors"),
            manifest=json.loads((out / "manifest.json").read_text()),
            folder=out,
        )

    return begin


@pytest.fixture
def both(trained, monkeypatch, tiny_qwen):
    """Trains by TRL, and then by our loop on the rollouts that TRL has drawn."""
    drawn, end = [], AutoTokenizer.from_pretrained(tiny_qwen).eos_token_id
    generate, rewarded = GenerationMixin.generate, trl_engine.Rewards.round

    def ending(network, **given):
        """Responses end after 2 to 9 tokens: a random network would never end one."""
        found, start = generate(network, **given), given["input_ids"].shape[1]
        others = set(network.generation_config.eos_token_id) - {end}  # trl 1.13 goes on after them
        for token in others:
            found[:, start:][found[:, start:] == token] = 5
        for row in range(len(found)):
            found[row, start + 2 + (3 * row) % 8 :] = end
        return found

    def noted(self, completions, places):
        drawn.extend(list(tokens) for tokens in completions)
        return rewarded(self, completions, places)

    class Replayed:
        def __init__(self, chat):
            self.chat = chat

        def converse(self, conversations):
            for conversation in conversations:
                (request,) = next(conversation)
                with pytest.raises(StopIteration):
                    conversation.send((self.chat.to_response(request, drawn.pop(0), 0, ()),))

    def train(**given):
        with monkeypatch.context() as patched:
            patched.setattr(GenerationMixin, "generate", ending)
            patched.setattr(trl_engine.Rewards, "round", noted)
            theirs = trained("trl", **given)
        with monkeypatch.context() as patched:
            patched.setattr(GrpoLearner, "answering", lambda self: nullcontext(Replayed(self.chat)))
            ours = trained("harness", **given)
        assert drawn == []
        return ours, theirs

    return train


@pytest.mark.parametrize(
    "settings",
    [
        {"beta": 0.04, "entropy_coef": 1e-3},
        {
            "loss_type": "dapo",
            "per_device_train_batch_size": 2,
            "num_iterations": 2,
            "max_steps": 4,
        },
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "scale_rewards": None},
        {"finetune": "lora", "lora_r": 4, "beta": 0.04, "warmup_steps": 2},
        {"samples": [question("none"), question("nothing")]},
        {"loss_type": "cispo", "epsilon_high": 1.5},
    ],
    ids=lambda one: "-".join(one),
)
def test_on_the_same_rollouts_both_engines_make_the_same_steps(both, settings, tiny_qwen):
    """Prompts with one image, several or none: equal to the weights after the last step."""
    ours, theirs = both(**settings)
    assert len({one["tokens"] for one in ours.rollouts}) > 2
    assert len({one["cut"] for one in ours.rollouts}) == 2
    assert [(one["step"], one["sample"], one["rollout"]) for one in ours.rollouts] == [
        (one["step"], one["sample"], one["rollout"]) for one in theirs.rollouts
    ]
    for one, other in zip(ours.rollouts, theirs.rollouts, strict=True):
        assert (one["text"], one["tokens"], one["cut"]) == (
            other["text"],
            other["tokens"],
            other["cut"],
        )
        assert one["components"] == other["components"]
        assert one["advantage"] == pytest.approx(other["advantage"], abs=1e-6)
    compared = {"loss", "grad_norm", "learning_rate", "reward", "reward_std", "num_tokens", "epoch"}
    compared |= {"kl"} if "beta" in settings else set()
    compared |= {"cispo_clip_ratio"} if "cispo" in settings.values() else set()
    for one, other in zip(ours.curve, theirs.curve, strict=True):
        assert compared - one.keys() == compared - other.keys()
        for name in sorted(compared & one.keys() - {"learning_rate"}):
            assert one[name] == pytest.approx(other[name], rel=2e-3, abs=2e-6), name
    before = load_file(tiny_qwen / "model.safetensors")
    assert ours.weights.keys() == theirs.weights.keys() == before.keys()
    moved, apart = (
        sum(float((one - other[name]).square().sum()) for name, one in ours.weights.items()) ** 0.5
        for other in (before, theirs.weights)
    )
    assert moved > 0.1 and apart < 0.02 * moved
    assert theirs.manifest["method"]["settings"]["engine"] == "trl"
    assert theirs.manifest["result"]["steps"] == settings.get("max_steps", 3)
    assert ours.manifest["result"]["epochs"] == theirs.manifest["result"]["epochs"]


def test_steps_are_evaluated_and_their_checkpoints_kept(trained, monkeypatch):
    seen = []

    def evaluate(folder, step):
        seen.append((step, load_file(folder / "model.safetensors")["lm_head.weight"]))
        return {"eval/set/score": float(step)}

    given = {"save_total_limit": 2, "save_steps": 1, "metric_for_best_model": "eval/set/score"}
    done = trained("trl", every=1, evaluate=evaluate, **given)
    assert [row["eval/set/score"] for row in done.curve] == [1.0, 2.0, 3.0]
    assert sorted(path.name for path in (done.folder / "checkpoints").iterdir()) == [
        "step-2",
        "step-3",
    ]
    assert torch.equal(seen[-1][1], done.weights["lm_head.weight"])
    assert not torch.equal(seen[0][1], seen[1][1])
    assert done.manifest["result"]["best_step"] == 3


def test_alarms_are_raised_by_what_trl_trains_too(trained, told):
    done = trained("trl", reward="method", max_steps=9)
    assert [row["step"] for row in done.curve if "alarms/no_variance" in row] == [8, 9]
    raised = [one["name"] for one in done.manifest["result"]["alarms"]]
    assert raised == ["no_variance", "all_cut"], "a random network never ends by itself"
    assert sum("alarm no_variance at step 8" in note for note in told.notes) == 1


def test_the_checkpoint_of_trl_is_evaluated_as_ours(trained):
    done = trained("trl", max_steps=1)
    model = plugins.build("models", parse(f"qwen_vl(checkpoint={done.folder},max_new_tokens=4)"))
    (found,) = model.predict([IMAGES[1].query])
    assert found.query_id == IMAGES[1].query.id


def episode(query):
    return lambda written: Turn(inject=None)


@pytest.mark.parametrize(
    ("more", "settings", "named"),
    [
        ({"environment": episode}, {}, "several turns"),
        ({"second": lambda sample, rollout: None}, {}, "second response"),
        ({}, {"ema_decay": 0.9}, "ema_decay=0.9"),
        ({}, {"vllm_mode": "colocate"}, "vllm_mode=colocate"),
        ({}, {"deepspeed": "zero2"}, "deepspeed=zero2"),
        ({}, {"noise": "keyed"}, "noise=keyed"),
        ({}, {"generation_micro_batch_size": 2}, "generation_micro_batch_size"),
        ({}, {"dynamic_sampling": True}, "dynamic_sampling"),
        ({}, {"log_completions": True}, "log_completions"),
        ({}, {"alarms": "stop"}, "alarms=stop"),
    ],
)
def test_what_trl_cannot_do_is_refused_by_name_when_it_is_asked_for(more, settings, named):
    chosen = Settings(**{**SETTINGS, **settings, "engine": "trl"})
    with pytest.raises(UsageError, match=f"engine=trl.*{named}"):
        GrpoTrainer(name="m", settings=chosen, reward=lambda group: [], **more)
    GrpoTrainer(name="m", settings=replace(chosen, engine="harness"), reward=len, **more)


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="2 processes"):
        GrpoTrainer(name="m", settings=Settings(**SETTINGS, engine="trl"), reward=len)


def test_prompts_with_and_without_images_are_refused_together(trained, monkeypatch):
    monkeypatch.setattr("harness.trainers.network.load", None)
    with pytest.raises(UsageError, match=r"engine=trl.*none in sample none, and some in one"):
        trained("trl", samples=[*IMAGES, question("none")])


def test_clips_are_refused_before_anything_is_loaded(trained, monkeypatch):
    monkeypatch.setattr("harness.trainers.network.load", None)
    with pytest.raises(UsageError, match=r"engine=trl.*film.*single images.*4 frames"):
        trained("trl", samples=[*IMAGES, clip("film")])


@pytest.mark.parametrize(
    ("change", "said"),
    [({"prefix": "<think>"}, "input_ids"), ({"stop": ("x",)}, "stop strings")],
)
def test_a_prompt_that_trl_would_make_otherwise_is_refused(trained, monkeypatch, change, said):
    def request(model, sample):
        return replace(model.requests(sample.query)[0], **change)

    monkeypatch.setattr("harness.trainers.network.load", None)
    with pytest.raises(UsageError, match=f"engine=trl, sample one of set.*{said}"):
        trained("trl", method={"request": request})


def test_weights_that_break_leave_no_checkpoint(trained, tmp_path):
    with pytest.raises(ModelError, match="nan"):
        trained("trl", learning_rate=1e30, max_grad_norm=0.0)
    assert not (tmp_path / "trl" / "checkpoint").exists()


@pytest.mark.parametrize(
    ("logs", "weight", "said"),
    [
        ({"loss": math.nan, "grad_norm": 1.0}, 1.0, "a loss of nan.*set one.*made the step"),
        ({"loss": 1.0, "grad_norm": math.inf}, 1.0, "norm inf.*the last one is of step 1"),
        ({"loss": 1.0, "grad_norm": 1.0}, math.nan, "weight weight"),
    ],
)
def test_a_step_that_is_not_finite_is_the_last(logs, weight, said):
    settings = Settings(**SETTINGS, engine="trl")
    rewards = SimpleNamespace(settings=settings, sample_names=["set one"], numbers={})
    session = SimpleNamespace(saved=1)
    watch = trl_steps.Watch(session, rewards, None, None, total=3, epoch_size=3)
    network = torch.nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(weight)
    with pytest.raises(UnstableTraining, match=said):
        watch.on_log(None, SimpleNamespace(global_step=2), None, logs=logs, model=network)


def test_rollouts_without_a_reward_count_in_nothing_for_trl_too(both):
    def reward(group):
        return [{"total": None if place == 0 else float(place)} for place in range(4)]

    ours, theirs = both(method={"reward": reward}, reward="method", max_steps=1)
    for name in ("loss", "grad_norm", "reward", "reward_std"):
        assert ours.curve[0][name] == pytest.approx(theirs.curve[0][name], rel=1e-4, abs=1e-6)
    assert ours.curve[0]["reward"] == 2.0


def test_a_reward_that_fails_costs_its_sample_by_trl_too(both, told):
    def reward(group):
        if group.sample.id == "wide":
            raise KeyError("bbox")
        return [{"total": float(place)} for place in range(4)]

    ours, theirs = both(method={"reward": reward}, reward="method", reward_errors="drop")
    for name in ("loss", "grad_norm", "reward", "frac_reward_errors"):
        for one, other in zip(ours.curve, theirs.curve, strict=True):
            assert one[name] == pytest.approx(other[name], rel=2e-3, abs=2e-6), name
    assert {row["frac_reward_errors"] for row in ours.curve} == {0.0, 0.5}


def test_seconds_have_the_shares_of_their_parts(trained, told, monkeypatch):
    """By a clock that generation, rewards and optimiser alone move on."""
    now, seen = [0.0], []

    def taking(kind, name, seconds):
        call = getattr(kind, name)

        def later(*given, **more):
            now[0] += seconds
            return call(*given, **more)

        monkeypatch.setattr(kind, name, later)

    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(told, "step", lambda done, numbers: seen.append(numbers))
    taking(GenerationMixin, "generate", 16.0)
    taking(trl_engine.Rewards, "round", 4.0)
    taking(torch.optim.AdamW, "step", 1.0)
    trained("trl", num_iterations=2, max_steps=4)
    names = ("step_time", *(f"timing_s/{part}" for part in ("generation", "reward", "update")))
    steps = [[one.get(name) for name in names] for one in seen if "loss" in one]
    # The second step on a round writes nothing.
    assert steps == [[21.0, 16.0, 4.0, 1.0], [1.0, None, None, 1.0]] * 2
