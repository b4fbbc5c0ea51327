"""What models write, as text and as values: a failed sample at worst, never a crash."""

import json
import time

import pytest

from harness.errors import MaskError
from harness.masks import Rle, SoftMask
from harness.responses import MAX_TEXT

case = pytest.mark.case
ITEM = '{"bbox_2d": [10, 20, 300, 400], "point_2d": [100, 100]}'
READER = "qwen_vl(backend=stored,segmenter=box,propagator=still)"


def said(answer):
    return f"<think>so</think><answer>{answer}</answer>"


@pytest.fixture
def read(harness, counting):
    """Scores one response; gives the prediction that the record holds, and the failures."""

    def reading(response, *, tasks="counting"):
        begin = time.perf_counter()
        others = [{"id": str(number), "response": said(f"[{ITEM}]")} for number in range(1, 8)]
        done = harness.score(
            [{"id": "0", "response": response}, *others],
            "--model",
            READER,
            "--out",
            harness.folder / "runs",
            tasks=tasks,
        )
        assert time.perf_counter() - begin < 5
        shown = harness("explain", harness.run, "0", "--json").json
        found = done.task("counting")
        assert found["n_scored"] + found["n_failed"] == found["n_total"] == 8
        return shown["prediction"], found["failures"]["parse"]

    return reading


def is_failure(read, response, words):
    prediction, failures = read(response)
    assert failures == 1 and "answer" not in prediction
    kind, message = prediction["failure"]
    assert kind == "parse" and words in message


@case("an empty response", "a failed sample (parse)", code=0)
@pytest.mark.parametrize("response", ["", " \n\t", "\0"])
def test_an_empty_response_is_a_failure(read, response):
    is_failure(read, response, "expected <answer>…</answer>")


@case(
    "no, two or unclosed `<answer>` tags",
    "a failed sample; of two the first counts",
    code=0,
)
@pytest.mark.parametrize(
    ("response", "words"),
    [
        ("I see three.", "expected places"),
        (f"[{ITEM}]", "expected <answer>"),
        (f"<answer>[{ITEM}]", "closed"),
        ("</answer><answer>", "closed"),
        (said(f"[{ITEM}]").replace("answer", "ANSWER"), "expected <answer>"),
        ("<execute>print(1)</execute>", "expected <answer>"),
    ],
)
def test_an_answer_without_its_tags_is_a_failure(read, response, words):
    is_failure(read, response, words)


@case("two `<answer>` tags", "the first counts, with a note", code=0)
def test_of_two_answers_the_first_counts(read):
    prediction, failures = read(said("[]") + f"<answer>[{ITEM}]</answer>")
    assert failures == 0 and prediction["answer"]["count"] == 0
    assert prediction["notes"] == ["2 answers: the first counts"]


@case("a thought without an answer, or that is not closed", "a failed sample", code=0)
@pytest.mark.parametrize("thought", ["<think>{}</think>", "<think>{}", "{}</think>", "◁think▷{}"])
def test_a_thought_alone_is_a_failure(read, thought):
    is_failure(read, thought.format(f"<answer>[{ITEM}]</answer> or not"), "only reasoning")


@case("a thought that names another answer", "it is cut off", code=0)
def test_a_thought_is_not_searched(read):
    prediction, failures = read(
        "<think>in [0, 1] or <answer>[]</answer></think>" + said(f"[{ITEM}]")
    )
    assert failures == 0 and prediction["answer"]["count"] == 1


@case(
    "NaN, Infinity, keys twice or text behind JSON in a response",
    "a failed sample",
    code=0,
)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (f"[{ITEM}]".replace("300", "NaN"), "NaN"),
        (f"[{ITEM}]".replace("300", "Infinity"), "Infin"),
        (f"[{ITEM}]".replace("300", "1e999"), "too large"),
        (f"[{ITEM}] I think", "Extra data"),
        (f"[{ITEM}]".replace("point_2d", "bbox_2d"), "twice"),
        ("null", "a list"),
        ("{}", "a list"),
        ("__import__('os').system('touch canary')", "JSON"),
        ("", "JSON"),
        ("[5]", "object 1"),
    ],
)
def test_a_response_is_read_strictly(read, answer, words):
    is_failure(read, said(answer), words)


