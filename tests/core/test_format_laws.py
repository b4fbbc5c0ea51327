"""No reader of files tells a sample by its place: shuffled rows give the same or nothing."""

import csv
import json
import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli.arguments.scores import FORMATS as OFFERED
from harness.cli.score import FOLDER_FORMATS, _tree
from harness.errors import DataError
from harness.formats import ROWS, read_format
from harness.interchange.answers import row_to_answer
from harness.masks import Rle
from harness.media import pixels
from harness.types import Answer, AnswerForm, Query, Sample, Target, query_id
from harness.world.encode import encode_png

SIDE = 8
VIDEO = pixels([np.zeros((SIDE, SIDE, 3), np.uint8)] * 2, times=(0.0, 1.0), is_video=True, id="v")
IMAGE = pixels([np.zeros((SIDE, SIDE, 3), np.uint8)], times=(0.0,), is_video=False, id="i")
FRAMES = ("00000", "00005")
# Of each of two videos: one is asked with words around it, one is a part of another.
ASKED = (
    "Which way does it move?",
    "How many are there?",
    "Is it so?",
    "The dog turns round.  Is it so?",
)


def sample(number):
    video, place = divmod(number, len(ASKED))
    text = ASKED[place] if place else f"These are frames of a video.\n{ASKED[place]}"
    query = Query(
        id=query_id(str(number)),
        text=text,
        media=(VIDEO,),
        forms=(AnswerForm.CHOICE,),
        options=("a", "b"),
    )
    return Sample(
        id=f"v{video}/{place}",
        query=query,
        group=f"set/v{video}",
        frames=FRAMES,
        target=Target(answer=Answer(choice="A", masks=(Rle.empty(SIDE, SIDE),) * 2)),
        categories={"format": "yes_no", "aspect": "order", "annotator": "1, first frame"},
    )


SAMPLES = [sample(number) for number in range(2 * len(ASKED))]


def shown(sample, hidden):
    """What a row may tell of a sample besides its number, without what is hidden."""
    video, place = sample.id.split("/")
    info = {"id": sample.id, "video": f"{video}.mp4", "question": ASKED[int(place)]}
    return {name: text for name, text in info.items() if name not in hidden}


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def whole(path, plain):
    path.write_text(json.dumps(plain))
    return path


# One writer a format: it is given samples in an order that is not the benchmark's, and numbers rows
# in that order wherever the format numbers them.


def jsonl(root, answered, hidden):
    return lines(
        root / "x.jsonl", [{"id": sample.id, "response": sample.id} for sample in answered]
    )


def logged(number, sample, hidden):
    about = shown(sample, hidden)
    return {
        "doc_id": number,
        "target": "A",
        "input": about.get("question", ""),
        "filtered_resps": sample.id,
        "some_score": about,
    }


def lmms(root, answered, hidden):
    rows = [logged(number, sample, hidden) for number, sample in enumerate(answered)]
    return lines(root / "x_samples_y.jsonl", rows)


def vsi(root, answered, hidden):
    rows = [logged(number, sample, hidden) for number, sample in enumerate(answered)]
    return whole(root / "vsibench.json", {"logs": rows})


