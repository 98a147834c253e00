import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { evalJsonSchema } from "../../scripts/schemas/eval-json-schemas.ts";
import { graderKinds, gradersOf } from "../../src/graders/kinds.ts";
import { toolTestTask, workflowTask } from "../support/trial-events.ts";
import { root } from "../support/cli.ts";

const page = readFileSync(join(root, "docs/graders.md"), "utf8");

it("has every grader and every assertion", () => {
  const tasks = [workflowTask(), toolTestTask(), { ...workflowTask(), form: "task" as const }];
  const graders = tasks.flatMap((task) => gradersOf(task).map(({ name }) => name));
  const { $defs } = evalJsonSchema() as { $defs: { Assertions: { properties: object } } };
  const names = [...graders, ...Object.keys(graderKinds), ...Object.keys($defs.Assertions.properties)];
  expect(names.length).toBeGreaterThan(18);
  expect([...new Set(names)].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});
