"""Faults planted between a question and a network, and equal ways of calling it.

Each case gives two models: `benchmarks/certify.py` certifies all of them, and a test some of each.
What changes requests here is written apart from the suspects that find it.
"""

import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from chat_server import TELLS, serving
from PIL import Image

from harness import media, plugins
from harness.backend import Chat
from harness.chat import ChatRequest, ChatResponse
from harness.observation import Observation
from harness.spec import parse
from harness.testing import tiny_checkpoint

EXACT = "dtype=float32,device=cpu"
Change = Callable[[ChatRequest], ChatRequest]


@dataclass(frozen=True)
class Changed(Chat):
    """Another backend whose requests, responses or network are changed on the way."""

    chat: Chat
    change: Change = lambda request: request
    after: Callable[[ChatResponse], ChatResponse] = lambda response: response
    opaque: bool = False
    """True: it tells its text alone, as an adapter of another program."""

    batch_size: int = 8

    @property
    def coordinates(self) -> Any:
        return self.chat.coordinates

    def describe(self) -> dict[str, Any]:
        return {"backend": "another", "temperature": 0.0}

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        return self.chat.canvas(request)

    def count_tokens(self, text: str) -> int:
        return self.chat.count_tokens(text)

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        responses = self.chat.generate([self.change(request) for request in requests])
        if self.opaque:
            told = {"tokens": (), "canvases": (), "prompt_tokens": 0}
            responses = [replace(response, **told) for response in responses]
        return list(map(self.after, responses))

    def observe(self, requests: Sequence[ChatRequest]) -> list[Observation]:
        if self.opaque:
            return super().observe(requests)
        seen = self.chat.observe([self.change(request) for request in requests])
        return [replace(one, response=self.after(one.response)) for one in seen]


