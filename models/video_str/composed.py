"""VLMs that answer spatial questions in words: one composition for Video-STR and its relatives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.chat import ChatRequest
from harness.frames import IMAGE, FramePolicy, frame_policy
from harness.models.answers import Pending
from harness.models.canvas import Canvas
from harness.models.composition import Composition
from harness.models.frame_selection import pixel_budget
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import LOCATED
from harness.models.prompts import Wording
from harness.models.video_str.answer_prompts import Aid, AnswerPrompts
from harness.models.video_str.boxes import SpokenBoxes, named_resolution
from harness.spec import Spec
from harness.types import AnswerForm, Call, Prediction, Query

FILES: Mapping[Wording, str] = {"paper": "prompt.toml", "short": "short.toml"}


@dataclass(frozen=True, kw_only=True)
class SpokenModel(PromptedModel):
    """A `PromptedModel` that prompts for boxes as it does for answers in words.

    Such questions show as many frames, may list objects, and use the resolution that the question
    names. The prompt never asks for a frame, whatever `keyframe` is: the question gives the time,
    and boxes belong to no frame. The objects listed by a graph or map prompt, and their source, are
    recorded.
    """

    words: AnswerPrompts

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer with a template; all forms with boxes use the template for boxes."""
        spoken = self.words.forms
        return spoken | LOCATED if AnswerForm.BOXES in spoken else spoken

    def describe(self) -> Mapping[str, object]:
        """Plain data for the record, with the wording of questions in words."""
        wording = self.words.templates
        return {
            **super().describe(),
            "words": {
                "package": self.words.package,
                "file": self.words.file,
                "objects": self.words.aid if wording.aided else "off",
                "plain": wording.plain,
                "aided": wording.aided,
                "forms": dict(wording.form),
            },
        }

    def reading(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Pending[Prediction]:
        """Read responses; a note names the objects that the prompt listed, and their source."""
        reading = super().reading(query, responses, calls)
        listed, source = self.words.objects(query)
        if not listed or all(form in LOCATED - {AnswerForm.BOXES} for form in query.forms):
            return reading
        note = f"{self.words.templates.tag} of {', '.join(listed)} (named in the {source})"

        def read_answer() -> Prediction:
            prediction = reading()
            return replace(prediction, notes=(*prediction.notes, note))

        return read_answer

    def _request(self, query: Query, form: AnswerForm) -> ChatRequest:
        request = super()._request(query, form)
        if form is not AnswerForm.BOXES:
            return request
        return replace(
            request,
            text=self.words.render(query, form),
            frames=self._shown_frames(query, located=False),
            resize=pixel_budget(query, self.frames),
        )

    def _shown_frames(self, query: Query, *, located: bool) -> tuple[tuple[int, ...], ...]:
        boxes = all(form is AnswerForm.BOXES for form in query.forms)
        return super()._shown_frames(query, located=located and not boxes)

    def must_name(self, query: Query, form: AnswerForm) -> bool:
        """Return True if a response that names no frame cannot be read: not of boxes."""
        return form is not AnswerForm.BOXES and super().must_name(query, form)

    def _canvas(self, query: Query, form: AnswerForm, calls: Sequence[Call] = ()) -> Canvas:
        named = named_resolution(query.text) if form is AnswerForm.BOXES else None
        return super()._canvas(query, form, calls) if named is None else Canvas(named, query.size)


def spoken_model(
    method: str,
    parts: Composition,
    *,
    frames: str,
    pixels: int | None,
    aid: Aid = "off",
    prompt: Wording = "paper",
) -> SpokenModel:
    """The composition of a method.

    Args:
        method: Its name, which is that of its package.
        parts: Its options.
        frames: Its rule for frames, which counts where `parts` give none; see `harness.frames`.
        pixels: The most pixels of a frame, and of an image.
        aid: The objects that its prompt lists.
        prompt: Its published words, or short ones.
    """
    package, file = f"harness.models.{method}", FILES[prompt]
    return SpokenModel(
        name=method if prompt == "paper" else f"{method}/{prompt}",
        prompt=SpokenBoxes(package, file),
        words=AnswerPrompts(package, file, aid),
        **replace(parts, frames=policy_of(frames, frames=parts.frames, pixels=pixels)).build(
            method=method
        ),
    )


def policy_of(
    default: str, *, frames: int | Spec | FramePolicy | None, pixels: int | None
) -> FramePolicy:
    """The method's rule, another number of frames in it, or another rule; and a budget of pixels.

    >>> str(policy_of("video_str", frames=8, pixels=28224))
    'qwen(n=8,max_pixels=28224,min_pixels=28224,image_min_pixels=3136)'
    """
    if isinstance(frames, FramePolicy):
        frames = frames.spec
    policy = frame_policy(frames if isinstance(frames, Spec) else default)
    arguments = dict(policy.spec.arguments)
    if isinstance(frames, int):
        arguments["n"] = frames
    if pixels is not None:
        floor = arguments.get("image_min_pixels")  # images keep theirs, which is lower
        arguments = {key: value for key, value in arguments.items() if key not in IMAGE}
        minimum = policy.budget.min_pixels if policy.budget is not None else pixels
        arguments |= {"max_pixels": pixels, "min_pixels": min(pixels, minimum)}
        if isinstance(floor, int):
            arguments["image_min_pixels"] = min(pixels, floor)
    return frame_policy(Spec(policy.spec.name, arguments))
