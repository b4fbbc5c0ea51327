"""Run official tools from their checkouts without what they import, and write what they say."""

import ast
import contextlib
import importlib.util
import io
import json
import os
import re
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
COMMITS = {
    "parse_answer": "afd52cfe3dde5b3685e0d4f760c10c756860c758",
    "TempCompass": "e1b463166400633e6061962d890a9ae85db29f70",
    "spar": "167988589c2d862e4b78b7d59d0d1eacfa437f31",
    "STI-Bench": "43ddebea5e386072cc9f95f4b3cdbe81fbc390a3",
    "thinking-in-space": "51e089c3ae69b9435e9489058610f5b3964c56a8",
    "lmms-eval": "75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3",
    "V-STaR": "1894682b15be0a0c0c5ab24be6e8252743cd6c2f",
    "Seg-Zero": "42a33455283ba041a3099cf154a708116f300cec",
    "VisionReasoner": "a455092a8d57d96f5d6e77597fb5a8741b8f3880",
    "pycocotools": "2.0.11",
}


class Silent:
    """Whatever is asked of it, it gives itself and does nothing."""

    def __getattr__(self, name: str) -> "Silent":
        return self

    def __call__(self, *_: Any, **__: Any) -> "Silent":
        return self


def stub(name: str, **content: Any) -> None:
    """Put a module with some names into the place of one that is not installed."""
    module = types.ModuleType(name)
    module.__dict__.update(content)
    sys.modules.setdefault(name, module)


def whole(path: Path) -> Any:
    """Import one file of a checkout, its unneeded imports stubbed."""
    stub("loguru", logger=Silent())
    stub("datasets", Dataset=object)
    stub("PIL", Image=Silent())
    stub("yaml", safe_load=lambda _: {"dataset_kwargs": {"cache_dir": ""}})
    stub("tqdm", tqdm=lambda items, **_: items)
    stub("requests", post=None)
    spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", path.stem), path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def parts(path: Path, names: Sequence[str], **namespace: Any) -> dict[str, Any]:
    """Compile some functions and assignments of a file, without running its imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names)
    ]
    exec(compile(tree, str(path), "exec"), namespace)
    return namespace


@contextlib.contextmanager
def watching(name: str) -> Iterator[list[dict[str, Any]]]:
    """The local variables, at their end, of the functions with this name."""
    seen: list[dict[str, Any]] = []

    def watch(frame: types.FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code.co_name == name:
            seen.append(dict(frame.f_locals))

    sys.setprofile(watch)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield seen
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def inside(folder: str) -> Iterator[None]:
    """Work in another folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def write(name: str, tool: str, what: str, **content: Any) -> None:
    """Write one golden file, a case a line."""
    head = {"tool": tool, "commit": COMMITS[tool], "what": what, "numpy": np.__version__}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, value in content.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, ensure_ascii=False, default=float) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, default=float)}")
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{name}: {path.stat().st_size} bytes\n")
