"""Use the user's prompt in place of a method's: `prompt="… {question} …"` or `prompt=file:PATH`.

Responses are still read by the method's grammar, so the text has to ask for that format. In a
question that is answered in words, `{question}` is the whole request: the question, its options,
and the sentence that asks for a letter or a number. If the text has `{options}` too, `{question}`
is the question alone.
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
FILE = "file:"  # begins the path of a file with the prompt
MAX_CHARACTERS = 8000
"""Most characters of a prompt, so that it fits into the SPEC of a record."""


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
    """Return the user's own template; None if `prompt` is one of the method's prompt `names`.

    Args:
        owner: The method, for errors.
        prompt: A name, a text with `{question}`, or `file:PATH` of one.
        names: The method's own prompts.

    Raises:
        UsageError: it is not a name, and the text lacks `{question}` or is too long.
    """
    if prompt in names:
        return None
    text = text_of_file(prompt)
    if QUESTION not in text or len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{owner}(prompt=…)",
            expected=f"{', '.join(names)}, or a text (or file:PATH) with {QUESTION}, of at most "
            f"{MAX_CHARACTERS:,} characters",
            found=repr(text[:80]) if len(text) <= MAX_CHARACTERS else f"{len(text):,} characters",
            fix=f"Write {QUESTION} in the place of the question.",
        )
    return text


def asked_with(model: PromptedModel, template: str | None) -> PromptedModel:
    """Return the model with the user's template as its prompt; unchanged if there is none."""
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
    """The user's template for questions about places, with the grammar of the method's prompt."""

    grammar: Prompt
    template: str
    name: str = "own"

    @property
    def resize(self) -> tuple[int, int] | None:
        """(width, height) in pixels that images are squashed to, as for the method's prompt."""
        return self.grammar.resize

    def render(self, text: str, *, numbered: Sequence[int] = ()) -> str:
        """Return the request; with `numbered` frames it begins by asking for one of them."""
        return ask_for_frame(numbered) + fill(self.template.replace(OPTIONS, ""), question=text)

    def parse(self, response: str) -> ParseResult:
        """Read a response by the method's grammar."""
        return self.grammar.parse(response)

    def write(self, items: Sequence[Item], *, frame: int | None = None) -> str:
        """Return the response that expresses `items` in the method's grammar."""
        return self.grammar.write(items, frame=frame)


@dataclass(frozen=True, slots=True)
class OwnQuestions:
    """The user's template for questions in words; the method's `AnswerPrompt` reads answers."""

    method_prompt: AnswerPrompt
    template: str

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that the method can ask for."""
        return self.method_prompt.forms

    @property
    def answer_tag(self) -> Which:
        """The one of several `<answer>` tags that is read: the first or the last."""
        return self.method_prompt.answer_tag

    def render(self, query: Query, form: AnswerForm) -> str:
        """Return the request for one form of answer."""
        request = self.method_prompt.render(query, form)  # raises for a form without a request
        if OPTIONS not in self.template:
            return fill(self.template, question=request)
        options = "\n".join(
            f"{letter}. {option}"
            for letter, option in zip(ascii_uppercase, query.options, strict=False)
        )
        return fill(self.template, question=query.text, options=options)

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer:
        """Return the answer that a response gives."""
        return self.method_prompt.read(query, form, response)

    def write(self, form: AnswerForm, answer: Answer) -> str:
        """Return the response for `answer`."""
        return self.method_prompt.write(form, answer)
