"""The engine of trainings, with a trainer that counts: no network, no framework."""

import json
import os
import signal
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness import plugins
from harness.errors import DataError, Locked, ModelError, ResumeMismatch, StoreError, UsageError
from harness.run import train as engine
from harness.run.contamination import measure_contamination, samples_of_checkpoint, with_images
from harness.run.perceptual_hash import image_hash, media_hash
from harness.run.train import TrainingOptions, interrupts, train
from harness.run.training_record import TrainedSample, Training, read_samples, write_samples
from harness.spec import parse
from harness.store.lease import lease
from harness.trainer import Curve, Trainer, TrainingRun
from harness.trainers.state import newest_state, replaced_folder, saved_state, step_of

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mine(Trainer):
    steps: int = 3
    name: str = "mine"

    def describe(self):
        return asdict(self)

    def train(self, run):
        state = newest_state(run.state) if run.resume else None
        done = 0 if state is None else step_of(state)
        run.curve.cut(done)  # steps after the state are logged again
        run.progress.start("training", self.steps, done)
        for step in range(done + 1, self.steps + 1):
            run.curve.append(step, {"loss": 1 / step})
            run.progress.step(step, {"loss": 1 / step})
            with saved_state(run.state, step) as folder:
                (folder / "weights.json").write_text(str(step))
            if run.stopping():
                raise KeyboardInterrupt
        with replaced_folder(run.checkpoint) as folder:
            (folder / "weights.json").write_text(str(self.steps))
        run.progress.end()
        return {"steps": self.steps}


@pytest.fixture
def mine():
    return Mine


@pytest.fixture
def task(examples):
    return plugins.build("tasks", "reason_seg", examples)


def test_a_trainer_trains(mine, task, tmp_path):
    training = train(mine(steps=4), [task], None, tmp_path / "out", TrainingOptions(seed=2))
    assert training.is_finished and training.manifest["result"] == {"steps": 4}
    assert [row["step"] for row in training.curve.read()] == [1, 2, 3, 4]
    assert (training.checkpoint / "weights.json").read_text() == "4"
    assert training.manifest["seed"] == 2 and training.manifest["model"] is None
    assert not (training.folder / "state").exists()
    assert len(samples_of_checkpoint(training.checkpoint)) == 3


def test_a_trainer_that_draws_its_own_world_needs_no_task(mine, tmp_path):
    training = train(mine(), [], None, tmp_path / "out", TrainingOptions())
    assert training.samples() == [] and training.manifest["tasks"] == []
    assert samples_of_checkpoint(training.folder) == []


def test_a_stopped_training_goes_on(mine, task, tmp_path, told):
    told.dies_at = 2
    with pytest.raises(BaseException) as caught:
        train(mine(), [task], None, tmp_path, TrainingOptions(progress=told))
    assert type(caught.value).__name__ == "Died" and not Training.open(tmp_path).is_finished
    told.dies_at = None
    training = train(mine(), [task], None, tmp_path, TrainingOptions(resume=True, progress=told))
    assert told.steps == [1, 2, 2, 3] and training.is_finished
    assert [row["step"] for row in training.curve.read()] == [1, 2, 3]
    with pytest.raises(ResumeMismatch, match=r"steps: 3 → 4"):
        train(mine(steps=4), [task], None, tmp_path, TrainingOptions(resume=True))


