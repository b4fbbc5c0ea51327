"""The option `--rehearse` of `harness eval`, `train` and `reproduce`.

A rehearsal runs the same SPECs, configurations, boards and commands with checkpoints, servers, data
and amounts replaced (`process`, `amounts`), and prints the replacements. Its runs are marked in
their records, so that normal boards do not show them. `reproduce` rehearses tables of papers, whose
commands run in forked processes (`TablePlan`); `evaluate_or_sweep` and `train` rehearse one command
in this process.
"""

import io
import os
import shlex
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.cli.main import build_parser
from harness.cli.reproduce import OUT as REPRODUCED
from harness.cli.sweep import models_of
from harness.cli.train import configured
from harness.errors import UsageError, counted
from harness.files import cache_folder
from harness.leaderboards import table_commands as tables
from harness.leaderboards.definitions import BoardRow, Definition, definitions, find, with_rows
from harness.leaderboards.estimate import device_of
from harness.leaderboards.published_results import PAPERS
from harness.leaderboards.servers import Package
from harness.rehearsal import amounts, report, responses, server, standins
from harness.rehearsal.kept import KeptOutcomes
from harness.rehearsal.own_prompts import own_grammar, own_prompts
from harness.rehearsal.process import Replacements, play
from harness.rehearsal.report import RehearsedRow, tasks_of
from harness.rehearsal.stages import Children, Outcome, Stage, free_port, warm_up
from harness.run.processes import die_with
from harness.spec import parse, slug
from harness.store.lease import lease
from harness.summary import is_unanswered

DEFAULT_OUT = Path("rehearsal")
"""Folder of a rehearsal of tables without `--out`."""
REPORT_FILE = "rehearsal.md"
"""File of the report, in the rehearsal's folder."""
MARKER_FILE = ".harness-rehearsal"
"""File that marks a folder as a rehearsal's, which may be emptied."""
OUTPUT_FOLDERS = ("data", "files", "logs", "runs", "trainings")
"""Folders that a rehearsal makes, besides its boards."""


def reproduce(arguments: Namespace) -> int:
    """Rehearse tables of papers; exit code 1 if a row that is not left out did not run."""
    if arguments.dry_run:
        raise UsageError(
            "harness reproduce",
            expected="--rehearse, which runs the commands, or --dry-run, which prints them",
            found="both",
        )
    if arguments.all == bool(arguments.paper):
        raise UsageError(
            "harness reproduce --rehearse",
            expected="PAPER, PAPER TABLE, or --all",
            found="both or neither",
        )
    if arguments.table:
        chosen = [find(arguments.paper, arguments.table)]
    else:
        papers = PAPERS if arguments.all else {arguments.paper}
        chosen = [definition for definition in definitions() if definition.paper in papers]
    if not chosen:
        raise UsageError(
            f"paper {arguments.paper!r}", expected=", ".join(PAPERS), found=arguments.paper
        )
    out = DEFAULT_OUT if arguments.out == REPRODUCED else arguments.out
    chosen = with_rows(chosen, arguments.rows or ())
    _claim(out)
    with lease(out):
        return _rehearse_tables(chosen, out)


def _rehearse_tables(chosen: Sequence[Definition], out: Path) -> int:
    """Rehearse rows of tables in a folder; resume an interrupted rehearsal of the same rows."""
    plan = TablePlan.of(chosen, out)
    kept = KeptOutcomes(out, [*plan.stages.values()])
    if kept.outcomes and (out / "data").is_dir():
        done = counted(len(kept.outcomes), "command")
        _tell(f"resumes in {out}, where {done} ended before")
    else:
        _empty(out)
        kept.outcomes = {}
        plan = TablePlan.of(chosen, out)  # anew: commands depend on the trainings in the folder
    kept.begin()
    with replacements(standins.served()) as replacing:
        world = amounts.make_world(out / "data", sorted(plan.tasks), _show_benchmark)
        rows = plan.play(replacing, kept)
    kept.end()
    parts, lines = [*_always(replacing), world], amounts.described(plan.replaced)
    (out / REPORT_FILE).write_text(report.as_markdown(rows, parts, plan.replaced), encoding="utf-8")
    print("\n".join(["replaced:", *(f"  {line}" for line in [*parts, *lines]), ""]))
    print(report.as_text(rows))
    print(f"the page: {out / REPORT_FILE}; what each command printed: {out / 'logs'}")
    return int(any(row.state in ("failed", "undeclared") for row in rows))


