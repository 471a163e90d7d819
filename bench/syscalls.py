#!/usr/bin/env python3
"""System calls per request, by name, under strace: two runs are subtracted, start-up cancels.

All connections ask, then all are answered, then again, so every turn of the server has the same
work. Says nothing about time: a call that strace stops costs a hundred times what it does alone.
Exit code: 0 done, 2 usage, 3 not run.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import cases
import harness

CONNECTIONS = (1, 100)
RUNS = (1_000, 3_000)
SERVERS = ("bare-lt", "bare-uring", "weir-epoll", "weir-uring")
WORK = {"echo": cases.ECHO[0], "linkd": cases.LINKD[0]}
LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)
START_S = 10
SHOWN = 0.01  # calls per request below this are start-up and ticks


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", nargs="*", help=f"of {', '.join(WORK)}; default: all")
    parser.add_argument("--servers", help=f"comma list; default: {','.join(SERVERS)}")
    parser.add_argument("--bin", type=Path, default=harness.ROOT / "build/release/bin")
    parser.add_argument("--out", type=Path, default=harness.ROOT / "build/bench")
    options = parser.parse_args()
    options.work = options.work or list(WORK)
    options.names = options.servers.split(",") if options.servers else list(SERVERS)
    for name in options.work:
        if name not in WORK:
            parser.error(f"no work {name}: {', '.join(WORK)}")
    for name in options.names:
        if name not in cases.SERVERS:
            parser.error(f"no server {name}: {', '.join(cases.SERVERS)}")
    return options


def await_tracer(pid, tracer):
    """Until every thread of the server is traced."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and tracer.poll() is None:
        tasks = Path(f"/proc/{pid}/task").glob("*/status")
        if all(re.search(r"^TracerPid:\t[1-9]", one.read_text(), re.MULTILINE) for one in tasks):
            return
        time.sleep(0.02)
    raise harness.HarnessError("strace does not attach")


def count(name, command, case, client, requests):
    """{system call: how often}, until the end of a fresh server."""
    with tempfile.TemporaryDirectory(prefix="weir-bench.") as folder:
        table = Path(folder) / "calls"
        with harness.Server(name, command, harness.cpus()[0]) as server:
            trace = ["strace", "-f", "-c", "-o", str(table), "-p", str(server.pid)]
            with subprocess.Popen(trace, stderr=subprocess.DEVNULL) as tracer:
                await_tracer(server.pid, tracer)
                client.run(server, case, requests=requests, lock_step=True)
                server.stop()
        return {call: int(n) for n, call in LINE.findall(table.read_text()) if call != "total"}


def per_request(name, command, case, client):
    few, many = (count(name, command, case, client, requests) for requests in RUNS)
    each = {call: (n - few.get(call, 0)) / (RUNS[1] - RUNS[0]) for call, n in many.items()}
    return {call: n for call, n in sorted(each.items(), key=lambda x: -x[1]) if n >= SHOWN}


def main():
    options = arguments()
    harness.exit_on_signals()
    if not shutil.which("strace"):
        raise harness.HarnessError("strace is not installed")
    cpu = harness.cpus()[0]
    client = harness.Client(options.bin / "peers/spin_client", cpu, cpu)
    result = {}
    print(f"system calls per request, {RUNS[0]:,} against {RUNS[1]:,} requests")
    for work in options.work:
        found, absent = cases.commands(options.names, work, options.bin)
        for connections in CONNECTIONS:
            print(f"{work}, {connections} connection{'s' * (connections > 1)} in lock-step:")
            case = replace(WORK[work], name=work, connections=connections)
            for name, command in found.items():
                calls = per_request(name, [str(part) for part in command], case, client)
                result.setdefault(work, {}).setdefault(name, {})[connections] = calls
                text = ", ".join(f"{call} {n:.2f}" for call, n in calls.items())
                print(f"  {name:<12}{sum(calls.values()):>6.2f}  {text}", flush=True)
        for line in absent:
            print(f"  left out: {line}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "syscalls.json"
    path.write_text(json.dumps({"schema": "weir.bench.syscalls/1", "runs": RUNS,
                                "calls": result}, indent=1) + "\n")
    print(f"written: {path}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (harness.HarnessError, FileNotFoundError) as why:
        print(f"syscalls: {why}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
