#!/usr/bin/env python3
"""User-space instructions per request under callgrind: two runs are subtracted, start-up cancels.

All connections ask, then all are answered, then again, on one CPU, so every turn of the server has
the same work. Repeatable whatever else the machine does; says nothing about the kernel, and
callgrind does not see what a clock read costs.
Exit code: 0 within the ratchets, 1 above one, 2 usage, 3 not run. A missed target is only shown.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import cases
import harness

CONNECTIONS = (8, 1)
RATCHETED = 8  # the row that ratchets.json is about
RUNS = (2_000, 12_000)
SLACK = 0.03  # how far above the recorded figure a figure may be; as far below, record it
TOTALS = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
WORK = {"echo": cases.ECHO[0], "linkd": cases.LINKD[0]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", nargs="*", help=f"of {', '.join(WORK)}; default: all")
    parser.add_argument("--servers", help="comma list; default: all that are built")
    parser.add_argument("--bin", type=Path, default=harness.ROOT / "build/release/bin")
    parser.add_argument("--out", type=Path, default=harness.ROOT / "build/bench")
    parser.add_argument("--ratchets", type=Path,
                        default=Path(__file__).resolve().parent / "ratchets.json")
    parser.add_argument("--tighten", action="store_true",
                        help="record figures that are lower than the recorded ones")
    options = parser.parse_args()
    options.work = options.work or list(WORK)
    names = options.servers.split(",") if options.servers else list(cases.EVERYBODY)
    options.names = [name for name in names if name != cases.TWIN]
    for name in options.work:
        if name not in WORK:
            parser.error(f"no work {name}: {', '.join(WORK)}")
    for name in options.names:
        if name not in cases.SERVERS:
            parser.error(f"no server {name}: {', '.join(cases.SERVERS)}")
    return options


def dump(server, prefix):
    """Asks callgrind for its counts now, and reads them.

    Now, and not at exit: a signal does not always interrupt a system call under valgrind, and a
    server that shuts down in order would count its shutdown.
    """
    subprocess.run(["callgrind_control", "--dump", str(server.pid)], capture_output=True,
                   timeout=60, check=False)
    first = Path(f"{prefix}.1")
    found = TOTALS.search(first.read_text()) if first.exists() else None
    if not found:
        raise harness.HarnessError(f"{server.name}: callgrind wrote no totals to {first}")
    return int(found.group(1))


def count(name, command, case, client, requests):
    """Instructions that a fresh server ran until `requests` requests were answered."""
    with tempfile.TemporaryDirectory(prefix="weir-bench.") as folder:
        prefix = Path(folder) / "callgrind"
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={prefix}"]
        cpu = harness.cpus()[0]
        with harness.Server(name, valgrind + command, cpu, valgrind=True) as server:
            client.run(server, case, requests=requests, lock_step=True)
            return dump(server, prefix)


def per_request(name, command, case, client):
    few, many = (count(name, command, case, client, requests) for requests in RUNS)
    return (many - few) / (RUNS[1] - RUNS[0])


def against_ratchet(figure, ratchet):
    """(text for people, whether the ratchet holds).

    The target is what the engine must reach and the goal what we would like; the ratchet keeps what
    has been reached, and is the only one that fails a run.
    """
    if not ratchet:
        return "", True
    target, goal, recorded = ratchet["target"], ratchet["goal"], ratchet["measured"]
    text = f"target {target} {'met' if figure <= target else 'MISSED'}, "
    text += f"goal {goal} {'reached' if figure <= goal else 'not reached'}"
    if figure > recorded * (1 + SLACK):
        return f"{text}; ABOVE the ratchet {recorded} + {SLACK:.0%}", False
    if figure < recorded * (1 - SLACK):
        text += f"; below the recorded {recorded}: --tighten"
    return text, True


def tighten(ratchets, result):
    """Records every ratcheted figure that is lower than the recorded one."""
    for work, servers in ratchets.items():
        for name, ratchet in servers.items():
            figure = result.get(work, {}).get(name, {}).get(RATCHETED)
            if figure is not None:
                ratchet["measured"] = min(ratchet["measured"], round(figure, 1))


def ratchets_text(document):
    """As the file is kept: one server on a line."""
    text = json.dumps(document, indent=1)
    return re.sub(r"\{\s+([^{}]+?)\s+\}", lambda m: "{ " + re.sub(r"\s+", " ", m[1]) + " }", text)


def row_name(connections):
    return "1 connection" if connections == 1 else f"{connections} connections in lock-step"


def measure(options, client, ratchets):
    """({work: {server: {connections: figure}}}, whether every ratchet holds)."""
    result, good = {}, True
    for work in options.work:
        found, absent = cases.commands(options.names, work, options.bin)
        for connections in CONNECTIONS:
            print(f"{work}, {row_name(connections)}:")
            case = replace(WORK[work], name=work, connections=connections)
            for name, command in found.items():
                figure = per_request(name, command, case, client)
                result.setdefault(work, {}).setdefault(name, {})[connections] = figure
                text = ""
                if connections == RATCHETED:
                    text, held = against_ratchet(figure, ratchets.get(work, {}).get(name))
                    good = good and held
                print(f"  {name:<12}{figure:>9.1f}  {text}".rstrip(), flush=True)
        for line in absent:
            print(f"  left out: {line}")
    return result, good


def main():
    options = arguments()
    harness.exit_on_signals()
    document = json.loads(options.ratchets.read_text())
    ratchets = document["instructions_per_request"]
    cpu = harness.cpus()[0]
    client = harness.Client(options.bin / "peers/spin_client", cpu, cpu)
    print(f"user-space instructions per request, {RUNS[0]:,} against {RUNS[1]:,} requests")
    result, good = measure(options, client, ratchets)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "instructions.json"
    path.write_text(json.dumps({"schema": "weir.bench.instructions/2", "runs": RUNS,
                                "figures": result}, indent=1) + "\n")
    print(f"written: {path}")
    if options.tighten:
        tighten(ratchets, result)
        options.ratchets.write_text(ratchets_text(document) + "\n")
        print(f"written: {options.ratchets}")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (harness.HarnessError, FileNotFoundError) as why:
        print(f"bench: {why}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
