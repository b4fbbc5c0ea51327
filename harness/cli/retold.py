"""What a model asked its networks about a sample, made again from its SPEC without their weights.

Where the model cannot be built here, because its checkpoint lies elsewhere, it is built without its
networks: prompts and grammar are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from harness import overlay, plugins
from harness.errors import HarnessError
from harness.media import Frame
from harness.model import Chat, ChatRequest
from harness.models.backends.altered import as_seen
from harness.models.backends.inputs import shown as seen_frames
from harness.models.backends.inputs import squashed
from harness.models.external.model import External
from harness.models.replay.model import Replay
from harness.record import Run
from harness.run.workers import build_model
from harness.spec import Spec, Value, parse
from harness.types import Query

ELSEWHERE = ("checkpoint", "backend", "sampler", "segmenter", "propagator", "sam2")
"""Arguments of models that name files, servers or weights."""
RULE = ("factor", "min_pixels", "max_pixels")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One request, as the network was shown it."""

    request: ChatRequest
    canvases: tuple[tuple[int, int] | None, ...]
    """(width, height) of each medium as the network saw it; None where that is not known here."""


@dataclass(frozen=True, kw_only=True)
class Retold:
    """What can be known here of the model of a run, and what it asked."""

    model: Any
    """The model that reads replies; None if it cannot be built here."""
    turns: tuple[Turn, ...] = ()
    about: str = ""
    """What there is to say instead of requests, or about them."""
    exact: bool = True
    """Whether pixels of replies are those of the run's own canvas."""


def retold(run: Run, query: Query, replies: Sequence[str]) -> Retold:
    """The requests of a query, in the order of the replies; no weights are loaded.

    A model that asks several times, each time by what it heard before, has a method
    `retold(query, replies)`, which makes them from what it heard.
    """
    told = run.manifest["model"]
    described = told["description"]
    if isinstance(name := described.get("predictions"), str):  # a run of `harness score`
        return _of_a_file(name, described.get("reader"), run.manifest["seed"])
    try:
        spec = parse(told["spec"])
        model: Any = build_model(spec, run.manifest["seed"])
    except HarnessError as error:
        return _without_networks(told["spec"], run, query, replies, why=error)
    if isinstance(model, Replay):
        return Retold(model=model.reader, about=_said_before(model.file.name))
    try:
        return Retold(model=model, turns=_turns(model, query, replies), about=_asks_none(model))
    except HarnessError as error:
        return Retold(model=model, about=f"not known here: {error}")


def _of_a_file(name: str, reader: str | None, seed: int) -> Retold:
    about = _said_before(name)
    if not reader:
        return Retold(model=None, about=about)
    try:
        return Retold(model=build_model(parse(reader), seed), about=about)
    except HarnessError as error:
        return Retold(model=None, about=f"{about}; its reader cannot be built here: {error}")


def _said_before(name: str) -> str:
    return f"not known: the answer is from {name}, which does not say what was asked"


def _asks_none(model: Any) -> str:
    if isinstance(model, External):
        return (
            "none of harness's: a program was given the question as it stands, and copies of "
            f"all pictures at their own size ({model.pictures}); it is {model.program.command}"
        )
    return "" if hasattr(model, "requests") else "none: this model asks no network"


def _without_networks(
    text: str, run: Run, query: Query, replies: Sequence[str], *, why: HarnessError
) -> Retold:
    """The same for a model whose networks cannot be had here, with none in their place."""
    about = f"not known here: {why}"
    described = run.manifest["model"]["description"]
    try:
        spec = _bare(parse(text), described)
        if spec is None:
            return Retold(model=None, about=about)
        model: Any = build_model(spec, run.manifest["seed"])
        turns = _turns(model, query, replies)
    except HarnessError:
        return Retold(model=None, about=about)
    exact = all(name in _network(described) for name in RULE)
    if not exact:  # what the processor's own rule made of a picture is not known
        turns = tuple(replace(turn, canvases=(None,) * len(turn.canvases)) for turn in turns)
    return Retold(
        model=model,
        turns=turns,
        exact=exact,
        about=f"made again without the model's own networks: {why}",
    )


def _bare(spec: Spec, described: Mapping[str, Any]) -> Spec | None:
    """The SPEC of a composition without weights and servers; None for another kind of model."""
    if not plugins.accepts("models", spec.name, "backend") or "chat" not in described:
        return None
    kept = {name: value for name, value in spec.arguments.items() if name not in ELSEWHERE}
    instead: dict[str, Value] = {
        "backend": _backend(described["chat"]),
        "segmenter": Spec("box"),
        "propagator": Spec("still"),
    }
    return Spec(
        spec.name,
        {
            **kept,
            **{
                name: value
                for name, value in instead.items()
                if plugins.accepts("models", spec.name, name)
            },
        },
    )


