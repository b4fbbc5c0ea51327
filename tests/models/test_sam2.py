import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import media, plugins
from harness.errors import ModelError, UsageError
from harness.models import pocket_sam
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.torchvision_cpu import ensure_torchvision
from harness.models.propagators.pocket_sam_video import pocket_sam_video
from harness.models.propagators.sam2_video import sam2_video
from harness.models.segmenters.places import clip_box
from harness.models.segmenters.pocket_sam import pocket_sam as toy
from harness.models.segmenters.sam2 import sam2
from harness.models.segmenters.sam2_transformers import placed_in
from harness.segmentation import ObjectPrompt
from harness.segmentation import settings as recorded
from harness.types import Box, Point
from harness.world.families import draw_scene
from harness.world.raster import render, visible_masks

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
if find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed", allow_module_level=True)
ensure_torchvision()

if not (pocket_sam.FOLDER / "model.safetensors").is_file():
    pytest.skip("pocket-sam has no trained weights yet", allow_module_level=True)

SEED = 77  # of scenes that no training has seen: those of `val` never are
START = 4


def iou(one, other):
    union = np.count_nonzero(one | other)
    return np.count_nonzero(one & other) / union if union else 1.0


def prompt(mask):
    rows, columns = np.nonzero(mask)
    box = Box(columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    away = (columns - (box.left + box.right) / 2) ** 2 + (rows - (box.top + box.bottom) / 2) ** 2
    at = away.argmin()
    return ObjectPrompt(box=box, positive=(Point(columns[at] + 0.5, rows[at] + 0.5),))


@pytest.fixture(scope="module")
def segmenter():
    return toy()


@pytest.fixture(scope="module")
def propagator():
    return pocket_sam_video()


@pytest.fixture(scope="module")
def still():
    scene = draw_scene(SEED, family="still", split="val", index=0)
    masks = [mask for mask in visible_masks(scene) if mask.any()]
    return render(scene), masks


@pytest.fixture(scope="module")
def video():
    scene = draw_scene(SEED, family="video", split="val", index=1)
    frames = [render(scene, frame) for frame in range(scene.frames)]
    masks = np.stack([visible_masks(scene, frame) for frame in range(scene.frames)])
    shown = media.pixels(frames, times=range(len(frames)), is_video=True, id="video")
    return shown, masks[:, masks[START].any(axis=(1, 2))]


@pytest.fixture(scope="module")
def short(video):
    """Three frames of the video and the masks of its second one."""
    shown, masks = video
    frames = shown.frames()[START - 1 : START + 2]
    return media.pixels(frames, times=range(3), is_video=True, id="short"), masks[START]


def test_both_are_found_by_their_names():
    assert plugins.build("segmenters", "pocket_sam").name == "pocket_sam"
    assert plugins.build("propagators", "pocket_sam_video").name == "pocket_sam_video"
    output = plugins.build("models", "pocket").describe()
    parts = (output["segmenter"]["name"], output["propagator"]["name"])
    assert parts == ("pocket_sam", "pocket_sam_video")


def test_naming_them_loads_no_network():
    code = (
        "import sys; from harness import plugins; plugins.build('segmenters', 'pocket_sam'); "
        "plugins.build('propagators', 'pocket_sam_video'); "
        "assert not {'torch', 'transformers', 'torchvision'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_record_tells_weights_and_settings(segmenter, propagator):
    output = recorded(segmenter)
    assert output["weights"] == checkpoints.fingerprint(pocket_sam.FOLDER)
    assert (output["checkpoint"], output["multimask"]) == ("pocket-sam", True)
    assert recorded(propagator)["weights"] == output["weights"]
    json.dumps([output, recorded(propagator)])


def test_no_prompts_give_no_masks(segmenter, still):
    assert segmenter.segment(still[0], []) == []


@pytest.mark.parametrize(
    "nowhere",
    [
        ObjectPrompt(),
        ObjectPrompt(phrase="the circle"),
        ObjectPrompt(negative=(Point(5, 5),)),
        ObjectPrompt(box=Box(-9, 3, -2, 8)),
        ObjectPrompt(box=Box(9, 3, 9, 8)),
        ObjectPrompt(box=Box(float("nan"), 3, 9, 8)),
        ObjectPrompt(positive=(Point(10_000, 3),)),
    ],
)
def test_a_prompt_that_names_no_place_gets_an_empty_mask(segmenter, still, nowhere):
    image, masks = still
    found = segmenter.segment(image, [nowhere, prompt(masks[0])])
    assert [mask.shape for mask in found] == [image.shape[:2]] * 2
    assert [mask.dtype for mask in found] == [np.bool_] * 2
    assert [mask.any() for mask in found] == [False, True]


def several(masks):
    """Prompts of every kind, mixed."""
    (x, y), box = prompt(masks[0]).positive[0], prompt(masks[1]).box
    return [
        prompt(masks[0]),
        ObjectPrompt(positive=(Point(x, y),)),
        ObjectPrompt(box=box),
        prompt(masks[1]),
        ObjectPrompt(positive=(Point(x, y), Point(x + 1, y)), negative=(Point(1, 1),)),
        ObjectPrompt(box=box, negative=(Point(2, 3),)),
        ObjectPrompt(box=Box(box.right, box.bottom, box.left, box.top)),
    ]


def test_prompts_together_get_the_masks_that_each_gets_alone(segmenter, still):
    image, masks = still
    prompts = several(masks)
    together = segmenter.segment(image, prompts)
    assert all(mask.any() for mask in together)
    alone = toy()
    for one, mask in zip(prompts, together, strict=True):
        np.testing.assert_array_equal(alone.segment(image, [one])[0], mask)
    np.testing.assert_array_equal(together[2], together[6])  # swapped edges


def test_masks_are_those_of_plain_transformers(segmenter, still):
    from transformers import Sam2Model, Sam2Processor

    image, masks = still
    network = Sam2Model.from_pretrained(pocket_sam.FOLDER).eval()
    processor = Sam2Processor.from_pretrained(pocket_sam.FOLDER)
    requested = [prompt(mask) for mask in masks]
    inputs = processor(
        images=image,
        input_points=[[[list(map(float, one.positive[0]))] for one in requested]],
        input_labels=[[[1]] * len(requested)],
        input_boxes=[[list(map(float, one.box)) for one in requested]],
        return_tensors="pt",
    )
    with torch.no_grad():
        output = network(**inputs, multimask_output=True)
    (grown,) = processor.post_process_masks(output.pred_masks, inputs["original_sizes"])
    best = output.iou_scores[0].argmax(dim=-1)
    for row, mask in enumerate(segmenter.segment(image, requested)):
        np.testing.assert_array_equal(grown[row, best[row]].numpy(), mask)


def test_an_image_of_three_rows_is_not_taken_for_its_channels(segmenter):
    image = np.zeros((3, 90, 3), dtype=np.uint8)
    image[:, 30:60] = 250
    image.flags.writeable = False
    (mask,) = segmenter.segment(image, [ObjectPrompt(box=Box(30, 0, 60, 3))])
    assert mask.shape == (3, 90)


def test_an_image_is_looked_at_once_for_all_prompts(still, monkeypatch):
    made = toy()
    made.prepare()
    looked = []
    look = type(made.network).get_image_embeddings
    monkeypatch.setattr(
        type(made.network),
        "get_image_embeddings",
        lambda network, pixels: looked.append(pixels) or look(network, pixels),
    )
    image, masks = still
    first = made.segment(image, several(masks))
    again = made.segment(image.copy(), several(masks))
    assert len(looked) == 1
    turned = made.segment(image[::-1], several(masks))
    assert len(looked) == 2
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))
    assert not np.array_equal(first[0], turned[0])


