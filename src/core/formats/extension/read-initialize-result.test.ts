import { expect, it } from "vitest";
import type { Json } from "../json.ts";
import { readInitializeResult } from "./protocol.ts";

const base = { name: "e", version: "1", protocolVersion: "0.0.1" };

it("gives the manifest", () => {
  const operations = {
    a: { description: "does a", params: { type: "object", properties: {} }, phases: ["verify", "setup"] },
    b: { params: { properties: { x: {} } } },
    c: { params: null },
  };
  expect(readInitializeResult({ ...base, description: "d", operations, more: 1 })).toEqual({
    ok: true,
    protocolVersion: "0.0.1",
    manifest: {
      name: "e",
      version: "1",
      description: "d",
      protocol: "json-rpc",
      operations: {
        a: {
          description: "does a",
          params: { type: "object", properties: {} },
          phases: ["setup", "verify"],
        },
        b: {
          params: { type: "object", properties: { x: {} } },
          phases: ["setup", "verify", "cleanup"],
        },
        c: { params: { type: "object" }, phases: ["setup", "verify", "cleanup"] },
      },
    },
  });
});

it.each<[Json, string]>([
  [[], "the result of initialize is not an object"],
  [{ name: "e", version: "1" }, "protocolVersion is missing, or is not a text"],
  [{ ...base, name: "" }, "name is missing, or is not a text"],
  [{ ...base, version: 1 }, "version is missing, or is not a text"],
  [base, "operations is missing, or is not an object"],
  [{ ...base, operations: {} }, "operations is empty: the extension can do nothing"],
  [{ ...base, operations: { a: 1 } }, 'operations["a"] is not an object'],
  [
    { ...base, operations: { a: { params: { type: "array" } } } },
    'operations["a"].params must be a JSON Schema of type "object": arguments are an object',
  ],
  [
    { ...base, operations: { a: { params: true } } },
    'operations["a"].params must be a JSON Schema, an object',
  ],
  [
    { ...base, operations: { a: { phases: [] } } },
    'operations["a"].phases must be one or more of setup, verify, cleanup',
  ],
  [
    { ...base, operations: { a: { phases: ["run"] } } },
    'operations["a"].phases must be one or more of setup, verify, cleanup',
  ],
  [
    { ...base, operations: { a: { phases: "setup" } } },
    'operations["a"].phases must be a list of setup, verify, cleanup',
  ],
])("%j is refused", (value, message) => {
  expect(readInitializeResult(value)).toEqual({ ok: false, message });
});
