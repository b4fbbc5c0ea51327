"""DT-R1's reward: the whole truth table, and what a rollout's facts are worth."""

import runpy
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness import media, plugins
from harness.chat import ChatResponse
from harness.cli.main import build_parser
from harness.cli.train import configured, method_of
from harness.errors import ModelError, Unavailable, UsageError
from harness.judge import Verdict
from harness.masks import Rle
from harness.models.dt_r1.environment import Perception
from harness.models.dt_r1.executor import TwinBuilder
from harness.models.dt_r1.grammar import Task
from harness.spec import parse
from harness.trainer import TrainingProgress, TrainingRun
from harness.trainers.dt_r1 import trainer
from harness.trainers.dt_r1.rewards import (
    DTR1Reward,
    location_iou,
    task_of,
    token_reward,
)
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.rewards import losses, refuse_losses
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target

SIZE = (8, 6)


def mask(*box):
    found = np.zeros((SIZE[1], SIZE[0]), dtype=bool)
    left, top, right, bottom = box
    found[top:bottom, left:right] = True
    return found


def sample(form, answer, *, frames=1, **given):
    images = [np.zeros((SIZE[1], SIZE[0], 3), dtype=np.uint8)] * frames
    shown = media.pixels(images, times=list(range(frames)), is_video=frames > 1, id="x")
    query = Query(id="q", text="?", media=(shown,), forms=(form,), options=given.pop("options", ()))
    return Sample(id="s", query=query, target=Target(answer=answer, **given))


def masks(*arrays):
    return {"masks": [Rle.from_array(one).to_json() for one in arrays], "empty": False}


TRUTH = sample(AnswerForm.MASK, Answer(masks=(Rle.from_array(mask(0, 0, 4, 4)),)))


def facts(*, legal=True, plan=True, failed=False, task=True, right=True):
    return {
        "fault": "" if legal else "a fault",
        "plan": {"SAM2": []} if plan else None,
        "plan_error": None if plan else "no plan",
        "blocks": [{"error": "x" if failed else None, "refused": None, "unavailable": None}],
        "task": "segmentation" if task else "vqa",
        "answer": masks(mask(0, 0, 4, 4) if right else mask(4, 4, 8, 6)),
        "infrastructure": [],
    }


def rewarded(found, *, of=TRUTH, **settings):
    group = Group(
        sample=of,
        task="t",
        rollouts=(Rollout(text="", tokens=1, facts=found),),
        canvas=(1, 1),
        count_tokens=len,
    )
    (components,) = DTR1Reward(**settings)(group)
    return components


def test_the_truth_table():
    totals = set()
    for legal, plan, failed, task, right in product((True, False), repeat=5):
        found = rewarded(facts(legal=legal, plan=plan, failed=failed, task=task, right=right))
        expected = (
            (1 if legal else -1)
            + (0.5 if plan else -0.5)
            - (0.5 if failed else 0)
            + (0.25 if task else 0)
            + (1 if right else -1)
        )
        assert found["total"] == expected
        assert found["success"] == (legal and plan and not failed)
        totals.add(found["total"])
    assert (min(totals), max(totals)) == (-3.0, 2.75)


def test_weights_and_ablations_leave_terms_out_of_the_total_alone():
    whole = rewarded(facts())
    assert rewarded(facts(), alpha=2, beta_accuracy=3)["total"] == 2 * 1.5 + 3 * 1.25
    for name, worth in (("token", 1), ("dag", 0.5), ("exec", 0), ("task", 0.25), ("result", 1)):
        found = rewarded(facts(), **{f"r_{name}": False})
        assert found["total"] == whole["total"] - worth
        assert found[name] == whole[name]
    assert rewarded(facts(failed=True), r_exec=False)["total"] == whole["total"]


def test_a_rollout_that_was_cut_before_its_end_has_the_least_of_everything_but_code():
    assert rewarded({})["total"] == -1 - 0.5 - 1
    assert rewarded({"fault": "open", "plan": None, "blocks": []})["total"] == -2.5


