"""Hours and memory of trainings and evaluations, estimated from configuration and device.

docs/published.md states the formula; its uncertainty is a factor of 3 either way, within which the
three times lie that papers print for such trainings (tests/leaderboards/test_estimate.py).
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

COMPUTE, DECODE = 0.25, 0.3
"""Shares of a device's arithmetic and bandwidth that are reached."""
OVERHEAD = 0.02  # seconds a decoded token costs at least, however small the network
PROMPT, RESPONSE = 4000, 400  # tokens
IMAGE, CLIP = 1300, 8000  # tokens of a prompt with an image, and with a video
IMAGE_SECONDS, CLIP_SECONDS = 0.2, 5.0  # decoding, segmenting and following
BATCH = 8
UNKNOWN = 1000  # samples

SMALL = 0.01
"""Parameters in 10^9 below which the formula says nothing: what is not arithmetic decides. Those
networks (`pocket`, or none) run on a CPU, for which two cores were measured."""
SMALL_START, SMALL_SAMPLE, SMALL_RESPONSE = 10.0, 0.5, 0.1
"""Seconds of a command, of a sample that is predicted, of a response that is trained on."""
SMALL_MEMORY = 1.0  # GB
WORLD = 24
"""Samples of a split that `harness data make` makes by default."""


class Device(NamedTuple):
    """A GPU, or a CPU."""

    name: str
    tflops: float
    """Dense bfloat16 operations a second, in 10^12, as its maker states them."""
    bandwidth: float
    """Memory's GB a second."""
    memory: float
    """GB."""


DEVICES = (
    Device("H200", 989, 4800, 141),
    Device("H100", 989, 3350, 80),
    Device("A100", 312, 1555, 40),
    Device("A100-80GB", 312, 2039, 80),
    Device("L40S", 362, 864, 48),
    Device("L40", 181, 864, 48),
    Device("A10", 125, 600, 24),
    Device("RTX 4090", 165, 1008, 24),
    Device("CPU", 0.1, 20, 16),
)
SIZES = {"7B": 8.3, "8B": 8.8, "3B": 3.75}
"""Parameters in 10^9 of networks whose names round them (Qwen2.5-VL, Qwen3-VL)."""


class Estimate(NamedTuple):
    """Time and memory that a command takes."""

    hours: float
    memory: float
    """GB on each device."""
    steps: int = 0

    def __str__(self) -> str:
        return f"about {self.time}, {self.memory:,.0f} GB"

    @property
    def time(self) -> str:
        """Hours, minutes or seconds in words."""
        for seconds, unit in ((3600, "h"), (60, "min")):
            if self.hours * 3600 >= seconds:
                return f"{self.hours * 3600 / seconds:,.1f} {unit}"
        return f"{self.hours * 3600:.0f} s"


def device_of(text: str) -> Device | None:
    """Return the device whose name stands in a text, the longest such name; None if none does."""
    plain = re.sub(r"\W", "", text.upper())
    found = [
        one
        for one in DEVICES
        if all(part.replace(" ", "") in plain for part in one.name.upper().split("-"))
    ]
    return max(found, key=lambda one: len(one.name), default=None)


def parameters(checkpoint: str) -> float:
    """Return a network's parameters in 10^9 from its name; 7B where it does not say.

    >>> parameters("Qwen/Qwen2.5-VL-3B-Instruct"), parameters("pocket"), parameters("x-72B")
    (3.75, 0.0026, 72.0)
    """
    if "pocket" in checkpoint:
        return 0.0026
    found = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", checkpoint.lower())
    size = f"{found[1]}B" if found else "7B"
    return SIZES.get(size, float(size[:-1]))


def training(
    config: Mapping[str, Any], *, size: float, samples: int, device: Device, processes: int
) -> Estimate:
    """Estimate a training of a network of `size` 10^9 parameters on `processes` devices.

    `config` has the trainer's defaults too; `samples` are those of one pass.
    """
    generates = "num_generations" in config
    responses = int(config.get("generation_batch_size") or 128)
    if not generates:
        accumulated = int(config.get("gradient_accumulation_steps") or 1)
        responses = int(config["per_device_train_batch_size"]) * accumulated * processes
    prompts = max(1, responses // int(config.get("num_generations", 1)))
    passes = float(config.get("num_train_epochs") or 1)
    steps = int(config.get("max_steps") or math.ceil(samples * passes / prompts))
    if size < SMALL:
        seconds = SMALL_START + steps * responses * SMALL_RESPONSE
        return Estimate(seconds / 3600, SMALL_MEMORY, steps)
    response = min(int(config.get("max_completion_length") or RESPONSE), RESPONSE)
    prompt = min(int(config.get("max_prompt_length") or config.get("max_length") or 2000), PROMPT)
    work = (12 if generates else 8) * size * 1e9 * responses * (prompt + response)
    seconds = work / (COMPUTE * device.tflops * 1e12 * processes)
    seconds += response * _token(size, device) if generates else 0
    seconds *= steps * (2 if config.get("r_desc") else 1)
    is_full = config.get("finetune", "full") == "full"
    state = (16.0 if is_full else 2.0) + (2.0 if is_full and config.get("beta") else 0.0)
    divided = processes if config.get("deepspeed") == "zero3" else 1
    return Estimate(seconds / 3600, state * size / divided + _reserve(size), steps)


def evaluation(
    *,
    size: float,
    samples: int,
    device: Device,
    is_video: bool,
    adaptation: Mapping[str, Any] | None = None,
) -> Estimate:
    """Estimate an evaluation on one device; `adaptation` are settings of test-time training."""
    rollouts = 0 if adaptation is None else int(adaptation.get("rollouts", 8))
    updates = 0 if adaptation is None else int(adaptation.get("steps", 5))
    if size < SMALL:
        each = SMALL_SAMPLE + updates * rollouts * SMALL_RESPONSE
        return Estimate((SMALL_START + samples * each) / 3600, SMALL_MEMORY)
    prompt = CLIP if is_video else IMAGE
    seconds = samples * (
        prompt * 2 * size * 1e9 / (COMPUTE * device.tflops * 1e12)
        + RESPONSE * _token(size, device) / BATCH
        + (CLIP_SECONDS if is_video else IMAGE_SECONDS)
    )
    if adaptation is None:
        return Estimate(seconds / 3600, 2.0 * size + _reserve(size))
    config = {"num_generations": rollouts, "generation_batch_size": rollouts, "beta": 0.01}
    config |= {"max_steps": updates, "max_prompt_length": IMAGE}
    once = training(config, size=size, samples=1, device=device, processes=1)
    return Estimate(seconds / 3600 + samples * once.hours, once.memory)


def _token(size: float, device: Device) -> float:
    """Seconds that one more token of every response of a batch takes."""
    return max(2 * size / (DECODE * device.bandwidth), OVERHEAD)


def _reserve(size: float) -> float:
    """GB of activations, caches and logits."""
    return 12.0 if size >= 1 else 1.0
