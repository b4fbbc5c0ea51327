"""States that a training goes on from: whole or absent, however it was killed.

A state is a folder `state/step-<n>`, which is written under another name, synced, and renamed.
Nothing in it is unpickled but what `torch.load(…, weights_only=True)` reads.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import StoreError, raised_as
from harness.store.atomic import sync, writing

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

PARTIAL, REPLACED = ".partial", ".replaced"  # names of a folder that does not count, or no longer


@contextmanager
def saved_state(
    folder: Path,
    step: int,
    *,
    main: bool = True,
    wait: Callable[[], object] = lambda: None,
    keep: Callable[[Sequence[int]], Collection[int]] = lambda steps: (max(steps),),
) -> Iterator[Path]:
    """Yield a folder to write the state after `step` into; at the end older ones are removed.

    `keep` says which of the states stay, by the steps after which they were saved.

    Each process enters the block: the one with `main` makes the folder and gives it its name, and
    `wait` returns once all have called it.

    Raises:
        StoreError: the disk is full or read-only; the older state is still there.
    """
    whole = folder / f"step-{step}"
    with replaced_folder(whole) if main else nullcontext(folder / PARTIAL) as partial:
        wait()
        yield partial
        wait()
    there = {step_of(path): path for path in folder.glob("step-*")} if main else {}
    kept = {step, *keep(sorted(there))} if main else set()
    for other, path in there.items():
        if other not in kept:
            shutil.rmtree(path)
    wait()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into that takes the place of `folder` once the block has ended.

    Raises:
        StoreError: the disk is full or read-only.
    """
    partial, replaced = folder.with_name(PARTIAL), folder.with_name(REPLACED)
    with writing(folder):
        for left in (partial, replaced):
            shutil.rmtree(left, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        for written in (*partial.rglob("*"), partial):
            sync(written)
        if folder.exists():
            folder.rename(replaced)
        partial.rename(folder)
        sync(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def newest_state(folder: Path) -> Path | None:
    """Return the whole state to go on from, if there is one."""
    named = (path for path in folder.glob("step-*") if re.fullmatch(r"step-\d{1,12}", path.name))
    return max(filter(Path.is_dir, named), key=step_of, default=None)


def step_of(state: Path) -> int:
    """Return the step after which a state was saved."""
    return int(state.name.removeprefix("step-"))


def trained_tensors(network: "nn.Module") -> "dict[str, Tensor]":
    """Return what training changes: parameters with gradients, and buffers that are saved.

    Under the network's own names; tied weights, one tensor under two names, are there once.
    """
    saved = network.state_dict()
    trained = {name: one for name, one in network.named_parameters() if one.requires_grad}
    buffers = {name: one for name, one in network.named_buffers() if name in saved}
    return {name: one.detach() for name, one in {**trained, **buffers}.items()}


def save_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    """Write tensors as safetensors."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file({name: one.contiguous() for name, one in tensors.items()}, path)
    except SafetensorError as error:  # which is all that a full disk is called
        raise as_system_error(error, path) from error


def as_system_error(error: Exception, path: Path) -> OSError:
    """Return the system's error behind one of safetensors, by the number in its text."""
    number = re.search(r"os error (\d+)", str(error))
    code = int(number[1]) if number else errno.EIO
    return OSError(code, os.strerror(code) if number else str(error), str(path))


def load_tensors(path: Path, network: "nn.Module") -> None:
    """Load what `save_tensors` wrote of `trained_tensors`, every tensor and no other.

    Raises:
        StoreError: names, shapes or types are not those of the network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    wanted = trained_tensors(network)
    with raised_as(StoreError, f"state {path}", "tensors", OSError, SafetensorError):
        found = load_file(path)
    ours, theirs = (
        {(name, one.dtype, *one.shape) for name, one in several.items()}
        for several in (wanted, found)
    )
    if ours != theirs:
        raise StoreError(
            f"state {path}",
            expected=f"exactly the tensors that are trained, {list(ours - theirs)[:1]} among them",
            found=f"{list(theirs - ours)[:1]} among them",
        )
    for name, tensor in found.items():
        wanted[name].copy_(tensor)


def save_optimizers(path: Path, optimizers: "Sequence[Optimizer]") -> None:
    """Write the states of optimisers."""
    import torch

    try:
        torch.save([one.state_dict() for one in optimizers], path)
    except RuntimeError as error:  # of its writer, where the disk is full
        raise OSError(errno.ENOSPC, str(error), str(path)) from error


def load_optimizers(path: Path, optimizers: "Sequence[Optimizer]") -> None:
    """Load what `save_optimizers` wrote, or the state of one optimiser alone.

    Raises:
        StoreError: the file is damaged, or is of other optimisers.
    """
    from pickle import UnpicklingError

    import torch

    what, expected = f"state {path}", "states of the optimisers that train"
    unfit = AttributeError, EOFError, LookupError, OSError, TypeError, UnpicklingError, ValueError
    with raised_as(StoreError, what, expected, *unfit, RuntimeError):
        # Onto the CPU: each optimiser takes its part to the device of its own weights.
        kept = torch.load(path, map_location="cpu", weights_only=True)
    kept = [kept] if isinstance(kept, dict) else kept
    known = isinstance(kept, list) and all(isinstance(one, dict) for one in kept)
    if not known or len(kept) != len(optimizers):
        raise StoreError(what, expected=expected, found="something else")
    for optimizer, state in zip(optimizers, kept, strict=True):
        with raised_as(StoreError, what, expected, *unfit):
            optimizer.load_state_dict(state)
