import { describe, expect, it } from "vitest";
import { check, problemsOf, taskDocument, valid } from "../../../../test/support/task-file.ts";

const said = "{agent.output}";

describe("a value from outside is refused", () => {
  it.each<[object, string]>([
    [{ command: { run: "test -d .", shell: said } }, "where a program is named"],
    [{ http: { url: "http://x", method: said } }, "where the method of a request is named"],
    [{ mcp: { server: "main", tool: said } }, "where a tool is named"],
    [
      { mcp: { tool: "a", expect: { schema: { $ref: `#/${said}` } } } },
      "in a pattern or a reference of a JSON Schema",
    ],
  ])("%j", (step, place) => {
    const problems = problemsOf(taskDocument({ prompt: "p", verify: [check, step] }));
    expect(problems).toEqual([expect.stringContaining(`which cannot be used ${place}`)]);
  });
});

it.each<[object]>([
  [{ mcp: { resource: `a://${said}`, expect: { text: { equals: said } } } }],
  [{ mcp: { tool: "a", args: { text: said }, expect: { text: { equals: said } } } }],
  [{ http: { url: "http://x", body: said, expect: { body: { equals: said } } } }],
])("what a server only has to repeat is noted: %j", (step) => {
  const { notes } = valid(taskDocument({ prompt: "p", verify: [check, step] }));
  expect(notes).toEqual(
    expect.arrayContaining([
      expect.stringContaining("asks for {agent.output}, which the step is given: what only repeats it"),
    ]),
  );
});

it("an output of an HTTP step names one header", () => {
  const step = (output: string): object => ({ http: { url: "http://x", outputs: { a: output } } });
  const verify = [step("{response.headers.etag}"), step("{response.headers.etag.x}")];
  expect(problemsOf(taskDocument({ verify }))).toEqual([
    expect.stringContaining("spec.verify[1].http.outputs.a: {response.headers.etag.x} refers to nothing"),
  ]);
});
