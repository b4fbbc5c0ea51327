"""Removal of a process's rights by the Linux kernel, for good: files, network, system calls.

`worker` calls it in each child before code runs. Landlock limits which files may be opened; seccomp
refuses every system call that is neither in `ALLOWED_CALLS` nor in `CONDITIONS`. The numbers are
those of `linux/landlock.h`, `linux/seccomp.h` and `linux/filter.h`. Functions raise OSError if the
kernel refuses a call.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.syscalls import Architecture

LIBC = ctypes.CDLL(None, use_errno=True)

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, TRUNCATE = 1 << 7, 1 << 8, 1 << 14
WRITABLE = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE
WRITABLE |= MAKE_DIR | MAKE_REG | REMOVE_DIR | REMOVE_FILE
"""Landlock's rights to the files of a writable folder: no execution, links or devices."""
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Number of Landlock's rights to files, by the first version that has so many."""
TCP_VERSION, TCP_RIGHTS = 4, 1 << 0 | 1 << 1
"""First version of Landlock that limits TCP, and its rights: to bind and to connect."""
SCOPE_VERSION, SCOPE_RIGHTS = 6, 1 << 0 | 1 << 1
"""First version of Landlock that separates a process from others, and its scopes: abstract Unix
sockets and signals."""

PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER = 1
NEW_LISTENER = 1 << 3
KILL_PROCESS, REFUSE, NOTIFY, ALLOW = 0x80000000, 0x00050000 | errno.EPERM, 0x7FC00000, 0x7FFF0000
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101
NOTIFICATION_BYTES = 80  # bytes: the id, the process, flags, and the call with its six arguments
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # codes of instructions
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
"""Offsets in bytes in `struct seccomp_data`, which `LOAD` reads; an argument has 8 bytes."""
X32_BIT = 0x40000000  # bit of calls by x86-64's second table (x32)

ALLOWED_CALLS = """
    read write close fstat newfstatat lseek mmap munmap mprotect mremap brk madvise futex
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall
    readv pread64 writev fadvise64 stat lstat statx access faccessat faccessat2 readlink readlinkat
    getdents64 getcwd poll ppoll select pselect6 nanosleep clock_nanosleep clock_gettime
    clock_getres gettimeofday time times getrusage sched_yield sched_getaffinity getrandom
    getpid getppid gettid getuid geteuid getgid getegid uname sysinfo exit exit_group
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A system call is allowed if one argument has one of these values, or none of these bits."""

    argument: int
    values: tuple[int, ...] = ()
    forbidden_bits: int = 0


WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_PATH", 0)
CONDITIONS = {
    # Landlock before version 3 does not prevent truncation of a file that is opened for reading.
    "open": Condition(1, forbidden_bits=WRITE_FLAGS),
    "openat": Condition(2, forbidden_bits=WRITE_FLAGS),
    # F_SETOWN and F_SETSIG would make the kernel send signals to other processes.
    "fcntl": Condition(1, (fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL)),
    "ioctl": Condition(1, (0x5401, 0x802C542A)),  # TCGETS and TCGETS2: `isatty`
    "prlimit64": Condition(0, (0,)),  # 0: its own limits, not those of harness's process
}


