"""The admin address of a server: its pages, who may ask, and that it answers when nothing else
does."""

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time

import pytest
from servers import SLOW, eventually, load, readable, receive, run, serving

PAGES = ["/", "/stats", "/metrics", "/healthz", "/debug/loops", "/debug/findings"]
WATCHED = ("--admin", "127.0.0.1:0")


def raw(server, data, seconds=SLOW):
    """What comes back for these bytes, until the end."""
    host, port = server.admin.rsplit(":", 1)
    with socket.create_connection((host, int(port)), seconds) as s:
        s.sendall(data)
        got = b""
        while part := s.recv(65536):
            got += part
        return got


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


def threads(pid):
    """The names of a process's threads."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # it has just ended
            with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as f:
                names.append(f.read().strip())
    return names


@pytest.mark.parametrize("program", ["echo", "linkd"])
def test_every_server_has_it_and_says_where(program):
    with serving(program, *WATCHED) as s:
        assert re.fullmatch(r"127\.0\.0\.1:\d+", s.admin)
        assert "transport " in s.start_line
        for page in PAGES:
            status, kind, body = s.ask(page)
            assert status == 200 and kind and body
        assert s.ask("/healthz")[2] == "ok\n"
        index = s.page("/")
        for page in PAGES[1:]:
            assert f'href="{page}"' in index
        code, took, out, err = s.stop()
        assert (code, out, err) == (0, "", "") and took < 5


def test_it_is_no_loop_of_the_server():
    with serving("echo", "--loops", "1", *WATCHED) as s:
        stats = s.page("/stats")
        assert len(stats["loops"]) == 1
        assert [h["name"] for h in stats["loops"][0]["handlers"]] == ["(loop)", "echo"]
        assert stats["loops"][0]["opened"] == 0
        assert "weir-admin" in threads(s.pid)


def test_stats_count_what_happened():
    with serving("echo", "--loops", "2", "--high", "128k", *WATCHED) as s:
        before = s.page("/stats")
        with s.connect() as c:
            c.sendall(b"x" * 1000)
            receive(c, 1000)
            after = s.page("/stats")
        assert before["schema"] == after["schema"] == "weir.stats/1"
        assert before["start_id"] == after["start_id"]
        assert re.fullmatch(r"[0-9a-f]{16}", after["start_id"])
        assert after["pid"] == s.pid
        assert after["at_ns"] > before["at_ns"] and after["uptime_ns"] > 0
        assert after["connections"]["open"] == 1
        for name in ("received_bytes", "sent_bytes"):
            grown = [b[name] - a[name] for a, b in zip(before["loops"], after["loops"])]
            assert sorted(grown) == [0, 1000]
        loop = max(after["loops"], key=lambda x: x["sent_bytes"])
        echo = next(h for h in loop["handlers"] if h["name"] == "echo")
        assert echo["calls"] >= 1 and echo["bytes"] == 1000
        assert loop["io"]["receives"] == loop["received"] and loop["io"]["waits"] > 0
        assert set(loop["switches"]) == {"voluntary", "involuntary"}
        assert set(loop["pauses"]) == {"run_queue", "fault", "throttle", "memory", "turn"}
        parameters = {p["name"]: (p["value"], p["origin"]) for p in after["parameters"]}
        assert parameters["high"] == ("128k", "flag")
        assert parameters["loops"] == ("2", "flag")
        assert parameters["trigger"] == ("lt", "default")
        assert parameters["pin"] == ("off", "default")


def test_system_calls_can_be_counted_per_request():
    def asked(*door):
        with serving("echo", "--loops", "1", *door, *WATCHED) as s, s.connect() as c:
            c.sendall(b"x")
            receive(c, 1)
            before = s.page("/stats")["loops"][0]["io"]
            for _ in range(100):
                c.sendall(b"x")
                receive(c, 1)
            after, metrics = s.page("/stats")["loops"][0]["io"], s.page("/metrics")
            assert after["sends"] - before["sends"] == 100
            assert 'weir_loop_system_calls_total{loop="0"} ' in metrics
            return s, before, after, metrics

    s, before, after, metrics = asked("--transport", "epoll")
    assert 290 <= after["system_calls"] - before["system_calls"] <= 350  # wait, receive, send
    assert "requests" not in after and "enters" not in after and "ring" not in metrics
    s, before, after, metrics = asked("--transport", "uring")
    if not s.start_line.startswith("transport uring,"):
        return
    calls = after["system_calls"] - before["system_calls"]
    assert 190 <= calls <= 300  # enter, send
    assert 90 <= after["enters"] - before["enters"] <= calls - 100
    kinds = {"accept", "recv", "send", "zero_copy_send", "poll", "cancel"}
    assert set(after["requests"]) == kinds and after["requests"]["recv"] >= 1
    assert after["requests"]["accept"] >= 1 and after["requests"]["poll"] >= 1
    for name in ("starved", "overflows", "zero_copies", "copied_after_all"):
        assert after[name] == 0
    assert 'weir_loop_ring_requests_total{loop="0",kind="recv"} ' in metrics


def test_two_runs_have_two_start_ids():
    ids = set()
    for _ in range(2):
        with serving("echo", *WATCHED) as s:
            ids.add(s.page("/stats")["start_id"])
    assert len(ids) == 2


def test_memory_is_reconciled_with_what_is_resident():
    def told():
        stats = s.page("/stats")
        return stats if all(x["pool"] for x in stats["loops"]) else None

    with serving("linkd", "--loops", "2", *WATCHED) as s:
        stats = eventually(told)
        memory = stats["memory"]
        owners = {o["name"]: o["resident_bytes"] for o in memory["owners"]}
        assert set(owners) == {"loop 0", "loop 1", "admin", "other"}
        assert memory["pool_bytes"] == sum(n for name, n in owners.items() if name != "other")
        assert sum(owners.values()) == memory["resident_bytes"]
        with open(f"/proc/{s.pid}/statm", encoding="ascii") as f:
            resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert 0.5 < resident / memory["resident_bytes"] < 2
        pool = stats["loops"][0]["pool"]
        assert pool["chunk_bytes"] + pool["huge_bytes"] == sum(
            pool[f"{name}_bytes"]
            for name in ("live", "cached", "free_block", "free_page", "overhead")
        )
        assert set(pool["bands"]) == {"init", "low", "mid", "high", "top", "full"}
        assert 0 <= pool["hit_rate"] <= 1


def test_the_accept_queue_shows_its_depth():
    def depth():
        queue = s.page("/stats")["loops"][0]["accept_queue"]
        return queue if queue["listeners"] else None

    with serving("echo", "--loops", "1", "--backlog", "77", *WATCHED) as s:
        queue = eventually(depth)
        assert queue["depth_max"] == 77 and queue["depth"] == 0
        s.connect().close()
        assert eventually(lambda: s.page("/stats")["loops"][0]["accept_queue"]["accepts"] == 1)


LABEL = r'\w+="(?:\\.|[^"\\])*"'
SAMPLE = re.compile(rf"^[a-zA-Z_:][\w:]*(\{{{LABEL}(,{LABEL})*\}})? [-+.\de]+$")


def test_metrics_keep_to_the_format_of_prometheus():
    with serving("linkd", "--loops", "2", *WATCHED) as s:
        status, kind, text = s.ask("/metrics")
        assert status == 200 and kind.startswith("text/plain; version=0.0.4")
        assert text.endswith("\n")
        kinds, seen, current = {}, set(), None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                current = line.split()[2]
                assert current not in kinds and len(line.split()) > 3
                kinds[current] = None
            elif line.startswith("# TYPE "):
                _, _, name, what = line.split()
                assert name == current and what in ("counter", "gauge")
                assert name.endswith("_total") == (what == "counter")
                kinds[name] = what
            else:
                assert SAMPLE.match(line), line
                series = line.rsplit(" ", 1)[0]
                assert series not in seen and series.split("{")[0] == current
                seen.add(series)
        assert 'weir_loop_turns_total{loop="1"}' in seen
        assert 'weir_handler_calls_total{loop="0",handler="linkd"}' in seen
        assert "weir_uptime_seconds" in seen


@pytest.mark.parametrize(
    "data,status",
    [
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /stats HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405),
        (b"GET /stats HTTP/1.1\r\n\r\n", 400),
        (b"GET /debug/profile?seconds=61 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /debug/findings?format=xml HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 9000, 431),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    ],
)
def test_what_it_answers(data, status):
    with serving("echo", *WATCHED) as s:
        answer = raw(s, data)
        assert status_of(answer) == status
        head, body = answer.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
        assert len(body) == length and b"Connection: close" in head
        assert s.ask("/healthz")[0] == 200


def test_other_methods_are_told_which_one_will_do():
    with serving("echo", *WATCHED) as s:
        for method in (b"POST", b"HEAD", b"DELETE", b"OPTIONS"):
            answer = raw(s, method + b" /stats HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
            assert b"\r\nAllow: GET\r\n" in answer


def test_a_head_of_any_size_gets_its_answer():
    with serving("echo", *WATCHED) as s:
        answer = raw(s, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 1000000)
        assert answer.startswith(b"HTTP/1.1 431 ") and answer.endswith(b"over 8192 bytes\n")


def test_half_a_request_is_answered_and_none_is_not():
    with serving("echo", *WATCHED) as s:
        host, port = s.admin.rsplit(":", 1)
        with socket.create_connection((host, int(port)), SLOW) as silent:
            begun = time.monotonic()
            answer = raw(s, b"GET /stats HTTP/1.1\r\nHos")  # until the end: no reset
            assert 4 < time.monotonic() - begun < SLOW
            assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
            assert b"\r\nConnection: close\r\n" in answer
            assert answer.endswith(b"\r\n\r\nthe request was not whole after 5 seconds\n")
            assert silent.recv(1) == b""
        assert s.ask("/healthz")[0] == 200


def switches_of(pid, name):
    """[voluntary, involuntary] of the thread of that name, as the kernel has them."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as f:
            status = f.read()
        if status.startswith(f"Name:\t{name}\n"):
            return [int(n) for n in re.findall(r"ctxt_switches:\t(\d+)", status)]
    raise AssertionError(f"no thread {name}")


