import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { builtMain, folderOf, root, runCli } from "../support/cli.ts";

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly [{ readonly startOffset: number; readonly count: number }];
    }[];
  }[];
}

interface Executed {
  /** Files of the package that were loaded. */
  readonly loaded: readonly string[];
  /** Files of `src` of which a function was called. */
  readonly sources: readonly string[];
}

/** Runs the built CLI and reads from V8's coverage what of it took part; the bundler marks where each file of `src` begins. */
async function executedBy(
  args: readonly string[],
  files: Readonly<Record<string, string>>,
): Promise<Executed> {
  using folder = folderOf(files);
  const coverage = join(folder.path, "coverage");
  // Functions from the compile cache would be counted less exactly.
  const env = { NODE_V8_COVERAGE: coverage, NODE_DISABLE_COMPILE_CACHE: "1" };
  const { code, stdout, stderr } = await runCli(args, { cwd: folder.path, env });
  expect([code, stdout + stderr]).toEqual([0, expect.anything()]);
  const loaded = new Set<string>();
  const sources = new Set<string>();
  for (const file of globSync("*.json", { cwd: coverage })) {
    const { result } = JSON.parse(readFileSync(join(coverage, file), "utf8")) as Coverage;
    for (const { url, functions } of result) {
      const path = url.startsWith("file:") ? fileURLToPath(url) : "";
      if (!path.startsWith(dirname(builtMain))) continue;
      loaded.add(path);
      const marks = [...readFileSync(path, "utf8").matchAll(/^\/\/ (\S+\.\w+)$/gm)];
      for (const { functionName, ranges } of functions) {
        const [{ startOffset, count }] = ranges;
        const isModule = functionName === "" && startOffset === 0;
        const source = marks.findLast(({ index }) => index < startOffset)?.[1] ?? "";
        if (count > 0 && !isModule && source.startsWith("src/")) sources.add(source);
      }
    }
  }
  return { loaded: [...loaded], sources: [...sources].toSorted() };
}

const toolTest = `server:
  transport: stdio
  command: node
  args: [${JSON.stringify(join(root, "test/fixtures/servers/fixture-server.mjs"))}]
toolHealthSuites:
  - name: suite
    tests: [{ name: echo, args: { message: hello }, expectedResult: hello }]
`;

it("a tool test executes at most 95 files of src, and reads at most 20 of the package", async () => {
  const { loaded, sources } = await executedBy(["run"], { "mcp-eval.config.yaml": toolTest });
  expect(sources).toContain("src/steps/mcp.ts");
  expect(sources).not.toContain("src/model/event-schema.ts");
  expect(sources.slice(95)).toEqual([]);
  expect(loaded.slice(20)).toEqual([]);
});

it("a portable task with the oracle executes at most 115 files of src", async () => {
  const task = join(root, "examples/tasks/knowledge-graph.yaml");
  const { sources } = await executedBy(["run", task, "--agent", "oracle"], {});
  expect(sources).toContain("src/agents/scripted.ts");
  expect(sources).not.toContain("src/model/event-schema.ts");
  expect(sources.slice(115)).toEqual([]);
});

it("help executes at most 12 files of src, and reads at most 12 of the package", async () => {
  const { loaded, sources } = await executedBy(["--help"], {});
  expect(sources.slice(12)).toEqual([]);
  expect(loaded.slice(12)).toEqual([]);
});
