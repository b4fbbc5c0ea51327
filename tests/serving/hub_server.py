"""A hub on this machine: as much of the Hugging Face hub's API as its own client asks for.

Large files (those with `LARGE` names) go the way of Git LFS, others into the commit itself. What is
in `state` makes it refuse, lie, or break off.
"""

import base64
import hashlib
import json
import sys
import threading
import traceback
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

COMMIT = "c0ffee" + "0" * 34
MOVED = "beef" + "0" * 36
LARGE = ".safetensors"


def tag(data):
    return hashlib.sha1(data).hexdigest()


def listed(name, data):
    """Return the entry of a file in a commit's listing."""
    row = {"type": "file", "path": name, "size": len(data)}
    row["oid"] = tag(b"blob %d\0" % len(data) + data)
    if name.endswith(LARGE):
        row["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 9}
    return row


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        return

    @property
    def state(self):
        return self.server.state

    def ask(self):
        """Note a request, and return its path."""
        self.server.asked.append((self.command, self.path, self.headers.get("authorization")))
        return unquote(self.path.partition("?")[0])

    def do_GET(self):
        path, state = self.ask(), self.state
        about = path.startswith("/api/")
        if path == "/elsewhere":
            return self.say(403, b"expired")
        parts = path.removeprefix("/api").split("/")[1:]
        if not about and parts[0] != "datasets":
            parts = ["models", *parts]
        repository = "/".join(parts[1:3]) if parts[0] == "datasets" else "/".join(parts[:3])
        files = state["repositories"].get(repository)
        if about and state["refuse"]:
            code, name = state["refuse"]
            return self.say(code, b"{}", {"X-Error-Code": name})
        if files is None:
            return self.say(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        # A branch may move; a commit stays what it is.
        requested = path.partition("/revision/" if about else "/resolve/")[2].partition("/")[0]
        commit = requested if requested in (COMMIT, MOVED) else state["commit"]
        if about and "/tree/" in path:
            rows = [listed(name, data) for name, data in files.items()]
            return self.say(200, json.dumps([*rows, *state["also_listed"]]).encode())
        if about:
            siblings = [{"rfilename": name} for name in files]
            info = {"id": repository, "sha": commit, "siblings": siblings}
            info["private"] = repository not in state["public"]
            return self.say(200, json.dumps(info).encode())
        name = path.partition("/resolve/")[2].partition("/")[2]
        if name not in files or name in state["broken"]:
            return self.say(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        data = state["instead"].get(name, files[name])
        if name in state["elsewhere"]:
            place = f"http://localhost:{self.server.server_port}/elsewhere?signed=secret"
            head = {"Location": place, "X-Linked-Etag": tag(data), "X-Linked-Size": len(data)}
            return self.say(302, b"", {**head, "X-Repo-Commit": commit})
        return self.say(200, data, {"ETag": f'"{tag(data)}"', "X-Repo-Commit": commit}, name=name)

    do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    def do_POST(self):
        path, state = self.ask(), self.state
        body = self.rfile.read(int(self.headers["content-length"]))
        if state["refuse"] or self.headers.get("authorization") != f"Bearer {state['token']}":
            code, name = state["refuse"] or (401, "")
            return self.say(
                code, b'{"error": "Invalid username or password."}', {"X-Error-Code": name}
            )
        if path == "/api/validate-yaml":
            return self.say(200, b'{"errors": [], "warnings": []}')
        if path.endswith("/info/lfs/objects/batch"):
            asked = json.loads(body)["objects"]
            place = f"http://127.0.0.1:{self.server.server_port}/upload/"
            objects = [
                {**one, "actions": {"upload": {"href": f"{place}{one['oid']}?signed=secret"}}}
                for one in asked
            ]
            return self.say(200, json.dumps({"transfer": "basic", "objects": objects}).encode())
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            name = name if asked["type"] == "dataset" else f"models/{name}"
            state["repositories"][name] = {".gitattributes": b"*.safetensors filter=lfs\n"}
            if not asked.get("private", asked.get("visibility") == "private"):
                state["public"].add(name)
            return self.say(200, json.dumps({"url": f"http://127.0.0.1/{name}"}).encode())
        kind, *name = path.split("/")[2:5]
        repository = "/".join(name if kind == "datasets" else [kind, *name])
        if "/preupload/" in path:
            files = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["path"].endswith(LARGE) else "regular",
                    "shouldIgnore": one["path"] in state["ignored"],
                }
                for one in json.loads(body)["files"]
            ]
            return self.say(200, json.dumps({"files": files}).encode())
        return self.commit(repository, [json.loads(line) for line in body.splitlines()])

    def commit(self, repository, lines):
        if self.state["dies"] == "commit":
            return self.hang_up()
        files = dict(self.state["repositories"][repository])
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                assert value["parentCommit"] == self.state["commit"]
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.state["uploaded"][value["oid"]]
            else:
                del files[value["path"]]
        self.state["repositories"][repository] = files
        self.state["commit"] = tag(repr(sorted(files.items())).encode())
        url = f"http://127.0.0.1/{repository}/commit/{self.state['commit']}"
        done = {"success": True, "commitOid": self.state["commit"], "commitUrl": url}
        return self.say(200, json.dumps(done).encode())

    def do_PUT(self):
        oid = self.ask().rpartition("/")[2]
        if self.state["dies"] == "upload":
            return self.hang_up()
        if self.state["dies"] == "refused":
            self.close_connection = True
            return self.say(403, b"{}")
        data = self.rfile.read(int(self.headers["content-length"]))
        assert hashlib.sha256(data).hexdigest() == oid
        self.state["uploaded"][oid] = data
        return self.say(200, b"")

    def hang_up(self):
        self.close_connection = True
        self.connection.close()

    def say(self, code, body, head=None, *, name=""):
        self.send_response(code)
        for key, value in {"Content-Type": "application/json", **(head or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if name in self.state["cut"]:
            self.wfile.write(body[: len(body) // 2])
            return self.hang_up()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        error = sys.exception()
        if not isinstance(error, OSError):  # the other side has gone, which some tests want
            self.faults.append("".join(traceback.format_exception(error)))


@contextmanager
def served(repositories):
    """Serve repositories (datasets by `ORG/NAME`, models by `models/ORG/NAME`)."""
    server = Server(("127.0.0.1", 0), Hub)
    server.asked, server.faults = [], []
    server.state = {
        "repositories": repositories,
        "commit": COMMIT,
        "refuse": None,
        "broken": set(),  # names that are listed and cannot be had
        "cut": set(),  # names whose transfer breaks off in the middle
        "elsewhere": set(),  # names that lead to a signed address, which has expired
        "instead": {},  # other content, by name
        "also_listed": [],
        "public": set(),
        "ignored": set(),
        "uploaded": {},
        "dies": "",
        "token": "hf_a_secret",
    }
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
    assert not server.faults, server.faults[0]


VARIABLES = (
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"),
    *("http_proxy", "https_proxy", "all_proxy"),
)
"""Variables that would lead elsewhere, or nowhere."""
