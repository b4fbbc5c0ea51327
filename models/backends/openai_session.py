"""Requests to servers of one network: tries, waits, counts of tokens, and the decision to give up.

A call of several requests of which one fails raises, and the engine then sends them one by one.
Responses and failures of that call are remembered until the engine repeats their requests: nothing
is paid for twice, and no failure is waited for twice.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

from harness.chat import ChatRequest, ChatResponse, Conversation
from harness.errors import HarnessError, MissingDependency, UsageError
from harness.models.backends.openai_http import RetryableError, ServerError
from harness.models.backends.openai_pool import EndpointPool
from harness.models.backends.rate_limiter import LONGEST_WAIT, CallCancelled, RateLimiter, back_off
from harness.models.multi_turn import ConversationScheduler, question

ENDING = (UsageError, MissingDependency)
"""Errors that end a run: the next request would fare no better."""

AHEAD = 4  # requests that are encoded while they wait for a place
REMEMBERED = 4096  # results of calls that failed, the oldest of which are forgotten
GIVE_UP = 20
"""Requests in a row that fail, retries and all, before the run is ended."""

T = TypeVar("T")
U = TypeVar("U")
Result: TypeAlias = ChatResponse | HarnessError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUsage:
    """Number of requests, tries after the first, and tokens so far."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(slots=True, kw_only=True)
