import type { SQLOutputValue } from "node:sqlite";
import type { Json } from "../../src/extension-sdk/index.ts";

/** A value of SQLite as JSON: whole numbers beyond 2^53 as texts, bytes in base64, what is stored otherwise. */
export function jsonOfSqlite(value: SQLOutputValue): Json {
  if (typeof value === "bigint") return smallOrText(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  return value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
}

function smallOrText(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}