def _backend(chat: Mapping[str, Any]) -> Spec:
    """Stored replies, none of them there, that mean what the network's replies mean."""
    if chat.get("backend") == "altered":
        return Spec(
            "altered",
            {
                "chat": _backend(chat["chat"]),
                "pictures": chat["pictures"],
                "reasoning": chat["reasoning"],
            },
        )
    known = {name: chat[name] for name in (*RULE, "coordinates") if chat.get(name) is not None}
    return Spec("stored", known)


def _network(described: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the network itself, whatever is around it."""
    chat = described["chat"]
    while chat.get("backend") == "altered":
        chat = chat["chat"]
    return {name: value for name, value in chat.items() if value is not None}


def _turns(model: Any, query: Query, replies: Sequence[str]) -> tuple[Turn, ...]:
    chat = getattr(model, "chat", None)
    again: Callable[..., Any] | None = getattr(model, "retold", None)
    if again is not None:
        requests = tuple(again(query, replies))
    else:
        requests = tuple(
            as_seen(chat, one)  # type: ignore[arg-type] # no requests without a chat
            for one in getattr(model, "requests", lambda _: ())(query)
        )
    own = {query.id, *(f"{query.id}:{form}" for form in query.forms)}
    voters = getattr(model, "voters", chat)
    return tuple(_turn(chat if one.key in own else voters, one) for one in requests)


def _turn(chat: Chat | None, request: ChatRequest) -> Turn:
    places = range(len(request.media))
    return Turn(request=request, canvases=tuple(_canvas(chat, request, one) for one in places))


def _canvas(chat: Chat | None, request: ChatRequest, place: int) -> tuple[int, int] | None:
    if chat is None or not seen_frames(request, place):
        return None
    alone = replace(
        request,
        media=(request.media[place],),
        frames=(seen_frames(request, place),),
        resize=request.squash(place),
        resize_others=None,
    )
    try:
        return chat.canvas(alone)
    except (HarnessError, ModuleNotFoundError):  # its rule is not known, or its files not here
        return None


def prompts(turns: Sequence[Turn]) -> dict[str, str]:
    """Requests and what was shown with them, by their numbers; those that are alike once."""
    shown: dict[str, str] = {}
    first = 1
    for _, group in groupby(turns, _alike):
        turn, *others = group
        number = f"{first} to {first + len(others)}" if others else str(first)
        first += 1 + len(others)
        if turn.request.system:
            shown[f"system {number}"] = turn.request.system
        shown[f"prompt {number}"] = turn.request.text
        shown[f"shown {number}"] = (
            "; ".join(
                f"{_frames(turn.request, place)} at {_size(turn, place)}"
                for place in range(len(turn.request.media))
            )
            or "pictures of another question; the record does not say of which"
        )
    return shown


def _alike(turn: Turn) -> Any:
    """What is equal for requests that differ in nothing but their keys."""
    request = turn.request
    return replace(request, key="", media=()), [media.id for media in request.media]


def _frames(request: ChatRequest, place: int) -> str:
    frames = seen_frames(request, place)
    return f"frame {frames[0]}" if len(frames) == 1 else f"frames {', '.join(map(str, frames))}"


def _size(turn: Turn, place: int) -> str:
    chosen, canvas = turn.request.squash(place), turn.canvases[place]
    before = chosen or turn.request.media[place].size
    if canvas is None:
        return _pixels(before) + ("" if chosen else ", before the processor's own rule")
    made = "" if canvas == before else f", which the processor makes of {_pixels(before)}"
    return f"{_pixels(canvas)}{made}"


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]} × {size[1]}"


def seen(turns: Sequence[Turn]) -> list[Frame]:
    """A row of pictures for every medium, as large as it was seen; one like another, once."""
    rows: dict[Any, Frame] = {}
    for turn in turns:
        for place, media in enumerate(turn.request.media):
            frames, size = seen_frames(turn.request, place), turn.request.squash(place)
            canvas = turn.canvases[place]
            key = media.id, frames, size, canvas
            if frames and key not in rows:
                rows[key] = overlay.side_by_side(
                    [_as_seen(media.frame(frame), size, canvas) for frame in frames]
                )
    return list(rows.values())


def _as_seen(frame: Frame, size: tuple[int, int] | None, canvas: tuple[int, int] | None) -> Frame:
    picture: Frame = squashed(squashed(frame, size), canvas)
    return np.ascontiguousarray(picture)
