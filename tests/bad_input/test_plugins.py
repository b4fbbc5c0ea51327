"""Plugins of other people that are broken: blamed by name, never a traceback."""

import pytest

case = pytest.mark.case


def model(body, **settings):
    given = "".join(f", {name}={value}" for name, value in settings.items())
    return f"def toy():\n    {body}\n    return Model(answer{given})\n"


@case(
    "a plugin whose module raises when it is imported",
    "refused; names the plugin, the exception and its line",
    code=4,
)
@pytest.mark.parametrize(
    ("code", "words", "workers"),
    [
        ("1 / 0", "(toys_of_a_test.py, line", 1),
        ("1 / 0", "(toys_of_a_test.py, line", 2),
        ("def toy(:", "SyntaxError", 1),
        ("raise SystemExit(0)", "SystemExit", 1),
        ("from harness.types import Nothing", "ImportError", 1),
        ("", "AttributeError: ", 1),
    ],
)
def test_a_module_that_raises_is_blamed(harness, counting, plugin, code, words, workers):
    plugin("models", toy=code)
    done = harness.eval("--workers", workers, model="toy", tasks="counting")
    done.says("model 'toy'", words, "HARNESS_TRACEBACK=1")
    assert not list((harness.folder / "runs").rglob("results.json"))


@case(
    "a plugin that needs a package which is not installed",
    "refused at once, also if it is only needed by the first sample; names the package",
    code=6,
)
@pytest.mark.parametrize(
    "code",
    [
        "import no_such_package",
        "def toy():\n    import no_such_package",
        model("def answer(query):\n        import no_such_package"),
    ],
)
def test_a_missing_package_is_named(harness, counting, plugin, code):
    plugin("models", toy=code)
    harness.eval(model="toy", tasks="counting").says("toy", "'no_such_package'")


@case("a model that cannot be built, described or prepared", "refused; names the line", code=4)
@pytest.mark.parametrize(
    "code",
    [
        "def toy():\n    1 / 0",
        "def toy():\n    raise SystemExit(0)",
        "def toy():\n    return None",
        "def toy():\n    return Model(counts, batch_size=0)",
        "def toy():\n    return Model(counts, description={'weights': object()})",
        "def toy():\n    return Model(counts, description={'loss': float('nan')})",
        "def toy():\n    made = Model(counts)\n    made.prepare = lambda: 1 / 0\n    return made",
    ],
)
def test_a_model_that_cannot_be_built_is_blamed(harness, counting, plugin, code):
    plugin("models", toy=code)
    harness.eval(model="toy", tasks="counting").says("model", "expected", "found")
    assert not list((harness.folder / "runs").rglob("results.json"))


@case(
    "a model that raises on every sample",
    "failed samples; after 20 in a row the run ends, and `--retry-failed` goes on",
    code=4,
)
def test_a_model_that_only_raises_is_given_up(harness, plugin, shapes):
    plugin("models", toy=model("answer = raises(RuntimeError('no idea'))"))
    done = harness(
        "eval",
        "--model",
        "toy",
        "--tasks",
        "counting(split=pixmo_train)",
        "--data",
        shapes,
        "--out",
        harness.folder / "runs",
        "--quiet",
    )
    done.says("20 samples", "RuntimeError", "--retry-failed")
    assert not list((harness.folder / "runs").rglob("results.json"))


