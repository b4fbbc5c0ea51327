"""pocket's training program: lessons say the ground truth, its arithmetic is the architecture's
own.
"""

import json
import math
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from pocket_training.training import MAX_GRAD_NORM, one_thread
from pocket_training.vlm import course as courses
from pocket_training.vlm import data_mixture
from pocket_training.vlm.batches import TOKENIZER, collate
from pocket_training.vlm.course import PocketCourse
from pocket_training.vlm.data_mixture import DrawnScene, draw_half, named_frame
from pocket_training.vlm.lessons import in_words, locate_example
from pocket_training.vlm.losses import copy_loss, word_losses
from pocket_training.vlm.network import HiddenStates, make_network, patches, run_network
from pocket_training.vlm.trainer import STAGES, PocketTrainer, Stage
from pocket_training.vlm.views import View
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from harness.errors import ModelError, UsageError
from harness.media import pixels
from harness.models.backends.checkpoint import fingerprint
from harness.models.backends.inputs import processor_inputs
from harness.models.pocket import BASE, FOLDER
from harness.models.pocket.model import pocket as pocket_model
from harness.models.visionreasoner import grammar
from harness.spec import Spec
from harness.trainer import TrainingRun
from harness.trainers import network as networks
from harness.types import AnswerForm, Query
from harness.world.families import draw_scene
from harness.world.motion import motions
from harness.world.qa import KINDS_OF_QA, ask_qa
from harness.world.raster import render
from harness.world.referring import attributes


@contextmanager
def few_scenes(**stage):
    """One image or clip of each kind in half a step of the first stage, and changes of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_mixture, "COUNTS", 1)
        patch.setattr(data_mixture, "VIDEOS", 1)
        patch.setattr(data_mixture, "SEEN_FIRST", (1, 2, 0, 1))
        given = {"stills": 1, "images": 1, **stage}
        patch.setitem(STAGES, "base", replace(STAGES["base"], **given))
        yield


def prompt_of(batch):
    """The first row's tokens before its response."""
    labelled = np.flatnonzero(batch["labels"][0] >= 0)
    assert labelled[0] > np.flatnonzero(batch["seen"][0])[-1], "responses come after images"
    return batch["tokens"][0, : labelled[0] + 1].tolist()


@pytest.fixture(scope="module")
def network():
    return make_network(seed=3).eval()


