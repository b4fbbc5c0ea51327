"""Decide whether two ways of calling one network are the same model (`harness certify`).

    question ─▶ A ─▶ inputs, response ─┐
             └▶ B ─▶ inputs, response ─┴▶ parts compared ─▶ distance ─▶ suspects ─▶ verdict

The side whose network is in this process (the reference) computes its log-probabilities of the
other side's tokens. If inputs or weights differ, so do the two sides' log-probabilities of these
tokens; if the other side chooses tokens otherwise, they are not the likeliest ones. Small distances
are explained by dtypes (`rates.toml`); the causes of larger ones are searched among `suspects`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Protocol, runtime_checkable

from harness.backend import Chat
from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.leaderboards.certification import pairs
from harness.leaderboards.certification.pairs import Part
from harness.leaderboards.certification.questions import CommonStart, Questions
from harness.leaderboards.certification.rates import (
    ASSUMED,
    EXACT,
    Rates,
    mean_interval,
    rates_of,
    share_interval,
)
from harness.leaderboards.certification.search import explain
from harness.leaderboards.differences.causes import by_cause
from harness.types import Query

QUESTIONS_AT_ONCE = 8
QUESTIONS_AGAIN = 8  # questions that are asked again with another seed
MIN_EARLY = 3
"""Smallest number of responses ending early that is called a difference."""
MIN_PER_UNKNOWN = 10
"""Two sides can be equal only if there are this many responses for each one that differs in unknown
tokens."""
SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty", "presence_penalty")
LIMITS = ("min_pixels", "max_pixels")
"""Settings of a processor that change pixels."""
LOSSLESS = "png"
"""Format of images that keeps their pixels."""
OF_REQUEST = (pairs.WORDS, pairs.SYSTEM, pairs.SETTINGS, pairs.LIMIT, pairs.IMAGES, pairs.TIMES)
"""Parts of the request: a difference in one of them is a cause by itself."""


@runtime_checkable
class AskingModel(Protocol):
    """A model that asks one network, by requests that do not depend on its responses."""

    @property
    def chat(self) -> Chat: ...  # noqa: D102
    def requests(self, query: Query) -> Sequence[ChatRequest]: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Check:
    """One part of all questions, compared."""

    aspect: str
    equal: bool | None
    """None if it was not compared, or if the comparison is undecided."""
    words: str
    """The finding as text."""
    questions: int = 0
    """Number of questions in which it was compared."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Verdict on two ways of calling a network."""

    a: str
    b: str
    questions: int
    verdict: str
    """`equal`, `different` or `cannot tell`."""
    causes: tuple[str, ...]
    checks: tuple[Check, ...]
    settings: tuple[str, ...]
    """Recorded settings that differ, one a line."""
    dtypes: tuple[str, str]
    rates: Rates

    def to_json(self) -> dict[str, object]:
        """Plain data, for programs."""
        return {**asdict(self), "summary": self.summary}

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        if self.verdict == "different":
            return f"A and B are different: {'; '.join(self.causes)}."
        unknown = [check for check in self.checks if check.equal is None]
        undecided = ", ".join(check.aspect for check in unknown if check.questions)
        missing = ", ".join(check.aspect for check in unknown if not check.questions)
        counted = f"{self.questions} questions; more may decide"
        more = f" Not decided by {counted}: {undecided}." if undecided else ""
        not_compared = f" Not compared: {missing}." if missing else ""
        if self.verdict == "equal":
            return f"A and B are the same model in all that was compared.{more}{not_compared}"
        return f"It cannot be told whether A and B are the same model.{more}{not_compared}"


