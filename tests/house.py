"""Count what the house's style bounds: names that say nothing, openings of docstrings, dialect,
`fmt: skip`, `Any`, sentences that tests expect of errors, names of the package, lines of GRPO, and
words of the pages.

python tests/house.py            # a table of this checkout
python tests/house.py --list     # and each such docstring and sentence
python tests/house.py --sample   # modules that one sample of ReasonSeg passes in `evaluate`
python tests/house.py --prompt   # modules that one prompt passes in a round of GRPO
"""

import argparse
import ast
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

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


def markdown(room: str) -> list[Path]:
    """List the Markdown pages of a room; of `.`, those beside the rooms."""
    return sorted((REPOSITORY / room).glob("*.md" if room == "." else "**/*.md"))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each docstring of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text.strip()


VAGUE = frozenset({"one", "found", "made", "some", "each", "other", "told"})
"""Names of variables and parameters that do not say what they hold."""
NEGATED = re.compile(r"(?<![Tt]here )\b(is|are|was|were) no (?!longer|more|less|matter|such)[a-z]+")
"""A denial by `no`, such as "a logit is no number", where English says "is not a"."""


def vague_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of each binding of a vague name."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store(), lineno=line)
                | ast.arg(arg=name, lineno=line)
                | ast.ExceptHandler(name=str(name), lineno=line)
                | ast.MatchAs(name=str(name), lineno=line)
                | ast.MatchStar(name=str(name), lineno=line)
            ) if name.strip("_") in VAGUE:
                yield line, name


def prose(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of a module's strings and comments, or of a page."""
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), start=1)
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)):
                yield node.lineno, text
    for number, text in enumerate(source.splitlines(), start=1):
        if "#" in text:
            yield number, text.partition("#")[2]


def evaluate_sample(root: Path) -> Callable[[], object]:
    """Return the evaluation of one picture of ReasonSeg, and make its data."""
    from harness import plugins
    from harness.run.evaluate import evaluate
    from harness.run.options import Options
    from harness.spec import parse
    from harness.testing.shapes import make_shapes

    make_shapes(root / "data", tasks=["reason_seg"], size=1)
    model = parse("saliency(segmenter=grabcut,propagator=flow)")

    def run() -> None:
        task = plugins.build("tasks", parse("reason_seg"), root / "data")
        evaluate(task, model, root / "run", Options(subset="first1"))

    return run


def train_on_prompt(root: Path) -> Callable[[], object]:
    """Return a GRPO training of one step on one prompt, and make its data."""
    from harness import plugins
    from harness.run.train import TrainingOptions, train
    from harness.spec import parse
    from harness.testing.shapes import make_shapes

    make_shapes(root / "data", tasks=["reason_seg"], size=1)
    settings = "max_steps=1,num_generations=2,generation_batch_size=2,per_device_train_batch_size=2"

    def run() -> None:
        trainer = plugins.build("trainers", parse(f"visionreasoner({settings})"))
        task = plugins.build("tasks", parse("reason_seg"), root / "data")
        train(trainer, [task], parse("pocket"), root / "out", TrainingOptions())

    return run


def walk(prepare: Callable[[Path], Callable[[], object]]) -> list[str]:
    """Return the own modules whose functions run, in the order in which they are entered.

    What runs only because a module is imported does not count.
    """
    passed: dict[str, None] = {}

    def note(frame: FrameType | None, event: str, _: object) -> None:
        if event != "call" or frame is None:
            return
        name = str(frame.f_globals.get("__name__"))
        while frame is not None:
            if "importlib" in frame.f_code.co_filename:
                return
            frame = frame.f_back
        if name.startswith("harness."):
            passed[name] = None

    with tempfile.TemporaryDirectory() as folder:
        run = prepare(Path(folder))
        threading.setprofile(note)
        sys.setprofile(note)
        run()
        sys.setprofile(None)
        threading.setprofile(None)
    return list(passed)


def rooms_of(modules: Sequence[str]) -> list[str]:
    """Return the rooms of a walk, one an entry: a room that is entered again stands there again.

    Modules beside each other in `harness/` are one room.
    """
    rooms = [room if module else "" for _, room, *module in (name.split(".") for name in modules)]
    return [room for room, before in zip(rooms, [None, *rooms], strict=False) if room != before]


