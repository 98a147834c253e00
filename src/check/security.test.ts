import { expect, it } from "vitest";
import type { PlannedCall } from "../model/check.ts";
import { slowTime } from "./security.ts";

const ordinary: PlannedCall = { tool: "t", args: {}, expects: "result", why: "the required arguments" };
const hostile: PlannedCall = {
  ...ordinary,
  attack: { parameter: "path", aim: "read", form: "an absolute path", isWhole: true },
};

it("only slow answers to hostile requests take their time limit", () => {
  expect(slowTime(hostile, "result", 20_000)).toBe(20_000);
  expect(slowTime(hostile, "error", 600)).toBe(600);
  expect(slowTime(hostile, "result", 400)).toBe(0);
  // Two without an answer end the requests in any case.
  expect(slowTime(hostile, "none", 20_000)).toBe(0);
  expect(slowTime(ordinary, "result", 20_000)).toBe(0);
});
