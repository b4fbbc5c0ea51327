"""Video files: missing, cut, damaged, hostile or merely odd; subtitles; others' result files."""

import json
import os
import shutil
import struct
from fractions import Fraction
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

av = pytest.importorskip("av")

case = pytest.mark.case
EXAMPLE = Path(__file__).resolve().parents[2] / "tasks" / "video_mme" / "example"
LOOKS = """
def toy():
    def answer(query):
        for frame in query.media[0].frames():
            assert frame.shape[1::-1] == query.size
        return Answer(choice="A")

    return Model(answer)
"""


@pytest.fixture
def video(tmp_path):
    """The only video of Video-MME's example, in a data root that may be changed."""
    shutil.copytree(EXAMPLE, tmp_path / "data")
    (path,) = (tmp_path / "data").rglob("*.mp4")
    return path


def write(path, *, stamps=range(0, 800, 100), size=(64, 48), pixels="yuv420p", sound=False):
    """A video in H.264, or (without stamps) only sound, in place of another."""
    path.unlink(missing_ok=True)
    clock = Fraction(1, 1000)
    with av.open(str(path), "w", format="mp4") as container:
        if stamps:
            stream = container.add_stream("libx264", rate=10, options={"threads": "1"})
            stream.width, stream.height, stream.pix_fmt = *size, pixels
            stream.codec_context.time_base = clock
            for number, stamp in enumerate(stamps):
                drawn = np.full((size[1], size[0], 3), 20 * number % 256, np.uint8)
                frame = av.VideoFrame.from_ndarray(drawn, format="rgb24")
                frame.pts, frame.time_base = stamp, clock
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        if sound:
            stream = container.add_stream("aac", rate=8000)
            heard = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            heard.sample_rate = 8000
            container.mux(stream.encode(heard))
            container.mux(stream.encode())


