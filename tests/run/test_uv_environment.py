"""Models in environments of their own: made by a program that stands for uv, run by workers."""

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

import harness
from harness.errors import UsageError
from harness.record import Run
from harness.spec import parse
from harness.uv_environment import (
    READY_FILE,
    environments_of,
    harness_requirements,
    without_environment,
)

UV = """#!{python}
import json, subprocess, sys
from pathlib import Path

words = sys.argv[1:]
Path({log!r}).open("a").write(json.dumps(words) + "\\n")
if words[0] == "venv":
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", words[-1]], check=True)
    raise SystemExit
folder = Path(words[words.index("--python") + 1]).parent.parent
(packages,) = folder.glob("lib/python*/site-packages")
lines = Path(words[words.index("-r") + 1]).read_text().split() if "-r" in words else []
if words[1] == "list":
    version = (packages / "colour.py").read_text()[11:-2]
    print(json.dumps([{{"name": "colour", "version": version}}]))
    raise SystemExit
if "colour==0" in lines:
    raise SystemExit("no release 0 of colour")
for line in lines:
    name, _, version = line.partition("==")
    (packages / f"{{name}}.py").write_text(f'VERSION = "{{version}}"\\n')
(packages / "rest.pth").write_text({rest!r})
"""


def model(release, name="dots_by_colour"):
    return f'{name}(backend=uv(requirements="colour=={release}"))'


@pytest.fixture
def own(toy_command, toys, tmp_path, monkeypatch):
    """A `uv` that installs the package `colour`, and shows the packages of these tests too."""
    programs = tmp_path / "programs"
    programs.mkdir()
    rest = [sysconfig.get_path("purelib"), *map(str, toy_command.path)]
    text = UV.format(python=sys.executable, log=str(tmp_path / "log"), rest="\n".join(rest))
    (programs / "uv").write_text(text)
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return toy_command


def evaluated(command, dots, out, *models):
    given = [word for spec in models for word in ("--model", spec)]
    return command("eval", *given, "--tasks", "dots", "--data", dots, "--out", out)


def runs(out):
    """Results and records of samples, by the release of colour that the model ran with."""
    found = {}
    for manifest in Path(out).glob("*/*/manifest.json"):
        record = json.loads(manifest.read_text())["model"]["description"]
        files = [*sorted(manifest.parent.glob("*.jsonl")), manifest.parent / "results.json"]
        found[record["colour"]] = record, {file.name: file.read_bytes() for file in files}
    return found


def test_two_releases_in_one_command_give_the_bytes_of_two_commands(own, dots, tmp_path):
    done = own("env", "prepare", "--model", model(1), "--model", model(2))
    assert done.returncode == 0, done.stderr
    assert evaluated(own, dots, "both", model(1), model(2)).returncode == 0
    both = runs(tmp_path / "both")
    assert set(both) == {"1", "2"}
    for release in both:
        assert evaluated(own, dots, f"only{release}", model(release)).returncode == 0
        ((record, files),) = runs(tmp_path / f"only{release}").values()
        assert files == both[release][1]
        assert record["environment"]["packages"] == {"colour": release}
        assert Path(record["python"]).is_relative_to(tmp_path / "cache")


def test_a_model_waits_for_its_environment_and_a_killed_preparation_is_begun_again(
    own, dots, tmp_path
):
    refused = evaluated(own, dots, "runs", model(1))
    assert refused.returncode == 6 and "harness env prepare" in refused.stderr
    (environment,) = environments_of(parse(model(1)))
    assert own("env", "prepare", "--model", model(1)).returncode == 0
    (ready,) = (tmp_path / "cache").rglob(READY_FILE)
    ready.unlink()
    assert evaluated(own, dots, "runs", model(1)).returncode == 6
    assert own("env", "prepare", "--model", model(1)).returncode == 0
    assert ready.parent.name == environment.folder.name
    assert evaluated(own, dots, "runs", model(1)).returncode == 0


