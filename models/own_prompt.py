"""A prompt of one's own in the place of a method's words: `prompt="… {question} …"` or a file's.

Places are still read by the method's grammar, so that the text has to ask for that format. Of a
question in words `{question}` stands for the whole request, with its options and the sentence that
asks for a letter or a number; beside `{options}` it stands for the question alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase

from harness.errors import UsageError
from harness.files import read_text
from harness.models.grammar import Item, ParseResult, Prompt, ask_for_frame
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import AnswerPrompt
from harness.models.prompts import fill
from harness.responses import Which
from harness.types import Answer, AnswerForm, Query

QUESTION, OPTIONS = "{question}", "{options}"
FILE = "file:"
LONGEST = 8000
"""Characters of a prompt, which a SPEC has room for."""


def text_of_file(prompt: str) -> str:
    """Return the text of `file:PATH`, without a newline at its end; any other text as it is.

    Raises:
        UsageError: the file cannot be read.
    """
    if not prompt.startswith(FILE):
        return prompt
    path = Path(prompt.removeprefix(FILE)).expanduser()
    try:
        return read_text(path).removesuffix("\n")
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"prompt={prompt}", expected="a text file", found=str(error)[:200]
        ) from error


def own_template(owner: str, prompt: str, names: Iterable[str]) -> str | None:
    """Return the text of a prompt of one's own; None if it is one of the method's names.

    Raises:
        UsageError: it is neither a name nor a text with a place for the question.
    """
    if prompt in names:
        return None
    text = text_of_file(prompt)
    if QUESTION not in text or len(text) > LONGEST:
        raise UsageError(
            f"{owner}(prompt=…)",
            expected=f"{', '.join(names)}, or a text (or file:PATH) with {QUESTION}, of at most "
            f"{LONGEST:,} characters",
            found=repr(text[:80]) if len(text) <= LONGEST else f"{len(text):,} characters",
            fix=f"Write {QUESTION} in the place of the question.",
        )
    return text


def asked_with(model: PromptedModel, template: str | None) -> PromptedModel:
    """Return a model that asks in one's own words; the same model without a template."""
    if template is None:
        return model
    return replace(
        model,
        name=f"{model.name.partition('/')[0]}/own",
        prompt=OwnPrompt(model.prompt, template),
        words=OwnQuestions(model.words, template),
    )


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """A text of one's own, with the grammar of another prompt."""

    grammar: Prompt
    template: str
    name: str = "own"

    @property
    def resize(self) -> tuple[int, int] | None:
        """(width, height) that images are squashed to, as the grammar's prompt has it."""
        return self.grammar.resize

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request for a question, after a request for a frame where one is named."""
        return ask_for_frame(numbered) + fill(self.template.replace(OPTIONS, ""), question=text)

    def parse(self, response: str) -> ParseResult:
        """Read a response by the grammar."""
        return self.grammar.parse(response)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response that expresses `items` in the grammar."""
        return self.grammar.write(items, frame=frame)


@dataclass(frozen=True, slots=True)
class OwnQuestions:
    """A text of one's own around questions that are answered in words."""

    asked: AnswerPrompt
    template: str

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that can be asked for."""
        return self.asked.forms

    @property
    def counts(self) -> Which:
        """The one of several `<answer>` tags that is read."""
        return self.asked.counts

    def render(self, query: Query, form: AnswerForm) -> str:
        """Return the request for one form of answer."""
        usual = self.asked.render(query, form)  # raises for a form that cannot be asked for
        if OPTIONS not in self.template:
            return fill(self.template, question=usual)
        options = "\n".join(
            f"{letter}. {option}"
            for letter, option in zip(ascii_uppercase, query.options, strict=False)
        )
        return fill(self.template, question=query.text, options=options)

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """Return the answer that a response gives."""
        return self.asked.read(query, form, response)

    def write(self, form: AnswerForm, answer: Answer) -> str:
        """Return the response for `answer`."""
        return self.asked.write(form, answer)
