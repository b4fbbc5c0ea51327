"""Options that plugins share: given side by side with a plugin's own, handed over as one value."""

import inspect
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from harness import plugins
from harness.catalog.requirements import requirements_of
from harness.catalog.settings import settings
from harness.options import Carried, carried_names, with_options
from harness.spec import Spec, parse

OURS = [
    "dr2seg",
    "pocket",
    "qwen_vl",
    "seg_zero",
    "spacer",
    "video_r1",
    "video_str",
    "videochat_r1",
    "videoseg_r1",
    "visionreasoner",
]


@dataclass(frozen=True, kw_only=True)
class Shared:
    size: Carried[int] = 4
    colour: str = "red"
    """Of the paint."""
    seed: int = 0

    def __post_init__(self):
        if self.size < 1:
            raise ValueError("size")


@with_options(Shared, without=["seed"], colour="blue")
def painter(shared: Shared, *, layers: Carried[int] = 1, name: str = "x"):
    """Paints.

    Args:
        layers: How thick.
        size: In metres.
    """
    return shared, layers, name


def test_fields_are_given_beside_own_parameters():
    assert painter() == (Shared(colour="blue"), 1, "x")
    assert painter(size=7, layers=2) == (Shared(size=7, colour="blue"), 2, "x")
    assert painter.__name__ == "painter" and list(inspect.signature(painter).parameters) == [
        "layers",
        "name",
        "size",
        "colour",
    ]
    for wrong in ({"seed": 1}, {"width": 1}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            painter(**wrong)


def test_what_a_checkpoint_carries_is_said_where_it_is_declared():
    assert carried_names(painter) == {"size", "layers"}


def test_a_wrong_default_is_found_when_the_module_is_imported():
    with pytest.raises(ValueError, match="size"):
        with_options(Shared, size=0)


def test_a_listing_has_fields_and_own_parameters_and_no_mark():
    entry = EntryPoint("painter", f"{__name__}:painter", "harness.models")
    assert settings(entry) == {
        "layers": "=1 (How thick)",
        "name": "=x",
        "size": "=4 (In metres)",
        "colour": "=blue (Of the paint)",
    }


@pytest.mark.parametrize("name", OURS)
def test_a_listing_of_a_model_is_what_its_function_takes(name):
    entry = plugins.installed_plugins("models")[name]
    parameters = inspect.signature(plugins.load("models", name)).parameters
    assert set(settings(entry)) == set(parameters)
    assert requirements_of("models", entry) == [
        *(["checkpoint"] if parameters["checkpoint"].default is None else []),
        "torch",
        "transformers",
    ]
    assert {"frames", "max_new_tokens"} <= carried_names(plugins.load("models", name))
    assert not {"checkpoint", "backend", "segmenter", "seed"} & carried_names(entry.load())


def test_a_spec_gives_a_field_and_a_mistyped_one_is_named():
    built = plugins.build("models", parse("qwen_vl(backend=stored,frames=3,segmenter=box)"))
    assert (built.frames, built.segmenter.name) == (3, "box")
    with pytest.raises(plugins.UsageError, match="frames"):
        plugins.build("models", Spec("qwen_vl", {"frame": 3}))
