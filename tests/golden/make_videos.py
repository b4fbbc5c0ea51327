"""Write the golden files of video readers: what official readers and scorers make of our folders.

    python tests/golden/make_videos.py --official FOLDER

FOLDER holds checkouts named `VISA` and `ReferFormer` at the commits below; their code is imported
or compiled from there, and none of it is kept here. They need torch and pandas, harness does not.
skimage is replaced by the one function that is used of it, a disk of pixels. Nothing of harness
reads here; it only makes the world that is read.
"""

import argparse
import contextlib
import io
import json
import os
import os.path
import sys
import tempfile
import types
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import cv2
import numpy as np
from make_readers import HERE, TASKS, digest, official_class
from official import Queue, compiled, module, replace_scikit_image, with_locals
from PIL import Image
from pycocotools import mask as coco

from harness.tasks.ref_davis17.writer import write as write_ref_davis17
from harness.tasks.ref_youtube_vos.writer import write as write_ref_youtube_vos
from harness.tasks.revos.writer import write as write_revos
from harness.world.shapes import make

COMMITS = {
    "VISA": "ec158fde9cdf87f702399c73618aa0f1127062e9",
    "ReferFormer": "06fc218f5d8f04730f81471a15ed89ea7e4d30d8",
}
WORLD = {"seed": 20250102, "size": 6}
WRITERS = {
    "revos": write_revos,
    "ref_youtube_vos": write_ref_youtube_vos,
    "ref_davis17": write_ref_davis17,
}
VIDEOS, TESTED = 507, 305


def predicted(ground_truth: Any, number: int) -> Any:
    """A wrong answer to the `number`-th question: moved, sometimes with more or with an empty end.

    Takes and returns a boolean array of frames × height × width.
    """
    output = np.roll(ground_truth, (1 + number % 3, 2 + number % 4), axis=(1, 2))
    if number % 3 == 0:
        output[:, :6, :6] = True
    if number % 5 == 4:
        output[-1] = False
    return output


def published_valid() -> tuple[dict[str, Any], dict[str, Any]]:
    """Files of `valid` and `test` with as many videos as the organisers', without images."""
    videos = {
        f"v{number:03d}": {
            "expressions": {str(one): {"exp": f"Thing  {one}"} for one in range(1 + number % 3)},
            "frames": ["00000", "00005"],
        }
        for number in range(VIDEOS)
    }
    test = {
        name: video
        for number, (name, video) in enumerate(videos.items())
        if number * 7 % VIDEOS < TESTED
    }
    return {"videos": videos}, {"videos": test}


def track(masks: Any) -> list[Any]:
    """[frames, height, width, digest] of a track."""
    pixels = np.asarray(masks).astype(np.bool_)
    return [*pixels.shape, digest(pixels)]


def quiet(function: Any, *arguments: Any) -> Any:
    """Call without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return function(*arguments)


def write_tree(place: Path, frames: list[str], masks: Any) -> None:
    """Images of 0 and 255, as VISA writes them."""
    place.mkdir(parents=True)
    for frame, mask in zip(frames, masks, strict=True):
        cv2.imwrite(str(place / f"{frame}.png"), mask.astype(np.uint8) * 255)


def visa_scorer(official: Path, name: str) -> Any:
    """A script of VISA's tools, what it imports replaced or taken from beside it."""
    replace_scikit_image()
    sys.modules["termcolor"] = types.SimpleNamespace(  # type: ignore[assignment]
        colored=lambda text, *_: text
    )
    sys.modules["metrics"] = module(official / "VISA/tools/metrics.py")
    return module(official / f"VISA/tools/{name}.py")


def visa_loader(official: Path, name: str) -> Any:
    """`load_mevis_json` or `load_refytvos_json` of VISA."""
    part = "mevis" if "mevis" in name else "refytvos"
    path = official / f"VISA/utils/d2_datasets/{part}_utils.py"
    return compiled(
        path,
        [name, "encode_anno_mask"],
        {
            "os": os,
            "json": json,
            "defaultdict": defaultdict,
            "np": np,
            "osp": os.path,
            "Image": Image,
            "maskUtils": coco,
            "print": lambda *_: None,
            "tqdm": iter,
            "ytvos_category_dict": defaultdict(int),
            "davis_category_dict": defaultdict(int),
        },
    )


