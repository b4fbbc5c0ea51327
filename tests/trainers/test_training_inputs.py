"""What a network is shown and asked in training is what the methods' official code gives it."""

import inspect
import json
import math
import tomllib
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatResponse
from harness.cli.main import build_parser
from harness.cli.train import configured, method_of
from harness.errors import UsageError
from harness.frames import frame_policy
from harness.masks import Rle
from harness.models.backends.sampling import Sampling
from harness.models.grammar import Item
from harness.models.qwen_vl.model import qwen_vl
from harness.models.visionreasoner.grammar import VisionReasoner
from harness.models.visionreasoner.grammar import build_prompt as official
from harness.options import Only
from harness.run.batching import samples_of
from harness.run.train import TrainingOptions, train
from harness.spec import parse
from harness.task import Task
from harness.tasks.training.scoring import ANSWERS
from harness.trainer import TrainingRun
from harness.trainers.grpo.method import Group, Rollout
from harness.trainers.grpo.settings import Settings
from harness.trainers.grpo.trainer import GrpoTrainer
from harness.trainers.seg_zero import rewards as seg_zero
from harness.trainers.videoseg_r1 import trainer as videoseg_trainer
from harness.trainers.videoseg_r1.difficulty import ChatRater
from harness.trainers.videoseg_r1.rewards import answer_format
from harness.trainers.visionreasoner.objects import ground_truth
from harness.types import Answer, AnswerForm, Box, Query, Sample, Target, query_id

GENERAL = (
    "What appears on the screen in Russia after the man picks up the phone?",
    "In the figure, what is the value of the angle ABC?",
    "Why did the boy look at the camera at the end?",
)
SPATIAL = "How far is the chair from the table?"
CELLS = {"sofa": [[1, 2]], "lamp": [[3, 4]]}
GRAPH = [{"frame": 0, "nodes": [{"category": "sofa", "centre": [0.0, 0.0, 2.0]}]}]


def shown(size=(64, 48), frames=4, rate=2.0):
    """A black image (one frame), or a video of so many frames a second."""
    image = np.zeros((size[1], size[0], 3), np.uint8)
    return media.pixels(
        [image] * frames,
        times=[k / rate for k in range(frames)],
        is_video=frames > 1,
        id=f"{size}{frames}",
    )


def question(text, *, of=None, extra=None, number=3.0, name="", **more):
    query = Query(
        id=query_id(name or text),
        text=text,
        media=(of or shown(),),
        forms=(AnswerForm.NUMBER,),
        **more,
    )
    target = Target(answer=Answer(number=number), extra=extra or {})
    return Sample(id=name or text, query=query, target=target)


def task_of(*samples, name="set"):
    return Task(
        name=name,
        version=1,
        split="train",
        forms=(AnswerForm.NUMBER,),
        protocol=ANSWERS["train/answers"],
        samples=lambda: samples,
        annotations=(),
        check=lambda: (),
    )


def begun(method, model, task, monkeypatch, tmp_path, told, **run):
    """The model that a training asks, and its samples, once it would begin to load the network."""
    kept = []

    class Begun(Exception):
        pass

    def begins(self, run, model, chat):
        kept.append((self, run, model))
        raise Begun

    monkeypatch.setattr(GrpoTrainer, "_train_by_engine", begins)
    given = TrainingRun(out=tmp_path, tasks=(task,), model=parse(model), progress=told, **run)
    with pytest.raises(Begun):
        plugins.build("trainers", parse(method)).train(given)
    ((trainer, run, model),) = kept
    return trainer, model, [one for task in run.tasks for one in samples_of(task)]


# maps and graphs


@pytest.mark.parametrize(
    ("method", "tag", "extra"),
    [("spacer", "map", {"map": CELLS}), ("video_str", "graph", {"graphs": GRAPH})],
)
def test_a_map_or_graph_is_asked_of_samples_alone_that_have_one(
    method, tag, extra, tiny_qwen, tmp_path, told, monkeypatch
):
    known = question("How many are there?", extra=extra, name="known")
    task = task_of(known, question(SPATIAL), *map(question, GENERAL))
    model = f"{method}(checkpoint={tiny_qwen},frames=2,pixels=3136)"
    trainer, requested, samples = begun(method, model, task, monkeypatch, tmp_path, told)
    texts = [trainer.request(requested, one).text for one in samples]
    assert [f"<{tag}>" in text for text in texts] == [True, False, False, False, False]
    assert "['sofa'" in texts[0]
    assert not any("--eval-model" in note for note in told.notes)


