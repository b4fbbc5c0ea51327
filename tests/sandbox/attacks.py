"""Attacks on a sandbox, and what came of each: `stopped`, or what went through.

Run as a program (`attacks.py TIER with|without-landlock`) it prints the outcomes in JSON, so that
another user can try them. Nothing but the standard library and the sandbox is needed.
"""

import json
import os
import re
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path

from harness.errors import SandboxUnavailable
from harness.sandbox.pool import Sandbox
from harness.sandbox.probes import self_test
from harness.sandbox.process import Worker, WorkerLost
from harness.sandbox.protocol import Limits
from harness.sandbox.syscalls import this_architecture
from harness.sandbox.tiers import ENVIRONMENT, launch

SECRET = "hf_0123456789"

HELP = r"""
import os, sys, signal, socket, struct
through = emit

def call(name, *arguments):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = libc.syscall(ctypes.c_long(data["numbers"].get(name, name)), *given)
    if result < 0:
        raise OSError(ctypes.get_errno(), str(name))
    return result

def machine_code(content):
    import ctypes, mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(content)
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(place)()

def frame(content, kind=b"v"):
    os.write(3, struct.pack("!cI", kind, len(content)) + content)

def memory():
    # Pages around what is on the heaps; the kernel tells which of them are there.
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    for size in 1, 700, 70_000:
        place = ctypes.addressof(ctypes.create_string_buffer(size)) & ~4095
        for step in 4096, -4096:
            for page in range(place, place + 6000 * step, step):
                ctypes.set_errno(0)
                libc.access(ctypes.c_void_p(page), 0)
                if ctypes.get_errno() == 14:
                    break
                yield ctypes.string_at(page, 4096)

class Touch:
    def __reduce__(self):
        return os.system, ("touch %s/touched" % data["folder"],)
"""
"""Names that attacks use. An attack went through if it comes to `through(…)`."""

