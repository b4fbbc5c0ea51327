"""Writing of a stand-in's tokenizer: the published class with a small vocabulary.

Merges are learned from the methods' own prompts, so that prompts have about as many tokens as with
the published vocabulary. The special tokens are the published ones (`standins.toml`), in their
order: after the vocabulary (`byte_level`, `qwen2`) or before it (`of_class`). `networks` calls
`write`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.models.backends.torchvision_cpu import ensure_torchvision

VOCABULARY_SIZE = 2048
"""Number of tokens without the special ones."""
QWEN2_PIECE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Piece of text in Qwen2's tokenizer (a word, a digit, …); tokens never reach across two pieces."""


@cache
def corpus() -> tuple[str, ...]:
    """Return the texts that merges are learned from: the prompts of all methods."""
    return tuple(_texts(files("harness.models")))


def _texts(folder: Traversable) -> list[str]:
    texts: list[str] = []
    for entry in sorted(folder.iterdir(), key=lambda file: file.name):
        if entry.is_dir():
            texts += _texts(entry)
        elif entry.name.endswith((".txt", ".toml")):
            texts.append(entry.read_text("utf-8"))
    return texts


@cache
def byte_pairs() -> tuple[Mapping[str, int], tuple[tuple[str, str], ...]]:
    """Return a vocabulary of byte-level pieces and its merges."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_PIECE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    learner.train_from_iterator(corpus(), trainer)
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], tuple((left, right) for left, right in model["merges"])


def qwen2(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a tokenizer of the class `Qwen2Tokenizer`, in the hub's files of 2024 and 2025."""
    vocabulary, merges = byte_pairs()
    _write_json(folder / "vocab.json", dict(vocabulary))
    lines = "\n".join(f"{left} {right}" for left, right in merges)
    (folder / "merges.txt").write_text(f"#version: 0.2\n{lines}\n", "utf-8")
    byte_level(folder, settings)


def byte_level(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a `tokenizer.json` of byte-level pairs; `first`, if given, begins every text."""
    vocabulary, merges = byte_pairs()
    added = _added(settings, start=len(vocabulary))
    plain = _byte_level(vocabulary, merges, added)
    if first := settings.get("first"):
        number = next(entry["id"] for entry in added if entry["content"] == first)
        plain["post_processor"] = _beginning(first, number)
    _write_json(folder / "tokenizer.json", plain)
    _write_config(folder, settings, added)


def of_class(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a tokenizer as its class in transformers saves it; special tokens come first.

    `words` says how its pieces are spelt: `bytes` (RoBERTa), `ends` (CLIP, a mark after a word) or
    `spaces` (Gemma, a mark in the place of a space).
    """
    import transformers

    pieces, merges = PIECES[settings["words"]]()
    vocabulary = list(dict.fromkeys([*settings["special"], *pieces]))
    tokenizer = getattr(transformers, settings["class"])(
        vocab={piece: place for place, piece in enumerate(vocabulary)},
        merges=list(merges),
        **settings.get("config", {}),
    )
    tokenizer.add_tokens(_ranged(settings))
    tokenizer.save_pretrained(folder)


@cache
def _bytes() -> tuple[list[str], tuple[tuple[str, str], ...]]:
    vocabulary, merges = byte_pairs()
    return list(vocabulary), merges


@cache
def _ends() -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return pieces of lower-case words, the last of which has the mark `</w>`."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.normalizer = normalizers.Lowercase()
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return _learned(learner, trainers.BpeTrainer, end_of_word_suffix="</w>")


@cache
def _spaces() -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Return pieces of words with `▁` for spaces, after all bytes."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE(byte_fallback=True))
    learner.normalizer = normalizers.Replace(" ", "▁")
    learner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    pieces, merges = _learned(learner, trainers.BpeTrainer)
    return [*(f"<0x{byte:02X}>" for byte in range(256)), *pieces], merges


def _learned(
    learner: Any, trainer: Callable[..., Any], **given: Any
) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Train a tokenizer on `corpus`; return its pieces and merges."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    learner.train_from_iterator(
        corpus(),
        trainer(vocab_size=VOCABULARY_SIZE, initial_alphabet=letters, show_progress=False, **given),
    )
    model = json.loads(learner.to_str())["model"]
    suffix = given.get("end_of_word_suffix", "")
    ends = [f"{letter}{suffix}" for letter in letters] if suffix else []
    return [*model["vocab"], *ends], tuple((left, right) for left, right in model["merges"])


PIECES: Mapping[str, Callable[[], tuple[list[str], tuple[tuple[str, str], ...]]]] = (
    MappingProxyType({"bytes": _bytes, "ends": _ends, "spaces": _spaces})
)
"""Pieces and merges by how they are spelt."""


def _ranged(settings: Mapping[str, Any]) -> list[str]:
    """Return the family's plain added tokens, and its numbered ones, such as `<loc0000>`."""
    numbered = [
        form.format(number) for form, count in settings.get("ranges", ()) for number in range(count)
    ]
    return [*settings.get("plain", ()), *numbered]


def _beginning(token: str, number: int) -> dict[str, Any]:
    """Return the post-processor of a tokenizer that puts a token before every text."""
    from tokenizers import processors

    template = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A $B", special_tokens=[(token, number)]
    )
    plain: dict[str, Any] = json.loads(template.__getstate__())
    return plain


def _added(settings: Mapping[str, Any], *, start: int) -> list[dict[str, Any]]:
    """Return entries of tokens beside the vocabulary: special ones, and words such as `<think>`."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    both = [(token, True) for token in settings["special"]]
    both += [(token, False) for token in _ranged(settings)]
    return [
        {"id": start + place, "content": token, **plain, "special": special}
        for place, (token, special) in enumerate(both)
    ]


def _byte_level(
    vocabulary: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    added: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` of byte-level pairs."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(dict(vocabulary), list(merges)))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_PIECE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    plain: dict[str, Any] = json.loads(tokenizer.to_str())
    plain["added_tokens"] = list(added)
    return plain


def _write_config(
    folder: Path, settings: Mapping[str, Any], added: Sequence[Mapping[str, Any]]
) -> None:
    """Write `tokenizer_config.json`, with the added tokens by number as the hub's files have."""
    decoder = {
        str(entry["id"]): {key: value for key, value in entry.items() if key != "id"}
        for entry in added
    }
    _write_json(
        folder / "tokenizer_config.json", {"added_tokens_decoder": decoder, **settings["config"]}
    )


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")


WRITERS: Mapping[str, Callable[[Path, Mapping[str, Any]], None]] = MappingProxyType(
    {"qwen2": qwen2, "byte_level": byte_level, "of_class": of_class}
)
"""Functions that write a tokenizer's files, by the name that `standins.toml` gives it."""


def write(folder: Path, settings: Mapping[str, Any]) -> Mapping[str, int]:
    """Write a tokenizer's files; return the numbers of all of its tokens.

    Args:
        folder: Folder of the checkpoint.
        settings: The family's table `tokenizer`: `kind`, a key of `WRITERS`; the tokens `special`,
            and in some families `plain` and `ranges`; `first` (`byte_level`); `class` and `words`
            (`of_class`); `config`, which goes into `tokenizer_config.json` or to the class.
    """
    ensure_torchvision()
    WRITERS[settings["kind"]](folder, settings)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    numbers: Mapping[str, int] = tokenizer.get_vocab()
    return numbers