@pytest.fixture(scope="module")
def checkpoint(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pocket") / "checkpoint"
    networks.export(network, FOLDER, folder, tensors=None)
    return folder


def course_of(trainer=None, *, seed=0):
    return PocketCourse(trainer or PocketTrainer(), seed)


def batches(*, seed=0):
    with few_scenes(stills=2, see_until=0.0, easy_until=0.0):
        return course_of(seed=seed).half(5, 0)


@pytest.mark.parametrize("kind", ["stills", "clips"])
def test_the_fast_forward_pass_is_the_architectures_own(network, kind):
    batch = batches()[kind]
    with one_thread(), torch.no_grad():
        ours = network.lm_head(run_network(network, batch, middle=1).last)
        rows, clip, grids = len(batch["owner"]), kind == "clips", patches(batch["images"])
        values = grids[batch["owner"]].flatten(0, 2)
        grid = torch.tensor([[grids.shape[1], 12, 12]] * rows)
        intervals = torch.full((rows,), 2.0)  # step 5 gives its first clip the second interval … 2
        extra = (
            {"pixel_values_videos": values, "video_grid_thw": grid, "second_per_grid_ts": intervals}
            if clip
            else {"pixel_values": values, "image_grid_thw": grid}
        )
        mask = (batch["tokens"] != TOKENIZER.pad_token_id).long()
        theirs = network(
            input_ids=batch["tokens"],
            attention_mask=mask,
            mm_token_type_ids=batch["seen"].int() * (2 if clip else 1),
            **extra,
        ).logits
    assert ((ours - theirs).abs() * mask[..., None]).max() < 2e-5
    assert ours.std() > 0.01


def cases():
    for family, index in (("still", 3), ("qa_video", 2), ("qa", 1), ("qa", 4)):
        scene = draw_scene(1, family=family, split="val", index=index)
        view = View(scene, range(scene.frames))
        if family == "qa":
            question = ask_qa(scene)[0]
            form = AnswerForm.NUMBER if question.is_number else AnswerForm.CHOICE
            yield view, in_words(view, question), question.text, form, question.options
        elif scene.frames > 1:
            question = next(iter(attributes(scene)))
            lesson = locate_example(
                view, question, frame=named_frame(view, question), numbered=view.frames
            )
            yield view, lesson, question.text, AnswerForm.MASK_TRACK, ()
        else:
            question = next(iter(attributes(scene)))
            yield view, locate_example(view, question), question.text, AnswerForm.MASK, ()


def test_lessons_are_what_an_evaluation_feeds_the_network(checkpoint):
    model = pocket_model(
        checkpoint=str(checkpoint), segmenter=Spec("box"), propagator=Spec("still")
    )
    for view, lesson, text, form, options in cases():
        frames = [render(view.scene, frame) for frame in view.frames]
        media = pixels(frames, times=range(len(frames)), is_video=len(frames) > 1, id="scene")
        query = Query(id="q", text=text, media=(media,), forms=(form,), options=options)
        inputs = processor_inputs(model.chat.processor, model.requests(query))
        batch = collate([DrawnScene(view, (lesson,))], intervals=[2])
        assert prompt_of(batch) == inputs["input_ids"][0].tolist()
        name = "pixel_values_videos" if len(frames) > 1 else "pixel_values"
        ours = patches(batch["images"])[0].flatten(0, 1)
        assert (ours - inputs[name]).abs().max() < 1e-6
        if len(frames) > 1:
            assert float(inputs["second_per_grid_ts"][0]) == 2.0


def test_responses_about_places_are_read_as_the_boxes_of_what_is_meant():
    for index in range(12):
        scene = draw_scene(2, family="still", split="train", index=index)
        view = View(scene)
        for question in list(attributes(scene))[:6]:
            lesson = locate_example(view, question)
            read = grammar.parse(lesson.response, strict=True)
            assert read.error is None
            boxes = sorted(tuple(map(int, item.box)) for item in read.items)
            assert boxes == sorted(
                tuple(map(int, view.boxes[0][one])) for one in question.referents
            )
            for (start, end), (thing, _), _ in lesson.spans:
                assert thing in question.referents
                assert lesson.text[start:end].strip() and start >= lesson.begin


def test_a_swapped_lesson_answers_what_its_reasoning_says():
    scene = draw_scene(2, family="still", split="train", index=4)
    view = View(scene)
    question = next(one for one in attributes(scene) if len(one.referents) == 1)
    other = next(i for i in range(len(scene.things)) if i not in question.referents)
    lesson = locate_example(view, question, named=other)
    info, thing = grammar.parse(lesson.response), scene.things[other]
    assert thing.colour in info.think and thing.shape in info.think
    assert tuple(map(int, info.items[0].box)) == tuple(map(int, view.boxes[0][other]))
    assert lesson.text[lesson.learned_from :].startswith("</think>"), "the name itself is given"


@pytest.mark.parametrize("family", ["qa", "qa_video", "arrivals"])
def test_every_kind_of_question_in_words_has_a_lesson_with_its_answer(family):
    info = set()
    for index in range(40):
        scene = draw_scene(5, family=family, split="train", index=index)
        view = View(scene, range(scene.frames))
        for qa in ask_qa(scene, number=6):
            lesson = in_words(view, qa)
            output = str(round(float(qa.answer))) if qa.is_number else qa.letter
            assert lesson.response.endswith(f"</think><answer>{output}</answer>")
            assert qa.text in lesson.text[: lesson.begin]
            info.add(qa.kind)
    assert len(info) >= len(KINDS_OF_QA[family]) - 2, "nearly every kind occurs"


def copies():
    for family in ("qa", "qa_video", "arrivals", "video"):
        for index in range(6):
            scene = draw_scene(6, family=family, split="train", index=index)
            view = View(scene, range(scene.frames))
            yield from ((view, qa, in_words(view, qa)) for qa in ask_qa(scene, number=4))
            if family == "video":
                for question in list(attributes(scene))[:2]:
                    frame = named_frame(view, question)
                    if frame is not None:
                        numbered = tuple(30 * place + 7 for place in view.frames)
                        yield (
                            view,
                            None,
                            locate_example(view, question, frame=frame, numbered=numbered),
                        )


def test_what_a_response_says_again_is_looked_for_where_it_was_said():
    found = set()
    for _, qa, lesson in copies():
        for copy, source in lesson.copies:
            output, info = lesson.text[slice(*copy)], lesson.text[slice(*source)]
            in_prompt = source[1] <= lesson.begin
            if in_prompt and qa is not None:
                assert output == qa.letter and info == qa.answer
                found.add("letter")
            elif in_prompt:
                assert output == info and lesson.response.startswith(f"<frame>{output}</frame>")
                found.add("frame")
            else:
                assert source[1] <= copy[0]
                found.add(follows(qa and qa.kind, output, info))
    expected = {
        "letter",
        "frame",
        "thing",
        "again",
        "word",
        "difference",
        "one of several",
        "motion",
    }
    assert found == expected


PARTLY_HIDDEN = 3
"""By which the middle of a thing that stands still can seem to move, in pixels of the canvas."""
WAYS = {"left": -1, "up": -1, "upper": -1, "still": 0, "right": 1, "down": 1, "lower": 1}


def follows(kind, said, told):
    """Name the way that a text follows from the earlier one that it is looked for in."""
    if said == told:
        return "again"
    if said in ("yes", "not", "it does not move") and not told.isdigit():
        return "motion"
    if not all(one.isdigit() for one in told.split()):
        assert said in told.split() or told.startswith(f"{said} "), "what was told of it"
        return "thing"
    numbers = [int(one) for one in told.split()]
    if len(numbers) == 1:
        return "one of several"  # that are apart, with a copy for each
    first, second = numbers
    if said.isdigit():
        assert int(said) == abs(first - second)
        return "difference"
    ahead = first - second if kind == "relation4" else second - first
    if said == "still":
        assert abs(ahead) <= PARTLY_HIDDEN
    else:
        assert ahead * WAYS[said] > 0
    return "word"


def test_what_comes_into_the_image_is_told_in_its_order():
    requested = 0
    for index in range(30):
        scene = draw_scene(7, family="arrivals", split="train", index=index)
        view = View(scene, range(scene.frames))
        for qa in KINDS_OF_QA["arrivals"]["enter_count"](scene):
            think = grammar.parse(in_words(view, qa).response).think
            listed, _, number = think.rpartition(": ")
            rows = [row.rsplit(" ", 1) for row in listed.split(", ")]
            first = {thing: view.ends(thing)[0] for thing, _ in qa.named}
            assert sorted(rows) == sorted(
                [view.names[thing], str(frame)] for thing, frame in first.items()
            )
            assert [int(frame) for _, frame in rows] == sorted(first.values())
            assert int(number) == len(rows) == qa.answer
            requested += 1
    assert requested > 10


def test_part_of_a_clip_is_not_asked_for_what_comes_or_leaves():
    stage = replace(STAGES["base"], stills=0, images=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_mixture, "COUNTS", 0)
        patch.setattr(data_mixture, "VIDEOS", 4)
        halves = [draw_half(stage, 1.0, seed=3, step=step) for step in range(20)]
    drawn = [one for half in halves for one in half["clips"]]
    coming = re.compile("into|leave|leaving|out of")
    whole, part = (
        {
            bool(coming.search(lesson.text[: lesson.begin]))
            for one in drawn
            for lesson in one.examples
            if (len(one.view.frames) == one.view.scene.frames) == is_whole
        }
        for is_whole in (True, False)
    )
    assert whole == {True, False} and part == {False}


LESS_IS_ASKED_FOR = re.compile("to the left|to the top|small|first|nearest to the (?!bottom)")


@pytest.mark.parametrize("kind", ["extreme", "largest", "size", "nearest", "speed", "order"])
def test_each_of_several_is_held_against_the_best_so_far(kind):
    family = {"speed": "qa_video", "order": "arrivals"}.get(kind, "qa")
    requested, words = 0, set()
    for index in range(30):
        scene = draw_scene(7, family=family, split="train", index=index)
        view = View(scene, range(scene.frames))
        for qa in KINDS_OF_QA[family][kind](scene):
            think = grammar.parse(in_words(view, qa, compare_sizes=True).response).think
            listed, _, outcome = think.rpartition(": ")
            rows = listed.split(", ")[kind == "nearest" :]  # the first is what they are near to
            assert len(rows) == len(qa.options)
            sign = -1 if LESS_IS_ASKED_FOR.search(qa.text.partition(",")[0]) else 1
            best, limit = told_last(rows[0])
            for row in rows[1:]:
                info, _, word = row.rpartition(" ")
                name, number = told_last(info)
                if abs(number - limit) > 1:  # else it is too near to tell by what is rounded
                    assert word == ("best" if (number - limit) * sign > 0 else "not"), think
                if word == "best":
                    best, limit = name, number
                words.add(word)
            assert best == outcome == qa.answer
            requested += 1
    assert requested > 10 and words == {"best", "not"}


def told_last(row):
    """Return the name of a thing, and the last number told of it."""
    words = row.split()
    return " ".join(word for word in words if not word.isdigit()), int(words[-1])


@pytest.mark.parametrize("kind", ["largest", "size"])
def test_of_sizes_all_are_told_and_then_the_outcome(kind):
    requested = 0
    for index in range(30):
        scene = draw_scene(7, family="qa", split="train", index=index)
        view = View(scene)
        for qa in KINDS_OF_QA["qa"][kind](scene):
            think = grammar.parse(in_words(view, qa).response).think
            listed, _, outcome = think.rpartition(": ")
            sides = dict(map(told_last, listed.split(", ")))
            pick = min if "small" in qa.text.partition(",")[0] else max
            assert outcome == qa.answer and set(sides) == set(qa.options)
            assert abs(sides[outcome] - pick(sides.values())) <= 1
            requested += 1
    assert requested > 10


def test_what_is_told_by_its_motion_is_looked_for_among_all_of_the_name():
    info = re.compile(
        r"(\S+ \S+ \S+) (\d+) (\d+) (left|still|right) (\d+) (\d+) (up|still|down)"
        r"( in)?( out)? (yes|not)"
    )
    found = set()
    for index in range(12):
        scene = draw_scene(5, family="video", split="train", index=index)
        view = View(scene, range(scene.frames))
        for question in motions(scene):
            frame = named_frame(view, question)
            if frame is None:
                continue
            assert set(question.referents) < set(question.among)
            lesson = locate_example(view, question, frame=frame, numbered=view.frames)
            assert lesson.targets == question.among
            listed, _, target = grammar.parse(lesson.response, strict=True).think.rpartition(": ")
            things = view.in_order(question.among, frame)
            answers = view.in_order(question.referents, frame)
            assert target == ", ".join(view.names[one] for one in answers)
            rows = [info.fullmatch(one) for one in listed.split(", ")]
            assert len(rows) == len(things)
            for row, thing in zip(rows, things, strict=True):
                one = scene.things[thing]
                first, last = (view.middle(thing, end) for end in view.ends(thing, clear=True))
                assert tuple(map(int, row.group(2, 3, 5, 6))) == (
                    first[0],
                    last[0],
                    first[1],
                    last[1],
                )
                assert row[1] == view.names[thing]
                assert row[4] == ("still" if not one.dx else "left" if one.dx < 0 else "right")
                assert row[7] == ("still" if not one.dy else "up" if one.dy < 0 else "down")
                assert bool(row[8]) == (not view.areas[0, thing])
                assert bool(row[9]) == (not view.areas[-1, thing])
                assert (row[10] == "yes") == (thing in question.referents)
                found.update(filter(None, row.group(4, 7, 8, 9)))
            for copy, original in lesson.copies[1:]:  # after the frame's number
                words, source = lesson.text[slice(*copy)], lesson.text[slice(*original)]
                follows("motion", words, source)
                assert words in source or copy[0] == original[1] + 1, "it follows at once"
            assert len(lesson.copies) == 1 + 3 * len(things) + len(answers)
    assert found == {"left", "still", "right", "up", "down", " in", " out"}


def test_tokens_of_copies_and_options_are_where_the_batch_says():
    seen = 0
    for view, qa, lesson in copies():
        batch = collate([DrawnScene(view, (lesson,))], intervals=[1])
        written = "".join(
            TOKENIZER.decode([batch["tokens"][row][place + 1]]) for row, place in batch["copies"]
        )
        output = "".join(lesson.text[slice(*one)] for one, _ in lesson.copies)
        assert written.replace(" ", "") == output.replace(" ", ""), "a word's token has its blank"
        for (row, place), source in zip(batch["copies"], batch["sources"], strict=True):
            assert source.any() and not source[place + 1 :].any(), "it was said before"
            assert row == 0
        if qa is not None and qa.options:
            for number, option in enumerate(qa.options):
                words = [token for _, token, own in batch["options"] if own == number]
                text = "".join(TOKENIZER.decode([batch["tokens"][0][token]]) for token in words)
                assert text.strip() == option
                seen += 1
    assert seen > 50


@pytest.mark.parametrize("family", ["referring", "video"])
def test_outlines_are_the_parts_of_a_token_that_its_thing_covers(family):
    """Cell by cell they are the mask of the token's thing, and on average its part of the token."""
    scene = draw_scene(3, family=family, split="train", index=5)
    view = View(scene, range(scene.frames))
    drawn = [DrawnScene(view, (locate_example(view, next(iter(attributes(scene)))),))]
    batch = collate(drawn, intervals=[1])
    grids = (scene.frames + 1) // 2
    assert batch["outlines"].shape == (1, grids * 36, 49)
    shown = batch["kinds"][0, :, 0] > 0
    assert shown.any() and not batch["outlines"][0, ~shown].any()
    shares = view.shares[::2].max(1).reshape(-1)
    assert np.allclose(batch["outlines"][0].mean(-1)[shown], shares[shown], atol=0.03)
    for token in np.flatnonzero(shown):
        grid, place = divmod(int(token), 36)
        row, column = divmod(place, 6)
        masks = view.masks[2 * grid]
        owner = int(view.shares[2 * grid][:, place].argmax())
        for cell in range(49):
            down, across = divmod(cell, 7)
            y = int((row * 7 + down + 0.5) * scene.height / 42)
            x = int((column * 7 + across + 0.5) * scene.width / 42)
            around = masks[owner, max(0, y - 3) : y + 4, max(0, x - 3) : x + 4]
            if around.all() or not around.any():
                assert batch["outlines"][0, token, cell] == around.all()


@pytest.mark.slow
def test_outlines_and_patches_are_learned(tmp_path):
    with few_scenes(warmup_steps=2, fine=True), one_thread():
        course = course_of(PocketTrainer(max_steps=25))
        rows = [course.step(step) for step in range(25)]
    for name in ("stills/outlines", "stills/patches"):
        assert np.mean([row[name] for row in rows[-5:]]) < 0.8 * rows[0][name]


def test_attention_to_what_is_said_again_costs_nothing_and_any_other_does():
    tokens, width = 6, 4
    directions = torch.eye(tokens)[None, None].repeat(1, 2, 1, 1)  # each token's key is its own

    def cost(looked_at, *, head):
        query = torch.zeros(1, 2, tokens, tokens)
        query[0, head, 4] = 50.0 * directions[0, 0, looked_at]
        nothing = torch.zeros(1, tokens, width)
        states = HiddenStates(*[nothing] * 4, query, directions)
        source = torch.tensor([[False, True, True, False, False, False]])
        targets = {"copies": torch.tensor([[0, 4]]), "sources": source}
        return float(copy_loss(states, targets))

    assert cost(1, head=1) == pytest.approx(0.0, abs=1e-4)
    assert cost(2, head=1) == pytest.approx(0.0, abs=1e-4)
    assert cost(3, head=1) > 10
    assert cost(1, head=0) > 0.5, "it is the other head's task"
    assert cost(5, head=1) == pytest.approx(math.log(5 / 2), abs=1e-3), "what follows is not seen"


def test_moving_things_are_asked_about_in_a_frame_that_shows_them():
    shown = 0
    for index in range(20):
        scene = draw_scene(5, family="video", split="train", index=index)
        view = View(scene, range(scene.frames))
        for question in motions(scene):
            frame = named_frame(view, question)
            if frame is not None:
                assert all(view.areas[frame, thing] for thing in question.referents)
                shown += 1
    assert shown > 50


def test_any_text_is_written_and_read_back():
    for text in ('a "quoted" [1, 22, 168, 169, 1000] ünïcødé 猫', "<think>12</think>", "\n\t 0016"):
        ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
        assert TOKENIZER.decode(ids) == text
    assert len(TOKENIZER("168", add_special_tokens=False)["input_ids"]) == 1


def test_batches_depend_on_seed_and_step_alone():
    once, again, other = batches(), batches(), batches(seed=1)
    for kind, batch in once.items():
        for name, array in batch.items():
            assert np.array_equal(array, again[kind][name]), name
    assert not np.array_equal(once["stills"]["images"], other["stills"]["images"])


def test_a_near_number_costs_less_than_a_far_one_where_it_was_measured():
    numbers = torch.tensor([3, 4, 5, 6, 7, 8])

    def cost(said, *, soft):
        logits = torch.full((1, 10), -8.0)
        logits[0, said] = 4.0
        labels, measured = torch.tensor([5]), torch.tensor([soft])
        return float(word_losses(logits, labels, measured, numbers, spread=1.0))

    assert cost(5, soft=True) < cost(6, soft=True) < cost(8, soft=True)
    assert cost(6, soft=False) == pytest.approx(cost(8, soft=False))


def small(max_steps=3, **given):
    return PocketTrainer(save_steps=2, max_steps=max_steps, **given)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def train(out, trainer, **given):
    out.mkdir(exist_ok=True)
    with few_scenes(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_mixture, "LESSONS", 1)
        trainer.train(TrainingRun(out=out, **given))
    return weights(out / "checkpoint")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("training") / "whole"
    return train(out, small()), out


def test_a_resumed_training_ends_in_the_same_weights(undisturbed, tmp_path):
    expected, whole = undisturbed
    requested = iter([False, True])
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", small(), stopping=lambda: next(requested))
    found = train(tmp_path / "cut", small(), resume=True)
    assert {name for name in expected if not torch.equal(expected[name], found[name])} == set()
    made, curve = (TrainingRun(out=out).curve.read() for out in (tmp_path / "cut", whole))
    assert made == curve


def test_numbers_are_what_they_were_after_a_training(undisturbed):
    assert float(torch.tensor(1e-310, dtype=torch.float64) * 1) != 0.0, "denormal, and not flushed"
    assert 5e-324 * 1.0 != 0.0


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path):
    """Each takes a half of the steps; sums of gradients differ by rounding."""
    alone, together = tmp_path / "one", tmp_path / "two"
    several = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    for out, launcher in ((alone, []), (together, several)):
        given = ["train", "--method", "pocket", "--set", "max_steps=2", "--out", str(out)]
        subprocess.run([sys.executable, *launcher, "-m", "harness", *given], check=True)
    one, two = (TrainingRun(out=out).curve.read() for out in (alone, together))
    assert [row["loss"] for row in two] == pytest.approx([row["loss"] for row in one], rel=1e-3)
    expected, found = (weights(out / "checkpoint") for out in (alone, together))
    for name, tensor in expected.items():
        assert torch.allclose(tensor, found[name], atol=2e-4), name


