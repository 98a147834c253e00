import { describe, expect, it } from "vitest";
import { check, hintsIn } from "../../../../test/support/task-file.ts";

const run = { run: "test -d ." };

describe("hints", () => {
  it.each<[object, string]>([
    [{ verify: [{ command: { run: { workspace: null } } }] }, 'Write it in quotes: "{workspace}"'],
    [
      { verify: [{ script: { inline: "x", args: [{ "env.A | sh": null }] } }] },
      'Write it in quotes: "{env.A | sh}"',
    ],
    [
      { verify: [{ command: { run: "x", expect: { stdout: { "steps.a.outputs.b": null } } } }] },
      'Write it in quotes: "{steps.a.outputs.b}"',
    ],
    [
      { verify: [{ foreach: { var: "x", in: { "steps.a.outputs.b": null }, steps: [check] } }] },
      'Write it in quotes: "{steps.a.outputs.b}"',
    ],
    [
      { verify: [{ file: { path: "a", expect: "x" } }] },
      "Its keys are exists, equals, contains, matches, json, mode.",
    ],
    [
      { verify: [{ command: "ls" }] },
      "Its keys are run, shell, workdir, env, stdin, expect, timeout, id, name, if, continueOnError, outputs, retry, stableFor.",
    ],
    [
      { verify: [{ command: run, http: { url: "http://x" } }] },
      'command and http are two steps: begin a new item with "-" before http.',
    ],
    [
      { imports: [{ package: "mcpvals:csv", as: "csv" }], verify: [{ "csv.count": "a.csv" }] },
      "Its keys are the arguments of the operation, and timeout, id, if, continueOnError, outputs, retry, stableFor. Without any it is written {}.",
    ],
    [{ verify: [{ command: run, retry: "1s" }] }, "Indent the other keys under command."],
  ])("%j", (spec, hint) => {
    expect(hintsIn(spec)).toEqual([hint]);
  });
});
