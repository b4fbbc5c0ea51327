"""The model class of Video-STR and its relatives: VLMs that answer spatial questions in words.

`text_answer_model` builds it for the plugins `video_str`, `video_r1`, `videochat_r1` and `spacer`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.chat import ChatRequest
from harness.frames import IMAGE_SETTINGS, FramePolicy, frame_policy
from harness.models.answers import Pending
from harness.models.canvas import Canvas
from harness.models.composition import Composition
from harness.models.frame_selection import pixel_budget
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import LOCATED
from harness.models.prompts import Wording
from harness.models.video_str.answer_prompts import Aid, AnswerPrompts
from harness.models.video_str.boxes import BoxPrompt, named_resolution
from harness.spec import Spec
from harness.types import AnswerForm, Call, Prediction, Query

TEMPLATE_FILES: Mapping[Wording, str] = {"paper": "prompt.toml", "short": "short.toml"}
"""File of the templates in a method's folder, by wording."""


@dataclass(frozen=True, kw_only=True)
class TextAnswerModel(PromptedModel):
    """A `PromptedModel` that asks for boxes in the same way as for answers in words.

    A question for boxes shows all chosen frames, may ask for a graph, and uses the resolution that
    the question states. It never asks for the number of a frame: the question states the time. The
    objects that a prompt for a graph or map lists are recorded in a note, with their source.
    """

    words: AnswerPrompts

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer with a template; the template for boxes serves all forms with places."""
        with_template = self.words.forms
        return with_template | LOCATED if AnswerForm.BOXES in with_template else with_template

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record, with the wording of the requests."""
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
        """Read responses as the base does, and note the objects that the prompt listed."""
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
        """Return the request for one form; for boxes, with the wording and frames of words."""
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
        """Return the frames to show: all chosen ones if the question asks for boxes only."""
        only_boxes = all(form is AnswerForm.BOXES for form in query.forms)
        return super()._shown_frames(query, located=located and not only_boxes)

    def must_name(self, query: Query, form: AnswerForm) -> bool:
        """Return True if the response has to name its frame, which boxes never have to."""
        return form is not AnswerForm.BOXES and super().must_name(query, form)

    def _canvas(self, query: Query, form: AnswerForm, calls: Sequence[Call] = ()) -> Canvas:
        """Return the canvas of the resolution that a question for boxes states, if it does."""
        stated = named_resolution(query.text) if form is AnswerForm.BOXES else None
        return super()._canvas(query, form, calls) if stated is None else Canvas(stated, query.size)


def text_answer_model(
    method: str,
    parts: Composition,
    *,
    frames: str,
    pixels: int | None,
    aid: Aid = "off",
    prompt: Wording = "paper",
) -> TextAnswerModel:
    """Build the model of a method.

    Args:
        method: Name of the method, and of its package with the templates.
        parts: The user's options.
        frames: The method's rule for frames, used if `parts` state none; see `harness.frames`.
        pixels: Most pixels of a frame, and of an image; None: those of the rule.
        aid: The objects that the prompt lists.
        prompt: The published words, or short ones.
    """
    package, file = f"harness.models.{method}", TEMPLATE_FILES[prompt]
    policy = policy_of(frames, frames=parts.frames, pixels=pixels)
    return TextAnswerModel(
        name=method if prompt == "paper" else f"{method}/{prompt}",
        prompt=BoxPrompt(package, file),
        words=AnswerPrompts(package, file, aid),
        **replace(parts, frames=policy).build(method=method),
    )


def policy_of(
    default: str, *, frames: int | Spec | FramePolicy | None, pixels: int | None
) -> FramePolicy:
    """Return the rule for frames: the method's, changed by the user's options.

    Args:
        default: The method's rule.
        frames: Another number of frames, or another rule; None: the method's.
        pixels: Most pixels of a frame and of an image; None: those of the rule.

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
        arguments = {key: value for key, value in arguments.items() if key not in IMAGE_SETTINGS}
        minimum = policy.budget.min_pixels if policy.budget is not None else pixels
        arguments |= {"max_pixels": pixels, "min_pixels": min(pixels, minimum)}
        if isinstance(floor, int):
            arguments["image_min_pixels"] = min(pixels, floor)
    return frame_policy(Spec(policy.spec.name, arguments))
