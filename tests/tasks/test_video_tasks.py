"""Video tasks: ceilings, cards, splits, edges of scores, files that are not as they should be."""

import inspect
import json
import shutil
import types
import typing
from dataclasses import fields, replace
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.card import Card
from harness.errors import DataError, UsageError
from harness.frame_cache import CACHE
from harness.masks import Rle, SoftMask
from harness.media import pixels
from harness.metrics.boundary import boundary_radius
from harness.run.evaluate import evaluate
from harness.run.options import Options
from harness.run.scoring import score_unit
from harness.run.verify import verify
from harness.spec import parse
from harness.summary import values
from harness.tasks.ref_davis17.task import ground_truth_of_video
from harness.tasks.ref_youtube_vos.splits import VALID, choose_videos, held_out
from harness.tasks.rvos.png_tree import png_tree
from harness.tasks.rvos.writing import palette_png
from harness.types import Answer, Failure, FailureKind, Prediction, query_id
from harness.world.shapes import make

NAMES = (
    "revos",
    "ref_youtube_vos",
    "ref_davis17",
    "jitbench",
    "rvtbench_seg",
    "rvtbench_grounding",
    "rvtbench_vqa",
    "rvtbench_summary",
)
JAVA = ("rvtbench_vqa", "rvtbench_summary")
SPECS = {
    "revos": 8,
    "revos(split=train)": 32,
    "revos(protocol=revos/binary)": 8,
    "ref_youtube_vos": 8,
    "ref_youtube_vos(split=train)": 40,
    "ref_youtube_vos(split=train_fit)": 32,
    "ref_davis17(protocol=rvos/visa_davis)": 36,
    "ref_davis17": 12,
    "jitbench": 8,
    "rvtbench_seg": 8,
    "rvtbench_grounding": 8,
    "rvtbench_vqa(protocol=rvtbench/text_simple)": 8,
    "rvtbench_vqa(protocol=rvtbench/choice)": 8,
    "rvtbench_summary(protocol=rvtbench/text_simple)": 8,
}
READERS = ("qwen_vl(backend=stored)", "qwen_vl(backend=stored,keyframe=named)")
HERE = Path(__file__)


def module(name: str):
    return import_module(f"harness.tasks.{name}.task")


def card(name: str) -> Card:
    return Card.read(Path(module(name).__file__).parent / "card.toml")


@pytest.fixture
def films(shapes):
    """The generated world, which has these tasks too."""
    return shapes


@pytest.fixture
def copied(films, tmp_path):
    """A copy of one benchmark's folder, to be spoiled."""

    def copy(name: str) -> Path:
        shutil.copytree(films / name, tmp_path / "data" / name)
        return tmp_path / "data"

    return copy


