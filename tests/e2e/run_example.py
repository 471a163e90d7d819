"""usage: run_example.py SERVER SEND EXPECT
       run_example.py SERVER --client PROGRAM EXPECT

Starts an example server on a free port, sends SEND and expects EXPECT (text with \\x escapes); or
runs a client PROGRAM with the server's address and expects that on its stdout, and exit code 0.
Then the server gets SIGTERM: its exit code must be 0.
"""

import signal
import socket
import subprocess
import sys


def unescaped(text):
    return text.encode().decode("unicode_escape").encode("latin-1")


def talk(address, send):
    host, port = address.rsplit(":", 1)
    got = b""
    with socket.create_connection((host, int(port)), 10) as c:
        c.sendall(send)
        c.shutdown(socket.SHUT_WR)
        while part := c.recv(65536):
            got += part
    return got


def main():
    server, *exchange, expect = sys.argv[1:]
    with subprocess.Popen([server, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().rsplit(maxsplit=1)[1]
            if exchange[0] == "--client":
                command = [exchange[1], address]
                got = subprocess.run(command, stdout=subprocess.PIPE, timeout=30, check=True).stdout
            else:
                got = talk(address, unescaped(exchange[0]))
            if got != unescaped(expect):
                return f"{sys.argv[1:]}: got {got!r}"
            process.send_signal(signal.SIGTERM)
            code = process.wait(10)
            return f"{server}: exit code {code}" if code else 0
        finally:
            process.kill()


sys.exit(main())
