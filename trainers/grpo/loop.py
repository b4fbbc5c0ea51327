"""Make rounds of GRPO and their loss: rollouts → rewards of groups → advantages → `grpo_loss`.

The loop around it is `harness.trainers.learner.train`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import compress
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from harness.chat import ChatRequest, Conversation
from harness.errors import HarnessError, ModelError
from harness.models.backends.continuous_batching import supports_continuous_batching
from harness.models.backends.positions import beyond, positions_of
from harness.models.backends.sampling import rollout_key
from harness.models.backends.transformers import TransformersChat
from harness.models.learning.loss import advantages, divergence, grpo_loss
from harness.models.learning.rows import answer_span
from harness.models.rollout import write_rollout
from harness.plugins import plugin_errors
from harness.trainers import network as networks
from harness.trainers.grpo.clipping import Shares, clipped, extremes
from harness.trainers.grpo.ema import RewardMoments, ema_advantages
from harness.trainers.grpo.examples import Example
from harness.trainers.grpo.groups import Batch, Draft, RewardedRound, Written
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents, Rollout
from harness.trainers.grpo.prompts import PromptOrder
from harness.trainers.grpo.reward_errors import FailedRewards, reward_or_drop
from harness.trainers.grpo.rewards import refuse_losses, statistics_of, summary_of
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.vllm import VllmChat, sampler_ratio, sampling_numbers
from harness.trainers.learner import Counted, Learner, Round
from harness.trainers.network import media_tokens
from harness.trainers.policy import Policy, frozen_policy, zero_stage
from harness.trainers.rows import completed, encoded_each, padded, shared_prompts
from harness.trainers.session import gather, raise_together
from harness.trainers.stopwatch import GENERATION, REWARD, UPDATE


class GrpoLearner(Learner[Example, Sequence[Example], Batch]):
    """A policy in training, with its rollouts and their rewards."""

    settings: Settings

    def __init__(
        self, method: GrpoMethod, chat: TransformersChat, accelerator: Accelerator, *, seed: int
    ) -> None:
        """Load the network of a backend, and all that the method's settings need beside it."""
        chosen = method.settings
        super().__init__(chat, chosen, accelerator, seed=seed, temperature=chosen.temperature)
        self.method = method
        self.reference = None
        """Policy that training begins with, if it is not the one without its adapter."""
        if chosen.beta and chosen.finetune == "full":
            first = networks.load(chat, dtype=networks.types_of(chat, chosen)[0])
            self.reference = frozen_policy(Policy(first, chosen.temperature), accelerator)
        self.suppressed = media_tokens(self.network)
        self.vllm = (
            None
            if chosen.vllm_mode is None
            else VllmChat(chat, chosen, self.network, accelerator, self.suppressed)
        )
        # Layers whose activations are computed twice keep no cache to go on from; and ZeRO-3 wants
        # the same calls in every process, which do not all have as many different prompts.
        self.shares_prompts = (
            not chosen.gradient_checkpointing
            and zero_stage(accelerator) != 3
            and supports_continuous_batching(self.network, chat.model_type)
        )
        self.moments = None if chosen.ema_decay is None else RewardMoments(chosen.ema_decay)
        self.before = self.moments
        """Moments before the round that is made."""
        self.clipped: list[Shares] = []
        """Of each batch of a step."""
        order = PromptOrder(seed=seed, revisit=chosen.revisit_probability)
        self.prompts = order if chosen.dynamic_sampling else None
        self.prompts_before = self.prompts
        """Prompts before the round that is made."""
        self.tokens = 0.0
        """Number of tokens of prompts and rollouts so far, in all processes."""
        self.failed = FailedRewards(chosen)
        self.log: Callable[[int, RewardedRound], object] = lambda number, made: None
        """Keeps rollouts; is called with the number of each round."""

    def resumed(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Count tokens, and prompts without a reward, on from the rows."""
        self.tokens = max((row.get("num_tokens", 0.0) for row in rows), default=0.0)
        self.failed.resume(gather([list(rows)])[0])

    # -- rollouts ---------------------------------------------------------------------------------

    def drawn(
        self, examples: Sequence[Example], rounds: range, size: int
    ) -> Iterator[Sequence[Example]]:
        """Yield the prompts of each round; in `dynamic_sampling` they follow from those before."""
        if self.prompts is None:
            yield from super().drawn(examples, rounds, size)
            return
        self.prompts.examples = examples
        for _ in rounds:
            yield self.share(self.prompts.take(size))

    def shown(self, samples: int) -> int:
        """Return how many prompts the rounds so far have passed, of which so many were learned."""
        return samples if self.prompts is None else self.prompts.drawn

    def prepare(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Return the examples: their prompts are encoded when the policy is there to answer."""
        return examples

    def round(self, examples: Sequence[Example], number: int) -> RewardedRound:
        """Write a group of rollouts to each prompt, and reward them.

        Raises:
            ModelError: the reward, the second pass or the environment fails.
            Unavailable: more rollouts than `infrastructure_limit` were lost.
        """
        self.seed_round(number)
        if self.vllm is not None:
            self.vllm.begin_round()
        written = self._written(examples, number)
        learned, more = written, dict[str, float]()
        if self.prompts is not None:
            self._replace_dead(self.prompts, written, number)
            # Those that teach something come first, and the rest fills up what was asked for.
            learned = sorted(written, key=lambda one: one.is_dead)[: len(examples)]
            extra = (len(written) - len(learned)) * self.accelerator.num_processes
            more = {"extra_prompts": extra, "skipped_prompts": self.prompts.skipped}
        groups, rewards = [one.group for one in written], [one.rewards for one in written]
        every = [draft for one in written for draft in one.drafts]
        lengths = [draft.prompt["input_ids"].shape[1] for draft in every]
        completions = [list(compress(draft.tokens, draft.mask)) for draft in every]
        faults = [one.fault for one in written]
        merged, reasons = statistics_of(groups, rewards, lengths, completions, faults)
        tokens = sum(merged["completions/mean_length"])
        self.tokens += sum(merged["prompts/mean_length"]) + tokens
        all_gains = self._gains(learned)
        drafts = [draft for one in learned for draft in one.drafts]
        gains = all_gains[self.accelerator.process_index * len(drafts) :][: len(drafts)]
        each = self.settings.per_device_train_batch_size
        parts = [slice(at, at + each) for at in range(0, len(drafts), each)]
        with self.stopwatch.part(UPDATE):
            batches = [self._batch(drafts[part], gains[part]) for part in parts]
        made = RewardedRound(
            groups=[one.group for one in learned],
            prompts=[one.drafts[0].example.request.text for one in learned],
            rewards=[one.rewards for one in learned],
            advantages=gains.tolist(),
            batches=batches,
            samples=[[one.example.name for one in drafts[part]] for part in parts],
            tokens=sum(gather([sum(map(sum, map(self.learned_tokens, drafts)))])),
            numbers={
                **summary_of(merged, all_gains.tolist()),
                "num_tokens": self.tokens,
                "step_tokens": tokens,
                **more,
            },
        )
        if self.vllm is not None:
            compared = [(one.old, one.drawn, one.mask, one.ratio) for one in made.batches]
            made.numbers.update(sampling_numbers(compared))  # type: ignore[arg-type]
        self.log(number, made)
        if self.settings.reward_errors == "drop":
            note = self.run.progress.note
            made.numbers.update(self.failed.add(gather(faults), number=number, note=note))
        limit, rollouts = self.settings.infrastructure_limit, len(merged[f"rewards/{TOTAL}"])
        refuse_losses(reasons, limit=limit, rollouts=rollouts, number=number)
        return made

    def _written(self, examples: Sequence[Example], number: int, before: int = 0) -> list[Written]:
        """Write and reward this process's groups; `before` are those that a round has already."""
        first = before * self.accelerator.num_processes
        first += self.accelerator.process_index * len(examples)
        with self.stopwatch.part(GENERATION):
            prompts = encoded_each(self.chat.processor, [one.request for one in examples])
        several = [
            [
                Draft(example=one, prompt=prompt, key=rollout_key(key, place))
                for place in range(self.settings.num_generations)
            ]
            for at, (one, prompt) in enumerate(zip(examples, prompts, strict=True), first)
            for key in [f"{one.request.key}@{number}:{at}"]
        ]
        with self.stopwatch.part(GENERATION), self.answering() as chat:
            chat.converse([self.conversation(draft) for some in several for draft in some])
        groups = [self._group(some) for some in several]
        with self.stopwatch.part(REWARD):
            rewards = self._rewards(groups, several)
        return [
            Written(drafts=some, group=group, rewards=own, fault=fault)
            for some, group, (own, fault) in zip(several, groups, rewards, strict=True)
        ]

    def _replace_dead(self, prompts: PromptOrder, written: list[Written], number: int) -> None:
        """Add groups of further prompts until enough teach something, and count the dead ones.

        All processes write equally many, so that each has enough.
        """
        share, processes = len(written), self.accelerator.num_processes
        for _ in range(1, self.settings.max_num_gen_batches):
            missing = max(gather([share - sum(not one.is_dead for one in written)]))
            if missing <= 0:
                break
            further = self.share(prompts.take(missing * processes))
            written += self._written(further, number, len(written))
        judged = [group for group in written if not group.fault]
        prompts.record(gather([(group.drafts[0].example.name, group.is_dead) for group in judged]))

    def _rewards(
        self, groups: Sequence[Group], several: Sequence[Sequence[Draft]]
    ) -> list[tuple[list[RewardComponents], str]]:
        """Return `reward_or_drop` of groups; an error of one process is raised in all of them."""
        rewards, fault = [], None
        try:
            for group, drafts in zip(groups, several, strict=True):
                keys = [draft.key for draft in drafts]
                none = next((one.fault for one in drafts if one.fault is not None), None)
                rewards.append(reward_or_drop(self.method, group, keys, seed=self.seed, fault=none))
        except HarnessError as error:
            fault = error
        raise_together(fault)
        return rewards

    @contextmanager
    def answering(self) -> "Iterator[TransformersChat | VllmChat]":
        """Yield a chat by which the policy answers as it is now, without gradients."""
        if self.vllm is not None:
            yield self.vllm
            return
        whole: AbstractContextManager[Policy]
        whole = nullcontext(self.accelerator.unwrap_model(self.policy))
        if zero_stage(self.accelerator) == 3:
            from trl.models.utils import unwrap_model_for_generation

            whole = unwrap_model_for_generation(self.policy, self.accelerator)
        self.policy.eval()  # no activations are computed twice either
        with whole as one, torch.no_grad(), self.accelerator.autocast():
            yield self.chat_of(one.network)
        self.policy.train()

    def chat_of(self, network: networks.Network) -> TransformersChat:
        """Return evaluation's backend with a network in the place of what it would load."""
        chosen, device = self.settings, self.accelerator.device
        share = chosen.generation_batch_size // self.accelerator.num_processes
        chat = replace(
            self.chat,
            device=str(device),
            seed=self.seed,
            batch_size=chosen.generation_micro_batch_size or share,
            temperature=chosen.temperature,
            top_p=chosen.top_p,
            repetition_penalty=1.0,  # what is drawn is what the loss scores
            keyed=chosen.noise == "keyed" or (chosen.noise == "auto" and device.type == "cpu"),
            suppress_tokens=self.suppressed,
        )
        vars(chat).update(network=network, processor=self.chat.processor)
        return chat

    def conversation(self, draft: Draft) -> Conversation[Draft]:
        """Write a rollout: turn after turn of the policy, and its second request after it."""
        method, sample = self.method, draft.example.sample
        first = replace(draft.example.request, key=draft.key, temperature=None)
        episode = None if method.environment is None else method.environment(sample.query)
        yield from write_rollout(first, episode, self.chat, draft, who=method.name)
        if method.second is None:
            return draft
        try:
            with plugin_errors(f"second pass of {method.name}", ModelError):
                request = method.second(sample, draft.rollout)
            self._check_second(request, draft)
        except ModelError as error:
            # It ends the training, or costs the sample, where rewards do, in all processes alike:
            # until then each has to generate as often, here from a prompt that fits.
            draft.fault, request = error, first
        heat = method.second_temperature
        request = replace(request, key=f"{draft.key}/second", temperature=heat)
        (response,) = yield (request,)
        text = f"{request.prefix}{self.chat.decode(response.tokens)}"
        draft.second = Rollout(text=text, tokens=len(response.tokens), cut=response.cut)
        return draft

    def _check_second(self, request: ChatRequest, draft: Draft) -> None:
        """Raise ModelError if a second prompt and its response are beyond the positions."""
        first, positions = draft.example.request, positions_of(self.network.config)
        other = ("key", "text", "prefix", "max_new_tokens", "stop", "temperature", "top_p")
        is_alike = replace(request, **{name: getattr(first, name) for name in other}) == first
        more = self.chat.count_tokens(f"{request.text}{request.prefix}")
        most = draft.prompt["input_ids"].shape[1] + more
        if is_alike and not beyond(most, request.max_new_tokens, positions):
            return  # and its images, which take long, need not be encoded here
        tokens = encoded_each(self.chat.processor, [request])[0]["input_ids"].shape[1]
        if why := beyond(tokens, request.max_new_tokens, positions):
            raise ModelError(
                f"second pass of {self.method.name}, sample {draft.example.sample.id}",
                expected="a prompt and a response within the network's positions",
                found=why,
                fix="Lower max_completion_length; leave such samples out as they come "
                "(reward_errors=drop); or give the method second_tokens, the most tokens that a "
                "second prompt has beyond the first, and they are left out before.",
            )

    def _gains(self, own: Sequence[Written]) -> Tensor:
        """Return the advantages of a round's rollouts in all processes, of which `own` are here."""
        totals = gather([reward[TOTAL] for one in own for reward in one.rewards])
        rewards, size = torch.tensor(totals), self.settings.num_generations
        if self.moments is not None:
            # OneThinker's kinds of problems part segmentation of images from that of videos too.
            tasks = gather(["+".join(one.group.sample.query.forms) for one in own])
            return ema_advantages(rewards, size, tasks=tasks, moments=self.moments)
        return advantages(rewards, size, scale_rewards=self.settings.scale_rewards)

    def _group(self, drafts: Sequence[Draft]) -> Group:
        example = drafts[0].example
        return Group(
            sample=example.sample,
            task=example.task,
            rollouts=tuple(one.rollout for one in drafts),
            seconds=tuple(one.second for one in drafts if one.second is not None),
            canvas=example.canvas,
            count_tokens=self.chat.count_tokens,
            frames=example.frames,
        )

    # -- learning ---------------------------------------------------------------------------------

    def _batch(self, drafts: Sequence[Draft], advantage: Tensor) -> Batch:
        """Return rollouts as tensors, with their log-probabilities before the step."""
        chosen, device = self.settings, self.accelerator.device
        decode = self.chat.processor.tokenizer.decode
        several = [one.prompt for one in drafts]
        inputs = completed(self.chat.processor, several, [one.tokens for one in drafts])
        prompts = None
        if self.shares_prompts:
            prompts = shared_prompts(self.network, self.chat.processor, several)
        answers = (
            [own * (start <= place < end) for place, own in enumerate(one.mask)]
            for one in drafts
            for start, end in [answer_span(decode, one.tokens)]
        )
        batch = Batch(
            inputs={name: value.to(device) for name, value in inputs.items()},
            prompts=prompts and {name: value.to(device) for name, value in prompts.items()},
            mask=padded(map(self.learned_tokens, drafts)).float().to(device),
            answers=padded(answers).float().to(device),
            advantage=advantage.to(device),
        )
        with torch.no_grad():
            if chosen.num_iterations > 1 or self.vllm is not None:
                batch.old, _ = self.policy(batch.inputs, batch.mask, batch.prompts)
            if batch.old is not None and self.vllm is not None:
                batch.drawn = padded(map(self.vllm.drawn_logps, drafts)).to(device)
                batch.ratio = sampler_ratio(batch.old, batch.drawn, batch.mask)
            if chosen.beta and self.reference is not None:
                with self.accelerator.autocast():
                    batch.reference, _ = self.reference(batch.inputs, batch.mask, batch.prompts)
            elif chosen.beta:
                with self.network.disable_adapter():
                    batch.reference, _ = self.policy(batch.inputs, batch.mask, batch.prompts)
        return batch

    def learned_tokens(self, draft: Draft) -> list[int]:
        """Return 1 for each token of a rollout that counts in the loss."""
        left_out = draft.cut and self.settings.mask_truncated_completions
        return [0] * len(draft.mask) if left_out else list(draft.mask)

    def loss(self, batch: Batch, tokens: float) -> tuple[Tensor, Counted]:
        """Return the loss of a batch, and numbers of its tokens for the log."""
        chosen, mask = self.settings, batch.mask
        logp, entropy = self.policy(batch.inputs, mask, batch.prompts)
        high = chosen.epsilon if chosen.epsilon_high is None else chosen.epsilon_high
        loss = grpo_loss(
            logp,
            batch.old,
            batch.reference,
            batch.advantage,
            mask,
            loss_type=chosen.loss_type,
            epsilon=chosen.epsilon,
            epsilon_high=high,
            beta=chosen.beta,
            max_completion_length=chosen.max_completion_length,
            tokens=tokens,
            sampler_ratio=batch.ratio,
            importance_sampling_level=chosen.importance_sampling_level,
        )
        if chosen.entropy_coef:
            mean = (entropy * mask).sum() / mask.sum().clamp(min=1.0)
            loss = loss - chosen.entropy_coef * mean
        clips, shares = clipped(logp, batch.old, batch.advantage, mask, chosen)
        self.clipped.append(shares)
        counted = {"entropy": (entropy, mask), **clips}
        if batch.reference is not None:
            counted["kl"] = divergence(logp, batch.reference), mask
        return loss, counted | {"answer_entropy": (entropy, batch.answers)}

    def update(self, batch: Round[Batch], learning_rate: float, step: int = 1) -> dict[str, float]:
        """Make an optimiser step, and add what the rollouts were clipped by at the extremes."""
        self.clipped = []
        numbers = super().update(batch, learning_rate, step)
        return numbers | extremes(gather(self.clipped))

    # -- states -----------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Note moments and prompts too, which the round changes before the weights."""
        super().begin_round()
        if self.moments is not None:
            self.before = replace(self.moments, moments=dict(self.moments.moments))
        if self.prompts is not None:
            self.prompts_before = self.prompts.begin_round()

    def save(self, folder: Path) -> None:
        """Write a state; called in every process."""
        moments = self.moments if self.changed else self.before
        if moments is not None and self.accelerator.is_main_process:
            moments.save(folder)
        prompts = self.prompts if self.changed else self.prompts_before
        if prompts is not None and self.accelerator.is_main_process:
            prompts.save(folder)
        super().save(folder)

    def load(self, folder: Path) -> None:
        """Go on from a state."""
        if self.moments is not None:
            self.moments.load(folder)
        if self.prompts is not None:
            self.prompts.load(folder)
        super().load(folder)
