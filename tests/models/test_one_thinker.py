"""OneThinker's answers, read by hand-worked numbers; its own words, and the official ones."""

import json

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import ParseError, UsageError
from harness.models.one_thinker.grammar import box_at, read_prompt, read_track
from harness.models.propagators.still import still
from harness.run.batching import samples_of
from harness.segmentation import Segmenter
from harness.spec import parse
from harness.tasks.mevis import writer as mevis
from harness.tasks.reason_seg import writer as reason_seg
from harness.types import AnswerForm, Box, Interval, Point, Query
from harness.world.shapes import make

HEIGHT, WIDTH = 100, 200


class Sees(Segmenter):
    """Marks the box that it is prompted with, and notes the prompts and images."""

    name = "sees"

    def __init__(self):
        self.seen = []

    def segment(self, image, prompts):
        self.seen += [(int(image[0, 0, 0]), one) for one in prompts]
        mask = np.zeros(image.shape[:2], dtype=bool)
        mask[:10, :20] = True
        return [mask for _ in prompts]


def query(form, *, frames=1, text="the cup", **given):
    drawn = [np.full((HEIGHT, WIDTH, 3), place, dtype=np.uint8) for place in range(frames)]
    times = [place / 2 for place in range(frames)]
    shown = media.pixels(drawn, times=times, is_video=frames > 1, id="m")
    return Query(id="q", text=text, media=(shown,), forms=(form,), **given)


def built(**given):
    spec = ",".join(["one_thinker(backend=stored", *(f"{k}={v}" for k, v in given.items())])
    return plugins.build("models", parse(f"{spec})")).with_perception(Sees(), still())


def said(**answer):
    return (f"<think>hm</think><answer>{json.dumps(answer)}</answer>",)


POINTS = {
    "positive_points": [[100, 500], [200, 500], [300, 500]],
    "negative_points": [[900, 100], [950, 100], [10, 990]],
}


def test_box_and_all_points_prompt_the_segmenter_in_pixels():
    model = built()
    found = model.read(query(AnswerForm.MASK), said(boxes=[100, 200, 400, 800], **POINTS))
    ((_, prompt),) = model.segmenter.seen
    assert prompt.box == Box(20, 20, 80, 80)
    assert prompt.positive == (Point(20, 50), Point(40, 50), Point(60, 50))
    assert prompt.negative == (Point(180, 10), Point(190, 10), Point(2, 99))
    assert found.answer.masks[0].area == 200 and found.parsed[0].outside == 0


@pytest.mark.parametrize(("time", "frame"), [(1.5, 3), (1.2, 2), (99, 5), (None, 0)])
def test_a_video_is_segmented_at_the_time_that_is_named(time, frame):
    model = built()
    given = {"boxes": [100, 200, 400, 800]} | ({} if time is None else {"time": time})
    found = model.read(query(AnswerForm.MASK_TRACK, frames=6), said(**given))
    assert [seen for seen, _ in model.segmenter.seen] == [frame]
    assert found.parsed[0].frame == frame and len(found.answer.masks) == 6


def test_boxes_of_a_track_move_in_straight_lines_within_the_span():
    model = built()
    boxes = {"1": [0, 0, 100, 100], "2": [100, 0, 200, 100]}
    found = model.read(query(AnswerForm.BOX_TRACK, frames=6), said(time=[0.5, 2.0], boxes=boxes))
    assert found.answer.box_track == (
        None,
        Box(0, 0, 20, 10),
        Box(0, 0, 20, 10),
        Box(10, 0, 30, 10),
        Box(20, 0, 40, 10),
        None,
    )
    assert box_at({1.0: Box(0, 0, 4, 4)}, 9.0) == Box(0, 0, 4, 4)


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (AnswerForm.BOXES, {"boxes": [100, -1, 400, 1002]}),
        (AnswerForm.BOX_TRACK, {"boxes": {"0": [0, -1, 9, 9], "1": [0, 0, 9, 1001]}}),
        (AnswerForm.MASK_TRACK, {"boxes": [0, 0, 9, 9], "positive_points": [[-1, 1], [1, 1001]]}),
    ],
)
def test_numbers_beyond_the_image_are_counted(form, answer):
    asked = query(form, frames=1 if form is AnswerForm.BOXES else 3)
    assert built().read(asked, said(**answer)).parsed[0].outside == 2


