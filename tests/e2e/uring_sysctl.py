"""What the sysctl kernel.io_uring_disabled does to `weir echo`. It holds for the whole machine, so
this runs alone, sets it for a second or two and puts it back however it ends.

Exit codes: 0 all is well, 77 there is no such sysctl here or it may not be set (it says so)."""

import contextlib
import signal
import sys

from confined import NOBODY, SYSCTL, echo, goes_without_io_uring, is_nobody, sysctl

NAME = "kernel.io_uring_disabled"


def write(value):
    with open(SYSCTL, "w", encoding="ascii") as f:
        f.write(value)


@contextlib.contextmanager
def kept():
    """Whatever happens, the value is afterwards what it was."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    was = sysctl()
    for number in signals:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        write(was)
    assert sysctl() == was


def group_of_the_allowed():
    with open("/proc/sys/kernel/io_uring_group", encoding="ascii") as f:
        return int(f.read())


def main():
    try:
        was = sysctl()
        if was is None:
            print(f"there is no sysctl {NAME}")
            return 77
        write(was)
    except OSError as e:
        print(f"the sysctl {NAME} may not be set: {e}")
        return 77
    with kept():
        write("2")
        goes_without_io_uring(None, f"sysctl {NAME}=2")
        write("1")
        if group_of_the_allowed() != NOBODY:
            goes_without_io_uring(is_nobody(), f"sysctl {NAME}=1")
    print(f"afterwards: {echo('--transport', 'uring')[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
