import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkJson } from "../../src/core/checks/json-expectation.ts";
import type { Json } from "../../src/core/formats/model.ts";
import type { FileStep, JsonExpectation, NotStep, Step } from "../../src/core/formats/step.ts";
import type { Check } from "../../src/core/trace/events.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { trialOf } from "../e2e/support.ts";
import { folderOf } from "../support/cli.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";

const value: Json = {
  items: [
    { name: "a", status: "ok", tags: [] },
    { name: "b", status: "ok", tags: ["x"] },
  ],
  user1: { email: "a@b.c" },
  next: null,
  total: 2,
};

const nulls: Json = { items: [{ tag: null }, { tag: null }], mixed: [null, { name: "a" }] };

function only(expectation: JsonExpectation, from: Json = value): Check {
  const [check, ...others] = checkJson("json", [expectation], from);
  if (check === undefined || others.length > 0) throw new Error("not one check");
  return check;
}

// docs/tasks.md, "Steps": that nothing is at a path is evidence only where the way to it is there.
describe("a path that leads nowhere is evidence only where its way is there", () => {
  it.each<[string, JsonExpectation, Json, string]>([
    [
      "a holder that is misspelt",
      { path: "$.itmes[0].error", exists: false },
      value,
      '$.itmes leads to nothing already; there is "items" there, did you mean that?',
    ],
    [
      "a holder that is not there",
      { path: "$.meta.error", exists: false },
      value,
      "$.meta leads to nothing already",
    ],
    [
      "entries of what is not there",
      { path: "$.itmes[*]", count: 0 },
      value,
      "$.itmes leads to nothing already",
    ],
    [
      "a filter over what is not there",
      { path: "$.itmes[?@.status == 'failed']", count: 0 },
      value,
      "$.itmes leads to nothing already",
    ],
    ["no entries at all", { path: "$.itmes[*].name", equals: [] }, value, "$.itmes leads to nothing already"],
    ["entries of a number", { path: "$.total[*]", count: 0 }, value, "$.total is 2, which has no members"],
    ["a member of a list", { path: "$.items.error", exists: false }, value, "which has no members"],
    ["an entry of an object", { path: "$.user1[0]", exists: false }, value, "which has no entries"],
    ["a member of a text", { path: "$.error", exists: false }, "fine", '$ is "fine", which has no members'],
    [
      "a member of null",
      { path: "$.next.cursor", exists: false },
      value,
      "$.next is null, which has no members",
    ],
    ["an entry of null", { path: "$.next[0]", exists: false }, value, "$.next is null, which has no entries"],
    ["entries of null", { path: "$.next[*]", count: 0 }, value, "$.next is null, which has no members"],
    ["entries of null by a filter", { path: "$.next[?@.a == 1]", count: 0 }, value, "$.next is null"],
    ["anything below null", { path: "$.next..a", exists: false }, value, "$.next is null"],
    ["a member of a root that is null", { path: "$.error", exists: false }, null, "$ is null"],
    ["no entries of null", { path: "$.next[*].name", equals: [] }, value, "$.next is null"],
    [
      "a member of a root that is a list",
      { path: "$.error", exists: false },
      [],
      "$ is [], which has no members",
    ],
  ])("%s", (_, expectation, from, reason) => {
    expect(only(expectation, from)).toMatchObject({
      passed: false,
      unplaced: true,
      message: expect.stringContaining(reason) as string,
    });
  });

  it.each<[string, JsonExpectation, Json]>([
    ["a member of an object", { path: "$.error", exists: false }, value],
    ["a null beyond where the way is one", { path: "$.items[*].tag.name", exists: false }, nulls],
    ["a filter of entries of which some are null", { path: "$.mixed[?@.name == 'c']", count: 0 }, nulls],
    ["a further entry", { path: "$.items[2]", exists: false }, value],
    ["entries of an empty list", { path: "$.items[0].tags[*]", count: 0 }, value],
    ["a filter that fits none", { path: "$.items[?@.status == 'failed'].name", count: 0 }, value],
    ["a member that no entry has", { path: "$.items[*].error", exists: false }, value],
    ["anywhere below", { path: "$..error", exists: false }, value],
    ["an empty object", { path: "$.error", exists: false }, {}],
    ["another of a kind", { path: "$.user2", exists: false }, value],
  ])("but it is where there is %s", (_, expectation, from) => {
    const { passed, doubt } = only(expectation, from);
    expect([passed, doubt]).toEqual([true, undefined]);
  });

  it.each<[string, JsonExpectation, string]>([
    ["a misspelt member", { path: "$.itmes", exists: false }, "items"],
    ["a misspelt member anywhere", { path: "$..itmes", exists: false }, "items"],
    ["one of several names", { path: "$['itmes', 'error']", count: 0 }, "items"],
    ["a member in another case", { path: "$.Items", exists: false }, "items"],
    ["a misspelt member of entries", { path: "$.items[*].staus", exists: false }, "status"],
    ["a misspelt member in a filter", { path: "$.items[?@.staus == 'failed']", count: 0 }, "status"],
    [
      "a misspelt member in a part of a filter",
      { path: "$.items[?@.name == 'c' && !(@.staus == 'ok')]", count: 0 },
      "status",
    ],
  ])("%s beside one that is there gives a doubt", (_, expectation, near) => {
    expect(only(expectation).doubt).toContain(`there is "${near}" there, did you mean that?`);
  });

  it.each<[string, JsonExpectation, string]>([
    ["with !=", { path: "$.items[?@.staus != 'failed']", count: 2 }, "status"],
    ["with !", { path: "$.items[?!@.staus]", count: 2 }, "status"],
    ["in !(…)", { path: "$.items[?!(@.staus == 'failed')]", count: 2 }, "status"],
    ["in an or", { path: "$.items[?@.staus == 'x' || @.name == 'a']", exists: true }, "status"],
    ["on both sides", { path: "$.items[?@.staus == @.satus]", count: 2 }, "status"],
    ["on the right side", { path: "$.items[?@.name != @.staus]", count: 2 }, "status"],
    ["of the root", { path: "$.items[?@.name != $.totl]", count: 2 }, "total"],
    ["further in", { path: "$[?@.emial != 'x'].email", exists: true }, "email"],
    ["in a function", { path: "$.items[?!match(@.staus, 'f.*')]", count: 2 }, "status"],
    ["of a place further in", { path: "$[?@.meta.colur != 'red'].name", count: 1 }, "colour"],
    ["in a list of names", { path: "$.items[0]['name', 'staus']", count: 1 }, "status"],
    [
      "in a filter before the end",
      { path: "$.items[?@.staus != 'failed'].name", equals: ["a", "b"] },
      "status",
    ],
  ])("a misspelt name %s gives one, wherever the path leads", (_, expectation, near) => {
    const from = expectation.path.includes("meta") ? [{ name: "a", meta: { colour: "red" } }] : value;
    const { passed, doubt } = only(expectation, from);
    expect([passed, doubt]).toEqual([
      true,
      expect.stringContaining(`there is "${near}" there, did you mean that?`),
    ]);
  });

  it.each<JsonExpectation>([
    { path: "$.items[?@.status != 'failed']", count: 2 },
    { path: "$.items[?!@.error]", count: 2 },
    { path: "$.items[?@.name == 'a' && @.status == 'ok']", count: 1 },
    { path: "$.items[0]['name', 'error']", count: 1 },
    { path: "$.items[?@.tags[?@ == 'x']]", count: 1 },
  ])("but %j does not", (expectation) => {
    const { passed, doubt } = only(expectation);
    expect([passed, doubt]).toEqual([true, undefined]);
  });
});

