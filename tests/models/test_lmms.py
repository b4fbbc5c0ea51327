"""The backend `lmms` against a stand-in for lmms-eval 0.7 that keeps its requests' form."""

import hashlib
import importlib
import json
import sys
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import cv2
import numpy as np
import pytest

from harness import plugins
from harness.chat import ChatRequest
from harness.errors import MediaError, MissingDependency, ModelError, UnknownPlugin, UsageError
from harness.media import placeholder_media
from harness.models.backends.clip_files import clip_files, mean_rate
from harness.models.backends.lmms import lmms
from harness.models.backends.shown_media import squashed
from harness.models.factory import build_chat
from harness.models.qwen_vl.model import qwen_vl
from harness.spec import Spec, parse

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

import contract
import torch
from chat_server import Scripted


@dataclass
class Instance:
    """As lmms-eval 0.7 has it: what a model reads is in `args`."""

    request_type: str
    arguments: tuple
    idx: int
    metadata: dict = field(default_factory=dict)

    @property
    def args(self):
        return self.arguments


@dataclass
class TokenCounts:
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass
class GenerationResult:
    text: str
    token_counts: Any = None


class Chat:
    """A model with the newer interface: it gets messages, from the task that it is given."""

    is_simple = False

    def __init__(self, pretrained="", batch_size=1, device=None, **given):
        self.settings = {"pretrained": pretrained, "batch_size": batch_size, "device": device}
        self.settings |= given
        self.task_dict = {}
        self.seen = []

    @classmethod
    def create_from_arg_string(cls, arguments, config=None):
        pairs = (pair.split("=", 1) for pair in arguments.split(",") if pair)
        return cls(**dict(pairs), **{k: v for k, v in (config or {}).items() if v is not None})

    def generate_until(self, requests):
        return [self.one(*request.args) for request in requests]

    def one(self, context, doc_to_messages, settings, doc_id, task, split):
        messages = doc_to_messages(self.task_dict[task][split][doc_id])
        images = [
            part["url"]
            for message in messages
            for part in message["content"]
            if part["type"] == "image"
        ]
        texts = [
            part["text"]
            for message in messages
            for part in message["content"]
            if part["type"] == "text"
        ]
        return self.said(context, texts, images, settings)

    def said(self, context, texts, images, settings):
        self.seen.append((context, texts, images, settings))
        shown = [hashlib.sha256(np.asarray(image).tobytes()).digest() for image in images]
        text = (
            Scripted()
            ._response(ChatRequest(key="a", text=repr((texts, shown, settings["max_new_tokens"]))))
            .text
        )
        for stop in settings.get("until", ()):
            text = text.split(stop)[0]
        return GenerationResult(text, TokenCounts(output_tokens=16))


class Simple(Chat):
    """A model with the older interface: it gets a text, and images."""

    is_simple = True

    def one(self, context, settings, doc_to_visual, doc_id, task, split):
        images = doc_to_visual(self.task_dict[task][split][doc_id])
        return self.said(context, [context], images, settings).text


class FirstOnly(Simple):
    """A model of the older interface that has no eyes for a second image."""

    def said(self, context, texts, images, settings):
        return super().said(context, texts, images[:1], settings)


class Nested(Simple):
    """A model of the older interface whose questions have one visual each, which may be a list."""

    def said(self, context, texts, images, settings):
        visual = images[0]
        shown = visual if isinstance(visual, list) else [visual]
        return super().said(context, texts, shown, settings)


class Sampled(Chat):
    """A model of the newer interface that draws from torch's own generator."""

    def said(self, context, texts, images, settings):
        return GenerationResult(repr(torch.rand(()).item()))


def decoded(path):
    """Frames (count × height × width × 3, RGB) and rate of a video file, as OpenCV reads it."""
    video = cv2.VideoCapture(path)
    frames = []
    while (read := video.read())[0]:
        frames.append(read[1][..., ::-1])
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == len(frames)
    return np.stack(frames), video.get(cv2.CAP_PROP_FPS)


