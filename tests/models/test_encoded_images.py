"""Images on their way to a server: their own files where nothing changes, encoded once else."""

import base64
import io
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.media import open_image
from harness.models.backends import request_format
from harness.models.backends.encoded_images import EncodedImages
from harness.models.backends.openai import openai
from harness.models.backends.request_format import encode_image

sys.path.append(str(Path(__file__).parent.parent / "serving"))
import contract
from chat_server import Scripted, serving


@pytest.fixture
def photo(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 84, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "photo.jpg", quality=90)
    return open_image(tmp_path / "photo.jpg")


def request_for(photo, **changes):
    request = replace(contract.requests()["first"], media=(photo,), frames=())
    return replace(request, **changes)


def images_sent(served):
    """Kind and bytes of each image of the requests that a server was sent."""
    text = json.dumps(served.asked)
    for part in text.split('"data:image/')[1:]:
        kind, _, data = part.partition(";base64,")
        yield kind, base64.b64decode(data.partition('"')[0])


def settings(served, **more):
    return {"model": served.model, "base_url": served.url, "coordinates": "normalized_1000"} | more


def test_an_image_that_is_not_resized_goes_as_its_own_file(photo):
    with serving(Scripted()) as served:
        openai(**settings(served)).generate([request_for(photo)])
        ((kind, data),) = images_sent(served)
    assert kind == "jpeg" and data == photo.plain_file(0).data
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), photo.frame(0))


@pytest.mark.parametrize(
    ("change", "more", "kind"),
    [
        ({"resize": (56, 56)}, {}, "png"),
        ({}, {"factor": 28, "min_pixels": 28 * 28, "max_pixels": 56 * 56}, "png"),
        ({}, {"quality": 95}, "jpeg"),
    ],
)
def test_what_is_resized_or_asked_for_as_jpeg_is_encoded(photo, change, more, kind):
    with serving(Scripted()) as served:
        openai(**settings(served, **more)).generate([request_for(photo, **change)])
        ((sent, data),) = images_sent(served)
    assert sent == kind and data != photo.plain_file(0).data


def test_requests_and_tries_share_an_encoded_image(photo, monkeypatch):
    encoded = []

    def counted(image, quality):
        encoded.append(image)
        return encode_image(image, quality)

    monkeypatch.setattr(request_format, "encode_image", counted)
    with serving(Scripted(), faults=[503, 503]) as served:
        chat = openai(**settings(served, wait=0.01))
        requests = [request_for(photo, resize=(56, 56), key=f"rollout {n}") for n in range(8)]
        chat.generate(requests)
        assert len(list(images_sent(served))) >= 8
    assert len(encoded) == 1


def test_few_requests_are_encoded_before_they_can_be_sent(photo):
    with serving(Scripted()) as served:
        chat = openai(**settings(served, concurrency=1))
        prepare, held, most = chat.session.prepare, set(), []

        def counted(request):
            held.add(request.key)
            most.append(len(held))
            send = prepare(request)

            def sent():
                held.discard(request.key)
                return send()

            return sent

        chat.session.prepare = counted
        requests = [request_for(photo, key=f"{n}") for n in range(20)]
        with ThreadPoolExecutor(20) as threads:
            list(threads.map(lambda request: chat.generate([request]), requests))
    assert max(most) <= 5  # four that wait, and one that takes its place


def test_an_image_is_encoded_once_by_threads_that_want_it_at_once():
    images, calls, all_ask = EncodedImages(max_bytes=100), [], threading.Barrier(6)

    def encode():
        calls.append(1)
        return "png", bytes(40)

    def get(_):
        all_ask.wait()
        return images.get("a", encode)

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(get, range(6))) == {("png", bytes(40))}
    assert len(calls) == 1
    for key in "bcd":  # the oldest are dropped
        images.get(key, encode)
    images.get("a", encode)
    assert len(calls) == 5


def test_an_image_that_could_not_be_encoded_is_tried_again():
    images = EncodedImages(max_bytes=100)

    def broken():
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        images.get("a", broken)
    assert images.get("a", lambda: ("png", b"x")) == ("png", b"x")


@pytest.mark.parametrize("size", [(1, 1), (7, 3), (854, 480)])
def test_fpng_loses_nothing(size, monkeypatch):
    pytest.importorskip("fpng")
    noise = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    kind, data = encode_image(noise[:, ::-1], None)
    assert kind == "png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), noise[:, ::-1])
    monkeypatch.setattr(request_format, "fpng", None)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(encode_image(noise, None)[1]))), noise)