@pytest.mark.parametrize(("spec", "count"), SPECS.items())
def test_perfect_answers_reach_the_ceiling_both_ways(build, films, spec, count):
    reader = plugins.build("models", parse(READERS[0]))
    verdicts = list(verify(build(spec, films), reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    for one in verdicts:
        assert one.is_passed and one.value == one.ceiling == 1.0 and one.n == count


@pytest.mark.parametrize("name", ["revos", "ref_davis17", "rvtbench_grounding"])
def test_responses_that_name_their_frame_reach_it_as_well(build, films, name):
    reader = plugins.build("models", parse(READERS[1]))
    assert all(one.is_passed for one in verify(build(name, films), reader))


@pytest.mark.parametrize("spec", SPECS)
def test_two_passes_give_equal_samples_whose_ids_are_hidden_from_models(build, films, spec):
    task = build(spec, films)

    def seen():
        for one in task.samples():
            media = [(item.id, item.size, len(item)) for item in one.query.media]
            yield (
                one.id,
                one.query.id,
                one.query.text,
                one.query.options,
                media,
                one.target,
                one.unit,
                one.group,
                dict(one.categories),
            )

    first = list(seen())
    assert first == list(seen()) and len({one[0] for one in first}) == len(first)
    assert all(one[1] == query_id(one[0]) for one in first)
    assert all(path.is_file() for path in task.annotations)


def test_no_pass_decodes_an_image_and_samples_come_one_by_one(build, films, monkeypatch):
    def refuse(*_):
        raise AssertionError("an image was decoded")

    CACHE.clear()
    monkeypatch.setattr("harness.media.decode_image", refuse)
    for spec in (*SPECS, "ref_youtube_vos(split=valid)"):
        task = build(spec, films)
        assert not list(task.check())
        assert isinstance(task.samples(), types.GeneratorType)
        assert len(list(islice(task.samples(), 2))) == 2


# Cards


@pytest.mark.parametrize("name", NAMES)
def test_cards_are_filled_and_say_what_the_task_does(name):
    shown = card(name)
    for field in fields(Card):
        value = getattr(shown, field.name)
        if not value and field.name in ("hub", "videos", "counts"):
            continue  # for those that have a download, videos, or several ways to count
        assert value and not (isinstance(value, str) and "TODO" in value), field.name
    assert shown.name == name == plugins.installed_plugins("tasks")[name].name
    assert "arXiv" in shown.paper and "ROOT/" in shown.data
    hints = typing.get_type_hints(getattr(module(name), name))
    assert set(shown.splits) == set(typing.get_args(hints["split"]))
    defaults = inspect.signature(getattr(module(name), name)).parameters
    assert defaults["split"].default == shown.default_split
    assert defaults["protocol"].default == shown.protocol
    assert list(shown.protocols) == list(module(name).PROTOCOLS)
    for key, protocol in module(name).PROTOCOLS.items():
        assert protocol.name == key and protocol.about
        assert all(metric.about for metric in protocol.metrics)
    assert module(name).PROTOCOLS[shown.protocol].headline == shown.headline
    json.loads(shown.example)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_the_default_split_alone_and_small(build, example, name):
    task = build(name, example(name))
    assert task.split == card(name).default_split and not list(task.check())
    assert tuple(map(str, task.forms)) == card(name).forms
    assert task.protocol.headline == card(name).headline
    samples = list(task.samples())
    assert len(samples) == (12 if name == "ref_davis17" else 3)  # four annotators, three objects
    assert all(sample.target is not None for sample in samples)
    files = [path for path in example(name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 60_000
    for split in set(card(name).splits) - {task.split}:
        if (name, split) == ("ref_youtube_vos", "train"):
            continue  # it is the folder of train_dev as well
        with pytest.raises(DataError, match="harness list tasks"):
            build(f"{name}(split={split})", example(name))
    with pytest.raises(UsageError, match=task.split):
        build(f"{name}(split=validation)", example(name))
    with pytest.raises(UsageError, match=card(name).protocol):
        build(f"{name}(protocol=miou)", example(name))


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_what_the_writer_makes_of_seed_11_and_size_3(example, tmp_path, name):
    out = tmp_path / "made"
    make(out, seed=11, size=3, writers={name: import_module(f"harness.tasks.{name}.writer").write})
    for path in example(name).rglob("*"):
        other = out / path.relative_to(example(name))
        if path.suffix == ".png":
            assert path.read_bytes() == other.read_bytes()
        elif path.suffix == ".jpg":
            first, second = (np.asarray(Image.open(one), int) for one in (path, other))
            assert abs(first - second).mean() < 2  # decoders may differ
        elif path.is_file():
            assert other.is_file()


def test_the_record_and_the_ids_of_revos(build, tmp_path):
    root = tmp_path / "revos"
    plain = json.loads(card("revos").example)
    ((video, entry),) = plain["videos"].items()
    entry["expressions"]["12"] = {
        "exp": " The  other",
        "obj_id": [1, 2],
        "anno_id": [42, 43],
        "type_id": 0,
    }
    film(root / "JPEGImages" / video, entry["frames"], (entry["width"], entry["height"]))
    full = Rle.full(720, 1280).to_json()
    write(root / "meta_expressions_valid_.json", plain)
    write(root / "mask_dict.json", {"42": [full, None], "43": [None, full]})
    first, second = build("revos", tmp_path).samples()
    assert f"`{first.id}`" in card("revos").ids and first.id == "OVIS/abc123/0"
    assert first.group == second.group == "OVIS/abc123" and second.id == "OVIS/abc123/12"
    assert (first.query.text, second.query.text) == (
        "Which animal would win the race?",
        "The other",
    )
    assert first.categories == {"type": "reasoning", "objects": "one"}
    assert second.categories == {"type": "referring", "objects": "several"}
    assert [mask.area > 0 for mask in first.target.answer.masks] == [True, False]
    assert [mask.area > 0 for mask in second.target.answer.masks] == [True, True], "their union"


def film(folder: Path, frames, size=(12, 8)) -> None:
    folder.mkdir(parents=True)
    for frame in frames:
        Image.new("RGB", size).save(folder / f"{frame}.jpg")


def write(path: Path, plain) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain), encoding="utf-8")


def change(path: Path, edit) -> None:
    plain = json.loads(path.read_text(encoding="utf-8"))
    edit(plain)
    path.write_text(json.dumps(plain), encoding="utf-8")


def first_video(plain):
    return next(iter(plain["videos"].values()))


# ReVOS


def answer(sample, masks=None, **said) -> Prediction:
    return Prediction(query_id=sample.query.id, answer=Answer(masks=masks, **said))


def lost(sample) -> Prediction:
    return Prediction(query_id=sample.query.id, failure=Failure(FailureKind.PARSE, "unreadable"))


def test_overall_is_the_mean_of_two_types_and_hallucination_counts_nowhere(build, films):
    task = build("revos", films)
    samples = list(task.samples())

    def scored(wrong):
        units = [
            score_unit(
                task,
                [one],
                [
                    lost(one)
                    if one.categories["type"] in wrong
                    else answer(one, one.target.answer.masks)
                ],
            )
            for one in samples
        ]
        return values(task, units)

    assert scored([])["J&F"] == 1.0
    found = scored(["hallucination"])
    assert found["J&F"] == 1.0 and found["J hallucination"] == 0.0
    for wrong, right in (("referring", "reasoning"), ("reasoning", "referring")):
        found = scored([wrong])
        assert (found[f"J {wrong}"], found[f"J {right}"], found["J"]) == (0.0, 1.0, 0.5)
        assert found[f"J&F {right}"] == 1.0 and found["J&F"] == 0.5


def test_an_empty_answer_to_what_is_not_there_is_right_and_no_answer_is_wrong(build, films):
    task = build("revos(protocol=revos/binary)", films)
    sample = next(one for one in task.samples() if one.categories["type"] == "hallucination")
    assert not any(mask.area for mask in sample.target.answer.masks)
    for output in (answer(sample, no_target=True), answer(sample, sample.target.answer.masks)):
        unit = score_unit(task, [sample], [output])
        assert {one.value for one in unit.scores.values()} == {1.0}
    assert {one.value for one in score_unit(task, [sample], [lost(sample)]).scores.values()} == {
        0.0
    }


def test_robustness_and_accuracy_depend_on_the_bytes_of_a_prediction(build, films):
    found = {}
    for protocol in ("visa255", "binary"):
        task = build(f"revos(protocol=revos/{protocol})", films)
        sample = next(one for one in task.samples() if one.categories["type"] == "referring")
        wrong = [mask.to_array() for mask in sample.target.answer.masks]
        for mask in wrong:
            mask[0, :2] = True  # two pixels that are not meant
        masks = tuple(Rle.from_array(mask) for mask in wrong)
        scores = score_unit(task, [sample], [answer(sample, masks)]).scores
        found[protocol] = {name.split()[0]: one.value for name, one in scores.items()}
    assert found["visa255"]["J"] == found["binary"]["J"] > 0.9
    assert found["visa255"]["R"] < found["binary"]["R"] < 1
    assert found["visa255"]["A"] < found["binary"]["A"] < 1


def test_the_foreground_is_that_of_the_file_or_the_union_of_the_videos_objects(build, copied):
    data = copied("revos")
    kept = build("revos", data)
    around = [one.target.extra["foreground"] for one in kept.samples()]
    (data / "revos" / "mask_dict_foreground.json").unlink()
    computed = build("revos", data)
    assert [one.target.extra["foreground"] for one in computed.samples()] == around
    assert kept.arguments["foreground"] != computed.arguments["foreground"]
    assert len(computed.annotations) == len(kept.annotations) - 1


META, MASKS, AROUND = "meta_expressions_valid_.json", "mask_dict.json", "mask_dict_foreground.json"


def spoil(edit):
    return lambda path: change(path, edit)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def smaller(plain) -> None:
    for track in plain.values():
        for mask in track:
            if mask is not None:
                mask |= {"size": [8, 8], "counts": [64]}


def expression(number: str, **changes):
    def edit(plain):
        entry = first_video(plain)["expressions"][number]
        entry.update(changes)
        for key, value in changes.items():
            if value is None:
                del entry[key]

    return edit


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (META, cut, rf"{META}.*complete JSON"),
        (MASKS, cut, rf"{MASKS}.*complete JSON"),
        (AROUND, cut, rf"{AROUND}.*complete JSON"),
        (
            MASKS,
            spoil(lambda plain: [track.pop() for track in plain.values()]),
            r"annotation.*3 masks",
        ),
        (MASKS, spoil(smaller), r"annotation \d+, frame 0: .*168 × 168.*8 × 8"),
        (MASKS, spoil(lambda plain: plain.clear()), rf"{MASKS}.*'\d+': .*none"),
        (AROUND, spoil(lambda plain: plain.clear()), rf"{AROUND}, video .*none"),
        (META, spoil(expression("0", anno_id=None)), r"expression '0': 'anno_id'"),
        (META, spoil(expression("0", anno_id=[None])), r"'anno_id': .*None"),
        (META, spoil(expression("1", type_id=3)), r"expression '1': 'type_id'.*found 3"),
        (META, spoil(expression("1", exp=7)), r"expression '1': 'exp'"),
        (
            META,
            spoil(lambda plain: first_video(plain).update(frames=[])),
            r"'frames': .*none",
        ),
        (META, spoil(lambda plain: first_video(plain).pop("height")), r"video .*'height'"),
        (
            META,
            spoil(lambda plain: plain["videos"].update({"../x": first_video(plain)})),
            r"\.\./x",
        ),
    ],
)
def test_a_damaged_file_of_revos_is_refused_by_name(build, copied, name, damage, message):
    data = copied("revos")
    damage(data / "revos" / name)
    with pytest.raises(DataError, match=message):
        list(build("revos", data).samples())
    try:
        problems = list(build("revos", data).check())
    except DataError:
        return  # it cannot be opened at all
    assert problems


