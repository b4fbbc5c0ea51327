"""Build DR2Seg's second requests, in which a rollout's description replaces the question.

The responses of the second pass determine rewards of the first pass. Their tokens do not enter the
loss ("used to compute self-rewards", C.2).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.chat import ChatRequest
from harness.models.dr2seg.grammar import Form, description
from harness.models.grammar import split_frame
from harness.models.pipeline import PromptedModel
from harness.trainers.grpo.method import Rollout, request_of
from harness.types import Sample

MAX_TOKENS = 64
"""Largest number of tokens of a description; a longer one counts as missing and earns nothing. The
paper has no limit, but then a description could repeat the whole reasoning."""

DUMMY = "object"
"""Question of the second pass for a rollout without a description; its result is not used."""


def description_of(
    response: str, count_tokens: Callable[[str], int], *, form: Form, longest: int = MAX_TOKENS
) -> str:
    """Return the description of a first response; empty: none, or of more than `longest` tokens."""
    text = description(split_frame(response)[1], form=form)
    return text if text and count_tokens(text) <= longest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPassPrompt:
    """Builds the second request of each rollout; it differs from the first only in the question.

    A rollout without a description gets a request with the question DUMMY, because with several
    devices all must generate equally often.
    """

    model: PromptedModel
    form: Form
    max_new_tokens: int
    longest: int = MAX_TOKENS

    def __call__(self, sample: Sample, rollout: Rollout) -> ChatRequest:
        """Return the second request of one rollout."""
        text = description_of(
            rollout.text, self.model.chat.count_tokens, form=self.form, longest=self.longest
        )
        query = replace(sample.query, text=text or DUMMY)
        request = request_of(self.model, replace(sample, query=query))
        return replace(request, max_new_tokens=self.max_new_tokens)
