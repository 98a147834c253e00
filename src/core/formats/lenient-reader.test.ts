import { describe, expect, it } from "vitest";
import * as z from "zod";
import { readLeniently } from "./lenient-reader.ts";

const schema = z.strictObject({
  name: z.string(),
  servers: z.record(z.string(), z.strictObject({ mcpUrl: z.string().optional() })).optional(),
  labels: z.record(z.string(), z.string()).default({}),
  parallel: z.boolean().optional(),
  list: z.array(z.strictObject({ file: z.string() })).optional(),
  either: z.union([z.literal(true), z.array(z.string()), z.strictObject({ a: z.string() })]).optional(),
  several: z
    .union([z.string(), z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })])
    .optional(),
  anything: z.custom<unknown>().optional(),
});

function read(document: unknown) {
  const { value, repairs, written } = readLeniently(document, schema);
  return { value, repairs, written };
}

describe("a document that is read leniently", () => {
  it("has its keys in the schema's case, but not those of tables", () => {
    const { value, written } = read({ NAME: "a", Servers: { MyServer: { MCPURL: "u" } } });
    expect(value).toEqual({ name: "a", servers: { MyServer: { mcpUrl: "u" } } });
    expect(written(["servers", "MyServer", "mcpUrl"])).toEqual(["Servers", "MyServer", "MCPURL"]);
    expect(written(["servers", "MyServer", "missing"])).toEqual(["Servers", "MyServer", "missing"]);
  });

  it("prefers the exact key", () => {
    const { value, repairs } = read({ Name: "other", name: "a" });
    expect(value).toEqual({ name: "a" });
    expect(repairs).toMatchObject([{ kind: "unknown-key", path: ["Name"] }]);
  });

  it("leaves out unknown keys, and empty members", () => {
    const { value, repairs } = read({ name: "a", parallel: null, extra: 1, list: [{ file: "f", fiel: 1 }] });
    expect(value).toEqual({ name: "a", list: [{ file: "f" }] });
    expect(repairs).toMatchObject([
      { kind: "unknown-key", path: ["extra"] },
      { kind: "unknown-key", path: ["list", 0, "fiel"], known: ["file"] },
    ]);
  });

  it("has texts for numbers, booleans and empty labels, and booleans for words", () => {
    const { value, repairs } = read({
      name: 5,
      labels: { port: 8080, on: true, none: null },
      parallel: "Yes",
    });
    expect(value).toEqual({ name: "5", labels: { port: "8080", on: "true", none: "" }, parallel: true });
    expect(repairs).toEqual([
      { kind: "number-as-text", path: ["name"] },
      { kind: "number-as-text", path: ["labels", "port"] },
      { kind: "number-as-text", path: ["labels", "on"] },
      { kind: "text-as-boolean", path: ["parallel"] },
    ]);
  });

  it("reads the option of a union that fits, and leaves what is up to the author", () => {
    expect(read({ name: "a", either: { A: 1 } }).value).toEqual({ name: "a", either: { a: "1" } });
    expect(read({ name: "a", either: [1] }).value).toEqual({ name: "a", either: ["1"] });
    expect(read({ name: "a", either: true }).value).toEqual({ name: "a", either: true });
    expect(read({ name: "a", several: { B: 1 } })).toMatchObject({
      value: { several: { B: 1 } },
      repairs: [],
    });
    expect(read({ name: "a", several: 1 }).value).toEqual({ name: "a", several: "1" });
    const anything = { Any: null, n: 1 };
    expect(read({ name: "a", anything })).toMatchObject({ value: { anything }, repairs: [] });
  });

  it("leaves wrong types for the schema", () => {
    expect(read({ name: {}, list: "x", parallel: 1 }).value).toEqual({ name: {}, list: "x", parallel: 1 });
    expect(read("nonsense").value).toBe("nonsense");
  });
});
