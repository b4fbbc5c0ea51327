"""Networks behind an OpenAI-compatible server, which is how vLLM and SGLang are used.

vllm serve Qwen/Qwen2.5-VL-7B-Instruct
harness eval --model "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,batch_size=128,
    backend=openai(base_url=http://localhost:8000/v1),
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …

Requests of one call are sent at once, as many as the servers seem to take (`rate_limiter`). What
goes wrong is tried again, and is then a failure of the infrastructure or of the model, or ends the
run, as README.md of this folder lists it.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TypeVar

from harness.backend import ConversingChat
from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import MissingDependency, ModelError, UsageError
from harness.models.backends import checkpoint as checkpoints
from harness.models.backends.observed_answer import TOLD, observed_answer
from harness.models.backends.openai_http import Endpoint, ServerError, checked_url, key_from
from harness.models.backends.openai_pool import EndpointPool
from harness.models.backends.openai_response import check_listed, check_model, read_answer
from harness.models.backends.openai_session import ServerUsage, Session
from harness.models.backends.options import ProcessorOptions, TransportOptions
from harness.models.backends.rate_limiter import RateLimiter
from harness.models.backends.remote_processor import RemoteProcessor, remote_processor
from harness.models.backends.request_format import GOES_ON, RequestFormat, RequestOptions
from harness.models.backends.sampling import given_settings
from harness.observation import Observation
from harness.options import with_options

ADDRESS = "OPENAI_BASE_URL"
"""The environment variable for an address that the record is not to hold."""
START = 8  # requests at once, before anything is known of the server

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OpenAIOptions(RequestOptions, ProcessorOptions, TransportOptions):
    """Options of the backend."""

    batch_size: int = 64
    """Requests that it likes at once."""
    prompt_price: float | None = None
    """Price of a million tokens; with it results.json has the cost of a run."""
    completion_price: float | None = None
    """Price of a million tokens, likewise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = {
            "quality": (self.quality is None or 1 <= self.quality <= 100, "1 to 100"),
            **self.transport_limits(),
            "batch_size": (self.batch_size >= 1, "at least 1"),
        }
        for name, (good, words) in fine.items():
            if not good:
                raise UsageError(f"openai({name}=…)", expected=words, found="another number")
        if self.times and self.clips == "video":
            raise UsageError(
                "openai(clips=video,times=true)",
                expected="times beside frames that are sent as images",
                found="one video, which has its times with it",
                fix="Leave times out, or use clips=images.",
            )
        if (self.prompt_price is None) != (self.completion_price is None):
            raise UsageError(
                "openai(prompt_price=…,completion_price=…)", expected="both or neither", found="one"
            )


