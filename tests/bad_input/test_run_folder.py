"""Run folders: resumed, shared, damaged, mixed up."""

import json
import os
import re
import shutil
import socket
import time

import pytest

from harness.record import Run
from harness.store.journal import line, parse_line
from harness.store.lease import lease

case = pytest.mark.case


@pytest.fixture
def finished(harness, counting):
    """The folder of a finished run of `random`."""
    harness.eval(model="random", tasks="counting", code=0)
    return harness.run


def again(harness, *arguments, **options):
    return harness.eval(*arguments, model="random", tasks="counting", **options)


@case(
    "going on with another seed, subset, batch or version of a task",
    "refused; shows old → new; the old run stays",
    code=5,
)
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--seed", 7, "seed: 0 → 7"),
        ("--batch-size", 3, "batch_size: 64 → 3"),
    ],
)
def test_another_configuration_is_not_mixed_in(harness, finished, contents, option, value, words):
    before = contents(finished)
    again(harness, option, value).says(words, "--restart")
    assert contents(finished) == before


@case("`--restart`", "the old run is renamed, not removed", code=0)
def test_an_old_run_is_set_aside_whole(harness, finished, contents):
    before = {path.name: raw for path, raw in contents(finished).items()}
    again(harness, "--restart", "--seed", 7)
    kept = finished.with_name(f"{finished.name}.old1")
    after = {path.name: raw for path, raw in contents(kept).items()}
    assert {name: after[name] for name in before} == before


@case(
    "two evaluations at once into one folder",
    "the second is refused; says which process holds it",
    code=5,
)
def test_two_writers_are_refused(harness, finished, contents):
    with lease(finished):
        before = contents(finished)
        again(harness).says("process", "another --out")
        assert contents(finished) == before
    again(harness, code=0)


@case(
    "two evaluations at once, as two commands",
    "one ends with 0, the other with 5; the results are whole",
    code=5,
)
def test_of_two_commands_one_runs(harness, counting, plugin, process):
    place = plugin(
        "models",
        toy="""
def toy():
    import time

    def answer(query):
        time.sleep(0.15)
        return Answer(count=3)

    return Model(answer)
""",
    )
    process.path.append(place)
    line = ["eval", "--model", "toy", "--tasks", "counting", "--data", harness.folder / "data"]
    more = ["--out", harness.folder / "runs", "--quiet", "--json"]
    started = [process.start(*line, *more) for _ in range(2)]
    ended = [(one.communicate(timeout=60), one.returncode) for one in started]
    assert sorted(code for _, code in ended) == [0, 5]
    ((_, err),) = [output for output, code in ended if code == 5]
    assert "--out" in err and "Traceback" not in err
    assert json.loads((harness.run / "results.json").read_text())["n_scored"] == 8


@case(
    "results.json that was deleted",
    "written again from the journal, byte for byte",
    code=0,
)
def test_lost_results_are_scored_again_from_the_journal(harness, finished):
    kept = {name: (finished / name).read_bytes() for name in ("results.json", "scores.jsonl")}
    for name in kept:
        (finished / name).unlink()
    again(harness)
    assert {name: (finished / name).read_bytes() for name in kept} == kept
    assert len(list(finished.glob("samples.*"))) == 1


@case("a journal of another run that was copied in", "refused; nothing of it is scored", code=5)
@pytest.mark.parametrize("manifest", [True, False])
def test_a_journal_of_another_run_is_refused(harness, finished, manifest, contents):
    harness.eval("--seed", 9, model="random", tasks="counting", out="other", code=0)
    (other,) = (harness.folder / "other").rglob("samples.0.1.jsonl")
    shutil.copy(other, finished / "samples.0.7.jsonl")
    if not manifest:
        for path in [*finished.glob("*.json"), finished / "samples.0.1.jsonl"]:
            path.unlink()
    before = contents(finished)
    again(harness).says("samples.0.7.jsonl")
    assert contents(finished) == before
    if manifest:
        harness("score", finished).says("samples.0.7.jsonl")
        harness("explain", finished, "0").says("samples.0.7.jsonl")


