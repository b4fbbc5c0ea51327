"""`GrpoLearner`: prompts → rollouts → rewards of groups → advantages → batches → `grpo_loss`.

`harness.trainers.learner.train` calls `round` once a round, then `update` once an optimiser step.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import compress
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from harness.errors import HarnessError
from harness.models.backends.sampling import rollout_key
from harness.models.backends.token_positions import supports_continuous_batching
from harness.models.backends.transformers import TransformersChat
from harness.models.learning.loss import advantages, divergence, grpo_loss
from harness.trainers import network as networks
from harness.trainers.grpo.clipping import Shares, clipped, extremes
from harness.trainers.grpo.ema import RewardMoments, ema_advantages
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.groups import Batch, Draft, RewardedGroup, RewardedRound
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents
from harness.trainers.grpo.prompts import PromptOrder
from harness.trainers.grpo.reward_errors import FailedRewards, reward_or_drop
from harness.trainers.grpo.rewards import refuse_losses, statistics_of, summary_of
from harness.trainers.grpo.rollouts import conversation, group_of
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.vllm import VllmChat, sampler_ratio, sampling_numbers
from harness.trainers.learner import Counted, Learner, Round
from harness.trainers.network import media_tokens
from harness.trainers.policy import Policy, frozen_policy, zero_stage
from harness.trainers.rows import completed, encoded_each, padded, shared_prompts
from harness.trainers.session import gather, raise_together
from harness.trainers.stopwatch import GENERATION, REWARD, UPDATE


class GrpoLearner(Learner[Example, Sequence[Example], Batch]):
    """A policy in training: writes rollouts, rewards them and computes the loss on them."""

    settings: Settings

    def __init__(
        self, method: GrpoMethod, chat: TransformersChat, accelerator: Accelerator, *, seed: int
    ) -> None:
        """Load the network, and the reference policy, vLLM and counters that the settings need."""
        settings = method.settings
        super().__init__(chat, settings, accelerator, seed=seed, temperature=settings.temperature)
        self.method = method
        self.reference = None
        """Copy of the initial policy, for beta > 0. With LoRA it is None: the reference is then the
        policy with its adapter disabled."""
        if settings.beta and settings.finetune == "full":
            initial = networks.load(chat, dtype=networks.types_of(chat, settings)[0])
            self.reference = frozen_policy(Policy(initial, settings.temperature), accelerator)
        self.suppressed = media_tokens(self.network)
        self.vllm = (
            None
            if settings.vllm_mode is None
            else VllmChat(chat, settings, self.network, accelerator, self.suppressed)
        )
        # Gradient checkpointing keeps no cache to continue from. ZeRO-3 needs the same calls in
        # every process, but the number of different prompts is not the same in all.
        self.shares_prompts = (
            not settings.gradient_checkpointing
            and zero_stage(accelerator) != 3
            and supports_continuous_batching(self.network, chat.model_type)
        )
        self.moments = None if settings.ema_decay is None else RewardMoments(settings.ema_decay)
        self.moments_before = self.moments
        """Moments before the current round."""
        self.clipped: list[Shares] = []
        """Clipped shares of each batch of the current step."""
        order = PromptOrder(seed=seed, revisit=settings.revisit_probability)
        self.prompts = order if settings.dynamic_sampling else None
        self.prompts_before = self.prompts
        """Prompts before the current round."""
        self.tokens = 0.0
        """Number of tokens of prompts and rollouts so far, in all processes."""
        self.failed = FailedRewards(settings)
        self.log: Callable[[int, RewardedRound], object] = lambda number, rewarded: None
        """Logs the rollouts of a round; called with its number (from 0) and the round."""

    def resumed(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Restore the counts of tokens and of failed rewards from the rows of the curve."""
        self.tokens = max((row.get("num_tokens", 0.0) for row in rows), default=0.0)
        self.failed.resume(gather([list(rows)])[0])

    # -- rollouts ---------------------------------------------------------------------------------

    def prepared(
        self, examples: Sequence[Example], rounds: range, size: int
    ) -> Iterator[Sequence[Example]]:
        """Yield the prompts of each round; with `dynamic_sampling`, from `PromptOrder`."""
        if self.prompts is None:
            yield from super().prepared(examples, rounds, size)
            return
        self.prompts.examples = examples
        for _ in rounds:
            yield self.share(self.prompts.take(size))

    def samples_drawn(self, learned: int) -> int:
        """Return the number of prompts drawn so far; `learned` of them were learned from."""
        return learned if self.prompts is None else self.prompts.drawn

    def prepare(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Return the examples as they are: `round` encodes their prompts."""
        return examples

    def round(self, examples: Sequence[Example], number: int) -> RewardedRound:
        """Write a group of rollouts to each prompt, reward them and make batches of them.

        Args:
            examples: This process's prompts.
            number: Index of the round, from 0.

        Raises:
            ModelError: the reward, the second pass or the environment fails.
            Unavailable: more rollouts than `infrastructure_limit` were lost.
        """
        self.seed_round(number)
        if self.vllm is not None:
            self.vllm.begin_round()
        groups = self._write_groups(examples, number)
        learned, prompt_counts = groups, dict[str, float]()
        if self.prompts is not None:
            self._replace_dead(self.prompts, groups, number)
            # Dead groups come last: they only fill up the round.
            learned = sorted(groups, key=lambda group: group.is_dead)[: len(examples)]
            extra = (len(groups) - len(learned)) * self.accelerator.num_processes
            prompt_counts = {"extra_prompts": extra, "skipped_prompts": self.prompts.skipped}
        all_drafts = [draft for group in groups for draft in group.drafts]
        faults = [group.fault for group in groups]
        merged, reasons = statistics_of(
            [group.group for group in groups],
            [group.rewards for group in groups],
            lengths=[draft.prompt["input_ids"].shape[1] for draft in all_drafts],
            completions=[list(compress(draft.tokens, draft.mask)) for draft in all_drafts],
            faults=faults,
        )
        tokens = sum(merged["completions/mean_length"])
        self.tokens += sum(merged["prompts/mean_length"]) + tokens
        all_advantages = self._advantages(learned)  # of all processes
        drafts = [draft for group in learned for draft in group.drafts]
        first = self.accelerator.process_index * len(drafts)
        own_advantages = all_advantages[first : first + len(drafts)]
        size = self.settings.per_device_train_batch_size
        parts = [slice(start, start + size) for start in range(0, len(drafts), size)]
        with self.stopwatch.part(UPDATE):
            batches = [self._batch(drafts[part], own_advantages[part]) for part in parts]
        rewarded = RewardedRound(
            groups=[group.group for group in learned],
            prompts=[group.drafts[0].example.request.text for group in learned],
            rewards=[group.rewards for group in learned],
            advantages=own_advantages.tolist(),
            batches=batches,
            samples=[[draft.example.name for draft in drafts[part]] for part in parts],
            tokens=sum(gather([sum(sum(self.learned_tokens(draft)) for draft in drafts)])),
            numbers={
                **summary_of(merged, all_advantages.tolist()),
                "num_tokens": self.tokens,
                "step_tokens": tokens,
                **prompt_counts,
            },
        )
        if self.vllm is not None:
            compared = [(batch.old, batch.drawn, batch.mask, batch.ratio) for batch in batches]
            rewarded.numbers.update(sampling_numbers(compared))  # type: ignore[arg-type]
        self.log(number, rewarded)
        if self.settings.reward_errors == "drop":
            note = self.run.progress.note
            rewarded.numbers.update(self.failed.add(gather(faults), number=number, note=note))
        limit, rollouts = self.settings.infrastructure_limit, len(merged[f"rewards/{TOTAL}"])
        refuse_losses(reasons, limit=limit, rollouts=rollouts, number=number)
        return rewarded

    def _write_groups(
        self, examples: Sequence[Example], number: int, before: int = 0
    ) -> list[RewardedGroup]:
        """Write and reward a group of rollouts to each of this process's prompts.

        `before` is the number of groups that this process has written in round `number` already.
        """
        first = before * self.accelerator.num_processes
        first += self.accelerator.process_index * len(examples)
        with self.stopwatch.part(GENERATION):
            requests = [example.request for example in examples]
            prompts = encoded_each(self.chat.processor, requests)
        group_drafts: list[list[Draft]] = []
        for position, (example, prompt) in enumerate(zip(examples, prompts, strict=True), first):
            # The key is the same with any number of processes.
            key = f"{example.request.key}@{number}:{position}"
            group_drafts.append(
                [
                    Draft(example=example, prompt=prompt, key=rollout_key(key, index))
                    for index in range(self.settings.num_generations)
                ]
            )
        conversations = [
            conversation(self.method, self.chat, self.network, draft)
            for drafts in group_drafts
            for draft in drafts
        ]
        with self.stopwatch.part(GENERATION), self.answering() as chat:
            chat.converse(conversations)
        groups = [group_of(drafts, self.chat.count_tokens) for drafts in group_drafts]
        with self.stopwatch.part(REWARD):
            results = self._rewards(groups, group_drafts)
        return [
            RewardedGroup(drafts=drafts, group=group, rewards=rewards, fault=fault)
            for drafts, group, (rewards, fault) in zip(group_drafts, groups, results, strict=True)
        ]

    def _replace_dead(self, prompts: PromptOrder, groups: list[RewardedGroup], number: int) -> None:
        """Add groups of further prompts until enough are not dead; then count the dead ones.

        All processes write equally many groups, so that each of them has enough.
        """
        share, processes = len(groups), self.accelerator.num_processes
        for _ in range(1, self.settings.max_num_gen_batches):
            missing = max(gather([share - sum(not group.is_dead for group in groups)]))
            if missing <= 0:
                break
            further_examples = self.share(prompts.take(missing * processes))
            groups += self._write_groups(further_examples, number, len(groups))
        scored = [group for group in groups if not group.fault]
        prompts.record(gather([(group.drafts[0].example.name, group.is_dead) for group in scored]))

    def _rewards(
        self, groups: Sequence[Group], group_drafts: Sequence[Sequence[Draft]]
    ) -> list[tuple[list[RewardComponents], str]]:
        """Return `reward_or_drop` of groups; an error of one process is raised in all of them."""
        rewards, failure = [], None
        try:
            for group, drafts in zip(groups, group_drafts, strict=True):
                keys = [draft.key for draft in drafts]
                faults = [draft.fault for draft in drafts if draft.fault is not None]
                fault = faults[0] if faults else None
                rewards.append(
                    reward_or_drop(self.method, group, keys, seed=self.seed, fault=fault)
                )
        except HarnessError as error:
            failure = error
        raise_together(failure)
        return rewards

    @contextmanager
    def answering(self) -> "Iterator[TransformersChat | VllmChat]":
        """Yield a chat in which the current policy responds, without gradients."""
        if self.vllm is not None:
            yield self.vllm
            return
        unwrapped: AbstractContextManager[Policy]
        unwrapped = nullcontext(self.accelerator.unwrap_model(self.policy))
        if zero_stage(self.accelerator) == 3:  # gathers the weights of all processes
            from trl.models.utils import unwrap_model_for_generation

            unwrapped = unwrap_model_for_generation(self.policy, self.accelerator)
        self.policy.eval()  # this also turns gradient checkpointing off
        with unwrapped as policy, torch.no_grad(), self.accelerator.autocast():
            yield self.chat_of(policy.network)
        self.policy.train()

    def chat_of(self, network: networks.Network) -> TransformersChat:
        """Return evaluation's chat backend with this network, and the sampling of the settings."""
        settings, device = self.settings, self.accelerator.device
        share = settings.generation_batch_size // self.accelerator.num_processes
        chat = replace(
            self.chat,
            device=str(device),
            seed=self.seed,
            batch_size=settings.generation_micro_batch_size or share,
            temperature=settings.temperature,
            top_p=settings.top_p,
            repetition_penalty=1.0,  # tokens are drawn with the probabilities that the loss sees
            keyed=settings.noise == "keyed" or (settings.noise == "auto" and device.type == "cpu"),
            suppress_tokens=self.suppressed,
        )
        vars(chat).update(network=network, processor=self.chat.processor)
        return chat

    def _advantages(self, own_groups: Sequence[RewardedGroup]) -> Tensor:
        """Return the advantages of all processes' rollouts; `own_groups` are of this process."""
        totals = gather([components[TOTAL] for group in own_groups for components in group.rewards])
        rewards, size = torch.tensor(totals), self.settings.num_generations
        if self.moments is not None:
            # OneThinker's kinds of problems part segmentation of images from that of videos too.
            tasks = gather(["+".join(group.group.sample.query.forms) for group in own_groups])
            return ema_advantages(rewards, size, tasks=tasks, moments=self.moments)
        return advantages(rewards, size, scale_rewards=self.settings.scale_rewards)

    # -- learning ---------------------------------------------------------------------------------

    def _batch(self, drafts: Sequence[Draft], advantage: Tensor) -> Batch:
        """Return B rollouts as tensors, with their log-probabilities before the step.

        Args:
            drafts: The rollouts.
            advantage: Advantage of each (B).
        """
        settings, device = self.settings, self.accelerator.device
        decode = self.chat.processor.tokenizer.decode
        row_prompts = [draft.prompt for draft in drafts]
        inputs = completed(self.chat.processor, row_prompts, [draft.tokens for draft in drafts])
        prompts = None
        if self.shares_prompts:
            prompts = shared_prompts(self.network, self.chat.processor, row_prompts)
        if prompts is not None:
            prompts = {name: tensor.to(device) for name, tensor in prompts.items()}
        batch = Batch(
            inputs={name: tensor.to(device) for name, tensor in inputs.items()},
            prompts=prompts,
            mask=padded(map(self.learned_tokens, drafts)).float().to(device),
            answers=padded(draft.answer_mask(decode) for draft in drafts).float().to(device),
            advantage=advantage.to(device),
        )
        with torch.no_grad():
            if settings.num_iterations > 1 or self.vllm is not None:
                batch.old, _ = self.policy(batch.inputs, batch.mask, batch.prompts)
            if batch.old is not None and self.vllm is not None:
                batch.drawn = padded(map(self.vllm.drawn_logps, drafts)).to(device)
                batch.ratio = sampler_ratio(batch.old, batch.drawn, batch.mask)
            if settings.beta and self.reference is not None:
                with self.accelerator.autocast():
                    batch.reference, _ = self.reference(batch.inputs, batch.mask, batch.prompts)
            elif settings.beta:
                with self.network.disable_adapter():
                    batch.reference, _ = self.policy(batch.inputs, batch.mask, batch.prompts)
        return batch

    def learned_tokens(self, draft: Draft) -> list[int]:
        """Return 1 for each token of a rollout that counts in the loss, 0 for the others."""
        left_out = draft.cut and self.settings.mask_truncated_completions
        return [0] * len(draft.mask) if left_out else list(draft.mask)

    def loss(self, batch: Batch, tokens: float) -> tuple[Tensor, Counted]:
        """Return the loss of a batch, and numbers of its tokens for the log.

        `tokens` is the number of tokens of a step's loss, divided by its batches.
        """
        settings, mask = self.settings, batch.mask
        logp, entropy = self.policy(batch.inputs, mask, batch.prompts)
        high = settings.epsilon if settings.epsilon_high is None else settings.epsilon_high
        loss = grpo_loss(
            logp,
            batch.old,
            batch.reference,
            batch.advantage,
            mask,
            loss_type=settings.loss_type,
            epsilon=settings.epsilon,
            epsilon_high=high,
            beta=settings.beta,
            max_completion_length=settings.max_completion_length,
            tokens=tokens,
            sampler_ratio=batch.ratio,
            importance_sampling_level=settings.importance_sampling_level,
        )
        if settings.entropy_coef:
            mean = (entropy * mask).sum() / mask.sum().clamp(min=1.0)
            loss = loss - settings.entropy_coef * mean
        clips, shares = clipped(logp, batch.old, batch.advantage, mask, settings)
        self.clipped.append(shares)
        counted = {"entropy": (entropy, mask), **clips}
        if batch.reference is not None:
            counted["kl"] = divergence(logp, batch.reference), mask
        return loss, counted | {"answer_entropy": (entropy, batch.answers)}

    def update(self, round_: Round[Batch], learning_rate: float, step: int = 1) -> dict[str, float]:
        """Make an optimiser step; the returned numbers have the extreme clip ratios, too."""
        self.clipped = []
        numbers = super().update(round_, learning_rate, step)
        return numbers | extremes(gather(self.clipped))

    # -- states -----------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Copy moments and prompts: the round changes them before it changes the weights."""
        super().begin_round()
        if self.moments is not None:
            self.moments_before = replace(self.moments, moments=dict(self.moments.moments))
        if self.prompts is not None:
            self.prompts_before = self.prompts.begin_round()

    def save(self, folder: Path) -> None:
        """Write a state; called in every process."""
        moments = self.moments if self.changed else self.moments_before
        if moments is not None and self.accelerator.is_main_process:
            moments.save(folder)
        prompts = self.prompts if self.changed else self.prompts_before
        if prompts is not None and self.accelerator.is_main_process:
            prompts.save(folder)
        super().save(folder)

    def load(self, folder: Path) -> None:
        """Restore a state that `save` wrote."""
        if self.moments is not None:
            self.moments.load(folder)
        if self.prompts is not None:
            self.prompts.load(folder)
        super().load(folder)
