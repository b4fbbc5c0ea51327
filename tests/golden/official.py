"""Run official tools from their checkouts without what they import, and keep what they say."""

import ast
import contextlib
import importlib.util
import io
import json
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

HERE = Path(__file__).parent
COMMITS = {
    "davis2017-evaluation": "ac7c43fca936f9722837b7fbd337d284ba37004b",
    "LISA": "3cb2d4301f1af4691bd4f3938335ef06e76f155a",
    "MeViS": "7c0620b9dc0ab7802747957f221674f175c8a47b",
    "VisionReasoner": "a455092a8d57d96f5d6e77597fb5a8741b8f3880",
    "Seg-Zero": "42a33455283ba041a3099cf154a708116f300cec",
}


class Queue:
    """As much of a multiprocessing queue as MeViS' worker uses."""

    def __init__(self, items: list[tuple[str, str]]) -> None:
        self.items = items

    def empty(self) -> bool:
        """Whether all is done."""
        return not self.items

    def get(self) -> tuple[str, str]:
        """The next (video, expression)."""
        return self.items.pop(0)


def replace_scikit_image() -> None:
    """Put the one function that is used of scikit-image, a disk of pixels, into its place.

    LLMSeg imports another, and calls it in no function that is run here.
    """
    if importlib.util.find_spec("skimage") is not None:
        return
    morphology = types.ModuleType("skimage.morphology")
    morphology.disk = lambda radius: (  # type: ignore[attr-defined]
        np.add.outer(*[np.arange(-radius, radius + 1) ** 2] * 2) <= radius**2
    ).astype(np.uint8)
    transform = types.ModuleType("skimage.transform")
    transform.resize = None  # type: ignore[attr-defined]
    sys.modules |= {
        "skimage": types.ModuleType("skimage"),
        "skimage.morphology": morphology,
        "skimage.transform": transform,
    }


def module(path: Path) -> Any:
    """Import one file of a checkout."""
    spec = importlib.util.spec_from_file_location(f"official_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def compiled(path: Path, names: Sequence[str], namespace: dict[str, Any]) -> dict[str, Any]:
    """Compile some functions of a file without running its imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    exec(compile(tree, str(path), "exec"), namespace)
    return namespace


def with_locals(function: Callable[..., Any], *arguments: Any) -> tuple[dict[str, Any], Any]:
    """Call a function; return its local variables as they were at its end, and its result."""
    seen: dict[str, Any] = {}

    def watch(frame: types.FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is function.__code__:
            seen.update(frame.f_locals)

    sys.setprofile(watch)
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(None)
    return seen, result


def summary(path: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Run a script's `calculate_metrics` on rows; its numbers before they are rounded to print."""
    namespace: dict[str, Any] = {}
    for name in ("os", "json", "glob"):
        namespace[name] = __import__(name)
    function = compiled(path, ["calculate_metrics"], {**namespace, "np": np})["calculate_metrics"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        Path(folder, "output_0.json").write_text(json.dumps(rows))
        inside, _ = with_locals(function, folder)
    return inside


class LisaModel:
    """Answers LISA's `validate` with the masks that are stored in its input."""

    def eval(self) -> None:
        """Nothing to switch."""

    def __call__(self, *, case: Sequence[Any], **_: Any) -> dict[str, Any]:
        import torch

        ground_truth, answer, ignore = case
        labels = ground_truth.astype(np.int64)
        if ignore is not None:
            labels[ignore] = 255
        logits = np.where(answer, 1.5, -1.5)[None]
        return {"pred_masks": [torch.tensor(logits)], "gt_masks": [torch.tensor(labels[None])]}


def write(name: str, tool: str, source: str, **content: Any) -> None:
    """Write one golden file, a case a line."""
    head = {
        "tool": tool,
        "commit": COMMITS[tool],
        "source": source,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**head, **content}, ensure_ascii=False, separators=(",", ":"))
    for mark in ('{"size"', '{"track"'):
        text = text.replace(mark, "\n" + mark)
    path.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(f"{name}: {path.stat().st_size} bytes\n")
