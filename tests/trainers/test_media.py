"""Every trainer takes every question's media, and its network sees what evaluation's sees.

Trainers × questions with no image, one, several, a clip, a clip beside an image, and all of these
in one batch: the tokens, pixels, grids and times that it is called with are equal, byte by byte.
"""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
pytest.importorskip("trl")

from harness import media, plugins  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.task import Task  # noqa: E402
from harness.tasks.training.scoring import ANSWERS  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.trainer import GrpoTrainer  # noqa: E402
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target, query_id  # noqa: E402

STILL, WIDE, CLIP = ((56, 84), 1), ((112, 56), 1), ((84, 56), 5)
QUESTIONS = {
    "none": (),
    "one": (STILL,),
    "several": (STILL, WIDE, STILL),
    "clip": (CLIP,),
    "clip and image": (CLIP, WIDE),
    "image and clips": (WIDE, CLIP, CLIP),
}
"""(size, frames) of each medium."""
SETTINGS = "max_steps=1,learning_rate=1e-3,report_to=none,"


def sample(name, form):
    draw = np.random.default_rng(len(name))
    shown = [
        media.pixels(
            [draw.integers(0, 255, (height, width, 3), dtype=np.uint8) for _ in range(frames)],
            times=[place / 3 for place in range(frames)],
            is_video=frames > 1,
            id=f"{name}{place}",
        )
        for place, ((width, height), frames) in enumerate(QUESTIONS[name])
    ]
    query = Query(id=query_id(name), text=f"The {name}?", media=tuple(shown), forms=(form,))
    is_place = form is AnswerForm.BOXES
    answer = Answer(boxes=(Box(1, 1, 9, 9),)) if is_place else Answer(number=2.0)
    return Sample(id=name, query=query, target=Target(answer=answer))


def task_of(samples, form):
    return Task(
        name="set",
        version=1,
        split="train",
        forms=(form,),
        protocol=ANSWERS["train/answers"],
        samples=lambda: samples,
        annotations=(),
        check=lambda: (),
    )


class Calls:
    """What a network is called with, apart by whether gradients are made."""

    def __init__(self):
        self.shown = {False: [], True: []}
        """Patches of each image and clip, and their grid."""
        self.prompts = {False: [], True: []}
        """Tokens of each row, without padding."""
        self.seconds = {False: [], True: []}
        """Seconds of a clip's patch."""

    def media(self, learns):
        """Return what was shown, images before clips, and clips' seconds, as plain numbers."""
        return sorted(self.shown[learns], key=lambda one: one[0][0] > 1), self.seconds[learns]


@contextmanager
def watched(monkeypatch):
    """Yield what Qwen2.5-VL's networks are called with in the block."""
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as module

    calls = Calls()
    whole, tower = module.Qwen2_5_VLModel, module.Qwen2_5_VisionTransformerPretrainedModel
    read, see = whole.forward, tower.forward

    def reads(self, *args, **given):
        learns = torch.is_grad_enabled()
        ids, seconds = given["input_ids"], given.get("second_per_grid_ts")
        seen = given.get("attention_mask")
        seen = torch.ones_like(ids) if seen is None else seen
        if seen.shape == ids.shape and ids.shape[1] > 1:  # a prompt, not what follows one
            rows = zip(ids, seen.bool(), strict=True)
            calls.prompts[learns] += [row[own].tolist() for row, own in rows]
        if seconds is not None and ids.shape[1] > 1:
            calls.seconds[learns] += torch.as_tensor(seconds).tolist()
        return read(self, *args, **given)

    def sees(self, hidden_states, grid_thw, **given):
        parts = hidden_states.detach().split(grid_thw.prod(dim=1).tolist())
        for patches, grid in zip(parts, grid_thw.tolist(), strict=True):
            one = tuple(grid), patches.float().numpy().tobytes()
            calls.shown[torch.is_grad_enabled()].append(one)
        return see(self, hidden_states, grid_thw, **given)

    with monkeypatch.context() as patched:
        patched.setattr(whole, "forward", reads)
        patched.setattr(tower, "forward", sees)
        yield calls


@pytest.fixture
def model(tiny_qwen):
    return (
        f"qwen_vl(checkpoint={tiny_qwen},frames=4,max_new_tokens=3,segmenter=box,propagator=still)"
    )


def evaluated(model, samples, monkeypatch):
    """What evaluation's network is called with for each sample: its media, and its prompt."""
    built, found = plugins.build("models", parse(model)), []
    for one in samples:
        with watched(monkeypatch) as calls:
            built.predict([one.query])
        found.append((calls.media(False), calls.prompts[False][0]))
    return found


def together(found):
    """Return the media of several prompts as one batch has them, and their tokens."""
    shown = [one for (media, _), _ in found for one in media]
    seconds = [one for (_, several), _ in found for one in several]
    media = sorted(shown, key=lambda one: one[0][0] > 1), seconds
    return media, [tokens for _, tokens in found]


def learned(trainer, model, samples, form, tmp_path, monkeypatch):
    """What a training's network is called with."""
    with watched(monkeypatch) as calls:
        task = task_of(samples, form)
        train(trainer, [task], parse(model), tmp_path / "out", TrainingOptions(seed=3))
    return calls


def in_order(samples):
    """The order of the first epoch's samples."""
    from harness.trainers.learner import sample_order

    order = sample_order(3, len(samples))
    return [samples[next(order)] for _ in samples]


