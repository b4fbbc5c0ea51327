"""Requests to servers of one network: retries, waits, counts of tokens, and when to give up.

`OpenAIChat` hands its requests to a `Session` and gets their responses. A call of which one request
fails raises, and the engine then sends its requests one by one. Responses and failures of that call
are remembered until their requests are repeated: nothing is paid or waited for twice.
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
from harness.models.backends.rate_limiter import MAX_WAIT, CallCancelled, RateLimiter, back_off
from harness.models.multi_turn import ConversationScheduler, question

FATAL_ERRORS = (UsageError, MissingDependency)
"""Errors that end a run: the next request would fare no better."""

MAX_AHEAD = 4  # requests that are encoded while they wait to be sent
MAX_REMEMBERED = 4096  # results of failed calls that are remembered; older ones are forgotten
MAX_FAILURES = 20
"""Requests in a row that fail, with all their retries, before the run is ended."""

T = TypeVar("T")
U = TypeVar("U")
Result: TypeAlias = ChatResponse | HarnessError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUsage:
    """Numbers of answered requests, of tries after the first, and of tokens so far."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(slots=True, kw_only=True)
class Session:
    """One process's requests to its servers. Safe to use from several threads."""

    endpoint: EndpointPool
    prepare: Callable[[ChatRequest], Callable[[], ChatResponse]]
    """Encodes a request; returns the function that sends it once and returns its response."""
    pace: RateLimiter
    retries: int
    """Tries after the first."""
    wait: float
    """Seconds before the second try; see `back_off`."""
    spent: ServerUsage = ServerUsage()
    _prepared: threading.Semaphore = field(default_factory=partial(threading.Semaphore, MAX_AHEAD))
    """Limits the requests that are encoded and not yet sent, which are held in memory."""
    _threads: ThreadPoolExecutor = field(init=False)
    """Send the requests of all calls, the oldest call's first, so that calls end one by one."""
    _failed_in_a_row: int = 0
    _remembered: dict[ChatRequest, Result] = field(default_factory=dict)
    """Results of failed calls, until their requests are repeated."""
    _under_way: set[threading.Event] = field(default_factory=set)
    """Events that stop the calls under way, one a call."""
    _halted: bool = False
    """True if no further call of `responses` may begin."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        most = self.pace.most
        # With one request at a time there is one thread, so that requests are sent in order.
        threads = most + min(MAX_AHEAD, most - 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ask")

    def with_retries(self, send: Callable[[], T], stop: threading.Event) -> T:
        """Return the result of `send`, a request with which a run begins; see `_with_retries`.

        Undoes an earlier `halt`, and forgets what was remembered.
        """
        with self._lock:
            self._halted = False
            self._remembered.clear()
        return self._with_retries(lambda: send, stop)

    def _with_retries(self, prepare: Callable[[], Callable[[], T]], stop: threading.Event) -> T:
        """Call the function that `prepare` returns until it succeeds; return its result.

        It is tried `retries` times again after a RetryableError. `prepare` runs once, before a
        place among the requests under way is free.

        Raises:
            ServerError: every try failed.
            CallCancelled: `stop` was set.
        """
        send: Callable[[], T] | None = None
        for attempt in range(self.retries + 1):
            try:
                with ExitStack() as turn:
                    with self._prepared:
                        send = send or prepare()
                        began = turn.enter_context(self.pace.turn(stop))
                    answer = send()
            except RetryableError as fault:
                if fault.crowded:
                    self.pace.was_crowded(began, wait=fault.wait)
                if attempt == self.retries or (fault.wait or 0) > MAX_WAIT:
                    wait_note = "" if fault.wait is None else f"; it asks to wait {fault.wait:g} s"
                    reason = f"{fault}{wait_note} ({attempt + 1} tries)"
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
        """Return one response a request, in order; raises as `converse_as_completed` does."""
        responses = dict(self.converse_as_completed([question(request) for request in requests]))
        return [responses[number] for number in range(len(requests))]

    def converse_as_completed(
        self, conversations: Sequence[Conversation[U]]
    ) -> Iterator[tuple[int, U]]:
        """Yield (index of a conversation, its result), as soon as it ends.

        A conversation goes on as soon as its own responses are there. Conversations run in the
        caller's thread, requests in threads of their own.

        Raises:
            HarnessError: an error that ends the run, at once; else the error of the first request
                that failed, when all conversations have gone on as far as they can. Results of the
                other requests are remembered until these are repeated.
            CallCancelled: `halt` was called, before or meanwhile.
        """
        done: SimpleQueue[Future[int] | None] = SimpleQueue()
        scheduler = ConversationScheduler(conversations, notify=lambda _: done.put(None))
        results: dict[int, Result] = {}
        with self._call() as stop:
            yield from scheduler.take_finished()
            for _ in self._run_requests(scheduler, stop, results, done):
                yield from scheduler.take_finished()
        errors = [
            result for _, result in sorted(results.items()) if isinstance(result, HarnessError)
        ]
        if not errors:
            return
        if len(results) > 1:
            with self._lock:
                self._remembered.update(
                    (scheduler.requests[index], result) for index, result in results.items()
                )
                for oldest in [*self._remembered][:-MAX_REMEMBERED]:
                    del self._remembered[oldest]
        raise errors[0]

    def halt(self) -> None:
        """Stop all calls: nothing is sent or tried again, and answers on their way are awaited.

        Later calls raise CallCancelled at once, until `with_retries` begins another run.
        """
        with self._lock:
            self._halted = True
            for stop in self._under_way:
                stop.set()

    @contextmanager
    def _call(self) -> Iterator[threading.Event]:
        """Yield an event that stops the call which begins now; `halt` may set it.

        Raises:
            CallCancelled: `halt` was called before.
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
        """Store the result of every request by its index; yield after each response.

        `done` receives a future a request, and None where a conversation's own work has ended.
        Raises as `converse_as_completed` does, but for errors of single requests.
        """
        errors_that_end: list[HarnessError] = []

        def store_result(index: int) -> int:
            try:
                results[index] = self._result(scheduler.requests[index], stop)
            except CallCancelled:
                pass
            except FATAL_ERRORS as error:
                errors_that_end.append(error)
                stop.set()
            return index

        sent: set[Future[int]] = set()
        try:
            new: Sequence[int] = scheduler.pending_indices()
            inflight = len(new)
            while inflight or scheduler.is_working:
                for index in new:
                    future = self._threads.submit(store_result, index)
                    sent.add(future)
                    future.add_done_callback(done.put)
                finished = done.get()
                if finished is None:
                    new = scheduler.resume()
                else:
                    inflight -= 1
                    sent.discard(finished)
                    index = finished.result()
                    response = results.get(index)
                    if isinstance(response, ChatResponse):
                        new = scheduler.receive(index, response)
                    else:
                        new = ()
                inflight += len(new)
                yield
        except BaseException:  # Ctrl-C, or the caller wants no more results: do not wait
            stop.set()
            for future in sent:
                future.cancel()
            raise
        if errors_that_end:
            raise errors_that_end[0]
        if len(results) < len(scheduler.requests):
            raise CallCancelled

    def _result(self, request: ChatRequest, stop: threading.Event) -> Result:
        """Return a request's response, or the error that it failed with.

        A remembered result is returned once, without sending the request.

        Raises:
            CallCancelled: `stop` was set.
            UsageError, MissingDependency: the run has to end.
        """
        with self._lock:
            remembered = self._remembered.pop(request, None)
        if remembered is not None:
            return remembered
        try:
            response = self._with_retries(lambda: self.prepare(request), stop)
        except FATAL_ERRORS:
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
        """Count a request that failed in every try.

        Raises:
            MissingDependency: `MAX_FAILURES` requests in a row failed. It ends the run, which can
                be resumed when the server answers again.
        """
        with self._lock:
            self._failed_in_a_row += 1
            if self._failed_in_a_row < MAX_FAILURES:
                return
        raise MissingDependency(
            f"server {self.endpoint.url}",
            expected="answers",
            found=f"{MAX_FAILURES} failed requests in a row, the last with: {error}",
            fix="Check that the server runs, and run the same command again to resume.",
        ) from error
