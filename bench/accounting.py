#!/usr/bin/env python3
"""What accounting costs an echo: frames, samples and the watchdog, against a build without them.

Three figures: user-space instructions per echo; the time of one frame, samples included, as a part
of the CPU time of an echo; and CPU time per echo as a ratio in interleaved slices, where a twin of
the build without them says what chance does to that ratio here. The kernel's half of an echo's
instructions cannot be counted without hardware counters: the second figure stands for the whole.
Builds build/unaccounted first (-DWEIR_UNACCOUNTED=ON, else as the release).
Exit code: 0 within the limit, 1 over it, 2 usage, 3 not run or not judged.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import cases
import harness
import instructions
from stats import median_interval, paired_ratios

LIMIT = 0.01  # of an echo
COST = "server_cpu_us"
SLICES = 30
CONNECTIONS = 100
BARE = "unaccounted"
TWIN = "unaccounted-twin"
FULL = "accounted"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=SLICES)
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a slice")
    parser.add_argument("--foreign-max", type=float, default=12.0,
                        help="percent of a CPU that others may use before a slice is done again")
    parser.add_argument("--bin", type=Path, default=harness.ROOT / "build/release/bin")
    parser.add_argument("--out", type=Path, default=harness.ROOT / "build/bench")
    return parser.parse_args()


def build_unaccounted():
    """The weir program without accounting."""
    where = harness.ROOT / "build/unaccounted"
    print(f"building {where}", flush=True)
    for command in (["cmake", "--preset", "release", "-B", where, "-DWEIR_UNACCOUNTED=ON"],
                    ["cmake", "--build", where, "--target", "weir"]):
        done = subprocess.run([str(part) for part in command], cwd=harness.ROOT, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            text = (done.stdout + done.stderr)[-2000:]
            raise harness.HarnessError(f"{command[0]} failed: {text}")
    return where / "bin/weir"


def echo(weir, *flags):
    return [weir, "echo", "--loops", "1", "--transport", "epoll", "--listen", "127.0.0.1:0", *flags]


def commands(options, unaccounted):
    off = ("--watchdog-ms", "0")
    return {BARE: echo(unaccounted, *off), TWIN: echo(unaccounted, *off),
            FULL: echo(options.bin / "weir")}


def in_slices(programs, client, options):
    """[{server: measurement}], each in a fresh random order."""
    case, order, slices = cases.ECHO[1], random.Random(time.time_ns()), []
    case = replace(case, connections=CONNECTIONS)
    with harness.servers_started(programs, harness.cpus()[0]) as (servers, failed):
        if failed:
            raise harness.HarnessError("; ".join(failed))
        for _ in range(options.slices):
            names = list(servers)
            order.shuffle(names)
            got = {name: client.run_quiet(servers[name], case, options.foreign_max,
                                          seconds=options.seconds, warm_ms=50) for name in names}
            slices.append({name: one for name, one in got.items() if one})
    return slices


def user_instructions(programs, client):
    case = replace(cases.ECHO[0], name="echo", connections=instructions.RATCHETED)
    return {name: instructions.per_request(name, command, case, client)
            for name, command in programs.items() if name != TWIN}


def frame_ns(options):
    """CPU time of one attribution frame, as bench/micro/frame_bench has it."""
    program = options.bin / "micro/frame_bench"
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def verdict(ratio, twin, frame):
    """(text, exit code) for the cost in time."""
    if ratio.count < SLICES or abs(twin.median - 1) > LIMIT:
        return "not judged (too few slices, or the twin strays)", 3
    return ("met", 0) if max(ratio.median - 1, frame) <= LIMIT else ("MISSED", 1)


def main():
    options = arguments()
    harness.exit_on_signals()
    programs = commands(options, build_unaccounted())
    one_cpu = harness.Client(options.bin / "peers/spin_client", *[harness.cpus()[0]] * 2)
    counts = user_instructions(programs, one_cpu)
    added = counts[FULL] - counts[BARE]
    print(f"user instructions per echo: {counts[BARE]:.1f} without, {counts[FULL]:.1f} with: "
          f"{added:+.1f} ({added / counts[FULL]:.1%} of the engine's own)", flush=True)
    two_cpus = harness.Client(options.bin / "peers/spin_client", *harness.cpus())
    slices = in_slices(programs, two_cpus, options)
    ratio = median_interval(paired_ratios(slices, FULL, BARE, COST))
    twin = median_interval(paired_ratios(slices, TWIN, BARE, COST))
    echo_ns = statistics.median(one[FULL][COST] for one in slices if FULL in one) * 1000
    frame = frame_ns(options)
    print(f"one frame: {frame:.1f} ns, {frame / echo_ns:.2%} of an echo's {echo_ns:.0f} ns")
    text, code = verdict(ratio, twin, frame / echo_ns)
    print(f"CPU per echo, {CONNECTIONS} connections, {ratio.count} slices: with / without "
          f"{ratio.median:.4f} ({ratio.low:.3f} .. {ratio.high:.3f}); twin {twin.median:.4f}; "
          f"limit {1 + LIMIT:.2f}: {text}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "accounting.json"
    path.write_text(json.dumps({"schema": "weir.bench.accounting/1", "machine": harness.machine(),
                                "instructions": counts, "frame_ns": frame,
                                "echo_ns": echo_ns, "ratio": vars(ratio), "twin": vars(twin),
                                "verdict": text, "slices": slices}, indent=1) + "\n")
    print(f"written: {path}")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (harness.HarnessError, FileNotFoundError) as why:
        print(f"accounting: {why}", file=sys.stderr)
        sys.exit(3)