@case(
    "a manifest that is cut, no object, of another version or without a field",
    "refused; names the file and says how to begin anew",
    code=5,
)
@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"version": 2',
        "[]",
        "{}",
        '{"version": 0}',
        '{"version": 1}',
        '{"version": 2}',
        '{"version": 2, "task": 3}',
    ],
)
def test_a_damaged_manifest_is_refused_everywhere(harness, finished, contents, text):
    (finished / "manifest.json").write_text(text)
    before = contents(finished)
    commands = [
        ("score", finished),
        ("explain", finished, "0"),
        ("board", "build", "--runs", finished, "--out", harness.folder / "board"),
        ("board", "check", "--baseline", finished, "--candidate", finished),
    ]
    for arguments in commands:
        harness(*arguments).says(str(finished), "--restart")
    again(harness).says(str(finished), "--restart")
    assert contents(finished) == before and not (harness.folder / "board").exists()
    again(harness, "--restart", code=0)


@case(
    "results or scores that are cut or of another form",
    "refused by boards and the gate; the same evaluation writes them again",
    code=5,
)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.json", "[]"),
        ("results.json", "{}"),
        ("results.json", '{"a'),
        ("results.json", ""),
        ("scores.jsonl", '{"a'),
        ("scores.jsonl", "[]\n"),
        ("scores.jsonl", '{"unit": 3}\n'),
        ("scores.jsonl", "null\n"),
        ("scores.jsonl", "3\n"),
        ("scores.jsonl", "[" * 9999),
    ],
)
def test_damaged_results_are_refused_and_written_again(harness, finished, name, text):
    whole = (finished / name).read_bytes()
    (finished / name).write_text(text)
    harness("board", "check", "--baseline", finished, "--candidate", finished).says(name)
    harness("board", "build", "--runs", finished, "--out", harness.folder / "board").says(name)
    if name == "results.json":  # which is compared; scores are not looked at
        harness("score", finished).says(name, "`harness eval`")
    again(harness, code=0)
    assert (finished / name).read_bytes() == whole


@case(
    "results, scores or a response in the journal that were changed after the run was finished",
    "boards and the gate name the file; `harness score RUN` ends with 1; an evaluation replaces "
    "numbers only with `--rescore`",
    code=5,
)
@pytest.mark.parametrize("name", ["results.json", "scores.jsonl", "samples.0.1.jsonl"])
def test_a_file_that_was_changed_is_named(harness, finished, name):
    path = finished / name
    if name == "samples.0.1.jsonl":
        records = [parse_line(raw) for raw in path.read_bytes().splitlines(keepends=True)]
        records[-1]["prediction"]["responses"] = ["I changed my mind"]
        path.write_bytes(b"".join(map(line, records)))
    else:
        shown = path.read_bytes()
        path.write_bytes(re.sub(rb"accuracy\": (\[?)[0-9.]+", rb'accuracy": \g<1>0.5', shown))
    board = ("board", "build", "--runs", finished, "--out", harness.folder / "board")
    gate = ("board", "check", "--baseline", finished, "--candidate", finished)
    for command in (board, gate, ("board", "keep", "--runs", finished, "--out", "kept")):
        harness(*command).says(str(path), "harness score RUN")
    found = harness.main("score", finished)
    assert found.code == 1 and name in found.err
    if name != "scores.jsonl":  # which is written again from the journal
        again(harness).says(name if name != "results.json" else "→", "--rescore")
    again(harness, "--rescore", code=0)
    harness(*board, code=0)


@case("a folder without a finished run, to keep or publish", "refused; nothing is written", code=5)
@pytest.mark.parametrize("command", ["board keep --runs", "publish"])
def test_a_folder_without_a_run_is_not_kept(harness, command):
    (harness.folder / "empty").mkdir()
    out = harness.folder / "out"
    harness(*command.split(), harness.folder / "empty", "--out", out).says("a finished run")
    assert not out.exists()


