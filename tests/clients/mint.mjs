// Mints by a client that is made from an agent's description: mint.mjs DESCRIPTION URL.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// Where the client's parts are installed, which is not beside this file.
const { OpenAPIClientAxios } = createRequire(`${process.env.UNIQ_CLIENTS}/`)("openapi-client-axios");
const [description, baseURL] = process.argv.slice(2);
const definition = JSON.parse(readFileSync(description, "utf8"));
const api = new OpenAPIClientAxios({ definition, axiosConfigDefaults: { baseURL } });
const agent = await api.init();

const { data } = await agent.uniq64({ n: 3 });
assert.equal(new Set(data.ids).size, 3, data);
assert.equal(new Set((await agent.id_named({ name: "orders", n: 2 })).data.ids).size, 2);
const number = async () => BigInt((await agent.sequence({ name: "inbox", key: "carol" })).data.ids[0]);
assert.ok((await number()) < (await number()));
const refused = await agent.uniq64({ n: 0 }).catch((error) => error.response);
assert.deepEqual([refused.status, refused.data.code], [400, "bad_parameter"]);
console.log(`javascript: minted ${data.ids[0]}`);
