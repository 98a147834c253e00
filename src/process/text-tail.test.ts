import { expect, it } from "vitest";
import { TextTail } from "./program-output.ts";

function tailOf(...texts: readonly string[]): string | undefined {
  const tail = new TextTail();
  for (const text of texts) tail.push(Buffer.from(text));
  return tail.text;
}

it("keeps what is short", () => {
  expect(tailOf("one\n", "two\n")).toBe("one\ntwo");
  expect(tailOf(" \n")).toBeUndefined();
});

it("begins with a whole line where it was cut, else with a whole word, since half of a secret would not be found", () => {
  const filler = "x".repeat(4086);
  expect(tailOf("secret-12345\n", `${filler}\n`, "last\n")).toBe(`${filler}\nlast`);
  expect(tailOf(`secret-12345 ${filler}\nlast`)).toBe("last");
  expect(tailOf(`secret-12345 ${filler}`, "\n")).toBe(`… ${filler}`);
  expect(tailOf(`secret-12345${filler}`, "\n")).toBe("…");
});
