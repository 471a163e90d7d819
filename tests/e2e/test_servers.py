"""weir echo and weir linkd from outside: bytes, frames, lines, listeners, the end."""

import hashlib
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from servers import (
    BIN,
    ERROR,
    PING,
    PONG,
    REQUEST,
    RESPONSE,
    SLOW,
    Server,
    frame,
    listeners,
    receive,
    receive_frame,
    run,
    serving,
    socket_inodes,
    writable,
)

DOORS = [("--trigger", "lt"), ("--trigger", "et"), ("--transport", "uring")]


@pytest.fixture(params=DOORS, ids=["epoll-lt", "epoll-et", "uring"])
def door(request):
    return request.param


def digest(payload, rounds):
    d = bytes(32)
    for _ in range(rounds):
        d = hashlib.sha256(d + payload).digest()
    return d


# --- bytes --------------------------------------------------------------------------------------


def test_echo_gives_back_what_it_gets(door):
    data = os.urandom(300_000)
    with serving("echo", *door) as s, s.connect() as c:
        c.sendall(data[:1])
        assert receive(c, 1) == data[:1]
        c.settimeout(10)
        got, sent = bytearray(), 0
        c.setblocking(False)
        with selectors.DefaultSelector() as events:
            events.register(c, selectors.EVENT_READ | selectors.EVENT_WRITE)
            deadline = time.monotonic() + 10
            while len(got) < len(data) and time.monotonic() < deadline:
                for _, mask in events.select(1):
                    if mask & selectors.EVENT_WRITE and sent < len(data):
                        sent += c.send(data[sent:])
                    if mask & selectors.EVENT_READ:
                        got += c.recv(65536)
                if sent == len(data):
                    events.modify(c, selectors.EVENT_READ)
        assert bytes(got) == data
        c.setblocking(True)
        c.shutdown(socket.SHUT_WR)
        assert c.recv(1) == b""


def test_echo_answers_what_came_before_the_end_of_stream(door):
    with serving("echo", *door) as s, s.connect() as c:
        c.sendall(b"last words")
        c.shutdown(socket.SHUT_WR)
        assert receive(c, 10) == b"last words"
        assert c.recv(1) == b""


def test_echo_without_copies(door):
    data = bytes(range(256)) * 4096
    with serving("echo", *door, "--zero-copy", "32k") as s, s.connect() as c:
        sender = threading.Thread(target=c.sendall, args=(data,))
        sender.start()
        assert receive(c, len(data)) == data
        sender.join()


def test_echo_stops_reading_from_a_peer_that_does_not_read(door):
    with serving("echo", *door, "--high", "64k") as s, s.connect() as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        c.setblocking(False)
        sent = 0
        while writable(c, 0.3) and sent < 256 << 20:
            sent += c.send(bytes(65536))
        assert sent < 64 << 20, "it buffers without end"
        c.setblocking(True)
        c.settimeout(10)
        c.shutdown(socket.SHUT_WR)
        assert len(receive(c, sent)) == sent


def test_a_unix_socket_is_taken_away_with_its_server(tmp_path):
    path = tmp_path / "echo.sock"
    command = [BIN, "echo", "--listen", f"unix:{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == f"listening on unix:{path}\n"
            with socket.socket(socket.AF_UNIX) as c:
                c.settimeout(SLOW)
                c.connect(str(path))
                c.sendall(b"hello")
                assert receive(c, 5) == b"hello"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SLOW) == 0
        finally:
            process.kill()
    assert not path.exists()


# --- frames -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 32, 8192, 70_000, 1 << 20])
def test_linkd_echo(size):
    payload = os.urandom(size)
    with serving("linkd") as s, s.connect() as c:
        c.sendall(frame(REQUEST, 7, payload))
        assert receive_frame(c) == (RESPONSE, 7, payload)


