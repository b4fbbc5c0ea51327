"""Loop of a training: steps, learning rate, logs, states and the checkpoint with its record."""

import json
import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from harness.errors import ModelError
from harness.models.backends.checkpoint import find, fingerprint
from harness.models.backends.networks import load_network
from harness.store.atomic import read_json, write_json
from harness.trainer import TrainingRun
from harness.trainers import state as states
from pocket_training.vlm import vocabulary
from pocket_training.vlm.batches import IGNORED, Batch
from pocket_training.vlm.drawing import PARTS, batches
from pocket_training.vlm.forward import Forward, patches
from pocket_training.vlm.losses import Heads, Targets, number_tokens, word_losses
from pocket_training.vlm.network import PATCH, make_network, save_checkpoint
from pocket_training.vlm.process_group import Processes, ProcessGroup, spawn_workers
from pocket_training.vlm.settings import PocketSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ENDS = ("embed_tokens", "lm_head", "patch_embed", "merger.mlp.2")
"""Parts of the names of matrices at a network's input and output, which AdamW trains."""

RECORD = "training.json"
FIRST = 50  # steps whose losses are kept one by one; a repetition has to find them again
KEPT = ("step", "loss", "stills/error", "clips/error", "stills/right", "clips/right")


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
        self._network = make_network(self._tokenizer, settings.architecture, seed=run.seed)
        self._before = None if settings.start is None else begin_from(settings.start, self._network)
        text = self._network.config.text_config
        self._heads = Heads(
            width=text.hidden_size,
            outlines=settings.stage.outlines_weight > 0,
            patches=settings.architecture.vision_hidden_size
            if settings.stage.patches_weight > 0
            else 0,
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
        shutil.rmtree(run.state, ignore_errors=True)
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
            norm = torch.nn.utils.clip_grad_norm_(weights, self._settings.stage.max_grad_norm)
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
        if done % settings.logging_steps == 0 or done <= FIRST or done == settings.max_steps:
            run.curve.append(done, numbers)
        run.progress.step(done, numbers)
        if done % settings.save_steps == 0:
            self._save(done)
        if done == settings.max_steps:
            self._write()

    def _write(self) -> None:
        """Write the checkpoint, and beside it the record of how it was made."""
        folder, rows = self._run.checkpoint, self._run.curve.read()
        self._network.eval()
        save_checkpoint(self._network, self._tokenizer, folder)
        record: dict[str, object] = {
            "method": self._settings.name,
            "settings": dict(self._settings.describe()),
            "processes": self._settings.processes,
            "seed": self._run.seed,
            **{name: round(value) for name, value in self._seconds().items()},
            "steps": self._settings.max_steps,
            "first_losses": [row["loss"] for row in rows if row["step"] <= FIRST],
            "curve": [
                {name: row[name] for name in KEPT if name in row}
                for row in rows
                if row["step"] % 100 == 0
            ],
        }
        write_json(folder / RECORD, record | ({"before": self._before} if self._before else {}))

    def _seconds(self) -> dict[str, float]:
        now = dict(zip(self._spent, (time.monotonic(), time.process_time()), strict=True))
        began = dict(zip(self._spent, self._began, strict=True))
        return {name: self._spent[name] + now[name] - began[name] for name in self._spent}

    def _lessons_per_step(self) -> int:
        shares = self._settings.stage.shares
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
        decay = self._settings.stage.weight_decay
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
        stage, part = self._settings.stage, self._share_done(step)
        rate = self._settings.learning_rate * min(1.0, (step + 1) / stage.warmup_steps)
        if part <= stage.flat:
            return rate
        fall = (part - stage.flat) / (1 - stage.flat)
        return rate * max(0.01, 0.5 * (1 + math.cos(math.pi * fall)))

    def _spread(self, step: int) -> float:
        """Return the width of measured numbers' targets (`word_losses`): it falls exponentially."""
        stage = self._settings.stage
        first, last = stage.first_spread, stage.last_spread
        fallen = min(1.0, self._share_done(step) / stage.spread_until)
        return float(first * (last / first) ** fallen)

    def _backward(self, batch: Batch, step: int) -> dict[str, float]:
        """Add the gradients of one batch; return its losses."""
        stage = self._settings.stage
        tensors = {name: torch.from_numpy(array) for name, array in batch.arrays().items()}
        labels, soft = tensors["labels"], tensors["soft"]
        learned = labels != IGNORED
        with torch.autocast("cpu", torch.bfloat16, enabled=self._settings.bf16):
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
        everything = words.texts + words.numbers * stage.measured_weight
        output = (
            words.text * words.texts + words.measured * words.numbers * stage.measured_weight
        ) / everything
        late = self._share_done(step) >= stage.heads_until
        guided = (
            stage.things_weight * heads.things
            + stage.patches_weight * heads.patches
            + stage.outlines_weight * heads.outlines
            + stage.target_weight * heads.targeted
            + stage.grounding_weight * (heads.grounding + heads.attends)
            + stage.copies_weight * (heads.copies + heads.options)
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
        made = read_json(folder / "step.json")
        self._spent = {name: float(made[name]) for name in self._spent}
        return int(made["step"])


def begin_from(checkpoint: str, network: "PreTrainedModel") -> dict[str, object]:
    """Load the weights of an earlier training; return its record with their `fingerprint`.

    Raises:
        ModelError: there is none, or it is of another architecture, or has no record.
    """
    folder = find(checkpoint)
    earlier = load_network(
        folder, name=checkpoint, dtype="float32", attn_implementation="auto", adapter=None
    )
    try:
        network.load_state_dict(earlier.state_dict())
        info: dict[str, object] = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"start={checkpoint}",
            expected="a checkpoint of `harness train --method pocket` of these sizes",
            found=" ".join(str(error).split())[:200],
        ) from error
    return info | {"fingerprint": fingerprint(folder)}


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
