import { assert, constantFrom, jsonValue, property } from "fast-check";
import { expect, it } from "vitest";
import { replaceInJson } from "./multiplexer.ts";

const spaces = constantFrom("", " ", "\n\t");

it("replaces one value and nothing else, wherever it stands", () => {
  assert(
    property(jsonValue(), jsonValue(), spaces, (before, old, space) => {
      const text = (id: string): string =>
        [
          `${space}{"a":${JSON.stringify(before)}`,
          `"p":{"id":1,"n":1.00e+400,"\\u0071":${space}${id}${space}}`,
          `"big":12345678901234567890${space}}`,
        ].join(`,${space}`);
      expect(replaceInJson(text(JSON.stringify(old)), ["p", "q"], '"new"')).toBe(text('"new"'));
    }),
  );
});

it("takes the last of two, as JSON.parse does", () => {
  expect(replaceInJson('{"id":1,"x":"}\\"{","id":2}', ["id"], "3")).toBe('{"id":1,"x":"}\\"{","id":3}');
});

it("changes nothing when there is no such value", () => {
  for (const text of ['{"a":{"id":1}}', '{"p":[{"id":1}]}', "[]", "{}"])
    expect(replaceInJson(text, ["p", "id"], "3")).toBe(text);
});
