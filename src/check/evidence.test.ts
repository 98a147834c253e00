import { expect, it } from "vitest";
import { errorResult, textResult } from "../../test/support/trial-events.ts";
import type { CheckSpec } from "../model/check.ts";
import { type CheckedServer, schemaOf, tool, viewOf } from "../../test/support/rules.ts";
import { evidenceIn } from "./evidence.ts";

const refusal = { args: { word: 1 }, expects: "refusal", result: textResult("ok") } as const;

const cases: Readonly<Record<string, readonly [server: CheckedServer, lack: unknown]>> = {
  "a call that succeeds among others": [
    { tools: [tool()], calls: [{ result: errorResult("no such file") }, { result: textResult("ok") }] },
    undefined,
  ],
  "no call with valid arguments that succeeds": [
    { tools: [tool()], calls: [{ result: errorResult("no such file") }, refusal] },
    expect.stringMatching(/^none of the 1 calls .*--calls all/),
  ],
  "only results that read like failures": [
    { tools: [tool()], calls: [{ result: textResult("Error: NOTES_TOKEN is not set") }] },
    expect.stringMatching(/^none of the 1 calls /),
  ],
  "no call that is answered": [
    { tools: [tool()], calls: [{ answersPing: true }] },
    expect.stringMatching(/^the server answered no call in time/),
  ],
  "a resource that is given": [
    { reads: [{ kind: "resource", name: "a:b", result: { contents: [] } }] },
    undefined,
  ],
  "resources that are all refused": [
    { reads: [{ kind: "resource", name: "a:b", error: { code: -1, message: "no" } }] },
    "the server gave no resource and no prompt that it lists",
  ],
  "a prompt that refuses arguments that were made up": [
    { reads: [{ kind: "prompt", name: "p", args: { q: "text" }, error: { code: -1, message: "no" } }] },
    undefined,
  ],
  "a stability trial with a list": [{ kind: "stability", tools: [tool()] }, undefined],
  "a stability trial without a list": [{ kind: "stability" }, "the server gave no list again"],
  "a conformance trial without a verdict": [{ kind: "conformance" }, "the conformance suite checked nothing"],
  "an answered handshake": [{ kind: "handshake" }, undefined],
};

it("has not seen enough of a tool that may take an address where connections cannot be watched, or nothing answers", () => {
  const lackFor = (name: string, seen: Partial<CheckSpec>): string | undefined => {
    const inputSchema = schemaOf({ [name]: { type: "string", description: "What to get." } });
    const call = { args: { [name]: "text" }, result: textResult("ok") };
    const view = viewOf({ kind: "security", tools: [tool({ inputSchema })], calls: [call] });
    return evidenceIn({ ...view, spec: { ...view.spec, confined: true, notWatched: "a reason", ...seen } })
      .lack;
  };
  const lack = "where it connects was not seen as a whole, and the tool search may take an address: a reason";
  expect([lackFor("url", { watched: "files" }), lackFor("url", { watched: "all" })]).toEqual([lack, lack]);
  expect(lackFor("url", { watched: "all", answers: true })).toBe(undefined);
  expect(lackFor("word", { watched: "files" })).toBe(undefined);
});

it.each([
  [
    "a tool that only says that it failed",
    { calls: [{ result: textResult("Error: API key missing") }] },
    /^no tool did its work/,
  ],
  ["a tool for which no call could be made", { calls: [] }, /^nothing of what the server lists was called/],
  ["a tool that works", { calls: [{ result: textResult("ok") }] }, undefined],
])("judges in a sandbox the evidence of %s", (_, server, lack) => {
  const view = viewOf({ kind: "security", tools: [tool()], ...server });
  const found = evidenceIn({
    ...view,
    spec: { ...view.spec, confined: true, watched: "all", answers: true },
  }).lack;
  expect(found).toEqual(lack === undefined ? undefined : expect.stringMatching(lack));
});

it.each(Object.entries(cases))("judges the evidence of %s", (_, [server, lack]) => {
  expect(evidenceIn(viewOf(server)).lack).toEqual(lack);
});
