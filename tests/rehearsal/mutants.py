"""Break every published configuration in turn, and see that the rehearsal says what is broken.

    python tests/rehearsal/mutants.py [--kind KIND] [--sample N] [--list]

A mutant is a command of a paper's table with one thing changed: a checkpoint's name, a key of a
configuration, a place in a prompt, a node, a judge, a file of a checkpoint. It is killed if the
command fails with a message that names the thing.
"""

import argparse
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.leaderboards.definitions import definitions
from harness.leaderboards.published_results import PAPERS
from harness.models.dt_r1 import catalog
from harness.rehearsal import amounts, standins
from harness.rehearsal.command import TablePlan, replacements
from harness.rehearsal.process import Replacements, play
from harness.rehearsal.stages import Children, Outcome, Stage, warm_up
from harness.spec import parse, slug
from harness.testing.shapes import writers

KINDS = ("checkpoint", "key", "prompt", "node", "judge", "file")
FILES = (
    "config.json",
    "preprocessor_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "chat_template.json",
    "chat_template.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
)
"""Files whose loss a loader has to notice, where a checkpoint has them."""
SERVED = re.compile(r"openai\([^()]*\)")
"""A model behind a server, whose files are the server's."""
SAYS = {
    "chat_template.json": ("chat template",),
    "chat_template.jinja": ("chat template",),
    "tokenizer.json": ("tokenizer",),
    "vocab.json": ("tokenizer",),
    "merges.txt": ("tokenizer",),
    "tokenizer_config.json": ("tokenizer",),
    "preprocessor_config.json": ("processor",),
}
"""Words that name a file's part, where a message does not name the file."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A command with one thing broken."""

    kind: str
    what: str
    stage: Stage
    expected: tuple[str, ...]
    """Texts, one of which the error has to have."""
    prepare: Callable[[Replacements], Replacements] = field(default=lambda replacing: replacing)
    """Breaks what is no argument, in the process of the command."""

    @property
    def name(self) -> str:
        """Kind and thing."""
        return f"{self.kind} {self.what}"


def mutants(out: Path, kinds: Sequence[str] = KINDS) -> Iterator[Mutant]:
    """Yield every mutant of the papers' tables."""
    plan = TablePlan(out)
    for definition in definitions():
        if definition.paper in PAPERS:
            plan.add(definition)
    stages = [replace(stage, after=(), processes=1) for stage in plan.stages.values()]
    makers = {
        "checkpoint": lambda: checkpoints(stages),
        "key": lambda: keys(stages, out / "configs"),
        "prompt": lambda: prompts(stages),
        "node": lambda: nodes(stages),
        "judge": lambda: judges(stages),
        "file": lambda: files(stages),
    }
    for kind in kinds:
        yield from makers[kind]()


def model_of(stage: Stage) -> str:
    """Return the SPEC that a command names as its model; empty where a configuration does."""
    arguments = list(stage.arguments)
    return arguments[arguments.index("--model") + 1] if "--model" in arguments else ""


def config_of(stage: Stage) -> tuple[str, Path] | None:
    """Return the method of a training and the file of its configuration."""
    arguments = list(stage.arguments)
    if arguments[0] != "train":
        return None
    method, name = (arguments[arguments.index(option) + 1] for option in ("--method", "--config"))
    root = Path(__file__).parents[2] / "trainers" / method / "configs"
    return method, root / f"{name}.toml"


def named(text: str) -> list[str]:
    """Return the published names in a text."""
    return [name for name in standins.names() if f"={name}" in text]


def checkpoints(stages: Sequence[Stage]) -> Iterator[Mutant]:
    """Yield commands whose checkpoint has another name, one for each adapter and name."""
    done = set()
    for stage in stages:
        model = model_of(stage)
        if not model or "{" in model:
            continue
        for name in named(model):
            what = f"{parse(model).name}: {name}"
            if "/trainings/" in model or what in done:
                continue
            done.add(what)
            broken = [text.replace(name, f"{name}-lost") for text in stage.arguments]
            yield Mutant(
                kind="checkpoint",
                what=what,
                stage=replace(stage, arguments=tuple(broken)),
                expected=(f"{name}-lost",),
            )
    for stage, (method, path) in trainings(stages):
        for name in named(read_in_training(path).replace('"', "=")):
            what = f"{method} {path.stem}: {name}"
            text = path.read_text("utf-8").replace(name, f"{name}-lost")
            yield of_config(
                stage, path, text, kind="checkpoint", what=what, expected=f"{name}-lost"
            )


def read_in_training(path: Path) -> str:
    """Return a configuration without comments and what only a later evaluation reads."""
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("#", "eval_model")))


