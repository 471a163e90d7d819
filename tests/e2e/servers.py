"""Starts the programs and talks to them with plain sockets."""

import contextlib
import http.client
import json
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import time

BIN = os.environ.get("WEIR_BIN", "build/release/bin/weir")
SLOW = 10.0  # no answer for so long is a failure, whatever the machine does


def run(*arguments, **options):
    """A command that ends by itself."""
    return subprocess.run(
        [BIN, *arguments], capture_output=True, text=True, timeout=60, check=False, **options
    )


class Server:
    """A running `weir echo` or `weir linkd`; its address comes from its first line."""

    def __init__(self, *arguments, files=None, environment=None, before=None):
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            if before:
                before()

        if "--listen" not in arguments:
            arguments += ("--listen", "127.0.0.1:0")
        self.process = subprocess.Popen(
            [BIN, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
            env=dict(os.environ, **(environment or {})),
        )
        self.listening = self.process.stdout.readline().rstrip("\n")
        self.start_line = self.process.stdout.readline().rstrip("\n")
        self.admin = None
        if self.start_line.startswith("admin on "):
            self.admin = self.start_line.removeprefix("admin on ")
            self.start_line = self.process.stdout.readline().rstrip("\n")
        found = re.fullmatch(r"listening on (.+):(\d+)", self.listening)
        if not found:
            self.process.kill()
            raise AssertionError(f"{self.listening!r}: {self.process.stderr.read()}")
        self.host, self.port = found.group(1), int(found.group(2))

    @property
    def pid(self):
        return self.process.pid

    def connect(self):
        return socket.create_connection((self.host, self.port), SLOW)

    def ask(self, target, seconds=SLOW):
        """(status, type, body) of a page of a server that was started with --admin."""
        host, port = self.admin.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=seconds)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()
        finally:
            connection.close()

    def page(self, target, seconds=SLOW):
        """The body of a page that must be there: parsed when it is JSON."""
        status, kind, body = self.ask(target, seconds)
        assert status == 200, body
        return json.loads(body) if kind == "application/json" else body

    def stop(self, how=signal.SIGTERM):
        """(exit code, seconds, rest of stdout, stderr)."""
        start = time.monotonic()
        self.process.send_signal(how)
        self.process.wait(SLOW)
        took = time.monotonic() - start
        out, err = self.process.communicate()
        return self.process.returncode, took, out, err

    def stats(self):
        """Stops a server that was started with --stats -."""
        code, _, out, err = self.stop()
        assert code == 0, err
        return json.loads(out)

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(*arguments, **options):
    s = Server(*arguments, **options)
    try:
        yield s
    finally:
        if s.process.poll() is None:
            s.process.kill()
        s.process.communicate()


def looks(seconds, every=0.02):
    """For loops that look at something from outside, where nothing would tell: once now, then so
    often until the time is up."""
    end = time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        select.select([], [], [], every)
        yield


def eventually(look, seconds=SLOW):
    """Its first true answer; what it said last when there is none."""
    for _ in looks(seconds):
        if found := look():
            break
    return found


@contextlib.contextmanager
def load(server, *arguments, scheme="echo"):
    """`weir load` runs against a server meanwhile; it is ended, not asked for its report."""
    target = f"{scheme}://{server.host}:{server.port}"
    process = subprocess.Popen(
        [BIN, "load", "-d", "300s", *arguments, target],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def receive(sock, n):
    """Exactly n bytes."""
    got = bytearray()
    while len(got) < n:
        part = sock.recv(n - len(got))
        if not part:
            raise AssertionError(f"the peer closed after {len(got)} of {n} bytes")
        got += part
    return bytes(got)


def readable(sock, seconds):
    return bool(select.select([sock], [], [], seconds)[0])


def writable(sock, seconds):
    return bool(select.select([], [sock], [], seconds)[1])


def which_readable(socks, seconds):
    return select.select(socks, [], [], seconds)[0]


def listeners(port):
    """Inodes of the sockets that listen on a port of 127.0.0.1."""
    found = []
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].split(":")[1], 16) == port:
                found.append(int(fields[9]))
    return found


def socket_inodes(pid):
    """Inodes of the sockets that a process holds."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
            if name.startswith("socket:["):
                found.add(int(name[8:-1]))
    return found


def kernel_workers(pid):
    """The threads that the kernel made for requests to io_uring which would have blocked."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/comm", "rb") as f:
            found.add(f.read().decode().strip())
    return {name for name in found if name.startswith("iou-")}


REQUEST, RESPONSE, ERROR, PING, PONG = 1, 2, 3, 4, 5
HEAD = struct.Struct(">HBBHHQI")


def frame(kind, number, payload=b"", service=0, flags=0, magic=0x4C4B, version=1):
    return HEAD.pack(magic, version, kind, flags, service, number, len(payload)) + payload


def receive_frame(sock):
    """(type, id, payload)."""
    magic, version, kind, _, _, number, length = HEAD.unpack(receive(sock, HEAD.size))
    assert (magic, version) == (0x4C4B, 1)
    return kind, number, receive(sock, length)
