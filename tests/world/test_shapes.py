import json
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import __version__
from harness.errors import DataError, UsageError
from harness.world.fingerprint import fingerprint
from harness.world.shapes import World, Writer, make, make_world

PINNED = {
    "mevis/train/mask_dict.json": "c80c700116582cad639c4f46c064c91d",
    "mevis/valid_u/mask_dict.json": "fd5a46c02a8192004373aac96cf9334d",
    "mevis/train/meta_expressions.json": "d9b708e307c731ed0dbec4f0b0ac93c2",
    "reason_seg/ReasonSeg/val/val_00000.json": "b66054f1cb076f019b13cfb1f4a5171c",
    "reason_seg/ReasonSeg/train/train_00007.json": "cc7b5401d88657809f937a1d878e07c9",
}
PINNED_PNG = (
    "02e8ca4518e65d4a16896e73e64dc77a37de28d03b022c0814c3872a31d54847",
    "82e0d27720b9883277c95aaa70986a70",
)


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_two_makes_are_equal_byte_for_byte(
    root: Path, small: World, writers: Mapping[str, Writer], tmp_path: Path
) -> None:
    make(tmp_path / "again", seed=small.seed, size=small.size, writers=writers)
    assert contents(tmp_path / "again") == contents(root)


def test_a_world_that_gets_its_benchmarks_in_two_steps_is_the_one_made_at_once(
    root: Path, small: World, writers: Mapping[str, Writer], tmp_path: Path
) -> None:
    """Also where benchmarks share files, such as those of `refer_seg`."""
    names = sorted(writers)
    world = {"seed": small.seed, "size": small.size}
    for chosen in (names[::2], names[1::2]):
        make(tmp_path / "data", **world, writers={name: writers[name] for name in chosen})
    assert contents(tmp_path / "data") == contents(root)


def test_a_benchmark_is_added_only_to_a_world_of_the_same_seed_and_size(tmp_path: Path) -> None:
    def writer(name: str, text: str) -> Writer:
        return lambda world, root: (root / name).write_text(text) and None

    out = tmp_path / "data"
    make(out, seed=1, size=2, writers={"a": writer("a", "1")})
    before = contents(out)
    for seed, size in ((2, 2), (1, 3)):
        with pytest.raises(UsageError, match="--seed 1 --size 2"):
            make(out, seed=seed, size=size, writers={"b": writer("b", "1")})
    with pytest.raises(UsageError, match="another"):
        make(out, seed=1, size=2, writers={"a": writer("a", "2"), "b": writer("b", "1")})
    assert contents(out) == before and len(list(tmp_path.iterdir())) == 1
    (out / "shapes.json").write_text("{")
    with pytest.raises(DataError, match=r"shapes\.json"):
        make(out, seed=1, size=2, writers={})


def test_the_manifest_is_pinned_where_bytes_are_equal_everywhere(root: Path) -> None:
    manifest = json.loads((root / "shapes.json").read_text(encoding="utf-8"))
    assert {key: manifest[key] for key in ("format", "harness", "seed", "size")} == {
        "format": 1,
        "harness": __version__,
        "seed": 5,
        "size": 9,
    }
    files = manifest["files"]
    assert {name: files[name]["bytes"] for name in PINNED} == PINNED
    sha256, digest = PINNED_PNG
    assert files[f"counting/pixmo-count/images/{sha256}"] == {"bytes": digest}


def test_the_manifest_names_every_file_with_its_digest(root: Path) -> None:
    manifest = json.loads((root / "shapes.json").read_text(encoding="utf-8"))
    names = set(contents(root)) - {"shapes.json"}
    assert set(manifest["files"]) == names and len(names) > 100
    kinds = {".json": "bytes", "": "bytes", ".jpg": "pixels", ".parquet": "rows"}
    for name, digest in manifest["files"].items():
        assert list(digest) == [kinds[Path(name).suffix]]
        assert digest == fingerprint(root / name)


def test_pixels_are_hashed_and_not_the_file_of_a_jpeg(tmp_path: Path) -> None:
    image = Image.fromarray(np.full((16, 16, 3), 128, dtype=np.uint8))
    for name, comment in (("a.jpg", b"one"), ("b.jpg", b"another")):
        image.save(tmp_path / name, quality=95, comment=comment)
    assert (tmp_path / "a.jpg").read_bytes() != (tmp_path / "b.jpg").read_bytes()
    assert fingerprint(tmp_path / "a.jpg") == fingerprint(tmp_path / "b.jpg")
    image.transpose(Image.Transpose.ROTATE_90).crop((0, 0, 16, 15)).save(tmp_path / "c.jpg")
    assert fingerprint(tmp_path / "c.jpg") != fingerprint(tmp_path / "a.jpg")


def test_rows_are_hashed_and_not_the_file_of_a_table(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"count": [1, 2], "bytes": [b"x", b"y"]})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    parquet.write_table(table, tmp_path / "b.parquet", compression="none")
    parquet.write_table(table.slice(1), tmp_path / "c.parquet")
    prints = [fingerprint(tmp_path / f"{name}.parquet") for name in "abc"]
    assert prints[0] == prints[1] != prints[2]


def test_a_world_has_so_many_questions_a_family_and_split(small: World) -> None:
    for (family, split), examples in small.examples.items():
        requested = sum(len(example.questions) + len(example.quizzes) for example in examples)
        assert requested == (36 if split == "train" else 9), (family, split)
    old, new = {"still", "video", "count", "countbench"}, {"qa", "referring", "qa_video"}
    assert {family for family, _ in small.examples} == old | new | {"arrivals"}
    assert len(small.examples) == len(list(small.examples)) == 3 * 7 + 1
    assert ("countbench", "val") not in small.examples
    assert 2 <= len(small.examples_of("video", "val")) <= 4


def test_a_world_is_frozen(small: World) -> None:
    with pytest.raises(FrozenInstanceError):
        small.seed = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        small.examples["still", "val"] = ()  # type: ignore[index]


def test_a_world_of_no_samples_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^size .*1 sample.*found 0"):
        make_world(seed=1, size=0)


def test_a_folder_with_something_in_it_is_refused_by_name(tmp_path: Path) -> None:
    out = tmp_path / "data"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match=r"/data: .*1 entries"):
        make(out, seed=1, size=1, writers={})
    assert contents(tmp_path) == {"data/mine.txt": b"keep"}


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("keep")
    with pytest.raises(UsageError, match=r"/data: .*\bnot\b"):
        make(tmp_path / "data", seed=1, size=1, writers={})


def test_an_empty_folder_is_filled_and_missing_parents_are_made(tmp_path: Path) -> None:
    out = tmp_path / "data"
    out.mkdir()
    make(out, seed=1, size=1, writers={})
    make(tmp_path / "a" / "b", seed=1, size=1, writers={})
    assert list(contents(out)) == list(contents(tmp_path / "a" / "b")) == ["shapes.json"]


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken(world: World, root: Path) -> None:
        (root / "half").mkdir()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        make(tmp_path / "data", seed=1, size=1, writers={"broken": broken})
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_step_by_step(tmp_path: Path) -> None:
    info: list[tuple[int, int, str]] = []
    make(
        tmp_path / "data",
        seed=1,
        size=1,
        writers={"b": lambda world, root: None, "a": lambda world, root: None},
        progress=lambda done, total, what: info.append((done, total, what)),
    )
    assert info == [
        (0, 4, "scenes"),
        (1, 4, "a"),
        (2, 4, "b"),
        (3, 4, "shapes.json"),
        (4, 4, ""),
    ]