def test_another_seed_is_another_training():
    one, same, other = (dict(course_of(seed=n).trained.named_parameters()) for n in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    for name in ("network.lm_head.weight", "heads.things.weight"):
        assert not torch.equal(one[name], other[name])


def test_a_training_goes_on_from_another_ones_weights(undisturbed, tmp_path):
    expected, whole = undisturbed
    given = {"start": str(whole), "learning_rate": 0.0, "max_steps": 1}
    found = train(tmp_path / "more", small(**given))
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    config = Qwen2_5_VLConfig.from_pretrained(FOLDER)
    config.text_config.intermediate_size += 16
    network = Qwen2_5_VLForConditionalGeneration(config)
    networks.export(network, FOLDER, tmp_path / "wider", tensors=None)
    with pytest.raises(ModelError, match=r"start=.*/wider: .*gate_proj"):
        train(tmp_path / "from-wider", small(start=str(tmp_path / "wider")))


def test_a_model_or_tasks_to_start_from_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"^method pocket: .*--model .*--train-tasks"):
        small().train(TrainingRun(out=tmp_path, model=Spec("pocket")))


@pytest.mark.slow
def test_a_few_lessons_can_be_learned_by_heart(monkeypatch):
    """The losses point where they should: a few lessons, again and again, are soon known."""
    half = batches()
    with few_scenes(warmup_steps=5), one_thread():
        course = course_of(PocketTrainer(max_steps=60))
        monkeypatch.setattr(course, "half", lambda *_: half)
        rows = [course.step(step) for step in range(60)]
    assert rows[-1]["stills/text"] < 0.25 * rows[0]["stills/text"]
    assert rows[-1]["stills/grounding"] < 0.8 * rows[0]["stills/grounding"]