@case(
    "a box with x2 < x1, of three numbers, of text or of ground truth values",
    "a failed sample; edges are never swapped",
    code=0,
)
@pytest.mark.parametrize(
    "box",
    [
        "[300, 20, 10, 400]",
        "[10, 20, 300]",
        '["1", 2, 3, 4]',
        "[true, 2, 3, 4]",
        "[10, 20, 10, 400]",
        "10",
    ],
)
def test_a_box_that_is_none_is_a_failure(read, box):
    is_failure(read, said(f"[{ITEM}]".replace("[10, 20, 300, 400]", box)), "bbox_2d")


@case(
    "numbers of another scale: from 0 to 1, or beyond the canvas by 5% of a side and more",
    "a failed sample: no scale is guessed",
    code=0,
)
@pytest.mark.parametrize("box", ["0.1, 0.2, 0.3, 0.4", "1e8, 1e8, 2e8, 2e8", "10, 20, 300, 1600"])
def test_a_box_of_another_scale_is_a_failure(read, box):
    is_failure(read, said(f"[{ITEM}]".replace("10, 20, 300, 400", box)), "places")


@case("a box that is a little outside", "clipped to the canvas, and counted", code=0)
@pytest.mark.parametrize("box", ["-10, -20, 300, 400"])
def test_a_box_outside_is_clipped(read, box):
    prediction, failures = read(said(f"[{ITEM}]".replace("10, 20, 300, 400", box)))
    assert failures == 0 and prediction["answer"]["count"] == 1
    left, top, right, bottom = prediction["answer"]["boxes"][0]
    assert 0 <= left < right <= 4000 and 0 <= top < bottom <= 4000


@case("100 000 boxes in a response", "the first 120 count, with a note", code=0)
def test_boxes_beyond_the_limit_are_noted(read):
    prediction, _ = read(said("[" + ", ".join([ITEM] * 500) + "]"))
    assert prediction["answer"]["count"] == 120
    assert prediction["notes"] == ["only the first 120 of 500 objects are read"]
    read_again = said("[" + ", ".join([ITEM] * 100_000) + "]")
    assert len(read_again) > MAX_TEXT


@case(
    "a response of 10 MB",
    "cut after 200 000 characters, with a note",
    code=0,
)
@pytest.mark.parametrize(
    "response",
    [
        "a" * 10**7,
        "<answer>" + " " * 10**7,
        said("[" + ", ".join([ITEM] * 100_000) + "]"),
        "<think>" * 10**6,
        "```json" * 10**6,
    ],
)
def test_a_huge_response_is_cut(read, response):
    prediction, failures = read(response)
    assert failures == 1 and len(prediction["responses"][0]) < MAX_TEXT + 100
    assert prediction["responses"][0].endswith("characters cut]")


@case(
    "10⁵ digits or 10⁵ levels of nesting in a response",
    "a failed sample",
    code=0,
)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("[" * 100_000, "64 levels"),
        ('{"a": ' * 20_000 + "1" + "}" * 20_000, "64 levels"),
        (f"[{ITEM}]".replace("300", "9" * 100_000), "64 digits"),
    ],
)
def test_depth_and_digits_are_bounded(read, answer, words):
    is_failure(read, said(answer), words)


