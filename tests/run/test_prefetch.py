"""What is decoded before a model asks for it: the frames that it will show, and no more."""

import itertools
import os
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from harness.errors import MediaError
from harness.media import Media
from harness.run import pixels, prefetch
from harness.run.batching import Batch
from harness.run.pipeline import Predictor
from harness.run.workers import LocalWorker
from harness.types import AnswerForm, Query

from .test_pipeline import PATIENCE, Kept, Staged, wholes

LONG = 20_000
SHOWN = (0, 7_000, 19_999)
FRAME = 6 * 4 * 3
"""Bytes of a frame of 6 × 4 pixels."""


@dataclass
class Decoded:
    """Which frames were decoded, by the names of their videos."""

    frames: list = field(default_factory=list)
    token: int = field(default_factory=itertools.count().__next__)
    """Keeps the cache of frames, which outlives a test, from holding another one's."""
    lock: object = field(default_factory=threading.Lock)

    def of(self, name):
        with self.lock:
            return sorted(number for one, number in self.frames if one == name)

    def wait_for(self, name, numbers):
        deadline = time.monotonic() + PATIENCE
        while self.of(name) != sorted(numbers):
            assert time.monotonic() < deadline, f"only {self.of(name)[:9]} of {name} are decoded"
            time.sleep(0.005)


class Loader:
    def __init__(self, decoded, name, number):
        self.decoded, self.name, self.number = decoded, name, number

    @property
    def key(self):
        return f"{self.decoded.token}:{self.name}:{self.number}"

    def __call__(self):
        with self.decoded.lock:
            self.decoded.frames.append((self.name, self.number))
        if self.name == "broken":
            raise MediaError("frame", expected="one", found="none")
        return np.zeros((4, 6, 3), np.uint8)


def video(decoded, name, frames):
    return Media(
        [Loader(decoded, name, number) for number in range(frames)],
        size=(6, 4),
        times=range(frames),
        digest=lambda: name,
        is_video=True,
    )


def query(decoded, name, frames=LONG, form=AnswerForm.NUMBER):
    return Query(id=name, text=name, media=(video(decoded, name, frames),), forms=(form,))


def batch(*queries, index=0):
    return Batch(index=index, queries=queries, run="run")


@dataclass
class Looks(Staged):
    """Says that it looks at a few frames of every video."""

    shown: tuple = SHOWN

    def looks_at(self, query):
        return tuple(self.shown for _ in query.media)


@pytest.fixture
def decoded():
    return Decoded()


@pytest.fixture
def room(monkeypatch):
    """Lets so many frames be decoded ahead."""

    def let(frames):
        monkeypatch.setattr(pixels, "PREFETCH_BYTES", frames * FRAME)

    return let


def ahead(model, *queries):
    return [(one.media, list(one.frames)) for one in pixels.parts(model, batch(*queries))]


def test_a_long_videos_shown_frames_are_decoded_before_the_model_asks(decoded, tmp_path, room):
    room(5 * len(SHOWN))

    def on_generate(queries):
        decoded.wait_for(queries[0].id, SHOWN)
        following = f"v{int(queries[0].id[1:]) + 1}"
        if following != "v4":  # while this one is asked, the next one's images are decoded
            decoded.wait_for(following, SHOWN)

    plan = [batch(query(decoded, f"v{index}"), index=index) for index in range(4)]
    outcomes = wholes(LocalWorker(Looks(on_generate=on_generate), tmp_path, attempt=0).run(plan))
    assert [one.failed for one in outcomes] == [0] * 4
    assert [decoded.of(f"v{index}") for index in range(4)] == [list(SHOWN)] * 4


def test_only_as_many_frames_are_decoded_ahead_as_fit(decoded, room):
    room(5)
    first, second, third = (query(decoded, name) for name in "abc")
    assert ahead(Looks(), first, second, third) == [
        (first.media[0], list(SHOWN)),
        (second.media[0], list(SHOWN[:2])),
    ]
    predictor = Predictor(Looks(), Kept())
    predictor.prefetch(batch(first, second, third))
    decoded.wait_for("a", SHOWN)
    decoded.wait_for("b", SHOWN[:2])
    predictor.close()
    assert decoded.of("c") == []


def test_a_long_video_that_is_looked_at_whole_does_not_keep_others_from_being_decoded(
    decoded, room
):
    room(10)
    long, short = query(decoded, "long"), query(decoded, "short", frames=4)
    assert ahead(Staged(), long, short) == [(short.media[0], [0, 1, 2, 3])]


def test_the_other_frames_of_a_track_come_after_what_all_samples_show_and_where_they_fit(
    decoded, room
):
    room(2 * len(SHOWN) + 8)
    long = query(decoded, "long", form=AnswerForm.MASK_TRACK)
    short = query(decoded, "short", frames=9, form=AnswerForm.MASK_TRACK)
    (shown, rest) = ahead(Looks(shown=(4,)), short)
    assert (shown[1], rest[1]) == ([4], [0, 1, 2, 3, 5, 6, 7, 8])
    found = ahead(Looks(shown=(4,)), long, short)
    assert [(media is short.media[0], frames) for media, frames in found] == [
        (False, [4]),
        (True, [4]),
        (True, [0, 1, 2, 3, 5, 6, 7, 8]),
    ]
    worded = query(decoded, "worded", frames=9, form=AnswerForm.CHOICE)
    assert ahead(Looks(shown=(4,)), worded) == [(worded.media[0], [4])]


