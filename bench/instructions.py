#!/usr/bin/env python3
"""User-space instructions per request under callgrind: two runs are subtracted, start-up cancels.

Repeatable to about 0.2 % whatever else the machine does; says nothing about the kernel, and
callgrind does not see what a clock read costs.
Exit code: 0 within the ratchets, 1 above one, 2 usage, 3 not run.
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

CONNECTIONS = 8
RUNS = (2_000, 12_000)
SLACK = 0.05  # a ratchet this far above the figure can be tightened
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
    options = parser.parse_args()
    options.work = options.work or list(WORK)
    names = options.servers.split(",") if options.servers else list(cases.SERVERS)
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
        with harness.Server(name, valgrind + command, harness.cpus()[0]) as server:
            client.run(server, case, requests=requests)
            return dump(server, prefix)


def per_request(name, command, case, client):
    few, many = (count(name, command, case, client, requests) for requests in RUNS)
    return (many - few) / (RUNS[1] - RUNS[0])


def against_ratchet(figure, ratchet):
    """(text for people, whether the ratchet holds)."""
    if not ratchet:
        return "", True
    limit, goal = ratchet["max"], ratchet["goal"]
    if figure > limit:
        return f"ABOVE the ratchet {limit}", False
    text = f"ratchet {limit}, goal {goal}{' reached' if figure <= goal else ''}"
    if figure < limit * (1 - SLACK):
        text += f"; can be tightened to {round(figure * (1 + SLACK / 2))}"
    return text, True


def main():
    options = arguments()
    harness.exit_on_signals()
    ratchets = json.loads(options.ratchets.read_text())["instructions_per_request"]
    client = harness.Client(options.bin / "peers/spin_client", *harness.cpus())
    result, good = {}, True
    print(f"user-space instructions per request, {CONNECTIONS} connections, "
          f"{RUNS[0]:,} against {RUNS[1]:,} requests")
    for work in options.work:
        case = replace(WORK[work], name=work, connections=CONNECTIONS)
        found, absent = cases.commands(options.names, work, options.bin)
        for name, command in found.items():
            figure = per_request(name, command, case, client)
            text, held = against_ratchet(figure, ratchets.get(work, {}).get(name))
            good = good and held
            result.setdefault(work, {})[name] = figure
            print(f"  {work:<7}{name:<12}{figure:>9.1f}  {text}", flush=True)
        for line in absent:
            print(f"  {work:<7}left out: {line}")
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "instructions.json"
    path.write_text(json.dumps({"schema": "weir.bench.instructions/1", "runs": RUNS,
                                "connections": CONNECTIONS, "figures": result}, indent=1) + "\n")
    print(f"written: {path}")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (harness.HarnessError, FileNotFoundError) as why:
        print(f"bench: {why}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
