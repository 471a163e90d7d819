"""The io_uring door over a long time: soak_churn's connections come and go at a `weir echo`, which
is then asked what it still holds, and ended.

uring.py [--minutes M | --seconds S] [--connections N] [--seed N]; WEIR_BIN and WEIR_CHURN are the
programs. Exit codes: 0 all is well, 1 something is not (it says what), 77 no io_uring here."""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))

# pylint: disable=wrong-import-position
from servers import eventually, kernel_workers, looks, receive, serving

SANITIZER = re.compile(r"Sanitizer|runtime error:")
ENDING_S = 120  # what everybody may take at the end; the clients give up on one after 30 s
FIRST_WAVE_S = 3
# Per loop: a loop publishes what it holds every few milliseconds of work and not while it sleeps,
# so with nobody there the figure is that of a moment when the last were still leaving.
SLACK_BYTES = 64 << 10
COUNTERS = ("no_buffer", "starved", "overflows", "parked", "partial_sends")


def sums(stats):
    loops = stats["loops"]
    of_io = {k: sum(x["io"][k] for x in loops) for k in COUNTERS if k in loops[0]["io"]}
    names = ("opened", "closed", "channels", "memory_live", "received_bytes", "sent_bytes")
    return {"loops": len(loops)} | {n: sum(x[n] for x in loops) for n in names} | of_io


class Clients:
    """soak_churn, and what it said last."""

    def __init__(self, server, connections, seconds, seed):
        command = [os.environ["WEIR_CHURN"], server.host, server.port, connections, seconds, seed]
        self.process = subprocess.Popen(
            [str(x) for x in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.line, self.report = "", []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("open "):
                self.line = line.strip()
            else:
                self.report.append(line.strip())

    def end(self):
        """(exit code, stderr)"""
        err = self.process.stderr.read()
        code = self.process.wait(10)
        self.reader.join()
        return code, err


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def watch(server, clients, seconds):
    """The kernel workers that were seen while the clients ran."""
    workers = set()
    for i, _ in enumerate(looks(seconds + ENDING_S, 1.0)):
        if clients.process.poll() is not None or server.process.poll() is not None:
            break
        workers |= set(kernel_workers(server.pid))
        progress(f"{i} of {seconds} s: {clients.line}")
    else:
        clients.process.kill()
    if server.process.poll() is not None:
        clients.process.kill()
    progress("")
    return workers


def settled(server):
    """The counters, once every connection is gone; or as they are after ten seconds."""
    now = {}

    def look():
        now.update(sums(server.page("/stats", 60)))
        return now["channels"] == 0 and now["opened"] == now["closed"]

    eventually(look)
    return now


def first_wave(server, arguments):
    """As many connections as later: tables that grow to the peak once are part of the start."""
    seconds = min(FIRST_WAVE_S, arguments.seconds)
    clients = Clients(server, arguments.connections, seconds, arguments.seed + 1)
    watch(server, clients, seconds)
    return clients.end()


def calm(server):
    """A little work with pauses: rings of buffers that had grown shrink, figures are published."""
    for _ in range(16):  # so that every loop has some
        with server.connect() as sock:
            for _ in range(100):
                sock.sendall(b"calm")
                receive(sock, 4)


def afterwards(server, before):
    """What the server holds that it should not."""
    for _ in range(5):
        calm(server)
        now = settled(server)
        if now["memory_live"] <= before["memory_live"] + SLACK_BYTES * now["loops"]:
            break
    print("server: " + ", ".join(f"{k} {v}" for k, v in now.items()))
    if missing := [k for k in COUNTERS if k not in now]:
        print(f"not in /stats: {', '.join(missing)}")
    print(f"memory in use: {before['memory_live']} bytes after the first wave")
    if now["opened"] != now["closed"] or now["channels"]:
        yield f"opened {now['opened']}, closed {now['closed']}, open {now['channels']}"
    if now["memory_live"] > before["memory_live"] + SLACK_BYTES * now["loops"]:
        yield f"memory in use: {before['memory_live']} bytes before, {now['memory_live']} after"


def ended(server):
    """How the end of the server was not clean."""
    server.process.send_signal(signal.SIGTERM)
    _, err = server.process.communicate(timeout=ENDING_S)
    if server.process.returncode != 0:
        yield f"the server's exit code is {server.process.returncode}"
    if SANITIZER.search(err):
        yield "a sanitizer spoke"
    if err:
        print(err, file=sys.stderr)


def soak(server, arguments):
    code, err = first_wave(server, arguments)
    if code:
        print(err, file=sys.stderr)
        yield f"the first wave's exit code is {code}"
    before = settled(server)
    clients = Clients(server, arguments.connections, arguments.seconds, arguments.seed)
    workers = watch(server, clients, arguments.seconds)
    code, err = clients.end()
    print("clients: " + ", ".join([clients.line, *clients.report]))
    if code:
        print(err, file=sys.stderr)
        yield f"the clients' exit code is {code}"
    if workers:
        yield f"the kernel made worker threads: {' '.join(sorted(workers))}"
    if server.process.poll() is None:
        yield from afterwards(server, before)
    yield from ended(server)


def main():
    parser = argparse.ArgumentParser(prog="soak uring")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--connections", type=int, default=19000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.seconds = arguments.seconds or int(arguments.minutes * 60)
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=1")
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    options = ("--transport", "uring", "--admin", "127.0.0.1:0", "--watchdog-ms", "0")
    with serving("echo", *options) as server:
        print(server.start_line)
        if not server.start_line.startswith("transport uring,"):
            return 77
        wrong = list(soak(server, arguments))
    for line in wrong:
        print(f"FAILED: {line}")
    print("soak uring: " + ("failed" if wrong else "ok"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