@case(
    "a manifest that was changed or is lost",
    "refused by boards and the gate; the same "
    "evaluation writes what follows from the run, and refuses the rest",
    code=5,
)
@pytest.mark.parametrize("change", ["deviations", "subset", "lost"])
def test_a_manifest_that_was_changed_is_refused(harness, finished, edit, change):
    path = finished / "manifest.json"
    whole = path.read_bytes()
    if change == "lost":
        path.unlink()
    else:
        edit(path, lambda plain: plain.update({change: [{"said": "1 → 2"}]}))
    board = ("board", "build", "--runs", harness.folder / "runs", "--out", harness.folder / "board")
    gate = ("board", "check", "--baseline", harness.folder / "runs", "--candidate", finished)
    for command in (board, gate):
        harness(*command).says(str(finished), "manifest.json")
    if change == "subset":
        again(harness).says("subset", "1 → 2", "--restart")
    else:
        again(harness, code=0)
        assert path.read_bytes() == whole
        harness(*board, code=0)


@case(
    "a number in a score that is no number, or larger than a number can be",
    "refused; names the file",
    code=5,
)
@pytest.mark.parametrize("number", ["null", "[]", "{}", "1" + "0" * 400, "NaN", '"1"'])
def test_a_score_that_is_no_number_is_refused(harness, finished, number):
    path = finished / "scores.jsonl"
    changed = re.sub(r'"accuracy": \[[^,]*,', f'"accuracy": [{number},', path.read_text(), count=1)
    assert changed != path.read_text()
    path.write_text(changed)
    harness("board", "check", "--baseline", finished, "--candidate", finished).says(str(path))


@case(
    "a FIFO in the place of results or scores of a run, or of a file of ids",
    "refused; names the file; it is never waited for",
    code=5,
)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("name", ["results.json", "scores.jsonl", "ids"])
def test_a_fifo_in_a_run_is_not_waited_for(harness, finished, in_time, name):
    path = finished / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    if name == "ids":
        again(harness, "--subset", path, code=2).says("ids")
    else:
        harness(
            "board",
            "build",
            "--runs",
            finished,
            "--out",
            harness.folder / "board",
        ).says(str(path))


@case(
    "a finished run of a version that kept no checksums",
    "refused by boards and the gate; the same evaluation adds them, without predicting",
    code=5,
)
def test_a_run_without_checksums_is_refused_until_it_is_evaluated_again(harness, finished):
    (finished / "checksums.json").unlink()
    board = ("board", "build", "--runs", finished, "--out", harness.folder / "board")
    harness(*board).says("checksums.json", "harness eval")
    journal = (finished / "samples.0.1.jsonl").read_bytes()
    again(harness, code=0)
    assert [path.read_bytes() for path in finished.glob("samples.*")] == [journal]
    harness(*board, code=0)


@case(
    "a number in results.json that was changed by hand",
    "`harness score RUN` shows old and "
    "new and ends with 1; an evaluation replaces it only with `--rescore`",
    code=5,
)
def test_a_changed_number_is_noticed(harness, finished, edit):
    whole = (finished / "results.json").read_bytes()
    edit(finished / "results.json", lambda plain: plain["metrics"].update(accuracy=0.99))
    edited = (finished / "results.json").read_bytes()
    again(harness).says("metrics.accuracy: 0.99 →", "--rescore")
    assert (finished / "results.json").read_bytes() == edited
    found = harness.main("score", finished, "--json")
    assert found.code == 1 and "metrics.accuracy: 0.99 →" in found.err
    again(harness, "--rescore", code=0)
    assert (finished / "results.json").read_bytes() == whole


