"""Find the true cognitive map of a sample, for SpaceR's trainer (its setting `maps=`).

A map lists, by category, the cells `[column, row]` of a 10 × 10 grid in which objects stand. It is
in the target (`extra["map"]`), computed for generated scenes, or in a file with a line for each
video, such as SpaceR's `cognitive_map.jsonl`:

    {"video_id": "scene0191_00", "cognitive_map": {"table": [[0, 3], [5, 7]]}}
"""

from pathlib import Path

from harness.layout import read_by_id
from harness.trainers.spacer.rewards import KEY, Map, check_map, map_of
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import Extra
from harness.types import Sample


def read_maps(path: Path) -> dict[str, Map]:
    """Read maps from a JSON Lines file, by the id of their video.

    Raises:
        DataError: it cannot be read, a line has no map, or a video comes twice.
    """
    return read_by_id(path, "video_id", "cognitive_map", check_map)


def categories(sample: Sample) -> tuple[str, ...]:
    """Return the categories of a sample's map; if empty, its prompt asks for no map."""
    return tuple(map_of(sample) or ())


def maps_extra(setting: str | None) -> Extra:
    """Return the function that adds maps to samples, by the setting `maps=`.

    None: it adds nothing; `shapes`: maps of the generated world; else the path of a file of maps.

    Raises:
        UsageError: there is no such file.
    """
    return extra_of(setting, option="maps", generated_names=("shapes",), read=read_maps, key=KEY)
