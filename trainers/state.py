"""States that a training goes on from: whole or absent, however it was killed.

A state is a folder `state/step-<n>`. It is written under another name, synced, and renamed. What
is in it is the trainer's own business, as long as nothing is pickled: safetensors, JSON, or what
`torch.load(…, weights_only=True)` reads.
"""

import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import StoreError
from harness.store.atomic import cannot_write, read_json, sync_folder, write_bytes

STATE = re.compile(r"step-(\d{1,12})\Z")
PARTIAL = ".partial-"
RANDOM = "random"  # the name of the files that hold the generators' states


@contextmanager
def saved_state(folder: Path, step: int) -> Iterator[Path]:
    """A folder to write the state after `step` into; it counts once the block has ended.

    Older states are removed then.

    Raises:
        StoreError: the disk is full or read-only; the older state is still there.
    """
    partial = begin_state(folder, step)
    yield partial
    commit_state(partial)


def begin_state(folder: Path, step: int) -> Path:
    """Make the folder that `commit_state` will rename."""
    partial = folder / f"{PARTIAL}step-{step}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{PARTIAL}*"):
            shutil.rmtree(left)
        partial.mkdir()
    except OSError as error:
        raise cannot_write(partial, error) from error
    return partial


def commit_state(partial: Path) -> Path:
    """Sync a state's files, give the folder its name, and remove older states."""
    folder, whole = partial.parent, partial.with_name(partial.name.removeprefix(PARTIAL))
    try:
        _sync(partial)
        if whole.exists():  # the same step, saved again by a training that was resumed from it
            shutil.rmtree(whole)
        partial.rename(whole)
        sync_folder(folder)
        for older in states(folder):
            if older != whole:
                shutil.rmtree(older)
    except OSError as error:
        raise cannot_write(whole, error) from error
    return whole


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into that takes the place of `folder` once the block has ended."""
    partial = folder.with_name(f"{PARTIAL}{folder.name}")
    old = folder.with_name(f"{PARTIAL}old-{folder.name}")
    try:
        for left in (partial, old):
            if left.exists():
                shutil.rmtree(left)
        partial.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(partial, error) from error
    yield partial
    try:
        _sync(partial)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def states(folder: Path) -> list[Path]:
    """Whole states, oldest first."""
    found = [path for path in folder.glob("step-*") if STATE.match(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def newest_state(folder: Path) -> Path | None:
    """The state to go on from, if there is one."""
    return next(reversed(states(folder)), None)


def step_of(state: Path) -> int:
    """The step after which a state was saved."""
    match = STATE.match(state.name)
    if match is None:
        raise StoreError(f"state {state}", expected="a folder step-<number>", found=state.name)
    return int(match[1])


def forget_states(folder: Path) -> None:
    """Remove every state, as a training that is finished does."""
    for path in [*states(folder), *folder.glob(f"{PARTIAL}*")]:
        shutil.rmtree(path)


def trained_tensors(network: Any) -> dict[str, Any]:
    """What training changes, by the network's own names: parameters with gradients, and buffers
    that are part of its state.
    """
    kept = network.state_dict(keep_vars=True)
    buffers = {name for name, _ in network.named_buffers(remove_duplicate=False)}
    seen: set[int] = set()
    found = {}
    for name, tensor in kept.items():
        if (tensor.requires_grad or name in buffers) and id(tensor) not in seen:
            seen.add(id(tensor))  # tied weights are one tensor under two names
            found[name] = tensor.detach()
    return found


def save_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors as safetensors."""
    from safetensors.torch import save_file

    save_file({name: one.contiguous() for name, one in tensors.items()}, path)


def load_tensors(path: Path, network: Any) -> None:
    """Load what `save_tensors` wrote of `trained_tensors`, every tensor and no other.

    Raises:
        StoreError: names, shapes or types are not those of the network.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    wanted = trained_tensors(network)
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"state {path}", expected="tensors", found=str(error)) from error
    if differing := sorted(set(wanted) ^ set(found)):
        raise StoreError(
            f"state {path}",
            expected="exactly the tensors that are trained",
            found=f"{len(differing)} others, such as {differing[0]}",
        )
    for name, tensor in found.items():
        if (tensor.shape, tensor.dtype) != (wanted[name].shape, wanted[name].dtype):
            raise StoreError(
                f"state {path}: {name}",
                expected=f"{wanted[name].dtype} {wanted[name].shape}",
                found=f"{tensor.dtype} {tensor.shape}",
            )
    with torch.no_grad():
        for name, tensor in found.items():
            wanted[name].copy_(tensor)


def save_random(folder: Path, *, name: str = RANDOM) -> None:
    """Save the generators of python, numpy and torch (all devices) as JSON and safetensors."""
    import torch
    from safetensors.torch import save

    kind, keys, place, has_gauss, gauss = np.random.get_state(legacy=True)
    plain = {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), place, has_gauss, gauss],
    }
    tensors = {"cpu": torch.random.get_rng_state()}
    if torch.cuda.is_available():
        for index, state in enumerate(torch.cuda.random.get_rng_state_all()):
            tensors[f"cuda{index}"] = state
    write_bytes(folder / f"{name}.json", json.dumps(plain).encode())
    write_bytes(folder / f"{name}.safetensors", save(tensors))


def load_random(folder: Path, *, name: str = RANDOM) -> None:
    """Set all generators as `save_random` found them.

    Raises:
        StoreError: the files are missing or damaged.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    plain = read_json(folder / f"{name}.json")
    try:
        version, keys, gauss = plain["python"]
        random.setstate((version, tuple(keys), gauss))
        kind, numbers, place, has_gauss, cached = plain["numpy"]
        np.random.set_state((kind, np.array(numbers, dtype=np.uint32), place, has_gauss, cached))
        tensors = load_file(folder / f"{name}.safetensors")
        torch.random.set_rng_state(tensors["cpu"])
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            torch.cuda.random.set_rng_state(tensors[f"cuda{index}"], index)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, SafetensorError) as error:
        raise StoreError(
            f"state {folder}: {name}",
            expected="the generators of this machine",
            found=f"{type(error).__name__}: {error}",
        ) from error


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave the generators as they were, whatever the block draws."""
    import torch

    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        else:
            sync_folder(path)
    sync_folder(folder)


def read_plain(path: Path, *names: str) -> dict[str, Any]:
    """An object of a state's JSON file that has these fields.

    Raises:
        StoreError: it is something else.
    """
    plain = read_json(path)
    for name in names:
        if not isinstance(plain, dict) or name not in plain:
            raise StoreError(f"file {path}", expected=f"the field {name}", found="none")
    assert isinstance(plain, dict), "it has fields"
    return plain
