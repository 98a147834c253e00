import { createHash } from "node:crypto";
import { canonicalJson, type Json } from "./json.ts";

/** Hexadecimal digits of a fingerprint: enough that no two tasks, or tables of prices, have the same. */
const length = 16;

/** A hash of a value as JSON, whatever the order of its keys. */
export function fingerprintOfJson(value: unknown): string {
  const text = canonicalJson(JSON.parse(JSON.stringify(value)) as Json);
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}
