"""The Penn Treebank tokenizer of Stanford CoreNLP 3.4.1, a Java program that pycocoevalcap brings.

`PTBTokenizer` of pycocoevalcap 1.2 gives it one caption a line, so two things follow that a caption
does not show. A caption with a line break other than a newline shifts every later caption by one;
here all breaks become spaces, which is the one place where tokens differ from the official ones.
And the program looks ahead over the end of a line: "No." is "no." if the next caption begins with
a number, and otherwise "no". So the official tokens of a few captions, and with them the official
scores, depend on their order. That is kept.
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
"""Runs a program of one thread: others that collect its garbage only take cores from each other."""
# What pycocoevalcap 1.2 drops from the program's tokens.
DROPPED = frozenset(
    {"''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-"}
    | {".", "?", "!", ",", ":", "-", "--", "...", ";"}
)
BREAKS = dict.fromkeys(map(ord, "\n\r\v\f\u2028\u2029"), " ")
"""Characters at which the program ends a line. A caption must stay on its line."""
STOP = re.compile(r"\.\W*\Z")
INITIAL = re.compile(r"(?<![A-Za-z])[A-Za-z]\W*\Z")
KNOWN_LIMIT = 2_000_000  # texts


def penn_treebank(texts: Sequence[str]) -> list[str]:
    """One line of lower-case tokens a text, joined by spaces, punctuation dropped.

    The texts are one file: their order matters, see above. The program runs once, and not at all
    where each text was seen before in the same surroundings, as in parts of a corpus.

    Raises:
        MissingDependency: no Java, or not the package.
        DataError: the program does not answer with one line a text.
    """
    plain = [text.translate(BREAKS) for text in texts]
    known = _token_cache()
    keys = surroundings(plain)
    if any(key not in known for key in keys):
        lines = _run(plain)
        if len(known) > KNOWN_LIMIT:
            known.clear()
        known.update(zip(keys, lines, strict=True))
        return lines
    return [known[key] for key in keys]


@cache
def _token_cache() -> dict[tuple[str, ...], str]:
    """The tokens of texts in their surroundings; they never change."""
    return {}


def surroundings(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each text with as much of the following text as its tokens can depend on.

    Only the program's rules for abbreviations look ahead, so only texts that end in a full stop are
    concerned: by the kind of the next line's first letter, and after an initial by its word.

    >>> surroundings(["a dog", "the No.", "5 cats", "by A.", "The end."])
    [('a dog',), ('the No.', '9'), ('5 cats',), ('by A.', '', 'The'), ('The end.', ' ')]
    """
    keys: list[tuple[str, ...]] = []
    after = word = ""
    for text in reversed(texts):
        if not STOP.search(text):
            keys.append((text,))
        elif INITIAL.search(text):
            keys.append((text, after[:1] if after[:1].isspace() else "", word))
        else:
            keys.append((text, _kind(after)))
        after = text
        word = next(iter(text.split(maxsplit=1)), word)
    return keys[::-1]


def _kind(after: str) -> str:
    first = after[:1]
    if not first or first.isspace():
        return " "
    if first in "<&":
        return after.split(maxsplit=1)[0]  # may be a tag or an entity
    if first.isascii() and (first.isupper() or first.isdigit()):
        return "A" if first.isupper() else "9"
    return "x"


def _run(texts: Sequence[str]) -> list[str]:
    program = [*JAVA, "-cp", str(_jar()), "edu.stanford.nlp.process.PTBTokenizer"]
    done = subprocess.run(
        [*program, "-preserveLines", "-lowerCase"],
        input="\n".join(texts).encode("utf-8", "replace"),
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    if done.returncode or len(lines) != len(texts):
        raise DataError(
            "captions",
            expected=f"{len(texts)} lines of tokens from the Java tokenizer",
            found=f"{len(lines)}, exit code {done.returncode}",
            fix=done.stderr.decode("utf-8", "replace").strip()[-300:],
        )
    return [
        " ".join(word for word in line.rstrip().split(" ") if word not in DROPPED) for line in lines
    ]


def _jar() -> Path:
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
