"""Ask two ways of calling one network the same questions, and judge whether they are one model.

    question ─▶ A ─▶ inputs, response ─┐
             └▶ B ─▶ inputs, response ─┴▶ parts compared ─▶ distance ─▶ suspects ─▶ verdict

The examined network's log-probabilities of the other side's tokens differ from the other side's own
where inputs or weights differ; the tokens are not its likeliest ones where the choice of tokens
differs too. What two types of numbers explain of both is documented (`rates.toml`). The cause of
more is searched among `suspects`.
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
from harness.leaderboards.certification.questions import Questions
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

AT_ONCE, REPEATED = 8, 8
"""Questions asked at once, and questions asked again with another seed."""
FEW = 3
"""Questions whose responses must end early before that is called a difference."""
UNKNOWN = 10
"""One response in so many may differ in tokens that no side tells, and both still be equal."""
SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty", "presence_penalty")
GIVEN = (pairs.WORDS, pairs.SYSTEM, pairs.SETTINGS, pairs.LIMIT, pairs.IMAGES, pairs.TIMES)
"""Parts of which a difference is a cause by itself."""


@runtime_checkable
class AskingModel(Protocol):
    """A model that asks one network, by requests that are known before any response."""

    @property
    def chat(self) -> Chat: ...  # noqa: D102
    def requests(self, query: Query) -> Sequence[ChatRequest]: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Check:
    """One part of all questions, compared."""

    aspect: str
    equal: bool | None
    """None: it was not compared, or cannot be told."""
    words: str
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
        missing = ", ".join(check.aspect for check in self.checks if check.equal is None)
        apart = f" Not compared: {missing}." if missing else ""
        if self.verdict == "equal":
            return f"A and B are the same model in all that was compared.{apart}"
        return f"It cannot be told whether A and B are the same model.{apart}"


def certify(
    specs: tuple[str, str],
    models: tuple[object, object],
    queries: Sequence[Query],
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Certificate:
    """Ask two models the same questions, and judge whether their networks are the same.

    Args:
        specs: Their names.
        models: The models.
        queries: The questions.
        progress: Called with the number of questions that are done, and with that of all.

    Raises:
        UsageError: a model does not ask a network by requests that are known before, or the two
            send different numbers of requests.
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
    for start in range(0, len(queries), AT_ONCE):
        part = queries[start : start + AT_ONCE]
        sides = [[request for query in part for request in side.requests(query)] for side in (a, b)]
        if len(sides[0]) != len(sides[1]):
            raise UsageError(
                "harness certify",
                expected="as many requests of --model as of --against",
                found=f"{len(sides[0])} and {len(sides[1])}",
            )
        questions.ask(*sides)
        progress(start + len(part), len(queries))
    return _Judging(questions).certificate(specs)


