"""What does not fit a network's positions: trainings drop it, test-time training refuses it."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from harness import plugins
from harness.errors import DataError, ModelError
from harness.models.backends.positions import (
    beyond,
    positions_of,
    saved_positions,
)
from harness.models.backends.transformers import TransformersChat
from harness.rehearsal.stages import free_port
from harness.run.batching import samples_of
from harness.run.train import TrainingOptions, train
from harness.spec import Spec, parse
from harness.trainer import TrainingRun
from harness.trainers.dr2seg.second_pass import MAX_TOKENS
from harness.trainers.grpo import examples as grpo
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.rows import encode_prompt
from harness.trainers.sft import learner as sft


def config(**text):
    return SimpleNamespace(get_text_config=lambda: SimpleNamespace(**text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"max_position_embeddings": 2048}, 2048),
        ({"max_position_embeddings": 2048, "sliding_window": 64}, 2048),
        ({}, None),
        ({"max_position_embeddings": -1}, None),
        # Qwen2.5's YaRN, as its page says to set it, and as a file that states the whole.
        (
            {
                "max_position_embeddings": 32768,
                "rope_parameters": {"factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        ({"max_position_embeddings": 2048, "rope_parameters": {"mrope_section": [1]}}, 2048),
        # Without a factor of its own, it is the ratio of both numbers.
        (
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"factor": None, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
    ],
)
def test_positions_are_those_stated_or_reached_by_scaling(text, expected):
    assert positions_of(config(**text)) == expected


def test_the_last_position_may_be_used():
    assert beyond(90, 10, 100) == beyond(90, 10, None) == ""
    assert "91" in beyond(91, 10, 100)


@pytest.fixture
def limited(tiny_qwen, tmp_path):
    """Return a function that saves the tiny network with fewer positions."""

    def limited(positions):
        folder = tmp_path / f"positions-{positions}"
        shutil.copytree(tiny_qwen, folder)
        settings = json.loads((folder / "config.json").read_text())
        settings["text_config"]["max_position_embeddings"] = positions
        (folder / "config.json").write_text(json.dumps(settings))
        assert saved_positions(folder) == positions
        return f"qwen_vl(checkpoint={folder})"

    return limited


@pytest.fixture
def task(examples):
    return plugins.build("tasks", "reason_seg", examples)


def prompts(spec, task):
    """Tokens of each sample's prompt, the shortest first."""
    model = plugins.build("models", parse(spec))
    requests = (model.requests(one.query)[0] for one in samples_of(task))
    return sorted(
        encode_prompt(model.chat.processor, request)["input_ids"].shape[1] for request in requests
    )


def prepared(spec, task, run, way, response=8):
    model = plugins.build("models", parse(spec))
    if way == "sft":
        return sft.prepare_examples(
            model, model.chat.processor, run, reasoning="none", max_length=None
        )
    settings = Settings(max_completion_length=response, report_to=None)
    method = GrpoTrainer(name="x", settings=settings, reward=lambda group: [])
    return grpo.prepare_examples(method, model, model.chat.processor, run)


def test_a_prompt_whose_longest_rollout_does_not_fit_is_left_out_by_name(
    limited, tiny_qwen, task, told, tmp_path
):
    lengths = prompts(f"qwen_vl(checkpoint={tiny_qwen})", task)
    assert lengths[0] < lengths[-1]
    run = TrainingRun(out=tmp_path, tasks=(task,), progress=told)
    kept, dropped = prepared(limited(lengths[-1] + 8), task, run, "grpo")
    assert len(kept) == len(lengths) and not dropped, "the last position may be used"
    kept, dropped = prepared(limited(lengths[-1] + 7), task, run, "grpo")
    assert len(kept) + len(dropped) == len(lengths) and dropped
    assert {one.why for one in dropped} == {"beyond the network's positions"}
    (note,) = told.notes
    assert dropped[0].sample in note and f"{lengths[-1]} tokens of prompt and up to 8" in note


def test_a_second_prompt_with_its_longest_description_has_to_fit_too(
    limited, tiny_qwen, task, told, tmp_path
):
    """The first prompt fits by far; the description is in the question's place."""
    run = TrainingRun(out=tmp_path, tasks=(task,), progress=told)

    def prepared(spec, **second):
        method = plugins.build("trainers", Spec("dr2seg", {"max_completion_length": 8, **second}))
        model = method.with_prompt(plugins.build("models", parse(spec)))
        processor = model.chat.processor
        kept, dropped = grpo.prepare_examples(method.bound(model), model, processor, run)
        lengths = [encode_prompt(processor, one.request)["input_ids"].shape[1] for one in kept]
        return lengths, [one.why for one in dropped].count("beyond the network's positions")

    lengths, _ = prepared(f"qwen_vl(checkpoint={tiny_qwen})")
    assert prepared(limited(max(lengths) + MAX_TOKENS + 8)) == (lengths, 0)
    less = limited(max(lengths) + MAX_TOKENS + 7)
    assert prepared(less) == (
        [one for one in lengths if one < max(lengths)],
        lengths.count(max(lengths)),
    )
    assert any("beyond the network's positions" in note for note in told.notes)
    assert prepared(less, r_desc=False, r_len=False) == (lengths, 0), "there is no second pass"


