"""VISA by `--eval_only` of its `train_ds.py`, over the questions laid out as MeViS; videos only.

It segments every frame by itself; its keyframe by LLaMA-VID and its XMem are programs of their own.
"""

from protocol import Files

# isort: split
import json
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import train_ds
from PIL import Image
from utils import dataset_config, rvos_eval_dataset

files = Files()
with tempfile.TemporaryDirectory() as place:
    root, videos = Path(place) / "mevis" / "valid", {}
    for question in files.questions:
        (root / "JPEGImages").mkdir(parents=True, exist_ok=True)
        folder = Path(question.path) if question.is_video else Path(question.path).parent
        (root / "JPEGImages" / question.id).symlink_to(folder)
        frames = [Path(frame).stem for frame in question.frames]
        videos[question.id] = {"frames": frames, "expressions": {"0": {"exp": question.text}}}
    (root / "meta_expressions.json").write_text(json.dumps({"videos": videos}))
    dataset_config.RVOS_ROOT = rvos_eval_dataset.RVOS_ROOT = place
    with suppress(SystemExit):
        train_ds.main(
            [*files.rest, "--log_base_dir", place, "--val_dataset", "mevis_test", "--eval_only"]
        )
    drawn = {path.parent.name: path for path in Path(place).rglob("Annotations/*/0")}
    for question in files.questions:
        masks = sorted(drawn[question.id].iterdir()) if question.id in drawn else []
        if len(masks) == len(question.frames):
            files.write(question, [[np.array(Image.open(mask)) for mask in masks]])
        else:
            files.write(question, error=f"{len(masks)} of {len(question.frames)} masks")
