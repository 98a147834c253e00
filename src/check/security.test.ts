import { expect, it } from "vitest";
import { type CheckedCall, type CheckedServer, testRules, tool, viewOf } from "../../test/support/rules.ts";
import { errorResult, textResult } from "../../test/support/trial-events.ts";
import type { PlannedCall, Touched } from "../model/check.ts";
import { eventsOf } from "../model/event.ts";
import { securityRules, slowTime } from "./security.ts";

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

const nothing: Touched = { read: [], write: [], run: [], connect: [] };
const sandbox = { kind: "process", network: [], read: [], write: [] } as const;

/** What a profile that knows nothing finds in calls of two tools, with the accesses that are its evidence. */
function besideProfile(
  watched: readonly [then: "all" | "files", now: "all" | "files"],
  ...calls: readonly CheckedCall[]
): readonly (readonly [tool: string | undefined, message: string, evidence: readonly string[]])[] {
  const tools = [tool({ name: "first" }), tool({ name: "second" })];
  const view = viewOf({
    kind: "security",
    tools,
    calls: calls.map((call) => ({ result: textResult("ok"), ...call })),
  });
  const [then, now] = watched;
  const profile = { watched: then, start: nothing, tools: {}, prompts: {}, resources: {}, sandbox };
  const spec = { ...view.spec, confined: true, watched: now, profile };
  return Array.from(
    securityRules["security/profile"].find({ ...view, spec }),
    ({ place, message, evidence }) => {
      const shown = view.probes.flatMap(({ events, call }) =>
        eventsOf(events, "server.access").flatMap(({ seq, access }) =>
          evidence.includes(seq) ? `${access} of ${call?.tool}` : [],
        ),
      );
      return [place?.tool, message, shown];
    },
  );
}

it("the evidence of what is not in the profile is an access of that sort, in an ordinary call of that tool", () => {
  const target = "~/notes.db";
  const attack = { parameter: "path", aim: "read", form: "../ before the path", isWhole: false } as const;
  expect(
    besideProfile(
      ["all", "all"],
      { tool: "first", touches: [{ access: "read", target }] },
      { tool: "second", attack, touches: [{ access: "write", target }] },
      {
        tool: "second",
        touches: [
          { access: "read", target },
          { access: "delete", target },
        ],
      },
    ),
  ).toEqual([
    ["first", "read: ~/notes.db is not in the profile", ["read of first"]],
    ["second", "read: ~/notes.db is not in the profile", ["read of second"]],
    ["second", "write: ~/notes.db is not in the profile", ["delete of second"]],
  ]);
});

it("a profile that was made without strace is compared with changes of files only", () => {
  const call: CheckedCall = {
    tool: "first",
    touches: [
      { access: "read", target: "~/a" },
      { access: "write", target: "/b", failed: "EROFS" },
      { access: "connect", target: "127.0.0.1:80" },
      { access: "write", target: "~/c", by: "comparison" },
    ],
  };
  const written = ["first", "write: ~/c is not in the profile", ["write of first"]];
  expect(besideProfile(["files", "all"], call)).toEqual([written]);
  expect(besideProfile(["all", "all"], call)).toHaveLength(4);
});
