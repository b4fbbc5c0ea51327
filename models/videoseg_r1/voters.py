"""Votes that differ: the reasoner's network, or another one, asked with some temperature."""

from dataclasses import dataclass, fields, replace
from typing import Any

from harness import plugins
from harness.model import Chat
from harness.models.backends.altered import AlteredChat
from harness.models.backends.transformers import TransformersChat
from harness.models.building import chat_of
from harness.spec import Spec, Value


@dataclass(frozen=True, kw_only=True)
class Warmer(TransformersChat):
    """Another chat's network, which is loaded once, under another temperature."""

    origin: TransformersChat

    @property
    def processor(self) -> Any:
        """The origin's."""
        return self.origin.processor

    @property
    def network(self) -> Any:
        """The origin's."""
        return self.origin.network


def voters_of(
    sampler: Spec | Chat | None,
    backend: Spec | Chat,
    chat: Chat,
    *,
    checkpoint: str | None,
    temperature: float,
    batch_size: int,
    seed: int,
) -> Chat:
    """What calls the network that votes.

    Args:
        sampler: What was asked for. A SPEC's own temperature wins; a SPEC without a checkpoint
            gets `checkpoint`. None: the reasoner's network.
        backend: What the reasoner was asked for by.
        chat: The reasoner. A network in process is not loaded twice.
        checkpoint: The reasoner's.
        temperature: Where the backend can sample.
        batch_size: Requests at once.
        seed: Of sampling.
    """
    warm = _warm(chat, temperature) if sampler is None else None
    if warm is not None:
        return warm
    asked = sampler
    if sampler is None:
        if not isinstance(backend, Spec):
            return chat
        asked = _without_temperature(backend)
    if isinstance(asked, Spec) and plugins.accepts("backends", asked.name, "temperature"):
        asked = asked.with_defaults(temperature=temperature)
    assert asked is not None, "the reasoner's backend stands for none"
    return chat_of(asked, checkpoint=checkpoint, batch_size=batch_size, seed=seed)


def _warm(chat: Chat, temperature: float) -> Chat | None:
    """A network in this process under another temperature, altered as it is; None for others."""
    if isinstance(chat, AlteredChat):
        within = _warm(chat.chat, temperature)
        return within and replace(chat, chat=within)
    if not isinstance(chat, TransformersChat):
        return None
    same: dict[str, Any] = {one.name: getattr(chat, one.name) for one in fields(chat)}
    return Warmer(**{**same, "temperature": temperature}, origin=chat)


def _without_temperature(backend: Spec) -> Spec:
    """A backend's SPEC for votes: what it says of temperature is about the reasoner's replies."""
    given: dict[str, Value] = {
        key: _without_temperature(one) if isinstance(one, Spec) else one
        for key, one in backend.arguments.items()
        if key != "temperature"
    }
    return Spec(backend.name, given)
