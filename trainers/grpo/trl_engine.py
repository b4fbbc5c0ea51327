"""GRPO by TRL's own trainer (`engine=trl`): samples, prompts, rewards and files are the method's.

    samples ─ours─▶ prompts ─TRL─▶ rollouts ─ours─▶ rewards ─TRL─▶ steps ─ours─▶ curve, checkpoint

TRL is given prompts in our order, whole groups at a time, so that both engines learn from the same
prompts in the same step. Only arguments that TRL documents are used, which releases 1.12 to 1.16
have; 1.12 and 1.13 end responses at the tokenizer's end token alone. It keeps no state: a training
that was stopped begins again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState

from harness.errors import UsageError
from harness.model import ChatRequest
from harness.models.backends.inputs import messages_of
from harness.models.backends.loading import no_bars
from harness.models.backends.sampling import rollout_key
from harness.models.backends.transformers import TransformersChat
from harness.models.learning.loss import advantages
from harness.models.pipeline import PromptedModel
from harness.plugins import plugin_errors
from harness.trainer import Curve, TrainingRun
from harness.trainers import guards
from harness.trainers import network as networks
from harness.trainers.checkpoints import KeptCheckpoints
from harness.trainers.grpo.examples import Example, prepare_examples
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents, Rollout
from harness.trainers.grpo.rewards import (
    ROLLOUTS,
    failed_rewards,
    log_rollouts,
    refuse_losses,
    reward_or_drop,
    statistics_of,
    summary_of,
)
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.vllm import images_of
from harness.trainers.learner import sample_order
from harness.trainers.policy import load_policy
from harness.trainers.rows import encode_prompt
from harness.trainers.session import Session, last
from harness.trainers.stopwatch import GENERATION, REWARD, UPDATE, Stopwatch

if TYPE_CHECKING:
    from transformers import ProcessorMixin

SAME = (
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
"""Settings that TRL's `GRPOConfig` names and means as ours."""
LOGGED = (
    "loss",
    "grad_norm",
    "learning_rate",
    "entropy",
    "kl",
    "num_tokens",
    "cispo_clip_ratio",
)
"""Numbers of TRL's log for the curve, and all that begin with `clip_ratio/`; the others are ours,
or have a clock.
"""


