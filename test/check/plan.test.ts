import { expect, it } from "vitest";
import { planCheck } from "../../src/check/plan-check.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { faultyServer } from "./support.ts";

it("says which tools the limit of calls leaves out", async () => {
  await using validator = new SchemaValidator();
  const { tasks } = await planCheck(
    { s: faultyServer("tools=300") },
    {
      calls: "safe",
      disable: [],
      callMs: 5000,
      signal: new AbortController().signal,
      validationOf: () => validator.validate.bind(validator),
    },
  );
  const [calls, definitions] = ["calls", "definitions"].map((kind) =>
    tasks.find(({ check }) => check?.kind === kind),
  );
  const called = new Set(calls?.check?.calls?.map(({ tool }) => tool));
  expect(calls?.check?.calls?.length).toBeGreaterThanOrEqual(500);
  expect(definitions?.check?.notCalled).toHaveLength(301 - called.size);
  expect(definitions?.check?.notCalled?.at(-1)).toEqual({
    tool: "tool_299",
    reason: "a check makes 500 calls at most",
  });
});
