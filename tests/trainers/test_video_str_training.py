"""Video-STR, its supervised baseline, SpaceR and Video-R1: a few steps on generated questions."""

import json
from dataclasses import replace
from importlib.resources import files

import pytest

from harness import plugins
from harness.cli.train import COMMAND_KEYS
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.run.batching import samples_of
from harness.run.train import TrainingOptions, train
from harness.run.verify import perfect
from harness.spec import parse
from harness.tasks.shapes_qa.writer import write
from harness.trainer import TrainingRun
from harness.trainers.grpo.method import TOTAL, Group, Rollout
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.spacer.maps import categories as mapped
from harness.trainers.spacer.rewards import map_of
from harness.trainers.video_r1.shuffled import ShuffledFrames, shuffle_frames
from harness.trainers.video_str.extra import extra_of
from harness.trainers.video_str.graphs import categories, extend_task, graphs_of
from harness.trainers.video_str.nodes import edge_reward, node_reward
from harness.trainers.video_str.rewards import VideoStrReward
from harness.trainers.video_str.shapes import scene_graphs, shapes_extra
from harness.types import AnswerForm
from harness.world.families import draw_scene
from harness.world.shapes import make

METHODS = ("video_str", "video_str_sft", "spacer", "video_r1")
SEED = 5


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("world") / "data"
    make(root, seed=SEED, size=2, writers={"shapes_qa": write})
    return root


@pytest.fixture(scope="module")
def task(world):
    return plugins.build("tasks", parse("shapes_qa(split=train)"), world)


@pytest.fixture(scope="module")
def known(task):
    return extend_task(task, shapes_extra, listed=lambda sample: categories(graphs_of(sample)))


# -- ground truth of the generated world


def test_every_question_of_the_world_gains_the_graphs_of_its_scene(known):
    for sample in samples_of(known):
        graphs = graphs_of(sample)
        assert len(graphs) == len(sample.query.media[0])
        assert set(sample.query.objects) == {node.category for g in graphs for node in g.nodes}
        assert all(node.centre[2] >= 1 for graph in graphs for node in graph.nodes)
        assert set(mapped(sample)) >= set(sample.query.objects)
        cells = [cell for cells in map_of(sample).values() for cell in cells]
        assert all(0 <= part < 10 for cell in cells for part in cell)


def test_places_are_right_and_up_of_the_middle_and_farther_where_covered():
    scene = draw_scene(SEED, family="qa_video", split="train", index=0)
    thing = replace(scene.things[0], x=scene.width, y=0, dx=-1, dy=0, depth=2)
    moved = replace(scene, things=(thing,))
    first, second = (graph.nodes[0].centre for graph in scene_graphs(moved)[:2])
    half = 2 * scene.width / scene.unit, 2 * scene.height / scene.unit
    assert first == (pytest.approx(half[0], abs=1e-3), pytest.approx(half[1], abs=1e-3), 2.0)
    assert second[0] < first[0]
    assert second[1:] == first[1:]


def test_a_perfect_response_with_its_graph_has_the_whole_reward(known):
    reward = VideoStrReward(shortest=1)
    for sample in samples_of(known):
        ground_truth = graphs_of(sample)[0]
        output = {node.category: list(node.centre) for node in ground_truth.nodes}
        answer = perfect(sample).answer
        letter = answer.choice if answer.choice is not None else answer.number
        text = f"<think>t</think><graph>{json.dumps(output)}</graph><answer>{letter}</answer>"
        group = Group(
            sample=sample,
            rollouts=(Rollout(text=text, tokens=9),),
            canvas=(9, 9),
            count_tokens=len,
            frames=((ground_truth.frame,),),
        )
        (terms,) = reward(group)
        pairs = len(ground_truth.nodes) > 1
        assert terms[TOTAL] == pytest.approx(3.2 + pairs if ground_truth.nodes else 2.2)
        nodes = {node.category: node.centre for node in ground_truth.nodes}
        if pairs:
            assert node_reward(nodes, ground_truth.nodes) == pytest.approx(1)
            assert edge_reward(nodes, ground_truth.nodes) == pytest.approx(1)


def test_a_target_that_carries_graphs_keeps_them(task):
    own = [{"frame": 0, "nodes": [{"category": "lamp", "centre": [0, 0, 2]}]}]

    def samples():
        for sample in samples_of(task):
            target = replace(sample.target, extra={"graphs": own})
            yield replace(sample, target=target)

    made = extend_task(
        replace(task, samples=samples),
        shapes_extra,
        listed=lambda sample: categories(graphs_of(sample)),
    )
    sample = next(iter(made.samples()))
    assert sample.query.objects == ("lamp",)


