"""What reaches vLLM, for which something stands in: tokens and pictures of every rollout."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from harness.trainers.grpo.tokens import pictures_of, within  # noqa: E402
from harness.types import Answer, AnswerForm, Query, Sample, Target  # noqa: E402

ensure_torchvision()

from harness.trainers.grpo import hooks  # noqa: E402

GROUP = 3
SAID = [7, 8]
"""What stands in for vLLM writes, whatever it is shown."""


def shown(name, size, frames=1):
    draw = np.random.default_rng(len(name))
    pictures = [draw.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8) for _ in range(frames)]
    return media.pixels(
        pictures, times=[place / 4 for place in range(frames)], is_video=frames > 1, id=name
    )


CUP, WIDE, FILM = shown("cup", (120, 90)), shown("wide", (150, 80)), shown("film", (96, 64), 5)
SIZES = {
    "squashed": [(84, 84)],
    "bare": [],
    "as it is": [(150, 80)],
    "two": [(112, 56), (56, 84)],
    "keyframe": [(96, 64)],
}
"""(width, height) of what each request shows."""
REQUESTS = [
    ChatRequest(key="squashed", text="Where is it?", media=(CUP,), resize=(84, 84)),
    ChatRequest(key="bare", text="How much is two and two?"),
    ChatRequest(key="as it is", text="And here, further to the right?", media=(WIDE,)),
    ChatRequest(
        key="two", text="Which one?", media=(CUP, WIDE), resize=(112, 56), resize_others=(56, 84)
    ),
    ChatRequest(key="keyframe", text="Now?", media=(FILM,), frames=((3,),)),
]
BARE = [one for one in REQUESTS if not one.media]
CLIP = ChatRequest(key="film", text="?", media=(CUP, FILM), frames=((0,), (1, 4)))


@pytest.fixture(scope="module")
def processor(tiny_qwen):
    return backend(checkpoint=str(tiny_qwen)).processor


def example(request):
    query = Query(id=request.key, text=request.text, media=request.media, forms=(AnswerForm.TEXT,))
    sample = Sample(id=request.key, query=query, target=Target(answer=Answer(text="4")))
    return Example("t", sample, request, (1, 1))


def begun(trainer, processor, requests):
    """The trainer in its first round, in which each request is asked once a rollout of a group."""
    trainer.course = SimpleNamespace(
        examples=[example(one) for one in requests], processor=processor
    )
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
    with pytest.raises(UsageError, match=r"vllm with videos, request film.*a clip of 2 frames"):
        pictures_of(CLIP)
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
            SimpleNamespace(
                prompt_token_ids=one["prompt_token_ids"],
                outputs=[
                    SimpleNamespace(
                        token_ids=list(SAID),
                        logprobs=[{token: SimpleNamespace(rank=1, logprob=-0.5)} for token in SAID],
                    )
                ],
            )
            for one in prompts
        ]


class Client:
    """A server's client."""

    def image_features(self, pictures):
        self.pictures = pictures
        return [one and {"mm_placeholders": {"image": [{}] * len(one)}} for one in pictures]

    def generate(self, prompts, *, features, n, **others):
        self.prompts, self.features, self.sampling = prompts, features, {"n": n, **others}
        replies = len(prompts) * n
        return {
            "prompt_ids": prompts,
            "completion_ids": [list(SAID)] * replies,
            "logprobs": [[[-0.5] for _ in SAID]] * replies,
        }


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
        accelerator=trainer.accelerator,
        processing_class=processor,
        temperature=1.0,
        model=torch.nn.Linear(1, 1),
        top_p=0.95,
        top_k=0,
        min_p=None,
        repetition_penalty=1.0,
        max_completion_length=9,
        logprobs=0,
        structured_outputs_regex=None,
        generation_kwargs={},
        tensor_parallel_size=1,
        enable_sleep_mode=False,
        **parts,
    )
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
    assert client.prompts == [
        processor_inputs(processor, [one])["input_ids"][0].tolist() for one in REQUESTS
    ]
    assert [[one.size for one in seen or ()] for seen in client.pictures] == list(SIZES.values())
    for request, tokens, features in zip(REQUESTS, client.prompts, client.features, strict=True):
        assert (features is None) == (not request.media)
        if features is not None:
            places = features["mm_placeholders"]["image"]
            assert [one["length"] for one in places] == runs(tokens, processor.image_token_id)


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_may_write_no_token_of_a_medium_in_either_pass(processor, monkeypatch, mode):
    llm, client = Llm(), Client()
    trainer = with_vllm(processor, FIRSTS, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    ids = processor.tokenizer.convert_tokens_to_ids(["<|image_pad|>", "<|video_pad|>"])
    config = SimpleNamespace(image_token_id=ids[0], video_token_id=ids[1])
    trainer.model = SimpleNamespace(config=config)
    trainer.vllm_generation.generation_kwargs = {"seed": 5}
    trainer.begin(trainer.course)
    expected = {"seed": 5, "logit_bias": dict.fromkeys(ids, -100.0)}
    asked = llm if mode == "colocate" else client
    for ask in (written, lambda one: told(asking(one, processor), seconds_of(one))):
        ask(trainer)
        given = asked.sampling if mode == "colocate" else asked.sampling["generation_kwargs"]
        assert {name: given[name] for name in expected} == expected


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_sees_no_pictures_where_there_are_none(processor, monkeypatch, mode):
    llm, client = Llm(), Client()
    trainer = with_vllm(processor, BARE, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    assert written(trainer)[0] == [SAID] * GROUP
    if mode == "server":
        assert client.features is None and not hasattr(client, "pictures")
    else:
        assert [set(one) for one in llm.prompts] == [{"prompt_token_ids"}] * GROUP


# -- second requests ------------------------------------------------------------------------------

HEAT = 0.25
FIRSTS = [one for one in REQUESTS if one.key != "two"]


def asking(trainer, processor, *, heat=HEAT, ends=()):
    """The trainer with what second requests need of it."""
    trainer.course.second_temperature, trainer.args.temperature = heat, 1.0
    trainer._tokenizer, trainer.eos_token_ids = processor.tokenizer, list(ends)
    return trainer


def seconds_of(trainer, limits=(9,)):
    """What every rollout leads to, in turn with these limits."""
    return [
        replace(
            one.request,
            key=f"{key}/second",
            text=f"And {place}?",
            max_new_tokens=limits[place % len(limits)],
        )
        for place, (one, key) in enumerate(
            zip(trainer.turn.examples, trainer.turn.keys, strict=True)
        )
    ]


def told(trainer, requests):
    return trainer._answered(requests, [one.key for one in requests])


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_second_requests_reach_vllm_each_with_its_pictures(processor, monkeypatch, mode):
    llm, client = Llm(), Client()
    trainer = with_vllm(processor, FIRSTS, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    asking(trainer, processor)
    requests = seconds_of(trainer, limits=(9, 12, 2))
    replies = told(trainer, requests)
    assert [one.text for one in replies] == [processor.tokenizer.decode(SAID)] * len(requests)
    asked = llm if mode == "colocate" else client
    sampling = {name: asked.sampling[name] for name in ("n", "temperature", "max_tokens", "top_p")}
    assert sampling == {"n": 1, "temperature": HEAT, "max_tokens": 12, "top_p": 0.95}
    tokens = (
        [one["prompt_token_ids"] for one in llm.prompts] if mode == "colocate" else client.prompts
    )
    assert tokens == [
        processor_inputs(processor, [one])["input_ids"][0].tolist() for one in requests
    ]
    if mode == "colocate":
        seen = [one.get("multi_modal_data", {"image": None})["image"] for one in llm.prompts]
        assert [[one.size] if one else [] for one in seen] == [
            SIZES[one.request.key] for one in trainer.turn.examples
        ]
    else:
        assert [[one.size for one in seen or ()] for seen in client.pictures] == [
            SIZES[one.request.key] for one in trainer.turn.examples
        ]
    # First requests go on as before.
    written(trainer)
    assert (asked.sampling["temperature"], asked.sampling["max_tokens"]) == (1.0, 9)
    assert asked.sampling["n"] == (1 if mode == "colocate" else GROUP)


@pytest.mark.parametrize(("own", "heat"), [(None, 1.0), (0.0, 0.0)])
def test_a_second_pass_has_the_first_ones_temperature_or_its_own(processor, monkeypatch, own, heat):
    llm = Llm()
    trainer = with_vllm(processor, FIRSTS, monkeypatch, mode="colocate", llm=llm)
    trainer.vllm_generation.temperature = 0.7
    told(asking(trainer, processor, heat=own), seconds_of(trainer))
    assert llm.sampling["temperature"] == heat
    assert trainer.vllm_generation.temperature == 0.7


def test_a_reply_ends_where_its_own_request_says(processor):
    ids = processor.tokenizer("one two; three four", add_special_tokens=False)["input_ids"]
    decode, end = processor.tokenizer.decode, processor.tokenizer.eos_token_id
    written = [*ids, end, *ids]

    def kept(**changes):
        return within(written, ChatRequest(key="a", text="?", **changes), ends=[end], decode=decode)

    assert kept() == [*ids, end]
    assert kept(max_new_tokens=3) == ids[:3]
    stopped = kept(stop=("; ",))
    assert "; " in decode(stopped) and "; " not in decode(stopped[:-1])


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_replies_to_second_requests_are_cut_each_at_its_limit(processor, monkeypatch, mode):
    trainer = with_vllm(processor, FIRSTS, monkeypatch, mode=mode, llm=Llm(), vllm_client=Client())
    requests = seconds_of(asking(trainer, processor, ends=SAID[1:]), limits=(1, 9))
    found = {(one.tokens, one.cut) for one in told(trainer, requests)[::2]}
    assert found == {(1, True)}
    assert {(one.tokens, one.cut) for one in told(trainer, requests)[1::2]} == {(2, False)}


def test_a_second_request_with_a_clip_is_refused_and_vllm_is_not_asked(processor, monkeypatch):
    llm = Llm()
    trainer = with_vllm(processor, FIRSTS, monkeypatch, mode="colocate", llm=llm)
    asking(trainer, processor)
    requests = [*seconds_of(trainer)[1:], replace(CLIP, key="film@0:1#2/second")]
    with pytest.raises(UsageError, match=r"request film@0:1#2/second.*2 frames.*Leave vllm out"):
        told(trainer, requests)
    assert not hasattr(llm, "prompts")
    assert trainer.vllm_generation.temperature == 1.0, "what TRL asks with is put back"


class Processes:
    """Two processes as threads: what one gathers, it waits for of the other."""

    def __init__(self):
        self.number, self.calls = threading.local(), [0, 0]
        self._given, self._barrier = [[], []], threading.Barrier(2, timeout=20)

    def gather(self, rows):
        rank = self.number.own
        self.calls[rank] += 1
        self._given[rank] = list(rows)
        self._barrier.wait()
        found = [row for several in self._given for row in several]
        self._barrier.wait()
        return found

    def broadcast(self, rows, from_process):
        gathered = self.gather([list(rows)])
        rows[:] = gathered[from_process]

    def run(self, work):
        def one(rank):
            self.number.own = rank
            return work(rank)

        with ThreadPoolExecutor(2) as pool:
            return [one.result(60) for one in [pool.submit(one, rank) for rank in range(2)]]


class Counting(Client):
    """A server that says to each prompt what its words say."""

    def generate(self, prompts, *, features, n, **others):
        said = super().generate(prompts, features=features, n=n, **others)
        ids = [prompt for prompt in prompts for _ in range(n)]
        return {**said, "completion_ids": [list(prompt[-8:]) for prompt in ids]}


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_processes_ask_equally_often_and_with_the_longest_limit_of_all(
    processor, monkeypatch, mode
):
    from trl.generation import vllm_generation as module

    both, client, llms = Processes(), Counting(), [Llm(), Llm()]
    trainers = [
        with_vllm(processor, [one], monkeypatch, mode=mode, vllm_client=client, llm=llm)
        for one, llm in zip(FIRSTS, llms, strict=False)
    ]
    for rank, trainer in enumerate(trainers):
        asking(trainer, processor).accelerator.process_index = rank
        trainer.accelerator.is_main_process = rank == 0
    monkeypatch.setattr(module, "gather_object", both.gather)
    monkeypatch.setattr(module, "broadcast_object_list", both.broadcast)
    monkeypatch.setattr(hooks, "gathered", both.gather)
    # The first process asks a server, also where only the other has a long limit.
    asked = [seconds_of(trainers[rank], limits=(9 + rank,)) for rank in (0, 1)]
    found = both.run(lambda rank: trainers[rank]._second_by_vllm(asked[rank]))
    assert both.calls[0] == both.calls[1]
    assert [len(one) for one in found] == [3, 3]
    if mode == "colocate":
        assert [len(one.prompts) for one in llms] == [3, 3]
        assert {one.sampling["max_tokens"] for one in llms} == {10}
    else:
        assert len(client.prompts) == 6 and client.sampling["max_tokens"] == 10
        assert found == [
            [processor_inputs(processor, [one])["input_ids"][0].tolist()[-8:] for one in requests]
            for requests in asked
        ]
