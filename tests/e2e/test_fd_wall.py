"""The descriptor wall: 64 files, 500 clients."""

import socket
import time

import pytest

from servers import receive, serving, which_readable

FILES, CLIENTS = 64, 500


def served(clients):
    """The clients whose byte comes back, and those who wait. Every served one answers at once."""
    for c in clients:
        c.sendall(b"?")
    got, waiting = [], list(clients)
    while ready := which_readable(waiting, 1.0):
        got += ready
        waiting = [c for c in waiting if c not in ready]
    for c in got:
        assert receive(c, 1) == b"?"
    return got, waiting


DOORS = [("--trigger", "lt"), ("--trigger", "et"), ("--transport", "uring")]


@pytest.mark.parametrize("loops", ["1", "2"])
@pytest.mark.parametrize("door", DOORS, ids=["epoll-lt", "epoll-et", "uring"])
def test_500_clients_against_64_files(door, loops):
    with serving("echo", *door, "--loops", loops, files=FILES) as s:
        clients = [socket.create_connection((s.host, s.port), 10) for _ in range(CLIENTS)]
        try:
            got, waiting = served(clients)
            assert FILES // 2 <= len(got) < FILES
            keeps_serving_and_stays_idle(s, got, waiting)
            accepts_a_waiting_client_when_there_is_room(got, waiting)
            code, took, _, err = s.stop()
            assert code == 0 and took < 1.0
            assert 1 <= err.count("\n") <= 2, err  # one per burst
        finally:
            for c in clients:
                c.close()


def keeps_serving_and_stays_idle(s, got, waiting):
    cpu, start = s.cpu_seconds(), time.monotonic()
    for _ in range(20):
        for c in got[:5]:
            c.sendall(b"!")
            assert receive(c, 1) == b"!"
        assert not which_readable(waiting, 0.1), "more clients than descriptors?"
    share = (s.cpu_seconds() - cpu) / (time.monotonic() - start)
    assert share <= 0.10, f"it spins: {share:.0%} of a CPU while nearly idle"


def accepts_a_waiting_client_when_there_is_room(got, waiting):
    freed = 5
    for c in got[-freed:]:
        c.close()
    start = time.monotonic()
    answered = set()
    while len(answered) < freed and time.monotonic() - start < 10:
        answered |= set(which_readable(waiting, 0.3))
    assert len(answered) >= freed
    assert time.monotonic() - start < 0.2 + 0.1  # the deadline, and what the client itself takes
