"""Starts servers, runs the spinning client against them, and looks after the machine meanwhile."""

import contextlib
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TW_BUCKETS = Path("/proc/sys/net/ipv4/tcp_max_tw_buckets")
LISTENING = re.compile(r"listening on \S*:(\d+)")
TCP_LISTEN = "0A"  # as /proc/net/tcp has it
START_S = 20
STOP_S = 5
FOREIGN_KEYS = ("server_cpu_foreign_pct", "client_cpu_foreign_pct")


class HarnessError(Exception):
    """Something that makes a measurement impossible; its text is for people."""


def cpus():
    """The CPU for servers and the CPU for the client: the first two this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise HarnessError("two CPUs are needed: one for the server, one for the client")
    return usable[0], usable[1]


def raise_file_limit():
    """Children inherit it: a thousand connections need more than the usual soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def listening_port(pid):
    """The TCP port that a process of this user listens on, or None."""
    sockets = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(link))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        field = line.split()
        if field[3] == TCP_LISTEN and f"socket:[{field[9]}]" in sockets:
            return int(field[1].split(":")[1], 16)
    return None


class Server:
    """A server process pinned to one CPU, listening on a port it chose itself.

    With `valgrind` its command starts with that. Then it never preempts a client on the same CPU
    (SCHED_BATCH). And as valgrind up to 3.19 keeps its big lock, and signals out, in
    io_uring_enter, the thread that prints the port may have to wait for the first connection: the
    port comes from the kernel, and the end is SIGKILL.
    """

    def __init__(self, name, command, cpu, valgrind=False):
        self.name = name
        self._valgrind = valgrind
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: self._settle(cpu),
        )
        try:
            self.port = self._await_port()
        except BaseException:
            self.stop()
            raise

    def _settle(self, cpu):
        os.sched_setaffinity(0, {cpu})
        if self._valgrind:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

    @property
    def pid(self):
        return self._process.pid

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def output(self):
        self._log.seek(0)
        return self._log.read()

    def _await_port(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            found = LISTENING.search(self.output())
            if found:
                return int(found.group(1))
            if self._process.poll() is not None:
                break
            port = listening_port(self.pid) if self._valgrind else None
            if port:
                return port
            time.sleep(0.02)
        raise HarnessError(f"{self.name} did not start: {self.output()[-2000:].strip()}")

    def alive(self):
        return self._process.poll() is None

    def stop(self):
        if self.alive():
            (self._process.kill if self._valgrind else self._process.terminate)()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@contextlib.contextmanager
def servers_started(commands, cpu):
    """{name: command} -> ({name: Server}, [why one did not start]); all up at once, all stopped."""
    with contextlib.ExitStack() as stack:
        up, failed = {}, []
        for name, command in commands.items():
            try:
                up[name] = stack.enter_context(Server(name, command, cpu))
            except HarnessError as why:
                failed.append(str(why))
        yield up, failed


class Client:
    """Runs spin_client on its CPU and reads the one line it prints."""

    def __init__(self, program, server_cpu, client_cpu):
        self._program = program
        self._server_cpu, self._client_cpu = server_cpu, client_cpu

    def run(self, server, case, timeout=120, **flags):
        command = [self._program, "--connect", server.address, "--server-pid", server.pid]
        command += ["--server-cpu", self._server_cpu, "--client-cpu", self._client_cpu]
        command += ["--mode", case.mode, "--connections", case.connections, "--size", case.size]
        for flag, value in flags.items():
            command.append("--" + flag.replace("_", "-"))
            if value is not True:
                command.append(value)
        try:
            done = subprocess.run(
                [str(part) for part in command],
                capture_output=True,
                text=True,
                timeout=timeout,
                preexec_fn=lambda: os.sched_setaffinity(0, {self._client_cpu}),
            )
        except subprocess.TimeoutExpired:
            raise HarnessError(f"{server.name}: no end of {case.name} within {timeout} s") from None
        if done.returncode:
            fate = "" if server.alive() else f"; the server ended: {server.output()[-500:]}"
            raise HarnessError(f"{server.name}, {case.name}: {done.stderr.strip()}{fate}")
        return parse_line(done.stdout)

    def run_quiet(self, server, case, foreign_max, attempts=4, **flags):
        """Like run, but again while something else used the CPUs; None when it never got quiet."""
        for attempt in range(attempts):
            got = self.run(server, case, **flags)
            if max(got[key] for key in FOREIGN_KEYS) <= foreign_max:
                return got
            time.sleep(0.1 * (attempt + 1))
        return None


def parse_line(text):
    """`key=value` words; numbers become floats."""
    out = {}
    for key, value in (word.split("=", 1) for word in text.split()):
        try:
            out[key] = float(value)
        except ValueError:
            out[key] = value
    return out


@contextlib.contextmanager
def no_time_wait():
    """Lets ports be used again at once while short connections are measured; yields whether it may.

    TIME_WAIT would use up the local ports in half a second. The old value comes back on every way
    out that a process can notice, SIGTERM included.
    """
    try:
        old = TW_BUCKETS.read_text()
        TW_BUCKETS.write_text("0")
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        TW_BUCKETS.write_text(old)


def exit_on_signals():
    """SIGTERM and SIGHUP become SystemExit, so that every `finally` runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: sys.exit(128 + got))


def version_of(command):
    """First line of `program --version`, or why there is none."""
    try:
        done = subprocess.run(
            [str(command), "--version"], capture_output=True, text=True, timeout=10
        )
        return (done.stdout or done.stderr).strip() or f"exit {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as why:
        return str(why)


def machine():
    """What a reader must know about the machine to judge the figures."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    return {
        "kernel": platform.release(),
        "cpu": model,
        "cpus": os.cpu_count(),
        "congestion_control": congestion,
        "load_average": os.getloadavg()[0],
    }
