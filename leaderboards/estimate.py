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
FLOAT32 = 1 / 6
"""Speed of arithmetic in float32, of that in bfloat16."""
PROMPT, RESPONSE = 4000, 400  # tokens
RESPONSES = {"dt_r1": 1500, "jit": 1500}
"""Tokens of a response of models that write more than `RESPONSE`: a plan, code and an answer."""
IMAGE, CLIP = 1300, 8000  # tokens of a prompt with an image, and with a video
PERCEPTION = (0.2, 5.0)
"""Seconds an image and a video take: decoding, segmenting and following."""
TWIN = (3.0, 20.0)
"""Seconds that the networks of a digital twin take for an image and a video; it is made once for
all rollouts of a prompt."""
TWINS = frozenset({"dt_r1", "jit"})
"""Models that answer from a twin."""
BATCH = 8
UNKNOWN = 1000  # samples

OFFLOADED = 1.0
"""Seconds of a step of AdamW on the CPU (32 cores), with its copies, for 10^9 parameters."""
CONTEXT, SEGMENTER = 3.0, 2.0
"""GB of CUDA, kernels and logits of some tokens; of a segmenter's network with an image."""
CACHED, CHECKPOINTED, KEPT = 1e-5, 5.5e-5, 8e-4
"""GB of a token for 10^9 parameters in bfloat16: its keys and values; its activations where layers
are computed twice (`gradient_checkpointing`), and where they are not."""
ADAPTER = 0.0053
"""GB of an adapter with its optimizer for 10^9 parameters and each rank."""

SMALL = 0.01
"""Parameters in 10^9 below which the formula says nothing: what is not arithmetic decides. Those
networks (`pocket`, or none) run on a CPU, for which two cores were measured."""
SMALL_TRAINING, SMALL_TASK, SMALL_SAMPLE, SMALL_RESPONSE = 8.0, 1.5, 0.15, 0.07
"""Seconds of a training before its steps, of a task before its samples, of a sample that is
predicted, and of a response that is trained on."""
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
    Device("A100-40GB", 312, 1555, 40),
    Device("A100-80GB", 312, 2039, 80),
    Device("L40S", 362, 864, 48),
    Device("L40", 181, 864, 48),
    Device("A10", 125, 600, 24),
    Device("RTX 4090", 165, 1008, 24),
    Device("CPU", 0.1, 20, 16),
)
SIZES = {"7B": 8.3, "8B": 8.8, "3B": 3.75}
"""Parameters in 10^9 of networks whose names round them (Qwen2.5-VL, Qwen3-VL)."""
TEXT_SIZES = {"7B": 7.6}
"""The same of networks without a vision tower (DeepSeek-R1-Distill-Qwen)."""


class Estimate(NamedTuple):
    """Time and memory that a command takes."""

    hours: float
    memory: float
    """GB on each device."""
    steps: int = 0
    host: float = 0.0
    """GB of the CPU's memory for each process, of what is offloaded."""

    def __str__(self) -> str:
        return f"about {self.time}, {self.memory:,.0f} GB each"

    @property
    def time(self) -> str:
        """Hours, minutes or seconds in words."""
        for seconds, unit in ((3600, "h"), (60, "min")):
            if self.hours * 3600 >= seconds:
                return f"{self.hours * 3600 / seconds:,.1f} {unit}"
        return f"{self.hours * 3600:.0f} s"


def device_of(text: str) -> Device | None:
    """Return the device whose name stands in a text, the longest such name; None if none does."""
    devices = [
        device
        for device in DEVICES
        if all(_names(text.upper(), part) for part in device.name.split("-"))
    ]
    return max(devices, key=lambda device: len(device.name), default=None)


def _names(text: str, part: str) -> bool:
    """Return True if a part of a device's name stands in a text: A10 does not in "A100"."""
    pattern = r"[\s_-]*".join(map(re.escape, part.split()))
    return re.search(rf"(?<![A-Z0-9]){pattern}(?![0-9])", text) is not None


