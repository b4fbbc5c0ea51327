"""`Policy`: a network as the loss sees it, tokens in, log-probabilities and entropies out.

Also made here, from the settings of a training: the `Accelerator` that connects processes and
DeepSpeed, and the network with its adapter and frozen parts.
"""

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
from harness.trainers.session import PATIENCE_SECONDS, started
from harness.trainers.settings import TrainingSettings

# transformers deprecates this name; PEFT, and older transformers that we allow, still use it.
warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)


def accelerator_of(settings: TrainingSettings, chat: TransformersChat) -> Accelerator:
    """Return the accelerator that connects the processes of a training, or sets up DeepSpeed.

    It is made before any weight is loaded.

    Raises:
        UsageError: a round cannot be shared evenly among the processes, or an adapter is to be
            trained on weights that ZeRO-3 has sharded.
        MissingDependency: DeepSpeed is not installed.
    """
    accumulated = settings.accumulation_steps(started())
    plugin = deepspeed_plugin(settings, accumulated)
    # An earlier training in this process may have left a state of other settings.
    AcceleratorState._reset_state(reset_partial_state=True)
    timeout = InitProcessGroupKwargs(timeout=timedelta(seconds=PATIENCE_SECONDS))
    return Accelerator(
        # Without CUDA this must be set, or several processes do not find each other.
        cpu=chat.device == "cpu" or not torch.cuda.is_available(),
        mixed_precision="bf16" if networks.types_of(chat, settings)[1] else "no",
        # Our batches come from no data loader. A finished one, left by an earlier training, would
        # make every batch a step.
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=accumulated, sync_with_dataloader=False
        ),
        deepspeed_plugin=plugin,
        # A prompt without images leaves the vision tower without gradients.
        kwargs_handlers=[timeout, DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def deepspeed_plugin(settings: TrainingSettings, accumulated: int) -> DeepSpeedPlugin | None:
    """Return DeepSpeed's configuration; None: it is not used.

    Batch size, `accumulated` batches a step, and clipping that are absent or `auto` in the file
    are taken from the settings.
    """
    file = networks.deepspeed_file(settings.deepspeed)
    if file is None:
        return None
    config = read_json(Path(file))
    if settings.finetune == "lora" and config.get("zero_optimization", {}).get("stage") == 3:
        raise UsageError(
            f"finetune=lora and deepspeed={settings.deepspeed}",
            expected="whole weights on each device, into which the adapter is merged",
            found="ZeRO-3, which shards them",
            fix="deepspeed=zero2 shards only gradients and the optimiser.",
        )
    ours = {
        "train_micro_batch_size_per_gpu": settings.per_device_train_batch_size,
        "gradient_accumulation_steps": accumulated,
        "gradient_clipping": settings.max_grad_norm,
    }
    auto = {name: value for name, value in ours.items() if config.get(name, "auto") == "auto"}
    return DeepSpeedPlugin(hf_ds_config={**config, **auto})


class Policy(nn.Module):
    """A network as the loss sees it: log-probabilities and entropies of completions."""

    is_gradient_checkpointing = False  # read by TRL before it generates, which is under `eval()`

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
        """Return log-probabilities and entropies of completions (B × T each), in nats.

        Args:
            inputs: Inputs of the network for B rows: prompts, then completions of width T.
            mask: 1 for tokens that count (B × T); the results are 0 for the others.
            prompts: Each different prompt once (`shared_prompts`), to be computed once for all of
                its rows; None: prompts and completions are computed together.
        """
        network = getattr(self.network, "get_base_model", lambda: self.network)()  # within PEFT's
        width, is_counted = mask.shape[1], mask.bool()
        tokens = inputs["input_ids"][:, -width:]
        if prompts is None:
            hidden = network.base_model(**inputs, use_cache=False).last_hidden_state[:, :-1]
        else:
            tensors = {name: tensor for name, tensor in prompts.items() if name != ROWS}
            is_token = inputs["attention_mask"][:, -width:]
            prefix = read_prompts(network, tensors)
            hidden = states_after(network, prefix, tokens, is_token, prompts[ROWS])
        scores = score_tokens(
            hidden[:, -width:][is_counted],
            tokens[is_counted],
            head=network.get_output_embeddings(),
            temperature=self.temperature,
            softcap=self.softcap,
        )
        logp, entropy = (
            score.new_zeros(mask.shape).masked_scatter(is_counted, score) for score in scores
        )
        return logp, entropy


def load_policy(
    chat: TransformersChat, settings: TrainingSettings, *, lora_dropout: float
) -> networks.Network:
    """Load the network of a backend; freeze parts and add an adapter as the settings say."""
    network = networks.load(chat, dtype=networks.types_of(chat, settings)[0])
    # The checkpoint's own generation settings are not used, as in evaluation.
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
    """Return the ZeRO stage of DeepSpeed, 1 to 3; 0: DeepSpeed is not used."""
    plugin = accelerator.state.deepspeed_plugin
    return 0 if plugin is None else int(plugin.zero_stage)


def frozen_policy(policy: Policy, accelerator: Accelerator) -> nn.Module:
    """Freeze a policy, such as a reference, and move it to the device, or shard it with ZeRO."""
    policy.requires_grad_(False).eval()
    if not zero_stage(accelerator):
        return policy.to(accelerator.device)
    from trl.models.utils import prepare_deepspeed

    sharded: nn.Module = prepare_deepspeed(policy, accelerator)
    return sharded
