"""`harness doctor`: what this machine has and lacks, and what that means."""

import os
import platform
import shutil
import subprocess
import sys
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import harness
from harness import plugins
from harness.cli.output import show_json

NEEDED_FOR = {
    "torch": "network models",
    "torchvision": "processors of Qwen2.5-VL",
    "transformers": "network models",
    "sam2": "the sam2 package's segmenter",
    "trl": "training",
    "peft": "LoRA adapters",
    "pycocoevalcap": "BLEU, ROUGE, METEOR, CIDEr",
    "bert-score": "BERTScore",
    "lmms-eval": "models registered in lmms-eval",
    "ray": "several machines",
}
CORE = (
    "av", "numpy", "opencv-python-headless", "pillow", "pyarrow", "pycocotools", "rich", "scipy",
)  # fmt: skip


def doctor(arguments: Namespace) -> int:
    """Print what is there; always exit code 0, unless the core itself is incomplete."""
    lines = [*_core(), *_optional(), *_machine(), *_plugins()]
    if arguments.json:
        show_json([{"name": name, "state": state, "about": about} for name, state, about in lines])
    else:
        from harness.cli.tables import show_rows

        show_rows(("what", "state", "for"), lines)
    return 6 if any(state == "MISSING" for _, state, _ in lines) else 0


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _core() -> list[tuple[str, str, str]]:
    lines = [
        ("harness", harness.__version__, "this package"),
        ("python", platform.python_version(), "3.11 or later is needed"),
    ]
    lines += [(name, _version(name) or "MISSING", "the core") for name in CORE]
    return lines


def _optional() -> list[tuple[str, str, str]]:
    lines = [(name, _version(name) or "absent", about) for name, about in NEEDED_FOR.items()]
    if find_spec("torch") is not None:
        lines.append(("accelerator", _accelerator(), "speed"))
    return lines


def _accelerator() -> str:
    """Asked of another process: importing torch here would take seconds and memory."""
    code = ("import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() "
            "else 'none')")  # fmt: skip
    # -P: a torch.py that happens to lie in the current folder is not run.
    line = [sys.executable, "-P", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    return done.stdout.strip() or "torch does not import"


def _machine() -> list[tuple[str, str, str]]:
    free = shutil.disk_usage(Path.cwd()).free // 2**30
    lines = [
        ("cores", str(os.cpu_count()), "--workers"),
        ("free disk here", f"{free} GiB", "runs"),
    ]
    for program, about in (("java", "the PTB tokenizer of caption metrics"),
                           ("bwrap", "the sandbox for code that models write"),
                           ("git", "the code's commit in records")):  # fmt: skip
        lines.append((program, shutil.which(program) or "absent", about))
    return lines


def _plugins() -> list[tuple[str, str, str]]:
    return [
        (f"{kind} installed", ", ".join(plugins.installed(kind)) or "none", "plugins")
        for kind in ("tasks", "models", "segmenters", "propagators", "backends", "trainers")
    ]
