"""Names for rows: a model's own, and for models with the same name the settings that differ.

Rows of one model with other settings (its SPEC) get the fewest settings by which all of them
differ, with the shortest text: `qwen_vl/locate(segmenter=sam2)`. Runs in one table with equal SPECs
get their seed, commit or device, or else a number in the order in which they were given. Stored
predictions are the method that their name says, in whatever files they lie.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePath

from harness.errors import UsageError
from harness.leaderboards.row import Row
from harness.run.score import PREDICTIONS
from harness.spec import Spec, Value, parse

LONGEST_TEXT = 30  # characters of a prompt or a system message, where they tell models apart
MAX_SETTINGS = 3  # settings that are tried together before all that differ are named
Settings = Mapping[str, str]


def names(rows: Sequence[Row], tables: Sequence[object]) -> list[str]:
    """The name of each row: equal in two tables for one model, never in one table for two rows."""
    labels: list[list[str]] = [[] for _ in rows]

    def current_names() -> list[str]:
        return [_name_with_labels(row.model, text) for row, text in zip(rows, labels, strict=True)]

    def tell_apart(members: Sequence[int], known: Sequence[Settings]) -> None:
        for index, label in zip(members, told_apart(known), strict=True):
            labels[index].append(label)

    for members in _indices_by_name([row.model for row in rows]).values():
        tell_apart(
            members,
            [settings(stored_method(rows[index]) or rows[index].model_spec) for index in members],
        )
    for row, label in zip(rows, labels, strict=True):
        folder = own_folder(row.model, row.model_spec)
        if folder and not any(folder in text for text in label):
            label.insert(0, folder)
    for name in _ambiguous_names(current_names(), tables):
        members = _indices_by_name(current_names())[name]
        tell_apart(members, [_record(rows[index]) for index in members])
    final = current_names()
    for name in _ambiguous_names(final, tables):
        counts: Counter[object] = Counter()
        for index in _indices_by_name(final)[name]:
            counts[tables[index]] += 1
            final[index] = f"{name} #{counts[tables[index]]}"
    return final


def _indices_by_name(named: Sequence[str]) -> dict[str, list[int]]:
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(named):
        indices.setdefault(name, []).append(index)
    return indices


def _ambiguous_names(named: Sequence[str], tables: Sequence[object]) -> list[str]:
    seen = Counter(zip(named, tables, strict=True))
    return list(dict.fromkeys(name for (name, _), count in seen.items() if count > 1))


def _name_with_labels(model: str, labels: Sequence[str]) -> str:
    text = ",".join(filter(None, labels))
    return f"{model}({text})" if text else model


def own_folder(model: str, spec: str) -> str:
    """Return the name of the folder of the user's own checkpoint; empty for other models.

    A model with a name of the user's own (`--name`) needs no other.

    >>> own_folder("qwen_vl/own", "qwen_vl(checkpoint=./runs/my-qwen,frames=4)")
    'my-qwen'
    >>> own_folder("polite", "qwen_vl(checkpoint=./my-qwen)"), own_folder("pocket", "pocket")
    ('', '')
    """
    try:
        parsed = parse(spec)
    except UsageError:
        return ""
    checkpoint = str(parsed.arguments.get("checkpoint", ""))
    is_own = checkpoint.startswith((".", "/", "~")) and model.partition("/")[0] == parsed.name
    return PurePath(checkpoint).name if is_own else ""


def stored_method(row: Row) -> str | None:
    """Return what a row of stored predictions is beside its name, as a SPEC; None for other rows.

    It leaves out where the predictions lie and how many are read at once.
    """
    if row.model_spec.startswith(f"{PREDICTIONS}("):
        return PREDICTIONS
    try:
        spec = parse(row.model_spec)
    except UsageError:
        return None
    if spec.name != "replay":
        return None
    reader = {key: value for key, value in spec.arguments.items() if key == "model"}
    return str(Spec(PREDICTIONS, reader))


def settings(spec: str) -> dict[str, str]:
    """A SPEC's arguments by their paths, and its plugin; the SPEC itself where it has none.

    >>> settings("qwen_vl(frames=4,segmenter=sam2(checkpoint=a/b))")
    {'': 'qwen_vl', 'frames': '4', 'segmenter': 'sam2', 'segmenter.checkpoint': 'a/b'}
    """
    try:
        parsed = parse(spec)
    except UsageError:
        return {"": spec}
    return {"": parsed.name, **dict(_flat_settings(parsed, ""))}


def _flat_settings(spec: Spec, before: str) -> Iterator[tuple[str, str]]:
    for key, value in spec.arguments.items():
        yield f"{before}{key}", _word(value)
        if isinstance(value, Spec):
            yield from _flat_settings(value, f"{before}{key}.")


def _word(value: Value) -> str:
    return value.name if isinstance(value, Spec) else str(Spec("x", {"x": value}))[4:-1]


def _record(row: Row) -> dict[str, str]:
    """Return the properties in which runs of one SPEC differ."""
    known = {"seed": row.seed, "commit": (row.commit or "")[:10], "device": row.device}
    return {key: str(value) for key, value in known.items()}


def told_apart(members: Sequence[Settings]) -> list[str]:
    """Return for each member, as text, the settings that distinguish all members.

    >>> told_apart([{"a": "1", "b": "x/y"}, {"a": "1", "b": "x/z"}, {"a": "1"}])
    ['b=y', 'b=z', '']
    """
    keys = [
        key
        for key in dict.fromkeys(key for member in members for key in member)
        if len({member.get(key) for member in members}) > 1
    ]
    wanted = len({_values_of(member, keys) for member in members})
    choices: list[tuple[str, ...]] = []
    for count in range(min(MAX_SETTINGS, len(keys)) + 1):
        choices = [
            chosen
            for chosen in combinations(keys, count)
            if len({_values_of(member, chosen) for member in members}) == wanted
        ]
        if choices:
            break
    text = [_labels_of(members, chosen) for chosen in choices or [tuple(keys)]]
    return min(text, key=lambda labels: (labels.count(""), sum(map(len, labels))))


def _values_of(member: Settings, keys: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(member.get(key) for key in keys)


def _labels_of(members: Sequence[Settings], keys: Sequence[str]) -> list[str]:
    short = {
        key: _shorten_paths([member[key] for member in members if key in member]) for key in keys
    }
    return [
        ",".join(f"{key}={short[key][member[key]]}".lstrip("=") for key in keys if key in member)
        for member in members
    ]


def _shorten_texts(values: Iterable[str]) -> dict[str, str]:
    """Cut texts after as few words as distinguish them, at least LONGEST_TEXT characters."""
    known = {value: value.strip('"') for value in values}
    for length in range(LONGEST_TEXT, max(map(len, known.values())) + LONGEST_TEXT, LONGEST_TEXT):
        short = {
            value: text if len(text) <= length else f"{text[:length].rstrip()}…"
            for value, text in known.items()
        }
        if len(set(short.values())) == len(known):
            return {value: f'"{text}"' for value, text in short.items()}
    return {value: value for value in known}


def _shorten_paths(values: Sequence[str]) -> dict[str, str]:
    """Shorten paths to as few of their last parts as distinguish them, and texts likewise."""
    known = dict.fromkeys(values)
    if any(value.startswith('"') for value in known):
        return _shorten_texts(known)
    longest = max((len(PurePath(value).parts) for value in known), default=1)
    for count in range(1, longest + 1):
        short = {value: "/".join(PurePath(value).parts[-count:]) or value for value in known}
        if len(set(short.values())) == len(known):
            return short
    return {value: value for value in known}