ATTACKS = {
    # Those of the first list.
    "read /etc/passwd": "through(open('/etc/passwd').read())",
    "read a file of the host": "through(open(data['secret']).read())",
    "read a token in the environment": "if data['token'] in str(os.environ): through(1)",
    "read the harness' environment": "through(open('/proc/%d/environ' % data['harness']).read())",
    "write a file of the host": "open(data['folder'] + '/written', 'w'); through(1)",
    "escape by a symbolic link": (
        "os.symlink(data['secret'], data['folder'] + '/link')\n"
        "through(open(data['folder'] + '/link').read())"
    ),
    "connect by TCP": "socket.create_connection(('127.0.0.1', data['tcp']), 1); through(1)",
    "send by UDP": (
        "one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "one.sendto(b'x', ('127.0.0.1', data['udp'])); through(1)"
    ),
    "connect to an abstract socket": (
        "one = socket.socket(socket.AF_UNIX); one.connect('\\0' + data['abstract']); through(1)"
    ),
    "fork 300 times": "for _ in range(300): os.fork()\nthrough(1)",
    "leave a daemon behind": (
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        through(1); import time; time.sleep(60)"
    ),
    "take 4 GB": "one = bytearray(4 << 30); through(1)",
    "kill the parent": "os.kill(os.getppid(), signal.SIGKILL); through(1)",
    "kill everything": "os.kill(-1, signal.SIGKILL); through(1)",
    "trace the parent": "call('ptrace', 16, os.getppid(), 0, 0); through(1)",
    "write into the parent's memory": "open('/proc/%d/mem' % os.getppid(), 'r+b'); through(1)",
    "become a shell": "os.execv('/bin/sh', ['sh', '-c', 'true']); through(1)",
    "start a program": "import subprocess; subprocess.run(['/bin/true']); through(1)",
    "make a namespace": "call('unshare', 0x10000000); through(1)",
    "write 10 GB": (
        "one = open(data['folder'] + '/large', 'wb')\n"
        "for _ in range(10): one.write(bytes(1 << 30))\nthrough(1)"
    ),
    "write 200 files": (
        "for one in range(200): open(f\"{data['folder']}/{one}\", 'wb').write(bytes(5 << 20))\n"
        "through(1)"
    ),
    "change builtins for what runs next": "import builtins; builtins.len = lambda one: 42",
    "use descriptors of the worker": (
        "for one in range(4, 300):\n"
        "    try:\n        os.fstat(one)\n    except OSError:\n        continue\n    through(one)"
    ),
    "hand over a pickle": (
        "import pickle; one = pickle.dumps(Touch()); frame(one); os.write(3, one); os.write(1, one)"
    ),
    # More.
    "limit the harness' time": (
        "call('prlimit64', data['harness'], 0, struct.pack('QQ', 0, 0), 0); through(1)"
    ),
    "have the kernel signal the harness": (
        "import fcntl\n"
        "fcntl.fcntl(1, 8, data['harness']); fcntl.fcntl(1, 10, signal.SIGKILL)\nthrough(1)"
    ),
    "call by the 32-bit convention": (
        # mov eax, 199; int 0x80; ret: getuid32, which never fails, and is fremovexattr in 64 bits
        "if os.uname().machine == 'x86_64':\n"
        "    one = machine_code(b'\\xb8\\xc7\\0\\0\\0\\xcd\\x80\\xc3')\n"
        "    if one >= 0: through(one)"
    ),
    "call by the x32 convention": "through(call(0x40000000 | 39))",
    "set up an io_uring": "call('io_uring_setup', 8, bytes(120)); through(1)",
    "run a file in memory": "through(call('memfd_create', b'x', 0))",
    "read the parent's memory": (
        "call('process_vm_readv', os.getppid(), bytes(16), 1, bytes(16), 1, 0); through(1)"
    ),
    "steal a descriptor": (
        "one = call('pidfd_open', os.getppid(), 0); through(call('pidfd_getfd', one, 0, 0))"
    ),
    "signal by a descriptor": (
        "one = call('pidfd_open', os.getppid(), 0)\n"
        "call('pidfd_send_signal', one, 9, 0, 0); through(1)"
    ),
    # The file is empty: nothing is lost if it goes through.
    "truncate a file that may be read": (
        "os.open(data['empty'], os.O_RDONLY | os.O_TRUNC); through(1)"
    ),
    "open a path without a right": "os.open('/', os.O_PATH); through(1)",
    "hide a write in the high bits": (
        "call('openat', -100, data['secret'].encode(), (1 << 32) | 2, 0); through(1)"
    ),
    "change the rights of a file": "os.chmod(data['secret'], 0o777); through(1)",
    "change the time of a file": "os.utime(data['secret'], (1, 1)); through(1)",
    "rename a file": "os.rename(data['secret'], data['folder'] + '/mine'); through(1)",
    "remove a file": "os.unlink(data['secret']); through(1)",
    "link a file": "os.link(data['secret'], data['folder'] + '/mine'); through(1)",
    "make a folder": "os.mkdir(data['folder'] + '/mine'); through(1)",
    "make a pipe in a folder": "os.mkfifo(data['folder'] + '/mine'); through(1)",
    "go elsewhere and read": "os.chdir(os.path.dirname(data['secret'])); through(1)",
    "list the host's folders": "through(os.listdir(data['folder']))",
    "list processes": (
        "others = [one for one in os.listdir('/proc') if one.isdigit() and int(one) > 100]\n"
        "through(others) if others else None"
    ),
    "start threads": "import threading; threading.Thread(target=through, args=(1,)).start()",
    "share memory": "call('shmget', 77, 4096, 0o1666); through(1)",
    "open a message queue": "call('msgget', 77, 0o1666); through(1)",
    "keep a key": "call('add_key', b'user', b'x', b'y', 1, -4); through(1)",
    "load a program into the kernel": "call('bpf', 0, bytes(64), 64); through(1)",
    "count events of the machine": "call('perf_event_open', bytes(128), 0, -1, -1, 0); through(1)",
    "handle page faults": "call('userfaultfd', 0); through(1)",
    "mount": "call('mount', b'none', b'/tmp', b'tmpfs', 0, 0); through(1)",
    "change the root": "os.chroot('/'); through(1)",
    "open by a handle": "call('open_by_handle_at', -100, bytes(64), 0); through(1)",
    "slow the harness down": "os.setpriority(os.PRIO_PROCESS, data['harness'], 19); through(1)",
    "pin the harness": "os.sched_setaffinity(data['harness'], {0}); through(1)",
    "kill the worker's group": "os.kill(0, signal.SIGKILL); through(1)",
    "become another user": "os.setgroups([]); os.setuid(1); through(1)",
    "set the clock": "call('clock_settime', 0, bytes(16)); through(1)",
    "add a filter": "call('seccomp', 1, 8, bytes(16)); through(1)",
    "be dumped": "call('prctl', 4, 1, 0, 0, 0); through(1)",
    "type into the terminal": (
        "import fcntl\nfor one in 0, 1, 2: fcntl.ioctl(one, 0x5412, b'x')\nthrough(1)"
    ),
    "read what another was given": (
        "parts = 'of another', 'execution'\n"
        "through(1) if any(' '.join(parts).encode() in one for one in memory()) else None"
    ),
    "make sockets in pairs": "socket.socketpair(); through(1)",
    "call what no table names": "call(5000); through(1)",
}

