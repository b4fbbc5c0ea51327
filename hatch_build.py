"""Refuse to build a package that lacks a room."""

from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WholeCheckout(BuildHookInterface[BuilderConfig]):
    """Check a checkout before a wheel, an sdist or an editable installation is made of it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compare the folders and files that pyproject.toml lists with those that are there.

        Hatchling itself passes over one that is missing.

        Raises:
            FileNotFoundError: one is missing.
        """
        listed = self.build_config.only_include
        if missing := [name for path, name in listed.items() if not Path(path).exists()]:
            raise FileNotFoundError(
                f"{self.root} lacks {', '.join(missing)}, and the package would lack it, too. "
                "Clone the repository again, or unpack the sdist again."
            )
