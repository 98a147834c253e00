import { expect, it } from "vitest";
import { graderKinds } from "../../src/graders/kinds.ts";
import { root, runHere } from "../support/cli.ts";

const list = async (...args: readonly string[]) => runHere(["graders", ...args], { cwd: root });

it("lists all types of graders with their settings", async () => {
  const { code, stdout, stderr } = await list();
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout.split("\n").filter((line) => /^\w+$/.test(line))).toEqual(Object.keys(graderKinds));
  expect(stdout).toContain("\n  content_patterns[].path  string, required\n    Path or glob; ");
  expect(stdout).toContain('\n  in  "last" or "all", default: last\n');
});

it("shows one type with an example, and asks for a near one", async () => {
  const { code, stdout } = await list("file");
  expect([code, stdout.split("\n")[0]]).toEqual([0, "file"]);
  expect(stdout).toContain("\nExample\n  - type: file\n    config:\n      must_exist:\n");
  const wrong = await list("fiel");
  expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
  expect(wrong.stderr).toContain('no grader has the type "fiel"');
  expect(wrong.stderr).toContain('Did you mean "file"?');
});

it("gives the JSON Schemas of the settings", async () => {
  const { code, stdout } = await list("diff", "--json");
  expect([code, JSON.parse(stdout)]).toMatchObject([
    0,
    { graders: [{ type: "diff", settings: { type: "object", required: ["expected_files"] }, example: {} }] },
  ]);
});
