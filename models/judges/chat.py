"""A chat backend as a judge: the rubric's prompt in, a grade out."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatRequest
from harness.judge import Verdict
from harness.judging import Case
from harness.judging import rubric as find
from harness.spec import Spec

SHOWN = ("backend", "checkpoint", "model", "weights", "revision", "temperature", "seed")


@dataclass(frozen=True, kw_only=True)
class ChatJudge:
    """Judge that sends one request to a language model for each verdict."""

    chat: Chat
    max_new_tokens: int

    @property
    def name(self) -> str:
        """The backend's model, weights and temperature; the prompt is the rubric's."""
        description = self.chat.describe()
        shown = {key: description[key] for key in SHOWN if description.get(key) is not None}
        settings = {**shown, "max_new_tokens": self.max_new_tokens}
        return "chat(" + ",".join(f"{key}={value}" for key, value in settings.items()) + ")"

    def describe(self) -> Mapping[str, object]:
        """Plain data for the record."""
        return {"judge": "chat", "max_new_tokens": self.max_new_tokens, **self.chat.describe()}

    def prepare(self) -> None:
        """Load the language model, or see that its server is there."""
        self.chat.prepare()

    def judge(self, rubric: str, question: str, answer: str, ground_truth: str) -> Verdict:
        """Send one request; the rubric reads the response."""
        by, case = find(rubric), Case(question, answer, ground_truth)
        request = ChatRequest(
            key=by.key(case, ""),
            text=by.prompt_for(case),
            max_new_tokens=max(self.max_new_tokens, by.max_new_tokens or 0),
        )
        return by.verdict(self.chat.generate([request])[0].text)


def chat(*, backend: Spec, max_new_tokens: int = 16) -> ChatJudge:
    """Build a judge from a chat backend, such as `chat(backend=transformers(checkpoint=DIR))`.

    Args:
        backend: The language model; it samples as its own arguments say.
        max_new_tokens: Where a response is cut off, unless the rubric says that it needs more room.
            A grade is short.
    """
    return ChatJudge(chat=plugins.build("backends", backend), max_new_tokens=max_new_tokens)
