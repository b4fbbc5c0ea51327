"""Access to the Hugging Face hub for `harness hub` and `harness data fetch`.

`connect` returns the client, whose only token is HF_TOKEN; `call_hub` turns its errors into those
of harness.
"""

import errno
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from harness.errors import DataError, UsageError
from harness.plugins import missing_dependency

if TYPE_CHECKING:
    from huggingface_hub import HfApi

OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Variables that forbid the network, as huggingface_hub reads them."""
URL_QUERY = re.compile(r"\?\S*")
"""Query of a URL, such as `?Signature=…`, which messages leave out: it may give access."""
REFUSED_STATUSES = (401, 403)  # HTTP status codes of a missing or insufficient token
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
"""Errors of the disk, which do not come from the hub."""

T = TypeVar("T")


def refuse_offline(what: str, fix: str = "") -> None:
    """Raise UsageError if a variable forbids the network; `what` is the command that needs it."""
    for name in OFFLINE_VARIABLES:
        if os.environ.get(name, "").lower() in ("1", "true", "yes", "on"):
            setting = f"{name} in the environment"
            raise UsageError(what, expected="a network", found=setting, fix=fix)


def connect(*, quiet: bool = False) -> "HfApi":
    """Return the hub's client, without telemetry.

    Its token is HF_TOKEN or none, never one stored on the disk: whoever starts the command decides
    what it may read and change.

    Raises:
        MissingDependency: huggingface_hub is not installed.
        UsageError: HF_TOKEN is not a token; an error of the client might show it.
    """
    token = os.environ.get("HF_TOKEN", "").strip()
    if token and not re.fullmatch("[!-~]+", token):
        raise UsageError("HF_TOKEN", expected="one token, without spaces", found="something else")
    # huggingface_hub reads both variables when it is imported.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if quiet:
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    try:
        from huggingface_hub import HfApi
    except ModuleNotFoundError as error:
        raise missing_dependency("the Hugging Face hub", error) from error
    return HfApi(os.environ.get("HF_ENDPOINT") or None, token=token or False)


def call_hub(repository: str, revision: str, call: Callable[[], T]) -> T:
    """Return what a call of the hub's client returns.

    Args:
        repository: The repository, for messages.
        revision: Its revision, for messages.
        call: The call.

    Raises:
        DataError: the hub refuses, does not answer, or its answer cannot be read.
        OSError: the disk is full or read-only.
    """
    from huggingface_hub import errors

    thing = f"repository {repository}"
    try:
        return call()
    except errors.GatedRepoError as error:
        raise DataError(
            thing,
            expected="access to it",
            found="a gate",
            fix=f"Accept its terms at https://huggingface.co/{repository} and set HF_TOKEN in the "
            "environment.",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(
            thing,
            expected="a repository of this kind and name on the hub",
            found="none (or a private one, for which HF_TOKEN is needed)",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise DataError(
            thing, expected=f"the revision {revision}", found="none of this name"
        ) from error
    except (
        getattr(errors, "HTTPError", OSError),
        OSError,
        RuntimeError,  # raised by hf_xet
        ValueError,  # raised, as the two below, if huggingface_hub cannot read an answer
        KeyError,
        TypeError,
    ) as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise
        refused = getattr(getattr(error, "response", None), "status_code", 0) in REFUSED_STATUSES
        raise DataError(
            thing,
            expected=f"the hub at {os.environ.get('HF_ENDPOINT') or 'https://huggingface.co'}",
            found=URL_QUERY.sub("", str(error).strip().split("\n")[0] or type(error).__name__)[
                :200
            ],
            fix="Set HF_TOKEN in the environment to a token with this permission."
            if refused
            else "Run the same command again to resume.",
        ) from error