def certify(
    specs: tuple[str, str],
    models: tuple[object, object],
    queries: Sequence[Query],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Certificate:
    """Ask two models the same questions, and judge whether their networks are the same.

    Args:
        specs: SPECs of the models A and B.
        models: The models A and B.
        queries: The questions.
        progress: Called with the number of questions done and the number of all.

    Raises:
        UsageError: a model is not an `AskingModel`, or the two send different numbers of requests.
    """
    for option, spec, model in zip(("--model", "--against"), specs, models, strict=True):
        if not isinstance(model, AskingModel):
            raise UsageError(
                f"{option} {spec}",
                expected="a model that asks one network, such as qwen_vl or vlm",
                found="one of several turns, or without a network",
            )
    a, b = models
    assert isinstance(a, AskingModel) and isinstance(b, AskingModel), "checked"
    questions = Questions((a.chat, b.chat))
    for chat in questions.chats:
        chat.prepare()
    for start in range(0, len(queries), QUESTIONS_AT_ONCE):
        batch = queries[start : start + QUESTIONS_AT_ONCE]
        sides = [
            [request for query in batch for request in side.requests(query)] for side in (a, b)
        ]
        if len(sides[0]) != len(sides[1]):
            raise UsageError(
                "harness certify",
                expected="as many requests of --model as of --against",
                found=f"{len(sides[0])} and {len(sides[1])}",
            )
        questions.ask(*sides)
        progress(start + len(batch), len(queries))
    return _Judge(questions).certificate(specs)


class _Judge:
    """Collects the checks of all questions, and the causes of the differences."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        described = [dict(chat.describe()) for chat in questions.chats]
        dtypes = [str(chat["dtype"]) if chat.get("dtype") else None for chat in described]
        self.dtypes = tuple(dtype or f"not told, {ASSUMED} assumed" for dtype in dtypes)
        self.rates = rates_of(*dtypes)
        self.side_rates = [rates_of(dtype) for dtype in dtypes]
        self.described = described
        self.settings = by_cause(*_common_settings(*described))
        self.drawn = [bool(chat.get("temperature")) for chat in described]
        """For each side, True if it samples its tokens, as described or as observed."""
        self.causes: list[str] = []
        self.checks: list[Check] = []

    def certificate(self, specs: tuple[str, str]) -> Certificate:
        """Judge the answers to all questions."""
        for aspect, compared in self.questions.parts.items():
            self._check_part(aspect, compared)
        self._check_settings()
        same_network = self._check_logprobs()
        self._check_repeats()
        proven = self._check_choices(same_network)
        self._check_answers()
        proven = proven and not self._pixels_may_differ()
        verdict = "different" if self.causes else "equal" if proven else "cannot tell"
        return Certificate(
            a=specs[0],
            b=specs[1],
            questions=len(self.questions.pairs),
            verdict=verdict,
            causes=tuple(dict.fromkeys(self.causes)),
            checks=tuple(self.checks),
            settings=tuple(line for lines in self.settings.values() for line in lines),
            dtypes=(self.dtypes[0], self.dtypes[1]),
            rates=self.rates,
        )

    def _check(self, aspect: str, equal: bool | None, finding: str, questions: int = 0) -> None:
        self.checks.append(Check(aspect=aspect, equal=equal, words=finding, questions=questions))

    def _check_part(self, aspect: str, comparisons: Sequence[Part]) -> None:
        """Check one input of the networks; a difference between our own requests is a cause."""
        known = [part for part in comparisons if part.equal is not None]
        differing = Counter(part.finding for part in comparisons if part.equal is False)
        finding = Counter(part.finding for part in comparisons).most_common(1)[0][0]
        if differing:
            finding = differing.most_common(1)[0][0]
            finding = f"in {sum(differing.values())} of {len(known)}: {finding}"
            if aspect in OF_REQUEST:
                recorded = self._recorded("images", "processor") if aspect == pairs.IMAGES else ""
                self.causes.append(f"{aspect}: {differing.most_common(1)[0][0]}{recorded}")
        self._check(aspect, not differing if known else None, finding, len(known))

    def _pixels_may_differ(self) -> bool:
        """Return True if settings of pixels differ, and nothing shows that the images do not."""
        limits = [line for line in self.settings.get("processor", ()) if line.startswith(LIMITS)]
        differing = [*self.settings.get("images", ()), *limits]
        states = {check.aspect: check.equal for check in self.checks}
        same_pixels = all(
            part.equal or part.finding == pairs.RESIZED_FINDING
            for part in self.questions.parts[pairs.IMAGES]
        )
        return bool(differing) and not same_pixels and not states[pairs.TENSORS]

    def _check_settings(self) -> None:
        """Check the recorded settings of sampling, and the fingerprints of weights."""
        lines = [
            line
            for line in self.settings.get("sampling", ())
            if line.startswith(SAMPLING) and (any(self.drawn) or not line.startswith("top_"))
        ]
        self.causes += [f"sampling: {line}" for line in lines]
        hashes = [chat.get("weights") for chat in self.described]
        known = None not in hashes
        network = self.settings.get("network", [])
        finding = "; ".join(network) if known else "a side does not tell them"
        self._check(pairs.WEIGHTS, not network if known else None, finding or "equal fingerprints")

    def _check_repeats(self) -> None:
        """Check that questions asked again with another seed get the same responses."""
        for side, chat in enumerate(self.questions.chats):
            if self.drawn[side] or self.questions.reference == side:
                continue  # drawn as it should be; or greedy in this process, which repeats itself
            first = self.questions.pairs[:QUESTIONS_AGAIN]
            requests = [
                replace(pair.requests[side], key=f"{pair.requests[side].key}:again")
                for pair in first
            ]
            again = [observation.response for observation in chat.observe(requests)]
            before = [pair.observations[side].response for pair in first]
            starts = [self.questions.common_start(a, b) for a, b in zip(before, again, strict=True)]
            diverged, tokens = _totals(starts)
            low, _ = share_interval(diverged, tokens, groups=len(starts))
            self.drawn[side] = low > self.side_rates[side].token
            n_equal = sum(a.text == b.text for a, b in zip(before, again, strict=True))
            finding = f"{'AB'[side]} answers {n_equal} of {len(first)} questions as before"
            if self.drawn[side]:
                self.causes.append(f"sampling: {'AB'[side]} draws its responses")
            self._check(pairs.AGAIN, not self.drawn[side], finding, len(first))

    def _check_logprobs(self) -> bool | None:
        """Check the distance of both sides' log-probabilities, and tighten the rates by it.

        Returns True if the networks are the same, False if not, None if it is not known.
        """
        indices = range(len(self.questions.pairs))
        distances = [self.questions.deviation(index) for index in indices]
        values = [distance for distance in distances if distance is not None]
        equal = self._check_distance(pairs.LOGPROBS, values, "nats a token apart")
        if values:
            self.rates, *self.side_rates = (
                rates.tightened(fmean(values)) for rates in (self.rates, *self.side_rates)
            )
        return equal

    def _check_choices(self, same_network: bool | None) -> bool:
        """Check how likely the other side's tokens are by the reference network; name causes.

        Returns True if both networks are shown to be the same.
        """
        questions, is_drawn = self.questions, self.drawn[self.questions.other]
        views = [view for view in questions.views if view is not None and len(view.best)]
        gaps = [] if is_drawn else list(map(pairs.regret, views))
        unit = f"nats a token below {questions.reference_letter}'s likeliest"
        greedy = self._check_distance(pairs.CHOICE, gaps, unit)
        inputs = self._inputs_equal()
        if not inputs and (gaps or (views and same_network is not None)):
            causes = explain(questions, floor=rates_of(EXACT, EXACT).logprob)
            self.causes += [f"{questions.other_letter}: {cause}" for cause in causes]
        self._name_unexplained(same_network, greedy)
        if same_network is None:
            weights = next(check.equal for check in self.checks if check.aspect == pairs.WEIGHTS)
            return bool(greedy) or (inputs and bool(weights))
        return same_network and (greedy is True or not gaps)

    def _check_distance(self, aspect: str, values: Sequence[float], unit: str) -> bool | None:
        """Check a mean distance over questions; True: both sides' types of numbers explain it."""
        if not values:
            self._check(aspect, None, self._why_unknown(aspect))
            return None
        mean, low, high = mean_interval(values)
        limit = self.rates.logprob
        equal: bool | None = None  # undecided
        if high <= limit:
            equal = True
        elif low > limit:
            equal = False
        finding = f"{mean:.2g} {unit} ({low:.2g} to {high:.2g}); {limit:.2g} is explained"
        self._check(aspect, equal, finding, len(values))
        return equal

    def _why_unknown(self, aspect: str) -> str:
        """Return why log-probabilities or choices of tokens were not compared."""
        questions, other_side = self.questions, self.questions.other
        if aspect == pairs.CHOICE:
            if questions.reference is None:
                return "neither network is in this process"
            if self.drawn[other_side]:
                return f"{questions.other_letter} draws its responses"
            return "the tokens of the responses are not known"
        sides = (0, 1) if questions.reference is None else (other_side,)
        for side in sides:
            if all(pair.observations[side].logprobs is None for pair in questions.pairs):
                return f"{'AB'[side]} does not tell them"
        return "no response has tokens that are known on both sides"

    def _name_unexplained(self, same_network: bool | None, greedy: bool | None) -> None:
        """Name the cause of a difference that no change of requests explains."""
        letter = self.questions.other_letter
        states = {check.aspect: check for check in self.checks}
        tokens, tensors = states[pairs.TOKENS], states[pairs.TENSORS]
        if self.causes:
            return
        if tokens.equal is False:
            where = self.questions.where_tokens_differ()
            recorded = self._recorded("template", "processor")
            self.causes.append(f"chat template or processor: {tokens.words}{where}{recorded}")
        elif tensors.equal is False:
            recorded = self._recorded("processor")
            self.causes.append(f"processor: pixels {tensors.words}{recorded}")
        elif same_network is False and (kind := self.questions.differing_kinds(self.rates.logprob)):
            self.causes.append(f"{kind}: {letter} gets other {kind}, or changes them")
        elif same_network is False:
            recorded = self._recorded("network")
            precision = "" if recorded else ", or computes in another precision"
            self.causes.append(f"weights: {letter} has other weights{precision}{recorded}")
        elif greedy is False and same_network:
            self.causes.append(f"sampling: {letter} does not choose the likeliest tokens")
        elif greedy is False:
            recorded = self._recorded("network")
            self.causes.append(f"weights or sampling: {letter} chooses unlikely tokens{recorded}")

    def _recorded(self, *causes: str) -> str:
        """Return the recorded settings that differ and belong to the causes, in parentheses."""
        lines = [line for cause in causes for line in self.settings.get(cause, ())]
        return f" ({'; '.join(lines)})" if lines else ""

    def _inputs_equal(self) -> bool:
        """Return True if both networks are known to have had the same tokens and pixels."""
        inputs = self.questions.parts[pairs.TOKENS], self.questions.parts[pairs.TENSORS]
        return all(part.equal and not part.finding for parts in inputs for part in parts)

    def _check_answers(self) -> None:
        """Check how often the responses of both sides diverge, and which side ends early."""
        questions = self.questions
        responses = [[side.response for side in pair.observations] for pair in questions.pairs]
        starts = [questions.common_start(a, b) for a, b in responses]
        diverged, tokens = _totals(starts)
        n_equal = sum(a.text == b.text for a, b in responses)
        finding = f"{n_equal} of {len(starts)} responses are equal"
        for side, letter in enumerate("AB"):
            early = sum(start.early_side == side for start in starts)
            if early >= max(MIN_EARLY, diverged / 2):
                self.causes.append(f"{pairs.EARLY}: {letter} ends {early} responses early")
        if any(self.drawn) or not tokens:
            self._check(pairs.ANSWERS, None, finding, len(starts))
            return
        low, _ = share_interval(diverged, tokens, groups=len(starts))
        finding += f"; another token at {diverged} of {tokens:,} tokens"
        finding += f", {self.rates.token:.2g} of them is explained"
        limit = self.rates.token
        n_unknown = sum(start.tokens == 0 for start in starts)  # different texts, unknown tokens
        equal: bool | None = None  # undecided
        if low > limit:
            equal = False
        elif diverged <= limit * tokens and MIN_PER_UNKNOWN * n_unknown <= len(starts):
            equal = True
        if equal is False and not self.causes:
            self.causes.append(f"{pairs.ANSWERS}: {finding}")
        self._check(pairs.ANSWERS, equal, finding, len(starts))


def _totals(starts: Sequence[CommonStart]) -> tuple[int, int]:
    """Return the number of pairs of responses that diverge, and of the tokens compared."""
    return sum(start.diverges for start in starts), sum(start.tokens for start in starts)


def _common_settings(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return two descriptions without the settings that one backend does not have.

    Those that change pixels stay: a limit that is not given is the checkpoint's own, and images
    that are not encoded are handed over as they are.
    """
    if a.get("backend") == b.get("backend"):
        return a, b
    keys = [key for key in a if a[key] is not None and b.get(key) is not None]
    keys += [key for key in LIMITS if key not in keys and (key in a and key in b)]
    settings = [{key: side[key] for key in keys} for side in (a, b)]
    for common, side in zip(settings, (a, b), strict=True):
        encoded = side.get("images", LOSSLESS)
        common["images"] = "as they are" if encoded == LOSSLESS else encoded
    return settings[0], settings[1]
