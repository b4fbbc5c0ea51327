"""Responses of a stand-in for methods of several turns: DT-R1, JiT and the SAM 3 agent.

DT-R1 and JiT write a plan, blocks of code and an answer; the agent calls tools. Which turn comes
next is read from the response so far, with the texts that the method injected into it.
`CONVERSATIONS` holds the `Grammar`s for `grammars`.
"""

import json
import random
import re
from collections.abc import Mapping

from harness.errors import ParseError
from harness.models.dt_r1.catalog import ROLES, Catalog
from harness.models.dt_r1.grammar import (
    Span,
    Task,
    read_instances,
    read_layout,
    read_task,
)
from harness.models.dt_r1.plan import parse_plan
from harness.models.jit.model import plan_of
from harness.models.prompts import text_of
from harness.models.sam3_agent.agent import CLOSED, read_call, read_verdict, say
from harness.rehearsal import drawn
from harness.rehearsal.wording import Asked, Grammar, pattern_of
from harness.responses import tag_text

Filled = Mapping[str, str]
LISTED_NODE = re.compile(r"^([A-Za-z0-9]+): .*\. Gives \w+", re.MULTILINE)
"""A line on a node in a planner's prompt, such as `SAM2: finds objects. Gives masks`."""
MASK_PATH = re.compile(r'"(masks/[^"]+)"')  # "masks/3.png"
PLANS: tuple[Mapping[str, list[str]], ...] = (
    {"SAM2": []},
    {"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"]},
    {"OWLv2": [], "SAM2": ["OWLv2"], "SemanticAnalysis": ["SAM2"]},
    {"SAM2": [], "DINOv2": ["SAM2"], "SemanticAnalysis": ["SAM2"]},
    {"SAM2": [], "DepthAnything2": [], "OpenCV": [], "SemanticAnalysis": ["SAM2"]},
)
"""Plans that together name every node of the paper: dependencies by node."""
CODE = (
    "print(sorted(dt))",
    "found = dt.get('instances', [])\nprint(len(found))",
    "for one in dt.get('instances', []):\n    print(one.get('mask'), one.get('depth'))",
    "paths = [one['mask'] for one in dt['instances'] if 'mask' in one]\n"
    "print([int(load_mask(path).sum()) for path in paths])",
    "path = dt['instances'][0]['mask']\nprint(save_mask(load_mask(path), 'chosen'))",
    "print(undefined_name)",  # an error that is the code's own
)
"""Blocks of code that read a digital twin; the last one fails."""
CODE_SHARE = 0.6
"""Share of answers that come after a block of code."""


def _plan(asked: Asked, draw: random.Random) -> str:
    """Return a plan, as JSON, of nodes that the request lists."""
    listed = set(LISTED_NODE.findall(asked.text)) or set(ROLES)
    possible = [
        plan
        for plan in PLANS
        if set(plan) <= listed and all(set(needed) <= listed for needed in plan.values())
    ]
    return json.dumps(draw.choice(possible) if possible else {min(listed): []})


def _answer(question: str, twin: str, draw: random.Random) -> str:
    """Return the last turn: a task and its answer, with mask paths of the twin."""
    task, text = _task_answer(question.lower(), MASK_PATH.findall(twin), draw)
    return f"<think>{drawn.thoughts(draw)}</think><task>{task}</task><answer>{text}</answer>"


QUESTION_IN_WORDS = re.compile(r"\s*(say|name|how|is|are|does|do|did|can|when|where|why|who)\b")
"""The beginning of questions that are answered in words; most others ask for objects."""


def _task_answer(question: str, paths: list[str], draw: random.Random) -> tuple[str, str]:
    """Return (task, answer) for a question in lower case; `paths` are those of masks."""
    if "letter of the right option" in question:
        return "visual question answering", draw.choice("ABCD")
    if "summar" in question or "describe" in question:
        return "summarization", drawn.sentence(draw)
    share, in_words = draw.random(), QUESTION_IN_WORDS.match(question)
    if "how many" in question and share < 0.7:
        return "visual question answering", str(draw.randint(0, 9))
    if share < (0.7 if in_words else 0.1):
        return "visual question answering", draw.choice([drawn.phrase(draw), "yes", "2"])
    if share < 0.85:  # without paths the answer has no object
        chosen = draw.sample(paths, k=min(len(paths), draw.randint(1, 2)))
        plain = [{"name": drawn.phrase(draw), "mask": path} for path in chosen]
        return "reasoning segmentation", json.dumps({"instances": plain})
    boxes = [
        {"name": drawn.phrase(draw), "bbox": [int(side) for side in item.bounds], "frame": 0}
        for item in drawn.items(draw, (100, 100), most=2)
    ]
    return "grounding", json.dumps({"instances": boxes})


