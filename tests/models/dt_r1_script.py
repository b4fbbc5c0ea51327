"""A chat that writes what a test scripts, a scene for it, and DT-R1 around both."""

import threading

import numpy as np

from harness import media
from harness.models.dt_r1.environment import Limits, Perception
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.model import DTR1
from harness.models.dt_r1.prompt import TwinPrompt
from harness.testing import ScriptedChat
from harness.types import AnswerForm, Query, query_id

RED, BLUE = (255, 0, 0), (0, 0, 255)
PLAN = '<think>look</think><dt_plan>{"SAM2": [], "SemanticAnalysis": ["SAM2"]}</dt_plan>'


def answered(task, answer, *, think="so"):
    return f"<think>{think}</think><task>{task}</task><answer>{answer}</answer>"


def execute(code):
    return f"<think>compute</think><execute>{code}</execute>"


class Script(ScriptedChat):
    """Answers the requests of a conversation with its turns, in order."""

    def __init__(self, script, *, opened="", **given):
        """`script` has turns by the beginning of the request's key."""

        def turn(request):
            key, _, number = request.key.partition("/turn")
            return script[key][int(number or 0)]

        super().__init__(responses=turn, opening=opened, size=(1, 1), **given)


def scene(name="scene", *, frames=1, form=AnswerForm.MASK, text="Where is the red one?", **given):
    """A red square and a blue rectangle, which move to the right in a video."""
    images = []
    for index in range(frames):
        image = np.full((60, 80, 3), 200, dtype=np.uint8)
        image[10:30, 10 + 2 * index : 30 + 2 * index] = RED
        image[35:55, 40 + 2 * index : 70 + 2 * index] = BLUE
        images.append(image)
    shown = media.pixels(
        images, times=[place / 4 for place in range(frames)], is_video=frames > 1, id=name
    )
    return Query(id=query_id(name), text=text, media=(shown,), forms=(form,), **given)


class Blocked:
    """A builder whose perception of one medium waits until a test lets it go on."""

    def __init__(self, builder, name):
        self.builder, self.name = builder, name
        self.catalog, self.describe = builder.catalog, builder.describe
        self.go_on = threading.Event()
        self.waited = False

    def build(self, medium, plan, phrases):
        if medium.id == self.name:
            self.waited = self.go_on.wait(20)
        return self.builder.build(medium, plan, phrases)


def scripted(turns, *, perception, kind=DTR1, limits=None, max_new_tokens=20_000, **given):
    chat = Script(turns, **given)
    prompt = TwinPrompt(perception.builder.catalog.text())
    return kind(
        name="dt_r1",
        chat=chat,
        prompt=prompt,
        perception=perception,
        limits=limits or Limits(),
        max_new_tokens=max_new_tokens,
    )


def perceiving(builder=None):
    return Perception(builder or TwinBuilder(), workers=2)