WALKS = {"sample": evaluate_sample, "prompt": train_on_prompt}
GROUND = (
    "trainers/state.py",
    "trainers/session.py",
    "trainers/settings.py",
    "trainers/learner.py",
    "trainers/policy.py",
    "trainers/rows.py",
    "models/learning/loss*.py",
)
"""Modules that GRPO stands on, and fine-tuning or test time too."""
TRL = re.compile(r"^\s*(import trl|from trl)\b", re.MULTILINE)
SKIP = "# fmt: " + "skip"  # so that this module has none


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name each of them")
    for name, prepare in WALKS.items():
        parser.add_argument(
            f"--{name}", dest="walk", action="store_const", const=prepare, help=prepare.__doc__
        )
    given = parser.parse_args()
    if given.walk:
        modules = walk(given.walk)
        entered = rooms_of(modules)
        rooms = len({*entered})
        print(f"{len(modules)} modules of {rooms} rooms, {len(entered) - rooms} returns")
        print(*modules, sep="\n")
        return
    show = print if given.list else lambda text: None
    vague = asking = denials = 0
    for path in [*sources(), *(page for room in (".", *ROOMS, "docs") for page in markdown(room))]:
        where, source = path.relative_to(REPOSITORY), path.read_text("utf-8")
        if path.suffix == ".py":
            for line, word in vague_names(tree := ast.parse(source)):
                vague += 1
                show(f"{where}:{line}: {word}")
            for line, text in docstrings(tree):
                if text.partition("\n\n")[0].rstrip().endswith("?"):
                    asking += 1
                    show(f"{where}:{line}: {text.splitlines()[0]}")
        for line, text in prose(path, source):
            for denial in NEGATED.finditer(text):
                denials += 1
                show(f"{where}:{line}: {denial[0]}")
    print(f"bindings of vague names: {vague}; denials by `no`: {denials}; questions: {asking}")
    own = {path.relative_to(REPOSITORY): path.read_text("utf-8") for path in sources()}
    texts = questions = expected = 0
    for path, source in own.items():
        for line, text in docstrings(ast.parse(source)):
            texts += 1
            if OPENINGS.match(text):
                questions += 1
                show(f"{path}:{line}: {text.splitlines()[0]}")
    rooms = [REPOSITORY / room for room in ("tests", "benchmarks")]
    tests = {path: path.read_text("utf-8") for room in rooms for path in room.rglob("*.py")}
    for path, source in tests.items():
        for line in sentences(ast.parse(source)):
            expected += 1
            show(f"{path.relative_to(REPOSITORY)}:{line}: a sentence")
    whole = "".join(own.values())
    lines, anys = whole.count("\n"), len(re.findall(r"\bAny\b", whole))
    beside = "".join(tests.values()).count(SKIP)
    share = questions / texts
    print(f"library: {len(own)} files, {lines} lines")
    print(f"docstrings that open with a question word: {questions} of {texts} ({share:.1%})")
    print(f"fmt skips: {whole.count(SKIP)}, in tests and benchmarks {beside}")
    print(f"Any: {anys}, {1000 * anys / lines:.2f} a thousand lines")
    print(f"sentences that tests expect of errors (match=): {expected}")
    print(f"names of `import harness`: {len(harness.__all__)}")
    pages = [path for room in (".", *ROOMS, "docs", "examples") for path in markdown(room)]
    print(f"pages: {len(pages)}, {sum(len(one.read_text('utf-8').split()) for one in pages)} words")
    importers = {REPOSITORY / path for path, source in own.items() if TRL.search(source)}
    room = {*REPOSITORY.glob("trainers/grpo/*.py"), *importers}
    ground = {path for pattern in GROUND for path in REPOSITORY.glob(pattern)}
    for name, paths in (
        ("GRPO and all that imports TRL", room),
        ("what it shares with fine-tuning and test time", ground - room),
    ):
        counts = {one: (one.read_text("utf-8").count("\n"), code_lines(one)) for one in paths}
        total, code = map(sum, zip(*counts.values(), strict=True))
        print(f"{name}: {total} lines, {code} without texts and blank lines")
        for path in sorted(paths):
            count, kept = counts[path]
            show(f"{path.relative_to(REPOSITORY)}: {count} lines, {kept}")


if __name__ == "__main__":
    main()
