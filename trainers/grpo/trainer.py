"""The trainer that every method with GRPO is: settings, a reward, and what else is its own.

    settings ─┐
    model ────┼─▶ prompts ─▶ rollouts ─(second pass)─▶ reward, group by group ─▶ TRL's step
    reward ───┘

A method's plugin function returns a `GrpoTrainer`; see `harness.trainers.visionreasoner.trainer`.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from harness import plugins
from harness.errors import MissingDependency, UsageError
from harness.models.backends.transformers import TransformersChat
from harness.models.compose import PromptedModel
from harness.spec import Spec
from harness.trainer import Curve, Trainer, TrainingRun
from harness.trainers.grpo.examples import Ask, Example, Preparation, asked
from harness.trainers.grpo.loss import BY_REPLY
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.values import Reward, SecondPass
from harness.trainers.sft.examples import Dropped
from harness.trainers.sft.network import check_whole
from harness.types import Sample

ROLLOUTS = "rollouts.jsonl"
SHOWN = 20  # dropped samples that the manifest names


def unchanged(model: PromptedModel) -> PromptedModel:
    """The model as it was given."""
    return model


def asks(model: PromptedModel) -> tuple[object, ...]:
    """What decides how a model asks: equal for two that ask in the same words.

    What a method's own training does otherwise than its evaluation is no other wording: a newline
    before the prompt, and of which samples a graph or map is asked.
    """
    words = getattr(model.words, "templates", model.words)
    return type(model), model.prompt.ask("QUESTION").lstrip("\n"), model.prompt.resize, words


def any_target(sample: Sample) -> object:
    """Every sample that has a target will do."""
    return sample.target


@dataclass(frozen=True, kw_only=True)
class GrpoTrainer(Trainer):
    """A method: what it rewards, and what it asks beside evaluation's own request."""

    needs_model: ClassVar[bool] = True

    name: str
    settings: Settings
    reward: Reward
    second: SecondPass | None = None
    """The second request that each rollout leads to."""
    second_temperature: float | None = None
    """Of its reply; 0: greedy. None: that of rollouts."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """The method's own settings, plain data, for the record."""
    fitted: Callable[[PromptedModel], PromptedModel] = unchanged
    """Puts the method's prompt into the model that training starts from."""
    ask: Ask = asked
    """What is asked of a sample, if it is not what evaluation asks."""
    usable: Callable[[Sample], object] = any_target
    """Raises a HarnessError for a sample that the reward has no truth for: it is left out."""

    def describe(self) -> Mapping[str, Any]:
        """Every setting."""
        return {**self.own, **self.settings.describe()}

    def bound(self, model: PromptedModel) -> "GrpoTrainer":
        """The method with what it makes of the model that is trained, such as a second pass."""
        del model
        return self

    def train(self, run: TrainingRun) -> Mapping[str, Any]:
        """Check every prompt, train, and write the checkpoint.

        Raises:
            UsageError: there is no model that can be trained, or no task, or vLLM is to write what
                it cannot.
            DataError: no sample is left to learn from.
            ModelError: the reward fails.
            KeyboardInterrupt: the run was asked to stop; the state is saved.
        """
        given, chat = trainable(self.name, run.model)
        model = self.fitted(given)
        if run.main and asks(model) != asks(given):
            run.progress.note(
                f"{run.model} is trained with the prompt of {self.name}, and has another by "
                f"itself. Give {self.name}(checkpoint=…) as the model, or "
                f'--eval-model "{self.name}(checkpoint={{checkpoint}})", so that it is evaluated '
                "as it was trained"
            )
        if not run.tasks:
            raise UsageError(
                f"trainer {self.name}", expected="tasks to train on (--train-tasks)", found="none"
            )
        _check_limits(self.settings, chat)
        examples, dropped, trainer = self.bound(model)._begun(run, model, chat)
        trainer.go()
        _export(chat, trainer, run.checkpoint)
        if run.main and self.settings.finetune == "lora":
            trainer.model.save_pretrained(run.out / "adapter", save_embedding_layers=False)
        return _facts(trainer, examples, dropped)

    def check(self, run: TrainingRun) -> None:
        """Raise what `train` would of settings, packages and clips; no network is loaded.

        For a method that does something long before it trains.
        """
        given, chat = trainable(self.name, run.model)
        self._accumulated()
        _vllm(self.settings)
        _deepspeed(self.settings.deepspeed)
        _check_limits(self.settings, chat)
        if self.settings.vllm_mode is not None:
            self._preparation(self.fitted(given), chat).check_clips(run)

    def _begun(
        self, run: TrainingRun, model: PromptedModel, chat: TransformersChat
    ) -> tuple[list[Example], list[Dropped], Any]:
        cpu = _on_cpu(chat)
        # Before anything is loaded: it lets several processes, or DeepSpeed, find each other.
        arguments = self._arguments(run, cpu=cpu)
        examples, dropped = self._preparation(model, chat).prepared(run)
        arguments.max_steps = self.settings.steps(len(examples))
        return examples, dropped, self._trainer(run, model, chat, examples, arguments)

    def _preparation(self, model: PromptedModel, chat: TransformersChat) -> Preparation:
        return Preparation(
            model=model,
            processor=chat.processor,
            ask=self.ask,
            usable=self.usable,
            max_completion_length=self.settings.max_completion_length,
            max_prompt_length=self.settings.max_prompt_length,
            vllm_mode=self.settings.vllm_mode,
        )

    def _accumulated(self) -> int:
        return self.settings.accumulated(int(os.environ.get("WORLD_SIZE", "1")))

    def _arguments(self, run: TrainingRun, *, cpu: bool) -> Any:
        from harness.trainers.trl_compat import configuration

        chosen = self.settings
        return configuration(
            "GRPOConfig",
            output_dir=str(run.state),
            seed=run.seed,
            data_seed=run.seed,
            use_cpu=cpu,
            per_device_train_batch_size=chosen.per_device_train_batch_size,
            gradient_accumulation_steps=self._accumulated(),
            num_generations=chosen.num_generations,
            num_iterations=chosen.num_iterations,
            max_completion_length=chosen.max_completion_length,
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            beta=chosen.beta,
            epsilon=chosen.epsilon,
            loss_type=chosen.loss_type,
            **_ratios(chosen),
            scale_rewards=chosen.scale_rewards or "none",
            entropy_coef=chosen.entropy_coef,
            # The papers' divergence is the plain estimate, not weighted by the ratio.
            use_bias_correction_kl=False,
            learning_rate=chosen.peak_learning_rate,
            lr_scheduler_type=chosen.lr_scheduler_type,
            warmup_steps=chosen.warmup_steps,
            weight_decay=chosen.weight_decay,
            max_grad_norm=chosen.max_grad_norm,
            optim="adamw_torch",
            bf16=chosen.bf16 or chosen.dtype == "bfloat16",
            gradient_checkpointing=chosen.gradient_checkpointing,
            save_steps=chosen.save_steps,
            deepspeed=_deepspeed(chosen.deepspeed),
            **_vllm(chosen),
        )

    def _trainer(
        self,
        run: TrainingRun,
        model: PromptedModel,
        chat: TransformersChat,
        examples: Sequence[Example],
        arguments: Any,
    ) -> Any:
        from harness.models.backends.loading import no_bars
        from harness.trainers.grpo.course import Course
        from harness.trainers.grpo.hooks import Rollouts
        from harness.trainers.grpo.kept import Keeping, PlacesOf
        from harness.trainers.grpo.loggers import loggers
        from harness.trainers.grpo.scoring import Scoring
        from harness.trainers.sft import network as networks
        from harness.trainers.state import newest_state, step_of
        from harness.trainers.trl_compat import engine, old_names, rows

        chosen = self.settings
        network = networks.load(chat, dtype=chat.dtype if chosen.dtype == "auto" else chosen.dtype)
        if chosen.freeze_vision:
            networks.freeze_vision(network)
        adapter = (
            networks.adapter(
                r=chosen.lora_r,
                lora_alpha=chosen.lora_alpha,
                lora_dropout=0.0,
                layers=chosen.lora_layers,
            )
            if chosen.finetune == "lora"
            else None
        )
        with old_names(), no_bars():
            trainer = engine("GRPOTrainer", Rollouts)(
                model=network,
                args=arguments,
                train_dataset=rows(len(examples)),
                reward_funcs=[total],
                processing_class=chat.processor,
                peft_config=adapter,
            )
        kept = Curve(run.out / ROLLOUTS) if run.main else None
        if kept is not None:
            state = newest_state(run.state) if run.resume else None
            kept.cut(0 if state is None else step_of(state))
        scoring = Scoring(
            name=self.name,
            reward=self.reward,
            second=self.second,
            count_tokens=chat.count_tokens,
            random=chosen.reward == "random",
            seed=run.seed,
        )
        keyed = chosen.noise == "keyed" or (chosen.noise == "auto" and _on_cpu(chat))
        trainer.begin(
            Course(
                examples=examples,
                scoring=scoring,
                processor=chat.processor,
                seed=run.seed,
                keeping=Keeping(
                    file=kept, groups=chosen.keep_rollouts, places=PlacesOf(model.prompt.parse)
                ),
                keyed=keyed,
                generation_micro_batch_size=chosen.generation_micro_batch_size,
                second_temperature=self.second_temperature,
            )
        )
        trainer.attach(
            run,
            lambda folder: _export(chat, trainer, folder),
            loggers=loggers(chosen.report_to, run, self.describe()),
        )
        return trainer


