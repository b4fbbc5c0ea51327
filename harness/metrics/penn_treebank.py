"""The Penn Treebank tokenizer of Stanford CoreNLP 3.4.1, a Java program that pycocoevalcap brings.

`penn_treebank` returns a line of tokens for each caption. Like `PTBTokenizer` of pycocoevalcap 1.2
it gives the program all captions as lines of one text, which has two consequences. A line break
inside a caption would shift every later caption by one: here all breaks become spaces, the only
difference from the official tokens. And the program looks ahead over the end of a line: "No."
becomes "no." if the next caption begins with a number, and "no" otherwise. So the official tokens,
and scores, of a few captions depend on their order; this is kept.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from harness.errors import DataError, MissingDependency

JAVA = ("java", "-XX:+UseSerialGC")
"""Command that runs Java without parallel garbage collection: the programs here have one thread."""
DROPPED_TOKENS = frozenset(
    {"''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-"}
    | {".", "?", "!", ",", ":", "-", "--", "...", ";"}
)
"""Tokens of the program that pycocoevalcap 1.2 drops."""
LINE_BREAKS = dict.fromkeys(map(ord, "\n\r\v\f\u2028\u2029"), " ")
"""Characters at which the program ends a line. A caption must stay on its line."""
FINAL_STOP = re.compile(r"\.\W*\Z")
"""A full stop that ends a text, such as that of `the No.`."""
FINAL_INITIAL = re.compile(r"(?<![A-Za-z])[A-Za-z]\W*\Z")
"""An initial that ends a text, such as that of `by A.`."""
MAX_CACHED_TEXTS = 2_000_000  # texts whose tokens are cached


def penn_treebank(texts: Sequence[str]) -> list[str]:
    """Return the tokens of each text, in lower case, joined by spaces, without punctuation.

    The order of the texts matters; see the module. The program runs once for all texts, or not at
    all if all tokens are cached by `surroundings`, as for subsets of a corpus.

    Raises:
        MissingDependency: Java or pycocoevalcap is missing.
        DataError: the program does not return one line a text.
    """
    plain = [text.translate(LINE_BREAKS) for text in texts]
    cached = _token_cache()
    keys = surroundings(plain)
    if any(key not in cached for key in keys):
        lines = _run(plain)
        if len(cached) > MAX_CACHED_TEXTS:
            cached.clear()
        cached.update(zip(keys, lines, strict=True))
        return lines
    return [cached[key] for key in keys]


@cache
def _token_cache() -> dict[tuple[str, ...], str]:
    """Return the cache of this process: tokens by a text's `surroundings`."""
    return {}


def surroundings(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each text with the part of the following text on which its tokens can depend.

    Only the program's rules for abbreviations look ahead, from texts that end with a full stop:
    they look at the kind of the next line's first character, after an initial at its first word.

    >>> surroundings(["a dog", "the No.", "5 cats", "by A.", "The end."])
    [('a dog',), ('the No.', '9'), ('5 cats',), ('by A.', '', 'The'), ('The end.', ' ')]
    """
    keys: list[tuple[str, ...]] = []  # from the last text to the first
    after = word = ""  # the following text, and the next word of the following texts
    for text in reversed(texts):
        if not FINAL_STOP.search(text):
            keys.append((text,))
        elif FINAL_INITIAL.search(text):
            keys.append((text, after[:1] if after[:1].isspace() else "", word))
        else:
            keys.append((text, _opening_or_closing(after)))
        after = text
        word = next(iter(text.split(maxsplit=1)), word)
    return keys[::-1]


def _opening_or_closing(after: str) -> str:
    """Return what a line begins with: " " blank, "A" capital, "9" digit, "x" other, or the tag."""
    first = after[:1]
    if not first or first.isspace():
        return " "
    if first in "<&":
        return after.split(maxsplit=1)[0]  # may be a tag or an entity
    if first.isascii() and (first.isupper() or first.isdigit()):
        return "A" if first.isupper() else "9"
    return "x"


def _run(texts: Sequence[str]) -> list[str]:
    """Run the program; see `penn_treebank`."""
    program = [*JAVA, "-cp", str(_jar()), "edu.stanford.nlp.process.PTBTokenizer"]
    process = subprocess.run(
        [*program, "-preserveLines", "-lowerCase"],
        input="\n".join(texts).encode("utf-8", "replace"),
        capture_output=True,
        check=False,
    )
    lines = process.stdout.decode("utf-8", "replace").split("\n")
    if process.returncode or len(lines) != len(texts):
        raise DataError(
            "captions",
            expected=f"{len(texts)} lines of tokens from the Java tokenizer",
            found=f"{len(lines)}, exit code {process.returncode}",
            fix=process.stderr.decode("utf-8", "replace").strip()[-300:],
        )
    return [
        " ".join(word for word in line.rstrip().split(" ") if word not in DROPPED_TOKENS)
        for line in lines
    ]


def _jar() -> Path:
    """Return the program's file; raise MissingDependency if it, or Java, is missing."""
    need_java("the PTB tokenizer of caption metrics")
    tokenizer = pycocoevalcap("tokenizer.ptbtokenizer")
    return Path(str(tokenizer.__file__)).parent / "stanford-corenlp-3.4.1.jar"


def pycocoevalcap(name: str) -> ModuleType:
    """Import a module of pycocoevalcap, which is needed only to score captions.

    Raises:
        MissingDependency: the package is not installed.
    """
    try:
        return import_module(f"pycocoevalcap.{name}")
    except ModuleNotFoundError as error:
        raise MissingDependency.package(error.name, extra="text") from error


def need_java(what: str) -> None:
    """Raise MissingDependency if there is no program `java`."""
    if shutil.which("java") is None:
        raise MissingDependency(
            what,
            expected="Java (the program `java`)",
            found="none on the search path",
            fix="Install a Java runtime. tokenizer=simple computes BLEU, ROUGE-L and CIDEr without "
            "Java, with other tokens and other scores.",
        )
