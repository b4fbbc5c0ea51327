"""Accounts, tasks and uploads in the test server's database.

An upload in the database is accepted, and is never removed. `app` accepts uploads, `worker` scores
them, and `finish` decides the score shown by the Ladder (`release`).
"""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from harness.errors import HarnessError, UsageError
from harness.leaderboards.history.connections import Connections
from harness.leaderboards.server.hosted import Hosted
from harness.leaderboards.server.release import next_shown
from harness.leaderboards.server.tables import ACCOUNTS, METADATA, TASKS, UPLOADS

DAY = 86_400  # seconds
CREATION_LOCK = 7267492  # any number that is the same in all servers
QUEUED, SCORED, FAILED = "queued", "scored", "failed"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
"""Names of accounts, such as `team_a-2`."""


class DailyLimit(HarnessError):
    """An account has used its uploads of the day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A row of the table of uploads; `tables` documents the fields."""

    account: str
    task: str
    method: str
    settings: str
    file: str
    sha256: str
    content: str
    size: int
    received_at: float
    number: int = 0
    state: str = QUEUED
    score: float | None = None
    shown: float | None = None
    moved: int | None = None


def token_hash(token: str) -> str:
    """Return the hash to store of a token; 256 random bits need no slower hash."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Store(Connections):
    """The server's tables, which are created if they are missing."""

    def __init__(self, url: str) -> None:
        """Connect, and make the tables.

        Raises:
            StoreError: the database cannot be reached.
        """
        super().__init__(url, write=True)
        with self._connection() as connection:
            if connection.dialect.name == "postgresql":  # two servers that start at once
                connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({CREATION_LOCK})"))
            METADATA.create_all(connection)

    def claim(self, hosted: Hosted) -> Hosted:
        """Record a task, and return it under the name that its earlier uploads have.

        Scores under one name are ranked together, so that their labels and protocol must be equal.

        Raises:
            UsageError: uploads under its name were scored by other labels or another protocol.
        """
        with self._connection() as connection:
            rows = connection.execute(sa.select(TASKS.c.key, TASKS.c.identity)).all()
            identities = {key: json.loads(identity) for key, identity in rows}
            for key, identity in identities.items():
                if identity == hosted.identity:
                    return replace(hosted, key=key)
            if hosted.key in identities:
                before = identities[hosted.key]
                changed = [name for name, now in hosted.identity.items() if before[name] != now]
                raise UsageError(
                    f"task {hosted.key}: {', '.join(changed)}",
                    expected=", ".join(before[name] for name in changed)
                    + ", by which uploads in --state were scored",
                    found=", ".join(hosted.identity[name] for name in changed),
                    fix="Use another --state for it.",
                )
            values = {"key": hosted.key, "identity": json.dumps(hosted.identity)}
            connection.execute(TASKS.insert().values(values))
        return hosted

    def renew_token(self, name: str) -> str:
        """Return a new token of an account; create a new account, and void an older token.

        Raises:
            UsageError: the name is not of small letters, digits, `_` and `-`.
        """
        if not NAME.fullmatch(name):
            raise UsageError(
                "account", expected="a name of 1 to 40 of a-z, 0-9, _ and -", found=repr(name)[:60]
            )
        token = f"{name}.{secrets.token_urlsafe(32)}"
        if not self._set_hash(name, token_hash(token)):
            with self._connection() as connection:
                values = {"name": name, "token_hash": token_hash(token)}
                connection.execute(ACCOUNTS.insert().values(values))
        return token

    def revoke(self, name: str) -> None:
        """Void an account's token; its uploads stay.

        Raises:
            UsageError: there is no such account.
        """
        if not self._set_hash(name, ""):
            raise UsageError("account", expected="one that has a token", found=repr(name)[:60])

    def _set_hash(self, name: str, hashed: str) -> bool:
        """Store the hash of an account's token; return False if there is no such account."""
        with self._connection() as connection:
            account = ACCOUNTS.update().where(ACCOUNTS.c.name == name)
            return bool(connection.execute(account.values(token_hash=hashed)).rowcount)

    def account_of(self, token: str) -> str | None:
        """Return the account of a token; None if the token is not valid.

        The time of the comparison reveals neither the hash nor whether the account exists.
        """
        name = token.partition(".")[0]
        name = name if NAME.fullmatch(name) else ""
        query = sa.select(ACCOUNTS.c.token_hash).where(ACCOUNTS.c.name == name)
        with self._connection() as connection:
            stored = connection.execute(query).scalar() or "-" * 64
        return name if secrets.compare_digest(stored, token_hash(token)) else None

    def find(
        self, account: str, task: str, sha256: str, method: str, settings: str
    ) -> Upload | None:
        """Return the account's upload of the same bytes, method and settings, if it has one."""
        with self._connection() as connection:
            return _same(connection, account, task, sha256, method, settings)

    def accept(self, upload: Upload, per_day: int) -> Upload:
        """Write an upload into the queue, and return it with its number.

        The same bytes with the same method and settings are the same upload, so that a participant
        who lost the answer may repeat the request.

        Raises:
            DailyLimit: the account has used its `per_day` uploads to the task since 0:00 UTC.
        """
        of_account = (UPLOADS.c.account == upload.account) & (UPLOADS.c.task == upload.task)
        midnight = upload.received_at // DAY * DAY
        with self._connection() as connection:
            # Uploads of one account are counted one after the other.
            lock = sa.select(ACCOUNTS.c.name).where(ACCOUNTS.c.name == upload.account)
            connection.execute(lock.with_for_update())
            content_key = upload.sha256, upload.method, upload.settings
            if before := _same(connection, upload.account, upload.task, *content_key):
                return before
            today = sa.select(sa.func.count()).where(
                of_account & (UPLOADS.c.received_at >= midnight)
            )
            if connection.execute(today).scalar_one() >= per_day:
                hours = (midnight + DAY - upload.received_at) / 3600
                raise DailyLimit(
                    f"task {upload.task}",
                    expected=f"at most {per_day} uploads a day",
                    found="one more",
                    fix=f"The next day begins at 0:00 UTC, in {hours:.1f} h.",
                )
            values = {name: value for name, value in asdict(upload).items() if name != "number"}
            result = connection.execute(UPLOADS.insert().values(values))
            (number,) = result.inserted_primary_key
        return _upload({**values, "number": number})

    def next_queued(self) -> Upload | None:
        """Return the upload that waits longest; None if none does."""
        waiting = sa.select(UPLOADS).where(UPLOADS.c.state == QUEUED)
        with self._connection() as connection:
            row = connection.execute(waiting.order_by(UPLOADS.c.number).limit(1)).mappings().first()
        return None if row is None else _upload(row)

    def finish(self, upload: Upload, score: float | None, hosted: Hosted) -> Upload:
        """Record the exact score of an upload, and move the account's shown score if it is better.

        Args:
            upload: The upload.
            score: The exact score of the upload; None: the metric has no value.
            hosted: The task of the upload.
        """
        of_account = (UPLOADS.c.account == upload.account) & (UPLOADS.c.task == upload.task)
        best = sa.func.max if hosted.better == "higher" else sa.func.min
        with self._connection() as connection:
            before = connection.execute(sa.select(best(UPLOADS.c.shown)).where(of_account)).scalar()
            shown_score = next_shown(before, score, hosted.step, hosted.better)
            values = {
                "state": SCORED,
                "score": score,
                "shown": shown_score,
                "moved": int(shown_score != before),
            }
            number = UPLOADS.c.number == upload.number
            connection.execute(UPLOADS.update().where(number).values(values))
        return _upload({**asdict(upload), **values})

    def fail(self, upload: Upload) -> None:
        """Take an upload that cannot be scored out of the queue, until the next start."""
        with self._connection() as connection:
            number = UPLOADS.c.number == upload.number
            connection.execute(UPLOADS.update().where(number).values(state=FAILED))

    def retry_failed(self) -> None:
        """Put uploads that could not be scored into the queue again."""
        with self._connection() as connection:
            failed = UPLOADS.c.state == FAILED
            connection.execute(UPLOADS.update().where(failed).values(state=QUEUED))

    def uploads(self, account: str | None = None) -> list[Upload]:
        """Return the uploads of an account, or of all, in their order."""
        query = sa.select(UPLOADS).order_by(UPLOADS.c.number)
        if account is not None:
            query = query.where(UPLOADS.c.account == account)
        with self._connection() as connection:
            return [_upload(row) for row in connection.execute(query).mappings()]


def _same(
    connection: sa.Connection, account: str, task: str, sha256: str, method: str, settings: str
) -> Upload | None:
    """Return the upload with these values; None: there is none."""
    columns = {"account": account, "task": task, "sha256": sha256}
    columns |= {"method": method, "settings": settings}
    is_same = sa.and_(*(UPLOADS.c[name] == value for name, value in columns.items()))
    row = connection.execute(sa.select(UPLOADS).where(is_same)).mappings().first()
    return None if row is None else _upload(row)


def _upload(row: "Mapping[str, Any] | sa.RowMapping") -> Upload:
    return Upload(**row)
