import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.models.vlm import dialect
from harness.rehearsal import standins

snapshot_download = pytest.importorskip("huggingface_hub").snapshot_download
pytest.importorskip("torch")
pytest.importorskip("transformers")
LOADS = Path(__file__).parent / "loads.py"
FEW = (
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "facebook/sam2-hiera-large",
)
REPOSITORY = Path(__file__).parents[2]


def problems(cache: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Make stand-ins, and load each by its name in a process without a network."""
    for name in names:
        standins.make(name, None, cache)
    variables = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(LOADS), *names]
    run = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True, timeout=600
    )
    return dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith('["'))


def test_published_names_load_by_the_real_loaders(tmp_path: Path) -> None:
    assert problems(tmp_path, FEW) == dict.fromkeys(FEW, "")


@pytest.mark.slow
def test_every_other_name_loads_too(tmp_path: Path) -> None:
    names = tuple(name for name in standins.names() if name not in FEW)
    assert problems(tmp_path, names) == dict.fromkeys(names, "")


def test_a_stand_in_is_made_once_and_lies_as_the_hub_lays_it(tmp_path: Path) -> None:
    name = "facebook/dinov2-base"
    folder = standins.make(name, None, tmp_path)
    home = tmp_path / "models--facebook--dinov2-base"
    assert folder.parent == home / "snapshots" and re.fullmatch("[0-9a-f]{40}", folder.name)
    assert (home / "refs/main").read_text() == folder.name
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert standins.make(name, "v1.0", tmp_path) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert (home / "refs/v1.0").read_text() == folder.name
    commit = "a" * 40  # a loader looks for its folder, and for no reference
    pinned = standins.make(name, commit, tmp_path)
    assert pinned == home / "snapshots" / commit and not (home / "refs" / commit).exists()
    assert (pinned / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    for revision, wanted in ((commit, pinned), ("v1.0", folder), (None, folder)):
        found = snapshot_download(
            name, revision=revision, cache_dir=tmp_path, local_files_only=True
        )
        assert Path(found) == wanted
    other = standins.make(name, None, tmp_path, seed=1)
    assert other != folder and (home / "refs/main").read_text() == other.name
    weights = "model.safetensors"
    assert (other / weights).read_bytes() != (folder / weights).read_bytes()
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        standins.make("Qwen/Qwen2.5-VL-3B-Instruct", None, tmp_path / one) for one in "ab"
    )
    assert first.name == second.name
    contents = [
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in (first, second)
    ]
    assert contents[0] == contents[1]


def test_what_it_refuses() -> None:
    with pytest.raises(UsageError, match="none there"):
        standins.facts_of("nobody/nothing")
    for name in standins.refusals():
        with pytest.raises(UsageError, match=re.escape(standins.refusals()[name][:30])):
            standins.facts_of(name)


NAMED = re.compile(
    r"(?:checkpoint=|checkpoint = \"|model=|pretrained=|hf download |scorer=)"
    r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*[A-Za-z0-9])"
)
LOCAL = re.compile(r"(runs|out|x|models|none|me|nobody|DIR|RUN)/")
"""Folders in examples, and names that stand for any."""


def named_checkpoints() -> dict[str, str]:
    """Every checkpoint that a SPEC or a command names in boards, configs, cards and pages."""
    found: dict[str, str] = {}
    for room in ("leaderboards", "trainers", "models", "docs", "tasks", "README.md", "skills"):
        start = REPOSITORY / room
        paths = [start] if start.is_file() else sorted(start.rglob("*"))
        for path in paths:
            if path.suffix in (".toml", ".md", ".py") and "/golden/" not in str(path):
                for name in NAMED.findall(path.read_text("utf-8")):
                    found.setdefault(name, str(path.relative_to(REPOSITORY)))
    for name in dialect.names():
        found |= dict.fromkeys(dialect.dialect(name).checkpoints, f"dialect {name}")
    return {name: place for name, place in found.items() if not LOCAL.match(name)}


def test_every_checkpoint_that_is_named_anywhere_has_a_stand_in_or_a_reason() -> None:
    known = {*standins.names(), *standins.refusals()}
    assert {name: place for name, place in named_checkpoints().items() if name not in known} == {}


def test_a_checkout_of_sam2_whose_distribution_has_another_name_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sam2").mkdir()
    (tmp_path / "sam2" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(standins, "installed_version", {"torch": "2"}.get)
    versions = standins._versions.__wrapped__()
    assert (versions["torch"], versions["sam2"]) == ("2", "unknown")
