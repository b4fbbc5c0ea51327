"""What the network said to one query, and what that cost."""

from dataclasses import dataclass, replace

from harness.model import ChatReply
from harness.types import Prediction


@dataclass(frozen=True, slots=True)
class Asked:
    """What the network said to one query."""

    replies: tuple[ChatReply, ...]
    frames: int | None = None
    """Frames that were shown, if others than the rule's."""

    def counted(self, prediction: Prediction) -> Prediction:
        """A prediction with what the network counted while it was asked."""
        again = [
            f"asked again, begun with {reply.again!r}"
            + (f", to no avail: {reply.in_vain}" if reply.in_vain else "")
            for reply in self.replies
            if reply.again
        ]
        cut = [
            "cut off" if reply.again else f"cut off after {reply.completion_tokens} tokens"
            for reply in self.replies
            if reply.cut
        ]
        usage = replace(
            prediction.usage,
            prompt_tokens=sum(reply.prompt_tokens for reply in self.replies),
            completion_tokens=sum(reply.completion_tokens for reply in self.replies),
            frames=prediction.usage.frames if self.frames is None else self.frames,
        )
        return replace(prediction, usage=usage, notes=(*prediction.notes, *again, *cut))
