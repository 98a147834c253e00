import { describe, expect, it } from "vitest";
import { evaluate } from "../../src/evaluate.ts";
import { folderOf } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";

const task = `kind: Task
apiVersion: mcp-eval/v1
metadata: { name: note }
spec:
  servers:
    files: { command: mcp-server-filesystem, args: ["{workspace}"] }
  prompt: Write "buy milk" into {workspace}/note.txt.
  verify:
    - file: { path: "{workspace}/note.txt", expect: { equals: buy milk } }
    - command: { run: 'test {agent.output | sh} = "It is written."' }
`;

/** What a model is told holds the workspace's path, which it needs for its call. */
async function run(content: string): Promise<string> {
  using folder = folderOf({ "note.yaml": task });
  await using provider = await startFakeProvider(({ users, newResults }) => {
    const [path = ""] = /\/\S+note\.txt/.exec(users.join(" ")) ?? [];
    return newResults.length === 0
      ? { tool: "write_file", args: { path, content } }
      : { text: "It is written." };
  });
  const { verdict } = await evaluate("note.yaml", {
    cwd: folder.path,
    agents: ["anthropic/claude-sonnet-4-5"],
    env: { ...provider.env, PATH: process.env["PATH"] ?? "" },
    output: false,
  });
  return verdict;
}

describe("a model that plays a task from a file of its own", () => {
  it("passes when the work is done, and fails when it is not, whatever it says", async () => {
    expect(await run("buy milk")).toBe("pass");
    expect(await run("buy bread")).toBe("fail");
  });
});
