"""ollama of Python, over the routes of Ollama."""

import asyncio
from importlib.metadata import version

import ollama

from common import CONFIG, HALF, KEY, KEYED, MODEL, NAME, ONE, OPEN, SMALL, TEXTS, Client, refused, same

LARGE = "a " * CONFIG["small_bytes"]


def connected(url, key=None, kind=ollama.Client):
    return kind(host=url, headers={"authorization": f"Bearer {key}"} if key else None)


def rows(client, texts, model=MODEL, **fields):
    return client.embed(model=model, input=texts, **fields).embeddings


async def at_once():
    client = connected(OPEN, kind=ollama.AsyncClient)
    answers = await asyncio.gather(*[client.embed(model=MODEL, input=text) for text in TEXTS])
    return same([answer.embeddings[0] for answer in answers], TEXTS)


def models():
    names = [model.model for model in plain.list().models]
    assert {MODEL, NAME} <= set(names), names
    return "listed"


client = Client("ollama (Python)", ollama=version("ollama"))
plain = connected(OPEN)
client.cell("one", lambda: same(rows(plain, ONE), [ONE]))
client.cell("list", lambda: same(rows(plain, TEXTS, f"{NAME}:latest"), TEXTS))
client.cell("dimensions", lambda: same(rows(plain, TEXTS, dimensions=HALF), TEXTS, HALF))
client.sends(lambda url: rows(connected(url), TEXTS), "text, no format")
client.cell("at once", lambda: asyncio.run(at_once()))
client.cell("older route", lambda: same([plain.embeddings(model=MODEL, prompt=ONE).embedding], [ONE]))
client.cell("models", models)
client.cell("key", lambda: same(rows(connected(KEYED, KEY), ONE), [ONE]))
client.cell(
    "wrong model", lambda: refused(lambda: rows(plain, ONE, "no-such-model"), "ResponseError", 404, "no-such-model")
)
client.cell("empty text", lambda: refused(lambda: rows(plain, [ONE, ""]), "ResponseError", 400, "`input[1]`"))
client.cell("wrong key", lambda: refused(lambda: rows(connected(KEYED, "x"), ONE), "ResponseError", 401, "key"))
client.crowded(lambda: rows(connected(SMALL), ONE), "ResponseError")
client.cell("too large", lambda: refused(lambda: rows(connected(SMALL), LARGE), "ResponseError", 413, "body_bytes"))
