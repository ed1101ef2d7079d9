"""langchain-openai, with token ids as it sends them by itself, and with text.

Token ids are those of cl100k_base, which tiktoken makes. Its vocabulary comes from the network; the task puts the
same file, out of the Rust crate that the server decodes with, where tiktoken keeps what it fetched.
"""

import asyncio
from importlib.metadata import version

from langchain_openai import OpenAIEmbeddings

from common import CONFIG, HALF, KEY, KEYED, MODEL, ONE, OPEN, REJECTING, SMALL, TEXTS, Client, exactly, refused

VERSIONS = {name: version(name) for name in ("langchain-openai", "openai", "tiktoken")}
LARGE = "word " * CONFIG["small_bytes"]


def column(name, sends, **options):
    def connected(url, key="unused", model=MODEL, **more):
        return OpenAIEmbeddings(
            model=model, base_url=url + "/v1", api_key=key, max_retries=0, **options, **more
        )

    client = Client(name, **VERSIONS)
    plain = connected(OPEN)
    client.cell("one", lambda: exactly([plain.embed_query(ONE)], [ONE]))
    client.cell("list", lambda: exactly(plain.embed_documents(TEXTS), TEXTS))
    client.cell(
        "dimensions", lambda: exactly(connected(OPEN, dimensions=HALF).embed_documents(TEXTS), TEXTS, HALF)
    )
    client.sends(lambda url: connected(url).embed_documents(TEXTS), sends)
    client.cell("at once", lambda: exactly(asyncio.run(connected(OPEN).aembed_documents(TEXTS)), TEXTS))
    client.cell("key", lambda: exactly([connected(KEYED, KEY).embed_query(ONE)], [ONE]))
    client.cell(
        "wrong model",
        lambda: refused(
            lambda: connected(OPEN, model="no-such-model").embed_query(ONE), "NotFoundError", 404, "no-such-model"
        ),
    )
    client.cell("empty text", lambda: refused(lambda: plain.embed_query(""), "BadRequestError", 400, "empty"))
    client.cell(
        "wrong key", lambda: refused(lambda: connected(KEYED, "x").embed_query(ONE), "AuthenticationError", 401, "key")
    )
    client.crowded(lambda: connected(SMALL).embed_query(ONE), "RateLimitError")
    if sends.startswith("text"):
        # Where it sends ids it cuts a long text into several and takes the mean of their rows.
        client.cell(
            "too large", lambda: refused(lambda: connected(SMALL).embed_query(LARGE), "APIStatusError", 413, "body_bytes")
        )
        client.cell("no token ids", lambda: exactly(connected(REJECTING).embed_documents(TEXTS), TEXTS))
    else:
        client.cell(
            "no token ids",
            lambda: refused(
                lambda: connected(REJECTING).embed_documents(TEXTS), "BadRequestError", 400, "check_embedding_ctx_length=False"
            ),
        )


column("langchain-openai", "token ids, base64")
column("langchain-openai (text)", "text, base64", check_embedding_ctx_length=False)
