"""Hours and memory of trainings and evaluations, estimated from configuration and device.

Let P be the network's parameters, F the device's dense bfloat16 operations a second, B its memory's
bytes a second, N the number of devices, and T the tokens of a prompt and a response together (the
configuration's limits, at most PROMPT and RESPONSE).

    steps      = max_steps, or samples · passes / prompts a step
    computing  = steps · responses a step · T · k · P / (COMPUTE · F · N)
    decoding   = steps · RESPONSE tokens · max(2 P / (DECODE · B), OVERHEAD)
    evaluation = samples · (prompt · 2 P / (COMPUTE · F) + RESPONSE · decoding / 8 + media)

k is 12 for GRPO (prefill 2, log-probabilities 2, forward again, forward and backward 8) and 8 for
supervised training. A second pass (DR2Seg) doubles a training; adaptation to each sample is a
training of `steps` steps a sample. Memory on each device is 16 P bytes for all weights with AdamW
(divided by N with ZeRO-3), 2 P for an adapter or an evaluation, 2 P for a reference, and RESERVE.

Uncertainty: a factor of 3 either way. The three times that papers print for such trainings lie
within it (tests/leaderboards/test_estimate.py); lengths of responses are the largest unknown, and
neither a server, nor perception nodes, nor reading files from disk are counted. What is not
published, such as a split's number of samples, is taken as UNKNOWN.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COMPUTE, DECODE = 0.25, 0.3
"""Shares of a device's arithmetic and bandwidth that are reached."""
OVERHEAD = 0.02  # seconds a decoded token costs at least, however small the network
PROMPT, RESPONSE = 4000, 400  # tokens
IMAGE, CLIP = 1300, 8000  # tokens of a prompt with an image, and with a video
IMAGE_SECONDS, CLIP_SECONDS = 0.2, 5.0  # decoding, segmenting and following
BATCH = 8
RESERVE = 12.0  # GB of activations, caches and logits
UNKNOWN = 1000  # samples


@dataclass(frozen=True, slots=True)
class Device:
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
    Device("RTX 3090", 71, 936, 24),
    Device("CPU", 0.1, 20, 16),
)
SIZES = {"7B": 8.3, "8B": 8.8, "3B": 3.75}
"""Parameters in 10^9 of networks whose names round them (Qwen2.5-VL, Qwen3-VL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a command takes."""

    hours: float
    memory: float
    """GB on each device."""
    steps: int = 0

    def __str__(self) -> str:
        time = f"{self.hours:,.1f} h" if self.hours >= 1 else f"{self.hours * 60:,.0f} min"
        return f"about {time}, {self.memory:,.0f} GB"


def device_of(text: str) -> Device | None:
    """Return the device whose name stands in a text, the longest such name; None if none does.

    >>> device_of("NVIDIA A100-SXM4-80GB").name, device_of("NVIDIA H100 80GB HBM3").name
    ('A100-80GB', 'H100')
    """
    plain = re.sub(r"[^A-Z0-9]", "", text.upper())
    found = [
        one
        for one in DEVICES
        if all(re.sub(r"[^A-Z0-9]", "", part) in plain for part in one.name.upper().split("-"))
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
    """Estimate a training.

    Args:
        config: Its settings, with the trainer's defaults.
        size: Parameters in 10^9.
        samples: Of one pass.
        device: One of the devices.
        processes: Their number.
    """
    generates = "num_generations" in config
    if generates:
        responses = int(config.get("generation_batch_size") or 128)
        prompts = max(1, responses // int(config["num_generations"]))
    else:
        accumulated = int(config.get("gradient_accumulation_steps") or 1)
        responses = int(config.get("per_device_train_batch_size") or 1) * accumulated * processes
        prompts = responses
    epochs = float(config.get("num_train_epochs") or 1)
    steps = int(config.get("max_steps") or math.ceil(samples * epochs / prompts))
    response = min(int(config.get("max_completion_length") or RESPONSE), RESPONSE)
    prompt = min(int(config.get("max_prompt_length") or config.get("max_length") or 2000), PROMPT)
    times = steps * (2 if config.get("r_desc") else 1)
    work = (12 if generates else 8) * size * 1e9 * responses * (prompt + response)
    seconds = times * work / (COMPUTE * device.tflops * 1e12 * processes)
    if generates:
        seconds += times * response * _token(size, device)
    is_full = config.get("finetune", "full") == "full"
    state = 16.0 * size if is_full else 2.0 * size
    divided = processes if config.get("deepspeed") == "zero3" else 1
    reference = 2.0 * size if generates and is_full and config.get("beta") else 0.0
    memory = (state + reference) / divided + _reserve(size)
    return Estimate(hours=seconds / 3600, memory=memory, steps=steps)


def evaluation(
    *,
    size: float,
    samples: int,
    device: Device,
    is_video: bool,
    adaptation: Mapping[str, Any] | None = None,
) -> Estimate:
    """Estimate an evaluation on one device.

    Args:
        size: Parameters in 10^9.
        samples: Their number.
        device: It.
        is_video: True if a sample is a video.
        adaptation: Settings of a model that adapts to each sample.
    """
    prompt = CLIP if is_video else IMAGE
    seconds = samples * (
        prompt * 2 * size * 1e9 / (COMPUTE * device.tflops * 1e12)
        + RESPONSE * _token(size, device) / BATCH
        + (CLIP_SECONDS if is_video else IMAGE_SECONDS)
    )
    memory = 2.0 * size + _reserve(size)
    if adaptation is not None:
        config = {
            "num_generations": adaptation.get("rollouts", 8),
            "generation_batch_size": adaptation.get("rollouts", 8),
            "max_steps": adaptation.get("steps", 5),
            "max_prompt_length": IMAGE,
            "beta": 0.01,
        }
        once = training(config, size=size, samples=1, device=device, processes=1)
        seconds += samples * once.hours * 3600
        memory = once.memory
    return Estimate(hours=seconds / 3600, memory=memory)


def _token(size: float, device: Device) -> float:
    """Seconds that one more token of every response of a batch takes."""
    return max(2 * size / (DECODE * device.bandwidth), OVERHEAD)


def _reserve(size: float) -> float:
    return RESERVE if size >= 1 else 1.0
