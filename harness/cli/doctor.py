"""`harness doctor`: the state of this machine, missing parts, and their remedies.

Nothing heavy is imported and no device is touched: it answers within two seconds. With `--sandbox`
it starts a worker of each tier and tests it; with `--checkpoint` it looks at that alone.
"""

import os
import platform
import re
import shutil
import subprocess
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from harness import plugins
from harness.cli.output import show_json
from harness.errors import MissingDependency, ModelError, SandboxUnavailable, UsageError
from harness.provenance import installed_version
from harness.version import __version__

DISTRIBUTION = "visual-reasoning-harness"
OPTIONAL = {
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
ANSWERS = 1.5
"""Seconds that the driver's program may take."""
SPARE = 2
"""GiB below which a disk is called full: a run of a benchmark of videos takes some."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is there or lacking."""

    name: str
    state: str
    about: str
    fix: str = ""
    """Remedy; empty where nothing is wrong."""
    needed: bool = False
    """True if nothing works without it."""


def doctor(arguments: Namespace) -> int:
    """Print the state of the machine, or of a checkpoint; exit code 0 if nothing needed is lacking.

    Of the sandbox one tier is needed.
    """
    if arguments.checkpoint and arguments.sandbox:
        raise UsageError("harness doctor", expected="--checkpoint or --sandbox", found="both")
    if arguments.checkpoint:
        findings, code = [*_checkpoint(arguments.checkpoint)], ModelError.exit_code
    elif arguments.sandbox:
        findings, code = [*_sandbox()], SandboxUnavailable.exit_code
    else:
        findings, code = [*_core(), *_optional(), *_machine()], MissingDependency.exit_code
    lacking = [finding.needed and bool(finding.fix) for finding in findings]
    if arguments.sandbox:
        lacking = [all(finding.fix for finding in findings)]
    code = code if any(lacking) else 0
    if arguments.json:
        show_json([asdict(finding) for finding in findings])
        return code
    from harness.cli.tables import show_columns, wrap_lines

    marks = [("✗" if finding.needed else "–") if finding.fix else "✓" for finding in findings]
    show_columns(
        [
            (mark, finding.name, finding.state, finding.about)
            for mark, finding in zip(marks, findings, strict=True)
        ]
    )
    print()
    for finding in findings:
        if finding.fix:
            print("\n".join(wrap_lines(f"{finding.name}: {finding.fix}", indent=4)))
    return code


def _core() -> Iterator[Finding]:
    yield Finding("harness", __version__, _plugins())
    yield Finding("python", platform.python_version(), "3.11 or later is needed")
    try:
        requirements = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:
        about = "the core's packages and the plugins"
        fix = "it is not installed: pip install -e . in its folder"
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


def _optional() -> Iterator[Finding]:
    for name, (extra, about) in OPTIONAL.items():
        version = installed_version(name)
        fix = "" if version else f'pip install "{DISTRIBUTION}[{extra}]"'
        yield Finding(name, version or "absent", about, fix)


def _machine() -> Iterator[Finding]:
    yield _accelerator()
    yield Finding("cores", str(os.cpu_count()), "--workers")
    free = shutil.disk_usage(Path.cwd()).free // 2**30
    fix = "" if free >= SPARE else "give --out a folder on another disk"
    yield Finding("free disk here", f"{free} GiB", "runs", fix)
    for program, (about, fix) in PROGRAMS.items():
        place = shutil.which(program)
        yield Finding(program, place or "absent", about, "" if place else fix)


def _sandbox() -> Iterator[Finding]:
    """Open each tier of the sandbox, which tests it; gVisor takes the longest, at most 20 s."""
    from harness.sandbox.pool import open_sandbox
    from harness.sandbox.tiers import TIERS

    for tier in TIERS:
        try:
            with open_sandbox(tier, workers=1) as sandbox:
                described = sandbox.describe()
        except SandboxUnavailable as lacking:
            yield Finding(tier, "absent", "code of models", str(lacking))
            continue
        landlock, probes = described["landlock"], described["self_test"]
        state = f"passed {len(probes)} probes of the self-test"
        named = "" if described["names"] else "not "
        about = f"Landlock {landlock or 'absent'}, refused calls {named}named"
        yield Finding(tier, state, about)


def _checkpoint(name: str) -> Iterator[Finding]:
    """The parts of a checkpoint; when none lacks, it is asked by its processor as a run asks it."""
    from harness.models.backends import checkpoint as checkpoints
    from harness.models.backends.completeness import checkpoint_parts, writes_text
    from harness.models.backends.networks import check_network, end_tokens, load_processor
    from harness.models.backends.prompt_check import check_padding, check_prompts

    folder = checkpoints.find(name)
    whole, writes = True, writes_text(folder)
    for part in checkpoint_parts(folder, writes=writes):
        whole = whole and not part.lacks
        fix = part.lacks and (part.fix or "Fetch or save it again.")
        yield Finding(part.name, "lacking" if part.lacks else "whole", part.lacks, fix, needed=True)
    if not (whole and writes):
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
    """Return name and memory of each GPU that the driver names; none where it gives no answer."""
    program = shutil.which("nvidia-smi")
    line = [program or "", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=ANSWERS)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def _accelerator() -> Finding:
    """The GPU that the driver names, and whether the installed torch was built for one."""
    about, fix = "network models", ""
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        state = "Apple GPU (mps)"
    elif shutil.which("nvidia-smi") is None:
        state, about = "none", "network models compute on the CPU"
        fix = "for a server with a GPU: backend=openai(…), see docs/models.md"
    elif not (state := "; ".join(gpus())):
        state, fix = "no answer", "nvidia-smi gives no answer: look at the NVIDIA driver"
    elif (installed_version("torch") or "").endswith("+cpu"):
        fix = "this torch is built for the CPU alone: install one built for CUDA"
    return Finding("accelerator", state, about, fix)


def _plugins() -> str:
    kinds: tuple[plugins.Kind, ...] = ("tasks", "models", "backends", "trainers")
    counted = ", ".join(f"{len(plugins.installed_plugins(kind))} {kind}" for kind in kinds)
    return f"installed: {counted} (`harness list`)"
