"""A night's run imitated: a training of VisionReasoner on pocket, and what can happen to it.

    python tests/trainers/night.py FOLDER [--steps 200]

trains twice by the same command. The first training is left alone. The second is killed twice (at
any moment, and while it writes a state), its disk fills up, a reward is NaN and an image is gone;
after each fault the cause is mended and the command is repeated. Both folders must have the same
bytes, and each fault that a program can speak of its own sentence. Prints a line a start.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cli.main import main as harness
from harness.rehearsal.stages import warm_up
from harness.run.interrupts import terminable
from harness.run.processes import die_with

SAME = ("checkpoint/model.safetensors", "curve.jsonl", "rollouts.jsonl", "samples.jsonl")
"""Files that must not show that anything happened."""
SETTINGS = "per_device_train_batch_size=4,max_completion_length=40,report_to=none"
PROMPTS = 2
"""Prompts a round."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one start of the training."""

    name: str
    at: int
    """Steps that are done when it happens."""
    code: int
    """Exit code that must follow; -9: it was killed."""
    says: str = ""
    """What the last words must hold."""
    happens: Callable[[int], object] = lambda pid: None
    """Called in this process with the id of the training's."""
    planted: Callable[[], object] = lambda: None
    """Called in the training's process before it begins."""
    mended: Callable[[], object] = lambda: None


