"""SAM 2 through its authors' package and through transformers: the same masks of the same weights.

Needs the package `sam2` and what it needs (hydra-core, iopath).
"""

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import media
from harness.errors import MissingDependency, ModelError, UsageError
from harness.leaderboards.definitions import find, methods_of
from harness.models.backends import sam2_package as package
from harness.models.backends.sam2 import float_pixels, pixels
from harness.models.propagators.sam2_package import ResizedFrames
from harness.models.propagators.sam2_video import sam2_video
from harness.models.segmenters.pocket_sam import pocket_sam
from harness.models.segmenters.sam2 import sam2
from harness.segmentation import ObjectPrompt
from harness.segmentation import settings as recorded
from harness.types import Box, Point

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402

ensure_torchvision()
sys.path.insert(0, str(Path(__file__).parent))

import sam2_networks as networks  # noqa: E402

SIDE = networks.SIDE
START = 2
PROMPTS = [
    ObjectPrompt(box=Box(20, 30, 80, 70)),
    ObjectPrompt(box=Box(20, 30, 80, 70), positive=(Point(40, 50),)),
    ObjectPrompt(positive=(Point(40, 50), Point(60, 20)), negative=(Point(5, 5),)),
    ObjectPrompt(box=Box(60, 10, 120, 60), negative=(Point(90, 30),)),
    ObjectPrompt(phrase="nowhere"),
]


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"visual-reasoning-harness\[sam2\]"):
        sam2(checkpoint="sam2.1_hiera_large.pt", config="sam2.1_hiera_l")


def test_a_file_of_a_repository_is_found_in_the_hubs_cache(tmp_path, monkeypatch):
    """As a board names it: owner, repository and file."""
    pytest.importorskip("sam2")
    pytest.importorskip("huggingface_hub")
    cached = tmp_path / "models--facebook--sam2-hiera-large"
    snapshot = cached / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("0" * 40)
    (snapshot / "sam2_hiera_large.pt").write_bytes(b"weights")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    name = "facebook/sam2-hiera-large/sam2_hiera_large.pt"
    (spec,) = {
        str(row.spec.arguments["segmenter"])
        for row in methods_of(find("dr2seg", "1"))
        if row.row.package
    }
    assert spec == f"sam2(checkpoint={name},config=sam2_hiera_l)"
    found, config = package.find_checkpoint("sam2", name, config="sam2_hiera_l")
    assert (config, found["folder"]) == ("sam2_hiera_l", snapshot / "sam2_hiera_large.pt")
    with pytest.raises(ModelError, match="hf download"):
        package.find_checkpoint("sam2", "facebook/other/x.pt", config="sam2_hiera_l")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A folder for transformers, and a file for the package with its configuration `tiny`."""
    pytest.importorskip("sam2")
    from omegaconf import OmegaConf

    folder = tmp_path_factory.mktemp("sam2")
    saved = networks.save(folder, seed=3)
    shipped = OmegaConf.load(package.configurations()["sam2.1_hiera_t"])
    OmegaConf.save(networks.yaml(shipped), folder / "tiny.yaml")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(package, "configurations", lambda: {"tiny": folder / "tiny.yaml"})
        yield saved


def image(seed, size=(SIDE, SIDE)):
    """Coloured blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    rows, columns = np.arange(size[1]) * 16 // size[1], np.arange(size[0]) * 16 // size[0]
    return blocks[rows][:, columns]


def moving():
    frames = [np.roll(image(5), 3 * step, axis=1) for step in range(5)]
    return media.pixels(frames, times=range(5), is_video=True, id="moving")


def blocks():
    masks = np.zeros((3, SIDE, SIDE), dtype=np.bool_)
    masks[0, 30:70, 20:60] = True
    masks[1, 80:110, 70:120] = True
    return list(masks)  # the last one is empty


