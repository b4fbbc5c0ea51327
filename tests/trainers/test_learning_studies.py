"""The studies of learning: each can be begun, what is kept of a training, and that one learns."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from harness import plugins
from harness.cli.main import build_parser
from harness.cli.train import configured, method_of
from harness.models.spacer.grammar import has_map
from harness.run.batching import samples_of
from harness.spec import parse
from harness.testing import make_shapes
from harness.trainers.grpo.method import TOTAL, Group, Rollout, request_of
from harness.trainers.sample_checks import SkippedSample
from harness.trainers.sft.descriptions import with_descriptions
from harness.trainers.sft.examples import examples_of
from harness.trainers.spacer.maps import maps_extra
from harness.trainers.spacer.rewards import map_of
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import categories, extend_task, graphs_of
from harness.world.qa import KINDS_OF_QA

LEARNING = Path(__file__).resolve().parents[2] / "examples" / "learning"
sys.path.insert(0, str(LEARNING))

import learned  # noqa: E402
import learning  # noqa: E402
import results_page  # noqa: E402
import studies  # noqa: E402

NAMES = tuple(name for name, one in studies.STUDIES.items() if not one.policy)
"""Studies that start from the weights that ship."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("shapes") / "data"
    make_shapes(root, tasks=learning.DATA.split(","), seed=7)
    return root


def trainer_of(method, settings):
    command = ["train", "--method", method, "--config", "pocket_cpu", *learning._set(settings)]
    given, found = configured(build_parser().parse_args(command))
    return plugins.build("trainers", method_of(given, found))


def task_of(spec, data):
    return plugins.build("tasks", parse(spec), data)


# Studies


def with_objects(text):
    return "<graph>" in text or "<map>" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_study_builds_from_what_ships_in_the_words_that_its_rewards_read(name, data):
    study = studies.STUDIES[name]
    model = plugins.build("models", parse(study.model.format(start="pocket-base")))
    for own in study.every_arm.values():
        trainer = trainer_of(study.method, {**study.settings, **own})
        if own.get("with_maps") in (False, "false"):
            continue  # that arm is trained without maps
        task = task_of(study.tasks, data)
        listing = hasattr(trainer, "listed_objects")
        if listing:  # a map or graph is asked of samples alone that have one
            task = extend_task(task, trainer.extra, listed=trainer.listed_objects)
        several, asking = list(samples_of(task)), trainer.with_prompt(model)
        named = (one for one in several if listing and with_objects(request_of(asking, one).text))
        sample = next(named, several[0])
        assert trainer.settings.max_completion_length <= model.max_new_tokens
        assert request_of(asking, sample).text == request_of(model, sample).text


@pytest.mark.parametrize("name", NAMES)
def test_a_study_measures_what_its_tasks_have(name, data):
    study = studies.STUDIES[name]
    kinds = {kind for generators in KINDS_OF_QA.values() for kind in generators}
    for measure in study.measures:
        task = task_of(measure.task, data)
        assert task.split == "val", "nothing is measured on what is trained on"
        assert measure.metric in {studies.TOKENS, *(one.name for one in task.protocol.metrics)}
        assert set(measure.kinds) <= kinds
        if measure.kinds:
            asked_for = {sample.categories["kind"] for sample in samples_of(task)}
            assert asked_for & set(measure.kinds)


@pytest.mark.parametrize("name", [name for name in NAMES if studies.STUDIES[name].warm_up])
def test_a_warm_up_begins_with_what_ships_and_sees_no_held_out_scene(name, data):
    warm = studies.STUDIES[name].warm_up
    assert trainer_of(warm.trainer, warm.settings).describe()["max_steps"]
    assert task_of(warm.tasks, data).split == "train"


def test_the_warm_up_of_spacer_teaches_what_earns_all_of_its_reward(data):
    study = studies.STUDIES["spacer"]
    warm = study.warm_up
    sft = trainer_of(warm.trainer, warm.settings)
    spec = parse(study.model.format(start="pocket-base"))
    model = plugins.build(
        "models",
        replace(spec, arguments={"backend": parse("stored"), "frames": 8, "pixels": 28224}),
    )
    taught = extend_task(
        with_descriptions("shapes", task_of(warm.tasks, data)),
        extra_of(sft.own["graphs"]),
        listed=lambda one: categories(graphs_of(one)),
    )
    made = list(examples_of(model, [taught], reasoning="short", complete=sft.complete))
    trainer = trainer_of(study.method, study.settings)
    known = {
        one.id: one
        for one in samples_of(extend_task(taught, maps_extra("shapes"), listed=categories_of_map))
    }
    mapped = 0
    for one in made:
        assert not isinstance(one, SkippedSample)
        rollouts = (Rollout(text=one.response, tokens=100),) * 2
        group = Group(
            sample=known[one.sample], rollouts=rollouts, canvas=(168, 168), count_tokens=len
        )
        terms = trainer.reward(group)[0]
        assert terms["format"] == 1
        assert has_map(one.response) == ("<map>" in one.request.text)
        assert terms["accuracy"] == pytest.approx(2.0 if has_map(one.response) else 1.0)
        assert terms.get("map") == (pytest.approx(1) if has_map(one.response) else None)
        assert terms[TOTAL] > terms["accuracy"] + terms["format"], "its length is paid for"
        mapped += has_map(one.response)
    assert mapped > len(made) / 2


