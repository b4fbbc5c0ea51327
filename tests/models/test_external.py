"""A program that answers through files: what it is given, and what becomes of what it does."""

import json
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import MediaError, MissingDependency, UsageError
from harness.masks import Rle
from harness.models.external.model import external
from harness.models.external.program import environment
from harness.run.predict import check_predictions, predict
from harness.run.timing import Stage
from harness.spec import parse as parse_spec
from harness.types import AnswerForm, FailureKind, Query, query_id

FORM = AnswerForm
BRIGHT = """
import argparse, glob, json, os, sys

parser = argparse.ArgumentParser()
parser.add_argument("--in", dest="given")
parser.add_argument("--out")
args = parser.parse_args()


def bright(path):
    import numpy as np
    from PIL import Image
    from pycocotools import mask

    found = np.array(Image.open(path)).max(axis=2) > 150
    rle = mask.encode(np.asfortranarray(found, dtype=np.uint8))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


rows = [json.loads(line) for line in open(args.given)]
out = open(args.out, "w")
for number, row in enumerate(rows):
    paths = [row["image"]] if "image" in row else sorted(glob.glob(row["frames_dir"] + "/*"))
    answer = {"id": row["id"], "text": row["query"]}
    if "mask" in row["form"] or "track" in row["form"]:
        answer["masks"] = [bright(path) for path in paths]
    TWIST
    out.write(json.dumps(answer) + "\\n")
    out.flush()
"""


@pytest.fixture
def program(tmp_path):
    """Builds the model over a program that marks what is bright, with a twist."""

    def build(twist="pass", **settings):
        script = tmp_path / "bright.py"
        script.write_text(BRIGHT.replace("TWIST", textwrap.indent(twist, "    ").strip()))
        command = f"'{sys.executable}' '{script}' --in {{input}} --out {{output}}"
        return external(**{"command": command, "timeout": 60.0} | settings)

    return build


def answered(model, *queries):
    return check_predictions(queries, model.predict(list(queries)))


def bright(query):
    return [Rle.from_array(frame.max(axis=2) > 150) for frame in query.media[0].frames()]


def test_masks_of_images_and_videos_come_back_by_query(program, ask):
    requested = [
        ask(FORM.MASK, size=(60, 40), name="a"),
        ask(FORM.MASK_TRACK, size=(50, 30), frames=3, name="b"),
        ask(FORM.MASK, size=(40, 60), name="c", text="another"),
    ]
    output = answered(program(), *requested)
    for query, one in zip(requested, output, strict=True):
        assert list(one.answer.masks) == bright(query)
        assert one.answer.masks[0].area > 0
        assert one.responses == (query.text,)
        assert one.usage.frames == len(query.media[0])


def test_boxes_of_a_track_are_those_around_its_masks(program, ask):
    query = ask(FORM.BOX_TRACK, size=(50, 30), frames=2)
    (output,) = answered(program(), query)
    rows, columns = np.nonzero(bright(query)[0].to_array())
    box = output.answer.box_track[0]
    assert tuple(box) == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


def test_an_answer_in_words_is_read_from_the_text(program, ask):
    query = ask(FORM.CHOICE, options=("a", "b"))
    (output,) = answered(program('answer |= {"text": "B. the dog", "masks": [None]}'), query)
    assert output.answer.choice == "B"
    (output,) = answered(program('del answer["text"]'), query)
    assert output.failure.kind is FailureKind.PARSE


def test_options_and_the_form_of_answer_are_handed_over(program, ask):
    requested = [
        ask(FORM.CHOICE, options=("a cat", "a dog"), name="choice"),
        ask(FORM.CHOICE, text="A cat (A) or a dog (B)?", name="spelt out"),
        ask(FORM.INTERVAL, frames=2, name="interval"),
        ask(FORM.BOX_TRACK, frames=2, name="track"),
    ]
    twist = 'answer["text"] = json.dumps([row["form"], row.get("options")])'
    output = answered(program(twist), *requested)
    assert [json.loads(one.responses[0]) for one in output] == [
        ["choice", ["a cat", "a dog"]],
        ["choice", None],
        ["interval", None],
        ["box_track", None],
    ]


def test_a_program_chooses_among_the_options_that_it_is_given(program, ask, tmp_path):
    twist = 'answer["text"] = "AB"[row["options"].index("a dog")]'
    requested = [
        ask(FORM.CHOICE, options=given) for given in (("a cat", "a dog"), ("a dog", "a cat"))
    ]
    model = program(twist, cache=tmp_path / "kept")
    for _ in range(2):  # kept ones the second time
        assert [answered(model, query)[0].answer.choice for query in requested] == ["B", "A"]