@pytest.fixture
def traced(monkeypatch):
    """What was asked to be compiled. It is traced as for compiling, and then run as it is."""
    requested, whole = [], torch.nn.Module.compile

    def compile_(module, **named):
        requested.append((type(module).__name__, named))
        whole(module, backend="eager", **named)

    monkeypatch.setattr(torch.nn.Module, "compile", compile_)
    return requested


def test_the_image_encoder_is_compiled_once_for_images_of_any_size(traced, segmenter, still):
    image, masks = still
    made = toy(compiled=True)
    assert recorded(made)["compiled"] is True
    seen = SimpleNamespace(traced=None)

    def look(module, args):
        seen.traced = torch.compiler.is_compiling()

    made.network.vision_encoder.register_forward_pre_hook(look)
    made.prepare()
    torch.compiler.set_stance("fail_on_recompile")  # preparing compiles for what is asked later
    try:
        for shown in (image, image[::-1], image[:90]):
            box = prompt(masks[0])
            (mask,), (plain,) = made.segment(shown, [box]), segmenter.segment(shown, [box])
            assert iou(mask, plain) > 0.99
    finally:
        torch.compiler.set_stance("default")
    assert traced == [("Sam2VisionModel", {"dynamic": False})]
    assert seen.traced, "it is what is traced that answers"


