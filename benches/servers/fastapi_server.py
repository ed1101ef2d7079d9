"""An embeddings endpoint as one would write it with FastAPI and Python model2vec: fastapi_server.py FOLDER_OF_A_MODEL.

It answers what `cargo xtask bench-server` asks, in the format of OpenAI, and decides what such a server has to decide
in the way that is fastest: one process (the interpreter's lock lets a second thread do nothing), the event loop and
the parser that are written in C, rows computed where the request was read, numbers written by orjson straight from
numpy's memory, and tokens not counted, because the library would have to tokenize a second time.
"""

import base64
import importlib.metadata
import sys

import numpy
import orjson
import uvicorn
from fastapi import FastAPI, Response
from model2vec import StaticModel
from pydantic import BaseModel

model = StaticModel.from_pretrained(sys.argv[1])
app = FastAPI()


class Request(BaseModel):
    model: str
    input: str | list[str]
    encoding_format: str | None = None


@app.post("/v1/embeddings")
async def embeddings(request: Request) -> Response:
    texts = [request.input] if isinstance(request.input, str) else request.input
    rows = numpy.ascontiguousarray(model.encode(texts), dtype=numpy.float32)
    if request.encoding_format == "base64":
        rows = [base64.b64encode(row.tobytes()).decode() for row in rows]
    answer = {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
        "model": request.model,
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }
    return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


@app.get("/healthz")
async def healthz() -> Response:
    return Response("ok")


names = ["fastapi", "uvicorn", "uvloop", "httptools", "pydantic", "orjson", "model2vec", "tokenizers", "numpy"]
versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
print(f"versions: Python {sys.version.split()[0]}, {versions}", file=sys.stderr, flush=True)
# It tells where it listens when it does.
uvicorn.run(app, host="127.0.0.1", port=0, access_log=False, loop="uvloop", http="httptools")
