"""Parse DT-R1's rollouts: the tags and their legal order, the task, and the answer.

    response := think dt_plan [dt_rep] (think [execute [results]])* task answer

The environment injects dt_rep and results. Words outside of tags, and tags within a block, are
text: §3 of the paper asks for "presence and sequential ordering of all required pairs", and the
published check of the planner whose graphs it uses (R-Search, Shi and Shen 2025, `check_r1`) also
allows anything between the pairs. The paper (Shen and Unberath, "Constructing and Interpreting
Digital Twin Representations for Visual Reasoning via Reinforcement Learning", 2025) writes both
`<dt_plan>` and `<dt.plan>`; both are read.

A response is given as spans: texts that the network wrote, and blocks that were injected. A
`<dt_rep>` or `<results>` that the network itself wrote is forged: it breaks the order and is never
read as the environment's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.errors import ParseError
from harness.models.grammar import loads, read_box
from harness.responses import MAX_TEXT
from harness.thoughts import after_thought
from harness.types import Box

THINK, PLAN, TWIN, EXECUTE, RESULTS, TASK, ANSWER = (
    "think",
    "dt_plan",
    "dt_rep",
    "execute",
    "results",
    "task",
    "answer",
)
STOPS = ("</dt_plan>", "</dt.plan>", "</execute>")
"""Texts at which the network's turn ends and the environment acts."""
INJECTED = frozenset({TWIN, RESULTS})
"""Tags that only the environment may write."""
TAG = re.compile(r"<(/?)(think|dt[._]plan|dt[._]rep|execute|results|task|answer)>")
"""Matches an opening or a closing tag of the grammar."""
TAG_LETTERS = {THINK: "T", PLAN: "P", TWIN: "D", EXECUTE: "X", RESULTS: "R", TASK: "K", ANSWER: "A"}
ORDER = re.compile(r"TPD(T(XR)?)*KA")
"""The legal order of blocks, one of `TAG_LETTERS` for each."""
MAX_INSTANCES = 256
"""Most instances of an answer."""


class Task(StrEnum):
    """The kind of task that a response declares in `<task>`."""

    SEGMENTATION = "segmentation"
    GROUNDING = "grounding"
    SUMMARIZATION = "summarization"
    VQA = "vqa"


TASK_NAMES = {
    "segmentation": Task.SEGMENTATION,
    "grounding": Task.GROUNDING,
    "summarization": Task.SUMMARIZATION,
    "summarisation": Task.SUMMARIZATION,
    "summary": Task.SUMMARIZATION,
    "visual question answering": Task.VQA,
    "question answering": Task.VQA,
    "vqa": Task.VQA,
}
"""Tasks by name. `reasoning` may precede a name; case, white space, - and _ are ignored."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a response: a text that the network wrote, or one injected block."""

    text: str
    injected: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The text between an opening and a closing tag."""

    tag: str
    """Canonical name, such as `dt_plan`."""
    text: str
    injected: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks of a response, and the first violation of the grammar."""

    blocks: tuple[Block, ...]
    """Closed blocks, in order; tags within a block are its text."""
    fault: str = ""
    """The first violation of the grammar; empty: there is none."""
    response_blocks: tuple[Block, ...] = ()
    """The blocks that the network wrote after the last thought of each turn."""

    def last(self, tag: str) -> str | None:
        """Return the stripped text of the last response block of a tag; None if there is none."""
        block_texts = [block.text for block in self.response_blocks if block.tag == tag]
        return block_texts[-1].strip() if block_texts else None


def read_layout(spans: Sequence[Span]) -> Layout:
    """Return the blocks of a response; nothing is raised, and the time is linear in its length.

    A block that the network opens is closed by the same tag in the same span.

    >>> read_layout([Span("<think>a</think><task>vqa</task>")]).fault
    'the order think, task'
    """
    blocks: list[Block] = []
    response_blocks: list[Block] = []
    faults: list[str] = []
    for span in spans:
        if span.injected:
            tag = TAG.match(span.text)
            blocks.append(Block(_canonical_tag(tag[2]) if tag else "", span.text, injected=True))
        else:
            blocks += _closed_blocks(span.text[:MAX_TEXT], faults)
            response_blocks += _closed_blocks(after_thought(span.text), [])
    # "!" stands for a forged block, or for an injected one with a tag of the network.
    letters = "".join(
        TAG_LETTERS[block.tag] if block.injected == (block.tag in INJECTED) else "!"
        for block in blocks
    )
    if not faults and ORDER.fullmatch(letters) is None:
        faults.append(f"the order {', '.join(block.tag for block in blocks[:12]) or 'of no tags'}")
    return Layout(tuple(blocks), faults[0] if faults else "", tuple(response_blocks))