def test_a_kept_answer_is_of_one_form(program, ask, tmp_path):
    model = program('answer["text"] = row["form"] + " 7"', cache=tmp_path / "kept")
    assert answered(model, ask(FORM.TEXT))[0].answer.text == "text 7"
    assert answered(model, ask(FORM.NUMBER))[0].responses == ("number 7",)


SHOWS = """
answer["text"] = json.dumps({
    "row": row, "arguments": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ),
    "files": sorted(os.path.relpath(os.path.join(at, name), os.path.dirname(args.given))
                    for at, _, names in os.walk(os.path.dirname(args.given)) for name in names),
})
"""


def test_nothing_that_a_program_is_given_tells_of_the_benchmark(program, tmp_path, monkeypatch):
    from PIL import Image

    root = tmp_path / "secret root" / "ReasonSeg"
    root.mkdir(parents=True)
    Image.fromarray(np.full((9, 12, 3), 200, np.uint8)).save(root / "answer 7.jpg")
    monkeypatch.setenv("HARNESS_DATA", str(root))
    monkeypatch.chdir(root)
    image = media.open_image(root / "answer 7.jpg")
    requested = [
        Query(id=query_id(f"official {number}"), text="q", media=(image,), forms=(FORM.MASK,))
        for number in range(2)
    ]
    output = answered(program(SHOWS), *requested)
    shown = json.loads(output[1].responses[0])
    for info in (json.dumps(shown), output[0].responses[0]):
        for word in ("secret root", "ReasonSeg", "answer 7", "official"):
            assert word not in info
    assert shown["files"] == ["0000.png", "input.jsonl", "log.txt", "output.jsonl"]
    assert not Path(shown["row"]["image"]).exists()
    assert set(shown["row"]) == {"id", "image", "query", "form"}


