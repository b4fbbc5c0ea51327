"""List the models of a sweep: one model under several settings of its SPEC (`--vary`).

`Sweep.models` yields the SPECs; `sweep.json` beside the run folders lets boards find the runs that
belong together (`sweep_of`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from harness.errors import StoreError, UsageError
from harness.spec import Spec, Value, parse_values
from harness.store.atomic import read_json, write_json, writing

SWEEP = "sweep.json"
"""File beside the run folders of a sweep with its base and the varied settings of each model."""


def _unchanged(spec: Spec) -> Spec:
    return spec


@dataclass(frozen=True, slots=True)
class Sweep:
    """A base model, and the values of each varied setting.

    >>> from harness.spec import parse
    >>> base = parse("qwen_vl(frames=8,backend=openai(seed=1))")
    >>> sweep = Sweep(base, {"frames": (4, 8), "backend.seed": (2,)}, grid=False)
    >>> [str(spec) for spec, _ in sweep.models()]  # doctest: +NORMALIZE_WHITESPACE
    ['qwen_vl(frames=8,backend=openai(seed=1))', 'qwen_vl(frames=4,backend=openai(seed=1))',
     'qwen_vl(frames=8,backend=openai(seed=2))']
    """

    base: Spec
    varied: Mapping[str, Sequence[Value]]
    grid: bool = False
    """True: every combination; False: one setting varies, the others have the base's values."""
    resolve: Callable[[Spec], Spec] = _unchanged
    """Maps a SPEC as typed to the SPEC that is evaluated."""

    def models(self) -> Iterator[tuple[Spec, dict[str, Value]]]:
        """Yield (SPEC as typed, its varied settings).

        The base comes first, without settings, unless `grid`. If several SPECs resolve to the same
        one, only the first is yielded.
        """
        evaluated: set[str] = set()
        for spec, settings in self._combinations():
            key = str(Spec(spec.name, dict(sorted(self.resolve(spec).arguments.items()))))
            if key not in evaluated:
                evaluated.add(key)
                yield spec, settings

    def _combinations(self) -> Iterator[tuple[Spec, dict[str, Value]]]:
        """Yield each SPEC with the settings that it changes: all combinations, or one at a time."""
        if self.grid:
            for combination in product(*self.varied.values()):
                settings = dict(zip(self.varied, combination, strict=True))
                spec = self.base
                for key, value in settings.items():
                    spec = with_argument(spec, key, value)
                yield spec, settings
            return
        yield self.base, {}
        for key, values in self.varied.items():
            for value in values:
                yield with_argument(self.base, key, value), {key: value}

    def write(self, folder: Path) -> None:
        """Write `sweep.json` into a folder, or compare it with the one that is there.

        Raises:
            UsageError: the folder has the `sweep.json` of another sweep.
        """
        plain = {
            "base": str(self.resolve(self.base)),
            "models": {
                str(self.resolve(spec)): {
                    key: format_value(value) for key, value in settings.items()
                }
                for spec, settings in self.models()
            },
        }
        path = folder / SWEEP
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and read_json(path) != plain:
            raise UsageError(
                f"--out {folder}",
                expected="a new folder, or that of the same sweep",
                found="another sweep",
            )
        write_json(path, plain)


def format_value(value: Value) -> str:
    """Return a value as it is typed in a SPEC."""
    return str(Spec("x", {"x": value})).removeprefix("x(x=").removesuffix(")")


def with_argument(spec: Spec, key: str, value: Value) -> Spec:
    """Return the SPEC with one argument replaced; `backend.seed` is the argument of an argument.

    Raises:
        UsageError: the argument before a dot is not a SPEC.
    """
    first, dot, inner_key = key.partition(".")
    if not dot:
        return Spec(spec.name, {**spec.arguments, first: value})
    inner = spec.arguments.get(first)
    if isinstance(inner, str):
        inner = Spec(inner)
    if not isinstance(inner, Spec):
        raise UsageError(f"--vary {key}", expected=f"{first}=NAME(…) in {spec}", found="none")
    return Spec(spec.name, {**spec.arguments, first: with_argument(inner, inner_key, value)})


def parse_setting(text: str) -> tuple[str, tuple[Value, ...]]:
    """Parse a setting and its values, such as `frames=4,8,fps(max_frames=16)`.

    Raises:
        UsageError: the text is not `SETTING=VALUE,VALUE,…`.
    """
    key, equals, values_text = text.partition("=")
    if not equals or not all(part.isidentifier() for part in key.strip().split(".")):
        raise UsageError("--vary", expected="SETTING=VALUE,VALUE,…", found=repr(text))
    return key.strip(), tuple(parse_values(values_text))


def merge_values(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Return the values of each setting; values of a setting that is named twice are joined.

    >>> merge_values(["frames=2", "size=96", "frames=4,8"])
    {'frames': (2, 4, 8), 'size': (96,)}

    Raises:
        UsageError: a text is not `SETTING=VALUE,VALUE,…`.
    """
    varied: dict[str, tuple[Value, ...]] = {}
    for key, values in map(parse_setting, texts):
        varied[key] = (*varied.get(key, ()), *values)
    return varied


def sweep_of(folder: Path) -> dict[str, object] | None:
    """Read the nearest `sweep.json` up to three levels above a run folder; None if there is none.

    Raises:
        StoreError: the file is damaged.
    """
    return sweep_at(folder.resolve().parent)


def sweep_at(above: Path) -> dict[str, object] | None:
    """Return `sweep_of` for all runs in a resolved folder."""
    for folder in [above, *above.parents][:3]:
        path = folder / SWEEP
        if path.is_file():
            plain = read_json(path)
            if not isinstance(plain, dict) or not isinstance(plain.get("models"), dict):
                raise StoreError(f"file {path}", expected="base and models", found="something else")
            return plain
    return None
