"""What the generated world holds in two layouts is read from each, with equal samples."""

import json
import shutil
from dataclasses import replace

import pytest

from harness import plugins
from harness.errors import DataError
from harness.run.verify import verify
from harness.spec import parse
from harness.testing import make_shapes

FORMATS = ("multi-choice", "yes_no", "caption_matching", "captioning")
FIRST = {
    "tempcompass": ("questions",),
    "long_video_bench": ("lvb_val.json", "lvb_test_wo_gt.json"),
    "vsi_bench": ("test.jsonl",),
    "video_mme": ("videomme",),
}
"""What the readers take first: without it, they read the other layout."""
SPECS = (
    *(f"tempcompass(split={one},protocol=tempcompass/strict)" for one in (*FORMATS, "all")),
    "tempcompass(prompt=question)",
    "long_video_bench",
    "long_video_bench(split=test)",
    "vsi_bench",
    "vsi_bench(split=tiny)",
    "vsi_bench(form=numeric)",
    "video_mme",
    "video_mme(duration=long)",
    "video_mme(subtitles=all)",
)
COUNTS = {
    "vsi_bench": 20,
    "vsi_bench(split=tiny)": 10,
    "tempcompass(split=all,protocol=tempcompass/strict)": 32,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    out = tmp_path_factory.mktemp("layouts") / "world"
    make_shapes(out, tasks=FIRST, seed=3)
    return out


@pytest.fixture(scope="module")
def other(world, tmp_path_factory):
    """The same world, less what the readers take first."""
    out = tmp_path_factory.mktemp("other") / "world"
    shutil.copytree(world, out)
    for name, places in FIRST.items():
        for place in places:
            path = out / name / place
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return out


def told(sample):
    media = [(item.id, item.size, len(item)) for item in sample.query.media]
    target = sample.target
    if target is not None and "record" in target.extra:
        record = target.extra["record"]
        target = replace(target, extra={**target.extra, "record": repr(record)})
    return (
        sample.id,
        replace(sample.query, media=()),
        media,
        target,
        sample.unit,
        sample.group,
        dict(sample.categories),
    )


@pytest.mark.parametrize("spec", SPECS)
def test_both_layouts_hold_the_same_samples(build, world, other, spec):
    one, two = build(spec, world), build(spec, other)
    name = parse(spec).name
    assert {path.name for path in one.annotations} != {path.name for path in two.annotations}
    assert all(
        world / name / place not in (path, *path.parents)
        for path in two.annotations
        for place in FIRST[name]
    )
    assert not list(one.check()) and not list(two.check())
    samples = [told(sample) for sample in one.samples()]
    assert samples == [told(sample) for sample in two.samples()]
    assert len(samples) == COUNTS.get(spec, len(samples)) > 0


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "split=test" not in spec])
def test_perfect_answers_reach_the_ceiling_in_the_other_layout(build, other, spec):
    reader = plugins.build("models", parse("qwen_vl(backend=stored)"))
    verdicts = list(verify(build(spec, other), reader))
    assert verdicts and all(one.is_passed for one in verdicts), verdicts


def test_video_mme_finds_videos_by_their_number_where_the_file_has_no_other_name(
    build, other, tmp_path
):
    shutil.copytree(other / "video_mme", tmp_path / "video_mme")
    place = tmp_path / "video_mme"
    videos = json.loads((place / "videomme.json").read_text())
    for video in videos:
        (place / "data" / f"{video['videoID']}.mp4").rename(
            place / "data" / f"{video['video_id']}.mp4"
        )
        del video["videoID"]
    (place / "videomme.json").write_text(json.dumps(videos))
    samples = list(build("video_mme", tmp_path).samples())
    assert [one.id for one in samples] == [one.id for one in build("video_mme", other).samples()]
    assert all(one.query.media[0].fault is None for one in samples)


@pytest.mark.parametrize(
    ("spec", "file"),
    [
        ("tempcompass", "tempcompass/multi-choice/test-00000-of-00001.parquet"),
        ("long_video_bench", "long_video_bench/validation-00000-of-00001.parquet"),
        ("vsi_bench", "vsi_bench/test-00000-of-00001.parquet"),
        ("video_mme", "video_mme/videomme.json"),
    ],
)
def test_a_cut_file_of_the_other_layout_is_refused_by_name(build, other, tmp_path, spec, file):
    shutil.copytree(other / parse(spec).name, tmp_path / parse(spec).name)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=path.name):
        list(build(spec, tmp_path).samples())
    assert any(path.name in problem.message for problem in build(spec, tmp_path).check())