@case(
    "a journal that is missing or has a damaged line",
    "what is left counts; the rest is predicted again, to the same results",
    code=0,
)
@pytest.mark.parametrize("damage", ["missing", "cut", "bit", "zeros", "glued"])
def test_a_damaged_journal_costs_only_what_is_damaged(harness, finished, damage):
    results = (finished / "results.json").read_bytes()
    path = finished / "samples.0.1.jsonl"
    raw = path.read_bytes()
    middle = raw.index(b"\n", len(raw) // 2) + 1
    damaged = {
        "cut": raw[:-7],
        "bit": raw[: middle + 90] + bytes([raw[middle + 90] ^ 1]) + raw[middle + 91 :],
        "zeros": raw[:middle] + b"\0" * 500,
        "glued": raw[:-1] + raw[-50:],
    }
    path.unlink() if damage == "missing" else path.write_bytes(damaged[damage])
    done = again(harness)
    assert (finished / "results.json").read_bytes() == results
    Run.open(finished).check_files()
    if damage != "missing":
        done.says("moved aside", "samples.0.1.jsonl")


@case("a journal that lacks a sample, for commands that only read", "refused", code=5)
def test_what_reads_needs_the_whole_journal(harness, finished):
    (finished / "samples.0.1.jsonl").unlink()
    harness("score", finished).says("expected a prediction")
    harness("explain", finished, "0").says("expected a prediction")


@case("a journal with what a later version may write", "refused; the folder is named", code=5)
@pytest.mark.parametrize(
    ("answer", "processes"),
    [({"zz": 1}, 1), ({"count": True}, 1), ({"boxes": 3}, 1), ({"zz": 1}, 2)],
)
def test_a_prediction_of_another_version_is_no_fault_of_ours(harness, finished, answer, processes):
    path = finished / "samples.0.1.jsonl"
    rows = [parse_line(raw) for raw in path.read_bytes().splitlines(keepends=True)]
    for row in rows:
        if "answer" in row.get("prediction", {}):
            row["prediction"]["answer"] = answer
    path.write_bytes(b"".join(map(line, rows)))
    told = harness("score", finished, "--workers", processes)
    told.says("predictions of this version", str(finished))


@case("a timing.json or a lease that is damaged", "of no consequence", code=0)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("timing.json", "[]"),
        ("timing.json", '{"attempts": 5}'),
        ("timing.json", '{"attempts": [1]}'),
        ("timing.json", ""),
        ("lease.json", '{"host": "x", "pid": 1, "beat": "now"}'),
        ("lease.json", "[]"),
        ("lease.json", ""),
    ],
)
def test_damaged_side_files_do_no_harm(harness, finished, name, text):
    results = (finished / "results.json").read_bytes()
    (finished / name).write_text(text)
    again(harness)
    assert (finished / "results.json").read_bytes() == results


@case(
    "a lease of another machine that shows signs of life",
    "refused until it is silent for a minute",
    code=5,
)
def test_a_living_lease_of_another_machine_is_respected(harness, finished):
    other = {"host": socket.gethostname() + "x", "pid": 7, "beat": time.time()}
    (finished / "lease.json").write_text(json.dumps(other))
    again(harness).says("process 7 on", "x")
    (finished / "lease.json").write_text(json.dumps(other | {"beat": time.time() - 100}))
    again(harness, code=0)


@case("a folder that is no run, or has none below", "refused; says what makes a run", code=5)
@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_run_is_refused(harness, name):
    (harness.folder / "empty").mkdir()
    (harness.folder / "file").write_text("")
    path = harness.folder / name
    harness("score", path).says(str(path), "manifest.json")
    harness("explain", path, "0").says(str(path), "manifest.json")
    harness("board", "build", "--runs", path, "--out", harness.folder / "board").says(str(path))
    assert not (harness.folder / "board").exists()


@case("a run whose data root has moved", "refused; `--data` says where it is now", code=3)
def test_a_moved_data_root_is_said(harness, finished):
    (harness.folder / "data").rename(harness.folder / "moved")
    harness("score", finished).says(str(harness.folder / "data"))
    done = harness("score", finished, "--data", harness.folder / "moved", "--json", code=0)
    assert done.json["tasks"]


@case(
    "going on after an image changed that was answered for, at the same length and time",
    "refused; names the image; `--restart` begins anew",
    code=5,
)
def test_a_changed_image_is_not_mixed_in(harness, reason_seg):
    first = harness.eval(code=0).task("reason_seg")
    path = reason_seg / "val_00001.jpg"
    whole, status = path.read_bytes(), path.stat()
    path.write_bytes(bytes([*whole[:-3], whole[-3] ^ 1, *whole[-2:]]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    harness.eval().says("val_00001.jpg", "--restart")
    path.write_bytes(whole)
    assert harness.eval(code=0).task("reason_seg") == first