def stage_of(record):
    """The stage that the record of shipped weights describes."""
    said = record["settings"]
    assert said["text_first"] and said["bf16"] and not said.get("start_kept")
    shares = said["shares"]
    fine = said["places_of_targets"]
    weights = (1.0, courses.HEADS["outlines"]) if fine else (0.0, 0.0)
    assert (said["patches_weight"], said["outlines_weight"]) == weights
    assert shares["sizes_held"] is not fine
    assert shares["recoloured"] == (data_mixture.RECOLOURED if fine else 0.0)
    own = Stage.__dataclass_fields__.keys() - {"fine"}
    return Stage(**{name: said.get(name, shares.get(name)) for name in own}, fine=fine)


CONSTANTS = {
    "weight_decay": courses.WEIGHT_DECAY,
    "max_grad_norm": MAX_GRAD_NORM,
    "measured_weight": courses.MEASURED,
    "target_weight": courses.HEADS["targeted"],
    "grounding_weight": courses.HEADS["grounding"],
    "seen_first": data_mixture.SEEN_FIRST[1],
}
CONSTANT_SHARES = {
    "still_lessons": data_mixture.LESSONS,
    "count_lessons": data_mixture.COUNT_LESSONS,
    "video_lessons": data_mixture.LESSONS,
    "absent": data_mixture.ABSENT,
    "counted": data_mixture.COUNTED,
    "sized": data_mixture.SIZED,
    "counts": data_mixture.COUNTS,
    "videos": data_mixture.VIDEOS,
}


