"""GRPO from top to bottom: samples → rollouts → rewards of groups → `grpo_loss` → step → state.

`train` is the whole loop; `Learner.round` is what it does in a round, `Learner.update` in a step.
Test-time methods have a lighter one: `harness.models.test_time`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from harness.errors import ModelError
from harness.model import Conversation
from harness.models.backends.inputs import joined_inputs
from harness.models.backends.sampling import rollout_key
from harness.models.backends.transformers import TransformersChat
from harness.models.grammar import ParseResult
from harness.models.learning.loss import advantages, divergence, grpo_loss
from harness.models.learning.rows import answer_span
from harness.models.learning.weights import decayed
from harness.models.rollout import Transcript, write_rollout
from harness.plugins import plugin_errors
from harness.trainer import Curve
from harness.trainers import state as states
from harness.trainers.grpo.ema import RewardMoments, ema_advantages
from harness.trainers.grpo.examples import Example, Prompt, encoded_each
from harness.trainers.grpo.method import TOTAL, Group, GrpoMethod, RewardComponents, Rollout
from harness.trainers.grpo.policy import Policy, load_policy, reference_of, zero_stage
from harness.trainers.grpo.rewards import ROLLOUTS, log_rollouts, numbers_of, reward_group
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.vllm import VllmChat, sampler_ratio
from harness.trainers.session import Session, gather
from harness.trainers.sft import network as networks

WEIGHTS, OPTIMIZER, ENGINE = "trained.safetensors", "optimizer.pt", "engine"
"""Files of a state, and the name of what DeepSpeed saves instead."""


def train(
    learner: "Learner",
    examples: Sequence[Example],
    session: Session,
    parse: Callable[[str], ParseResult],
) -> None:
    """Train to the end, from the session's state or from the beginning.

    `parse` is the method's grammar, with which the log of rollouts names places.

    Raises:
        KeyboardInterrupt: the run was asked to stop; the state after its round is saved.
    """
    run, chosen, done = session.run, learner.settings, session.done
    total, turns = chosen.steps(len(examples)), chosen.num_iterations
    prompts, log = chosen.prompts_per_round, Curve(run.out / ROLLOUTS)
    if session.state is not None:
        learner.load(session.state)
    if run.main:
        learner.tokens = max((row.get("num_tokens", 0.0) for row in run.curve.read()), default=0.0)
        log.cut(done)
    rate = learning_rates(chosen, total)
    run.progress.start("training", total, done)
    rounds = range(math.ceil(done / turns), math.ceil(total / turns))
    order = islice(sample_order(run.seed, len(examples)), rounds.start * prompts, None)
    for number in rounds:
        batch = learner.round([examples[row] for row in islice(order, prompts)], number)
        first, end = number * turns, min(total, (number + 1) * turns)
        if run.main:
            kept = batch.groups[: chosen.keep_rollouts]
            log_rollouts(log, first + 1, kept, batch.rewards, batch.advantages, parse)
        for step in range(first, end):
            numbers = batch.numbers if step == first else {}
            numbers |= learner.update(batch, rate(step))
            numbers["epoch"] = (number + 1) * prompts / len(examples)
            session.log(step + 1, numbers | session.evaluate(step + 1))
        stopping = session.stopping()
        # A state is of the end of a round, whose rollouts need not be kept in it.
        if stopping or end == total or end // chosen.save_steps > first // chosen.save_steps:
            wait = learner.accelerator.wait_for_everyone
            with states.saved_state(run.state, end, main=run.main, wait=wait) as folder:
                learner.save(folder)
        if stopping and end < total:
            raise KeyboardInterrupt
    run.progress.end()


def sample_order(seed: int, samples: int) -> Iterator[int]:
    """Yield samples without end, each once an epoch, in an order of seed and epoch alone.

    So a state holds no order, and no sample is left out because it does not fill a round.
    """
    for epoch in count():
        key = np.array([seed % 2**64, epoch], dtype=np.uint64)
        yield from np.random.Generator(np.random.Philox(key=key)).permutation(samples).tolist()


def learning_rates(settings: Settings, total: int) -> Callable[[int], float]:
    """Return the learning rate of the step after so many others: transformers' schedule."""
    from transformers import get_scheduler

    stand_in = torch.optim.SGD([torch.zeros(1)], lr=1.0)  # a state then holds no schedule
    course = get_scheduler(settings.lr_scheduler_type, stand_in, settings.warmup_steps, total)
    return lambda step: settings.peak_learning_rate * course.lr_lambdas[0](step)