@pytest.mark.parametrize("multimask", [True, False])
def test_masks_are_those_of_transformers(both, multimask):
    folder, file = both
    ours = sam2(checkpoint=str(folder), multimask=multimask)
    theirs = sam2(checkpoint=str(file), config="tiny", multimask=multimask)
    for seed in range(3):
        found = [one.segment(image(seed), PROMPTS) for one in (ours, theirs)]
        np.testing.assert_array_equal(*found)
        shares = [mask.mean() for mask in found[0]]
        assert shares[-1] == 0
        assert any(0.02 < share < 0.98 for share in shares), "nothing was told apart"


@pytest.mark.parametrize("size", [(200, 150), (61, 97), (128, 300)])
def test_masks_of_images_of_other_sizes_are_those_of_transformers_too(both, size):
    folder, file = both
    for seed in range(2):
        shown = noisy(seed, size)
        ours = sam2(checkpoint=str(folder)).segment(shown, PROMPTS)
        theirs = sam2(checkpoint=str(file), config="tiny").segment(shown, PROMPTS)
        assert {mask.shape for mask in theirs} == {(size[1], size[0])}
        np.testing.assert_array_equal(ours, theirs)


def noisy(seed, size):
    """Of no two alike neighbours, so that every rounding shows."""
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


@pytest.mark.parametrize("size", [(200, 150), (61, 97)])
def test_networks_are_shown_the_same_numbers(both, size):
    folder, file = both
    ours, theirs = sam2(checkpoint=str(folder)), sam2(checkpoint=str(file), config="tiny")
    official = theirs.network._transforms(noisy(1, size))[None]
    processor = ours.processor.image_processor
    assert torch.equal(float_pixels(processor, noisy(1, size)), official)
    level = 1 / 255 / min(processor.image_std)
    assert 0.1 * level < (pixels(processor, noisy(1, size)) - official).abs().max() < 2 * level


def test_a_checkpoint_that_harness_trained_is_shown_images_as_in_its_training(monkeypatch):
    def wrong(processor, image):
        raise AssertionError("it was trained on images whose bytes were resized")

    monkeypatch.setattr("harness.models.backends.sam2.float_pixels", wrong)
    assert pocket_sam().segment(noisy(0, (60, 40)), PROMPTS[:1])[0].shape == (40, 60)


def followed(both):
    folder, file = both
    ours = sam2_video(checkpoint=str(folder)).propagate(moving(), START, blocks())
    return ours, sam2_video(checkpoint=str(file), config="tiny").propagate(
        moving(), START, blocks()
    )


def test_tracks_are_nearly_those_of_transformers(both):
    ours, theirs = followed(both)
    np.testing.assert_array_equal([track[START] for track in theirs], blocks())
    differing = np.mean(np.array(ours) != np.array(theirs), axis=(2, 3))
    assert differing.max() < 0.005  # of one frame's pixels; README.md says where it may come from
    shares = np.array(ours)[:2].mean(axis=(2, 3))
    assert ((shares > 0.01) & (shares < 0.99)).sum() > 2, "nothing was followed"


def noisy_video(size, frames=4):
    shown = [noisy(step, size) for step in range(frames)]
    return media.pixels(shown, times=range(frames), is_video=True, id="noisy")


