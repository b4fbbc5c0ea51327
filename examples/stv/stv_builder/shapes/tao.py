"""Moving scenes in TAO's layout: boxes of the visible parts, in annotated frames."""

from collections.abc import Sequence
from pathlib import Path

from harness.tasks.rvos.writing import write_json
from harness.world.encode import write_jpeg
from harness.world.raster import edges, render, visible_masks
from harness.world.scene import SHAPES, Scene

EVERY = 30  # frames of the original video between two that are annotated
FIRST_TRACK = 100  # tracks of video k are numbered from 100 × k


def write_tao(root: Path, scenes: Sequence[Scene]) -> None:
    """Write `root/tao/annotations/train.json` and `root/tao/frames/train/shapes/<video>/*.jpg`."""
    plain: dict[str, list[object]] = {
        "images": [],
        "videos": [],
        "tracks": [],
        "annotations": [],
        "categories": [
            {"id": k, "name": shape, "synset": f"{shape}.n.01"}
            for k, shape in enumerate(SHAPES, start=1)
        ],
    }
    for number, scene in enumerate(scenes, start=1):
        _add(plain, scene, number, root)
    write_json(root / "tao" / "annotations" / "train.json", {"info": {}, **plain})


def _add(plain: dict[str, list[object]], scene: Scene, number: int, root: Path) -> None:
    name = f"train/shapes/{scene.index:05d}"
    plain["videos"].append(
        {
            "id": number,
            "name": name,
            "width": scene.width,
            "height": scene.height,
            "neg_category_ids": [],
            "not_exhaustive_category_ids": [],
            "metadata": {},
        }
    )
    tracks = [FIRST_TRACK * number + k for k in range(len(scene.things))]
    plain["tracks"] += [
        {"id": track, "category_id": SHAPES.index(thing.shape) + 1, "video_id": number}
        for track, thing in zip(tracks, scene.things, strict=True)
    ]
    folder = root / "tao" / "frames" / name
    folder.mkdir(parents=True)
    for frame in range(scene.frames):
        image = len(plain["images"]) + 1
        file = f"frame{frame * EVERY + 1:04d}.jpg"
        write_jpeg(folder / file, render(scene, frame))
        plain["images"].append(
            {
                "id": image,
                "video_id": number,
                "file_name": f"{name}/{file}",
                "width": scene.width,
                "height": scene.height,
                "frame_index": frame * EVERY,
            }
        )
        for track, mask, thing in zip(
            tracks, visible_masks(scene, frame), scene.things, strict=True
        ):
            if mask.any():
                left, top, right, bottom = edges(mask)
                plain["annotations"].append(
                    {
                        "id": len(plain["annotations"]) + 1,
                        "image_id": image,
                        "track_id": track,
                        "bbox": [left, top, right - left, bottom - top],
                        "area": int(mask.sum()),
                        "category_id": SHAPES.index(thing.shape) + 1,
                        "video_id": number,
                    }
                )
