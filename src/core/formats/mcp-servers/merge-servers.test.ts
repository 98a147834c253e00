import { assert, constantFrom, dictionary, letrec, oneof, property } from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../model.ts";
import { mergeServers, plainServers } from "../config/mcp-servers.ts";

/** Tables with few keys, so that those of different tables meet; deep, and with everything that has a meaning. */
const tables = letrec<{ table: JsonObject; value: Json }>((tie) => ({
  table: dictionary(constantFrom("a", "b", "env", "mock", "inherit", "__proto__"), tie("value"), {
    maxKeys: 4,
  }),
  value: oneof(
    { maxDepth: 3 },
    constantFrom<Json>(null, false, true, "text", 1, [], ["x"], [null]),
    tie("table"),
  ),
})).table;

const server = { command: "node", args: ["a.js"], env: { A: "1", B: "2" } };

describe("mergeServers", () => {
  it.each<[string, JsonObject, JsonObject, JsonObject]>([
    ["adds a server", { a: server }, { b: { url: "u" } }, { a: server, b: { url: "u" } }],
    [
      "changes parts of one",
      { a: server },
      { a: { args: ["b.js"], env: { B: "3", C: "4" } } },
      { a: { command: "node", args: ["b.js"], env: { A: "1", B: "3", C: "4" } } },
    ],
    ["removes one", { a: server, b: server }, { a: null }, { b: server }],
    [
      "removes a part, and what was never there",
      { a: server },
      { a: { env: { A: null }, cwd: null }, z: null },
      { a: { command: "node", args: ["a.js"], env: { B: "2" } } },
    ],
    ["starts empty", { a: server }, { inherit: false, b: server }, { b: server }],
    ["starts one server empty", { a: server }, { a: { inherit: false, url: "u" } }, { a: { url: "u" } }],
    ["takes all with inherit: true", { a: server }, { inherit: true }, { a: server }],
    [
      "leaves a mock's data alone",
      { a: { mock: { tools: { x: 1 } } } },
      { a: { mock: { state: null, inherit: false } } },
      { a: { mock: { state: null, inherit: false } } },
    ],
    [
      "merges a server that is called mock",
      { mock: server },
      { mock: { args: [] } },
      { mock: { ...server, args: [] } },
    ],
  ])("%s", (_, base, overlay, expected) => {
    expect(plainServers(mergeServers(base, overlay))).toEqual(expected);
    expect(Object.keys(plainServers(mergeServers(base, overlay)))).toEqual(Object.keys(expected));
  });

  it("gives a server that comes again after it was removed nothing of the first", () => {
    const removed = mergeServers({ a: server }, { a: null });
    expect(plainServers(mergeServers(removed, { a: { url: "u" } }))).toEqual({ a: { url: "u" } });
  });

  it("is associative, whatever the tables hold", () => {
    assert(
      property(tables, tables, tables, (a, b, c) => {
        const left = mergeServers(mergeServers(a, b), c);
        const right = mergeServers(a, mergeServers(b, c));
        expect(left).toEqual(right);
        expect(plainServers(left)).toEqual(plainServers(right));
      }),
      { numRuns: 1000 },
    );
  });

  it("changes nothing with an empty table on either side, and nothing of what it is given", () => {
    assert(
      property(tables, tables, (a, b) => {
        expect(mergeServers(a, {})).toEqual(a);
        expect(mergeServers({}, a)).toEqual(a);
        const before = JSON.stringify([a, b]);
        mergeServers(a, b);
        expect(JSON.stringify([a, b])).toBe(before);
        expect(plainServers(plainServers(a))).toEqual(plainServers(a));
      }),
    );
  });
});
