"""Count what the house's style bounds: openings of docstrings, `fmt: skip`, `Any`, comments.

python benchmarks/house.py            # a table of this checkout
python benchmarks/house.py --list     # and each docstring that opens with a question word
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name the docstrings")
    arguments = parser.parse_args()
    files = lines = texts = questions = skips = anys = 0
    for path in sources():
        source = path.read_text("utf-8")
        files, lines = files + 1, lines + source.count("\n")
        skips += source.count("# fmt: skip")
        anys += len(re.findall(r"\bAny\b", source))
        for line, text in docstrings(ast.parse(source)):
            texts += 1
            if OPENINGS.match(text):
                questions += 1
                if arguments.list:
                    opening = text.splitlines()[0]
                    print(f"{path.relative_to(REPOSITORY)}:{line}: {opening}")
    tests = [path for room in ("tests", "benchmarks") for path in (REPOSITORY / room).rglob("*.py")]
    beside = sum(path.read_text("utf-8").count("# fmt: " + "skip") for path in tests)
    print(f"library: {files} files, {lines} lines")
    print(
        f"docstrings that open with a question word: {questions} of {texts}"
        f" ({questions / texts:.1%})"
    )
    print(f"fmt skips: {skips}, in tests and benchmarks {beside}")
    print(f"Any: {1000 * anys / lines:.1f} a thousand lines")


if __name__ == "__main__":
    main()