def evaluate_or_sweep(arguments: Namespace) -> int:
    """Rehearse `harness eval` as typed; return the exit code."""
    tasks = sorted(amounts.tasks_of(arguments.tasks))
    data = _data(arguments, tasks)
    replaced = [amounts.make_world(data, tasks, _show_benchmark), *_unread(arguments)]
    if models := list(own_prompts(models_of(arguments))):
        forms = amounts.forms_of(arguments.tasks, data)
        responses.OWN_GRAMMARS[:] = [own_grammar(model, forms) for model in models]
    with replacements() as replacing:
        return _run_command(replacing, amounts.with_data(_typed(arguments), data), replaced)


def train(arguments: Namespace) -> int:
    """Rehearse `harness train` as typed; return the exit code."""
    if arguments.dry_run:
        raise UsageError(
            "harness train",
            expected="--rehearse, which trains stand-ins, or --dry-run, which only checks",
            found="both",
        )
    given, _ = configured(arguments)
    tasks = sorted(amounts.tasks_of([*(given.train_tasks or ()), *(given.eval_tasks or ())]))
    data = _data(arguments, tasks)
    small, changes = amounts.training(arguments, 1, data)
    with replacements() as replacing:
        lines = [*amounts.described(changes), *_unread(arguments)]
        replaced = [amounts.make_world(data, tasks, _show_benchmark), *lines]
        data.mkdir(parents=True, exist_ok=True)
        typed = amounts.combined(amounts.with_data(_typed(arguments), data), small)
        return _run_command(replacing, typed, replaced)


def _unread(arguments: Namespace) -> list[str]:
    """Return a line that the typed data root is not read, if one was typed."""
    return [] if arguments.data is None else [f"your --data {arguments.data} is not read"]


def _data(arguments: Namespace, tasks: Sequence[str]) -> Path:
    """Return the folder for a command's data, beside its output, named by its tasks."""
    out = Path(arguments.out or DEFAULT_OUT).resolve()
    return out.with_name(f"{out.name}-data") / slug("-".join(tasks))


def _typed(arguments: Namespace) -> list[str]:
    return [text for text in arguments.typed if text != "--rehearse"]


def _run_command(replacing: Replacements, arguments: Sequence[str], replaced: Sequence[str]) -> int:
    """Run one rehearsed command in this process; return its exit code.

    An evaluation without any answer is repeated with other responses, as in `TablePlan`.
    """
    print("rehearsal: " + "; ".join([*_always(replacing), *replaced]), file=sys.stderr)
    print(f"rehearsal: {shlex.join(['harness', *arguments])}", file=sys.stderr)
    with redirect_stdout(io.StringIO()) as printed:
        code = play(replacing, arguments)
    if code == 1 and arguments[0] == "eval":
        _tell("no sample has an answer: it is repeated with other responses")
        code = play(replacing, [*arguments, "--retry-failed"], seed=1)
    else:
        sys.stdout.write(printed.getvalue())
    print(f"rehearsal: {report.NOT_SHOWN}", file=sys.stderr)
    return code


def _always(replacing: Replacements) -> list[str]:
    """Return lines on the replacements that every rehearsal has."""
    cache = replacing.cache
    if cache.is_relative_to(Path.home()):
        cache = "~" / cache.relative_to(Path.home())
    return [
        "checkpoints: stand-ins of the same classes and files, tiny, with random weights, in "
        f"{cache}; what they say is drawn from the methods' grammars, with errors",
        "servers: one on this machine, which answers for all",
        "devices: the CPU",
    ]


