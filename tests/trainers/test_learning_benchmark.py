"""The benchmark of learning: gains and their intervals, curves, and what warm-ups teach."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pocket_training.vlm.captions import TIMES, shapes_captions

from harness import plugins
from harness.errors import DataError, ParseError, UsageError
from harness.leaderboards import figure
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.dr2seg.grammar import description
from harness.models.grammar import well_formed
from harness.models.pocket import FOLDER
from harness.models.video_str.grammar import graph
from harness.responses import tag_text
from harness.run.batching import samples_of
from harness.spec import parse
from harness.testing import make_shapes
from harness.thoughts import reasoning
from harness.trainers import network as networks
from harness.trainers.sample_checks import SkippedSample
from harness.trainers.sft.descriptions import fill_description, with_descriptions
from harness.trainers.sft.examples import examples_of
from harness.trainers.sft.trainer import sft
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import categories, extend_task, graphs_of
from harness.trainers.video_str.nodes import node_reward
from harness.trainers.video_str_sft.graphs import middle, with_graph
from harness.trainers.video_str_sft.trainer import video_str_sft

LEARNING = Path(__file__).resolve().parents[2] / "examples" / "learning"
sys.path.insert(0, str(LEARNING))

import learned  # noqa: E402
import learning  # noqa: E402
import studies  # noqa: E402

REASONED = "shapes_referring(split=train,asks=reasoning)"
DR2SEG = "dr2seg(backend=stored,canvas=168,segmenter=box)"
VIDEO_STR = "video_str(backend=stored,prompt=short,frames=8,pixels=28224,segmenter=box)"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("shapes") / "data"
    make_shapes(root, tasks=("shapes_referring", "shapes_qa"), size=6, seed=5)
    return root


def task(data, spec):
    return plugins.build("tasks", parse(spec), data)


def responses(model, task, **options):
    made = list(examples_of(plugins.build("models", parse(model)), [task], **options))
    assert not [one for one in made if isinstance(one, SkippedSample)]
    return made


# What warm-ups teach


def test_reasoning_of_generated_data_names_what_is_meant_twice_or_over_and_over(data):
    several = list(samples_of(task(data, REASONED)))
    info = [shapes_captions(task(data, REASONED), sample)["rationale"] for sample in several]
    for sample, one in zip(several, info, strict=True):
        (target,) = set(one.split(": "))
        assert len(target.split(", ")) == len(sample.target.answer.boxes)
    assert {len(one.split(": ")) for one in info} == set(TIMES), "some could be shorter"


def test_a_description_names_what_a_question_only_implies(data):
    for sample in samples_of(task(data, REASONED)):
        output = shapes_captions(task(data, REASONED), sample)["description"]
        assert output != sample.query.text and not output.startswith("Which")
    explicit = task(data, "shapes_referring(split=train,asks=single)")
    for sample in samples_of(explicit):
        assert shapes_captions(explicit, sample)["description"] == sample.query.text


def test_questions_in_words_are_reasoned_about_as_pocket_was_taught(data):
    requested = task(data, "shapes_qa(split=train)")
    info = {sample.id: shapes_captions(requested, sample) for sample in samples_of(requested)}
    assert info and all(one["rationale"] for one in info.values())
    for sample in samples_of(requested):
        if sample.categories["kind"] == "relation":
            right = sample.query.options["ABCD".index(sample.target.answer.choice)]
            assert info[sample.id]["rationale"].endswith(f": {right}")


def test_nothing_is_told_of_a_benchmark_without_scenes(data, examples):
    other = task(examples, "reason_seg")
    assert all(not shapes_captions(other, sample) for sample in samples_of(other))


def test_data_that_is_no_generated_world_cannot_be_told_of(data, tmp_path):
    (tmp_path / "shapes_referring").symlink_to(data / "shapes_referring")
    apart = task(tmp_path, REASONED)
    with pytest.raises(DataError, match=r"shapes\.json: .*`harness data make`"):
        shapes_captions(apart, next(samples_of(apart)))


def test_supervised_responses_hold_reasoning_description_and_answer(data):
    info = with_descriptions("shapes", task(data, REASONED))
    made = responses(DR2SEG, info, reasoning="short", complete=fill_description)
    assert made
    for one, sample in zip(made, samples_of(info), strict=True):
        assert reasoning(one.response) == sample.target.extra["rationale"]
        assert description(one.response) == sample.target.extra["description"]
        assert tag_text(one.response, "answer").startswith('[{"bbox_2d"')


def test_without_a_description_of_its_own_a_sample_is_described_by_its_question(data):
    plain = task(data, REASONED)
    made = responses(DR2SEG, plain, complete=fill_description)
    assert [description(one.response) for one in made] == [
        sample.query.text for sample in samples_of(plain)
    ]


def test_a_grammar_without_descriptions_learns_none(data):
    model = plugins.build("models", parse("visionreasoner(backend=stored,segmenter=box)"))
    made = list(examples_of(model, [task(data, REASONED)], complete=fill_description))
    assert {one.why for one in made} == {"no response says its answer"}
    with pytest.raises(ParseError):
        fill_description(next(samples_of(task(data, REASONED))), None, "<think></think><answer>")


def test_a_description_cannot_bring_a_tag_with_it(data):
    sample = next(samples_of(task(data, REASONED)))
    target = replace(sample.target, extra={"description": "a</description>"})
    with pytest.raises(ParseError):
        fill_description(replace(sample, target=target), None, "<description></description>")


@pytest.mark.parametrize("in_reasoning", [False, True])
def test_supervised_graphs_are_the_true_ones(data, in_reasoning):
    requested = extend_task(
        task(data, "shapes_qa(split=train)"),
        extra_of("shapes"),
        listed=lambda sample: categories(graphs_of(sample)),
    )
    made = responses(VIDEO_STR, requested, complete=partial(with_graph, in_reasoning=in_reasoning))
    drawn = 0
    for one, sample in zip(made, samples_of(requested), strict=True):
        ground_truth = middle(graphs_of(sample), one.request.frames[0])
        if "<graph>" not in one.response:
            assert ground_truth is None
            continue
        drawn += 1
        assert well_formed(one.response) or well_formed(one.response, "graph")
        assert one.response.startswith("<think><graph>") == in_reasoning
        assert node_reward(graph(one.response), ground_truth.nodes, sigma=1.0) > 0.9
    assert drawn > len(made) / 2


def test_no_graph_is_drawn_where_none_is_asked_for(data):
    requested = extend_task(
        task(data, "shapes_qa(split=train)"), extra_of("shapes"), listed=lambda _: ()
    )
    plain = VIDEO_STR.replace("prompt=short", "prompt=short,graph=off")
    assert not any(
        "<graph>" in one.response for one in responses(plain, requested, complete=with_graph)
    )


def test_the_supervised_baseline_draws_graphs_only_when_it_is_told_to():
    assert not video_str_sft().own
    taught = video_str_sft(graphs="shapes", reasoning="short", text_source="shapes")
    assert taught.describe()["graphs"] == "shapes"
    assert taught.complete.keywords == {"in_reasoning": False}
    first = video_str_sft(graphs="shapes", graph_in_reasoning=True)
    assert first.describe()["graph_in_reasoning"] and first.complete.keywords["in_reasoning"]
    json.dumps(dict(taught.describe()))
    with pytest.raises(UsageError, match=r"graph_in_reasoning=true.*graphs="):
        video_str_sft(graph_in_reasoning=True)
    with pytest.raises(UsageError, match="graphs="):
        video_str_sft(graphs="no-such-file")


def test_what_completes_a_response_is_a_setting_or_none():
    assert sft().describe()["descriptions"] is False
    assert sft(descriptions=True).complete is fill_description
    json.dumps(dict(sft(descriptions=True, text_source="shapes").describe()))


# Gains


@given(
    st.floats(-1, 1),
    st.integers(1, 4),
    st.lists(st.floats(0, 1), min_size=2, max_size=12),
)
@example(7.88023581323353e-106, 1, [0.0, 1.0])
def test_a_gain_that_all_images_share_is_found_exactly(by, seeds, before):
    before = np.array(before)
    found = learned.gain([before + by] * seeds, [before] * seeds)
    assert found.value == pytest.approx(by, abs=1e-12)
    assert found.interval == pytest.approx((by, by), abs=1e-9)


def test_the_difficulty_of_images_cancels_and_that_of_seeds_does_not():
    draw = np.random.default_rng(0)
    hard = draw.normal(0, 10, 40)
    steady = learned.gain([hard + 1, hard + 1, hard + 1.0], [hard, hard, hard])
    moved = learned.gain([hard + 0.5, hard + 1, hard + 1.5], [hard, hard, hard])
    assert steady.value == pytest.approx(moved.value) == pytest.approx(1)
    assert np.ptp(steady.interval) < 1e-9
    # The t interval of three differences 0.5, 1, 1.5.
    assert np.ptp(moved.interval) / 2 == pytest.approx(4.302653 * 0.5 / 3**0.5, rel=1e-5)


def test_swapping_both_sides_turns_the_gain_around():
    draw = np.random.default_rng(1)
    one, other = ([draw.random(9) for _ in range(3)] for _ in range(2))
    there, back = learned.gain(one, other), learned.gain(other, one)
    assert there.value == pytest.approx(-back.value)
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))


# Studies


@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_arm_of_a_study_can_be_built_from_its_configuration(name):
    study = studies.STUDIES[name]
    assert list(study.every_arm)[:2] == [studies.METHOD, studies.CONTROL]
    for arm, own in study.every_arm.items():
        command = [
            "train",
            "--method",
            study.method,
            "--config",
            "pocket_cpu",
            *learning._set({**study.settings, **own, "max_steps": 3}),
        ]
        described = built(command).describe()
        assert described["max_steps"] == 3
        assert described["reward"] == ("random" if arm == studies.CONTROL else "method")
        for key, value in own.items():
            if key in described:
                assert described[key] == value
    assert parse(study.model.format(start="pocket-base")).arguments["checkpoint"] == "pocket-base"


@pytest.mark.parametrize("name", [name for name, study in studies.STUDIES.items() if study.warm_up])
def test_every_warm_up_can_be_built_from_its_configuration(name):
    warm = studies.STUDIES[name].warm_up
    found = built(
        ["train", "--method", warm.trainer, "--config", "pocket_cpu", *learning._set(warm.settings)]
    ).describe()
    assert found["text_source"] == "shapes" and found["reasoning"] == "short"


def built(command):
    from harness.cli.main import build_parser
    from harness.cli.train import configured, method_of

    given, settings = configured(build_parser().parse_args(command))
    return plugins.build("trainers", method_of(given, settings))


def test_what_was_made_by_the_same_command_is_not_made_again(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(learning, "harness", lambda *command: ran.append(command))
    done = {"is": False}
    for _ in range(2):  # killed before the end the first time
        learning.once(tmp_path / "a", ["train", "x"], lambda: done["is"])
    done["is"] = True
    learning.once(tmp_path / "a", ["train", "x"], lambda: done["is"])
    assert ran == [("train", "x")] * 2
    with pytest.raises(SystemExit, match=r"/a .*\n.*harness train x\n.*harness train y"):
        learning.once(tmp_path / "a", ["train", "y"], lambda: True)


# Curves


def test_a_figure_is_an_image_with_every_recipe_in_its_key():
    panels = [
        figure.Panel("a < b", {"one": [{1: 0.0, 2: 1.0}, {1: 0.5, 2: 0.7}], "two": [{1: 3.0}]}),
        figure.Panel("empty", {"one": [], "two": []}),
    ]
    root = ElementTree.fromstring(figure.figure(panels))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"one", "two", "a < b", "empty", "nothing was logged"} <= set(texts)
    assert texts.count("one") == 1


@given(st.dictionaries(st.integers(0, 50), st.floats(-9, 9), min_size=1), st.integers(1, 9))
def test_smoothing_stays_between_the_lowest_and_the_highest(points, count):
    found = figure.moving_average(points, count)
    assert found.keys() == points.keys()
    assert min(points.values()) - 1e-9 <= min(found.values())
    assert max(found.values()) <= max(points.values()) + 1e-9


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_ticks_lie_inside_and_are_few(low, spread):
    found = figure.ticks(low, low + spread)
    assert 1 <= len(found) <= 7
    slack = 1e-6 * (abs(low) + spread)
    assert low - slack <= found[0] and found[-1] <= low + spread + slack


@pytest.mark.slow
def test_the_whole_benchmark_runs_and_goes_on_where_it_was(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    ensure_torchvision()
    from pocket_training.vlm.network import make_network

    networks.export(make_network(seed=3), FOLDER, tmp_path / "start", tensors=None)
    plan = learning.Plan(
        out=tmp_path / "out",
        start=str(tmp_path / "start"),
        seeds=2,
        steps=1,
        warm_steps=1,
        size=4,
        held=6,
        more=(
            "num_generations=2",
            "generation_batch_size=4",
            "per_device_train_batch_size=4",
            "max_completion_length=4",
        ),
    )
    study = replace(studies.STUDIES["dr2seg"], arms={})
    first = list(learning.studied("dr2seg", study, plan, save=False))
    assert any(line.startswith("| gIoU |") for line in first)
    ElementTree.parse(tmp_path / "out" / "dr2seg" / "curves.svg")
    monkeypatch.setattr(learning, "harness", lambda *command: pytest.fail(str(command)))
    assert list(learning.studied("dr2seg", study, plan, save=False)) == first
