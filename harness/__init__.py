"""Score models on tasks, train them with trainers, publish leaderboards: visual reasoning.

The names below are the public interface (docs/api.md); each is imported when it is first used, so
that `import harness` costs nothing. What plugins build on is documented in docs/plugins.md.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api import (
        ScoredSample,
        compare,
        evaluate,
        load_model,
        load_task,
        read_run,
        read_samples,
        score,
    )
    from harness.errors import HarnessError
    from harness.masks import Rle
    from harness.media import Media, open_image
    from harness.model import Model
    from harness.record import Run
    from harness.statistics.paired import Comparison
    from harness.task import Task
    from harness.types import (
        Answer,
        AnswerForm,
        Box,
        Failure,
        Interval,
        Point,
        Prediction,
        Query,
        Sample,
        Target,
    )

__version__: str  # of `harness.version`
__all__ = [
    "Answer",
    "AnswerForm",
    "Box",
    "Comparison",
    "Failure",
    "HarnessError",
    "Interval",
    "Media",
    "Model",
    "Point",
    "Prediction",
    "Query",
    "Rle",
    "Run",
    "Sample",
    "ScoredSample",
    "Target",
    "Task",
    "compare",
    "evaluate",
    "load_model",
    "load_task",
    "open_image",
    "read_run",
    "read_samples",
    "score",
]

_MODULE_BY_NAME = {
    "__version__": "harness.version",
    "Comparison": "harness.statistics.paired",
    "HarnessError": "harness.errors",
    "Media": "harness.media",
    "Model": "harness.model",
    "Rle": "harness.masks",
    "Run": "harness.record",
    "Task": "harness.task",
    "open_image": "harness.media",
} | dict.fromkeys(
    (
        "Answer",
        "AnswerForm",
        "Box",
        "Failure",
        "Interval",
        "Point",
        "Prediction",
        "Query",
        "Sample",
        "Target",
    ),
    "harness.types",
)
"""The module of each public name; the rest are in `harness.api`."""


def __getattr__(name: str) -> object:
    """Import a public name from its module, once."""
    if name not in {*__all__, "__version__"}:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_BY_NAME.get(name, "harness.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})


class _RoomFinder:
    """Finds the packages `tasks`, `models`, `trainers` and `leaderboards` beside `harness/`.

    A clone or an archive may lack the links in `harness/` to their folders.
    """

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Return the location of such a package; None for any other module.

        Raises:
            ModuleNotFoundError: the package's folder is missing.
        """
        package, _, room = name.rpartition(".")
        if package != "harness" or room not in ("tasks", "models", "trainers", "leaderboards"):
            return None
        module = Path(__file__).parents[1] / room / "__init__.py"
        if not module.is_file():
            raise ModuleNotFoundError(
                f"{name}: expected its folder at {module.parent}, found none. "
                "Clone the repository again, or install the package again.",
                name=name,
            )
        return spec_from_file_location(name, module)


sys.meta_path.append(_RoomFinder())  # at the end: a folder inside the package comes first
