"""Networks that emit masks: a real one with a <SEG> token, and classes that break the contract."""

import json
import runpy
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import plugins
from harness.cli.main import main
from harness.errors import ModelError, OutOfMemory, UsageError
from harness.masks import Rle, Track
from harness.model import StagedModel
from harness.models.mask_model import MaskModel
from harness.models.questions import Questions
from harness.run.verify import verify
from harness.segmentation import MaskEmitter, MaskResponse
from harness.spec import parse
from harness.types import Answer, AnswerForm, Box, FailureKind

ADDED = Path(__file__).parent / "added"
FORM = AnswerForm
ENTRY = "[harness.models]\nsegment_token = segment_token:segment_token\n"


class Emits:
    """A network that emits what it is told to."""

    def __init__(self, *responses: MaskResponse) -> None:
        self.responses, self.asked = responses, []

    def generate(self, requests):
        self.asked.extend(requests)
        return self.responses[: len(requests)]


def model(*responses, **given):
    network = Emits(*responses)
    return MaskModel(name="emits", load=lambda: network, batch_size=4, **given), network


def square(left, *, size=(120, 90)):
    mask = np.zeros(size[::-1], np.bool_)
    mask[10:20, left : left + 10] = True
    return mask


def said(query, *responses, **given):
    (prediction,) = model(*responses, **given)[0].predict([query])
    return prediction


def test_objects_are_kept_apart_with_their_scores_where_the_query_asks_for_them(ask):
    for frames in (1, 2):
        response = MaskResponse(
            masks=[[square(5)] * frames, [square(40)] * frames], scores=(0.9, 0.4)
        )
        query = ask(FORM.MASK if frames == 1 else FORM.MASK_TRACK, frames=frames)
        answer = said(replace(query, instances=True), response).answer
        assert [track[-1].area for track in answer.instances] == [100, 100]
        assert answer.masks[-1].area == 200 and answer.box_scores == (0.9, 0.4)
        assert said(query, response).answer.instances is None


@pytest.mark.parametrize("scores", [(0.9,), (0.9, float("nan")), (0.9, 1.5)])
def test_scores_that_do_not_fit_the_objects_fail_the_sample(ask, scores):
    response = MaskResponse(masks=[[square(5)], [square(40)]], scores=scores)
    failure = said(replace(ask(), instances=True), response).failure
    assert failure.kind is FailureKind.MODEL and "2 scores" in failure.message


def test_objects_of_a_response_are_joined(ask):
    made, network = model(
        MaskResponse(text="[SEG] [SEG]", masks=[[square(5)], [square(40)]], completion_tokens=3),
        prompt="Segment {Question}",
    )
    (prediction,) = made.predict([ask()])
    assert prediction.answer.masks == (Rle.from_array(square(5) | square(40)),)
    assert prediction.responses == ("[SEG] [SEG]",) and prediction.usage.completion_tokens == 3
    (request,) = network.asked
    assert request.text == f"Segment {ask().text}" and len(request.media) == 1


def test_a_video_has_a_mask_for_every_frame_and_boxes_around_them(ask):
    track = [square(0), np.zeros_like(square(0)), square(20)]
    video = ask(FORM.MASK_TRACK, frames=3)
    whole = said(video, MaskResponse(masks=[track], frames=1))
    assert whole.answer.masks == tuple(map(Rle.from_array, track)) and whole.usage.frames == 1
    held = Track(3, 90, 120)
    for index, mask in enumerate(track):
        held[index] = mask
    assert said(video, MaskResponse(masks=[held])).answer == whole.answer
    boxes = said(ask(FORM.BOX_TRACK, frames=3), MaskResponse(masks=[track])).answer.box_track
    assert boxes == (Box(0, 10, 10, 20), None, Box(20, 10, 30, 20))


def test_a_response_without_objects_says_that_nothing_is_meant(ask):
    nothing = said(ask(), MaskResponse(text="There is none."))
    assert nothing.answer.no_target and nothing.answer.masks[0].area == 0


