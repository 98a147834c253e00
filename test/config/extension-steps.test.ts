import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { prepare } from "../../src/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { load } from "./support/load.ts";

/** A task of so many lines that mistakes in it can be told apart. */
function task(name: string, { spec = "" } = {}): string {
  return `apiVersion: mcp-eval/v1
kind: Task
metadata:
  name: ${name}
spec:
  prompt: Do ${name}.
  verify:
    - command: { run: "true" }
${spec}`;
}

describe("steps of extensions", () => {
  const extension = `  imports: [{ package: "github.com/a/b@v1", as: k8s }]
  setup:
    - k8s.apply: { file: x }
`;

  it("are refused, unless the task is left out", async () => {
    using folder = folderOf({ "t/a.yaml": task("a", { spec: extension }), "t/b.yaml": task("b") });
    const loaded = await load(folder.path, { source: "t" });
    expect(prepare(loaded, { tasks: ["b"] }).eval.tasks).toHaveLength(1);
    const message = 'step setup[0] of the task "a" is k8s.apply, an operation of an extension';
    expect(refusalOf(() => prepare(loaded, {}))).toMatchObject({
      code: "task/extension",
      message,
      details: {
        diagnostics: [
          {
            message,
            location: { file: join("t", "a.yaml"), line: 11, column: 7 },
            frame: expect.stringContaining("> 11 |     - k8s.apply"),
          },
        ],
      },
    });
  });

  it("are refused in the older forms with their places", async () => {
    const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: old }
spec:
  requires: [{ extension: kubernetes, as: k8s }]
  prompt: { inline: hi }
  verify:
    - script: { inline: "true" }
    - { id: mine, k8s.wait: {} }
`;
    using folder = folderOf({ "old.yaml": old });
    const loaded = await load(folder.path, { source: "old.yaml" });
    expect(refusalOf(() => prepare(loaded, {})).details.diagnostics).toMatchObject([
      {
        message: 'step mine of the task "old" is kubernetes.wait, an operation of an extension',
        location: { line: 9, column: 19 },
      },
    ]);
  });
});

function refusalOf(work: () => unknown): McpvalsError {
  try {
    work();
  } catch (error) {
    if (error instanceof McpvalsError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