@contextmanager
def replacements(models: Sequence[str] = ()) -> Iterator[Replacements]:
    """Start the server, and point this process at the stand-ins, until the end of the block.

    Args:
        models: Names that the server answers for; none: any, as for a SPEC of the user's own.
    """
    port = free_port()
    replacing = Replacements(cache=_cache(), port=port)
    replacing.enter()
    parent = os.getpid()
    process = os.fork()  # the server's process, which ends with this one
    if process == 0:
        die_with(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with server.serve(port=port, models=models):
                signal.pause()
        finally:
            os._exit(1)
    try:
        yield replacing
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _cache() -> Path:
    """Return the folder that stand-ins are kept in between rehearsals."""
    return cache_folder() / "stand-ins"


def _claim(out: Path) -> None:
    """Mark a new folder as a rehearsal's; raise UsageError for another that is not empty."""
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER_FILE).is_file():
        raise UsageError(
            f"--out {out}", expected="a new folder, or an earlier rehearsal's", found="another"
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER_FILE).touch()


def _empty(out: Path) -> None:
    """Remove what an earlier rehearsal left in its folder."""
    boards = [f"{definition.paper}-{definition.table}" for definition in definitions()]
    for name in (*OUTPUT_FOLDERS, *boards):
        shutil.rmtree(out / name, ignore_errors=True)