def categories_of_map(sample):
    return tuple(map_of(sample) or ())


# The page

PAGE = (LEARNING.parents[1] / "docs" / "learning.md").read_text("utf-8")
PUBLISHED = {
    "visionreasoner": "qwen2_5_vl_7b_8x80gb_full",
    "seg_zero": "qwen2_5_vl_7b_8x80gb_full",
    "dr2seg": "qwen2_5_vl_7b_few_shot",
    "videoseg_r1": "qwen2_5_vl_7b_full",
    "video_str": "qwen2_5_vl_7b_8x80gb_full",
    "spacer": "qwen2_5_vl_7b_8x80gb_full",
    "video_r1": "qwen2_5_vl_7b_4x80gb_full",
}
HARDWARE = {
    "deepspeed",
    "dtype",
    "gradient_checkpointing",
    "max_prompt_length",
    "max_steps",
    "save_steps",
    "ratings",
}
"""What differs from device to device, how long a study is, and the file of published ratings."""


def saved(name):
    return json.loads((learning.RESULTS / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_every_setting_that_is_not_the_papers(name):
    study = studies.STUDIES[name]
    ratings = ("--set", "ratings=x.jsonl") if name == "videoseg_r1" else ()
    command = ["train", "--method", study.method, "--config", PUBLISHED[name], *ratings]
    published = plugins.build(
        "trainers", method_of(*configured(build_parser().parse_args(command)))
    )
    before = published.describe()
    after = trainer_of(study.method, study.settings).describe()
    differing = {
        key: after.get(key)
        for key in {*before, *after} - HARDWARE
        if before.get(key) != after.get(key)
    }
    info = re.findall(r"`(\w+)=([^`]+)`", results_page.NOT_THE_PAPERS[name])
    assert {key: parse(f"x(a={value})").arguments["a"] for key, value in info} == differing


def test_the_page_of_all_numbers_is_that_of_the_results():
    assert results_page.PAGE.read_text("utf-8") == results_page.page(), (
        "run python examples/learning/results_page.py"
    )


def test_the_page_counts_its_intervals_and_rests_on_what_committed_code_has_written():
    count = sum(len(row["gains"]) for name in studies.STUDIES for row in saved(name)["rows"])
    assert f"{count} intervals" in PAGE
    written = {f"{name}.json" for name in (*studies.STUDIES, "at_test_time")}
    assert {path.name for path in learning.RESULTS.iterdir()} == written


# What is kept of a training


def written(folder, rewards, *, name="reward", seconds=None):
    folder.mkdir(parents=True)
    rows = [
        {
            "step": step,
            "loss": 9.0,
            name: reward,
            "rewards/R_n": 2 * reward,
            "kl": 0.25,
            "rewards/total/mean": 9.0,
            "completions/mean_length": 10.0 * step,
            "completions/max_length": 99.0,
            "learning_rate": 1e-5,
        }
        for step, reward in enumerate(rewards, start=1)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "curve.jsonl").write_text(lines, encoding="utf-8")
    manifest = {"result": {}, "devices": ["cpu"], "provenance": {"commit": "abc", "dirty": False}}
    manifest |= {} if seconds is None else {"seconds": seconds}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def test_a_course_is_the_means_of_the_first_and_the_last_quarter(tmp_path):
    found = learned.course_of(written(tmp_path / "a", [0, 1, 2, 3, 4, 5, 6, 9], seconds=20.0))
    assert (found.steps, found.averaged, found.seconds_a_step) == (8, 2, 2.5)
    assert found.first == {
        "reward": 0.5,
        "rewards/R_n": 1.0,
        "kl": 0.25,
        "completions/mean_length": 15.0,
    }
    assert found.last == {
        "reward": 7.5,
        "rewards/R_n": 15.0,
        "kl": 0.25,
        "completions/mean_length": 75.0,
    }
    assert (found.commit, found.dirty, found.devices) == ("abc", False, ("cpu",))


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 7, 41])
def test_a_short_training_has_a_quarter_of_at_least_one_step(steps, tmp_path):
    found = learned.course_of(written(tmp_path / "a", list(range(steps))))
    assert found.averaged == max(1, steps // 4)
    assert found.last["reward"] == pytest.approx(steps - 1 - (found.averaged - 1) / 2)
    assert found.seconds_a_step is None


def test_a_step_without_a_number_is_not_averaged(tmp_path):
    found = learned.course_of(written(tmp_path / "a", [1, float("nan"), *[3] * 6]))
    assert found.first["reward"] == 1
    json.dumps(learned.plain_courses({"method": [found]}), allow_nan=False)


def test_a_term_that_some_steps_lack_is_averaged_over_those_that_have_it(tmp_path):
    folder = written(tmp_path / "a", [1.0] * 8)
    rows = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
    rows[1]["rewards/R_num"] = 0.5
    (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = learned.course_of(folder)
    assert found.first["rewards/R_num"] == 0.5 and "rewards/R_num" not in found.last
    assert learned.logged(folder, "rewards/R_num") == {2: 0.5}


def test_a_saved_study_says_what_its_trainings_were_like_and_what_made_them(tmp_path, monkeypatch):
    study = replace(studies.STUDIES["visionreasoner"], arms={})

    def trained(name, study, plan, arm, seed, start):
        folder = tmp_path / f"{arm}-{seed}"
        if not folder.exists():
            column = "reward" if arm == studies.METHOD else "rewards/method_total"
            written(folder, [1.0 + seed, 2.0, 3.0, 4.0 + seed], name=column, seconds=8.0)
        return folder

    monkeypatch.setattr(learning, "trained", trained)
    monkeypatch.setattr(learning, "held_out", lambda *one: {})
    monkeypatch.setattr(learning, "rows", lambda *one: iter(()))
    for folder in ("RESULTS", "IMAGES"):
        monkeypatch.setattr(learning, folder, tmp_path / folder)
    (tmp_path / "out" / "some").mkdir(parents=True)
    plan = learning.Plan(
        out=tmp_path / "out", start="pocket-base", seeds=2, steps=4, warm_steps=None, size=1, held=1
    )
    text = list(learning.studied("some", study, plan, save=True))
    assert "| in training | first 1 steps | last 1 steps | seconds a step |" in text
    for arm in (studies.METHOD, studies.CONTROL):
        assert f"| reward, {arm} | 1.500 | 4.500 | 2.0 |" in text
    saved = json.loads((tmp_path / "RESULTS" / "some.json").read_text("utf-8"))
    assert list(saved) == ["plan", "rows", "training", "provenance", "device"]
    assert saved["provenance"]["packages"]["torch"] and "commit" in saved["provenance"]
    assert {arm: len(each) for arm, each in saved["training"].items()} == {
        studies.METHOD: 2,
        studies.CONTROL: 2,
    }
    assert saved["training"][studies.METHOD][1]["first"]["reward"] == 2.0
    image = ElementTree.parse(tmp_path / "IMAGES" / "learning_some.svg").getroot()
    output = {one.text for one in image.iter("{http://www.w3.org/2000/svg}text")}
    assert {studies.METHOD, studies.CONTROL, "reward of the method"} <= output


# Learning itself

START = "start"
STEPS, GATE = 40, 0.03
"""Of the training of VisionReasoner and of its control, and how far its box F1 has to be above the
control's. It was 0.083, 0.106 and 0.173 with seeds 0, 1 and 2."""
STEPS_SHORTER, PART, LOST = 12, 0.6, 0.1
"""Of the training of DR2Seg, the part of the start's reasoning tokens that it has to come below,
and the gIoU that it may lose. With seed 0 tokens were 35.2 at the start, 15.4
after the training and 53.5 after random rewards; gIoU 0.467, 0.461 and 0.389. The control
decides nothing: in 40 steps with seeds 0 to 4 its tokens went from 36.8 to 12, 30, 123, 64, 23."""


def planned(steps, *, out):
    """One training an arm, on what the studies train on."""
    return learning.Plan(
        out=out, start="pocket-base", seeds=1, steps=steps, warm_steps=None, size=600, held=450
    )


def ends(name, titles, places, *, steps, out):
    """Measures of a study's start or arms, trained with seed 0: held out, by title and place."""
    whole = studies.STUDIES[name]
    measures = tuple(one for one in whole.measures if one.title in titles)
    study = replace(whole, measures=measures)
    plan = planned(steps, out=out)
    start = learning.begun(name, study, plan)
    found = {one.title: {} for one in measures}
    for place in places:
        folder = out / name / START
        checkpoint = start
        if place != START:
            folder = learning.trained(name, study, plan, place, 0, start)
            checkpoint = str(folder)
        runs = learning.held_out(study, plan, checkpoint, folder / learning.HELD)
        for one in measures:
            numbers = learned.stand_ins(one, runs[one.task], learned.chosen(one, runs[one.task]))
            found[one.title][place] = float(numbers.mean())
    return found


@pytest.mark.slow
@pytest.mark.learning
def test_visionreasoner_finds_more_after_its_reward_than_after_random_ones(tmp_path):
    pytest.importorskip("trl")
    title = "box F1 at 0.5"
    arms = (studies.METHOD, studies.CONTROL)
    found = ends("visionreasoner", (title,), arms, steps=STEPS, out=tmp_path)[title]
    assert found[studies.METHOD] - found[studies.CONTROL] > GATE, found


@pytest.mark.slow
@pytest.mark.learning
def test_dr2segs_training_ends_with_short_reasoning_and_masks_as_good(tmp_path):
    """That it ends well, not what of its reward does it.

    VisionReasoner's, without R_len and R_desc, makes reasoning shorter still.
    """
    pytest.importorskip("trl")
    places = (START, studies.METHOD)
    found = ends("dr2seg", (studies.TOKENS, "gIoU"), places, steps=STEPS_SHORTER, out=tmp_path)
    tokens, giou = found[studies.TOKENS], found["gIoU"]
    assert tokens[studies.METHOD] < PART * tokens[START], found
    assert giou[studies.METHOD] > giou[START] - LOST, found


KEPT = 0.1
"""How much more of what Seg-Zero pays has to be kept than by the control, from the first quarter of
`STEPS` to the last. It was 0.50, 0.48 and 0.69 with seeds 0, 1 and 2, and 0.21
when seed 0 was trained again, on later code, whose gIoU was 0.039 above the control's (0.079)."""


def rise(course, *names):
    """Of numbers together, from the first quarter of a training to its last."""
    return sum(course.last[name] - course.first[name] for name in names)


@pytest.mark.slow
@pytest.mark.learning
def test_seg_zero_keeps_what_random_rewards_lose(tmp_path):
    pytest.importorskip("trl")
    arms = (studies.METHOD, studies.CONTROL)
    found = ends("seg_zero", ("gIoU",), arms, steps=STEPS, out=tmp_path)["gIoU"]
    assert found[studies.METHOD] > found[studies.CONTROL], found
    paid = {}
    for arm in arms:
        course = learned.course_of(tmp_path / "seg_zero" / f"{arm.replace(' ', '-')}-0")
        paid[arm] = rise(course, next(one for one in learned.REWARD if one in course.last))
    assert paid[studies.METHOD] - paid[studies.CONTROL] > KEPT, paid


STEPS_TO_BUDGETS, NO_PENALTY, BEYOND = 15, "no length penalty", 0.9
"""Of VideoSeg-R1's training, the arm without its length penalty, and the part of that arm's tokens
beyond the budgets, of the rollouts of all steps, that the method's have to stay below. In the first
ten steps it was 0.76, 0.60, 0.67, 0.70 and 0.51 with seeds 0 to 4."""


@pytest.mark.slow
@pytest.mark.learning
def test_videoseg_r1_goes_less_beyond_its_budgets_where_that_costs(tmp_path):
    pytest.importorskip("trl")
    places = (START, studies.METHOD)
    giou = ends("videoseg_r1", ("gIoU",), places, steps=STEPS_TO_BUDGETS, out=tmp_path)["gIoU"]
    assert giou[studies.METHOD] > giou[START] - LOST, giou
    beyond = beyond_budgets(planned(STEPS_TO_BUDGETS, out=tmp_path))
    assert beyond[studies.METHOD] < BEYOND * beyond[NO_PENALTY], beyond


def beyond_budgets(plan):
    """Tokens of VideoSeg-R1's rollouts beyond their budgets: mean of all steps, by arm."""
    study = studies.STUDIES["videoseg_r1"]
    start = learning.begun("videoseg_r1", study, plan)
    found = {}
    for arm in (studies.METHOD, NO_PENALTY):
        folder = learning.trained("videoseg_r1", study, plan, arm, 0, start)
        found[arm] = fmean(learned.logged(folder, "rewards/over_budget").values())
    return found


NO_GRAPH_REWARD, BETTER = "without the graph reward", 0.03
"""How much more a rollout's R_n + R_e has to rise with the graph reward than without it, from the
first quarter of `STEPS` to the last. It was 0.091, 0.040 and 0.073 with seeds 0, 1 and 2."""


@pytest.mark.slow
@pytest.mark.learning
def test_video_str_writes_better_graphs_where_they_are_rewarded(tmp_path):
    pytest.importorskip("trl")
    study, plan = studies.STUDIES["video_str"], planned(STEPS, out=tmp_path)
    start = learning.begun("video_str", study, plan)
    graphs = {}
    for arm in (studies.METHOD, NO_GRAPH_REWARD):
        course = learned.course_of(learning.trained("video_str", study, plan, arm, 0, start))
        graphs[arm] = rise(course, "rewards/R_n", "rewards/R_e")
    assert graphs[studies.METHOD] - graphs[NO_GRAPH_REWARD] > BETTER, graphs