def grpo(samples, **more):
    given = {
        "num_generations": 2,
        "generation_batch_size": 2 * samples,
        "per_device_train_batch_size": 2 * samples,
        "max_completion_length": 3,
        "max_steps": 1,
        "learning_rate": 1e-3,
        "report_to": "none",
        "reward": "random",
        **more,
    }

    def nothing(group):
        return [{"total": 0.0}] * len(group.rollouts)

    return GrpoTrainer(name="m", settings=Settings(**given), reward=nothing)


BATCHES = [*([name] for name in QUESTIONS), list(QUESTIONS)]
FORMS = {AnswerForm.NUMBER: BATCHES, AnswerForm.BOXES: [*BATCHES[1:-1], list(QUESTIONS)[1:]]}
CASES = [(form, names) for form, several in FORMS.items() for names in several]


def named(case):
    return "+".join(case) if isinstance(case, list) else str(getattr(case, "value", case))


@pytest.mark.parametrize(
    ("form", "names", "shared"),
    [*((*case, True) for case in CASES), (AnswerForm.NUMBER, list(QUESTIONS), False)],
    ids=named,
)
def test_grpo_shows_its_network_what_evaluation_shows(
    form, names, shared, model, tmp_path, monkeypatch
):
    """Rollouts and loss alike, with prompts that are read once for a group, or for each row."""
    samples = in_order([sample(name, form) for name in names])
    wanted = evaluated(model, samples, monkeypatch)
    trainer = grpo(len(samples), gradient_checkpointing=not shared)
    given = [sample(name, form) for name in names]
    calls = learned(trainer, model, given, form, tmp_path, monkeypatch)
    rows = [one for one in wanted for _ in range(1 if shared else 2)]
    shown, prompts = together(rows)
    assert calls.media(True) == shown
    for row, one in zip(calls.prompts[True], prompts, strict=False):
        assert row[: len(one)] == one
    (shown, seconds), prompts = together(wanted)  # of rollouts, the longest prompts may come first
    drawn = calls.media(False)
    assert (sorted(drawn[0]), sorted(drawn[1])) == (sorted(shown), sorted(seconds))
    assert sorted(calls.prompts[False]) == sorted(prompts)


@pytest.mark.parametrize(("form", "names"), CASES, ids=named)
def test_fine_tuning_shows_its_network_what_evaluation_shows(
    form, names, model, tmp_path, monkeypatch
):
    samples = in_order([sample(name, form) for name in names])
    wanted = evaluated(model, samples, monkeypatch)
    settings = f"{SETTINGS}per_device_train_batch_size={len(samples)}"
    trainer = plugins.build("trainers", parse(f"sft({settings})"))
    given = [sample(name, form) for name in names]
    calls = learned(trainer, model, given, form, tmp_path, monkeypatch)
    shown, prompts = together(wanted)
    assert calls.media(True) == shown
    for row, one in zip(calls.prompts[True], prompts, strict=True):
        assert row[: len(one)] == one and len(row) > len(one)


@pytest.mark.parametrize("names", FORMS[AnswerForm.BOXES], ids=named)
@pytest.mark.parametrize("method", ["ttrv", "sft_greedy"])
def test_test_time_training_shows_its_network_what_evaluation_shows(
    method, names, model, tmp_path, monkeypatch
):
    """Places alone: there is no question without an image. A batch is learned query by query."""
    base = model.replace("qwen_vl(", "qwen_vl(prompt=visionreasoner,keyframe=named,")
    samples = [sample(name, AnswerForm.BOXES) for name in names]
    wanted = evaluated(base, samples, monkeypatch)
    rollouts = "rollouts=2," if method == "ttrv" else ""
    adapted = plugins.build("models", parse(f"{method}({rollouts}base={base},steps=1)"))
    with watched(monkeypatch) as calls:
        adapted.predict([one.query for one in samples])
    for learns in (False, True):
        shown, seconds = calls.media(learns)
        times = len(shown) // len(together(wanted)[0][0])
        assert times >= 1, learns
        each = [one for one in wanted for _ in range(times)]
        assert (shown, seconds) == together(each)[0]


@pytest.mark.parametrize("trainer", [grpo(1), "sft"], ids=["grpo", "sft"])
def test_places_without_an_image_are_dropped_and_named(trainer, model, tmp_path, told):
    """So that one such row does not end the training of the others."""
    if trainer == "sft":
        trainer = plugins.build("trainers", parse(f"sft({SETTINGS[:-1]})"))
    task = task_of([sample(name, AnswerForm.BOXES) for name in ("none", "one")], AnswerForm.BOXES)
    train(trainer, [task], parse(model), tmp_path / "out", TrainingOptions(progress=told))
    assert any("1 sample(s) dropped" in note and "set none" in note for note in told.notes)


def test_pixels_that_differ_are_told_apart(model, monkeypatch):
    """Without this, the comparison above could be one of nothing with nothing."""
    samples = [sample(name, AnswerForm.NUMBER) for name in QUESTIONS]
    found = [media for media, _ in evaluated(model, samples, monkeypatch)]
    assert found[0] == ([], []) and [len(shown) for shown, _ in found] == [0, 1, 3, 1, 2, 3]
    assert [len(seconds) for _, seconds in found] == [0, 0, 0, 1, 1, 2]
    still = samples[1]
    image = np.array(still.query.media[0].frame(0))
    image[0, 0, 0] ^= 64
    shown = media.pixels([image], times=[0.0], is_video=False, id="moved")
    moved = replace(still, query=replace(still.query, media=(shown,)))
    ((other, _),) = evaluated(model, [moved], monkeypatch)
    assert other != found[1]