def test_what_cannot_be_compiled_is_said_before_the_first_sample(monkeypatch):
    def no_compiler(graph, inputs):
        raise RuntimeError("no C++ compiler found")

    whole, network = torch.nn.Module.compile, type(toy().network.vision_encoder)
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda module, **named: whole(module, backend=no_compiler)
    )
    with monkeypatch.context() as patched:  # all of it is traced, which is much
        patched.setattr(network, "forward", lambda module, pixels, **named: pixels + 1)
        with pytest.raises(ModelError, match=r"compiled=true: .*C\+\+.*Triton"):
            toy(compiled=True).prepare()
    toy().prepare()


def test_tracks_of_a_compiled_encoder_are_the_tracks(traced, propagator, short):
    shown, masks = short
    made = pocket_sam_video(compiled=True).propagate(shown, 1, [masks[0]])
    plain = propagator.propagate(shown, 1, [masks[0]])
    assert [name for name, _ in traced] == ["Sam2VisionModel"]
    assert all(iou(*pair) > 0.99 for pair in zip(made[0], plain[0], strict=True))


@pytest.mark.parametrize("make", [sam2, sam2_video])
def test_the_authors_package_is_not_compiled(make):
    with pytest.raises(UsageError, match=r"compiled=true.*config="):
        make(checkpoint="a.pt", config="sam2.1_hiera_l", compiled=True)


def test_one_mask_can_be_asked_for_instead_of_three(segmenter, still):
    image, masks = still
    single = toy(multimask=False).segment(image, [prompt(masks[0])])[0]
    assert iou(single, masks[0]) > 0.5
    assert recorded(toy(multimask=False))["multimask"] is False


@given(
    box=st.tuples(*[st.floats(-300, 600, width=32)] * 4).map(lambda edges: Box(*edges)),
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
)
@settings(max_examples=60, deadline=None)
def test_a_clipped_box_lies_in_the_image_and_stays_as_it_is(box, size):
    found = clip_box(box, size)
    if found is None:
        assert placed_in(size, 0, ObjectPrompt(box=box, positive=(Point(0, 0),))) is None
        return
    assert 0 <= found.left < found.right <= size[0]
    assert 0 <= found.top < found.bottom <= size[1]
    assert clip_box(found, size) == found
    assert clip_box(Box(box.right, box.bottom, box.left, box.top), size) == found


def test_the_shipped_weights_cut_unseen_things_out(segmenter):
    reached = []
    for index in range(8):
        scene = draw_scene(SEED, family="still", split="val", index=index)
        masks = [mask for mask in visible_masks(scene) if mask.any()]
        found = segmenter.segment(render(scene), [prompt(mask) for mask in masks])
        reached += [iou(*pair) for pair in zip(found, masks, strict=True)]
    assert np.mean(reached) > 0.88
    assert np.mean(np.array(reached) > 0.7) > 0.9


def test_no_masks_give_no_tracks(propagator, video):
    assert propagator.propagate(video[0], START, []) == []


def test_tracks_have_a_mask_a_frame_and_empty_masks_stay_empty(propagator, video):
    shown, masks = video
    empty = np.zeros_like(masks[START, 0])
    given_masks = [masks[START, 0], empty, masks[START, 1]]
    tracks = propagator.propagate(shown, START, given_masks)
    assert [len(track) for track in tracks] == [len(shown)] * 3
    assert {(mask.shape, mask.dtype) for track in tracks for mask in track} == {
        (empty.shape, np.dtype(np.bool_))
    }
    assert not any(mask.any() for mask in tracks[1])
    for track, mask in zip(tracks, given_masks, strict=True):
        np.testing.assert_array_equal(track[START], mask)


def test_one_frame_keeps_its_masks(propagator, video):
    shown, masks = video
    single = media.pixels([shown.frame(0)], times=[0.0], is_video=True, id="single")
    ((mask,),) = propagator.propagate(single, 0, [masks[START, 0]])
    np.testing.assert_array_equal(mask, masks[START, 0])