def test_the_check_of_revos_names_a_missing_frame_and_an_expression_without_object(build, copied):
    data = copied("revos")
    gone = sorted((data / "revos" / "JPEGImages" / "shapes").rglob("*.jpg"))[0]
    while "258ee9089662" not in str(gone):  # a video of the split that is checked
        gone = next(path for path in gone.parents[1].rglob("*.jpg") if "258ee9089662" in str(path))
    gone.unlink()
    change(data / "revos" / META, expression("0", anno_id=[], obj_id=[]))
    task = build("revos", data)
    assert [problem.path for problem in task.check()] == [str(gone)]
    lacking = next(iter(task.samples()))
    assert lacking.query.media[0].fault and lacking.categories["objects"] == "none"
    Image.new("RGB", lacking.query.size).save(gone)
    (problem,) = task.check()
    assert problem.path == f"sample {lacking.id!r}" and "no object" in problem.message


# Ref-YouTube-VOS


def test_the_rule_of_the_split_depends_on_names_alone_and_takes_one_in_ten():
    names = [f"{number:010x}" for number in range(20_000)]
    share = np.mean([held_out(name) for name in names])
    assert 0.09 < share < 0.115
    videos = dict.fromkeys(names[:500])
    fit, dev = (choose_videos(split, videos, {}, "x") for split in ("train_fit", "train_dev"))
    assert not set(fit) & set(dev) and set(fit) | set(dev) == set(videos)
    assert list(fit) == [name for name in videos if name in fit], "in the order of the file"
    assert choose_videos("train", videos, {}, "x") == videos