@pytest.fixture
def with_second(limited, tiny_qwen, task, told, tmp_path, monkeypatch):
    """Trains with a second prompt to each rollout, which is too long for one sample."""
    lengths = prompts(f"qwen_vl(checkpoint={tiny_qwen})", task)
    spec = limited(lengths[-1] + 8)
    long, seen = sorted(sample.id for sample in samples_of(task))[0], []
    model = plugins.build("models", parse(spec))

    def second(sample, rollout):
        text = "far " * 200 if sample.id == long else sample.query.text
        (request,) = model.requests(replace(sample.query, text=text))
        return replace(request, max_new_tokens=2)

    def reward(group):
        seen.append((group.sample.id, len(group.seconds)))
        return [{"total": float(place)} for place in range(len(group.rollouts))]

    asked, to_response = [], TransformersChat.to_response

    def noted(self, request, tokens, length, canvases):
        asked.append(length + request.max_new_tokens)
        return to_response(self, request, tokens, length, canvases)

    monkeypatch.setattr(TransformersChat, "to_response", noted)

    def begin(**more):
        settings = Settings(
            num_generations=2,
            generation_batch_size=6,
            per_device_train_batch_size=6,
            **{"max_completion_length": 8, "max_steps": 2, "report_to": None, **more},
        )
        method = GrpoTrainer(name="x", settings=settings, reward=reward, second=second)
        options = TrainingOptions(progress=told)
        return train(method, [task], parse(spec), tmp_path / "out", options)

    return SimpleNamespace(
        begin=begin, long=long, seen=seen, asked=asked, positions=lengths[-1] + 8
    )


def test_a_second_prompt_that_does_not_fit_ends_the_training_before_it_is_read(with_second):
    """That of a method which does not say how long they are."""
    said = rf"second pass of x, sample {with_second.long}.*tokens of prompt"
    with pytest.raises(ModelError, match=said):
        with_second.begin()
    assert len(with_second.asked) == 12, "each process generates as often as if it fitted"
    assert max(with_second.asked) <= with_second.positions


def test_a_second_prompt_that_does_not_fit_costs_its_sample(with_second, told):
    trained = with_second.begin(reward_errors="drop")
    assert [row["frac_reward_errors"] for row in trained.curve.read()] == pytest.approx([1 / 3] * 2)
    assert any(f"sample {with_second.long}" in note for note in told.notes)
    assert len(with_second.seen) == 4 and {seconds for _, seconds in with_second.seen} == {2}
    assert with_second.long not in {sample for sample, _ in with_second.seen}
    assert max(with_second.asked) <= with_second.positions


TWO = """
import sys
from dataclasses import replace
from pathlib import Path
from harness import plugins
from harness.run.batching import samples_of
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer

data, spec, out, errors = sys.argv[1:]
task = plugins.build("tasks", "reason_seg", Path(data))
model = plugins.build("models", parse(spec))
long = sorted(sample.id for sample in samples_of(task))[0]

def second(sample, rollout):
    text = "far " * 200 if sample.id == long else sample.query.text
    (request,) = model.requests(replace(sample.query, text=text))
    return replace(request, max_new_tokens=2)

settings = Settings(num_generations=2, generation_batch_size=4, per_device_train_batch_size=2,
    max_completion_length=8, max_steps=3, report_to=None, reward_errors=errors)
reward = lambda group: [{"total": float(place)} for place in range(2)]
method = GrpoTrainer(name="x", settings=settings, reward=reward, second=second)
train(method, [task], parse(spec), Path(out), TrainingOptions())
"""


@pytest.mark.slow
@pytest.mark.parametrize("errors", ["stop", "drop"])
def test_all_processes_do_alike_with_a_second_prompt_that_does_not_fit(
    limited, tiny_qwen, examples, task, tmp_path, errors
):
    """In one of them it does not fit: with `stop` all end by its error, with `drop` all go on."""
    lengths = prompts(f"qwen_vl(checkpoint={tiny_qwen})", task)
    line = [sys.executable, "-c", TWO, str(examples), limited(lengths[-1] + 8)]
    line += [str(tmp_path / "out"), errors]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    for rank in "01":
        environment = {**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank}
        started = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True)
        processes.append(started)
    said = [process.communicate(timeout=300)[1] for process in processes]
    ends = [
        (process.returncode, "second pass of x" in text)
        for process, text in zip(processes, said, strict=True)
    ]
    assert ends == [(1, True) if errors == "stop" else (0, False)] * 2


def test_an_example_that_does_not_fit_is_left_out_of_fine_tuning(
    limited, tiny_qwen, task, told, tmp_path
):
    run = TrainingRun(out=tmp_path, tasks=(task,), progress=told)
    assert prepared(f"qwen_vl(checkpoint={tiny_qwen})", task, run, "sft")[1] == []
    with pytest.raises(DataError, match="beyond the network's positions"):
        prepared(limited(16), task, run, "sft")


def test_a_network_is_not_adapted_to_a_prompt_that_does_not_fit(limited, tiny_qwen, task):
    (shortest, *_) = prompts(f"qwen_vl(checkpoint={tiny_qwen})", task)
    base = limited(shortest + 3).removesuffix(")")
    method = "vr_ttrl(base={},max_new_tokens=4,prompt=visionreasoner,segmenter=box),steps=1)"
    model = plugins.build("models", parse(method.format(base)))
    with pytest.raises(ModelError, match="within the network's positions"):
        model.generate([next(samples_of(task)).query])
