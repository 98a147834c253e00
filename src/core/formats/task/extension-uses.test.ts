import { expect, it } from "vitest";
import { check, taskOf } from "../../../../test/support/task-file.ts";
import { extensionUses } from "./extension-uses.ts";

it("finds the operations of extensions in every phase, however deep", () => {
  const task = taskOf(
    {
      setup: [{ "ext.make": {} }],
      verify: [
        check,
        { group: { setup: [{ "ext.a": { id: "mine" } }], steps: [{ not: { "ext.look.at": {} } }] } },
      ],
      cleanup: [
        { foreach: { var: "x", in: [1], steps: [{ extension: { package: "npm:e@1", action: "b" } }] } },
      ],
    },
    { extensions: ["ext"] },
  );
  expect(extensionUses(task)).toEqual([
    { step: "setup[0]", text: "ext.make" },
    { step: "mine", text: "ext.a" },
    { step: "steps[0]", text: "ext.look.at" },
    { step: "steps[0]", text: "npm:e@1.b" },
  ]);
  expect(extensionUses(taskOf({}))).toEqual([]);
});
