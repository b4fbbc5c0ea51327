"""What stands in the place of a file is named, with what to type, by every reader of files."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from harness.errors import DataError, ModelError
from harness.foreign import in_place_of, is_leftover, listed, recognise
from harness.formats import read_format
from harness.formats.mask_tree import mask_tree
from harness.interchange.rows import read_rows
from harness.layout import JsonFile, file, parse_line, read_json, read_lines, rows
from harness.layout.mask_image import read_mask_image
from harness.media import image_bytes, open_image
from harness.media import pixels as as_media
from harness.models.backends.weights import check_safetensors
from harness.tasks.qa.tables import listed_ids
from harness.tasks.refer.plain_pickle import read_plain_pickle
from harness.tasks.video_qa.subtitles import srt
from harness.types import AnswerForm, Query, Sample, query_id
from harness.video import video_file

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def packed_tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    return buffer.getvalue()


STRANGERS = {
    "lfs": (POINTER, "Git LFS pointer", "git lfs pull"),
    "annex": (b"../.git/annex/objects/aa/bb/MD5-s3--x", "git-annex", "git annex get"),
    "annex text": (b"/annex/objects/MD5E-s3--0cc.mp4\n", "git-annex", "git annex get"),
    "xet": (b'# xet version 0\nfilesize = 3\nhash = "a"\n', "Xet", "hf download"),
    "dvc": (b"outs:\n- md5: 0cc\n  size: 3\n  path: x\n", "DVC", "dvc pull"),
    "html": (b"\n<!DOCTYPE html>\n<html><title>Sign in</title>", "web page", "login"),
    "old html": (b"<HTML><HEAD>", "web page", "login"),
    "drive": (b"<!-- x --><html lang='en'>", "web page", "login"),
    "storage": (b"<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code>", "AccessDenied", ""),
    "hub": (b"Entry not found", "Entry not found", "again"),
    "github": (b"404: Not Found", "404: Not Found", "again"),
    "apple": (b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X", "AppleDouble", "-delete"),
    "link": (b"../../blobs/0cc1", "a link to '../../blobs/0cc1'", "core.symlinks"),
    "utf-16": ("[]".encode("utf-16"), "UTF-16", "iconv -f utf-16"),
    "gzip": (gzip.compress(b"[]"), "gzip", "gunzip"),
    "tar": (packed_tar(), "tar archive", "tar xf"),
    "zip": (b"PK\x03\x04\x14\x00", "ZIP", "unzip"),
    "avif": (b"\0\0\0\x1cftypavif", "AVIF", "PNG or JPEG"),
    "heic": (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC", "PNG or JPEG"),
    "jpeg 2000": (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000", "PNG or JPEG"),
    "jpeg xl": (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL", "PNG or JPEG"),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "spreadsheet", ".tsv"),
}
IMAGE = as_media([np.zeros((4, 4, 3), np.uint8)], times=(0.0,), is_video=False, id="p")


def asked(name="x"):
    query = Query(id=query_id(name), text="?", media=(IMAGE,), forms=(AnswerForm.MASK,))
    return [Sample(id=name, query=query, target=None)]


READERS = {
    "image": open_image,
    "image of a table": lambda path: image_bytes(path.read_bytes(), str(path)),
    "video": video_file,
    "parquet": lambda path: list(rows(path, ["a"])),
    "json": read_json,
    "large json": lambda path: list(JsonFile(path).items()),
    "lines": lambda path: list(read_lines(path)),
    "weights": check_safetensors,
    "subtitles": srt,
    "ids": listed_ids,
    "pickle": read_plain_pickle,
    "mask": lambda path: read_mask_image(path, f"mask {path}"),
    **{
        f"predictions {name}": lambda path, name=name: read_format(name, path, asked())
        for name in ("jsonl", "lmms-eval", "vlmevalkit", "tempcompass", "sti", "coco", "sa2va")
    },
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_names_what_it_was_given_instead(tmp_path, reader):
    path = tmp_path / "my file.jpg"
    for name, (data, found, fix) in STRANGERS.items():
        path.write_bytes(data)
        with pytest.raises((DataError, ModelError)) as error:
            READERS[reader](path)
        assert found in str(error.value) and fix in str(error.value), (name, error.value)
        assert "my file.jpg" in str(error.value)


@given(
    st.one_of(
        st.binary(max_size=64).map(lambda tail: b"\x89PNG\r\n\x1a\n" + tail),
        st.binary(max_size=64).map(lambda tail: b"\xff\xd8\xff" + tail),
        st.text(max_size=64).map(lambda text: b'{"id": "' + text.encode()),
        st.text(max_size=64).map(lambda text: f"index\tprediction\n0\t{text}".encode()),
    )
)
def test_what_is_in_its_own_place_is_no_stranger(head):
    assert recognise(head) is None


@pytest.mark.parametrize(
    ("beside", "fix"),
    [
        ("x.JPG", 'for f in *.JPG; do mv "$f" "${f%JPG}jpg"; done'),
        ("x.jpeg", 'for f in *.jpeg; do mv "$f" "${f%jpeg}jpg"; done'),
        ("x.png", 'for f in *.png; do mv "$f" "${f%png}jpg"; done'),
        ("x.jpg.part", "unfinished download"),
        ("x.jpg.gz", "gunzip x.jpg.gz"),
        ("x.jpg.dvc", "dvc pull"),
        (".x.jpg.icloud", "brctl download x.jpg"),
    ],
)
def test_what_lies_beside_the_place_of_a_missing_file_is_named(tmp_path, beside, fix):
    (tmp_path / beside).write_bytes(b"x")
    for read in (open_image, lambda path: file(path, fix="fetch it"), video_file):
        with pytest.raises(DataError) as error:
            read(tmp_path / "x.jpg")
        assert fix in str(error.value)
    assert in_place_of(tmp_path / "y.jpg") is None


@pytest.mark.parametrize(
    ("data", "fix"),
    [
        (b'[\n {"id": "x", "no_target": true}\n]', "jq -c '.[]' x.json"),
        (b'\xef\xbb\xbf[{"id": "x", "no_target": true}]', "jq -c '.[]' x.json"),
        (b'{"id": "x", "no_target": true}\n' + b"\0" * 9, "line 2: .* 9 zero bytes"),
        (b'{"id": "x", "no_tar' + b"\0" * 12 + b"\n", "line 1: .* 12 zero bytes"),
    ],
)
def test_lines_of_json_that_are_a_list_or_end_in_zeros_are_told(tmp_path, data, fix):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    readers = (
        lambda: list(read_rows(path)),
        lambda: [parse_line(line, where) for where, line in read_lines(path)],
    )
    for read in readers:
        with pytest.raises(DataError, match=fix.replace("[", r"\[")):
            read()


def test_leftovers_are_not_listed_and_capitals_are(tmp_path):
    kept = ["a.png", "b.PNG", "sub/c.png"]
    left = ["._a.png", "__MACOSX/a.png", "sub/._c.png", ".DS_Store", "@eaDir/a.png", "~$t.png"]
    for name in (*kept, *left, "Thumbs.db", "desktop.ini"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [str(path.relative_to(tmp_path)) for path in listed(tmp_path, "**/*.png")] == kept
    assert [path.name for path in listed(tmp_path)] == ["a.png", "b.PNG", "sub"]
    assert not any(map(is_leftover, listed(tmp_path / "sub")))


def test_masks_beside_leftovers_in_capitals_or_in_colours_are_read(tmp_path):
    mask = np.arange(16).reshape(4, 4) % 3 == 0
    grey = (mask * 255).astype(np.uint8)
    opaque = np.full((4, 4), 255, np.uint8)
    for number, array in enumerate((grey, np.dstack([grey] * 3), np.dstack([grey] * 3 + [opaque]))):
        folder = tmp_path / str(number)
        (folder / "__MACOSX").mkdir(parents=True)
        for beside in ("__MACOSX/._x.png", "._x.PNG", ".DS_Store", "Thumbs.db", "desktop.ini"):
            (folder / beside).write_bytes(b"\x00\x05\x16\x07")
        Image.fromarray(array).save(folder / "x.PNG")
        (found,) = mask_tree(folder, asked())
        assert np.array_equal(found.answer.masks[0].to_array(), mask)


@pytest.mark.parametrize("name", ["x.png", "x.jpg", "x.JPEG"])
def test_a_jpeg_is_refused_as_one_whatever_its_name_is(tmp_path, name):
    Image.new("L", (4, 4)).save(tmp_path / name, "JPEG")
    with pytest.raises(DataError, match=rf"{name}: expected a PNG, found a JPEG.*write the masks"):
        list(mask_tree(tmp_path, asked()))


@pytest.mark.parametrize("change", [(0, 0, 0, 255), (1, 1, 1, 9), (0, 0, 9, 9)])
def test_colours_and_transparency_are_no_mask(tmp_path, change):
    pixels = np.full((4, 4, 4), 255, np.uint8)
    pixels[0, 0] = np.where(np.array(change) == 9, 7, pixels[0, 0])
    Image.fromarray(pixels).save(tmp_path / "x.png")
    whole = change == (0, 0, 0, 255)
    try:
        (found,) = mask_tree(tmp_path, asked())
        assert whole and found.answer.masks[0].area == 16
    except DataError as error:
        assert not whole and "channels are equal" in str(error)


def test_a_zip_that_is_no_spreadsheet_and_one_that_is_under_another_name(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["id", "prediction"])
    book.active.append(["x", "B"])
    for name in ("x.csv", "x.XLSX", "x"):
        book.save(tmp_path / name)
        assert read_format("vlmevalkit", tmp_path / name, asked()).rows["x"].value == "B"
    with zipfile.ZipFile(tmp_path / "y.csv", "w") as archive:
        archive.writestr("predictions.csv", "id,prediction\nx,B\n")
    with pytest.raises(DataError, match=r"a ZIP archive\. Unpack it: `unzip y\.csv`"):
        read_format("vlmevalkit", tmp_path / "y.csv", asked())
