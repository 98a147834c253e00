import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf, root, runHere } from "../support/cli.ts";

const source = join(root, "examples/kubernetes");

async function validate(
  from = "",
  to = "",
): Promise<{ readonly code: number | null; readonly told: string }> {
  using folder = folderOf({});
  cpSync(source, folder.path, { recursive: true });
  const file = join(folder.path, "rollout.yaml");
  const text = readFileSync(file, "utf8");
  expect(text).toContain(from);
  writeFileSync(file, text.replace(from, to));
  const { code, stdout, stderr } = await runHere(["validate", "."], { cwd: folder.path });
  return { code, told: stdout + stderr };
}

// It needs a cluster to run; that its operations exist, take such arguments and stand in the right phase is known without one.
describe("the example of Kubernetes", () => {
  it("is valid, with nothing left unchecked", async () => {
    const { code, told } = await validate();
    expect([code, told]).toEqual([0, expect.stringContaining("is valid: 1 task")]);
    expect(told).not.toContain("not checked");
  });

  it("would not be with an operation in another phase, or an argument that there is not", async () => {
    const misplaced = await validate(
      "        steps:\n",
      "        steps:\n          - k8s.apply: { file: probe.yaml }\n",
    );
    expect([misplaced.code, misplaced.told]).toEqual([
      2,
      expect.stringContaining("k8s.apply cannot be used in verify"),
    ]);
    const misspelt = await validate("matches: ", "match: ");
    expect([misspelt.code, misspelt.told]).toEqual([2, expect.stringContaining("match")]);
  });
});
