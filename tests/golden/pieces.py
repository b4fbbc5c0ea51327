"""What the generators of segmentation share: commits, a writer, pieces of official scripts."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.masks import Rle

HERE = Path(__file__).parent
COMMITS = {
    "LLMSeg": "65147a98cc49c2dac9b7a3633d9d3d336f1ac023",
    "LISA": "3cb2d4301f1af4691bd4f3938335ef06e76f155a",
    "ReLA": "3ca955198da8ace68f8980b6fcbada0791cc51c2",
    "gRefCOCO": "41a8f008006bb1fb0f1df2547f9477bb97e36593",
    "VisionReasoner-JIA": "c013132276d85a3a3a4f03a6cd78d3e901e0128d",
    "davis2017-evaluation": "ac7c43fca936f9722837b7fbd337d284ba37004b",
    "ReferFormer": "06fc218f5d8f04730f81471a15ed89ea7e4d30d8",
    "VISA": "ec158fde9cdf87f702399c73618aa0f1127062e9",
    "Sa2VA": "9832e1a80e74ed513e8072bf882a09bdd80566c4",
}


def write(name: str, tool: str, source: str, what: str, **content: Any) -> None:
    """Write one golden file, a case a line."""
    head = {
        "tool": tool,
        "commit": COMMITS[tool],
        "source": source,
        "what": what,
        "numpy": np.__version__,
        "torch": torch.__version__,
    }
    text = json.dumps({**head, **content}, ensure_ascii=False, separators=(",", ":"))
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace('{"size"', '\n{"size"') + "\n", encoding="utf-8")
    sys.stdout.write(f"{name}: {path.stat().st_size} bytes\n")


def classes(path: Path, names: list[str], namespace: dict[str, Any]) -> dict[str, Any]:
    """Compile some classes and functions of a file without running its imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
    exec(compile(tree, str(path), "exec"), namespace)
    return namespace


def statements(path: Path, first: str, last: str) -> Any:
    """Compile a stretch of neighbouring statements, wherever in the file they stand."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        texts = [ast.unparse(one) for one in body] if isinstance(body, list) else []
        starts = [place for place, text in enumerate(texts) if text.startswith(first)]
        ends = [place for place, text in enumerate(texts) if text.startswith(last)]
        if starts and ends:
            tree = ast.Module(body[starts[0] : ends[-1] + 1], [])
            return compile(tree, str(path), "exec")
    raise SystemExit(f"{path}: no statements from {first!r} to {last!r}")


def rle(mask: Any) -> str:
    """The run-length text of a mask."""
    return Rle.from_array(mask).counts
