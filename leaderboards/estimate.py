"""Estimate hours and memory of trainings and evaluations from configuration and device.

`harness reproduce` prints the estimates before anything runs. The uncertainty is a factor of 3
either way: the three training times that papers print lie within it
(tests/leaderboards/test_estimate.py).

P are parameters, F dense bfloat16 operations and B bytes of memory bandwidth in a second, N
devices, T tokens of prompt and response.

- a token: max(2 P / (0.3 B), 0.02 s) for all responses of a batch together
- a step of GRPO: responses * T * 12 P / (0.25 F N) + response tokens * a token
- a step of supervised training: samples * T * 8 P / (0.25 F N)
- an evaluation: samples * (prompt * 2 P / (0.25 F) + response tokens * a token / 8 + 0.2 s for an
  image, 5 s for a video)
- memory of a training: weights with AdamW 16 P bytes, a reference 2 P, over N with ZeRO-3; 3 GB;
  activations
- memory of an evaluation: 2 P; 5 GB; T * P * 0.01 bytes for each of 8 responses
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import UsageError

COMPUTE_SHARE, BANDWIDTH_SHARE = 0.25, 0.3
"""Shares of a device's peak arithmetic and bandwidth that are reached."""
MIN_TOKEN_SECONDS = 0.02  # seconds a decoded token costs at least, however small the network
FLOAT32_SPEED = 1 / 6
"""Speed of arithmetic in float32 relative to bfloat16."""
PROMPT_TOKENS, RESPONSE_TOKENS = 4000, 400
RESPONSE_TOKENS_OF = {"dt_r1": 1500, "jit": 1500}
"""Tokens of a response by model, for models that write a plan, code and an answer."""
IMAGE_PROMPT_TOKENS, VIDEO_PROMPT_TOKENS = 1300, 8000
PERCEPTION_SECONDS = (0.2, 5.0)
"""Seconds for (an image, a video): decoding, segmentation, and propagation over frames."""
TWIN_SECONDS = (3.0, 20.0)
"""Seconds that the networks of a digital twin take for (an image, a video); the twin is built once
for all rollouts of a prompt."""
TWIN_MODELS = frozenset({"dt_r1", "jit"})
"""Models that answer from a twin."""
DECODED_TOGETHER = 8  # responses
UNKNOWN_SAMPLES = 1000  # samples of a split whose size is not known

OFFLOADED_STEP = 1.0
"""Seconds of a step of AdamW on the CPU (32 cores), with its copies, for 10^9 parameters."""
CONTEXT_GB, SEGMENTER_GB = 3.0, 2.0
"""GB of CUDA, its kernels and the logits of a few tokens; of a segmenter's network and an image."""
CACHED_GB, CHECKPOINTED_GB, KEPT_GB = 1e-5, 5.5e-5, 8e-4
"""GB of a token for 10^9 parameters in bfloat16: its keys and values; its activations with
`gradient_checkpointing`; its activations without."""
ADAPTER_GB = 0.0053
"""GB of an adapter with its optimizer for 10^9 parameters and each rank."""

ASSUMED_DEVICE = "A100-80GB"
"""Device of an estimate on a machine without a GPU, for networks that need one."""
SMALL_SIZE = 0.01
"""Parameters in 10^9 below which overhead, not arithmetic, decides, so that the formula does not
hold. Such networks (`pocket`, or none) run on a CPU; the constants were measured on two cores."""
SMALL_TRAINING, SMALL_TASK, SMALL_SAMPLE, SMALL_RESPONSE = 8.0, 1.5, 0.15, 0.07
"""Seconds to start a training, to start a task, to predict a sample, to train on a response."""
SMALL_GB = 1.0
WORLD_SAMPLES = 24
"""Samples of a split that `harness data make` makes by default."""


class Device(NamedTuple):
    """A GPU, or a CPU."""

    name: str
    tflops: float
    """Dense bfloat16 operations in 10^12 a second, by the vendor's data sheet."""
    bandwidth: float
    """Memory bandwidth in GB a second."""
    memory: float
    """Memory in GB."""


