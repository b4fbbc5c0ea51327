"""METEOR of tokenised captions, by its Java program; `harness.metrics.captions` calls it.

Each Python process starts the program once and keeps it running, as its start takes far longer than
a score.
"""

import atexit
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.metrics.penn_treebank import JAVA, need_java, pycocoevalcap


def aligned(
    references: Mapping[int, Sequence[str]], candidates: Mapping[int, Sequence[str]]
) -> tuple[float, list[float]]:
    """Return METEOR of a corpus and of each caption, by `Meteor.compute_score` of pycocoevalcap.

    Args:
        references: Tokenised references by caption.
        candidates: One tokenised text by caption, the same keys.

    Raises:
        MissingDependency: Java or pycocoevalcap is missing.
        HarnessError: the program died or did not answer with numbers.
    """
    scorer = _program(os.getpid())
    try:
        value, by_caption = scorer.compute_score(references, candidates)
    except (ValueError, OSError) as error:
        _stop(scorer)
        _program.cache_clear()
        raise HarnessError(
            "METEOR",
            expected="a score from its Java program",
            found=str(error) or "none",
            fix="It needs 2 GiB of memory.",
        ) from error
    return float(value), list(map(float, by_caption))


# Cached by process: a child must not use the pipes of its parent.
@cache
def _program(process: int) -> Any:
    """Start the Java program as `Meteor` does, with two differences.

    Its error stream is dropped: nobody reads that pipe, and a full one would stop the program. The
    alignments of captions are cached, so that subsets of a corpus cost little.
    """
    del process  # the cache's key
    need_java("METEOR")
    module = pycocoevalcap("meteor.meteor")
    scorer = object.__new__(module.Meteor)
    scorer.lock = threading.Lock()
    scorer.meteor_p = subprocess.Popen(
        [*JAVA, "-jar", "-Xmx2G", module.METEOR_JAR, "-", "-", "-stdio", "-l", "en", "-norm"],
        cwd=Path(str(module.__file__)).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    align = lru_cache(maxsize=200_000)(partial(module.Meteor._stat, scorer))
    scorer._stat = lambda candidates, references: align(candidates, tuple(references))
    atexit.register(_stop, scorer)
    return scorer


def _stop(scorer: Any) -> None:
    """End the program. First release the lock, which a failed call keeps: `Meteor` waits for it."""
    if scorer.lock.locked():
        scorer.lock.release()
    scorer.meteor_p.kill()
    scorer.meteor_p.wait()
    scorer.meteor_p.stdout.close()