def train_by_trl(
    method: GrpoMethod, run: TrainingRun, model: PromptedModel, chat: TransformersChat
) -> Mapping[str, Any]:
    """Train a method's policy by TRL, and write the checkpoint.

    Returns:
        Facts for the manifest.

    Raises:
        UsageError: TRL would make other prompts of the samples.
        UnstableTraining: a loss, a gradient or a weight is not finite.
        KeyboardInterrupt: the run was asked to stop.
    """
    import trl
    from datasets import Dataset

    if trl.__version__.startswith("1.15."):  # whose losses are computed by its kernels alone
        with plugin_errors(f"engine=trl with trl {trl.__version__}"):
            import_module("triton")
    AcceleratorState._reset_state(reset_partial_state=True)  # of a training before
    settings = method.settings
    examples, dropped = prepare_examples(method, model, chat.processor, run)
    _refuse_mixture(examples)
    lengths = [_prompt_length(chat.processor, example) for example in examples]
    total, size = settings.steps(len(examples)), settings.samples_per_round()
    rounds = ceil(total / settings.num_iterations)
    order = list(islice(sample_order(run.seed, len(examples)), rounds * size))
    set_seed(run.seed % 2**32)  # an adapter begins with random numbers
    network = load_policy(chat, settings, lora_dropout=0.0)

    def export(folder: Path) -> None:
        networks.export(network, chat.folder, folder, tensors=None)

    session = Session(
        run,
        export,
        report_to=settings.report_to,
        settings=method.describe(),
        on_alarm=settings.alarms,
    )
    prompted = [examples[row] for row in order]
    rewards = Rewards(method, run, model, chat, prompted, session.stopwatch)
    rewards.lengths = [lengths[row] for row in order]
    kept = KeptCheckpoints(run, settings)
    watch = Watch(session, rewards, kept, export, total=total, epoch_size=len(examples))
    computes_bf16 = networks.types_of(chat, settings)[1]
    reference = bool(settings.beta) and settings.finetune == "full"
    run.progress.note("engine=trl writes no states: a training that is stopped begins again")
    run.progress.note(
        networks.memory_note(network, computes_bf16=computes_bf16, reference=reference)
    )

    prompts = Dataset.from_dict({"place": range(len(order))})
    rows = Rows(chat.processor, [example.request for example in rewards.examples])
    run.progress.start("training", total, 0)
    with TemporaryDirectory() as folder, no_bars():
        trainer = trl.GRPOTrainer(
            model=network,
            args=trl.GRPOConfig(
                output_dir=folder,
                save_strategy="no",
                report_to="none",
                logging_steps=1,
                disable_tqdm=True,
                use_cpu=not torch.cuda.is_available(),
                seed=run.seed % 2**32,
                shuffle_dataset=False,
                bf16=computes_bf16,
                max_steps=total,
                gradient_accumulation_steps=settings.accumulation_steps(1),
                learning_rate=settings.peak_learning_rate,
                scale_rewards=settings.scale_rewards or "none",
                use_bias_correction_kl=False,
                chat_template_kwargs=getattr(chat.processor, "chat_template_kwargs", {}),
                generation_kwargs={"suppress_tokens": list(networks.media_tokens(network))},
                **{name: getattr(settings, name) for name in SAME},
            ),
            train_dataset=prompts.with_transform(rows),
            reward_funcs=[rewards.as_function()],
            processing_class=chat.processor,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        with run.interruptible():
            trainer.train()
    if watch.is_cut:
        raise KeyboardInterrupt
    run.progress.end()
    export(run.checkpoint)
    if settings.finetune == "lora" and not settings.load_best_model_at_end:
        network.save_pretrained(str(run.out / "adapter"), save_embedding_layers=False)
    return {
        "steps": total,
        "epochs": rounds * size / len(examples),
        **kept.finish(run.checkpoint),
        "reward": last(run, "reward"),
        "alarms": [alarm.describe() for alarm in session.alarms.raised],
        **networks.training_facts(examples, dropped, network),
    }


def _refuse_mixture(examples: Sequence[Example]) -> None:
    """Raise UsageError if some prompts have images and some none, which TRL cannot put together."""
    first = {bool(one.request.media): one.sample.id for one in reversed(examples)}
    if len(first) > 1:
        raise UsageError(
            "engine=trl",
            expected="images in all prompts, or in none: TRL's batches do not mix them",
            found=f"none in sample {first[False]}, and some in {first[True]}",
            fix="Leave engine out, or train on the ones and the others apart.",
        )


def _prompt_length(processor: "ProcessorMixin", example: Example) -> int:
    """Return how many tokens a prompt has; UsageError unless TRL makes the same of it as we do."""
    request, what = example.request, f"engine=trl, sample {example.sample.id} of {example.task}"
    if request.stop or request.top_p is not None or request.written:
        raise UsageError(
            what,
            expected="a prompt alone: TRL ends and draws all responses alike",
            found="a request with its own stop texts, nucleus or earlier tokens",
            fix="Leave engine out.",
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
    theirs = processor.apply_chat_template(
        [messages],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        **getattr(processor, "chat_template_kwargs", {}),
    )
    ours = encode_prompt(processor, request)
    for name in ("input_ids", "pixel_values"):
        one, other = ours.get(name), theirs.get(name)
        if (one is None) != (other is None) or (one is not None and not torch.equal(one, other)):
            raise UsageError(
                what,
                expected="the prompt that evaluation makes",
                found=f"other {name}: TRL renders the chat template with nothing after it, such as "
                "the beginning of a response",
                fix="Leave engine out.",
            )
    return int(ours["input_ids"].shape[1])


@dataclass(frozen=True, eq=False)
class Rows:
    """TRL's rows of prompts, made when they are asked for."""

    processor: "ProcessorMixin"
    requests: Sequence[ChatRequest]

    def __call__(self, columns: Mapping[str, Sequence[int]]) -> dict[str, list[Any]]:
        """Return messages and images of the requests at these places."""
        asked = [self.requests[place] for place in columns["place"]]
        return {
            "place": list(columns["place"]),
            "prompt": [messages_of(self.processor, request) for request in asked],
            "images": [images_of(request) for request in asked],
        }

    def __reduce__(self) -> tuple[object, ...]:
        """Stand for all rows where `datasets` pickles them to make a fingerprint, unused here."""
        return str, (type(self).__name__,)


@dataclass(eq=False)
class Rewards:
    """The method's rewards as TRL asks for them, and what is logged of them."""

    method: GrpoMethod
    run: TrainingRun
    model: PromptedModel
    chat: TransformersChat
    examples: Sequence[Example]
    """Of the prompts of all rounds, in the order in which TRL gets them."""
    stopwatch: Stopwatch
    lengths: Sequence[int] = ()
    """Tokens of each of these prompts."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Of the last round, until they are logged."""
    sample_names: list[str] = field(default_factory=list)
    """Of the last round, for errors."""

    def as_function(self) -> Any:
        """Return a reward function of TRL's."""

        def reward(
            completion_ids: Sequence[Sequence[int]], place: Sequence[int], **_: Any
        ) -> list[float]:
            self.stopwatch.lap(GENERATION)
            totals = self.round(completion_ids, place)
            self.stopwatch.lap(REWARD)
            return totals

        return reward

    def round(self, completions: Sequence[Sequence[int]], places: Sequence[int]) -> list[float]:
        """Return the reward of each rollout of a round; NaN does not count, for TRL neither."""
        settings, method = self.settings, self.method
        size, number = settings.num_generations, places[0] // settings.samples_per_round()
        groups, rewards = list[Group](), list[list[RewardComponents]]()
        faults = list[str]()
        for start in range(0, len(places), size):
            (place,) = set(places[start : start + size])
            example = self.examples[place]
            group = self._group(example, completions[start : start + size])
            key = f"{example.request.key}@{number}:{place % settings.samples_per_round()}"
            keys = [rollout_key(key, at) for at in range(size)]
            components, fault = reward_or_drop(method, group, keys, seed=self.run.seed)
            groups.append(group)
            rewards.append(components)
            faults.append(fault)
        totals = [one[TOTAL] for several in rewards for one in several]
        gains = advantages(torch.tensor(totals), size, scale_rewards=settings.scale_rewards)
        lengths = [self.lengths[one] for one in places]
        merged, reasons = statistics_of(groups, rewards, lengths, completions)
        self._log(number, groups, rewards, gains.tolist(), merged, reasons)
        if settings.reward_errors == "drop":
            note = self.run.progress.note
            self.numbers |= failed_rewards(faults, number=number, note=note)
        return totals

    @property
    def settings(self) -> Settings:
        """The method's settings."""
        return self.method.settings

    def _group(self, example: Example, completions: Sequence[Sequence[int]]) -> Group:
        start, ends = f"{self.chat.opening}{example.request.prefix}", self.chat.end_tokens
        return Group(
            sample=example.sample,
            task=example.task,
            rollouts=tuple(
                Rollout(
                    text=f"{start}{self.chat.decode(tokens)}",
                    tokens=len(tokens),
                    cut=tokens[-1] not in ends,
                )
                for tokens in completions
            ),
            canvas=example.canvas,
            count_tokens=self.chat.count_tokens,
            frames=example.frames,
        )

    def _log(
        self,
        number: int,
        groups: Sequence[Group],
        rewards: Sequence[Sequence[RewardComponents]],
        gains: Sequence[float],
        merged: Mapping[str, Sequence[float]],
        reasons: Sequence[str],
    ) -> None:
        self.numbers = {
            **summary_of(merged, gains),
            "step_tokens": sum(merged["completions/mean_length"]),
        }
        self.sample_names = [f"{group.task} {group.sample.id}" for group in groups]
        first, kept = number * self.settings.num_iterations + 1, self.settings.keep_rollouts
        file, parse = Curve(self.run.out / ROLLOUTS), self.model.prompt.parse
        if number == 0:
            file.cut(0)
        log_rollouts(file, first, groups[:kept], rewards, gains, parse)
        limit = self.settings.infrastructure_limit
        refuse_losses(reasons, limit=limit, rollouts=len(gains), number=number)


class Watch(TrainerCallback):  # type: ignore[misc]
    """Tells what follows a training of TRL's steps, and stops it."""

    def __init__(
        self,
        session: Session,
        rewards: Rewards,
        kept: KeptCheckpoints,
        export: Callable[[Path], None],
        *,
        total: int,
        epoch_size: int,
    ) -> None:
        self.session, self.rewards, self.kept = session, rewards, kept
        self.export, self.total, self.epoch_size = export, total, epoch_size
        self.is_cut = False
        """True if the training was asked to stop before its end."""

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Begin to measure a step: rollouts and rewards, if it has any, and its update."""
        self.session.stopwatch.take(0.0)

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float | None] | None = None,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Log a step; raise UnstableTraining if its loss, gradient or weights are not finite."""
        if not logs or "loss" not in logs:  # the times of the whole training
            return
        settings, step = self.rewards.settings, state.global_step
        known = {
            name: float(value)
            for name, value in logs.items()
            if value is not None and (name in LOGGED or name.startswith("clip_ratio/"))
        }
        losses, norm = [known["loss"]], known.get("grad_norm")
        guards.check_step(step, losses, norm, [self.rewards.sample_names], settings.describe())
        guards.check_weights(model, settings.describe())
        rounds = (step - 1) // settings.num_iterations + 1
        epoch = rounds * settings.samples_per_round() / self.epoch_size
        numbers = {**self.rewards.numbers, **known, "epoch": epoch}
        self.session.stopwatch.lap(UPDATE)
        self.session.log(step, numbers | self.session.watch(step, numbers))
        self.rewards.numbers = {}
        if step == self.total or step % settings.save_steps == 0:
            self.kept.add(step, self.export)
        if step < self.total and self.session.stopping():
            self.is_cut = control.should_training_stop = True
