"""The backend `lmms` with lmms-eval itself, where it is installed: the same responses as
without.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness.chat import ChatRequest
from harness.media import Media, pixels
from harness.models.backends.clip_files import clip_files
from harness.models.backends.lmms import lmms
from harness.models.backends.lmms_models import (
    FIRST_ONLY,
    IMAGES_AND_VIDEO,
    IMAGES_ONLY,
    IMAGES_ONLY_NEWER,
    NESTING_OF,
    VIDEO_ONLY_NEWER,
    runs_code,
)
from harness.models.backends.remote_processor import FETCH_FACTOR, FETCH_FRAMES, FETCH_PIXELS
from harness.models.backends.transformers import transformers
from harness.models.pocket import FOLDER
from harness.models.pocket.model import CANVAS, pocket
from harness.spec import parse
from harness.types import AnswerForm, Query, query_id
from harness.world.families import draw_scene
from harness.world.raster import render

pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
pytest.importorskip("torch")

LIMITS = f"min_pixels={CANVAS[0] * CANVAS[1]},max_pixels={CANVAS[0] * CANVAS[1]}"
LMMS = (
    f"lmms:qwen2_5_vl,arguments='pretrained={FOLDER},device_map=cpu,{LIMITS}',"
    f"tokenizer={FOLDER},device=cpu,{LIMITS}"
)


def questions() -> list[Query]:
    """Of images that differ in size, so that a mix-up shows."""
    scenes = [draw_scene(3, family="count", split="val", index=index) for index in range(4)]
    return [
        Query(
            id=query_id(str(place)),
            text="How many objects are there in this image?",
            media=(pixels([render(scene)], times=[0.0], is_video=False, id=str(place)),),
            forms=(AnswerForm.COUNT,),
        )
        for place, scene in enumerate(scenes)
    ]


def test_pocket_responses_through_lmms_eval_as_through_transformers(monkeypatch):
    """Both compute in bfloat16, and so the same only without what ours computes otherwise."""
    monkeypatch.setattr(
        "harness.models.backends.transformers.use_cpu_kernels",
        lambda network, *, attn_implementation: network,
    )
    output = [
        [
            one.responses
            for one in pocket(backend=parse(backend), segmenter=parse("box"), batch_size=2).predict(
                questions()
            )
        ]
        for backend in (LMMS, "transformers(dtype=bfloat16,continuous_batching=false)")
    ]
    assert output[0] == output[1]
    assert len({responses[0] for responses in output[0]}) > 1
    assert any("bbox_2d" in responses[0] for responses in output[0])


def clip(frames: int) -> Media:
    """Images of the network's own size, so that nobody has to resize them; two a second."""
    wide, high = CANVAS
    drawn = np.random.default_rng(frames).integers(0, 256, (frames, 6, 6, 3), dtype=np.uint8)
    shown = drawn.repeat(high // 6, axis=1).repeat(wide // 6, axis=2)
    times = [index / 2 for index in range(frames)]
    return pixels(list(shown), times=times, is_video=True, id=str(frames))


def test_pocket_sees_the_frames_of_a_file_as_without_one(monkeypatch):
    """Qwen2.5-VL takes an even number of frames, and no more than its arguments allow."""
    monkeypatch.setattr(
        "harness.models.backends.transformers.use_cpu_kernels",
        lambda network, *, attn_implementation: network,
    )
    limits = {"min_pixels": CANVAS[0] * CANVAS[1], "max_pixels": CANVAS[0] * CANVAS[1]}
    arguments = f"pretrained={FOLDER},device_map=cpu,{LIMITS}"
    given = {"tokenizer": str(FOLDER), "device": "cpu", "clips": "file", **limits}
    requested = [
        ChatRequest(
            key=str(frames),
            text="How many objects are there in this image?",
            media=(clip(6),),
            frames=(tuple(range(frames)),),
            max_new_tokens=12,
        )
        for frames in (2, 6)
    ]
    here = transformers(
        checkpoint=str(FOLDER), dtype="bfloat16", batch_size=1, continuous_batching=False, **limits
    ).generate(requested)
    there = lmms(name="qwen2_5_vl", arguments=arguments, **given).generate(requested)
    assert [one.text for one in there] == [one.text for one in here]
    assert [one.canvases for one in there] == [one.canvases for one in here] == [(CANVAS,)] * 2
    assert there[0].text != there[1].text
    few = lmms(name="qwen2_5_vl", arguments=f"{arguments},max_num_frames=2", **given)
    assert few.generate(requested[1:])[0].text != there[1].text


@pytest.mark.parametrize("size", [(1280, 720), (640, 360), (98, 54), (2000, 300)])
@pytest.mark.parametrize(
    ("least", "most"),
    [(200_704, 1_605_632), (3136, 12_845_056), (670_000, 1_605_632), (28_224, 28_224)],
)
def test_the_canvas_of_a_file_is_that_of_fetch_video(size: tuple[int, int], least: int, most: int):
    """Its largest frame, and the processor after it."""
    fetch_video = pytest.importorskip("qwen_vl_utils").fetch_video
    limits = {"min_pixels": least, "max_pixels": most}
    chat = lmms(name="qwen2_5_vl", tokenizer=str(FOLDER), clips="file", **limits)
    black = [np.zeros((*size[::-1], 3), dtype=np.uint8)] * 4
    media = pixels(black, times=[0.0, 0.5, 1.0, 1.5], is_video=True, id="a")
    with clip_files() as path_of:
        video = path_of(media, range(4), None)
        fetched = fetch_video({"video": video, "nframes": 4, **limits})
    wide, high = chat.canvas(ChatRequest(key="a", text="a", media=(media,)))
    network = transformers(checkpoint=str(FOLDER), **limits)
    made = network.processor.video_processor([fetched], return_tensors="pt")
    assert made["video_grid_thw"].tolist() == [[2, high // 14, wide // 14]]


def test_fetch_video_has_the_limits_that_canvases_are_told_by():
    utils = pytest.importorskip("qwen_vl_utils.vision_process")
    assert utils.VIDEO_MAX_TOKEN_NUM * FETCH_FACTOR**2 == FETCH_PIXELS
    budget = utils.MODEL_SEQ_LEN * FETCH_FACTOR**2 * 0.9 * utils.FRAME_FACTOR
    assert budget / FETCH_FRAMES >= FETCH_PIXELS > budget / (FETCH_FRAMES + 1)


@pytest.mark.parametrize("simple", [False, True])
def test_the_network_sees_large_frames_of_a_file_at_their_canvas(simple: bool, monkeypatch):
    limits = {"min_pixels": 200_704, "max_pixels": 1_605_632}
    arguments = f"pretrained={FOLDER},device_map=cpu,min_pixels=200704,max_pixels=1605632"
    chat = lmms(
        name="qwen2_5_vl",
        arguments=arguments,
        force_simple=simple,
        tokenizer=str(FOLDER),
        device="cpu",
        clips="file",
        **limits,
    )
    black = [np.zeros((720, 1280, 3), dtype=np.uint8)] * 4
    media = pixels(black, times=[0.0, 0.5, 1.0, 1.5], is_video=True, id="a")
    seen = []
    network = type(chat.model.model)
    generate = network.generate

    def recorded(self: Any, **given: Any) -> Any:
        seen.append(given["video_grid_thw"].tolist())
        return generate(self, **given)

    monkeypatch.setattr(network, "generate", recorded)
    (output,) = chat.generate([ChatRequest(key="a", text="a", media=(media,), max_new_tokens=1)])
    assert seen == [[[2, 560 // 14, 1008 // 14]]]
    assert output.canvases == ((1008, 560),)


def by_decord(path: str, count: int) -> np.ndarray:
    from lmms_eval.models.model_utils.load_video import load_video_decord

    return load_video_decord(path, count)


def by_pyav(path: str, count: int) -> np.ndarray:
    from lmms_eval.models.model_utils.load_video import read_video

    return read_video(path, num_frm=count)


@pytest.mark.parametrize("load", [by_decord, by_pyav])
def test_its_loaders_of_videos_read_every_frame_of_a_file(load: Callable[[str, int], np.ndarray]):
    media = clip(9)
    with clip_files() as path_of:
        path = path_of(media, range(9), None)
        assert np.array_equal(load(path, 9), media.frames())
        assert np.array_equal(load(path, 3), media.frames((0, 4, 8)))


def test_decord_knows_the_rate_of_a_file():
    decord = pytest.importorskip("decord")
    with clip_files() as path_of:
        video = decord.VideoReader(path_of(clip(9), (0, 4, 8), (57, 41)))
        assert (len(video), video.get_avg_fps()) == (3, 0.5)
        assert video[2].asnumpy().shape == (41, 57, 3)


def test_a_registered_model_opens_the_file():
    chat = lmms(
        name="dummy",
        arguments="response=seen,decode_num_frames=5",
        coordinates="pixels",
        clips="file",
    )
    (output,) = chat.generate([ChatRequest(key="a", text="a", media=(clip(5),))])
    assert output.text == "seen"
    assert chat.model._decoded_frame_count == 5


def test_the_models_that_were_read_are_registered():
    from lmms_eval.models import get_model_manifest

    older = {*NESTING_OF, *IMAGES_ONLY, *IMAGES_AND_VIDEO}
    assert all(get_model_manifest(name).simple_class_path for name in older)
    newer = FIRST_ONLY | IMAGES_ONLY_NEWER | VIDEO_ONLY_NEWER
    assert all(get_model_manifest(name).chat_class_path for name in newer)
    assert not IMAGES_ONLY & IMAGES_AND_VIDEO


@pytest.mark.parametrize(("name", "trusts"), [("qwen2_5_vl", False), ("qwen3_vl", True)])
def test_whether_a_model_trusts_checkpoints_is_seen_in_its_own_source(name, trusts):
    from lmms_eval.models import get_model

    assert (runs_code(get_model(name), "") is not None) is trusts
