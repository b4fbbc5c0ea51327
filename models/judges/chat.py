"""The plugin `chat` for judges: a language model that grades free-text answers by a rubric.

A scorer gives question, answer and ground truth; the rubric makes the prompt and reads the grade.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harness import plugins
from harness.backend import Chat
from harness.chat import ChatRequest
from harness.judge import Verdict
from harness.judging import Case
from harness.judging import rubric as rubric_of
from harness.spec import Spec

NAMED_SETTINGS = ("backend", "checkpoint", "model", "weights", "revision", "temperature", "seed")
"""Settings of the backend that the judge's name shows, because grades depend on them."""


@dataclass(frozen=True, kw_only=True)
class ChatJudge:
    """Judge that sends one request to a language model for each verdict."""

    chat: Chat
    max_new_tokens: int

    @property
    def name(self) -> str:
        """`chat(…)` with the backend's model, weights and sampling settings."""
        description = self.chat.describe()
        chat_settings = {
            key: description[key] for key in NAMED_SETTINGS if description.get(key) is not None
        }
        settings = {**chat_settings, "max_new_tokens": self.max_new_tokens}
        return "chat(" + ",".join(f"{key}={value}" for key, value in settings.items()) + ")"

    @property
    def cost(self) -> float:
        """Cost of its requests so far, in the unit of the backend's prices; 0 without prices."""
        return self.chat.cost

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""
        return {"judge": "chat", "max_new_tokens": self.max_new_tokens, **self.chat.describe()}

    def prepare(self) -> None:
        """Load the language model, or check that its server answers."""
        self.chat.prepare()

    def judge(self, rubric: str, question: str, answer: str, ground_truth: str) -> Verdict:
        """Return the verdict that the language model gives by the rubric of this name."""
        grading, case = rubric_of(rubric), Case(question, answer, ground_truth)
        request = ChatRequest(
            key=grading.key(case, ""),
            text=grading.prompt_for(case),
            max_new_tokens=max(self.max_new_tokens, grading.max_new_tokens or 0),
        )
        return grading.verdict(self.chat.generate([request])[0].text)


def chat(*, backend: Spec, max_new_tokens: int = 16) -> ChatJudge:
    """Build a judge from a chat backend, such as `chat(backend=transformers(checkpoint=DIR))`.

    Args:
        backend: The language model; it samples as its own arguments say.
        max_new_tokens: Largest number of tokens of a response, unless the rubric needs more; a
            grade is short.
    """
    return ChatJudge(chat=plugins.build("backends", backend), max_new_tokens=max_new_tokens)