class Opening(Simple):
    """A model of the older interface that decodes the files among its visuals."""

    def __init__(self, **given):
        super().__init__(**given)
        self.paths, self.modes = [], []

    def said(self, context, texts, images, settings):
        self.kinds = [type(one).__name__ for one in images]
        paths = [Path(one) for one in images if isinstance(one, str)]
        self.paths += paths
        self.modes += [one.parent.stat().st_mode & 0o777 for one in paths]
        shown = [decoded(one)[0] if isinstance(one, str) else one for one in images]
        return super().said(context, texts, shown, settings)


class OpeningChat(Opening):
    """A model of the newer interface that decodes the videos in its messages."""

    is_simple = False

    def one(self, context, doc_to_messages, settings, doc_id, task, split):
        def visuals(document):
            return [
                part["url"]
                for message in doc_to_messages(document)
                for part in message["content"]
                if part["type"] == ("video" if isinstance(part.get("url"), str) else "image")
            ]

        return Simple.one(self, context, settings, visuals, doc_id, task, split)


@pytest.fixture
def installed(monkeypatch):
    """lmms-eval's models by name: one of each interface, and those that a test adds."""
    known = {"newer": Chat, "older": Simple}
    models = ModuleType("lmms_eval.models")
    models.list_available_models = lambda include_aliases=False: sorted(known)
    models.get_model = lambda name, force_simple=False: Simple if force_simple else known[name]
    instance = ModuleType("lmms_eval.api.instance")
    instance.Instance = Instance
    for name, module in {
        "lmms_eval": ModuleType("lmms_eval"),
        "lmms_eval.models": models,
        "lmms_eval.api": ModuleType("lmms_eval.api"),
        "lmms_eval.api.instance": instance,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return known


@pytest.mark.parametrize(
    ("name", "made", "several"),
    [
        ("newer", Chat, None),
        ("older", Simple, "flat"),
        ("older", Nested, "nested"),
        ("llava_onevision", Simple, None),
        ("videollama3", Nested, None),
    ],
)
def test_a_model_sees_each_requests_own_text_and_images(installed, name, made, several):
    installed[name] = made
    chat = lmms(name=name, coordinates="pixels", batch_size=4, image_nesting=several)
    requested = contract.requests(prefix=False, clips=True)
    if name != "newer":
        requested = {
            one: contract.replace(request, system=None) for one, request in requested.items()
        }
        del requested["system"]
    contract_responses = [response.text for response in chat.generate(list(requested.values()))]
    assert len(set(contract_responses)) == len(requested)
    backwards = chat.generate(list(requested.values())[::-1])
    assert [response.text for response in backwards][::-1] == contract_responses
    images = {len(images) for _, _, images, _ in chat.model.seen}
    assert images == {1, 2}


@pytest.mark.parametrize(
    ("name", "made"), [("older", FirstOnly), ("minicpm_v", FirstOnly), ("lfm2_5_vl", Chat)]
)
def test_what_a_model_may_look_at_only_in_part_is_not_asked(installed, name, made):
    installed[name] = made
    chat = lmms(name=name, coordinates="pixels")
    one = contract.replace(contract.requests()["first"], system=None)
    two = contract.replace(one, media=(*one.media, contract.clip(2, 1)))
    clip = contract.replace(one, media=(contract.clip(1),), frames=((0, 2),))
    for request in (two, clip):
        with pytest.raises(UsageError, match=rf"name={name}\).* 2 images: .*image_nesting=nested"):
            chat.generate([one, request])
    assert not chat.model.seen
    chat.generate([one])
    assert len(chat.model.seen) == 1


def test_how_a_model_takes_several_images_may_be_said(installed):
    """The model that looks at the first only shows what it costs to say so of the wrong one."""
    installed["mine"] = FirstOnly
    chat = lmms(name="mine", coordinates="pixels", image_nesting="flat")
    clips = [
        contract.replace(
            contract.requests()["first"], system=None, media=(contract.clip(1),), frames=(frames,)
        )
        for frames in ((0, 1), (0, 3))
    ]
    assert len({response.text for response in chat.generate(clips)}) == 1
    assert chat.describe()["image_nesting"] == "flat"


@pytest.mark.parametrize(
    ("name", "made"), [("newer", OpeningChat), ("older", Opening), ("llava_onevision", Opening)]
)
def test_a_clip_may_be_shown_as_a_video_file(installed, name, made):
    installed[name] = made
    chat = lmms(name=name, coordinates="pixels", clips="file", batch_size=4)
    requested = contract.requests(prefix=False, clips=True)
    names = ("first", "clip", "other frames", "order of frames")
    requested = {one: contract.replace(requested[one], system=None) for one in names}
    requested["squashed"] = contract.replace(requested["clip"], resize=(35, 29))
    responses = [response.text for response in chat.generate(list(requested.values()))]
    assert len(set(responses)) == len(requested)
    for request, (_, _, shown, _) in zip(requested.values(), chat.model.seen, strict=True):
        media = request.media[0]
        expected = media.frames(request.frames[0] if request.frames else [0])
        expected = [squashed(one, request.resize) for one in expected]
        assert np.array_equal(np.reshape(shown[0], np.shape(expected)), expected)
    assert chat.describe()["clips"] == "file"
    # Some models sample the files of a batch alike.
    assert chat.model.settings["batch_size"] == chat.describe()["batch_size"] == 1


def still(size, frames):
    """A clip of black images of (width, height), two a second."""
    times = [index / 2 for index in range(frames)]
    black = np.zeros((*size[::-1], 3), dtype=np.uint8)
    return contract.pixels([black] * frames, times=times, is_video=True, id="a")


LIMITS = {"factor": 28, "min_pixels": 200_704, "max_pixels": 1_605_632}


@pytest.mark.parametrize(
    ("limits", "canvas"),
    [
        # 1288 x 728 is more than 602112: by 1.2372 smaller, 1034 x 581, in steps of 28 downwards.
        ({}, (1008, 560)),
        # The largest is 1.05 times the smallest: by 1.1446 smaller, 1118 x 629.
        ({"min_pixels": 670_000}, (1092, 616)),
        # 224 x 112 is too small for the processor: by 1.0607 larger, 237.6 x 118.8, upwards.
        ({"min_pixels": 28_224, "max_pixels": 28_224}, (252, 140)),
        ({"min_pixels": 3136, "max_pixels": 200_704}, (588, 336)),
    ],
)
def test_large_frames_of_a_file_are_on_the_canvas_of_fetch_video(installed, limits, canvas):
    installed["qwen2_5_vl"] = OpeningChat
    chat = lmms(name="qwen2_5_vl", coordinates="pixels", clips="file", **{**LIMITS, **limits})
    clip = ChatRequest(key="a", text="a", media=(still((1280, 720), 4),))
    assert chat.canvas(clip) == canvas
    image = still((1280, 720), 1)
    both = replace(clip, media=(clip.media[0], image))
    assert chat.generate([both])[0].canvases == (canvas, chat.canvas(replace(clip, frames=((0,),))))
    resized = replace(clip, resize=(640, 360), frames=((1, 3),))
    assert chat.canvas(resized) == chat.canvas(replace(clip, media=(still((640, 360), 2),)))


def test_images_and_small_frames_keep_the_canvas_of_a_processor():
    given = {"name": "qwen2_5_vl", "coordinates": "pixels", **LIMITS}
    clip = ChatRequest(key="a", text="a", media=(still((1280, 720), 4),))
    assert lmms(**given).canvas(clip) == (1288, 728)
    one = replace(clip, frames=((2,),))
    small = replace(clip, resize=(840, 476))
    for clips in ("images", "file"):
        assert lmms(**given, clips=clips).canvas(one) == (1288, 728)
        assert lmms(**given, clips=clips).canvas(small) == (840, 476)


@pytest.mark.parametrize(
    ("name", "frames", "words"),
    [
        ("qwen3_vl", 2, "video .*clips=images"),
        ("newer", 2, "video .*clips=images"),
        ("qwen2_vl", 301, "300 frames.*found 301.*clips=images"),
        ("qwen2_vl", 300, None),
    ],
)
def test_a_canvas_that_hangs_on_what_is_not_known_is_not_guessed(installed, name, frames, words):
    installed[name] = Opening
    chat = lmms(name=name, coordinates="pixels", clips="file", **LIMITS)
    clip = ChatRequest(key="a", text="a", media=(still((1288, 728), frames),))
    if words is None:
        assert chat.canvas(clip) == (1008, 560)
        return
    with pytest.raises(UsageError, match=words):
        chat.canvas(clip)
    small = replace(clip, media=(still((64, 48), frames),), resize=(32, 32))
    assert chat.generate([small])[0].canvases == ()


def test_a_clips_file_is_private_and_gone_after_the_call(installed):
    installed["older"] = Opening
    chat = lmms(name="older", coordinates="pixels", clips="file")
    clip = ChatRequest(key="a", text="a", media=(contract.clip(1),), frames=((0, 2),))
    alike = replace(clip, key="b", media=(contract.clip(1),))
    others = [replace(clip, frames=((0, 1),)), replace(clip, resize=(20, 16))]
    chat.generate([clip, alike, *others])
    first = chat.model.paths
    assert first[0] == first[1]
    assert len({*first[1:]}) == 3
    assert len({one.parent for one in first}) == 1
    assert {*chat.model.modes} == {0o700}
    assert not first[0].parent.exists()
    chat.generate([clip])
    assert chat.model.paths[-1].parent != first[0].parent
    assert not chat.model.paths[-1].parent.exists()


def test_a_clips_file_is_gone_when_the_model_raises(installed):
    class Failing(Opening):
        def said(self, *given):
            super().said(*given)
            raise ValueError("no")

    installed["older"] = Failing
    chat = lmms(name="older", coordinates="pixels", clips="file")
    clip = ChatRequest(key="a", text="a", media=(contract.clip(1),))
    with pytest.raises(ValueError, match="no"):
        chat.generate([clip])
    assert len(chat.model.paths) == 1
    assert not chat.model.paths[0].parent.exists()


def test_a_frame_that_is_lost_is_said_as_without_a_file(installed):
    installed["older"] = Opening
    chat = lmms(name="older", coordinates="pixels", clips="file")
    gone = placeholder_media(
        MediaError("video v.mp4", expected="a file", found="none"), size=(8, 8), frames=3
    )
    with pytest.raises(MediaError, match=r"v\.mp4"):
        chat.generate([ChatRequest(key="a", text="a", media=(gone,))])


@pytest.mark.parametrize(("clips", "kinds"), [("images", "no"), ("file", "str Image")])
def test_a_clip_beside_an_image_is_shown_to_models_that_look_at_both(installed, clips, kinds):
    both = ChatRequest(
        key="a", text="a", media=(contract.clip(1), contract.clip(2, 1)), frames=((0, 2), (0,))
    )
    installed["gemma4"] = Opening
    chat = lmms(name="gemma4", coordinates="pixels", clips=clips)
    if clips == "images":
        with pytest.raises(UsageError, match=r"name=gemma4\).* 3 images: .*clips=file"):
            chat.generate([both])
    else:
        chat.generate([both])
        assert " ".join(chat.model.kinds) == kinds


@pytest.mark.parametrize(
    ("name", "made", "frames", "words"),
    [
        ("longva", Opening, ((0, 2), (0,)), "clip .*1 image"),
        ("aero_realtime_vllm", OpeningChat, ((0, 2), (0,)), "clip .*1 image"),
        ("gemma4", Opening, ((0, 2), (0, 1)), "found 2.*clips=images"),
        ("newer", OpeningChat, ((0, 2), (0, 1)), "found 2.*clips=images"),
        ("minicpm_v", Opening, ((0, 2),), "video .*clips=images"),
        ("lfm2_5_vl", OpeningChat, ((0, 2),), "video .*clips=images"),
        ("longva", Opening, (), None),
        ("minicpm_v", Opening, ((0,), (1,)), "2 images"),
    ],
)
def test_what_a_model_may_not_look_at_beside_a_file_is_not_asked(
    installed, name, made, frames, words
):
    installed[name] = made
    chat = lmms(name=name, coordinates="pixels", clips="file")
    media = (contract.clip(1), contract.clip(2))[: max(1, len(frames))]
    request = ChatRequest(key="a", text="a", media=media, frames=frames)
    if words is None:
        assert chat.generate([request])
        return
    with pytest.raises(UsageError, match=rf"lmms\(name={name}.*{words}"):
        chat.generate([request])
    assert not chat.model.seen


@pytest.mark.parametrize(
    ("size", "times"),
    [
        ((70, 60), [0.0, 0.5, 1.0, 1.5]),
        ((57, 41), [index * 1001 / 30000 for index in range(33)]),
        ((48, 32), [10.0, 460.0, 900.0]),
        ((48, 32), [0.0, 2571.4]),
    ],
)
def test_a_clips_file_has_every_pixel_of_every_frame_at_the_mean_rate(size, times):
    drawn = np.random.default_rng(0).integers(0, 256, (len(times), *size[::-1], 3), dtype=np.uint8)
    media = contract.pixels(list(drawn), times=times, is_video=True, id="a")
    with clip_files() as path_of:
        path = path_of(media, range(len(times)), None)
        frames, rate = decoded(path)
        assert np.array_equal(frames, drawn)
        assert rate == pytest.approx((len(times) - 1) / (times[-1] - times[0]), rel=1e-4)
        with av.open(path) as file:
            again = [one.to_ndarray(format="rgb24") for one in file.decode(video=0)]
        assert np.array_equal(again, drawn)
        video = cv2.VideoCapture(path)
        for index in (len(times) - 1, 0, len(times) // 2):
            video.set(cv2.CAP_PROP_POS_FRAMES, index)
            assert np.array_equal(video.read()[1][..., ::-1], drawn[index])


def test_the_rate_of_a_clips_file_is_one_that_a_file_can_have():
    assert mean_rate([3.0, 3.0]) == 1
    assert mean_rate([0.0, 1e-7]) == 1000
    assert mean_rate([index * 1001 / 30000 for index in range(8)]) == Fraction(30000, 1001)


def test_a_clip_that_cannot_be_written_is_said_with_what_helps(monkeypatch):
    monkeypatch.setattr("harness.models.backends.clip_files.CODEC", "no_such_codec")
    with (
        clip_files() as path_of,
        pytest.raises(ModelError, match=r"no_such_codec.*TMPDIR"),
    ):
        path_of(contract.clip(1), (0, 1), None)


@pytest.mark.parametrize("step", [100_000.0, 100_001.0, 1e6, 1e12])
def test_frames_that_are_too_far_apart_for_a_file_are_said_to_be(step):
    black = [np.zeros((32, 48, 3), dtype=np.uint8)] * 3
    media = contract.pixels(black, times=[0.0, step, 2 * step], is_video=True, id="a")
    with clip_files() as path_of:
        if step == 100_000:
            assert len(decoded(path_of(media, range(3), None))[0]) == 3
            return
        with pytest.raises(ModelError, match="100000 seconds") as raised:
            path_of(media, range(3), None)
    assert f"{step:g} seconds" in str(raised.value)
    assert "TMPDIR" not in str(raised.value)


def test_the_request_reaches_the_model_in_its_own_form(installed):
    chat = lmms(name="newer", coordinates="pixels", temperature=0.0)
    request = contract.requests()["squashed"]
    (response,) = chat.generate([request])
    context, texts, images, settings = chat.model.seen[0]
    assert context == request.text
    assert texts == [request.system, request.text]
    assert images[0].size == (112, 84)
    assert settings["max_new_tokens"] == 12
    assert settings["do_sample"] is False
    assert (response.completion_tokens, response.cut) == (16, True)


@pytest.mark.parametrize("name", ["newer", "older"])
def test_a_response_ends_before_its_stop_string(installed, monkeypatch, name):
    chat = lmms(name=name, coordinates="pixels")
    request = contract.replace(contract.requests()["first"], system=None)
    requested, kept = contract.stopped(chat, request)
    assert chat.generate([requested])[0].text == kept
    *_, (_, _, _, settings) = chat.model.seen
    assert settings["until"] == list(requested.stop)
    assert all("until" not in seen[3] for seen in chat.model.seen[:-1])
    whole = chat.generate([request])[0].text
    # A model that does not look at `until`.
    monkeypatch.setattr(Chat, "said", lambda *_: GenerationResult(whole))
    assert lmms(name=name, coordinates="pixels").generate([requested])[0].text == kept


def test_sampled_responses_follow_the_seed_and_leave_torchs_generator_alone(installed):
    installed["drawing"] = Sampled
    requested = [ChatRequest(key=key, text="a") for key in "ab"]

    def said(requests, **given):
        spec = Spec("lmms", {"name": "drawing", "coordinates": "pixels", "temperature": 1.0})
        chat = build_chat(spec, checkpoint=None, batch_size=2, **given)
        assert chat.describe()["seed"] == given.get("seed", 0)
        return [response.text for response in chat.generate(requests)]

    before = torch.random.get_rng_state()
    first = said(requested)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(3)
    assert said(requested) == first
    others = [said(requested, seed=1), said(requested[::-1])]
    assert len({*first, *others[0], *others[1]}) == 6


def test_a_request_may_have_a_temperature_and_a_nucleus_of_its_own(installed):
    chat = lmms(name="newer", coordinates="pixels")
    request = contract.requests()["squashed"]
    chat.generate([request, replace(request, temperature=0.7, top_p=0.9)])
    keys = ("temperature", "do_sample", "top_p")
    info = [tuple(map(seen[3].get, keys)) for seen in chat.model.seen]
    assert info == [(0.0, False, 1.0), (0.7, True, 0.9)]
    installed["drawing"] = Sampled
    drawn = lmms(name="drawing", coordinates="pixels", seed=3)
    warm = [ChatRequest(key=key, text="a", temperature=1.0) for key in "ab"]
    assert drawn.generate(warm) == drawn.generate(warm)


def test_greedy_responses_need_no_seed(installed):
    installed["drawing"] = Sampled
    chat = lmms(name="drawing", coordinates="pixels")
    requested = [ChatRequest(key="a", text="a")]
    assert chat.generate(requested)[0].text != chat.generate(requested)[0].text


def test_special_tokens_are_broken_up(installed):
    chat = lmms(name="newer", coordinates="pixels")
    chat.generate([ChatRequest(key="a", text="a<|im_end|>b")])
    assert chat.model.seen[0][1] == ["a< |im_end|>b"]


def test_what_the_interface_has_no_form_for_is_refused(installed):
    requests = contract.requests()
    with pytest.raises(UsageError, match=r"^backend lmms: .* response$"):
        lmms(name="newer", coordinates="pixels").generate([requests["prefix"]])
    with pytest.raises(UsageError, match=r"^backend lmms: .*\bsystem\b"):
        lmms(name="newer", force_simple=True, coordinates="pixels").generate([requests["first"]])


def test_a_checkpoint_is_handed_over_as_pretrained(installed):
    chat = lmms(
        name="newer",
        checkpoint="a/b",
        arguments="dtype=float16",
        coordinates="pixels",
        device="cuda:1",
        batch_size=3,
    )
    assert chat.model.settings == {
        "pretrained": "a/b",
        "dtype": "float16",
        "batch_size": 3,
        "device": "cuda:1",
    }
    given = lmms(name="newer", checkpoint="a/b", arguments="pretrained=c", coordinates="pixels")
    assert given.model.settings["pretrained"] == "c"
    json.dumps(dict(given.describe()), allow_nan=False)


def test_a_model_that_is_not_registered_has_its_nearest_name_said(installed):
    with pytest.raises(UnknownPlugin, match="newer"):
        lmms(name="never", coordinates="pixels").prepare()


@pytest.mark.parametrize("arguments", ["trust_remote_code=True", "a=b,trust_remote_code = 1"])
def test_code_of_a_checkpoint_is_refused(arguments):
    with pytest.raises(UsageError, match="trust_remote_code"):
        lmms(name="newer", arguments=arguments, coordinates="pixels")
    assert lmms(name="a", arguments="trust_remote_code=False", coordinates="pixels").name == "a"
    allowed = lmms(name="newer", arguments=arguments, coordinates="pixels", remote_code=True)
    assert allowed.describe()["remote_code"] is True


TRUSTING = {
    "by default": ("trust_remote_code=True, ", "load(trust_remote_code)"),
    "in a call": ("", "load(trust_remote_code=True)"),
    "in a setting": ("", "load(**{'trust_remote_code': True})"),
    "later": ("", "given['trust_remote_code'] = True; load(given['trust_remote_code'])"),
    "unless told": ("", "load(given.pop('trust_remote_code', True))"),
    "of a base": ("", "load(trust_remote_code=True)"),
}
"""Ways in which a model of lmms-eval has transformers run code that lies beside weights."""
SOURCE = """
RAN = []

def load(trust_remote_code):
    RAN.append(trust_remote_code)

class Model:
    'A note: trust_remote_code=True'  # trust_remote_code=True
    is_simple = False
    def __init__(self, {argument}**given):
        {body}
    @classmethod
    def create_from_arg_string(cls, arguments, config=None):
        return cls(**{{pair.split("=")[0]: pair.endswith("True") for pair in arguments.split()}})
"""


@pytest.fixture
def written(installed, monkeypatch, tmp_path):
    """Registers a model that is written into a module of its own; gives the module."""

    def made(argument, body, *, derived=False):
        monkeypatch.syspath_prepend(tmp_path)
        names = ("the_model", "derived_model")[: 1 + derived]
        (tmp_path / "the_model.py").write_text(SOURCE.format(argument=argument, body=body))
        (tmp_path / "derived_model.py").write_text(
            "import the_model\n\nclass Model(the_model.Model):\n    pass\n"
        )
        for name in names:
            monkeypatch.delitem(sys.modules, name, raising=False)
        module = importlib.import_module("the_model")
        installed["careless"] = importlib.import_module(names[-1]).Model
        return module

    yield made
    for name in ("the_model", "derived_model"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("way", TRUSTING)
def test_a_model_that_trusts_checkpoints_is_refused_before_it_loads_one(written, way):
    module = written(*TRUSTING[way], derived=way == "of a base")
    with pytest.raises(UsageError, match=r"the_model, line \d+.*remote_code=true"):
        lmms(name="careless", coordinates="pixels").prepare()
    assert module.RAN == []
    chat = lmms(name="careless", coordinates="pixels", remote_code=True)
    chat.prepare()
    assert module.RAN == [True]
    assert chat.describe()["remote_code"] is True
    if way in ("by default", "unless told"):
        off = "trust_remote_code=False"
        lmms(name="careless", arguments=off, coordinates="pixels").prepare()
        assert module.RAN == [True, False]


def test_a_model_that_does_not_trust_checkpoints_needs_no_leave(written):
    module = written("trust_remote_code=False, ", "load(trust_remote_code)")
    chat = lmms(name="careless", coordinates="pixels")
    chat.prepare()
    assert module.RAN == [False]
    assert chat.describe()["remote_code"] is False


def test_a_model_whose_source_is_not_there_is_taken_for_one_that_trusts(written, tmp_path):
    written("", "pass")
    (tmp_path / "the_model.py").unlink()
    with pytest.raises(UsageError, match=r"name=careless\).*the_model, whose .*remote_code=true"):
        lmms(name="careless", coordinates="pixels").prepare()


def test_another_number_of_responses_is_the_models_failure(installed, monkeypatch):
    monkeypatch.setattr(Chat, "generate_until", lambda self, requests: [])
    with pytest.raises(ModelError, match="1 responses"):
        lmms(name="newer", coordinates="pixels").generate([contract.requests()["first"]])


def test_a_response_that_is_no_text_is_the_models_failure(installed, monkeypatch):
    monkeypatch.setattr(Chat, "generate_until", lambda self, requests: [None])
    with pytest.raises(ModelError, match="NoneType"):
        lmms(name="newer", coordinates="pixels").generate([contract.requests()["first"]])


def test_its_short_spelling_names_the_model():
    short = plugins.build("models", parse("video_r1(backend=lmms:minicpm_v,frames=4)"))
    assert short.chat.name == "minicpm_v"
    backend = parse("lmms:minicpm_v,coordinates=pixels")
    assert plugins.build("models", Spec("video_r1", {"backend": backend})).chat.name == "minicpm_v"


def test_without_lmms_eval_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lmms_eval", None)
    with pytest.raises(MissingDependency, match=r"visual-reasoning-harness\[lmms\]"):
        lmms(name="newer", coordinates="pixels").prepare()


def test_a_method_asks_through_it(installed, ask):
    limits = {"factor": 28, "min_pixels": 3136, "max_pixels": 12_845_056}
    backend = Spec("lmms", {"name": "older", "coordinates": "pixels", **limits})
    model = qwen_vl(backend=backend, segmenter=Spec("box"))
    (output,) = model.predict([ask()])
    assert output.failure is not None
    assert output.usage.completion_tokens > 0
