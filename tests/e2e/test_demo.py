"""weir demo: the case in a small size, its report, and what is left when it is interrupted."""

import contextlib
import os
import re
import signal
import subprocess
import time

from servers import BIN, SLOW, readable, run


ROWS = [
    "throughput req/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "mean ms",
    "Little's L",
    "server CPU us/request",
    "busy share",
    "hottest handler",
]


def processes_that_name(text):
    """Processes other than this one with text in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().decode(errors="replace")
        except OSError:
            continue
        if text in line and int(pid) != os.getpid():
            found.append(int(pid))
    return found


def test_demo_measures_both_sides_and_leaves_a_report(tmp_path):
    out = tmp_path / "deep" / "demo"
    done = run("demo", "--out", str(out), "--blocks", "2", "--requests", "120")
    assert done.returncode in (0, 3), done.stderr
    assert ("INVALID" in done.stdout) == (done.returncode == 3)
    requests = re.search(r"^requests +(\d+) +(\d+)", done.stdout, re.M)
    errors = re.search(r"^errors +(\d+) +(\d+)", done.stdout, re.M)
    assert requests.groups() == ("12000", "12000") and errors.groups() == ("0", "0")
    for row in ROWS:
        assert f"\n{row}" in done.stdout
    assert re.search(r"^(CHANGED|NOT DISTINGUISHABLE): ", done.stdout, re.M)
    assert "PROVEN" in done.stdout and "This process may use" in done.stdout
    report = (out / "report.html").read_text()
    assert report.count("<svg") == 3 and report.count("<rect") == 3 * 4
    assert not re.search(r"<script|<link|src=|href=|url\(", report), "it is not self-contained"
    assert report.endswith("</body></html>\n")
    assert processes_that_name(str(out)) == []


def test_demo_takes_its_children_along_when_it_is_interrupted(tmp_path):
    command = [BIN, "demo", "--out", tmp_path, "--blocks", "2", "--requests", "5000"]
    none = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=none, stderr=none) as demo:
        deadline = time.monotonic() + SLOW
        while len(processes_that_name(str(tmp_path))) < 3 and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                demo.wait(0.02)
        found = processes_that_name(str(tmp_path))
        assert len(found) == 3  # demo, server, load
        ends = [os.pidfd_open(pid) for pid in found]
        demo.send_signal(signal.SIGINT)
        demo.wait(SLOW)
    for end in ends:
        assert readable(end, SLOW)
        os.close(end)


def test_demo_says_when_its_folder_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("demo", "--out", str(tmp_path / "file" / "x"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--out" in done.stderr
