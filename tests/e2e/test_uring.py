"""io_uring where it is forbidden or short of memory, and without threads of the kernel where it is
not. What the sysctl does is in uring_sysctl.py: it holds for the whole machine."""

import errno
import os

import pytest
from confined import echo, fell_back, forbids_io_uring, goes_without_io_uring, is_nobody, sysctl
from servers import eventually, kernel_workers, load, looks, serving

ROOT = os.geteuid() == 0


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS], ids=errno.errorcode.get)
def test_a_seccomp_filter_is_named(error):
    if error == errno.EPERM and sysctl() not in (None, "0"):
        pytest.skip("the sysctl forbids io_uring already")
    goes_without_io_uring(forbids_io_uring(error), "seccomp")


@pytest.mark.skipif(not ROOT, reason="needs root, to become somebody whose limit counts")
@pytest.mark.parametrize("locked", [64 << 10, 1 << 20], ids=["64k", "1m"])
def test_rings_that_count_as_locked_memory(locked):
    """The kernel gives back the memory of a ring some time after its end, and the limit is one of
    the user: a server that starts again at once may find none, but serves."""
    for _ in range(3):
        transport, start_line, err = echo("--transport", "uring", before=is_nobody(locked))
        if transport["name"] == "uring":
            assert start_line.startswith("transport uring, loops ") and err == ""
        elif sysctl() in (None, "0"):
            fell_back(transport, start_line, err, "RLIMIT_MEMLOCK")


def received(server):
    return sum(x["received_bytes"] for x in server.page("/stats")["loops"])


def channels(server):
    return sum(x["channels"] for x in server.page("/stats")["loops"])


@pytest.mark.parametrize("scheme,flight", [("echo", "1"), ("linkd", "4")], ids=["echo", "linkd"])
def test_the_kernel_makes_no_threads(scheme, flight):
    with serving(scheme, "--transport", "uring", "--admin", "127.0.0.1:0") as s:
        if not s.start_line.startswith("transport uring,"):
            pytest.skip(s.start_line)
        seen = kernel_workers(s.pid)
        with load(s, "-c", "100", "-m", flight, scheme=scheme):
            assert eventually(lambda: channels(s) >= 100)
            start = received(s)
            for _ in looks(3, 0.1):
                seen |= kernel_workers(s.pid)
            assert received(s) > start + 100000
        assert eventually(lambda: channels(s) == 0)
        assert seen | kernel_workers(s.pid) == set()