@pytest.mark.parametrize(
    ("listed", "tested", "right"),
    [
        (507, 305, True),
        (507, 304, False),
        (507, 0, False),
        (VALID, 0, True),
        (300, 0, False),
        (VALID - 1, 0, False),
        (9, 4, False),
        (3, 0, False),
    ],
)
def test_valid_of_the_organisers_has_202_videos_or_is_refused(listed, tested, right):
    names = [f"v{number}" for number in range(listed)]
    videos, test = dict.fromkeys(names), dict.fromkeys(names[:tested])
    if right:
        assert len(choose_videos("valid", videos, test, "x")) == listed - tested
    else:
        with pytest.raises(DataError, match=rf"202 .*found {listed - tested} of {listed}\b"):
            choose_videos("valid", videos, test, "x")
        kept = choose_videos("valid", videos, test, "x", generated=True)
        assert len(kept) == listed - tested, "a generated world has as many as were asked for"


def test_the_zip_of_valid_is_in_the_layout_of_the_server(build, films, tmp_path):
    task = build("ref_youtube_vos(split=valid)", films)
    model = plugins.build("models", "whole_frame")
    done = evaluate(task, model, tmp_path / "run", Options())
    assert set(done.results["metrics"].values()) == {None}
    shutil.unpack_archive(done.folder / "submission.zip", tmp_path / "said")
    plain = json.loads(
        (films / "ref_youtube_vos/meta_expressions/valid/meta_expressions.json").read_text()
    )["videos"]
    test = json.loads(
        (films / "ref_youtube_vos/meta_expressions/test/meta_expressions.json").read_text()
    )["videos"]
    assert test and set(test) < set(plain), "the file of valid has the videos of test as well"
    expected = {
        f"Annotations/{video}/{number}/{frame}.png"
        for video, entry in plain.items()
        if video not in test
        for number in entry["expressions"]
        for frame in entry["frames"]
    }
    files = {
        str(path.relative_to(tmp_path / "said")) for path in (tmp_path / "said").rglob("*.png")
    }
    assert files == expected
    for output in png_tree(tmp_path / "said", task.samples()):
        assert all(mask.area == mask.width * mask.height for mask in output.answer.masks)


