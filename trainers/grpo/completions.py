"""Tables of a round's completions for `log_completions`, in the columns and files of TRL."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from harness.store.atomic import writing
from harness.trainers.grpo.method import Group, RewardComponents

FOLDER = "completions"
FIXED_COLUMNS = ("step", "prompt", "completion", "advantage")
"""Columns that are not components of the reward."""
Row: TypeAlias = Mapping[str, object]


def rows_of(
    step: int,
    prompts: Sequence[str],
    groups: Sequence[Group],
    rewards: Sequence[Sequence[RewardComponents]],
    advantages: Sequence[float],
) -> list[Row]:
    """Return a row for each rollout: step, prompt, completion, components of the reward, advantage.

    A component whose name is in FIXED_COLUMNS is left out.
    """
    next_advantages = iter(advantages)
    rows: list[Row] = []
    for prompt, group, group_rewards in zip(prompts, groups, rewards, strict=True):
        for rollout, components in zip(group.rollouts, group_rewards, strict=True):
            parts = {name: value for name, value in components.items() if name not in FIXED_COLUMNS}
            row = {"step": step, "prompt": prompt, "completion": rollout.text, **parts}
            rows.append({**row, "advantage": next(next_advantages)})
    return rows


def table_of(rows: Sequence[Row]) -> dict[str, list[object]]:
    """Return rows as columns, `advantage` last; None where a component does not apply."""
    names = dict.fromkeys(name for row in rows for name in row if name != "advantage")
    return {name: [row.get(name) for row in rows] for name in (*names, "advantage")}


def write_completions(out: Path, step: int, table: Mapping[str, Sequence[object]]) -> None:
    """Write a round's table as `completions/completions_<step>.parquet` of a training's folder.

    Raises:
        StoreError: it cannot be written.
    """
    import pyarrow as pa  # slow to import
    import pyarrow.parquet as pq

    path = out / FOLDER / f"completions_{step:05d}.parquet"
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({name: list(column) for name, column in table.items()}), path)