@dataclass
class Night:
    """One training, however often it is started."""

    out: Path
    data: Path
    steps: int
    group: int
    """Rollouts of a prompt."""

    @property
    def command(self) -> list[str]:
        """Arguments of `harness`, equal at each start."""
        every, rollouts = max(2, self.steps // 20), PROMPTS * self.group
        size = f"generation_batch_size={rollouts},num_generations={self.group}"
        return [
            *("train", "--method", "visionreasoner", "--config", "pocket_cpu"),
            *("--data", str(self.data), "--out", str(self.out)),
            *("--set", f"{SETTINGS},{size},max_steps={self.steps},save_steps={every}"),
        ]

    def done(self) -> int:
        """Return how many steps were logged."""
        path = self.out / "curve.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def start(self, fault: Fault) -> tuple[int, str]:
        """Run the command once, and let a fault happen to it; return exit code and last words."""
        log = self.out.with_suffix(".log")
        sys.stdout.flush()
        parent, began, pid = os.getpid(), time.monotonic(), os.fork()
        if not pid:
            die_with(parent)
            self._train(fault, log)
        while self.done() < fault.at and not os.waitid(os.P_PID, pid, ASK):
            time.sleep(0.01)
        fault.happens(pid)
        _, status = os.waitpid(pid, 0)
        fault.mended()
        code = os.waitstatus_to_exitcode(status)
        words = [line for line in log.read_text().splitlines() if line.strip()]
        said = " ".join(line for line in words if not line.startswith("step "))
        seconds, last = time.monotonic() - began, f": {words[-1]}" if fault.says else ""
        print(
            f"{fault.name}: code {code} after step {self.done()}, {seconds:.0f} s{last}", flush=True
        )
        return code, said

    def _train(self, fault: Fault, log: Path) -> None:
        """Be the training's process: never returns."""
        handle, code = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 70
        for stream in (1, 2):
            os.dup2(handle, stream)
        try:
            fault.planted()
            code = harness(self.command)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


ASK = os.WEXITED | os.WNOHANG | os.WNOWAIT


def faults(night: Night, disk: Path | None, draws: random.Random) -> Iterator[Fault]:
    """Yield what happens in a night, in an order of its own."""
    at = [max(1, night.steps * part // 10) for part in (1, 3, 5, 6, 8)]

    def kill(pid: int) -> None:
        time.sleep(draws.random())
        os.kill(pid, signal.SIGKILL)

    yield Fault(name="killed at any moment", at=at[0], code=-9, happens=kill)
    yield Fault(name="killed in a state", at=at[1], code=-9, planted=lambda: _dies_in(at[1]))
    if disk is not None:
        filler = disk / "filler"
        yield Fault(
            name="a full disk",
            at=at[2],
            code=5,
            says="No space left on device",
            happens=lambda pid: _fill(filler),
            mended=filler.unlink,
        )
    yield Fault(
        name="a reward that is NaN",
        at=0,
        code=4,
        says="total=nan",
        planted=lambda: _nan_reward(night, at[3]),
    )
    image = _image_of_round(night, at[4] + 1)
    gone = image.with_suffix(".gone")
    yield Fault(
        name="an image that is gone",
        at=at[4] - 1,
        code=3,
        says=image.name,
        planted=_keep_no_image,
        happens=lambda pid: image.rename(gone),
    )
    yield Fault(
        name="it is still gone",
        at=0,
        code=5,
        says=image.name,
        mended=lambda: gone.rename(image),
    )


def _dies_in(step: int) -> None:
    """Let the process die while it writes the first state after a step."""
    from harness.trainers import state

    write = state.save_optimizers

    def dies(path: Path, optimizers: Sequence[object]) -> None:
        write(path, optimizers)
        done = sum(1 for _ in (path.parents[2] / "curve.jsonl").open("rb"))
        if done >= step:
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    state.save_optimizers = dies


def _fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"0")


def _keep_no_image() -> None:
    """Forget images once they are decoded, as with more of them than memory holds."""
    from harness.frame_cache import CACHE

    CACHE.max_bytes = 0


def _nan_reward(night: Night, step: int) -> None:
    """Make a reward NaN once so many steps are done."""
    from harness.trainers.visionreasoner.rewards import VisionReasonerReward

    totals = VisionReasonerReward.totals

    def planted(self: VisionReasonerReward, components: Any) -> list[dict[str, float]]:
        rewards = totals(self, components)
        if night.done() >= step:
            rewards[0] = {**rewards[0], "total": float("nan")}
        return rewards

    VisionReasonerReward.totals = planted


def _image_of_round(night: Night, number: int) -> Path:
    """Return the image of the first sample that a round (from 0) shows."""
    from itertools import islice

    from harness import plugins
    from harness.media import files_of
    from harness.run.batching import samples_of
    from harness.spec import parse
    from harness.trainers.learner import sample_order

    task = plugins.build("tasks", parse("shapes_referring(split=train)"), night.data)
    samples = list(samples_of(task))
    first = next(islice(sample_order(0, len(samples)), number * PROMPTS, None))
    return files_of(samples[first].query.media[0])[0]


@contextmanager
def small_disk(place: Path, size: str = "200m") -> Iterator[Path | None]:
    """Yield a folder with a file system of its own; None where none may be mounted."""
    place.mkdir(parents=True)
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(line, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def imitated(folder: Path, data: Path, steps: int, group: int) -> list[str]:
    """Return what was wrong with a night's run: nothing, it should be."""
    warm_up()
    wrong = []
    with small_disk(folder / "disk") as disk:
        calm = Night(folder / "calm", data, steps, group)
        code, said = calm.start(Fault(name="undisturbed", at=steps, code=0))
        if code:
            return [f"the undisturbed training ended with code {code}: {said}"]
        night = Night((disk or folder) / "night", data, steps, group)
        for fault in faults(night, disk, random.Random(0)):
            code, said = night.start(fault)
            if code != fault.code or fault.says not in said:
                wrong.append(f"{fault.name}: code {code} and {said[-600:]!r}")
        code, said = night.start(Fault(name="the rest", at=steps, code=0))
        if code:
            return [*wrong, f"it did not end: code {code}, {said[-600:]!r}"]
        both = {name: {(one.out / name).read_bytes() for one in (calm, night)} for name in SAME}
    return [*wrong, *(f"{name} has other bytes" for name, found in both.items() if len(found) > 1)]


def main() -> int:
    """Run a night from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--group", type=int, default=4, help="rollouts of a prompt")
    parser.add_argument("--size", type=int, default=24, help="scenes of the generated data")
    given = parser.parse_args()
    data = given.folder / "data"
    if not data.exists():
        from harness.testing import make_shapes

        make_shapes(data, tasks=("shapes_referring",), size=given.size)
    with terminable():  # or the small disk would stay
        wrong = imitated(given.folder, data, given.steps, given.group)
    print("\n".join(wrong) or "same bytes")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