@dataclass(frozen=True)
class Remembered(Chat):
    """Another backend, which is asked the same once."""

    chat: Chat
    seen: dict[ChatRequest, Observation] = field(default_factory=dict)

    batch_size: int = 8

    def __getattribute__(self, name: str) -> Any:
        own = ("chat", "seen", "observe", "batch_size")
        if name in own or name.startswith("__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "chat"), name)

    def describe(self) -> Any: ...
    def generate(self, requests: Any) -> Any: ...
    def canvas(self, request: Any) -> Any: ...
    def count_tokens(self, text: str) -> Any: ...

    def observe(self, requests: Sequence[ChatRequest]) -> list[Observation]:
        new = [request for request in requests if request.key not in self.seen]
        self.seen.update(zip((one.key for one in new), self.chat.observe(new), strict=True))
        return [self.seen[request.key] for request in requests]


# -- faults ---------------------------------------------------------------------------------------


def shown(request: ChatRequest, place: int) -> tuple[int, ...]:
    return request.frames[place] if request.frames else tuple(range(len(request.media[place])))


def drawn(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Change the pixels of images and frames."""

    def changed(request: ChatRequest) -> ChatRequest:
        several = [
            media.pixels(
                [change(frame) for frame in one.frames()],
                times=one.times(),
                is_video=one.is_video,
                id=f"drawn {one.id}",
            )
            for one in request.media
        ]
        return replace(request, media=tuple(several))

    return changed


def recompressed(frame: np.ndarray) -> np.ndarray:
    data = cv2.imencode(".jpg", frame[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])[1]
    return np.ascontiguousarray(cv2.imdecode(data, cv2.IMREAD_COLOR)[:, :, ::-1])


def bare(request: ChatRequest) -> ChatRequest:
    """Show the colours beneath transparency, as who drops the channel does."""
    several = []
    for one in request.media:
        data = media.encoded_frame(one, 0)
        image = Image.open(io.BytesIO(data)) if data else None
        if image is not None and image.mode == "RGBA":
            frame = np.ascontiguousarray(np.asarray(image)[:, :, :3])
            one = media.pixels([frame], times=[0.0], is_video=False, id=f"bare {one.id}")
        several.append(one)
    return replace(request, media=tuple(several))


def clocked(rate: Callable[[float], float]) -> Change:
    """Give clips another clock."""

    def changed(request: ChatRequest) -> ChatRequest:
        several = []
        for one in request.media:
            if len(one) > 1:
                own = (len(one) - 1) / (one.times()[-1] - one.times()[0])
                times = [index / rate(own) for index in range(len(one))]
                one = media.pixels(one.frames(), times=times, is_video=True, id=f"{times} {one.id}")
            several.append(one)
        return replace(request, media=tuple(several))

    return changed


def framed(choose: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Change:
    def changed(request: ChatRequest) -> ChatRequest:
        frames = [shown(request, place) for place in range(len(request.media))]
        frames = [choose(one) if len(one) > 1 else one for one in frames]
        return replace(request, frames=tuple(frames))

    return changed


def chosen(choose: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Change:
    def changed(request: ChatRequest) -> ChatRequest:
        frames = tuple(shown(request, place) for place in range(len(request.media)))
        return replace(request, media=choose(request.media), frames=choose(frames))

    return changed


def shortened(response: ChatResponse) -> ChatResponse:
    """Lose the last third of a response."""
    kept = max(1, len(response.tokens) * 2 // 3)
    text = response.text[: max(1, len(response.text) * 2 // 3)]
    return replace(
        response, text=text, tokens=response.tokens[:kept], completion_tokens=kept, cut=False
    )


# -- networks -------------------------------------------------------------------------------------


@dataclass
class Networks:
    """Checkpoints in a folder, made when they are first wanted, and models that ask them."""

    folder: Path
    servers: ExitStack = field(default_factory=ExitStack)

    def checkpoint(self, family: str) -> str:
        if family == "pocket":
            return "pocket"
        place = self.folder / family
        seed = {"qwen3_5": 4}.get(family, 0)
        return str(place if place.is_dir() else tiny_checkpoint(family, place, seed=seed))

    def copy(self, family: str, name: str, change: Callable[[Path], None]) -> str:
        """A changed copy of a checkpoint."""
        from harness.models.backends.checkpoint import find

        place = self.folder / f"{family}-{name}"
        if not place.is_dir():
            shutil.copytree(find(self.checkpoint(family)), place)
            change(place)
        return str(place)

    def model(self, family: str, settings: str = EXACT, *, more: str = "", at: str = "") -> Any:
        checkpoint = at or self.checkpoint(family)
        backend = settings if "(" in settings else f"transformers({settings})"
        tokens = {POCKET: 24}.get(family, 10)  # its first tokens are the same for all questions
        given = f"prompt=locate,max_new_tokens={tokens},frames=4,checkpoint={checkpoint}{more}"
        return plugins.build("models", parse(f"qwen_vl({given},backend={backend})"))

    def reference(self, family: str, settings: str = EXACT, more: str = "") -> Any:
        """A model whose responses are remembered for the other cases."""
        key = f"{family} {settings} {more}"
        if key not in self.known:
            model = self.model(family, settings, more=more)
            self.known[key] = replace(model, chat=Remembered(model.chat))
        return self.known[key]

    @cached_property
    def known(self) -> dict[str, Any]:
        return {}

    def served(
        self,
        family: str,
        chat: Chat,
        *,
        tells: frozenset[str] = TELLS,
        more: str = "",
        own: str = "",
    ) -> Any:
        """A model that asks a server which answers from `chat`; `more`: settings of the backend."""
        server = self.servers.enter_context(serving(chat, tells=tells))
        address = f"model=served,base_url={server.url}{more or ',clips=video'}"
        return self.model(family, f"openai({address})", more=own)


def template_with(text: str, into: str) -> Callable[[Path], None]:
    """Replace a text of a chat template."""

    def change(folder: Path) -> None:
        file = folder / "chat_template.jinja"
        before = file.read_text("utf-8")
        assert text in before, "the template is another"
        file.write_text(before.replace(text, into, 1), "utf-8")

    return change


def weights_with(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change every matrix of a checkpoint's weights."""

    def changed(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        for file in folder.glob("*.safetensors"):
            weights = load_file(file)
            new = {
                name: change(weight) if weight.dim() == 2 else weight
                for name, weight in weights.items()
            }
            save_file(new, file, metadata={"format": "pt"})

    return changed


def of_four_bits(weight: Any) -> Any:
    scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / 7
    return (weight / scale).round() * scale


def of_later_revision(weight: Any) -> Any:
    import torch

    noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    return weight + 0.05 * weight.std() * noise


def with_setting(file: str, **values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")

    return change


def adapter(networks: Networks, family: str, seed: int) -> str:
    """A LoRA adapter with random weights."""
    import torch
    from peft import LoraConfig, get_peft_model

    place = networks.folder / f"{family}-lora{seed}"
    if not place.is_dir():
        network = networks.model(family).chat.network
        torch.manual_seed(seed)
        layers = r".*language_model.*\.(q|v)_proj"
        plain = LoraConfig(
            r=4, lora_alpha=8, target_modules=layers, task_type="CAUSAL_LM", init_lora_weights=False
        )
        get_peft_model(network, plain).save_pretrained(place)
    return str(place)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two ways of calling a network."""

    name: str
    build: Callable[[Networks], tuple[Any, Any]]
    cause: str | None = None
    """Expression that the cause must match; None: the two are equal."""


QWEN, QWEN3, QWEN35, POCKET = "qwen2_5_vl", "qwen3_vl", "qwen3_5", "pocket"


def at_server(family: str, change: Change = lambda request: request, **given: Any) -> Any:
    """A case's models: a network in process, and a server that changes requests."""

    def build(networks: Networks) -> tuple[Any, Any]:
        a = networks.reference(family)
        return a, networks.served(family, Changed(a.chat.chat, change, **given))

    return build


def with_copy(
    family: str, name: str, change: Callable[[Path], None], *, settings: str = EXACT
) -> Any:
    """A case's models: a network in process, and a server of a changed copy of its files."""

    def build(networks: Networks) -> tuple[Any, Any]:
        inner = networks.model(family, settings, at=networks.copy(family, name, change)).chat
        return networks.reference(family), networks.served(family, inner)

    return build


def with_adapters(networks: Networks) -> tuple[Any, Any]:
    first, second = (
        networks.model(QWEN, f"{EXACT},adapter={adapter(networks, QWEN, seed)}") for seed in (3, 4)
    )
    return first, second


def without_switch(networks: Networks) -> tuple[Any, Any]:
    """The server of tests does not look at variables of the chat template."""
    a = networks.reference(QWEN35, f"{EXACT},enable_thinking=false")
    inner = networks.reference(QWEN35).chat.chat
    return a, networks.served(QWEN35, inner, more=",clips=video,enable_thinking=false")


def as_adapter(family: str, change: Change) -> Any:
    """A case's models: a network in process, and an adapter that tells its text."""

    def build(networks: Networks) -> tuple[Any, Any]:
        a = networks.reference(family)
        return a, replace(networks.model(family), chat=Changed(a.chat.chat, change, opaque=True))

    return build


def in_process(family: str, settings: str, *, more: str = "") -> Any:
    return lambda networks: (
        networks.reference(family),
        networks.model(family, settings, more=more),
    )


def squared(frame: np.ndarray) -> np.ndarray:
    return cv2.resize(frame, (448, 448), interpolation=cv2.INTER_CUBIC)


def by_server(family: str, more: str) -> Any:
    """A case's models: a network in process, and a right server asked with other settings."""
    return lambda networks: (
        networks.reference(family),
        networks.served(family, networks.reference(family).chat.chat, more=more),
    )


FAULTS = (
    Case(name="lost times", build=at_server(QWEN, clocked(lambda _: 2.0)), cause="frame times"),
    Case(
        name="other fps", build=at_server(QWEN3, clocked(lambda own: 2 * own)), cause="frame times"
    ),
    Case(name="other resize", build=at_server(QWEN, drawn(squared)), cause="448 × 448"),
    Case(
        name="other template",
        build=with_copy(QWEN, "template", template_with("{{ m.role }}", "the {{ m.role }}")),
        cause=r"chat template.*same \+",
    ),
    Case(
        name="sampling left on",
        build=at_server(POCKET, lambda one: replace(one, temperature=0.8)),
        cause="sampling: B draws",
    ),
    Case(
        name="cut images", build=at_server(QWEN, chosen(lambda all: all[:1])), cause="first image"
    ),
    Case(name="images lost", build=at_server(QWEN3, chosen(lambda all: ())), cause="not shown"),
    Case(
        name="swapped order",
        build=at_server(POCKET, chosen(lambda all: all[::-1])),
        cause="images stand in reversed order",
    ),
    Case(
        name="reversed frames",
        build=at_server(QWEN3, framed(lambda frames: frames[::-1])),
        cause="frames stand in reversed order",
    ),
    Case(
        name="other system prompt",
        build=at_server(QWEN, lambda one: replace(one, system="You are a helpful assistant.")),
        cause="system prompt is 'You are a helpful assistant.'",
    ),
    Case(
        name="lost system prompt",
        build=lambda networks: (
            networks.reference(POCKET, more=",system=hello"),
            networks.served(
                POCKET,
                Changed(
                    networks.reference(POCKET).chat.chat, lambda one: replace(one, system=None)
                ),
                own=",system=hello",
            ),
        ),
        cause="no system prompt",
    ),
    Case(
        name="missing frame",
        build=at_server(QWEN, framed(lambda frames: frames[:-1])),
        cause="last frame is missing",
    ),
    Case(
        name="every second frame",
        build=at_server(QWEN3, framed(lambda frames: frames[::2])),
        cause="every second frame",
    ),
    Case(
        name="quantised copy",
        build=with_copy(POCKET, "int4", weights_with(of_four_bits)),
        cause="weights",
    ),
    Case(
        name="other revision",
        build=with_copy(QWEN3, "later", weights_with(of_later_revision)),
        cause="weights",
    ),
    Case(name="truncated output", build=at_server(QWEN, after=shortened), cause="B ends"),
    Case(
        name="max_tokens cut",
        build=at_server(QWEN3, lambda one: replace(one, max_new_tokens=6)),
        cause="B cuts a response after 6",
    ),
    Case(name="JPEG recompression", build=at_server(QWEN, drawn(recompressed)), cause="JPEG"),
    Case(
        name="BGR for RGB",
        build=at_server(POCKET, drawn(lambda frame: np.ascontiguousarray(frame[:, :, ::-1]))),
        cause="BGR",
    ),
    Case(name="alpha shown", build=as_adapter(POCKET, bare), cause="transparency"),
    Case(
        name="doubled BOS",
        build=with_copy(QWEN, "bos", template_with("{%", "<|im_start|>{%")),
        cause="doubled BOS",
    ),
    Case(name="lost thinking switch", build=without_switch, cause="enable_thinking is not set"),
    Case(name="wrong LoRA", build=with_adapters, cause="weights.*adapter"),
    Case(
        name="repetition penalty of the checkpoint",
        build=lambda networks: (
            networks.reference(QWEN),
            networks.served(QWEN, networks.model(QWEN, f"{EXACT},repetition_penalty=1.3").chat),
        ),
        cause="sampling: B does not choose the likeliest",
    ),
    Case(
        name="smaller max_pixels",
        build=in_process(QWEN, f"{EXACT},max_pixels=6272"),
        cause="processor.*max_pixels",
    ),
    Case(
        name="clips sent as images",
        build=by_server(QWEN, ",clips=images"),
        cause="frame times: they are missing in B",
    ),
    Case(
        name="JPEG that is sent",
        build=by_server(QWEN, ",clips=video,quality=60"),
        cause="images: pixels differ.*as they are' → 'jpeg of quality 60'",
    ),
    Case(
        name="smaller max_pixels before a server",
        build=by_server(POCKET, ",clips=video,max_pixels=12544,min_pixels=1000"),
        cause="images: A's network sees .*max_pixels: None → 12544",
    ),
    Case(
        name="system prompt of the command",
        build=in_process(QWEN, EXACT, more=",system=hello"),
        cause="system prompt: A has None, B 'hello'",
    ),
)
"""Faults, each planted once."""


def equal_cases() -> Iterator[Case]:
    """Yield equal ways of calling one network: 13 of each of four, but for two."""
    settings = {
        "another seed": f"{EXACT},seed=7",
        "batches of 3": f"{EXACT},batch_size=3",
        "one by one": f"{EXACT},batch_size=1,continuous_batching=false,prefetch=false",
        "eager attention": f"{EXACT},attn_implementation=eager",
        "bfloat16": "dtype=bfloat16,device=cpu",
        "float16": "dtype=float16,device=cpu",
    }
    for family in (QWEN, QWEN3, QWEN35, POCKET):
        for name, given in settings.items():
            yield Case(name=f"{family}, {name}", build=in_process(family, given))
        for name, build in _equal_servers(family).items():
            yield Case(name=f"{family}, {name}", build=build)


def _equal_servers(family: str) -> Mapping[str, Any]:
    def half(networks: Networks) -> Chat:
        return networks.reference(family, "dtype=bfloat16,device=cpu").chat.chat

    def exact(networks: Networks) -> Chat:
        return networks.reference(family).chat.chat

    def asked(networks: Networks) -> Any:
        return networks.reference(family)

    return {
        "a server": lambda n: (asked(n), n.served(family, exact(n))),
        "a server in bfloat16": lambda n: (asked(n), n.served(family, half(n))),
        "a server that tells log-probabilities alone": lambda n: (
            asked(n),
            n.served(family, exact(n), tells=frozenset({"logprobs"})),
        ),
        "a server that tells nothing": lambda n: (
            asked(n),
            n.served(family, half(n), tells=frozenset()),
        ),
        "the server first": lambda n: (n.served(family, half(n)), asked(n)),
        "two servers": lambda n: (n.served(family, exact(n)), n.served(family, half(n))),
        "another program's adapter": lambda n: (
            asked(n),
            replace(n.model(family), chat=Changed(exact(n), opaque=True)),
        ),
    }


@contextmanager
def built(case: Case, networks: Networks) -> Iterator[tuple[Any, Any]]:
    """The two models of a case, with their servers as long as the context lasts."""
    with ExitStack() as servers:
        networks.servers = servers
        yield case.build(networks)
