"""Make records in Video-R1's form of generated questions, for sample data of training sets."""

from harness.tasks.qa.answer_text import digits
from harness.tasks.qa.options import lettered
from harness.world.qa import QA


def record(question: QA, number: int, *, path: str, video: bool, source: str) -> dict[str, object]:
    """Return the record of a question with options or for a number."""
    solution = digits(float(question.answer)) if question.is_number else question.letter
    return {
        "problem_id": number,
        "problem": question.text,
        "data_type": "video" if video else "image",
        "problem_type": "numerical" if question.is_number else "multiple choice",
        "options": [] if question.is_number else lettered(question.options),
        "solution": f"<answer>{solution}</answer>",
        "path": path,
        "data_source": source,
    }


def free_form(number: int, text: str, answer: str, *, path: str, source: str) -> dict[str, object]:
    """Return the record of a question about an image that is answered in a word."""
    return {
        "problem_id": number,
        "problem": text,
        "data_type": "image",
        "problem_type": "free-form",
        "options": [],
        "solution": f"<answer>{answer}</answer>",
        "path": path,
        "data_source": source,
    }