@pytest.mark.parametrize(
    ("masks", "named"),
    [
        ([[square(0).astype(np.float32)]], "float32"),
        ([[square(0, size=(90, 120))]], "120"),
        ([[square(0), square(0)]], "1 masks"),
        ([[square(0)], []], "found 0"),
        ([square(0)], "A list of masks an object"),
    ],
)
def test_masks_that_are_none_of_the_image_fail_their_sample(ask, masks, named):
    wrong = said(ask(), MaskResponse(text="[SEG]", masks=masks))
    assert wrong.failure.kind is FailureKind.MODEL and named in wrong.failure.message
    assert wrong.responses == ("[SEG]",)


def test_responses_of_another_class_are_named(ask):
    with pytest.raises(ModelError, match=r"MaskResponse.*tuple"):
        said(ask(), ("[SEG]", [[square(0)]]))


def test_questions_in_words_are_read_from_the_text(ask):
    query = ask((FORM.CHOICE, FORM.MASK), options=("red", "blue"), text="Which?")
    responses = (MaskResponse(text="B"), MaskResponse(text="[SEG]", masks=[[square(5)]]))
    both = said(query, *responses, words=Questions())
    assert both.answer.choice == "B" and both.answer.masks[0].area == 100
    unread = said(ask(FORM.NUMBER), MaskResponse(text="many"), words=Questions())
    assert unread.failure.kind is FailureKind.PARSE
    with pytest.raises(UsageError):
        said(query, *responses)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(UsageError):
        model(prompt="Segment it.")
    with pytest.raises(UsageError):
        MaskModel(name="x", load=Emits, batch_size=0)


@pytest.mark.parametrize("name", ["reason_seg", "reason_seg(split=train)", "mevis(split=train)"])
def test_a_perfect_network_reaches_the_ceiling(shapes, name):
    made, _ = model()
    assert isinstance(made, MaskEmitter) and isinstance(made, StagedModel)
    verdicts = list(verify(plugins.build("tasks", parse(name), shapes), made))
    assert [one.way for one in verdicts] == ["answers", "masks"]
    assert all(one.is_passed for one in verdicts)


class Late(MaskModel):
    """Takes each frame's masks for those of the next."""

    def begin(self, query, said):
        def late(response):
            tracks = [[track[0], *list(track)[:-1]] for track in response.masks]
            return MaskResponse(masks=tracks)

        return super().begin(query, replace(said, responses=tuple(map(late, said.responses))))


class One(MaskModel):
    """Forgets all objects but the first."""

    def begin(self, query, said):
        one = tuple(MaskResponse(masks=response.masks[:1]) for response in said.responses)
        return super().begin(query, replace(said, responses=one))


@pytest.mark.parametrize("kind", [Late, One])
def test_what_is_wrong_after_the_network_misses_the_ceiling(shapes, kind):
    task = plugins.build("tasks", parse("mevis(split=train)"), shapes)
    verdicts = list(verify(task, kind(name="wrong", load=Emits)))
    assert [one.is_passed for one in verdicts] == [True, False]


def test_what_a_box_track_says_is_verified_by_masks(ask):
    from harness.run.oracle import PerfectNetwork

    boxes = (Box(3, 4, 20, 30), None)
    perfect = PerfectNetwork(Answer(box_track=boxes), ("",))
    (prediction,) = model()[0].with_network(perfect).predict([ask(FORM.BOX_TRACK, frames=2)])
    assert prediction.answer.box_track == boxes


