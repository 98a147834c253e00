import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf, root, runHere } from "../support/cli.ts";

const notes = {
  transport: "stdio",
  command: process.execPath,
  args: [join(root, "test/fixtures/servers/notes-server.mjs")],
};
const count = { call: "count" };
const plan = {
  careless: [
    count,
    count,
    { call: "broken" },
    { call: "title", args: { id: "1", x: 2 } },
    { say: "There are 2 notes." },
  ],
  careful: [{ call: "title", args: { id: 1 } }, { say: "It is Note 1." }],
  talk: [{ say: "Notes are texts." }],
};
const route = (expect: unknown): unknown => [{ type: "tool_routing", config: { expect } }];
const files = {
  "mcp-eval.config.json": {
    servers: { notes },
    agent: { type: "scripted", plan },
    workflows: [
      {
        name: "careless",
        steps: [{ user: "How many?", expectedState: "2 notes" }],
        graders: route({ tool: "title" }),
      },
      { name: "careful", steps: [{ user: "Title?" }], graders: route({ server: "notes", tool: "title" }) },
      { name: "talk", steps: [{ user: "What is a note?" }], graders: route("none") },
    ],
  },
};

it("every run measures how agents used tools, and says what is odd; `show` gives the same", async () => {
  using folder = folderOf(files);
  const options = { cwd: folder.path };
  const first = await runHere(["run"], options);
  expect(first).toMatchObject({ code: 1, stderr: "" });
  const again = await runHere(["show", "--json"], options);
  const result = JSON.parse(again.stdout);
  expect(result.measurements).toMatchObject({
    trials: 3,
    calls: 5,
    invalidCalls: 1,
    invalidCauses: expect.objectContaining({ "wrong type": 1 }),
    redundantCalls: 1,
    errors: 2,
    recoveredErrors: 0,
    ignoredErrors: 1,
    unsupportedClaims: 0,
    definitions: { tools: { notes: { count: expect.any(Number), title: expect.any(Number) } } },
  });
  expect(result.routing.tools).toMatchObject({
    correct: { value: 2 / 3, trials: 3 },
    matrix: expect.arrayContaining([{ expected: "notes.title", called: "notes.count", trials: 1 }]),
  });
  const section = first.stdout.slice(first.stdout.indexOf("Use of tools")).split("\n\n")[1]?.split("\n");
  expect(section).toEqual([
    "  invalid arguments: 1 of 5 calls (wrong type: 1)",
    "  redundant: 1 of 5 calls repeat one and get the same result",
    "  errors: 2 of 5 calls, 0 recovered",
    "  errors that the answer ignores: t1 notes.broken",
    "  routing: 2 of 3 trials led to the expected tool (67 %, 95 % interval 20 to 94 %), 1 time with the right call after a wrong one",
    "  routing: notes.title expected, notes.count called: 1 trial",
  ]);
  const markdown = await runHere(["show", "--reporter", "markdown"], options);
  expect(markdown.stdout).toContain("## Use of tools\n\n- invalid arguments: 1 of 5 calls");
});

it("nothing is said of a run without oddities", async () => {
  using folder = folderOf(files);
  const { stdout, code } = await runHere(["run", "--task", "talk"], { cwd: folder.path });
  expect([code, stdout]).toEqual([0, expect.not.stringContaining("redundant")]);
});
