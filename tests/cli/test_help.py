"""What `harness --help` and the settings of `harness list` show."""

import re

import pytest

from harness import plugins
from harness.cli.main import main

TYPES = re.compile(
    r"\b(Literal|Optional|Sequence|Mapping|list|dict|tuple)\[|\| None\b|=None\b"
    r"|: (int|float|str|bool)\b"
)


@pytest.mark.parametrize("kind", ["models", "backends", "trainers", "segmenters", "propagators"])
def test_settings_are_at_most_twelve_without_all_and_have_no_python_types(kind, capsys):
    for name in plugins.installed_plugins(kind):
        shown = []
        for more in ([], ["--all"]):
            assert main(["list", kind, name, *more]) == 0
            shown.append(capsys.readouterr().out)
        assert len(re.findall(r"^  \w+=", shown[0], re.MULTILINE)) <= 12, name
        assert not TYPES.search(shown[1]), name


def test_the_help_shows_nine_commands_first_and_every_command_once(capsys):
    """The others follow by topic."""
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out.partition("start here:\n")[2].partition("\noptions:")[0]
    first, *topics = re.split(r"^\w.*:$", listed, flags=re.MULTILINE)
    names = [re.findall(r"^  (\w+) ", part, re.MULTILINE) for part in (first, *topics)]
    assert len(names[0]) == 9 and {"eval", "score", "board", "train"} <= {*names[0]}
    assert {"diff", "audit", "ladder", "certify", "conform"} <= {*names[1]}
    every = [name for part in names for name in part]
    assert len(every) == len({*every}) and len(topics) == 3
