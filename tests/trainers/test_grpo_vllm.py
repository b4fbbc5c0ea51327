"""What reaches vLLM, for which something stands in: tokens and pictures of every rollout."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from PIL import Image  # noqa: E402

from harness import media  # noqa: E402
from harness.errors import UsageError  # noqa: E402
from harness.model import ChatRequest  # noqa: E402
from harness.models.backends.inputs import processor_inputs  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers as backend  # noqa: E402
from harness.trainers import trl_compat  # noqa: E402
from harness.trainers.grpo.examples import Example  # noqa: E402
from harness.trainers.grpo.tokens import pictures_of  # noqa: E402
from harness.types import Answer, AnswerForm, Query, Sample, Target  # noqa: E402

ensure_torchvision()

from harness.trainers.grpo import hooks  # noqa: E402

GROUP = 3
SAID = [7, 8]
"""What stands in for vLLM writes, whatever it is shown."""


def shown(name, size, frames=1):
    draw = np.random.default_rng(len(name))
    pictures = [draw.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8) for _ in range(frames)]
    return media.pixels(pictures, times=[place / 4 for place in range(frames)],
                        is_video=frames > 1, id=name)  # fmt: skip


CUP, WIDE, FILM = shown("cup", (120, 90)), shown("wide", (150, 80)), shown("film", (96, 64), 5)
SIZES = {
    "squashed": [(84, 84)], "bare": [], "as it is": [(150, 80)], "two": [(112, 56), (56, 84)],
    "keyframe": [(96, 64)],
}  # fmt: skip
"""(width, height) of what each request shows."""
REQUESTS = [
    ChatRequest(key="squashed", text="Where is it?", media=(CUP,), resize=(84, 84)),
    ChatRequest(key="bare", text="How much is two and two?"),
    ChatRequest(key="as it is", text="And here, further to the right?", media=(WIDE,)),
    ChatRequest(key="two", text="Which one?", media=(CUP, WIDE), resize=(112, 56),
                resize_others=(56, 84)),
    ChatRequest(key="keyframe", text="Now?", media=(FILM,), frames=((3,),)),
]  # fmt: skip
BARE = [one for one in REQUESTS if not one.media]


@pytest.fixture(scope="module")
def processor(tiny_qwen):
    return backend(checkpoint=str(tiny_qwen)).processor


def example(request):
    query = Query(id=request.key, text=request.text, media=request.media, forms=(AnswerForm.TEXT,))
    sample = Sample(id=request.key, query=query, target=Target(answer=Answer(text="4")))
    return Example("t", sample, request, (1, 1))


def begun(trainer, processor, requests):
    """The trainer in its first round, in which each request is asked once a rollout of a group."""
    trainer.course = SimpleNamespace(examples=[example(one) for one in requests],
                                     processor=processor)  # fmt: skip
    trainer.num_generations, trainer.num_iterations, trainer.use_vllm = GROUP, 1, True
    trainer.state = SimpleNamespace(global_step=0)
    trainer.accelerator = SimpleNamespace(process_index=0, is_main_process=True, device="cpu")
    trainer.turn = trainer._turn([row for row in range(len(requests)) for _ in range(GROUP)])
    return trainer


def written(trainer):
    """As TRL goes from prompts to replies."""
    prompts = [str(row) for row in range(len(trainer.turn.prompts))]
    ids, pictures, fields = trainer._tokenize_prompts(prompts)
    return trainer._generate_single_turn(ids, pictures, fields, GROUP)


class Recorded:
    """As much of TRL's trainer as is called."""

    given: tuple[object, ...] = ()

    def _generate_single_turn(self, *given):
        self.given = given
        return [list(SAID) for _ in given[0]], None


class Trainer(hooks.Rollouts, Recorded):
    """The hooks on it."""


def runs(tokens, token):
    """Lengths of the runs of a token."""
    joined = "".join("x" if one == token else " " for one in tokens)
    return [len(run) for run in joined.split()]


