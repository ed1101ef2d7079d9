"""What the scripts share: the servers, the texts, the rows that curl gets, and cells of the table.

The task passes one JSON object in EMBED_CLIENTS: addresses of servers, names of the model, a key. A script prints
one JSON object a line: what a client is, and what became of each cell. A row is compared in every bit of its
32-bit floats with the row that curl got as decimal numbers.
"""

import asyncio
import contextlib
import http.client
import http.server
import json
import os
import socket
import struct
import subprocess
import threading
import traceback
from urllib.parse import urlsplit

CONFIG = json.loads(os.environ["EMBED_CLIENTS"])

# Where a server listens that asks for nothing, for a key, that refuses token ids, and that has little room.
OPEN, KEYED, REJECTING, SMALL = (CONFIG[name] for name in ("open", "keyed", "rejecting", "small"))
KEY = CONFIG["key"]
# The model as OpenAI's clients know one, which is an alias, and its own name.
MODEL, NAME = CONFIG["alias"], CONFIG["name"]
DIM = CONFIG["dim"]
HALF = DIM // 2

ONE = "a cat sat on the mat"
# No line ends: llama-index turns them into blanks. Two texts are equal.
TEXTS = [
    ONE,
    "the weather is nice",
    "Übergröße, naïve café – “quoted”",
    "日本語のテキスト and العربية and 한국어 🦀👩‍👩‍👧",
    " leading and trailing blanks ",
    "the weather is nice",
    "one two three four five six seven eight nine ten " * 300,
]


def bits(row):
    """The bytes of a row as 32-bit floats; a number that is none of them is an error."""
    packed = struct.pack(f"<{len(row)}f", *row)
    if list(struct.unpack(f"<{len(row)}f", packed)) != [float(value) for value in row]:
        raise AssertionError("a value that is not a 32-bit float")
    return packed


def curl(url, body, *arguments):
    """Posts JSON with curl; returns the status and the body."""
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--write-out", "\n%{http_code}", url]
    command += ["--header", "content-type: application/json", "--data-binary", "@-", *arguments]
    done = subprocess.run(command, input=json.dumps(body).encode(), capture_output=True, check=True)
    text, _, status = done.stdout.decode().rpartition("\n")
    return int(status), json.loads(text)


def decimal(row):
    """A row of decimal numbers as the 32-bit floats that they are the shortest form of."""
    return list(struct.unpack(f"<{len(row)}f", struct.pack(f"<{len(row)}f", *row)))


def reference(texts, dim=DIM):
    """The rows that curl gets as decimal numbers."""
    status, answer = curl(OPEN + "/v1/embeddings", {"model": NAME, "input": texts, "dimensions": dim})
    assert status == 200, answer
    assert [entry["index"] for entry in answer["data"]] == list(range(len(texts)))
    return [decimal(entry["embedding"]) for entry in answer["data"]]


def same(rows, texts, dim=DIM):
    """Fails unless the rows are those of curl in every bit."""
    rows = [decimal(row) for row in rows]
    assert [len(row) for row in rows] == [dim] * len(texts), "another shape"
    assert all(any(row) for row in rows), "a row of zeros"
    assert [bits(row) for row in rows] == [bits(row) for row in reference(texts, dim)], "other values"
    return "equal"


def exactly(rows, texts, dim=DIM):
    """The same for a client that says its values are 32-bit floats: none may have to be rounded to one."""
    for row in rows:
        bits(row)
    return same(rows, texts, dim)


def refused(call, name, status, part=""):
    """Fails unless `call` raises an exception called `name` of an answer with `status` that says `part`."""
    try:
        call()
    except Exception as error:
        found = getattr(error, "status_code", None)
        assert type(error).__name__ == name, f"{type(error).__name__}: {error}"
        assert found == status, f"status {found}"
        assert part in str(error), f"`{part}` is not in: {error}"
        return name
    raise AssertionError(f"no exception, expected {name}")


@contextlib.contextmanager
def crowded():
    """While this lasts, another client holds all the memory that SMALL has for bodies."""
    address = urlsplit(SMALL)
    length = CONFIG["small_bytes"]
    with socket.create_connection((address.hostname, address.port)) as holder:
        head = f"POST /v1/embeddings HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-length: {length}\r\n\r\n"
        holder.sendall(head.encode() + b" " * (length - 1))
        # The server has read them when it refuses the body of somebody else.
        for _ in range(1000):
            status, _ = curl(SMALL + "/v1/embeddings", {"model": NAME, "input": ONE})
            if status == 429:
                break
        else:
            raise AssertionError("the server still has room")
        yield


@contextlib.contextmanager
def recorded(upstream=OPEN):
    """An address that passes requests on and keeps their bodies, to see what a client sends by itself."""
    bodies = []
    address = urlsplit(upstream)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            bodies.append(json.loads(body))
            server = http.client.HTTPConnection(address.hostname, address.port)
            server.request("POST", self.path, body, {"content-type": "application/json"})
            answer = server.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            server.close()

        def log_message(self, *_):
            pass

    recorder = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{recorder.server_port}", bodies
    finally:
        recorder.shutdown()


def described(body):
    """What a body asks for, in words."""
    inputs = body.get("input")
    first = inputs[0] if isinstance(inputs, list) else inputs
    kind = "text" if isinstance(first, str) else "token ids"
    encoding = body.get("encoding_format", "no format")
    return f"{kind}, {'null' if encoding is None else encoding}"


class Client:
    """A column of the table."""

    def __init__(self, name, **versions):
        self.name = name
        self.say({"client": name, "versions": versions})

    @staticmethod
    def say(line):
        print(json.dumps(line), flush=True)

    def cell(self, cell, call):
        """Runs `call`, whose result is what the table says."""
        line = {"client": self.name, "cell": cell}
        try:
            result = call()
            if asyncio.iscoroutine(result):
                result = asyncio.run(result)
            self.say(line | {"ok": True, "text": result})
        except BaseException as error:
            traceback.print_exc()
            self.say(line | {"ok": False, "text": f"{type(error).__name__}: {error}"[:300]})

    def crowded(self, call, name, part=""):
        """The cell of a server that has no room at the moment."""

        def run():
            with crowded():
                return refused(call, name, 429, part)

        self.cell("busy", run)

    def sends(self, call, expected):
        """The cell of what it sends by itself: `call` gets an address, and returns rows of TEXTS."""

        def run():
            with recorded() as (url, bodies):
                same(call(url), TEXTS)
            assert bodies, "it sent nothing"
            found = {described(body) for body in bodies}
            assert found == {expected}, f"it sends {found}"
            return expected

        self.cell("sends", run)