def total(**given: Any) -> list[float]:
    """The name under which TRL logs the reward; groups are scored by `Scoring` instead."""
    raise NotImplementedError


def trainable(who: str, spec: Spec | None) -> tuple[PromptedModel, TransformersChat]:
    """The model to train: a network in process, with the composition that words its requests.

    Raises:
        UsageError: it is something else, or has an adapter beside its weights.
    """
    if spec is None:
        raise UsageError(f"trainer {who}", expected="a model to start from (--model)", found="none")
    model = plugins.build("models", spec)
    if not isinstance(model, PromptedModel) or not isinstance(model.chat, TransformersChat):
        raise UsageError(
            f"trainer {who}, model {spec}",
            expected="a network that transformers calls, with a "
            "prompt and a grammar, such as visionreasoner(checkpoint=…)",
            found=type(model).__name__,
        )
    check_whole(who, model.chat)
    return model, model.chat


def _on_cpu(chat: TransformersChat) -> bool:
    import torch

    return chat.device == "cpu" or not torch.cuda.is_available()


def _ratios(chosen: Settings) -> dict[str, Any]:
    """What TRL's losses take for the ratios that `loss.grpo_loss` has."""
    high = chosen.epsilon if chosen.epsilon_high is None else chosen.epsilon_high
    return {
        # Of `cispo` TRL takes the largest ratio itself.
        "epsilon_high": 1 + high if chosen.loss_type == "cispo" else high,
        "importance_sampling_level": "sequence" if chosen.loss_type in BY_REPLY else "token",
    }