def revos(official: Path, root: Path) -> dict[str, Any]:
    """Every expression of both splits: as VISA's data set has it, with ground truth and scores."""
    torch = MagicMock()
    torch.utils.data.Dataset = object
    load = visa_loader(official, "load_mevis_json")["load_mevis_json"]
    path = official / "VISA/utils/rvos_eval_dataset.py"
    dataset_class = official_class(
        path,
        "RVOSEvalDataset",
        {
            "torch": torch,
            "os": os,
            "osp": os.path,
            "load_mevis_json": load,
            "tqdm": lambda items, **_: items,
            "REFYTVOS_VAL_VIDEOS": (),
        },
    )
    scorer = visa_scorer(official, "eval_revos")
    folder = root / "revos"
    scorer.mask_dict = json.loads((folder / "mask_dict.json").read_text("utf-8"))
    around = folder / "mask_dict_foreground.json"
    scorer.mask_dict_foreground = json.loads(around.read_text("utf-8"))
    splits = {}
    for path in sorted(folder.glob("meta_expressions_*_.json")):
        dataset = dataset_class.__new__(dataset_class)
        dataset.image_root, dataset.json_file = str(folder), str(path)
        dataset.rvos_dataset_name, dataset.output_dir = "revos", ""
        records, _ = dataset.load_data()
        scorer.exp_dict = json.loads(path.read_text("utf-8"))["videos"]
        splits[path.stem.split("_")[2]] = [
            revos_row(scorer, record, number) for number, record in enumerate(records)
        ]
    return splits


def revos_row(scorer: Any, record: dict[str, Any], number: int) -> dict[str, Any]:
    """One expression, its ground truth by the scorer, and the scores of a wrong answer."""
    video, expression = record["video_name"], record["exp_id"]
    entry = scorer.exp_dict[video]
    shape = (len(entry["frames"]), entry["height"], entry["width"])
    seen = None
    scores: dict[str, Any] = {}
    for masks in (np.zeros(shape, np.bool_), None):
        if masks is None:
            masks = predicted(seen["gt_masks"].astype(np.bool_), number)
        with tempfile.TemporaryDirectory() as place:
            write_tree(Path(place, video, expression), entry["frames"], masks)
            scores = {}
            seen, _ = with_locals(scorer.eval_queue, Queue([(video, expression)]), 0, scores, place)
    return {
        "id": f"{video}/{expression}",
        "text": record["sentence"],
        "frames": [Path(name).stem for name in record["file_names"]],
        "type": entry["expressions"][expression]["type_id"],
        "ground_truth": track(seen["gt_masks"]),
        "foreground": track(seen["foreground_masks"]),
        "scores": [float(one) for one in scores[f"{video}_{expression}"]],
    }


def referformer_rows(official: Path, name: str, part: Path, meta: Path) -> Iterator[dict[str, Any]]:
    """Every expression with the masks of every frame, as a data set of ReferFormer gives them."""
    import torch

    path = official / f"ReferFormer/datasets/{name}.py"
    class_name = {"ytvos": "YTVOSDataset", "davis": "DAVIS17Dataset"}[name]
    dataset_class = official_class(
        path,
        class_name,
        {
            "Dataset": object,
            "Path": Path,
            "os": os,
            "json": json,
            "np": np,
            "torch": torch,
            "Image": Image,
            "category_dict": defaultdict(int),
            # No frame beside the one that is asked for.
            "random": types.SimpleNamespace(randint=lambda *_: 0),
            "print": lambda *_: None,
        },
    )

    def unchanged(images: Any, target: Any) -> Any:
        """As it is, and taken whether the frame shows the object or not."""
        return [torch.zeros(1)], {**target, "valid": torch.ones(1)}

    dataset = dataset_class(part, meta, unchanged, True, 1, 3)
    videos = json.loads(meta.read_text("utf-8"))["videos"]
    place = 0
    for video, entry in videos.items():
        for number, expression in entry["expressions"].items():
            frames = []
            for _ in entry["frames"]:
                assert dataset.metas[place]["exp"] == expression["exp"]
                assert dataset.metas[place]["video"] == video
                _, target = dataset[place]
                frames.append(target["masks"][0].numpy() > 0)
                place += 1
            yield {
                "id": f"{video}/{number}",
                "text": target["caption"],
                "masks": np.stack(frames),
                "frames": dataset.metas[place - 1]["frames"],
            }
    assert place == len(dataset.metas)


def ref_youtube_vos(official: Path, root: Path) -> dict[str, Any]:
    """Every expression of train; and which videos VISA's reader takes for valid."""
    folder = root / "ref_youtube_vos"
    meta = folder / "meta_expressions/train/meta_expressions.json"
    rows = referformer_rows(official, "ytvos", folder / "train", meta)
    return {
        "train": [{"id": row["id"], "ground_truth": track(row.pop("masks")), **row} for row in rows]
    }


def valid_of_visa(official: Path) -> dict[str, Any]:
    """What VISA's reader makes of files with the organisers' numbers of videos."""
    load = visa_loader(official, "load_refytvos_json")["load_refytvos_json"]
    with tempfile.TemporaryDirectory() as place:
        for part, plain in zip(("valid", "test"), published_valid(), strict=True):
            path = Path(place, "meta_expressions", part, "meta_expressions.json")
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(plain), encoding="utf-8")
        meta = Path(place, "meta_expressions/valid/meta_expressions.json")
        metas, *_ = load(place, str(meta), "refytvos_valid")
    ids = sorted(f"{one['video']}/{one['exp_id']}" for one in metas)
    return {
        "videos": len({one["video"] for one in metas}),
        "expressions": len(ids),
        "ids": digest(np.frombuffer(json.dumps(ids).encode(), np.uint8)),
    }