def test_no_map_is_asked_where_none_is_scored(tiny_qwen, tmp_path, told, monkeypatch):
    listed = question("How many?", extra={"map": CELLS}, objects=("sofa", "lamp"))
    model = f"spacer(checkpoint={tiny_qwen})"
    method = "spacer(with_maps=false)"
    trainer, requested, (one,) = begun(method, model, task_of(listed), monkeypatch, tmp_path, told)
    assert "<map>" not in trainer.request(requested, one).text


def test_evaluation_asks_for_a_map_where_the_official_one_does():
    def asked(model, text):
        return plugins.build("models", parse(model)).requests(question(text).query)[0].text

    for text in (SPATIAL, *GENERAL):
        assert "<map>" not in asked("spacer(backend=stored)", text)
        assert "<map>" in asked("spacer(backend=stored,map=vsi)", text)
        assert ("<graph>" in asked("video_str(backend=stored)", text)) == (text == SPATIAL)


# frames and images


def smart_resize(size, *, least, most, factor=28):
    """`smart_resize` of qwen_vl_utils, written again: (width, height)."""
    wide, high = (max(factor, round(side / factor) * factor) for side in size)
    ratio = math.sqrt(size[0] * size[1] / most), math.sqrt(least / (size[0] * size[1]))
    if wide * high > most:
        wide, high = (math.floor(side / ratio[0] / factor) * factor for side in size)
    elif wide * high < least:
        wide, high = (math.ceil(side * ratio[1] / factor) * factor for side in size)
    return wide, high


def trained_on(medium):
    """What the three methods' published trainings show of a medium: a request a rule."""
    rules = {
        plain["model"].partition("frames=")[2].rstrip(")")
        for method in ("video_r1", "spacer", "video_str")
        for plain in published(method)
    }
    for rule in sorted(rules):
        model = qwen_vl(backend=parse("stored"), frames=parse(rule))
        yield from model.requests(question("?", of=medium).query)


def published(method):
    for path in files("harness.trainers").joinpath(method, "configs").iterdir():
        if path.name.endswith(".toml") and "pocket" not in path.name:
            yield tomllib.loads(path.read_text("utf-8"))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1600, 1200), (504, 364)),
        ((120, 80), (112, 84)),
        ((20, 20), (56, 56)),
        ((1242, 375), (812, 224)),
    ],
)
def test_an_image_has_the_budget_of_images(size, expected):
    assert smart_resize(size, least=4 * 28**2, most=256 * 28**2) == expected
    for request in trained_on(shown(size, 1)):
        assert request.resize == expected


@settings(max_examples=60, deadline=None)
@given(width=st.integers(28, 3000), height=st.integers(28, 3000))
def test_images_and_frames_are_as_large_as_the_official_code_makes_them(width, height):
    rule, size = frame_policy("video_str_train"), (width, height)
    official = smart_resize(size, least=128 * 28**2, most=int(128 * 28**2 * 1.05))
    assert rule.size(size) == official
    assert rule.size(size, is_image=True) == smart_resize(size, least=4 * 28**2, most=256 * 28**2)


@pytest.mark.parametrize(
    ("seconds", "frames"), [(1, 4), (2, 4), (3, 6), (5, 10), (6, 12), (8, 16), (60, 16)]
)
def test_two_frames_a_second_are_shown_from_four_to_sixteen(seconds, frames):
    for request in trained_on(shown(frames=seconds * 25, rate=25.0)):
        assert len(request.frames[0]) == frames


def test_pixels_that_are_named_are_of_images_too():
    model = plugins.build("models", parse("video_str(backend=stored,frames=8,pixels=28224)"))
    assert model.requests(question("?", of=shown((640, 480), 1)).query)[0].resize == (168, 140)


# which tokens are drawn


