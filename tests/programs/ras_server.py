#!/usr/bin/env python3
"""Stands for the RAS socket of an NCCL process, whose protocol and answers are those of src/ras/client_support.cc.

    with Server(answers=[text], json=None) as address: ...            # before 2.28.7: SET FORMAT is an unknown command
    with Server(raw=b"HTTP/1.1 400 Bad Request\\r\\n") as address: ...  # another program

Each connection gets the next of the answers; the last one stays.
"""

import pathlib
import socket
import threading

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "unit/tools/weft-report/ras/answers"


def recorded(version, state, form):
    """What NCCL's own code answers: see make.py in that folder."""
    rows = dict(line.split(" ", 1) for line in (FOLDER / "versions").read_text().splitlines())
    file = next(name for name in rows[version].split() if name.endswith("json" if form == "json" else "text"))
    for part in (FOLDER / file).read_text().split("##### ")[1:]:
        head, body = part.split("\n", 1)
        if head == f"{state} {form}":
            return body.replace("VERSION", version)
    raise KeyError(state)


class Server:
    def __init__(self, answers=(), json=None, raw=None, serve=None):
        self.answers, self.json, self.raw, self.serve = list(answers), json, raw, serve
        self.commands = []
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(8)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self.address

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            try:
                if self.serve:
                    self.serve(connection)
                elif self.raw is not None:
                    connection.sendall(self.raw)
                    connection.recv(1000)
                else:
                    self.protocol(connection)
            except OSError:
                pass

    def protocol(self, connection):
        json = False
        for line in connection.makefile("r"):
            command = line.strip()
            self.commands.append(command)
            if command.startswith("CLIENT PROTOCOL"):
                connection.sendall(b"SERVER PROTOCOL 2\n")
            elif command == "SET FORMAT json":
                json = self.json is not None
                connection.sendall(b"OK\n" if json else b"ERROR: Unknown command SET FORMAT json\n")
            else:
                answers = self.json if json else self.answers
                connection.sendall(answers[0].encode())
                if len(answers) > 1:
                    del answers[0]
                return