YTVOS = "meta_expressions/train/meta_expressions.json"


def dev_video(root: Path) -> str:
    plain = json.loads((root / YTVOS).read_text())["videos"]
    return next(name for name in plain if held_out(name))


def dev_expression(**changes):
    def edit(plain):
        entry = next(video for name, video in plain["videos"].items() if held_out(name))
        output = entry["expressions"]["0"]
        output.update(changes)
        for key, value in changes.items():
            if value is None:
                del output[key]

    return edit


def labels_of(root: Path) -> list[Path]:
    return sorted((root / "train" / "Annotations" / dev_video(root)).glob("*.png"))


def strange(root: Path) -> None:
    size = Image.open(labels_of(root)[1]).size[::-1]
    labels_of(root)[1].write_bytes(palette_png(np.full(size, 77, np.uint8)))


def other_size(root: Path) -> None:
    labels_of(root)[0].write_bytes(palette_png(np.zeros((9, 9), np.uint8)))


def halved(root: Path) -> None:
    path = labels_of(root)[2]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: labels_of(root)[3].unlink(), r"00006\.png: .*none"),
        (halved, r"annotation .*00004\.png.*complete PNG"),
        (other_size, r"annotation .*00000\.png.*found 9 × 9"),
        (strange, r"00002\.png: .*1, 2, 3, 4.*77"),
        (lambda root: cut(root / YTVOS), "complete JSON"),
        (lambda root: cut(root / "train" / "meta.json"), r"meta\.json.*complete JSON"),
        (
            lambda root: change(root / "train/meta.json", lambda plain: plain["videos"].clear()),
            r"meta\.json, video",
        ),
        (
            lambda root: change(root / YTVOS, dev_expression(obj_id=None)),
            "expression '0': 'obj_id'",
        ),
        (
            lambda root: change(root / YTVOS, dev_expression(obj_id="99")),
            "'obj_id': .*1, 2, 3, 4.*'99'",
        ),
        (lambda root: change(root / YTVOS, dev_expression(exp=None)), "expression '0': 'exp'"),
    ],
)
def test_a_damaged_file_of_ref_youtube_vos_is_refused_by_name(build, copied, damage, message):
    data = copied("ref_youtube_vos")
    damage(data / "ref_youtube_vos")
    with pytest.raises(DataError, match=message):
        list(build("ref_youtube_vos", data).samples())
    try:
        problems = list(build("ref_youtube_vos", data).check())
    except DataError:
        return
    assert problems


def test_the_check_of_ref_youtube_vos_names_an_object_that_no_frame_shows(build, copied):
    data = copied("ref_youtube_vos")
    root = data / "ref_youtube_vos"
    size = Image.open(labels_of(root)[0]).size[::-1]
    for path in labels_of(root):
        path.write_bytes(palette_png(np.zeros(size, np.uint8)))
    problems = list(build("ref_youtube_vos", data).check())
    assert problems and all("object" in one.message for one in problems)
    images = root / "train" / "JPEGImages" / dev_video(root)
    gone = sorted(images.glob("*.jpg"))[1]
    gone.unlink()
    assert str(gone) in [one.path for one in build("ref_youtube_vos", data).check()]


# Ref-DAVIS17