def test_context_switches_are_those_of_the_loops_thread():
    with serving("echo", "--loops", "2", *WATCHED) as s, s.connect() as c:
        for _ in range(50):
            c.sendall(b"x")
            receive(c, 1)
        for i in range(2):
            before = switches_of(s.pid, f"weir-loop-{i}")
            told = s.page("/stats")["loops"][i]["switches"]
            after = switches_of(s.pid, f"weir-loop-{i}")
            assert before[0] <= told["voluntary"] <= after[0]
            assert before[1] <= told["involuntary"] <= after[1]
        series = re.findall(
            r'^weir_loop_switches_total\{loop="(\d)",kind="(\w+)"\} \d+$',
            s.page("/metrics"),
            re.M,
        )
        kinds = ("voluntary", "involuntary")
        assert series == [(i, kind) for i in "01" for kind in kinds]


def test_one_of_a_kind_is_singular():
    with serving("echo", "--loops", "1", *WATCHED) as s:
        assert "<p>1 loop on " in s.page("/")
        assert "loop 0: turns, 0 connections, " in s.page("/debug/loops")
        with s.connect() as c:
            c.sendall(b"x")
            receive(c, 1)
            assert "loop 0: turns, 1 connection, " in s.page("/debug/loops")
        assert ", 1 thread, " in s.page("/debug/profile?seconds=1")