def test_the_published_trainings_draw_from_the_likeliest_95_percent():
    for method in ("video_r1", "spacer", "video_str"):
        assert plugins.build("trainers", parse(method)).describe()["top_p"] == 0.95
        assert {plain["top_p"] for plain in published(method)} == {0.95}
    assert plugins.build("trainers", parse("visionreasoner")).describe()["top_p"] == 1.0
    for wrong in (0.0, 1.1, -1.0, math.nan):
        with pytest.raises(UsageError, match="top_p"):
            Settings(top_p=wrong)


@pytest.mark.parametrize("noise", ["keyed", "torch"])
def test_no_token_outside_the_nucleus_is_drawn(noise, examples, tiny_qwen, tmp_path, told):
    """A nucleus of almost nothing is the likeliest token: all responses are the greedy one."""
    pytest.importorskip("trl")
    task = plugins.build("tasks", parse("reason_seg(split=val)"), examples)
    trainer = plugins.build(
        "trainers",
        parse(
            f"visionreasoner(num_generations=4,generation_batch_size=4,per_device_train_batch_size=4,max_completion_length=8,max_steps=1,"
            f"learning_rate=0.001,beta=0.0,report_to='none',noise={noise},top_p=1e-6)"
        ),
    )
    model = parse(f"visionreasoner(checkpoint={tiny_qwen},canvas=56)")
    train(trainer, [task], model, tmp_path / "out", TrainingOptions(seed=1, progress=told))
    lines = (tmp_path / "out" / "rollouts.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 4
    assert len({json.loads(line)["text"] for line in lines}) == 1


@pytest.mark.parametrize("top_p", [0.3, 0.95])
def test_draws_are_those_of_transformers_nucleus(top_p):
    """Against `TopPLogitsWarper`: the same tokens may come, with the same shares."""
    torch = pytest.importorskip("torch")
    from transformers import TopPLogitsWarper

    logits = torch.randn(1, 40, generator=torch.Generator().manual_seed(3)) * 2
    kept = TopPLogitsWarper(top_p=top_p)(None, logits.clone()).softmax(-1)[0]
    sampling = Sampling(temperature=1.0, top_p=top_p)
    count = 4000
    numbers = torch.linspace(0, 1, count + 1, dtype=torch.float64)[:-1, None]
    drawn = sampling.choose(logits.repeat(count, 1), torch.zeros(count, 1), numbers).argmax(-1)
    shares = torch.bincount(drawn, minlength=40) / count
    assert set(drawn.tolist()) == set(kept.nonzero()[:, 0].tolist())
    assert torch.allclose(shares.float(), kept, atol=2 / count)


# words


@pytest.fixture
def of_video_r1(tmp_path):
    """The question of a record of Video-R1-260k, of a type of problem, about an image."""

    def made(problem_type, solution):
        place = tmp_path / "video_r1_260k"
        place.mkdir(exist_ok=True)
        Image.new("RGB", (60, 40)).save(place / "a.png")
        row = {
            "problem_id": 1,
            "problem": "What stands there?",
            "data_type": "image",
            "problem_type": problem_type,
            "solution": f"<answer>{solution}</answer>",
            "path": "./a.png",
        }
        (place / "Video-R1-260k.json").write_text(json.dumps([row]), "utf-8")
        task = plugins.build("tasks", parse("video_r1_260k"), tmp_path)
        (sample,) = task.samples()
        return sample.query

    return made


OCR = " Please transcribe text from the image/video clearly and provide your text answer within"
FREE = " Please provide your text answer within"


@pytest.mark.parametrize("method", ["video_str", "spacer", "video_r1"])
def test_a_text_to_transcribe_is_asked_for_as_such(method, of_video_r1):
    model = plugins.build("models", parse(f"{method}(backend=stored)"))
    for kind, words in (("OCR", OCR), ("free-form", FREE)):
        (request,) = model.requests(of_video_r1(kind, "no parking"))
        assert request.text.endswith(f"{words} the <answer> </answer> tags.")
        assert (OCR in request.text) == (kind == "OCR")


@pytest.mark.parametrize(
    ("method", "numerical"), [("video_str", "3.1"), ("spacer", "3.1"), ("video_r1", "3.14")]
)
def test_a_regression_has_its_own_example(method, numerical, of_video_r1):
    model = plugins.build("models", parse(f"{method}(backend=stored)"))
    for kind, example in (("regression", "3.14"), ("numerical", numerical)):
        (request,) = model.requests(of_video_r1(kind, "7.5"))
        assert f"(e.g., 42 or {example}) within" in request.text


def test_a_type_of_another_form_changes_no_wording():
    model = plugins.build("models", parse("spacer(backend=stored)"))
    plain, odd = (question("?", problem_type=kind).query for kind in ("", "OCR"))
    assert model.requests(plain)[0].text == model.requests(odd)[0].text


def masked(*masks, size=(420, 210), name="m"):
    """A sample whose ground truth is a mask a frame."""
    frames = len(masks)
    form = AnswerForm.MASK_TRACK if frames > 1 else AnswerForm.MASK
    query = Query(
        id=query_id(name), text="the red square", media=(shown(size, frames),), forms=(form,)
    )
    answer = Answer(masks=tuple(map(Rle.from_array, masks)))
    return Sample(id=name, query=query, target=Target(answer=answer))


def square(left, top, right, bottom, size=(420, 210)):
    mask = np.zeros((size[1], size[0]), bool)
    mask[top:bottom, left:right] = True
    return mask


@pytest.mark.parametrize(
    ("method", "model", "newline"),
    [
        ("visionreasoner", "visionreasoner", True),
        ("visionreasoner", "pocket", True),
        ("visionreasoner(newline=false)", "pocket", False),
        ("dr2seg", "dr2seg", True),
        ("dr2seg(form=sam3)", "dr2seg(form=sam3,segmenter=box", True),
        ("dr2seg", "dr2seg(prompt=short", False),
        ("seg_zero", "seg_zero", False),
        ("videoseg_r1(scorer=measured)", "videoseg_r1", False),
    ],
)
def test_training_prompts_begin_as_in_the_official_training(
    method, model, newline, tiny_qwen, tmp_path, told, monkeypatch
):
    spec = f"{model}{',' if '(' in model else '('}checkpoint={tiny_qwen})"
    task = task_of(masked(square(10, 20, 60, 90)), name="masks")
    trainer, requested, (one,) = begun(method, spec, task, monkeypatch, tmp_path, told)
    request = trainer.request(requested, one)
    (evaluated,) = plugins.build("models", parse(spec)).requests(one.query)
    assert request.text == "\n" * newline + request.text.lstrip("\n")
    assert not evaluated.text.startswith("\n"), "evaluation has none"
    if model.partition("(")[0] == method.partition("(")[0] or model == "pocket":
        assert request.text.lstrip("\n") == evaluated.text
        assert not any("--eval-model" in note for note in told.notes)
    if method.startswith("dr2seg"):
        tag = "target_desc" if "sam3" in method else "description"
        again = trainer.bound(requested).second(
            one,
            Rollout(text=f"<think>a</think><{tag}>the cup</{tag}><answer>[]</answer>", tokens=9),
        )
        assert again.text.startswith("\n") == newline
        assert "the cup" in again.text


def test_the_small_checkpoint_is_trained_in_the_words_that_it_was_taught():
    path = files("harness.trainers").joinpath("visionreasoner", "configs", "pocket_cpu.toml")
    assert tomllib.loads(path.read_text("utf-8"))["newline"] is False
    assert VisionReasoner().render("the star") == official("the star")


# ground truth


@pytest.mark.parametrize("edges", [(10, 20, 60, 90), (0, 0, 420, 210), (7, 3, 8, 200)])
def test_a_box_around_a_mask_ends_on_its_last_pixel(edges):
    """As `np.where(mask)[1].max()` of Seg-Zero's notebook, which VisionReasoner's tables are of."""
    mask = square(*edges)
    rows, columns = np.where(mask)
    last = np.array([columns.min(), rows.min(), columns.max(), rows.max()])
    expected = tuple(int(edge * side + 0.5) for edge, side in zip(last, (2, 4, 2, 4), strict=True))
    one = masked(mask)
    (item,) = ground_truth(one)  # of VisionReasoner, DR2Seg and VideoSeg-R1
    assert isinstance(item, Item) and item.box == expected
    assert seg_zero.ground_truth(one).box == expected
    assert ground_truth(masked(mask, mask), 1)[0].box == expected  # of a video


def test_a_box_that_the_benchmark_gives_is_kept():
    one = masked(square(10, 20, 60, 90))
    answer = replace(one.target.answer, boxes=(Box(10, 20, 60, 90),))
    (item,) = ground_truth(replace(one, target=Target(answer=answer)))
    assert item.box == (20, 80, 120, 360)


# settings that change nothing


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("dr2seg(form=sam3,semantics=paper)", "semantics=paper"),
        ("video_r1(temporal=false,mu=0.5)", "mu=0.5"),
        ("spacer(temporal=false,alpha=0.1)", "alpha=0.1"),
        ("spacer(temporal=false,order_seed=3)", "order_seed=3"),
        ("spacer(with_maps=false,maps=shapes)", "maps=shapes"),
        ("video_r1(length=false,omega=0.1)", "omega=0.1"),
        ("dr2seg(r_len=false,n0=55)", "n0=55"),
        ("dr2seg(r_len=false,gamma=0.2)", "gamma=0.2"),
        ("dr2seg(r_len=false,gate_threshold=0.5)", "gate_threshold=0.5"),
        ("dr2seg(r_len=false,len_floor=0.1)", "len_floor=0.1"),
        ("dr2seg(r_len=false,r_desc=false,longest_description=9)", "longest_description=9"),
        ("video_str(with_edges=false,angle=kabsch)", "angle=kabsch"),
        ("video_str(with_edges=false,with_nodes=false,graph_frames=2)", "graph_frames=2"),
        ("video_str(with_length=false,longest=99)", "longest=99"),
        ("videoseg_r1(scorer=measured,negative_points=false,negative_distance=9)", "distance=9"),
        ("videoseg_r1(length_penalty=none,budgets=96+176)", r"budgets=96\+176"),
        ("dt_r1(r_token=false,require_execute=true)", "require_execute=true"),
        ("dt_r1(r_token=false,r_dag=false,alpha=2)", "alpha=2"),
        ("dt_r1(r_result=false,judge=stored(file=x))", "judge=stored"),
        ("dt_r1(finetune=full,lora_r=8)", "lora_r=8"),
        ("visionreasoner(lora_alpha=8)", "lora_alpha=8"),
        ("visionreasoner(finetune=lora,freeze_vision=true)", "freeze_vision=true"),
        ("visionreasoner(ema_decay=0.9,scale_rewards=batch)", "scale_rewards=batch"),
        ("visionreasoner(vllm_mode=colocate,noise=keyed)", "noise=keyed"),
        ("visionreasoner(vllm_mode=server,noise=torch)", "noise=torch"),
        ("visionreasoner(vllm_mode=server,generation_micro_batch_size=2)", "micro_batch_size=2"),
        ("sft(text_source=other)", "text_source=other"),
        ("sft(lora_dropout=0.1)", "lora_dropout=0.1"),
        ("video_str_sft(graph_in_reasoning=true)", "graph_in_reasoning=true"),
    ],
)
def test_what_would_change_nothing_is_refused(method, named):
    with pytest.raises(UsageError, match=named) as caught:
        plugins.build("trainers", parse(method))
    assert "settings that change something" in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        "seg_zero(backend=stored,sam2=x,segmenter=box)",
        "visionreasoner(backend=stored,sam2=x,segmenter=box)",
        "videoseg_r1(backend=stored,key_segment=false,delta=0.2)",
        "videoseg_r1(backend=stored,target_frame=false,target=literal)",
        "videoseg_r1(backend=stored,key_segment=false,target_frame=false,temperature=1.0)",
        "dt_r1(backend=stored,prompt=short,details=false)",
        "jit(backend=stored,window=3)",
        "vr_ttrl(base=pocket,lora_r=4)",
    ],
)
def test_what_would_change_nothing_of_an_answer_is_refused(model):
    with pytest.raises(UsageError, match="settings that change something"):
        plugins.build("models", parse(model))


