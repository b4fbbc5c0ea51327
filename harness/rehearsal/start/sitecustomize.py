"""Python imports this when it starts with `PYTHONPATH` on this folder: see `responses.environment`.

The backend of transformers is imported when it is first needed; responses are forced from then on.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

BACKEND = "harness.models.backends.transformers"


class _Installing(Loader):
    """A loader that installs forced responses after the backend is loaded."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        from harness.rehearsal import responses

        responses.install(int(os.environ[responses.SEED]))


class _Finder(MetaPathFinder):
    """A finder that gives the backend's module the loader above, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != BACKEND:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Installing(spec.loader)
        return spec


if "HARNESS_REHEARSAL_SEED" in os.environ:
    sys.meta_path.insert(0, _Finder())
