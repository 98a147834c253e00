import { expect, it } from "vitest";
import type { JsonObject } from "../base/json.ts";
import type { TraceEvent } from "../model/event.ts";
import { stepPaths } from "./step-path.ts";
import { readTrace } from "./trajectory.ts";

interface Given {
  readonly step: string;
  readonly parent?: string;
  readonly name?: string;
  readonly input?: JsonObject;
}

function pathIn(steps: readonly Given[], step: string): string {
  const events = steps.map(({ input = {}, ...given }, index): TraceEvent => ({
    type: "step.started",
    seq: index + 1,
    at: index,
    trial: "t1",
    phase: "verify",
    stepType: "group",
    attempt: 1,
    input,
    ...given,
  }));
  return stepPaths(events)(step);
}

it.each<[string, Given[], string, string]>([
  ["the id", [{ step: "page" }], "page", "page"],
  ["the name", [{ step: "page", name: "the page" }], "page", "the page"],
  [
    "the steps around it",
    [
      { step: "a", name: "all" },
      { step: "a/b", parent: "a" },
    ],
    "a/b",
    "all › b",
  ],
  [
    "the item of a row",
    [
      { step: "hosts", input: { var: "host", in: ["x", { name: "y" }] } },
      { step: "hosts[1]/up", parent: "hosts[1]" },
    ],
    "hosts[1]/up",
    'hosts (host={"name":"y"}) › up',
  ],
  [
    "the number of the item when the items are not known",
    [{ step: "hosts" }, { step: "hosts[1]/up", parent: "hosts[1]" }],
    "hosts[1]/up",
    "hosts (item 2) › up",
  ],
  [
    "no place twice",
    [{ step: "verify[1]" }, { step: "verify[1]/verify[1].steps[0]", parent: "verify[1]" }],
    "verify[1]/verify[1].steps[0]",
    "verify[1].steps[0]",
  ],
  ["what it was asked for when no event tells of it", [], "gone", "gone"],
])("says %s", (_, steps, step, path) => {
  expect(pathIn(steps, step)).toBe(path);
});

it("assigns messages to the innermost step that is open", () => {
  const common = { trial: "t1", at: 0, step: "", stepType: "group", phase: "verify", attempt: 1, input: {} };
  const bodies = [
    { type: "step.started", step: "outer" },
    { type: "mcp.message" },
    { type: "step.started", step: "inner", parent: "outer" },
    { type: "mcp.message" },
    { type: "step.finished", step: "inner" },
    { type: "mcp.message" },
    { type: "step.finished", step: "outer" },
    { type: "mcp.message" },
  ];
  const events = bodies.map(
    (body, index) => ({ ...common, ...body, seq: index + 1 }) as unknown as TraceEvent,
  );
  expect(readTrace(events).steps).toMatchObject([
    {
      step: "outer",
      attempts: [{ messages: [2, 6], children: [{ step: "inner", attempts: [{ messages: [4] }] }] }],
    },
  ]);
});
