"""What a terminal shows: help in groups, completion in three shells, the bar of all runs."""

import shutil
import subprocess

import pytest

from harness.cli.main import GROUPS, build_parser
from harness.cli.progress import ProgressBars, Speed, Times, speed


def test_every_command_is_in_the_help_once_and_no_line_is_wider_than_80(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = build_parser().format_help().partition("exit codes")[0]
    commands = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    (choices,) = (one.choices for one in build_parser()._actions if isinstance(one.choices, dict))
    listed = list(choices)
    assert [word for word in commands if word in choices] == listed
    assert len(listed) == sum(map(len, GROUPS.values()))
    assert max(map(len, text.splitlines())) <= 80
    assert choices["eval"].format_help().startswith("usage: harness eval --model")
    assert choices["score"].format_help().startswith("usage: harness score ")


def test_the_parser_of_one_command_is_that_of_the_whole_line():
    def held(parser):
        (commands,) = (one.choices for one in parser._actions if isinstance(one.choices, dict))
        return commands

    every = held(build_parser())
    for name, parser in every.items():
        assert {name} == set(held(build_parser(name))), "only what is needed is built"
        assert held(build_parser(name))[name].format_help() == parser.format_help()
    assert set(held(build_parser("no_such"))) == set(every)


def test_the_options_of_eval_stand_in_groups():
    (choices,) = (one.choices for one in build_parser()._actions if isinstance(one.choices, dict))
    groups = [one for one in choices["eval"]._action_groups if one._group_actions]
    assert len(groups) >= 5 and all(len(one._group_actions) <= 10 for one in groups)


SHELLS = {
    "bash": 'source "$0"; COMP_WORDS=(harness au); COMP_CWORD=1; '
    '_shtab_harness harness au harness; echo "${COMPREPLY[@]}"',
    "zsh": 'autoload -U compinit; compinit -u; source "$0"; echo ${(f)$(which _shtab_harness)} | '
    "grep -o audit | head -1",
    "fish": 'source $argv[1]; complete -C "harness au" | cut -f 1',
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands(shell, command, tmp_path):
    pytest.importorskip("shtab", reason="the extra `completion` is not installed")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    made = command("completion", shell)
    assert made.returncode == 0, made.stderr
    script = tmp_path / f"script.{shell}"
    script.write_text(made.stdout)
    line = [shell, "-c", SHELLS[shell], str(script)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "audit" in done.stdout.split(), done.stderr


def test_the_bar_of_all_runs_counts_the_samples_of_all():
    with ProgressBars() as bars:
        bars.expect(2, 30)
        bars.start("1 of 2: dots, a", 10, 4)  # resumed: four are there
        bars.advance(6, 1, 0.5)
        bars.start("2 of 2: dots, b", 20, 0)
        bars.advance(5, 0, None)
        everything = bars._bars.tasks[0]
        assert (everything.completed, everything.total) == (11, 26)
        assert "2 runs" in everything.description
    with ProgressBars() as bars:
        bars.expect(1, 30)
        assert bars._bars.tasks == []


def test_one_batch_has_the_speed_of_all_its_time_and_both_times_are_shown(monkeypatch):
    """Rich's own speed is that between two reports: of two batches in a row, next to none."""
    now = 0.0
    with ProgressBars() as bars:
        monkeypatch.setattr(bars._bars, "get_time", lambda: now)
        bars.start("1 of 1: dots, a", 10, 4)  # four were done before
        bar = bars._bars.tasks[0]
        assert speed(bar) is None and Times().render(bar).plain == "0:00"
        now = 80.0
        bars.advance(4, 0, 0.5)
        bars.advance(0, 0, 0.5)
        assert speed(bar) == pytest.approx(4 / 80)
        assert Times().render(bar).plain == "1:20, 0:40 left"
        assert Speed().render(bar).plain == "0.05/s"
        now = 161.0  # as long again as until the first steps: from here on they count alone
        bars.advance(1, 0, 0.5)
        assert speed(bar) == pytest.approx(1 / 81)
        bars.advance(1, 3, 0.5)
        assert Times().render(bar).plain == "2:41" and speed(bar) == pytest.approx(6 / 161)
        now = 300.0  # the next runs go on below the full bar
        assert speed(bar) == pytest.approx(6 / 161)
        assert bar.fields["failed"] == "3 failed"
