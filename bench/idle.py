#!/usr/bin/env python3
"""What an idle connection costs a server: the slope of its memory between two numbers of them.

Each connection makes one request and then stays. The slope is what one more connection adds, so the
program itself, its pools and its start cancel out. Memory is what the process holds for itself
(RssAnon): pages of its files and the kernel's buffers do not count.
Exit code: 0, 1 a slope is over its limit, 2 usage, 3 not run.
"""

import argparse
import json
import socket
import sys
import time
from pathlib import Path

import cases
import harness

STEPS = (1_000, 9_000, 19_000)
SLOPE = (1_000, 9_000)
SPARE_FILES = 200  # of this process, beside its connections
SETTLE_S = 1.5  # after the last request: caches are trimmed, what was freed is given back
LINKD_ECHO = bytes.fromhex("4c4b 01 01 0000 0000 0000000000000001 0000000c") + b"twelve bytes"
REQUESTS = {"echo": b"twelve bytes", "linkd": LINKD_ECHO}
LIMITS_KIB = {"linkd": 0.75, "echo": 0.75}  # what a connection of weir may add


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", nargs="*", help=f"of {', '.join(REQUESTS)}; default: all")
    parser.add_argument("--servers", help="comma list; default: all that are built")
    parser.add_argument("--bin", type=Path, default=harness.ROOT / "build/release/bin")
    parser.add_argument("--out", type=Path, default=harness.ROOT / "build/bench")
    options = parser.parse_args()
    options.work = options.work or list(REQUESTS)
    names = options.servers.split(",") if options.servers else list(cases.EVERYBODY)
    options.names = [name for name in names if name != cases.TWIN]
    for name in options.work:
        if name not in REQUESTS:
            parser.error(f"no work {name}: {', '.join(REQUESTS)}")
    for name in options.names:
        if name not in cases.SERVERS:
            parser.error(f"no server {name}: {', '.join(cases.SERVERS)}")
    return options


def anonymous_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise harness.HarnessError("this kernel does not tell RssAnon")


def connect(port, request):
    """A connection that has made its request and has its answer."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    if request:
        sock.sendall(request)
        left = len(request)
        while left:
            got = len(sock.recv(left))
            if not got:
                raise harness.HarnessError("the server closed a connection")
            left -= got
    return sock


def memory_at(server, request, steps):
    """{connections: KiB of the server while so many are open}."""
    held, found = [], {}
    try:
        for step in steps:
            while len(held) < step:
                held.append(connect(server.port, request))
            time.sleep(SETTLE_S)
            found[step] = anonymous_kib(server.pid)
    finally:
        for sock in held:
            sock.close()
    return found


def reachable(steps):
    """The steps that this process may open files for."""
    harness.raise_file_limit()
    soft, _ = harness.resource.getrlimit(harness.resource.RLIMIT_NOFILE)
    return [step for step in steps if step + SPARE_FILES <= soft]


def slope(found):
    few, many = SLOPE
    return (found[many] - found[few]) / (many - few)


def measure(options, steps):
    """({work: {server: {...}}}, whether every limit holds)."""
    result, good = {}, True
    for work in options.work:
        commands, absent = cases.commands(options.names, work, options.bin)
        print(f"{work}, one request each; KiB in all at {', '.join(f'{s:,}' for s in steps)}:")
        for name, command in commands.items():
            with harness.Server(name, command, harness.cpus()[0]) as server:
                found = memory_at(server, REQUESTS[work], steps)
            each = slope(found)
            limit = LIMITS_KIB[work] if name.startswith("weir") else None
            held = limit is None or each <= limit
            good = good and held
            verdict = "" if limit is None else f"  limit {limit} {'met' if held else 'MISSED'}"
            print(f"  {name:<12}{each:>7.3f} KiB each  {', '.join(map(str, found.values()))}"
                  f"{verdict}", flush=True)
            result.setdefault(work, {})[name] = {"kib_each": each, "kib_at": found}
        for line in absent:
            print(f"  left out: {line}")
    return result, good


def main():
    options = arguments()
    harness.exit_on_signals()
    steps = reachable(STEPS)
    if SLOPE[1] not in steps:
        raise harness.HarnessError(f"not enough file descriptors for {SLOPE[1]:,} connections")
    result, good = measure(options, steps)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "idle.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {path}")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except harness.HarnessError as why:
        print(f"idle: {why}", file=sys.stderr)
        sys.exit(3)
