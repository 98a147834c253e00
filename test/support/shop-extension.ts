import type { MirrorRelease } from "./release-mirror.ts";

const operations = { look: { params: { type: "object", additionalProperties: false } } };

/** An extension that tells its version and its settings, and notes in the user's folder that it was started. */
function program(version: string): string {
  const manifest = { name: "shop", version, protocolVersion: "0.0.1", operations };
  return `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
appendFileSync(process.env.HOME + "/started", "${version} ");
let told = "";
const answers = {
  initialize({ config }) {
    told = " with " + JSON.stringify(config);
    return ${JSON.stringify(manifest)};
  },
  execute: () => ({ success: true, message: "this is ${version}" + told }),
  shutdown: () => ({}),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method](params) }) + "\\n");
  if (method === "shutdown") break;
}
process.exit(0);
`;
}

/** A release of the extension `shop`, for every platform. */
export function shopRelease(version: string): MirrorRelease {
  const manifest = JSON.stringify({ name: "shop", version, operations });
  return { tag: `v${version}`, files: { "shop-any.mjs": program(version), "extension.yaml": manifest } };
}
