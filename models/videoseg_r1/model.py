"""VideoSeg-R1: search for the frame, reason about it, segment and propagate.

    query ─▶ Sampler ─▶ target frame, key segment ─▶ reasoner ─▶ segmenter ─▶ propagator ─▶ masks

harness eval --model "videoseg_r1(checkpoint=DIR,
    sampler=transformers(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct),
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),
    propagator=xmem(repo=XMem,weights=XMem.pth))" …

An image is a video of one frame, for which there is nothing to look for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness import plugins
from harness.errors import ModelError, UsageError
from harness.model import Chat, ChatRequest, Conversation, Propagator, Segmenter, settings
from harness.models.answers import Pending
from harness.models.asked import Asked
from harness.models.backends.altered import as_seen
from harness.models.backends.sampling import check_settings
from harness.models.building import chat_of, frames_of, propagator_of, segmenter_of
from harness.models.compose import LOCATED, PromptedModel
from harness.models.conversing import converse, converses
from harness.models.grammar import split_frame
from harness.models.prompts import Wording
from harness.models.qwen_vl.questions import Questions
from harness.models.shown import seen
from harness.models.truth import key_frame_of, objects_of
from harness.models.videoseg_r1.cues import Cues
from harness.models.videoseg_r1.drawing import Drawing
from harness.models.videoseg_r1.grammar import Prompt
from harness.models.videoseg_r1.looking import again, is_looked_for, look, marked, searched
from harness.models.videoseg_r1.negatives import boxes_filled, with_negatives
from harness.models.videoseg_r1.references import Strategy, spread
from harness.models.videoseg_r1.sampler import Average, Place, Sampler, Target
from harness.models.videoseg_r1.showing import Beside, Showing
from harness.models.visionreasoner.grammar import CANVAS
from harness.replies import storable
from harness.spec import Spec
from harness.types import Answer, AnswerForm, Prediction, Query

CONTEXT = (280, 280)
"""(width, height) of frames beside the target: 100 tokens of Qwen2.5-VL instead of 900."""


@dataclass(frozen=True, kw_only=True)
class VideoSegR1(PromptedModel):
    """A reasoner after a sampler, which chooses the frame of a video for the masks.

    Questions in words are asked as any composition asks them; so are questions about a picture.
    For places in a video, the searches of all queries of a batch go on side by side. A
    prediction's replies are those of the sampler, then one a form of answer, which begins with
    the frame that was marked; `read` needs the last ones only.
    """

    voters: Chat
    sampler: Sampler
    showing: Showing

    def describe(self) -> Mapping[str, Any]:
        """Plain data for the record: every setting, and the prompts as they are sent."""
        return {
            **super().describe(),
            "voters": dict(self.voters.describe()),
            "sampler": asdict(self.sampler),
            "showing": asdict(self.showing),
            "segmenter": _segmenter_settings(self.segmenter),
        }

    def prepare(self) -> None:
        """Load all weights that are otherwise loaded at their first use."""
        super().prepare()
        getattr(self.voters, "prepare", lambda: None)()

    @property
    def turns(self) -> int:
        """Number of batches that both VLMs can hold at once."""
        return min(super().turns, int(getattr(self.voters, "turns", 1)))

    @property
    def waited(self) -> float | None:
        """Seconds that both VLMs have been idle so far; None if one does not report it."""
        if self.voters is self.chat:
            return super().waited
        seconds = [getattr(one, "waited", None) for one in (self.voters, self.chat)]
        return None if None in seconds else sum(filter(None, seconds))

    def halt(self) -> None:
        """Cancel the requests to the VLMs."""
        super().halt()
        getattr(self.voters, "halt", lambda: None)()

    def expect(self, queries: Sequence[Query]) -> None:
        """Start to prepare the first frames: those of the searches' first turns, if they have any.

        Otherwise it is known where they end, and so what the reasoner is shown.
        """
        begun = [self._again(one, ()) if is_looked_for(one) else ([], None) for one in queries]
        votes = [one for turn, _ in begun for one in turn]
        if votes and not self._is_one_talk:
            _expect(self.voters, votes, go_on=converses(self.voters))
            return
        first = [
            turn or self.placed(query, place)
            for query, (turn, place) in zip(queries, begun, strict=True)
        ]
        talk = self._is_one_talk and any(map(is_looked_for, queries))
        _expect(self.chat, [one for several in first for one in several], go_on=talk)

    def ask(self, queries: Sequence[Query]) -> list[Asked]:
        """Look for the frames, and ask the reasoner.

        Where one network does both, and lets each conversation go on by itself, each query's
        reasoner begins when its own search has ended; otherwise all reason in one call.
        """
        if not any(map(is_looked_for, queries)):
            return super().ask(queries)
        if self._is_one_talk:
            return converse(self.chat, [self._conversation(query) for query in queries])
        found = look(queries, sampler=self.sampler, showing=self.showing, voters=self.voters)
        requests = [
            self.placed(query, one.place if one else None)
            for query, one in zip(queries, found, strict=True)
        ]
        said = iter(self.chat.generate([one for several in requests for one in several]))
        return [
            marked(query, several, tuple(next(said) for _ in several), one)
            for query, several, one in zip(queries, requests, found, strict=True)
        ]

    @property
    def by_sample(self) -> bool:
        """True if queries are answered one by one: separate voters vote for all of them at once."""
        return self._is_one_talk and super().by_sample

    def asking(self, queries: Sequence[Query]) -> Iterator[tuple[int, Asked]]:
        """Yield the index of each query with the result of `ask`, as soon as it is complete."""
        if not any(map(is_looked_for, queries)):
            return super().asking(queries)
        chat: Any = self.chat
        talks = [self._conversation(query) for query in queries]
        told: Iterator[tuple[int, Asked]] = chat.conversing(talks, go_on=True)
        return told

    @property
    def _is_one_talk(self) -> bool:
        """True if each query's reasoner starts as soon as its own search has ended.

        Asked turn by turn, it would share calls with votes, which `altered` would swap it with.
        """
        return self.voters is self.chat and converses(self.chat)

    def _conversation(self, query: Query) -> Conversation[Asked]:
        """The search, if there is one, and then the reasoner's requests."""
        found = None
        if is_looked_for(query):
            found = yield from searched(query, self.sampler, self.showing)
        requests = self.placed(query, found.place if found else None)
        replies = yield requests
        return marked(query, requests, tuple(replies), found)

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of the first requests; later ones depend on the search's first turn.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        if not is_looked_for(query):
            return super().looks_at(query)
        asked, place = self._again(query, ())
        return seen(query, asked if place is None else self.placed(query, place))

    def placed(
        self, query: Query, place: Place | None, beside: Sequence[int] | None = None
    ) -> tuple[ChatRequest, ...]:
        """The reasoner's requests, one a form, for a place of a video (None: for a picture).

        `beside` are the reference frames; None: by the strategy.
        """
        requests = self.requests(query)
        if place is None:
            return requests
        return tuple(
            self.showing.located(request, place, beside) if form in LOCATED else request
            for form, request in zip(query.forms, requests, strict=True)
        )

    def training_requests(
        self, query: Query, answer: Answer, *, seed: int
    ) -> tuple[ChatRequest, ...]:
        """Return the requests of a training, one for each form of answer: `ask` without the
        sampler.

        Raises:
            UsageError: this model cannot be asked for such an answer.
            ParseError: no frame shows what is meant.
        """
        return self.drawn_requests(query, answer, Drawing(seed=seed, delta=self.sampler.delta))

    def drawn_requests(
        self, query: Query, answer: Answer, drawing: Drawing
    ) -> tuple[ChatRequest, ...]:
        """The reasoner's requests for a place that is drawn; as evaluation's for a picture."""
        if not is_looked_for(query):
            return self.requests(query)
        place, beside = drawing.drawn(query, answer)
        return self.placed(query, place, spread(beside, self.showing.reference_frames))

    def training_replies(
        self, query: Query, answer: Answer, requests: Sequence[ChatRequest]
    ) -> tuple[str, ...]:
        """Return the responses for `answer` in the frames that requests of a training show first.

        Unlike those of `write`, they name no frame: who asks has chosen it.
        """
        return tuple(
            self._located_text(query, form, answer, frame=request.frames[0][0])
            if form in LOCATED
            else self.words.write(form, answer)
            for form, request in zip(query.forms, requests, strict=True)
        )

    def retold(self, query: Query, replies: Sequence[str]) -> tuple[ChatRequest, ...]:
        """Return the requests behind a prediction's responses, one for each response.

        Where the replies do not suffice, such as those of a sample that failed, the requests are
        those that follow from them.

        Raises:
            ModelError: the search does not end where it did when the replies were written.
        """
        if not is_looked_for(query):
            return tuple(as_seen(self.chat, request) for request in self.requests(query))
        before = replies[: max(0, len(replies) - len(query.forms))]
        asked, place = self._again(query, before)
        turns = [as_seen(self.voters, request) for request in asked]
        if place is None or len(asked) != len(before):
            return tuple(turns)
        for form, reply in zip(query.forms, replies[len(before) :], strict=False):
            named = split_frame(reply)[0]
            if form in LOCATED and named is not None and named != place.target:
                raise ModelError(
                    f"the search for {query.id}",
                    expected=f"frame {named}, as recorded",
                    found=f"frame {place.target}",
                    fix="The sampler's code or settings have changed since the run.",
                )
        return (*turns, *(as_seen(self.chat, request) for request in self.placed(query, place)))

    def reading(self, query: Query, replies: Sequence[str]) -> Pending[Prediction]:
        """Read replies: the last ones, one a form of the query; those before are the sampler's."""
        asked = max(0, len(replies) - len(query.forms))
        reading = super().reading(query, replies[asked:])
        before = tuple(storable(reply) for reply in replies[:asked])
        tokens = sum(map(self.voters.count_tokens, before))

        def read() -> Prediction:
            said = reading()
            whole = said.usage.completion_tokens + tokens
            return replace(
                said,
                replies=(*before, *said.replies),
                usage=replace(said.usage, completion_tokens=whole),
            )

        return read

    def _again(self, query: Query, said: Sequence[str]) -> tuple[list[ChatRequest], Place | None]:
        return again(query, said, sampler=self.sampler, showing=self.showing)

    def _located_text(
        self, query: Query, form: AnswerForm, answer: Answer, *, frame: int | None = None
    ) -> str:
        """Return the text of a response as any composition, with negative points; with `frame`, the
        frame is not named.
        """
        rule = self._key_frame(query.media[0])
        start = key_frame_of(answer, rule) if frame is None else frame
        items = [] if answer.no_target else objects_of(form, answer, start, query.size)
        masks = answer.masks
        meant = boxes_filled(items, query.size) if masks is None else masks[start].to_array()
        canvas = self._canvas(query, form)
        named = frame is None and len(query.media[0]) > 1 and start != rule
        return self.prompt.write(
            [canvas.to_canvas(item) for item in with_negatives(items, meant)],
            frame=start if named else None,
        )