def test_variables_that_tell_where_harness_works_are_left_out():
    given = {
        "HARNESS_DATA": "a",
        "PWD": "b",
        "OLDPWD": "c",
        "PATH": "d",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert environment(given) == {"PATH": "d", "CUDA_VISIBLE_DEVICES": "0"}


WRONG = [
    ('answer["masks"][0]["size"].reverse()', '"size"'),
    ('answer["masks"] = answer["masks"] * 2', "1 masks"),
    ('answer["masks"][0]["counts"] = "0"', "run-length"),
    ('answer["masks"] = "all"', "list"),
    ('del answer["masks"]', "masks"),
    ('answer = {"id": row["id"], "error": "no idea"}', "no idea"),
    ("continue", "no row"),
    ('answer["id"] = "another"', "the id of a question"),
    ('answer["score"] = 1', "score"),
    ('out.write("{ nothing\\n"); continue', "one JSON object"),
    ('answer["text"] = float("nan")', "NaN is not JSON"),
]


def test_what_is_wrong_with_a_row_fails_its_sample_alone(program, ask):
    cases = [f"if number == {place}:\n    {twist}" for place, (twist, _) in enumerate(WRONG)]
    requested = [ask(FORM.MASK, size=(30, 20), name=str(place)) for place in range(len(WRONG) + 1)]
    output = answered(program("\n".join(cases)), *requested)
    info = " ".join(one.failure.message for one in output[:-1])
    for one, (_, words) in zip(output, WRONG, strict=False):
        assert one.failure.kind is FailureKind.MODEL
        assert words in (one.failure.message if "no row" not in one.failure.message else info)
    assert list(output[-1].answer.masks) == bright(requested[-1])


def test_an_empty_mask_and_no_target_are_answers(program, ask):
    query = ask(FORM.MASK, size=(30, 20))
    (empty,) = answered(program('answer["masks"] = [None]'), query)
    assert empty.answer.masks[0].area == 0
    (nothing,) = answered(program('answer = {"id": row["id"], "no_target": True}'), query)
    assert nothing.answer.no_target


def test_what_was_written_before_a_crash_counts(program, ask):
    requested = [ask(FORM.MASK, size=(30, 20), name=name) for name in "abc"]
    twist = 'if number == 2:\n    out.write("{half"); out.flush(); sys.exit("out of memory")'
    output = answered(program(twist), *requested)
    assert [one.failure is None for one in output] == [True, True, False]
    assert "out of memory" in output[2].failure.message
    assert "code 1" in output[2].failure.message
    assert output[2].failure.kind is FailureKind.MODEL


def alive(process):
    """Whether a process runs; one that ended and was not asked for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_takes_too_long_is_killed_with_all_that_it_started(program, ask, tmp_path):
    child = tmp_path / "child"
    twist = f"""
if number == 1:
    import subprocess, time
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open({str(child)!r}, "w").write(str(started.pid))
    time.sleep(600)
"""
    requested = [ask(FORM.MASK, size=(30, 20), name=name) for name in "ab"]
    output = answered(program(twist.strip(), timeout=4.0), *requested)
    assert output[0].failure is None
    assert output[1].failure.kind is FailureKind.INFRASTRUCTURE
    assert " 4 s" in output[1].failure.message
    until = time.monotonic() + 20
    while alive(int(child.read_text())) and time.monotonic() < until:
        time.sleep(0.05)  # a signal is sent at once, and acted upon when there is time
    assert not alive(int(child.read_text()))


@pytest.mark.parametrize("twist", ["raise OSError('no weights')", "continue"])
def test_a_program_that_answers_nothing_ends_the_run(program, ask, twist):
    with pytest.raises(UsageError, match=r"^external\(command=.*bright"):
        predict(program(twist), [ask(FORM.MASK), ask(FORM.MASK, name="b")], Stage())


def test_an_image_that_is_lost_is_not_handed_over(program, ask):
    lost = media.placeholder_media(MediaError("image x is damaged"), size=(5, 4))
    gone = Query(id=query_id("gone"), text="q", media=(lost,), forms=(FORM.MASK,))
    output = answered(program(), gone, ask(FORM.MASK, size=(30, 20)))
    assert output[0].failure.kind is FailureKind.INFRASTRUCTURE
    assert output[1].failure is None
    assert answered(program("sys.exit(1)"), gone)[0].failure.kind is FailureKind.INFRASTRUCTURE


def test_answers_are_kept_by_content_and_only_good_ones(program, ask, tmp_path):
    runs = tmp_path / "runs.txt"
    counts = f'open({str(runs)!r}, "a").write(row["query"] + "\\n")\n'
    bad = 'if row["query"] == "bad":\n    answer["masks"] = []'
    model = program(counts + bad, cache=tmp_path / "kept")
    requested = [ask(FORM.MASK, size=(30, 20), text=text) for text in ("good", "bad")]
    first = answered(model, *requested)
    again = answered(model, *requested)
    assert first == again
    assert again[0].failure is None
    assert runs.read_text().split() == ["good", "bad", "bad"]
    other = ask(FORM.MASK, size=(30, 21), text="good")
    other = Query(
        id=other.id,
        text="good",
        forms=other.forms,
        media=(
            media.pixels(
                [np.zeros((20, 30, 3), np.uint8)], times=(0.0,), is_video=False, id="other"
            ),
        ),
    )
    assert answered(model, other)[0].answer.masks[0].area == 0
    answered(program(counts + bad, cache=tmp_path / "kept", revision="2"), requested[0])
    answered(program(counts + bad + "  # 2", cache=tmp_path / "kept"), requested[0])
    assert runs.read_text().split()[3:] == ["good", "good", "good"]


def test_a_damaged_file_of_the_cache_counts_as_none(program, ask, tmp_path):
    model = program(cache=tmp_path / "kept")
    query = ask(FORM.MASK, size=(30, 20))
    first = answered(model, query)
    (file,) = (tmp_path / "kept").rglob("*.json")
    file.write_text('{"masks": ')
    assert answered(model, query) == first
    assert json.loads(file.read_text())["masks"]


@pytest.mark.parametrize(
    "command",
    ["", "python infer.py", "python --in {input}", "a {input} {output} {root}", "a '{input}"],
)
def test_a_command_without_places_for_its_files_is_refused(command):
    with pytest.raises(UsageError, match="command"):
        external(command=command)


def test_a_program_that_is_not_there_is_named(ask):
    with pytest.raises(MissingDependency, match="no-such-program"):
        external(command="no-such-program {input} {output}").predict([ask(FORM.MASK)])


def test_the_command_is_no_shell_command(ask, tmp_path):
    model = external(command=f"echo {{input}} {{output}} ; touch {tmp_path}/ran")
    with pytest.raises(UsageError):
        model.predict([ask(FORM.MASK)])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", [FORM.POINTS, FORM.COUNT, FORM.BOX_3D, (FORM.MASK, FORM.TEXT)])
def test_forms_that_are_neither_masks_nor_words_are_refused(program, ask, form):
    forms = " and ".join(form if isinstance(form, tuple) else (form,))
    with pytest.raises(UsageError, match=rf"^external: .*\b{forms}: "):
        program().predict([ask(form)])


def test_jpeg_copies_are_made_on_request(program, ask):
    (output,) = answered(program(SHOWS, images="jpg"), ask(FORM.MASK_TRACK, frames=2))
    shown = json.loads(output.responses[0])
    assert shown["files"][:2] == ["0000/00000.jpg", "0000/00001.jpg"]
    assert shown["row"]["times"] == [0.0, 0.25]


def test_the_record_tells_the_command_and_changes_with_its_script(program):
    first = program().describe()
    assert first["program"] != program("answer = answer").describe()["program"]
    spec = "external(command='python x.py {input} {output}',name=lisa,batch_size=4)"
    made = plugins.build("models", parse_spec(spec))
    assert (made.name, made.batch_size) == ("lisa", 4)
    json.dumps(dict(made.describe()), allow_nan=False)
