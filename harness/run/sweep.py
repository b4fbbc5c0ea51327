"""One model under several settings: prompt, frames, resolution, whatever its SPEC takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from harness.errors import StoreError, UsageError
from harness.spec import Spec, Value, parse_values
from harness.store.atomic import read_json, write_json, writing

SWEEP = "sweep.json"
"""File beside the run folders of a sweep: its base, and the settings that each model varies."""


def _as_typed(spec: Spec) -> Spec:
    return spec


@dataclass(frozen=True, slots=True)
class Sweep:
    """A base, and the values of each setting.

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
    """True: every combination; else each setting alone, with the base's values of the others."""
    whole: Callable[[Spec], Spec] = _as_typed
    """Maps a SPEC as typed to the SPEC that is evaluated."""

    def models(self) -> Iterator[tuple[Spec, dict[str, Value]]]:
        """Yield the SPECs as typed, each with its varied settings; SPECs that evaluate alike once.

        The base is first, with no settings, unless `grid`.
        """
        seen: set[str] = set()
        for spec, given in self._combinations():
            same = str(Spec(spec.name, dict(sorted(self.whole(spec).arguments.items()))))
            if same not in seen:
                seen.add(same)
                yield spec, given

    def _combinations(self) -> Iterator[tuple[Spec, dict[str, Value]]]:
        if self.grid:
            for combination in product(*self.varied.values()):
                given = dict(zip(self.varied, combination, strict=True))
                spec = self.base
                for key, value in given.items():
                    spec = with_argument(spec, key, value)
                yield spec, given
            return
        yield self.base, {}
        for key, values in self.varied.items():
            for value in values:
                yield with_argument(self.base, key, value), {key: value}

    def write(self, folder: Path) -> None:
        """Write `sweep.json`, from which boards know that these rows belong together.

        Raises:
            UsageError: the folder has the `sweep.json` of another sweep.
        """
        plain = {
            "base": str(self.whole(self.base)),
            "models": {
                str(self.whole(spec)): {key: format_value(value) for key, value in given.items()}
                for spec, given in self.models()
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
    """Return a value as it is typed."""
    return str(Spec("x", {"x": value}))[4:-1]


def with_argument(spec: Spec, key: str, value: Value) -> Spec:
    """Return the SPEC with one argument replaced; `backend.seed` is the argument of an argument.

    Raises:
        UsageError: the argument that a dot follows is no SPEC.
    """
    first, dot, rest = key.partition(".")
    if not dot:
        return Spec(spec.name, {**spec.arguments, first: value})
    inner = spec.arguments.get(first)
    if isinstance(inner, str):
        inner = Spec(inner)
    if not isinstance(inner, Spec):
        raise UsageError(f"--vary {key}", expected=f"{first}=NAME(…) in {spec}", found="none")
    return Spec(spec.name, {**spec.arguments, first: with_argument(inner, rest, value)})


def values(text: str) -> tuple[str, tuple[Value, ...]]:
    """Parse a setting and its values, such as `frames=4,8,fps(max_frames=16)`.

    Raises:
        UsageError: the text is not `SETTING=VALUE,VALUE,…`.
    """
    key, equals, rest = text.partition("=")
    if not equals or not all(part.isidentifier() for part in key.strip().split(".")):
        raise UsageError("--vary", expected="SETTING=VALUE,VALUE,…", found=repr(text))
    return key.strip(), tuple(parse_values(rest))


def merge_values(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Return the values of each setting; a setting that is named again has all of its values.

    >>> merge_values(["frames=2", "size=96", "frames=4,8"])
    {'frames': (2, 4, 8), 'size': (96,)}

    Raises:
        UsageError: a text is not `SETTING=VALUE,VALUE,…`.
    """
    varied: dict[str, tuple[Value, ...]] = {}
    for key, given in map(values, texts):
        varied[key] = (*varied.get(key, ()), *given)
    return varied


def sweep_of(folder: Path) -> dict[str, object] | None:
    """Read the nearest `sweep.json` up to three levels above a run folder; None if there is none.

    Raises:
        StoreError: the file is damaged.
    """
    for place in list(folder.resolve().parents)[:3]:
        path = place / SWEEP
        if path.is_file():
            plain = read_json(path)
            if not isinstance(plain, dict) or not isinstance(plain.get("models"), dict):
                raise StoreError(f"file {path}", expected="base and models", found="something else")
            return plain
    return None