@pytest.mark.parametrize("size", [(200, 150), (61, 97), (SIDE, SIDE)])
def test_frames_are_resized_by_pillow_on_bytes(size):
    video = noisy_video(size)
    shown = ResizedFrames(video, SIDE)
    assert len(shown) == len(video)
    bicubic = Image.fromarray(video.frame(1)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    expected = (np.array(bicubic, np.float32) / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    assert shown[1].dtype is torch.float32
    np.testing.assert_allclose(shown[1].permute(1, 2, 0), expected, atol=1e-5)


@pytest.fixture
def filmed(tmp_path):
    """A folder of JPEG files as the package reads them, and a video of the same decoded pixels."""
    folder = tmp_path / "frames"
    folder.mkdir()
    decoded = []
    for step in range(5):
        path = folder / f"{step:05}.jpg"
        Image.fromarray(np.roll(image(5, (200, 150)), 4 * step, axis=1)).save(path, quality=95)
        decoded.append(np.array(Image.open(path).convert("RGB")))
    return folder, media.pixels(decoded, times=range(5), is_video=True, id="filmed")


def test_frames_are_those_of_the_packages_own_reader(filmed):
    pytest.importorskip("sam2")
    from sam2.utils.misc import load_video_frames

    folder, video = filmed
    images, height, width = load_video_frames(
        str(folder), SIDE, offload_video_to_cpu=True, compute_device=torch.device("cpu")
    )
    assert (width, height) == video.size
    shown = ResizedFrames(video, SIDE)
    assert torch.equal(torch.stack([shown[index] for index in range(len(video))]), images)


def test_tracks_are_those_of_the_packages_own_reader(both, filmed):
    _, file = both
    folder, video = filmed
    ours = sam2_video(checkpoint=str(file), config="tiny", device="cpu")
    mask = np.zeros((150, 200), dtype=np.bool_)
    mask[40:90, 30:100] = True
    with torch.inference_mode():
        state = ours.network.init_state(str(folder))
        ours.network.add_new_mask(state, 0, 0, mask)
        steps = ours.network.propagate_in_video(state, start_frame_idx=0)
        official = [(logits[0, 0] > 0).numpy() for _, _, logits in steps]
    (track,) = ours.propagate(video, 0, [mask])
    np.testing.assert_array_equal(track[1:], official[1:])
    assert any(0.01 < one.mean() < 0.99 for one in track[1:]), "nothing was followed"


def test_another_networks_masks_are_others(both, tmp_path):
    _, file = both
    _, other = networks.save(tmp_path, seed=4)
    found = [
        sam2(checkpoint=str(one), config="tiny").segment(image(0), PROMPTS) for one in (file, other)
    ]
    assert not np.array_equal(*found)


def test_nothing_is_drawn_while_frames_are_followed(both, capfd):
    _, file = both
    sam2_video(checkpoint=str(file), config="tiny").propagate(moving(), START, blocks()[:1])
    assert "%" not in capfd.readouterr().err


def test_the_record_tells_file_and_configuration(both):
    _, file = both
    for made in (
        sam2(checkpoint=str(file), config="configs/tiny.yaml"),
        sam2_video(checkpoint=str(file), config="tiny"),
    ):
        output = recorded(made)
        assert (output["checkpoint"], output["config"]) == ("authors.pt", "tiny")
        assert len(output["weights"]) == 32
        json.dumps(output)


@pytest.mark.parametrize("plugin", [sam2, sam2_video])
def test_a_configuration_or_a_file_that_is_none_is_refused(both, plugin):
    _, file = both
    with pytest.raises(UsageError, match=r"config=….*tiny, found 'huge'"):
        plugin(checkpoint=str(file), config="huge")
    with pytest.raises(UsageError, match="checkpoint="):
        plugin(config="tiny")
    with pytest.raises(ModelError, match=r"nowhere.pt"):
        plugin(checkpoint="nowhere.pt", config="tiny")


class Trap:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


@pytest.mark.parametrize("damage", ["cut", "pickle", "no table", "missing", "shape"])
def test_a_damaged_file_is_refused_and_never_unpickled(both, tmp_path, damage):
    _, file = both
    path, canary = tmp_path / "bad.pt", tmp_path / "canary"
    table = torch.load(file, weights_only=True)["model"]
    words = "nothing but tensors"
    if damage == "cut":
        path.write_bytes(file.read_bytes()[:-5000])
    elif damage == "pickle":
        path.write_bytes(pickle.dumps({"model": Trap(canary)}))
    elif damage == "no table":
        torch.save(table, path)
        words = "'model'"
    elif damage == "missing":
        torch.save(
            {"model": {name: one for name, one in table.items() if name != "no_mem_embed"}}, path
        )
        words = "missing keys: no_mem_embed"
    else:
        torch.save({"model": table | {"no_mem_embed": torch.zeros(1, 1, 3)}}, path)
        words = "no_mem_embed"
    with pytest.raises(ModelError, match=words):
        sam2(checkpoint=str(path), config="tiny").prepare()
    assert not canary.exists()
