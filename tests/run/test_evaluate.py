"""The engine: whatever a model does, every sample is counted and equal runs are equal."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness import plugins
from harness.errors import (
    DataError,
    Locked,
    ModelError,
    ResumeMismatch,
    StoreError,
    UsageError,
)
from harness.interchange.journal_form import prediction_to_json
from harness.record import Run, config_hash, differences, runs_below
from harness.run.batching import batches, select
from harness.run.evaluate import evaluate
from harness.run.external_predictions import Submission
from harness.run.judging import TaskSource
from harness.run.options import NullProgress, Options
from harness.run.parallel import score_journal
from harness.run.rescore import rescore
from harness.run.score import score_file
from harness.run.survey import survey
from harness.run.worker_pool import WorkerStartFailed
from harness.scores import Mean
from harness.spec import parse
from harness.store.checksums import changed_files
from harness.store.journal import Journal
from harness.store.lease import lease


def task(root, spec="dots"):
    return plugins.build("tasks", parse(spec), root)


def run(root, folder, spec="dot_finder", task_spec="dots", **options):
    return evaluate(task(root, task_spec), parse(spec), folder, Options(**options))


def results(folder: Path) -> bytes:
    return (folder / "results.json").read_bytes()


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 2, "isolate": True}])
def test_results_do_not_depend_on_workers_or_isolation(dots, tmp_path, options):
    run(dots, tmp_path / "a")
    run(dots, tmp_path / "b", **options)
    assert results(tmp_path / "a") == results(tmp_path / "b")
    scores = [(tmp_path / name / "scores.jsonl").read_bytes() for name in "ab"]
    assert scores[0] == scores[1]
    Run.open(tmp_path / "b").check_files()


def test_batch_size_does_not_change_a_prediction_that_is_keyed_by_sample(dots, tmp_path):
    one = run(dots, tmp_path / "a", batch_size=1).results["metrics"]
    many = run(dots, tmp_path / "b", batch_size=17).results["metrics"]
    assert one == many


def test_the_seed_changes_the_sample_and_is_in_the_record(dots, tmp_path):
    one = run(dots, tmp_path / "a", seed=1)
    two = run(dots, tmp_path / "b", seed=2)
    assert one.results["metrics"] != two.results["metrics"]
    assert (one.manifest["seed"], one.manifest["model"]["description"]["seed"]) == (1, 1)


def test_results_hold_no_clock_and_no_place(dots, tmp_path):
    run(dots, tmp_path / "a")
    text = results(tmp_path / "a").decode()
    assert str(tmp_path) not in text and "second" not in text
    assert json.loads((tmp_path / "a" / "timing.json").read_text())["samples_per_second"] > 0


def test_a_finished_run_is_not_predicted_again(dots, tmp_path):
    first = run(dots, tmp_path / "a").results
    before = sorted(path.name for path in (tmp_path / "a").iterdir())
    again = run(dots, tmp_path / "a", spec="dot_finder", isolate=True)
    assert again.results == first
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == before


@pytest.mark.parametrize(
    ("fault", "message", "workers"),
    [
        ("raise", "RuntimeError: ", 1),
        ("raise", "RuntimeError: ", 2),
        ("wrong size", "32 × 5", 1),
        ("number", "mask", 1),
    ],
)
def test_a_model_that_fails_now_and_then_is_counted(dots, tmp_path, fault, message, workers):
    spec = f"dot_finder(fault={fault!r},every=3)"
    done = run(dots, tmp_path / "a", spec=spec, workers=workers)
    found = done.results
    failed = [sample.id for sample in task(dots).samples() if int(sample.query.id, 16) % 3 == 0]
    assert found["n_failed"] == found["failures"]["model"] == len(failed) > 0
    assert found["n_scored"] + found["n_failed"] == found["n_total"] == 40
    prediction = done.prediction(failed[0])
    assert prediction.answer is None and message in prediction.failure.message


def test_batches_that_do_not_fit_are_halved(dots, tmp_path):
    done = run(dots, tmp_path / "a", spec="dot_finder(fault=memory,batch=8)")
    assert done.results["n_failed"] == 0
    plain = run(dots, tmp_path / "b", spec="dot_finder(batch=8)")
    assert done.results["metrics"] == plain.results["metrics"]


def test_a_model_that_only_fails_is_given_up_and_can_be_tried_again(dots, tmp_path):
    with pytest.raises(ModelError, match=r"20 samples .*RuntimeError: .*idea"):
        run(dots, tmp_path / "a", spec="dot_finder(fault=raise,every=1)")
    assert not (tmp_path / "a" / "results.json").exists()


def test_failed_samples_are_predicted_again_only_when_asked(dots, tmp_path, monkeypatch):
    spec = "dot_finder(fault=raise,every=3)"
    assert run(dots, tmp_path / "a", spec=spec).results["n_failed"] > 0
    import toys

    monkeypatch.setattr(toys.DotFinder, "answer", _always_right)
    assert run(dots, tmp_path / "a", spec=spec).results["n_failed"] > 0
    assert run(dots, tmp_path / "a", spec=spec, retry_failed=True).results["n_failed"] == 0


def _always_right(self, query):
    from toys import bright

    from harness.masks import Rle
    from harness.types import Answer, Prediction, query_id

    index = next(k for k in range(40) if query_id(f"dot/{k}") == query.id)
    return Prediction(query_id=query.id, answer=Answer(masks=(Rle.from_array(bright(index)),)))


def test_units_are_scored_together_and_groups_counted(dots, tmp_path):
    done = run(dots, tmp_path / "a", task_spec="dots(pair=true)")
    units = list(done.units())
    assert len(units) == 20 and all(len(unit.samples) == 2 for unit in units)
    assert {unit.group for unit in units} == {f"group {k}" for k in range(10)}
    assert set(done.results["breakdowns"]["odd"]) == {"True", "False"}
    assert sum(one["n"] for one in done.results["breakdowns"]["odd"].values()) == 40


@pytest.mark.parametrize(("name", "count"), [("first7", 8), ("seed3-9", 10), ("seed4-9", 10)])
def test_subsets_take_whole_units_and_are_recorded(dots, tmp_path, name, count):
    done = run(dots, tmp_path / "a", task_spec="dots(pair=true)", subset=name)
    assert done.results["n_total"] == count and done.results["subset"] == name
    assert done.results["config_hash"] == done.manifest["config_hash"]


def test_a_file_of_ids_is_a_subset(dots, tmp_path):
    (tmp_path / "ids").write_text("dot/3\ndot/5\n")
    done = run(dots, tmp_path / "a", subset=str(tmp_path / "ids"))
    assert [unit.unit for unit in done.units()] == ["dot/3", "dot/5"]
    (tmp_path / "ids").write_text("dot/3\ndot/500\n")
    with pytest.raises(UsageError, match="dot/500"):
        select(task(dots), str(tmp_path / "ids"))
    with pytest.raises(UsageError, match="first<N>"):
        select(task(dots), "frist7")


def test_the_plan_of_batches_covers_each_sample_once(dots):
    samples = list(task(dots).samples())
    for sort in (False, True):
        plan = list(batches([sample.query for sample in samples], size=3, sort=sort))
        ids = [query.id for batch in plan for query in batch.queries]
        assert sorted(ids) == sorted(sample.query.id for sample in samples)
        assert [batch.index for batch in plan] == list(range(len(plan)))


@pytest.mark.parametrize("change", [{"seed": 7}, {"batch_size": 9}, {"subset": "first4"}])
def test_another_configuration_is_refused_with_its_difference(dots, tmp_path, change):
    run(dots, tmp_path / "a")
    with pytest.raises(ResumeMismatch, match=f"{next(iter(change))}.*→"):
        run(dots, tmp_path / "a", **change)
    assert run(dots, tmp_path / "a", restart=True, **change).is_finished
    assert (tmp_path / "a.old1" / "results.json").exists()


def test_changed_data_is_refused(dots, tmp_path):
    run(dots, tmp_path / "a")
    (dots / "dots" / "0039.png").unlink()
    with pytest.raises(ResumeMismatch, match="fingerprint"):
        run(dots, tmp_path / "a")
    with pytest.raises(DataError, match="fingerprint"):
        rescore(TaskSource("dots", dots), Run.open(tmp_path / "a"))


def test_a_folder_in_use_is_refused(dots, tmp_path):
    (tmp_path / "a").mkdir()
    with lease(tmp_path / "a"), pytest.raises(Locked):
        run(dots, tmp_path / "a")


def test_faulty_files_are_all_named_before_any_work(dots, tmp_path):
    for index in (3, 4):
        (dots / "dots" / f"{index:04d}.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"2 problems(.|\n)*0003(.|\n)*0004"):
        run(dots, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_an_image_that_breaks_later_is_a_failure_of_its_sample(dots, tmp_path):
    path = dots / "dots" / "0003.png"
    path.write_bytes(path.read_bytes()[:60])
    done = run(dots, tmp_path / "a")
    assert done.results["failures"]["infrastructure"] == 1
    assert "0003.png" in done.prediction("dot/3").failure.message
    # It is tried again on resume, and found when the file was mended.
    import toys

    toys.write_dots(tmp_path / "again", 4)
    path.write_bytes((tmp_path / "again" / "dots" / "0003.png").read_bytes())
    assert run(dots, tmp_path / "a").results["n_failed"] == 0


def test_duplicate_ids_and_torn_units_are_refused(dots):
    whole = task(dots, "dots(pair=true)")
    samples = list(whole.samples())
    twice = replace(whole, samples=lambda: [*samples, samples[0]])
    with pytest.raises(DataError, match=r"^dots: sample 'dot/0': .*twice"):
        survey(twice, select(twice, None))
    torn = replace(whole, samples=lambda: [samples[0], samples[2], samples[1]])
    with pytest.raises(DataError, match=r"^dots: unit 'unit 0': "):
        survey(torn, select(torn, None))
    nothing = replace(whole, samples=lambda: [])
    with pytest.raises(DataError, match=r"^dots, split test: .*none"):
        survey(nothing, select(nothing, None))


@pytest.mark.parametrize("processes", [1, 3])
def test_a_run_is_scored_again_without_its_model_in_any_number_of_processes(
    dots, tmp_path, monkeypatch, processes
):
    spec = "dot_finder(fault='wrong size',every=3)"
    done = run(dots, tmp_path / "a", spec=spec, task_spec="dots(pair=true)")
    scored = []

    def noted(*given, **options):
        for score, counted in score_journal(*given, **options):
            scored.append(score)
            yield score, counted

    monkeypatch.setattr("harness.run.rescore.score_journal", noted)
    source = TaskSource("dots(pair=true)", dots)
    again, differing = rescore(source, Run.open(tmp_path / "a"), processes=processes)
    assert differing == [] and again == done.results
    if processes > 1:
        assert scored == list(done.units()), "in the task's order"


def test_a_missing_prediction_is_noticed_by_every_process(dots, tmp_path):
    run(dots, tmp_path / "a")
    (journal,) = (tmp_path / "a").glob("samples.*.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    for processes in (1, 2):
        with pytest.raises(StoreError, match=r"/a: .*[0-9a-f]{32}.*none"):
            rescore(TaskSource("dots", dots), Run.open(tmp_path / "a"), processes=processes)


def test_predictions_from_elsewhere_score_as_the_run_that_made_them(dots, tmp_path):
    done = run(dots, tmp_path / "a")
    lines = []
    for sample in task(dots).samples():
        answer = prediction_to_json(done.prediction(sample.id))["answer"]
        lines.append(json.dumps({"id": sample.id, "masks": answer["masks"]}))
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    submission = Submission(path=tmp_path / "p.jsonl", name="p")
    scored = score_file(task(dots), submission, folder=tmp_path / "b")
    assert scored["metrics"] == done.results["metrics"]
    assert len(runs_below(tmp_path)) == 2
    assert Run.open(tmp_path / "b").prediction("dot/0") == done.prediction("dot/0")


def test_a_missing_line_is_a_failed_sample(dots, tmp_path):
    (tmp_path / "p.jsonl").write_text('{"id": "dot/0", "no_target": true}\n')
    submission = Submission(path=tmp_path / "p.jsonl", name="p")
    scored = score_file(task(dots), submission, folder=None)
    assert (scored["n_scored"], scored["n_failed"]) == (1, 39)
    assert scored["failures"]["infrastructure"] == 39 and scored["metrics"]["IoU"] == 0.0


def test_hashes_ignore_order_and_differences_name_the_value():
    assert config_hash({"a": 1, "b": 2}) == config_hash({"b": 2, "a": 1})
    assert differences({"a": {"b": 1}}, {"a": {"b": 2}}) == ["a.b: 1 → 2"]


@pytest.mark.parametrize("options", [{"workers": 2}, {"isolate": True}])
def test_a_batch_that_kills_its_worker_twice_is_lost_and_nothing_else(dots, tmp_path, options):
    spec = "dot_finder(fault=die,every=23,batch=2)"
    done = run(dots, tmp_path / "a", spec=spec, **options)
    lost = {
        sample.id
        for batch in batches((sample.query for sample in task(dots).samples()), size=2, sort=True)
        for sample in task(dots).samples()
        if any(int(query.id, 16) % 23 == 0 for query in batch.queries)
        and sample.query.id in {query.id for query in batch.queries}
    }
    assert done.results["failures"]["infrastructure"] == len(lost) > 0
    for name in lost:  # a third one, if the first held another batch too
        assert re.match("[23] worker processes ended", done.prediction(name).failure.message)
    plain = run(dots, tmp_path / "b", spec="dot_finder(batch=2)")
    kept = next(unit.unit for unit in plain.units() if unit.unit not in lost)
    assert done.prediction(kept) == plain.prediction(kept)


def test_a_worker_that_is_silent_for_too_long_is_replaced(dots, tmp_path):
    spec = "dot_finder(fault=hang,every=23,batch=2)"
    done = run(dots, tmp_path / "a", spec=spec, workers=2, timeout=1.5)
    assert 0 < done.results["failures"]["infrastructure"] <= 8
    assert done.results["n_total"] == 40


def test_a_worker_that_dies_while_it_loads_ends_the_run_with_its_exit_code(dots, tmp_path):
    with pytest.raises(WorkerStartFailed, match="code 3"):
        run(dots, tmp_path / "a", spec="dot_finder(exit=3)", workers=2)


def test_a_killed_retry_leaves_no_numbers_of_other_predictions(dots, tmp_path, monkeypatch):
    spec = "dot_finder(fault=raise,every=3)"
    run(dots, tmp_path / "a", spec=spec)
    assert (tmp_path / "a" / "results.json").exists()
    monkeypatch.setattr("harness.run.pipeline.predict", _stopped)
    with pytest.raises(KeyboardInterrupt):
        run(dots, tmp_path / "a", spec=spec, retry_failed=True)
    assert not (tmp_path / "a" / "results.json").exists()


def _stopped(*_):
    raise KeyboardInterrupt


def test_other_numbers_for_the_same_predictions_are_refused(dots, tmp_path, monkeypatch):
    first = run(dots, tmp_path / "a").results["metrics"]["IoU"]
    import toys

    official = toys.score
    halved = replace(
        toys.PROTOCOL,
        score=lambda unit, said: {
            **official(unit, said),
            "IoU": Mean(official(unit, said)["IoU"].value / 2),
        },
    )
    monkeypatch.setattr(toys, "PROTOCOL", halved)
    with pytest.raises(ResumeMismatch, match=r"metrics\.IoU.*→(.|\n)*--rescore"):
        run(dots, tmp_path / "a")
    again = run(dots, tmp_path / "a", rescore=True).results["metrics"]["IoU"]
    assert again == pytest.approx(first / 2)


def test_a_finished_run_gets_further_metrics_and_keeps_those_it_has(dots, tmp_path):
    few = run(dots, tmp_path / "a").results
    further = TaskSource("dots", dots, ("reasoning_tokens",)).build()
    more = evaluate(further, parse("dot_finder"), tmp_path / "a", Options()).results
    assert more["metrics"].keys() - few["metrics"].keys() == {"reasoning tokens"}
    assert run(dots, tmp_path / "a").results == more
    fresh = evaluate(further, parse("dot_finder"), tmp_path / "b", Options()).results
    assert fresh == more


@pytest.mark.parametrize("metrics", [(), ("reasoning_tokens",)])
def test_a_finished_run_that_is_repeated_records_the_code_that_repeated_it(
    dots, tmp_path, monkeypatch, metrics
):
    before = TaskSource("dots", dots, metrics).build()
    done = evaluate(before, parse("dot_finder"), tmp_path / "a", Options()).results
    monkeypatch.setattr("harness.provenance._own_revision", lambda: ("f" * 40, False))
    again = run(dots, tmp_path / "a")
    assert again.manifest["resumed_at"] == ["f" * 40]
    assert (again.results, changed_files(again.folder)) == (done, {})
    if metrics:  # scores that would be kept are those that were written
        scores = again.folder / "scores.jsonl"
        scores.write_text(scores.read_text().replace("}", "} ", 1))
        with pytest.raises(ResumeMismatch, match=r"scores\.jsonl"):
            run(dots, tmp_path / "a")


def test_a_scorer_that_fails_does_not_stop_the_predictions(dots, tmp_path, monkeypatch):
    import toys

    def wrong(unit, said):
        if unit[0].id == "dot/3":
            raise DataError("the scorer")
        return official(unit, said)

    official = toys.score
    monkeypatch.setattr(toys, "PROTOCOL", replace(toys.PROTOCOL, score=wrong))
    with pytest.raises(DataError, match=r"'dot/3': .*scorer"):
        run(dots, tmp_path / "a")
    assert len(Journal(tmp_path / "a").places) == 40


def test_runs_that_were_set_aside_are_not_on_boards(dots, tmp_path):
    run(dots, tmp_path / "runs" / "a")
    run(dots, tmp_path / "runs" / "a", restart=True)
    assert [path.name for path in runs_below(tmp_path / "runs")] == ["a"]
    assert runs_below(tmp_path / "runs" / "a.old1") == [tmp_path / "runs" / "a.old1"]


def test_a_model_that_kills_every_worker_ends_the_run(dots, tmp_path):
    with pytest.raises(ModelError, match=r"20 samples .*2 .*code -9"):
        run(dots, tmp_path / "a", spec="dot_finder(fault=die,every=1,batch=20)", isolate=True)


def unlike(path, by):
    """Change an image's content, but neither its length nor its time."""
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(bytes([*before[:-1], before[-1] ^ by]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("old", [True, False])
def test_an_image_that_changed_after_its_answer_is_refused_by_name(dots, tmp_path, old):
    path = dots / "dots" / "0003.png"
    if old:  # so that its hash is kept beyond this process's run
        for one in path.parent.iterdir():
            os.utime(one, ns=(1, 1))
    first = run(dots, tmp_path / "a")
    assert run(dots, tmp_path / "a").results == first.results
    unlike(path, 1)
    with pytest.raises(ResumeMismatch, match=r"0003\.png"):
        run(dots, tmp_path / "a")
    unlike(path, 1)
    assert run(dots, tmp_path / "a").results == first.results


def test_an_image_that_is_mended_before_its_answer_is_noted(dots, tmp_path):
    path = dots / "dots" / "0003.png"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    first = run(dots, tmp_path / "a")
    assert first.results["failures"]["infrastructure"] == 1
    path.write_bytes(whole)
    again = run(dots, tmp_path / "a")
    assert again.results["n_failed"] == 0
    assert again.manifest["data"]["images"] != first.manifest["data"]["images"]
    unlike(path, 1)
    with pytest.raises(ResumeMismatch, match=r"0003\.png"):
        run(dots, tmp_path / "a")


def test_a_failed_sample_whose_image_was_mended_is_asked_again(dots, tmp_path, monkeypatch):
    spec = "dot_finder(fault=raise,every=3)"
    run(dots, tmp_path / "a", spec=spec)
    done = Run.open(tmp_path / "a")
    failed = next(index for index in range(40) if done.prediction(f"dot/{index}").failure)
    unlike(dots / "dots" / f"{failed:04}.png", 1)
    with pytest.raises(ResumeMismatch):
        run(dots, tmp_path / "a", spec=spec)
    import toys

    monkeypatch.setattr(toys.DotFinder, "answer", _always_right)
    assert run(dots, tmp_path / "a", spec=spec, retry_failed=True).results["n_failed"] == 0


def test_a_part_of_a_run_is_not_gone_on_with_where_nobody_knows_what_it_saw(dots, tmp_path):
    spec = "dot_finder(fault=raise,every=3)"
    first = run(dots, tmp_path / "a", spec=spec)
    (tmp_path / "a" / "media.jsonl").unlink()
    with pytest.raises(ResumeMismatch, match=r"media\.jsonl"):
        run(dots, tmp_path / "a", spec=spec, retry_failed=True)
    notes: list[str] = []
    told = NullProgress()
    told.note = notes.append
    again = evaluate(task(dots, "dots"), parse(spec), tmp_path / "a", Options(), progress=told)
    assert again.results == first.results
    assert any("media.jsonl" in note for note in notes)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_on_a_file_of_ids_is_scored_again(dots, tmp_path, processes):
    (tmp_path / "ids").write_text("dot/3\ndot/5\n")
    done = run(dots, tmp_path / "a", subset=str(tmp_path / "ids"))
    again, differing = rescore(
        TaskSource("dots", dots), Run.open(tmp_path / "a"), processes=processes
    )
    assert differing == [] and again == done.results


def test_the_last_score_that_progress_is_told_is_the_runs(dots, tmp_path):
    info = []

    class Told(NullProgress):
        def advance(self, samples, failed, headline):
            info.append(headline)

    spec = parse("dot_finder(batch=1)")
    done = evaluate(task(dots), spec, tmp_path / "a", Options(), progress=Told()).results
    assert info[-1] == done["metrics"][done["headline"]] != info[0]


@pytest.mark.parametrize("reads", [None, "all", "none"])
def test_progress_counts_failures_as_the_results_do(dots, tmp_path, reads):
    """A protocol may read a response that the model's parser cannot, or not read what it can."""
    rules = {"all": lambda *_: True, "none": lambda *_: False}
    told = []

    class Told(NullProgress):
        def advance(self, samples, failed, headline):
            told.append(failed)

    asked = task(dots)
    asked = replace(asked, protocol=replace(asked.protocol, reads=rules.get(reads)))
    spec = parse("dot_finder(batch=1,fault='wrong size',every=3)")
    done = evaluate(asked, spec, tmp_path / "a", Options(), progress=Told()).results
    assert told[-1] == done["n_failed"]
    if reads is not None:
        assert done["n_failed"] == {"all": 0, "none": done["n_total"]}[reads]


def test_data_may_be_named_in_another_way_when_a_run_goes_on(dots, tmp_path, monkeypatch):
    link = tmp_path / "link"
    link.symlink_to(dots)
    monkeypatch.chdir(dots.parent)
    for root in (Path(dots.name), dots, link):
        task = plugins.build("tasks", parse("dots"), root)
        options = Options(data_root=str(root.resolve()))
        evaluate(task, plugins.build("models", parse("dot_finder")), tmp_path / "run", options)
    names = (tmp_path / "run" / "media.jsonl").read_text()
    assert str(tmp_path) not in names and str(dots) not in names


def test_a_refused_resume_leaves_a_finished_run_as_it_was(dots, tmp_path):
    root = tmp_path / "other"
    shutil.copytree(dots, root)
    task = plugins.build("tasks", parse("dots"), root)
    model = plugins.build("models", parse("dot_finder"))
    run = evaluate(task, model, tmp_path / "run", Options(data_root=str(root)))
    image = next(root.rglob("*.png"))
    image.write_bytes(image.read_bytes() + b"more")
    with pytest.raises(ResumeMismatch):
        evaluate(task, model, tmp_path / "run", Options(data_root=str(root)))
    run.check_files()