def no_new_privileges() -> None:
    """Give up set-user-id programs and every capability, root's too."""
    _check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _check(LIBC.capset(header, bytes(24)), "capset")


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 where it has none."""
    version: int = LIBC.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return max(version, 0)


def landlock_ruleset(readable: Iterable[str], writable: Iterable[str] = ()) -> int:
    """Return the descriptor of rules by which only these files and folders may be read.

    In `writable` folders, files may also be written, made and removed. TCP is forbidden from
    `TCP_VERSION` on, signals to and abstract sockets of other processes from `SCOPE_VERSION` on.
    The kernel must have Landlock (`landlock_version`).
    """
    version = landlock_version()
    files = (1 << max(count for since, count in FILE_RIGHTS.items() if since <= version)) - 1
    handled = [files]  # struct landlock_ruleset_attr: 8 bytes each, and no more than are known
    handled += [TCP_RIGHTS] if version >= TCP_VERSION else []
    handled += [SCOPE_RIGHTS] if version >= SCOPE_VERSION else []
    rules = struct.pack(f"={len(handled)}Q", *handled)
    ruleset: int = LIBC.syscall(LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0)
    _check(ruleset, "landlock_create_ruleset")
    rights_by_path = {
        path: READ_FILE | (READ_DIR if Path(path).is_dir() else 0) for path in readable
    }
    for path, rights in (rights_by_path | dict.fromkeys(writable, WRITABLE & files)).items():
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights, handle)
        _check(LIBC.syscall(LANDLOCK_ADD_RULE, ruleset, 1, rule, 0), "landlock_add_rule")
        os.close(handle)
    return ruleset


def landlock(ruleset: int) -> None:
    """Restrict this process to the rules, for good."""
    _check(LIBC.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")


def filter_program(
    architecture: Architecture, *, refusal: int, sendmsg: int = -1
) -> Sequence[tuple[int, int, int, int]]:
    """Return the filter: instructions (code, jump if true, jump if false, operand).

    Jumps are numbers of instructions that are skipped.

    A call by another convention (32-bit) ends the process. An argument is compared by its low 32
    bits: the kernel reads no more of those in `CONDITIONS`.

    Args:
        architecture: The machine's numbers.
        refusal: Action for every other call: `REFUSE`, or `NOTIFY` for the worker to answer it.
        sendmsg: The only descriptor on which `sendmsg` is allowed.
    """
    numbers = architecture.numbers
    program = [
        (LOAD, 0, 0, ARCHITECTURE_OFFSET),
        (EQUAL, 1, 0, architecture.audit),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER_OFFSET),
        (AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, KILL_PROCESS),
    ]
    for name in ALLOWED_CALLS.split():
        if name in numbers:  # aarch64 has no `open`, `stat`, …
            program += [(EQUAL, 0, 1, numbers[name]), (RETURN, 0, 0, ALLOW)]
    conditions: Mapping[str, Condition] = {**CONDITIONS, "sendmsg": Condition(0, (sendmsg,))}
    for name, condition in conditions.items():
        if name not in numbers:
            continue
        body = [(LOAD, 0, 0, ARGUMENTS_OFFSET + 8 * condition.argument)]
        for value in condition.values:
            body += [(EQUAL, 0, 1, value & 0xFFFFFFFF), (RETURN, 0, 0, ALLOW)]
        if condition.forbidden_bits:
            body += [(ANY_BIT, 1, 0, condition.forbidden_bits), (RETURN, 0, 0, ALLOW)]
        body.append((RETURN, 0, 0, refusal))
        program += [(EQUAL, 0, len(body), numbers[name]), *body]
    return [*program, (RETURN, 0, 0, refusal)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def seccomp(
    architecture: Architecture, program: Sequence[tuple[int, int, int, int]], flags: int
) -> int:
    """Install a filter in this process, for good; return its listener with `NEW_LISTENER`, or 0.

    Raises:
        OSError: the kernel does not accept it.
    """
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    installed = _Program(len(program), code)
    number = architecture.numbers["seccomp"]
    result: int = LIBC.syscall(number, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(installed))
    _check(result, "seccomp")
    return result


def refuse_call(listener: int) -> int:
    """Answer the next refused call with EPERM; return its number, or -1 for none."""
    notification = bytearray(NOTIFICATION_BYTES)
    try:
        fcntl.ioctl(listener, NOTIF_RECV, notification)
        ticket, number = struct.unpack_from("=Q8xi", notification)
        fcntl.ioctl(listener, NOTIF_SEND, struct.pack("=QqiI", ticket, 0, -errno.EPERM, 0))
    except OSError:  # the process ended meanwhile
        return -1
    return int(number)


def _check(result: int, name: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
