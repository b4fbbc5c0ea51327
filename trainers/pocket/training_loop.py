"""Loop of a training: steps, learning rate, logs, checkpoints and validation."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from harness.store.atomic import write_json
from harness.trainer import TrainingRun
from harness.trainers import state as states
from harness.trainers.pocket import vocabulary
from harness.trainers.pocket.batches import IGNORED, Batch, Collator
from harness.trainers.pocket.data_mixture import draw_exam
from harness.trainers.pocket.drawing import PARTS, batches
from harness.trainers.pocket.forward import Forward, patches
from harness.trainers.pocket.losses import Heads, Targets, number_tokens, word_losses
from harness.trainers.pocket.network import PATCH, make_network, save_checkpoint
from harness.trainers.pocket.process_group import Processes, ProcessGroup, spawn_workers
from harness.trainers.pocket.record import RECORD, record
from harness.trainers.pocket.settings import PocketSettings
from harness.trainers.pocket.start import average_weights, begin_from
from harness.trainers.pocket.validate import summary, validate

ENDS = ("embed_tokens", "lm_head", "patch_embed", "merger.mlp.2")
"""Parts of the names of matrices at a network's input and output, which AdamW trains."""

BASE = "base"  # the folder of the early checkpoint
VALIDATION_IMAGES = 12  # of each kind


def run_worker(
    group: ProcessGroup, settings: PocketSettings, out: Path, seed: int, first: int
) -> None:
    """Make the steps of a training in a process beside the first, which logs and saves."""
    run = TrainingRun(out=out, seed=seed, resume=first > 0, main=False)
    loop = TrainingLoop(settings, run)
    assert loop.first == first, "all processes go on from the same state"
    for _ in loop.steps(group):
        pass


