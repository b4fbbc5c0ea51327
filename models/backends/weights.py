"""Find and check the safetensors files of a checkpoint by their headers, without loading them.

Backends check a checkpoint here (by `completeness`) before anything reads it, and `harness.hub`
before a checkpoint is published.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from harness.errors import ModelError, raised_as
from harness.files import open_regular, read_text
from harness.foreign import reading
from harness.responses import NUMBERS

INDEX = "model.safetensors.index.json"  # the list of shards
SINGLE = "model.safetensors"  # all weights in one file
ADAPTER = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
TIED_LAYERS = ("lm_head.weight", "embed_tokens.weight")
"""Ends of the names of an output layer and of the embeddings, which may be one tensor."""
READ_BYTES = 2**22  # bytes that are read at once
MAX_HEADER_BYTES = 100 * 2**20  # bytes, the limit of the safetensors format itself


def check_weights(folder: Path) -> int:
    """Return the number of tensors in a checkpoint's weights.

    Raises:
        ModelError: they are missing, truncated, or pickles; or an adapter lies beside them.
    """
    tensors = sum(map(check_safetensors, weights(folder)))
    if (folder / ADAPTER).is_file():
        raise ModelError(
            f"checkpoint {folder}",
            expected="either whole weights or an adapter",
            found=f"whole weights and {ADAPTER}",
            fix="Merge the adapter into the weights, or take its file away: which of them were "
            "used would depend on the packages that are installed.",
        )
    return tensors


def weights(folder: Path) -> tuple[Path, ...]:
    """Return the safetensors files of a checkpoint, in the order of their names.

    Raises:
        ModelError: there are none, both a single file and shards, or the index names a missing one.
    """
    index, single = folder / INDEX, folder / SINGLE
    if not index.is_file():
        if single.is_file():
            return (single,)
        raise _no_weights(folder)
    shards = read_json(index).get("weight_map")
    names = sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else []
    if single.is_file() and SINGLE not in names:
        raise ModelError(
            f"checkpoint {folder}",
            expected=f"either {SINGLE} or {INDEX} with its shards",
            found="both",
            fix="Delete the older ones: programs differ in which of them they load.",
        )
    paths = tuple(folder / name for name in names)
    for name, path in zip(names, paths, strict=True):
        if name != Path(name).name or not path.is_file():
            raise ModelError(
                f"checkpoint {folder}",
                expected=f"the file {name!r}, named in {INDEX}",
                found="none",
                fix="Fetch the checkpoint again.",
            )
    if not paths:
        raise _no_weights(folder)
    return paths


def check_safetensors(path: Path) -> int:
    """Return the number of a file's tensors; raise as `header_of` does."""
    return len(header_of(path)[0])


def header_of(path: Path) -> tuple[dict[str, Any], int]:
    """Return a safetensors file's header (properties of each tensor by name) and its data's offset.

    The offset is in bytes; `data_offsets` in the header count from there.

    Raises:
        ModelError: the header is malformed, or the data are not as long as it says.
    """
    size, fix = path.stat().st_size, "It may be truncated: download or save it again."
    damaged = OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError
    what, expected = f"weights {path}", "a complete safetensors file"
    with reading(path, ModelError, what, expected, *damaged, fix=fix):
        with open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
                raise ValueError(f"{size} bytes, with a header of {length}")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
        if 8 + length + end != size:
            raise ValueError(f"{size} bytes instead of {8 + length + end}")
        return header, 8 + length


def check_tied(folder: Path) -> None:
    """Check that an output layer tied to the embeddings by the configuration is equal to them.

    Raises:
        ModelError: it is saved with other values, which some programs load and others do not.
    """
    config = read_json(folder / "config.json")
    text = config.get("text_config")
    tied = config.get("tie_word_embeddings")
    if tied is None and isinstance(text, dict):
        tied = text.get("tie_word_embeddings")
    if tied is not True:
        return
    # by layer: the header's properties, and (file, first byte, byte after the last)
    saved: dict[str, tuple[dict[str, Any], tuple[Path, int, int]]] = {}
    for path in weights(folder):
        header, start = header_of(path)
        for name, tensor in header.items():
            if name.endswith(TIED_LAYERS):
                begin, end = (start + offset for offset in tensor["data_offsets"])
                module = name.rpartition(".")[0].rpartition(".")[2]  # "lm_head"
                saved[module] = tensor, (path, begin, end)
    if len(saved) < len(TIED_LAYERS):
        return
    (first, first_bytes), (second, second_bytes) = saved.values()
    same_form = all(first.get(key) == second.get(key) for key in ("dtype", "shape"))
    if not same_form or _part_digest(*first_bytes) != _part_digest(*second_bytes):
        raise ModelError(
            f"checkpoint {folder}",
            expected="an output layer equal to the embeddings, as tie_word_embeddings is true",
            found="another one in its weights",
            fix="Set tie_word_embeddings to false if the layer was trained separately; else "
            "delete the layer.",
        )


def _part_digest(path: Path, start: int, end: int) -> bytes:
    """Return a BLAKE2b hash of the bytes of a file from offset `start` to `end`."""
    digest = hashlib.blake2b(digest_size=16)
    with open_regular(path) as file:
        file.seek(start)
        while start < end and (block := file.read(min(READ_BYTES, end - start))):
            digest.update(block)
            start += len(block)
    return digest.digest()


def _no_weights(folder: Path) -> ModelError:
    """Return the error for a folder without safetensors, which names what it has instead."""
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        return ModelError(
            f"checkpoint {folder}",
            expected=f"weights in {SINGLE}",
            found=f"pickled weights ({', '.join(pickles[:3])}), which can run code when loaded",
            fix="Convert them to safetensors in a place that you trust.",
        )
    adapter = (folder / ADAPTER).is_file()
    return ModelError(
        f"checkpoint {folder}",
        expected=f"{SINGLE} or {INDEX}",
        found="an adapter without its base" if adapter else "neither",
        fix="Give its base as checkpoint= and this as adapter=. Merge them to have one folder."
        if adapter
        else "",
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a checkpoint.

    Raises:
        ModelError: the file is missing, or does not hold a JSON object.
    """
    unreadable = OSError, ValueError, RecursionError
    with raised_as(ModelError, f"checkpoint file {path}", "a JSON object", *unreadable):
        content = json.loads(read_text(path), **NUMBERS)
        if not isinstance(content, dict):
            raise ValueError(type(content).__name__)
    return content
