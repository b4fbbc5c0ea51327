"""Settings by which a vendor evaluates its own network, from a TOML file each.

    family = "Qwen3-VL Instruct"
    source = "…"                       where each value is from
    unverified = ["min_pixels: …"]     what the source does not say, and what is taken here
    [settings]                         options of a composition: frames, max_new_tokens, system
    [backend]                          options of a backend: temperature, top_p, …

What a SPEC gives itself beats the file; the difference is said as the run's deviations
(`harness.papers`).
"""

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib.resources import files
from typing import Any, TypeVar

from harness import plugins
from harness.errors import UsageError
from harness.frames import frame_policy
from harness.spec import Spec, parse

FOLDER = files("harness.models.vendors")
SUFFIX = ".toml"

M = TypeVar("M")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSettings:
    """The settings of one vendor's evaluation."""

    name: str
    family: str
    source: str
    unverified: tuple[str, ...]
    """Values that the source does not give."""
    settings: Mapping[str, str | int]
    backend: Mapping[str, str | float | bool] = field(default_factory=dict)

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: values, but not the words about them."""
        return {"name": self.name, "settings": self.settings, "backend": self.backend}

    def fill(self, given: Mapping[str, Any], *, backend: object) -> dict[str, Any]:
        """Return the options of a model: those given, and the vendor's for the others.

        Args:
            given: Options of the SPEC.
            backend: The model's own default of `backend`.
        """
        chosen = given.get("backend", backend)
        if isinstance(chosen, Spec):
            taken = [
                option
                for option in self.backend
                if plugins.accepts("backends", chosen.name, option)
            ]
            chosen = chosen.with_defaults(**{option: self.backend[option] for option in taken})
        own = dict(self.settings)
        if "frames" in own:
            own["frames"] = parse(str(own["frames"]))  # type: ignore[assignment]
        return {**own, **given, "backend": chosen}


def names() -> list[str]:
    """Return the names of the settings that are here."""
    file_names = (path.name for path in FOLDER.iterdir())
    return sorted(name.removesuffix(SUFFIX) for name in file_names if name.endswith(SUFFIX))


@cache
def vendor_settings(name: str) -> VendorSettings:
    """Return the settings of a name.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in names():
        raise UsageError(f"vendor={name}", expected=f"one of {', '.join(names())}", found=name)
    plain = tomllib.loads(FOLDER.joinpath(name + SUFFIX).read_text("utf-8"))
    plain["unverified"] = tuple(plain.get("unverified", ()))
    if "frames" in plain["settings"]:
        plain["settings"]["frames"] = str(frame_policy(plain["settings"]["frames"]))
    return VendorSettings(name=name, **plain)


def with_vendor_settings(function: Callable[..., M]) -> Callable[..., M]:
    """Let a model function that has an option `vendor` take what is not given from its settings."""
    usual = inspect.signature(function).parameters["backend"].default

    @wraps(function)
    def built(**given: Any) -> M:
        name = given.get("vendor")
        return function(
            **(given if name is None else vendor_settings(name).fill(given, backend=usual))
        )

    return built
