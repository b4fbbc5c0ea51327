"""Networks behind an OpenAI-compatible server, which is how vLLM and SGLang are used.

vllm serve Qwen/Qwen2.5-VL-7B-Instruct
harness eval --model "qwen_vl(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct,batch_size=128,
    backend=openai(base_url=http://localhost:8000/v1),
    segmenter=sam2(checkpoint=facebook/sam2-hiera-large),propagator=still)" …

Requests of one call are sent at once, as many as the servers seem to take (`rate_limiter`). A
failed request is tried again; README.md of this folder lists which failures then count against the
infrastructure or the model, and which end the run.
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
from harness.models.backends.observed_answer import OBSERVED_FIELDS, observed_answer
from harness.models.backends.openai_http import Endpoint, ServerError, checked_url, key_from
from harness.models.backends.openai_pool import EndpointPool
from harness.models.backends.openai_response import check_listed, check_model, read_answer
from harness.models.backends.openai_session import ServerUsage, Session
from harness.models.backends.options import ProcessorOptions, TransportOptions
from harness.models.backends.rate_limiter import RateLimiter
from harness.models.backends.remote_processor import RemoteProcessor, remote_processor
from harness.models.backends.request_format import CONTINUES_PREFIX, RequestFormat, RequestOptions
from harness.models.backends.sampling import given_settings
from harness.observation import Observation
from harness.options import with_options

ADDRESS_VARIABLE = "OPENAI_BASE_URL"
"""Environment variable of a server's address that the record shall not hold."""
FIRST_CONCURRENCY = 8  # requests at once, before anything is known of the server

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
        limits = {
            "quality": (self.quality is None or 1 <= self.quality <= 100, "1 to 100"),
            **self.transport_limits(),
            "batch_size": (self.batch_size >= 1, "at least 1"),
        }
        for name, (is_valid, accepted) in limits.items():
            if not is_valid:
                raise UsageError(f"openai({name}=…)", expected=accepted, found="another number")
        if self.times and self.clips == "video":
            raise UsageError(
                "openai(clips=video,times=true)",
                expected="times beside frames that are sent as images",
                found="one video file, which has its own times",
                fix="Leave times out, or use clips=images.",
            )
        if (self.prompt_price is None) != (self.completion_price is None):
            raise UsageError(
                "openai(prompt_price=…,completion_price=…)", expected="both or neither", found="one"
            )


