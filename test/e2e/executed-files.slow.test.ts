import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
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

/** Runs a command line and reads from V8's coverage what of it took part: of the package as it is built, and of its source as it is written. */
async function executedBy(
  args: readonly string[],
  files: Readonly<Record<string, string>>,
): Promise<Executed> {
  const built = await coverageOf(builtMain, args, files);
  const written = await coverageOf(join(root, "src/cli/main.ts"), args, files);
  const sources = written.flatMap(({ path, functions }) => {
    // A function without a name that begins with the file is the file itself.
    const isCalled = functions.some(
      ({ functionName, ranges: [{ startOffset, count }] }) =>
        count > 0 && !(functionName === "" && startOffset === 0),
    );
    return isCalled && path.startsWith(join(root, "src/")) ? relative(root, path) : [];
  });
  const loaded = built.flatMap(({ path }) => (path.startsWith(dirname(builtMain)) ? path : []));
  return { loaded: [...new Set(loaded)], sources: [...new Set(sources)].toSorted() };
}

type Covered = Pick<Coverage["result"][number], "functions"> & { readonly path: string };

async function coverageOf(
  main: string,
  args: readonly string[],
  files: Readonly<Record<string, string>>,
): Promise<readonly Covered[]> {
  using folder = folderOf(files);
  const coverage = join(folder.path, "coverage");
  // Functions from the compile cache would be counted less exactly.
  const env = { NODE_V8_COVERAGE: coverage, NODE_DISABLE_COMPILE_CACHE: "1" };
  const { code, stdout, stderr } = await runCli(args, { cwd: folder.path, env, main });
  expect([code, stdout + stderr]).toEqual([0, expect.anything()]);
  return globSync("*.json", { cwd: coverage }).flatMap((file) => {
    const { result } = JSON.parse(readFileSync(join(coverage, file), "utf8")) as Coverage;
    return result.map(({ url, functions }) => ({
      path: url.startsWith("file:") ? fileURLToPath(url) : "",
      functions,
    }));
  });
}

const toolTest = `server:
  transport: stdio
  command: node
  args: [${JSON.stringify(join(root, "test/fixtures/servers/fixture-server.mjs"))}]
toolHealthSuites:
  - name: suite
    tests: [{ name: echo, args: { message: hello }, expectedResult: hello }]
`;

it("a tool test executes at most 97 files of src, and reads at most 20 of the package", async () => {
  const { loaded, sources } = await executedBy(["run"], { "mcp-eval.config.yaml": toolTest });
  expect(sources).toContain("src/steps/mcp.ts");
  expect(sources).not.toContain("src/model/event-schema.ts");
  expect(sources.slice(97)).toEqual([]);
  expect(loaded.slice(20)).toEqual([]);
});

it("a portable task with the oracle executes at most 117 files of src", async () => {
  const task = join(root, "examples/tasks/knowledge-graph.yaml");
  const { sources } = await executedBy(["run", task, "--agent", "oracle"], {});
  expect(sources).toContain("src/agents/scripted.ts");
  expect(sources).not.toContain("src/model/event-schema.ts");
  expect(sources.slice(117)).toEqual([]);
});

it("help executes at most 12 files of src, and reads at most 12 of the package", async () => {
  const { loaded, sources } = await executedBy(["--help"], {});
  expect(sources).toContain("src/cli/program.ts");
  expect(sources.slice(12)).toEqual([]);
  expect(loaded.slice(12)).toEqual([]);
});
