"""Backend `uv`: run a model in a Python environment of its own.

The whole model runs in that environment's worker processes (`harness.run.interpreter`), which build
it with the backend inside `uv(…)`. This function runs only in commands without workers, and raises.
"""

from typing import NoReturn

from harness.errors import UsageError
from harness.spec import Spec


def uv(*, requirements: str, python: str = "", backend: Spec | None = None) -> NoReturn:
    """Another backend in an environment of its own, which `harness env prepare` makes by uv.

    Args:
        requirements: Packages with spaces between them (`"transformers==5.17.0 torch<3"`), or the
            path of a requirements file. What harness requires is installed too, unless they say
            otherwise.
        python: Version of its Python, from 3.11 on, in quotes.
        backend: The backend in it; None: the model's default.

    Raises:
        UsageError: always; `harness eval` and `harness.evaluate` begin the environment's workers.
    """
    del python, backend
    raise UsageError(
        f"backend=uv(requirements={requirements!r})",
        expected="`harness eval` or `harness.evaluate`, whose workers run in the environment",
        found="a command that builds the model in its own process",
    )
