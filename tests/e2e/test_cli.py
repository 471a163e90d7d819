"""Bad usage: exit code 2 and one clear line; help and version."""

import json
import os
import re
import resource

import pytest

from servers import run

BAD = [
    ([], "which command"),
    (["ecko"], 'did you mean "echo"'),
    (["qwertzuiop"], "weir --help"),
    (["help", "lnkd"], 'did you mean "linkd"'),
    (["echo", "--lops", "2"], "did you mean --loops"),
    (["echo", "--qwertzuiop"], "weir echo --help"),
    (["echo", "-z"], "no option -z"),
    (["echo", "--loops"], "--loops needs a value"),
    (["echo", "--loops", "many"], '--loops: "many" is not a number'),
    (["echo", "--loops", "-1"], '--loops: "-1" is not a number'),
    (["echo", "--loops", "1.5"], '--loops: "1.5" is not a number'),
    (["echo", "--loops", "99999999999999999999"], "is not a number"),
    (["echo", "--loops", "300"], "--loops: \"300\" is outside 0 to 256"),
    (["echo", "--pin=yes"], "--pin takes no value"),
    (["echo", "--drain", "5"], '--drain: "5" is not a duration'),
    (["echo", "--drain", "5 s"], "is not a duration"),
    (["echo", "--high", "8q"], '--high: "8q" is not a number of bytes'),
    (["echo", "--high", "1"], "--high: \"1\" is outside 1k to 1G"),
    (["echo", "--zero-copy", "300k"], "--zero-copy: \"300k\" is outside 0 to 256k"),
    (["echo", "--transport", "epol"], "did you mean epoll"),
    (["echo", "--trigger", "x"], "none of lt|et"),
    (["echo", "--uring-features", "multi"], "--uring-features: \"multi\" is no list of all"),
    (["probe", "--uring-features", "-all"], "inc-buffers"),
    (["echo", "--transport", "uring", "--trigger", "et"], "--trigger: et is for epoll only"),
    (["echo", "--memory", "1k", "--loops", "2"], "--memory: 1k is too little for 2 loops"),
    (["echo", "--bdp", "10Gbit"], '--bdp: "10Gbit" is no rate and round trip; try 10Gbit,50ms'),
    (["echo", "--bdp", "400Gbit,1s"], "50000000000 bytes in flight; one socket holds"),
    (["echo", "--keepalive", "60,15"], "--keepalive: \"60,15\" is neither"),
    (["echo", "--placement", "hand"], "none of reuseport|handoff"),
    (["echo", "--bdp", "10gbit,50ms"], "(bit to Tbit; us, ms, s)"),
    (["echo", "--steer", "--listen", "127.0.0.1:0"], "it needs --pin"),
    (["echo", "--steer", "--pin", "--placement", "handoff"], "--steer needs --placement reuseport"),
    (["echo", "--steer", "--pin", "--join"], "--steer does not go with --join"),
    (["echo", "--idle", "48h"], "outside 0 to 24h"),
    (["echo", "--watchdog-ms", "1s"], '"1s" is not a number of milliseconds; try 100'),
    (["echo", "--busy-poll-us", "1ms"], "is not a number of microseconds"),
    (["linkd", "--offload", "2,unorderd"], "did you mean unordered?"),
    (["linkd", "--offload", "x,ordered"], "is not N, N,ordered or N,unordered\n"),
    (["--loops", "2"], "options stand behind a command"),
    (["load", "--bdp", "x", "echo://127.0.0.1:1"], "--bdp"),
    (["probe", "--bdp", "x"], "is no rate and round trip"),
    (["probe", "--bdp", "10Tbit,1h"], "one socket holds"),
    (["echo", "extra"], '"extra" is one argument too many'),
    (["echo", "--listen", "nonsense"], "--listen"),
    (["echo", "--listen", "127.0.0.1:99999"], "port"),
    (["echo", "--listen", "192.0.2.1:0"], "--listen"),
    (["linkd", "--handler", "digets"], "did you mean digest"),
    (["linkd", "--digest-rounds", "0"], "--digest-rounds"),
    (["linkd", "--max-frame", "32M"], "outside 64 to 16M"),
    (["probe", "--jsno"], "did you mean --json"),
    (["demo", "--blocks", "1"], "outside 2 to"),
    (["version", "--jason"], "did you mean --json"),
]


@pytest.mark.parametrize("arguments, says", BAD, ids=[" ".join(b[0]) or "nothing" for b in BAD])
def test_bad_usage_is_one_line_and_exit_2(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("weir")


COMMANDS = ["echo", "linkd", "load", "probe", "demo", "version"]


def test_help_lists_every_command():
    done = run("--help")
    assert done.returncode == 0 and done.stderr == ""
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout
    for again in (["help"], ["-h"], ["help", "--help"], ["help", "-h"], ["help", "help"]):
        assert run(*again).stdout == done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_examples(command):
    done = run("help", command)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"usage: weir {command}")
    assert "\nExamples:\n  weir " in done.stdout
    assert run(command, "--help").stdout == done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 140
    options = done.stdout.split("\nOptions:\n")[1].split("\nExamples:\n")[0].splitlines()
    for line in options:  # an option alone, or what it does in the one column
        alone = re.fullmatch(r"  (-\w,|   ) --\S+( \S+)?", line)
        assert alone or line[34] == " " != line[35], line


def test_version():
    text, data = run("version"), json.loads(run("version", "--json").stdout)
    assert text.returncode == 0 and text.stdout.startswith("weir " + data["version"])
    assert data["schema"] == "weir.version/1"
    assert {"compiler", "flags", "checked", "machine"} <= data.keys()
    assert run("--version").stdout == text.stdout


def test_probe():
    data = json.loads(run("probe", "--json").stdout)
    assert data["schema"] == "weir.probe/1"
    facts = {fact["name"]: fact for fact in data["facts"]}
    assert {"kernel", "cpus", "files", "somaxconn", "ports", "epoll-lt", "uring"} <= facts.keys()
    assert facts["epoll-lt"]["verdict"] == "fine"
    with open("/proc/sys/net/core/somaxconn", encoding="ascii") as f:
        assert facts["somaxconn"]["value"] == f.read().strip()
    text = run("probe")
    assert text.returncode == 0 and text.stderr == ""
    assert len(text.stdout.splitlines()) == len(facts)


def test_probe_tries_what_io_uring_does():
    def probe(*arguments, **options):
        done = run("probe", "--json", *arguments, **options)
        return {fact["name"]: fact for fact in json.loads(done.stdout)["facts"]}

    facts = probe()
    if facts["uring"]["verdict"] == "missing":
        assert facts["uring"]["note"] and facts["auto"]["value"] == "epoll"
        return
    assert {"uring.multi-recv", "uring.defer", "uring.zero-copy"} <= facts.keys()
    without = probe("--uring-features", "-defer")
    assert without["uring.defer"]["value"] == "switched off"
    assert without["auto"]["value"] == "epoll" and "defer" in without["auto"]["note"]
    none = probe(env=dict(os.environ, WEIR_URING_FEATURES="none"))
    values = {fact["value"] for name, fact in none.items() if name.startswith("uring.")}
    assert values == {"switched off"}


def test_probe_says_what_is_too_small():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    done = run("probe", "--json", preexec_fn=limit)
    facts = {fact["name"]: fact for fact in json.loads(done.stdout)["facts"]}
    assert facts["files"]["verdict"] == "too small" and facts["files"]["value"].startswith("64 now")
