"""What `harness --help` lists."""

import re

import pytest

from harness.cli.main import main


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