def test_other_tasks_gain_nothing_from_the_shapes_world(task):
    other = replace(task, name="other")
    assert extra_of("shapes")(other, next(iter(task.samples()))) == {}


# -- the contrast


def test_shuffled_frames_are_the_same_frames_in_one_other_order(task, tiny_qwen):
    model = plugins.build("models", parse(f"video_r1(checkpoint={tiny_qwen},frames=4,pixels=3136)"))
    ask = ShuffledFrames(model, 0, 7)
    lengths = set()
    for sample in samples_of(task):
        (plain,) = model.requests(sample.query)
        one, two = (ask(sample, Rollout(text=text, tokens=1)) for text in ("a", "b"))
        assert one.frames == two.frames
        assert sorted(one.frames[0]) == sorted(plain.frames[0])
        moving = len(plain.frames[0]) > 1
        assert (one.frames != plain.frames) == moving
        assert one.max_new_tokens == (7 if moving else 1)
        assert one.text == plain.text
        lengths.add(moving)
    assert lengths == {True, False}


def test_orders_differ_by_seed_and_sample():
    frames = tuple(range(16))
    orders = {shuffle_frames(frames, seed, name) for seed in range(3) for name in "ab"}
    assert len(orders) == 6
    assert frames not in orders


# -- the words that are asked in


@pytest.mark.parametrize(
    ("method", "model", "own"),
    [
        ("video_str", "qwen_vl", False),
        ("video_str", "video_r1", False),
        ("video_str", "video_str", True),
        ("spacer", "qwen_vl", False),
        ("spacer", "spacer", True),
        ("video_r1", "qwen_vl", False),
        ("video_r1", "video_r1", True),
        ("visionreasoner", "qwen_vl(prompt=locate", False),
        ("visionreasoner", "pocket", True),
        ("visionreasoner", "qwen_vl", True),
        ("visionreasoner", "visionreasoner", True),
        ("seg_zero", "qwen_vl", False),
        ("seg_zero", "seg_zero", True),
    ],
)
def test_a_model_is_trained_in_the_words_that_its_rewards_read(
    method, model, own, known, tiny_qwen, tmp_path, told, monkeypatch
):
    requested = []

    class Begun(Exception):
        pass

    def begun(self, run, model, chat):
        requested.append(model)
        raise Begun

    monkeypatch.setattr(GrpoTrainer, "_train_by_engine", begun)
    inner = f"{model}," if "(" in model else f"{model}("
    spec = parse(f"{inner}checkpoint={tiny_qwen})")
    run = TrainingRun(out=tmp_path, tasks=(known,), model=spec, progress=told)
    with pytest.raises(Begun):
        plugins.build("trainers", parse(method)).train(run)
    noted = [note for note in told.notes if "--eval-model" in note]
    assert len(noted) == (not own)
    assert all(method in note for note in noted)
    sample = next(one for one in samples_of(known) if one.query.form is AnswerForm.CHOICE)
    if method in METHODS:
        (request,) = requested[0].requests(sample.query)
        (like,) = plugins.build("models", parse(f"{method}(backend=stored)")).requests(sample.query)
        assert request.text == like.text and "<answer>" in request.text
        assert ("<graph>" in request.text) == (method == "video_str")
    elif method == "visionreasoner":
        assert requested[0].prompt.resize in ((840, 840), (168, 168))
        assert requested[0].prompt.render("the star").lstrip() == VisionReasoner().render(
            "the star"
        )


# -- trainers


@pytest.mark.parametrize("method", METHODS)
def test_every_configuration_builds_its_trainer(method):
    import tomllib

    folder = files("harness.trainers").joinpath(method, "configs")
    found = sorted(path.name for path in folder.iterdir() if path.name.endswith(".toml"))
    assert any(name.startswith("pocket_cpu") for name in found)
    assert any("7b" in name for name in found)
    for name in found:
        plain = tomllib.loads(folder.joinpath(name).read_text("utf-8"))
        given = {key: value for key, value in plain.items() if key not in COMMAND_KEYS}
        spec = parse(method)
        trainer = plugins.build("trainers", replace(spec, arguments=given))
        assert trainer.name == method
        model = parse(plain["model"])
        assert plugins.accepts("models", model.name, "checkpoint") or model.name == "pocket"
        described = json.loads(json.dumps(dict(trainer.describe()), allow_nan=False))
        assert described["finetune"] in ("full", "lora")


