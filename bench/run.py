#!/usr/bin/env python3
"""Server CPU per request, Weir and its peers, as ratios inside one interleaved run.

bench/README.md says why it is done this way and how to read the table.
Exit code: 0 no claim missed, 1 a claim missed, 2 usage, 3 nothing could be judged.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path

import accounting
import cases
import harness
import idle
import instructions
import offload
import syscalls
from stats import median_interval, paired_ratios

SLICES_MIN = 30
BUSY_PCT = 95.0
TWIN_STRAY_MAX = 0.03
COST = "server_cpu_us"
APART = {  # what is measured in a way of its own
    "accounting": accounting.main,
    "idle": idle.main,
    "instructions": instructions.main,
    "offload": offload.main,
    "syscalls": syscalls.main,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", nargs="?", default="all",
                        choices=[*sorted(cases.GROUPS), *sorted(APART)],
                        help="which cases; what is no ratio of CPU time has a program of its own: "
                             + ", ".join(f"{name} runs {name}.py" for name in sorted(APART)))
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--servers",
                        help="comma list; default: all that are built and belong to the group")
    parser.add_argument("--slices", type=int, default=SLICES_MIN, help="per case and server")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a slice")
    parser.add_argument("--warm-ms", type=float, default=50)
    parser.add_argument("--foreign-max", type=float, default=12.0,
                        help="percent of a CPU that others may use before a slice is done again")
    parser.add_argument("--seed", type=int, help="of the order; default: from the clock")
    parser.add_argument("--bin", type=Path, default=harness.ROOT / "build/release/bin")
    parser.add_argument("--out", type=Path, default=harness.ROOT / "build/bench")
    parser.add_argument("--name", help="of the result files; default: the group")
    options = parser.parse_args()
    known = [case.name for case in cases.GROUPS[options.group]]
    for name in options.case or []:
        if name not in known:
            parser.error(f"no case {name} in {options.group}: {', '.join(known)}")
    options.names = (options.servers.split(",") if options.servers
                     else list(cases.GROUP_SERVERS.get(options.group, cases.EVERYBODY)))
    for name in options.names:
        if name not in cases.SERVERS:
            parser.error(f"no server {name}: {', '.join(cases.SERVERS)}")
    for name in (cases.TWIN, cases.BASE):  # every table has its baseline and its noise
        if name not in options.names:
            options.names.insert(0, name)
    if options.slices < 1 or options.seconds <= 0:
        parser.error("--slices and --seconds must be positive")
    return options


def measure(case, servers, client, options, order):
    """One list entry per slice: {server name: what the client reported}.

    Goes on until as many slices as asked for are complete, or twice as many were begun.
    """
    slices, complete = [], 0
    while complete < options.slices and len(slices) < 2 * options.slices:
        names = list(servers)
        order.shuffle(names)
        one = {}
        for name in names:
            got = client.run_quiet(servers[name], case, options.foreign_max,
                                   seconds=options.seconds, warm_ms=options.warm_ms)
            if got:
                one[name] = got
        slices.append(one)
        complete += len(one) == len(servers)
    return slices


def median_of(slices, name, key):
    values = [one[name][key] for one in slices if name in one]
    return statistics.median(values) if values else None


def used(slices, name):
    """Whether the server, or a client that spun for it, had no time to spare.

    A client that never left its CPU was spinning; a saturated server needs no such proof.
    """
    busy = [median_of(slices, name, key) for key in ("server_busy_pct", "client_busy_pct")]
    return None not in busy and max(busy) >= BUSY_PCT


def row(slices, name):
    """One line of the table, or None when the server never had a quiet slice with its base."""
    ratios = paired_ratios(slices, name, cases.BASE, COST)
    if not ratios:
        return None
    return {
        "server": name,
        "ratio": vars(median_interval(ratios)),
        "rate_ratio": statistics.median(paired_ratios(slices, name, cases.BASE, "rate")),
        "server_busy_pct": median_of(slices, name, "server_busy_pct"),
        "client_busy_pct": median_of(slices, name, "client_busy_pct"),
        "judged": len(ratios) >= SLICES_MIN and used(slices, name),
        "cost_us": median_of(slices, name, COST),
    }


def goal_of(claim, slices):
    """The claim's goal as a number, or None when it has none or cannot be worked out here."""
    if not claim.goal_server:
        return claim.goal
    like = paired_ratios(slices, claim.goal_server, claim.goal_base, COST)
    return statistics.median(like) + cases.GOAL_SLACK if like else None