def parameters(checkpoint: str) -> float:
    """Return a network's parameters in 10^9 from its name; 7B where it does not say.

    >>> parameters("Qwen/Qwen2.5-VL-3B-Instruct"), parameters("pocket"), parameters("x-72B")
    (3.75, 0.0026, 72.0)
    """
    if "pocket" in checkpoint:
        return 0.0026
    match = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", checkpoint.lower())
    size = f"{match[1]}B" if match else "7B"
    rounded = TEXT_SIZES if "distill" in checkpoint.lower() else SIZES
    return rounded.get(size, float(size[:-1]))


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
    """Estimate a training of a network of `size` 10^9 parameters on `processes` devices.

    `config` has the trainer's defaults too; `samples` are those of one pass; `model` is the name of
    the model that is trained.
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
        seconds = SMALL_TRAINING + steps * responses * SMALL_RESPONSE
        return Estimate(seconds / 3600, SMALL_MEMORY, steps)
    usual = RESPONSES.get(model, RESPONSE)
    longest = int(config.get("max_completion_length") or usual)
    prompt = min(int(config.get("max_prompt_length") or config.get("max_length") or 2000), PROMPT)
    tokens = prompt + min(longest, usual)
    work = (12 if generates else 8) * size * 1e9 * responses * tokens
    seconds = work / (COMPUTE * device.tflops * 1e12 * processes)
    if generates:
        seconds += min(longest, usual) * _token(2 * size, device)
    if model in TWINS:
        seconds += prompts * TWIN[is_video] / processes
    seconds *= steps * (2 if config.get("r_desc") else 1)
    memory = _state(config, size, processes)
    memory += _activations(config, size, prompt + longest if generates else prompt)
    return Estimate(seconds / 3600, memory, steps)


def _state(config: Mapping[str, Any], size: float, processes: int) -> float:
    """GB of weights, gradients and AdamW on each device, and of a reference beside them.

    ZeRO-3 spreads all of them, and holds whole weights to generate.
    """
    if config.get("finetune", "full") != "full":
        return 2.0 * size + ADAPTER * int(config.get("lora_r") or 16) * size
    spread = config.get("deepspeed") == "zero3"
    state = (16.0 + (2.0 if config.get("beta") else 0.0)) * size / (processes if spread else 1)
    return state + (2.0 * size if spread and "num_generations" in config else 0.0)


def _activations(config: Mapping[str, Any], size: float, tokens: int) -> float:
    """GB beside the state: of responses that are learned from, or of those that are written."""
    learned = int(config.get("per_device_train_batch_size") or 1)
    written = int(config.get("generation_micro_batch_size") or learned)
    per_response = CHECKPOINTED if config.get("gradient_checkpointing") else KEPT
    return CONTEXT + max(learned * per_response, written * CACHED) * tokens * size


def evaluation(
    *,
    size: float,
    samples: int,
    device: Device,
    is_video: bool,
    adaptation: Mapping[str, Any] | None = None,
    model: str = "",
) -> Estimate:
    """Estimate an evaluation on one device by a model of this name.

    `adaptation` are the settings of test-time training, with their defaults.
    """
    response, perception = RESPONSES.get(model, RESPONSE), PERCEPTION[is_video]
    perception += TWIN[is_video] if model in TWINS else 0.0
    if size < SMALL:
        sample_seconds = SMALL_SAMPLE
        if adaptation is not None:
            drawn = adaptation.get("rollouts", 1)
            sample_seconds += max(1, adaptation.get("steps", 0)) * drawn * SMALL_RESPONSE
        return Estimate((SMALL_TASK + samples * sample_seconds) / 3600, SMALL_MEMORY)
    prompt = PROMPT if model in TWINS else CLIP if is_video else IMAGE
    seconds = (
        prompt * 2 * size * 1e9 / (COMPUTE * device.tflops * 1e12)
        + response * _token(2 * size, device) / BATCH
        + perception
    )
    if adaptation is None:
        cached = BATCH * (prompt + response) * CACHED * size
        memory = 2.0 * size + CONTEXT + (0.0 if model in TWINS else SEGMENTER) + cached
        return Estimate(samples * seconds / 3600, memory)
    more, memory, host = _adaptation(adaptation, size=size, device=device, prompt=prompt)
    return Estimate(samples * (seconds + more) / 3600, memory, host=host)


def _adaptation(
    settings: Mapping[str, Any], *, size: float, device: Device, prompt: int
) -> tuple[float, float, float]:
    """Seconds a sample, GB on the device and GB of the CPU that test-time training takes.

    Weights that learn are float32, those beside an adapter bfloat16. The prompt is read once a step
    for all rollouts. Where memory runs out, one response is learned from at a time.
    """
    updates, rollouts = settings.get("steps", 0), settings.get("rollouts", 1)
    is_full = updates > 0 and settings.get("finetune", "full") == "full"
    width = 4.0 if is_full else 2.0
    # GRPO learns from all rollouts that it draws at each step; other methods from one response, or
    # one in each view, and draw it once if it is a pseudo-label.
    is_group = "beta" in settings
    learned = rollouts if is_group else settings.get("views", 1)
    once = updates == 0 or settings.get("single_gen") or (not is_group and "rollouts" in settings)
    generations = 1 if once else updates
    speed = COMPUTE * device.tflops * 1e12 * (FLOAT32 if is_full else 1)
    read = 2 * size * 1e9 * (prompt + rollouts * RESPONSE)
    taught = (8 if is_group else 6) * size * 1e9 * (prompt + learned * RESPONSE)
    seconds = generations * (read / speed + RESPONSE * _token(width * size, device))
    seconds += updates * taught / speed
    cached = (prompt + rollouts * RESPONSE) * CACHED * width / 2 * size
    memory = width * size + CONTEXT + SEGMENTER + cached
    if not updates:
        return seconds, memory, 0.0
    memory += KEPT * (width / 2) * (prompt + RESPONSE) * size
    if not is_full:
        return seconds, memory + ADAPTER * int(settings.get("lora_r") or 16) * size, 0.0
    if settings.get("offload") == "optimizer":
        return seconds + updates * OFFLOADED * size, memory, 20.0 * size
    return seconds, memory + 12.0 * size, 4.0 * size


def _token(weights: float, device: Device) -> float:
    """Seconds that one more token of every response of a batch takes, with GB of weights."""
    return max(weights / (DECODE * device.bandwidth), OVERHEAD)