def test_a_unit_is_a_video_and_an_annotator_and_follows_itself(build, films):
    samples = list(build("ref_davis17", films).samples())
    units = [sample.unit for sample in samples]
    assert len(set(units)) == 4 * len({sample.group for sample in samples})
    assert units == sorted(units, key=units.index), "no unit is interrupted"
    for sample in samples:
        annotator = int(sample.id.rsplit("/", 1)[1]) % 4
        assert sample.unit == f"{sample.group}, annotator {annotator + 1}"
        assert sample.categories["annotator"][0] == str(1 + annotator // 2)
    alone = list(build("ref_davis17(protocol=rvos/visa_davis)", films).samples())
    assert [one.id for one in alone] == [one.id for one in samples]
    assert all(one.unit == one.id for one in alone)


def unit_of(task) -> list:
    samples = list(task.samples())
    counts = {one.unit: sum(other.unit == one.unit for other in samples) for one in samples}
    wanted = max(counts, key=counts.get)
    return [one for one in samples if one.unit == wanted]


def test_the_first_frame_says_how_many_objects_there_are(tmp_path):
    """The third appears too late to be one, and the first is one though that frame lacks it."""
    paths = []
    for number, labels in enumerate(([[0, 2, 255]], [[1, 2, 3]])):
        paths.append(tmp_path / f"{number}.png")
        paths[-1].write_bytes(palette_png(np.array(labels, np.uint8)))
    media = pixels([np.zeros((1, 3, 3), np.uint8)] * 2, times=[0, 1], is_video=True, id="x")
    found = ground_truth_of_video(paths, media)
    assert [sum(mask.area for mask in track) for track in found.objects] == [1, 2]
    assert [mask.area for mask in found.void] == [1, 0]
    assert sorted(found.tracks) == [1, 2, 3], "an expression may mean the third"


def test_objects_compete_for_pixels_and_names_do_not_matter(build, films):
    task = build("ref_davis17", films)
    unit = unit_of(task)
    assert len(unit) == 3
    ground_truth = [one.target.answer.masks for one in unit]
    swapped = [answer(one, masks) for one, masks in zip(unit, ground_truth[::-1], strict=True)]
    scores = score_unit(task, unit, swapped).scores
    assert scores["J"].value == scores["F"].value == 1.0 and scores["J"].weight == 3
    alone = build("ref_davis17(protocol=rvos/visa_davis)", films)
    by_id = {one.id: one for one in alone.samples()}
    wrong = [
        score_unit(alone, [by_id[one.id]], [output])
        for one, output in zip(unit, swapped, strict=True)
    ]
    assert values(alone, wrong)["J"] < 0.5, "there each expression has its own object"


def test_confidences_decide_where_masks_overlap(build, films):
    task = build("ref_davis17", films)
    unit = unit_of(task)
    width, height = unit[0].query.size

    def soft(sample, sure):
        shown = [mask.to_array() for mask in sample.target.answer.masks]
        # Half as sure of everything else: below 0.5 it counts as nothing.
        levels = [np.where(mask, sure, 0.45) for mask in shown]
        return Prediction(
            query_id=sample.query.id,
            answer=Answer(soft_masks=tuple(SoftMask.from_array(level) for level in levels)),
        )

    output = [soft(sample, 0.6 + 0.1 * place) for place, sample in enumerate(unit)]
    assert score_unit(task, unit, output).scores["J"].value == 1.0
    everything = answer(unit[0], (Rle.full(height, width),) * len(unit[0].query.media[0]))
    first = score_unit(task, unit, [everything, *output[1:]]).scores["J"].value
    assert first < 0.5, "of equal or larger confidence, the first object has the pixel"


def test_void_pixels_do_not_count_by_davis_and_do_by_visa(build, films):
    task = build("ref_davis17", films)
    unit = next(
        [one for one in task.samples() if one.unit == sample.unit]
        for sample in task.samples()
        if any(mask.area for mask in sample.target.ignore)
    )
    first = unit[0]
    spilled = tuple(
        mask.union(void)
        for mask, void in zip(first.target.answer.masks, first.target.ignore, strict=True)
    )
    output = [answer(first, spilled), *(answer(one, one.target.answer.masks) for one in unit[1:])]
    assert score_unit(task, unit, output).scores["J"].value == 1.0
    alone = build("ref_davis17(protocol=rvos/visa_davis)", films)
    sample = next(one for one in alone.samples() if one.id == first.id)
    assert score_unit(alone, [sample], [output[0]]).scores["J"].value < 1.0


def test_an_expression_without_an_answer_leaves_its_object_without_a_proposal(build, films):
    task = build("ref_davis17", films)
    unit = unit_of(task)
    output = [lost(unit[0]), *(answer(one, one.target.answer.masks) for one in unit[1:])]
    done = score_unit(task, unit, output)
    assert done.failed == 1
    empty = [not mask.area for mask in unit[0].target.answer.masks]
    assert done.scores["J"].value == pytest.approx((2 + np.mean(empty)) / 3)
    none = score_unit(task, unit, [lost(one) for one in unit])
    assert none.scores["J"].value < 0.4 and none.failed == 3


def davis_expressions(edit):
    def changed(plain):
        edit(first_video(plain)["expressions"])

    return changed


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda said: said.popitem(), "'expressions': .*found 11"),
        (lambda said: said.clear(), "'expressions': .*found 0"),
        (lambda said: said["1"].update(obj_id="2"), "expressions 0, 1, 2, 3.*one 'obj_id'"),
        (lambda said: said["2"].pop("obj_id"), "expression '2': 'obj_id'"),
        (lambda said: said["0"].pop("exp"), "expression '0': 'exp'"),
        (
            lambda said: [one.update(obj_id="255") for one in list(said.values())[:4]],
            "from 1 to 254",
        ),
        (lambda said: [one.update(obj_id="x") for one in list(said.values())[:4]], "from 1 to 254"),
    ],
)
def test_wrong_expressions_of_ref_davis17_are_refused_by_name(build, copied, edit, message):
    data = copied("ref_davis17")
    meta = data / "ref_davis17/meta_expressions/valid/meta_expressions.json"
    change(meta, davis_expressions(edit))
    task = build("ref_davis17", data)
    with pytest.raises(DataError, match=message):
        list(task.samples())
    assert list(task.check())