class Session:
    """One process's requests to its servers. Safe to use from several threads."""

    endpoint: EndpointPool
    prepare: Callable[[ChatRequest], Callable[[], ChatResponse]]
    """Encodes a request; returns the function that sends it, once a call."""
    pace: RateLimiter
    retries: int
    wait: float
    """Seconds before the first try again; see `back_off`."""
    spent: ServerUsage = ServerUsage()
    _prepared: threading.Semaphore = field(default_factory=partial(threading.Semaphore, AHEAD))
    """Places for requests that are encoded and not sent, so that few are held in memory."""
    _threads: ThreadPoolExecutor = field(init=False)
    """Send the requests of all calls, the oldest call's first, so that calls end one by one."""
    _failed_in_a_row: int = 0
    _remembered: dict[ChatRequest, Result] = field(default_factory=dict)
    _under_way: set[threading.Event] = field(default_factory=set)
    """Events that stop the calls under way, one a call."""
    _halted: bool = False
    """True if no further call of `responses` may begin."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        most = self.pace.most  # a server that is asked one thing at a time is asked in order
        threads = most + min(AHEAD, most - 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ask")

    def with_retries(self, once: Callable[[], T], stop: threading.Event) -> T:
        """Return the result of `once`, as `_with_retries` does, a request with which a run begins.

        `responses` answers again if a run before was halted, and what is remembered is dropped.
        """
        with self._lock:
            self._halted = False
            self._remembered.clear()
        return self._with_retries(lambda: once, stop)

    def _with_retries(self, prepare: Callable[[], Callable[[], T]], stop: threading.Event) -> T:
        """Return the result of the call that `prepare` returns, tried as often as the settings say.

        A few calls are prepared while the requests under way are answered.

        Raises:
            ServerError: every try failed.
            Stopped: `stop` was set.
        """
        once: Callable[[], T] | None = None
        for attempt in range(self.retries + 1):
            try:
                with ExitStack() as turn:
                    with self._prepared:
                        once = once or prepare()
                        began = turn.enter_context(self.pace.turn(stop))
                    answer = once()
            except RetryableError as fault:
                if fault.crowded:
                    self.pace.was_crowded(began, wait=fault.wait)
                if attempt == self.retries or (fault.wait or 0) > LONGEST_WAIT:
                    asked = "" if fault.wait is None else f"; it asks to wait {fault.wait:g} s"
                    reason = f"{fault}{asked} ({attempt + 1} tries)"
                    raise ServerError(self.endpoint.url, reason) from fault
                with self._lock:
                    self.spent = replace(self.spent, retries=self.spent.retries + 1)
                if stop.wait(back_off(attempt, first=self.wait, retry_after=fault.wait)):
                    raise CallCancelled from fault
            else:
                self.pace.went_well()
                return answer
        raise AssertionError("the last attempt returns or raises")

    def responses(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response a request; raises as `converse_as_completed` does."""
        ends = dict(self.converse_as_completed([question(request) for request in requests]))
        return [ends[number] for number in range(len(requests))]

    def converse_as_completed(
        self, conversations: Sequence[Conversation[U]]
    ) -> Iterator[tuple[int, U]]:
        """Yield the number of each conversation with its result, as soon as it ends.

        Each continues when its own responses are there. The conversations themselves run in this
        thread.

        Raises:
            HarnessError: the first error that ends the run, at once; else, when all went on as far
                as they could, the error of the first request that failed. What others were
                answered is remembered, for when they are asked again.
            Stopped: all was halted, before or meanwhile.
        """
        done: SimpleQueue[Future[int] | None] = SimpleQueue()
        scheduler = ConversationScheduler(conversations, notify=lambda _: done.put(None))
        results: dict[int, Result] = {}
        with self._call() as stop:
            yield from scheduler.take_finished()
            for _ in self._run_requests(scheduler, stop, results, done):
                yield from scheduler.take_finished()
        failed = (
            result for _, result in sorted(results.items()) if isinstance(result, HarnessError)
        )
        error = next(failed, None)
        if error is None:
            return
        if len(results) > 1:
            with self._lock:
                self._remembered.update(
                    (scheduler.requests[place], result) for place, result in results.items()
                )
                for oldest in [*self._remembered][:-REMEMBERED]:
                    del self._remembered[oldest]
        raise error

    def halt(self) -> None:
        """Give up what is under way: no more tries; what a server is at is waited for.

        What begins after this is given up at once, until `with_retries` begins another run.
        """
        with self._lock:
            self._halted = True
            for stop in self._under_way:
                stop.set()

    @contextmanager
    def _call(self) -> Iterator[threading.Event]:
        """Yield an event that stops the call which begins now, listed for `halt` while it lasts.

        Raises:
            Stopped: all was halted before.
        """
        stop = threading.Event()
        with self._lock:
            if self._halted:
                raise CallCancelled
            self._under_way.add(stop)
        try:
            yield stop
        finally:
            with self._lock:
                self._under_way.discard(stop)

    def _run_requests(
        self,
        scheduler: ConversationScheduler[U],
        stop: threading.Event,
        results: dict[int, Result],
        done: SimpleQueue[Future[int] | None],
    ) -> Iterator[None]:
        """Store the result of every request by its place; yield after each response.

        `done` receives a future a request, and None where a conversation's work has ended.
        """
        ended: list[HarnessError] = []

        def work(place: int) -> int:
            try:
                results[place] = self._result(scheduler.requests[place], stop)
            except CallCancelled:
                pass
            except ENDING as error:
                ended.append(error)
                stop.set()
            return place

        sent: set[Future[int]] = set()
        try:
            coming: Sequence[int] = scheduler.pending_places()
            inflight = len(coming)
            while inflight or scheduler.is_working:
                for place in coming:
                    sent.add(request := self._threads.submit(work, place))
                    request.add_done_callback(done.put)
                finished = done.get()
                if finished is None:
                    coming = scheduler.resume()
                else:
                    inflight -= 1
                    sent.discard(finished)
                    response = results.get(place := finished.result())
                    coming = (
                        scheduler.receive(place, response)
                        if isinstance(response, ChatResponse)
                        else ()
                    )
                inflight += len(coming)
                yield
        except BaseException:  # Ctrl-C, or nobody wants more: what is under way is not waited for
            stop.set()
            for request in sent:
                request.cancel()
            raise
        if ended:
            raise ended[0]
        if len(results) < len(scheduler.requests):
            raise CallCancelled

    def _result(self, request: ChatRequest, stop: threading.Event) -> Result:
        """A request's response, or the error that it failed with; what is remembered is forgotten.

        Raises:
            Stopped: `stop` was set.
            UsageError, MissingDependency: the run is over.
        """
        with self._lock:
            known = self._remembered.pop(request, None)
        if known is not None:
            return known
        try:
            response = self._with_retries(lambda: self.prepare(request), stop)
        except ENDING:
            raise
        except ServerError as error:
            self._count_failure(error)
            return error
        except HarnessError as error:
            return error
        with self._lock:
            before = self.spent
            self.spent = ServerUsage(
                requests=before.requests + 1,
                retries=before.retries,
                prompt_tokens=before.prompt_tokens + response.prompt_tokens,
                completion_tokens=before.completion_tokens + response.completion_tokens,
            )
            self._failed_in_a_row = 0
        return response

    def _count_failure(self, error: ServerError) -> None:
        """Count a request that was given up.

        Raises:
            MissingDependency: too many were in a row. It ends the run, which goes on from there
                when the server answers again.
        """
        with self._lock:
            self._failed_in_a_row += 1
            if self._failed_in_a_row < GIVE_UP:
                return
        raise MissingDependency(
            f"server {self.endpoint.url}",
            expected="answers",
            found=f"{GIVE_UP} failed requests in a row, the last with: {error}",
            fix="Check whether it still runs, and run the same command again to resume.",
        ) from error
