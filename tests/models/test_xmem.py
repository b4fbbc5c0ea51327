import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from types import SimpleNamespace
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import MissingDependency, ModelError, UsageError
from harness.models.child_process import environment
from harness.models.propagators.checkout import IDENTIFYING_FILES, SOURCES, layers
from harness.models.propagators.checkout_child import (
    AttributeDict,
    cutie_settings,
    load,
    merge_settings,
    resolve_references,
    without_downloads,
)
from harness.models.propagators.cores import CutieCore, XMemCore, config_for, shrunk_size
from harness.segmentation import settings

FAKE = {
    "model/__init__.py": "",
    "inference/__init__.py": "",
    "model/resnet.py": """
def resnet18(pretrained=True, extra_dim=0):
    assert not pretrained, "it would download"
    return "resnet18"
def resnet50(pretrained=True, extra_dim=0):
    assert not pretrained, "it would download"
    return "resnet50"
""",
    "model/network.py": """
from model import resnet
class XMem:
    def __init__(self, config):
        print("the official code prints")
        self.encoder = resnet.resnet50(pretrained=True)
        self.other = resnet.resnet18(pretrained=True, extra_dim=2)
        self.sizes = config["key_dim"], config["value_dim"], config["hidden_dim"]
    def load_weights(self, weights, init_as_zero_if_needed):
        assert init_as_zero_if_needed and self.sizes == (4, 6, 2)
    def to(self, device):
        return self
    def eval(self):
        return self
""",
    "inference/inference_core.py": """
import os
import torch
MEAN, DEVIATION = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
class InferenceCore:
    def __init__(self, network, config):
        self.seen = 0
    def set_all_labels(self, labels):
        self.labels = labels
    def step(self, image, mask=None, valid_labels=None, end=False):
        assert (mask is not None) == (self.seen == 0)
        self.seen += 1
        grey = round(255 * float((image.mean(dim=(1, 2)) * DEVIATION + MEAN).mean()))
        if mask is not None:
            assert valid_labels == self.labels == list(range(1, len(mask) + 1))
            self.mask = mask
        else:
            # It walks to the right, by what the frame before was darker or brighter.
            self.mask = torch.roll(self.mask, abs(grey - self.grey), dims=-1)
            if grey == 77:
                os.write(2, b"the tracker is lost")
                os._exit(3)
            if image.mean() > 2:
                raise ValueError("too bright")
        self.grey = grey
        return torch.cat([0.5 * (1 - self.mask.sum(0, keepdim=True)), self.mask])
""",
}
FAKE_CUTIE = {
    **{f"cutie/{name}__init__.py": "" for name in ("", "model/", "model/utils/", "inference/")},
    "cutie/config/eval_config.yaml": "top_k: 30",
    "cutie/config/model/base.yaml": "embed_dim: 256",
    "cutie/model/utils/resnet.py": FAKE["model/resnet.py"],
    "cutie/model/cutie.py": """
class CUTIE:
    def __init__(self, config):
        assert config.model.embed_dim == 256
    def load_weights(self, weights, init_as_zero_if_needed):
        self.weights = weights
    def state_dict(self):
        return self.weights
    def to(self, device):
        return self
    def eval(self):
        return self
""",
    "cutie/inference/inference_core.py": """
import torch
class InferenceCore:
    def __init__(self, network, cfg):
        self.mask = None
    def step(self, image, mask=None, objects=None, end=False):
        assert (mask is not None) == (self.mask is None)
        grey = round(255 * float(image.mean()))
        if mask is not None:
            self.mask = torch.stack([mask == number for number in objects]).float()
        else:
            self.mask = torch.roll(self.mask, abs(grey - self.grey), dims=-1)
        self.grey = grey
        return torch.cat([0.5 * (1 - self.mask.sum(0, keepdim=True)), self.mask])
    def output_prob_to_mask(self, found):
        return found.argmax(dim=0)
""",
}
"""Cutie walks as `FAKE` does; its frames are not normalised, its masks are labels."""


