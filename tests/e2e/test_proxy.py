"""weir echo and weir linkd behind a load balancer: PROXY protocol, versions 1 and 2."""

import contextlib
import re
import socket
import struct

import pytest

from servers import (
    PING,
    PONG,
    REQUEST,
    RESPONSE,
    eventually,
    frame,
    receive,
    receive_frame,
    run,
    serving,
)

LINE = b"PROXY TCP4 203.0.113.7 203.0.113.1 4711 443\r\n"
SIGN = b"\r\n\r\n\0\r\nQUIT\n"
DOORS = [("--trigger", "lt"), ("--trigger", "et"), ("--transport", "uring")]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def binary(checksum=True, command=0x21, wrong=0):
    """A version 2 header for TCP over IPv4 with an authority."""
    ends = socket.inet_aton("203.0.113.7") + socket.inet_aton("203.0.113.1")
    body = ends + struct.pack(">HH", 4711, 443) + struct.pack(">BH", 2, 11) + b"example.org"
    if checksum:
        body += struct.pack(">BHI", 3, 4, 0)
    whole = SIGN + struct.pack(">BBH", command, 0x11, len(body)) + body
    if checksum:
        whole = whole[:-4] + struct.pack(">I", crc32c(whole) ^ wrong)
    return whole


@pytest.fixture(params=DOORS, ids=["epoll-lt", "epoll-et", "uring"])
def door(request):
    return request.param


def expect_reset(c):
    with pytest.raises(ConnectionResetError):
        while c.recv(1000):
            pass
        raise AssertionError("it ended in order")


@pytest.mark.parametrize("head", [LINE, binary(), binary(False), binary(command=0x20)])
def test_what_follows_the_header_is_served(door, head):
    with serving("echo", "--proxy-protocol", "127.0.0.1", *door) as s, s.connect() as c:
        c.sendall(head + b"first")
        assert receive(c, 5) == b"first"
        c.sendall(LINE)  # only the first bytes are a header
        assert receive(c, len(LINE)) == LINE
        c.shutdown(socket.SHUT_WR)
        assert c.recv(1) == b""


def test_linkd_speaks_behind_it(door):
    with serving("linkd", "--proxy-protocol", "127.0.0.0/8,::1", *door) as s, s.connect() as c:
        c.sendall(binary())
        c.sendall(frame(PING, 0, b"x") + frame(REQUEST, 7, b"hello"))
        assert receive_frame(c) == (PONG, 0, b"x")
        assert receive_frame(c) == (RESPONSE, 7, b"hello")


@pytest.mark.parametrize(
    "head",
    [b"GET / HTTP/1.1\r\n\r\n", frame(PING, 0), LINE.replace(b"443", b"0443"), binary(wrong=1)],
)
def test_nobody_else_is_served(door, head):
    with serving("echo", "--proxy-protocol", "any", *door) as s:
        with s.connect() as witness, s.connect() as c:
            witness.sendall(LINE + b"1")
            assert receive(witness, 1) == b"1"
            c.sendall(head)
            expect_reset(c)
            witness.sendall(b"2")
            assert receive(witness, 1) == b"2"


def expect_no_hearing(s):
    """The reset may come while this side still connects."""
    with contextlib.suppress(ConnectionResetError), s.connect() as c:
        expect_reset(c)


def test_who_is_not_trusted_is_not_heard(door):
    with serving("echo", "--proxy-protocol", "10.0.0.0/8,unix", *door) as s:
        expect_no_hearing(s)


def told(s):
    """What the only loop has counted, and the same of /metrics."""
    text = s.page("/metrics")
    reasons = dict(re.findall(r'^weir_proxy_refused_total\{.*reason="(\w+)"\} (\d+)$', text, re.M))
    proxy = s.page("/stats")["loops"][0]["proxy"]
    return proxy, {name: int(n) for name, n in reasons.items()}


def test_an_operator_sees_why_connections_end():
    watched = ("--loops", "1", "--admin", "127.0.0.1:0")
    none = {"trust": 0, "header": 0, "size": 0, "time": 0, "memory": 0}
    with serving("echo", "--proxy-protocol", "127.0.0.1", *watched) as s:
        with s.connect() as slow, s.connect() as good:
            slow.sendall(b"PROXY ")
            good.sendall(binary() + b"x")
            assert receive(good, 1) == b"x"
            for head in (b"GET / HTTP/1.1\r\n\r\n", LINE[:20] + b"!" * 100):
                with s.connect() as c:
                    c.sendall(head)
                    expect_reset(c)
            with s.connect() as c:
                c.sendall(SIGN + b"\x21\x11\xff\xff")
                expect_reset(c)
            with s.connect() as c:  # a health check
                c.shutdown(socket.SHUT_WR)
                assert c.recv(1) == b""
            expect_reset(slow)
            refused = {**none, "header": 2, "size": 1, "time": 1}
            assert eventually(lambda: told(s)[0]["refused"] == refused), told(s)
            proxy, metrics = told(s)
            assert (proxy["headers"], proxy["without"], proxy["silent"]) == (1, 0, 1)
            assert metrics == refused
    with serving("echo", "--proxy-protocol", "10.0.0.0/8", *watched) as s:
        expect_no_hearing(s)
        assert eventually(lambda: told(s)[0]["refused"] == {**none, "trust": 1}), told(s)


@pytest.mark.parametrize(
    "nets", ["", "nonsense", "10.0.0.1/8", "10.0.0.0/33", ",".join(["::1"] * 17)]
)
def test_a_list_that_makes_no_sense(nets):
    done = run("echo", "--listen", "127.0.0.1:0", "--proxy-protocol", nets)
    assert done.returncode == 2
    assert done.stderr.startswith("weir echo: --proxy-protocol: ")
    assert done.stderr.count("\n") == 1