def vlmevalkit(root, answered, hidden):
    rows = [
        {"index": number, **shown(sample, hidden), "prediction": sample.id}
        for number, sample in enumerate(answered)
    ]
    with (root / "x.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return root / "x.csv"


def inspect(root, answered, hidden):
    samples = [
        {
            "id": number + 1 if "id" in hidden else sample.id,
            "input": shown(sample, hidden).get("question", ""),
            "target": "A",
            "output": {"choices": [{"message": {"role": "assistant", "content": sample.id}}]},
            "metadata": {"video": sample.id.split("/")[0]} if "video" not in hidden else {},
        }
        for number, sample in enumerate(answered)
    ]
    return whole(root / "x.json", {"samples": samples})


def evalscope(root, answered, hidden):
    rows = []
    for number, sample in enumerate(answered):
        video = {"video": sample.id.split("/")[0]} if "video" not in hidden else {}
        about = {"metadata": video if "id" in hidden else {**video, "id": sample.id}}
        messages = [{"role": "user", "content": shown(sample, hidden).get("question", "")}]
        output = {"choices": [{"message": {"role": "assistant", "content": sample.id}}]}
        rows.append({"index": number, "messages": messages, "model_output": output, **about})
    return lines(root / "x_default.jsonl", rows)


def every_eval_ever(root, answered, hidden):
    rows = [
        {
            "sample_id": str(number) if "id" in hidden else sample.id,
            "input": {"raw": shown(sample, hidden).get("question", "")},
            "output": {"raw": [sample.id]},
            "evaluation": {"score": 1.0},
        }
        for number, sample in enumerate(answered)
    ]
    return lines(root / "x_samples.jsonl", rows)


def video_mme(root, answered, hidden):
    return whole(
        root / "x.json",
        [{"questions": [{"question_id": sample.id, "response": sample.id}]} for sample in answered],
    )


def sti(root, answered, hidden):
    rows = []
    for sample in answered:
        video, place = sample.id.split("/")
        keys = {"id": video, "id_file": place, "time_s": 0, "time_e": 1}
        rows.append({**keys, "model_out": sample.id})
    return whole(root / "x.json", rows)


def tempcompass(root, answered, hidden):
    plain = {}
    for sample in answered:
        about = shown(sample, {*hidden, "id", "video"})
        plain.setdefault(sample.group.rpartition("/")[2], {"order": []})["order"].append(
            {**about, "response": sample.id}
        )
    return whole(root / "yes_no.json", plain)


def blink(root, answered, hidden):
    return whole(root / "x.json", {sample.id: f"({letter(sample)})" for sample in answered})


def letter(sample):
    return "ABCDEFGH"[SAMPLES.index(sample)]


def coco(root, answered, hidden):
    rows = [
        {"video_id": sample.id, "segmentations": [run_length(sample, frame) for frame in FRAMES]}
        for sample in answered
    ]
    return whole(root / "x.json", rows)


def sa2va(root, answered, hidden):
    plain = {}
    for sample in answered:
        video, expression = sample.id.split("/")
        masks = [run_length(sample, frame) for frame in FRAMES]
        expressions = plain.setdefault(video, {})
        expressions[expression] = {"frames": list(FRAMES), "prediction_masks": masks}
    return whole(root / "results.json", plain)


def perception_test(root, answered, hidden):
    plain = {}
    for sample in answered:
        video, place = sample.id.split("/")
        option = SAMPLES.index(sample) // 3 % 2
        answer = {"id": int(place), "answer_id": option, "answer": sample.query.options[option]}
        plain.setdefault(video, []).append(answer)
    return whole(root / "answers.json", plain)


def qvhighlights(root, answered, hidden):
    rows = []
    for sample in answered:
        video, place = sample.id.split("/")
        windows = [[SAMPLES.index(sample), 20.5, 0.9], [0, 1, 0.1]]
        query = ASKED[int(place)]
        about = {"qid": 7, "query": query, "vid": video, "pred_saliency_scores": [0.1]}
        rows.append({**about, "pred_relevant_windows": windows})
    return lines(root / "submission.jsonl", rows)


def run_length(sample, frame):
    labels = np.zeros((SIDE, SIDE), bool)
    labels.flat[: number(sample, frame)] = True
    return Rle.from_array(labels).to_json()


def png_tree(root, answered, hidden):
    for sample in answered:
        for frame in reversed(FRAMES):
            image(root / "tree" / sample.id / f"{frame}.png", number(sample, frame))
    return root / "tree"


def label_tree(root, answered, hidden):
    for sample in answered:  # expressions of a video share its images
        for frame in FRAMES:
            video = sample.id.split("/")[0]
            path = root / "tree" / "anno_0" / video / f"{frame}.png"
            image(path, 1)
    return root / "tree"


def mask_tree(root, answered, hidden):
    for sample in answered:
        image(root / "tree" / f"{sample.id}.png", number(sample, FRAMES[0]))
    return root / "tree"


def image(path, count):
    labels = np.zeros((SIDE, SIDE), np.uint8)
    labels.flat[:count] = 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_png(labels))


def number(sample, frame):
    return 2 * SAMPLES.index(sample) + FRAMES.index(frame) + 1


WRITERS = {
    "jsonl": jsonl,
    "lmms-eval": lmms,
    "vlmevalkit": vlmevalkit,
    "inspect": inspect,
    "evalscope": evalscope,
    "every-eval-ever": every_eval_ever,
    "video-mme": video_mme,
    "tempcompass": tempcompass,
    "sti": sti,
    "vsi": vsi,
    "qvhighlights": qvhighlights,
    "blink": blink,
    "coco": coco,
    "sa2va": sa2va,
    "perception-test": perception_test,
    "png-tree": png_tree,
    "label-tree": label_tree,
    "mask-tree": mask_tree,
}
NEEDS = {
    "jsonl": {"id"},
    "inspect": {"id"},
    "evalscope": {"id"},
    "every-eval-ever": {"id"},
    "video-mme": {"id"},
    "sti": {"id"},
    "png-tree": {"id"},
    "label-tree": {"id"},
    "mask-tree": {"id"},
    "lmms-eval": {"id"},
    "vsi": {"id"},
    "blink": {"id"},
    "coco": {"id"},
    "sa2va": {"id"},
    "perception-test": {"id"},
    "vlmevalkit": {"video", "question"},
    "tempcompass": {"question"},
    "qvhighlights": {"video", "question"},
}
"""What has to be told for every row to be read."""
MASKS = ROWS.keys() - {"perception-test"}


def test_every_format_has_a_writer_here():
    assert set(WRITERS) == set(NEEDS) == set(OFFERED)


