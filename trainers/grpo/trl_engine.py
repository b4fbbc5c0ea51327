"""GRPO by TRL's own trainer (`engine=trl`) with this project's prompts, rewards and files.

    samples ─ours─▶ prompts ─TRL─▶ rollouts ─ours─▶ rewards ─TRL─▶ steps ─ours─▶ curve, checkpoint

TRL gets the prompts in this project's order, so that both engines train on the same prompts in the
same step. The code uses only documented arguments that TRL 1.12 to 1.16 have. TRL 1.12 and 1.13 end
responses only at the tokenizer's end token. The states to resume from are TRL's checkpoints; each
is moved to the folder of this project's states once it is complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from transformers import PrinterCallback

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.models.backends.inputs import messages_of
from harness.models.backends.loading import no_bars
from harness.models.backends.transformers import TransformersChat
from harness.models.pipeline import PromptedModel
from harness.plugins import plugin_errors
from harness.trainer import Curve, TrainingRun
from harness.trainers import network as networks
from harness.trainers.checkpoints import KeptCheckpoints
from harness.trainers.grpo.examples import Example, prepare_examples
from harness.trainers.grpo.method import GrpoMethod
from harness.trainers.grpo.rewards import ROLLOUTS
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trl_rewards import Rewards
from harness.trainers.grpo.trl_steps import Watch, check_state
from harness.trainers.grpo.vllm import images_of
from harness.trainers.learner import sample_order
from harness.trainers.policy import load_policy
from harness.trainers.rows import encode_prompt
from harness.trainers.session import Session, last

if TYPE_CHECKING:
    from transformers import ProcessorMixin

SHARED_SETTINGS = (
    "per_device_train_batch_size",
    "num_generations",
    "generation_batch_size",
    "num_iterations",
    "max_completion_length",
    "temperature",
    "top_p",
    "beta",
    "epsilon",
    "epsilon_high",
    "loss_type",
    "importance_sampling_level",
    "mask_truncated_completions",
    "entropy_coef",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "max_grad_norm",
    "gradient_checkpointing",
)
"""Settings that have the same name and meaning in TRL's `GRPOConfig`."""


def train_by_trl(
    method: GrpoMethod, run: TrainingRun, model: PromptedModel, chat: TransformersChat
) -> Mapping[str, Any]:
    """Train a method's policy by TRL, and write the checkpoint.

    Returns:
        Facts for the manifest.

    Raises:
        UsageError: TRL cannot train on the prompts, or would render them differently.
        UnstableTraining: a loss, a gradient or a weight is not finite.
        StoreError: the disk is full (the previous state is kept), or the state to resume from is
            damaged or belongs to another network.
        KeyboardInterrupt: the user stopped the run; the state after the last round is saved.
    """
    import trl
    from datasets import Dataset

    if trl.__version__.startswith("1.15."):  # this release computes losses only by triton kernels
        with plugin_errors(f"engine=trl with trl {trl.__version__}"):
            import_module("triton")
    AcceleratorState._reset_state(reset_partial_state=True)  # left by an earlier training
    settings = method.settings
    examples, dropped = prepare_examples(method, model, chat.processor, run)
    _refuse_mixture(examples)
    lengths = [_prompt_length(chat.processor, example) for example in examples]
    total, size = settings.steps(len(examples)), settings.samples_per_round()
    rounds = ceil(total / settings.num_iterations)
    order = list(islice(sample_order(run.seed, len(examples)), rounds * size))
    set_seed(run.seed % 2**32)  # for an adapter's random initial weights
    network = load_policy(chat, settings, lora_dropout=0.0)

    def export(folder: Path) -> None:
        networks.export(network, chat.folder, folder, tensors=None)

    session = Session(
        run,
        export,
        report_to=settings.report_to,
        settings=method.describe(),
        on_alarm=settings.alarms,
        steps_per_round=settings.steps_per_round,
    )
    if session.state is not None:
        check_state(session.state, network)
    ordered_examples = [examples[row] for row in order]
    rewards = Rewards(method, run, model, chat, ordered_examples, session.stopwatch)
    rewards.lengths = [lengths[row] for row in order]
    kept = KeptCheckpoints(run, settings)
    watch = Watch(session, rewards, kept, export, total=total, epoch_size=len(examples))
    computes_bf16 = networks.types_of(chat, settings)[1]
    reference = bool(settings.beta) and settings.finetune == "full"
    run.progress.note(
        networks.memory_note(network, computes_bf16=computes_bf16, reference=reference)
    )

    prompts = Dataset.from_dict({"prompt_index": range(len(order))})
    rows = Rows(chat.processor, [example.request for example in rewards.examples])
    Curve(run.out / ROLLOUTS).cut(session.done)
    run.progress.start("training", total, session.done)
    with no_bars(), watch.saving(run.state / "trl") as folder:
        trainer = trl.GRPOTrainer(
            model=network,
            args=trl.GRPOConfig(
                output_dir=str(folder),
                seed=run.seed % 2**32,
                bf16=computes_bf16,
                max_steps=total,
                chat_template_kwargs=getattr(chat.processor, "chat_template_kwargs", {}),
                generation_kwargs={"suppress_tokens": list(networks.media_tokens(network))},
                **_trl_settings(settings),
            ),
            train_dataset=prompts.with_transform(rows),
            reward_funcs=[rewards.as_function()],
            processing_class=chat.processor,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=None if session.state is None else str(session.state))
    if watch.is_cut:
        raise KeyboardInterrupt
    run.progress.end()
    return {
        "steps": total,
        "epochs": rounds * size / len(examples),
        **kept.finish(export),
        "reward": last(run, "reward"),
        "alarms": [alarm.describe() for alarm in session.alarms.raised],
        **networks.training_facts(examples, dropped, network),
    }


