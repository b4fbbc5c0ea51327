"""A model says which frames it will show: those of its requests."""

import pytest

from harness import plugins
from harness.chat import ChatResponse
from harness.errors import UsageError
from harness.models.frame_selection import frames_shown
from harness.spec import parse
from harness.types import AnswerForm

FORMS = {
    "words": (AnswerForm.CHOICE,),
    "places": (AnswerForm.MASK_TRACK,),
    "both": (AnswerForm.BOXES, AnswerForm.CHOICE),
}
SERVER = "openai(model=m,base_url=http://127.0.0.1:9/v1,coordinates=pixels)"
MODELS = (
    "qwen_vl",
    "qwen_vl(keyframe=named)",
    "visionreasoner(frames=fps(rate=1))",
    "seg_zero",
    "dr2seg(keyframe=first)",
    "video_str",
    "spacer",
    "videoseg_r1",
)


def built(spec):
    name, _, rest = spec.partition("(")
    given = f",{rest}" if rest else ")"
    return plugins.build("models", parse(f"{name}(backend=stored{given}"))


@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.parametrize("kind", FORMS)
def test_what_a_model_looks_at_is_what_its_requests_show(ask, spec, kind):
    model = built(spec)
    query = ask(FORMS[kind], frames=40, options=("a", "b"))
    shown = model.looks_at(query)
    for request in model.requests(query) if spec != "videoseg_r1" or kind == "words" else ():
        assert set(request.frames[0]) <= set(shown[0])
    assert len(shown) == 1 and list(shown[0]) == sorted(set(shown[0]))
    assert set(shown[0]) < set(range(40)), "not the whole video"


@pytest.mark.parametrize("spec", MODELS)
def test_an_image_is_looked_at(ask, spec):
    assert built(spec).looks_at(ask(AnswerForm.MASK)) == ((0,),)


def test_a_search_looks_at_what_its_first_turn_shows(ask):
    seen_first = []

    class Voters:
        def generate(self, requests):
            seen_first.append({one for request in requests for one in request.frames[0]})
            return [ChatResponse(text="") for _ in requests]

    model = built("videoseg_r1(sampler_frames=5)")
    query = ask(AnswerForm.MASK_TRACK, frames=40)
    from harness.models.videoseg_r1.frame_search import search_frames

    search_frames([query], sampler=model.sampler, showing=model.showing, voters=Voters())
    assert set(model.looks_at(query)[0]) == seen_first[0]
    assert len(seen_first[0]) == 5


def test_without_a_search_what_the_reasoner_sees_is_looked_at(ask):
    model = built("videoseg_r1(key_segment=false,target_frame=false,key_frames=3)")
    query = ask(AnswerForm.MASK_TRACK, frames=40)
    (shown,) = model.looks_at(query)
    assert shown[0] == 0 and len(shown) == 4


def test_frames_of_a_medium_that_is_shown_twice_are_joined(ask):
    query = ask(AnswerForm.CHOICE, frames=9, options=("a", "b"))
    (request,) = built("qwen_vl(frames=2)").requests(query)
    whole = type(request)(key="k", text="", media=query.media)
    assert frames_shown(query, [request]) == ((0, 8),)
    assert frames_shown(query, [request, whole]) == (tuple(range(9)),)
    twice = type(request)(key="k", text="", media=query.media * 2, frames=((3,), (3, 5)))
    assert frames_shown(query, [twice]) == ((3, 5),)
    assert frames_shown(query, []) == ((),)


def test_a_question_that_cannot_be_asked_is_no_different_here(ask):
    with pytest.raises(UsageError):
        built("qwen_vl").looks_at(ask(AnswerForm.BOX_3D))


@pytest.mark.parametrize(
    ("backend", "segmenter", "form", "reads"),
    [
        ("stored", "box", AnswerForm.MASK_TRACK, False),
        ("stored", "grabcut", AnswerForm.MASK_TRACK, True),
        (SERVER, "box", AnswerForm.MASK_TRACK, False),
        (SERVER, "grabcut", AnswerForm.MASK_TRACK, True),
        (SERVER, "grabcut", AnswerForm.CHOICE, False),
    ],
)
def test_pixels_are_read_by_segmenters_that_look_and_not_for_servers_or_stored_responses(
    ask, backend, segmenter, form, reads
):
    spec = f"qwen_vl(backend={backend},segmenter={segmenter},propagator=still)"
    model = plugins.build("models", parse(spec))
    assert model.reads_pixels(ask(form, frames=3, options=("a", "b"))) is reads
