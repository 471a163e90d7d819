"""weir load against our servers, and against small servers that misbehave in known ways."""

import json
import math
import os
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest
from servers import BIN, SLOW, run, serving

OUTCOMES = ("ok", "failed", "timed_out", "cancelled", "in_flight")


def load(target, *arguments):
    """(exit code, report, stderr)."""
    done = run("load", *arguments, "-q", "--json", "-", target)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def balanced(ledger):
    return ledger["started"] == sum(ledger[name] for name in OUTCOMES)


def classes(report):
    return {e["class"]: e["count"] for e in report["errors"]}


class Peer:
    """A listening socket on a free port; serve(connection) runs in a thread per connection."""

    def __init__(self, serve):
        self.serve = serve
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def echo_until(limit):
    """Echoes, and closes after so many bytes."""

    def serve(connection):
        left = limit
        while left and (data := connection.recv(min(left, 65536))):
            connection.sendall(data)
            left -= len(data)

    return serve


def sink(connection):
    while connection.recv(65536):
        pass


# --- counts and ledger ----------------------------------------------------------------------------


@pytest.mark.parametrize("connections", [1, 7, 50])
@pytest.mark.parametrize("loops", [1, 3])
@pytest.mark.parametrize("in_flight", [1, 5])
def test_total_is_exact(connections, loops, in_flight):
    with serving("echo", "--loops", "1") as s:
        target = f"echo://127.0.0.1:{s.port}"
        arguments = ("-c", str(connections), "-t", str(loops), "-m", str(in_flight))
        _, report, _ = load(target, *arguments, "-n", "1003", "--warmup", "2/conn")
    assert report["ledger"]["started"] == report["ledger"]["ok"] == 1003
    assert report["warmup"]["started"] == report["warmup"]["ok"] == 2 * connections
    assert report["latency"]["response"]["n"] == 1003
    assert report["options"]["loops"] == min(loops, connections)
    assert report["errors"] == [] and report["end"] == "done"


def test_share_per_connection():
    with serving("linkd", "--loops", "1") as s:
        code, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "20", "-n", "30/conn", "--warmup", "10/conn",
            "--verify", "echo",
        )
    assert report["ledger"]["ok"] == report["ledger"]["started"] == 600
    assert report["warmup"]["ok"] == 200
    assert code in (0, 3)


def test_fewer_requests_than_connections():
    with serving("echo", "--loops", "1") as s:
        _, report, _ = load(f"echo://127.0.0.1:{s.port}", "-c", "10", "-n", "3")
    assert report["ledger"]["ok"] == report["ledger"]["started"] == 3


def test_short_connections_do_not_fail():
    with serving("echo") as s:
        code, report, _ = load(f"echo://127.0.0.1:{s.port}", "-c", "100", "-n", "5000", "--short")
    assert report["ledger"]["ok"] == report["ledger"]["started"] == 5000
    assert report["client"]["connections_opened"] == report["latency"]["connect"]["n"] == 5000
    assert report["errors"] == [] and code in (0, 3)
    assert report["latency"]["service"]["mean"] < report["latency"]["response"]["mean"]


def test_short_warmup_is_not_in_the_numbers():
    with serving("echo", "--loops", "1") as s:
        _, report, _ = load(
            f"echo://127.0.0.1:{s.port}", "-c", "5", "-n", "200", "--short", "--warmup", "10/conn"
        )
    assert report["warmup"]["ok"] == 50 and report["ledger"]["ok"] == 200
    assert report["client"]["connections_opened"] == report["latency"]["connect"]["n"] == 200


def test_short_linkd():
    with serving("linkd", "--loops", "1") as s:
        _, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "5", "-n", "200", "--short", "--verify", "echo"
        )
    assert report["ledger"]["ok"] == report["client"]["connections_opened"] == 200