@pytest.fixture(scope="session")
def segment_checkpoint(tmp_path_factory, tiny_qwen):
    """A random Qwen2.5-VL that knows <SEG>, a random SAM 2, and the projection between them."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoProcessor

    folder = tmp_path_factory.mktemp("segment")
    shutil.copytree(tiny_qwen, folder / "vlm")
    processor = AutoProcessor.from_pretrained(folder / "vlm")
    processor.tokenizer.add_tokens(["<SEG>"], special_tokens=True)
    processor.save_pretrained(folder / "vlm")
    networks = runpy.run_path(str(ADDED.parent / "sam2_networks.py"))
    both, _ = networks["save"](folder, seed=0)
    both.rename(folder / "sam2")
    torch.manual_seed(0)
    save_file({"weight": torch.randn(64, networks["WIDTH"])}, folder / "projection.safetensors")
    return folder


@pytest.fixture
def segment_token(monkeypatch, segment_checkpoint):
    monkeypatch.syspath_prepend(str(ADDED))
    from segment_token import segment_token

    yield segment_token(checkpoint=segment_checkpoint)
    for name in ("segment_token", "segment_network"):
        sys.modules.pop(name, None)


def test_a_network_with_a_token_emits_masks_of_images_and_videos(segment_token, ask):
    queries = [
        ask(),
        ask(text="Where is the gradient?"),
        ask(size=(64, 100)),
        ask(FORM.MASK_TRACK, frames=3),
    ]
    predictions = segment_token.predict(queries)
    for query, one in zip(queries, predictions, strict=True):
        assert one.failure is None and one.responses == ("Sure, it is <SEG>.",)
        assert len(one.answer.masks) == len(query.media[0])
        assert {(mask.width, mask.height) for mask in one.answer.masks} == {query.size}
    first, other, *_ = (one.answer.masks for one in predictions)
    assert first != other, "the question makes a difference"
    assert 0 < first[0].area < 120 * 90
    alone = segment_token.predict(queries[:1])
    assert alone == predictions[:1], "a batch makes none"


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The files of the page as an installed package."""
    about = tmp_path / "site" / "segment_token-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: segment_token\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_it_is_verified_evaluated_and_resumed_as_any_model(
    installed, segment_token, segment_checkpoint, shapes, tmp_path, capsys, monkeypatch
):
    from segment_network import SegmentNetwork

    spec = f"segment_token(checkpoint={segment_checkpoint},batch_size=3)"
    common = ["--model", spec, "--tasks", "reason_seg", "--data", str(shapes), "--json"]

    def run(*arguments):
        capsys.readouterr()
        code = main([*arguments, *common])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return json.loads(shown.out)

    assert run("verify")["passed"]
    whole = run("eval", "--out", str(tmp_path / "whole"))["tasks"]["reason_seg"]
    assert (whole["n_total"], whole["n_failed"]) == (8, 0)
    segment, requested = SegmentNetwork.segment, []

    def interrupted(self, frames, text):
        requested.append(text)
        if len(requested) == 7:
            raise KeyboardInterrupt
        return segment(self, frames, text)

    monkeypatch.setattr(SegmentNetwork, "segment", interrupted)
    with suppress(KeyboardInterrupt):
        assert main(["eval", "--out", str(tmp_path / "cut"), *common]) != 0
    assert len(requested) == 7
    resumed = run("eval", "--out", str(tmp_path / "cut"))["tasks"]["reason_seg"]
    assert resumed["metrics"] == whole["metrics"]
    assert len(requested) - 7 == 2, "six samples were answered before"


class Small:
    """A network that fits two requests, and not the third sample at all."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def generate(self, requests: Sequence):
        self.sizes.append(len(requests))
        if len(requests) > 2 or any("2" in one.text for one in requests):
            raise OutOfMemory("batch")
        return [MaskResponse(masks=[[square(0)]]) for _ in requests]


def test_a_batch_that_does_not_fit_is_halved(ask, tmp_path):
    from harness.run.batching import Batch
    from harness.run.pipeline import Predictor

    class Journal:
        def append(self, records):
            """Keep nothing."""

    network = Small()
    made = MaskModel(name="small", load=lambda: network, batch_size=5)
    queries = [ask(text=f"number {k}", name=str(k)) for k in range(5)]
    batch = Batch(0, tuple(queries))
    outcome = Predictor(made, Journal()).submit(batch).result(timeout=60)
    assert outcome.failed == 1 and outcome.halvings >= 1
    assert max(network.sizes) == 5 and 1 in network.sizes
