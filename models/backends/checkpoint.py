"""A checkpoint's folder: found, looked at before anything is loaded, and fingerprinted.

Only safetensors weights and configurations that transformers knows itself are accepted: nothing
is unpickled, and no code that lies in a checkpoint runs. Nothing is downloaded.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias, get_args

from harness.errors import MissingDependency, ModelError, raised_as
from harness.files import CONTENTS, digest, open_regular, read_text
from harness.foreign import reading
from harness.responses import NUMBERS

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
"""Type of weights and activations; `auto` is what a checkpoint was saved in."""
CONFIGURATIONS = (
    "config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tokenizer_config.json",
)
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
ADAPTER = "adapter_config.json"
TRAINED = "checkpoint"  # the folder of a training that holds what it has made
TRAINING = "harness.json"  # what a checkpoint that harness has made says of its training
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
TIED = ("lm_head.weight", "embed_tokens.weight")
"""Ends of the names of an output layer and of the embeddings that it may share."""
BLOCK = 2**22  # bytes that are read at once
MAX_HEADER = 100 * 2**20  # bytes, the limit of the safetensors format itself
LAYERS = frozenset(
    f"{prefix}{name}"
    for name in ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "depth", "layers")
    for prefix in ("", "encoder_", "decoder_")
)
"""Names that transformers' configurations have for a number of layers."""
POCKET = Path(__file__).parents[1] / "pocket"
SHIPPED: Mapping[str, Path] = {"pocket": POCKET / "checkpoint", "pocket-base": POCKET / "base"}
"""Names of the weights that come with the package; a folder of that name is `./pocket`."""
DECIDING = (
    "*config.json",
    "*tokens*.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "*.model",
    "*.tiktoken",
    "*.jinja",
    "chat_template*",
    "*chat_templates/*",
)
"""Patterns of the files beside the weights that decide what a network sees and says."""


def short_path(checkpoint: str) -> str:
    """Return a folder as records name it: one text for each of the ways in which it is typed.

    It has no `/` at its end, and for the checkpoint in a training's folder it is that folder.
    """
    folder = Path(checkpoint).expanduser()
    if checkpoint in SHIPPED or not folder.is_dir():
        return checkpoint
    path = PurePath(checkpoint)
    is_inside = path.name == TRAINED and (folder / TRAINING).is_file()
    if is_inside and find(str(folder.parent)) == folder:
        path = path.parent
    return f"./{path}" if checkpoint.startswith("./") else str(path)


def find(checkpoint: str, *, revision: str | None = None) -> Path:
    """The folder of a checkpoint: itself a folder, a shipped one's name, or one that the Hugging
    Face cache holds.

    The folder of a training stands for the checkpoint in it.

    Raises:
        ModelError: there is neither.
    """
    folder = SHIPPED.get(checkpoint, Path(checkpoint).expanduser())
    if folder.is_dir():
        inner = folder / TRAINED
        trained = any((inner / name).is_file() for name in ("config.json", TRAINING))
        return inner if trained and not (folder / "config.json").is_file() else folder
    if folder.exists() or folder.is_absolute() or checkpoint.count("/") != 1:
        raise ModelError(
            f"checkpoint {checkpoint!r}",
            expected="a folder, or the name of a checkpoint such as Qwen/Qwen2.5-VL-7B-Instruct",
            found="a file" if folder.exists() else "no such folder",
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"checkpoint {checkpoint!r}",
            expected="huggingface_hub to look into its cache",
            found="it is not installed",
            fix="Give a folder, or install the extra [torch].",
        ) from error
    with raised_as(
        ModelError,
        f"checkpoint {checkpoint!r}",
        "a folder, or a checkpoint in the Hugging Face cache",
        LocalEntryNotFoundError,
        HFValidationError,
        fix=f"Fetch it first where there is a network (hf download {checkpoint}), or give the "
        "folder where it lies. harness downloads nothing by itself.",
        missing="neither",
    ):
        return Path(snapshot_download(checkpoint, revision=revision, local_files_only=True))