def checkout(folder: Path, texts=FAKE) -> Path:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """(repo, weights) of a checkout that only looks like XMem's."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("fake")
    weights = {
        "key_proj.key_proj.weight": torch.zeros(4, 1),
        "value_encoder.fuser.block2.conv2.weight": torch.zeros(6, 1),
        "decoder.hidden_update.transform.weight": torch.zeros(6, 1),
    }
    torch.save(weights, folder / "weights.pth")
    return checkout(folder / "repo"), folder / "weights.pth"


@pytest.fixture(scope="module")
def walking(fake):
    return plugins.build(
        "propagators", "xmem", repo=fake[0], weights=fake[1], size=96, device="cpu"
    )


@pytest.fixture(scope="module", params=["xmem", "cutie"])
def each_kind(request, tmp_path_factory):
    """Both propagators, of checkouts that only look like theirs."""
    if request.param == "xmem":
        return request.getfixturevalue("walking")
    torch = pytest.importorskip("torch")
    pytest.importorskip("yaml")
    folder = tmp_path_factory.mktemp("fake-cutie")
    torch.save({"pix_feat_proj.weight": torch.zeros(1, 1024)}, folder / "weights.pth")
    return plugins.build(
        "propagators",
        "cutie",
        repo=checkout(folder / "repo", FAKE_CUTIE),
        weights=folder / "weights.pth",
        size=96,
        device="cpu",
    )


def video(frames: int, *, bright: int | None = None) -> media.Media:
    return grey([255 if index == bright else 16 * index for index in range(frames)])


def grey(levels: Sequence[int]) -> media.Media:
    """A video of one even frame a level: the fake network carries a mask by their differences."""
    images = [np.full((96, 192, 3), level, np.uint8) for level in levels]
    return media.pixels(images, times=range(len(levels)), is_video=True, id=str(levels))


def rectangle(left: int, top: int, right: int, bottom: int, shape=(96, 192)):
    mask = np.zeros(shape, dtype=bool)
    mask[top:bottom, left:right] = True
    return mask


def rolled(mask, steps: int):
    return np.roll(mask, 16 * steps, axis=1)


# groups


def test_masks_that_overlap_are_followed_apart():
    one, two, three = rectangle(0, 0, 9, 9), rectangle(8, 0, 20, 9), rectangle(30, 0, 40, 9)
    empty = np.zeros_like(one)
    assert layers([one, two, empty, three]) == [[0, 3], [1]]
    assert layers([one, one]) == [[0], [1]]
    assert layers([empty]) == []


# the official interface


class Core:
    """What was asked of an InferenceCore; it repeats the masks."""

    made: ClassVar[list["Core"]] = []

    def __init__(self, network, config=None, cfg=None):
        self.network, self.config, self.steps = network, config or cfg, []
        Core.made.append(self)

    def set_all_labels(self, labels):
        self.labels = labels

    def step(self, image, mask=None, valid_labels=None, end=False, objects=None):
        import torch

        given = valid_labels if objects is None else objects
        self.steps.append((tuple(image.shape), mask is not None, given, end))
        if mask is not None:
            self.mask = (
                mask
                if mask.ndim == 3
                else torch.stack([mask == number for number in objects]).float()
            )
        return torch.cat([0.5 * (1 - self.mask.sum(0, keepdim=True)), self.mask])

    def output_prob_to_mask(self, found):
        return found.argmax(dim=0)


def walked(core, masks, frames: int):
    Core.made.clear()
    core.begin(np.stack(masks), frames)
    frame = np.full((*masks[0].shape, 3), 7, np.uint8)
    labels = [core.step(frame, last=index == frames - 1) for index in range(frames)]
    return Core.made[0], labels


@pytest.mark.parametrize("kind", ["xmem", "cutie"])
def test_a_core_is_fed_as_the_official_evaluation_feeds_it(kind):
    pytest.importorskip("torch")
    network = SimpleNamespace()
    core = (
        XMemCore(network, Core, size=96, device="cpu", sizes={"hidden_dim": 2})
        if kind == "xmem"
        else CutieCore(network, Core, config={"mem_every": 5}, device="cpu")
    )
    masks = [rectangle(16, 16, 48, 48, (192, 384)), rectangle(64, 32, 96, 80, (192, 384))]
    seen, labels = walked(core, masks, 3)
    shape = (3, 96, 192) if kind == "xmem" else (3, 192, 384)
    assert seen.steps == [
        (shape, True, [1, 2], False),
        (shape, False, None, False),
        (shape, False, None, True),
    ]
    assert seen.network is network
    for found in labels:
        assert found.dtype == np.uint8 and found.shape == (192, 384)
        for number, mask in enumerate(masks, start=1):
            assert (found == number).sum() == pytest.approx(mask.sum(), rel=0.1)
            assert (mask & (found == number)).sum() > 0.9 * mask.sum()
    if kind == "xmem":
        assert seen.labels == [1, 2]
        assert seen.config["mem_every"] == 5 and seen.config["top_k"] == 30
        assert seen.config["hidden_dim"] == 2
    else:
        assert all(np.array_equal(found == 1, masks[0]) for found in labels)


def test_memory_use_is_counted_in_very_long_walks_only():
    assert not config_for(390)["enable_long_term_count_usage"]
    assert config_for(391)["enable_long_term_count_usage"]


def test_the_longer_side_is_rounded_down():
    assert shrunk_size((480, 854), 480) == (480, 854)
    assert shrunk_size((100, 151), 50) == (50, 75)


# the process


def test_objects_are_followed_both_ways_and_keep_their_numbers(walking):
    one, two = rectangle(64, 16, 80, 48), rectangle(96, 48, 112, 80)
    tracks = walking.propagate(video(5), 2, [one, two])
    for track, mask in zip(tracks, [one, two], strict=True):
        for index in range(5):
            assert np.array_equal(track[index], rolled(mask, abs(index - 2)))


def test_overlapping_and_empty_masks_keep_their_own_tracks(walking):
    one, two = rectangle(64, 16, 96, 48), rectangle(80, 16, 112, 48)
    tracks = walking.propagate(video(3), 0, [one, two, one & False])
    for track, mask in zip(tracks, [one, two, one & False], strict=True):
        assert [np.array_equal(track[index], rolled(mask, index)) for index in range(3)] == [
            True
        ] * 3


@pytest.mark.parametrize("start", range(6))
def test_a_video_played_backwards_gives_the_same_tracks(each_kind, start):
    levels = [8, 20, 0, 34, 2, 24]  # no two of them differ by as much as two others
    masks = [rectangle(8, 16, 24, 48), rectangle(40, 48, 56, 80)]
    forward = each_kind.propagate(grey(levels), start, masks)
    backward = each_kind.propagate(grey(levels[::-1]), 5 - start, masks)
    steps = np.abs(np.diff(levels))
    for track, mirrored, mask in zip(forward, backward, masks, strict=True):
        assert len(track) == len(mirrored) == 6
        for index in range(6):
            walked = steps[min(index, start) : max(index, start)].sum()
            assert np.array_equal(track[index], np.roll(mask, walked, axis=1))
            assert np.array_equal(track[index], mirrored[5 - index])


def test_one_frame_is_not_followed(walking):
    mask = rectangle(64, 16, 80, 48)
    assert np.array_equal(walking.propagate(video(1), 0, [mask])[0][0], mask)


def test_what_the_code_raises_names_it_and_the_next_video_is_followed(walking):
    mask = rectangle(64, 16, 80, 48)
    with pytest.raises(ModelError, match=r"^xmem .*ValueError: .*bright"):
        walking.propagate(video(4, bright=2), 0, [mask])
    assert np.array_equal(walking.propagate(video(2), 0, [mask])[0][1], rolled(mask, 1))


def test_a_process_that_ends_is_told_with_its_last_words(walking):
    with pytest.raises(ModelError, match=r"^xmem .*\(3\): .*tracker"):
        walking.propagate(grey([0, 77, 0]), 0, [rectangle(64, 16, 80, 48)])


def test_a_process_that_does_not_answer_is_ended(fake):
    made = plugins.build("propagators", "xmem", repo=fake[0], weights=fake[1], timeout=0.01)
    with pytest.raises(ModelError, match=r"^xmem .* 0\.01 s.*none"):
        made.prepare()


def test_weights_that_hold_code_are_not_loaded(fake, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"key_proj.key_proj.weight": Path("x")}, tmp_path / "evil.pth")
    head = {"kind": "xmem", "repo": str(fake[0]), "weights": str(tmp_path / "evil.pth")}
    with (
        mock.patch.object(sys, "path", [*sys.path]),
        torch.random.fork_rng(),
        pytest.raises(UnpicklingError, match=r"(?i)weights.?only"),
    ):
        load({**head, "size": 96, "device": "cpu"})


def test_its_record_names_revision_and_weights_but_no_path(fake, walking):
    plain = settings(walking)
    assert plain["name"] == "xmem" and plain["revision"] is None and len(plain["weights"]) == 32
    assert str(fake[0].parent) not in json.dumps(plain)


def test_a_checkout_is_recorded_with_its_commit(fake, tmp_path):
    repo = checkout(tmp_path / "repo")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=repo, check=True)
    (repo / "model/network.py").write_text("changed = True")
    made = plugins.build("propagators", "xmem", repo=repo, weights=fake[1])
    assert len(made.revision) == 40 and made.changed is True


def test_secrets_are_not_handed_on(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "s3cret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert "SOME_API_KEY" not in environment()
    assert environment()["CUDA_VISIBLE_DEVICES"] == "1"


# what cannot be


def test_without_a_checkout_the_error_says_where_to_get_one(tmp_path):
    with pytest.raises(MissingDependency, match=r"git clone https://github.com/hkchengrex/XMem"):
        plugins.build("propagators", "xmem", repo=tmp_path / "no", weights=tmp_path / "w")
    with pytest.raises(UsageError, match=r"^xmem: .*repo, weights.*none"):
        plugins.build("propagators", "xmem")


def test_another_checkout_is_named(tmp_path):
    cutie = checkout(tmp_path / "cutie", dict.fromkeys(IDENTIFYING_FILES["cutie"], ""))
    with pytest.raises(UsageError, match=r"Use propagator=cutie"):
        plugins.build("propagators", "xmem", repo=cutie, weights=tmp_path / "w")
    (tmp_path / "cutie2").mkdir()
    with pytest.raises(UsageError, match=r"/cutie2\): .*cutie/model/cutie.py"):
        plugins.build("propagators", "cutie", repo=tmp_path / "cutie2", weights=tmp_path / "w")


def test_missing_weights_and_small_sizes_are_refused(fake, tmp_path):
    with pytest.raises(MissingDependency, match="weights"):
        plugins.build("propagators", "xmem", repo=fake[0], weights=tmp_path / "no.pth")
    with pytest.raises(UsageError, match=r"xmem\(size=…\): .*96.*found 64"):
        plugins.build("propagators", "xmem", repo=fake[0], weights=fake[1], size=64)


def test_masks_of_another_size_are_refused(walking):
    with pytest.raises(ModelError, match="height × width"):
        walking.propagate(video(3), 0, [np.zeros((4, 4), bool)])


# Cutie's settings


def test_settings_refer_to_each_other_and_are_read_as_attributes(tmp_path):
    pytest.importorskip("yaml")
    folder = tmp_path / "cutie" / "config"
    (folder / "model").mkdir(parents=True)
    (folder / "eval_config.yaml").write_text("top_k: 30\nout: ${unknown}\nmem_every: null\n")
    (folder / "model/base.yaml").write_text(
        "embed_dim: 256\nencoder: {type: resnet50, dims: [1024]}\n"
        "head: {dim: '${model.embed_dim}'}\n"
    )
    (folder / "model/small.yaml").write_text("defaults: [base]\nencoder: {type: resnet18}\n")
    small = cutie_settings(tmp_path, "small", size=480)
    assert (small.model.head.dim, small.model.encoder.type, small.out) == (
        256,
        "resnet18",
        "${unknown}",
    )
    assert (small.mem_every, small.max_internal_size, small["top_k"]) == (5, 480, 30)
    assert small.model.encoder.dims == [1024] and small.get("no") is None
    with pytest.raises(AttributeError):
        _ = small.nothing
    assert merge_settings({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
    assert resolve_references({"a": "${b}", "b": 1}, {"b": 1}) == {"a": 1, "b": 1}
    assert isinstance(AttributeDict({"a": {}}).a, AttributeDict)


def test_pretrained_weights_are_never_fetched(tmp_path, monkeypatch):
    (tmp_path / "fake_resnet_of_test.py").write_text(FAKE["model/resnet.py"])
    monkeypatch.syspath_prepend(tmp_path)
    import importlib

    module = importlib.import_module("fake_resnet_of_test")
    without_downloads("fake_resnet_of_test")
    assert module.resnet50(pretrained=True) == "resnet50"


# the official code, with random weights

RANDOM = """
import sys, torch
from pathlib import Path
from harness.models.propagators import checkout_child as child
kind, repo, out = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
sys.path.insert(0, str(repo))
torch.manual_seed(0)
if kind == "xmem":
    child.without_downloads("model.resnet")
    from model.network import XMem
    network = XMem(dict(child.XMEM))
