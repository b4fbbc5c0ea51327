"""The second pass: the description in the question's place, to the same policy.

Its text earns rewards for the first pass. No token of it enters the loss ("used to compute
self-rewards", C.2).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.chat import ChatRequest
from harness.models.dr2seg.grammar import Form, description
from harness.models.grammar import split_frame
from harness.models.pipeline import PromptedModel
from harness.trainers.grpo.method import Rollout, request_of
from harness.types import Sample

LONGEST = 64
"""Tokens of a description; a longer one is none and earns nothing. This is ours: the paper has no
limit, and a description as long as the reasoning could be the reasoning."""

DUMMY = "object"
"""Question of the second pass where there is no description. Its result is not used."""


def description_of(
    response: str, count_tokens: Callable[[str], int], *, form: Form, longest: int = LONGEST
) -> str:
    """The description of a first response; empty if it has none, or one of too many tokens."""
    text = description(split_frame(response)[1], form=form)
    return text if text and count_tokens(text) <= longest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPassPrompt:
    """Words the second request of each rollout, as the first but for the question.

    A malformed rollout leads to a request too, a dummy's: with several devices all have to
    generate equally often.
    """

    model: PromptedModel
    form: Form
    max_new_tokens: int
    longest: int = LONGEST

    def __call__(self, sample: Sample, rollout: Rollout) -> ChatRequest:
        """The request for one rollout."""
        text = description_of(
            rollout.text, self.model.chat.count_tokens, form=self.form, longest=self.longest
        )
        query = replace(sample.query, text=text or DUMMY)
        first = request_of(self.model, replace(sample, query=query))
        return replace(first, max_new_tokens=self.max_new_tokens)