def test_of_a_configuration_what_an_ablation_makes_idle_is_left_out_and_what_is_typed_refused():
    def spec(*line):
        line = ["train", "--method", "dr2seg", "--config", "pocket_cpu", *line]
        return method_of(*configured(build_parser("train").parse_args(line)))

    assert spec().arguments["n0"] == 12
    ablated = spec("--set", "r_len=false").arguments
    assert not {"n0", "len_floor"} & ablated.keys() and ablated["r_desc"] is True
    assert plugins.build("trainers", spec("--set", "r_len=false")).own["n0"] == 45
    with pytest.raises(UsageError, match="n0=55"):
        plugins.build("trainers", spec("--set", "r_len=false", "--set", "n0=55"))


def with_marks():
    for kind in ("trainers", "models"):
        for name in plugins.installed_plugins(kind):
            known = inspect.signature(plugins.load(kind, name)).parameters
            for option, one in known.items():
                marks = getattr(one.annotation, "__metadata__", ())
                yield from ((kind, name, option, mark) for mark in marks if isinstance(mark, Only))


def test_every_condition_is_of_options_that_the_plugin_has():
    found = list(with_marks())
    assert {name for kind, name, _, _ in found if kind == "trainers"} >= {"dr2seg", "dt_r1", "sft"}
    for kind, name, option, mark in found:
        known = inspect.signature(plugins.load(kind, name)).parameters
        assert any(values.keys() <= known.keys() for values in mark.alternatives), (name, option)


