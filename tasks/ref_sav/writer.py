"""Write sample data: video scenes in Ref-SAV's layout, with long and short expressions in turn."""

from pathlib import Path

from harness.tasks.revos.writer import video_entry
from harness.tasks.rvos.writing import mask_tracks, sampled_frames, write_json, write_sampled_frames
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/ref_sav`: videos, `meta_expressions_valid.json` and `mask_dict.json`."""
    folder = root / "ref_sav"
    masks: dict[str, object] = {}
    videos: dict[str, object] = {}
    for number, example in enumerate(world.examples_of("video", "val")):
        name = f"sav_{number:06d}"
        write_sampled_frames(example.scene, folder / "videos" / name)
        videos[name] = video_entry(example, first_annotation=len(masks), absent=None)
        tracks = enumerate(
            mask_tracks(example.scene, sampled_frames(example.scene)), start=len(masks)
        )
        masks.update({str(number): track for number, track in tracks})
    write_json(folder / "meta_expressions_valid.json", {"videos": videos})
    write_json(folder / "mask_dict.json", masks)