class TablePlan:
    """The commands of tables as stages, each command once, and the rows that need them."""

    def __init__(self, out: Path) -> None:
        self.out = out.resolve()
        self.stages: dict[tuple[str, ...], Stage] = {}
        self.rows: list[tuple[Definition, BoardRow, list[Stage]]] = []
        self.missing: dict[str, str] = {}
        """Packages that stages need and that are not installed, by the stages' names."""
        self.tasks: set[str] = set()
        """Tasks that the commands train on and evaluate."""
        self.definitions: list[Definition] = []
        self.replaced: list[amounts.Replaced] = []
        device = device_of("CPU")
        assert device is not None, "it is in the list"
        self.device = device

    @classmethod
    def of(cls, chosen: Sequence[Definition], out: Path) -> "TablePlan":
        """Return the plan of several tables."""
        plan = cls(out)
        for definition in chosen:
            plan.add(definition)
        return plan

    def add(self, definition: Definition) -> None:
        """Add the rows of a table."""
        self.definitions.append(definition)
        for row in definition.rows:
            self.rows.append((definition, row, list(self._stages(definition, row))))

    def _stages(self, definition: Definition, row: BoardRow) -> Iterator[Stage]:
        """Yield the trainings and evaluations of a row; none if the row has no model."""
        if not row.model:
            return
        data, place = str(self.out / "data"), (self.out, self.device)
        trained: list[str] = []
        for step in tables.trainings(definition, parse(row.model), data, *place):
            stage = self._training(step, trained)
            trained.append(stage.name)
            yield stage
        for step in tables.evaluations(definition, row, data, *place):
            command = (*step.command, "--json")
            self.tasks |= amounts.tasks_of([*step.samples])
            if command not in self.stages:
                name = f"eval {len(self.stages)}"
                model = command[command.index("--model") + 1]
                self.stages[command] = Stage(
                    name=name, arguments=command, after=tuple(trained), alone=model
                )
                packages = [need for need in step.needs if isinstance(need, Package)]
                if absent := [package.name for package in packages if not package.is_given]:
                    self.missing[name] = f"the package {' and '.join(absent)} is not installed"
            yield self.stages[command]

    def _training(self, step: tables.Step, before: Sequence[str]) -> Stage:
        """Return the stage of a training, reduced, after the stages named `before`."""
        if step.command not in self.stages:
            name = step.name.removeprefix("train ")
            processes = min(step.processes, amounts.MAX_PROCESSES)
            if processes < step.processes:
                published = str(step.processes)
                self.replaced.append(
                    amounts.Replaced("processes", f"{processes}", published, training=name)
                )
            typed = build_parser("train").parse_args(step.command)
            small, replaced = amounts.training(typed, processes, self.out / "files" / step.name)
            configuration, _ = configured(typed)
            tasks = [*(configuration.train_tasks or ()), *(configuration.eval_tasks or ())]
            self.tasks |= amounts.tasks_of(tasks)
            self.replaced += [replace(amount, training=name) for amount in replaced]
            self.stages[step.command] = Stage(
                name=step.name,
                arguments=(*amounts.combined(step.command, small), "--json"),
                processes=processes,
                after=tuple(before),
            )
        return self.stages[step.command]

    def _repeat_unanswered(
        self, replacing: Replacements, outcomes: Mapping[str, Outcome]
    ) -> dict[str, Outcome]:
        """Repeat evaluations without any answer, with other responses; return their outcomes.

        Three of ten responses have errors on purpose, so that all of a few samples may have one.
        """
        again = [
            replace(stage, arguments=(*stage.arguments, "--retry-failed"), after=())
            for stage in self.stages.values()
            if (outcome := outcomes.get(stage.name)) is not None
            and (tasks := tasks_of(stage, outcome))
            and all(map(is_unanswered, tasks))
        ]
        children = Children(
            partial(play, replacing, seed=1), self.out / "logs", at_once=_cores(), began=_announce
        )
        return children.play(again, _show)

    def play(self, replacing: Replacements, kept: KeptOutcomes) -> list[RehearsedRow]:
        """Run the stages without a kept outcome, build the boards, return a record of each row."""
        warm_up()
        children = Children(
            partial(play, replacing), self.out / "logs", at_once=_cores(), began=_announce
        )
        stages = [
            replace(stage, after=tuple(name for name in stage.after if name not in kept.outcomes))
            for stage in self.stages.values()
            if stage.name not in self.missing and stage.name not in kept.outcomes
        ]
        for stage in stages:
            if stage.arguments[0] == "train":
                (self.out / "files" / stage.name).mkdir(parents=True, exist_ok=True)
        count = counted(len(stages), "command")
        _tell(f"{count}, {children.at_once} at a time; logs: {children.logs}")

        def ended(stage: Stage, outcome: Outcome) -> None:
            kept.add(stage.name, outcome)
            _show(stage, outcome)

        outcomes = {**kept.outcomes, **children.play(stages, ended)}
        outcomes |= self._repeat_unanswered(replacing, outcomes)
        last = [
            Stage(name=f"{step.name} {definition.paper} {definition.table}", arguments=step.command)
            for definition in self.definitions
            for step in tables.boards(definition, self.out)
        ]
        written = children.play(last, _show)
        return [*self._lines(outcomes), *self._boards(last, written)]

    def _lines(self, outcomes: Mapping[str, Outcome]) -> Iterator[RehearsedRow]:
        """Yield a record of each row, with the outcomes of its stages."""
        for definition, row, stages in self.rows:
            absent = [self.missing[stage.name] for stage in stages if stage.name in self.missing]
            if absent:
                yield report.left_out(definition, row, absent[0])
            elif row.model:
                table_stages = [(stage, outcomes[stage.name]) for stage in dict.fromkeys(stages)]
                yield report.rehearsed(definition, row, table_stages)
            else:
                yield report.left_out(definition, row)

    def _boards(
        self, stages: Sequence[Stage], outcomes: Mapping[str, Outcome]
    ) -> Iterator[RehearsedRow]:
        """Yield a record of each board that was not written."""
        for stage in stages:
            if outcomes[stage.name].code != 0:
                *_, paper, table = stage.name.split(" ")
                line = RehearsedRow(paper=paper, table=table, row="the board", state="failed")
                yield replace(line, reason=outcomes[stage.name].reason)


def _cores() -> int:
    return min(2, len(os.sched_getaffinity(0)))


def _tell(text: str) -> None:
    print(f"rehearsal: {text}", file=sys.stderr, flush=True)


def _show_benchmark(done: int, total: int, name: str) -> None:
    if 0 < done < total - 1:  # the first step draws the scenes, the last one writes the manifest
        _tell(f"data of {name}, {done} of {total - 2}")


def _announce(stage: Stage) -> None:
    _tell(f"{stage.name} begins")


def _show(stage: Stage, outcome: Outcome) -> None:
    result = "ok" if outcome.code == 0 else outcome.reason
    _tell(f"{stage.name}: {outcome.seconds:.0f} s, {result}")
