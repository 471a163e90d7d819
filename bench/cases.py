"""What is measured: the work, the servers that can do it, and what is claimed about them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional


@dataclass(frozen=True)
class Case:
    name: str
    work: str  # what the server does: echo, linkd, digest
    mode: str  # what the client does: long, short, linkd, linkd-short, digest
    connections: int
    size: int


@dataclass(frozen=True)
class Claim:
    """`server` costs at most `limit` times `base`; `by` says which figure must be below it.

    The goal is what we would like: a number, or, when it depends on the machine, GOAL_SLACK more
    than what `goal_server` costs against `goal_base` in the same run.
    """

    server: str
    base: str
    limit: float
    by: str = "median"  # or "high": the upper end of the interval
    goal: Optional[float] = None
    goal_server: str = ""
    goal_base: str = ""


GOAL_SLACK = 0.02


ECHO = [
    Case(f"{mode}-{connections}", "echo", mode, connections, 12)
    for mode in ("long", "short")
    for connections in (1, 100, 1000)
]
LINKD = [Case("linkd-100", "linkd", "linkd", 100, 8192)]
DIGEST = [Case("digest-100", "digest", "digest", 100, 8192)]
# io_uring against epoll, each beside its own bare loop.
TRANSPORT = [
    Case(f"{work}-{'short' if 'short' in mode else 'long'}-{connections}-{name}", work, mode,
         connections, size)
    for work, modes in (("echo", ("long", "short")), ("linkd", ("linkd", "linkd-short")))
    for mode in modes
    for connections in (1, 100, 1000)
    for name, size in (("12", 12), ("8k", 8192))
]
GROUPS = {"echo": ECHO, "linkd": LINKD, "digest": DIGEST, "transport": TRANSPORT,
          "all": ECHO + LINKD + DIGEST}

# The baseline of every ratio. TWIN is a second process of the same program: its ratio says how far
# from 1 this machine, in this run, can stray by chance.
BASE = "bare-lt"
TWIN = "bare-lt-twin"

CLAIMS = [
    Claim("weir-epoll", "bare-lt", 1.08, goal=1.03),
    Claim("weir-uring", "bare-uring", 1.08, goal=1.03),
    Claim("weir-epoll", "uv", 1.03, by="high"),
    Claim("weir-uring", "weir-epoll", 1.03, goal_server="bare-uring", goal_base="bare-lt"),
]


def _bare(trigger):
    return lambda bin_dir, work: [
        bin_dir / "peers/bare_epoll", "--work", work, "--trigger", trigger,
        "--listen", "127.0.0.1:0",
    ]


def _peer(program):
    return lambda bin_dir, work: [
        bin_dir / "peers" / program, "--work", work, "--listen", "127.0.0.1:0",
    ]


WEIR_COMMANDS = {
    "echo": ["echo"],
    "linkd": ["linkd", "--handler", "echo"],
    "digest": ["linkd", "--handler", "digest"],
}


def _weir(transport, *flags):
    def command(bin_dir, work):
        what = WEIR_COMMANDS[work]
        return [
            bin_dir / "weir", *what, "--listen", "127.0.0.1:0", "--loops", "1",
            "--transport", transport, *flags,
        ]

    return command


EVERY = frozenset(("echo", "linkd", "digest"))
NO_DIGEST = frozenset(("echo", "linkd"))

# name -> (what it can do, how it is started)
SERVERS = {
    BASE: (EVERY, _bare("lt")),
    TWIN: (EVERY, _bare("lt")),
    "bare-et": (EVERY, _bare("et")),
    "bare-uring": (EVERY, _peer("bare_uring")),
    "uv": (NO_DIGEST, _peer("uv_echo")),
    "event": (NO_DIGEST, _peer("event_echo")),
    "weir-epoll": (EVERY, _weir("epoll")),
    "weir-uring": (EVERY, _weir("uring")),
    # By name only: without what the door could do without.
    "weir-uring-requests": (EVERY, _weir("uring", "--uring-features=-sync-send")),
    "weir-uring-plain": (EVERY, _weir("uring", "--uring-features=-inc-buffers")),
    "weir-uring-one-shot": (EVERY, _weir("uring", "--uring-features=-multi-recv")),
}
BY_NAME = frozenset(("weir-uring-requests", "weir-uring-plain", "weir-uring-one-shot"))
EVERYBODY = tuple(name for name in SERVERS if name not in BY_NAME)


# Who takes part in a group, where that is not everybody.
GROUP_SERVERS = {"transport": (TWIN, BASE, "bare-uring", "weir-epoll", "weir-uring")}


def commands(names, work, bin_dir):
    """({name: command}, [why a name is left out]) for the servers that exist and can do `work`."""
    found, absent = {}, []
    for name in names:
        works, command = SERVERS[name]
        line = command(Path(bin_dir), work)
        if work not in works:
            absent.append(f"{name}: has no {work}")
        elif not line[0].exists():
            absent.append(f"{name}: {line[0].name} is not built")
        else:
            found[name] = line
    return found, absent
