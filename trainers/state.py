"""States that a training goes on from: whole or absent, however it was killed.

A state is a folder `state/step-<n>`. It is written under another name, synced, and renamed. Its
content is the trainer's own business, as long as nothing is unpickled but what
`torch.load(…, weights_only=True)` reads.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import StoreError
from harness.store.atomic import cannot_write, read_json, sync

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
    for left in folder.glob(f"{PARTIAL}*") if main else ():
        shutil.rmtree(left)
    with replaced_folder(whole) if main else nullcontext(_partial(whole)) as partial:
        wait()
        yield partial
        wait()
    for older in states(folder) if main else ():
        if older != whole:
            shutil.rmtree(older)
    wait()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into that takes the place of `folder` once the block has ended.

    Raises:
        StoreError: the disk is full or read-only.
    """
    partial, old = _partial(folder), folder.with_name(f"{PARTIAL}old-{folder.name}")
    try:
        for left in (partial, old):
            if left.exists():
                shutil.rmtree(left)
        partial.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(partial, error) from error
    yield partial
    try:
        for written in (*partial.rglob("*"), partial):
            sync(written)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        sync(folder.parent)
    except OSError as error:
        raise cannot_write(folder, error) from error
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
    """Return what training changes: parameters with gradients, and buffers that are saved.

    Under the network's own names; tied weights, one tensor under two names, are there once.
    """
    saved = network.state_dict()
    tensors = [pair for pair in network.named_parameters() if pair[1].requires_grad]
    tensors += [pair for pair in network.named_buffers() if pair[0] in saved]
    return {name: tensor.detach() for name, tensor in tensors}


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
    ours, theirs = (
        {name: (one.dtype, tuple(one.shape)) for name, one in several.items()}
        for several in (wanted, found)
    )
    if differing := sorted({name for name, _ in ours.items() ^ theirs.items()}):
        raise StoreError(
            f"state {path}: {differing[0]}",
            expected=f"exactly the tensors that are trained ({ours.get(differing[0])})",
            found=f"{len(differing)} others, such as {theirs.get(differing[0])}",
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
    if not isinstance(plain, dict) or not plain.keys() >= set(names):
        raise StoreError(f"file {path}", expected=", ".join(names), found=repr(plain)[:80])
    return plain


def _partial(folder: Path) -> Path:
    return folder.with_name(f"{PARTIAL}{folder.name}")
