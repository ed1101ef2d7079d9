"""openai of Python, plain and asynchronous."""

import asyncio
from importlib.metadata import version

import openai

from common import (
    CONFIG, HALF, KEY, KEYED, MODEL, ONE, OPEN, REJECTING, SMALL, TEXTS, Client, exactly, refused, same,
)

LARGE = "a " * CONFIG["small_bytes"]


def connected(url, key="unused"):
    return openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)


def rows(client, texts, **fields):
    """Rows with what the client sends by itself, which is base64."""
    answer = client.embeddings.create(model=MODEL, input=texts, **fields)
    assert [entry.index for entry in answer.data] == list(range(len(answer.data)))
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0
    return [entry.embedding for entry in answer.data]


plain = Client("openai (Python)", openai=version("openai"))
client = connected(OPEN)
plain.cell("one", lambda: exactly(rows(client, ONE), [ONE]))
plain.cell("list", lambda: exactly(rows(client, TEXTS), TEXTS))
plain.cell("dimensions", lambda: exactly(rows(client, TEXTS, dimensions=HALF), TEXTS, HALF))
plain.sends(lambda url: rows(connected(url), TEXTS), "text, base64")
plain.cell("base64", lambda: same(rows(client, TEXTS, encoding_format="float"), TEXTS) and "equal to `float`")
plain.cell("key", lambda: exactly(rows(connected(KEYED, KEY), ONE), [ONE]))


def models():
    names = [model.id for model in client.models.list()]
    assert MODEL in names and client.models.retrieve(MODEL).id == MODEL, names
    return "listed"


plain.cell("models", models)
plain.cell(
    "wrong model",
    lambda: refused(
        lambda: client.embeddings.create(model="no-such-model", input=ONE), "NotFoundError", 404, "no-such-model"
    ),
)
plain.cell("empty text", lambda: refused(lambda: rows(client, [ONE, ""]), "BadRequestError", 400, "`input[1]`"))
plain.cell("wrong key", lambda: refused(lambda: rows(connected(KEYED, "x"), ONE), "AuthenticationError", 401, "key"))
plain.crowded(lambda: rows(connected(SMALL), ONE), "RateLimitError")
plain.cell("too large", lambda: refused(lambda: rows(connected(SMALL), LARGE), "APIStatusError", 413, "body_bytes"))
plain.cell(
    "no token ids",
    lambda: refused(lambda: rows(connected(REJECTING), [[1, 2]]), "BadRequestError", 400, "check_embedding_ctx_length"),
)


def run(url, texts, key="unused", model=MODEL, **fields):
    """One request of the asynchronous client."""

    async def ask():
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=0) as client:
            answer = await client.embeddings.create(model=model, input=texts, **fields)
            return [entry.embedding for entry in answer.data]

    return asyncio.run(ask())


async def many():
    """Each text a request of its own, all at once."""
    async with openai.AsyncOpenAI(base_url=OPEN + "/v1", api_key="unused", max_retries=0) as client:
        asked = [client.embeddings.create(model=MODEL, input=text) for text in TEXTS * 20]
        answers = await asyncio.gather(*asked)
    return exactly([answer.data[0].embedding for answer in answers], TEXTS * 20)


other = Client("openai (Python, async)", openai=version("openai"))
other.cell("one", lambda: exactly(run(OPEN, ONE), [ONE]))
other.cell("list", lambda: exactly(run(OPEN, TEXTS), TEXTS))
other.cell("dimensions", lambda: exactly(run(OPEN, TEXTS, dimensions=HALF), TEXTS, HALF))
other.sends(lambda url: run(url, TEXTS), "text, base64")
other.cell("base64", lambda: same(run(OPEN, TEXTS, encoding_format="float"), TEXTS) and "equal to `float`")
other.cell("at once", lambda: asyncio.run(many()))
other.cell("key", lambda: exactly(run(KEYED, ONE, KEY), [ONE]))
other.cell(
    "wrong model", lambda: refused(lambda: run(OPEN, ONE, model="no-such-model"), "NotFoundError", 404, "no-such-model")
)
other.cell("empty text", lambda: refused(lambda: run(OPEN, ""), "BadRequestError", 400, "empty"))
other.cell("wrong key", lambda: refused(lambda: run(KEYED, ONE, "x"), "AuthenticationError", 401, "key"))
other.crowded(lambda: run(SMALL, ONE), "RateLimitError")
other.cell("too large", lambda: refused(lambda: run(SMALL, LARGE), "APIStatusError", 413, "body_bytes"))
other.cell(
    "no token ids",
    lambda: refused(lambda: run(REJECTING, [1, 2]), "BadRequestError", 400, "check_embedding_ctx_length"),
)
