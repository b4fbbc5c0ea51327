"""Write the golden sizes of frames under a total budget, as the package qwen-vl-utils 0.0.14 has
them.

    pip download --no-deps qwen-vl-utils==0.0.14 && unzip qwen_vl_utils-0.0.14-*.whl -d FOLDER
    python tests/golden/make_frame_sizes.py FOLDER

Its `fetch_video` is called as it is; a stand-in for torchvision notes the size that it resizes to.
"""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

OUT = Path(__file__).parent / "qwen_vl_utils" / "frame_sizes.json"
WHAT = (
    "fetch_video: [factor, min_pixels, max_pixels, total_pixels, frames, width, height, "
    "width of the frames, their height]"
)
LIMITS = {  # name: patch, min_pixels, max_pixels, total_pixels
    "24,576 tokens of Qwen2.5-VL": (14, 128 * 28**2, 768 * 28**2, 24576 * 28**2),
    "224,000 tokens of Qwen3-VL": (16, 4 * 32**2, 640 * 32**2, 224000 * 32**2),
    "the same, frames of 128 tokens": (16, 128 * 32**2, 768 * 32**2, 224000 * 32**2),
    "README of Qwen3-VL": (16, 4 * 32**2, 256 * 32**2, 20480 * 32**2),
    "VideoMME of Qwen3-VL": (16, 3584, 401408, 19267584),
}
FRAMES = (2, 4, 32, 64, 128, 376, 512, 768, 2048)
SIZES = ((1920, 1080), (640, 480), (2173, 1343), (90, 720), (300, 2390))


def official(folder: str) -> Any:
    """The module, and the list that its sizes go to."""
    sizes: list[list[int]] = []
    names = ("torchvision", "torchvision.io", "torchvision.transforms", "torchvision.functional")
    package, reader, transforms, functional = modules = [ModuleType(name) for name in names]
    package.__dict__.update(io=reader, transforms=transforms, __version__="0.30")
    transforms.__dict__.update(InterpolationMode=SimpleNamespace(BICUBIC=3), functional=functional)

    def resize(video: object, size: list[int], **_: object) -> Any:
        sizes.append(size)
        return SimpleNamespace(float=lambda: None)

    functional.__dict__["resize"] = resize
    sys.modules |= dict(zip(names, modules, strict=True))
    sys.modules.setdefault("requests", ModuleType("requests"))
    sys.path.insert(0, folder)
    from qwen_vl_utils import vision_process

    return vision_process, sizes


def main() -> None:
    """Write the file."""
    module, sizes = official(sys.argv[1])
    module.get_video_reader_backend = lambda: "none"
    cases = []
    for patch, low, high, total in LIMITS.values():
        for frames in FRAMES:
            for width, height in SIZES:
                video = SimpleNamespace(shape=(frames, 3, height, width))
                module.VIDEO_READER_BACKENDS["none"] = lambda _, video=video: (video, {}, 2.0)
                limits = {"min_pixels": low, "max_pixels": high, "total_pixels": total}
                module.fetch_video({"video": "", **limits}, image_patch_size=patch)
                given = [2 * patch, low, high, total, frames, width, height]
                cases.append([*given, *reversed(sizes[-1])])
    head = {"tool": "qwen-vl-utils", "commit": "0.0.14", "what": WHAT}
    rows = ",\n".join(map(json.dumps, cases))
    text = f'{json.dumps(head)[:-1]}, "cases": [\n{rows}\n]}}\n'
    OUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
