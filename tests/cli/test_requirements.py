"""What `harness list` says that a plugin needs is declared for each, and is so."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint

import pytest

from harness import plugins
from harness.catalog.requirements import NEEDS_FILE, declared_requirements, requirements_of
from harness.catalog.settings import settings
from harness.errors import DataError

KINDS = ("backends", "segmenters", "propagators")
BARE = """
import sys

for package in ("torch", "transformers", "vllm", "lmms_eval"):
    sys.modules[package] = None
from harness import plugins

for kind, name in {found}:
    plugins.build(kind, name)
print("built")
"""


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_of_ours_says_what_it_needs_and_no_other_is_named(kind):
    entries = plugins.installed_plugins(kind)
    (folder,) = {plugins.folder(entry) for entry in entries.values()}
    assert set(tomllib.loads((folder / NEEDS_FILE).read_text())) == set(entries)


def test_what_needs_nothing_is_built_where_no_framework_is_installed():
    found = [
        (kind, name)
        for kind in (*KINDS, "models")
        for name, entry in plugins.installed_plugins(kind).items()
        if not requirements_of(kind, entry)
    ]
    assert {name for _, name in found} >= {"stored", "grabcut", "box", "flow", "still", "saliency"}
    done = subprocess.run(
        [sys.executable, "-c", BARE.format(found=found)], capture_output=True, text=True
    )
    assert done.stdout.strip() == "built", done.stderr


def test_listing_imports_no_framework_and_no_plugin():
    script = (
        "import sys\n"
        "from harness.cli.main import main\n"
        f"[main(['list', kind, '--json']) for kind in {(*KINDS, 'models')}]\n"
        "wrong = {'torch', 'transformers', 'numpy', 'harness.models.qwen_vl.model'}\n"
        "print(sorted(wrong & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A segmenter of another package."""
    place = tmp_path / "toys"
    place.mkdir()
    (place / "__init__.py").touch()
    (place / "cut.py").write_text("def cut(*, where, size=3):\n    return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry = plugins.EntryPoint("cut", "toys.cut:cut", "harness.segmenters")
    yield place / NEEDS_FILE, entry
    sys.modules.pop("toys", None)


def test_another_packages_part_may_say_it_too(toy):
    file, entry = toy
    assert requirements_of("segmenters", entry) == ["where"]
    from harness.catalog.requirements import _read_needs

    _read_needs.cache_clear()
    file.write_text('[cut]\ngiven = ["scissors", "where"]\npackages = ["steel"]\n')
    assert requirements_of("segmenters", entry) == ["where", "scissors", "steel"]


@pytest.mark.parametrize("text", ["[cut", '[cut]\ngiven = "scissors"\n', "cut = 3\n"])
def test_a_file_in_another_form_is_named(toy, text):
    file, entry = toy
    file.write_text(text)
    with pytest.raises(DataError, match=r"needs\.toml"):
        declared_requirements(entry)


def test_a_default_that_several_names_have_is_shown_whichever_is_named(tmp_path, monkeypatch):
    (tmp_path / "named_twice.py").write_text(
        "FEW = LEAST = 5\n\n\ndef made(*, few: int = FEW, least: int = LEAST) -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "folder", lambda entry: tmp_path)
    found = settings(EntryPoint("made", "named_twice:made", "harness.models"))
    assert found == {"few": "=5", "least": "=5"}