@pytest.mark.parametrize("size", ["1", "7", "8", "9", "1024", "1025", "300k"])
def test_echo_of_every_size_is_verified(size):
    with serving("echo", "--loops", "1") as s:
        _, report, _ = load(
            f"echo://127.0.0.1:{s.port}", "-c", "2", "-m", "3", "-n", "50", "-b", size
        )
    assert report["ledger"]["ok"] == 50, report["errors"]


def test_duration_leaves_what_is_in_flight():
    with serving("echo", "--loops", "1") as s:
        code, report, _ = load(
            f"echo://127.0.0.1:{s.port}", "-c", "4", "-m", "2", "-d", "1s", "--warmup", "50ms",
            "--stats-pid", str(s.pid), "--seed", "7",
        )
    assert code == 0 and report["validity"] == {"ok": True, "reasons": []}
    assert report["end"] == "time" and report["window"]["ns"] == 1000000000
    assert balanced(report["ledger"]) and report["ledger"]["in_flight"] <= 8
    assert report["seed"] == 7 and report["warmup"]["ok"] > 0
    assert 0 < report["client"]["busy_share"] <= 1
    assert report["server"]["cpu_us_per_request"] > 0 and report["server"]["threads"] >= 1
    little = report["little"]
    assert little["configured"] == 8 and little["l"] <= 8.1
    expected = report["achieved"]["requests_per_s"] * report["latency"]["response"]["mean"] / 1e9
    assert math.isclose(little["l"], expected, rel_tol=1e-6)


def test_schema():
    with serving("linkd", "--loops", "1", "--handler", "digest") as s:
        _, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "2", "-n", "60", "--verify", "digest"
        )
    assert report["schema"] == "weir.load/1" and report["mode"] == "closed"
    assert set(report) == {
        "schema", "tool", "target", "mode", "seed", "options", "end", "window", "achieved",
        "ledger", "warmup", "latency", "errors", "little", "client", "server", "validity",
        "exit_code",
    }
    assert set(report["ledger"]) == {"started", *OUTCOMES}
    for name in ("response", "service", "lag", "connect"):
        assert set(report["latency"][name]) == {"n", "min", "mean", "max", "p"}
        assert set(report["latency"][name]["p"]) == {"50", "90", "95", "99", "99.9"}
    assert report["server"] is None and report["ledger"]["ok"] == 60
    p = report["latency"]["response"]["p"]
    assert p["90"] is not None and p["99"] is None  # 60 values know a p90 (36) and no p99 (368)


# --- what goes wrong ------------------------------------------------------------------------------


def test_wrong_answers_are_found_out():
    def lie(connection):
        while data := connection.recv(65536):
            connection.sendall(bytes([data[0] ^ 1]) + data[1:])

    with Peer(lie) as peer:
        code, report, err = load(f"echo://{peer.address}", "-c", "1", "-n", "100")
    assert code == 4 and "does that server speak echo" in err
    assert report["ledger"]["ok"] == 0 and report["ledger"]["failed"] == 5
    assert classes(report) == {"verify": 5}


def test_wrong_answers_make_the_run_invalid():
    with serving("linkd", "--loops", "1") as s:
        code, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "4", "-d", "1100ms", "-b", "64",
            "--verify", "digest",
        )
    ledger = report["ledger"]
    assert ledger["ok"] == 0 and ledger["failed"] > 100 and report["end"] == "time"
    assert code == report["exit_code"] == 3 and not report["validity"]["ok"]
    reasons = " ".join(report["validity"]["reasons"])
    assert "no request was ok" in reasons and "answers were wrong" in reasons
    assert "100.0 % of the requests failed" in reasons
    assert report["achieved"]["requests_per_s"] == 0


@pytest.mark.parametrize("size", ["0", "3", "8", "100", "8k"])
def test_digests_are_verified(size):
    target = ("-c", "3", "-n", "300", "-b", size, "--verify", "digest", "--digest-rounds", "3")
    with serving("linkd", "--loops", "1", "--handler", "digest", "--digest-rounds", "3") as s:
        _, report, _ = load(f"linkd://127.0.0.1:{s.port}", *target)
    assert report["ledger"]["ok"] == 300 and report["errors"] == []
    assert report["options"]["digest_rounds"] == 3


