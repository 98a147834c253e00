import * as fc from "fast-check";
import { expect, it } from "vitest";
import { visibleJson } from "../text/visible-text.ts";
import { jsonPieces } from "./result.ts";

function whole(document: object): string {
  return [...jsonPieces(document)].join("");
}

it("gives the document as JSON.stringify does, indented by two and safe to print", () => {
  const member = fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue()), fc.constant(undefined));
  fc.assert(
    fc.property(fc.dictionary(fc.string(), member), (document) => {
      expect(whole(document)).toBe(`${visibleJson(JSON.stringify(document, undefined, 2))}\n`);
      expect(JSON.parse(whole(document))).toEqual(JSON.parse(JSON.stringify(document)));
    }),
    { numRuns: 500 },
  );
});

it("leaves alone what looks like layout inside texts", () => {
  const document = { text: "a\n  b", list: ["x\ny", { z: "\n\n" }], nested: { deep: ["\n"] } };
  expect(JSON.parse(whole(document))).toEqual(document);
});

it("writes lists item by item, so that no piece is larger than one of them", () => {
  const items = Array.from({ length: 1000 }, (_, index) => ({ index, text: "x".repeat(100) }));
  const longest = Math.max(...[...jsonPieces({ items })].map((piece) => piece.length));
  expect(longest).toBeLessThan(200);
});
