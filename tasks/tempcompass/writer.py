"""Write sample data: generated videos in TempCompass' two layouts, each question in four formats.

The repository's files are `questions/<format>.json`; the hub's tables,
`<format>/test-00000-of-00001.parquet`, hold the same questions. The reader prefers the JSON files.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from harness.metrics.tempcompass import ASPECTS
from harness.tasks.qa.options import lettered
from harness.tasks.tempcompass.records import FORMATS
from harness.tasks.video_qa.writing import choose_questions, name, write_table, write_videos
from harness.world.quiz import QA
from harness.world.shapes import World

ASPECT_OF_KIND = {
    "direction": "direction",
    "speed": "speed",
    "order": "order",
    "order3": "order",
    "leaves": "action",
    "end_relation": "attribute_change",
}
"""TempCompass' aspect for each kind of the world's questions."""
Questions: TypeAlias = dict[str, dict[str, list[dict[str, str]]]]
"""Questions of one format, by video and aspect."""
LINE_NAMES = (("Option", "12"), ("Sentence", "AB"), ("Caption", "AB"))
"""(Word, two marks) of the two lines of `caption_matching`, such as "Option 1" and "Option 2"."""


def write(world: World, root: Path) -> None:
    """Write questions, meta data and videos below `root/tempcompass`."""
    folder = root / "tempcompass"
    examples = choose_questions(world, "test")
    formats: dict[str, Questions] = {format: {} for format in FORMATS}
    meta = {}
    for number, (scene, questions) in enumerate(examples):
        video = name(scene)
        entry_of_aspect: dict[str, object] = dict.fromkeys(ASPECTS)
        meta[video] = {"eval_dim": entry_of_aspect, "content": ["shapes"]}
        for question in questions:
            aspect = ASPECT_OF_KIND[question.kind]
            entry_of_aspect[aspect] = {"type": question.kind}
            for format, entry in _formats(question, number).items():
                formats[format].setdefault(video, {}).setdefault(aspect, []).append(entry)
    write_videos(folder / "videos", [scene for scene, _ in examples])
    _write_json(folder / "meta_info.json", meta)
    for format, plain in formats.items():
        _write_json(folder / "questions" / f"{format}.json", plain)
        rows = list(_rows(plain, formats["multi-choice"] if format == "captioning" else {}))
        write_table(folder / format / "test-00000-of-00001.parquet", rows)


def _rows(plain: Questions, choices: Questions) -> Iterator[dict[str, str]]:
    """Yield the rows of one format's table.

    With `choices`, each row has the first of these questions on its aspect, for the judge.
    """
    for video, aspects in plain.items():
        for aspect, questions in aspects.items():
            judge_fields = {}
            if choices:
                choice = choices[video][aspect][0]
                judge_fields = {"mc_question": choice["question"], "mc_answer": choice["answer"]}
            for question in questions:
                yield {**question, "video_id": video, "dim": aspect, **judge_fields}


def _formats(question: QA, number: int) -> dict[str, dict[str, str]]:
    """Return {format: fields} of a question; "yes" is right in videos with an odd `number`."""
    right = f"{question.letter}. {question.answer}"
    wrong = next(option for option in question.options if option != question.answer)
    text = question.answer if number % 2 else wrong
    informations = [
        f"Information {line.replace('. ', ': ', 1)}" for line in lettered(question.options)
    ]
    return {
        "multi-choice": {
            "question": "\n".join([question.text, *lettered(question.options)]),
            "answer": right,
        },
        "yes_no": {
            "question": f"{question.text} Is it: {text}?",
            "answer": "yes" if text == question.answer else "no",
        },
        "caption_matching": _matching(question, wrong, number),
        "captioning": {
            "question": "\n".join(
                [
                    f"Say what fits the video, of what answers this: {question.text}",
                    *informations,
                    "Generated Caption:",
                ]
            ),
            "answer": right,
        },
    }


def _matching(question: QA, wrong: str, number: int) -> dict[str, str]:
    """Return the fields of `caption_matching`: two lines; the first is right if `number` is odd."""
    caption_name, marks = LINE_NAMES[number % len(LINE_NAMES)]
    pair = [str(question.answer), wrong] if number % 2 else [wrong, str(question.answer)]
    lines = [
        f"{caption_name} {mark}: {question.text} It is {option}."
        for mark, option in zip(marks, pair, strict=True)
    ]
    return {
        "question": "\n".join(["Which fits the video better?", *lines]),
        "answer": lines[pair.index(str(question.answer))],
    }


def _write_json(path: Path, plain: object) -> None:
    """Write a JSON file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8", newline="\n")
