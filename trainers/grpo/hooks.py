"""What is done differently in TRL's GRPOTrainer: with `trl_compat`, all that knows its inside.

TRL keeps the loop, the advantages, the losses, the reference, accumulation, DeepSpeed and vLLM.
Replaced here, each with a contract test in tests/trainers/test_grpo_hooks.py:

- Prompts. TRL takes pictures alone (a `video` column is silently ignored) and words them by itself.
  Here prompts are evaluation's own tensors, with pictures and videos, encoded once a prompt.
- Token choice. Optionally noise by counters: a rollout does not depend on its batch or process.
- Order. TRL leaves out samples that do not fill a batch, and repeats the first epoch's order after
  a resumption in a later one. Here the samples of a round are a function of seed and round.
- Writing. Where each process has the whole network, a group's prompt is read once, and second
  requests are answered in the places of rollouts that have ended; otherwise by `generate`.
- vLLM. TRL asks it once a round. Here it may be asked again, on the same weights, for second
  requests, which have a limit and a temperature of their own.
- Rewards. Whole groups are scored, and a second request may follow each rollout.
- Numbers. Every term of the reward, and the entropy of the tokens between <answer> tags.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from harness.model import ChatRequest
from harness.models.backends import rolling
from harness.models.backends.sampling import TokenChoice, rollout_key
from harness.trainers.grpo.course import Course, Turn
from harness.trainers.grpo.encoding import (
    encoded_beside,
    encoded_each,
    joined,
    kinds,
    patches,
    tokens_of,
)
from harness.trainers.grpo.passes import Choice, Passes
from harness.trainers.grpo.rounds import Rounds
from harness.trainers.grpo.scoring import Scored, second_key
from harness.trainers.grpo.tokens import answer_span, pictures_of, upto, within
from harness.trainers.grpo.values import Rollout
from harness.trainers.trl_compat import gathered

LEAST_BIAS = -100.0
"""What vLLM adds to a logit at least; before it divides by the temperature."""


class Rollouts:
    """Mixed in before `trl_compat.Mended` and TRL's GRPOTrainer; `begin` gives it its course."""

    # What is used of the trainer that this is mixed into.
    args: Any
    state: Any
    model: Any
    model_wrapped: Any
    accelerator: Any
    generation_config: Any
    generation_kwargs: Any
    num_generations: int
    num_iterations: int
    eos_token_ids: list[int]
    use_vllm: bool
    vllm_generation: Any
    is_fsdp_enabled: bool
    _dist: Any
    _metrics: Any
    _step: int
    _tokenizer: Any
    _log_metric: Callable[[str, float], None]

    course: Course
    turn: Turn
    seen: Sequence[Mapping[str, Tensor]]
    entropies: Tensor | None
    seconds: Mapping[str, tuple[ChatRequest, list[int]]]
    """Second requests and the tokens of their replies, by key, where they are written already."""
    answers: Tensor
    scored: Scored

    def begin(self, course: Course) -> None:
        """Train on this; called once, before training."""
        self.course, self.seen, self.entropies, self.seconds = course, (), None, {}
        barred = self._media_tokens()  # one that is written would want its patches
        if self.use_vllm:
            asked = self.vllm_generation
            bias = {"logit_bias": dict.fromkeys(barred, LEAST_BIAS)}
            asked.generation_kwargs = {**asked.generation_kwargs, **bias}
        else:
            self.generation_config.suppress_tokens = barred

    def _media_tokens(self) -> list[int]:
        named = (
            getattr(self.model.config, f"{kind}_token_id", None) for kind in ("image", "video")
        )
        return sorted({token for token in named if token is not None})

    def _get_train_sampler(self, dataset: Any = None) -> Rounds:
        del dataset
        prompts = self.args.generation_batch_size // self.num_generations
        return Rounds(
            self.args.seed,
            len(self.course.examples),
            prompts,
            self.num_generations,
            repeats=self.num_iterations * self.args.steps_per_generation,
            rounds=-(-self.args.max_steps // self.num_iterations),
        )

    def _load_rng_state(self, checkpoint: str | None) -> None:
        super()._load_rng_state(checkpoint)  # type: ignore[misc]
        if checkpoint is not None:
            self._step = self.state.global_step * self.args.gradient_accumulation_steps

    def _generate_and_score_completions(self, inputs: Sequence[Mapping[str, int]]) -> Any:
        self.turn = self._turn([one["row"] for one in inputs])
        self.seen = self.turn.prompts
        batch = super()._generate_and_score_completions(  # type: ignore[misc]
            [{"prompt": str(one["row"])} for one in inputs]
        )
        self.course.keeping(
            self.turn.examples[:: self.num_generations],
            self.scored.groups,
            self.scored.terms,
            batch["advantages"].tolist(),
            step=self.state.global_step + 1,
        )
        return {**batch, "seen": list(self.turn.prompts), "answers": self.answers}

    def _turn(self, rows: Sequence[int]) -> Turn:
        group, number = self.num_generations, self.state.global_step // self.num_iterations
        first = self.accelerator.process_index * len(rows) // group
        examples = [self.course.examples[row] for row in rows[::group]]
        prompts = encoded_each(self.course.processor, [one.request for one in examples])
        keys = [
            rollout_key(f"{one.request.key}@{number}:{first + place}", rollout)
            for place, one in enumerate(examples)
            for rollout in range(group)
        ]
        return Turn(
            examples=tuple(one for one in examples for _ in range(group)),
            prompts=tuple(one for one in prompts for _ in range(group)),
            keys=tuple(keys),
        )

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        del prompts
        return [tokens_of(prompt) for prompt in self.turn.prompts], None, {}

    def _generate_single_turn(
        self,
        prompt_ids: Any,
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> tuple[list[list[int]], Any]:
        del images, multimodal_fields, has_tool_images
        if self.use_vllm:
            requests = [example.request for example in self.turn.examples]
            return self._by_vllm(prompt_ids, requests, num_generations)
        if self._in_one_go():
            return self._written_in_one_go(), None
        limit = self.turn.examples[0].request.max_new_tokens
        return self.written(self.turn.prompts, self.turn.keys, limit), None

    def _by_vllm(
        self, prompts: Sequence[list[int]], requests: Sequence[ChatRequest], group: int
    ) -> tuple[list[list[int]], Any]:
        """Tokens of vLLM's replies and their log probabilities.

        TRL brings the weights there at the first call of a step. To be called equally often, and
        with equally many prompts, in every process.
        """
        # None is TRL's word for no pictures: of an empty list it takes the first.
        pictures = [pictures_of(request) or None for request in requests]
        shown = pictures if any(pictures) else None
        found: tuple[list[list[int]], Any] = super()._generate_single_turn(  # type: ignore[misc]
            prompts, shown, {}, group, False
        )
        return found

    def written(
        self,
        prompts: Sequence[Mapping[str, Tensor]],
        keys: Sequence[str],
        limit: int,
        *,
        temperature: float | None = None,
    ) -> list[list[int]]:
        """What the policy writes after prompts: tokens up to the first end token; no gradients."""
        size = self.course.generation_micro_batch_size or len(prompts)
        heat = self.args.temperature if temperature is None else temperature
        found: list[list[int]] = []
        with self._policy() as network:
            for start in range(0, len(prompts), size):
                part = slice(start, start + size)
                found += self._batch(network, prompts[part], keys[part], limit, heat)
        return found

    def _in_one_go(self) -> bool:
        """Whether each process can go its own way in writing: it has all weights, and rows of the
        network may be parted and joined.
        """
        plugin = getattr(self.accelerator.state, "deepspeed_plugin", None)
        whole = plugin is None or plugin.zero_stage < 3
        network = self.accelerator.unwrap_model(self.model)
        return (
            whole and not self.is_fsdp_enabled and rolling.rolls(network, network.config.model_type)
        )

    def _written_in_one_go(self) -> list[list[int]]:
        """The tokens of rollouts; those of the replies to their second requests in `seconds`."""
        turn, course = self.turn, self.course
        firsts = [
            replace(example.request, key=key)
            for example, key in zip(turn.examples, turn.keys, strict=True)
        ]

        def leads_to(place: int, ids: Sequence[int]) -> ChatRequest:
            example = turn.examples[place]
            rollout = self._rollout(ids, example.request)
            return course.scoring.asked_again(example, rollout, second_key(turn.keys[place]))

        size = self.course.generation_micro_batch_size or len(firsts)
        passes = Passes(
            firsts=firsts,
            prompts=turn.prompts,
            leads_to=None if course.scoring.second is None else leads_to,
            encode=partial(encoded_beside, course.processor),
            padding=self._tokenizer.pad_token_id,
            size=size,
            device=self.accelerator.device,
        )
        first, second = self._choice(self.args.temperature), self._choice(self._second_heat)
        with self._policy() as network:
            passes.write(
                rolling.replies(
                    network,
                    passes.requests,
                    passes,
                    size=size,
                    ends=self.eos_token_ids,
                    samplings=[first] * len(firsts) + [second] * len(firsts),
                    decode=self._tokenizer.decode,
                )
            )
        self.seconds = {
            request.key: (request, passes.written[place])
            for place, request in enumerate(passes.requests)
            if place >= len(firsts) and place in passes.written
        }
        return [passes.written[place] for place in range(len(firsts))]

    def _choice(self, heat: float) -> Choice:
        return Choice(
            seed=self.course.seed,
            temperature=heat,
            top_p=self.args.top_p,
            keyed=self.course.keyed,
            never=tuple(self._media_tokens()),
        )

    @property
    def _second_heat(self) -> float:
        own = self.course.second_temperature
        return float(self.args.temperature if own is None else own)

    @contextmanager
    def _policy(self) -> Iterator[Any]:
        """The network as it is now, whole, without gradients and checkpointing."""
        from trl.models.utils import unwrap_model_for_generation

        with (
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                generation_kwargs=self.generation_kwargs,
                gradient_checkpointing_kwargs=self.args.gradient_checkpointing_kwargs,
            ) as network,
            torch.no_grad(),
            self._dist.summon_full_params(self.model_wrapped, recurse=False),
        ):
            yield network

    def _batch(
        self,
        network: Any,
        prompts: Sequence[Mapping[str, Tensor]],
        keys: Sequence[str],
        limit: int,
        heat: float,
    ) -> list[list[int]]:
        batch = joined(prompts, padding=self._tokenizer.pad_token_id)
        width = batch["input_ids"].shape[1]
        configuration, processors = deepcopy(self.generation_config), []
        configuration.max_new_tokens = limit
        configuration.temperature = heat
        if self.course.keyed or heat == 0:
            configuration.update(do_sample=False, temperature=None, top_p=None, top_k=None)
        if self.course.keyed:
            processors = [
                TokenChoice(
                    keys=keys,
                    prompt_length=width,
                    seed=self.course.seed,
                    starts=[width - int(mask.sum()) for mask in batch["attention_mask"]],
                    temperature=heat,
                    top_p=self.args.top_p,
                )
            ]
        device = self.accelerator.device
        tokens = network.generate(
            **{name: value.to(device) for name, value in batch.items()},
            generation_config=configuration,
            logits_processor=processors,
        )
        return [upto(row, self.eos_token_ids) for row in tokens[:, width:].tolist()]

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        del others  # pictures as TRL counts them: there are none
        logps, entropies = [], []
        size = batch_size or len(input_ids)
        for start in range(0, len(input_ids), size):
            part = slice(start, start + size)
            ids, mask, prompts = input_ids[part], attention_mask[part], self.seen[part]
            labels = ids.masked_fill(mask == 0, -100)
            labels[:, :-logits_to_keep] = -100
            media = {
                **patches(prompts),
                **kinds(prompts, ids.shape[1] - logits_to_keep, logits_to_keep),
            }
            with self.accelerator.autocast():
                said = model(
                    input_ids=ids,
                    attention_mask=mask,
                    labels=labels,
                    fused_lm_head=True,
                    **{name: value.to(ids.device) for name, value in media.items()},
                )
            logps.append(said.log_probs[:, -logits_to_keep:])
            if compute_entropy:
                entropies.append(said.entropy[:, -logits_to_keep:])
        self.entropies = torch.cat(entropies) if compute_entropy else None
        return torch.cat(logps), self.entropies, None

    def _compute_loss(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        self.seen = inputs["seen"]
        loss: Tensor = super()._compute_loss(model, inputs)  # type: ignore[misc]
        assert self.entropies is not None, "the loss has asked for them"
        chosen = inputs["answers"] * inputs["completion_mask"]
        sums = torch.stack([(self.entropies.detach() * chosen).sum(), chosen.sum()])
        total, count = self.accelerator.reduce(sums, reduction="sum").tolist()
        if count:
            self._metrics["train"]["answer_entropy"].append(total / count)
        return loss

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: list[list[int]]
    ) -> Tensor:
        del inputs, prompts, completions
        self.answers = self._answers(completion_ids_list)
        self.scored = scored = self._scored(completion_ids_list)
        for name, values in scored.numbers.items():
            for value in values:
                self._log_metric(name, value)
        totals = torch.tensor(scored.totals, dtype=torch.float32, device=self.accelerator.device)
        gathered: Tensor = self.accelerator.gather(totals.unsqueeze(1))
        return gathered

    def _scored(self, completions: Sequence[Sequence[int]]) -> Scored:
        group, turn = self.num_generations, self.turn
        starts = range(0, len(completions), group)
        rollouts = [
            self._rollout(ids, example.request)
            for ids, example in zip(completions, turn.examples, strict=True)
        ]
        return self.course.scoring(
            [turn.examples[start] for start in starts],
            [rollouts[start : start + group] for start in starts],
            [turn.keys[start : start + group] for start in starts],
            write=self._answered,
            asked={key: request for key, (request, _) in self.seconds.items()},
        )

    def _answered(self, requests: Sequence[ChatRequest], keys: Sequence[str]) -> list[Rollout]:
        """What the policy says to second requests; those that are not answered yet together."""
        if self.use_vllm:
            return self._cut(self._second_by_vllm(requests), requests)
        known = [self.seconds.get(key) for key in keys]
        if requests and all(
            one is not None and one[0] == replace(asked, key=key)
            for one, asked, key in zip(known, requests, keys, strict=True)
        ):
            return [
                self._rollout(one[1], asked)
                for one, asked in zip(known, requests, strict=True)
                if one is not None
            ]
        limit = max(request.max_new_tokens for request in requests)
        prompts = encoded_each(self.course.processor, requests)
        written = self.written(prompts, keys, limit, temperature=self._second_heat)
        return self._cut(written, requests)

    def _second_by_vllm(self, requests: Sequence[ChatRequest]) -> list[list[int]]:
        """Tokens of vLLM's replies to the second requests of this process, one a rollout.

        A server is asked by the first process alone, with its limit: hence the longest of all.
        """
        turn = self.turn
        limit = max(gathered([max(request.max_new_tokens for request in requests)]))
        firsts = [
            (one.request, prompt) for one, prompt in zip(turn.examples, turn.prompts, strict=True)
        ]
        prompts = encoded_beside(self.course.processor, requests, firsts)
        with self._asking(heat=self._second_heat, limit=limit):
            written, _ = self._by_vllm([tokens_of(prompt) for prompt in prompts], requests, 1)
        return written

    def _cut(
        self, written: Sequence[Sequence[int]], requests: Sequence[ChatRequest]
    ) -> list[Rollout]:
        """Replies, each up to where its own request has it end."""
        ends, decode = self.eos_token_ids, self._tokenizer.decode
        return [
            self._rollout(within(ids, one, ends=ends, decode=decode), one)
            for ids, one in zip(written, requests, strict=True)
        ]

    @contextmanager
    def _asking(self, *, heat: float, limit: int) -> Iterator[None]:
        """Ask vLLM with these, which TRL looks up at every call."""
        way = self.vllm_generation
        before = way.temperature, way.max_completion_length
        way.temperature, way.max_completion_length = heat, limit
        try:
            yield
        finally:
            way.temperature, way.max_completion_length = before

    def _rollout(self, ids: Sequence[int], request: ChatRequest) -> Rollout:
        """What evaluation would make of these tokens."""
        ended = bool(ids) and ids[-1] in self.eos_token_ids
        body = ids[:-1] if ended else ids
        text = self._tokenizer.decode(body, skip_special_tokens=True)
        return Rollout(text=f"{request.prefix}{text}", tokens=len(ids), cut=not ended)

    def _answers(self, completions: Sequence[Sequence[int]]) -> Tensor:
        """1 for tokens between the answer's tags, padded like the rollouts."""
        width = max(map(len, completions))
        spans = [answer_span(self._tokenizer.decode, ids) for ids in completions]
        places = torch.arange(width)
        rows = [(places >= start) & (places < end) for start, end in spans]
        return torch.stack(rows).to(torch.float32).to(self.accelerator.device)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Count epochs by samples: TRL takes the whole training for one."""
        rounds = -(-self.state.global_step // self.num_iterations)
        prompts = rounds * self.args.generation_batch_size / self.num_generations
        before, self.state.epoch = self.state.epoch, prompts / len(self.course.examples)
        try:
            super().log(logs, start_time)  # type: ignore[misc]
        finally:
            self.state.epoch = before
