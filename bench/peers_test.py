"""Every peer does its work right, and the client notices when an answer is wrong.

Usage: peers_test.py FOLDER_OF_THE_PEERS. Timing decides nothing here.
"""

import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import cases
import harness

PEERS = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else harness.ROOT / "build/release/bin/peers"
CLIENT = PEERS / "spin_client"
REQUESTS = 600
OURS = [name for name in cases.SERVERS if not name.startswith("weir") and name != cases.TWIN]


def ask(address, case, *flags):
    """Runs the client for a fixed count; returns the finished process."""
    return subprocess.run(
        [str(CLIENT), "--connect", address, "--mode", case.mode, "--size", str(case.size),
         "--connections", str(min(case.connections, 20)), "--requests", str(REQUESTS),
         *flags],
        capture_output=True, text=True, timeout=60,
    )


class RightAnswers(unittest.TestCase):
    def check(self, case, *flags):
        found, _ = cases.commands(OURS, case.work, PEERS.parent)
        self.assertIn(cases.BASE, found)
        for name, command in found.items():
            with self.subTest(name), harness.Server(name, command, harness.cpus()[0]) as server:
                done = ask(server.address, case, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(harness.parse_line(done.stdout)["requests"], REQUESTS)

    def test_long(self):
        self.check(cases.ECHO[1])

    def test_short(self):
        self.check(cases.ECHO[4])

    def test_lock_step(self):
        self.check(cases.Case("even", "echo", "long", 8, 12), "--lock-step")
        self.check(cases.Case("uneven", "linkd", "linkd", 7, 8192), "--lock-step")

    def test_lock_step_needs_a_count(self):
        done = subprocess.run([str(CLIENT), "--connect", "127.0.0.1:1", "--mode", "long",
                               "--seconds", "1", "--lock-step"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)

    def test_large_echo(self):
        self.check(cases.Case("large", "echo", "long", 4, 60_000))

    def test_linkd(self):
        self.check(cases.LINKD[0])

    def test_linkd_without_payload_to_spare(self):
        self.check(cases.Case("tiny", "linkd", "linkd", 4, 1))

    def test_digest(self):
        self.check(cases.DIGEST[0])


def frame(kind, number, payload, magic=0x4C4B):
    head = magic.to_bytes(2, "big") + bytes((1, kind)) + bytes(4) + number.to_bytes(8, "big")
    return head + len(payload).to_bytes(4, "big") + payload


def read_exactly(conn, count):
    out = b""
    while len(out) < count:
        got = conn.recv(count - len(out))
        if not got:
            break
        out += got
    return out


class Wire(unittest.TestCase):
    """Frames in odd pieces, on raw sockets."""

    def with_each_peer(self, check):
        found, _ = cases.commands(OURS, "linkd", PEERS.parent)
        for name, command in found.items():
            with self.subTest(name), harness.Server(name, command, harness.cpus()[0]) as server:
                with socket.create_connection(("127.0.0.1", server.port), timeout=20) as conn:
                    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    check(conn)

    def test_a_frame_byte_by_byte_and_three_at_once(self):
        def check(conn):
            for byte in frame(1, 7, b"split"):
                conn.sendall(bytes((byte,)))
            self.assertEqual(read_exactly(conn, 25), frame(2, 7, b"split"))
            conn.sendall(frame(1, 8, b"a") + frame(1, 9, b"") + frame(1, 10, b"ccc"))
            want = frame(2, 8, b"a") + frame(2, 9, b"") + frame(2, 10, b"ccc")
            self.assertEqual(read_exactly(conn, len(want)), want)

        self.with_each_peer(check)

    def test_garbage_ends_the_connection(self):
        def check(conn):
            conn.sendall(frame(1, 7, b"x", magic=0x4747))
            try:
                self.assertEqual(conn.recv(1), b"")
            except ConnectionResetError:
                pass

        self.with_each_peer(check)

    def test_answers_that_the_socket_cannot_take_are_kept(self):
        """The reader starts only when all is sent, so the server must hold back or hold on."""
        many = b"".join(frame(1, i, bytes(8192)) for i in range(1, 1025))
        want = b"".join(frame(2, i, bytes(8192)) for i in range(1, 1025))

        def check(conn):
            sender = threading.Thread(target=conn.sendall, args=(many,))
            sender.start()
            sender.join(0.2)  # however far it got: the order of the bytes is what counts
            got = read_exactly(conn, len(want))
            sender.join()
            self.assertTrue(got == want, "answers lost or out of order")

        self.with_each_peer(check)


class LyingServer(threading.Thread):
    """Accepts one connection and answers its first bytes with `change(bytes)`."""

    def __init__(self, change):
        super().__init__(daemon=True)
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]

    def run(self):
        with self._listener, self._listener.accept()[0] as conn:
            conn.sendall(self._change(conn.recv(65536)))
            while conn.recv(65536):
                pass


class WrongAnswers(unittest.TestCase):
    def check(self, change, complaint):
        server = LyingServer(change)
        server.start()
        done = ask(server.address, cases.Case("lie", "echo", "long", 1, 12))
        self.assertEqual(done.returncode, 1)
        self.assertIn(complaint, done.stderr)

    def test_one_bit(self):
        self.check(lambda got: got[:11] + bytes((got[11] ^ 1,)), "the answer differs")

    def test_a_byte_too_many(self):
        self.check(lambda got: got + b"!", "more bytes than the answer has")


if __name__ == "__main__":
    unittest.main()
