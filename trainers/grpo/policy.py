"""The network that learns: what it computes on, and what the loss sees of it."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import (
    DeepSpeedPlugin,
    DistributedDataParallelKwargs,
    InitProcessGroupKwargs,
)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import GenerationConfig

from harness.errors import UsageError
from harness.models.backends.networks import end_tokens
from harness.models.backends.transformers import TransformersChat
from harness.models.learning import weights
from harness.store.atomic import read_json
from harness.trainers.grpo.settings import Settings
from harness.trainers.session import PATIENCE, started
from harness.trainers.sft import network as networks

LOGITS_AT_ONCE = 1 << 27
"""Numbers of logits (tokens × vocabulary) that are held at once, 0.5 GB in float32."""


def accelerator_of(settings: Settings, device: str) -> Accelerator:
    """Return what lets several processes, or DeepSpeed, find each other.

    To be called before anything is loaded.

    Raises:
        UsageError: a round cannot be shared evenly among the processes, or an adapter is to be
            trained on weights that ZeRO-3 has spread.
        MissingDependency: DeepSpeed is not installed.
    """
    accumulated = settings.accumulation_steps(started())
    plugin = deepspeed_plugin(settings, accumulated)
    # A training before in this process may have had another one.
    AcceleratorState._reset_state(reset_partial_state=True)
    waiting = InitProcessGroupKwargs(timeout=timedelta(seconds=PATIENCE))
    return Accelerator(
        # Without CUDA it has to be said, or several processes do not find each other.
        cpu=device == "cpu" or not torch.cuda.is_available(),
        mixed_precision="bf16" if settings.bf16 or settings.dtype == "bfloat16" else "no",
        gradient_accumulation_steps=accumulated,
        deepspeed_plugin=plugin,
        # A prompt without images leaves the vision tower without gradients.
        kwargs_handlers=[waiting, DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def deepspeed_plugin(settings: Settings, accumulated: int) -> DeepSpeedPlugin | None:
    """Return DeepSpeed's configuration, completed by the settings; None: it is not used."""
    file = networks.deepspeed_file(settings.deepspeed)
    if file is None:
        return None
    own = {
        "train_micro_batch_size_per_gpu": settings.per_device_train_batch_size,
        "gradient_accumulation_steps": accumulated,
        "gradient_clipping": settings.max_grad_norm,
    }
    given = read_json(Path(file))
    stage = (given.get("zero_optimization") or {}).get("stage", 0)
    if settings.finetune == "lora" and stage == 3:
        raise UsageError(
            f"finetune=lora and deepspeed={settings.deepspeed}",
            expected="weights that are whole on each device, which the adapter is merged into",
            found="ZeRO-3, which spreads them",
            fix="deepspeed=zero2 spreads gradients and the optimiser alone.",
        )
    auto = {name: value for name, value in own.items() if given.get(name, "auto") == "auto"}
    return DeepSpeedPlugin(hf_ds_config={**given, **auto})


class Policy(nn.Module):
    """A network as the loss sees it: log-probabilities and entropies of what it wrote."""

    is_gradient_checkpointing = False  # TRL asks; it is off while `eval()` is on

    def __init__(self, network: Any, temperature: float) -> None:
        super().__init__()
        self.network, self.config, self.temperature = network, network.config, temperature

    def forward(self, inputs: Mapping[str, Tensor], mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B × T each), 0 where `mask` is.

        Logits are made for these tokens alone, and some at a time: for a vocabulary of 150,000
        those of a whole batch would be the largest tensor of a training.
        """
        whole = getattr(self.network, "get_base_model", lambda: self.network)()
        hidden = whole.base_model(**inputs, use_cache=False).last_hidden_state
        width, counts = mask.shape[1], mask.bool()
        before = hidden[:, -width - 1 : -1][counts]
        targets = inputs["input_ids"][:, -width:][counts]
        head = whole.get_output_embeddings()
        rows = max(1, LOGITS_AT_ONCE // self.config.get_text_config().vocab_size)
        again = len(before) > rows and torch.is_grad_enabled()
        scored = partial(checkpoint, _scored, use_reentrant=False) if again else _scored
        parts = zip(torch.split(before, rows), torch.split(targets, rows), strict=True)
        found = [scored(head, self.temperature, *part) for part in parts]
        logps, entropies = (torch.cat(several) for several in zip(*found, strict=True))
        empty = logps.new_zeros(mask.shape)
        return empty.masked_scatter(counts, logps), empty.masked_scatter(counts, entropies)


def _scored(head: Any, heat: float, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logps = (head(hidden).float() / heat).log_softmax(dim=-1)
    return logps.gather(1, targets[:, None])[:, 0], -(logps.exp() * logps).sum(dim=-1)


def load_policy(chat: TransformersChat, settings: Settings) -> Any:
    """Return the network of a backend, with what is frozen and the adapter that settings want."""
    network = _base(chat, settings)
    tokenizer = chat.processor.tokenizer
    # Of the checkpoint's settings of generation, evaluation's backend takes none either.
    network.generation_config = GenerationConfig(
        eos_token_id=list(end_tokens(chat.folder, tokenizer)), pad_token_id=tokenizer.pad_token_id
    )
    if settings.freeze_vision:
        weights.freeze_vision(network)
    if settings.gradient_checkpointing:
        network.gradient_checkpointing_enable({"use_reentrant": False})
    if settings.finetune == "full":
        return network
    own = {"r": settings.lora_r, "lora_alpha": settings.lora_alpha, "layers": settings.lora_layers}
    return weights.with_adapter(network, **own)


def reference_of(chat: TransformersChat, settings: Settings, accelerator: Accelerator) -> Any:
    """Return the policy that training begins with, as far as it is another network.

    None if it is not needed, or is the policy without its adapter.
    """
    if not settings.beta or settings.finetune == "lora":
        return None
    policy = Policy(_base(chat, settings).requires_grad_(False), settings.temperature).eval()
    if not zero_stage(accelerator):
        return policy.to(accelerator.device)
    from trl.models.utils import prepare_deepspeed

    return prepare_deepspeed(policy, accelerator)


def _base(chat: TransformersChat, settings: Settings) -> Any:
    return networks.load(chat, dtype=chat.dtype if settings.dtype == "auto" else settings.dtype)


def zero_stage(accelerator: Accelerator) -> int:
    """Return ZeRO's stage; 0: DeepSpeed is not used."""
    plugin = accelerator.state.deepspeed_plugin
    return 0 if plugin is None else int(plugin.zero_stage)
