"""A state of our engine that is not, byte by byte, what was saved is refused with what to do."""

import shutil
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from harness import plugins  # noqa: E402
from harness.errors import StoreError  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.run.train import TrainingOptions, train  # noqa: E402
from harness.spec import parse  # noqa: E402
from harness.trainers import state as states  # noqa: E402
from harness.trainers.state import await_state, check_files, newest_state, saved_state  # noqa: E402

ensure_torchvision()

FILES = ("trained.safetensors", "optimizer.pt", "numbers.json", "files.json")


@pytest.fixture(scope="module")
def begin(tiny_qwen, examples):
    def begin(out, steps):
        trainer = plugins.build("trainers", parse(f"sft(max_steps={steps},report_to=none)"))
        task = plugins.build("tasks", "reason_seg", examples)
        model = parse(f"qwen_vl(checkpoint={tiny_qwen},prompt=locate)")
        return train(trainer, [task], model, out, TrainingOptions(keep_state=True))

    return begin


@pytest.fixture(scope="module")
def trained(begin, tmp_path_factory):
    return begin(tmp_path_factory.mktemp("trained") / "out", 1)


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-9])


def gone(path):
    path.unlink()


@pytest.mark.parametrize("damage", [flipped, cut_off, gone], ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", FILES)
def test_any_damage_is_found_in_any_file(trained, tmp_path, damage, name):
    folder = tmp_path / "step-1"
    shutil.copytree(newest_state(trained.folder / "state"), folder)
    check_files(folder)
    damage(folder / name)
    with pytest.raises(StoreError, match=r"(?s)step-1.*Delete its folder"):
        check_files(folder)


def test_a_training_does_not_go_on_from_a_changed_weight(trained, begin, tmp_path):
    """Which loads, is finite, and would be trained on."""
    shutil.copytree(trained.folder, tmp_path / "out")
    weights = newest_state(tmp_path / "out" / "state") / "trained.safetensors"
    flipped(weights)
    with pytest.raises(StoreError, match=r"of trained\.safetensors that were saved.*Delete"):
        begin(tmp_path / "out", 2)
    shutil.rmtree(weights.parent)
    trained.folder.rename(tmp_path / "whole")
    assert begin(tmp_path / "whole", 2).manifest["result"]["steps"] == 2


def test_another_process_waits_for_the_state_that_the_first_one_saves(tmp_path, monkeypatch):
    began = threading.Event()

    def first():
        with saved_state(tmp_path, 3):
            began.set()
            time.sleep(0.5)

    thread = threading.Thread(target=first)
    thread.start()
    assert began.wait(10)
    monkeypatch.setattr(states, "BEGIN_TIMEOUT", 0.0)
    await_state(tmp_path, 3)
    assert (tmp_path / "step-3").is_dir()
    thread.join()
    start = time.monotonic()
    await_state(tmp_path, 4)  # which nobody saves
    assert time.monotonic() - start < 5