def test_objects_together_get_the_tracks_that_each_gets_alone(propagator, video):
    shown, masks = video
    given_masks = list(masks[START, :2])
    together = propagator.propagate(shown, START, given_masks)
    alone = [propagator.propagate(shown, START, [mask])[0] for mask in given_masks]
    np.testing.assert_array_equal(together, alone)


def test_a_video_played_backwards_gives_the_tracks_backwards(propagator, video):
    shown, masks = video
    frames = shown.frames()[::-1]
    turned = media.pixels(frames, times=range(len(frames)), is_video=True, id="turned")
    given_masks = list(masks[START, :2])
    there = propagator.propagate(shown, START, given_masks)
    back = propagator.propagate(turned, len(frames) - 1 - START, given_masks)
    np.testing.assert_array_equal(there, [track[::-1] for track in back])


@pytest.mark.parametrize(("start", "reverse"), [(0, False), (7, True)])
def test_tracks_are_those_of_plain_transformers(propagator, video, start, reverse):
    from transformers import Sam2VideoModel, Sam2VideoProcessor

    shown, masks = video
    given_masks = [mask for mask in masks[start] if mask.any()]
    network = Sam2VideoModel.from_pretrained(pocket_sam.FOLDER).eval()
    processor = Sam2VideoProcessor.from_pretrained(pocket_sam.FOLDER)
    session = processor.init_video_session(video=shown.frames(), dtype=torch.float32)
    names = list(range(1, len(given_masks) + 1))
    processor.add_inputs_to_inference_session(
        session, frame_idx=start, obj_ids=names, input_masks=given_masks
    )
    tracks = propagator.propagate(shown, start, given_masks)
    size = [list(given_masks[0].shape)]
    steps = network.propagate_in_video_iterator(session, start_frame_idx=start, reverse=reverse)
    for step in steps:
        if step.frame_idx == start:
            continue
        (found,) = processor.post_process_masks([step.pred_masks], original_sizes=size)
        np.testing.assert_array_equal(
            found[:, 0].numpy(), [track[step.frame_idx] for track in tracks]
        )


def test_long_videos_are_not_held(propagator, video, monkeypatch):
    shown, masks = video
    order = [*range(8), *range(6, 0, -1), *range(5)]
    frames = [shown.frame(index) for index in order]
    long = media.pixels(frames, times=range(len(frames)), is_video=True, id="long")
    kept = []
    forget = type(propagator)._forget

    def watched(self, session, frame):
        forget(self, session, frame)
        outputs = session.output_dict_per_obj[0]
        kept.append(len(outputs["non_cond_frame_outputs"]))
        assert not any("high_res_masks" in one for one in outputs["cond_frame_outputs"].values())

    monkeypatch.setattr(type(propagator), "_forget", watched)
    (track,) = propagator.propagate(long, 0, [masks[0, 0]])
    assert len(track) == len(frames) == 19
    assert max(kept) == propagator.network.config.max_object_pointers_in_encoder == 16


def test_the_shipped_weights_follow_unseen_things(propagator):
    reached = []
    for index in range(2):
        scene = draw_scene(SEED, family="video", split="val", index=index)
        frames = [render(scene, frame) for frame in range(scene.frames)]
        masks = np.stack([visible_masks(scene, frame) for frame in range(scene.frames)])
        masks = masks[:, masks[START].any(axis=(1, 2))]
        shown = media.pixels(frames, times=range(len(frames)), is_video=True, id=str(index))
        for ground_truth, track in zip(
            masks.transpose(1, 0, 2, 3),
            propagator.propagate(shown, START, list(masks[START])),
            strict=True,
        ):
            pairs = [
                pair for k, pair in enumerate(zip(track, ground_truth, strict=True)) if k != START
            ]
            reached.append(np.mean([iou(*pair) for pair in pairs]))
    assert np.mean(reached) > 0.75


def test_masks_of_another_size_are_refused(propagator, video):
    with pytest.raises(ModelError, match=r"168 × 224, found .*\(3, 4\)"):
        propagator.propagate(video[0], 0, [np.ones((3, 4), dtype=np.bool_)])
    with pytest.raises(ModelError, match=r"frame 99: .*0 to 7"):
        propagator.propagate(video[0], 99, [])


