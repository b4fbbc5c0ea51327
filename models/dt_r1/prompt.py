"""DT-R1's prompt: the paper's words, and this project's words where the paper prints none."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.models.grammar import ParseResult
from harness.models.prompts import Wording, asked_briefly, fill, text_of


@dataclass(frozen=True, slots=True)
class TwinPrompt:
    """Makes the prompt for a question; the responses are read by `dt_r1.grammar`."""

    nodes: str
    """One line for each node that a plan may name (`Catalog.text`)."""
    wording: Wording = "paper"
    details: bool = True
    """Add how plans and answers are written, which the paper's words do not say."""

    name = "dt_r1"
    resize = None

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the prompt for a question; no frames are shown, so none is `numbered`."""
        del numbered
        if self.wording == "short":
            return asked_briefly(text)
        parts = [text_of("harness.models.dt_r1", "prompt.txt")]
        if self.details:
            details = text_of("harness.models.dt_r1", "details.txt")
            parts.append(fill(details, Nodes=self.nodes))
        return "\n\n".join([*parts, f"Query: {text}"])

    def parse(self, response: str) -> ParseResult:
        """Return an empty result: a response names masks of the twin, which an episode resolves."""
        del response
        return ParseResult()
