import { expect, it } from "vitest";
import { check, taskDocument, valid } from "../../../../test/support/task-file.ts";

it("finds the operations of extensions in every phase, however deep", () => {
  const { extensions } = valid(
    taskDocument({
      setup: [{ "ext.make": {} }],
      verify: [
        check,
        { group: { setup: [{ "ext.a": { id: "mine" } }], steps: [{ not: { "ext.look.at": {} } }] } },
      ],
      cleanup: [
        { foreach: { var: "x", in: [1], steps: [{ extension: { package: "npm:e@1", action: "b" } }] } },
      ],
    }),
    { extensions: ["ext"] },
  );
  const uses = extensions.map(({ step, text, location }) => [step, text, location?.path]);
  expect(uses).toEqual([
    ["setup[0]", "ext.make", 'key spec.setup[0]["ext.make"]'],
    ["mine", "ext.a", 'key spec.verify[1].group.setup[0]["ext.a"]'],
    ["steps[0]", "ext.look.at", 'key spec.verify[1].group.steps[0].not["ext.look.at"]'],
    ["steps[0]", "npm:e@1.b", "key spec.cleanup[0].foreach.steps[0].extension"],
  ]);
  expect(valid(taskDocument()).extensions).toEqual([]);
});
