"""`harness env export`: writes a Python package for each task, for verifiers and OpenEnv.

A package names the task and its settings; its code is filled into the `*.txt` templates here.
"""

import re
from argparse import Namespace
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from shlex import quote
from string import Template

from harness import plugins
from harness.cli.output import tell, write_text
from harness.cli.spec_arguments import require, specs
from harness.environments.session import EnvironmentSettings, open_environment
from harness.errors import DataError, HarnessError, printable
from harness.spec import Spec

SHARED_OPTIONS = ("model", "reward", "judge", "subset")
"""Options of the command that are fields of `EnvironmentSettings`."""


def export(arguments: Namespace) -> int:
    """Write a package for each task whose first prompt and reward can be computed; return 0.

    Without `--tasks`, tasks that fail are left out with a note.
    """
    require(
        arguments,
        "data",
        out="a folder for the packages",
        model="whose prompts and grammar are used, such as qwen_vl(checkpoint=…)",
    )
    requested = specs(arguments.tasks, "--tasks") if arguments.tasks else None
    names = sorted(plugins.installed_plugins("tasks"))
    spec_of_package: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for spec in requested or map(Spec, names):
        try:
            spec_of_package[_write(arguments, str(spec))] = str(spec)
        except HarnessError as error:
            if requested is not None:
                raise
            left_out[str(spec)] = str(error)
    if not spec_of_package:
        raise DataError(f"--data {arguments.data}", expected="a benchmark", found="none")
    first, *others = spec_of_package
    tell(
        arguments,
        {"out": str(arguments.out), "packages": spec_of_package, "left_out": left_out},
        *(printable(f"{name}: left out, {why}") for name, why in left_out.items()),
        f"pip install -e {quote(str(arguments.out / first))}",
        f"vf-eval {first.replace('_', '-')} -m served --client.base-url http://127.0.0.1:8001/v1 "
        "--no-push",
        *([f"Likewise for {', '.join(others)}"] if others else ()),
    )
    return 0


def _write(arguments: Namespace, spec: str) -> str:
    """Write a task's package, after a trial of its first unit; return the package's name."""
    options = {name: getattr(arguments, name) or "" for name in SHARED_OPTIONS}
    settings = EnvironmentSettings(task=spec, data=str(arguments.data.resolve()), **options)
    environment = open_environment(settings)
    unit = next(iter(environment.units))
    environment.prompt(unit)
    environment.score(unit, environment.read(unit, []))
    name = package_name(spec)
    values = {
        "name": name,
        "dashed": name.replace("_", "-"),
        "task": spec,
        "version": environment.task.version,
        "reward": environment.reward_name,
        "fields": "\n".join(
            f"    {'spec' if key == 'task' else key}: str = {value!r}"
            for key, value in asdict(settings).items()
        ),
        "arguments": "\n".join(f"    {key}={value!r}," for key, value in asdict(settings).items()),
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


def package_name(spec: str) -> str:
    """Return the module name of a SPEC's package; two SPECs never share one.

    `reason_seg(split=train)` becomes `harness_reason_seg_split_train`. A SPEC with other signs,
    capitals or a `_` in its settings, which the name loses, gets a digest at the end.
    """
    plain = "harness_" + re.sub(r"\W+", "_", spec).strip("_").lower()
    if re.fullmatch(
        r"[a-z0-9]+(_[a-z0-9]+)*(\([a-z0-9]+=[a-z0-9]+(,[a-z0-9]+=[a-z0-9]+)*\))?", spec
    ):
        return plain
    return f"{plain[:60]}_{sha256(spec.encode()).hexdigest()[:8]}"
