"""usage: run_example.py PROGRAM SEND EXPECT

Starts an example server on a free port, sends SEND and expects EXPECT (text with \\x escapes), then
SIGTERM: the exit code must be 0.
"""

import signal
import socket
import subprocess
import sys


def unescaped(text):
    return text.encode().decode("unicode_escape").encode("latin-1")


def main():
    program, send, expect = sys.argv[1], unescaped(sys.argv[2]), unescaped(sys.argv[3])
    with subprocess.Popen([program, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            host, port = process.stdout.readline().rsplit(maxsplit=1)[1].rsplit(":", 1)
            with socket.create_connection((host, int(port)), 10) as c:
                c.sendall(send)
                c.shutdown(socket.SHUT_WR)
                got = b""
                while part := c.recv(65536):
                    got += part
            if got != expect:
                return f"{program}: got {got!r}, expected {expect!r}"
            process.send_signal(signal.SIGTERM)
            code = process.wait(10)
            return f"{program}: exit code {code}" if code else 0
        finally:
            process.kill()


sys.exit(main())
