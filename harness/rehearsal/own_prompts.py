"""Grammars of stand-ins' responses to a user's own prompt (`prompt=`), for `command`.

A user's prompt may ask for places, words or an option: the request and the tasks' forms of answer
decide which of these the response is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from random import Random

from harness import plugins
from harness.models.own_prompt import OPTIONS, OwnPrompt
from harness.models.pipeline import PromptedModel
from harness.rehearsal.grammars import OPTION_LETTER, place_grammar, reads_plain, write_plain
from harness.rehearsal.wording import Asked, Grammar, pattern_of
from harness.spec import Spec
from harness.types import AnswerForm

FORMS_IN_WORDS = (AnswerForm.NUMBER, AnswerForm.INTERVAL, AnswerForm.TEXT)
"""Forms of answer in words, except a letter, which listed options ask for."""


def own_prompts(models: Iterable[Spec]) -> Iterator[PromptedModel]:
    """Yield the models, also those inside other SPECs, that have a prompt of the user's own.

    They are built without their networks and parts.
    """
    for spec in models:
        yield from own_prompts(part for part in spec.arguments.values() if isinstance(part, Spec))
        if "prompt" not in spec.arguments or not plugins.accepts("models", spec.name, "backend"):
            continue
        parts = {"segmenter", "propagator", "backend"}
        arguments = {name: value for name, value in spec.arguments.items() if name not in parts}
        model = plugins.build("models", Spec(spec.name, {**arguments, "backend": Spec("stored")}))
        if isinstance(model, PromptedModel) and isinstance(model.prompt, OwnPrompt):
            yield model


def own_grammar(model: PromptedModel, forms: Collection[AnswerForm]) -> Grammar:
    """Return the grammar of a user's own prompt.

    Args:
        model: A model of `own_prompts`.
        forms: Forms of answer that the tasks ask for.
    """
    prompt = model.prompt
    assert isinstance(prompt, OwnPrompt), "own_prompts yields no others"
    places = place_grammar(prompt, prompt.template.replace(OPTIONS, ""), nothing=False)
    words = [form for form in FORMS_IN_WORDS if form in forms]
    asks_for_places = not forms or any(form not in model.words.forms for form in forms)

    def form_of(asked: Asked) -> AnswerForm | None:  # None: places
        if AnswerForm.CHOICE in forms and OPTION_LETTER.search(asked.text):
            return AnswerForm.CHOICE
        return None if asks_for_places or not words else words[0]

    def write(asked: Asked, filled: Mapping[str, str], draw: Random) -> str:
        form = form_of(asked)
        if form is None:
            return places.write(asked, filled, draw)
        return write_plain(form, False, asked, filled, draw)

    def reads(asked: Asked, filled: Mapping[str, str], text: str) -> bool:
        form = form_of(asked)
        reader = places.reads if form is None else partial(reads_plain, form)
        return reader(asked, filled, text)

    return Grammar(name="own", pattern=pattern_of(prompt.template), write=write, reads=reads)
