"""What a checkpoint's files decide is in the record, by their names."""

import json
import shutil

import pytest

pytest.importorskip("torch")

from harness import plugins
from harness.models import pocket, pocket_sam
from harness.record import differences
from harness.spec import Spec

ADDED = (
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "chat_template.json",
    "additional_chat_templates/rag.jinja",
    "tokenizer.model",
)


def described(kind, folder):
    if kind == "backends":
        part = plugins.build(kind, Spec("transformers", {"checkpoint": str(folder)}))
        return json.loads(json.dumps(dict(part.describe())))
    from harness.segmentation import settings

    name = "pocket_sam" if kind == "segmenters" else "pocket_sam_video"
    return settings(plugins.build(kind, Spec(name, {"checkpoint": str(folder)})))


@pytest.fixture
def copied(tmp_path):
    def copy(folder):
        shutil.copytree(folder, tmp_path / "copy")
        return tmp_path / "copy"

    return copy


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "processor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
        *ADDED,
    ],
)
def test_each_file_that_decides_is_compared_and_named(copied, name):
    folder = copied(pocket.FOLDER)
    before = described("backends", folder)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(path.read_text() + "\n" if path.exists() else "{}")
    (line,) = differences(before, described("backends", folder))
    assert line.startswith(f"files.{name}: ")


def test_files_that_decide_nothing_are_not_compared(copied):
    folder = copied(pocket.FOLDER)
    before = described("backends", folder)
    for name in ("README.md", "trainer_state.json", "notes.txt"):
        (folder / name).write_text("{}")
    assert described("backends", folder) == before


@pytest.mark.parametrize("kind", ["segmenters", "propagators"])
def test_files_of_a_segmenter_and_a_propagator_are_compared_too(copied, kind):
    folder = copied(pocket_sam.FOLDER)
    before = described(kind, folder)
    path = folder / "config.json"
    path.write_text(path.read_text() + "\n")
    (line,) = differences(before, described(kind, folder))
    assert line.startswith("files: ") and "config.json" in line
