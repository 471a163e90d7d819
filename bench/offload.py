#!/usr/bin/env python3
"""One hot connection: what offloading a heavy handler to workers gains, where loops cannot.

Two `weir linkd --handler digest --loops 1`, one with --offload 2, take turns under the same client:
one connection with 32 calls of 8 KiB in flight. Server and client share all usable CPUs. That is
accounted for: the CPU time of the client and of both servers is read around each slice, and from
them follows the gain that the CPUs allow at all (a worker per CPU, less what client and loop use).
Exit code: 0 when the gain is at least 1.6, 1 less, 2 usage, 3 not judged: the CPUs allow no 1.6.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import harness
from stats import median_interval

GAIN = 1.6
LOOP_BUSY_MAX = 0.20
SLICES_MIN = 12
INLINE, OFFLOAD = "inline", "offload 2"
LINES = re.compile(r"listening on (\S+)\nadmin on (\S+)")
START_S = 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=SLICES_MIN)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a slice")
    parser.add_argument("--bin", type=Path, default=harness.ROOT / "build/release/bin")
    parser.add_argument("--out", type=Path, default=harness.ROOT / "build/bench")
    options = parser.parse_args()
    if options.slices < 1 or options.seconds < 1:
        parser.error("at least one slice, of at least a second")
    return options


class Server:
    """A linkd server with a page of statistics."""

    def __init__(self, weir, *flags):
        self._process = subprocess.Popen(
            [weir, "linkd", "--handler", "digest", "--loops", "1", "--listen", "127.0.0.1:0",
             "--admin", "127.0.0.1:0", *flags], stdout=subprocess.PIPE, text=True)
        said, end = "", time.monotonic() + START_S
        while not (found := LINES.search(said)) and time.monotonic() < end:
            line = self._process.stdout.readline()
            if not line:
                break
            said += line
        if not found:
            self.stop()
            raise harness.HarnessError(f"a server did not start: {said.strip()}")
        self.address, self._admin = found.groups()

    def looks(self):
        """(clock, busy time) of its loop and the CPU time of all its threads, in nanoseconds."""
        with urllib.request.urlopen(f"http://{self._admin}/stats", timeout=10) as page:
            loop = json.load(page)["loops"][0]
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        cpu = sum(int(path.read_text().split()[0]) for path in threads)
        return loop["at_ns"], loop["busy_ns"], loop["cpu_ns"], cpu

    def stop(self):
        self._process.terminate()
        self._process.wait()


def one_slice(options, server):
    before = server.looks()
    done = subprocess.run(
        [options.bin / "weir", "load", "-c", "1", "-m", "32", "-b", "8192", "-q",
         "-d", f"{options.seconds}s", "--json", "-", f"linkd://{server.address}"],
        capture_output=True, text=True, check=False)
    after = server.looks()
    if done.returncode:
        raise harness.HarnessError(f"weir load said {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    ok = report["ledger"]["ok"]
    wall, busy, loop_cpu, cpu = (b - a for a, b in zip(before, after))
    return {"rate": report["achieved"]["requests_per_s"],
            "loop_busy": busy / wall,
            "loop_us": loop_cpu / 1000 / ok,
            "server_us": cpu / 1000 / ok,
            "client_us": report["client"]["cpu_us_per_request"]}


def in_slices(options, servers):
    order, slices = random.Random(time.time_ns()), []
    for _ in range(options.slices):
        names = list(servers)
        order.shuffle(names)
        slices.append({name: one_slice(options, servers[name]) for name in names})
    return slices


def middle(slices, name, key):
    return statistics.median(one[name][key] for one in slices)


def allowed(slices, cpus):
    """The gain that `cpus` CPUs allow: all of them busy, against one loop that never pauses."""
    a_call = sum(middle(slices, OFFLOAD, key) for key in ("server_us", "client_us"))
    return cpus / a_call * middle(slices, INLINE, "server_us")


def report(slices, cpus):
    """(text, exit code)."""
    gain = median_interval([one[OFFLOAD]["rate"] / one[INLINE]["rate"] for one in slices])
    most, busy = allowed(slices, cpus), middle(slices, OFFLOAD, "loop_busy")
    lines = [f"{name:<10}{middle(slices, name, 'rate'):>8.0f} calls/s  per call: server "
             f"{middle(slices, name, 'server_us'):.1f} us, of which the loop "
             f"{middle(slices, name, 'loop_us'):.1f}; "
             f"client {middle(slices, name, 'client_us'):.1f}; "
             f"loop busy {middle(slices, name, 'loop_busy'):.0%}" for name in (INLINE, OFFLOAD)]
    lines.append(f"gain {gain.median:.2f} ({gain.low:.2f} .. {gain.high:.2f}) in {gain.count} "
                 f"slices; {cpus} CPUs, which the client shares, allow {most:.2f}")
    reached = gain.median >= GAIN
    lines.append(f"gain at least {GAIN}: {'met' if reached else 'MISSED'}; loop busy at most "
                 f"{LOOP_BUSY_MAX:.0%}: {'met' if busy <= LOOP_BUSY_MAX else 'MISSED'}")
    if most < GAIN:
        return "\n".join([*lines, "not judged: these CPUs do not allow that gain"]), 3
    if len(slices) < SLICES_MIN:
        return "\n".join([*lines, f"{len(slices)} slices are too few to judge by"]), 3
    return "\n".join(lines), 0 if reached and busy <= LOOP_BUSY_MAX else 1


def main():
    options = arguments()
    harness.exit_on_signals()
    servers = {}
    try:
        servers[INLINE] = Server(options.bin / "weir")
        servers[OFFLOAD] = Server(options.bin / "weir", "--offload", "2")
        slices = in_slices(options, servers)
    finally:
        for server in servers.values():
            server.stop()
    text, code = report(slices, len(harness.os.sched_getaffinity(0)))
    print(f"one connection, 32 calls of 8 KiB in flight, digest\n{text}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "offload.json"
    path.write_text(json.dumps({"schema": "weir.bench.offload/1", "machine": harness.machine(),
                                "slices": slices}, indent=1) + "\n")
    print(f"written: {path}")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (harness.HarnessError, FileNotFoundError) as why:
        print(f"offload: {why}", file=sys.stderr)
        sys.exit(3)