DEVICES = (
    Device("H200", 989, 4800, 141),
    Device("H100", 989, 3350, 80),
    Device("A100-40GB", 312, 1555, 40),
    Device("A100-80GB", 312, 2039, 80),
    Device("L40S", 362, 864, 48),
    Device("L40", 181, 864, 48),
    Device("A10", 125, 600, 24),
    Device("RTX 4090", 165, 1008, 24),
    Device("CPU", 0.1, 20, 16),
)
SIZES = {"7B": 8.3, "8B": 8.8, "3B": 3.75}
"""True parameters in 10^9 by the rounded size in a network's name (Qwen2.5-VL, Qwen3-VL)."""
TEXT_SIZES = {"7B": 7.6}
"""The same for networks without a vision tower (DeepSeek-R1-Distill-Qwen)."""


class Estimate(NamedTuple):
    """Time and memory that a command takes."""

    hours: float
    memory: float
    """GB on each device."""
    steps: int = 0
    """Optimiser steps of a training."""
    host: float = 0.0
    """GB of the CPU's memory that each process needs for offloaded state."""

    def __str__(self) -> str:
        return f"about {self.time}, {self.memory:,.0f} GB each"

    @property
    def time(self) -> str:
        """Hours, minutes or seconds as text."""
        for seconds, unit in ((3600, "h"), (60, "min")):
            if self.hours * 3600 >= seconds:
                return f"{self.hours * 3600 / seconds:,.1f} {unit}"
        return f"{self.hours * 3600:.0f} s"


def device_of(text: str) -> Device | None:
    """Return the device with the longest name that stands in a text, such as `NVIDIA A100-SXM4`.

    None: the text names no device of `DEVICES`.
    """
    devices = [
        device
        for device in DEVICES
        if all(_names(text.upper(), name_part) for name_part in device.name.split("-"))
    ]
    return max(devices, key=lambda device: len(device.name), default=None)


def named_device(text: str) -> Device:
    """Return the device that an option names; raise UsageError with the known ones otherwise."""
    if (device := device_of(text)) is not None:
        return device
    names = [device.name for device in DEVICES]
    near = [name for name in names if text.upper() in name]
    raise UsageError("--device", expected=f"one of {', '.join(near or names)}", found=text)


def _names(text: str, name_part: str) -> bool:
    """Return True if a text contains a part of a device's name as a word of its own.

    "RTX 4090" is contained in "RTX4090" and in "RTX_4090"; "A10" is not contained in "A100".
    """
    pattern = r"[\s_-]*".join(map(re.escape, name_part.split()))
    return re.search(rf"(?<![A-Z0-9]){pattern}(?![0-9])", text) is not None


def parameters(checkpoint: str) -> float:
    """Return a network's parameters in 10^9: of its files if it is a folder here, else by its name.

    A name without a size counts as a 7B.

    >>> parameters("Qwen/Qwen2.5-VL-3B-Instruct"), parameters("pocket"), parameters("x-72B")
    (3.75, 0.0026, 72.0)
    """
    if in_files := _parameters_in(Path(checkpoint)):
        return in_files / 1e9
    if "pocket" in checkpoint:
        return 0.0026
    match = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", checkpoint.lower())  # 3b, 0.5b
    size = f"{match[1]}B" if match else "7B"
    rounded = TEXT_SIZES if "distill" in checkpoint.lower() else SIZES
    return rounded.get(size, float(size[:-1]))


def _parameters_in(folder: Path) -> int:
    """Return the number of weights in the safetensors of a checkpoint, or of a training; else 0.

    It is 0 for damaged files too: the backend that loads them says what is wrong.
    """
    number, pattern = 0, "model*.safetensors"
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        files = [*folder.glob(pattern)] or [*folder.glob(f"checkpoint/{pattern}")]
        for path in files:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, path.stat().st_size)))
            header.pop("__metadata__", None)
            number += sum(math.prod(tensor["shape"]) for tensor in header.values())
        return number
    return 0


