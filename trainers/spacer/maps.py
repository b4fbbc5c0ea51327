"""Sources of true maps: a sample's target, the official file of maps, or the shapes world.

A target carries its map as `extra["map"]`: cells `[column, row]` of a 10 × 10 grid by category. A
file has a line a video, as `cognitive_map.jsonl` of SpaceR:

    {"video_id": "scene0191_00", "cognitive_map": {"table": [[0, 3], [5, 7]]}}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import DataError
from harness.task import Task
from harness.trainers.spacer.rewards import KEY, map_of
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import Extra, json_lines
from harness.types import Sample


@dataclass(frozen=True, slots=True)
class MapFile:
    """Maps of a file, for samples that it lists by id, group or video."""

    maps: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]

    def __call__(self, task: Task, sample: Sample) -> Mapping[str, object]:
        """Return the additions to a target's `extra`."""
        del task
        for name in (sample.id, sample.group, Path(sample.group).stem):
            if name in self.maps:
                return {KEY: self.maps[name]}
        return {}


def read_maps(path: Path) -> dict[str, Mapping[str, Sequence[Sequence[float]]]]:
    """Maps from a file of lines, by video.

    Raises:
        DataError: it cannot be read, a line has no map, or a video comes twice.
    """
    found: dict[str, Mapping[str, Sequence[Sequence[float]]]] = {}
    for where, plain in json_lines(path):
        name, cells = plain.get("video_id"), plain.get("cognitive_map")
        if not isinstance(name, str) or name in found or not isinstance(cells, dict):
            raise DataError(
                where,
                expected='{"video_id": …, "cognitive_map": {…}}, a video once',
                found=repr(plain)[:60],
            )
        found[name] = cells
    return found


def categories(sample: Sample) -> tuple[str, ...]:
    """Return the categories of a sample's map; without one none, and the prompt asks for no map."""
    return tuple(map_of(sample) or ())


def maps_extra(setting: str | None) -> Extra:
    """Return the function for a trainer's setting `maps=`: no additions, `shapes`, or a file.

    Raises:
        UsageError: there is no such file.
    """
    return extra_of(
        setting, option="maps", drawn=("shapes",), read=lambda path: MapFile(read_maps(path))
    )