@pytest.fixture
def copy(tmp_path):
    target = tmp_path / "copy"
    target.mkdir()
    for name in ("config.json", "processor_config.json", "model.safetensors"):
        shutil.copy(pocket_sam.FOLDER / name, target / name)
    return target


def changed(folder, **entries):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_a_copy_of_the_checkpoint_answers_alike(copy, segmenter, still):
    image, masks = still
    requested = [prompt(masks[0])]
    made = sam2(checkpoint=str(copy))
    np.testing.assert_array_equal(
        made.segment(image, requested), segmenter.segment(image, requested)
    )
    assert recorded(made)["weights"] == recorded(segmenter)["weights"]


@pytest.mark.parametrize("plugin", [sam2, sam2_video])
def test_a_checkpoint_that_is_cut_off_is_refused_when_it_is_named(copy, plugin):
    path = copy / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match=rf"{path.name}: .*{size - 100} bytes.*{size}\b"):
        plugin(checkpoint=str(copy))


@pytest.mark.parametrize("plugin", [sam2, sam2_video])
def test_missing_weights_are_named(copy, plugin):
    from safetensors.torch import load_file, save_file

    path = copy / "model.safetensors"
    tensors = load_file(path)
    del tensors["mask_decoder.iou_token.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"missing keys: mask_decoder\.iou_token\.weight"):
        plugin(checkpoint=str(copy)).prepare()


def test_a_checkpoint_without_memory_cuts_out_but_does_not_follow(copy, segmenter, still):
    from safetensors.torch import load_file, save_file
    from transformers import Sam2Model

    network = Sam2Model.from_pretrained(copy)
    wanted = set(network.state_dict())
    tensors = load_file(copy / "model.safetensors")
    save_file(
        {name: one for name, one in tensors.items() if name in wanted},
        copy / "model.safetensors",
        metadata={"format": "pt"},
    )
    network.config.save_pretrained(copy)
    image, masks = still
    (mask,) = sam2(checkpoint=str(copy)).segment(image, [prompt(masks[0])])
    np.testing.assert_array_equal(mask, segmenter.segment(image, [prompt(masks[0])])[0])
    with pytest.raises(ModelError, match="expected model_type 'sam2_video', found 'sam2'"):
        sam2_video(checkpoint=str(copy))


@pytest.mark.parametrize("plugin", [sam2, sam2_video])
def test_what_is_no_sam_2_is_refused(copy, plugin):
    changed(copy, model_type="qwen2_5_vl")
    with pytest.raises(ModelError, match="found 'qwen2_5_vl'"):
        plugin(checkpoint=str(copy))


@pytest.mark.parametrize("plugin", [sam2, sam2_video])
def test_a_checkpoint_that_brings_code_or_is_nowhere_is_refused(copy, plugin, tmp_path):
    changed(copy, auto_map={"AutoModel": "evil.Model"})
    with pytest.raises(ModelError, match="auto_map"):
        plugin(checkpoint=str(copy))
    with pytest.raises(ModelError, match=r"^checkpoint '.*/nowhere': "):
        plugin(checkpoint=str(tmp_path / "nowhere"))


def test_a_processor_that_is_missing_is_an_error_of_the_checkpoint(copy):
    (copy / "processor_config.json").unlink()
    with pytest.raises(ModelError, match=r"^processor .*/copy: "):
        sam2(checkpoint=str(copy)).prepare()


@pytest.mark.parametrize("plugin", [sam2, sam2_video, toy, pocket_sam_video])
def test_a_type_that_is_none_is_refused(plugin):
    with pytest.raises(UsageError, match="dtype"):
        plugin(dtype="float8")


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_other_types_give_nearly_the_same(segmenter, propagator, still, short, dtype):
    image, masks = still
    (mask,) = toy(dtype=dtype).segment(image, [prompt(masks[0])])
    assert iou(mask, segmenter.segment(image, [prompt(masks[0])])[0]) > 0.9
    shown, true = short
    (track,) = pocket_sam_video(dtype=dtype).propagate(shown, 1, [true[0]])
    (exact,) = propagator.propagate(shown, 1, [true[0]])
    assert np.mean([iou(*pair) for pair in zip(track, exact, strict=True)]) > 0.85