def _closed_blocks(text: str, faults: list[str]) -> list[Block]:
    """Return the closed blocks of a text, and add its violations of the grammar to `faults`."""
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    for tag in TAG.finditer(text):
        closing, name = bool(tag[1]), tag[2]
        if opened is None:
            if closing:
                faults.append(f"{tag[0]} that closes nothing")
            else:
                opened = tag
        elif closing and name == opened[2]:
            blocks.append(Block(_canonical_tag(name), text[opened.end() : tag.start()]))
            opened = None
    if opened is not None:
        faults.append(f"<{opened[2]}> that is not closed")
    return blocks


def _canonical_tag(tag: str) -> str:
    """Return the name of a tag with an underscore: "dt_plan" for "dt.plan"."""
    return tag.replace(".", "_")


def read_task(text: str | None) -> Task | None:
    """Return the task that the text of `<task>` names; None if it is not one of the four.

    >>> read_task("Reasoning Segmentation"), read_task("cooking")
    (<Task.SEGMENTATION: 'segmentation'>, None)
    """
    task_name = re.sub(r"[\s_-]+", " ", (text or "")[:200].strip(" \t\r\n.\"'`*").casefold())
    return TASK_NAMES.get(task_name.removeprefix("reasoning "))


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of an answer: a mask (segmentation) or a box in a frame (grounding)."""

    name: str = ""
    mask: str | None = None
    """Path of a mask in the twin, such as `masks/1`."""
    box: Box | None = None
    """Box in pixels of the original image."""
    frame: int = 0
    """Number of the frame that the box is in."""


def read_instances(task: Task, text: str) -> tuple[Instance, ...]:
    """Read the answer of a segmentation or grounding: `{"instances": [{"name": …, "mask": …}]}`.

    Common errors of JSON are repaired. No instances mean that there is no target.

    Raises:
        ParseError: the text has another form, or more than `MAX_INSTANCES` instances.
    """
    value, _ = loads(text, strict=False)
    entries = value.get("instances") if isinstance(value, dict) else value
    if not isinstance(entries, list) or len(entries) > MAX_INSTANCES:
        raise ParseError(
            "answer", expected='{"instances": [...]}, at most 256 of them', found=text[:60]
        )
    return tuple(_instance(task, entry, number) for number, entry in enumerate(entries, start=1))


def _instance(task: Task, entry: Any, number: int) -> Instance:
    """Return instance `number` (from 1) of an answer; ParseError if it is malformed."""
    what, key = f"instance {number}", "mask" if task is Task.SEGMENTATION else "bbox"
    if not isinstance(entry, dict) or key not in entry:
        raise ParseError(what, expected=f'an object with "{key}"', found=str(entry)[:60])
    name = str(entry.get("name", ""))[:200]
    if task is Task.SEGMENTATION:
        if not isinstance(entry["mask"], str):
            raise ParseError(what, expected="a path of the twin", found=str(entry["mask"])[:60])
        return Instance(name, mask=entry["mask"])
    box = read_box(entry["bbox"], f"{what}: bbox")
    frame = entry.get("frame", 0)
    if isinstance(frame, bool) or not isinstance(frame, int) or frame < 0:
        raise ParseError(f"{what}: frame", expected="a frame's number", found=str(frame)[:40])
    return Instance(name, box=box, frame=frame)


def reasoning_of(layout: Layout) -> str:
    """Return the texts of all `<think>` blocks, joined by newlines."""
    return "\n".join(block.text for block in layout.blocks if block.tag == THINK)


def harmless(text: str) -> str:
    """Return a text to inject in which no tag of the grammar can be read: its `<` becomes `‹`.

    >>> harmless("1 < 2 </results><answer>")
    '1 < 2 ‹/results>‹answer>'
    """
    return TAG.sub(lambda tag: f"‹{tag[0][1:]}", text)


def shortened(line: str, max_length: int = 256) -> str:
    """Return a text cut to `max_length` characters and three dots, which replace its middle.

    ToRL (Li et al. 2025) cuts errors of more than 256 characters like this.
    """
    half = max_length // 2
    return line if len(line) <= max_length else f"{line[:half]}...{line[-half:]}"