def test_what_uv_says_is_shown_and_nothing_is_left_as_prepared(own, tmp_path):
    refused = own("env", "prepare", "--model", model(0))
    assert refused.returncode == 6 and "no release 0 of colour" in refused.stderr
    assert not list((tmp_path / "cache").rglob(READY_FILE))


def test_requirements_of_harness_give_way_to_those_of_the_model(own, tmp_path):
    assert own("env", "prepare", "--model", model(1)).returncode == 0
    calls = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    (install,) = (call for call in calls if call[:2] == ["pip", "install"])
    first, second = (at + 1 for at, word in enumerate(install) if word == "-r")
    assert install[install.index("--overrides") + 1] == install[first] != install[second]
    assert any(line.startswith("torch>=") for line in harness_requirements())
    assert not any("extra" in line for line in harness_requirements())


def test_an_external_program_runs_with_its_own_packages(own, shapes, tmp_path):
    (tmp_path / "program.py").write_text(
        "import colour, json, sys\n"
        "rows = [json.loads(line) for line in open(sys.argv[1])]\n"
        "lines = [json.dumps({'id': row['id'], 'text': colour.VERSION}) for row in rows]\n"
        "open(sys.argv[2], 'w').write('\\n'.join(lines))\n"
    )
    environment = 'environment=uv(requirements="colour==2")'
    line = f"python {tmp_path / 'program.py'} {{input}} {{output}}"
    spec = f"external(command='{line}',{environment})"
    given = ["--model", spec, "--tasks", "vsi_bench", "--data", shapes, "--out", "runs"]
    assert own("eval", *given).returncode == 6
    assert own("env", "prepare", "--model", spec).returncode == 0
    done = own("eval", *given)
    assert done.returncode == 0, done.stderr
    (results,) = tmp_path.glob("runs/*/*/results.json")
    samples = harness.read_samples(Run.open(results.parent))
    assert {sample.responses for sample in samples} == {("2",)}


def test_what_changes_packages_changes_the_environment(tmp_path, monkeypatch):
    (tmp_path / "nested.txt").write_text("a==1\n")
    (tmp_path / "all.txt").write_text("-r nested.txt\n")
    spec = parse(f"a(backend=uv(requirements={tmp_path / 'all.txt'}))")

    def folder():
        (environment,) = environments_of(spec)
        return environment.folder

    first = folder()
    (tmp_path / "nested.txt").write_text("a==2\n")
    second = folder()
    monkeypatch.setattr("harness.uv_environment.harness_requirements", lambda: ["numpy>=9"])
    assert len({first, second, folder()}) == 3
    (environment,) = environments_of(
        parse('a(backend=uv(requirements="torch >= 2  b[c]==1,<2 d"))')
    )
    assert environment.lines == ["torch >= 2", "b[c]==1,<2", "d"]


def test_environments_are_found_at_any_depth_and_one_model_has_one():
    inner = 'qwen_vl(checkpoint=a,backend=uv(requirements="b==1",python="3.12",backend=vllm))'
    spec, environment = without_environment(parse(f"memo(base={inner})"))
    assert str(spec) == "memo(base=qwen_vl(checkpoint=a,backend=vllm))"
    assert environment.lines == ["b==1"] and environment.python == "3.12"
    with pytest.raises(UsageError, match="one environment"):
        without_environment(parse(f'memo(base={inner},backend=uv(requirements="c"))'))
    with pytest.raises(UsageError, match="quotes"):
        without_environment(parse("a(backend=uv(requirements=b,python=3.20))"))


@pytest.mark.skipif(shutil.which("uv") is None, reason="no uv")
def test_the_options_are_those_of_the_installed_uv(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "empty.txt").write_text("# nothing\n")
    spec = parse(f"external(environment=uv(requirements={tmp_path / 'empty.txt'}))")
    (environment,) = environments_of(spec)
    assert environment.prepare() and environment.packages == {}
    assert not environment.prepare()
