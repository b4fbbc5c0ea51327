"""The test server's addresses, as an ASGI application (`serve` runs it).

GET  /                      the board, for browsers too (the token is the password)
GET  /board.json            the same for programs
GET  /key                   the public key of receipts
POST /tasks/TASK/uploads    an upload, its body: ?method=NAME&format=jsonl|coco|mask-tree
GET  /uploads               the account's own uploads, as receipts
GET  /uploads/NUMBER        one of them
GET  /uploads/NUMBER/samples   its scores by sample, if the owner reveals them
"""

import asyncio
import base64
import binascii
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
)
from starlette.routing import Route

from harness.errors import StoreError, UsageError
from harness.leaderboards.server import board
from harness.leaderboards.server.archive import is_zip
from harness.leaderboards.server.children import ChildFault, Children, Refused
from harness.leaderboards.server.folders import Folders
from harness.leaderboards.server.hosted import Hosted, Settings
from harness.leaderboards.server.receipt import Signer
from harness.leaderboards.server.store import DailyLimit, Store, Upload
from harness.record import SCORES

IDLE = 10.0
"""Seconds without a byte of a body after which an upload is given up."""
METHOD = re.compile(r"[^\W_][\w .,:+()@=-]{0,79}")
"""Names of methods for the board, such as `Qwen2.5-VL (7B, 16 frames)`; at most 80 characters."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
STATUS: Mapping[type[Exception], int] = {
    UsageError: 400,
    Refused: 422,
    DailyLimit: 429,
    ChildFault: 500,
    StoreError: 503,
}
FORM_TYPE, FIELDS_TYPE = "multipart/form-data", "application/x-www-form-urlencoded"
"""Content types of `curl -F`, and of `curl -d` and `--data-binary`, of which `-d` drops line ends
and zeros."""
HEAD_BYTES = 1 << 20
"""Bytes of an upload in which line ends are looked for."""
CURL_FIX = "Send it as it is: `curl --data-binary @FILE`."
BEARER_MESSAGE = "an upload needs the header `Authorization: Bearer TOKEN`, not a password"
OWN_FAULTS = (500, 503)
"""Status codes whose reasons are shown to the server's owner alone."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The routes of the server, and the parts that they use."""

    tasks: Mapping[str, Hosted]
    store: Store
    folders: Folders
    children: Children
    signer: Signer
    queued: Callable[[], None]
    """Called after an upload was accepted."""
    note: Callable[[str], None]
    """Receives messages for the owner alone."""
    title: str
    per_day: int
    """Largest number of uploads of an account to a task in a day."""
    max_bytes: int
    """Largest size of an upload in bytes."""
    reveals_samples: bool = False
    """True if participants may read the scores of their own uploads by sample."""
    uploading: set[str] = field(default_factory=set)
    """Accounts whose upload is being received or checked."""
    readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(os.cpu_count() or 1))
    """Limits the number of uploads that are checked at a time."""

    def application(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/", self.page, methods=["GET"]),
            Route("/board.json", self.board_json, methods=["GET"]),
            Route("/key", self.key, methods=["GET"]),
            Route("/tasks/{task}/uploads", self.upload, methods=["POST"]),
            Route("/uploads", self.uploads, methods=["GET"]),
            Route("/uploads/{number:int}", self.one_upload, methods=["GET"]),
            Route("/uploads/{number:int}/samples", self.samples, methods=["GET"]),
        ]
        handlers = {HTTPException: self._refusal, **dict.fromkeys(STATUS, self._error)}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def page(self, request: Request) -> Response:
        """The board as a page."""
        await self._account(request)
        plain = await to_thread.run_sync(self._board)
        return HTMLResponse(board.page(plain, self.title), headers=HEADERS)

    async def board_json(self, request: Request) -> Response:
        """The board as JSON."""
        await self._account(request)
        return JSONResponse(await to_thread.run_sync(self._board), headers=HEADERS)

    def _board(self) -> dict[str, Any]:
        return board.to_json(self.tasks, self.store.uploads())

    async def key(self, request: Request) -> Response:
        """The public key of receipts."""
        return PlainTextResponse(f"{self.signer.public}\n", headers=HEADERS)

    async def upload(self, request: Request) -> Response:
        """Receive, check and accept an upload."""
        account = await self._account(request)
        hosted = self.tasks.get(request.path_params["task"])
        if hosted is None:
            raise HTTPException(404, f"no such task; there are {', '.join(self.tasks)}")
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == FORM_TYPE:
            raise HTTPException(
                422, f"upload: expected the file as the body, found a form. {CURL_FIX}"
            )
        method, settings = _stated(request)
        settings_json = json.dumps(asdict(settings))
        if account in self.uploading:
            raise HTTPException(429, "another upload of this account is under way: one at a time")
        self.uploading.add(account)
        try:
            with self.folders.incoming() as path:
                sha256 = await self._receive(request, path)
                accepted = await to_thread.run_sync(
                    self.store.find, account, hosted.key, sha256, method, settings_json
                )
                if accepted is None:
                    try:
                        content = await to_thread.run_sync(
                            self._check, path, hosted, settings, limiter=self.readers
                        )
                    except Refused as error:
                        if content_type == FIELDS_TYPE and _lost_line_ends(path):
                            raise Refused(
                                f"upload: the line ends are missing. {CURL_FIX}"
                            ) from error
                        raise
                    fresh = Upload(
                        account=account,
                        task=hosted.key,
                        method=method,
                        settings=settings_json,
                        file=path.name,
                        sha256=sha256,
                        content=content,
                        size=path.stat().st_size,
                        received_at=time.time(),
                    )
                    accepted = await to_thread.run_sync(self._accept, path, fresh)
        finally:
            self.uploading.discard(account)
        return JSONResponse(self._receipt(accepted), 201, headers=HEADERS)

    async def _receive(self, request: Request, path: Path) -> str:
        """Write the body to a new file, flushed to disk, and return its SHA-256.

        Raises:
            HTTPException: it is too large (413), too slow (408), cut (400) or empty (422).
        """
        announced_size = request.headers.get("content-length", "")
        if announced_size.isdecimal() and int(announced_size[:20]) > self.max_bytes:
            raise self._too_large()
        digest, size = hashlib.sha256(), 0
        with path.open("xb") as file:
            chunks = aiter(request.stream())
            try:
                while True:
                    async with asyncio.timeout(IDLE):
                        chunk = await anext(chunks)
                    size += len(chunk)
                    if size > self.max_bytes:
                        raise self._too_large()
                    digest.update(chunk)
                    file.write(chunk)
            except StopAsyncIteration:
                pass
            except TimeoutError as error:
                raise HTTPException(408, f"no byte came for {IDLE:g} s") from error
            except ClientDisconnect as error:
                raise HTTPException(400, "the connection ended before the upload did") from error
            file.flush()
            await to_thread.run_sync(os.fsync, file.fileno())
        if not size:
            raise HTTPException(422, "upload: expected a file as the body, found nothing")
        return digest.hexdigest()

    def _check(self, path: Path, hosted: Hosted, settings: Settings) -> str:
        with self.folders.work(path) as folder:
            return self.children.check(folder, hosted, settings)

    def _accept(self, path: Path, upload: Upload) -> Upload:
        """Store an upload: first the file, then its row, so that every row has a file.

        Raises:
            DailyLimit: the account has used its uploads of the day; the file is removed.
        """
        self.folders.keep(path)
        try:
            accepted = self.store.accept(upload, self.per_day)
        except DailyLimit:
            (self.folders.uploads / upload.file).unlink()
            raise
        if accepted.file != upload.file:  # the same bytes came twice
            (self.folders.uploads / upload.file).unlink()
        self.queued()
        return accepted

    async def uploads(self, request: Request) -> Response:
        """The account's uploads."""
        account = await self._account(request)
        stored = await to_thread.run_sync(self.store.uploads, account)
        receipts = [self._receipt(upload) for upload in stored if upload.task in self.tasks]
        return JSONResponse(receipts, headers=HEADERS)

    async def one_upload(self, request: Request) -> Response:
        """One upload of the account."""
        return JSONResponse(self._receipt(await self._own(request)), headers=HEADERS)

    async def samples(self, request: Request) -> Response:
        """The scores of an upload by sample, if the owner reveals them."""
        upload = await self._own(request)
        path = self.folders.runs / str(upload.number) / SCORES
        if not self.reveals_samples or upload.moved is None or not path.is_file():
            raise HTTPException(404, "scores by sample are not shown here")
        return FileResponse(path, media_type="application/x-ndjson", headers=HEADERS)

    async def _own(self, request: Request) -> Upload:
        """Return the account's upload with the number in the address; HTTP 404 if none has it."""
        account = await self._account(request)
        for upload in await to_thread.run_sync(self.store.uploads, account):
            if upload.number == request.path_params["number"] and upload.task in self.tasks:
                return upload
        raise HTTPException(404, "no such upload of this account")

    def _receipt(self, upload: Upload) -> dict[str, Any]:
        signed = self.signer.receipt(upload, self.tasks[upload.task])
        return {"state": upload.state, "moved": bool(upload.moved), **signed}

    async def _account(self, request: Request) -> str:
        """Return the account of a request's token; HTTP 401 without a valid one.

        A browser sends a stored password with requests that other sites' pages make, so that a
        password (HTTP Basic) only allows reading; uploads need a bearer token.
        """
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        token = value.strip() if scheme.lower() == "bearer" else ""
        is_password = scheme.lower() == "basic"
        if is_password:
            try:
                decoded = base64.b64decode(value.strip(), validate=True).decode("utf-8")
            except (binascii.Error, UnicodeDecodeError):
                decoded = ""
            token = decoded.partition(":")[2]
        account = await to_thread.run_sync(self.store.account_of, token)
        is_read = request.method in ("GET", "HEAD")
        if account is None or (is_password and not is_read):
            reason = "a valid token is needed" if account is None else BEARER_MESSAGE
            challenge = {"WWW-Authenticate": 'Basic realm="harness", charset="UTF-8"'}
            raise HTTPException(401, reason, headers=challenge)
        return account

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"upload: expected at most {self.max_bytes:,} bytes, found more")

    def _refusal(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException), "it is registered for these"
        headers = {**HEADERS, **(error.headers or {})}
        return JSONResponse({"error": error.detail}, error.status_code, headers=headers)

    def _error(self, request: Request, error: Exception) -> Response:
        status = next(status for type_, status in STATUS.items() if isinstance(error, type_))
        text = str(error)
        if status in OWN_FAULTS:
            self.note(text)
            text = "the server has a fault; its owner was told. Repeat the upload later"
        return JSONResponse({"error": text}, status, headers=HEADERS)


def _lost_line_ends(path: Path) -> bool:
    """Return True if an uploaded file has lost its line ends, as `curl -d @FILE` sends it.

    Several JSON objects without a line end between them have. So has a zip without zeros, which
    curl drops, too: every zip has zeros, but a small one may have no byte of a line end.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if is_zip(path):
        return set(head).isdisjoint(b"\r\n\0")
    return set(head).isdisjoint(b"\r\n") and (b"}{" in head or b"} {" in head)


def _stated(request: Request) -> tuple[str, Settings]:
    """Return the method's name and the settings in an upload's address.

    Raises:
        UsageError: a parameter is unknown, given twice, or has an invalid value.
    """
    names = ["method", *(member.name for member in fields(Settings))]
    parameters = request.query_params.multi_items()
    value_of = dict(parameters)
    if len(value_of) < len(parameters) or value_of.keys() - {*names}:
        raise UsageError(
            "the address", expected=f"each of {', '.join(names)} at most once", found="others"
        )
    method = value_of.pop("method", "")
    if not METHOD.fullmatch(method):
        raise UsageError(
            "method",
            expected="a name of 1 to 80 letters, digits, blanks and _.,:+()@=-",
            found=repr(method)[:60],
        )
    return method, Settings(**value_of)
