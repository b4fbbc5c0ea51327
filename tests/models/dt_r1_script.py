"""A chat that writes what a test scripts, a scene for it, and DT-R1 around both."""

import threading
from dataclasses import dataclass, field

import numpy as np

from harness import media
from harness.model import Chat, ChatResponse
from harness.models.backends.stop_strings import until_stop
from harness.models.dt_r1.environment import Limits, Perception
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.model import DTR1, TwinPrompt
from harness.types import AnswerForm, Query, query_id

RED, BLUE = (255, 0, 0), (0, 0, 255)
PLAN = '<think>look</think><dt_plan>{"SAM2": [], "SemanticAnalysis": ["SAM2"]}</dt_plan>'


def answered(task, answer, *, think="so"):
    return f"<think>{think}</think><task>{task}</task><answer>{answer}</answer>"


def execute(code):
    return f"<think>compute</think><execute>{code}</execute>"


@dataclass(eq=False)
class Script(Chat):
    """Answers the requests of a conversation with its turns, in order; whole words are tokens."""

    script: dict
    """Turns by the beginning of the request's key."""
    batch_size: int = 4
    coordinates: str = "pixels"
    as_tokens: bool = True
    opened: str = ""
    requests: list = field(default_factory=list)

    @property
    def goes_on(self):
        return True

    @property
    def opening(self):
        return self.opened

    def describe(self):
        return {"backend": "script"}

    def canvas(self, request):
        return (1, 1)

    def count_tokens(self, text):
        return len(text.encode())

    def encode(self, text):
        return tuple(text.encode()) if self.as_tokens else ()

    def decode(self, tokens):
        return bytes(tokens).decode()

    def generate(self, requests):
        return [self.respond(one) for one in requests]

    def respond(self, request):
        self.requests.append(request)
        key, _, turn = request.key.partition("/turn")
        text = self.script[key][int(turn or 0)]
        cut = len(text.encode()) > request.max_new_tokens
        text = text.encode()[: request.max_new_tokens].decode("utf-8", "ignore")
        whole = ChatResponse(text=f"{request.prefix}{text}", cut=cut)
        found = until_stop(whole, request)
        written = f"{found.text.removeprefix(request.prefix)}{found.stopped}"
        tokens = tuple(written.encode()) if self.as_tokens else ()
        return ChatResponse(
            text=found.text, tokens=tokens, stopped=found.stopped, cut=found.cut, prompt_tokens=1
        )


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

    def build(self, medium, plan):
        if medium.id == self.name:
            self.waited = self.go_on.wait(20)
        return self.builder.build(medium, plan)


def scripted(turns, *, perception, kind=DTR1, limits=None, max_new_tokens=20_000, **given):
    chat = Script(script=turns, **given)
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
