"""A hub on this machine, a training and its runs."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli.main import main
from harness.run.checkpoint_provenance import write_origins
from harness.run.training_record import MANIFEST, VERSION

sys.path.insert(0, str(Path(__file__).parents[2] / "serving"))

from hub_folders import MODEL, TOKEN, weights
from hub_server import VARIABLES, served


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that has a model and no other repository."""
    constants = pytest.importorskip("huggingface_hub.constants")
    retried = ("huggingface_hub.utils._http", "huggingface_hub.file_download")
    files = {"config.json": b"{}", "sub/notes.txt": b"a note", "model.safetensors": weights()}
    with served({MODEL: files}) as server:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        for module in map(pytest.importorskip, retried):  # what breaks off is tried again at once
            monkeypatch.setattr(module, "time", SimpleNamespace(**vars(time) | {"sleep": int}))
        yield server


@pytest.fixture
def token(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.fixture
def command(capsys):
    """The command: its exit code, and all that it printed, in which no token stands."""

    def run(*arguments):
        code = main(["hub", *map(str, arguments)])
        text = "".join(capsys.readouterr())
        assert TOKEN not in text and "signed=" not in text and "Traceback" not in text
        return code, text

    return run


@pytest.fixture
def training(tmp_path):
    """A finished training with a checkpoint, as the engine leaves it."""
    folder = tmp_path / "home" / "grpo-0"
    (folder / "checkpoint").mkdir(parents=True)
    task = {"spec": "reason_seg(split=train)", "name": "reason_seg", "version": 2, "n_total": 7}
    manifest = {
        "version": VERSION,
        "harness": "0.1.0",
        "method": {"name": "dr2seg", "spec": "dr2seg(n0=45)", "settings": {"n0": 45, "x": "a|b"}},
        "model": {
            "spec": f"qwen_vl(checkpoint={tmp_path}/base)",
            "base": {"checkpoint": "Qwen/Some-7B", "weights": "beef" * 8},
            "description": {"chat": {"folder": f"{tmp_path}/base"}},
        },
        "tasks": [{**task, "fingerprint": "f1" * 16, "images": "12" * 16, "ids": "1d" * 16}],
        "seed": 3,
        "provenance": {"commit": "0123456789abcdef"},
        "config_hash": "c0ffee",
        "data_root": str(tmp_path / "data"),
        "base_is_folder": False,
        "result": {"steps": 4},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))
    rows = [{"step": n, "rewards/accuracy": n / 4, "lr": 1.0, "reward": n} for n in range(1, 5)]
    (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, content in {
        "model.safetensors": weights(),
        "config.json": b"{}",
        "harness.json": json.dumps(manifest).encode(),
        "harness_inference.json": b'{"version": 1, "model": "qwen_vl(prompt=locate)"}',
    }.items():
        (folder / "checkpoint" / name).write_bytes(content)
    return folder


@pytest.fixture
def evaluated(training, make_run):
    """Write a run of the training's checkpoint."""

    def make(name, **given):
        run = make_run(name, **given)
        write_origins(run, [training / "checkpoint"])
        return run

    return make
