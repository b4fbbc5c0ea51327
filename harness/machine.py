"""Findings of `harness doctor`: what is installed on this machine, what is missing, and remedies.

Each function yields one `Finding` for each line that is printed. Torch is not imported and no GPU
is used; only `sandbox` and `checkpoint` run code of what they test.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from harness import plugins
from harness.errors import ModelError, SandboxUnavailable
from harness.provenance import installed_version
from harness.version import __version__

DISTRIBUTION = "visual-reasoning-harness"
OPTIONAL_PACKAGES = {
    "torch": ("torch", "network models"),
    "torchvision": ("torch", "processors of Qwen2.5-VL"),
    "transformers": ("torch", "network models"),
    "sam2": ("sam2", "the sam2 package's segmenter"),
    "trl": ("train", "training"),
    "peft": ("train", "LoRA adapters"),
    "pycocoevalcap": ("text", "BLEU, ROUGE, METEOR, CIDEr"),
    "bert-score": ("text", "BERTScore"),
    "lmms-eval": ("lmms", "models registered in lmms-eval"),
    "rapidocr": ("ocr", "text in images, a node of digital twins"),
    "onnxruntime": ("ocr", "text in images, a node of digital twins"),
    "ray": ("ray", "several machines"),
    "sqlalchemy": ("db", "the index of runs (`harness runs`)"),
    "shtab": ("completion", "completion of commands in a shell"),
}
"""Packages by name, each with the extra that installs it and its purpose."""
PROGRAMS = {
    "java": (
        "the official tokens of caption metrics, METEOR",
        "install a Java runtime, 8 or later",
    ),
    "git": ("the code's commit in records", "install git"),
}
"""Programs by name, each with its purpose and the remedy if it is absent."""
DRIVER_SECONDS = 1.5
"""Seconds after which `nvidia-smi` counts as without an answer."""
MIN_FREE_GIB = 2
"""GiB of free disk space below which a remedy is shown: a run on videos may take them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of the machine or of a checkpoint, and its state."""

    name: str
    state: str
    about: str
    fix: str = ""
    """Remedy; empty where nothing is wrong."""
    needed: bool = False
    """True if nothing works without it."""


def core() -> Iterator[Finding]:
    """Yield this package, Python, and the packages that nothing works without."""
    yield Finding("harness", __version__, _plugin_counts())
    yield Finding("python", platform.python_version(), "3.11 or later is needed")
    try:
        requirements = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:
        about = "the core's packages and the plugins"
        fix = "it is not installed: run `pip install -e .` in its folder"
        yield Finding(DISTRIBUTION, "no metadata", about, fix, needed=True)
        return
    for requirement in filter(_is_of_core, requirements):
        name = re.split(r"[^\w.-]", requirement)[0]
        version = installed_version(name)
        fix = "" if version else f'pip install "{requirement}"'
        yield Finding(name, version or "MISSING", "the core", fix, needed=True)


def _is_of_core(requirement: str) -> bool:
    """Return False for a requirement of an extra, or one whose marker does not hold here.

    Without the package that evaluates markers, a requirement with one is not called missing.
    """
    marker = requirement.partition(";")[2]
    if not marker.strip():
        return True
    try:
        from packaging.markers import Marker
    except ModuleNotFoundError:
        return False
    return Marker(marker).evaluate({"extra": ""})


def optional() -> Iterator[Finding]:
    """Yield the packages of the extras."""
    for name, (extra, about) in OPTIONAL_PACKAGES.items():
        version = installed_version(name)
        fix = "" if version else f'pip install "{DISTRIBUTION}[{extra}]"'
        yield Finding(name, version or "absent", about, fix)


def hardware() -> Iterator[Finding]:
    """Yield the accelerator, the cores, the disk and programs."""
    yield _accelerator()
    yield Finding("cores", str(os.cpu_count()), "--workers")
    free = shutil.disk_usage(Path.cwd()).free // 2**30
    fix = "" if free >= MIN_FREE_GIB else "give --out a folder on another disk"
    yield Finding("free disk here", f"{free} GiB", "runs", fix)
    for program, (about, fix) in PROGRAMS.items():
        program_path = shutil.which(program)
        yield Finding(program, program_path or "absent", about, "" if program_path else fix)


def sandbox() -> Iterator[Finding]:
    """Yield the state of each tier of the sandbox, which is tested; gVisor takes at most 20 s."""
    from harness.sandbox.pool import open_sandbox
    from harness.sandbox.tiers import TIERS

    for tier in TIERS:
        try:
            with open_sandbox(tier, workers=1) as opened:
                described = opened.describe()
        except SandboxUnavailable as lacking:
            yield Finding(tier, "absent", "code of models", str(lacking))
            continue
        landlock, probes = described["landlock"], described["self_test"]
        state = f"passed {len(probes)} probes of the self-test"
        named = "" if described["names"] else "not "
        about = f"Landlock {landlock or 'absent'}, refused calls {named}named"
        yield Finding(tier, state, about)


def checkpoint(name: str) -> Iterator[Finding]:
    """Yield the parts of a checkpoint; if none lacks, test its prompts and weights' names too."""
    from harness.models.backends import checkpoint as checkpoints
    from harness.models.backends.completeness import checkpoint_parts, writes_text
    from harness.models.backends.networks import check_network, end_tokens, load_processor
    from harness.models.backends.prompt_check import check_padding, check_prompts

    folder = checkpoints.find(name)
    is_whole, writes = True, writes_text(folder)
    for part in checkpoint_parts(folder, writes=writes):
        is_whole = is_whole and not part.lacks
        fix = (part.fix or "Fetch or save it again.") if part.lacks else ""
        yield Finding(part.name, "lacking" if part.lacks else "whole", part.lacks, fix, needed=True)
    if not (is_whole and writes):
        return
    try:
        processor = load_processor(folder, name=name)
        check_padding(processor)
        check_prompts(processor, end_tokens(folder, processor.tokenizer))
    except ModelError as error:
        yield Finding("prompts", "wrong", "the form in which it is asked", str(error), needed=True)
        return
    yield Finding("prompts", "whole", "the form in which it is asked", needed=True)
    about = "names and shapes of all weights"
    try:
        check_network(folder, name=name, last=max(processor.tokenizer.get_vocab().values()))
    except ModelError as error:
        yield Finding("network", "wrong", about, str(error), needed=True)
    else:
        yield Finding("network", "whole", about, needed=True)


