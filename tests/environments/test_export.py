"""Packages of `harness env export`: each SPEC has its own, and its text is data, not code."""

import ast
import shlex
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.main import main
from harness.environments.export import package_name
from harness.environments.session import EnvironmentSettings, open_environment

LIMITS = "coordinates=pixels,factor=28,min_pixels=3136,max_pixels=12845056"
MODEL = f"qwen_vl(backend=openai({LIMITS}),segmenter=box,propagator=still)"


@given(st.lists(st.text("ab-+._ A😀\"'\\", min_size=1, max_size=4), min_size=2, unique=True))
def test_two_specs_do_not_share_a_package(values):
    names = [package_name(f"table(file={value})") for value in values]
    assert len({*names}) == len(names) and all(name.isidentifier() for name in names)


@pytest.mark.parametrize("subset", ['a "quoted".txt', "back\\slash\n.txt", "😀.txt"])
def test_text_of_a_user_stands_in_a_package_as_it_is(subset, shapes, tmp_path):
    units = open_environment(
        EnvironmentSettings(task="reason_seg", data=str(shapes), model=MODEL)
    ).units
    (tmp_path / subset).write_text("\n".join(units))
    given = ["--tasks", "reason_seg", "--data", str(shapes), "--model", MODEL]
    given += ["--subset", str(tmp_path / subset), "--out", str(tmp_path / "out")]
    assert main(["env", "export", *given]) == 0
    (folder,) = (tmp_path / "out").iterdir()
    tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    for module in (folder / f"{folder.name}.py", folder / f"{folder.name}_server.py"):
        parsed = ast.parse(module.read_text("utf-8"))
        values = {node.value for node in ast.walk(parsed) if isinstance(node, ast.Constant)}
        assert str(tmp_path / subset) in values


def test_each_package_has_its_next_commands(shapes, tmp_path, capsys):
    given = ["--tasks", "reason_seg", "--tasks", "refcoco", "--data", str(shapes)]
    out = tmp_path / "a folder"
    assert main(["env", "export", *given, "--model", MODEL, "--out", str(out)]) == 0
    install, evaluate, others = capsys.readouterr().out.splitlines()[-3:]
    assert shlex.split(install)[-1] == str(out / "harness_reason_seg")
    assert evaluate in (out / "harness_reason_seg" / "README.md").read_text("utf-8")
    assert others == "Likewise for harness_refcoco"