def read(name, path):
    """Responses by the id of their sample."""
    if name in FOLDER_FORMATS:
        requested = SAMPLES[:: len(ASKED)] if name == "label-tree" else SAMPLES
        if name == "mask-tree":
            still = {"media": (IMAGE,), "forms": (AnswerForm.MASK,)}
            requested = [
                replace(sample, query=replace(sample.query, **still)) for sample in requested
            ]
        made = list(_tree(name)(path, requested))
        return {
            sample.id: tuple(mask.area for mask in output.answer.masks)
            for sample, output in zip(requested, made, strict=True)
        }
    samples = SAMPLES
    if name in MASKS:
        tracks = [
            replace(sample, query=replace(sample.query, forms=(AnswerForm.MASK_TRACK,)))
            for sample in samples
        ]
        rows = read_format(name, path, tracks).rows
        return {
            sample.id: tuple(
                mask.area for mask in row_to_answer(rows[sample.id], sample.query).masks
            )
            for sample in tracks
        }
    if name == "sti":
        samples = [
            Sample(
                id=f"{sample.id.replace('/', '|')}|0|1", query=sample.query, target=sample.target
            )
            for sample in SAMPLES
        ]
    rows = read_format(name, path, samples).rows
    return {key.removesuffix("|0|1").replace("|", "/"): rows[key].value for key in rows}


def right(name):
    if name == "blink":
        return {sample.id: f"({letter(sample)})" for sample in SAMPLES}
    if name == "qvhighlights":
        return {sample.id: [place, 20.5] for place, sample in enumerate(SAMPLES)}
    if name == "perception-test":
        return {sample.id: "AB"[place // 3 % 2] for place, sample in enumerate(SAMPLES)}
    if name == "png-tree" or name in MASKS:
        return {sample.id: tuple(number(sample, frame) for frame in FRAMES) for sample in SAMPLES}
    if name == "mask-tree":
        return {sample.id: (number(sample, FRAMES[0]),) for sample in SAMPLES}
    if name == "label-tree":
        return {sample.id: (1, 1) for sample in SAMPLES[:: len(ASKED)]}
    return {sample.id: sample.id for sample in SAMPLES}


HIDDEN = [
    set(some) for size in range(4) for some in combinations(("id", "video", "question"), size)
]


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**16))
def test_shuffled_rows_are_the_same_samples_or_refused(tmp_path_factory, name, seed):
    info = random.Random(seed).sample(SAMPLES, len(SAMPLES))
    for hidden in HIDDEN if name not in {*FOLDER_FORMATS, *ROWS} else [set()]:
        path = WRITERS[name](tmp_path_factory.mktemp("law"), info, hidden)
        try:
            found = read(name, path)
        except DataError:
            found = {}
        assert found.items() <= right(name).items(), "a response was given to another question"
        if not hidden & NEEDS[name]:
            assert found == right(name)


def counts(*ground_truths):
    """Samples of a list whose ids are the numbers of its rows, all asked the same."""
    for row, ground_truth in enumerate(ground_truths):
        query = Query(
            id=query_id(str(row)),
            text="How many are there?",
            media=(VIDEO,),
            forms=(AnswerForm.COUNT,),
        )
        yield Sample(id=str(row), query=query, target=Target(answer=Answer(count=ground_truth)))


GROUND_TRUTHS = (2, 3, 3, 5, 2, 7)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(order=st.permutations(range(len(GROUND_TRUTHS))), renumbered=st.booleans())
def test_logs_of_counts_score_the_same_or_are_refused(tmp_path_factory, order, renumbered):
    """Rows are believed where every row's question and count are those of the sample."""
    samples = list(counts(*GROUND_TRUTHS))
    rows = [
        {
            "doc_id": place if renumbered else row,
            "input": "Count. How many are there?\nA number.",
            "target": str(GROUND_TRUTHS[row]),
            "filtered_resps": str(GROUND_TRUTHS[row] + row % 2),
        }
        for place, row in enumerate(order)
    ]
    path = lines(tmp_path_factory.mktemp("law") / "x_samples_countbench.jsonl", rows)
    found = read_format("lmms-eval", path, samples)
    output = {GROUND_TRUTHS[int(name)]: [] for name in found.rows}
    for name, row in found.rows.items():
        output[GROUND_TRUTHS[int(name)]].append(int(row.value))
    responded = {
        ground_truth: sorted(
            ground_truth + row % 2
            for row, count in enumerate(GROUND_TRUTHS)
            if count == ground_truth
        )
        for ground_truth in GROUND_TRUTHS
    }
    right = [sorted(output[ground_truth]) == responded[ground_truth] for ground_truth in output]
    assert all(right), "responses to sample count are those of another"
    in_order = all(GROUND_TRUTHS[row] == GROUND_TRUTHS[place] for place, row in enumerate(order))
    assert (not found.unmatched) == (in_order or not renumbered)
    if found.unmatched:
        assert set(output) <= {5, 7}, "a count that sample sample has"
