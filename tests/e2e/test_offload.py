"""weir linkd --offload: the same answers from workers, in order or not; what the option takes."""

import os

import pytest
from servers import ERROR, REQUEST, RESPONSE, frame, receive_frame, run, serving
from test_servers import digest

GOAWAY = 7

BAD = [
    ("x", "is not N"),
    ("2,", "is not N"),
    ("2,sorted", "is not N"),
    ("-1", "is not N"),
    ("", "is not N"),
    ("1000", "outside 0 to 256"),
    ("2,ordered,unordered", "is not N"),
]


@pytest.mark.parametrize("text, words", BAD)
def test_bad_text_is_one_line(text, words):
    done = run("linkd", "--offload", text)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "--offload" in done.stderr and words in done.stderr


@pytest.mark.parametrize(
    "option, label",
    [
        ("0", "handler digest(16)"),
        ("2", "handler digest(16) offload 2,ordered"),
        ("3,ordered", "handler digest(16) offload 3,ordered"),
        ("1,unordered", "handler digest(16) offload 1,unordered"),
    ],
)
def test_the_start_line_says_it(option, label):
    with serving("linkd", "--handler", "digest", "--offload", option) as s:
        assert s.start_line.endswith(label)


@pytest.mark.parametrize("option", ["2,ordered", "2,unordered"])
def test_one_connection_many_calls(option):
    payloads = [os.urandom(100 + 1500 * (i % 7)) for i in range(200)]
    wire = [frame(REQUEST, i + 1, p) for i, p in enumerate(payloads)]
    with serving("linkd", "--loops", "1", "--handler", "digest", "--offload", option) as s:
        with s.connect() as c:
            order = []
            for i in range(32):
                c.sendall(wire[i])
            for i in range(len(wire)):
                kind, number, body = receive_frame(c)
                assert (kind, body) == (RESPONSE, digest(payloads[number - 1], 16))
                order.append(number)
                if i + 32 < len(wire):
                    c.sendall(wire[i + 32])
        code, _, _, err = s.stop()
    assert code == 0, err
    assert sorted(order) == list(range(1, len(wire) + 1))
    if "unordered" not in option:
        assert order == sorted(order)


def test_unordered_answers_overtake():
    """The first one is a thousand times the work of those behind it."""
    big, small = os.urandom(1 << 20), b"x"
    with serving("linkd", "--loops", "1", "--handler", "digest", "--offload", "2,unordered") as s:
        with s.connect() as c:
            c.sendall(frame(REQUEST, 1, big) + frame(REQUEST, 2, small))
            assert receive_frame(c) == (RESPONSE, 2, digest(small, 16))
            assert receive_frame(c) == (RESPONSE, 1, digest(big, 16))


def test_echo_and_a_client_that_only_ends_its_sending():
    payloads = [os.urandom(n) for n in (0, 1, 5000, 70_000)]
    with serving("linkd", "--offload", "2") as s, s.connect() as c:
        c.sendall(b"".join(frame(REQUEST, i + 1, p) for i, p in enumerate(payloads)))
        c.shutdown(1)
        answers = [receive_frame(c) for _ in range(len(payloads) + 1)]
        assert c.recv(1) == b""
    answers.remove((GOAWAY, 0, b""))  # the end of its input found the calls away
    assert answers == [(RESPONSE, i + 1, p) for i, p in enumerate(payloads)]


def test_load_verifies_it():
    with serving("linkd", "--loops", "1", "--handler", "digest", "--offload", "2") as s:
        done = run(
            "load", "-c", "1", "-m", "32", "-d", "1100ms", "-b", "8192", "--verify", "digest",
            f"linkd://127.0.0.1:{s.port}",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_drain_answers_what_is_away():
    payload = os.urandom(1 << 20)
    with serving("linkd", "--loops", "1", "--handler", "digest", "--offload", "1") as s:
        with s.connect() as c:
            c.sendall(frame(REQUEST, 1, payload))
            c.sendall(frame(REQUEST, 2, payload) + frame(REQUEST, 3, payload))
            assert receive_frame(c) == (RESPONSE, 1, digest(payload, 16))
            s.process.terminate()  # the others are in hand, or in the input before the GOAWAY
            answers = [receive_frame(c) for _ in range(2)]
            while len([a for a in answers if a[0] in (RESPONSE, ERROR)]) < 2:
                answers.append(receive_frame(c))
            done = [a for a in answers if a[0] == RESPONSE]
            assert done[0] == (RESPONSE, 2, digest(payload, 16))
        assert s.process.wait(10) == 0