def gpus() -> list[str]:
    """Return name and memory of each GPU, one text each, as `nvidia-smi` prints them.

    None where the driver gives no answer within `DRIVER_SECONDS`.
    """
    program = shutil.which("nvidia-smi")
    command = [program or "", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=DRIVER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return process.stdout.strip().splitlines() if process.returncode == 0 else []


def _accelerator() -> Finding:
    """Return the GPU that the driver names; a remedy if the installed torch cannot use it."""
    about, fix = "network models", ""
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        state = "Apple GPU (mps)"
    elif shutil.which("nvidia-smi") is None:
        state, about = "none", "network models compute on the CPU"
        fix = "for a server with a GPU: backend=openai(…), see docs/models.md"
    else:
        state = "; ".join(gpus())
        if not state:
            state, fix = "no answer", "nvidia-smi does not run: check the NVIDIA driver"
        elif (installed_version("torch") or "").endswith("+cpu"):
            fix = "this torch is built for the CPU only: install one that is built for CUDA"
    return Finding("accelerator", state, about, fix)


def _plugin_counts() -> str:
    """Return the numbers of installed plugins, in words."""
    kinds: tuple[plugins.Kind, ...] = ("tasks", "models", "backends", "trainers")
    counted = ", ".join(f"{len(plugins.installed_plugins(kind))} {kind}" for kind in kinds)
    return f"installed: {counted} (`harness list`)"
