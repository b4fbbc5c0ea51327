"""Positions that a network was made for: the most tokens of a prompt and its response together.

Beyond them a network with learned positions fails, and one with rotary positions writes what it was
never taught to. Training and test-time training ask here; vLLM has the same limit of its own
(`max_model_len`). A sliding window is not a limit: tokens outside it are not seen, but are there.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from harness.models.backends.loading import loading

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def saved_positions(folder: Path) -> int | None:
    """Return the positions of the network of a checkpoint; None: it states no limit."""
    from transformers import AutoConfig

    with loading(f"configuration of checkpoint {folder}"):
        # Numbers that the file leaves out are those of the architecture.
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return positions_of(config)


def positions_of(config: "PretrainedConfig") -> int | None:
    """Return the positions of a network's language model; None: it states no limit.

    They are `max_position_embeddings`, or what scaled rotary positions reach (YaRN: `factor` times
    `original_max_position_embeddings`), whichever is more.
    """
    text = config.get_text_config()
    stated = getattr(text, "max_position_embeddings", None)
    if not isinstance(stated, int) or stated < 1:
        return None
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    original, factor = (
        rope.get(name) or 1 for name in ("original_max_position_embeddings", "factor")
    )
    return max(stated, int(original * factor))


def beyond(prompt: int, response: int, positions: int | None) -> str:
    """Return why tokens of a prompt, and of its longest response, do not fit; empty if they do."""
    if positions is None or prompt + response <= positions:
        return ""
    return f"{prompt} tokens of prompt and up to {response} of response, for {positions} positions"
