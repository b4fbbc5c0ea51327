"""From samples to prompts: the request that evaluation makes, and what its numbers refer to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import cpu_count
from typing import Any, TypeAlias

from harness.errors import DataError, HarnessError, UsageError
from harness.model import ChatRequest
from harness.models.backends.inputs import shown
from harness.models.compose import LOCATED, PromptedModel
from harness.run.plan import samples_of
from harness.trainer import TrainingRun
from harness.trainers.sft.examples import Dropped
from harness.types import Sample

NAMED = 3  # samples that a note names

Ask: TypeAlias = Callable[[PromptedModel, Sample], ChatRequest]
"""What a method asks of a sample; `asked` unless a method's training asks something else."""


@dataclass(frozen=True, slots=True)
class Example:
    """A sample, what is asked of it, and the frame that the numbers of replies are in."""

    task: str
    sample: Sample
    request: ChatRequest
    canvas: tuple[int, int]

    @property
    def frames(self) -> tuple[tuple[int, ...], ...]:
        """The frames that are shown, one tuple a medium."""
        return tuple(shown(self.request, place) for place in range(len(self.request.media)))


def asked(model: PromptedModel, sample: Sample) -> ChatRequest:
    """The request that evaluation makes of a sample that has one form of answer.

    Raises:
        DataError: it has several, so that there is no one reply to reward.
    """
    requests = model.requests(sample.query)
    if len(requests) != 1:
        raise DataError(
            f"sample {sample.id}", expected="one form of answer", found=f"{len(requests)} of them"
        )
    return requests[0]


def example_of(
    model: PromptedModel, task: str, sample: Sample, *, ask: Ask, max_completion_length: int
) -> Example:
    """A sample as a prompt; the canvas is the one by which evaluation reads replies.

    Raises:
        UsageError: the policy writes y before x, of which rewards read places wrongly.
    """
    request = replace(ask(model, sample), max_new_tokens=max_completion_length)
    canvas = model.canvas(request)
    if canvas.y_first and sample.query.form in LOCATED:
        raise UsageError(
            f"coordinates={model.meaning}",
            expected="x before y, which rewards read",
            found="y before x",
        )
    return Example(task, sample, request, canvas.extent)


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Makes prompts of a run's samples, and names those that cannot be learned from."""

    model: PromptedModel
    processor: Any
    ask: Ask
    usable: Callable[[Sample], object]
    """Raises a HarnessError for a sample that the method's reward has no truth for."""
    max_completion_length: int
    max_prompt_length: int | None
    vllm_mode: str | None = None
    """What writes rollouts, if not transformers."""

    def prepared(self, run: TrainingRun) -> tuple[list[Example], list[Dropped]]:
        """What is learned from, and what is left out. Every prompt was encoded once.

        Several processes share the work, and come to the same result.

        Raises:
            DataError: nothing is left.
            UsageError: a prompt shows a clip, and vLLM is to see it.
        """
        made = list(self._made(run))
        examples = [one for one in made if isinstance(one, Example)]
        self._refuse_clips(examples)
        verdicts = self._checked(examples, run)
        kept = [one for one, verdict in zip(examples, verdicts, strict=True) if verdict is None]
        bad = [verdict for verdict in verdicts if verdict is not None]
        dropped = [*(one for one in made if isinstance(one, Dropped)), *bad]
        _tell(run, dropped, kept)
        return kept, dropped

    def check_clips(self, run: TrainingRun) -> None:
        """Raise what `prepared` would of clips; nothing is encoded.

        Raises:
            UsageError: a prompt shows a clip, and vLLM is to see it.
        """
        self._refuse_clips(one for one in self._made(run) if isinstance(one, Example))

    def _refuse_clips(self, examples: Iterable[Example]) -> None:
        for example in examples if self.vllm_mode is not None else ():
            longest = max(map(len, example.frames), default=0)
            if longest > 1:
                raise UsageError(
                    f"vllm_mode={self.vllm_mode}, sample {example.sample.id} of {example.task}",
                    expected="prompts of single pictures, since TRL hands vLLM no videos",
                    found=f"a clip of {longest} frames",
                    fix="Leave vllm_mode out: rollouts are then "
                    "written by transformers; `generation_micro_batch_size` says how many at once.",
                )

    def _made(self, run: TrainingRun) -> Iterator[Example | Dropped]:
        for task in run.tasks:
            for sample in samples_of(task):
                yield self._one(task.name, sample)

    def _one(self, task: str, sample: Sample) -> Example | Dropped:
        if sample.target is None:
            return Dropped(task, sample.id, "no target")
        try:
            self.usable(sample)
        except HarnessError as error:
            return Dropped(task, sample.id, "no truth for the reward", str(error))
        try:
            return example_of(
                self.model,
                task,
                sample,
                ask=self.ask,
                max_completion_length=self.max_completion_length,
            )
        except UsageError:
            raise
        except HarnessError as error:
            return Dropped(task, sample.id, "cannot be asked", str(error))

    def _checked(self, examples: Sequence[Example], run: TrainingRun) -> list[Dropped | None]:
        """Encode every prompt once, as training will: None, or why it is left out."""
        from harness.trainers.trl_compat import gathered, place

        rank, ranks = place()
        own = range(rank, len(examples), ranks)
        found: list[tuple[int, Dropped | None]] = []
        run.progress.start("checking samples", len(examples), 0)
        with ThreadPoolExecutor(min(8, cpu_count() or 1)) as pool:
            verdicts = pool.map(self._verdict, [examples[index] for index in own])
            for done, (index, verdict) in enumerate(zip(own, verdicts, strict=True), start=1):
                found.append((index, verdict))
                run.progress.step(min(done * ranks, len(examples)), {})
        run.progress.end()
        return [verdict for _, verdict in sorted(gathered(found), key=lambda pair: pair[0])]

    def _verdict(self, example: Example) -> Dropped | None:
        from harness.trainers.grpo.encoding import encoded

        name = (example.task, example.sample.id)
        try:
            length = int(encoded(self.processor, example.request)["input_ids"].shape[1])
        except (HarnessError, ValueError, OSError) as error:
            return Dropped(*name, "unreadable", str(error))
        if self.max_prompt_length is not None and length > self.max_prompt_length:
            return Dropped(
                *name, f"a prompt of more than {self.max_prompt_length} tokens", f"{length} tokens"
            )
        return None


def _tell(run: TrainingRun, dropped: Sequence[Dropped], kept: Sequence[Example]) -> None:
    if not kept:
        first = f", such as {dropped[0].sample!r}: {dropped[0].why}" if dropped else ""
        detail = f" ({dropped[0].detail})" if dropped and dropped[0].detail else ""
        raise DataError(
            "training samples",
            expected="at least one to learn from",
            found=f"none; {len(dropped)} dropped{first}{detail}",
        )
    for why, count in Counter(one.why for one in dropped).items():
        named = [one for one in dropped if one.why == why]
        listed = ", ".join(f"{one.task} {one.sample}" for one in named[:NAMED])
        detail = f" ({named[0].detail})" if named[0].detail else ""
        run.progress.note(f"{count} sample(s) dropped, {why}: {listed}{detail}")
