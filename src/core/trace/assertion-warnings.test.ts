import { expect, it } from "vitest";
import { portableTask } from "../../../test/support/portable.ts";
import { TrialEvents } from "../../../test/support/trial-events.ts";
import type { AssertionSet } from "../formats/model.ts";

function warnings(toolsNotUsed: AssertionSet["toolsNotUsed"]): readonly string[] {
  const trial = new TrialEvents().server("k8s", [{ name: "list" }, { name: "delete_pod" }]).server("docs");
  trial.emit({ type: "tools.hidden", server: "k8s", tools: ["drop_all"] });
  return trial.trajectory(portableTask({ assertions: [{ toolsNotUsed: toolsNotUsed ?? [] }] })).warnings;
}

// docs/tasks.md, "Many tasks": an entry that fits no tool is noted.
it.each([
  { server: "k8s", pattern: "^remove_" },
  { server: "k8s", name: "purge" },
])("warns of %j, which fits no tool", (entry) => {
  expect(warnings([entry])).toEqual([
    `toolsNotUsed: ${JSON.stringify(entry.name ?? entry.pattern)} fits no tool of server "k8s"; that it was not called says nothing`,
  ]);
});

it.each([
  { server: "k8s", pattern: "^delete_" },
  { server: "k8s", name: "delete_pod" },
  { server: "k8s" },
  { server: "k8s", name: "drop_all" },
  { server: "unlisted", name: "purge" },
  { pattern: "^Bash$" },
])("but not of %j", (entry) => {
  expect(warnings([entry])).toEqual([]);
});