else:
    import types
    stand_in = types.ModuleType("omegaconf"); stand_in.DictConfig = child.Settings
    sys.modules.setdefault("omegaconf", stand_in)
    child.without_downloads("cutie.model.utils.resnet")
    from cutie.model.cutie import CUTIE
    network = CUTIE(child.cutie_settings(repo, "base", size=96))
torch.save(network.state_dict(), out)
"""


def check_named(kind, repo):
    """Refuse what an option of the tests names, where it is no checkout."""
    if missing := [name for name in IDENTIFYING_FILES[kind] if not (repo / name).is_file()]:
        raise UsageError(
            f"--{kind}-repo {repo}",
            expected=f"a checkout of {SOURCES[kind]}",
            found=f"no {missing[0]}",
            fix=f"git clone {SOURCES[kind]}",
        )


@pytest.fixture(scope="module", params=["xmem", "cutie"])
def official(request, tmp_path_factory):
    """A propagator with the official code and random weights, where a checkout is named."""
    repo = request.config.getoption(f"--{request.param}-repo")
    if repo is None:
        pytest.skip(f"--{request.param}-repo names no checkout")
    check_named(request.param, repo)
    pytest.importorskip("torch")
    weights = tmp_path_factory.mktemp("random") / "weights.pth"
    subprocess.run(
        [sys.executable, "-c", RANDOM, request.param, str(repo), str(weights)],
        check=True,
        capture_output=True,
    )
    return plugins.build(
        "propagators", request.param, repo=repo, weights=weights, size=96, device="cpu"
    )


def noise(frames: int, *, backwards: bool = False) -> media.Media:
    draw = np.random.default_rng(0)
    images = [draw.integers(0, 255, (100, 130, 3), dtype=np.uint8) for _ in range(frames)]
    images = images[::-1] if backwards else images
    return media.pixels(images, times=range(frames), is_video=True, id=f"n{backwards}")


def test_official_code_gives_the_same_tracks_backwards(official):
    masks = [rectangle(10, 10, 60, 60, (100, 130)), rectangle(70, 30, 120, 90, (100, 130))]
    forward = official.propagate(noise(8), 3, masks)
    backward = official.propagate(noise(8, backwards=True), 4, masks)
    for one, other, mask in zip(forward, backward, masks, strict=True):
        assert len(one) == 8 and np.array_equal(one[3], mask)
        assert all(np.array_equal(a, b) for a, b in zip(one, other[::-1], strict=True))
    for first, second in zip(*forward, strict=True):
        assert not (first & second).any()
    assert any(track[index].any() for track in forward for index in range(8) if index != 3)


def test_official_code_knows_objects_by_their_numbers(official):
    masks = [rectangle(10, 10, 60, 60, (100, 130)), rectangle(70, 30, 120, 90, (100, 130))]
    there = official.propagate(noise(4), 0, masks)
    swapped = official.propagate(noise(4), 0, masks[::-1])
    for track, other, same in zip(there, there[::-1], swapped[::-1], strict=True):
        for index in range(4):
            assert track[index].any(), f"nothing in frame {index}: two empty masks would be equal"
            assert not (track[index] & other[index]).any()
            assert overlap(track[index], same[index]) > 0.95


def overlap(one, other) -> float:
    """The intersection over the union; two empty masks have none."""
    return (one & other).sum() / max(1, (one | other).sum())


def test_a_checkout_is_named_by_an_option_or_else_by_a_variable(
    pytestconfig, monkeypatch, tmp_path
):
    option, variable = tmp_path / "option", tmp_path / "variable"
    for kind in ("xmem", "cutie"):  # one loop reads both
        monkeypatch.setenv(f"HARNESS_{kind.upper()}_REPO", str(variable))
    conftest = str(Path(__file__).parents[1] / "conftest.py")
    options = argparse.ArgumentParser()  # which pytest's own is
    pytestconfig.pluginmanager.get_plugin(conftest).pytest_addoption(
        SimpleNamespace(addoption=options.add_argument)
    )
    found = options.parse_args(["--xmem-repo", str(option)])
    assert (found.xmem_repo, found.cutie_repo) == (option, variable)
    for kind, place in (("xmem", option), ("cutie", variable)):
        with pytest.raises(UsageError, match=f"^--{kind}-repo {place}: "):
            check_named(kind, place)
