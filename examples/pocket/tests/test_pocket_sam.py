import json
import tomllib
from itertools import pairwise

import numpy as np
import pytest
import torch
from pocket_training.sam import course as courses
from pocket_training.sam.batches import (
    KINDS,
    Clip,
    Kind,
    PromptedImage,
    clips,
    points_of,
    stills,
)
from pocket_training.sam.course import mask_losses, reached_ious, shares
from pocket_training.sam.trainer import PocketSamTrainer
from pocket_training.training import MAX_GRAD_NORM, one_thread

from harness import plugins
from harness.errors import StoreError, UsageError
from harness.masks import BoolArray
from harness.models import pocket_sam as shipped
from harness.spec import Spec, parse
from harness.trainer import TrainingRun
from harness.world.families import draw_scene
from harness.world.raster import visible_masks


@pytest.fixture(scope="module", autouse=True)
def single():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def course():
    course = courses.PocketSamCourse(PocketSamTrainer(), seed=0)
    network = course.network.eval()
    with torch.no_grad():  # else nothing is in view at first, and its absence says nothing
        torch.manual_seed(0)
        for name in (
            "no_object_pointer",
            "occlusion_spatial_embedding_parameter",
            "no_memory_embedding",
        ):
            getattr(network, name).normal_()
        network.mask_decoder.pred_obj_score_head.proj_out.bias.fill_(3.0)
    return course


def trained(out, **given):
    """Train with one image and one short clip a step."""
    out.mkdir(exist_ok=True)
    run = TrainingRun(out=out, **given)
    with pytest.MonkeyPatch.context() as patch:
        few = {"IMAGES": 1, "VIDEOS": 1, "OBJECTS": 2, "FOLLOWED": 2, "LONGEST": 3}
        for name, number in few.items():
            patch.setattr(courses, name, number)
        return run, PocketSamTrainer(still_steps=2, clip_steps=2, save_steps=2).train(run)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("whole"))


def weights(run):
    from safetensors.torch import load_file

    return load_file(run.checkpoint / "model.safetensors")


def test_the_method_is_found_by_its_name():
    made = plugins.build("trainers", parse("pocket_sam(still_steps=5)"))
    assert (made.name, made.still_steps) == ("pocket_sam", 5)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pocket_sam", {"still_steps": -1}),
        ("pocket_sam", {"clip_steps": -1}),
        ("pocket_sam", {"save_steps": 0}),
        ("pocket", {"save_steps": 0}),
    ],
)
def test_settings_out_of_range_are_refused(name, wrong):
    with pytest.raises(UsageError, match=rf"^{name}\({next(iter(wrong))}=…\)"):
        plugins.build("trainers", Spec(name), **wrong)


def test_configurations_hold_settings_of_the_method():
    entry = plugins.installed_plugins("trainers")["pocket_sam"]
    found = sorted((plugins.folder(entry) / "configs").glob("*.toml"))
    assert "minutes" in [path.stem for path in found]
    for path in found:
        assert PocketSamTrainer(**tomllib.loads(path.read_text())).still_steps > 0