@dataclass(frozen=True, kw_only=True)
class OpenAIChat(ConversingChat):
    """A network behind a server."""

    address: str
    """Address for the record; the variable's name, if the address is from the environment."""
    options: OpenAIOptions
    form: RequestFormat
    remote_processor: RemoteProcessor
    session: Session = field(repr=False)

    reads_pixels = False
    coordinates = property(attrgetter("remote_processor.coordinates"))
    batch_size = property(attrgetter("options.batch_size"))
    greedy = property(attrgetter("options.greedy"))

    @property
    def prices(self) -> tuple[float, float] | None:
        """Prices of a million tokens of prompt and of completion."""
        prompt, completion = self.options.prompt_price, self.options.completion_price
        return None if prompt is None or completion is None else (prompt, completion)

    @property
    def turns(self) -> int:
        """Number of batches to request at once, so that one slow response delays no other."""
        return 2 + self.options.concurrency // self.options.batch_size

    @property
    def goes_on(self) -> bool:
        """Return True if the server continues from the `prefix` of a request."""
        return self.options.server in GOES_ON

    def halt(self) -> None:
        """Abandon the requests under way."""
        self.session.halt()

    @property
    def usage(self) -> ServerUsage:
        """Requests, tries and tokens of this process so far."""
        return self.session.spent

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record. The weights behind a server cannot be known here."""
        given, network = self.options, self.remote_processor.network
        return {
            "backend": "openai",
            "server": given.server,
            "address": self.address,
            "model": self.form.model,
            **self.remote_processor.describe(),
            "files": {} if network is None else checkpoints.deciding(network.folder),
            "images": "png" if given.quality is None else f"jpeg of quality {given.quality}",
            "resized": "by the server" if self.remote_processor.fit is None else "here, bicubic",
            "clips": given.clips,
            "batch_size": given.batch_size,
            "temperature": given.temperature,
            "top_p": given.top_p,
            "repetition_penalty": self.form.repetition_penalty,
            **given.template,
            # Settings of later days are recorded where they are given: older runs go on.
            **({"times": True} if given.times else {}),
            **given_settings(top_k=given.top_k, presence_penalty=given.presence_penalty),
            "seed": given.seed,
            "price_of_a_million_tokens": self.prices and list(self.prices),
        }

    def prepare(self) -> None:
        """See that a server is there and has the model, and load the tokenizer.

        Raises:
            MissingDependency: none answers.
            UsageError: one has other models.
        """
        if self.remote_processor.network is not None:
            assert self.remote_processor.network.processor is not None, "it raises otherwise"
        pool, dead = self.session.endpoint, list[ServerError]()
        for endpoint in pool.members:
            try:
                listed = self.session.with_retries(
                    partial(endpoint.get, "/models"), threading.Event()
                )
            except ServerError as error:
                dead.append(error)
                pool.rest(endpoint)
            else:
                check_listed(listed, wanted=self.form.model, url=endpoint.url)
        if len(dead) == len(pool.members):
            raise MissingDependency(
                f"server {pool.url}",
                expected="an answer",
                found=dead[0].reason,
                fix="Start it first, for example with: vllm serve MODEL",
            ) from dead[0]

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """One response a request, in order; all are under way at once, as far as the server allows.

        Raises:
            ServerError: a request was given up; the others were answered, and are remembered.
            ModelError: the server refuses a request, such as one that is too long.
            UsageError: no request would fare better (address, key, model, settings).
            MissingDependency: the server has failed many times in a row, or the account is spent.
        """
        return self.session.responses(requests)

    def observe(self, requests: Sequence[ChatRequest]) -> list[Observation]:
        """Return responses with the images and times that were sent and all that servers tell.

        A server that refuses to tell tokens or log-probabilities is asked without them.
        """
        with ThreadPoolExecutor(self.options.concurrency) as pool:
            return list(pool.map(self._observe, requests))

    def _observe(self, request: ChatRequest) -> Observation:
        plain = json.loads(self.form.body(request))
        try:
            answer = self._answer({**plain, **TOLD[self.options.server]})
        except (ModelError, UsageError):
            answer = self._answer(plain)
        return observed_answer(plain, answer, read_answer(answer, request, self.remote_processor))

    def _answer(self, body: Mapping[str, object]) -> Mapping[str, object]:
        data, never = json.dumps(body).encode("ascii"), threading.Event()
        post = partial(self.session.endpoint.post, "/chat/completions", data)
        _, answer = self.session.with_retries(post, never)
        return answer

    def converse_as_completed(
        self, conversations: Sequence[Conversation[T]], *, go_on: bool = False
    ) -> Iterator[tuple[int, T]]:
        """Yield the number of each conversation with what it comes to, as soon as it does.

        As many requests are under way at once as for `generate`, whichever they belong to, and
        errors are the same.
        """
        del go_on  # they always do
        return self.session.converse_as_completed(conversations)

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network sees it."""
        return self.remote_processor.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text; without a tokenizer an estimate, which the record calls one."""
        return self.remote_processor.count_tokens(text)


@with_options(OpenAIOptions)
def openai(
    options: OpenAIOptions,
    *,
    model: str | None = None,
    base_url: str | None = None,
    key_variable: str | None = None,
    checkpoint: str | None = None,
) -> OpenAIChat:
    """A network behind an OpenAI-compatible server, such as one of `vllm serve`.

    Args:
        options: The options of the backend.
        model: Its name at the server; None: `checkpoint`, which is what vLLM calls it.
        base_url: Where the server is, such as http://localhost:8000/v1, or several with commas (in
            quotes), which share the requests; None: as the environment variable OPENAI_BASE_URL
            says, which the record does not hold.
        key_variable: The environment variable that holds the key; None: none is sent.
        checkpoint: The network's folder or name, as models hand it to their backend; where it is
            here, its tokenizer and processor are used, and its weights are not.
        tokenizer: A folder with the network's tokenizer and processor.
        top_k: Number of the likeliest tokens that are sampled from, at `vllm` and `sglang`; None:
            all.
        presence_penalty: Subtracted from the logits of tokens that the response has; None: not
            sent.
        enable_thinking: Whether the chat template asks for reasoning, at `vllm` and `sglang`; None:
            as it does by itself.
        reasoning_effort: How much of it, such as `low`.
        seed: Each request is sent one of its own, made of this and its key: the best that can be
            done for repeating a run.

    Raises:
        UsageError: an address, a key or a setting is not right, or one that is needed is missing.
        ModelError: the tokenizer's folder is not there, or asks for code to run.
    """
    name = model or checkpoint
    if name is None:
        raise UsageError("openai(model=…)", expected="the model's name at the server", found="none")
    url = base_url or os.environ.get(ADDRESS)
    if not url:
        raise UsageError(
            "openai(base_url=…)",
            expected="the server's address, such as http://localhost:8000/v1",
            found="none",
            fix=f"Or set {ADDRESS} in the environment.",
        )
    network = remote_processor(options, checkpoint=checkpoint, clips=options.clips)
    key, urls = key_from(key_variable), dict.fromkeys(map(checked_url, url.split(",")))
    members = [Endpoint(url=url, timeout=options.timeout, key=key) for url in urls]
    endpoint = EndpointPool(members)
    form = RequestFormat(
        options=options,
        model=name,
        repetition_penalty=network.penalty(options.repetition_penalty, server=options.server),
        fit=network.fit,
        plain=network.without_special_tokens,
        keeps_sizes=network.keeps_clip_sizes,
    )

    def prepare(request: ChatRequest) -> Callable[[], ChatResponse]:
        body = form.body(request)

        def ask() -> ChatResponse:
            answering, answer = endpoint.post("/chat/completions", body)
            served = answer.get("model")
            check_model(served, wanted=name, url=answering.url)
            response = read_answer(answer, request, network)
            return replace(response, model=served) if isinstance(served, str) else response

        return ask

    return OpenAIChat(
        address=endpoint.url if base_url else ADDRESS,
        options=options,
        form=form,
        remote_processor=network,
        session=Session(
            endpoint=endpoint,
            prepare=prepare,
            pace=RateLimiter(start=START, limit=options.concurrency),
            retries=options.retries,
            wait=options.wait,
        ),
    )
