"""What benchmarks share: a small world, seconds of steps, TRL's own trainer, files of results."""

import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from harness import provenance
from harness.chat import ChatRequest
from harness.testing import make_shapes
from harness.trainer import NullProgress

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass
class Clock(NullProgress):
    """Progress that notes when each step ended, and what was logged of it."""

    ends: list[float] = field(default_factory=list)
    numbers: list[Mapping[str, float]] = field(default_factory=list)
    now: Callable[[], float] = perf_counter

    def step(self, done: int, numbers: Mapping[str, float]) -> None:
        if "reward" in numbers:
            self.ends.append(self.now())
            self.numbers.append(numbers)

    @property
    def seconds(self) -> float:
        """From the end of the first step to that of the last."""
        return self.ends[-1] - self.ends[0]

    @property
    def tokens(self) -> float:
        """Gone through in these seconds: prompts and responses, as TRL counts them."""
        return self.numbers[-1]["num_tokens"] - self.numbers[0]["num_tokens"]

    @property
    def seconds_a_step(self) -> float:
        return self.seconds / (len(self.ends) - 1)


def train_by_trl(
    clock: Clock,
    network: Any,
    processor: Any,
    requests: Sequence[ChatRequest],
    reward: Callable[..., list[float]],
    **settings: object,
) -> None:
    """Train by TRL's own `GRPOTrainer` on these prompts; `settings` are those of `GRPOConfig`."""
    import trl
    from datasets import Dataset
    from transformers import TrainerCallback

    from harness.trainers.grpo.vllm import images_of

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.ends.append(clock.now())

        def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
            if "reward" in logs:
                clock.numbers.append(logs)

    rows = [
        {"prompt": [{"role": "user", "content": one.text}], "images": images_of(one)}
        for one in requests
    ]
    silent = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    with TemporaryDirectory() as folder:
        trl.GRPOTrainer(
            model=network,
            args=trl.GRPOConfig(output_dir=folder, **silent, **settings),
            train_dataset=Dataset.from_list(rows),
            reward_funcs=[reward],
            processing_class=processor,
            callbacks=[Watch()],
        ).train()


def data(folder: Path, *, size: int = 16) -> Path:
    """Make reason_seg of `size` scenes, with 4 · `size` questions for training; return its root."""
    make_shapes(folder / "shapes", tasks=["reason_seg"], size=size)
    return folder / "shapes"


def write(path: Path, found: Mapping[str, object]) -> None:
    """Write what was found, and by which commit, packages and device."""
    whole = {**found, "device": provenance.device(), "provenance": provenance.collect()}
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")


def processor() -> str:
    """Return the processor's name and how many cores of it there are."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.is_file() else []
    values = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in lines if ":" in line)
    name = values.get("model name") or platform.processor() or platform.machine()
    half = ", bfloat16 instructions" if "avx512_bf16" in values.get("flags", "") else ""
    return f"{name} ({os.cpu_count()} cores{half})"


def save_part(path: Path, title: str, text: str) -> None:
    """Put a part (markdown) into a result file, in the place of an older one of the same title."""
    old = path.read_text("utf-8") if path.is_file() else ""
    parts = dict(part.split("\n", 1) for part in old.split("## ")[1:])
    parts[title] = text
    whole = "".join(f"## {name}\n\n{parts[name].strip()}\n\n" for name in sorted(parts))
    path.write_text(f"{whole.rstrip()}\n", encoding="utf-8")