def test_other_rounds_are_another_digest():
    with serving("linkd", "--loops", "1", "--handler", "digest", "--digest-rounds", "2") as s:
        code, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "2", "-n", "20", "--verify", "digest",
            "--digest-rounds", "3",
        )
    assert code == 3 and report["ledger"]["failed"] == 20 and classes(report) == {"verify": 20}


def test_answer_of_the_wrong_kind():
    with serving("linkd", "--loops", "1") as s:
        _, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "1", "-n", "20", "--verify", "digest"
        )
    assert report["ledger"]["failed"] == 20 and classes(report) == {"verify": 20}


def test_server_that_closes_after_some_bytes():
    with Peer(echo_until(50)) as peer:  # four requests of 12 bytes and a piece
        code, report, _ = load(f"echo://{peer.address}", "-c", "3", "-n", "10/conn")
    ledger = report["ledger"]
    assert (ledger["started"], ledger["ok"], ledger["failed"]) == (30, 24, 6) and balanced(ledger)
    assert sum(classes(report).values()) == 6
    assert all(name.startswith("closed") for name in classes(report))
    assert report["client"]["connections_opened"] == 6 and code == 3


def test_server_that_closes_at_once():
    with Peer(lambda connection: None) as peer:
        code, report, err = load(f"linkd://{peer.address}", "-c", "2", "-n", "1000", "-b", "1")
    assert code == 4 and "5 times in a row" in err and "does that server speak linkd" in err
    assert balanced(report["ledger"]) and report["ledger"]["ok"] == 0
    assert not any("GONE" in name for name in classes(report))


@pytest.mark.parametrize("target", ["echo", "linkd"])
def test_server_that_never_answers(target):
    with Peer(sink) as peer:
        code, report, _ = load(
            f"{target}://{peer.address}", "-c", "2", "-n", "3/conn", "--timeout", "50ms"
        )
    assert report["ledger"]["timed_out"] == report["ledger"]["started"] == 6
    assert classes(report) == {"timeout": 6} and code == 3
    assert "no request finished" in report["validity"]["reasons"]


@pytest.mark.parametrize("target", ["echo", "linkd"])
def test_server_that_never_answers_is_named_so(target):
    with Peer(sink) as peer:
        code, _, err = load(
            f"{target}://{peer.address}", "-c", "1", "-n", "100", "--timeout", "20ms"
        )
    assert code == 4 and err.count("\n") == 1
    assert "accepts connections but does not answer" in err and "speak" not in err


def test_late_request_takes_its_siblings_along():
    def first_only(connection):
        data = b""
        while len(data) < 24:
            data += connection.recv(65536)
        time.sleep(0.15)  # tidy-ok: a server that is late on purpose
        connection.sendall(data[:12])
        sink(connection)

    with Peer(first_only) as peer:
        _, report, _ = load(
            f"echo://{peer.address}", "-c", "1", "-m", "2", "-n", "3", "--timeout", "300ms"
        )
    ledger = report["ledger"]
    assert ledger["ok"] == 1 and ledger["timed_out"] >= 1
    assert ledger["timed_out"] + ledger["cancelled"] == 2 and balanced(ledger)


def test_error_answers_are_counted_by_code():
    with serving("linkd", "--loops", "1") as s:
        _, report, _ = load(
            f"linkd://127.0.0.1:{s.port}", "-c", "2", "-n", "10", "-b", "2M"
        )
    assert classes(report) == {"answer 2 too large": 10}
    assert report["ledger"]["failed"] == 10 and report["client"]["connections_opened"] == 2