const base = { timeoutMs: 60_000 };

function not(...steps: Step[]): NotStep {
  return { type: "not", id: "not", steps, ...base };
}

/** What a `not` of a look at a file with this text gives. */
async function notOf(
  text: string | undefined,
  action: Omit<Extract<FileStep["action"], { kind: "check" }>, "kind" | "exists">,
): Promise<readonly [string, readonly Check[]]> {
  using trial = temporaryTrial();
  const path = join(trial.workspace, "a.json");
  if (text !== undefined) writeFileSync(path, text);
  const step: FileStep = {
    type: "file",
    id: "f",
    path,
    action: { kind: "check", exists: true, ...action },
    ...base,
  };
  const { outcome, checks } = await runStep(not(step), stepContext({ trial, scope: scopeOf({}) }));
  return [outcome, checks];
}

// docs/tasks.md, "Control flow": `not` of a check of which nothing is known fails.
describe("a `not` does not pass for want of what was to be looked at", () => {
  const fails = (path: string): Parameters<typeof notOf>[1] => ({
    content: { json: [{ path, equals: "failed" }] },
  });

  it.each<[string, string | undefined, Parameters<typeof notOf>[1]]>([
    ["a holder that is not there", JSON.stringify(value), fails("$.itmes[0].status")],
    ["a text that is no JSON", "oops", fails("$.items[0].status")],
    ["JSON with a key twice", '{"a":1,"a":2}', fails("$.a")],
    ["an empty text", "", fails("$.a")],
    ["a file that is not there", undefined, { content: { contains: ["secret"] } }],
  ])("%s", async (_, text, action) => {
    const [outcome, checks] = await notOf(text, action);
    expect(outcome).toBe("failed");
    expect(checks.every(({ unplaced }) => unplaced === true)).toBe(true);
  });

  it.each<[string, string | undefined, Parameters<typeof notOf>[1]]>([
    ["another value", JSON.stringify(value), fails("$.items[0].status")],
    ["a member that is not there", JSON.stringify(value), fails("$.error")],
    ["a file that is not to be there", undefined, {}],
  ])("but it does for %s", async (_, text, action) => {
    expect((await notOf(text, action))[0]).toBe("passed");
  });
});

