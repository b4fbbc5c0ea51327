"""The way of an upload: receipt, queue, score, board, publication; limits and tokens."""

import base64
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from shutil import copytree
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from PIL import Image

from harness.cli.main import main
from harness.leaderboards.server.folders import Folders


def basic(token):
    return "Basic " + base64.b64encode(f"me:{token}".encode()).decode()


def test_an_upload_is_scored_released_shown_and_published(server, counts, labels, tmp_path, capsys):
    token = server.token("lisa-team")
    receipts = []
    for right in (6, 7, 12):
        status, accepted = server.upload(token, counts(right))
        assert status == 201 and accepted["state"] == "queued"
        receipts.append(accepted)
    repeated = server.upload(token, counts(7))[1]["receipt"]
    assert repeated["number"] == receipts[1]["receipt"]["number"]
    status, refused = server.upload(token, counts(1))
    assert status == 429 and "at most 3 uploads a day" in refused["error"]
    scored = server.scored(token, 3)
    # 7 of 12 is within a step of 1/6 from 6 of 12, and tells nothing.
    shown = [upload["receipt"]["shown"]["accuracy"] for upload in scored]
    assert shown == pytest.approx([0.5, 0.5, 1.0])
    assert [upload["moved"] for upload in scored] == [True, False, True]
    status, board, _ = server.ask("GET", "/board.json", token=token)
    rows = {row["account"]: row for row in board["tasks"][0]["rows"]}
    assert status == 200 and rows["lisa-team"]["shown"] == rows["lisa-team"]["rank"] == 1.0
    assert rows["lisa-team"]["uploads"] == 3
    status, page, headers = server.ask("GET", "/", Authorization=basic(token))
    assert status == 200 and b"lisa-team" in page and "default-src 'none'" in str(headers)

    sent = receipts[2]["receipt"]
    assert sent["sha256"] == hashlib.sha256(counts(12)).hexdigest()
    numbers = [upload["receipt"]["number"] for upload in scored]
    first, _, last = (server.folder / "runs" / str(number) for number in numbers)
    assert server.ask("GET", f"/uploads/{numbers[0]}/samples", token=token)[0] == 404
    key, receipt = tmp_path / "key", tmp_path / "receipt.json"
    key.write_bytes(server.ask("GET", "/key")[1])
    receipt.write_text(json.dumps(scored[2]))
    assert main(["publish", str(last), "--out", str(tmp_path / "public")]) == 0
    assert main(["publish", str(first), "--out", str(tmp_path / "other")]) == 0
    line = ["--data", str(labels), "--receipt", str(receipt), "--key", str(key)]
    assert main(["publish", "--receipt", str(receipt), "--key", str(key)]) == 0
    assert "account lisa-team, method mine" in capsys.readouterr().out
    assert main(["publish", "--check", str(tmp_path / "public"), *line]) == 0
    number = scored[2]["receipt"]["number"]
    assert f"receipt {number} of account lisa-team is of these" in capsys.readouterr().out
    assert main(["publish", "--check", str(tmp_path / "other"), *line]) == 1
    assert "no receipt is of these predictions" in capsys.readouterr().out
    edited = receipt.read_text().replace("lisa-team", "other-team")
    receipt.write_text(edited)
    assert main(["publish", "--receipt", str(receipt), "--key", str(key)]) == 5
    capsys.readouterr()
    receipt.write_text('{"error": "no such upload of this account"}')
    assert main(["publish", "--receipt", str(receipt), "--key", str(key)]) == 5
    assert "no such upload" in capsys.readouterr().err
    copies = tmp_path / "runs"
    for number in numbers:
        copytree(server.folder / "runs" / str(number), copies / str(number))
    assert main(["board", "build", "--runs", str(copies), "--out", str(tmp_path / "board")]) == 0
    written = (tmp_path / "board" / "board.json").read_text()
    assert all(f'"mine (lisa-team {number})"' in written for number in numbers)


@pytest.mark.parametrize("release", ["exact", "samples"])
def test_the_owner_may_reveal_more(running, counts, release):
    server = running("--release", release)
    token, other = server.token("a"), server.token("b")
    assert server.upload(token, counts(7))[0] == 201
    (scored,) = server.scored(token, 1)
    assert scored["receipt"]["shown"]["accuracy"] == pytest.approx(7 / 12)
    status, content, _ = server.ask("GET", "/uploads/1/samples", token=token)
    assert status == (200 if release == "samples" else 404)
    if release == "samples":
        assert len(content.splitlines()) == 12
    assert server.ask("GET", "/uploads/1/samples", token=other)[0] == 404
    assert server.ask("GET", "/uploads/1", token=other)[0] == 404


def test_a_zip_and_a_tree_of_masks_are_scored(server, samples):
    token = server.token("masks")
    packed, lines = BytesIO(), []
    with ZipFile(packed, "w") as archive:
        archive.writestr("__MACOSX/._0.png", b"x")
        for sample in samples["reason_seg"]:
            mask = sample.target.answer.masks[0]
            png = BytesIO()
            Image.fromarray(mask.to_array()).save(png, "PNG")
            archive.writestr(f"{sample.id}.png", png.getvalue())
            lines.append(json.dumps({"id": sample.id, "masks": [mask.to_json()]}))
    status, accepted = server.upload(token, packed.getvalue(), "&format=mask-tree", "reason_seg")
    assert status == 201, accepted
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("mine/masks.jsonl", "\n".join(lines))
    assert server.upload(token, packed.getvalue(), "", "reason_seg")[0] == 201
    for upload in server.scored(token, 2):
        assert upload["receipt"]["shown"]["gIoU"] == 1.0