def test_server_that_dies():
    with serving("echo", "--loops", "1") as s:
        timer = threading.Timer(0.5, s.process.kill)
        timer.start()
        code, report, err = load(f"echo://127.0.0.1:{s.port}", "-c", "5", "-d", "30s")
        timer.join()
    assert f"stopped answering after {report['ledger']['ok']} requests" in err
    assert "speak" not in err
    assert code == 4 and report["end"] == "unreachable" and balanced(report["ledger"])
    assert "connect EREFUSED" in classes(report)
    assert any("every connection kept failing" in r for r in report["validity"]["reasons"])


@pytest.mark.parametrize("mode", [(), ("--short",)])
def test_unreachable(mode):
    with socket.create_server(("127.0.0.1", 0)) as s:
        address = f"127.0.0.1:{s.getsockname()[1]}"
    done = run("load", "-c", "5", *mode, f"echo://{address}")
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and address in done.stderr and "EREFUSED" in done.stderr


# --- the end --------------------------------------------------------------------------------------


def interrupted(target, ready, *arguments):
    """(exit code, report, text): SIGINT once ready is set."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        process = subprocess.Popen(
            [BIN, "load", *arguments, "--json", path, target], stdout=subprocess.PIPE, text=True
        )
        assert ready.wait(SLOW)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=SLOW)
        with open(path, encoding="utf-8") as file:
            return process.returncode, json.load(file), text


def test_interrupt_gives_a_complete_report():
    ready, served = threading.Event(), [0]

    def serve(connection):
        while data := connection.recv(65536):
            connection.sendall(data)
            served[0] += 1
            if served[0] > 300:
                ready.set()

    with Peer(serve) as peer:
        code, report, text = interrupted(f"echo://{peer.address}", ready, "-c", "3", "-d", "60s")
    assert code == report["exit_code"] == 130 and report["end"] == "interrupted"
    assert balanced(report["ledger"]) and report["ledger"]["ok"] >= 100
    assert report["latency"]["response"]["n"] == report["ledger"]["ok"]
    assert text.startswith("mode ") and ", interrupted" in text
    last = text.splitlines()[-1]  # too short a window is INVALID, as in any other run
    so_far = "VALID so far (interrupted after "
    assert last.startswith(so_far if report["validity"]["ok"] else "INVALID: ")
    assert "VALID\n" not in text


def test_interrupt_while_warming_up():
    ready = threading.Event()

    def serve(connection):
        ready.set()
        sink(connection)

    with Peer(serve) as peer:
        code, report, _ = interrupted(
            f"echo://{peer.address}", ready, "-c", "2", "--warmup", "5/conn", "-n", "10"
        )
    assert code == 130 and report["ledger"]["started"] == 0 and balanced(report["warmup"])
    assert "the measured window never began" in report["validity"]["reasons"]


# --- numbers --------------------------------------------------------------------------------------


def test_percentiles_of_known_delays():
    """No request is answered before its delay: each quantile is at least that of the delays."""
    delays = [0.001] * 300 + [0.02] * 68 + [0.08] * 32

    def serve(connection):
        for delay in delays:
            data = b""
            while len(data) < 12:
                data += connection.recv(12 - len(data)) or b"x" * 12
            time.sleep(delay)  # tidy-ok: the delay is what the quantiles are checked against
            connection.sendall(data)
        sink(connection)

    with Peer(serve) as peer:
        _, report, _ = load(f"echo://{peer.address}", "-c", "1", "-n", str(len(delays)))
    response = report["latency"]["response"]
    for name, value in response["p"].items():
        if value is None:
            assert name == "99.9"
            continue
        exact = sorted(delays)[math.ceil(float(name) / 100 * len(delays)) - 1]
        assert value >= exact * 1e9, name
    assert response["p"]["50"] < 0.02e9 < response["p"]["90"] < 0.08e9 <= response["p"]["95"]
    assert response["mean"] >= sum(delays) / len(delays) * 1e9
    assert 0.9 < report["little"]["ratio"] <= 1.01 and report["validity"]["ok"]


# --- the command line -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--conections", "3", "echo://127.0.0.1:1"], "--connections"),
        (["--warm-up", "3", "echo://127.0.0.1:1"], "--warmup"),
        (["ehco://127.0.0.1:1"], "echo://"),
        (["lnkd://127.0.0.1:1"], "linkd://"),
        (["127.0.0.1:1"], "echo://HOST:PORT"),
        (["echo://127.0.0.1"], "no port"),
        (["echo://nowhere:1"], "no address"),
        ([], "TARGET"),
        (["-c", "0", "echo://127.0.0.1:1"], "connections"),
        (["-n", "0", "echo://127.0.0.1:1"], "300/conn"),
        (["-n", "5/con", "echo://127.0.0.1:1"], "300/conn"),
        (["--warmup", "x", "echo://127.0.0.1:1"], "10/conn"),
        (["-b", "17M", "echo://127.0.0.1:1"], "16M"),
        (["-b", "0", "echo://127.0.0.1:1"], "one byte"),
        (["-d", "10", "echo://127.0.0.1:1"], "duration"),
        (["-R", "100", "echo://127.0.0.1:1"], "open loop"),
        (["--short", "-m", "2", "echo://127.0.0.1:1"], "--short"),
        (["--verify", "ecko", "linkd://127.0.0.1:1"], "echo"),
        (["--verify", "digest", "echo://127.0.0.1:1"], "linkd://"),
        (["--verify", "digest", "--digest-rounds", "1M", "linkd://127.0.0.1:1"], "beforehand"),
        (["--transport", "urnig", "echo://127.0.0.1:1"], "uring"),
        (["--stats-pid", "2147483647", "echo://127.0.0.1:1"], "--stats-pid"),
    ],
)
def test_bad_usage(arguments, says):
    done = run("load", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and says in done.stderr


def test_listeners_are_counted():
    with serving("echo", "--loops", "2") as s:
        target = f"echo://127.0.0.1:{s.port}"
        code, _, err = load(target, "-n", "10", "--loops-expected", "3")
        assert code == 2 and "2 listeners of 1 process" in err
        _, report, _ = load(target, "-n", "10", "--loops-expected", "2")
        assert report["ledger"]["ok"] == 10
        with serving("echo", "--loops", "1", "--join", "--listen", f"127.0.0.1:{s.port}"):
            code, _, err = load(target, "-n", "10", "--loops-expected", "3")
            assert code == 2 and "3 listeners of 2 processes" in err


def test_json_that_cannot_be_written():
    with serving("echo", "--loops", "1") as s:
        target = f"echo://127.0.0.1:{s.port}"
        done = run("load", "-n", "10", "--json", "/nowhere/x", target)
        assert done.returncode == 2 and "/nowhere/x" in done.stderr
        assert done.stdout == "" and done.stderr.count("\n") == 1  # it says so before it measures


def test_report_for_people():
    with serving("linkd", "--loops", "1") as s:
        done = run("load", "-c", "2", "-n", "40", "--seed", "5", f"linkd://127.0.0.1:{s.port}")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mode      closed loop, 2 connections x 1 in flight")
    assert "seed 5" in lines[0]
    assert "started 40 = ok 40 + failed 0 + timed out 0 + cancelled 0 + in flight 0" in done.stdout
    assert next(line for line in lines if line.startswith("response")).split()[-5] == "-"  # p99
    assert lines[-1].startswith("INVALID: 40 requests were ok, fewer than 100")
    assert lines[-1].endswith("measure longer with -d or a larger -n")
    assert done.returncode == 3 and done.stderr == ""


def test_no_room_for_the_connections():
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    done = run("load", "-c", "100", "echo://127.0.0.1:1", preexec_fn=limit)
    assert done.returncode == 2 and "ulimit -n" in done.stderr