@pytest.mark.parametrize("rounds, size", [(16, 8192), (16, 0), (1, 5), (3, 200_000)])
def test_linkd_digest(door, rounds, size):
    payload = os.urandom(size)
    with serving("linkd", *door, "--handler", "digest", "--digest-rounds", str(rounds)) as s:
        assert s.start_line.endswith(f"handler digest({rounds})")
        with s.connect() as c:
            c.sendall(frame(REQUEST, 1, payload))
            assert receive_frame(c) == (RESPONSE, 1, digest(payload, rounds))


def test_linkd_digest_of_a_frame_that_comes_in_pieces_and_of_many_at_once():
    payloads = [os.urandom(n) for n in (100, 3000, 9000)]
    with serving("linkd", "--handler", "digest", "--loops", "2") as s, s.connect() as c:
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = frame(REQUEST, 1, payloads[0])
        for i in range(len(wire)):
            c.sendall(wire[i : i + 1])
        assert receive_frame(c) == (RESPONSE, 1, digest(payloads[0], 16))
        c.sendall(b"".join(frame(REQUEST, i + 2, p) for i, p in enumerate(payloads)))
        answers = {receive_frame(c) for _ in payloads}
        assert answers == {(RESPONSE, i + 2, digest(p, 16)) for i, p in enumerate(payloads)}


def test_linkd_ping_and_errors_do_not_harm_neighbours():
    with serving("linkd", "--max-frame", "1k") as s, s.connect() as c, s.connect() as bad:
        c.sendall(frame(PING, 0, b"are you there"))
        assert receive_frame(c) == (PONG, 0, b"are you there")
        c.sendall(frame(REQUEST, 5, bytes(2000)))
        kind, number, payload = receive_frame(c)
        assert (kind, number, struct.unpack(">H", payload[:2])[0]) == (ERROR, 5, 2)
        bad.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        kind, number, payload = receive_frame(bad)
        assert (kind, number, struct.unpack(">H", payload[:2])[0]) == (ERROR, 0, 1)
        c.sendall(frame(REQUEST, 6, b"still here"))
        assert receive_frame(c) == (RESPONSE, 6, b"still here")


# --- lines and listeners ------------------------------------------------------------------------


def test_start_lines():
    with serving("echo", "--loops", "2") as s:
        assert s.listening.startswith("listening on 127.0.0.1:")
        cpus = len(os.sched_getaffinity(0))
        assert re.match(r"transport (uring|epoll-lt \(.+\)), loops 2 of ", s.start_line)
        assert s.start_line.endswith("placement reuseport, handler echo")
        assert int(s.start_line.split(" of ")[1].split()[0]) <= cpus
        code, _, out, err = s.stop()
        assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize("loops", [1, 2, 4])
def test_each_loop_has_its_own_listener_and_the_server_owns_all(loops):
    with serving("echo", "--loops", str(loops)) as s:
        found = listeners(s.port)
        assert len(found) == loops
        assert set(found) <= socket_inodes(s.pid)


def test_a_port_in_use_is_refused():
    with serving("echo") as s:
        done = run("linkd", "--listen", f"127.0.0.1:{s.port}")
        assert done.returncode == 2 and done.stdout == ""
        assert "is in use" in done.stderr and "--join" in done.stderr
        assert done.stderr.count("\n") == 1
        with s.connect() as c:
            c.sendall(b"x")
            assert receive(c, 1) == b"x"


def test_join_shares_the_address():
    with serving("echo", "--loops", "1") as first:
        address = f"127.0.0.1:{first.port}"
        with serving("echo", "--loops", "2", "--join", "--listen", address) as second:
            assert second.port == first.port
            found = set(listeners(first.port))
            assert len(found) == 3
            assert len(found & socket_inodes(first.pid)) == 1
            assert len(found & socket_inodes(second.pid)) == 2
            assert first.stop()[0] == 0
            with second.connect() as c:
                c.sendall(b"y")
                assert receive(c, 1) == b"y"


