"""Settings with which a vendor evaluates its own network, from a TOML file each.

    family = "Qwen3-VL Instruct"
    checkpoints = ["Qwen3-VL-*"]       names, without owner, of the networks that it is for
    tasks = ["video_mme"]              tasks that the vendor evaluates so, for `--as-vendor`
    source = "…"                       where each value is from
    unverified = ["min_pixels: …"]     what the source does not say, and what is taken here
    [settings]                         options of a composition: frames, max_new_tokens, system
    [backend]                          options of a backend: temperature, top_p, …
    [words]                            requests by the form of the answer, as in `Questions`

Options in a SPEC override the file; `harness.papers` reports the difference as deviations of the
run. Model functions with an option `vendor` are decorated by `with_vendor_settings`.
"""

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, wraps
from importlib.resources import files
from pathlib import PurePath
from typing import Any, TypeVar

from harness import plugins
from harness.errors import UsageError
from harness.frames import frame_policy
from harness.spec import Spec, parse

FOLDER = files("harness.models.vendors")
SUFFIX = ".toml"
IMAGE_PROCESSOR = "image_processor"  # an option of backends whose value is a SPEC

M = TypeVar("M")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSettings:
    """The settings of one vendor's evaluation."""

    name: str
    family: str
    source: str
    unverified: tuple[str, ...]
    """Sentences on values that the source does not state."""
    settings: Mapping[str, str | int]
    backend: Mapping[str, str | float | bool] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    """Requests by the form of the answer, in place of the model's own."""
    checkpoints: tuple[str, ...] = ()
    """Patterns of checkpoints' names, without owner, to which the settings apply."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks that the vendor evaluates with them."""

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: the values, without source and remarks."""
        wording = {"words": self.words} if self.words else {}
        return {"name": self.name, "settings": self.settings, "backend": self.backend, **wording}

    def note(self) -> str:
        """Return lines with every value, the source, and what the source does not state."""
        held = {**self.settings, **self.backend, **self.words}
        values = "; ".join(f"{name}={value}" for name, value in held.items())
        lacks = "".join(f"\n  not published: {sentence}" for sentence in self.unverified)
        return f"{self.name}: {values}\n  from {self.source}{lacks}"

    def is_for(self, checkpoint: str) -> bool:
        """Return True if the settings apply to a checkpoint, by its name or folder."""
        name = PurePath(checkpoint).name.lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.checkpoints)

    def fill(self, given: Mapping[str, Any], *, backend: object) -> dict[str, Any]:
        """Return the options of a model: those in its SPEC, and the vendor's for the others.

        Args:
            given: Options in the SPEC.
            backend: The model's own default of `backend`.
        """
        backend_spec = given.get("backend", backend)
        if isinstance(backend_spec, Spec):
            accepted = [
                option
                for option in self.backend
                if plugins.accepts("backends", backend_spec.name, option)
            ]
            values = {option: self.backend[option] for option in accepted}
            if IMAGE_PROCESSOR in values:
                values[IMAGE_PROCESSOR] = parse(str(values[IMAGE_PROCESSOR]))  # type: ignore[assignment]
            backend_spec = backend_spec.with_defaults(**values)
        vendor_options = dict(self.settings)
        if "frames" in vendor_options:
            vendor_options["frames"] = parse(str(vendor_options["frames"]))  # type: ignore[assignment]
        return {**vendor_options, **given, "backend": backend_spec}


def names() -> list[str]:
    """Return the names of all vendors' settings, sorted."""
    file_names = (path.name for path in FOLDER.iterdir())
    return sorted(name.removesuffix(SUFFIX) for name in file_names if name.endswith(SUFFIX))


@cache
def vendor_settings(name: str) -> VendorSettings:
    """Return the settings of a name.

    Raises:
        UsageError: no settings have this name.
    """
    if name not in names():
        raise UsageError(f"vendor={name}", expected=f"one of {', '.join(names())}", found=name)
    plain = tomllib.loads(FOLDER.joinpath(name + SUFFIX).read_text("utf-8"))
    for key in ("unverified", "checkpoints", "tasks"):
        plain[key] = tuple(plain.get(key, ()))
    if "frames" in plain["settings"]:
        plain["settings"]["frames"] = str(frame_policy(plain["settings"]["frames"]))
    if IMAGE_PROCESSOR in plain.get("backend", ()):
        plain["backend"][IMAGE_PROCESSOR] = str(parse(plain["backend"][IMAGE_PROCESSOR]))
    return VendorSettings(name=name, **plain)


def with_vendor_settings(function: Callable[..., M]) -> Callable[..., M]:
    """Return a model function that takes options which are not given from those of its `vendor`."""
    backend = inspect.signature(function).parameters["backend"].default

    @wraps(function)
    def built(**given: Any) -> M:
        name = given.get("vendor")
        return function(
            **(given if name is None else vendor_settings(name).fill(given, backend=backend))
        )

    return built
