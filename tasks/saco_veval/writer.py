"""Write sample data: video scenes in SA-Co VEval's layout, with a present and an absent phrase."""

from pathlib import Path

from harness.tasks.revos.writer import absent_phrase
from harness.tasks.rvos.writing import mask_tracks, sampled_frames, write_json, write_sampled_frames
from harness.tasks.saco_veval.task import FRAME_FOLDERS
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/saco_veval`: the domain `sav` of both splits, and its frames."""
    folder = root / "saco_veval"
    for split in ("test", "val"):
        videos: list[dict[str, object]] = []
        annotations: list[dict[str, object]] = []
        pairs: list[dict[str, object]] = []
        for number, example in enumerate(world.examples_of("video", "val")):
            scene, question = example.scene, example.questions[0]
            name, frames = f"sav_{number:06d}", sampled_frames(scene)
            write_sampled_frames(scene, folder / "media" / FRAME_FOLDERS["sav"] / name)
            files = [f"{name}/{frame:05d}.jpg" for frame in frames]
            size = {"height": scene.height, "width": scene.width}
            videos.append({"id": number, "video_name": name, "file_names": files, **size})
            tracks = list(mask_tracks(scene, frames))
            for text, indices in ((question.text, question.referents), (absent_phrase(scene), ())):
                pair = {"video_id": number, "category_id": len(pairs) + 1}
                counted = {"noun_phrase": text, "num_masklets": len(indices)}
                pairs.append({"id": len(pairs) + 1, **pair, **counted})
                for index in indices:
                    entry = {"id": len(annotations) + 1, **pair, **size, "iscrowd": 0}
                    annotations.append({**entry, "segmentations": tracks[index]})
        plain = {"videos": videos, "annotations": annotations, "video_np_pairs": pairs}
        write_json(folder / "annotation" / f"saco_veval_sav_{split}.json", plain)