def test_a_request_byte_by_byte():
    with serving("echo", *WATCHED) as s:
        host, port = s.admin.rsplit(":", 1)
        with socket.create_connection((host, int(port)), SLOW) as c:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n":
                c.sendall(bytes([byte]))
            assert c.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")


def test_slow_clients_are_let_go_and_many_are_refused():
    with serving("echo", *WATCHED) as s:
        host, port = s.admin.rsplit(":", 1)
        slow = []
        for _ in range(200):
            slow.append(socket.create_connection((host, int(port)), SLOW))
        begun = time.monotonic()
        refused = eventually(lambda: [c for c in slow if readable(c, 0)])
        assert len(refused) >= 1
        answer = b""
        for c in refused:
            try:
                answer = answer or c.recv(4096)
            except ConnectionResetError:
                pass
        assert status_of(answer) == 503
        assert s.connect()  # the server itself does not notice
        for c in slow[:64]:  # these had a place, and said nothing
            try:
                assert c.recv(1) == b""
            except ConnectionResetError:
                pass
        assert time.monotonic() - begun < SLOW
        for c in slow:
            c.close()
        assert eventually(lambda: s.ask("/healthz")[0] == 200)


def test_bad_addresses():
    for address in ("nowhere", "127.0.0.1", "127.0.0.1:99999"):
        done = run("echo", "--listen", "127.0.0.1:0", "--admin", address)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith("weir echo: --admin: ") and done.stderr.count("\n") == 1
    with serving("echo", *WATCHED) as s:
        done = run("echo", "--listen", "127.0.0.1:0", "--admin", s.admin)
        assert done.returncode == 2
        assert done.stderr == (
            f"weir echo: --admin: {s.admin} is in use; take another address\n"
        )


def test_a_unix_socket_will_do(tmp_path):
    path = tmp_path / "admin.sock"
    with serving("echo", "--admin", f"unix:{path}") as s:
        assert s.admin == f"unix:{path}"
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(SLOW)
            c.connect(str(path))
            c.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert c.recv(4096).startswith(b"HTTP/1.1 200 ")
        s.stop()
    assert not path.exists()


def test_health_while_draining():
    with serving("echo", "--drain", "30s", *WATCHED) as s, s.connect() as c:
        c.sendall(b"x")
        receive(c, 1)
        c.sendall(b"y" * 4000000)  # unread, so that the drain lasts
        assert s.ask("/healthz")[0] == 200
        s.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: s.ask("/healthz")[0] == 503)
        assert s.ask("/healthz")[2] == "draining\n"
        assert s.page("/stats")["draining"] is True
        c.close()
        assert s.process.wait(SLOW) == 0