/** The result of a task whose verify steps look at files of this content. */
async function runTask(verify: readonly object[]): Promise<RunResult> {
  using folder = folderOf({
    "state.json": value,
    "t.json": {
      kind: "Task",
      apiVersion: "mcp-eval/v1",
      metadata: { name: "t" },
      spec: {
        servers: { m: { transport: "mock", mock: { tools: { t: { responses: [{ return: "x" }] } } } } },
        verify,
      },
    },
  });
  return await evaluate("t.json", { cwd: folder.path, output: false, agents: ["null"] });
}

// docs/tasks.md, "Steps": a path that may be misspelt gives a warning.
describe("a check that passes in doubt gives the trial a warning", () => {
  it.each<[string, object, RegExp]>([
    [
      "a path",
      { file: { path: "state.json", expect: { json: { path: "$.itmes", exists: false } } } },
      /^verify step ".*" passed, but \$\.itmes leads to nothing; there is "items" there/,
    ],
    [
      "a path in a not",
      { not: { file: { path: "state.json", expect: { json: { path: "$.itmes" } } } } },
      /^verify step ".*" passed, but \$\.itmes leads to nothing/,
    ],
    [
      "a folder of a file",
      { file: { path: "{workspace}/out/a.txt", expect: { exists: false } } },
      /passed, but not even the folder that the file would be in is there$/,
    ],
  ])("for %s", async (_, step, warning) => {
    const trial = trialOf(await runTask([{ allOf: [step] }]), "t");
    expect(trial).toMatchObject({ verdict: "pass", warnings: [expect.stringMatching(warning) as string] });
  });

  it("and none where there is no doubt", async () => {
    const step = { file: { path: "state.json", expect: { json: { path: "$.error", exists: false } } } };
    const trial = trialOf(await runTask([step]), "t");
    expect([trial.verdict, trial.warnings]).toEqual(["pass", undefined]);
  });
});
