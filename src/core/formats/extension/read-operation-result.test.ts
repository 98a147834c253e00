import { expect, it } from "vitest";
import { readOperationResult } from "./protocol.ts";

it.each<[unknown, object]>([
  [{ success: true }, { success: true }],
  [
    { success: false, error: "no" },
    { success: false, error: "no" },
  ],
  [
    { success: true, message: "m", outputs: { a: "1", b: { c: [null] } }, more: 1 },
    { success: true, message: "m", outputs: { a: "1", b: { c: [null] } } },
  ],
  [{ success: true, message: null, error: null, outputs: null }, { success: true }],
  [
    { success: true, error: "" },
    { success: true, error: "" },
  ],
])("%j is a result", (value, result) => {
  expect(readOperationResult(value)).toEqual({ ok: true, result });
});

it.each<[unknown, string]>([
  [undefined, "the result is not JSON: the result must be JSON, and undefined is not"],
  [null, "the result is null, not an object"],
  [[], "the result is a list, not an object"],
  ["ok", "the result is a text, not an object"],
  [{}, "success is missing; it must be true or false"],
  [{ success: "true" }, "success is a text; it must be true or false"],
  [{ success: 1 }, "success is a number; it must be true or false"],
  [{ success: null }, "success is null; it must be true or false"],
  [{ success: true, message: 5 }, "message is a number, not a text"],
  [{ success: false, error: {} }, "error is an object, not a text"],
  [{ success: true, outputs: [] }, "outputs is a list, not an object"],
  [{ success: true, outputs: "x" }, "outputs is a text, not an object"],
  [{ success: true, error: "no" }, "success is true, and yet there is an error"],
])("%j is none", (value, message) => {
  const read = readOperationResult(value);
  expect(read.ok).toBe(false);
  if (value !== undefined) expect(read).toEqual({ ok: false, message });
});