@dataclass(eq=False, kw_only=True)
class Draft(Transcript):
    """A rollout of a training, from its prompt to the policy's response to its second request."""

    example: Example
    prompt: Prompt
    key: str
    """Key of the random numbers that draw its tokens."""
    second: Rollout | None = None

    @property
    def rollout(self) -> Rollout:
        """Rollout as a reward sees it."""
        return Rollout(text=self.text, tokens=sum(self.mask), cut=self.cut, facts=self.facts)


@dataclass(eq=False)
class Batch:
    """Rollouts that gradients are computed for at once; B × T where nothing else is said."""

    inputs: dict[str, Tensor]
    """Inputs of the network: prompts padded on the left, completions on the right."""
    mask: Tensor
    """1 for tokens that the policy wrote, 0 for others, which count in nothing."""
    answers: Tensor
    """1 for the policy's tokens between the answer's tags."""
    advantage: Tensor
    """Advantage of each rollout (B)."""
    old: Tensor | None = None
    reference: Tensor | None = None
    ratio: Tensor | None = None
    """Ratio of the network's probabilities to vLLM's; see `grpo_loss`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Round:
    """Rollouts of this process with their rewards, and the batches that are learned from."""

    groups: Sequence[Group]
    rewards: Sequence[Sequence[RewardComponents]]
    advantages: Sequence[float]
    batches: Sequence[Batch]
    tokens: float
    """Number of tokens that the policy wrote, in all processes."""
    numbers: dict[str, float]


class Learner:
    """A policy in training, with its rollouts, rewards and updates."""

    def __init__(
        self, method: GrpoMethod, chat: TransformersChat, accelerator: Accelerator, *, seed: int
    ) -> None:
        """Load the network of a backend, and all that the method's settings need beside it."""
        self.method, self.chat, self.accelerator = method, chat, accelerator
        self.settings, self.seed = method.settings, seed
        chosen = method.settings
        set_seed(seed)  # an adapter begins with random numbers
        self.network = load_policy(chat, chosen)
        self.policy, self.optimizer = accelerator.prepare(
            Policy(self.network, chosen.temperature),
            torch.optim.AdamW(decayed(self.network, chosen.weight_decay), lr=0.0),
        )
        self.reference = reference_of(chat, chosen, accelerator)
        media = (f"{kind}_token_id" for kind in ("image", "video"))
        named = {getattr(self.network.config, name, None) for name in media}
        self.suppressed = tuple(sorted(token for token in named if token is not None))
        """Tokens of media: one that is written would want its patches."""
        self.vllm = (
            None
            if chosen.vllm_mode is None
            else VllmChat(chat, chosen, self.network, accelerator, self.suppressed)
        )
        self.moments = None if chosen.ema_decay is None else RewardMoments(chosen.ema_decay)
        self.tokens = 0.0
        """Number of tokens of prompts and rollouts so far, in all processes."""

    # -- rollouts ---------------------------------------------------------------------------------

    def round(self, examples: Sequence[Example], number: int) -> Round:
        """Write a group of rollouts to each prompt of a round, and reward them.

        Each process takes its share of `examples`; seed and `number` decide every draw.

        Raises:
            ModelError: the reward, the second pass or the environment fails.
        """
        drawn = np.random.SeedSequence([self.seed % 2**64, number]).generate_state(1)
        set_seed(int(drawn[0]) >> 1, device_specific=True)
        rank, size = self.accelerator.process_index, self.settings.num_generations
        share = len(examples) // self.accelerator.num_processes
        own = examples[rank * share : (rank + 1) * share]
        prompts = encoded_each(self.chat.processor, [one.request for one in own])
        several = [
            [
                Draft(example=one, prompt=prompt, key=rollout_key(key, place))
                for place in range(size)
            ]
            for at, (one, prompt) in enumerate(zip(own, prompts, strict=True), rank * share)
            for key in [f"{one.request.key}@{number}:{at}"]
        ]
        drafts = [draft for some in several for draft in some]
        with self.answering() as chat:
            chat.converse([self.conversation(draft) for draft in drafts])
        groups = [self._group(some) for some in several]
        rewards = [
            reward_group(self.method, group, [one.key for one in some], seed=self.seed)
            for group, some in zip(groups, several, strict=True)
        ]
        numbers = numbers_of(groups, rewards)
        numbers["num_tokens"] = [float(one.prompt["input_ids"].shape[1]) for one in drafts]
        merged = defaultdict[str, list[float]](list)
        for name, values in (pair for each in gather([numbers]) for pair in each.items()):
            merged[name] += values
        totals, lengths = merged[f"rewards/{TOTAL}"], merged["completions/mean_length"]
        self.tokens += sum(merged["num_tokens"]) + sum(lengths)
        gains = self._gains(totals, groups)
        gains = gains[rank * len(drafts) : (rank + 1) * len(drafts)]
        each = self.settings.per_device_train_batch_size
        parts = [slice(start, start + each) for start in range(0, len(drafts), each)]
        return Round(
            groups=groups,
            rewards=rewards,
            advantages=gains.tolist(),
            batches=[self._batch(drafts[part], gains[part]) for part in parts],
            tokens=sum(lengths),
            numbers={
                **{name: fmean(values) for name, values in merged.items()},
                "num_tokens": self.tokens,
                "completions/min_length": min(lengths),
                "completions/max_length": max(lengths),
                "reward": fmean(totals),
                "reward_std": fmean(
                    stdev(totals[start : start + size]) for start in range(0, len(totals), size)
                ),
            },
        )

    @contextmanager
    def answering(self) -> "Iterator[TransformersChat | VllmChat]":
        """Yield a chat by which the policy answers as it is now, without gradients."""
        if self.vllm is not None:
            self.vllm.begin_round()
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
        if method.second is not None:
            with plugin_errors(f"second pass of {method.name}", ModelError):
                request = method.second(sample, draft.rollout)
            heat = method.second_temperature
            request = replace(request, key=f"{draft.key}/second", temperature=heat)
            (response,) = yield (request,)
            text = f"{request.prefix}{self.chat.decode(response.tokens)}"
            draft.second = Rollout(text=text, tokens=len(response.tokens), cut=response.cut)
        return draft

    def _gains(self, totals: Sequence[float], own: Sequence[Group]) -> Tensor:
        """Return the advantages of a round's rollouts in all processes, whose rewards are given."""
        rewards, size = torch.tensor(totals), self.settings.num_generations
        if self.moments is not None:
            # OneThinker's kinds of problems part segmentation of images from that of videos too.
            tasks = gather(["+".join(one.sample.query.forms) for one in own])
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
        tokenizer = self.chat.processor.tokenizer
        inputs = dict(joined_inputs(self.chat.processor, [one.prompt for one in drafts]))
        ids = _padded([one.tokens for one in drafts], tokenizer.pad_token_id)
        seen = _padded([[1] * len(one.tokens) for one in drafts])
        inputs["input_ids"] = torch.cat([inputs["input_ids"], ids], dim=1)
        inputs["attention_mask"] = torch.cat([inputs["attention_mask"], seen], dim=1)
        if "mm_token_type_ids" in inputs:  # all that is written is text, 0
            inputs["mm_token_type_ids"] = pad(inputs["mm_token_type_ids"], (0, ids.shape[1]))
        answers = (
            [own * (start <= place < end) for place, own in enumerate(one.mask)]
            for one in drafts
            for start, end in [answer_span(tokenizer.decode, one.tokens)]
        )
        batch = Batch(
            inputs={name: value.to(device) for name, value in inputs.items()},
            mask=_padded(one.mask for one in drafts).float().to(device),
            answers=_padded(answers).float().to(device),
            advantage=advantage.to(device),
        )
        with torch.no_grad():
            if chosen.num_iterations > 1 or self.vllm is not None:
                batch.old, _ = self.policy(batch.inputs, batch.mask)
            if batch.old is not None and self.vllm is not None:
                drawn = _padded(map(self.vllm.drawn_logps, drafts)).to(device)
                batch.ratio = sampler_ratio(batch.old, drawn, batch.mask)
            if chosen.beta and self.reference is not None:
                with self.accelerator.autocast():
                    batch.reference, _ = self.reference(batch.inputs, batch.mask)
            elif chosen.beta:
                with self.network.disable_adapter():
                    batch.reference, _ = self.policy(batch.inputs, batch.mask)
        return batch

    def update(self, batch: Round, learning_rate: float) -> dict[str, float]:
        """Make one optimiser step on a round; returns what is logged of it."""
        chosen, accelerator = self.settings, self.accelerator
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        parts = len(batch.batches)
        # What is averaged over a whole step is averaged over processes and batches again below.
        tokens = batch.tokens / accelerator.num_processes / parts
        sums, norm = torch.zeros(7, device=accelerator.device), None
        for one in batch.batches:
            with accelerator.accumulate(self.policy):
                loss, info = self._loss(one, tokens)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    limit = chosen.max_grad_norm or math.inf
                    norm = accelerator.clip_grad_norm_(self.policy.parameters(), limit)
                self.optimizer.step()
                self.optimizer.zero_grad()
            sums += torch.cat([loss.detach()[None] / parts, info])
        sums = accelerator.reduce(sums, reduction="sum")
        loss_sum, kl, entropy, clipped, count, answer_entropy, answer_count = sums.tolist()
        numbers = {
            "loss": loss_sum / accelerator.num_processes,
            "learning_rate": learning_rate,
            "entropy": entropy / max(count, 1.0),
            "clip_ratio/region_mean": clipped / max(count, 1.0),
        }
        if norm is not None:  # DeepSpeed has clipped by itself, and does not always say it
            numbers["grad_norm"] = float(norm)
        if chosen.beta:
            numbers["kl"] = kl / max(count, 1.0)
        if answer_count:
            numbers["answer_entropy"] = answer_entropy / answer_count
        return numbers

    def _loss(self, batch: Batch, tokens: float) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and sums over its tokens for the log."""
        chosen, mask = self.settings, batch.mask
        logp, entropy = self.policy(batch.inputs, mask)
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
        )
        if chosen.entropy_coef:
            mean = (entropy * mask).sum() / mask.sum().clamp(min=1.0)
            loss = loss - chosen.entropy_coef * mean
        with torch.no_grad():
            gain = batch.advantage[:, None]
            ratio = torch.exp(logp - logp if batch.old is None else logp - batch.old)
            outside = torch.where(
                gain > 0, ratio > 1 + high, (ratio < 1 - chosen.epsilon) & (gain < 0)
            )
            kl = 0 * logp if batch.reference is None else divergence(logp, batch.reference)
            counted = [kl * mask, entropy * mask, outside * mask, mask]
            counted += [entropy * batch.answers, batch.answers]
            return loss, torch.stack([one.sum() for one in counted])

    # -- states -----------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write a state; called in every process."""
        if self.moments is not None and self.accelerator.is_main_process:
            self.moments.save(folder)
        if zero_stage(self.accelerator):
            self.policy.save_checkpoint(str(folder), tag=ENGINE)
        elif self.accelerator.is_main_process:
            states.save_tensors(folder / WEIGHTS, states.trained_tensors(self.network))
            torch.save(self.optimizer.state_dict(), folder / OPTIMIZER)

    def load(self, folder: Path) -> None:
        """Go on from a state."""
        if self.moments is not None:
            self.moments.load(folder)
        if zero_stage(self.accelerator):
            self.policy.load_checkpoint(str(folder), tag=ENGINE)
        else:
            states.load_tensors(folder / WEIGHTS, self.network)
            self.optimizer.load_state_dict(torch.load(folder / OPTIMIZER, weights_only=True))

    def export(self, folder: Path) -> None:
        """Write the network as it is now; called in every process."""
        tensors = None
        if zero_stage(self.accelerator) == 3:  # otherwise each process holds all weights
            whole = self.accelerator.get_state_dict(self.policy)
            tensors = {name.removeprefix("network."): one for name, one in (whole or {}).items()}
        if self.accelerator.is_main_process:
            networks.export(self.network, self.chat.folder, folder, tensors=tensors)
        self.accelerator.wait_for_everyone()


def _padded(rows: Iterable[Sequence[float]], fill: float = 0) -> Tensor:
    return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=fill)
