"""Tables of completions, in TRL's columns and files (`log_completions`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from harness.store.atomic import writing
from harness.trainers.grpo.method import Group, RewardComponents

FOLDER = "completions"
FIXED = ("step", "prompt", "completion", "advantage")
"""Columns beside those of a reward's components."""
Row: TypeAlias = Mapping[str, object]


def rows_of(
    step: int,
    prompts: Sequence[str],
    groups: Sequence[Group],
    rewards: Sequence[Sequence[RewardComponents]],
    advantages: Sequence[float],
) -> list[Row]:
    """Return a row for each rollout: step, prompt, completion, components of the reward, advantage.

    A component that is called as one of the other columns gives way to it.
    """
    gains = iter(advantages)
    return [
        {
            **{"step": step, "prompt": prompt, "completion": rollout.text},
            **{name: value for name, value in components.items() if name not in FIXED},
            "advantage": next(gains),
        }
        for prompt, group, several in zip(prompts, groups, rewards, strict=True)
        for rollout, components in zip(group.rollouts, several, strict=True)
    ]


def table_of(rows: Sequence[Row]) -> dict[str, list[object]]:
    """Return columns of rows; None where a component does not apply."""
    names = dict.fromkeys(name for row in rows for name in row if name != "advantage")
    return {name: [row.get(name) for row in rows] for name in (*names, "advantage")}


def write_completions(out: Path, step: int, table: Mapping[str, Sequence[object]]) -> None:
    """Write a round's table as `completions/completions_<step>.parquet` of a training's folder.

    Raises:
        StoreError: it cannot be written.
    """
    import pyarrow as pa  # it takes a while to import
    import pyarrow.parquet as pq

    path = out / FOLDER / f"completions_{step:05d}.parquet"
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({name: list(column) for name, column in table.items()}), path)