def _write_twin(asked: Asked, filled: Filled, draw: random.Random) -> str:
    """Return the next turn of DT-R1."""
    written = asked.written
    if "</dt_plan>" not in written and "</dt.plan>" not in written:
        plan = f"<dt_plan>{_plan(asked, draw)}</dt_plan>"
        return f"<think>{drawn.thoughts(draw)}</think>{plan}"
    return _turn(asked.text.rpartition("Query: ")[2], written, draw)


def _turn(question: str, written: str, draw: random.Random) -> str:
    """Return a block of code, at most three in a conversation, or the answer."""
    n_run = written.count("</results>")
    if draw.random() < (CODE_SHARE if n_run == 0 else 0.15) and n_run < 3:
        return f"<think>{drawn.thoughts(draw)}</think><execute>{draw.choice(CODE)}</execute>"
    return _answer(question, written, draw)


def _reads_twin(asked: Asked, filled: Filled, text: str) -> bool:
    """Return True if a turn is in DT-R1's grammar: a valid plan, code, or an answer."""
    layout = read_layout([Span(text)])
    if any(block.tag in ("dt_rep", "results") for block in layout.blocks):
        return False
    plan, code = layout.last("dt_plan"), layout.last("execute")
    if plan is not None:
        return _is_plan(plan)
    if code is not None:
        return True
    task, answer = read_task(layout.last("task")), layout.last("answer")
    if task is None or answer is None:
        return False
    if task in (Task.SEGMENTATION, Task.GROUNDING):
        try:
            read_instances(task, answer)
        except ParseError:
            return False
    return True


def _is_plan(text: str) -> bool:
    try:
        parse_plan(text, Catalog(ROLES))
    except ParseError:
        return False
    return True


def _write_plan(asked: Asked, filled: Filled, draw: random.Random) -> str:
    return f"<dt_plan>{_plan(asked, draw)}</dt_plan>"


def _write_reason(asked: Asked, filled: Filled, draw: random.Random) -> str:
    question, _, twin = asked.text.partition("Question: ")[2].partition("<dt_rep>")
    return _turn(question, twin, draw)


# -- the SAM 3 agent --------------------------------------------------------------------------


def _write_call(asked: Asked, filled: Filled, draw: random.Random) -> str:
    """Return the agent's next call: a phrase first, then masks of the last image."""
    count = re.search(r"(\d+) mask\(s\)", asked.text)
    share = draw.random()
    parameters: dict[str, object] = {}
    if count is None and share < 0.1:
        name = "report_no_mask"
    elif count is None or share < 0.1:
        name, parameters = "segment_phrase", {"text_prompt": drawn.phrase(draw)}
    elif share < 0.3 and "examine_each_mask" not in asked.text:
        name = "examine_each_mask"
    else:
        numbers = range(1, int(count[1]) + 1)
        chosen = sorted(draw.sample(numbers, k=draw.randint(1, min(2, len(numbers)))))
        name, parameters = "select_masks_and_return", {"final_answer_masks": chosen}
    plain = json.dumps({"name": name, "parameters": parameters})
    return f"<think>{drawn.thoughts(draw)}</think><tool>{plain}{CLOSED}"


def _reads_call(asked: Asked, filled: Filled, text: str) -> bool:
    try:
        read_call(text, first="mask(s)" not in asked.text)
    except ParseError:
        return False
    return True


def _write_verdict(asked: Asked, filled: Filled, draw: random.Random) -> str:
    verdict = draw.choice(["Accept", "Accept", "Reject"])
    return f"<think>{drawn.thoughts(draw)}</think><verdict>{verdict}</verdict>"


def _reads_verdict(asked: Asked, filled: Filled, text: str) -> bool:
    try:
        read_verdict(text)
    except ParseError:
        return False
    return True


CONVERSATIONS: tuple[Grammar, ...] = (
    Grammar(
        name="sam3_agent/call",
        pattern=pattern_of(say("system")),
        in_system=True,
        write=_write_call,
        reads=_reads_call,
    ),
    Grammar(
        name="sam3_agent/verdict",
        pattern=pattern_of(say("judge")),
        in_system=True,
        write=_write_verdict,
        reads=_reads_verdict,
    ),
    Grammar(
        name="jit/plan",
        pattern=pattern_of(text_of("harness.models.jit", "plan.txt")),
        write=_write_plan,
        reads=lambda asked, filled, text: (
            tag_text(text, "dt_plan") is not None and _is_plan(plan_of(text))
        ),
    ),
    Grammar(
        name="jit/reason",
        pattern=pattern_of(
            text_of("harness.models.jit", "reason.txt").partition("\n\nQuestion")[0]
        ),
        write=_write_reason,
        reads=_reads_twin,
    ),
    Grammar(
        name="dt_r1",
        pattern=pattern_of(text_of("harness.models.dt_r1", "prompt.txt")),
        write=_write_twin,
        reads=_reads_twin,
    ),
)
"""Grammars of the methods' requests."""
