import { expect, it } from "vitest";
import { check, extensionsNamed, taskDocument, valid } from "../../../../test/support/task-file.ts";

it("finds the operations of extensions in every phase, however deep", () => {
  const { extensions } = valid(
    taskDocument({
      setup: [{ "ext.make": { id: "made", timeout: "1s", name: "{random.id}", of: [1] } }],
      verify: [
        check,
        {
          group: {
            setup: [{ "ext.a": { id: "mine" } }],
            steps: [{ not: { "ext.look.at": {} } }],
            cleanup: [{ allOf: [{ "ext.z": { id: "last" } }] }],
          },
        },
      ],
      cleanup: [
        {
          foreach: {
            var: "x",
            in: [1],
            steps: [{ extension: { package: "npm:e@1", action: "b", args: { id: "{x}" } } }],
          },
        },
      ],
    }),
    { extensions: extensionsNamed("ext") },
  );
  const places = extensions.map(({ location, ...use }) => ({ ...use, path: location?.path }));
  const ext = { extension: "ext", args: {} };
  expect(places).toEqual([
    {
      step: "made",
      phase: "setup",
      extension: "ext",
      operation: "make",
      args: { name: "{random.id}", of: [1] },
      path: 'key spec.setup[0]["ext.make"]',
    },
    {
      step: "mine",
      phase: "setup",
      ...ext,
      operation: "a",
      path: 'key spec.verify[1].group.setup[0]["ext.a"]',
    },
    {
      step: "steps[0]",
      phase: "verify",
      ...ext,
      operation: "look.at",
      path: 'key spec.verify[1].group.steps[0].not["ext.look.at"]',
    },
    {
      step: "last",
      phase: "cleanup",
      ...ext,
      operation: "z",
      path: 'key spec.verify[1].group.cleanup[0].allOf[0]["ext.z"]',
    },
    {
      step: "steps[0]",
      phase: "cleanup",
      extension: "npm:e@1",
      operation: "b",
      args: { id: "{x}" },
      path: "key spec.cleanup[0].foreach.steps[0].extension",
    },
  ]);
  expect(valid(taskDocument()).extensions).toEqual([]);
});
