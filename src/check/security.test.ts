import { expect, it } from "vitest";
import { type CheckedCall, type CheckedServer, testRules, tool } from "../../test/support/rules.ts";
import { errorResult } from "../../test/support/trial-events.ts";
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

/** A server of which a call with `../` in its path reads a planted secret, or tries to. */
function reading(failed?: string): CheckedServer {
  const touch = {
    access: "read",
    target: "~/.ssh/id_rsa",
    ...(failed === undefined ? {} : { failed }),
  } as const;
  const attack = { parameter: "path", aim: "read", form: "../ before the path", isWhole: false } as const;
  const call: CheckedCall = { attack, touches: [touch], result: errorResult("no") };
  return { kind: "security", tools: [tool()], calls: [call] };
}

testRules({
  "security/path-escape": {
    bad: {
      "a secret that is opened": reading(),
      "a path that leads to nothing": reading("ENOENT"),
      "a name behind that of a file": reading("ENOTDIR"),
    },
    good: {
      "a path that the system follows in one folder only": reading("EXDEV"),
      "a link that the system does not follow": reading("ELOOP"),
      "a file that the system refuses": reading("EACCES"),
    },
  },
});
