"""States that a training resumes from: complete or absent, even if the training was killed.

A state is a folder `state/step-<n>`. It is written under another name, synced, and renamed. Only
`torch.load(…, weights_only=True)` unpickles anything of it.
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

PARTIAL, REPLACED = ".partial", ".replaced"
"""Names of a folder that is being written, and of one that is being removed."""
FILES = "files.json"
"""File of a state with the size and the checksum of each other file."""
READ_BYTES = 2**22  # bytes that are read at once
BEGIN_TIMEOUT, SAVE_TIMEOUT = 10.0, 3600.0
"""Seconds to wait until the first process has begun to save a state, and until it has saved it."""
DAMAGED_FIX = (
    "Delete its folder: the same command continues from the state before it, or from the start."
)
TORCH_WRITER = re.compile(r"inline_container|PytorchStreamWriter|iostream error|Parent directory")
"""Matches a RuntimeError of torch's file writer if it cannot write.

Such as `[enforce fail at inline_container.cc:603]` or `Parent directory /x does not exist.`
"""


@contextmanager
def saved_state(
    folder: Path,
    step: int,
    *,
    main: bool = True,
    wait: Callable[[], object] = lambda: None,
    keep: Callable[[Sequence[int]], Collection[int]] = lambda steps: (max(steps),),
) -> Iterator[Path]:
    """Yield a folder to write the state after `step` into; then remove older states.

    Every process enters the block.

    Args:
        folder: Folder of the states.
        step: Number of steps done.
        main: True in the process that makes the folder and renames it.
        wait: Returns once all processes have called it.
        keep: Returns those steps, of all with a state, whose states are kept.

    Raises:
        StoreError: the disk is full or read-only; the older state is still there.
    """
    complete = folder / f"step-{step}"
    with replaced_folder(complete) if main else nullcontext(folder / PARTIAL) as partial:
        wait()
        yield partial
        wait()
        if main:
            note_files(partial)
    if main:
        states = by_step(folder)
        for old in states.keys() - {step, *keep(sorted(states))}:
            with writing(states[old]):
                shutil.rmtree(states[old])
    wait()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` at the end of the block, if it does not fail.

    Raises:
        StoreError: the disk is full or read-only.
    """
    partial, replaced = folder.with_name(PARTIAL), folder.with_name(REPLACED)
    with writing(folder), as_system_errors(folder):
        for leftover in (partial, replaced):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        for path in (*partial.rglob("*"), partial):
            sync(path)
        if folder.exists():
            folder.rename(replaced)
        partial.rename(folder)
        sync(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def newest_state(folder: Path) -> Path | None:
    """Return the complete state of the most steps; None: there is none."""
    return max(by_step(folder).values(), key=step_of, default=None)


def by_step(folder: Path) -> dict[int, Path]:
    """Return the folders `step-<n>` by their steps; others, such as `step-5 copy`, are ignored."""
    paths = (path for path in folder.glob("step-*") if re.fullmatch(r"step-\d{1,12}", path.name))
    return {step_of(path): path for path in paths if path.is_dir()}


def step_of(state: Path) -> int:
    """Return the step after which a state was saved."""
    return int(state.name.removeprefix("step-"))


def trained_tensors(network: "nn.Module") -> "dict[str, Tensor]":
    """Return the tensors that training changes: trained parameters, and persistent buffers.

    They have the network's own names; tied weights, one tensor under two names, are listed once.
    """
    saved, tensors = network.state_dict(), {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            tensors[name] = parameter.detach()
    for name, buffer in network.named_buffers():
        if name in saved:
            tensors[name] = buffer.detach()
    return tensors


def save_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    """Write tensors as a safetensors file."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


@contextmanager
def as_system_errors(path: Path) -> Iterator[None]:
    """Turn errors of torch's and safetensors' writers about the disk into OSError.

    Other errors, such as of memory or of shapes, are raised as they are.
    """
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # "… (os error 28)"
        code = int(number[1]) if number else errno.EIO
        text = os.strerror(code) if number else str(error)
        raise OSError(code, text, str(path)) from error
    except RuntimeError as error:
        if not TORCH_WRITER.search(str(error)):
            raise
        text = f"{os.strerror(errno.ENOSPC)}, or another fault of the disk: {error}"
        raise OSError(errno.ENOSPC, text, str(path)) from error


def note_files(folder: Path) -> None:
    """Write the size and the checksum of each file of a state to FILES, for `check_files`."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != FILES]
    noted = {
        path.relative_to(folder).as_posix(): [path.stat().st_size, checksum]
        for path, checksum in zip(files, _checksums(files), strict=True)
    }
    write_json(folder / FILES, noted)


def check_files(folder: Path) -> None:
    """Raise StoreError unless a state's files have the sizes and checksums that were noted."""
    what, unfit = f"state {folder}", (OSError, TypeError, ValueError, LookupError, AttributeError)
    with raised_as(StoreError, what, f"a list of its files, {FILES}", *unfit, fix=DAMAGED_FIX):
        noted = read_json(folder / FILES, fix=DAMAGED_FIX)
        noted = {name: (int(size), int(checksum)) for name, (size, checksum) in noted.items()}
    files = [folder / name for name in noted]
    with raised_as(StoreError, what, f"its files {', '.join(noted)}", OSError, fix=DAMAGED_FIX):
        sizes = [path.stat().st_size for path in files]
        now = zip(sizes, _checksums(files), strict=True)
    for (name, saved), present in zip(noted.items(), now, strict=True):
        if present != saved:
            expected = f"the {saved[0]} bytes of {name} that were saved"
            raise StoreError(what, expected=expected, found="others", fix=DAMAGED_FIX)


def _checksums(files: Iterable[Path]) -> list[int]:
    """Return the CRC-32 of each file: it detects damage, at about 1 GB a second."""

    def checksum(path: Path) -> int:
        crc = 0
        with path.open("rb", buffering=0) as file:
            while block := file.read(READ_BYTES):
                crc = zlib.crc32(block, crc)
        return crc

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(checksum, files))


def await_state(folder: Path, step: int) -> None:
    """Wait until the first process has saved the state after `step`, or seems to save none.

    A process waits here before it ends: a launcher ends all processes as soon as one has ended.
    """
    complete, began = folder / f"step-{step}", monotonic()
    while not complete.is_dir():
        waited = monotonic() - began
        if waited > (SAVE_TIMEOUT if (folder / PARTIAL).is_dir() else BEGIN_TIMEOUT):
            return
        sleep(0.1)


def load_tensors(path: Path, network: "nn.Module") -> None:
    """Load a file of `trained_tensors` into a network.

    Raises:
        StoreError: the file is damaged, or its names, shapes or types are not the network's.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    expected = trained_tensors(network)
    with raised_as(
        StoreError, f"state {path}", "tensors", OSError, SafetensorError, fix=DAMAGED_FIX
    ):
        saved = load_file(path)
    check_tensors(path, expected, saved)
    for name, tensor in saved.items():
        expected[name].copy_(tensor)


def check_tensors(
    path: Path, wanted: "Mapping[str, Tensor]", saved: "Mapping[str, Tensor]"
) -> None:
    """Raise StoreError unless saved tensors have the names, shapes and types of `wanted`."""
    ours = {(name, tensor.dtype, *tensor.shape) for name, tensor in wanted.items()}
    theirs = {(name, tensor.dtype, *tensor.shape) for name, tensor in saved.items()}
    if ours != theirs:
        raise StoreError(
            f"state {path}",
            expected=f"exactly the tensors that are trained, {list(ours - theirs)[:1]} among them",
            found=f"{list(theirs - ours)[:1]} among them",
            fix="It is of another network. Begin the training under another --out.",
        )


def save_optimizers(path: Path, optimizers: "Sequence[Optimizer]") -> None:
    """Write the states of optimisers as a list."""
    import torch

    torch.save([optimizer.state_dict() for optimizer in optimizers], path)


def load_optimizers(path: Path, optimizers: "Sequence[Optimizer]") -> None:
    """Load a list of optimiser states, or the bare state of a single optimiser.

    Raises:
        StoreError: the file is damaged, or is of other optimisers.
    """
    from pickle import UnpicklingError

    import torch

    what, expected = f"state {path}", "states of the optimisers that train"
    unfit = AttributeError, EOFError, LookupError, OSError, TypeError, UnpicklingError, ValueError
    with raised_as(StoreError, what, expected, *unfit, RuntimeError, fix=DAMAGED_FIX):
        # Onto the CPU: each optimiser moves its state to the device of its own weights.
        saved = torch.load(path, map_location="cpu", weights_only=True)
    states = [saved] if isinstance(saved, dict) else saved
    is_list = isinstance(states, list) and all(isinstance(state, dict) for state in states)
    if not is_list or len(states) != len(optimizers):
        raise StoreError(what, expected=expected, found="something else", fix=DAMAGED_FIX)
    for optimizer, state in zip(optimizers, states, strict=True):
        with raised_as(StoreError, what, expected, *unfit, fix=DAMAGED_FIX):
            optimizer.load_state_dict(state)
