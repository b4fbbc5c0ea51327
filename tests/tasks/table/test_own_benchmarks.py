"""Seven benchmarks of letters as tables with a description: equal samples and scores."""

import random
import shutil

import pytest

from harness import plugins
from harness.spec import parse
from harness.tasks.table.task import table
from harness.types import Answer, Prediction

DESCRIPTIONS = {
    "embspatial": (
        "embspatial/data/test-00000-of-00001.parquet",
        "embspatial/lmms",
        '"image"',
        'text = "question"\nid = "question_id"\noptions = "answer_options"\n'
        'categories = {relation = "relation", data_source = "data_source"}\n'
        '[answer]\nform = "choice"\nfield = "answer"\nwritten = "place"\n',
    ),
    "mmsi_bench": (
        "mmsi_bench/MMSI_Bench.parquet",
        "mmsi/official",
        '"images"',
        'text = "question"\nid = "id"\nletters = "ABCD"\n'
        'categories = {question_type = "question_type"}\n'
        '[answer]\nform = "choice"\nfield = "answer"\nwritten = "letter"\n',
    ),
    "view_spatial": (
        "view_spatial/data/test-00000-of-00001.parquet",
        "viewspatial/official",
        '"images"',
        'text = "question"\nid = "{_file}/{_index}"\noptions = "choices"\nlettered = true\n'
        'categories = {question_type = "question_type"}\n'
        '[answer]\nform = "choice"\nfield = "answer"\nwritten = "marked"\n',
    ),
    "three_dsr_bench": (
        "three_dsr_bench/3dsr/test-00000-of-00001.parquet",
        "3dsr/lmms",
        '"image"',
        'text = "question"\nid = "index"\noptions = ["A", "B", "C", "D"]\n'
        'categories = {category = "category"}\n'
        '[answer]\nform = "choice"\nfield = "answer"\nwritten = "letter"\n',
    ),
    "blink": (
        "blink/Multi-view_Reasoning/val-00000-of-00001.parquet",
        "blink/official",
        '["image_1", "image_2", "image_3", "image_4"]',
        'text = "question"\nid = "idx"\noptions = "choices"\n'
        'categories = {sub_task = "sub_task"}\n'
        '[answer]\nform = "choice"\nfield = "answer"\nwritten = "marked"\n',
    ),
    "mindcube": (
        "mindcube/tiny/combined-00000-of-00001.parquet",
        "mindcube/official",
        '"images"',
        'text = "question"\nid = "id"\nletters = "ABCDE"\n'
        '[answer]\nform = "choice"\nfield = "gt_answer"\nwritten = "letter"\n',
    ),
    "site_bench": (
        "site_bench/image_test.jsonl",
        "site/official",
        '"visual"',
        'text = "question"\nid = "{_file}/{_index}"\noptions = "options"\n'
        'categories = {category = "category", dataset = "dataset"}\n'
        '[answer]\nform = "choice"\nfield = "answer"\nwritten = "letter"\n',
    ),
}
"""By benchmark: its table in a generated world, a protocol, the images, and the rest."""
SAID = ("{0}", "({0})", "{0}. text", "The answer is {0}.", "**{0}**", "<answer>{0}</answer>", "Yes")


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_description_gives_the_samples_and_scores_of_the_benchmark(name, shapes, tmp_path):
    place, protocol, images, rest = DESCRIPTIONS[name]
    source = shapes / place
    path = tmp_path / name / source.name
    shutil.copytree(source.parent, path.parent)
    header = f'name = "mine"\n[media]\nimages = {images}\n[question]\n'
    path.with_suffix(".toml").write_text(header + rest, encoding="utf-8")
    ours = plugins.build("tasks", parse(f"{name}(protocol={protocol})"), shapes)
    own = table(tmp_path, file=path, protocol=f"{name}:{protocol}")
    pairs = list(zip(ours.samples(), own.samples(), strict=True))
    assert len(pairs) == 8
    draw, outcomes = random.Random(0), set[str]()
    for theirs, mine in pairs:
        assert (mine.id, mine.query.text, mine.query.options) == (
            theirs.id,
            theirs.query.text,
            theirs.query.options,
        )
        assert mine.target.answer == theirs.target.answer
        assert [medium.id for medium in mine.query.media] == [
            medium.id for medium in theirs.query.media
        ]
        for said in SAID:
            letter = draw.choice("ABCD")
            text = said.format(letter)
            scored = []
            for task, sample in ((ours, theirs), (own, mine)):
                prediction = Prediction(
                    query_id=sample.query.id, answer=Answer(text=text), responses=(text,)
                )
                scored.append(task.protocol.score([sample], [prediction]))
            assert scored[0] == scored[1]
            outcomes.add(str(scored[0]))
    assert len(outcomes) > 1