@dataclass(frozen=True, kw_only=True)
class OpenAIChat(ConversingChat):
    """A network behind one or more OpenAI-compatible servers."""

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
        """Prices of a million tokens of prompt and of completion; None if they are not given."""
        prompt, completion = self.options.prompt_price, self.options.completion_price
        return None if prompt is None or completion is None else (prompt, completion)

    at_once = property(attrgetter("options.concurrency"))

    @property
    def cost(self) -> float:
        """Price of this process's requests so far, in the currency of `prices`; 0 without them."""
        prompt_price, completion_price = self.prices or (0.0, 0.0)
        usage = self.usage
        total = usage.prompt_tokens * prompt_price + usage.completion_tokens * completion_price
        return total / 1e6

    @property
    def turns(self) -> int:
        """Number of batches to request at once, so that one slow response delays no other."""
        return 2 + self.options.concurrency // self.options.batch_size

    @property
    def goes_on(self) -> bool:
        """Return True if the server continues from the `prefix` of a request."""
        return self.options.server in CONTINUES_PREFIX

    def halt(self) -> None:
        """Abandon the requests under way."""
        self.session.halt()

    @property
    def usage(self) -> ServerUsage:
        """Numbers of requests, retries and tokens of this process so far."""
        return self.session.spent

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record. The weights behind a server cannot be known here."""
        options, network = self.options, self.remote_processor.network
        return {
            "backend": "openai",
            "server": options.server,
            "address": self.address,
            "model": self.form.model,
            **self.remote_processor.describe(),
            "files": {} if network is None else checkpoints.deciding(network.folder),
            "images": "png" if options.quality is None else f"jpeg of quality {options.quality}",
            "resized": "by the server" if self.remote_processor.fit is None else "here, bicubic",
            "clips": options.clips,
            "batch_size": options.batch_size,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "repetition_penalty": self.form.repetition_penalty,
            **options.template,
            # Settings added later are recorded only where they are set, so that runs recorded
            # before them can be resumed.
            **({"times": True} if options.times else {}),
            **given_settings(top_k=options.top_k, presence_penalty=options.presence_penalty),
            "seed": options.seed,
            "price_of_a_million_tokens": self.prices and list(self.prices),
        }

    def prepare(self) -> None:
        """Check that a server answers and has the model, and load the tokenizer.

        Raises:
            MissingDependency: no server answers.
            UsageError: a server lists its models, and not this one.
        """
        if self.remote_processor.network is not None:
            assert self.remote_processor.network.processor is not None, "loading raises otherwise"
        pool, failures = self.session.endpoint, list[ServerError]()
        # One server that answers is enough; the others rest.
        for endpoint in pool.members:
            try:
                listed = self.session.with_retries(
                    partial(endpoint.get, "/models"), threading.Event()
                )
            except ServerError as error:
                failures.append(error)
                pool.rest(endpoint)
            else:
                check_listed(listed, wanted=self.form.model, url=endpoint.url)
        if len(failures) == len(pool.members):
            raise MissingDependency(
                f"server {pool.url}",
                expected="an answer",
                found=failures[0].reason,
                fix="Start it first, for example with: vllm serve MODEL",
            ) from failures[0]

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response a request, in order; as many are sent at once as the server takes.

        Raises:
            ServerError: a request failed in every try; the responses of others are remembered.
            ModelError: the server refuses a request, such as one that is too long.
            UsageError: the address, the key, the model or a setting is wrong for every request.
            MissingDependency: the server has failed many times in a row, or the account is spent.
        """
        return self.session.responses(requests)

    def observe(self, requests: Sequence[ChatRequest]) -> list[Observation]:
        """Return responses with the images and times that were sent, tokens and log-probabilities.

        A server that refuses to return tokens or log-probabilities is asked again without them.
        """
        with ThreadPoolExecutor(self.options.concurrency) as pool:
            return list(pool.map(self._observe, requests))

    def _observe(self, request: ChatRequest) -> Observation:
        """Return one observation; without tokens and log-probabilities if the server refuses."""
        body = json.loads(self.form.body(request))
        try:
            answer = self._answer({**body, **OBSERVED_FIELDS[self.options.server]})
        except (ModelError, UsageError):
            answer = self._answer(body)
        return observed_answer(body, answer, read_answer(answer, request, self.remote_processor))

    def _answer(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Return the server's JSON answer to a request's JSON body, sent with retries."""
        data, never_stopped = json.dumps(body).encode("ascii"), threading.Event()
        post = partial(self.session.endpoint.post, "/chat/completions", data)
        _, answer = self.session.with_retries(post, never_stopped)
        return answer

    def converse_as_completed(
        self, conversations: Sequence[Conversation[T]], *, go_on: bool = False
    ) -> Iterator[tuple[int, T]]:
        """Yield (index of a conversation, its result), as soon as it ends.

        As many requests are under way at once as in `generate`, whichever conversation they belong
        to; it raises the same errors.
        """
        del go_on  # conversations never wait for each other here
        return self.session.converse_as_completed(conversations)

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) in pixels of the first medium as the network sees it."""
        return self.remote_processor.canvas(request)

    def count_tokens(self, text: str) -> int:
        """Number of tokens of a text; an estimate without a tokenizer, which the record states."""
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
        model: Name of the network at the server; None: `checkpoint`, the name that vLLM uses.
        base_url: Address of the server, such as http://localhost:8000/v1. Several addresses,
            separated by commas (in quotes), share the requests. None: the value of the environment
            variable OPENAI_BASE_URL, which is not recorded.
        key_variable: Environment variable that holds the key; None: no key is sent.
        checkpoint: Folder or name of the network's checkpoint, as models hand it to their backend.
            If it is on this machine, its tokenizer and processor are used, but not its weights.
        tokenizer: Folder with the network's tokenizer and processor.
        top_k: Number of the likeliest tokens to sample from, for `vllm` and `sglang`; None: all.
        presence_penalty: Number subtracted from the logits of tokens that the response has; None:
            it is not sent.
        enable_thinking: Ask for reasoning in the chat template, for `vllm` and `sglang`; None: the
            template's own default.
        reasoning_effort: Amount of reasoning, such as `low`.
        seed: Base of the seed that each request is sent, which also depends on the request's key.
            Servers do not guarantee that a run can be repeated exactly.

    Raises:
        UsageError: an address, a key or a setting is not right, or one that is needed is missing.
        ModelError: the tokenizer's folder is not there, or asks for code to run.
    """
    name = model or checkpoint
    if name is None:
        raise UsageError("openai(model=…)", expected="the model's name at the server", found="none")
    url = base_url or os.environ.get(ADDRESS_VARIABLE)
    if not url:
        raise UsageError(
            "openai(base_url=…)",
            expected="the server's address, such as http://localhost:8000/v1",
            found="none",
            fix=f"Or set {ADDRESS_VARIABLE} in the environment.",
        )
    network = remote_processor(options, checkpoint=checkpoint, clips=options.clips)
    key = key_from(key_variable)
    urls = dict.fromkeys(map(checked_url, url.split(",")))  # each address once, in order
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
        """Encode a request; return the function that sends it once and reads its answer."""
        body = form.body(request)

        def send() -> ChatResponse:
            server, answer = endpoint.post("/chat/completions", body)
            served_model = answer.get("model")
            check_model(served_model, wanted=name, url=server.url)
            response = read_answer(answer, request, network)
            if not isinstance(served_model, str):
                return response
            return replace(response, model=served_model)

        return send

    return OpenAIChat(
        address=endpoint.url if base_url else ADDRESS_VARIABLE,
        options=options,
        form=form,
        remote_processor=network,
        session=Session(
            endpoint=endpoint,
            prepare=prepare,
            pace=RateLimiter(start=FIRST_CONCURRENCY, limit=options.concurrency),
            retries=options.retries,
            wait=options.wait,
        ),
    )
