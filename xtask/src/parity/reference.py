"""Embeds the texts of a JSONL file with Python model2vec and writes goldens.

Usage: reference.py MODEL TEXTS OUT
Writes OUT/vectors.safetensors, OUT/tokens.jsonl and the same with _limits.
"""

import json
import sys
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from safetensors.numpy import save_file

LIMITS = [1, 8, 64, 512]

model_folder, texts_file, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
model = StaticModel.from_pretrained(model_folder)
with open(texts_file, encoding="utf-8", newline="\n") as lines:
    records = [json.loads(line) for line in lines]
names = [record["id"] for record in records]
texts = [record["text"] for record in records]
metadata = {"ids": json.dumps(names)}


def ids(max_length, cut=True, keep_unknown=False):
    """Token ids as `encode` forms them, one list for each text."""
    inputs = texts
    if max_length is not None and cut:
        inputs = [text[: max_length * model.median_token_length] for text in texts]
    model._set_max_length_in_tokenizer(max_length)
    encodings = model.tokenizer.encode_batch_fast(inputs, add_special_tokens=False)
    model._set_max_length_in_tokenizer(model.max_length)
    unknown = None if keep_unknown else model.unk_token_id
    return [[i for i in encoding.ids if i != unknown] for encoding in encodings]


def save(suffix, vectors, lists):
    vectors = {name: np.ascontiguousarray(rows.astype(np.float32)) for name, rows in vectors.items()}
    save_file(vectors, out / f"vectors{suffix}.safetensors", metadata=metadata)
    with open(out / f"tokens{suffix}.jsonl", "w", encoding="utf-8", newline="\n") as file:
        for number, name in enumerate(names):
            row = {"id": name} | {variant: lists[variant][number] for variant in lists}
            file.write(json.dumps(row) + "\n")


save(
    "",
    {
        "default": model.encode(texts),
        "nolimit": model.encode(texts, max_length=None),
        "raw": model.encode(texts, normalize=False),
        "raw_nolimit": model.encode(texts, normalize=False, max_length=None),
    },
    {
        "default": ids(model.max_length),
        "nolimit": ids(None),
        "nolimit_with_unk": ids(None, keep_unknown=True),
        "tokenize": ids(model.max_length, cut=False),
    },
)
save(
    "_limits",
    {f"raw_{limit}": model.encode(texts, normalize=False, max_length=limit) for limit in LIMITS},
    {f"ids_{limit}": ids(limit) for limit in LIMITS},
)