class _Judging:
    """The checks of all questions, and the causes of what differs."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        described = [dict(chat.describe()) for chat in questions.chats]
        dtypes = [str(chat["dtype"]) if chat.get("dtype") else None for chat in described]
        self.dtypes = tuple(dtype or f"not told, {ASSUMED} assumed" for dtype in dtypes)
        self.rates, self.own = rates_of(*dtypes), [rates_of(dtype) for dtype in dtypes]
        self.described = described
        self.settings = by_cause(*_told_by_both(*described))
        self.drawn = [bool(chat.get("temperature")) for chat in described]
        """True of a side whose responses are drawn, by its own account or by what it does."""
        self.causes: list[str] = []
        self.checks: list[Check] = []

    def certificate(self, specs: tuple[str, str]) -> Certificate:
        """Judge the answers to all questions."""
        for aspect, parts in self.questions.parts.items():
            self._part(aspect, parts)
        self._settings()
        same_network = self._deviations()
        self._asked_again()
        proven = self._choices(same_network)
        self._answers()
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

    def _check(self, aspect: str, equal: bool | None, words: str, questions: int = 0) -> None:
        self.checks.append(Check(aspect=aspect, equal=equal, words=words, questions=questions))

    def _part(self, aspect: str, parts: Sequence[Part]) -> None:
        """Check what the networks were given; what our own requests differ in is a cause."""
        compared = [part for part in parts if part.equal is not None]
        differing = Counter(part.words for part in parts if part.equal is False)
        words = Counter(part.words for part in parts).most_common(1)[0][0]
        if differing:
            words = differing.most_common(1)[0][0]
            words = f"in {sum(differing.values())} of {len(compared)}: {words}"
            if aspect in GIVEN:
                self.causes.append(f"{aspect}: {differing.most_common(1)[0][0]}")
        self._check(aspect, not differing if compared else None, words, len(compared))

    def _settings(self) -> None:
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
        words = "; ".join(network) if known else "a side does not tell them"
        self._check(pairs.WEIGHTS, not network if known else None, words or "equal fingerprints")

    def _asked_again(self) -> None:
        """Check that questions that are asked again with another seed get the same responses."""
        for side, chat in enumerate(self.questions.chats):
            if self.drawn[side] or self.questions.reference == side:
                continue  # drawn as it should be; or greedy in this process, which repeats itself
            first = self.questions.pairs[:REPEATED]
            requests = [
                replace(pair.requests[side], key=f"{pair.requests[side].key}:again")
                for pair in first
            ]
            again = [seen.response for seen in chat.observe(requests)]
            before = [pair.seen[side].response for pair in first]
            ways = [self.questions.way(*both) for both in zip(before, again, strict=True)]
            turned, tokens = sum(way.turns for way in ways), sum(way.tokens for way in ways)
            low, _ = share_interval(turned, tokens, groups=len(ways))
            self.drawn[side] = low > self.own[side].token
            same = sum(a.text == b.text for a, b in zip(before, again, strict=True))
            words = f"{'AB'[side]} answers {same} of {len(first)} questions as before"
            if self.drawn[side]:
                self.causes.append(f"sampling: {'AB'[side]} draws its responses")
            self._check(pairs.AGAIN, not self.drawn[side], words, len(first))

    def _deviations(self) -> bool | None:
        """Check the difference of both sides' log-probabilities, and tighten the rates by it."""
        places = range(len(self.questions.pairs))
        values = [off for place in places if (off := self.questions.deviation(place)) is not None]
        equal = self._judged(pairs.LOGPROBS, values, "nats a token apart")
        if values:
            self.rates, *self.own = (
                rates.tightened(fmean(values)) for rates in (self.rates, *self.own)
            )
        return equal

    def _choices(self, same_network: bool | None) -> bool:
        """Check how likely the examined network finds the other side's tokens; name causes.

        Returns True if both networks are shown to be the same.
        """
        questions, drawn = self.questions, self.drawn[self.questions.other]
        views = [view for view in questions.views if view is not None and len(view.best)]
        gaps = [] if drawn else list(map(pairs.regret, views))
        unit = f"nats a token below {questions.reference_letter}'s likeliest"
        greedy = self._judged(pairs.CHOICE, gaps, unit)
        inputs = self._inputs_equal()
        if not inputs and (gaps or (views and same_network is not None)):
            causes = explain(questions, floor=rates_of(EXACT, EXACT).logprob)
            self.causes += [f"{questions.letter}: {words}" for words in causes]
        self._unexplained(same_network, greedy)
        if same_network is None:
            weights = next(check.equal for check in self.checks if check.aspect == pairs.WEIGHTS)
            return bool(greedy) or (inputs and bool(weights))
        return same_network and (greedy is True or not gaps)

    def _judged(self, aspect: str, values: Sequence[float], unit: str) -> bool | None:
        """Check a mean distance; True: what both types of numbers explain holds it."""
        if not values:
            self._check(aspect, None, "not told, or neither network is in this process")
            return None
        mean, low, high = mean_interval(values)
        limit = self.rates.logprob
        equal = True if high <= limit else False if low > limit else None
        words = f"{mean:.2g} {unit} ({low:.2g} to {high:.2g}); {limit:.2g} is explained"
        self._check(aspect, equal, words, len(values))
        return equal

    def _unexplained(self, same_network: bool | None, greedy: bool | None) -> None:
        """Name what no change of requests explains."""
        letter = self.questions.letter
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
        elif same_network is False and (kind := self.questions.only_with(self.rates.logprob)):
            self.causes.append(f"{kind}: {letter} is given others, or changes them")
        elif same_network is False:
            recorded = self._recorded("network")
            self.causes.append(f"weights: {letter} computes with others or fewer bits{recorded}")
        elif greedy is False and same_network:
            self.causes.append(f"sampling: {letter} does not take the likeliest tokens")
        elif greedy is False:
            recorded = self._recorded("network")
            self.causes.append(f"weights or sampling: {letter} takes unlikely tokens{recorded}")

    def _recorded(self, *causes: str) -> str:
        """Recorded settings that differ and may be the cause, in parentheses."""
        lines = [line for cause in causes for line in self.settings.get(cause, ())]
        return f" ({'; '.join(lines)})" if lines else ""

    def _inputs_equal(self) -> bool:
        """Return True if both networks are known to have had the same tokens and pixels."""
        both = self.questions.parts[pairs.TOKENS], self.questions.parts[pairs.TENSORS]
        return all(part.equal and not part.words for parts in both for part in parts)

    def _answers(self) -> None:
        """Check at how many tokens the responses take other ways, and which end early."""
        questions = self.questions
        ways = [questions.way(*(seen.response for seen in pair.seen)) for pair in questions.pairs]
        turned, tokens = sum(way.turns for way in ways), sum(way.tokens for way in ways)
        same = sum(
            pair.seen[0].response.text == pair.seen[1].response.text for pair in questions.pairs
        )
        words = f"{same} of {len(ways)} responses are equal"
        for side, letter in enumerate("AB"):
            early = sum(way.early == side for way in ways)
            if early >= max(FEW, turned / 2):
                self.causes.append(f"{pairs.EARLY}: {letter} ends {early} responses early")
        if any(self.drawn) or not tokens:
            self._check(pairs.ANSWERS, None, words, len(ways))
            return
        low, _ = share_interval(turned, tokens, groups=len(ways))
        words += f"; another way at {turned} of {tokens:,} tokens"
        words += f", {self.rates.token:.2g} of them is explained"
        limit = self.rates.token
        equal = False if low > limit else True if turned <= limit * tokens else None
        unknown = sum(way.tokens == 0 for way in ways)  # other texts, whose tokens nobody tells
        if equal and UNKNOWN * unknown > len(ways):
            equal = None
        if equal is False and not self.causes:
            self.causes.append(f"{pairs.ANSWERS}: {words}")
        self._check(pairs.ANSWERS, equal, words, len(ways))


def _told_by_both(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return two descriptions without the settings that one backend does not have."""
    if a.get("backend") == b.get("backend"):
        return a, b
    keys = [key for key in a if a[key] is not None and b.get(key) is not None]
    return {key: a[key] for key in keys}, {key: b[key] for key in keys}