def check(folder: Path) -> dict[str, object]:
    """Look at a checkpoint's files without loading them, and return its configuration.

    Raises:
        ModelError: the configuration is missing, wants code to run or more layers than there are
            weights for; weights are missing, cut off, or pickles.
    """
    refuse_code(folder)
    tensors = check_weights(folder)
    config = read_json(folder / "config.json")
    for name, value in _layers(config):
        if type(value) is not int or not 0 <= value <= tensors:
            raise ModelError(
                f"checkpoint file {folder / 'config.json'}: {name!r}",
                expected=f"at most the {tensors} tensors of the weights",
                found=repr(value)[:40],
                fix="A network of so many layers would be built before it is compared with them.",
            )
    return config


def _layers(config: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the numbers of layers in a configuration, and in those inside it."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _layers(value)
        elif name in LAYERS and value is not None:
            yield name, value


def check_weights(folder: Path) -> int:
    """Return the number of tensors in a checkpoint's weights.

    Raises:
        ModelError: they are missing, cut off, or pickles; or an adapter lies beside them.
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


def refuse_code(folder: Path) -> None:
    """Raise ModelError if a configuration in the folder wants code of the checkpoint to run."""
    for name in CONFIGURATIONS:
        if (folder / name).is_file() and _asks_for_code(read_json(folder / name)):
            raise ModelError(
                f"checkpoint file {folder / name}",
                expected="an architecture in transformers",
                found="auto_map, which runs code from the checkpoint",
                fix="harness does not run such code. Use a checkpoint without it.",
            )


def training_record(folder: Path) -> dict[str, object] | None:
    """Return the record of a checkpoint's training; None if harness did not train it.

    It has the method, the tasks, the seed and the hash of the configuration; and the `checkpoint`
    that the first of its trainings began with, if it did not begin with random weights.

    Raises:
        ModelError: the file that says so is damaged.
    """
    path = folder / TRAINING
    if not path.is_file():
        return None
    plain, unlike = read_json(path), (KeyError, TypeError, AttributeError)
    with raised_as(ModelError, f"checkpoint file {path}", "the manifest of a training", *unlike):
        tasks = [
            {key: task[key] for key in ("spec", "fingerprint", "ids")} for task in plain["tasks"]
        ]
        model = plain.get("model") or {}
        network = model.get("description", {}).get("chat", {})
        earlier = network.get("trained", {}).get("checkpoint")
        start = earlier or (model.get("base") or {}).get("checkpoint")
        return {
            "method": plain["method"]["spec"],
            "tasks": tasks,
            "seed": plain["seed"],
            "config_hash": plain["config_hash"],
            **({} if start is None else {"checkpoint": start}),
            **({"rehearsal": True} if plain.get("provenance", {}).get("rehearsal") else {}),
        }


def saved_dtype(configuration: Mapping[str, object]) -> Dtype:
    """Return the weights' type by a checkpoint's configuration; `auto` if it names none."""
    output = configuration.get("dtype") or configuration.get("torch_dtype")
    return next((dtype for dtype in get_args(Dtype) if dtype == output), "auto")


def generation_settings(folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint's `generation_config.json`; empty if there is none.

    Raises:
        ModelError: the file is damaged, or the repetition penalty is not a number.
    """
    path = folder / "generation_config.json"
    settings = read_json(path) if path.is_file() else {}
    penalty = settings.get("repetition_penalty")
    if penalty is not None and type(penalty) not in (int, float):
        raise ModelError(
            f"checkpoint file {path}: 'repetition_penalty'",
            expected="a number",
            found=repr(penalty)[:40],
        )
    return settings


def weights(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint, in the order of their names.

    Raises:
        ModelError: there are none, or two kinds, or the index names one that is missing.
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
            fix="Delete those of an earlier saving: which of them counts depends on the program.",
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
    """Return what a safetensors file says of its tensors, by name, and where their data begin.

    Raises:
        ModelError: its header is not sound, or its data are not as long as that says.
    """
    size, fix = path.stat().st_size, "Fetch or save it again; it may have been cut off."
    damaged = OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError
    what, expected = f"weights {path}", "a complete safetensors file"
    with reading(path, ModelError, what, expected, *damaged, fix=fix):
        with open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(MAX_HEADER, size - 8):
                raise ValueError(f"{size} bytes, with a header of {length}")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
        if 8 + length + end != size:
            raise ValueError(f"{size} bytes instead of {8 + length + end}")
        return header, 8 + length


def check_tied(folder: Path) -> None:
    """Check that an output layer that the configuration ties to the embeddings is equal to them.

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
    saved: dict[str, tuple[dict[str, Any], Path, int, int]] = {}
    for path in weights(folder):
        header, start = header_of(path)
        for name, tensor in header.items():
            if name.endswith(TIED):
                begin, end = (start + offset for offset in tensor["data_offsets"])
                saved[name.rpartition(".")[0].rpartition(".")[2]] = tensor, path, begin, end
    if len(saved) < len(TIED):
        return
    first, second = saved.values()
    alike = all(first[0].get(key) == second[0].get(key) for key in ("dtype", "shape"))
    if not alike or _part_digest(*first[1:]) != _part_digest(*second[1:]):
        raise ModelError(
            f"checkpoint {folder}",
            expected="an output layer equal to the embeddings, as tie_word_embeddings is true",
            found="another one in its weights",
            fix="Set tie_word_embeddings to false if it was trained apart; else delete it.",
        )


def _part_digest(path: Path, start: int, end: int) -> bytes:
    """Return a hash of the bytes of a file from `start` to `end`."""
    whole = hashlib.blake2b(digest_size=16)
    with open_regular(path) as file:
        file.seek(start)
        while start < end and (block := file.read(min(BLOCK, end - start))):
            whole.update(block)
            start += len(block)
    return whole.digest()


def fingerprint(folder: Path) -> str:
    """BLAKE2b over the content of all weights, in the order of the files' names."""
    whole = hashlib.blake2b(digest_size=16)
    for path in weights(folder):
        whole.update(path.name.encode() + b"\x00")
        whole.update(digest(path))
    CONTENTS.save()
    return whole.hexdigest()


def deciding(folder: Path) -> dict[str, str]:
    """A hash of each file beside the weights that decides what a network sees and says.

    That is its configurations, its tokenizer, its chat templates; by their names.
    """
    chosen = sorted({path for pattern in DECIDING for path in folder.glob(pattern)})
    digests = {
        str(path.relative_to(folder)): digest(path).hex()[:16] for path in chosen if path.is_file()
    }
    CONTENTS.save()
    return digests


def deciding_text(folder: Path) -> str:
    """`deciding` in a line, for parts whose record has no room for more."""
    return ", ".join(f"{name} {content}" for name, content in deciding(folder).items())


def _no_weights(folder: Path) -> ModelError:
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


def _asks_for_code(value: object) -> bool:
    """Return True if a configuration, or one inside it, names code of the checkpoint."""
    if not isinstance(value, dict):
        return False
    return "auto_map" in value or any(map(_asks_for_code, value.values()))


def media_tokens(folder: Path) -> tuple[int, ...]:
    """Tokens that stand for images and clips: one that a network writes would want its patches."""
    config = read_json(folder / "config.json")
    tokens = {config.get(f"{kind}_token_id") for kind in ("image", "video")}
    return tuple(sorted(token for token in tokens if isinstance(token, int)))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a checkpoint; ModelError if it is none."""
    unread = OSError, ValueError, RecursionError
    with raised_as(ModelError, f"checkpoint file {path}", "a JSON object", *unread):
        value = json.loads(read_text(path), **NUMBERS)
        if not isinstance(value, dict):
            raise ValueError(type(value).__name__)
    return value