def test_it_answers_while_every_loop_is_stuck():
    burn = ("--burn-us", "8000000")
    with serving("echo", "--loops", "1", *burn, *WATCHED) as s, s.connect() as c:
        assert s.ask("/healthz")[0] == 200
        c.settimeout(120)  # 8 s of CPU time are more by the clock where others need it too
        c.sendall(b"x")
        begun = time.monotonic()
        assert eventually(lambda: s.ask("/healthz")[0] == 503)
        assert time.monotonic() - begun > 5
        assert "has not turned" in s.ask("/healthz")[2]
        stats = s.page("/stats")
        assert stats["loops"][0]["stuck"] is True
        loops = s.page("/debug/loops")
        assert "STUCK" in loops and "LONG TURN THAT STILL RUNS" in loops
        assert re.search(r"handler +burn", loops) and " < " in loops
        for page in PAGES:
            assert s.ask(page)[0] in (200, 503)
        assert receive(c, 1) == b"x"
        assert eventually(lambda: s.ask("/healthz")[0] == 200)


def folded(text):
    """Samples by stack, comments left out."""
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {stack: int(n) for stack, n in lines}


def share_of(stacks, handler):
    """Of the samples in some handler, those with this one innermost."""
    inside = {s: n for s, n in stacks.items() if "handler:" in s}
    mine = sum(n for s, n in inside.items() if re.findall(r"handler:([^;]+)", s)[-1] == handler)
    return mine / sum(inside.values())


def loops_share(s, handler):
    """Its percent on /debug/loops, as soon as that is at least 90, else after the last look.

    It is by the clock of one call in 64. A call from which others took the CPU is off by much, and
    weighs the less the more calls there are.
    """
    for _ in range(20):
        text = s.page("/debug/loops", 30)
        share = float(re.search(rf"^  {handler} +([\d.]+) %", text, re.M).group(1))
        if share >= 90:
            break
        s.page("/debug/profile?seconds=1", 30)  # meanwhile
    return share


def test_a_profile_names_the_digest_handler():
    with serving("linkd", "--handler", "digest", *WATCHED) as s:
        with load(s, "-c", "20", scheme="linkd"):
            text = s.page("/debug/profile?seconds=3", 30)
            share = loops_share(s, "digest")
        assert text.startswith("# verdict: the CPU time is used by a handler: handler digest ")
        assert share_of(folded(text), "digest") >= 0.9
        assert share >= 90


def test_a_profile_names_a_handler_that_was_inserted_at_run_time():
    with serving("echo", "--burn-us", "200", *WATCHED) as s:
        with load(s, "-c", "20"):
            text = s.page("/debug/profile?seconds=3", 30)
            share = loops_share(s, "burn")
        assert share >= 90
        assert text.startswith("# verdict: the CPU time is used by a handler: handler burn ")
        assert share_of(folded(text), "burn") >= 0.9


def test_a_profile_names_a_handler_of_few_long_calls():
    with serving("echo", "--loops", "1", "--burn-us", "300000", *WATCHED) as s:
        with load(s, "-c", "1"):
            named = eventually(
                lambda: "is used by a handler: handler burn "
                in s.page("/debug/profile?seconds=3", 30),
                30,
            )
        assert named


def test_a_profile_blames_nobody_for_moving_bytes():
    with serving("echo", *WATCHED) as s:
        with load(s, "-c", "20"):
            text = s.page("/debug/profile?seconds=3", 30)
        assert text.startswith("# verdict: no handler is to blame: ")
        assert sum(folded(text).values()) > 20


def test_one_profile_at_a_time_and_none_for_who_left():
    with serving("echo", *WATCHED) as s:
        host, port = s.admin.rsplit(":", 1)
        with socket.create_connection((host, int(port)), SLOW) as c:
            c.sendall(b"GET /debug/profile?seconds=2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert eventually(lambda: "weir-profile" in threads(s.pid))
            status, _, body = s.ask("/debug/profile?seconds=1")
            assert status == 503 and "another profile is being taken" in body
            assert s.ask("/healthz")[0] == 200  # it does not wait for the profile
        assert eventually(lambda: s.ask("/debug/profile?seconds=1")[0] == 200)


def test_a_profile_does_not_hold_up_the_end():
    with serving("echo", *WATCHED) as s:
        got = []
        asker = threading.Thread(
            target=lambda: got.append(s.ask("/debug/profile?seconds=60", 30))
        )
        asker.start()
        assert eventually(lambda: "weir-profile" in threads(s.pid))
        code, took, _, _ = s.stop()
        asker.join()
        assert code == 0 and took < 5
        assert got[0][0] == 200  # what had been seen so far


def test_the_pages_are_cheap_enough_to_ask_often():
    with serving("echo", *WATCHED) as s:
        before = s.cpu_seconds()
        for _ in range(100):
            json.loads(s.ask("/stats")[2])
        assert s.cpu_seconds() - before < 2
