"""Name the rows of a board: the model's name and, if models share it, the settings that differ.

Rows of one model with different SPECs get the fewest settings by which all of them differ, with the
shortest text: `qwen_vl/locate(segmenter=sam2)`. Rows of one table with equal SPECs get their seed,
commit or device, or else a number in their order. Stored predictions are identified by their name,
whatever their files are. `board` calls `names`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePath

from harness.errors import UsageError
from harness.leaderboards.row import Row
from harness.run.score import PREDICTIONS
from harness.spec import Spec, Value, parse

LONGEST_TEXT = 30  # characters of a prompt or a system message in a name
MAX_SETTINGS = 3  # largest number of settings tried together before all that differ are named
Settings = Mapping[str, str]
"""Values as text by setting, such as `{"segmenter.checkpoint": "a/b"}`."""


def names(rows: Sequence[Row], tables: Sequence[object]) -> list[str]:
    """Return the name of each row: unique in its table, and equal for one model in all tables.

    Args:
        rows: The rows of a board.
        tables: The table of each row, as a hashable key.
    """
    labels: list[list[str]] = [[] for _ in rows]

    def current_names() -> list[str]:
        return [_name_with_labels(row.model, text) for row, text in zip(rows, labels, strict=True)]

    def add_labels(members: Sequence[int], settings_of_members: Sequence[Settings]) -> None:
        for index, label in zip(members, told_apart(settings_of_members), strict=True):
            labels[index].append(label)

    for members in _indices_by_name([row.model for row in rows]).values():
        add_labels(
            members,
            [settings(stored_method(rows[index]) or rows[index].model_spec) for index in members],
        )
    for row, label in zip(rows, labels, strict=True):
        folder = own_folder(row.model, row.model_spec)
        if folder and not any(folder in text for text in label):
            label.insert(0, folder)
    for name in _ambiguous_names(current_names(), tables):
        members = _indices_by_name(current_names())[name]
        add_labels(members, [_record(rows[index]) for index in members])
    final = current_names()
    for name in _ambiguous_names(final, tables):
        n_by_table: Counter[object] = Counter()
        for index in _indices_by_name(final)[name]:
            n_by_table[tables[index]] += 1
            final[index] = f"{name} #{n_by_table[tables[index]]}"
    return final


def _indices_by_name(row_names: Sequence[str]) -> dict[str, list[int]]:
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(row_names):
        indices.setdefault(name, []).append(index)
    return indices


def _ambiguous_names(row_names: Sequence[str], tables: Sequence[object]) -> list[str]:
    """Return the names that several rows of one table have."""
    n_by_name = Counter(zip(row_names, tables, strict=True))
    return list(dict.fromkeys(name for (name, _), count in n_by_name.items() if count > 1))


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
    if "checkpoint" not in spec:
        return ""
    try:
        parsed = parse(spec)
    except UsageError:
        return ""
    checkpoint = str(parsed.arguments.get("checkpoint", ""))
    is_own = checkpoint.startswith((".", "/", "~")) and model.partition("/")[0] == parsed.name
    return PurePath(checkpoint).name if is_own else ""


def stored_method(row: Row) -> str | None:
    """Return the SPEC of a row of stored predictions, without their path and batch size.

    None for other rows. Of predictions that a model read (`replay`) the SPEC has that model.
    """
    if row.model_spec.startswith(f"{PREDICTIONS}("):
        return PREDICTIONS
    if not row.model_spec.lstrip().startswith("replay"):
        return None
    try:
        spec = parse(row.model_spec)
    except UsageError:
        return None
    if spec.name != "replay":
        return None
    reader = {key: value for key, value in spec.arguments.items() if key == "model"}
    return str(Spec(PREDICTIONS, reader))


def settings(spec: str) -> dict[str, str]:
    """Return a SPEC's arguments by their paths, and its plugin under the empty path.

    A text that is not a SPEC is returned whole under the empty path.

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
    """Return an argument as a SPEC writes it; of an inner SPEC, its plugin's name."""
    if isinstance(value, Spec):
        return value.name
    return str(Spec("x", {"x": value})).removeprefix("x(x=").removesuffix(")")


def _record(row: Row) -> dict[str, str]:
    """Return the properties in which runs of one SPEC may differ."""
    properties = {"seed": row.seed, "commit": (row.commit or "")[:10], "device": row.device}
    return {key: str(value) for key, value in properties.items()}


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
    n_distinct = len({_values_of(member, keys) for member in members})
    choices: list[tuple[str, ...]] = []
    for count in range(min(MAX_SETTINGS, len(keys)) + 1):
        choices = [
            chosen
            for chosen in combinations(keys, count)
            if len({_values_of(member, chosen) for member in members}) == n_distinct
        ]
        if choices:
            break
    candidates = [_labels_of(members, chosen) for chosen in choices or [tuple(keys)]]
    return min(candidates, key=lambda labels: (labels.count(""), sum(map(len, labels))))


def _values_of(member: Settings, keys: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(member.get(key) for key in keys)


def _labels_of(members: Sequence[Settings], keys: Sequence[str]) -> list[str]:
    """Return the settings `keys` of each member as `key=value,…`; the plugin has no key."""
    short = {
        key: _shorten_paths([member[key] for member in members if key in member]) for key in keys
    }
    return [
        ",".join(f"{key}={short[key][member[key]]}".lstrip("=") for key in keys if key in member)
        for member in members
    ]


def _shorten_texts(values: Iterable[str]) -> dict[str, str]:
    """Cut quoted texts to the smallest multiple of LONGEST_TEXT characters that distinguishes them.

    Returns the short text of each value, in quotes.
    """
    inner = {value: value.strip('"') for value in values}
    for length in range(LONGEST_TEXT, max(map(len, inner.values())) + LONGEST_TEXT, LONGEST_TEXT):
        short = {
            value: text if len(text) <= length else f"{text[:length].rstrip()}…"
            for value, text in inner.items()
        }
        if len(set(short.values())) == len(inner):
            return {value: f'"{text}"' for value, text in short.items()}
    return {value: value for value in inner}


def _shorten_paths(values: Sequence[str]) -> dict[str, str]:
    """Shorten paths to the fewest last parts that distinguish them; see `_shorten_texts` too."""
    distinct = dict.fromkeys(values)
    if any(value.startswith('"') for value in distinct):
        return _shorten_texts(distinct)
    longest = max((len(PurePath(value).parts) for value in distinct), default=1)
    for count in range(1, longest + 1):
        short = {value: "/".join(PurePath(value).parts[-count:]) or value for value in distinct}
        if len(set(short.values())) == len(distinct):
            return short
    return {value: value for value in distinct}
