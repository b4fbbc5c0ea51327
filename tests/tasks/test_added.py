"""A new benchmark of an existing family costs at most 60 lines, and has all that ours have."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.errors import DataError, UsageError
from harness.plugins import build as build_plugin
from harness.run.batching import select
from harness.run.preflight import preflight
from harness.run.survey import survey
from harness.run.verify import verify
from harness.types import Answer, Prediction
from harness.world.mp4 import write_mp4

PLACE = Path(__file__).parent / "added"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "tasks" / "adding.md"
MAX_LINES = 60


def plugin(name):
    return runpy.run_path(str(PLACE / f"{name}.py"))[name]


def film_files(root, **changes):
    place = root / "film_quiz"
    frames = [np.full((48, 64, 3), 30 * number, np.uint8) for number in range(4)]
    for film in ("one", "two"):
        (place / "films").mkdir(parents=True, exist_ok=True)
        write_mp4(place / "films" / f"{film}.mp4", frames, times=range(4))
    rows = [
        {
            "film": film,
            "number": number,
            "asked": "What happens?",
            "choices": ["it fades", "rain"],
            "right": number,
            "kind": "action",
        }
        for film in ("one", "two")
        for number in range(2)
    ]
    rows[1].update(changes)
    (place / "questions.json").write_text(json.dumps(rows))
    return root


def photo_files(root, **changes):
    place = root / "photo_quiz"
    place.mkdir()
    for number, grey in enumerate((40, 200)):
        Image.new("RGB", (20, 16), (grey, grey, grey)).save(place / f"{number}.png")
    rows = [
        {
            "number": number,
            "photos": ["0.png", "1.png"][number:],
            "asked": "Where is it darker?",
            "choices": ["in the first", "in the second"],
            "right": "AB"[number],
        }
        for number in range(2)
    ]
    rows[1].update(changes)
    (place / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root


def phrase_files(root, **changes):
    place = root / "phrase_masks"
    place.mkdir()
    lines = []
    for number in range(3):
        Image.new("RGB", (20, 16), (50, 90, 10 * number)).save(place / f"{number}.png")
        mask = np.zeros((16, 20), np.uint8)
        mask[2:9, 3 : 8 + number] = 255
        Image.fromarray(mask).save(place / f"mask{number}.png")
        lines.append(
            {
                "id": number,
                "phrase": f"thing {number}",
                "image": f"{number}.png",
                "mask": f"mask{number}.png",
            }
        )
    lines[1].update(changes)
    (place / "val.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return root


MADE = {"film_quiz": film_files, "photo_quiz": photo_files, "phrase_masks": phrase_files}


@pytest.mark.parametrize("name", MADE)
def test_a_new_benchmark_costs_at_most_sixty_lines(name):
    assert len((PLACE / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("name", MADE)
def test_the_page_shows_or_names_these_files(name):
    page, text = DOCS.read_text("utf-8"), (PLACE / f"{name}.py").read_text("utf-8")
    blocks = dict(re.findall(r"```python (\S+)\n(.*?)```", page, re.DOTALL))
    assert blocks.get(f"{name}.py", text) == text
    assert f"{name}.py" in blocks or f"tests/tasks/added/{name}.py" in page


class Quiet:
    def note(self, message):
        raise AssertionError(message)


@pytest.mark.parametrize("name", MADE)
def test_it_is_checked_surveyed_and_verified_as_any_other(name, tmp_path):
    task = plugin(name)(MADE[name](tmp_path))
    preflight(task, Quiet(), allow_missing=False)
    samples = list(task.samples())
    assert survey(task, select(task, None)).n_total == len(samples) == len(set(samples_ids(task)))
    reader = build_plugin("models", "qwen_vl", backend=build_plugin("backends", "stored"))
    verdicts = list(verify(task, reader))
    assert [one.way for one in verdicts] == ["answers", "responses"]
    assert all(one.is_passed for one in verdicts)


def samples_ids(task):
    return [sample.id for sample in task.samples()]


def test_questions_have_options_apart_and_cluster_by_film(tmp_path):
    samples = list(plugin("film_quiz")(film_files(tmp_path), frames=2).samples())
    assert samples[1].id == "one/1" and samples[1].query.options == ("it fades", "rain")
    assert samples[1].target.answer == Answer(choice="B") and samples[1].group == "one.mp4"
    assert {len(one.query.media[0]) for one in samples} == {2}
    assert samples[0].categories == {"kind": "action"}


def test_a_question_has_its_images_in_their_order(tmp_path):
    first, second = plugin("photo_quiz")(photo_files(tmp_path, photos="1.png")).samples()
    greys = [[int(media.frame(0)[0, 0, 0]) for media in one.query.media] for one in (first, second)]
    assert greys == [[40, 200], [200]] and second.target.answer == Answer(choice="B")


def test_films_may_be_folders_of_frames(tmp_path):
    """With the two changes of the page."""
    root = film_files(tmp_path)
    for film in (root / "film_quiz" / "films").glob("*.mp4"):
        film.unlink()
        film.with_suffix("").mkdir()
        for number in range(4):
            Image.new("RGB", (64, 48)).save(film.with_suffix("") / f"{number:04}.png")
    text, page = (PLACE / "film_quiz.py").read_text("utf-8"), DOCS.read_text("utf-8")
    for old, new in (
        ('media="{film}.mp4"', 'media="{film}"'),
        (
            'Videos((root / "films",), frames)',
            'Videos((root / "films",), frames, frames_per_second=6)',
        ),
    ):
        assert old in text and f"`{new}`" in page
        text = text.replace(old, new)
    (tmp_path / "changed.py").write_text(text)
    task = runpy.run_path(str(tmp_path / "changed.py"))["film_quiz"](root)
    assert list(task.check()) == []
    sample = next(iter(task.samples()))
    assert sample.query.media[0].times() == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6])


@pytest.mark.parametrize(
    ("response", "official", "strict"), [("B", 1.0, 1.0), ("B or A", 1.0, 0.0), ("no", 0.0, 0.0)]
)
def test_both_protocols_of_letters_score_responses(tmp_path, response, official, strict):
    make, root = plugin("film_quiz"), film_files(tmp_path)
    for protocol, value in (("official", official), ("strict", strict)):
        task = make(root, protocol=f"film_quiz/{protocol}")
        sample = list(task.samples())[1]
        output = Prediction(
            query_id=sample.query.id, answer=Answer(text=response), responses=(response,)
        )
        assert task.protocol.score([sample], [output])["accuracy"].value == value
    with pytest.raises(UsageError, match="film_quiz/strict"):
        make(root, protocol="film_quiz/best")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("film_quiz", {"right": 2}, r"question 'one/1': 'right'.*0 to 1"),
        ("film_quiz", {"choices": ["one"]}, "'choices'.*2 to 26 texts"),
        ("film_quiz", {"asked": " "}, "'asked'.*text"),
        ("film_quiz", {"kind": "weather"}, "'kind': .*action, place.*'weather'"),
        ("film_quiz", {"film": None}, "record 1: 'film'"),
        ("film_quiz", {"film": "../one"}, r"'\.\./one\.mp4'"),
        ("photo_quiz", {"photos": []}, "'photos'.*image"),
        ("photo_quiz", {"photos": ["../0.png"]}, r"'\.\./0\.png'"),
        ("phrase_masks", {"phrase": 5}, "line 2: 'phrase'"),
        ("phrase_masks", {"mask": "mask9.png"}, r"mask9\.png"),
        ("phrase_masks", {"mask": "/etc/x.png"}, r"'/etc/x\.png'"),
    ],
)
def test_what_is_wrong_is_refused_and_listed_by_name(tmp_path, name, changes, message):
    task = plugin(name)(MADE[name](tmp_path, **changes))
    with pytest.raises(DataError, match=message):
        list(task.samples())
    assert [one for one in task.check() if re.search(message, one.message)]


def test_a_mask_of_another_size_is_refused(tmp_path):
    root = phrase_files(tmp_path)
    Image.new("L", (10, 8), 255).save(root / "phrase_masks" / "mask1.png")
    task = plugin("phrase_masks")(root)
    with pytest.raises(DataError, match=r"line 2: mask.*20 × 16.*10 × 8"):
        list(task.samples())


def test_a_lost_image_or_film_is_listed_and_still_a_sample(tmp_path):
    root = film_files(phrase_files(tmp_path))
    (root / "phrase_masks" / "1.png").unlink()
    (root / "film_quiz" / "films" / "two.mp4").unlink()
    for name, lost in (("film_quiz", ["two/0", "two/1"]), ("phrase_masks", ["1"])):
        task = plugin(name)(root)
        assert len(list(task.check())) == 1
        assert [one.id for one in task.samples() if one.query.media[0].fault] == lost


@pytest.mark.parametrize("name", MADE)
def test_without_files_it_says_how_they_are_had(name, tmp_path):
    with pytest.raises(DataError, match="invalid"):
        plugin(name)(tmp_path)
