"""Count what the house's style bounds: openings of docstrings, `fmt: skip`, `Any`, probes, circles,
sentences that tests expect of errors, names of the package, lines of GRPO.

python benchmarks/house.py            # a table of this checkout
python benchmarks/house.py --list     # and each such docstring, probe, sentence and circle
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import numpy as np
from scipy.sparse.csgraph import connected_components

import harness

REPOSITORY = Path(__file__).parent.parent
ROOMS = ("harness", "tasks", "models", "trainers", "leaderboards")
OPENINGS = re.compile(r"(What|Which|Whether|How|Of|Where)\b")
"""Words that open a riddle; a docstring begins with a verb, or with the quantity."""


def sources() -> Iterator[Path]:
    """Yield the library's own modules, each once: links are not followed."""
    for room in ROOMS:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            if not any(part.is_symlink() for part in (path, *path.parents)):
                yield path


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each docstring of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text.strip()


GRPO = (
    "trainers/grpo/*.py",
    "trainers/state.py",
    "trainers/session.py",
    "trainers/sft/engine.py",
    "models/learning/loss*.py",
)
"""Modules of GRPO, and all that knows TRL or was parted from them."""
SKIP = "# fmt: " + "skip"  # so that this module has none
CONTRACTS = ("harness/model.py", "harness/trainer.py", "models/pipeline.py")
"""Modules whose derived classes declare what models, their parts and trainers have."""


def members() -> frozenset[str]:
    """Collect the names of all fields, properties and methods that contracts declare."""
    names = set()
    for module in CONTRACTS:
        for known in ast.walk(ast.parse((REPOSITORY / module).read_text("utf-8"))):
            for node in known.body if isinstance(known, ast.ClassDef) and known.bases else ():
                match node:
                    case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                        names.add(name)
    return frozenset(name for name in names if not name.startswith("_"))


def probes(tree: ast.Module, declared: frozenset[str]) -> Iterator[int]:
    """Yield the line of each `getattr` or `hasattr` that asks for a declared member by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if name in declared:
                yield node.lineno


def code_lines(path: Path) -> int:
    """Count the lines of a module that are neither blank, nor a comment, nor of a docstring."""
    source = path.read_text("utf-8")
    texts = set[int]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                texts.update(range(first, last + 1))
    return sum(
        number not in texts and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(source.splitlines(), start=1)
    )


VALUES = re.compile(
    r"`[^`]*`|'[^']*'|harness( \w+)+|(pip install|hf download|git clone|vllm serve)\b"
)
"""Quoted texts and commands: an error may hold them as they are."""
SENTENCE = re.compile(r"(?<![\w./:-])[a-z]{2,} [a-z]{2,}(?![\w/:-]|\.\w)")
"""Two plain words, one after the other."""


def sentences(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each `match=` that expects words of a sentence beside values."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="match", value=pattern):
                texts = (one.value for one in ast.walk(pattern) if isinstance(one, ast.Constant))
                if any(SENTENCE.search(VALUES.sub("", str(text))) for text in texts):
                    yield pattern.lineno


def circles() -> Iterator[list[str]]:
    """Yield the modules and folders of one parent that import each other in a circle.

    Imports inside of functions and those for type checkers count; linked rooms are followed.
    """
    graph = grimp.build_graph("harness", cache_dir=None)
    for parent in sorted(graph.modules):
        children = sorted(graph.find_children(parent))
        numbers = {name: number for number, name in enumerate(children)}
        depth = parent.count(".") + 2
        arrows = np.zeros((len(children), len(children)), np.bool_)
        for child in children:
            for module in {child, *graph.find_descendants(child)}:
                for other in graph.find_modules_directly_imported_by(module):
                    if (found := numbers.get(".".join(other.split(".")[:depth]))) is not None:
                        arrows[numbers[child], found] = True
        if children:
            _, labels = connected_components(arrows, connection="strong")
            for label in np.flatnonzero(np.bincount(labels) > 1):
                yield [name for name, own in zip(children, labels, strict=True) if own == label]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name each of them")
    arguments = parser.parse_args()
    files = lines = texts = questions = skips = anys = probed = 0
    declared = members()
    for path in sources():
        source = path.read_text("utf-8")
        files, lines = files + 1, lines + source.count("\n")
        skips += source.count(SKIP)
        anys += len(re.findall(r"\bAny\b", source))
        tree = ast.parse(source)
        for line in probes(tree, declared):
            probed += 1
            if arguments.list:
                print(f"{path.relative_to(REPOSITORY)}:{line}: a probe")
        for line, text in docstrings(tree):
            texts += 1
            if OPENINGS.match(text):
                questions += 1
                if arguments.list:
                    opening = text.splitlines()[0]
                    print(f"{path.relative_to(REPOSITORY)}:{line}: {opening}")
    tests = [path for room in ("tests", "benchmarks") for path in (REPOSITORY / room).rglob("*.py")]
    beside = expected = 0
    for path in tests:
        source = path.read_text("utf-8")
        beside += source.count(SKIP)
        for line in sentences(ast.parse(source)):
            expected += 1
            if arguments.list:
                print(f"{path.relative_to(REPOSITORY)}:{line}: a sentence")
    print(f"library: {files} files, {lines} lines")
    print(
        f"docstrings that open with a question word: {questions} of {texts}"
        f" ({questions / texts:.1%})"
    )
    print(f"fmt skips: {skips}, in tests and benchmarks {beside}")
    print(f"getattr probes of members of models, chats, parts and trainers: {probed}")
    print(f"Any: {anys}, {1000 * anys / lines:.2f} a thousand lines")
    print(f"sentences that tests expect of errors (match=): {expected}")
    found = list(circles())
    print(f"circles of imports: {len(found)}")
    print(f"names of `import harness`: {len(harness.__all__)}")
    counted = [
        (path.relative_to(REPOSITORY), path.read_text("utf-8").count("\n"), code_lines(path))
        for pattern in GRPO
        for path in sorted(REPOSITORY.glob(pattern))
    ]
    total, code = (sum(numbers) for numbers in list(zip(*counted, strict=True))[1:])
    print(f"GRPO and all that knows TRL: {total} lines, {code} without texts and blank lines")
    if arguments.list:
        print(*(f"{path}: {count} lines, {own}" for path, count, own in counted), sep="\n")
        print(*map(" <-> ".join, found), sep="\n")


if __name__ == "__main__":
    main()
