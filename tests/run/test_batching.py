"""The samples of a run, their fingerprint and their batches follow from the task alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.media import pixels
from harness.run.batching import WINDOW_BATCHES, batches, select
from harness.run.survey import survey
from harness.types import AnswerForm, Query, Sample


def sample(name, *, text="?", **given):
    image = pixels([np.zeros((4, 6, 3), np.uint8)], times=(0.0,), is_video=False, id=name)
    query = Query(id=f"q{name}", text=text, media=(image,), forms=(AnswerForm.NUMBER,))
    return Sample(id=name, query=query, target=None, group=name, **given)


def task(*samples, annotations=()):
    return SimpleNamespace(
        name="toy", split="val", samples=lambda: iter(samples), annotations=annotations
    )


def surveyed(one):
    return survey(one, select(one, None))


def test_an_id_twice_a_unit_in_pieces_and_no_sample_at_all_are_refused():
    units = [sample(name, unit=unit) for name, unit in zip("abc", "uvu", strict=True)]
    for samples in ((sample("a"), sample("a")), units, ()):
        with pytest.raises(DataError):
            surveyed(task(*samples))


def test_the_fingerprint_follows_ids_questions_and_annotations(tmp_path):
    file = tmp_path / "annotations.json"
    file.write_text("1")
    first = surveyed(task(sample("a"), annotations=(file,)))
    assert first == surveyed(task(sample("a"), annotations=(file,)))
    other = [surveyed(task(sample(*one), annotations=(file,))) for one in ("b",)]
    other.append(surveyed(task(sample("a", text="what?"), annotations=(file,))))
    file.write_text("2")
    other.append(surveyed(task(sample("a"), annotations=(file,))))
    assert len({first.fingerprint, *(one.fingerprint for one in other)}) == 4


def test_a_drawn_subset_holds_as_many_as_it_names_and_depends_on_its_seed():
    whole = task(*(sample(str(number)) for number in range(40)))
    chosen = [
        [one.id for one in select(whole, name).samples(whole)]
        for name in ("first7", "seed0-7", "seed1-7")
    ]
    assert chosen[0] == [str(number) for number in range(7)]
    assert [len(one) for one in chosen] == [7, 7, 7] and chosen[1] != chosen[2]
    for name in ("first0", "last7", "seed0"):
        with pytest.raises(UsageError):
            select(whole, name)


def test_batches_are_sorted_within_a_window_alone():
    count = 3 * WINDOW_BATCHES
    longer_first = [sample(str(number), text="x" * (count - number)) for number in range(count)]
    for sort in (False, True):
        queries = [one.query for one in longer_first]
        made = list(batches(queries, size=2, sort=sort))
        assert [one.index for one in made] == list(range(count // 2))
        names = [int(query.id[1:]) for one in made for query in one.queries]
        window = 2 * WINDOW_BATCHES
        expected = [*range(window)][::-1] + [*range(window, count)][::-1]
        assert names == (expected if sort else list(range(count)))