def doubt(claim, slices, ratio):
    """Why the claim cannot be judged by `ratio`, its own pair's, or None when it can."""
    if not ratio or ratio.count < SLICES_MIN:
        return f"{ratio.count if ratio else 0} slices"
    if not (used(slices, claim.server) and used(slices, claim.base)):
        return "neither server nor client was busy"
    twin = paired_ratios(slices, cases.TWIN, cases.BASE, COST)
    if len(twin) < SLICES_MIN:
        return "no twin"
    if abs(statistics.median(twin) - 1) > TWIN_STRAY_MAX:
        return "twin strays"
    return None


def judge(claim, slices):
    """The claim's verdict in this case: held, missed, or not judged and why."""
    ratios = paired_ratios(slices, claim.server, claim.base, COST)
    ratio = median_interval(ratios) if ratios else None
    value = ratio and (ratio.median if claim.by == "median" else ratio.high)
    why = doubt(claim, slices, ratio)
    if why:
        verdict = f"not judged ({why})"
    else:
        verdict = "held" if value <= claim.limit else "missed"
    goal = goal_of(claim, slices)
    return {**vars(claim), "goal": goal, "ratio": ratio and vars(ratio), "value": value,
            "verdict": verdict,
            "goal_reached": None not in (goal, value) and value <= goal}


def exit_code(results):
    """1 when a claim was missed, 3 when none could be judged, else 0."""
    verdicts = [claim["verdict"] for one in results for claim in one["claims"]]
    if "missed" in verdicts:
        return 1
    return 0 if "held" in verdicts else 3


def report_case(case, rows, claims):
    print(f"\n{case.name}: {case.work} of {case.size} B, {case.connections} connections; "
          f"server CPU per request / {cases.BASE}")
    least = min((one["ratio"]["coverage"] for one in rows.values()), default=0)
    covered = f"{least:.0%} interval"
    print(f"  {'server':<14}{'ratio':>7}  {covered:<17}{'rate':>6}{'slices':>8}"
          f"{'busy s/c %':>12}  {'':<10}{'us here':>8}")
    for one in rows.values():
        ratio = one["ratio"]
        busy = f"{one['server_busy_pct']:.0f}/{one['client_busy_pct']:.0f}"
        print(f"  {one['server']:<14}{ratio['median']:>7.3f}  "
              f"{ratio['low']:.3f} .. {ratio['high']:.3f}   {one['rate_ratio']:>6.2f}"
              f"{ratio['count']:>8}{busy:>12}  {'judged' if one['judged'] else 'reported':<10}"
              f"{one['cost_us']:>8.2f}")
    for claim in claims:
        ratio, figures = claim["ratio"], ""
        if ratio:
            figures = f" {claim['value']:.3f} in {ratio['low']:.3f} .. {ratio['high']:.3f}:"
        print(f"  claim: {claim['server']} <= {claim['limit']:.2f} x {claim['base']} "
              f"({claim['by']}):{figures} "
              f"{claim['verdict']}{', goal reached' if claim['goal_reached'] else ''}")