def training(
    config: Mapping[str, Any],
    *,
    size: float,
    samples: int,
    device: Device,
    processes: int,
    model: str = "",
    is_video: bool = False,
) -> Estimate:
    """Estimate a training.

    Args:
        config: Settings of the trainer, its defaults included.
        size: Parameters of the network in 10^9.
        samples: Number of training samples, that is, of one epoch.
        device: Kind of each device.
        processes: Number of processes, each with one device.
        model: Name of the model that is trained.
        is_video: True if the samples are videos.
    """
    generates = "num_generations" in config
    responses = int(config.get("generation_batch_size") or 128)
    if not generates:
        accumulated = int(config.get("gradient_accumulation_steps") or 1)
        responses = int(config["per_device_train_batch_size"]) * accumulated * processes
    prompts = max(1, responses // int(config.get("num_generations", 1)))
    passes = float(config.get("num_train_epochs") or 1)
    steps = int(config.get("max_steps") or math.ceil(samples * passes / prompts))
    if size < SMALL_SIZE:
        seconds = SMALL_TRAINING + steps * responses * SMALL_RESPONSE
        return Estimate(seconds / 3600, SMALL_GB, steps)
    expected_length = RESPONSE_TOKENS_OF.get(model, RESPONSE_TOKENS)
    max_length = int(config.get("max_completion_length") or expected_length)
    length = min(max_length, expected_length)
    max_prompt = int(config.get("max_prompt_length") or config.get("max_length") or 2000)
    prompt = min(max_prompt, PROMPT_TOKENS)
    # Operations a parameter and token: see the formulas above.
    work = (12 if generates else 8) * size * 1e9 * responses * (prompt + length)
    seconds = work / (COMPUTE_SHARE * device.tflops * 1e12 * processes)
    if generates:
        seconds += length * _token(2 * size, device)
    if model in TWIN_MODELS:
        seconds += prompts * TWIN_SECONDS[is_video] / processes
    seconds *= steps * (2 if config.get("r_desc") else 1)  # DR2Seg's second responses
    memory = _state(config, size, processes)
    memory += _activations(config, size, prompt + max_length if generates else prompt)
    return Estimate(seconds / 3600, memory, steps)


def _state(config: Mapping[str, Any], size: float, processes: int) -> float:
    """Return GB on each device of weights, gradients, AdamW's state and a reference network.

    A parameter takes 16 bytes, and 2 more in a reference network (`beta` > 0). ZeRO-3 divides them
    among the processes, but each holds all weights (2 bytes) while it generates.
    """
    if config.get("finetune", "full") != "full":
        return 2.0 * size + ADAPTER_GB * int(config.get("lora_r") or 16) * size
    is_sharded = config.get("deepspeed") == "zero3"
    state = (16.0 + (2.0 if config.get("beta") else 0.0)) * size / (processes if is_sharded else 1)
    return state + (2.0 * size if is_sharded and "num_generations" in config else 0.0)


def _activations(config: Mapping[str, Any], size: float, tokens: int) -> float:
    """Return GB of activations, or of keys and values while responses are generated, if more."""
    learned = int(config.get("per_device_train_batch_size") or 1)
    written = int(config.get("generation_micro_batch_size") or learned)
    per_response = CHECKPOINTED_GB if config.get("gradient_checkpointing") else KEPT_GB
    return CONTEXT_GB + max(learned * per_response, written * CACHED_GB) * tokens * size


def evaluation(
    *,
    size: float,
    samples: int,
    device: Device,
    is_video: bool,
    adaptation: Mapping[str, Any] | None = None,
    model: str = "",
) -> Estimate:
    """Estimate an evaluation on one device.

    Args:
        size: Parameters of the network in 10^9.
        samples: Number of samples.
        device: The device.
        is_video: True if the samples are videos.
        adaptation: Settings of test-time training, its defaults included; None without it.
        model: Name of the model.
    """
    response = RESPONSE_TOKENS_OF.get(model, RESPONSE_TOKENS)
    perception = PERCEPTION_SECONDS[is_video]
    perception += TWIN_SECONDS[is_video] if model in TWIN_MODELS else 0.0
    if size < SMALL_SIZE:
        sample_seconds = SMALL_SAMPLE
        if adaptation is not None:
            rollouts = adaptation.get("rollouts", 1)
            sample_seconds += max(1, adaptation.get("steps", 0)) * rollouts * SMALL_RESPONSE
        return Estimate((SMALL_TASK + samples * sample_seconds) / 3600, SMALL_GB)
    prompt = VIDEO_PROMPT_TOKENS if is_video else IMAGE_PROMPT_TOKENS
    if model in TWIN_MODELS:
        prompt = PROMPT_TOKENS
    seconds = (
        prompt * 2 * size * 1e9 / (COMPUTE_SHARE * device.tflops * 1e12)
        + response * _token(2 * size, device) / DECODED_TOGETHER
        + perception
    )
    if adaptation is None:
        cached = DECODED_TOGETHER * (prompt + response) * CACHED_GB * size
        memory = 2.0 * size + CONTEXT_GB + (0.0 if model in TWIN_MODELS else SEGMENTER_GB) + cached
        return Estimate(samples * seconds / 3600, memory)
    extra_seconds, memory, host = _adaptation(adaptation, size=size, device=device, prompt=prompt)
    return Estimate(samples * (seconds + extra_seconds) / 3600, memory, host=host)


def _adaptation(
    settings: Mapping[str, Any], *, size: float, device: Device, prompt: int
) -> tuple[float, float, float]:
    """Return seconds a sample, GB on the device and GB of the CPU that test-time training takes.

    Trained weights are float32; frozen ones beside an adapter are bfloat16. The prompt is read once
    a step for all rollouts. If memory runs out, responses are learned from one at a time.
    """
    updates, rollouts = settings.get("steps", 0), settings.get("rollouts", 1)
    is_full = updates > 0 and settings.get("finetune", "full") == "full"
    width = 4.0 if is_full else 2.0  # bytes a parameter
    # GRPO learns from all rollouts that it draws at each step; other methods from one response, or
    # one in each view, and draw it once if it is a pseudo-label.
    is_group = "beta" in settings
    learned = rollouts if is_group else settings.get("views", 1)
    is_pseudo_label = not is_group and "rollouts" in settings
    generates_once = updates == 0 or settings.get("single_gen") or is_pseudo_label
    generations = 1 if generates_once else updates
    speed = COMPUTE_SHARE * device.tflops * 1e12 * (FLOAT32_SPEED if is_full else 1)
    generation_work = 2 * size * 1e9 * (prompt + rollouts * RESPONSE_TOKENS)
    update_work = (8 if is_group else 6) * size * 1e9 * (prompt + learned * RESPONSE_TOKENS)
    seconds = generations * (
        generation_work / speed + RESPONSE_TOKENS * _token(width * size, device)
    )
    seconds += updates * update_work / speed
    cached = (prompt + rollouts * RESPONSE_TOKENS) * CACHED_GB * width / 2 * size
    memory = width * size + CONTEXT_GB + SEGMENTER_GB + cached
    if not updates:
        return seconds, memory, 0.0
    memory += KEPT_GB * (width / 2) * (prompt + RESPONSE_TOKENS) * size
    if not is_full:
        return seconds, memory + ADAPTER_GB * int(settings.get("lora_r") or 16) * size, 0.0
    if settings.get("offload") == "optimizer":
        return seconds + updates * OFFLOADED_STEP * size, memory, 20.0 * size
    return seconds, memory + 12.0 * size, 4.0 * size


def _token(weights: float, device: Device) -> float:
    """Return seconds to decode one token of each response of a batch; `weights` are in GB."""
    return max(weights / (BANDWIDTH_SHARE * device.bandwidth), MIN_TOKEN_SECONDS)
