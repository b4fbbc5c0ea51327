"""States that a training goes on from: whole or absent, however it was killed.

A state is a folder `state/step-<n>`. It is written under another name, synced, and renamed. Its
content is the trainer's own business, as long as nothing is unpickled but what
`torch.load(…, weights_only=True)` reads.
"""

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import StoreError
from harness.store.atomic import cannot_write, read_json, sync_folder

STATE = re.compile(r"step-(\d{1,12})\Z")
PARTIAL = ".partial-"


@contextmanager
def saved_state(
    folder: Path, step: int, *, main: bool = True, wait: Callable[[], object] = lambda: None
) -> Iterator[Path]:
    """Yield a folder to write the state after `step` into; it counts once the block has ended.

    Older states are removed then. With several processes each enters the block; the one with
    `main` makes the folder and gives it its name, and `wait` returns once all have called it.

    Raises:
        StoreError: the disk is full or read-only; the older state is still there.
    """
    whole = folder / f"step-{step}"
    if main:
        for left in folder.glob(f"{PARTIAL}*"):
            shutil.rmtree(left)
    made = replaced_folder(whole) if main else nullcontext(_partial(whole))
    with made as partial:
        wait()
        yield partial
        wait()
    for older in states(folder) if main else ():
        if older != whole:
            shutil.rmtree(older)
    wait()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into that takes the place of `folder` once the block has ended."""
    partial, old = _partial(folder), folder.with_name(f"{PARTIAL}old-{folder.name}")
    with _writing(partial):
        for left in (partial, old):
            if left.exists():
                shutil.rmtree(left)
        partial.mkdir(parents=True)
    yield partial
    with _writing(folder):
        _sync(partial)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)


def states(folder: Path) -> list[Path]:
    """Return the whole states, oldest first."""
    found = [path for path in folder.glob("step-*") if STATE.match(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def newest_state(folder: Path) -> Path | None:
    """Return the state to go on from, if there is one."""
    return next(reversed(states(folder)), None)


def step_of(state: Path) -> int:
    """Return the step after which a state was saved."""
    return int(state.name.removeprefix("step-"))


def forget_states(folder: Path) -> None:
    """Remove every state, as a training that is finished does."""
    for path in [*states(folder), *folder.glob(f"{PARTIAL}*")]:
        shutil.rmtree(path)


def trained_tensors(network: Any) -> dict[str, Any]:
    """Return what training changes, by the network's own names.

    These are the parameters with gradients and the buffers that are part of its state. Tied
    weights, one tensor under two names, are there once.
    """
    buffers = {name for name, _ in network.named_buffers(remove_duplicate=False)}
    found: dict[int, tuple[str, Any]] = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if tensor.requires_grad or name in buffers:
            found.setdefault(id(tensor), (name, tensor.detach()))
    return dict(found.values())


def save_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors as safetensors."""
    from safetensors.torch import save_file

    save_file({name: one.contiguous() for name, one in tensors.items()}, path)


def load_tensors(path: Path, network: Any) -> None:
    """Load what `save_tensors` wrote of `trained_tensors`, every tensor and no other.

    Raises:
        StoreError: names, shapes or types are not those of the network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    wanted = trained_tensors(network)
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"state {path}", expected="tensors", found=str(error)) from error
    kinds = [
        {name: (one.dtype, tuple(one.shape)) for name, one in several.items()}
        for several in (wanted, found)
    ]
    if differing := sorted(name for name, _ in kinds[0].items() ^ kinds[1].items()):
        raise StoreError(
            f"state {path}: {differing[0]}",
            expected=f"exactly the tensors that are trained ({kinds[0].get(differing[0])})",
            found=f"{len(set(differing))} others, such as {kinds[1].get(differing[0])}",
        )
    for name, tensor in found.items():
        wanted[name].copy_(tensor)


@contextmanager
def keep_generators() -> Iterator[None]:
    """Leave the generators as they were, whatever the block draws."""
    import torch

    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])


def read_plain(path: Path, *names: str) -> dict[str, Any]:
    """Read an object of a state's JSON file that has these fields.

    Raises:
        StoreError: it is something else.
    """
    plain = read_json(path)
    for name in names:
        if not isinstance(plain, dict) or name not in plain:
            raise StoreError(f"file {path}", expected=f"the field {name}", found="none")
    assert isinstance(plain, dict), "it has fields"
    return plain


def _partial(folder: Path) -> Path:
    return folder.with_name(f"{PARTIAL}{folder.name}")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
            continue
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    sync_folder(folder)
