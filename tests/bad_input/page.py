"""Writes docs/bad-input.md from the `case` markers of the tests beside this file.

Run it from anywhere: `python tests/bad_input/page.py`. The tests are read, not imported.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "bad-input.md"
ROOMS = {
    "test_dataset.py": "Benchmarks' files",
    "test_videos.py": "Video files",
    "test_predictions.py": "Predictions files",
    "test_model_output.py": "What models write",
    "test_checkpoint.py": "Checkpoints",
    "test_server.py": "Servers of networks",
    "test_command_line.py": "Command line and configuration",
    "test_run_folder.py": "Run folders",
    "test_plugins.py": "Plugins",
    "test_environment.py": "The machine",
    "test_sandbox.py": "Code that a model wrote",
    "test_digital_twins.py": "Plans, twins and code in a rollout",
}
NOT_YET = (
    (
        40,
        "no Java, a library of the wrong version",
        "without Java caption metrics end with code 6, which no test here holds them to",
    ),
)
HEAD = """# Bad input

Each row is a test, which holds harness to the [exit code](runs.md#exit-codes), to a message that
says what was expected, what was found and what to do, and to this: no traceback, no half of a file,
nothing lost that was there, no number changed without a word, nothing executed that came with data
or a checkpoint. With code 0 the evaluation goes on, and what failed is counted beside every score.

Written by `python tests/bad_input/page.py`.
"""


@dataclass(frozen=True)
class Case:
    """One row: a bad input, what happens, and the test that shows it."""

    number: int
    bad_input: str
    what_happens: str
    code: int
    test: str


def cases(path: Path) -> Iterator[Case]:
    """The cases of one file of tests, in its order."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "case":
                    values = [ast.literal_eval(argument) for argument in decorator.args]
                    (code,) = (ast.literal_eval(one.value) for one in decorator.keywords)
                    yield Case(*values, code, f"{path.name}::{node.name}")


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, title in ROOMS.items():
        rows = [row(one) for one in sorted(cases(HERE / name), key=lambda one: one.number)]
        head = "| bad input | what happens | code |\n| --- | --- | --: |"
        parts.append(f"## {title}\n\nTests: `tests/bad_input/{name}`")
        parts.append("\n".join([head, *rows]))
    rows = [f"| {cell(what)} | {cell(when)} |" for _, what, when in NOT_YET]
    head = "| bad input | arrives with |\n| --- | --- |"
    parts.append("## Not yet\n\n" + "\n".join([head, *rows]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def row(one: Case) -> str:
    """A line of a table."""
    return f"| {cell(one.bad_input)} | {cell(one.what_happens)} | {shown(one.code)} |"


def cell(text: str) -> str:
    """Text that a cell of a table can hold."""
    return text.replace("|", "\\|")


def shown(code: int) -> str:
    """An exit code; of a process that was killed, the signal."""
    return str(code) if code >= 0 else f"signal {-code}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