@pytest.mark.parametrize(
    "said",
    [((0, -1, LONG, 5),), (), ((0,), (0,)), 3, ("ab",), None],
    ids=["outside", "too few", "too many", "a number", "text", "nothing"],
)
def test_frames_that_are_not_there_are_not_decoded_and_nothing_is_raised(decoded, said):
    model = Staged()
    model.looks_at = lambda query: said
    one = query(decoded, "v")
    frames = [frames for _, frames in ahead(model, one)]
    assert frames == ([[0, 5]] if said == ((0, -1, LONG, 5),) else [])


def test_a_model_that_cannot_say_what_it_looks_at_is_asked_all_the_same(decoded, tmp_path):
    def wrong(query):
        raise RuntimeError("of the model")

    model = Staged()
    model.looks_at = wrong
    (outcome,) = wholes(LocalWorker(model, tmp_path, attempt=0).run([batch(query(decoded, "v"))]))
    assert (outcome.failed, decoded.frames) == (0, [])


def test_a_broken_frame_is_not_met_by_decoding_ahead(decoded, tmp_path):
    plan = [batch(query(decoded, "broken", frames=2)), batch(query(decoded, "v", 2), index=1)]
    outcomes = wholes(LocalWorker(Staged(), tmp_path, attempt=0).run(plan))
    assert [one.failed for one in outcomes] == [0, 0], "the model did not look"
    assert len(decoded.of("broken")) <= 1


def test_nothing_is_decoded_after_the_end(decoded):
    part = pixels.MediaFrames(video(decoded, "v", 9), range(9), divisible=True)
    pixels.decode(part, lambda: len(decoded.of("v")) == 4)
    assert decoded.of("v") == [0, 1, 2, 3]


def test_the_pixels_of_a_sample_are_counted_by_their_sizes(decoded):
    track = query(decoded, "v", frames=10, form=AnswerForm.MASK_TRACK)
    assert pixels.shown_pixels(Looks(shown=(1, 2)), [track, track]) == 4 * FRAME
    assert pixels.shown_pixels(Staged(), [track]) == 10 * FRAME
    runs = 10 * (512 + 16 * track.size[0])
    assert pixels.masked_pixels(track) == FRAME + 2 * 2 * 6 * 4 + 2 * runs
    assert pixels.masked_pixels(track, 3) == FRAME + 2 * 4 * 6 * 4 + 4 * runs
    assert pixels.masked_pixels(track, 0) == 0
    assert pixels.masked_pixels(query(decoded, "w")) == 0


class Slow(Loader):
    """Takes its time, and may be asked again meanwhile."""

    def __call__(self):
        time.sleep(0.02)
        return super().__call__()


@dataclass
class LooksEarly(Looks):
    """Begins with the frames themselves, as a model does that makes tensors of them."""

    expected: list = field(default_factory=list)
    looked: threading.Event = field(default_factory=threading.Event)

    def prepare_next(self, queries):
        for one in queries:
            for frame in self.shown:
                one.media[0].frame(frame)
            self.expected.append(one.id)
        self.looked.set()


@pytest.mark.parametrize("threads", [2, 4])
def test_what_is_expected_is_decoded_once(decoded, room, monkeypatch, tmp_path, threads):
    room(LONG)
    monkeypatch.setattr(prefetch, "decoders", lambda: threads)
    shown = tuple(range(0, 40, 2))

    def slow(name):
        media = Media(
            [Slow(decoded, name, number) for number in range(50)],
            size=(6, 4),
            times=range(50),
            digest=lambda: name,
            is_video=True,
        )
        return Query(id=name, text=name, media=(media,), forms=(AnswerForm.NUMBER,))

    names = ("a", "b", "c", "d", "e")
    model = LooksEarly(shown=shown)

    def on_generate(queries):
        if queries[0].id == "a":
            assert model.looked.wait(PATIENCE), "nothing is expected"

    model.on_generate = on_generate
    plan = [batch(slow("a")), batch(*map(slow, names[1:]), index=1)]
    assert [one.failed for one in wholes(LocalWorker(model, tmp_path, attempt=0).run(plan))] == [
        0,
        0,
    ]
    assert model.expected == list(names[1:])
    assert [decoded.of(name) for name in names[1:]] == [list(shown)] * 4


def test_a_run_that_ends_while_it_decodes_expects_nothing_and_waits_for_nothing(decoded, room):
    room(LONG)
    model, requested = LooksEarly(), threading.Event()
    predictor = Predictor(model, Kept(), inline=False)
    held = threading.Event()

    def on_generate(queries):
        requested.set()
        held.wait(PATIENCE)

    model.on_generate = on_generate
    predictor.submit(batch(query(decoded, "a")))
    assert requested.wait(PATIENCE)
    monkeyed = pixels.MediaFrames(video(decoded, "b", 9), range(9), divisible=True)
    stuck = predictor._threads.submit("decode", held.wait, PATIENCE, threads=1)
    waiting = predictor._threads.submit("decode", pixels.decode, monkeyed, lambda: False)
    decoding = prefetch.DecodingBatch(batch(query(decoded, "b")), [stuck, waiting])
    predictor._prefetcher.prepare_decoded(decoding)
    predictor.close()
    held.set()
    assert stuck.result(PATIENCE) and waiting.cancelled()
    assert model.expected == [] and "expect" not in predictor._threads.pools


@pytest.mark.parametrize(("cores", "threads"), [(1, 2), (8, 2), (16, 4), (32, 8), (400, 8)])
def test_a_share_of_the_cores_that_are_ours_decodes(monkeypatch, cores, threads):
    monkeypatch.setattr(os, "cpu_count", lambda: 512)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert prefetch.decoders() == threads


def test_nothing_is_decoded_ahead_of_a_model_that_reads_no_pixels(decoded):
    model = Staged()
    model.reads_pixels = lambda query: False
    assert ahead(model, query(decoded, "v", form=AnswerForm.MASK_TRACK)) == []
