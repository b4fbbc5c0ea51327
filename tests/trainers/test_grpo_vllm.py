"""What reaches vLLM, for which something stands in: tokens and images of every rollout."""

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from harness import media  # noqa: E402
from harness.chat import ChatRequest  # noqa: E402
from harness.errors import UsageError  # noqa: E402
from harness.models.backends.inputs import processor_inputs  # noqa: E402
from harness.models.backends.torchvision_cpu import ensure_torchvision  # noqa: E402
from harness.models.backends.transformers import transformers as backend  # noqa: E402
from harness.trainers.grpo.settings import Settings  # noqa: E402
from harness.trainers.grpo.vllm import VllmChat, images_of  # noqa: E402

ensure_torchvision()

GROUP = 3
SAID = [7, 8]
"""What stands in for vLLM writes, whatever it is shown."""


def shown(name, size, frames=1):
    draw = np.random.default_rng(len(name))
    images = [draw.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8) for _ in range(frames)]
    return media.pixels(
        images, times=[place / 4 for place in range(frames)], is_video=frames > 1, id=name
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
def base(tiny_qwen):
    return backend(checkpoint=str(tiny_qwen))


@pytest.fixture(scope="module")
def processor(base):
    return base.processor


def runs(tokens, token):
    """Lengths of the runs of a token."""
    joined = "".join("x" if one == token else " " for one in tokens)
    return [len(run) for run in joined.split()]


def test_a_clip_is_refused_and_a_frame_of_it_is_an_image():
    with pytest.raises(UsageError, match=r"\bfilm: .*2 frames"):
        images_of(CLIP)
    (frame,) = images_of(ChatRequest(key="one", text="?", media=(FILM,), frames=((3,),)))
    assert np.array_equal(np.array(frame), FILM.frame(3))


def test_what_is_handed_over_is_a_copy():
    (one,) = images_of(ChatRequest(key="one", text="?", media=(CUP,)))
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

    def image_features(self, images):
        self.images = images
        return [one and {"mm_placeholders": {"image": [{}] * len(one)}} for one in images]

    def generate(self, prompts, *, features, n, **others):
        self.prompts, self.features, self.sampling = prompts, features, {"n": n, **others}
        responses = len(prompts) * n
        return {
            "prompt_ids": prompts,
            "completion_ids": [list(SAID)] * responses,
            "logprobs": [[[-0.5] for _ in SAID]] * responses,
        }


def with_vllm(base, monkeypatch, *, rank=0, **parts):
    """The chat with TRL's own way to vLLM, in a process that is alone."""
    from trl.generation import vllm_generation as module

    monkeypatch.setattr(module, "SamplingParams", lambda **given: given, raising=False)
    monkeypatch.setattr(module, "gather_object", lambda rows: rows)
    monkeypatch.setattr(module, "broadcast_object_list", lambda rows, from_process: rows)
    monkeypatch.setattr(module.VLLMGeneration, "_init_vllm", lambda self: vars(self).update(parts))
    accelerator = SimpleNamespace(
        num_processes=1,
        process_index=rank,
        is_main_process=rank == 0,
        device="cpu",
        state=SimpleNamespace(deepspeed_plugin=None, fsdp_plugin=None),
    )
    settings = Settings(
        num_generations=GROUP,
        generation_batch_size=4 * GROUP,
        vllm_mode=parts.pop("mode"),
        max_completion_length=9,
        top_p=0.95,
    )
    tokens = base.processor.tokenizer
    media = tokens.convert_tokens_to_ids(["<|image_pad|>", "<|video_pad|>"])
    return VllmChat(base, settings, torch.nn.Linear(1, 1), accelerator, media)


def rollout(request, *more):
    """One rollout: a request, and what it leads to; comes to all its responses."""
    found = []
    for one in (request, *more):
        (response,) = yield (one,)
        found.append(response)
    return found


def groups(requests, *more):
    """The rollouts of a group for each request; `more` makes further ones of it."""
    return [
        rollout(
            replace(request, key=f"{request.key}#{number}", max_new_tokens=9),
            *(make(request, number) for make in more),
        )
        for request in requests
        for number in range(GROUP)
    ]


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_every_rollout_reaches_vllm_with_its_tokens_and_its_images(
    base, processor, monkeypatch, mode
):
    llm, client = Llm(), Client()
    chat = with_vllm(base, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    responses = chat.converse(groups(REQUESTS))
    assert [[one.tokens for one in several] for several in responses] == [[tuple(SAID)]] * 15
    assert [len(one) for one in chat.logps.values()] == [len(SAID)] * 15
    assert set().union(*chat.logps.values()) == {-0.5}
    whole = [processor_inputs(processor, [one]) for one in REQUESTS]
    tokens = [one["input_ids"][0].tolist() for one in whole]
    if mode == "server":  # each prompt once, and its images
        assert (client.prompts, client.sampling["n"]) == (tokens, GROUP)
        seen = client.images
        for request, ids, features in zip(REQUESTS, tokens, client.features, strict=True):
            assert (features is None) == (not request.media)
            if features is not None:
                places = features["mm_placeholders"]["image"]
                lengths = [one["length"] for one in places]
                assert lengths == runs(ids, processor.image_token_id)
    else:
        assert llm.sampling["n"] == 1
        assert [one["prompt_token_ids"] for one in llm.prompts] == [
            one for one in tokens for _ in range(GROUP)
        ]
        given = [one.get("multi_modal_data", {"image": []})["image"] for one in llm.prompts]
        seen = [one if isinstance(one, list) else [one] for one in given][::GROUP]
    assert [[one.size for one in several or ()] for several in seen] == list(SIZES.values())
    for images, inputs in zip(seen, whole, strict=True):
        if images:  # the processor makes of them what evaluation makes, patch by patch
            again = processor.image_processor(images=images, return_tensors="pt")
            assert torch.equal(again["pixel_values"], inputs["pixel_values"])


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_sees_no_images_where_there_are_none(base, processor, monkeypatch, mode):
    llm, client = Llm(), Client()
    chat = with_vllm(base, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    assert len(chat.converse(groups(BARE))) == GROUP
    if mode == "server":
        assert client.features is None and not hasattr(client, "images")
    else:
        assert [set(one) for one in llm.prompts] == [{"prompt_token_ids"}] * GROUP


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_vllm_may_write_no_token_of_a_medium(base, processor, monkeypatch, mode):
    llm, client = Llm(), Client()
    chat = with_vllm(base, monkeypatch, mode=mode, llm=llm, vllm_client=client)
    chat.converse(groups(REQUESTS[:2]))
    ids = processor.tokenizer.convert_tokens_to_ids(["<|image_pad|>", "<|video_pad|>"])
    given = llm.sampling if mode == "colocate" else client.sampling["generation_kwargs"]
    assert given["logit_bias"] == dict.fromkeys(ids, -100.0)


HEAT = 0.25


def again(request, number):
    """A second pass, of a temperature and a limit of its own."""
    return replace(
        request,
        key=f"{request.key}#{number}/second",
        text=f"And {number}?",
        temperature=HEAT,
        max_new_tokens=12 - number,
    )


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_second_requests_follow_with_their_own_temperature_and_limits(
    base, processor, monkeypatch, mode
):
    calls = []

    class Noted(Llm):
        def generate(self, prompts, **given):
            calls.append((len(prompts), given["sampling_params"]))
            return super().generate(prompts, **given)

    class NotedClient(Client):
        def generate(self, prompts, **given):
            calls.append((len(prompts), given))
            return super().generate(prompts, **given)

    chat = with_vllm(base, monkeypatch, mode=mode, llm=Noted(), vllm_client=NotedClient())
    found = chat.converse(groups(REQUESTS[:2], again))
    assert [[one.tokens for one in several] for several in found] == [[tuple(SAID)] * 2] * 6
    first, second = ((count, given) for count, given in calls)
    alike = mode == "server"
    assert (first[0], second[0]) == (2 if alike else 6, 6)
    names = ("n", "temperature", "max_tokens", "top_p")
    assert [first[1][name] for name in names] == [GROUP if alike else 1, 1.0, 9, 0.95]
    assert [second[1][name] for name in names] == [1, HEAT, 12, 0.95]


def test_rollouts_of_fewer_turns_wait_for_the_others_and_are_asked_nothing_more(
    base, processor, monkeypatch
):
    llm = Llm()
    chat = with_vllm(base, monkeypatch, mode="colocate", llm=llm)

    def next_turn(request, number):
        return replace(request, key=f"{request.key}#{number}/turn1", written=(7, 8, 9))

    conversations = groups(REQUESTS[:1], next_turn)[:1] + groups(REQUESTS[:1])[1:]
    found = chat.converse(conversations)
    assert [len(several) for several in found] == [2, 1, 1]
    # As many requests as at first, so that all processes ask equally often with equally many.
    assert len(llm.prompts) == GROUP
    whole = processor_inputs(processor, REQUESTS[:1])["input_ids"][0].tolist()
    assert llm.prompts[0]["prompt_token_ids"] == [*whole, 7, 8, 9]
    assert len(chat.logps) == GROUP + 1


def test_a_response_ends_where_its_own_request_says(base, processor, monkeypatch):
    tokens = processor.tokenizer
    ids = tokens("one two; three four", add_special_tokens=False)["input_ids"]
    written, end = [*ids, tokens.eos_token_id, *ids], tokens.eos_token_id
    chat = with_vllm(base, monkeypatch, mode="colocate")

    def kept(**changes):
        request = ChatRequest(key="a", text="?", **changes)
        return chat._response(request, written, [[-1.0]] * len(written))

    assert (kept().tokens, kept().cut) == ((*ids, end), False)
    assert (kept(max_new_tokens=3).tokens, kept(max_new_tokens=3).cut) == (tuple(ids[:3]), True)
    stopped = kept(stop=("; ",))
    assert "three" not in stopped.text and stopped.stopped == "; " and not stopped.cut
    assert chat.logps["a"] == [-1.0] * len(stopped.tokens)


def test_a_second_request_with_a_clip_is_refused_by_name(base, processor, monkeypatch):
    chat = with_vllm(base, monkeypatch, mode="colocate", llm=Llm())
    film = replace(CLIP, key="film#0/second")
    with pytest.raises(UsageError, match=r"film#0/second: .*2 frames"):
        chat.converse([rollout(BARE[0], film)])


def test_vllm_is_begun_with_arguments_that_trl_takes(base, processor, monkeypatch):
    """If this fails, TRL has changed: see `VllmChat`."""
    from trl.generation.vllm_generation import VLLMGeneration

    assert list(inspect.signature(VLLMGeneration.generate).parameters) == [
        "self",
        "prompts",
        "images",
        "num_generations",
        "profiler",
    ]
    assert list(inspect.signature(VLLMGeneration.sync_weights).parameters) == ["self"]
    source = inspect.getsource(VLLMGeneration.generate)
    for used in (
        "temperature = self.temperature",
        "max_completion_length = self.max_completion_length",
        "accelerator.process_index * len(prompts)",
        "gather_object(prompts)",
    ):
        assert used in source, used
    chat = with_vllm(base, monkeypatch, mode="server")
    engine = chat.engine
    assert (engine.mode, engine.max_completion_length) == ("server", 9)
    assert (engine.top_p, engine.max_num_seqs, engine.logprobs) == (0.95, 4 * GROUP, 0)


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
        output = super().generate(prompts, features=features, n=n, **others)
        ids = [prompt for prompt in prompts for _ in range(n)]
        return {**output, "completion_ids": [list(prompt[-8:]) for prompt in ids]}


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_processes_ask_equally_often_and_with_the_longest_limit_of_all(
    base, processor, monkeypatch, mode
):
    from trl.generation import vllm_generation as module

    both, client, llms = Processes(), Counting(), [Llm(), Llm()]
    chats = [
        with_vllm(base, monkeypatch, mode=mode, rank=rank, vllm_client=client, llm=llms[rank])
        for rank in (0, 1)
    ]
    monkeypatch.setattr(module, "gather_object", both.gather)
    monkeypatch.setattr(module, "broadcast_object_list", both.broadcast)
    monkeypatch.setattr("harness.trainers.grpo.vllm.gather", both.gather)
    # The first process asks a server, also where only the other has a second turn.
    more = [(), (lambda request, number: replace(again(request, number), temperature=None),)]
    found = both.run(lambda rank: chats[rank].converse(groups([REQUESTS[rank]], *more[rank])))
    assert both.calls[0] == both.calls[1]
    assert [[len(several) for several in one] for one in found] == [[1] * GROUP, [2] * GROUP]
    if mode == "colocate":
        assert {one.sampling["max_tokens"] for one in llms} == {12}
    else:
        assert len(client.prompts) == 2 * GROUP and client.sampling["max_tokens"] == 12
        for several, number in zip(found[1], range(GROUP), strict=True):
            ids = processor_inputs(processor, [again(REQUESTS[1], number)])["input_ids"][0]
            kept = ids.tolist()[-8:]
            assert list(several[1].tokens) == kept[: len(several[1].tokens)]