def test_code_is_optional_unless_it_is_required():
    without = facts() | {"blocks": []}
    assert token_reward(without) == 1 and token_reward(without, require_execute=True) == -1
    assert rewarded(without, require_execute=True)["token"] == -1
    assert rewarded(without)["exec"] == 0 and rewarded(without)["uses_code"] == 0


def test_any_block_that_fails_costs_once_and_one_that_could_not_run_costs_nothing():
    blocks = [{"error": error, "refused": None, "unavailable": None} for error in ("a", None, "b")]
    assert rewarded(facts() | {"blocks": blocks})["exec"] == -0.5
    lost = [{"error": None, "refused": None, "unavailable": "two workers lost"}]
    found = rewarded(facts() | {"blocks": lost, "infrastructure": ["two workers lost"]})
    assert found["exec"] == 0


@pytest.mark.parametrize(
    ("share", "right"), [((0, 0, 4, 4), 1), ((0, 0, 4, 2), -1), ((0, 0, 4, 3), 1)]
)
def test_an_overlap_must_be_larger_than_a_half(share, right):
    found = rewarded(facts() | {"answer": masks(mask(*share))})
    assert found["result"] == right


def test_the_overlap_of_a_video_is_the_mean_over_its_frames_and_two_empty_ones_are_alike():
    empty, full = mask(0, 0, 0, 0), mask(0, 0, 4, 4)
    halves = sample(
        AnswerForm.MASK_TRACK,
        Answer(masks=tuple(map(Rle.from_array, (empty, full)))),
        frames=2,
    )
    for second, iou in ((full, 1.0), (empty, 0.5)):
        assert location_iou(halves, {"answer": masks(empty, second)}, Task.SEGMENTATION) == iou
    ground_truth = Answer(masks=tuple(Rle.from_array(one) for one in (full, empty, full)))
    video = sample(AnswerForm.MASK_TRACK, ground_truth, frames=3)
    assert location_iou(
        video, {"answer": masks(full, full, full)}, Task.SEGMENTATION
    ) == pytest.approx(2 / 3)


def test_pixels_that_do_not_count_are_left_out():
    ignore = (Rle.from_array(mask(4, 0, 8, 6)),)
    of = replace(TRUTH, target=replace(TRUTH.target, ignore=ignore))
    assert location_iou(of, {"answer": masks(mask(0, 0, 8, 4))}, Task.SEGMENTATION) == 1.0


def test_boxes_are_joined():
    of = sample(AnswerForm.BOXES, Answer(boxes=(Box(0, 0, 2, 4), Box(2, 0, 4, 4))))
    given = {"boxes": [{"name": "a", "bbox": [0, 0, 4, 4], "frame": 0}]}
    assert location_iou(of, {"answer": given}, Task.GROUNDING) == 1.0
    track = (Box(0, 0, 4, 4), None, Box(0, 0, 4, 4))
    video = sample(AnswerForm.BOX_TRACK, Answer(box_track=track), frames=3)
    assert location_iou(video, {"answer": given}, Task.GROUNDING) == 1.0
    short = sample(AnswerForm.BOX_TRACK, Answer(box_track=(None, Box(0, 0, 4, 8), None)), frames=3)
    assert location_iou(short, {"answer": given}, Task.GROUNDING) == 0.5
    nowhere = sample(AnswerForm.BOX_TRACK, Answer(box_track=(None,) * 3), frames=3)
    assert location_iou(nowhere, {"answer": given}, Task.GROUNDING) == 0.0
    assert location_iou(nowhere, {"answer": {"boxes": []}}, Task.GROUNDING) == 1.0
    without = sample(AnswerForm.BOX_TRACK, Answer(), frames=3)
    assert location_iou(without, {"answer": given}, Task.GROUNDING) == 0.0


