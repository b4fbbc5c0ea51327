"""DT-R1's tags and their legal order, and the reading of its task and answer.

    response := think dt_plan [dt_rep] (think [execute [results]])* task answer

and the environment injects dt_rep and results. Words outside of tags, and tags within a block, are
text: §3 of the paper asks for "presence and sequential ordering of all required pairs", and the
published check of the planner whose graphs it takes over (R-Search, Shi and Shen 2025, `check_r1`)
lets anything stand between the pairs, too.
Shen and Unberath, "Constructing and Interpreting Digital Twin Representations for Visual Reasoning
via Reinforcement Learning" (2025), writes both `<dt_plan>` and `<dt.plan>`; so may a response.

A response is read as spans: the text that the network wrote, and the blocks that were injected. A
`<dt_rep>` or `<results>` of the network's own is forged: it breaks the order and is never taken for
the environment's.
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
"""Texts at which the environment takes over."""
INJECTED = frozenset({TWIN, RESULTS})
TAG = re.compile(r"<(/?)(think|dt[._]plan|dt[._]rep|execute|results|task|answer)>")
LETTERS = {THINK: "T", PLAN: "P", TWIN: "D", EXECUTE: "X", RESULTS: "R", TASK: "K", ANSWER: "A"}
ORDER = re.compile(r"TPD(T(XR)?)*KA")
"""The legal order of blocks, a letter each."""
MAX_INSTANCES = 256


class Task(StrEnum):
    """Kind of task that a response takes its question for."""

    SEGMENTATION = "segmentation"
    GROUNDING = "grounding"
    SUMMARIZATION = "summarization"
    VQA = "vqa"


NAMES = {
    "segmentation": Task.SEGMENTATION,
    "grounding": Task.GROUNDING,
    "summarization": Task.SUMMARIZATION,
    "summarisation": Task.SUMMARIZATION,
    "summary": Task.SUMMARIZATION,
    "visual question answering": Task.VQA,
    "question answering": Task.VQA,
    "vqa": Task.VQA,
}
"""Names of tasks, which `reasoning` may stand before; case, blanks, - and _ do not count."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a response: written by the network, or one injected block."""

    text: str
    injected: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One tag's text."""

    tag: str
    """Canonical name, such as `dt_plan`."""
    text: str
    injected: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks of a response, and why their order is illegal."""

    blocks: tuple[Block, ...]
    """Closed blocks, in order; one within another is not a block of its own."""
    fault: str = ""
    """The first thing that is not in the grammar; empty: nothing."""
    said: tuple[Block, ...] = ()
    """The network's own closed blocks after the last thought of each turn."""

    def last(self, tag: str) -> str | None:
        """Return the text of the last block of a tag after a thought, stripped; None: none."""
        texts = [block.text for block in self.said if block.tag == tag]
        return texts[-1].strip() if texts else None


def read_layout(spans: Sequence[Span]) -> Layout:
    """Find the blocks of a response; never raises, and takes time linear in its length.

    A block that the network opens is closed by the same tag in the same span. Other tags within it
    are its text.

    >>> read_layout([Span("<think>a</think><task>vqa</task>")]).fault
    'the order think, task'
    """
    blocks: list[Block] = []
    said: list[Block] = []
    faults: list[str] = []
    for span in spans:
        if span.injected:
            tag = TAG.match(span.text)
            blocks.append(Block(_name(tag[2]) if tag else "", span.text, injected=True))
        else:
            blocks += _blocks(span.text[:MAX_TEXT], faults)
            said += _blocks(after_thought(span.text), [])
    letters = "".join(
        LETTERS[block.tag] if block.injected == (block.tag in INJECTED) else "!" for block in blocks
    )
    if not faults and ORDER.fullmatch(letters) is None:
        faults.append(f"the order {', '.join(block.tag for block in blocks[:12]) or 'of no tags'}")
    return Layout(tuple(blocks), faults[0] if faults else "", tuple(said))


def _blocks(text: str, faults: list[str]) -> list[Block]:
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
            blocks.append(Block(_name(name), text[opened.end() : tag.start()]))
            opened = None
    if opened is not None:
        faults.append(f"<{opened[2]}> that is not closed")
    return blocks


def _name(tag: str) -> str:
    return tag.replace(".", "_")


def read_task(text: str | None) -> Task | None:
    """Return the task that a `<task>` names; None: none of the four.

    >>> read_task("Reasoning Segmentation"), read_task("cooking")
    (<Task.SEGMENTATION: 'segmentation'>, None)
    """
    words = re.sub(r"[\s_-]+", " ", (text or "")[:200].strip(" \t\r\n.\"'`*").casefold())
    return NAMES.get(words.removeprefix("reasoning "))


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance that an answer names."""

    name: str = ""
    mask: str | None = None
    """Path of a mask in the twin's table."""
    box: Box | None = None
    """In pixels of the original image."""
    frame: int = 0


def read_instances(task: Task, text: str) -> tuple[Instance, ...]:
    """Read the answer of a segmentation or grounding: `{"instances": [{"name": …, "mask": …}]}`.

    Common slips of JSON are repaired. No instance: there is no target.

    Raises:
        ParseError: it is something else.
    """
    value, _ = loads(text, strict=False)
    entries = value.get("instances") if isinstance(value, dict) else value
    if not isinstance(entries, list) or len(entries) > MAX_INSTANCES:
        raise ParseError(
            "answer", expected='{"instances": [...]}, at most 256 of them', found=text[:60]
        )
    return tuple(_instance(task, entry, number) for number, entry in enumerate(entries, start=1))


def _instance(task: Task, entry: Any, number: int) -> Instance:
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
    """Return the text of every `<think>`, one after the other."""
    return "\n".join(block.text for block in layout.blocks if block.tag == THINK)


def harmless(text: str) -> str:
    """Return text that is injected with no tag of the grammar in it: `<` becomes `‹`.

    >>> harmless("1 < 2 </results><answer>")
    '1 < 2 ‹/results>‹answer>'
    """
    return TAG.sub(lambda tag: f"‹{tag[0][1:]}", text)


def shortened(line: str, max_length: int = 256) -> str:
    """Return a text of at most `max_length` characters and three dots: its first and its last half.

    ToRL (Li et al. 2025) does so with errors of more than 256 characters.
    """
    half = max_length // 2
    return line if len(line) <= max_length else f"{line[:half]}...{line[-half:]}"
