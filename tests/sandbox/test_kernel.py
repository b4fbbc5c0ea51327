"""The tables of system calls are those of the kernel's headers, and the filter decides by them."""

import re
from pathlib import Path

import pytest

from harness.sandbox import kernel
from harness.sandbox.syscalls import ARCHITECTURES

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
DEFINED = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", re.MULTILINE)
NO_CALLS = {"syscalls", "arch_specific_syscall", "sync_file_range2"}
OF_32_BITS = range(403, 424)
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_table_is_the_headers(machine):
    path = next((Path(one) for one in HEADERS[machine] if Path(one).exists()), None)
    if path is None:
        pytest.skip("the kernel's headers are not installed")
    table = ARCHITECTURES[machine].numbers
    defined = {name: int(number) for name, number in DEFINED.findall(path.read_text())}
    defined |= {"newfstatat": defined.pop("fstatat")} if "fstatat" in defined else {}
    wanted = {
        name: number
        for name, number in defined.items()
        if name not in NO_CALLS and not (machine == "aarch64" and number in OF_32_BITS)
    }
    newest = max(wanted.values())
    known = {name: number for name, number in table.items() if number <= newest}
    assert len(wanted) > 250
    assert known == {name: one for name, one in wanted.items() if one < 335 or one > 336}


def decide(program, number, arguments=(0,) * 6, *, audit):
    """Interpret a filter as the kernel does: return what becomes of a call."""
    words = {0: number, 4: audit}
    for place, argument in enumerate(arguments):
        words[16 + 8 * place] = argument & 0xFFFFFFFF
        words[20 + 8 * place] = argument >> 32 & 0xFFFFFFFF
    at = loaded = 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        if code == kernel.LOAD:
            loaded = words[operand]
        elif code == kernel.RETURN:
            return operand
        else:
            met = {
                kernel.EQUAL: loaded == operand,
                kernel.AT_LEAST: loaded >= operand,
                kernel.ANY_BIT: bool(loaded & operand),
            }[code]
            at += yes if met else no


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filter_allows_what_is_listed_and_nothing_else(machine):
    architecture = ARCHITECTURES[machine]
    program = kernel.filter_program(architecture, refusal=kernel.REFUSE, sendmsg=4)
    audit = AUDIT[machine]
    assert architecture.audit == audit
    assert len(program) < 4096, "the kernel takes no longer one"
    assert all(yes < 256 and no < 256 for _, yes, no, _ in program)
    allowed = set(kernel.ALLOWED_CALLS.split())
    assert len(allowed & set(architecture.numbers)) > 40
    for name, number in architecture.numbers.items():
        if name in kernel.CONDITIONS or name == "sendmsg":
            continue
        wanted = kernel.ALLOW if name in allowed else kernel.REFUSE
        assert decide(program, number, audit=audit) == wanted, name
    for number in (335, 500, 5000):
        if number not in architecture.numbers.values():
            assert decide(program, number, audit=audit) == kernel.REFUSE
    assert decide(program, 0, audit=0x40000003) == kernel.KILL_PROCESS
    assert decide(program, kernel.X32_BIT | 39, audit=audit) == kernel.KILL_PROCESS


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("openat", (0, 0, 0), True),
        ("openat", (0, 0, 0o2000000), True),  # O_CLOEXEC
        ("openat", (0, 0, 1), False),
        ("openat", (0, 0, 2), False),
        ("openat", (0, 0, (1 << 32) | 2), False),
        ("openat", (0, 0, 0o100), False),  # O_CREAT
        ("openat", (0, 0, 0o1000), False),  # O_TRUNC
        ("fcntl", (0, 1), True),
        ("fcntl", (0, 8), False),  # F_SETOWN
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),  # TIOCSTI
        ("prlimit64", (0, 7), True),
        ("prlimit64", (1, 7), False),
        ("sendmsg", (4,), True),
        ("sendmsg", (1,), False),
    ],
)
def test_arguments_decide(machine, name, arguments, allowed):
    architecture = ARCHITECTURES[machine]
    program = kernel.filter_program(architecture, refusal=kernel.NOTIFY, sendmsg=4)
    padded = (*arguments, *(0,) * 6)[:6]
    found = decide(program, architecture.numbers[name], padded, audit=architecture.audit)
    assert found == (kernel.ALLOW if allowed else kernel.NOTIFY)


def test_calls_have_names():
    assert ARCHITECTURES["x86_64"].name(41) == ARCHITECTURES["aarch64"].name(198) == "socket"
    assert ARCHITECTURES["x86_64"].name(5000) == "syscall 5000"