def test_uploads_at_once_do_not_pass_the_daily_limit(server, counts):
    token = server.token("hasty")

    def insist(tag):
        while True:
            status, plain = server.upload(token, counts(0, tag))
            if status != 429 or "one at a time" not in plain["error"]:
                return status

    with ThreadPoolExecutor(8) as threads:
        codes = sorted(threads.map(insist, range(8)))
    assert codes == [201] * 3 + [429] * 5
    assert len(server.scored(token, 3)) == 3


def test_an_unanswered_sample_is_a_failure(running, counts):
    server = running("--release", "exact")
    token = server.token("silent")
    first, *others = counts().splitlines(keepends=True)
    name = json.loads(first)["id"]
    for key in ("response", "answer"):
        row = json.dumps({"id": name, key: None}).encode()
        assert server.upload(token, b"\n".join([row, *others]))[0] == 201, key
    shown = [upload["receipt"]["shown"]["accuracy"] for upload in server.scored(token, 2)]
    assert shown == pytest.approx([11 / 12, 11 / 12])


@pytest.mark.parametrize(
    ("change", "kind", "status"),
    [
        (lambda body: body, "multipart/form-data; boundary=x", 422),
        (lambda body: body.replace(b"\n", b""), "application/x-www-form-urlencoded", 422),
        (lambda body: body, "application/x-www-form-urlencoded", 201),
    ],
)
def test_what_curl_sends_otherwise_gets_the_option_that_sends_it(
    server, counts, change, kind, status
):
    token = server.token(f"curl-{status}")
    address = "/tasks/counting/uploads?method=a"
    sent = server.ask("POST", address, change(counts()), token, **{"Content-Type": kind})
    assert sent[0] == status and ("--data-binary @FILE" in str(sent[1])) == (status == 422)


@pytest.mark.parametrize("lost", ["", "\r\n\0"])
def test_a_zip_that_happens_to_lack_line_ends_keeps_the_reason_of_its_fault(server, lost):
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("a.jsonl", "{}")
        archive.writestr("b.jsonl", "{}")
    body = packed.getvalue().translate(None, lost.encode())
    assert lost or not {*b"\r\n"} & {*body}
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    address = "/tasks/counting/uploads?method=a"
    sent = server.ask("POST", address, body, server.token("small"), **kind)
    assert sent[0] == 422 and ("line ends are missing" in str(sent[1])) == bool(lost)


def test_a_zip_that_unpacks_to_more_than_an_upload_may_have_is_refused(running, counts):
    server = running("--max-mib", "1")
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl", bytes(2**20 + 1))
    status, plain = server.upload(server.token("bomber"), packed.getvalue())
    assert status == 422 and "at most 1,048,576 bytes of files" in plain["error"]
    assert not [*(server.folder / "work").iterdir()]


def test_a_token_needs_a_server_that_was_started(tmp_path, capsys):
    assert main(["server", "token", "team", "--state", str(tmp_path / "absent")]) == 2
    assert "harness server start" in capsys.readouterr().err and not [*tmp_path.iterdir()]


def test_tokens_are_hashed_and_renewed_and_revoked(server, capsys):
    state = ["--state", str(server.folder), "--db", server.db]
    tokens = []
    for _ in range(2):
        assert main(["server", "token", "team", *state]) == 0
        tokens.append(capsys.readouterr().out.strip())
    old, new = tokens
    secret = new.partition(".")[2].encode()
    assert len(secret) >= 43 and secret not in (server.folder / "server.sqlite").read_bytes()
    hashed = hashlib.sha256(new.encode()).hexdigest()
    wrong = (old, new[:-1], new + "a", new.upper(), new.partition(".")[2], hashed, "team.", ".")
    for token in (*wrong, f"team.{hashed}", "x" * 9000, "a\x00b", "' OR 1=1 --"):
        status, _, headers = server.ask("GET", "/uploads", Authorization=f"Bearer {token!r}")
        assert status == 401 and headers["www-authenticate"].startswith("Basic")
    assert server.ask("GET", "/uploads", token=new)[0] == 200
    # A password is sent by browsers with requests of other sites: it only lets one read.
    assert server.ask("GET", "/uploads", Authorization=basic(new))[0] == 200
    sent = server.ask("POST", "/tasks/counting/uploads?method=a", b"x", Authorization=basic(new))
    assert sent[0] == 401 and "Authorization: Bearer TOKEN" in sent[1]["error"]
    sent = server.ask("POST", "/tasks/counting/uploads?method=a", b"x", Authorization=basic(old))
    assert sent[0] == 401 and "Bearer" not in sent[1]["error"]
    assert main(["server", "token", "team", "--revoke", *state]) == 0
    assert server.ask("GET", "/uploads", token=new)[0] == 401
    assert main(["server", "token", "nobody", "--revoke", *state]) == 2
    assert main(["server", "token", "Bad Name", *state]) == 2


def test_a_second_server_of_a_folder_is_refused(server, labels):
    line = ["server", "start", "--tasks", "counting", "--labels", str(labels)]
    assert main([*line, "--state", str(server.folder)]) == 5
    assert main([*line, "--state", str(server.folder), "--step", "0"]) == 2


def test_leftovers_of_a_killed_server_are_removed(tmp_path):
    folders = Folders(tmp_path / "state")
    kept, orphan = folders.uploads / "kept", folders.uploads / "orphan"
    for path in (kept, orphan, folders.root / "incoming" / "x", folders.root / "work" / "y"):
        path.write_bytes(b"1")
    folders.tidy({"kept"})
    assert [*folders.uploads.iterdir()] == [kept]
    assert not [*(folders.root / "incoming").iterdir(), *(folders.root / "work").iterdir()]
    assert folders.root.stat().st_mode & 0o077 == 0