def test_without_negative_points_none_is_wanted():
    given = {"bbox_2d": [1, 2, 3, 4], "point_pos": [2, 3, 1]}
    for more, whole, without in (({}, 4 / 3, 2.0), ({"point_neg": [9, 9, 0]}, 2.0, 2.0)):
        response = f"<think>a</think><answer>{json.dumps([{**given, **more}])}</answer>"
        assert answer_format(response) == pytest.approx(whole)
        for negative, expected in ((True, whole), (False, without)):
            made = plugins.build(
                "trainers",
                parse(f"videoseg_r1(scorer=measured,negative_points={str(negative).lower()})"),
            )
            of = Group(
                sample=masked(square(1, 1, 9, 9)),
                canvas=(840, 840),
                count_tokens=len,
                rollouts=(Rollout(text=response, tokens=9),),
                frames=((0,),),
            )
            (terms,) = made.reward(of)
            assert terms["answer_format"] == pytest.approx(expected)


# difficulty


class Rates(Chat):
    """Gives every sample the same rating, and remembers what it was shown."""

    name = "rates"
    batch_size = 2

    def __init__(self):
        self.asked = []

    coordinates = "pixels"

    def describe(self):
        return {"backend": "rates"}

    def canvas(self, request):
        return request.resize or request.media[0].size

    def count_tokens(self, text):
        return len(text.split())

    def generate(self, requests):
        self.asked += requests
        text = '{"scene": 4, "segmentation": 6, "temporal": 5, "motion": 3, "language": 7}'
        return [ChatResponse(text=text) for _ in requests]


def test_difficulty_is_rated_on_the_frame_that_is_trained(tiny_qwen, tmp_path, told, monkeypatch):
    side = (84, 84)
    videos = [
        masked(*[square(5, 5, 20, 20, side)] * 40, size=side, name=f"v{place}")
        for place in range(6)
    ]
    chat = Rates()
    rater = ChatRater(chat=chat)
    monkeypatch.setattr(videoseg_trainer, "rater_of", lambda spec: rater)
    trainer, model, samples = begun(
        "videoseg_r1(scorer=stored)",
        f"videoseg_r1(checkpoint={tiny_qwen})",
        task_of(*videos, name="mevis"),
        monkeypatch,
        tmp_path,
        told,
        seed=3,
    )
    trained = [trainer.request(model, one).frames[0] for one in samples]
    assert [request.frames[0] for request in chat.asked] == trained
    assert len(set(trained)) > 1
    assert len(trainer.reward.scores) == len(videos)


def test_a_budget_of_pixels_leaves_small_images_small():
    from harness.models.video_str.composed import policy_of

    def width(pixels):
        return policy_of("video_str", frames=None, pixels=pixels).image_budget.min_pixels

    assert width(351232) == width(None) < 120 * 80