def test_trl_is_given_each_rollouts_tokens_and_its_pictures(processor):
    trainer = begun(Trainer(), processor, REQUESTS)
    assert written(trainer) == ([SAID] * len(REQUESTS) * GROUP, None)
    prompts, pictures, fields, group, tools = trainer.given
    assert (fields, group, tools) == ({}, GROUP, False)
    assert len(prompts) == len(pictures) == len(REQUESTS) * GROUP
    asked = [one for one in REQUESTS for _ in range(GROUP)]
    for request, tokens, seen in zip(asked, prompts, pictures, strict=True):
        whole = processor_inputs(processor, [request])
        assert tokens == whole["input_ids"][0].tolist()
        if not request.media:
            assert seen is None
            continue
        assert all(isinstance(one, Image.Image) and one.mode == "RGB" for one in seen)
        assert [one.size for one in seen] == SIZES[request.key]
        # The processor makes of them what evaluation makes, patch by patch.
        again = processor.image_processor(images=seen, return_tensors="pt")
        assert torch.equal(again["pixel_values"], whole["pixel_values"])
        assert torch.equal(again["image_grid_thw"], whole["image_grid_thw"])
        lengths = (again["image_grid_thw"].prod(dim=1) // 4).tolist()
        assert runs(tokens, processor.image_token_id) == lengths


def test_prompts_without_pictures_bring_none_at_all(processor):
    trainer = begun(Trainer(), processor, BARE)
    written(trainer)
    assert trainer.given[1] is None


def test_a_clip_is_refused_and_a_frame_of_it_is_a_picture():
    request = ChatRequest(key="film", text="?", media=(CUP, FILM), frames=((0,), (1, 4)))
    with pytest.raises(UsageError, match=r"vllm with videos.*a clip of 2 frames"):
        pictures_of(request)
    (frame,) = pictures_of(ChatRequest(key="one", text="?", media=(FILM,), frames=((3,),)))
    assert np.array_equal(np.array(frame), FILM.frame(3))


def test_what_is_handed_over_is_a_copy():
    (one,) = pictures_of(ChatRequest(key="one", text="?", media=(CUP,)))
    before = CUP.frame(0).copy()
    one.putpixel((0, 0), (1, 2, 3))
    assert np.array_equal(CUP.frame(0), before)


# -- through TRL's own code -----------------------------------------------------------------------


class Llm:
    """vLLM in the same process."""

    def generate(self, prompts, *, sampling_params, use_tqdm):
        self.prompts, self.sampling = prompts, sampling_params
        return [
            SimpleNamespace(prompt_token_ids=one["prompt_token_ids"], outputs=[SimpleNamespace(
                token_ids=list(SAID),
                logprobs=[{token: SimpleNamespace(rank=1, logprob=-0.5)} for token in SAID],
            )])
            for one in prompts
        ]  # fmt: skip


class Client:
    """A server's client."""

    def image_features(self, pictures):
        self.pictures = pictures
        return [one and {"mm_placeholders": {"image": [{}] * len(one)}} for one in pictures]

    def generate(self, prompts, *, features, n, **others):
        self.prompts, self.features = prompts, features
        replies = len(prompts) * n
        return {"prompt_ids": prompts, "completion_ids": [list(SAID)] * replies,
                "logprobs": [[[-0.5] for _ in SAID]] * replies}  # fmt: skip


def with_vllm(processor, requests, monkeypatch, **parts):
    """TRL's trainer with its way to vLLM, in a process that is alone."""
    from trl.generation import vllm_generation as module

    monkeypatch.setattr(module, "SamplingParams", lambda **given: given, raising=False)
    monkeypatch.setattr(module, "gather_object", lambda rows: rows)
    monkeypatch.setattr(module, "broadcast_object_list", lambda rows, from_process: rows)
    trainer = object.__new__(trl_compat.engine("GRPOTrainer", hooks.Rollouts))
    begun(trainer, processor, requests)
    way = object.__new__(module.VLLMGeneration)
    way.__dict__.update(
        accelerator=trainer.accelerator, processing_class=processor, temperature=1.0,
        model=torch.nn.Linear(1, 1), top_p=1.0, top_k=0, min_p=None, repetition_penalty=1.0,
        max_completion_length=9, logprobs=0, structured_outputs_regex=None, generation_kwargs={},
        tensor_parallel_size=1, enable_sleep_mode=False, **parts,
    )  # fmt: skip
    trainer.vllm_generation, trainer._last_loaded_step = way, 0
    trainer.args = SimpleNamespace(report_to=[])
    return trainer


def test_vllm_in_the_same_process_sees_pictures_where_there_are_some(processor, monkeypatch):
    llm = Llm()
    trainer = with_vllm(processor, REQUESTS, monkeypatch, mode="colocate", llm=llm)
    replies, logprobs = written(trainer)
    assert replies == [SAID] * len(REQUESTS) * GROUP
    assert logprobs == [[-0.5] * len(SAID)] * len(replies)
    assert llm.sampling["n"] == 1
    asked = [one for one in REQUESTS for _ in range(GROUP)]
    for request, prompt in zip(asked, llm.prompts, strict=True):
        seen = prompt.get("multi_modal_data", {"image": []})["image"]
        listed = seen if isinstance(seen, list) else [seen]
        assert [one.size for one in listed] == SIZES[request.key]
        assert ("multi_modal_data" in prompt) == bool(request.media)


def test_a_server_is_sent_each_prompt_once_and_its_pictures(processor, monkeypatch):
    client = Client()
    trainer = with_vllm(processor, REQUESTS, monkeypatch, mode="server", vllm_client=client)
    replies, _ = written(trainer)
    assert replies == [SAID] * len(REQUESTS) * GROUP
    assert client.prompts == [processor_inputs(processor, [one])["input_ids"][0].tolist()
                              for one in REQUESTS]  # fmt: skip
    assert [[one.size for one in seen or ()] for seen in client.pictures] == list(SIZES.values())
    for request, tokens, features in zip(REQUESTS, client.prompts, client.features, strict=True):
        assert (features is None) == (not request.media)
        if features is not None:
            places = features["mm_placeholders"]["image"]
            assert [one["length"] for one in places] == runs(tokens, processor.image_token_id)


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_sees_no_pictures_where_there_are_none(processor, monkeypatch, mode):
    llm, client = Llm(), Client()
    trainer = with_vllm(processor, BARE, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    assert written(trainer)[0] == [SAID] * GROUP
    if mode == "server":
        assert client.features is None and not hasattr(client, "pictures")
    else:
        assert [set(one) for one in llm.prompts] == [{"prompt_token_ids"}] * GROUP
