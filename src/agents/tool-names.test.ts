import * as fc from "fast-check";
import { expect, test } from "vitest";
import { nameTools, type ToolRef } from "./offered-tools.ts";

test("a tool keeps its name when only one server has it", () => {
  expect([...nameTools([{ server: "a", tool: "get-sum" }])]).toEqual([
    ["get-sum", { server: "a", tool: "get-sum" }],
  ]);
});

test("tools of one name are told apart by their servers", () => {
  const names = nameTools([
    { server: "a", tool: "search" },
    { server: "b", tool: "search" },
  ]);
  expect([...names.keys()]).toEqual(["a__search", "b__search"]);
});

test.each([
  [{ server: "my server", tool: "do it!" }, "my_server__do_it_"],
  [{ server: "1st", tool: "größe" }, "_1st__gr__e"],
  [{ server: "a", tool: "1st" }, "a__1st"],
  [{ server: "a", tool: "" }, "a__"],
])("%j is called %s", (ref, name) => {
  expect([...nameTools([ref])]).toEqual([[name, ref]]);
});

test("a name that is too long is cut and gets a hash that depends on all of it", () => {
  const long = "x".repeat(80);
  const refs: ToolRef[] = [
    { server: "a", tool: `${long}1` },
    { server: "a", tool: `${long}2` },
  ];
  const names = [...nameTools(refs).keys()];
  expect(names).toHaveLength(2);
  for (const name of names) expect(name).toMatch(/^a__x{53}_[a-z0-9]{7}$/);
});

test("made names that collide with each other or with a tool's own name get hashes", () => {
  const names = nameTools([
    { server: "a", tool: "x.y" },
    { server: "a", tool: "x y" },
    { server: "b", tool: "c__t" },
    { server: "c", tool: "t" },
    { server: "d", tool: "t" },
  ]);
  expect([...names.keys()].map((name) => name.replace(/_[a-z0-9]{7}$/, "_#")).toSorted()).toEqual([
    "a__x_y_#",
    "a__x_y_#",
    "c__t",
    "c__t_#",
    "d__t",
  ]);
});

const word = fc.oneof(
  fc.constantFrom("a", "b", "a__b", "search", "__proto__", "constructor", "x.y", "x y", "é", ""),
  fc.string({ unit: "binary", maxLength: 100 }),
);
const refs = fc.array(fc.record({ server: word, tool: word }), { maxLength: 12 });

test("every tool has exactly one name, legal for every provider, whatever the order", () => {
  fc.assert(
    fc.property(refs, (tools) => {
      const names = nameTools(tools);
      const distinct = new Set(tools.map((ref) => JSON.stringify([ref.server, ref.tool])));
      const named = new Set([...names.values()].map((ref) => JSON.stringify([ref.server, ref.tool])));
      expect(named).toEqual(distinct);
      expect(names.size).toBe(distinct.size);
      for (const name of names.keys()) expect(name).toMatch(/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/);
      expect(new Map(nameTools(tools.toReversed()))).toEqual(new Map(names));
    }),
    { numRuns: 1000 },
  );
});

test("a legal name that only one server has is kept", () => {
  fc.assert(
    fc.property(refs, (tools) => {
      const names = nameTools(tools);
      for (const { server, tool } of tools) {
        const shared = tools.some((other) => other.tool === tool && other.server !== server);
        if (!shared && /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/.test(tool))
          expect(names.get(tool)).toEqual({ server, tool });
      }
    }),
  );
});
