"""Rewards of SpaceR and Video-R1 against what their official functions said of seeded responses."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from harness import media
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.spacer.rewards import SpacerAccuracy
from harness.trainers.video_r1.rewards import VideoR1Accuracy, format_reward
from harness.trainers.video_str.answers import answer
from harness.types import Answer, AnswerForm, Query, Sample, Target

FOLDER = Path(__file__).parents[1] / "golden" / "spatial_rewards"
IMAGE = media.pixels([np.zeros((4, 4, 3), np.uint8)], times=[0], is_video=False, id="p")


def module():
    spec = importlib.util.spec_from_file_location("spatial_responses", FOLDER / "responses.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


RESPONSES = module()
GOLDEN = json.loads((FOLDER / "scores.json").read_text())


def group(case) -> Group:
    kind, ground_truth = case["kind"], case["ground_truth"]
    extra = {"map": RESPONSES.TRUE_MAP, "problem_type": kind, "solution": ground_truth}
    if kind == "multiple choice":
        form, answer = AnswerForm.CHOICE, Answer(choice=ground_truth)
    elif kind == "OCR":
        form, answer = AnswerForm.TEXT, Answer(text=ground_truth)
    else:
        form, answer = AnswerForm.NUMBER, Answer(number=float(ground_truth))
    query = Query(id="q", text="?", media=(IMAGE,), forms=(form,))
    rollout = Rollout(text=case["response"], tokens=1)
    return Group(
        sample=Sample(id="s", query=query, target=Target(answer=answer, extra=extra)),
        rollouts=(rollout,),
        canvas=(4, 4),
        count_tokens=len,
    )


@pytest.mark.parametrize(
    ("name", "accuracy"), [("SpaceR", SpacerAccuracy()), ("Video-R1", VideoR1Accuracy())]
)
def test_accuracy_and_format_equal_the_official_ones(name, accuracy):
    cases = list(RESPONSES.cases(GOLDEN["seed"], GOLDEN["number"]))
    wrong, hacks = [], []
    for number, (case, (official, formatted)) in enumerate(zip(cases, GOLDEN[name], strict=True)):
        made = group(case)
        ours = accuracy(made, made.rollouts[0])
        if case["kind"] == "regression" and official == 1 and ours == 0:
            hacks.append(answer(case["response"]))
            continue
        if abs(ours - official) > 1e-12 or format_reward(case["response"]) != formatted:
            wrong.append((number, case, ours, official, formatted))
    assert not wrong, wrong[:3]
    assert set(hacks) == {"nan"}, "the official code holds it right whatever is true"
    scores = [row[0] for row in GOLDEN[name]]
    assert len({round(score, 6) for score in scores}) > 5
    assert 0.05 < np.mean(scores) < 0.5
