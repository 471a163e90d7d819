"""Servers that are not allowed everything: `before=` of servers.serving, and what is to become of a
server that cannot have io_uring."""

import ctypes
import os
import re
import resource
import signal
import struct

from servers import receive, serving

NOBODY = 65534
SYSCTL = "/proc/sys/kernel/io_uring_disabled"
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38


def forbids_io_uring(error):
    """Installs a seccomp filter under which io_uring_setup fails so."""
    allow, fail = 0x7FFF0000, 0x00050000 | error
    program = b"".join(
        struct.pack("=HBBI", *line)
        for line in [
            (0x20, 0, 0, 0),  # the number of the call
            (0x15, 0, 1, 425),
            (0x06, 0, 0, fail),
            (0x06, 0, 0, allow),
        ]
    )

    def install():
        lines = ctypes.create_string_buffer(program, len(program))
        head = struct.pack("=H6xQ", 4, ctypes.addressof(lines))
        assert LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert LIBC.prctl(PR_SET_SECCOMP, 2, head, 0, 0) == 0  # a filter

    return install


def is_nobody(locked=None):
    """Somebody without privileges, who may lock so many bytes. For root only."""

    def become():
        if locked:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked, locked))
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    return become


def sysctl():
    """kernel.io_uring_disabled, or None: kernels before 6.6 have none."""
    try:
        with open(SYSCTL, encoding="ascii") as f:
            return f.read().strip()
    except FileNotFoundError:
        return None


def echo(*arguments, before=None):
    """(the transport in /stats, the start line, stderr) of a server that echoed and ended well."""

    def confine():
        if before:
            before()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # setuid() would take it back

    data = bytes(range(256)) * 64
    with serving("echo", "--admin", "127.0.0.1:0", *arguments, before=confine) as s:
        with s.connect() as c:
            c.sendall(data)
            assert receive(c, len(data)) == data
        transport = s.page("/stats")["transport"]
        code, _, _, err = s.stop()
    assert code == 0, err
    return transport, s.start_line, err


def is_on_epoll(transport, start_line, word):
    """It says so wherever it says which transport it has, and why, with this word."""
    assert transport["name"] == "epoll-lt" and word in (transport["why"] or ""), transport
    assert re.match(rf"transport epoll-lt \(.*{word}.*\), loops ", start_line), start_line


def fell_back(transport, start_line, err, word):
    """io_uring was asked for by its name: there is one line that says why there is none."""
    is_on_epoll(transport, start_line, word)
    assert err.count("\n") == 1 and word in err and "epoll instead" in err, err


def goes_without_io_uring(before, word):
    """Who asks for io_uring by its name is told in one line, who does not is not."""
    fell_back(*echo("--transport", "uring", before=before), word)
    transport, start_line, err = echo("--transport", "auto", before=before)
    is_on_epoll(transport, start_line, word)
    assert err == ""