def spoil(path, kind):
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(data[: len(data) * 2 // 3])
    elif kind == "cut at its end":
        path.write_bytes(data[:-9])
    elif kind == "an error page":
        path.write_bytes(b"<html>404</html>")
    elif kind == "sound alone":
        write(path, stamps=(), sound=True)


KINDS = ["missing", "empty", "cut", "cut at its end", "an error page", "sound alone"]


@case(
    "a video file that is missing, empty, cut, no video, or has sound alone",
    "refused before the model is built; names the file",
    code=3,
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_video_that_cannot_be_read_is_refused(harness, video, plugin, kind):
    plugin("models", toy="def toy(): raise AssertionError('the model was built')")
    spoil(video, kind)
    harness.eval(model="toy").says(video.name, "1 problem", "harness data check")
    assert not (harness.folder / "runs").exists()


@case(
    "a video file that cannot be read, with `--allow-missing`",
    "failures of the infrastructure; code 1 if no sample is left",
    code=1,
)
@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_a_video_that_cannot_be_read_are_counted(harness, video, plugin, kind):
    plugin("models", toy=LOOKS)
    spoil(video, kind)
    found = (
        harness.eval("--allow-missing", "--infrastructure-limit", 1, model="toy")
        .says(video.name)
        .task("video_mme")
    )
    assert found["n_failed"] == found["failures"]["infrastructure"] == found["n_total"] == 3


@case(
    "a video file that is damaged inside",
    "failures of the infrastructure; code 1 if no sample is left",
    code=1,
)
def test_damage_inside_a_video_is_a_failed_sample(harness, video, plugin):
    plugin("models", toy=LOOKS)
    write(video, size=(320, 240), stamps=range(0, 3000, 100))
    data = bytearray(video.read_bytes())
    start = data.index(b"mdat") + 4
    length = struct.unpack(">I", data[start - 8 : start - 4])[0]
    data[start + length // 2 : start + length - 9] = bytes(length - 9 - length // 2)
    video.write_bytes(data)
    found = harness.eval("--infrastructure-limit", 1, model="toy").task("video_mme")
    assert found["failures"]["infrastructure"] == found["n_total"] == 3


@case(
    "a playlist or a list of other files instead of a video",
    "refused: no other file is opened",
    code=3,
)
@pytest.mark.parametrize(
    "text", ["#EXTM3U\n#EXTINF:9,\n{0}\n#EXT-X-ENDLIST\n", "ffconcat version 1.0\nfile '{0}'\n"]
)
def test_a_list_of_files_is_no_video(harness, video, text):
    other = harness.folder / "other.mp4"
    shutil.copy(video, other)
    video.write_text(text.format(other))
    harness.eval().says(video.name)


@case(
    "a video that is turned, of a variable rate, or of odd sizes",
    "frames are turned, times are those of presentation",
    code=0,
)
@pytest.mark.parametrize("kind", ["turned", "variable", "odd"])
def test_odd_videos_are_fine(harness, video, plugin, kind):
    plugin("models", toy=LOOKS)
    if kind == "odd":
        write(video, size=(63, 47), pixels="yuv444p")
    else:
        write(video, stamps=(0, 7, 500, 510, 900) if kind == "variable" else range(0, 500, 100))
    if kind == "turned":
        data = bytearray(video.read_bytes())
        place = data.index(b"tkhd") + 44
        quarter = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
        data[place : place + 36] = quarter
        video.write_bytes(data)
    assert harness.eval(model="toy").task("video_mme")["n_failed"] == 0


@case("subtitles that cannot be read", "refused; names the file and the part", code=3)
def test_subtitles_that_cannot_be_read_are_named(harness, video):
    (path,) = (harness.folder / "data").rglob("*.srt")
    path.write_text("1\nat some time\nhello\n")
    harness.eval(tasks="video_mme(subtitles=all)").says(path.name, "part 1")


@case("a name of a video that leaves the benchmark's folder", "refused; names the record", code=3)
def test_a_video_outside_is_not_opened(harness, video):
    import pyarrow as pa
    from pyarrow import parquet

    (table,) = (harness.folder / "data").rglob("*.parquet")
    rows = parquet.read_table(table).to_pylist()
    rows[0]["videoID"] = "../../../secret"
    parquet.write_table(pa.Table.from_pylist(rows), table)
    harness.eval().says("../../../secret")


@case("a rule for frames that there is not", "refused; lists the rules", code=2)
@pytest.mark.parametrize("rule", ["sometimes(n=3)", "0", "uniform", "fps(rate=-1)"])
def test_a_rule_for_frames_that_there_is_not(harness, video, rule):
    harness.eval(tasks=f"video_mme(frames={rule})").says("frames")


@case("HARNESS_FRAME_CACHE_GB that is no number", "refused; names it", code=2)
def test_a_bound_of_the_frame_cache_that_is_none(harness, video, plugin, monkeypatch):
    plugin("models", toy=LOOKS)
    monkeypatch.setenv("HARNESS_FRAME_CACHE", str(harness.folder / "frames"))
    monkeypatch.setenv("HARNESS_FRAME_CACHE_GB", "plenty")
    harness.eval(model="toy").says("HARNESS_FRAME_CACHE_GB", "plenty")


def result_file(harness, *changes):
    """Video-MME's result file for the example, all answered A; each change is (place, fields)."""
    names = ["001-1", "001-2", "001-3"]
    questions = [{"question_id": name, "response": "A"} for name in names]
    for place, fields in changes:
        if place == len(questions):
            questions.append({})
        questions[place].update(fields)
    path = harness.folder / "results.json"
    path.write_text(json.dumps([{"video_id": "001", "questions": questions}]))
    return path


def scored(harness, path, *more, format="video-mme", code=None):
    return harness(
        "score",
        "--tasks",
        "video_mme",
        "--data",
        harness.folder / "data",
        "--format",
        format,
        "--predictions",
        path,
        "--json",
        *more,
        code=code,
    )


@case(
    "another evaluation's file with questions that are not the task's",
    "refused; how many, and which; `--allow-extra` leaves them out and records them",
    code=3,
)
def test_foreign_questions_are_refused(harness, video):
    path = result_file(harness, (3, {"question_id": "900-1", "response": "B"}))
    scored(harness, path).says("1 others", "900-1", "--allow-extra")
    out = harness.folder / "runs"
    done = scored(harness, path, "--allow-extra", "--out", out, code=0)
    assert done.task("video_mme")["n_failed"] == 0
    info = json.loads((harness.run / "manifest.json").read_text())["model"]["description"]
    assert info["matched"] == 3 and "900-1" in info["unmatched"][0]


@case(
    "another evaluation's file with two responses to one question",
    "refused; names both places",
    code=3,
)
def test_two_responses_to_a_question_are_refused(harness, video):
    path = result_file(harness, (3, {"question_id": "001-1", "response": "B"}))
    scored(harness, path).says("001-1", path.name)


@case(
    "another evaluation's file in another format than was said",
    "refused; names the file",
    code=3,
)
@pytest.mark.parametrize("format", ["lmms-eval", "sti", "vlmevalkit", "vsi", "tempcompass"])
def test_another_format_than_was_said(harness, video, format):
    path = result_file(harness)
    scored(harness, path, format=format).says("results.json")


@case("a table of predictions that is a pickle", "refused, never opened", code=3)
def test_a_pickled_table_is_never_opened(harness, video):
    canary = harness.folder / "canary"
    path = harness.folder / "results.pkl"
    path.write_bytes(b"cos\nsystem\n(S'touch %b'\ntR." % str(canary).encode())
    scored(harness, path, format="vlmevalkit").says("results.pkl", "pickle")


def sheet(
    path,
    rows='<row r="1"><c r="A1" t="inlineStr"><is><t>index</t></is></c></row>',
    *,
    head="",
    more=None,
):
    """A spreadsheet with one sheet of these rows, as Excel writes it."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
        f'<Override PartName="/xl/s.xml" ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="a" Type="{office}/worksheet" Target="s.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="s" sheetId="1" r:id="a"/></sheets></workbook>',
        "xl/s.xml": f'{head}<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
        **(more or {}),
    }
    with ZipFile(path, "w", ZIP_DEFLATED) as book:
        for name, text in parts.items():
            book.writestr(name, text)


NESTED = '<!DOCTYPE a [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@case(
    "a spreadsheet whose XML declares entities, nested or of other files, or that unpacks "
    "to more than 64 MiB",
    "refused before its XML is parsed",
    code=3,
)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"head": NESTED}, "entities"),
        ({"head": OUTSIDE}, "entities"),
        ({"head": NESTED.encode("utf-16").decode("latin-1")}, "entities"),
        ({"more": {"xl/t.xml": " " * 2**19 + NESTED}}, "entities"),
        ({"more": {"xl/t.xml": " " * (2**26 + 1)}}, str(2**26)),
    ],
)
def test_a_spreadsheet_that_would_grow_is_refused(harness, video, given, words):
    path = harness.folder / "results.xlsx"
    sheet(path, **given)
    scored(harness, path, format="vlmevalkit").says("results.xlsx", words)


@case("a spreadsheet that is cut, or whose XML is broken", "refused; names the file", code=3)
@pytest.mark.parametrize("damage", ["xml", "cut", "text"])
def test_a_damaged_spreadsheet_is_refused(harness, video, damage):
    pytest.importorskip("openpyxl")
    path = harness.folder / "results.xlsx"
    sheet(path, rows="<row><c" if damage == "xml" else "<row/>")
    whole = path.read_bytes()
    path.write_bytes({"xml": whole, "cut": whole[:-40], "text": b"hello"}[damage])
    expected = 'a column "prediction"' if damage == "text" else "complete .xlsx"
    scored(harness, path, format="vlmevalkit").says("results.xlsx", expected)


@case(
    "a log of inspect_ai that is cut, is no ZIP, holds no JSON, or unpacks a sample to more than "
    "64 MiB",
    "refused; names the file",
    code=3,
)
@pytest.mark.parametrize("damage", ["large", "cut", "text", "json"])
def test_a_damaged_log_of_inspect_is_refused(harness, video, damage):
    path = harness.folder / "results.eval"
    with ZipFile(path, "w", ZIP_DEFLATED) as log:
        large = " " * (2**26 + 1) if damage == "large" else ""
        log.writestr("samples/1_epoch_1.json", f'{large}{{"id": ' + "[" * 5000)
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:-40], "text": b"hello"}.get(damage, whole))
    words = str(2**26) if damage == "large" else "inspect_ai"
    scored(harness, path, format="inspect").says("results.eval", words)


@case(
    "a cell with thousands of digits in a table of predictions",
    "no row's number; read as any other text",
    code=3,
)
def test_a_cell_of_thousands_of_digits_is_text(harness, video):
    path = harness.folder / "results.tsv"
    path.write_text(f"index\tprediction\n{'9' * 5000}\tA\n")
    scored(harness, path, format="vlmevalkit").says("results.tsv")


@case(
    "a FIFO in the place of a video or of a file of predictions",
    "refused; names the file",
    code=3,
)
def test_a_fifo_is_no_video_and_no_predictions(harness, video, plugin):
    path = harness.folder / "results.tsv"
    os.mkfifo(path)
    scored(harness, path, format="vlmevalkit").says("results.tsv", "expected a file")
    video.unlink()
    os.mkfifo(video)
    plugin("models", toy="def toy(): raise AssertionError('the model was built')")
    harness.eval(model="toy").says(video.name)
