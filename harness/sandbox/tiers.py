"""Tiers of isolation: commands that start a worker on this machine, the preferred tier first.

`bubblewrap`: the worker has its own namespaces, in which there are no network, no other processes
and only Python's files. `landlock`: no namespaces, for containers that forbid them. `gvisor`: the
worker runs on gVisor's kernel. In every tier each execution also gives up its rights (`kernel`).
`pool` calls `launch`.
"""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.errors import SandboxUnavailable
from harness.files import temporary_prefix
from harness.sandbox import kernel
from harness.sandbox.protocol import Limits
from harness.sandbox.syscalls import ARCHITECTURES, this_architecture

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""The whole environment of a worker, without harness's own secrets."""
FLAGS = ("-s", "-S", "-P", "-B")  # of Python: no site packages, no unsafe path, no bytecode files
BOOT = "import sys; sys.path += sys.argv[2:]; from harness.sandbox import worker; worker.main()"
SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache")
"""The C libraries of Python and its packages."""
ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the package `harness`."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The command that starts a worker of a tier."""

    tier: str
    command: tuple[str, ...]
    start_seconds: float = 60.0
    """Seconds in which a worker must be ready."""
    folder: str = ""
    """Temporary folder to remove when the worker has ended; empty: none."""


def launch(tier: str, limits: Limits, *, landlock: bool = True) -> Launch:
    """Return the launch of a tier.

    Args:
        tier: A name of `TIERS`.
        limits: Limits of an execution.
        landlock: False: do not use Landlock, as on a kernel without it.

    Raises:
        SandboxUnavailable: this machine lacks something that the tier needs.
    """
    if platform.system() != "Linux" or this_architecture() is None:
        raise SandboxUnavailable(
            f"the sandbox's tier {tier}",
            expected=f"Linux on {' or '.join(ARCHITECTURES)}",
            found=f"{platform.system()} on {platform.machine()}",
            fix="Run code on another machine: a URL of SandboxFusion as the tier",
        )
    packages = [*_packages()]
    readable = [
        *(path for path in SYSTEM_LIBRARIES if Path(path).exists()),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
        f"{sys.base_prefix}/lib",
        *packages,
    ]
    executable = os.path.realpath(sys.executable)
    settings = {"limits": asdict(limits), "landlock": landlock, "readable": readable}
    python = (executable, *FLAGS, "-c", BOOT, json.dumps(settings), *packages, str(ROOT))
    needed = sorted({*readable, executable, str(ROOT / "harness")})
    return TIERS[tier](python, needed)


def _packages() -> Iterator[str]:
    """Yield the folders of the packages that code may import."""
    specs = (importlib.util.find_spec(name) for name in ("numpy", "cv2"))
    yield from dict.fromkeys(
        str(Path(spec.origin).parents[1]) for spec in specs if spec and spec.origin
    )


def _bubblewrap(python: tuple[str, ...], needed: list[str]) -> Launch:
    """Return the start of a worker in namespaces; raise SandboxUnavailable without `bwrap`."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxUnavailable(
            "the sandbox's tier bubblewrap",
            expected="the program bwrap",
            found="none",
            fix="Install bubblewrap",
        )
    binds = [word for path in needed for word in ("--ro-bind", path, path)]
    # bwrap itself keeps the environment that it was started with: `process` gives it a clean one.
    options = ("--unshare-all", "--cap-drop", "ALL", *binds, "--dev-bind", "/dev/null", "/dev/null")
    return Launch("bubblewrap", (program, *options, "--remount-ro", "/", "--chdir", "/", *python))


def _landlock(python: tuple[str, ...], needed: list[str]) -> Launch:
    if not kernel.landlock_version():
        raise SandboxUnavailable(
            "the sandbox's tier landlock",
            expected="Linux 5.13 or later with Landlock among its security modules",
            found=platform.release(),
            fix="Install bubblewrap",
        )
    return Launch("landlock", python)


def _gvisor(python: tuple[str, ...], needed: list[str]) -> Launch:
    """Return the start of a worker on gVisor's kernel; raise SandboxUnavailable without `runsc`."""
    program = shutil.which("runsc")
    if program is None:
        raise SandboxUnavailable(
            "the sandbox's tier gvisor",
            expected="the program runsc",
            found="none",
            fix="Install gVisor",
        )
    # With the platform kvm, runsc was observed to hang.
    flags = subprocess.run((program, "flags"), capture_output=True, text=True, timeout=20)
    platform_name = "systrap" if "systrap" in flags.stdout + flags.stderr else "ptrace"
    folder = Path(tempfile.mkdtemp(prefix=temporary_prefix("gvisor")))
    (folder / "root").mkdir()
    mounts = [
        {"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]}
        for path in needed
    ]
    process = {
        "args": python,
        "cwd": "/",
        "env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "user": {"uid": os.getuid(), "gid": os.getgid()},
        "noNewPrivileges": True,
    }
    spaces = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount")]
    bundle = {
        "ociVersion": "1.0.0",
        "process": process,
        "root": {"path": "root", "readonly": True},
        "mounts": mounts,
        "linux": {"namespaces": spaces},
    }
    (folder / "config.json").write_text(json.dumps(bundle))
    options = [f"--root={folder}/state", f"--platform={platform_name}", "--network=none"]
    options += ["--ignore-cgroups", *(["--rootless"] if os.geteuid() else [])]
    command = (program, *options, "run", f"--bundle={folder}", folder.name)
    return Launch("gvisor", command, start_seconds=20.0, folder=str(folder))


TIERS: dict[str, Callable[[tuple[str, ...], list[str]], Launch]] = {
    "bubblewrap": _bubblewrap,
    "landlock": _landlock,
    "gvisor": _gvisor,
}
