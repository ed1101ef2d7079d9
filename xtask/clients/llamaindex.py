"""llama-index-embeddings-openai, which turns line ends into blanks before it sends a text."""

import asyncio
from importlib.metadata import version

from llama_index.embeddings.openai import OpenAIEmbedding

from common import CONFIG, HALF, KEY, KEYED, MODEL, ONE, OPEN, SMALL, TEXTS, Client, exactly, refused

LARGE = "a " * CONFIG["small_bytes"]


def connected(url, key="unused", **options):
    return OpenAIEmbedding(model=MODEL, api_base=url + "/v1", api_key=key, max_retries=0, **options)


client = Client(
    "llama-index", **{name: version(name) for name in ("llama-index-embeddings-openai", "llama-index-core", "openai")}
)
plain = connected(OPEN)
client.cell("one", lambda: exactly([plain.get_text_embedding(ONE)], [ONE]))
client.cell("list", lambda: exactly(plain.get_text_embedding_batch(TEXTS), TEXTS))
client.cell("dimensions", lambda: exactly(connected(OPEN, dimensions=HALF).get_text_embedding_batch(TEXTS), TEXTS, HALF))
client.sends(lambda url: connected(url).get_text_embedding_batch(TEXTS), "text, base64")
client.cell("at once", lambda: exactly(asyncio.run(connected(OPEN).aget_text_embedding_batch(TEXTS)), TEXTS))
client.cell("key", lambda: exactly([connected(KEYED, KEY).get_text_embedding(ONE)], [ONE]))
client.cell(
    "wrong model",
    lambda: refused(
        lambda: connected(OPEN, model_name="no-such-model").get_text_embedding(ONE), "NotFoundError", 404, "no-such-model"
    ),
)
client.cell("empty text", lambda: refused(lambda: plain.get_text_embedding(""), "BadRequestError", 400, "empty"))
client.cell(
    "wrong key", lambda: refused(lambda: connected(KEYED, "x").get_text_embedding(ONE), "AuthenticationError", 401, "key")
)
client.crowded(lambda: connected(SMALL).get_text_embedding(ONE), "RateLimitError")
client.cell(
    "too large", lambda: refused(lambda: connected(SMALL).get_text_embedding(LARGE), "APIStatusError", 413, "body_bytes")
)
