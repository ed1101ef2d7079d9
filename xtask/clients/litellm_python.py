"""litellm, which sends `null` for what it does not say."""

import asyncio
import os
from importlib.metadata import version

# Prices of models come from the network unless told otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from common import CONFIG, HALF, KEY, KEYED, MODEL, ONE, OPEN, REJECTING, SMALL, TEXTS, Client, refused, same

LARGE = "a " * CONFIG["small_bytes"]
litellm.suppress_debug_info = True
litellm.telemetry = False


def arguments(url, texts, key, model, fields):
    return {"model": f"openai/{model}", "input": texts, "api_base": url + "/v1", "api_key": key, "max_retries": 0} | fields


def rows(url, texts, key="unused", model=MODEL, **fields):
    answer = litellm.embedding(**arguments(url, texts, key, model, fields))
    return [entry["embedding"] for entry in answer.data]


async def at_once():
    asked = [litellm.aembedding(**arguments(OPEN, [text], "unused", MODEL, {})) for text in TEXTS]
    answers = await asyncio.gather(*asked)
    return same([answer.data[0]["embedding"] for answer in answers], TEXTS)


client = Client("litellm", litellm=version("litellm"), openai=version("openai"))
client.cell("one", lambda: same(rows(OPEN, ONE), [ONE]))
client.cell("list", lambda: same(rows(OPEN, TEXTS), TEXTS))
client.cell("dimensions", lambda: same(rows(OPEN, TEXTS, dimensions=HALF), TEXTS, HALF))
client.sends(lambda url: rows(url, TEXTS), "text, no format")
client.cell("base64", lambda: same(rows(OPEN, TEXTS, encoding_format="float"), TEXTS) and "equal to `float`")
client.cell("at once", lambda: asyncio.run(at_once()))
client.cell("key", lambda: same(rows(KEYED, ONE, KEY), [ONE]))
client.cell(
    "wrong model", lambda: refused(lambda: rows(OPEN, ONE, model="no-such-model"), "NotFoundError", 404, "no-such-model")
)
client.cell("empty text", lambda: refused(lambda: rows(OPEN, [ONE, ""]), "BadRequestError", 400, "`input[1]`"))
client.cell("wrong key", lambda: refused(lambda: rows(KEYED, ONE, "x"), "AuthenticationError", 401, "key"))
client.crowded(lambda: rows(SMALL, ONE), "RateLimitError")
client.cell("too large", lambda: refused(lambda: rows(SMALL, LARGE), "APIError", 413, "body_bytes"))
client.cell(
    "no token ids",
    lambda: refused(lambda: rows(REJECTING, [[1, 2]]), "BadRequestError", 400, "check_embedding_ctx_length"),
)
