"""Video scenes in the layout of Ref-SAV: expressions in turns long and short, all with objects."""

from pathlib import Path

from harness.tasks.revos.writer import video_entry
from harness.tasks.rvos.writing import mask_tracks, some_frames, write_json, write_some
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/ref_sav`: videos, `meta_expressions_valid.json` and `mask_dict.json`."""
    place = root / "ref_sav"
    masks: dict[str, object] = {}
    videos: dict[str, object] = {}
    for number, example in enumerate(world.examples_of("video", "val")):
        name = f"sav_{number:06d}"
        write_some(example.scene, place / "videos" / name)
        videos[name] = video_entry(example, first_annotation=len(masks), absent=None)
        tracks = enumerate(mask_tracks(example.scene, some_frames(example.scene)), start=len(masks))
        masks.update({str(number): track for number, track in tracks})
    write_json(place / "meta_expressions_valid.json", {"videos": videos})
    write_json(place / "mask_dict.json", masks)