@pytest.mark.parametrize(
    ("form", "name", "task"),
    [
        (AnswerForm.MASK, "reason_seg", Task.SEGMENTATION),
        (AnswerForm.MASK_TRACK, "revos", Task.SEGMENTATION),
        (AnswerForm.MASK_TRACK, "groundmore", Task.GROUNDING),
        (AnswerForm.BOX_TRACK, "rvtbench_grounding", Task.GROUNDING),
        (AnswerForm.TEXT, "summe", Task.SUMMARIZATION),
        (AnswerForm.TEXT, "activitynet_qa", Task.VQA),
        (AnswerForm.CHOICE, "rvtbench_vqa", Task.VQA),
    ],
)
def test_the_task_of_a_sample_follows_from_its_source(form, name, task):
    assert task_of(sample(form, Answer()), name) is task


@pytest.mark.parametrize(
    ("form", "ground_truth", "given", "right"),
    [
        (AnswerForm.CHOICE, {"choice": "B"}, "B. dog", True),
        (AnswerForm.CHOICE, {"choice": "B"}, "A", False),
        (AnswerForm.CHOICE, {"choice": "B"}, "neither", False),
        (AnswerForm.NUMBER, {"number": 20.0}, "about 20.9 percent", True),
        (AnswerForm.NUMBER, {"number": 20.0}, "22", False),
        (AnswerForm.COUNT, {"count": 3}, "3", True),
        (AnswerForm.TEXT, {"text": "A red cup."}, "a red cup", True),
        (AnswerForm.TEXT, {"text": "A red cup."}, "a crimson mug", False),
    ],
)
def test_answers_in_words_without_a_judge(form, ground_truth, given, right):
    of = sample(form, Answer(**ground_truth), options=("cat", "dog") if form == "choice" else ())
    found = rewarded(facts() | {"task": "vqa", "answer": {"text": given}}, of=of)
    assert found["result"] == (1 if right else -1) and found["task"] == 0.25


class Judges:
    """A judge that takes every answer with the word mug, or is down."""

    name = "mugs"

    def __init__(self, *, down=False):
        self.down = down

    def judge(self, rubric, question, answer, ground_truth):
        if self.down:
            raise Unavailable("judge", expected="an answer", found="none")
        return Verdict(1.0, "yes") if "mug" in answer else Verdict(0.0, "no")


def test_a_judge_decides_on_free_answers_and_one_that_is_down_on_nothing():
    of = sample(AnswerForm.TEXT, Answer(text="A red cup."))
    for text, down, result in (
        ("a mug", False, 1),
        ("a plate", False, -1),
        ("a mug", True, 0),
        ("a red cup", True, 1),  # in the words of the ground truth: no judge is called
    ):
        given = facts() | {"task": "vqa", "answer": {"text": text}}
        found = rewarded(given, of=of, judge=Judges(down=down))
        assert found["result"] == result
        assert ("unjudged" in found) == (result == 0)


def test_an_answer_of_another_kind_is_wrong():
    text = facts() | {"answer": {"text": "masks/1"}}
    assert rewarded(text)["result"] == -1
    of = sample(AnswerForm.TEXT, Answer(text="a cup"))
    assert rewarded(facts(), of=of)["result"] == -1
    assert rewarded(facts() | {"answer": None})["result"] == -1


SERVER = runpy.run_path(str(Path(__file__).parents[1] / "serving" / "chat_server.py"))
SETS = Path(__file__).resolve().parents[2] / "tasks" / "training"


class Grader(SERVER["Scripted"]):
    """A served language model that finds every answer with the word indeed right."""

    def generate(self, requests):
        return [
            ChatResponse(text="yes" if "indeed" in one.text.lower() else "no") for one in requests
        ]