def _vllm(chosen: Settings) -> dict[str, Any]:
    if chosen.vllm_mode is None:
        return {}
    if find_spec("vllm") is None:
        raise MissingDependency(
            f"vllm_mode={chosen.vllm_mode}",
            expected="the package 'vllm'",
            found="it is not installed",
            fix="Install it, or leave it out: rollouts are then written by transformers.",
        )
    # How far vLLM's probabilities are from the network's: TRL corrects it by whole replies, but of
    # `vespo`, which makes its own number of a whole reply of it, it takes that of each token alone.
    own = {"vllm_importance_sampling_mode": "token_truncate"} if chosen.loss_type == "vespo" else {}
    return {"use_vllm": True, "vllm_mode": chosen.vllm_mode, **own}


def _check_limits(chosen: Settings, chat: TransformersChat) -> None:
    """Refuse limits on pixels, which vLLM's own processor of the checkpoint would not have.

    It would make another number of image tokens than the prompt has.
    """
    named = ("min_pixels", "max_pixels")
    given = [name for name in named if getattr(chat, name) is not None]
    if chosen.vllm_mode is not None and given:
        raise UsageError(
            f"vllm_mode={chosen.vllm_mode} with {' and '.join(given)}",
            expected="the checkpoint's own limits on pixels, which vLLM has",
            found=", ".join(f"{name}={getattr(chat, name)}" for name in given),
            fix=f"Leave {' and '.join(given)} out: the size of pictures is then that of the "
            "prompt's canvas (canvas=…). Or leave vllm_mode out.",
        )


def _deepspeed(name: str | None) -> str | None:
    """The path of a DeepSpeed configuration: `zero3` is the one that comes with `sft`."""
    if name is None:
        return None
    if find_spec("deepspeed") is None:
        raise MissingDependency(
            "deepspeed=…",
            expected="the package 'deepspeed'",
            found="it is not installed",
            fix="Install it.",
        )
    own = files("harness.trainers.sft").joinpath(f"configs/{name}.json")
    path = Path(str(own)) if own.is_file() else Path(name)
    if not path.is_file():
        raise UsageError(f"deepspeed={name}", expected="zero3, or a file", found="neither")
    return str(path)


def _export(chat: TransformersChat, trainer: Any, folder: Path) -> None:
    """Write the network as it is now; called in every process."""
    from harness.trainers.sft.network import export, whole_weights

    tensors = whole_weights(trainer)
    if trainer.run.main:
        export(trainer.model, chat.folder, folder, tensors=tensors)
    trainer.accelerator.wait_for_everyone()


def _facts(trainer: Any, examples: Sequence[Example], dropped: Sequence[Dropped]) -> dict[str, Any]:
    from harness.trainers.trl_compat import finite

    sizes = [(one.numel(), one.requires_grad) for one in trainer.model.parameters()]
    rows = trainer.run.curve.read() if trainer.run.main else []
    rewards = [row["reward"] for row in rows if "reward" in row]  # of steps that began a round
    prompts = trainer.args.generation_batch_size / trainer.num_generations
    rounds = -(-trainer.state.global_step // trainer.num_iterations)
    return {
        "steps": int(trainer.state.global_step),
        "epochs": rounds * prompts / len(examples),
        "reward": finite(rewards[-1]) if rewards else None,
        "examples": len(examples),
        "dropped": dict(Counter(one.why for one in dropped)),
        "dropped_samples": [asdict(one) for one in dropped[:SHOWN]],
        "parameters": sum(size for size, _ in sizes),
        "parameters_trained": sum(size for size, trained in sizes if trained),
    }
