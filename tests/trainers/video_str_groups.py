"""Responses, graphs and groups for tests of the rewards of Video-STR, SpaceR and Video-R1."""

import numpy as np

from harness import media
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.spacer.rewards import SpacerAccuracy, SpacerReward
from harness.trainers.video_r1.rewards import (
    TemporalReward,
)
from harness.trainers.video_str.graphs import to_plain
from harness.trainers.video_str.nodes import FrameGraph, Node
from harness.types import Answer, AnswerForm, Query, Sample, Target


def said(text, think="t"):
    return f"<think>{think}</think><answer>{text}</answer>"


# -- whole rewards

NODES = (
    Node(category="star", centre=(0.0, 0.0, 1.0)),
    Node(category="cross", centre=(1.0, 0.5, 2.0)),
)


def group(
    *texts, form=AnswerForm.CHOICE, answer=None, tokens=400, extra=None, seconds=(), frames=6
):
    images = [np.zeros((6, 8, 3), np.uint8)] * frames
    shown = media.pixels(images, times=range(frames), is_video=frames > 1, id="v")
    query = Query(id="q", text="?", media=(shown,), forms=(form,))
    answer = answer or Answer(choice="B")
    sample = Sample(id="s", query=query, target=Target(answer=answer, extra=extra or {}))
    return Group(
        sample=sample,
        rollouts=tuple(Rollout(text=text, tokens=tokens) for text in texts),
        seconds=tuple(Rollout(text=text, tokens=1) for text in seconds),
        canvas=(8, 6),
        count_tokens=len,
        frames=(tuple(range(0, frames, 2)),),
    )


def graphs(*frames):
    return {"graphs": to_plain(FrameGraph(frame=frame, nodes=NODES) for frame in frames)}


def spacer_reward(**settings):
    accuracy = SpacerAccuracy(**settings)
    return SpacerReward(accuracy=accuracy, temporal=TemporalReward(accuracy=accuracy))
