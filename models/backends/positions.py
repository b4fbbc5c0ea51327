"""Number of positions of a network: the most tokens that a prompt and its response may have.

Beyond it a network with learned positions fails, and one with rotary positions was never trained.
Training and test-time training check their prompts here; vLLM checks the same by its own option
`max_model_len`. A sliding window is not a limit: tokens outside it are unseen, but allowed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from harness.models.backends.loading import loading

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def saved_positions(folder: Path) -> int | None:
    """Return the number of positions of a checkpoint's network; None: it states no limit.

    Raises:
        ModelError: the configuration cannot be read.
    """
    from transformers import AutoConfig

    with loading(f"configuration of checkpoint {folder}"):
        # By transformers, because config.json may leave out the architecture's defaults.
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return positions_of(config)


def positions_of(config: "PretrainedConfig") -> int | None:
    """Return the number of positions of a network's language model; None: it states no limit.

    It is `max_position_embeddings`, or the reach of scaled rotary positions (YaRN: `factor` times
    `original_max_position_embeddings`), whichever is larger.
    """
    text = config.get_text_config()
    stated = getattr(text, "max_position_embeddings", None)
    if not isinstance(stated, int) or stated < 1:
        return None
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    original = rope.get("original_max_position_embeddings") or 1
    return max(stated, int(original * (rope.get("factor") or 1)))


def beyond(prompt: int, response: int, positions: int | None) -> str:
    """Return why tokens of a prompt and of its longest response do not fit; "" if they do."""
    if positions is None or prompt + response <= positions:
        return ""
    return f"{prompt} tokens of prompt and up to {response} of response, for {positions} positions"