def ref_davis17(official: Path, root: Path) -> dict[str, Any]:
    """Every expression of both splits, with both scores of wrong answers."""
    folder = root / "ref_davis17"
    splits = {}
    for part in sorted(path.name for path in (folder / "meta_expressions").iterdir()):
        meta = folder / "meta_expressions" / part / "meta_expressions.json"
        rows = list(referformer_rows(official, "davis", folder / part, meta))
        output = {row["id"]: predicted(row["masks"], place) for place, row in enumerate(rows)}
        by_visa = visa_davis(official, folder / part, meta, output)
        splits[part] = {
            "rows": [
                {
                    "id": row["id"],
                    "visa": by_visa[row["id"]],
                    "ground_truth": track(row.pop("masks")),
                    **row,
                }
                for row in rows
            ],
            "annotators": [
                by_davis(official, folder / part, meta, output, annotator) for annotator in range(4)
            ],
        }
    return splits


def visa_davis(official: Path, part: Path, meta: Path, said: Any) -> dict[str, Any]:
    """[number of its mask, J, F] of each expression, by VISA's script and its own masks."""
    scorer = visa_scorer(official, "eval_davis17")
    encode = visa_loader(official, "load_refytvos_json")["encode_anno_mask"]
    scorer.exp_dict = scorer.get_meta_exp(meta)
    scorer.mask_dict = {}
    found = {}
    for video, entry in scorer.exp_dict.items():
        for expression in entry["expressions"].values():
            (number,) = expression["anno_id"]
            plain = {"length": len(entry["frames"]), "frames": entry["frames"]}
            scorer.mask_dict |= encode(
                entry["frames"],
                len(entry["frames"]),
                str(part),
                video,
                int(expression["obj_id"]),
                number,
                plain,
            )
    with tempfile.TemporaryDirectory() as place:
        for name, masks in said.items():
            video, expression = name.rsplit("/", 1)
            write_tree(Path(place, video, expression), scorer.exp_dict[video]["frames"], masks)
            scores: dict[str, Any] = {}
            scorer.eval_queue(Queue([(video, expression)]), 0, scores, place)
            (number,) = scorer.exp_dict[video]["expressions"][expression]["anno_id"]
            found[name] = [number, *map(float, scores[f"{video}_{expression}"])]
    return found


def by_davis(official: Path, part: Path, meta: Path, said: Any, annotator: int) -> dict[str, Any]:
    """[J, F] of each object by the DAVIS scorer in ReferFormer, for one annotator."""
    sys.path.insert(0, str(official / "ReferFormer"))
    from davis2017.evaluation import DAVISEvaluation

    videos = json.loads(meta.read_text("utf-8"))["videos"]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for kind, source in (
            ("JPEGImages", "JPEGImages"),
            ("Annotations_unsupervised", "Annotations"),
        ):
            (place / "DAVIS" / kind).mkdir(parents=True)
            (place / "DAVIS" / kind / "480p").symlink_to((part / source).resolve())
        (place / "DAVIS/ImageSets/2017").mkdir(parents=True)
        (place / "DAVIS/ImageSets/2017/val.txt").write_text("\n".join(videos) + "\n")
        for video, entry in videos.items():
            ids = list(entry["expressions"])[annotator::4]
            scores = np.stack([said[f"{video}/{one}"] for one in ids]).astype(np.float32)
            background = np.full((1, *scores.shape[1:]), 0.1, np.float32)
            labels = np.argmax(np.concatenate([background, scores]), axis=0).astype(np.uint8)
            (place / "said" / video).mkdir(parents=True)
            for frame, image in zip(entry["frames"], labels, strict=True):
                Image.fromarray(image).save(place / "said" / video / f"{frame}.png")
        evaluation = DAVISEvaluation(str(place / "DAVIS"), "unsupervised", "val")
        found = quiet(evaluation.evaluate, str(place / "said"))
    return {
        "J": [float(one) for one in found["J"]["M"]],
        "F": [float(one) for one in found["F"]["M"]],
    }


def write(name: str, **content: Any) -> None:
    """Write one golden file, a sample a line."""
    text = json.dumps({"tools": COMMITS, **content}, ensure_ascii=False, separators=(",", ":"))
    (HERE / name).write_text(text.replace('{"id"', '\n{"id"') + "\n", encoding="utf-8")
    sys.stdout.write(f"{name}: {(HERE / name).stat().st_size} bytes\n")


def main(official: Path) -> None:
    """Write every file."""
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder, "world")
        make(world, **WORLD, writers=WRITERS)
        readers = {"revos": revos, "ref_youtube_vos": ref_youtube_vos, "ref_davis17": ref_davis17}
        for name, read in readers.items():
            roots = {"example": TASKS / name / "example", "world": world}
            rows = {place: read(official, root) for place, root in roots.items()}
            more = {"published": valid_of_visa(official)} if name == "ref_youtube_vos" else {}
            write(f"{name}.json", made=WORLD, **more, **rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    main(parser.parse_args().official)
