"""A web server that may be moved: it says which pod it is, and leaves without cutting anybody off.

    python3 server.py

Every answer has the header `edgewise-pod`, by which clients know which pod they measure. On
SIGTERM it goes on answering, with `Connection: close`, so that each client opens its next
connection, which leads to another pod; it ends when the last connection has, or after ten
seconds. Nothing but the standard library, and nothing slow of it: a pod is started to be
measured a second later.
"""

import os
import signal
import socket
import threading
import time

PORT = int(os.environ.get("PORT", "8000"))
POD = os.environ.get("POD_NAME") or socket.gethostname()
LARGEST_HEAD = 65536
# A connection on which nobody asks anything is not kept for longer.
IDLE_SECONDS = 60
LINGER_SECONDS = 10

leaving = threading.Event()
connections = threading.Semaphore(1000)
counting = threading.Lock()
open_now = 0


def main() -> None:
    listener = socket.create_server(("", PORT), backlog=256)
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    leaving.wait()
    deadline = time.monotonic() + LINGER_SECONDS
    # Also a connection that is only just on its way is answered.
    time.sleep(0.5)
    while open_now and time.monotonic() < deadline:
        time.sleep(0.05)


def accept(listener: socket.socket) -> None:
    while True:
        connections.acquire()
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def serve(connection: socket.socket) -> None:
    count(1)
    try:
        with connection:
            connection.settimeout(IDLE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while answered(connection):
                pass
    except OSError:
        pass  # the client went away
    finally:
        count(-1)
        connections.release()


def answered(connection: socket.socket) -> bool:
    """Read one request and answer it; whether there may be another one."""
    head = b""
    while b"\r\n\r\n" not in head:
        more = connection.recv(LARGEST_HEAD)
        if not more or len(head) > LARGEST_HEAD:
            return False
        head += more
    first, *fields = head.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    asked_to_close = b"connection: close" in fields or first.endswith(b"http/1.0")
    last = leaving.is_set() or asked_to_close
    body = f"{POD}\n".encode()
    connection.sendall(
        b"HTTP/1.1 200 OK\r\n"
        b"content-type: text/plain\r\n"
        b"content-length: %d\r\n"
        b"edgewise-pod: %s\r\n"
        b"connection: %s\r\n\r\n%s"
        % (len(body), POD.encode(), b"close" if last else b"keep-alive", body)
    )
    return not last


def count(change: int) -> None:
    global open_now  # noqa: PLW0603 - one number for the whole program
    with counting:
        open_now += change


if __name__ == "__main__":
    main()
