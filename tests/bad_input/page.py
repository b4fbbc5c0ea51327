"""Writes docs/bad-input.md from the `case` markers of the tests beside this file.

Run it from anywhere: `python tests/bad_input/page.py`. The tests are read, not imported.
"""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "bad-input.md"
ROOMS = {
    "test_dataset.py": (
        "Benchmarks' files",
        "Code 3: files that are missing (all are listed), cut, of another size or of other fields; "
        "run-lengths, polygons and sizes that cannot be; a key or an id twice; paths that leave "
        "the benchmark's folder; tables of more than 2²⁰ rows or with a cell beyond the limit; "
        "FIFOs, sockets and devices. Code 2: `--data` without the benchmark. Code 5: data that "
        "changed since the run was made.",
    ),
    "test_videos.py": (
        "Video files",
        "Code 3: a video that is missing, empty, cut, has no picture, or is a list of other "
        "files; subtitles that cannot be read. Of files of other evaluations also: questions that "
        "are not the task's (`--allow-extra` leaves them out and records them), two responses to "
        "one question, pickles, XML with entities, and what unpacks to more than 64 MiB.",
    ),
    "test_predictions.py": (
        "Predictions files",
        "Code 3: what is no strict JSON line or is longer than 64 MiB; masks of another scale, "
        "order of size or number than the frames; boxes without area; an answer of another kind "
        "than the question's; an id twice or of another split; an empty file. Code 2: responses "
        "without the model that reads them. Code 5: a run folder that is there already.",
    ),
    "test_model_output.py": ("What models write", "Code 3: stored responses that are damaged."),
    "test_checkpoint.py": (
        "Checkpoints",
        "Code 4: pickled weights, which are never unpickled; weights that are cut, missing, too "
        "many or of another shape; code of the checkpoint (`auto_map`; there is no "
        "`trust_remote_code`); a part or a file that lies elsewhere; an adapter without its base "
        "or on another one (`allow_any_base=true` takes it); a chat template that runs for ten "
        "seconds or takes 1 GiB. Code 6: torch or transformers are not installed.",
    ),
    "test_server.py": (
        "Servers of networks",
        "Code 6: no server, or one without a list of models. Code 2: a key, an address or a model "
        "that the server does not know, another model's name in an answer, a redirection.",
    ),
    "test_command_line.py": (
        "Command line and configuration",
        "Code 2, with the nearest right name or the forms that there are: names, arguments, "
        "options, values, SPECs and configuration files. Code 5: `--out` that is a file.",
    ),
    "test_run_folder.py": (
        "Run folders",
        "Code 5: going on with other settings, data or another version (old → new is shown); a "
        "folder that another process holds; records that are cut, changed, lost or without "
        "checksums, for boards and the gate. The same evaluation writes again what follows from "
        "the run; numbers that were changed it replaces only with `--rescore`, and "
        "`harness score RUN` shows old and new and ends with 1. Code 3: a data root that has "
        "moved; `--data` says where it is now.",
    ),
    "test_plugins.py": (
        "Plugins",
        "With the plugin, the exception and its line: code 4, a plugin that cannot be imported, "
        "understood, built or prepared, and a model after 20 failures in a row (`--retry-failed` "
        "goes on); code 3, a reader, scorer or metric that raises, or gives NaN; code 6, a package "
        "that is not installed. What nobody foresaw ends with 70; `HARNESS_TRACEBACK=1` shows "
        "the rest.",
    ),
    "test_environment.py": (
        "The machine",
        "Code 5: a disk that is full, a folder that cannot be written. Code 6: too little memory "
        "to start. After these, Ctrl-C (130) and a kill the same command goes on to the "
        "undisturbed results.",
    ),
    "test_sandbox.py": ("Code that a model wrote", "Code 6: no sandbox on this machine."),
    "test_digital_twins.py": ("Plans, twins and code in a rollout", ""),
}
"""Of each file of tests the title of its part of the page, and what is refused with which code."""
NOT_YET = {40: "no Java"}
"""Numbers of cases that no test holds harness to."""
HEAD = """# Bad input

Whatever was bad: no traceback, no half of a file, nothing lost that was there, no number changed
without a word, nothing executed that came with data or a checkpoint.

- **Refused** is what would make a number wrong, before the model is built where that can be known.
  The message names the file and the place, what was expected, what was found and what to do; the
  [exit code](runs.md#exit-codes) says of which kind the error is. Nothing is guessed, resized, cut
  to fit or filled in.
- **Counted** is what fails for single samples: the evaluation goes on, and beside every score
  stands how many failed. A failure of the *infrastructure* is tried again by a later run; one of
  the *model* or its response (*parse*) is a wrong answer.

The tables list what goes on (code 0). Each row and each refusal is a test, in the file that is
named. Written by `python tests/bad_input/page.py`. Not tested: captions' metrics without Java,
which end with code 6.
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
    for name, (title, refused) in ROOMS.items():
        rows = [
            f"| {cell(one.bad_input)} | {cell(one.what_happens)} |"
            for one in sorted(cases(HERE / name), key=lambda one: one.number)
            if one.code == 0
        ]
        parts.append(f"## {title}\n\n`tests/bad_input/{name}`")
        parts.append(textwrap.fill(refused, 100, break_on_hyphens=False))
        if rows:
            parts.append("\n".join(["| bad input | what happens |\n| --- | --- |", *rows]))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def cell(text: str) -> str:
    """Text that a cell of a table can hold."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
