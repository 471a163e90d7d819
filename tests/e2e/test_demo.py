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
    "waiting for a CPU",
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
    done = run("demo", "--out", str(out), "--blocks", "2", "--requests", "120", "--seed", "3")
    bad = re.search(r"^INVALID: (\d+) of the 4 blocks do", done.stdout, re.M)
    assert done.returncode == (3 if bad else 0), done.stderr
    requests = re.search(r"^requests +(\d+) +(\d+)", done.stdout, re.M)
    errors = re.search(r"^errors +(\d+) +(\d+)", done.stdout, re.M)
    if not bad:
        assert requests.groups() == ("12000", "12000")
    assert errors.groups() == ("0", "0")
    for row in ROWS:
        assert f"\n{row}" in done.stdout
    # Two blocks a side are too few for either word, however far apart they lie.
    assert re.search(r"(^|\. )(NOT DISTINGUISHABLE|NO VERDICT): ", done.stdout, re.M)
    assert "CHANGED" not in done.stdout
    assert re.search(r"^NOT PROVEN .*\(fewer than 3 blocks count\)", done.stdout, re.M)
    assert "This process may use" in done.stdout
    report = (out / "report.html").read_text()
    first_box = re.search(r'<p class="box">(.*?)</p>', report)[1]
    assert re.search(r"(NOT DISTINGUISHABLE|NO VERDICT): ", first_box)
    assert ("INVALID" in first_box) == bool(bad)
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


def test_demo_leaves_out_blocks_that_are_invalid(tmp_path):
    done = run("demo", "--out", str(tmp_path), "--blocks", "2", "--requests", "1")
    assert done.returncode == 3, done.stderr  # 100 requests take no second
    assert "INVALID: 4 of the 4 blocks do not count (the window is" in done.stdout
    assert "NO VERDICT: one side has no block that counts" in done.stdout
    assert re.search(r"^NOT PROVEN ", done.stdout, re.M) and "CHANGED" not in done.stdout
    report = (tmp_path / "report.html").read_text()
    assert "INVALID: 4 of the 4 blocks" in re.search(r'<p class="box">(.*?)</p>', report)[1]


def test_demo_says_when_its_folder_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("demo", "--out", str(tmp_path / "file" / "x"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--out" in done.stderr
