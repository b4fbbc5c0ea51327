"""`harness env prepare`: make the Python environments that models name by `uv(…)`."""

from argparse import Namespace

from harness.cli.model_choice import model_specs
from harness.cli.output import tell
from harness.errors import UsageError
from harness.store.lease import lease
from harness.uv_environment import environments_of


def prepare(arguments: Namespace) -> int:
    """Make each environment of `--model` that is not there yet."""
    specs = model_specs(arguments.model)
    environments = list(dict.fromkeys(env for spec in specs for env in environments_of(spec)))
    if not environments:
        raise UsageError(
            "--model", expected="backend=uv(…) or environment=uv(…) in a SPEC", found="neither"
        )
    for environment in environments:
        locked = environment.folder.with_name(f"{environment.folder.name}.lock")
        locked.mkdir(parents=True, exist_ok=True)
        with lease(locked):
            done = "made" if environment.prepare() else "is there"
        data = {"environment": str(environment), "folder": str(environment.folder)}
        tell(arguments, data, f"{environment}: {done}, {len(environment.packages)} packages")
    return 0
