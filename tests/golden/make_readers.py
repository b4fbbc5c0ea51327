"""Write the golden files of readers: what the official readers make of the same folders.

    python tests/golden/make_readers.py --official FOLDER [--real FOLDER]

FOLDER holds checkouts named `LISA`, `MeViS` and `Seg-Zero` at the commits of `official.py`; their
code is imported or compiled from there, and none of it is kept here. Counting lists are loaded by
the package `datasets`, at the version that constraints.txt names, as the official evaluation does.
Nothing of harness reads here; it only makes the world that is read.
"""

import argparse
import ast
import hashlib
import json
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import cv2
import numpy as np
from official import COMMITS, Queue, compiled, module, with_locals
from PIL import Image

from harness.tasks.counting.writer import write as write_counting
from harness.tasks.mevis.writer import write as write_mevis
from harness.tasks.reason_seg.writer import write as write_reason_seg
from harness.world.shapes import make

HERE = Path(__file__).parent / "readers"
TASKS = Path(__file__).resolve().parents[2] / "tasks"
WORLD = {"seed": 20250102, "size": 6}
WRITERS = {"reason_seg": write_reason_seg, "mevis": write_mevis, "counting": write_counting}
LISTS = {
    "pixmo_val": ("counting_pixmo_validation", "test"),
    "pixmo_test": ("counting_pixmo_test", "test"),
    "pixmo_train": ("pixmo-count", "train"),
    "countbench": ("countbench", "train"),
    "countbenchqa": ("CountBenchQA", "test"),
    "countbench_visionreasoner": ("counting_countbench", "test"),
}
COLUMNS = {
    "id": ("image_id", "image_sha256"),
    "count": ("count", "number"),
    "label": ("label",),
    "text": ("question", "text"),
    "points": ("points",),
}


def digest(array: Any) -> str:
    """128 bits of BLAKE2b of an array as bytes, row by row."""
    plain = np.ascontiguousarray(array, dtype=np.uint8).tobytes()
    return hashlib.blake2b(plain, digest_size=16).hexdigest()


def official_class(path: Path, name: str, namespace: dict[str, Any]) -> Any:
    """Compile one class of a file without running the file's imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    exec(compile(tree, str(path), "exec"), namespace)
    return namespace[name]


def lisa_reader(official: Path) -> Callable[[Path, str], dict[str, dict[str, Any]]]:
    """LISA's `ValDataset`, its networks' preprocessing replaced by nothing."""
    tool = module(official / "LISA/utils/data_processing.py")
    torch = MagicMock()
    torch.utils.data.Dataset = object
    stand_ins = ("conversation_lib", "CLIPImageProcessor", "ResizeLongestSide", "REFER")
    dataset_class = official_class(
        official / "LISA/utils/dataset.py",
        "ValDataset",
        {
            "os": os,
            "glob": __import__("glob"),
            "json": json,
            "cv2": cv2,
            "np": np,
            "torch": torch,
            "get_mask_from_json": tool.get_mask_from_json,
            "DEFAULT_IMAGE_TOKEN": "",
            **{name: MagicMock() for name in stand_ins},
        },
    )

    def read(root: Path, split: str) -> dict[str, dict[str, Any]]:
        dataset = dataset_class(str(root), None, None, f"ReasonSeg|{split}")
        dataset.preprocess = lambda image: image
        found = {}
        for index in range(len(dataset)):
            inside, _ = with_locals(dataset.__getitem__, index)
            painted = inside["mask_json"]
            found[Path(inside["image_path"]).stem] = {
                "text": inside["text"],
                "is_sentence": inside["is_sentence"],
                "size": list(painted.shape),
                "lisa": digest(painted),
            }
        return found

    return read


def hub_reader(official: Path) -> Callable[[Path, str], dict[str, list[Any]]]:
    """The script that made the copies of ReasonSeg on the hub, up to where it would upload."""
    path = official / "Seg-Zero/evaluation_scripts/create_reasonseg_hf.py"
    names = {
        "glob": __import__("glob"),
        "json": json,
        "cv2": cv2,
        "np": np,
        "PILImage": Image,
        "tqdm": iter,
    }
    functions = compiled(path, ["get_mask_from_json"], names)
    (main,) = (node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.If))
    body = [node for node in main.body if not _assigns(node, "data_dir", "data_split")]
    code = compile(ast.Module(body=body, type_ignores=[]), str(path), "exec")

    def read(root: Path, split: str) -> dict[str, list[Any]]:
        kept: dict[str, Any] = {}
        place = str(root / "reason_seg/ReasonSeg" / split)
        upload = {"create_and_push_dataset": lambda **given: kept.update(given["test_data"])}
        exec(code, {**functions, **upload, "data_dir": place, "data_split": split})
        return kept

    return read


def _assigns(node: ast.stmt, *names: str) -> bool:
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) in names


def reason_seg(official: Path, root: Path) -> dict[str, Any]:
    """Every sample of each split, in the order of the copies on the hub."""
    lisa, hub = lisa_reader(official), hub_reader(official)
    splits = {}
    for folder in sorted((root / "reason_seg/ReasonSeg").iterdir()):
        by_lisa, copies = lisa(root, folder.name), hub(root, folder.name)
        assert set(by_lisa) == set(copies["image_id"])
        rows = []
        for place, name in enumerate(copies["image_id"]):
            assert copies["text"][place].strip() == by_lisa[name]["text"]
            rows.append({"id": name, **by_lisa[name], "hub": digest(copies["mask"][place])})
        splits[folder.name] = rows
    return splits


def mevis(official: Path, root: Path) -> dict[str, Any]:
    """Every expression of each split: as the loader has it, with the ground truth of the scorer."""
    sys.modules["metrics"] = types.SimpleNamespace(  # type: ignore[assignment]
        db_eval_iou=lambda *_: np.zeros(1), db_eval_boundary=lambda *_: np.zeros(1)
    )
    scorer = module(official / "MeViS/tools/eval_mevis.py")
    load = compiled(
        official / "MeViS/lmpm/data/datasets/mevis.py",
        ["load_mevis_json"],
        {
            "os": os,
            "json": json,
            "tqdm": iter,
            "print": lambda *_: None,
            "logger": MagicMock(),
            "BoxMode": MagicMock(),
        },
    )["load_mevis_json"]
    splits = {}
    for folder in sorted((root / "mevis").iterdir()):
        rows = []
        for record in load(str(folder), str(folder / "meta_expressions.json")):
            row = {
                "id": f"{record['video_name']}/{record['exp_id']}",
                "text": record["sentence"],
                "frames": [Path(name).stem for name in record["file_names"]],
            }
            if (folder / "mask_dict.json").is_file():
                row["ground_truth"] = mevis_ground_truth(scorer, folder, row)
            rows.append(row)
        splits[folder.name] = rows
    return splits


def mevis_ground_truth(scorer: Any, folder: Path, row: dict[str, Any]) -> list[Any]:
    """[frames, height, width, digest] of the track that the scorer compares with."""
    video, expression = row["id"].split("/")
    scorer.exp_dict = json.loads((folder / "meta_expressions.json").read_text("utf-8"))["videos"]
    scorer.mask_dict = json.loads((folder / "mask_dict.json").read_text("utf-8"))
    image = cv2.imread(str(folder / "JPEGImages" / video / f"{row['frames'][0]}.jpg"))
    with tempfile.TemporaryDirectory() as predictions:
        place = Path(predictions, video, expression)
        place.mkdir(parents=True)
        for name in {"00000", *row["frames"]}:
            cv2.imwrite(str(place / f"{name}.png"), np.zeros(image.shape[:2], np.uint8))
        queue = Queue([(video, expression)])
        inside, _ = with_locals(scorer.eval_queue, queue, 0, {}, predictions)
    track = inside["gt_masks"].astype(np.bool_)
    return [*track.shape, digest(track)]


def counting(root: Path) -> dict[str, Any]:
    """Every row of each list, as `datasets` loads and decodes it."""
    return {
        name: list(counting_rows(root / "counting" / folder, split))
        for name, (folder, split) in LISTS.items()
        if (root / "counting" / folder).is_dir()
    }


def counting_rows(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """One list's rows; the image as a digest of its RGB pixels, None where it is lost."""
    from datasets import load_dataset

    with tempfile.TemporaryDirectory() as cache:
        rows = load_dataset(str(folder), split=split, cache_dir=cache)
        for number, row in enumerate(rows):
            image = row.get("image")
            if "image_sha256" in row:
                image = Image.open(folder / "images" / row["image_sha256"])
            found = {
                key: next((row[name] for name in names if name in row), None)
                for key, names in COLUMNS.items()
            }
            found["id"] = str(number) if found["id"] is None else found["id"]
            pixels = None if image is None else np.asarray(image.convert("RGB"))
            found["pixels"] = None if pixels is None else [*pixels.shape[:2], digest(pixels)]
            yield {key: value for key, value in found.items() if value is not None}