def run_case(case, names, client, options, order):
    """Measures one case with all its servers up at once; returns its part of the result."""
    found, absent = cases.commands(names, case.work, options.bin)
    with harness.servers_started(found, harness.cpus()[0]) as (servers, failed):
        absent += failed
        if cases.BASE not in servers:
            raise harness.HarnessError("; ".join(absent))
        slices = measure(case, servers, client, options, order)
    rows = {name: got for name in servers if (got := row(slices, name))}
    claims = [judge(claim, slices) for claim in cases.CLAIMS
              if claim.server in servers and claim.base in servers]
    lost = sum(len(servers) - len(one) for one in slices)
    report_case(case, rows, claims)
    for line in absent:
        print(f"  left out: {line}")
    if lost:
        print(f"  {lost} measurements dropped: others used more than {options.foreign_max:.0f} % "
              "of a CPU, four times in a row")
    return {**vars(case), "rows": list(rows.values()), "claims": claims, "absent": absent,
            "dropped": lost, "slices": slices}


def run_twins(case, client, options, order):
    """The A/A pair, alone and first: what this machine makes of no difference at all."""
    print(f"A/A first: {cases.BASE} against a second process of itself")
    result = run_case(case, [cases.BASE, cases.TWIN], client, options, order)
    twin = [one for one in result["rows"] if one["server"] == cases.TWIN]
    stray = abs(twin[0]["ratio"]["median"] - 1) if twin else None
    if stray is None or stray > TWIN_STRAY_MAX:
        print(f"  WARNING: the twin strays by more than {TWIN_STRAY_MAX:.0%}: this machine is too "
              "restless to claim anything now")
    return result


def measure_cases(wanted, client, options, order, keep):
    """Gives each result to `keep` as soon as it is there.

    Long connections first; the short ones together, with TIME_WAIT off for just that long.
    """
    for case in (one for one in wanted if "short" not in one.mode):
        keep(run_case(case, options.names, client, options, order))
    short = [one for one in wanted if "short" in one.mode]
    if not short:
        return
    with harness.no_time_wait() as allowed:
        if not allowed:
            print(f"\nshort connections skipped: {harness.TW_BUCKETS} may not be written, and "
                  "TIME_WAIT would use up the ports")
            return
        for case in short:
            keep(run_case(case, options.names, client, options, order))


def new_document(options, seed):
    programs, _ = cases.commands(cases.EVERYBODY, "echo", options.bin)
    return {
        "schema": "weir.bench/1",
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": harness.machine(),
        "programs": {name: harness.version_of(line[0]) for name, line in programs.items()},
        "method": {"slices": options.slices, "seconds": options.seconds, "seed": seed,
                   "warm_ms": options.warm_ms, "foreign_max_pct": options.foreign_max},
        "complete": False,
        "aa": None,
        "cases": [],
    }


def save(path, document):
    """Whole or not at all: whoever interrupts the run finds what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(document, indent=1) + "\n")
    os.replace(beside, path)


def main():
    if sys.argv[1:] and sys.argv[1] in APART:
        return APART[sys.argv.pop(1)]()
    options = arguments()
    harness.exit_on_signals()
    harness.raise_file_limit()
    seed = options.seed if options.seed is not None else time.time_ns() % 2**32
    order = random.Random(seed)
    client = harness.Client(options.bin / "peers/spin_client", *harness.cpus())
    wanted = [one for one in cases.GROUPS[options.group]
              if not options.case or one.name in options.case]
    first = next((one for one in wanted if "short" not in one.mode), cases.ECHO[1])
    if options.slices < SLICES_MIN:
        print(f"{options.slices} slices: too few to judge by (the method needs {SLICES_MIN})")
    path = options.out / f"{options.name or options.group}.json"
    document = new_document(options, seed)

    def keep(result):
        document["cases"].append(result)
        save(path, document)

    document["aa"] = run_twins(first, client, options, order)
    measure_cases(wanted, client, options, order, keep)
    document["complete"] = True
    save(path, document)
    print(f"\nwritten: {path}")
    return exit_code(document["cases"])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except harness.HarnessError as why:
        print(f"bench: {why}", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
