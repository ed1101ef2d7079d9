// openai of Node. It asks for base64 by itself and stores zeros without a word where a server answers otherwise.

import { execFileSync } from "node:child_process";
import { connect } from "node:net";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import OpenAI from "openai";

const config = JSON.parse(process.env.EMBED_CLIENTS);
const { open, keyed, rejecting, small, key, alias, name, dim } = config;
const half = dim / 2;
const one = "a cat sat on the mat";
const texts = [one, "the weather is nice", "Übergröße, naïve café", "日本語のテキスト 🦀", "the weather is nice", "one two ".repeat(300)];
const { version } = JSON.parse(readFileSync(new URL("node_modules/openai/package.json", import.meta.url)));
const column = "openai (Node)";

const say = (line) => console.log(JSON.stringify({ client: column, ...line }));
say({ versions: { openai: version, node: process.versions.node } });

function check(holds, message) {
  if (!holds) throw new Error(message);
}

function curl(url, body) {
  const command = ["--silent", "--show-error", "--noproxy", "*", "--write-out", "\n%{http_code}", url];
  command.push("--header", "content-type: application/json", "--data-binary", "@-");
  const out = execFileSync("curl", command, { input: JSON.stringify(body), maxBuffer: 1 << 26 }).toString();
  const end = out.lastIndexOf("\n");
  return [Number(out.slice(end + 1)), JSON.parse(out.slice(0, end))];
}

// Fails unless the rows are those that curl got as decimal numbers, in every bit.
function same(rows, inputs, dimensions = dim) {
  const [status, answer] = curl(`${open}/v1/embeddings`, { model: name, input: inputs, dimensions });
  check(status === 200, JSON.stringify(answer));
  const expected = answer.data.map((entry) => Float32Array.from(entry.embedding));
  const found = rows.map((row) => Float32Array.from(row));
  check(found.every((row) => row.length === dimensions && row.some((value) => value !== 0)), "another shape, or zeros");
  check(isDeepStrictEqual(found, expected), "other values");
  return "equal";
}

const connected = (url, apiKey = "unused", options = {}) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, ...options });

async function rows(client, input, fields = {}) {
  const answer = await client.embeddings.create({ model: alias, input, ...fields });
  check(answer.data.every((entry, position) => entry.index === position), "another order");
  return answer.data.map((entry) => entry.embedding);
}

// Fails unless `call` throws an exception of the class `kind` with `status`, which says `part`.
async function refused(call, kind, status, part = "") {
  try {
    await call();
  } catch (error) {
    check(error.constructor === OpenAI[kind], `${error.constructor.name}: ${error.message}`);
    check(error.status === status, `status ${error.status}`);
    check(error.message.includes(part), `\`${part}\` is not in: ${error.message}`);
    return kind;
  }
  throw new Error(`no exception, expected ${kind}`);
}

// While `call` runs, another client holds all the memory that the small server has for bodies.
async function crowded(call) {
  const { hostname, port, host } = new URL(small);
  const length = config.small_bytes;
  const holder = connect(Number(port), hostname);
  holder.write(`POST /v1/embeddings HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${length}\r\n\r\n${" ".repeat(length - 1)}`);
  try {
    for (let attempt = 0; ; attempt += 1) {
      check(attempt < 1000, "the server still has room");
      await new Promise(setImmediate);
      if (curl(`${small}/v1/embeddings`, { model: name, input: one })[0] === 429) break;
    }
    return await call();
  } finally {
    holder.destroy();
  }
}

async function sends() {
  const sent = [];
  const recording = (url, options) => {
    sent.push(JSON.parse(options.body));
    return fetch(url, options);
  };
  same(await rows(connected(open, "unused", { fetch: recording }), texts), texts);
  check(sent.length === 1 && sent[0].encoding_format === "base64", JSON.stringify(sent));
  return "text, base64";
}

async function models(client) {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  check(names.includes(alias) && (await client.models.retrieve(alias)).id === alias, names.join());
  return "listed";
}

async function cell(cell, call) {
  try {
    say({ cell, ok: true, text: await call() });
  } catch (error) {
    console.error(error);
    say({ cell, ok: false, text: String(error).slice(0, 300) });
  }
}

const client = connected(open);
const large = "a ".repeat(config.small_bytes);
await cell("one", async () => same(await rows(client, one), [one]));
await cell("list", async () => same(await rows(client, texts), texts));
await cell("dimensions", async () => same(await rows(client, texts, { dimensions: half }), texts, half));
await cell("sends", sends);
await cell("base64", async () => `${same(await rows(client, texts, { encoding_format: "float" }), texts)} to \`float\``);
await cell("at once", async () =>
  same((await Promise.all(texts.map((text) => rows(client, text)))).map(([row]) => row), texts),
);
await cell("models", () => models(client));
await cell("key", async () => same(await rows(connected(keyed, key), one), [one]));
await cell("wrong model", () =>
  refused(() => client.embeddings.create({ model: "no-such-model", input: one }), "NotFoundError", 404, "no-such-model"),
);
await cell("empty text", () => refused(() => rows(client, [one, ""]), "BadRequestError", 400, "`input[1]`"));
await cell("wrong key", () => refused(() => rows(connected(keyed, "x"), one), "AuthenticationError", 401, "key"));
await cell("busy", () => crowded(() => refused(() => rows(connected(small), one), "RateLimitError", 429)));
await cell("too large", () => refused(() => rows(connected(small), large), "APIError", 413, "body_bytes"));
await cell("no token ids", () =>
  refused(() => rows(connected(rejecting), [1, 2]), "BadRequestError", 400, "check_embedding_ctx_length"),
);