@pytest.mark.parametrize(
    ("method", "model", "settings", "terms"),
    [
        ("video_str", "video_str(prompt=short", "graphs=shapes", {"R_format", "R_ans", "R_graph"}),
        (
            "spacer",
            "spacer(prompt=short",
            "maps=shapes",
            {"accuracy", "format", "temporal", "length"},
        ),
        ("video_r1", "video_r1(prompt=short", "numbers=regression", {"accuracy", "temporal"}),
    ],
)
def test_a_few_steps_train_a_tiny_network(
    method, model, settings, terms, task, tiny_qwen, tmp_path, told
):
    pytest.importorskip("trl")
    spec = parse(f"{model},checkpoint={tiny_qwen},frames=2,pixels=3136)")
    steps = 2 if method == "video_str" else 1
    trainer = plugins.build(
        "trainers",
        parse(
            f"{method}({settings},num_generations=2,generation_batch_size=2,per_device_train_batch_size=2,max_completion_length=6,max_steps={steps},"
            "learning_rate=0.001,beta=0.0,save_steps=2,report_to='none',keep_rollouts=2)"
        ),
    )
    out = tmp_path / method
    training = train(trainer, [task], spec, out, TrainingOptions(seed=1, progress=told))
    curve = training.curve.read()
    assert [row["step"] for row in curve] == list(range(1, steps + 1))
    logged = {name for name in curve[0] if "rewards/" in name}
    assert all(any(name.endswith(f"rewards/{term}") for name in logged) for term in terms), logged
    assert (training.checkpoint / "config.json").is_file()
    rollouts = [json.loads(line) for line in (out / "rollouts.jsonl").read_text().splitlines()]
    assert {TOTAL, *terms} <= set(rollouts[0]["components"])
    assert ("second" in rollouts[0]) == (method != "video_str")
    assert not any("kl" in row for row in curve), "nothing is compared with where beta is 0"
    for row in curve:  # a round is one prompt: the terms of other forms have no number
        several = [one["components"] for one in rollouts if one["step"] == row["step"]]
        names = {name for one in several for name in one}
        for name in (*names, "R_mc", "R_num", "R_IoU", "map"):
            values = [one[name] for one in several if name in one]
            expected = sum(values) / len(values) if values else None
            assert row.get(f"rewards/{name}") == (expected and pytest.approx(expected, abs=1e-6))
        assert method != "video_str" or len({"R_mc", "R_num"} & names) == 1


def test_the_supervised_baseline_learns_answers_without_reasoning(task, tiny_qwen, tmp_path, told):
    pytest.importorskip("trl")
    trainer = plugins.build(
        "trainers", parse("video_str_sft(max_steps=1,per_device_train_batch_size=2)")
    )
    chosen = trainer.settings
    assert (chosen.learning_rate, chosen.num_train_epochs, chosen.reasoning) == (
        1e-6,
        1.0,
        "none",
    )
    model = f"video_str(checkpoint={tiny_qwen},prompt=short,graph=off,frames=2,pixels=3136)"
    training = train(
        trainer, [task], parse(model), tmp_path / "sft", TrainingOptions(seed=1, progress=told)
    )
    assert training.manifest["method"]["name"] == "video_str_sft"
    assert len(told.losses) == 1


def test_graphs_on_the_canvas_are_in_the_numbers_that_pocket_has_tokens_for():
    graphs = 0
    for index in range(12):
        scene = draw_scene(5, family="qa_video", split="train", index=index)
        metres, canvas = scene_graphs(scene), scene_graphs(scene, canvas=True)
        for one, other in zip(metres, canvas, strict=True):
            assert [node.category for node in one.nodes] == [node.category for node in other.nodes]
            for near, node in zip(one.nodes, other.nodes, strict=True):
                assert all(type(number) is int and 0 <= number <= 168 for number in node.centre)
                right = near.centre[0] * scene.unit / 4 + scene.width / 2
                down = scene.height / 2 - near.centre[1] * scene.unit / 4
                inside = 0 <= right <= scene.width and 0 <= down <= scene.height
                if inside:
                    assert abs(node.centre[0] - right * 168 / scene.width) < 0.6
                    assert abs(node.centre[1] - down * 168 / scene.height) < 0.6
                graphs += inside
    assert graphs > 50


@pytest.mark.parametrize("trained", ["dr2seg", "seg_zero", "videoseg_r1(scorer=measured)"])
def test_a_model_that_asks_in_few_words_is_trained_in_them(trained):
    trainer, method = plugins.build("trainers", parse(trained)), parse(trained).name
    for spec, wording in (
        (f"{method}(backend=stored,prompt=short)", "short"),
        (f"{method}(backend=stored)", "paper"),
        ("pocket(backend=stored)", "paper"),
    ):
        assert trainer.with_prompt(plugins.build("models", parse(spec))).prompt.wording == wording
