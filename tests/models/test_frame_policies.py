"""A model's rule for frames decides what is shown, and stands in its record."""

import numpy as np
import pytest

from harness import plugins
from harness.errors import UsageError
from harness.media import pixels
from harness.spec import parse
from harness.types import AnswerForm, Query, query_id


def video(total=60, size=(320, 240), rate=10):
    image = np.zeros((size[1], size[0], 3), np.uint8)
    return pixels([image] * total, times=[k / rate for k in range(total)], is_video=True, id="v")


def asked(*media, form=AnswerForm.CHOICE):
    return Query(id=query_id("q"), text="What?", media=media, forms=(form,), options=("a", "b"))


def model(frames):
    return plugins.build("models", parse(f"qwen_vl(backend=stored,frames={frames})"))


@pytest.mark.parametrize(
    ("frames", "count"),
    [("6", 6), ("uniform(n=6)", 6), ("fps(rate=2)", 12), ("seconds", 6), ("video_str", 32)],
)
def test_the_rule_decides_how_many_frames_are_shown(frames, count):
    (request,) = model(frames).requests(asked(video()))
    assert len(request.frames[0]) == count


def test_the_record_has_the_whole_rule():
    assert model("8").describe()["frames"] == 8
    assert model("fps(rate=2,max_frames=64)").describe()["frames"] == "fps(rate=2,max_frames=64)"
    assert model("video_str").describe()["frames"].startswith("qwen(n=32,max_pixels=351232")


def test_a_budget_of_pixels_sets_the_size_for_questions_in_words_only():
    rule = "uniform(n=2,max_pixels=20000)"
    assert model(rule).requests(asked(video()))[0].resize == (140, 112)
    assert model("uniform(n=2)").requests(asked(video()))[0].resize is None
    (located,) = model(rule).requests(asked(video(), form=AnswerForm.BOXES))
    assert located.resize == (840, 840)


def test_a_budget_cannot_be_kept_for_images_of_several_sizes():
    query = asked(video(), video(size=(240, 320)))
    assert len(model("uniform(n=2)").requests(query)) == 1
    with pytest.raises(UsageError, match=r"max_pixels=20000.*2 sizes"):
        model("uniform(n=2,max_pixels=20000)").requests(query)


def test_an_image_is_shown_whatever_the_rule():
    still = pixels([np.zeros((9, 9, 3), np.uint8)], times=(0.0,), is_video=False, id="p")
    for rule in ("3", "fps(rate=2)", "stride(n=4)", "seconds"):
        assert model(rule).requests(asked(still))[0].frames == ((0,),)


def test_a_rule_that_there_is_not_is_refused_when_the_model_is_built():
    with pytest.raises(UsageError, match="uniform, linspace"):
        model("sometimes(n=3)")
