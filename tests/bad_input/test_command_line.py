"""What is typed, and configuration files."""

import pytest

case = pytest.mark.case


@case(
    "a name or an argument that is mistyped, also inside another",
    "refused; the nearest right one is suggested",
    code=2,
)
@pytest.mark.parametrize(
    ("model", "task", "words"),
    [
        ("whole_frmae", "counting", " whole_frame?"),
        ("whole_frame", "countnig", " counting, "),
        ("random(sead=1)", "counting", " seed?"),
        ("whole_frame", "counting(splt=pixmo_val)", " split?"),
        ("qwen_vl(backend=stord)", "counting", " stored?"),
        ("qwen_vl(backend=stored(fil=x))", "counting", " file?"),
        ("qwen_vl(backend=stored,segmenter=grabcuts)", "counting", " grabcut?"),
        ("whole_frame", "reason_seg(split=dev)", "'train' or 'val' or 'test'"),
        ("whole_frame", "reason_seg(protocol=seg/lissa)", "seg/lisa or seg/lisa@cv4.11"),
    ],
)
def test_a_mistyped_name_is_corrected(harness, reason_seg, counting, model, task, words):
    harness.eval(model=model, tasks=task).says(words)


@case(
    "a metric, a kind of plugins or a command that is not there",
    "refused; says which there are",
    code=2,
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "taks"),
        ("list", "tasks", "reasonseg"),
        ("evla",),
        ("eval", "--modle", "x"),
        ("data", "make", "shaeps", "--out", "x"),
        (),
    ],
)
def test_a_mistyped_command_is_refused(harness, arguments):
    done = harness(*arguments) if arguments else None
    if done is not None:
        done.says("harness")


@case(
    "a value of the wrong type in a SPEC",
    "refused; names the argument and what it takes",
    code=2,
)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("random(seed=x)", "found 'x'"),
        ("random(seed=1e-4)", "random(seed=…)"),
        ("random(seed=true)", "random(seed=…)"),
        ("random(seed=1e400)", "random(seed=1e400)"),
        ("random(batch_size=0)", "random(batch_size=…)"),
        ("random(seed=99999999999999999999)", "at most 18 digits"),
        ("qwen_vl(checkpoint=/x,backend=transformers(temperature=nan))", "a number"),
        ("qwen_vl(backend=stored(coordinates=cm))", "'pixels' or 'pixels_yx' or 'normalized_1'"),
        ("replay", "file, found"),
        ("qwen_vl", "checkpoint, "),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(harness, counting, model, words):
    harness.eval(model=model, tasks="counting").says(words)


@case("a SPEC that is not closed, empty, twice, or endless", "refused; shows where", code=2)
@pytest.mark.parametrize(
    "model",
    [
        "random(",
        "random)",
        "random(seed=1",
        "",
        "a b",
        "random,",
        "random(seed=1,seed=2)",
        "((((",
        "x" * 20_000,
        "a(b=" * 500 + ")" * 500,
        "random(seed)",
        "random(=1)",
        "é",
        "random(seed='1)",
        "\0",
        "../x",
    ],
)
def test_a_malformed_spec_is_refused(harness, counting, model):
    harness.eval(model=model, tasks="counting").says("expected", "found")


@case("`--workers 0`, negative, fractional or textual numbers", "refused; says the least", code=2)
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--workers", "0"),
        ("--workers", "-3"),
        ("--workers", "1.5"),
        ("--workers", "two"),
        ("--batch-size", "0"),
        ("--seed", "-1"),
        ("--seed", "1e-4"),
        ("--seed", "9" * 5000),
    ],
)
def test_numbers_on_the_command_line_have_bounds(harness, counting, option, value):
    harness.eval(option, value, tasks="counting").says(option)


@pytest.fixture
def configured(harness, counting):
    """Evaluates with a TOML file; `None` takes a key out."""

    def run(text, *arguments, **options):
        path = harness.folder / "run.toml"
        plain = {
            "model": '"whole_frame"',
            "tasks": '"counting"',
            "quiet": "true",
            "json": "true",
            "data": repr(str(harness.folder / "data")),
            "out": repr(str(harness.folder / "runs")),
        }
        key = text.split("=")[0].strip() if isinstance(text, str) else ""
        lines = [f"{name} = {value}" for name, value in plain.items() if name != key]
        raw = text if isinstance(text, bytes) else "\n".join([*lines, text]).encode()
        path.write_bytes(raw)
        return harness("eval", "--config", path, *arguments, **options)

    return run