def test_a_step_shows_the_same_whenever_it_is_drawn():
    one, other = (stills(0, 7, images=3, objects=4) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        for array, same in zip(first, second, strict=True):
            np.testing.assert_array_equal(array, same)
    assert not np.array_equal(one[0].points, stills(1, 7, images=3, objects=4)[0].points)


@pytest.mark.parametrize("kind", sorted(set(KINDS), key=str), ids=str)
def test_prompts_say_where_their_object_is(kind):
    draw = np.random.default_rng(0)
    scene = draw_scene(0, family="still", split="train", index=3)
    masks = np.concatenate([visible_masks(scene)] * 5)
    points, labels = points_of(masks, kind, draw)
    assert points.shape == (*labels.shape, 2)
    for mask, places, output in zip(masks, points, labels, strict=True):
        under = [bool(mask[int(y), int(x)]) for x, y in places[: kind.inside + kind.beside]]
        assert under == [True] * kind.inside + [False] * kind.beside
        if kind.box:
            (left, top), (right, bottom) = places[-2:]
            rows, columns = np.nonzero(mask)
            extent = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            slack = 2 + 0.25 * max(extent[2:] - extent[:2])
            assert np.abs(extent - [left, top, right, bottom]).max() <= slack + 1e-3
            assert left < right
            assert top < bottom
            assert list(output[-2:]) == [2, 3]


def test_clips_go_both_ways_and_start_with_what_is_asked_for():
    drawn = [one for step in range(12) for one in clips(0, step, videos=2, objects=3, frames=4)]
    assert {len(clip.frames) for clip in drawn} == {4}
    assert all(clip.masks.shape[:2] == (4, 3) for clip in drawn)
    assert all(mask.sum() >= 12 for clip in drawn for mask in clip.masks[0])
    gone = [not mask.any() for clip in drawn for mask in clip.masks[-1]]
    assert any(gone)
    assert not all(gone)


def test_a_perfect_mask_costs_next_to_nothing_and_a_wrong_one_much():
    ground_truth = torch.zeros(2, 16, 16)
    ground_truth[:, 4:9, 4:12] = 1
    right, wrong = (ground_truth * 2 - 1) * 20, (1 - ground_truth * 2) * 20
    assert (mask_losses(right, ground_truth) < 0.02).all()
    assert (mask_losses(wrong, ground_truth) > 10).all()
    assert (
        mask_losses(wrong, ground_truth, background=0.1) < mask_losses(wrong, ground_truth)
    ).all()
    assert reached_ious(right, ground_truth).tolist() == [1.0, 1.0]
    assert reached_ious(wrong, ground_truth).tolist() == [0.0, 0.0]
    assert reached_ious(-torch.ones(1, 4, 4), torch.zeros(1, 4, 4)).tolist() == [1.0]


def test_shares_keep_a_masks_area():
    masks: BoolArray = np.zeros((1, 96, 128), dtype=np.bool_)
    masks[0, 20:60, 30:90] = True
    small = shares(masks, 48)
    assert small.shape == (1, 48, 48)
    assert float(small.mean()) == pytest.approx(masks.mean(), rel=0.01)


@pytest.mark.parametrize("several", [True, False])
def test_a_training_pass_over_prompts_says_what_transformers_says(course, tmp_path, several):
    from transformers import Sam2Model

    course.export(tmp_path / "checkpoint")
    plain = Sam2Model.from_pretrained(tmp_path / "checkpoint").eval()
    requested = stills(0, 4, images=2, objects=3)
    points = torch.from_numpy(np.stack([one.points for one in requested]) * np.float32(192))
    labels = torch.from_numpy(np.stack([one.labels for one in requested]))
    images = [one.image for one in requested]
    shown = course.processor.image_processor(images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        *finer, last = course.features(images).fpn_hidden_states
        maps = [*finer, last + course.network.no_memory_embedding]
        output = course.decode(maps, points, labels, multimask=several)
        official = plain(
            pixel_values=shown, input_points=points, input_labels=labels, multimask_output=several
        )
    torch.testing.assert_close(output.masks, official.pred_masks, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(output.ious, official.iou_scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(output.presence, official.object_score_logits, rtol=1e-4, atol=1e-5)
    assert output.masks.std() > 0.01


@pytest.mark.parametrize(("bias", "frames"), [(3.0, 7), (0.0, 4)])
def test_a_training_pass_over_a_clip_says_what_transformers_says(course, tmp_path, bias, frames):
    """With the bias at 0, nothing is in view; at 3, everything is."""
    from transformers import Sam2VideoModel

    (clip,) = clips(0, 3, videos=1, objects=3, frames=frames)
    final = course.network.mask_decoder.pred_obj_score_head.proj_out
    with torch.no_grad():
        final.bias.fill_(bias)
    course.export(tmp_path / "checkpoint")
    with torch.no_grad():
        seen = course.features(clip.frames)
        start = (shares(clip.masks[0], 192) >= 0.5).float()
        order = torch.arange(frames)[:, None].expand(-1, 3)
        output = course.track(seen, start, order)
        final.bias.fill_(3.0)
    plain = Sam2VideoModel.from_pretrained(tmp_path / "checkpoint").eval()
    session = course.processor.init_video_session(video=list(clip.frames), dtype=torch.float32)
    course.processor.add_inputs_to_inference_session(
        session, frame_idx=0, obj_ids=[1, 2, 3], input_masks=list(clip.masks[0])
    )
    steps = list(plain.propagate_in_video_iterator(session, start_frame_idx=0))
    for one, official in zip(output, steps[1:], strict=True):
        presence = one.presence[:, 0]
        torch.testing.assert_close(presence, official.object_score_logits, rtol=1e-3, atol=1e-4)
        best = one.masks[torch.arange(3), 0, one.ious[:, 0].argmax(dim=-1)]
        hard = torch.where(presence[..., None] > 0, best, -1024.0)
        torch.testing.assert_close(hard, official.pred_masks[:, 0], rtol=1e-3, atol=1e-3)
        assert (best.std() > 0.01) and bool((presence > 0).all()) == (bias == 3.0)


def test_objects_of_several_clips_are_followed_together_as_alone(course):
    one, other = clips(0, 5, videos=2, objects=2, frames=3)
    _, both = course.clip_loss([one, other], background=1.0)
    alone = [course.clip_loss([clip], background=1.0)[1] for clip in (one, other)]
    present = [int(clip.masks[1:].any(axis=(2, 3)).sum()) for clip in (one, other)]
    expected = sum(numbers["mask"] * n for numbers, n in zip(alone, present, strict=True))
    assert both["mask"] == pytest.approx(expected / sum(present), rel=1e-4)


def test_every_weight_learns_from_one_of_the_two_kinds_of_steps(course):
    network = course.network
    network.zero_grad()
    network.train()
    requested = stills(0, 1, images=2, objects=3)
    for several in (True, False):
        loss, _ = course.still_loss(requested, multimask=several, background=1.0)
        loss.backward()
    drawn = clips(0, 2, videos=1, objects=3, frames=4)
    course.clip_loss(drawn, background=1.0)[0].backward()
    left = {
        name for name, one in network.named_parameters() if one.grad is None or not one.grad.any()
    }
    never = {  # of mask prompts at decoding, and of an object that has left
        "no_memory_positional_encoding",
        "no_object_pointer",
        "occlusion_spatial_embedding_parameter",
    }
    assert {name for name in left if not name.startswith("prompt_encoder")} <= never
    network.zero_grad()
    network.eval()


def test_presence_is_learned_from_objects_that_leave(course):
    (clip,) = clips(0, 1, videos=1, objects=2, frames=3)
    gone = clip._replace(masks=np.concatenate([clip.masks[:1], clip.masks[1:] & False]))
    here, away = (course.clip_loss([one], background=1.0)[1] for one in (clip, gone))
    assert away["presence"] > here["presence"]
    assert (away["mask"], away["reached_iou"]) == (0.0, 0.0)


def test_a_training_leaves_a_checkpoint_that_both_models_load(whole):
    from transformers import Sam2Model, Sam2VideoModel, Sam2VideoProcessor

    run, facts = whole
    assert facts["steps"] == 4
    for kind in (Sam2Model, Sam2VideoModel):
        _, report = kind.from_pretrained(run.checkpoint, output_loading_info=True)
        assert not any(report.values())
    assert Sam2VideoProcessor.from_pretrained(run.checkpoint).target_size == 192
    assert [row["step"] for row in run.curve.read()] == [1, 2, 3, 4]


def test_equal_seeds_give_equal_weights_and_others_do_not():
    one, same, other = (
        dict(courses.PocketSamCourse(PocketSamTrainer(), seed).trained.named_parameters())
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    name = "mask_decoder.iou_token.weight"
    assert not torch.equal(one[name], other[name])


def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(whole, tmp_path):
    requested = iter([False, False, True])
    folder = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        trained(folder, stopping=lambda: next(requested))
    run, _ = trained(folder, resume=True)
    expected, again = weights(whole[0]), weights(run)
    assert all(torch.equal(expected[name], again[name]) for name in expected)
    assert run.curve.read() == whole[0].curve.read()


def test_a_damaged_state_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "a", stopping=lambda: True)
    (state,) = (tmp_path / "a" / "state").glob("step-*")
    for name in ("optimisers.pt", "weights.safetensors"):
        (state / name).write_bytes(b"cut off")
        with pytest.raises(StoreError, match=f"step-1.*{name}"):
            trained(tmp_path / "a", resume=True)


def test_more_processes_than_share_a_step_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="pocket_sam"):
        trained(tmp_path / "a")


def test_the_learning_rate_rises_stays_and_falls_with_clips():
    course = courses.PocketSamCourse(PocketSamTrainer(still_steps=100, clip_steps=100), seed=0)
    rates = [course.rate(step) for step in range(200)]
    assert rates[0] == pytest.approx(2e-5)
    assert rates[50:100] == [1e-3] * 50
    assert rates[100] == 5e-4
    assert all(first > second for first, second in pairwise(rates[100:]))
    assert rates[-1] < 1e-6


@pytest.mark.slow
def test_the_shipped_weights_can_be_made_again():
    """The first steps have the losses that the training of the shipped weights had."""
    record = json.loads((shipped.FOLDER / "training.json").read_text())
    settings = PocketSamTrainer()
    constants = {
        "images": courses.IMAGES,
        "objects": courses.OBJECTS,
        "videos": courses.VIDEOS,
        "followed": courses.FOLLOWED,
        "shortest": courses.SHORTEST,
        "longest": courses.LONGEST,
        "warmup_steps": courses.WARMUP_STEPS,
        "weight_decay": courses.WEIGHT_DECAY,
        "max_grad_norm": MAX_GRAD_NORM,
        "sparse_steps": courses.SPARSE_STEPS,
    }
    assert record["settings"].items() >= {**settings.describe(), **constants}.items()
    course = courses.PocketSamCourse(settings, record["seed"])
    losses = [course.step(step)["loss"] for step in range(6)]
    assert losses == pytest.approx(record["first_losses"][:6], rel=0.02)


def test_an_image_without_anything_to_ask_for_is_never_shown():
    for step in range(4):
        for one in stills(3, step, images=4, objects=2):
            assert isinstance(one, PromptedImage) and one.masks.any(axis=(1, 2)).all()
        for clip in clips(3, step, videos=2, objects=2, frames=8):
            assert isinstance(clip, Clip) and clip.masks[0].any(axis=(1, 2)).all()


def test_a_kind_without_points_is_a_box():
    masks: BoolArray = np.zeros((1, 40, 40), dtype=np.bool_)
    masks[0, 10:20, 5:30] = True
    points, labels = points_of(masks, Kind(True, 0), np.random.default_rng(1))
    assert labels.tolist() == [[2, 3]]
    assert np.abs(points[0] - [[5, 10], [30, 20]]).max() <= 5