def test_stats_at_the_end():
    with serving("linkd", "--handler", "digest", "--loops", "2", "--stats", "-") as s:
        with s.connect() as c:
            for number in range(1, 201):
                c.sendall(frame(REQUEST, number, bytes(4096)))
                assert receive_frame(c)[:2] == (RESPONSE, number)
        stats = s.stats()
    assert stats["schema"] == "weir.stats/1" and len(stats["loops"]) == 2
    used = [loop for loop in stats["loops"] if loop["opened"]]
    assert len(used) == 1 and used[0]["opened"] == 1
    assert 0 < used[0]["window"]["busy_share"] <= 1
    linkd = next(h for h in used[0]["handlers"] if h["name"].startswith("linkd"))
    assert linkd["calls"] >= 200 and linkd["bytes"] == 200 * (20 + 4096)
    assert linkd["sampled"] >= linkd["calls"] // 64


def test_stats_that_cannot_be_written_are_told_and_fail(tmp_path):
    path = str(tmp_path / "none" / "stats.json")
    done = run("echo", "--listen", "127.0.0.1:0", "--stats", path)
    assert done.returncode == 2 and done.stdout == ""  # before anything is served
    assert done.stderr.count("\n") == 1 and path in done.stderr and "No such file" in done.stderr


def pinned(pid):
    """Loop number to the CPUs its thread may use."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as f:
            name = f.read().strip()
        if name.startswith("weir-loop-"):
            found[int(name[10:])] = os.sched_getaffinity(int(task))
    return found


def test_the_start_line_names_placement_and_steering():
    with serving("echo", "--loops", "2", "--placement", "handoff") as server:
        assert ", placement handoff, handler echo" in server.start_line
        assert len(listeners(server.port)) == 1
    if len(os.sched_getaffinity(0)) >= 2:
        with serving("echo", "--loops", "2", "--pin", "--steer") as server:
            assert ", pinned, placement reuseport steered by CPU, handler echo" in server.start_line
            assert len(listeners(server.port)) == 2


def test_the_start_line_names_who_may_send_proxy_headers_and_how_memory_is_watched():
    given = ("--proxy-protocol", "any", "--alloc", "unpooled", "--mem-debug", "full")
    with serving("echo", *given) as server:
        assert server.start_line.endswith(
            ", PROXY headers from any, buffers unpooled, memory debug full, handler echo"
        )


def test_pin_puts_each_loop_on_its_own_cpu():
    cpus = sorted(os.sched_getaffinity(0))
    with serving("echo", "--loops", str(len(cpus)), "--pin") as s:
        deadline = time.monotonic() + 10
        while (found := pinned(s.pid)) != {i: {cpu} for i, cpu in enumerate(cpus)}:
            assert time.monotonic() < deadline, found


def test_idle_connections_are_closed():
    with serving("echo", "--idle", "200ms") as s, s.connect() as c:
        start = time.monotonic()
        try:
            assert c.recv(1) == b""
        except ConnectionResetError:
            pass
        assert time.monotonic() - start >= 0.19


def test_the_shortest_idle_time_is_not_never():
    with serving("echo", "--idle", "1us") as s, s.connect() as c:
        c.settimeout(SLOW)
        try:
            assert c.recv(1) == b""
        except ConnectionResetError:
            pass


def exchange_by_path(path, folder=None):
    command = [BIN, "echo", "--listen", f"unix:{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout.readline() == f"listening on unix:{path}\n"
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(os.path.join(folder or "", path))
            c.sendall(b"by path")
            assert receive(c, 7) == b"by path"
        process.terminate()
        assert process.wait(10) == 0


def test_a_unix_socket_serves_too_and_again_on_the_same_path(tmp_path):
    exchange_by_path(str(tmp_path / "echo.sock"))
    exchange_by_path(str(tmp_path / "echo.sock"))
    exchange_by_path("near.sock", str(tmp_path))
    assert os.listdir(tmp_path) == []


# --- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server(door, how):
    s = Server("echo", *door)
    code, took, _, _ = s.stop(how)
    assert code == 0
    assert took < 1.0


def test_a_signal_right_after_the_first_line_is_a_clean_end():
    for _ in range(10):
        s = Server("echo")
        assert s.stop()[0] == 0


def drive(sockets, port):
    """Connects; the first 1,000 exchange data for a while, the others write and never read."""
    with selectors.DefaultSelector() as events:
        for i in range(1200):
            c = socket.create_connection(("127.0.0.1", port), 10)
            c.setblocking(False)
            sockets.append(c)
            try:
                for _ in range(64 if i >= 1000 else 1):
                    c.send(bytes(65536 if i >= 1000 else 100))
            except BlockingIOError:
                pass
            if i < 1000:
                events.register(c, selectors.EVENT_READ)
        answered = 0
        deadline = time.monotonic() + 10
        while answered < 3000 and time.monotonic() < deadline:
            for key, _ in events.select(1):
                n = len(key.fileobj.recv(65536))
                answered += 1
                key.fileobj.send(bytes(n))
        return answered


def test_sigterm_with_1000_busy_and_200_stuck_connections_ends_within_a_second(door):
    with serving("echo", *door, "--loops", "2") as s:
        sockets = []
        try:
            assert drive(sockets, s.port) >= 3000
            code, took, _, err = s.stop()
            assert code == 0, err
            assert took < 1.0
        finally:
            for c in sockets:
                c.close()


def test_5000_short_connections_without_a_failure(door):
    with serving("echo", *door, "--loops", "2") as s:
        for i in range(5000):
            with s.connect() as c:
                word = struct.pack(">I", i)
                c.sendall(word)
                assert receive(c, 4) == word


def test_a_reader_of_stdout_that_goes_away_does_not_end_the_server():
    s = Server("echo")
    s.process.stdout.close()
    with s.connect() as c:
        c.sendall(b"z")
        assert receive(c, 1) == b"z"
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(10) == 0
    s.process.stderr.close()


def test_a_missing_transport_falls_back_with_one_line():
    with serving("echo", "--transport", "uring") as s:
        code, _, _, err = s.stop()
    assert code == 0
    if s.start_line.startswith("transport uring,"):
        assert err == ""
    else:
        assert s.start_line.startswith("transport epoll-lt (")
        assert err.count("\n") == 1 and "io_uring" in err


def test_a_trigger_means_epoll():
    for trigger in ["lt", "et"]:
        with serving("echo", "--trigger", trigger) as s:
            assert s.start_line.startswith(f"transport epoll-{trigger}, loops ")
            assert s.stop()[3] == ""


def test_io_uring_without_any_of_its_features():
    with serving("echo", "--transport", "uring", "--uring-features", "none") as s:
        with s.connect() as c:
            c.sendall(b"x" * 100000)
            assert receive(c, 100000) == b"x" * 100000
        assert s.stop()[0] == 0
    with serving("echo", "--uring-features", "none") as s:  # auto: not the cheaper one then
        assert s.start_line.startswith("transport epoll-lt (")
        assert s.stop()[3] == ""


def test_the_features_of_the_environment_give_way_to_the_flag():
    environment = {"WEIR_URING_FEATURES": "-defer"}
    options = ("--transport", "uring", "--admin", "127.0.0.1:0")
    with serving("echo", *options, environment=environment) as s:
        assert parameter(s, "uring-features") == ("-defer", "env")
    flag = ("--uring-features", "all")
    with serving("echo", *options, *flag, environment=environment) as s:
        assert parameter(s, "uring-features") == ("all", "flag")
    done = run("echo", env=dict(os.environ, WEIR_URING_FEATURES="-speed"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "WEIR_URING_FEATURES" in done.stderr and "multi-recv" in done.stderr


def parameter(server, name):
    return next(
        (p["value"], p["origin"])
        for p in server.page("/stats")["parameters"]
        if p["name"] == name
    )