def _trl_settings(settings: Settings) -> dict[str, Any]:
    """Return arguments of TRL's `GRPOConfig`: our settings, and those that never change."""
    return {
        "save_strategy": "no",
        "report_to": "none",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": not torch.cuda.is_available(),
        "shuffle_dataset": False,
        "gradient_accumulation_steps": settings.accumulation_steps(1),
        "learning_rate": settings.peak_learning_rate,
        "scale_rewards": settings.scale_rewards or "none",
        "use_bias_correction_kl": False,
        **{name: getattr(settings, name) for name in SHARED_SETTINGS},
    }


def _refuse_mixture(examples: Sequence[Example]) -> None:
    """Raise UsageError if only some prompts have images, because TRL cannot batch such prompts."""
    sample_ids = {bool(example.request.media): example.sample.id for example in reversed(examples)}
    if len(sample_ids) > 1:
        raise UsageError(
            "engine=trl",
            expected="images in all prompts, or in none: TRL's batches do not mix them",
            found=f"none in sample {sample_ids[False]}, and some in {sample_ids[True]}",
            fix="Leave engine out, or train on the two kinds of samples separately.",
        )


def _prompt_length(processor: "ProcessorMixin", example: Example) -> int:
    """Return the number of a prompt's tokens.

    Raises:
        UsageError: TRL would render the prompt differently, or ignore a setting of its request.
    """
    request, what = example.request, f"engine=trl, sample {example.sample.id} of {example.task}"
    if request.stop or request.top_p is not None or request.written:
        raise UsageError(
            what,
            expected="only a prompt, because TRL samples all responses alike",
            found="a request with its own stop strings, top-p or earlier tokens",
            fix="Remove engine=trl.",
        )
    images = iter(images_of(request))
    messages = [
        {
            **message,
            "content": [
                {**part, "image": next(images)} if part["type"] == "image" else part
                for part in message["content"]
            ],
        }
        for message in messages_of(processor, request)
    ]
    trl_inputs = processor.apply_chat_template(
        [messages],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        **getattr(processor, "chat_template_kwargs", {}),
    )
    own_inputs = encode_prompt(processor, request)
    for name in ("input_ids", "pixel_values"):
        own_tensor, trl_tensor = own_inputs.get(name), trl_inputs.get(name)
        if (own_tensor is None) != (trl_tensor is None) or (
            own_tensor is not None and not torch.equal(own_tensor, trl_tensor)
        ):
            raise UsageError(
                what,
                expected="the prompt that evaluation makes",
                found=f"other {name}: TRL renders the chat template with nothing after it, such as "
                "the beginning of a response",
                fix="Remove engine=trl.",
            )
    return int(own_inputs["input_ids"].shape[1])


@dataclass(frozen=True, eq=False)
class Rows:
    """Transform of the data set for TRL: builds the messages and images of rows on access."""

    processor: "ProcessorMixin"
    requests: Sequence[ChatRequest]

    def __call__(self, columns: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        """Return the messages and images of the requests whose indices are in `prompt_index`."""
        requests = [self.requests[index] for index in columns["prompt_index"]]
        return {
            "prompt_index": list(columns["prompt_index"]),
            "prompt": [messages_of(self.processor, request) for request in requests],
            "images": [images_of(request) for request in requests],
        }

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the class's name: `datasets` pickles it only for a fingerprint, unused here."""
        return str, (type(self).__name__,)
