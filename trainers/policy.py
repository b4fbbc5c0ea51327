"""The network that learns: what it computes on, and what the loss sees of it."""

import warnings
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import (
    DeepSpeedPlugin,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
    InitProcessGroupKwargs,
)
from torch import Tensor, nn
from transformers import GenerationConfig

from harness.errors import UsageError
from harness.models.backends.prompt_prefix import read_prompts, states_after
from harness.models.backends.row_scores import score_tokens, softcap_of
from harness.models.backends.transformers import TransformersChat
from harness.models.learning import weights
from harness.store.atomic import read_json
from harness.trainers import network as networks
from harness.trainers.rows import ROWS
from harness.trainers.session import PATIENCE, started
from harness.trainers.settings import TrainingSettings

# A name that transformers gives up, and releases that are allowed still want; PEFT asks by it, too.
warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)


def accelerator_of(settings: TrainingSettings, chat: TransformersChat) -> Accelerator:
    """Return what lets several processes, or DeepSpeed, find each other, before all is loaded.

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
        cpu=chat.device == "cpu" or not torch.cuda.is_available(),
        mixed_precision="bf16" if networks.types_of(chat, settings)[1] else "no",
        # Rounds come from no data loader; one that a training before has left at its end would make
        # every batch a step.
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=accumulated, sync_with_dataloader=False
        ),
        deepspeed_plugin=plugin,
        # A prompt without images leaves the vision tower without gradients.
        kwargs_handlers=[waiting, DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def deepspeed_plugin(settings: TrainingSettings, accumulated: int) -> DeepSpeedPlugin | None:
    """Return DeepSpeed's configuration, completed by the settings; None: it is not used."""
    file = networks.deepspeed_file(settings.deepspeed)
    if file is None:
        return None
    given = read_json(Path(file))
    if settings.finetune == "lora" and given.get("zero_optimization", {}).get("stage") == 3:
        raise UsageError(
            f"finetune=lora and deepspeed={settings.deepspeed}",
            expected="whole weights on each device, into which the adapter is merged",
            found="ZeRO-3, which shards them",
            fix="deepspeed=zero2 shards only gradients and the optimiser.",
        )
    own = {
        "train_micro_batch_size_per_gpu": settings.per_device_train_batch_size,
        "gradient_accumulation_steps": accumulated,
        "gradient_clipping": settings.max_grad_norm,
    }
    auto = {name: value for name, value in own.items() if given.get(name, "auto") == "auto"}
    return DeepSpeedPlugin(hf_ds_config={**given, **auto})


class Policy(nn.Module):
    """A network as the loss sees it: log-probabilities and entropies of what it wrote."""

    is_gradient_checkpointing = False  # TRL asks; it is off while `eval()` is on

    def __init__(self, network: networks.Network, temperature: float) -> None:
        super().__init__()
        self.network, self.config, self.temperature = network, network.config, temperature
        self.softcap = softcap_of(network)

    def forward(
        self,
        inputs: Mapping[str, Tensor],
        mask: Tensor,
        prompts: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B × T each), 0 where `mask` is.

        With `prompts`, see `shared_prompts`, each of them is read once for all of its rows.
        """
        whole = getattr(self.network, "get_base_model", lambda: self.network)()
        width, counts = mask.shape[1], mask.bool()
        tokens = inputs["input_ids"][:, -width:]
        if prompts is None:
            hidden = whole.base_model(**inputs, use_cache=False).last_hidden_state[:, :-1]
        else:
            given = {name: one for name, one in prompts.items() if name != ROWS}
            seen = inputs["attention_mask"][:, -width:]
            hidden = states_after(whole, read_prompts(whole, given), tokens, seen, prompts[ROWS])
        scores = score_tokens(
            hidden[:, -width:][counts],
            tokens[counts],
            head=whole.get_output_embeddings(),
            temperature=self.temperature,
            softcap=self.softcap,
        )
        logp, entropy = (one.new_zeros(mask.shape).masked_scatter(counts, one) for one in scores)
        return logp, entropy


def load_policy(
    chat: TransformersChat, settings: TrainingSettings, *, lora_dropout: float
) -> networks.Network:
    """Return the network of a backend, with what is frozen and the adapter that settings want."""
    network = networks.load(chat, dtype=networks.types_of(chat, settings)[0])
    # Of the checkpoint's settings of generation, evaluation's backend takes none either.
    network.generation_config = GenerationConfig(
        eos_token_id=list(chat.end_tokens), pad_token_id=chat.processor.tokenizer.pad_token_id
    )
    if settings.freeze_vision:
        weights.freeze_vision(network)
    if settings.gradient_checkpointing:
        network.gradient_checkpointing_enable({"use_reentrant": False})
    if settings.finetune == "full":
        return network
    return weights.with_adapter(
        network,
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=lora_dropout,
        layers=settings.lora_layers,
    )


def zero_stage(accelerator: Accelerator) -> int:
    """Return ZeRO's stage; 0: DeepSpeed is not used."""
    plugin = accelerator.state.deepspeed_plugin
    return 0 if plugin is None else int(plugin.zero_stage)


def frozen_policy(policy: Policy, accelerator: Accelerator) -> nn.Module:
    """Return a policy that is not trained, on the device, or spread over all by ZeRO."""
    policy.requires_grad_(False).eval()
    if not zero_stage(accelerator):
        return policy.to(accelerator.device)
    from trl.models.utils import prepare_deepspeed

    spread: nn.Module = prepare_deepspeed(policy, accelerator)
    return spread