@pytest.mark.parametrize(("name", "task"), [("summe", "summarization"), ("activitynet_qa", "vqa")])
def test_free_answers_of_the_papers_sets_earn_by_a_served_judge_what_words_alone_cannot(name, task):
    (of, *_) = plugins.build("tasks", parse(name), SETS / name / "example").samples()
    text = f"Indeed, {of.target.answer.text or of.target.references[0]}"
    group = Group(
        sample=of,
        task=name,
        rollouts=tuple(
            Rollout(text="", tokens=1, facts=facts() | {"task": task, "answer": {"text": one}})
            for one in (text, "Something else.")
        ),
        canvas=(1, 1),
        count_tokens=len,
    )

    def results(spec):
        return [one["result"] for one in plugins.build("trainers", parse(spec)).reward(group)]

    assert results("dt_r1") == [-1, -1]
    with SERVER["serving"](Grader()) as served:
        backend = f"openai(model=served,base_url={served.url!r},coordinates=pixels)"
        assert results(f"dt_r1(judge=chat(backend={backend}))") == [1, -1]


NOWHERE = (
    "chat(backend=openai(model=m,base_url=http://127.0.0.1:1/v1,coordinates=pixels,retries=0))"
)


class Notes(TrainingProgress):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize(
    ("method", "name", "said"),
    [
        ("dt_r1", "summe", True),
        ("dt_r1(r_result=false)", "summe", False),
        ("dt_r1", "groundmore", False),
        (f"dt_r1(judge={NOWHERE})", "summe", False),
    ],
)
def test_without_a_judge_what_a_text_can_earn_is_said_before_anything_is_trained(
    method, name, said, tmp_path
):
    progress = Notes()
    run = TrainingRun(
        out=tmp_path,
        tasks=(plugins.build("tasks", parse(name), SETS / name / "example"),),
        progress=progress,
    )
    with pytest.raises(UsageError, match="--model"):
        plugins.build("trainers", parse(method)).train(run)
    assert [name in note and "R_result" in note for note in progress.notes] == [True] * said


def test_a_judge_and_nodes_that_are_not_here_end_a_training_before_it_begins():
    method = plugins.build("trainers", parse(f"dt_r1(judge={NOWHERE})"))
    nodes = parse("local(OWLv2=owlv2,DINOv2=dinov2)")
    model = SimpleNamespace(perception=Perception(TwinBuilder(nodes)))
    with pytest.raises(ModelError) as caught:
        method.bound(model)
    for words in ("judge", "127.0.0.1:1", "OWLv2=owlv2", "DINOv2=dinov2"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    "path",
    sorted(
        one
        for one in (Path(trainer.__file__).parent / "configs").glob("*.toml")
        if not one.stem.startswith("pocket")
    ),
    ids=lambda path: path.stem,
)
def test_every_configuration_of_the_paper_has_its_judge_unless_nothing_is_judged(path):
    line = ["--method", "dt_r1", "--config", path.stem]
    given, settings = configured(build_parser("train").parse_args(["train", *line]))
    own = plugins.build("trainers", method_of(given, settings)).reward
    assert given.judge is None, "it is the reward's, not that of an evaluation"
    assert (own.judge is None) == (not own.r_result)


def test_a_round_that_lost_more_rollouts_than_the_limit_is_not_learned_from():
    def group(*several):
        rollouts = tuple(Rollout(text="", tokens=1, facts=one) for one in several)
        return Group(sample=TRUTH, rollouts=rollouts, canvas=(1, 1), count_tokens=len)

    down = {"infrastructure": ["node SAM2: no weights", "later"]}
    some = [group(*[facts()] * 18, down, facts())]
    rewards = [[{"total": 0.0}] * 19 + [{"total": 0.0, "unjudged": 1.0}]]
    found = losses(some, rewards)
    assert [place for place, reason in enumerate(found) if reason] == [18, 19]
    assert found[18] == "node SAM2: no weights" and "judge" in found[19]
    refuse_losses(found, limit=0.1, rollouts=20, number=0)
    with pytest.raises(Unavailable, match=r"round 1 .*2 of 20, 1 of them because of: node SAM2"):
        refuse_losses(found, limit=0.05, rollouts=20, number=0)
    assert losses([group({}, {})], [[{"total": 0.0}] * 2]) == [], "no part that could fail"