def trainings(stages: Sequence[Stage]) -> Iterator[tuple[Stage, tuple[str, Path]]]:
    """Yield the trainings that begin with published weights."""
    for stage in stages:
        config = config_of(stage)
        if config is not None and "--model" not in stage.arguments:
            yield stage, config


def of_config(
    stage: Stage, path: Path, text: str, *, kind: str, what: str, expected: str
) -> Mutant:
    """Return a training with another text of its configuration."""

    def write(replacing: Replacements) -> Replacements:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return replacing

    target = Path(tempfile.gettempdir()) / f"mutants-{slug(what)}.toml"
    arguments = [str(target) if one == path.stem else one for one in stage.arguments]
    return Mutant(
        kind=kind,
        what=what,
        stage=replace(stage, arguments=tuple(arguments)),
        expected=(expected,),
        prepare=write,
    )


def keys(stages: Sequence[Stage], folder: Path) -> Iterator[Mutant]:
    """Yield trainings of whose configuration one key is misspelt."""
    del folder
    for stage, (method, path) in trainings(stages):
        text = path.read_text("utf-8")
        for key in tomllib.loads(text):
            if key in ("eval_model",):  # only a checkpoint's later evaluation reads it
                continue
            lines = [
                f"{key}_x{line.removeprefix(key)}"
                if line.startswith((f"{key} ", f"{key}="))
                else line
                for line in text.splitlines()
            ]
            what = f"{method} {path.stem}: {key}"
            broken = "\n".join(lines)
            yield of_config(stage, path, broken, kind="key", what=what, expected=f"{key}_x")


def prompts(stages: Sequence[Stage]) -> Iterator[Mutant]:
    """Yield commands of adapters a place in whose prompt is lost."""
    done = set()
    root = Path(__file__).parents[2] / "models"
    for stage in stages:
        config, model = config_of(stage), model_of(stage)
        if config is not None and not model:
            model = tomllib.loads(config[1].read_text("utf-8"))["model"]
        name = parse(model).name if model and "/trainings/" not in model else ""
        for path in sorted((root / name).glob("*.txt")) if name else ():
            text = path.read_text("utf-8")
            if (name, path.name) in done or "{Question}" not in text:
                continue
            if path.stem in ("sam3", "prompt_direct", "coarse", "fine"):  # of other settings
                continue
            if name == "qwen_vl" and f"prompt={path.stem}" not in model:
                continue
            done.add((name, path.name))
            yield Mutant(
                kind="prompt",
                what=f"{name}/{path.name}",
                stage=stage,
                expected=("{Question}",),
                prepare=losing_place(f"harness.models.{name}", path.name),
            )


def losing_place(package: str, name: str) -> Callable[[Replacements], Replacements]:
    """Return what takes the question's place out of a prompt in this process."""

    def prepare(replacing: Replacements) -> Replacements:
        from harness.models import prompts as texts

        read = texts.text_of.__wrapped__

        def text_of(package_: str, name_: str) -> str:
            text = read(package_, name_)
            lost = (package_, name_) == (package, name)
            return text.replace("{Question}", "the thing") if lost else text

        for module in list(sys.modules.values()):
            if getattr(module, "text_of", None) is texts.text_of and module is not texts:
                module.text_of = text_of
        texts.text_of = text_of
        return replacing

    return prepare


def nodes(stages: Sequence[Stage]) -> Iterator[Mutant]:
    """Yield commands of digital twins of whose preset one node, or its checkpoint, is broken."""
    stage = next(stage for stage in stages if config_of(stage) and "dt_r1" in stage.arguments)
    for role, node in catalog.PRESETS["paper"].items():
        yield Mutant(
            kind="node",
            what=f"{role}: no such node",
            stage=stage,
            expected=("lost_node",),
            prepare=with_node(role, "lost_node"),
        )
        for name in named(node):
            yield Mutant(
                kind="node",
                what=f"{role}: {name}",
                stage=stage,
                expected=(f"{name}-lost",),
                prepare=with_node(role, node.replace(name, f"{name}-lost")),
            )


def with_node(role: str, node: str) -> Callable[[Replacements], Replacements]:
    """Return what puts another node behind a role of the paper's preset in this process."""

    def prepare(replacing: Replacements) -> Replacements:
        preset = {**catalog.PRESETS["paper"], role: node}
        catalog.PRESETS = {**catalog.PRESETS, "paper": preset}  # type: ignore[misc]
        return replacing

    return prepare


