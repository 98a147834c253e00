import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../support/cli.ts";

it("keeps every generated file current", () => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, "scripts/generate.ts"), "--check"],
    { encoding: "utf8", timeout: 20_000 },
  );
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toContain("schemas/config.schema.json is current");
  expect(stdout).toContain("docs/reference/config.md is current");
  expect(stdout).toContain("schemas/task.schema.json is current");
  expect(stdout).toContain("docs/reference/task.md is current");
});
