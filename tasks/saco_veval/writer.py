"""Video scenes in SA-Co VEval's layout: a phrase that is there and one that is not."""

from pathlib import Path

from harness.tasks.revos.writer import absent_phrase
from harness.tasks.rvos.writing import mask_tracks, some_frames, write_json, write_some
from harness.tasks.saco_veval.task import FRAMES
from harness.world.shapes import World


def write(world: World, root: Path) -> None:
    """Write `root/saco_veval`: the domain `sav` of both splits, and its frames."""
    place = root / "saco_veval"
    for split in ("test", "val"):
        videos: list[dict[str, object]] = []
        annotations: list[dict[str, object]] = []
        pairs: list[dict[str, object]] = []
        for number, example in enumerate(world.examples_of("video", "val")):
            scene, question = example.scene, example.questions[0]
            name, seen = f"sav_{number:06d}", some_frames(scene)
            write_some(scene, place / "media" / FRAMES["sav"] / name)
            files = [f"{name}/{frame:05d}.jpg" for frame in seen]
            size = {"height": scene.height, "width": scene.width}
            videos.append({"id": number, "video_name": name, "file_names": files, **size})
            tracks = list(mask_tracks(scene, seen))
            for text, things in ((question.text, question.referents), (absent_phrase(scene), ())):
                pair = {"video_id": number, "category_id": len(pairs) + 1}
                counted = {"noun_phrase": text, "num_masklets": len(things)}
                pairs.append({"id": len(pairs) + 1, **pair, **counted})
                for thing in things:
                    entry = {"id": len(annotations) + 1, **pair, **size, "iscrowd": 0}
                    annotations.append({**entry, "segmentations": tracks[thing]})
        plain = {"videos": videos, "annotations": annotations, "video_np_pairs": pairs}
        write_json(place / "annotation" / f"saco_veval_sav_{split}.json", plain)