def judges(stages: Sequence[Stage]) -> Iterator[Mutant]:
    """Yield commands whose judge is not one."""
    for stage in stages:
        if "--judge" in stage.arguments:
            arguments = list(stage.arguments)
            place = arguments.index("--judge") + 1
            arguments[place] = arguments[place].replace("chat(", "lost_judge(", 1)
            yield Mutant(
                kind="judge",
                what=f"evaluation of {parse(model_of(stage)).name}",
                stage=replace(stage, arguments=tuple(arguments)),
                expected=("lost_judge",),
            )
            break
    for stage, (method, path) in trainings(stages):
        text = path.read_text("utf-8")
        if "judge = " in text:
            broken = text.replace('judge = "chat(', 'judge = "lost_judge(')
            what = f"{method} {path.stem}"
            yield of_config(stage, path, broken, kind="judge", what=what, expected="lost_judge")


def files(stages: Sequence[Stage]) -> Iterator[Mutant]:
    """Yield commands of whose checkpoint one file is lost, one for each name and file."""
    done = set()
    with tempfile.TemporaryDirectory() as cache:
        for stage in stages:
            model = model_of(stage)
            local = SERVED.sub("", model)
            for name in named(local) if "/trainings/" not in model else ():
                folder = standins.make(name, None, Path(cache))
                for file in FILES:
                    if spared(folder, file):
                        continue
                    if (folder / file).is_file() and (name, file) not in done:
                        done.add((name, file))
                        yield Mutant(
                            kind="file",
                            what=f"{name}: {file}",
                            stage=stage,
                            expected=(file, *SAYS.get(file, ())),
                            prepare=without_file(name, file),
                        )


def spared(folder: Path, file: str) -> bool:
    """Return whether the other form of a tokenizer stands in for a lost file."""
    if file == "tokenizer.json":
        return (folder / "vocab.json").is_file()
    return file in ("vocab.json", "merges.txt") and (folder / "tokenizer.json").is_file()


def without_file(name: str, file: str) -> Callable[[Replacements], Replacements]:
    """Return what gives this process a cache in which a checkpoint lacks a file."""

    def prepare(replacing: Replacements) -> Replacements:
        cache = Path(tempfile.mkdtemp(prefix="mutants-"))
        (standins.make(name, None, cache) / file).unlink()
        return replace(replacing, cache=cache)

    return prepare


def try_all(chosen: Sequence[Mutant], out: Path) -> list[str]:
    """Run mutants; return a line for each that was not killed."""
    survivors: list[str] = []
    named_ = {f"{number} {mutant.name}": mutant for number, mutant in enumerate(chosen)}

    def run(arguments: Sequence[str]) -> int:
        number, *command = arguments
        mutant = chosen[int(number)]
        changed = mutant.prepare(replacing)
        try:
            return play(changed, command)
        finally:
            if changed.cache != replacing.cache:
                shutil.rmtree(changed.cache, ignore_errors=True)

    def ended(stage: Stage, outcome: Outcome) -> None:
        mutant = named_[stage.name]
        text = (out / "logs" / f"{slug(stage.name)}.err").read_text("utf-8", "replace")
        killed = outcome.code not in (0, 70) and any(part in text for part in mutant.expected)
        print(f"{'killed' if killed else 'SURVIVED':<8} {outcome.seconds:5.1f} s  {mutant.name}")
        if not killed:
            survivors.append(f"{mutant.name}: code {outcome.code}, {outcome.reason}")

    with replacements(standins.served()) as replacing:
        amounts.make_world(out / "data", [*writers()])
        warm_up()
        stages = [
            replace(mutant.stage, name=name, arguments=(str(number), *fresh(mutant, number, out)))
            for number, (name, mutant) in enumerate(named_.items())
        ]
        Children(run, out / "logs", at_once=2).play(stages, ended)
    return survivors


def fresh(mutant: Mutant, number: int, out: Path) -> list[str]:
    """Return a mutant's command with an output folder of its own."""
    arguments = list(mutant.stage.arguments)
    arguments[arguments.index("--out") + 1] = str(out / "out" / str(number))
    return arguments


def sample(every: Sequence[Mutant], size: int) -> list[Mutant]:
    """Return so many mutants, of each kind in turn, spread over all of a kind."""
    by_kind = [[mutant for mutant in every if mutant.kind == kind] for kind in KINDS]
    chosen: list[Mutant] = []
    for turn in range(size):
        members = by_kind[turn % len(by_kind)]
        if members:
            chosen.append(members[(turn // len(by_kind)) * len(members) // 2 % len(members)])
    return list({mutant.name: mutant for mutant in chosen}.values())


def main() -> int:
    """Run the mutants that are asked for; return 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rehearsal-mutants-") as folder:
        out = Path(folder)
        every = list(mutants(out, given.kind or KINDS))
        chosen = sample(every, given.sample) if given.sample else every
        if given.list:
            print("\n".join(mutant.name for mutant in chosen))
            return 0
        survivors = try_all(chosen, out)
    print("\n".join([f"{len(chosen)} mutants, {len(survivors)} survived", *survivors]))
    return int(bool(survivors))


if __name__ == "__main__":
    raise SystemExit(main())