class TrainingLoop:
    """One training, from its first step or from a state."""

    def __init__(self, settings: PocketSettings, run: TrainingRun) -> None:
        self._settings = settings
        self._run = run
        torch.set_num_threads(1)
        self._tokenizer = vocabulary.make_tokenizer()
        self._collator = Collator(self._tokenizer, text_first=settings.text_first)
        self._network = make_network(self._tokenizer, settings.architecture, seed=run.seed)
        self._before = None if settings.start is None else begin_from(settings.start, self._network)
        self._kept = {
            name: weight.clone()
            for name, weight in self._network.state_dict().items()
            if settings.start is not None and settings.start_kept
        }
        text = self._network.config.text_config
        self._heads = Heads(
            width=text.hidden_size,
            outlines=settings.outlines_weight > 0,
            patches=settings.architecture.vision_hidden_size if settings.patches_weight > 0 else 0,
        )
        self._forward = Forward(
            self._network,
            tap=max(0, text.num_hidden_layers - 3),
            grid=vocabulary.CANVAS // PATCH,
        )
        self._numbers = number_tokens(
            self._tokenizer.convert_tokens_to_ids(vocabulary.numbers()),
            vocabulary_size=text.vocab_size,
        )
        self._optimisers = self._make_optimisers()
        self._spent = {"seconds": 0.0, "cpu_seconds": 0.0}
        """Wall time, and CPU time of this process, before `_began`."""
        self._began = time.monotonic(), time.process_time()
        self.first = self._resume() if run.resume else 0

    def run(self) -> Mapping[str, object]:
        """Train to the end, and write the checkpoint."""
        run, settings = self._run, self._settings
        run.curve.cut(self.first)
        run.progress.start("pocket", settings.max_steps, self.first)
        self._began = time.monotonic(), time.process_time()
        arguments = (settings, run.out, run.seed, self.first)
        with spawn_workers(settings.processes, run_worker, arguments) as processes:
            for done, numbers in self.steps(processes):
                self._after(done, numbers)
        run.progress.end()
        states.forget_states(run.state)
        return {
            "steps": settings.max_steps,
            "parameters": sum(one.numel() for one in self._network.parameters()),
            "lessons": settings.max_steps * self._lessons_per_step(),
            **{name: round(value, 1) for name, value in self._seconds().items()},
        }

    def steps(self, processes: Processes) -> Iterator[tuple[int, dict[str, float]]]:
        """Make the steps; yield the number of steps made, and the losses of the last one.

        Raises:
            KeyboardInterrupt: the first process received a signal to stop; its state is saved.
        """
        torch.set_flush_denormal(True)  # attention leaves many, and they are slow
        try:
            yield from self._steps(processes)
        finally:
            torch.set_flush_denormal(False)  # it is the thread's, whatever runs there next

    def _steps(self, processes: Processes) -> Iterator[tuple[int, dict[str, float]]]:
        weights = [*self._network.parameters(), *self._heads.parameters()]
        own = range(processes.rank, PARTS, processes.size)
        drawn = batches(self._settings, seed=self._run.seed, first=self.first, parts=own)
        for step, parts in enumerate(drawn, start=self.first):
            self._network.train()
            for optimiser in self._optimisers.values():
                for group in optimiser.param_groups:
                    group["lr"] = self._rate(step)
            losses = [self._backward(batch, step) for part in parts for batch in part.values()]
            names = [name for part in parts for name in part]
            stop = processes.sum_gradients(
                [_gradient(one) for one in weights], stop=self._run.stopping()
            )
            norm = torch.nn.utils.clip_grad_norm_(weights, self._settings.max_grad_norm)
            for optimiser in self._optimisers.values():
                optimiser.step()
                optimiser.zero_grad(set_to_none=False)
            yield (
                step + 1,
                {
                    **_batch_means(names, losses),
                    "norm": round(float(norm), 4),
                    "rate": self._rate(step),
                },
            )
            if stop:
                if self._run.main:
                    self._save(step + 1)
                raise KeyboardInterrupt

    def _after(self, done: int, numbers: dict[str, float]) -> None:
        """Log a step, validate, and save, each when it is due."""
        run, settings = self._run, self._settings
        logged = done % settings.logging_steps == 0 or done <= 50 or done == settings.max_steps
        if settings.eval_steps and done % settings.eval_steps == 0:
            numbers |= self._validate()
            logged = True
        if logged:
            run.curve.append(done, numbers)
        run.progress.step(done, numbers)
        if done % settings.save_steps == 0:
            self._save(done)
        if done in (settings.base_at, settings.max_steps):
            self._write(done)

    def _write(self, step: int) -> None:
        """Write the checkpoint, or the early one beside it."""
        last = step == self._settings.max_steps
        folder = self._run.checkpoint if last else self._run.out / BASE
        self._network.eval()
        if last and self._kept:
            self._network.load_state_dict(
                average_weights(
                    self._network.state_dict(), self._kept, part=self._settings.start_kept
                )
            )
        save_checkpoint(
            self._network, self._tokenizer, folder, text_first=self._settings.text_first
        )
        kept = record(
            settings=self._settings,
            seed=self._run.seed,
            curve=self._run.curve,
            before=self._before,
            **self._seconds(),
        )
        write_json(folder / RECORD, kept | {"steps": step})

    def _seconds(self) -> dict[str, float]:
        now = dict(zip(self._spent, (time.monotonic(), time.process_time()), strict=True))
        began = dict(zip(self._spent, self._began, strict=True))
        return {name: self._spent[name] + now[name] - began[name] for name in self._spent}

    def _lessons_per_step(self) -> int:
        shares = self._settings.shares
        return (
            shares.stills * shares.still_lessons
            + shares.counts * shares.count_lessons
            + shares.videos * shares.video_lessons
        ) * PARTS

    def _make_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Muon for the matrices inside the network; AdamW for its ends, norms and the heads."""
        inside: list[torch.Tensor] = []
        ends: list[torch.Tensor] = []
        others: list[torch.Tensor] = [*self._heads.parameters()]
        for name, weight in self._network.named_parameters():
            if weight.ndim == 2 and not any(end in name for end in ENDS):
                inside.append(weight)
            elif weight.ndim >= 2 and "embed_tokens" not in name:
                ends.append(weight)
            else:
                others.append(weight)
        decay = self._settings.weight_decay
        groups = [{"params": ends, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        return {
            "muon": torch.optim.Muon(
                inside,
                lr=self._settings.learning_rate,
                weight_decay=decay,
                momentum=0.95,
                adjust_lr_fn="match_rms_adamw",
            ),
            "adamw": torch.optim.AdamW(
                groups, lr=self._settings.learning_rate, betas=(0.9, 0.98), fused=True
            ),
        }

    def _share_done(self, step: int) -> float:
        return step / self._settings.max_steps

    def _rate(self, step: int) -> float:
        """Return the learning rate: a linear rise, a flat stretch, a cosine down to a hundredth."""
        settings, part = self._settings, self._share_done(step)
        warm = min(1.0, (step + 1) / settings.warmup_steps)
        if part <= settings.flat:
            return settings.learning_rate * warm
        fall = (part - settings.flat) / (1 - settings.flat)
        return settings.learning_rate * warm * max(0.01, 0.5 * (1 + math.cos(math.pi * fall)))

    def _spread(self, step: int) -> float:
        """Return the width of measured numbers' targets (`word_losses`): it falls exponentially."""
        first, last = self._settings.first_spread, self._settings.last_spread
        fallen = min(1.0, self._share_done(step) / self._settings.spread_until)
        return float(first * (last / first) ** fallen)

    def _backward(self, batch: Batch, step: int) -> dict[str, float]:
        """Add the gradients of one batch; return its losses."""
        settings = self._settings
        tensors = {name: torch.from_numpy(array) for name, array in batch.arrays().items()}
        labels, soft = tensors["labels"], tensors["soft"]
        learned = labels != IGNORED
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.bf16):
            hidden = self._forward(
                patches(tensors["images"]),
                tensors["tokens"],
                tensors["positions"],
                tensors["owner"],
                tensors["seen"],
            )
            logits = self._network.lm_head(hidden.last[learned])
        words = word_losses(
            logits, labels[learned], soft[learned], self._numbers, spread=self._spread(step)
        )
        heads = self._heads(
            hidden,
            Targets(*(tensors[name] for name in Targets._fields)),
        )
        everything = words.texts + words.numbers * settings.measured_weight
        output = (
            words.text * words.texts + words.measured * words.numbers * settings.measured_weight
        ) / everything
        late = self._share_done(step) >= settings.heads_until
        guided = (
            settings.things_weight * heads.things
            + settings.patches_weight * heads.patches
            + settings.outlines_weight * heads.outlines
            + settings.target_weight * heads.targeted
            + settings.grounding_weight * (heads.grounding + heads.attends)
            + settings.copies_weight * (heads.copies + heads.options)
        ) * (0.1 if late else 1.0)
        loss = (output + guided) / PARTS
        loss.backward()
        logged = {
            "loss": loss,
            "text": words.text,
            "measured": words.measured,
            "things": heads.things,
            "patches": heads.patches,
            "outlines": heads.outlines,
            "targeted": heads.targeted,
            "grounding": heads.grounding,
            "attends": heads.attends,
            "copies": heads.copies,
            "options": heads.options,
        }
        plain = {name: float(value.detach()) for name, value in logged.items()}
        plain["loss"] *= PARTS
        return plain | {"error": words.error, "right": heads.right_looks}

    def _validate(self) -> dict[str, float]:
        """Validate on unseen questions; return the share of right answers by kind."""
        self._network.eval()
        found = validate(
            self._network, self._tokenizer, self._collator, draw_exam(VALIDATION_IMAGES)
        )
        return {f"unseen/{kind}": value for kind, value in summary(found).items()}

    def _save(self, step: int) -> None:
        from safetensors.torch import save_file

        with states.saved_state(self._run.state, step) as folder:
            weights = {f"network.{k}": v for k, v in self._network.state_dict().items()}
            weights |= {f"heads.{k}": v for k, v in self._heads.state_dict().items()}
            save_file(
                {name: value.contiguous() for name, value in weights.items()},
                folder / "weights.safetensors",
            )
            moments = {
                f"{kind}.{index}.{name}": value
                for kind, optimiser in self._optimisers.items()
                for index, state in optimiser.state_dict()["state"].items()
                for name, value in state.items()
            }
            save_file(moments, folder / "optimiser.safetensors")
            write_json(folder / "step.json", {"step": step, **self._seconds()})

    def _resume(self) -> int:
        from safetensors.torch import load_file

        folder = states.newest_state(self._run.state)
        if folder is None:
            return 0
        weights = load_file(folder / "weights.safetensors")
        for prefix, module in (("network.", self._network), ("heads.", self._heads)):
            own = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
            module.load_state_dict(own)
        moments = load_file(folder / "optimiser.safetensors")
        for kind, optimiser in self._optimisers.items():
            plain = optimiser.state_dict()
            for key, value in moments.items():
                of, index, name = key.split(".", 2)
                if of == kind:
                    plain["state"].setdefault(int(index), {})[name] = value
            optimiser.load_state_dict(plain)
        made = states.read_plain(folder / "step.json", "step", *self._spent)
        self._spent = {name: float(made[name]) for name in self._spent}
        return int(made["step"])


def _gradient(weight: torch.Tensor) -> torch.Tensor:
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


def _batch_means(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the means of the values of batches with the same name."""
    found: dict[str, list[float]] = {}
    for name, numbers in zip(names, rows, strict=True):
        for key, value in numbers.items():
            found.setdefault(f"{name}/{key}", []).append(value)
    means = {key: round(sum(values) / len(values), 5) for key, values in found.items()}
    return {"loss": round(sum(v for k, v in means.items() if k.endswith("/loss")), 5), **means}
