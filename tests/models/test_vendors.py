"""Evaluations of vendors: what our model shows a network is what their own code shows it."""

import runpy
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from harness import plugins  # noqa: E402
from harness.errors import UsageError  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.spec import parse  # noqa: E402

ensure_torchvision()

FOLDER = Path(__file__).parent.parent / "golden"
NETWORKS = runpy.run_path(str(FOLDER / "vendor_networks.py"))
sys.path.insert(0, str(FOLDER))
from vendor_cases import CASES  # noqa: E402

sys.path.remove(str(FOLDER))
QUICK = 4


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    """Makes a network of `vendor_networks`, once."""
    saved = {}

    def of(name):
        if name not in saved:
            saved[name] = NETWORKS[name](tmp_path_factory.mktemp("vendors") / name)
        return saved[name]

    return of


def check(case, network, numbers):
    model = case.built(network(case.network))
    for number in numbers:
        assert case.seen(model, case.sample(number)).row(case) == case.golden()[number], number


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tokens_pixels_and_frames_are_the_vendors(case, network):
    assert len(case.golden()) == 200
    check(case, network, range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tokens_pixels_and_frames_of_all_samples_are_the_vendors(case, network):
    check(case, network, range(QUICK, 200))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_changed_pixel_word_or_frame_is_seen(case, network):
    model, sample = case.built(network(case.network)), case.sample(0)
    row = case.golden()[0]
    frames = sample.frames.copy()
    frames[:, ::2, ::2] ^= 64
    assert case.seen(model, sample._replace(frames=frames)).row(case)[1] != row[1]
    assert case.seen(model, sample._replace(question="Why?")).row(case)[0] != row[0]


@pytest.mark.parametrize("given", ["cv2", "pil(max_crops=3)"])
def test_an_image_processor_that_cannot_be_had_is_refused(network, given):
    case = next(case for case in CASES if case.network == "internvl")
    backend = f"transformers(coordinates=normalized_1000,image_processor={given})"
    chat = plugins.build(
        "backends", parse(backend).with_defaults(checkpoint=str(network(case.network)))
    )
    with pytest.raises(UsageError, match="resizes by Pillow"):
        assert chat.processor


def test_a_family_whose_processor_pillow_lacks_is_refused(network):
    spec = parse("transformers(coordinates=normalized_1000,image_processor=pil)")
    chat = plugins.build("backends", spec.with_defaults(checkpoint=str(network("molmo2"))))
    with pytest.raises(UsageError, match="Molmo2ImageProcessor"):
        assert chat.processor
