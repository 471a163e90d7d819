"""What /debug/findings says of servers that do something wrong, and of those that do not. The
faults of handlers (blocking, files through memory) are in tests/unit/serve/admin_test.c."""

import os
import re

import healthy
import pytest
from servers import eventually, load, looks, serving

WATCHED = ("--admin", "127.0.0.1:0")
PATIENCE = 30.0


def look(server):
    return server.page("/debug/findings?seconds=2", 30)


def wait_for(server, kind, seconds=PATIENCE):
    """The first finding of this kind, or None."""
    for _ in looks(seconds, 0.1):
        for f in look(server)["findings"]:
            if f["kind"] == kind:
                assert f["text"] and f["advice"] and f["evidence"]
                return f
    return None


def usable_cpus(server):
    return server.page("/stats")["usable_cpus"]


@pytest.mark.parametrize("case", healthy.CASES, ids=[c[0] for c in healthy.CASES])
def test_a_healthy_server_under_load_has_none(case):
    found, received = healthy.watch(*case, 3)
    assert found == [] and received > 100


def test_an_idle_server_has_none():
    with serving("echo", *WATCHED) as s:
        report = eventually(lambda: look(s)["window_s"] and look(s))
        assert report["schema"] == "weir.findings/1"
        assert report["window_s"] >= 1 and report["findings"] == []
        assert report["start_id"] == s.page("/stats")["start_id"]


def test_before_there_is_a_window_nothing_is_said():
    with serving("echo", "--loops", "64", *WATCHED) as s:
        text = s.page("/debug/findings?format=text")
        report = look(s)
        assert report["findings"] == [] or report["window_s"] >= 1
        assert "nothing can be said" in text or "finding" in text


def test_more_loops_than_cpus():
    with serving("echo", "--loops", str(os.cpu_count() + 1), *WATCHED) as s:
        f = wait_for(s, "too-many-loops")
        assert f["evidence"]["loops"] == os.cpu_count() + 1
        assert f["evidence"]["usable_cpus"] == usable_cpus(s)
        assert f["loop"] is None
        text = s.page("/debug/findings?format=text")
        assert re.match(r"1 finding in the last [\d.]+ s\n\ntoo-many-loops\n", text)
        assert f["advice"] in text


def idle_share():
    """How many CPUs were idle over half a second."""

    def read():
        with open("/proc/stat", encoding="ascii") as f:
            fields = [int(x) for x in f.readline().split()[1:9]]
        return fields[3] + fields[4], sum(fields)

    idle, whole = read()
    for _ in looks(0.5, 0.5):
        pass
    idle_after, whole_after = read()
    return (idle_after - idle) / max(1, whole_after - whole) * os.cpu_count()


def test_too_few_loops():
    with serving("echo", "--loops", "1", "--burn-us", "2000", *WATCHED) as s:
        if usable_cpus(s) < 2:
            pytest.skip("with one CPU one loop is enough")
        with load(s, "-c", "8"):
            f = wait_for(s, "too-few-loops")
            if not f and idle_share() < 0.8:
                pytest.skip("other programs leave no CPU idle")
        assert f["evidence"]["loops"] == 1
        assert f["evidence"]["busy_share"] > 0.9
        assert f["evidence"]["idle_cpus"] > 0.5
        assert f["loop"] == 0


def test_a_callback_that_holds_its_loop():
    with serving("echo", "--loops", "1", "--burn-us", "250000", *WATCHED) as s:
        with load(s, "-c", "2"):
            f = wait_for(s, "callback-held")
        assert f["handler"] == "burn" and f["stack"]
        assert f["evidence"]["longest_ms"] >= 250
        assert f["evidence"]["connections"] == 2
        loops = s.page("/debug/loops")
        assert re.search(r"handler +burn < gate", loops)


def test_the_watchdog_can_be_set_and_switched_off():
    off = ("--watchdog-ms", "0")
    with serving("echo", "--loops", "1", "--burn-us", "200000", *off, *WATCHED) as s:
        with load(s, "-c", "2"):
            assert wait_for(s, "callback-held", 3) is None
        pauses = s.page("/stats")["loops"][0]["pauses"]
        assert all(p is None for name, p in pauses.items() if name != "memory")
    soon = ("--watchdog-ms", "20")
    with serving("echo", "--loops", "1", "--burn-us", "60000", *soon, *WATCHED) as s:
        with load(s, "-c", "2"):
            assert wait_for(s, "callback-held")["handler"] == "burn"


def test_buffers_from_outside_the_pool():
    with serving("linkd", "--alloc", "unpooled", *WATCHED) as s:
        with load(s, "-c", "4", scheme="linkd"):
            f = wait_for(s, "unpooled-buffers")
        assert f["evidence"]["blocks_per_receive"] > 0.1
        assert f["evidence"]["blocks_per_s"] > 50


@pytest.mark.parametrize("mode", ["off", "sampled", "full", "poison", "guard"])
def test_watched_memory_serves_as_well(mode):
    with serving("linkd", "--mem-debug", mode, *WATCHED) as s:
        with load(s, "-c", "4", scheme="linkd"):
            assert eventually(lambda: sum(x["received"] for x in s.page("/stats")["loops"]))
        code, _, _, err = s.stop()
        assert (code, err) == (0, "")  # no leak is told
