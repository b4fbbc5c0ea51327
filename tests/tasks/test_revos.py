"""ReVOS: what counts, and files that are not as they should be."""

import pytest
from PIL import Image

from harness.errors import DataError
from harness.masks import Rle
from harness.run.scoring import score_unit
from harness.summary import values

from .video_task_files import answer, change, cut, first_video, lost


def test_overall_is_the_mean_of_two_types_and_hallucination_counts_nowhere(build, shapes):
    task = build("revos", shapes)
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


def test_an_empty_answer_to_what_is_not_there_is_right_and_no_answer_is_wrong(build, shapes):
    task = build("revos(protocol=revos/binary)", shapes)
    sample = next(one for one in task.samples() if one.categories["type"] == "hallucination")
    assert not any(mask.area for mask in sample.target.answer.masks)
    for output in (answer(sample, no_target=True), answer(sample, sample.target.answer.masks)):
        unit = score_unit(task, [sample], [output])
        assert {one.value for one in unit.scores.values()} == {1.0}
    assert {one.value for one in score_unit(task, [sample], [lost(sample)]).scores.values()} == {
        0.0
    }


def test_robustness_and_accuracy_depend_on_the_bytes_of_a_prediction(build, shapes):
    found = {}
    for protocol in ("visa255", "binary"):
        task = build(f"revos(protocol=revos/{protocol})", shapes)
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