@pytest.mark.parametrize("frames", [1, 3])
def test_the_object_is_the_one_instance_where_instances_are_asked_for(frames):
    form = AnswerForm.MASK if frames == 1 else AnswerForm.MASK_TRACK
    asked = query(form, frames=frames, instances=True)
    answer = built().read(asked, said(boxes=[100, 200, 400, 800])).answer
    assert answer.instances == (answer.masks,) and len(answer.masks) == frames


def test_a_span_of_time_a_box_a_letter_and_a_number_are_read():
    model = built()
    found = model.read(query(AnswerForm.INTERVAL, frames=3), said(time=[12.3, 25.7]))
    assert found.answer.interval == Interval(12.3, 25.7)
    found = model.read(query(AnswerForm.BOXES), said(boxes=[100, 200, 400, 800]))
    assert found.answer.boxes == (Box(20, 20, 80, 80),)
    choice = query(AnswerForm.CHOICE, options=("a cat", "a dog"))
    found = model.read(choice, ("<think>A?</think><answer>B</answer>",))
    assert found.answer.choice == "B"
    assert "\nA. a cat\nB. a dog\n" in model.requests(choice)[0].text


@pytest.mark.parametrize(
    "answer",
    [
        "no json",
        "[1, 2, 3, 4]",
        '{"boxes": [4, 4, 1, 1]}',
        '{"boxes": [1, 2, 3]}',
        '{"time": 3}',
        '{"boxes": null, "positive_points": "none"}',
        '{"boxes": [1, 2, 3, 4], "time": "noon"}',
    ],
)
def test_what_prompts_nothing_is_a_failure(answer):
    found = built().read(query(AnswerForm.MASK), (f"<answer>{answer}</answer>",))
    assert found.failure is not None and found.answer is None


def test_points_alone_are_a_prompt_and_tracks_need_seconds():
    assert read_prompt('{"positive_points": [[1, 2]]}').box is None
    for wrong in ('{"boxes": {}}', '{"boxes": {"two": [1, 2, 3, 4]}}', '{"boxes": [1, 2, 3, 4]}'):
        with pytest.raises(ParseError):
            read_track(wrong)


def test_every_question_about_a_video_shows_frames_of_all_of_it():
    model = built(frames=3)
    for form in (AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK, AnswerForm.INTERVAL):
        (request,) = model.requests(query(form, frames=7))
        assert len(request.frames[0]) == 3 and "the cup" in request.text
        assert '"time"' in request.text and "<frame>" not in request.text


def test_the_official_words_are_read_from_a_checkout_and_nothing_of_it_is_run(tmp_path):
    file = tmp_path / "eval_bench.py"
    kinds = ["multiple choice", "numerical", "OCR", "open-ended", "regression"]
    kinds += ["temporal grounding", "spatial grounding", "spatial-temporal grounding"]
    kinds += ["tracking", "segmentation_image", "segmentation_video"]
    file.write_text(
        "import os\nraise SystemExit\n"
        'QUESTION_TEMPLATE = (\n    "{Question}\\n"\n    "Reason.\\n"\n)\n'
        f"TYPE_TEMPLATE = { ({kind: f'As {kind}.' for kind in kinds})!r}\n"
    )
    model = built(prompts=file)
    (request,) = model.requests(query(AnswerForm.MASK_TRACK, frames=3, text="{Prompt} cup"))
    assert request.text == "{Prompt} cup\nReason.\nAs segmentation_video."
    assert model.describe()["prompts"] == "official" and built().describe()["prompts"] == "ours"
    file.write_text("QUESTION_TEMPLATE = os.getcwd()\n")
    with pytest.raises(UsageError, match="eval_bench"):
        built(prompts=file)


def test_perfect_responses_of_one_object_prompt_it(tmp_path):
    writers = {"mevis": mevis.write, "reason_seg": reason_seg.write}
    make(tmp_path, seed=0, size=6, writers=writers)
    single = 0
    for name in writers:
        for sample in samples_of(plugins.build("tasks", name, tmp_path)):
            answer = sample.target.answer
            if answer.no_target or len(answer.instances or (1, 1)) != 1:
                continue
            model = built()
            found = model.read(sample.query, model.write(sample.query, answer))
            ((_, prompt),) = model.segmenter.seen
            start = found.parsed[0].frame or 0
            mask = answer.masks[start].to_array()
            (x, y), *_ = prompt.positive
            assert mask[int(y), int(x)]
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            around = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
            assert np.abs(np.subtract(prompt.box, around)).max() <= 1
            single += 1
    assert single >= 2