ENDED = {
    # Those of the first list.
    "loop in Python": ("while True: pass", "TimeoutError"),
    "loop in C": ("sum(range(10**13))", "TimeoutError"),
    "ignore every signal": (
        "for one in range(1, 65):\n"
        "    try: signal.signal(one, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "while True: pass",
        "TimeoutError",
    ),
    "print 1 GB": ("while True: print('x' * (1 << 20))", "OutputError: .* printed"),
    "fault": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "end with code 0": ("os.write(1, b'ok'); os._exit(0)", "ended early: exit code 0"),
    "forge the end": ("frame(b'Forged: 1', b'e'); os._exit(0)", "Forged: 1"),
    # More.
    "end with the pipes closed": ("os.close(1); os.close(3)\nwhile True: pass", "TimeoutError"),
    "emit without end": ("while True: frame(bytes(1 << 20))", "OutputError: .* emitted"),
    "emit 100,000 levels": ("frame(b'[' * 100_000)", "levels"),
    "emit a number of 100,000 digits": ("frame(b'1' * 100_000)", "digits"),
    "emit NaN": ("emit(float('nan'))", "ValueError"),
    "forge NaN": ("frame(b'NaN')", "JSON"),
    "emit a key twice": ('frame(b\'{"a": 1, "a": 2}\')', "twice"),
    "emit half a character": ("frame(b'\"\\\\ud800\"')", "Unicode|surrogates"),
    "emit no text": ("frame(b'\\xff\\xfe')", "UTF-8"),
    "write other bytes than frames": ("os.write(3, b'GET / HTTP/1.0\\r\\n' * 9)", "early|frames"),
    "claim 4 GB": ("os.write(3, struct.pack('!cI', b'v', 0xFFFFFFFF)); os._exit(0)", "early"),
    "emit 100,000 values": ("for _ in range(100_000): frame(b'1')", "1000 values"),
    "recurse without end": ("def one(): one()\none()", "RecursionError"),
    "raise what cannot be named": (
        "class One(BaseException):\n    def __str__(self): raise self\nraise One",
        "One",
    ),
    "raise what takes for ever to name": (
        "class One(Exception):\n    def __str__(self):\n        while True: pass\nraise One",
        "TimeoutError",
    ),
    "take the output away": (
        "sys.stdout = None; del sys.modules['sys']; raise KeyError(1)",
        "KeyError",
    ),
    "open 1,000 files": ("one = [open('/dev/null') for _ in range(1000)]", "OSError|Error"),
    "nest without end": ("eval('(' * 10_000_000)", "Error|SIG"),
}
"""Code that is ended, or whose result is refused, with what its error must say."""
SECONDS = 0.5


def outcomes(tier: str, *, landlock: bool) -> dict[str, str]:
    """Return what came of each attack.

    Raises:
        SandboxUnavailable: the tier does not work here.
    """
    architecture = this_architecture()
    os.environ["HF_TOKEN"] = SECRET
    limits = Limits()
    start = lambda: Worker(launch(tier, limits, landlock=landlock), limits)  # noqa: E731
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as tcp:
        secret, folder = Path(name, "secret"), Path(name, "folder")
        secret.write_text("a secret")
        folder.mkdir()
        secret.chmod(0o666)
        folder.chmod(0o777)
        empty = next(Path(os.__file__).parents[1].rglob("py.typed"), secret)
        udp, abstract = socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
        udp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0harness-{os.getpid()}")
        abstract.listen()
        data = {
            "numbers": architecture.numbers if architecture else {},
            "secret": str(secret),
            "folder": str(folder),
            "empty": str(empty),
            "token": SECRET,
            "harness": os.getpid(),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "abstract": f"harness-{os.getpid()}",
        }
        before = _host(secret, folder)
        result: dict[str, str] = {}
        try:
            sandbox = Sandbox(tier, start, partial(self_test, environment=ENVIRONMENT), workers=1)
        except WorkerLost as error:
            raise SandboxUnavailable(tier, found=str(error)) from error
        with sandbox, udp, abstract:
            for attack, code in ATTACKS.items():
                # The time is one that nothing here takes, on a busy machine too.
                done = sandbox.run(code, data, prelude=HELP, timeout=20)
                result[attack] = f"went through: {done.values}"[:200] if done.values else "stopped"
                if done.timed_out:
                    result[attack] = "ran out of time"
                # An attack that never came to its call would prove nothing.
                called = re.match(r"call\('(\w+)'", code)
                if called and sandbox.describe()["names"] and done.refused != called[1]:
                    result[attack] = f"was refused {done.refused}: {done.error}"
                result[attack] = _after(sandbox, result[attack], before, _host(secret, folder))
            for attack, (code, pattern) in ENDED.items():
                endless = pattern == "TimeoutError"
                done = sandbox.run(code, data, prelude=HELP, timeout=SECONDS if endless else 20)
                found = re.search(pattern, done.error or "")
                result[attack] = "stopped" if found else f"said {done.error!r}"
                result[attack] = _after(sandbox, result[attack], before, _host(secret, folder))
    return result


def _host(secret: Path, folder: Path) -> tuple[object, ...]:
    state = secret.stat()
    there = sorted(folder.iterdir())
    return secret.read_text(), state.st_mode, state.st_mtime, state.st_nlink, there


def _after(sandbox: Sandbox, outcome: str, before: object, now: object) -> str:
    """Return the outcome, unless the host or the next execution is not as it was."""
    if before != now:
        return f"changed the host: {now}"
    done = sandbox.run(
        "emit(len([1])); print(data[:50_000])", "of another execution " * 5000, timeout=20
    )
    return outcome if done.value == 1 else f"the next execution: {done}"


if __name__ == "__main__":
    try:
        print(json.dumps(outcomes(sys.argv[1], landlock=sys.argv[2] == "with")))
    except SandboxUnavailable as lacking:
        print(json.dumps({"unavailable": str(lacking)}))