@case(
    "logits or confidences given as a mask",
    "the sample fails: a threshold is the model's to choose; if all do, the code is 4",
    code=4,
)
def test_a_mask_of_logits_is_a_failure(harness, reason_seg, plugin):
    plugin(
        "models",
        toy="""
def toy():
    def answer(query):
        logits = np.full(query.size[::-1], -3.5, np.float32)
        return Answer(masks=(Rle.from_array(logits),))
    return Model(answer)
""",
    )
    found = harness.eval(model="toy").says("float32", "threshold").task("reason_seg")
    assert found["failures"]["model"] == found["n_total"] == 8
    import numpy as np

    for kind in ("float16", "float64", "complex64", "object"):
        with pytest.raises(MaskError, match=kind):
            Rle.from_array(np.zeros((2, 2), kind))
    with pytest.raises(MaskError):
        SoftMask.from_array(np.full((2, 2), 1.5))
    assert Rle.from_array(np.array([[0, 255], [0, 1]], np.uint8)).area == 2


@case(
    "a mask of another size or too few masks from a model",
    "the sample fails; if all do, the code is 4",
    code=4,
)
@pytest.mark.parametrize(
    ("masks", "words"),
    [
        ("(Rle.empty(3, 4),) * len(query.media[0])", "4 × 3 pixels"),
        ("(Rle.empty(*query.size[::-1]),) * 3", "3 masks"),
        ("()", "0 masks"),
        ("None", "mask_track"),
    ],
)
def test_masks_of_a_model_are_checked(harness, mevis, plugin, masks, words):
    plugin(
        "models",
        toy=f"""
def toy():
    return Model(lambda query: Answer(masks={masks}, count=3))
""",
    )
    found = harness.eval(model="toy").says(words).task("mevis")
    assert found["failures"]["model"] == found["n_total"] == 8


@case(
    "lone surrogates, NUL and bytes that are no UTF-8 in a response",
    "replaced, then read",
    code=0,
)
def test_text_that_is_no_unicode_is_replaced(read, harness):
    prediction, failures = read("a\ud800\0b" + said(f"[{ITEM}]"))
    assert failures == 0 and prediction["answer"]["count"] == 1
    assert prediction["responses"][0].startswith("a?\ufffdb<think>")
    for path in harness.run.iterdir():
        path.read_bytes().decode("utf-8")


@case("a response that names a frame which the video does not have", "a failed sample", code=0)
def test_a_frame_that_is_not_there_is_a_failure(harness, mevis):
    videos = json.loads((mevis / "meta_expressions.json").read_text())["videos"]
    (video,) = list(videos)[:1]
    rows = [{"id": f"{video}/0", "response": "<frame>99</frame>" + said(f"[{ITEM}]")}]
    found = harness.score(rows, "--model", READER, "--out", harness.folder / "runs")
    assert found.task("mevis")["failures"]["parse"] == 1
    shown = harness("explain", harness.run, f"{video}/0", "--json").json
    assert "expected 0 to 7, found 99" in shown["failure"]


@case("two responses for one question, or none", "a failed sample", code=0)
@pytest.mark.parametrize("response", [[], ["a", "b"]])
def test_a_response_a_form_is_needed(read, response):
    is_failure(read, response, f"expected 1 responses, found {len(response)}")


@case("stored responses that lack a sample", "a failure of the infrastructure", code=0)
def test_a_stored_response_that_is_missing_is_no_fault_of_the_model(harness, reason_seg):
    path = harness.folder / "stored.jsonl"
    path.write_text(json.dumps({"id": "val_00000", "response": said(f"[{ITEM}]")}))
    model = f"qwen_vl(backend=stored(file={path}),segmenter=box)"
    found = harness.eval("--infrastructure-limit", 1, model=model).task("reason_seg")
    assert found["failures"]["infrastructure"] == found["n_failed"] == 7


@case("a damaged file of stored responses", "refused; names the line", code=3)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1"),
        ('{"id": 5, "response": "x"}', "line 1"),
        ('{"id": "a", "response": 5}', "line 1"),
        ('{"id": "a", "response": "x"}\n{"id": "a", "response": "y"}', "line 2"),
        ("[" * 10**5, "line 1"),
    ],
)
def test_a_damaged_file_of_responses_is_refused(harness, reason_seg, text, words):
    path = harness.folder / "stored.jsonl"
    path.write_text(text)
    harness.eval(model=f"qwen_vl(backend=stored(file={path}))").says(str(path), words)