def _expect(chat: Chat, requests: Sequence[ChatRequest], *, go_on: bool) -> None:
    """Let a VLM prepare requests; `go_on`: they go to `converse` instead of `generate`."""
    begin = getattr(chat, "expect", None)
    if begin is not None:
        begin(requests, **({"go_on": True} if go_on else {}))


def _segmenter_settings(part: Segmenter) -> dict[str, Any]:
    if not isinstance(part, Cues):
        return settings(part)
    shown = {"box": part.box, "central": part.central, "negative": part.negative}
    return {**settings(part.segmenter), **shown}


def videoseg_r1(
    *,
    checkpoint: str | None = None,
    backend: Spec | Chat = Spec("transformers"),  # noqa: B008 - a Spec is frozen
    sampler: Spec | Chat | None = None,
    segmenter: Spec | Segmenter | None = None,
    propagator: Spec | Propagator = Spec("flow"),  # noqa: B008
    canvas: int = CANVAS[0],
    prompt: Wording = "paper",
    context: int = CONTEXT[0],
    votes: int = 5,
    percentages: int = 5,
    delta: float = 0.3,
    rounds: int = 5,
    average: Average = "mean",
    target: Target = "inside",
    temperature: float = 0.7,
    sampler_frames: int = 16,
    references: Strategy = "adaptive",
    reference_frames: int = 12,
    key_frames: int = 8,
    beside: Beside = "pictures",
    key_segment: bool = True,
    target_frame: bool = True,
    box: bool = True,
    central: bool = True,
    negative: bool = True,
    think: bool = True,
    frames: int | Spec = 8,
    max_new_tokens: int = 1024,
    batch_size: int = 8,
    system: str | None = None,
    seed: int = 0,
) -> VideoSegR1:
    """VideoSeg-R1: searches the frame with requests, reasons, segments it, and propagates both
    ways.

    The paper's perception is `segmenter=sam2(checkpoint=facebook/sam2-hiera-large)` and
    `propagator=xmem(repo=…,weights=…)`.

    Args:
        checkpoint: The folder of a training, or a name that the Hugging Face cache holds; handed
            to the backend.
        prompt: `paper`; `short`: little but the question, for networks such as `pocket` that never
            read the words around it, and learn the grammar in training.
        backend: What calls the reasoner. With `stored`, replies are read that exist already.
        sampler: What calls the network that votes on frames; None: the reasoner's, whose requests
            then wait for no other query's votes. The paper's is untrained:
            `transformers(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct)`.
        segmenter: Makes a mask from box, positive and negative point; None: `grabcut`.
        propagator: Carries masks from the target frame through a video.
        canvas: Side of the square, in pixels, that the target frame is squashed to; the paper's
            is 840, that of `pocket` 168.
        context: The same for all other frames.
        votes: K, intervals a round of the sampler.
        percentages: M, percentages for the target frame.
        delta: Longest key segment, as a part of the video.
        rounds: Rounds of the sampler at most.
        average: Of votes: `mean`, or `median`, which does not mix two stretches.
        target: `inside`, or `literal`: the paper's formula, one frame later, clipped.
        temperature: Of votes, for a backend that samples.
        sampler_frames: Frames of a segment that the sampler sees.
        references: Where reference frames are from: `adaptive`, `global` or `local` (Table B1).
        reference_frames: How many (Table B1).
        key_frames: Frames of the key segment that the reasoner sees.
        beside: Reference and key frames are `pictures`, or two `clips`, which cost half the tokens
            since Qwen's encoder joins each two frames, also such as are far from each other.
        key_segment: Without it the whole video is the key segment, outside which there are no
            reference frames (Table 5).
        target_frame: Without it the target is a random frame of the key segment, and without a key
            segment too the video's first frame (Table 5).
        box: Show the segmenter the boxes (Table 6).
        central: Show it the positive points.
        negative: Show it the negative points.
        think: Ask for reasoning (Table 4).
        frames: Frames of a video for questions in words, or a rule; see docs/data.md.
        max_new_tokens: Longest reply of the reasoner.
        batch_size: Queries at once.
        system: System message; None leaves it to the checkpoint's chat template.
        seed: Of a backend that samples, unless the backend's SPEC names one, and of random frames.
    """
    _at_least(1, canvas=canvas, context=context, sampler_frames=sampler_frames)
    _at_least(0, reference_frames=reference_frames, key_frames=key_frames)
    check_settings(temperature=temperature, top_p=1.0)
    chat = chat_of(backend, checkpoint=checkpoint, batch_size=batch_size, seed=seed)
    cut = segmenter_of(segmenter)
    return VideoSegR1(
        name="videoseg_r1",
        chat=chat,
        prompt=Prompt(resize=(canvas, canvas), think=think, wording=prompt),
        words=Questions(),
        segmenter=cut
        if box and central and negative
        else Cues(segmenter=cut, box=box, central=central, negative=negative),
        propagator=propagator_of(propagator),
        frames=frames_of(frames),
        max_new_tokens=max_new_tokens,
        system=system,
        batch_size=batch_size,
        voters=chat
        if sampler is None
        else chat_of(
            _warmer(sampler, temperature), checkpoint=checkpoint, batch_size=batch_size, seed=seed
        ),
        sampler=Sampler(
            votes=votes,
            percentages=percentages,
            delta=delta,
            rounds=rounds,
            average=average,
            target=target,
            key_segment=key_segment,
            target_frame=target_frame,
            seed=seed,
        ),
        showing=Showing(
            context=(context, context),
            sampler_frames=sampler_frames,
            strategy=references,
            reference_frames=reference_frames,
            key_frames=key_frames,
            beside=beside,
            temperature=temperature if sampler is None else None,
        ),
    )


def _warmer(backend: Spec | Chat, temperature: float) -> Spec | Chat:
    """A backend for votes; a temperature that its SPEC names itself wins."""
    if isinstance(backend, Spec) and plugins.accepts("backends", backend.name, "temperature"):
        return backend.with_defaults(temperature=temperature)
    return backend


def _at_least(least: float, **numbers: float) -> None:
    for name, number in numbers.items():
        if not number >= least:
            raise UsageError(
                f"videoseg_r1({name}=…)", expected=f"at least {least:g}", found=str(number)
            )