@case(
    "a model that raises, exits, recurses, or answers nonsense",
    "failed samples (model); if all fail, the code is 4",
    code=4,
)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("answer = raises(ValueError('no'))", "ValueError: no (toys_of_a_test.py, line"),
        ("answer = raises(SystemExit(0))", "SystemExit"),
        ("answer = lambda query: answer(query)", "RecursionError"),
        ("answer = lambda query: None", "ValueError"),
        ("answer = lambda query: 5", "AttributeError: 'int'"),
        ("answer = lambda query: Answer()", "count"),
        ("answer = lambda query: Answer(count=-1)", "to 1000000000: -1"),
        ("answer = lambda query: Answer(count=10**400)", "to 1000000000: 1"),
        ("answer = lambda query: Answer(count='3')", "to 1000000000: '3'"),
        ("answer = lambda query: Answer(count=3.0)", "to 1000000000: 3.0"),
        ("answer = lambda query: Answer(boxes=(Box(float('nan'), 2, 3, 4),))", "finite"),
        ("answer = lambda query: Answer(boxes=(Box(3, 2, 1, 4),))", "area"),
        ("answer = lambda query: Answer(boxes=((1, 2),))", "AttributeError: 'tuple'"),
        ("answer = lambda query: Answer(masks=(Rle(2, 2, '5'),))", "MaskError"),
    ],
)
def test_whatever_a_model_does_each_sample_is_counted(harness, counting, plugin, body, words):
    plugin("models", toy=model(body))
    done = harness.eval(model="toy", tasks="counting")
    found = done.says(words).task("counting")
    assert found["failures"]["model"] == found["n_failed"] == found["n_total"] == 8


@case(
    "a task whose reader, check, scorer, ceiling or builder raises",
    "refused; names the task, the exception and its line; of the scorer also the sample",
    code=3,
)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise RuntimeError('no')", "task 'toy'"),
        ("return counting(data, check_samples=None, check=lambda: 1 / 0)", "ZeroDivisionError"),
        (
            """
    def samples():
        yield from list(counting(data).samples())[:2]
        raise KeyError('where')
    return counting(data, samples=samples)""",
            "counting, split pixmo_val: ",
        ),
        ("return scored(data, score=lambda unit, said: 1 / 0)", "counting, on '0': "),
        ("return scored(data, score=lambda unit, said: None)", "counting, on '0': "),
        ("return scored(data, score=lambda unit, said: {'accuracy': Mean('1')})", "on '0'"),
        ("return scored(data, score=lambda unit, said: {'nothing': Mean(1)})", "on '0'"),
        ("return scored(data, ceiling=Ceiling(value=lambda samples: 1 / 0))", "metrics"),
    ],
)
def test_a_task_that_raises_is_blamed(harness, counting, plugin, code, words):
    plugin(
        "tasks",
        toy=f"""
def scored(data, **changes):
    task = counting(data)
    return replace(task, protocol=replace(task.protocol, **changes))


def toy(data):
    {code}
""",
    )
    harness.eval(tasks="toy").says(words, "expected", "found")
    assert not list((harness.folder / "runs").rglob("results.json"))


@case(
    "a scorer or a metric that gives NaN or infinity",
    "refused; names the sample and the metric: no number is made of it",
    code=3,
)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_score_that_is_no_number_is_refused(harness, counting, plugin, value):
    plugin(
        "metrics",
        toy=f"""
def toy():
    return ExtraMetric(Metric("odd"), lambda unit, said: {{"odd": Mean(float("{value}"))}})
""",
    )
    done = harness.eval("--metrics", "toy", tasks="counting")
    done.says("counting, on '0'", "score 'odd'")
    assert not list((harness.folder / "runs").rglob("results.json"))


@case("a plugin whose parameters cannot be understood", "refused; names it", code=4)
def test_annotations_that_cannot_be_resolved_are_blamed(harness, counting, plugin):
    plugin("models", toy="def toy(*, size: 'Nothing' = 3): return Model(counts)")
    harness.eval(model="toy(size=4)", tasks="counting").says("model 'toy'", "NameError")


@case(
    "an error that nobody foresaw",
    "one line with the exception and its place, code 70; HARNESS_TRACEBACK=1 shows the rest",
    code=70,
)
def test_what_nobody_foresaw_is_one_line(harness, counting, monkeypatch):
    def fail(*_, **__):
        raise LookupError("out of the blue")

    monkeypatch.setattr("harness.provenance.collect", fail)
    harness.eval(tasks="counting").says(
        "LookupError", "(test_plugins.py, line", "HARNESS_TRACEBACK=1"
    )
    monkeypatch.setenv("HARNESS_TRACEBACK", "1")
    with pytest.raises(LookupError):
        harness.eval(tasks="counting")
