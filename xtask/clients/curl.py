"""curl, and the command line of the program itself."""

import base64
import json
import struct
import subprocess

from common import (
    CONFIG, DIM, HALF, KEY, KEYED, MODEL, NAME, ONE, OPEN, REJECTING, SMALL, TEXTS, Client, bits, crowded, curl, decimal, reference, same,
)

version = subprocess.run(["curl", "--version"], capture_output=True, check=True, text=True).stdout.split()[1]
client = Client("curl", curl=version)


def rows(texts, route="/v1/embeddings", **fields):
    status, answer = curl(OPEN + route, {"model": MODEL, "input": texts, **fields})
    assert status == 200, answer
    return [entry["embedding"] for entry in answer["data"]]


def refusal(url, body, status, kind, part, *arguments):
    found, answer = curl(url + "/v1/embeddings", body, *arguments)
    assert found == status, f"{found}: {answer}"
    assert sorted(answer["error"]) == ["code", "message", "param", "type"], answer
    assert answer["error"]["type"] == kind and part in answer["error"]["message"], answer
    return str(status)


def like_the_command_line():
    command = [CONFIG["bin"], "text", "--offline", "--", *TEXTS]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found = [json.loads(line)["vector"] for line in done.stdout.splitlines()]
    assert [bits(decimal(row)) for row in found] == [bits(row) for row in reference(TEXTS)], "other values"
    return "equal"


def base64_rows():
    found = [base64.b64decode(row, validate=True) for row in rows(TEXTS, encoding_format="base64")]
    assert found == [bits(row) for row in reference(TEXTS)], "other values"
    return "equal"


def keyed():
    status, answer = curl(
        KEYED + "/v1/embeddings", {"model": MODEL, "input": ONE}, "--header", f"authorization: Bearer {KEY}"
    )
    assert status == 200, answer
    return same([answer["data"][0]["embedding"]], [ONE])


def busy():
    with crowded():
        return refusal(SMALL, {"model": MODEL, "input": ONE}, 429, "rate_limit_error", "body_bytes_in_flight")


def other_routes():
    """The routes of Ollama and of TEI give the same rows."""
    same(rows(TEXTS, "/embeddings"), TEXTS)
    _, answer = curl(OPEN + "/api/embed", {"model": MODEL, "input": TEXTS})
    same(answer["embeddings"], TEXTS)
    _, answer = curl(OPEN + "/api/embeddings", {"model": MODEL, "prompt": ONE})
    same([answer["embedding"]], [ONE])
    _, answer = curl(OPEN + "/embed", {"inputs": TEXTS})
    return same(answer, TEXTS)


body = {"model": MODEL, "input": ONE}
large = {"model": MODEL, "input": "a " * CONFIG["small_bytes"]}
invalid = "invalid_request_error"
client.cell("command line", like_the_command_line)
client.cell("one", lambda: same(rows(ONE), [ONE]))
client.cell("list", lambda: same(rows(TEXTS), TEXTS))
client.cell("base64", base64_rows)
client.cell("dimensions", lambda: same(rows(TEXTS, dimensions=HALF), TEXTS, HALF))
client.cell("other routes", other_routes)
client.cell("key", keyed)
client.cell("wrong model", lambda: refusal(OPEN, body | {"model": "no-such-model"}, 404, invalid, "no-such-model"))
client.cell("empty text", lambda: refusal(OPEN, body | {"input": [ONE, ""]}, 400, invalid, "`input[1]`"))
client.cell("wrong key", lambda: refusal(KEYED, body, 401, invalid, "key", "--header", "authorization: Bearer x"))
client.cell("busy", busy)
client.cell("too large", lambda: refusal(SMALL, large, 413, invalid, "body_bytes"))
client.cell(
    "no token ids", lambda: refusal(REJECTING, body | {"input": [1, 2]}, 400, invalid, "check_embedding_ctx_length")
)
assert DIM == len(reference([ONE])[0])