@pytest.mark.parametrize("folder", [BASE, FOLDER], ids=["base", "shipped"])
def test_what_no_setting_changes_is_what_made_the_weights(folder):
    said = json.loads((folder / "training.json").read_text())["settings"]
    assert said.items() >= CONSTANTS.items()
    assert said["shares"].items() >= CONSTANT_SHARES.items()


@pytest.mark.slow
def test_the_shipped_weights_can_be_made_again(monkeypatch):
    """The first steps have the losses that the training of the early weights had.

    That began with random weights; the training of the shipped ones goes on from it.
    """
    record = json.loads((FOLDER / "training.json").read_text())["before"]
    said = record["settings"]
    monkeypatch.setitem(STAGES, "base", stage_of(record))
    trainer = PocketTrainer(max_steps=said["max_steps"], learning_rate=said["learning_rate"])
    course = course_of(trainer, seed=record["seed"])
    with one_thread():
        losses = [course.step(step)["loss"] for step in range(50)]
    assert losses == pytest.approx(record["first_losses"][:50], rel=0.02)


def test_the_first_stage_is_what_made_the_early_weights():
    """The record is of a longer training, the same in every step up to theirs.

    In its last twelve steps of these the rate had begun to fall, by a ten-thousandth.
    """
    record = json.loads((BASE / "training.json").read_text())
    ours, theirs, trainer = STAGES["base"], stage_of(record), PocketTrainer()
    longer = record["settings"]["max_steps"]
    assert trainer.max_steps == record["steps"] < longer

    def schedule(stage, steps):
        for step in range(trainer.max_steps):
            part = step / steps
            early, late = part < stage.see_until, part >= stage.heads_until
            yield stage.rate(part, step), stage.max_things(part), early, late, stage.spread(part)

    for mine, other in zip(
        schedule(ours, trainer.max_steps), schedule(theirs, longer), strict=True
    ):
        assert mine == pytest.approx(other, rel=2e-4)
    parts = ("see_until", "easy_until", "flat", "last_spread", "spread_until", "heads_until")
    assert replace(ours, **{name: getattr(theirs, name) for name in parts}) == theirs
    assert trainer.learning_rate == record["settings"]["learning_rate"]


def test_the_second_stage_is_what_made_the_shipped_weights():
    record = json.loads((FOLDER / "training.json").read_text())
    said, trainer = record["settings"], PocketTrainer(stage="more")
    assert STAGES["more"] == stage_of(record)
    assert (trainer.max_steps, trainer.learning_rate) == (said["max_steps"], said["learning_rate"])
    assert record["before"]["fingerprint"] == fingerprint(BASE)
