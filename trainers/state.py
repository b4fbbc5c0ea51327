"""States that a training goes on from: whole or absent, however it was killed.

A state is a folder `state/step-<n>`, which is written under another name, synced, and renamed.
Nothing in it is unpickled but what `torch.load(…, weights_only=True)` reads.
"""

import errno
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from harness.errors import StoreError, raised_as
from harness.store.atomic import read_json, sync, write_json, writing

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

PARTIAL, REPLACED = ".partial", ".replaced"  # names of a folder that does not count, or no longer
FILES = "files.json"
"""File of a state with the size and the checksum of each other file."""
BLOCK = 2**22  # bytes that are read at once
GRACE, LONGEST = 10.0, 3600.0
"""Seconds in which the first process begins to save a state, and has saved it."""
DAMAGED = "Delete its folder: the same command goes on from the state before, or from the start."
TORCH_WRITER = re.compile(r"inline_container|PytorchStreamWriter|iostream error|Parent directory")
"""What torch's writer of files says where it cannot write, all as RuntimeError."""


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
        if main:
            note_files(partial)
    there = by_step(folder) if main else {}
    kept = {step, *keep(sorted(there))} if main else set()
    for other, path in there.items():
        if other not in kept:
            with writing(path):
                shutil.rmtree(path)
    wait()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into that takes the place of `folder` once the block has ended.

    Raises:
        StoreError: the disk is full or read-only.
    """
    partial, replaced = folder.with_name(PARTIAL), folder.with_name(REPLACED)
    with writing(folder), as_system_errors(folder):
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
    return max(by_step(folder).values(), key=step_of, default=None)


def by_step(folder: Path) -> dict[int, Path]:
    """Return the folders `step-<n>` by their steps; a user's copy of one is left alone."""
    named = (path for path in folder.glob("step-*") if re.fullmatch(r"step-\d{1,12}", path.name))
    return {step_of(path): path for path in named if path.is_dir()}


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
    from safetensors.torch import save_file

    save_file({name: one.contiguous() for name, one in tensors.items()}, path)


@contextmanager
def as_system_errors(path: Path) -> Iterator[None]:
    """Turn what torch's and safetensors' writers say of a disk into OSError.

    Other errors, such as of memory or of shapes, stay what they are.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        text = os.strerror(code) if number else str(error)
        raise OSError(code, text, str(path)) from error
    except RuntimeError as error:
        if not TORCH_WRITER.search(str(error)):
            raise
        text = f"{os.strerror(errno.ENOSPC)}, or another fault of the disk: {error}"
        raise OSError(errno.ENOSPC, text, str(path)) from error


def note_files(folder: Path) -> None:
    """Note the size and the checksum of each file in a state, for `check_files`."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != FILES]
    names = [path.relative_to(folder).as_posix() for path in files]
    sizes = [path.stat().st_size for path in files]
    noted = zip(sizes, _checksums(files), strict=True)
    write_json(folder / FILES, dict(zip(names, map(list, noted), strict=True)))


def check_files(folder: Path) -> None:
    """Raise StoreError unless a state's files are those that were saved, byte by byte."""
    what, unfit = f"state {folder}", (OSError, TypeError, ValueError, LookupError, AttributeError)
    with raised_as(StoreError, what, f"a list of its files, {FILES}", *unfit, fix=DAMAGED):
        noted = read_json(folder / FILES, fix=DAMAGED)
        noted = {name: (int(size), int(checksum)) for name, (size, checksum) in noted.items()}
    files = [folder / name for name in noted]
    with raised_as(StoreError, what, f"its files {', '.join(noted)}", OSError, fix=DAMAGED):
        sizes = [path.stat().st_size for path in files]
        found = dict(zip(noted, zip(sizes, _checksums(files), strict=True), strict=True))
    for name, kept in noted.items():
        if found[name] != kept:
            expected = f"the {kept[0]} bytes of {name} that were saved"
            raise StoreError(what, expected=expected, found="others", fix=DAMAGED)


def _checksums(files: Iterable[Path]) -> list[int]:
    """Return the CRC-32 of each file: it finds damage, and a CPU reads 1 GB in about a second."""

    def checksum(path: Path) -> int:
        value = 0
        with path.open("rb", buffering=0) as file:
            while block := file.read(BLOCK):
                value = zlib.crc32(block, value)
        return value

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(checksum, files))


def await_state(folder: Path, step: int) -> None:
    """Return once the first process has saved the state after `step`, or does not save one.

    A launcher ends all processes as soon as one has ended.
    """
    whole, began = folder / f"step-{step}", monotonic()
    while not whole.is_dir():
        waited = monotonic() - began
        if waited > (LONGEST if (folder / PARTIAL).is_dir() else GRACE):
            return
        sleep(0.1)


def load_tensors(path: Path, network: "nn.Module") -> None:
    """Load what `save_tensors` wrote of `trained_tensors`, every tensor and no other.

    Raises:
        StoreError: names, shapes or types are not those of the network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    wanted = trained_tensors(network)
    with raised_as(StoreError, f"state {path}", "tensors", OSError, SafetensorError, fix=DAMAGED):
        found = load_file(path)
    check_tensors(path, wanted, found)
    for name, tensor in found.items():
        wanted[name].copy_(tensor)


def check_tensors(
    path: Path, wanted: "Mapping[str, Tensor]", found: "Mapping[str, Tensor]"
) -> None:
    """Raise StoreError unless names, shapes and types of a state's tensors are those `wanted`."""
    ours, theirs = (
        {(name, one.dtype, *one.shape) for name, one in several.items()}
        for several in (wanted, found)
    )
    if ours != theirs:
        raise StoreError(
            f"state {path}",
            expected=f"exactly the tensors that are trained, {list(ours - theirs)[:1]} among them",
            found=f"{list(theirs - ours)[:1]} among them",
            fix="It is of another network. Begin the training under another --out.",
        )


def save_optimizers(path: Path, optimizers: "Sequence[Optimizer]") -> None:
    """Write the states of optimisers."""
    import torch

    torch.save([one.state_dict() for one in optimizers], path)


def load_optimizers(path: Path, optimizers: "Sequence[Optimizer]") -> None:
    """Load what `save_optimizers` wrote, or the state of one optimiser alone.

    Raises:
        StoreError: the file is damaged, or is of other optimisers.
    """
    from pickle import UnpicklingError

    import torch

    what, expected = f"state {path}", "states of the optimisers that train"
    unfit = AttributeError, EOFError, LookupError, OSError, TypeError, UnpicklingError, ValueError
    with raised_as(StoreError, what, expected, *unfit, RuntimeError, fix=DAMAGED):
        # Onto the CPU: each optimiser takes its part to the device of its own weights.
        kept = torch.load(path, map_location="cpu", weights_only=True)
    kept = [kept] if isinstance(kept, dict) else kept
    known = isinstance(kept, list) and all(isinstance(one, dict) for one in kept)
    if not known or len(kept) != len(optimizers):
        raise StoreError(what, expected=expected, found="something else", fix=DAMAGED)
    for optimizer, state in zip(optimizers, kept, strict=True):
        with raised_as(StoreError, what, expected, *unfit, fix=DAMAGED):
            optimizer.load_state_dict(state)
