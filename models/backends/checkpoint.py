"""Find a checkpoint's folder, check its files before anything is loaded, and fingerprint it.

Only safetensors weights and architectures in transformers are accepted: nothing is unpickled, no
code of a checkpoint runs, and nothing is downloaded. All backends and perception parts with a
`checkpoint=` use it.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias, get_args

from harness.errors import MissingCheckpoint, MissingDependency, ModelError, raised_as
from harness.files import CONTENTS, digest
from harness.models.backends.weights import check_weights, read_json, weights

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
"""Type of weights and activations; `auto`: the type that a checkpoint was saved in."""
CONFIGURATIONS = (
    "config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tokenizer_config.json",
)
TRAINED = "checkpoint"  # subfolder of a training's folder with the trained checkpoint
TRAINING = "harness.json"  # file in a checkpoint that harness trained: the record of the training
LAYERS = frozenset(
    f"{prefix}{name}"
    for name in ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "depth", "layers")
    for prefix in ("", "encoder_", "decoder_")
)
"""Keys of transformers' configurations that hold a number of layers."""
POCKET = Path(__file__).parents[1] / "pocket"  # folder of the model `pocket`
SHIPPED: Mapping[str, Path] = {"pocket": POCKET / "checkpoint", "pocket-base": POCKET / "base"}
"""Weights that come with the package, by name; a user's folder of that name is `./pocket`."""
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
"""Patterns of the files beside the weights that change what a network sees or writes."""


def short_path(checkpoint: str) -> str:
    """Return the name of a checkpoint for records, which is the same however the user typed it.

    A folder has no `/` at its end; the checkpoint in a training's folder is named by that folder.
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
    """Return the folder of a checkpoint.

    Args:
        checkpoint: A folder (that of a training means the checkpoint in it), the name of shipped
            weights, or a name that the Hugging Face cache holds.
        revision: Commit or branch on the hub; None: the default.

    Raises:
        ModelError: there is no such folder; MissingCheckpoint: the cache does not hold it.
        MissingDependency: the cache is needed, and huggingface_hub is not installed.
    """
    folder = SHIPPED.get(checkpoint, Path(checkpoint).expanduser())
    if folder.is_dir():
        inner = folder / TRAINED
        has_trained = any((inner / name).is_file() for name in ("config.json", TRAINING))
        return inner if has_trained and not (folder / "config.json").is_file() else folder
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
    pinned = f" --revision {revision}" if revision else ""
    newest = ", or revision=main for what is there" if revision else ""
    with raised_as(
        MissingCheckpoint,
        f"checkpoint {checkpoint!r}",
        "a folder, or a checkpoint in the Hugging Face cache",
        LocalEntryNotFoundError,
        HFValidationError,
        fix=f"Fetch it first where there is a network (hf download {checkpoint}{pinned}), or give "
        f"the folder where it lies{newest}. harness downloads nothing by itself.",
        missing="neither",
    ):
        return Path(snapshot_download(checkpoint, revision=revision, local_files_only=True))


def check(folder: Path) -> dict[str, object]:
    """Check a checkpoint's files without loading them, and return its configuration.

    Raises:
        ModelError: the configuration is missing, requires code of the checkpoint, or has more
            layers than there are weights; or weights are missing, cut off, or pickled.
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
                fix="A network of so many layers would need too much memory.",
            )
    return config


def _layers(config: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield (key, value) of the numbers of layers in a configuration, nested ones included."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _layers(value)
        elif name in LAYERS and value is not None:
            yield name, value


def refuse_code(folder: Path) -> None:
    """Raise ModelError if a configuration in the folder requires code of the checkpoint."""
    for name in CONFIGURATIONS:
        if (folder / name).is_file() and _asks_for_code(read_json(folder / name)):
            raise ModelError(
                f"checkpoint file {folder / name}",
                expected="an architecture in transformers",
                found="auto_map, which runs code from the checkpoint",
                fix="harness does not run such code: use a checkpoint without auto_map.",
            )


def training_record(folder: Path) -> dict[str, object] | None:
    """Return the record of a checkpoint's training; None if harness did not train it.

    It holds the method, tasks, seed and hash of the configuration; and `checkpoint`, from which the
    first of successive trainings started, unless that started from random weights.

    Raises:
        ModelError: the file of the record is damaged.
    """
    path = folder / TRAINING
    if not path.is_file():
        return None
    manifest, wrong_layout = read_json(path), (KeyError, TypeError, AttributeError)
    what = f"checkpoint file {path}"
    with raised_as(ModelError, what, "the manifest of a training", *wrong_layout):
        tasks = [
            {key: task[key] for key in ("spec", "fingerprint", "ids")} for task in manifest["tasks"]
        ]
        model = manifest.get("model") or {}
        network = model.get("description", {}).get("chat", {})
        earlier = network.get("trained", {}).get("checkpoint")
        start = earlier or (model.get("base") or {}).get("checkpoint")
        return {
            "method": manifest["method"]["spec"],
            "tasks": tasks,
            "seed": manifest["seed"],
            "config_hash": manifest["config_hash"],
            **({} if start is None else {"checkpoint": start}),
            **({"rehearsal": True} if manifest.get("provenance", {}).get("rehearsal") else {}),
        }


def saved_dtype(configuration: Mapping[str, object]) -> Dtype:
    """Return the weights' type in a checkpoint's configuration; `auto` if it states none."""
    saved = configuration.get("dtype") or configuration.get("torch_dtype")
    return next((dtype for dtype in get_args(Dtype) if dtype == saved), "auto")


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


def fingerprint(folder: Path) -> str:
    """Return the BLAKE2b hash of all weights, in the order of the files' names."""
    joint = hashlib.blake2b(digest_size=16)
    for path in weights(folder):
        joint.update(path.name.encode() + b"\x00")
        joint.update(digest(path))
    CONTENTS.save()
    return joint.hexdigest()


def deciding(folder: Path) -> dict[str, str]:
    """Return a hash of each file beside the weights that changes what a network sees or writes.

    These are configurations, tokenizer files and chat templates; keys are their paths.
    """
    paths = sorted({path for pattern in DECIDING for path in folder.glob(pattern)})
    digests = {
        str(path.relative_to(folder)): digest(path).hex()[:16] for path in paths if path.is_file()
    }
    CONTENTS.save()
    return digests


def deciding_text(folder: Path) -> str:
    """Return `deciding` on one line, for records of parts that hold texts only."""
    return ", ".join(f"{name} {content}" for name, content in deciding(folder).items())


def _asks_for_code(value: object) -> bool:
    """Return True if a configuration, or a nested one, names code of the checkpoint."""
    if not isinstance(value, dict):
        return False
    return "auto_map" in value or any(map(_asks_for_code, value.values()))


def media_tokens(folder: Path) -> tuple[int, ...]:
    """Return the ids of the tokens that stand for images and clips.

    A network must not write them: each would require the features of an image.
    """
    config = read_json(folder / "config.json")
    tokens = {config.get(f"{media_type}_token_id") for media_type in ("image", "video")}
    return tuple(sorted(token for token in tokens if isinstance(token, int)))
