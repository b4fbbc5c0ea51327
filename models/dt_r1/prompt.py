"""DT-R1's prompt: the paper's words, and ours on what the paper does not print."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.models.grammar import ParseResult
from harness.models.prompts import Wording, asked_briefly, fill, text_of


@dataclass(frozen=True, slots=True)
class TwinPrompt:
    """The prompt: the paper's words, and ours on what the paper does not print."""

    nodes: str
    """One line a node that a plan may name."""
    wording: Wording = "paper"
    details: bool = True
    """Say how plans and answers are written, which the paper's words do not."""

    name = "dt_r1"
    resize = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt for a question; no frames are shown, so none is `numbered`."""
        del numbered
        if self.wording == "short":
            return asked_briefly(text)
        parts = [text_of("harness.models.dt_r1", "prompt.txt")]
        if self.details:
            plain = text_of("harness.models.dt_r1", "details.txt")
            parts.append(fill(plain, Nodes=self.nodes))
        return "\n\n".join([*parts, f"Query: {text}"])

    def parse(self, response: str) -> ParseResult:
        """Return nothing: places stand in the twin, and are in a rollout's facts."""
        del response
        return ParseResult()
