"""The end of a server with clients in its backlog: nobody who was let in goes unanswered."""

import contextlib
import os
import signal
import socket

import pytest

from servers import SLOW, receive, serving

CLIENTS = 2000  # some of them have asked and some have not; all before the server looks
DOORS = [("--trigger", "lt"), ("--trigger", "et"), ("--transport", "uring")]


@pytest.mark.parametrize("loops", ["1", "2"])
@pytest.mark.parametrize("door", DOORS, ids=["epoll-lt", "epoll-et", "uring"])
def test_a_stopped_server_answers_its_backlog(door, loops):
    server = serving("echo", *door, "--loops", loops, "--drain", "30s")
    with server as s, contextlib.ExitStack() as all_:
        running = all_.enter_context(s.connect())
        running.sendall(b"!")
        assert receive(running, 1) == b"!"
        os.kill(s.pid, signal.SIGSTOP)
        clients = [
            all_.enter_context(socket.create_connection((s.host, s.port), SLOW))
            for _ in range(CLIENTS)
        ]
        asking = [c for i, c in enumerate(clients) if i % 10]
        for c in asking:
            c.sendall(b"hello")
        os.kill(s.pid, signal.SIGTERM)
        os.kill(s.pid, signal.SIGCONT)
        for c in asking:
            assert receive(c, 5) == b"hello"
        for c in [*clients, running]:
            assert c.recv(1) == b""
            c.close()
        assert s.process.wait(SLOW) == 0