def test_samples_that_are_lost_meanwhile_are_named(mine, task, tmp_path, told, died):
    told.dies_at = 2
    with pytest.raises(died):
        train(mine(), [task], None, tmp_path, TrainingOptions(progress=told))
    lost, *rest = task.samples()
    fewer = replace(task, samples=lambda: iter(rest))
    with pytest.raises(ResumeMismatch) as caught:
        train(mine(), [fewer], None, tmp_path, TrainingOptions())
    assert f"no longer there: reason_seg {lost.id}\n" in str(caught.value)
    assert "tasks.0.ids" in str(caught.value) and "tasks.0.name" not in str(caught.value)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noticed_and_a_second_one_interrupts(first):
    before = signal.signal(first, signal.SIG_DFL)  # under nohup, SIGHUP is ignored
    try:
        with interrupts() as stopping:
            assert not stopping()
            os.kill(os.getpid(), first)
            assert stopping()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(first, before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("speaks", [True, False])
def test_the_first_signal_is_answered_at_once_and_only_once(speaks, capfd):
    with interrupts(speaks=speaks) as stopping:
        for expected in (speaks, False):
            os.kill(os.getpid(), signal.SIGTERM)
            assert bool(capfd.readouterr().err) == expected
        assert stopping()
    with (
        interrupts(speaks=speaks) as stopping,
        pytest.raises(KeyboardInterrupt),
        stopping.at_once(),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
    assert not capfd.readouterr().err, "it has stopped already"


def test_a_lost_terminal_is_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts() as stopping:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopping()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_background_job_of_a_shell_is_interrupted_all_the_same():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts() as stopping:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopping()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_folder_in_use_or_with_files_is_refused(mine, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"^--out .*: .*--resume"):
        train(mine(), [], None, tmp_path, TrainingOptions())
    out = tmp_path / "out"
    out.mkdir()
    with lease(out), pytest.raises(Locked):
        train(mine(), [], None, out, TrainingOptions(resume=True))
    assert not (out / "manifest.json").exists()
    assert train(mine(), [], None, out, TrainingOptions()).is_finished


def test_only_the_first_process_writes(mine, tmp_path, monkeypatch):
    seen = []

    class Looking(Mine):
        def train(self, run):
            seen.append(run.main)
            return {}

    monkeypatch.setenv("RANK", "1")
    train(Looking(3), [], None, tmp_path / "out", TrainingOptions())
    assert seen == [False] and list((tmp_path / "out").iterdir()) == []


def test_a_trainer_that_fails_is_named_and_what_it_cost_is_kept(tmp_path):
    class Failing(Mine):
        def train(self, run):
            raise ZeroDivisionError("nothing")

    with pytest.raises(ModelError, match=r"\bmine: .*ZeroDivisionError"):
        train(Failing(3), [], None, tmp_path / "out", TrainingOptions())
    manifest = Training.open(tmp_path / "out").manifest
    assert "result" not in manifest and manifest["seconds"] > 0


def test_a_trainer_without_a_checkpoint_has_not_finished(tmp_path):
    class Idle(Mine):
        def train(self, run):
            return {}

    with pytest.raises(ModelError, match=r"\bmine: .*/out/checkpoint, .*none"):
        train(Idle(3), [], None, tmp_path / "out", TrainingOptions())
    assert not Training.open(tmp_path / "out").is_finished


def test_a_sample_that_comes_twice_is_a_fault_of_the_data(mine, task, tmp_path):
    doubled = replace(task, samples=lambda: [*task.samples(), *task.samples()])
    with pytest.raises(DataError, match=r"^reason_seg: sample 'val_00000': .*twice"):
        train(mine(), [doubled], None, tmp_path / "out", TrainingOptions())


def test_a_curve_is_cut_at_a_step_and_forgives_only_a_torn_end(tmp_path):
    curve = Curve(tmp_path / "curve.jsonl")
    assert curve.read() == []
    for step in range(1, 5):
        curve.append(step, {"loss": 1.0})
    with curve.path.open("a") as file:
        file.write('{"step": 5, "lo')
    assert [row["step"] for row in curve.read()] == [1, 2, 3, 4]
    curve.cut(2)
    assert [row["step"] for row in curve.read()] == [1, 2]
    curve.path.write_text('{"loss": 1}\n')
    with pytest.raises(StoreError, match="line 1"):
        curve.read()


def test_samples_that_were_tampered_with_are_refused(tmp_path):
    path = tmp_path / "samples.jsonl"
    for text in (
        "{",
        "[]",
        '{"task": "a"}',
        '{"task":1,"split":"","id":"","group":"","size":[],"question":""}',
    ):
        path.write_text(text + "\n")
        with pytest.raises(StoreError, match="line 1"):
            read_samples(path)


def test_a_folder_that_is_no_training_is_refused(tmp_path):
    with pytest.raises(StoreError):
        Training.open(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(StoreError, match=r"manifest\.json: .*\bmethod\b.*none"):
        Training.open(tmp_path)


def test_other_questions_and_other_benchmarks_do_not_overlap(mine, task, tmp_path):
    rows = train(mine(), [task], None, tmp_path / "out", TrainingOptions()).samples()
    assert measure_contamination(rows, task).samples == 3
    assert measure_contamination([replace(row, split="train") for row in rows], task).samples == 3
    assert measure_contamination([replace(row, question="") for row in rows], task).samples == 0
    others = [replace(row, task="mevis", question="") for row in rows]
    elsewhere = measure_contamination(others, task)
    assert (elsewhere.images, elsewhere.alike, elsewhere.is_any) == (0, 3, True)
    unknown = [replace(row, task="mevis", images=()) for row in rows]
    assert (
        not measure_contamination(unknown, task).is_any
        and not measure_contamination([], task).is_any
    )
    assert measure_contamination([], task).n_total == 3


def test_equal_ids_and_questions_of_two_splits_are_an_overlap_unless_their_images_differ(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)
    cat, dog, bird, fish = (Image.fromarray(pixels).resize((64, 64)) for pixels in noise)
    images_by_split = {
        "train": [cat, dog, grey(100), bird],
        "val": [fish, dog.point(lambda level: level // 2), grey(101), bird],
    }
    for split, images in images_by_split.items():
        for number, image in enumerate(images):
            image.save(tmp_path / f"{split}{number}.png")
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(
                json.dumps({"image": f"{split}{number}.png", "question": "How many?", "answer": 1})
                + "\n"
                for number in range(len(images))
            )
        )
    (tmp_path / "train.toml").write_text(
        'name = "pets"\n[files]\ntrain = "train.jsonl"\nval = "val.jsonl"\n'
        '[media]\nimages = "image"\n[question]\ntext = "question"\n'
        '[answer]\nform = "count"\nfield = "answer"\n'
    )
    train_split, val = (
        plugins.build("tasks", parse(f"table(file=train.jsonl,split={split})"), tmp_path)
        for split in images_by_split
    )
    rows = rows_of(train_split)
    overlap = measure_contamination(rows, val)
    assert (overlap.samples, set(overlap.examples)) == (3, {"1", "2", "3"})
    for still_unknown in (
        [replace(row, images=()) for row in rows],
        [replace(row, split="val") for row in rows],
        [replace(row, size=(*row.size[:2], 2)) for row in rows],
        [replace(row, group=sample.group) for row, sample in zip(rows, val.samples(), strict=True)],
    ):
        assert measure_contamination(still_unknown, val).samples == 4


def grey(level):
    return Image.new("L", (64, 64), level)


def test_a_sample_is_known_again_under_the_name_of_a_training_set(mine, task, tmp_path):
    rows = train(mine(), [task], None, tmp_path / "out", TrainingOptions()).samples()
    renamed = [replace(row, task="a_training_set", id=f"part/{row.id}") for row in rows]
    found = measure_contamination(renamed, task)
    assert (found.samples, found.images, found.alike) == (3, 3, 0)
    first, *others = renamed
    mixed = measure_contamination([first, *(replace(row, question="") for row in others)], task)
    assert (mixed.samples, mixed.images, mixed.alike) == (1, 1, 2)
    assert mixed.examples == (rows[0].id,)


def test_rows_that_were_written_before_images_were_kept_are_read(mine, task, tmp_path):
    training = train(mine(), [task], None, tmp_path / "out", TrainingOptions())
    assert all(len(one) == 64 for row in training.samples() for one in row.images)
    path = training.folder / "samples.jsonl"
    plain = [json.loads(line) for line in path.read_text().splitlines()]
    for one in plain:
        del one["images"]
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps(one) + "\n" for one in plain))
    assert read_samples(old) == [replace(row, images=()) for row in training.samples()]


def rows_of(task):
    return list(
        with_images([TrainedSample.of_sample(task, sample) for sample in task.samples()], task)
    )


@pytest.fixture
def asked():
    """Builds a task on its example."""

    def built(spec):
        folder = REPOSITORY / "tasks"
        name = parse(spec).name
        room = folder / name if (folder / name).is_dir() else folder / "training" / name
        return plugins.build("tasks", parse(spec), room / "example")

    return built


def test_how_many_frames_a_task_shows_hides_no_sample(asked):
    few, all_of_them = asked("activitynet_qa(frames=4)"), asked("activitynet_qa")
    for one, other in ((few, all_of_them), (all_of_them, few)):
        found = measure_contamination([replace(row, images=()) for row in rows_of(one)], other)
        assert 0 < found.n_total == found.samples == found.images


def test_a_record_that_was_written_before_frames_were_left_out_is_compared(asked, tmp_path):
    task = asked("activitynet_qa")
    path = tmp_path / "samples.jsonl"
    rows = [replace(row, size=(*row.size[:2], 99), images=()) for row in rows_of(task)]
    write_samples(path, rows)
    assert read_samples(path) == rows
    assert measure_contamination(read_samples(path), task).samples == len(rows)
    other = [replace(row, size=(row.size[0] + 2, *row.size[1:])) for row in rows]
    assert measure_contamination(other, task).images == 0, "another size is another video"


def test_a_video_is_found_under_the_name_of_another_benchmark(asked):
    task = asked("activitynet_qa")
    rows = [replace(row, task="other", group="x", question="") for row in rows_of(task)]
    video = next(iter(task.samples())).query.media[0]
    assert {row.images for row in rows} == {media_hash(video)} and len(rows[0].images) > 1
    (middle,) = {image_hash(video.frame(len(video) // 2))}
    for known in (rows, [replace(row, images=(middle,)) for row in rows]):
        for spec in ("activitynet_qa", "activitynet_qa(frames=3)"):
            found = measure_contamination(known, asked(spec))
            assert (found.images, found.alike, found.scans) == (0, found.n_total, 0)
    assert not measure_contamination(rows, asked("v_star")).is_any


def test_a_scan_is_found_by_its_name_and_other_names_say_nothing(asked):
    task = asked("sti_bench")
    (row, *_) = (replace(one, task="other", images=()) for one in rows_of(task))
    for group in ("scannet/scene0000_00", "scene0000_00.mp4", "SR/videos/scene0000_00.mp4"):
        found = measure_contamination([replace(row, group=group)], task)
        assert (found.alike, found.scans) == (0, found.n_total) and found.is_any
        assert found.examples[0] == next(iter(task.samples())).id
        assert f"{found.n_total} more" in str(found) and "ScanNet" in str(found)
    for group in ("scannet/scene0000_01", "scene0000_00/1.jpg", "myscene0000_00", "scene0000_000"):
        assert not measure_contamination([replace(row, group=group)], task).is_any
    (film, *_) = (replace(one, task="other", images=()) for one in rows_of(asked("tempcompass")))
    assert not measure_contamination([film], asked("video_mme")).is_any, (
        "both call a video qa_video_00000"
    )


def test_what_would_be_trained_on_may_be_refused_before_anything_is_made(mine, task, tmp_path):
    seen = []

    def refuse(rows):
        seen.extend(rows)
        raise UsageError("no")

    with pytest.raises(UsageError):
        train(mine(), [task], None, tmp_path / "out", TrainingOptions(refuse=refuse))
    assert [row.id for row in seen] == [sample.id for sample in task.samples()]
    assert all(row.images for row in seen) and not (tmp_path / "out").exists()


def test_a_checkpoint_also_says_what_the_one_before_it_was_trained_on(
    mine, task, tmp_path, monkeypatch
):
    first = train(mine(), [task], None, tmp_path / "first", TrainingOptions())
    before = [replace(row, task="earlier") for row in first.samples()[:2]] + first.samples()[:1]
    monkeypatch.setattr(engine, "samples_of_model", lambda model: before)
    seen = []
    second = train(mine(), [task], None, tmp_path / "second", TrainingOptions(refuse=seen.extend))
    assert second.samples() == first.samples()
    assert set(seen) == {*before, *first.samples()}
    for place in (second.folder, second.checkpoint):
        assert samples_of_checkpoint(place) == [*first.samples(), *before[:2]]


def test_a_run_says_where_its_parts_lie(tmp_path):
    run = TrainingRun(out=tmp_path)
    assert (run.checkpoint, run.state) == (tmp_path / "checkpoint", tmp_path / "state")
    assert run.stopping() is False


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_signal_interrupts_the_main_process_alone(mine, task, tmp_path, monkeypatch, rank):
    """Others go on to where they meet it: in NCCL it could not hear of a signal otherwise."""
    monkeypatch.setenv("RANK", rank)
    seen = []

    class Interrupted(mine):
        def train(self, run):
            with run.interruptible():
                os.kill(os.getpid(), signal.SIGTERM)
                seen.append("went on")
            seen.append(run.stopping())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Interrupted(), [task], None, tmp_path / "out", TrainingOptions())
    assert seen == ([] if rank == "0" else ["went on", True])


def test_none_is_the_word_where_a_setting_is_called_so():
    """`none` in a SPEC is no value, unless the setting has a choice of that name."""
    from harness import plugins
    from harness.spec import parse

    assert plugins.build("trainers", parse("sft(reasoning=none)")).settings.reasoning == "none"
    assert plugins.build("trainers", parse("sft(max_steps=none)")).settings.max_steps is None
