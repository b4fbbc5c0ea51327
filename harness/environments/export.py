"""`harness env export`: a package a task that verifiers and OpenEnv load."""

import json
import re
from argparse import Namespace
from dataclasses import asdict
from importlib.resources import files
from string import Template

from harness import plugins
from harness.cli.output import tell, write_text
from harness.cli.spec_arguments import require, specs
from harness.environments.session import EnvironmentSettings, open_environment
from harness.errors import DataError, HarnessError, printable
from harness.spec import Spec

OPTIONS = ("model", "reward", "judge", "subset")
"""Options of the command that `EnvironmentSettings` has too."""


def export(arguments: Namespace) -> int:
    """Write a package for each task, whose first prompt and reward were tried."""
    require(
        arguments,
        "data",
        out="a folder for the packages",
        model="whose prompts and grammar are used, such as qwen_vl(checkpoint=…)",
    )
    requested = specs(arguments.tasks, "--tasks") if arguments.tasks else None
    names = sorted(plugins.installed_plugins("tasks"))
    written: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for spec in requested or map(Spec, names):
        try:
            written[_write(arguments, str(spec))] = str(spec)
        except HarnessError as error:
            if requested is not None:
                raise
            left_out[str(spec)] = str(error)
    if not written:
        raise DataError(f"--data {arguments.data}", expected="a benchmark", found="none")
    first = next(iter(written))
    tell(
        arguments,
        {"out": str(arguments.out), "packages": written, "left_out": left_out},
        *(printable(f"{name}: left out, {why}") for name, why in left_out.items()),
        f"pip install -e {arguments.out / first}",
        f"vf-eval {first.replace('_', '-')} -m POLICY --client.base-url http://localhost:8000/v1 "
        "--no-push",
    )
    return 0


def _write(arguments: Namespace, spec: str) -> str:
    """Write a task's package; return its name."""
    given = {name: getattr(arguments, name) or "" for name in OPTIONS}
    settings = EnvironmentSettings(task=spec, data=str(arguments.data.resolve()), **given)
    environment = open_environment(settings)
    unit = next(iter(environment.units))
    environment.prompt(unit)
    environment.score(unit, environment.read(unit, []))
    name = "harness_" + re.sub(r"\W+", "_", spec).strip("_").lower()
    values = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "task": spec,
        "version": environment.task.version,
        "reward": environment.reward_name,
        "fields": "\n".join(
            f"    {'spec' if key == 'task' else key}: str = {json.dumps(value)}"
            for key, value in asdict(settings).items()
        ),
        "arguments": "\n".join(
            f"    {key}={json.dumps(value)}," for key, value in asdict(settings).items()
        ),
    }
    folder = arguments.out / name
    for file, target in (
        ("module.txt", f"{name}.py"),
        ("server.txt", f"{name}_server.py"),
        ("pyproject.txt", "pyproject.toml"),
        ("readme.txt", "README.md"),
    ):
        text = files(__package__).joinpath(file).read_text("utf-8")
        write_text(folder / target, Template(text).substitute(values))
    return name