def unnamed(value: Any) -> Any:
    """Rows without their words: ids, texts and frame names become digests."""
    if isinstance(value, dict):
        hidden = {
            key: digest(np.frombuffer(json.dumps(value[key]).encode(), np.uint8))
            for key in ("id", "text", "frames")
            if key in value
        }
        return {**{key: unnamed(one) for key, one in value.items()}, **hidden}
    return [unnamed(one) for one in value] if isinstance(value, list) else value


def write(name: str, tools: dict[str, str], **content: Any) -> None:
    """Write one golden file, a sample a line."""
    HERE.mkdir(exist_ok=True)
    text = json.dumps({"tools": tools, **content}, ensure_ascii=False, separators=(",", ":"))
    (HERE / name).write_text(text.replace('{"id"', '\n{"id"') + "\n", encoding="utf-8")
    sys.stdout.write(f"{name}: {(HERE / name).stat().st_size} bytes\n")


def main(official: Path, real: Path | None) -> None:
    """Write every file."""
    import datasets

    datasets.disable_progress_bars()
    lisa = {"LISA": COMMITS["LISA"], "Seg-Zero": COMMITS["Seg-Zero"]}
    video = {"MeViS": COMMITS["MeViS"]}
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder, "world")
        make(world, **WORLD, writers=WRITERS)
        roots = {name: {"example": TASKS / name / "example", "world": world} for name in WRITERS}
        read: dict[str, Callable[[Path], Any]] = {
            "reason_seg": lambda root: reason_seg(official, root),
            "mevis": lambda root: mevis(official, root),
            "counting": counting,
        }
        tools = {"reason_seg": lisa, "mevis": video, "counting": {"datasets": datasets.__version__}}
        for name, places in roots.items():
            rows = {place: read[name](root) for place, root in places.items()}
            write(f"{name}.json", tools[name], made=WORLD, **rows)
    if real is not None:
        found = {"reason_seg": reason_seg(official, real), "mevis": mevis(official, real)}
        write("real.json", lisa | video, **{name: _each(rows) for name, rows in found.items()})


def _each(splits: dict[str, Any]) -> dict[str, Any]:
    return {split: unnamed(rows) for split, rows in splits.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--real", type=Path)
    given = parser.parse_args()
    main(given.official, given.real)