@case(
    "an unknown key in a configuration file",
    "refused; the nearest right one is suggested",
    code=2,
)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sead = 1", " seed?"),
        ("batchsize = 1", " batch-size?"),
        ("[eval]\nseed = 1", "'eval'"),
        ('function = "x"', "'function'"),
        ('config = "x"', "'config'"),
    ],
)
def test_an_unknown_key_is_refused(configured, text, words):
    configured(text).says("run.toml", words)


@case("a configuration file with a value of the wrong type", "refused; names the key", code=2)
@pytest.mark.parametrize(
    "text",
    [
        'seed = "1e-4"',
        "seed = 1e-4",
        "seed = nan",
        "seed = true",
        'workers = "2"',
        'quiet = "yes"',
        'batch-size = "many"',
        "batch-size = 1.5",
        "batch-size = nan",
        "batch-size = true",
        "subset = 5",
        "tasks = 5",
        "tasks = [1]",
        "data = 5",
        'out = ["a"]',
        "json = {a = 1}",
        "seed = -1",
        "workers = 0",
        "tasks = []",
        "model = []",
    ],
)
def test_a_key_of_the_wrong_type_is_refused(configured, text):
    configured(text).says(text.split(" = ")[0].replace("batch-size", "batch"), "expected", "found")


@case("a configuration file that is no TOML", "refused; names the file", code=2)
@pytest.mark.parametrize("raw", [b"\xff\xfe", b"a = ", b"a = " + b"[" * 5000, b"seed: 1", b"{}"])
def test_what_is_no_toml_is_refused(configured, raw):
    configured(raw).says("run.toml", "a TOML file")


@case("a configuration file that is not there", "refused; names the file", code=2)
@pytest.mark.parametrize("name", ["none.toml", ""])
def test_a_configuration_that_is_not_there_is_refused(harness, name):
    harness("eval", "--config", harness.folder / name).says(
        "a TOML file", str(harness.folder / name)
    )


@case(
    "`--tasks` typed beside a configuration file that has tasks",
    "what is typed wins, wholly",
    code=0,
)
def test_what_is_typed_replaces_what_is_configured(harness, configured):
    done = configured('tasks = ["reason_seg", "mevis"]', "--tasks", "counting", "--seed", "3")
    assert list(done.json["tasks"]) == ["counting"]


@case("a configuration file with every kind of value", "means what the same options mean", code=0)
def test_a_right_configuration_is_taken(harness, configured):
    text = 'batch-size = 2\nsubset = "first2"\nseed = 3\nworkers = 1\nallow-missing = true'
    typed = ("--batch-size", 2, "--subset", "first2", "--seed", 3)
    assert configured(text).json == harness.eval(*typed, tasks="counting").json


@case("an option that is needed and not given", "refused; says what it is for", code=2)
@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("--model", "NAME"),
        ("--tasks", "NAME"),
        ("--data", "folder"),
        ("--out", "runs"),
    ],
)
def test_what_is_needed_is_said(harness, counting, missing, words):
    given = {
        "--model": "whole_frame",
        "--tasks": "counting",
        "--data": harness.folder / "data",
        "--out": harness.folder / "runs",
    }
    rest = [part for name, value in given.items() if name != missing for part in (name, value)]
    harness("eval", *rest).says(missing, words, "found")


@case("a data root that is not there, or a file", "refused; says how to make one", code=2)
@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_root_that_is_no_folder_is_refused(harness, name):
    (harness.folder / "file").write_text("")
    path = harness.folder / name
    done = harness(
        "eval",
        "--model",
        "whole_frame",
        "--tasks",
        "counting",
        "--data",
        path,
        "--out",
        harness.folder / "runs",
    )
    done.says(f"--data {path}", "a folder", "harness data make shapes")