def test_damaged_annotations_of_ref_davis17_are_refused_by_name(build, copied):
    data = copied("ref_davis17")
    paths = sorted((data / "ref_davis17/valid/Annotations").rglob("*.png"))
    whole = paths[0].read_bytes()
    paths[0].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"annotation .*00000\.png.*complete PNG"):
        list(build("ref_davis17", data).samples())
    paths[0].write_bytes(palette_png(np.zeros((9, 9), np.uint8)))
    with pytest.raises(DataError, match=r"00000\.png.*found 9 × 9"):
        list(build("ref_davis17", data).samples())
    paths[0].unlink()
    assert str(paths[0]) in [one.path for one in build("ref_davis17", data).check()]


def test_objects_that_appear_after_the_first_frame_are_none_for_davis(build, copied):
    data = copied("ref_davis17")
    sample = next(iter(build("ref_davis17", data).samples()))
    before = sample.target.extra["objects"]
    place = data / "ref_davis17/valid/Annotations" / sample.group
    first, second = sorted(place.glob("*.png"))[:2]
    relabel(second, lambda labels: labels == 0, 9)
    assert next(iter(build("ref_davis17", data).samples())).target.extra["objects"] == before
    relabel(first, lambda labels: np.indices(labels.shape).sum(axis=0) == 0, 9)
    after = next(iter(build("ref_davis17", data).samples())).target.extra["objects"]
    assert len(after) == 9 > len(before)
    assert not any(mask.area for mask in after[7]), "one that is skipped has no pixels"


def relabel(path: Path, where, value: int) -> None:
    labels = np.asarray(Image.open(path)).copy()
    labels[where(labels)] = value
    path.write_bytes(palette_png(labels))


# Numbers that every video score shares


def test_how_far_outlines_may_be_apart():
    assert [boundary_radius(*size) for size in ((480, 854), (720, 1280), (1080, 1920))] == [
        8,
        12,
        18,
    ]


@pytest.mark.parametrize("name", ["ref_youtube_vos", "jitbench", "rvtbench_seg"])
def test_j_and_f_of_nothing_and_nothing_are_1_and_a_failure_scores_0(build, films, name):
    task = build(name, films)
    sample = next(iter(task.samples()))
    width, height = sample.query.size
    frames = len(sample.query.media[0])
    empty = Answer(masks=(Rle.empty(height, width),) * frames)
    nothing = replace(sample, target=replace(sample.target, answer=empty))
    for output in (answer(nothing, empty.masks), answer(nothing, no_target=True)):
        assert {one.value for one in score_unit(task, [nothing], [output]).scores.values()} == {1.0}
    assert {one.value for one in score_unit(task, [nothing], [lost(nothing)]).scores.values()} == {
        0
    }
