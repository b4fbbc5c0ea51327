"""Outcomes of a rehearsal's commands, kept in its folder, so that a killed rehearsal can resume.

The first line of `outcomes.jsonl` is the plan: the packages, the time of the last change of
harness's code, the code of other packages' plugins, and the commands. Each further line is the
outcome of a command that ended with 0. A rehearsal with another plan begins anew; one that ends
removes the file.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from harness.plugin_code import plugin_code
from harness.provenance import packages
from harness.rehearsal.stages import Outcome, Stage

OUTCOMES_FILE = "outcomes.jsonl"
WORD = re.compile(r"[A-Za-z_][\w.-]*")
"""Words of a command, among them the names of its plugins."""
ROOMS = ("harness", "harness.tasks", "harness.models", "harness.trainers", "harness.leaderboards")
"""Packages with the harness's code."""


def _modules() -> Iterator[Path]:
    """Yield the files of the harness's code."""
    for room in ROOMS:
        folder = Path(str(import_module(room).__file__)).parent
        for inside, _, names in os.walk(folder):  # which follows no links
            yield from (Path(inside, name) for name in names if name.endswith((".py", ".toml")))


class KeptOutcomes:
    """The outcomes of commands that ended with 0, read and written in a rehearsal's folder."""

    def __init__(self, folder: Path, stages: Sequence[Stage]) -> None:
        self._path = folder / OUTCOMES_FILE
        # A training that is resumed, as its folder exists, is the same command.
        commands = [stage.line.replace(" --resume ", " ") for stage in stages]
        self._plan = {
            "packages": packages(),
            "changed": max(path.stat().st_mtime_ns for path in _modules()),
            "commands": commands,
            "plugins": plugin_code(WORD.findall(" ".join(commands))),
        }
        self.outcomes = self._read()
        """Outcomes of an earlier rehearsal of this plan that did not end, by the stages' names."""

    def _read(self) -> Mapping[str, Outcome]:
        try:
            text = self._path.read_text(encoding="utf-8")
            # A line that a killed process did not end is left out.
            plan, *lines = map(json.loads, text.rpartition("\n")[0].splitlines() or ["null"])
        except (OSError, ValueError):  # no file, or another program's
            return {}
        if plan != self._plan:
            return {}
        return {line.pop("name"): Outcome(**line) for line in lines}

    def begin(self) -> None:
        """Write the plan and the earlier outcomes."""
        self._path.write_text(json.dumps(self._plan) + "\n", encoding="utf-8")
        for name, outcome in self.outcomes.items():
            self.add(name, outcome)

    def add(self, name: str, outcome: Outcome) -> None:
        """Keep the outcome of a stage if its command ended with 0."""
        if outcome.code == 0:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, **asdict(outcome)}) + "\n")

    def end(self) -> None:
        """Remove the file: the next rehearsal begins anew."""
        self._path.unlink(missing_ok=True)