@case(
    "`--subset first0`, a form that is none, a file that is missing, empty or no text",
    "refused; shows the three forms",
    code=2,
)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("first0", "'first0'"),
        ("seed3-0", "'seed3-0'"),
        ("frist7", "first<N>"),
        ("first", "first<N>"),
        ("none.txt", "first<N>"),
        ("x" * 5000, "first<N>"),
        ("", "first<N>"),
        ("{folder}", "first<N>"),
        ("{empty}", "/empty"),
        ("{binary}", "UTF-8"),
        ("{unknown}", "1 others, such as 'x'"),
    ],
)
def test_a_subset_that_is_none_is_refused(harness, counting, name, words):
    files = {"empty": b"\n\n", "binary": b"\xff\xfe\0", "unknown": b"0\nx\n"}
    for stem, raw in files.items():
        (harness.folder / stem).write_bytes(raw)
    places = {stem: harness.folder / stem for stem in files} | {"folder": harness.folder}
    harness.eval("--subset", name.format(**places), tasks="counting").says("subset", words)


@case("a file of ids with CRLF or a byte-order mark", "read without them", code=0)
def test_line_ends_of_a_file_of_ids_do_not_matter(harness, counting):
    path = harness.folder / "ids"
    path.write_bytes(b"\xef\xbb\xbf0\r\n1\r\n")
    assert harness.eval("--subset", path, tasks="counting").task("counting")["n_total"] == 2


@case("`--out` that is a file", "refused; the file stays", code=5)
@pytest.mark.parametrize("command", ["eval", "score", "board"])
def test_an_output_folder_that_is_a_file_is_refused(harness, counting, command):
    path = harness.folder / "taken"
    path.write_text("mine")
    if command == "eval":
        done = harness.eval(tasks="counting", out="taken")
    elif command == "score":
        done = harness.score([{"id": "0", "answer": 3}], "--out", path, tasks="counting")
    else:
        harness.eval(tasks="counting", code=0)
        done = harness("board", "build", "--runs", harness.folder / "runs", "--out", path)
    done.says(str(path))
    assert path.read_text() == "mine"


@case("a folder below a file, to write to", "refused; the file stays", code=5)
@pytest.mark.parametrize(
    "command",
    [
        "audit RUN --out OUT",
        "board keep --runs RUN --out OUT",
        "publish RUN --out OUT",
        "runs export RUN --to parquet --out OUT",
        "sweep --model random --vary seed=1 --tasks counting --data DATA --out OUT",
    ],
)
def test_a_folder_that_cannot_be_made_is_refused(harness, counting, command):
    taken = harness.folder / "taken"
    taken.write_text("mine")
    harness.eval(code=0)
    run = harness.folder / "runs" / "whole_frame" / "counting"
    words = {"RUN": run, "OUT": taken / "out", "DATA": harness.folder / "data"}
    harness(*(words.get(word, word) for word in command.split())).says(f"{taken}/out")
    assert taken.read_text() == "mine"


@case(
    "`harness data make` into a folder that holds something",
    "refused; what is there stays",
    code=2,
)
def test_a_world_is_not_made_over_something(harness, contents):
    (harness.folder / "full").mkdir()
    (harness.folder / "full" / "x").write_text("mine")
    for name in ("full", "full/x"):
        done = harness("data", "make", "shapes", "--out", harness.folder / name)
        done.says(str(harness.folder / name))
    assert contents(harness.folder / "full") == {harness.folder / "full" / "x": b"mine"}


@case(
    "a sample that the run does not have, for `harness explain`",
    "refused; says whose ids they are",
    code=5,
)
def test_explaining_an_unknown_sample_is_refused(harness, counting):
    harness.eval(tasks="counting", code=0)
    harness("explain", harness.run, "nothing").says("'nothing'", "8 samples", "counting")


@case("a level or a limit of the gate that is none", "refused", code=2)
@pytest.mark.parametrize(
    "given",
    [
        ("--level", "nan"),
        ("--level", "2"),
        ("--level", "0"),
        ("--max-drop", "nan"),
        ("--max-drop", "-1"),
        ("--max-drop", "x"),
    ],
)
def test_the_gates_numbers_have_bounds(harness, counting, given):
    harness.eval(tasks="counting", code=0)
    runs = harness.folder / "runs"
    harness("board", "check", "--baseline", runs, "--candidate", runs, *given).says(
        "drop" if "drop" in given[0] else "level"
    )
