import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { folderOf, root } from "../support/cli.ts";
import type { LoadJob } from "./support/load-in-node.ts";

interface Outcome {
  readonly name?: string;
  readonly tasks?: readonly string[];
  readonly code?: string;
  readonly message?: string;
  readonly hint?: string;
  readonly cause?: string;
  readonly location?: { readonly file: string; readonly line?: number; readonly column?: number };
  readonly diagnostics?: readonly {
    readonly message: string;
    readonly location: object;
    readonly frame?: string;
  }[];
}

type Files = Readonly<Record<string, string>>;

/** Loads one config of each set of files with the real Node, as the CLI would, all in one process. */
function runAll(
  jobs: readonly (readonly [files: Files, source: string])[],
  timeoutMs = 20_000,
): { readonly outcomes: readonly Outcome[]; readonly stderr: string } {
  using stack = new DisposableStack();
  const list = jobs.map(([files, source]): LoadJob => {
    const { path: cwd } = stack.use(folderOf(files));
    return { cwd, source, timeoutMs };
  });
  const args = [join(root, "test/load/support/load-in-node.ts"), JSON.stringify(list)];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 25_000 });
  if (stdout === "") throw new Error(stderr);
  return { outcomes: JSON.parse(stdout) as Outcome[], stderr };
}

function run(files: Files, source: string, timeoutMs?: number): Outcome {
  const [outcome = {}] = runAll([[files, source]], timeoutMs).outcomes;
  return outcome;
}

const body = `server: { transport: "stdio", command: "node" }, toolHealthSuites: [{ name: "s", tests: [{ name: "t" }] }]`;
const helpers = {
  "helper.ts": `export const name: string = "typed";`,
  "data.json": `{"name": "typed"}`,
};
const asValue = `export default { ${body}, name: "typed" };`;
const typed = `export default { ${body}, name: "typed" as string };`;

const programs: readonly (readonly [files: Files, source: string])[] = [
  [{ "config.ts": `const name: string = "typed";\nexport default { ${body}, name };` }, "config.ts"],
  [{ "config.mts": `export default { ${body}, name: "typed" satisfies string };` }, "config.mts"],
  [{ "config.js": asValue }, "config.js"],
  [{ "config.mjs": `export const config = { ${body}, name: "typed" };` }, "config.mjs"],
  [{ "config.js": `module.exports = { ${body}, name: "typed" };` }, "config.js"],
  [{ "config.ts": `export default () => ({ ${body}, name: "typed" });` }, "config.ts"],
  [
    { "config.ts": `export default async () => ({ ${body}, name: await Promise.resolve("typed") });` },
    "config.ts",
  ],
  [{ "config.ts": `enum Name { One = "typed" }\nexport default { ${body}, name: Name.One };` }, "config.ts"],
  [
    { ...helpers, "config.ts": `import { name } from "./helper";\nexport default { ${body}, name };` },
    "config.ts",
  ],
  [
    { ...helpers, "config.ts": `import { name } from "./helper.ts";\nexport default { ${body}, name };` },
    "config.ts",
  ],
  [
    {
      ...helpers,
      "config.ts": `import data from "./data.json" with { type: "json" };\nexport default { ${body}, name: data.name };`,
    },
    "config.ts",
  ],
  [
    {
      ...helpers,
      "config.ts": `import data from "./data.json";\nexport default { ${body}, name: data.name };`,
    },
    "config.ts",
  ],
  [
    { "config.ts": `export default { ${body}, name: "typed", openaiKey: process.env.NOT_SET_ANYWHERE };` },
    "config.ts",
  ],
  [{ "package.json": "{}", "config.ts": typed }, "config.ts"],
  [{ "package.json": "{}", "config.js": asValue }, "config.js"],
  [{ "package.json": '{"type": "commonjs"}', "config.ts": typed }, "config.ts"],
  [{ "package.json": '{"type": "commonjs"}', "config.js": asValue }, "config.js"],
  [{ "package.json": '{"type": "module"}', "config.ts": typed }, "config.ts"],
  [{ "mcp-eval.config.mts": typed }, "."],
];

describe("what a config may be", () => {
  let ran: ReturnType<typeof runAll>;
  beforeAll(() => {
    ran = runAll(programs);
  });

  it.each(programs.map(([files, source], index) => ({ files, source, index })))(
    "$source: $files",
    ({ index }) => {
      expect(ran.outcomes[index]).toEqual({ name: "typed", tasks: ["s/t"] });
    },
  );

  it("prints no warning, whatever the package.json says", () => {
    expect(ran.stderr).toBe("");
  });
});

describe("what is wrong with it", () => {
  it("is told by key paths", () => {
    const text = `export default { server: { transport: "stdio", command: "x" },
      workflows: [{ name: "a", steps: [{ user: "u", expectedState: "s" }, { user: 5 }] }] };`;
    expect(run({ "config.ts": text }, "config.ts")).toMatchObject({
      code: "config/invalid-value",
      message: "config.ts: workflows[0].steps[1].user must be a string, not a number",
      diagnostics: [{ location: { file: "config.ts", path: "workflows[0].steps[1].user" } }],
    });
  });

  it("is told with its place for a syntax error", () => {
    const text = "export default {\n  a: 1,\n  b: ;\n};\n";
    const names = ["config.ts", "config.mts", "config.js", "config.mjs"];
    const { outcomes } = runAll(names.map((file) => [{ [file]: text }, file]));
    expect(outcomes).toMatchObject(
      names.map((file) => ({
        code: "config/syntax",
        message: `${file}:3:6: Unexpected token`,
        diagnostics: [
          {
            location: { file, line: 3, column: 6 },
            frame: "  2 |   a: 1,\n> 3 |   b: ;\n    |      ^\n  4 | };",
          },
        ],
      })),
    );
  });

  it("is told with the file of an import that has the syntax error", () => {
    const outcome = run(
      { "config.ts": 'import "./other.ts";\nexport default {};', "other.ts": "let = ;" },
      "config.ts",
    );
    expect(outcome.code).toBe("config/syntax");
    expect(outcome.location?.file).toMatch(/other\.ts$/);
    expect(outcome.location).toMatchObject({ line: 1 });
  });

  it.each([
    [
      "const a = {};\nexport default {\n  x: a.b.c,\n};",
      3,
      10,
      "TypeError: Cannot read properties of undefined (reading 'c')",
      "TypeError",
    ],
    ["export default () => {\n  throw new Error('boom');\n};", 2, 9, "Error: boom", "Error"],
    [
      "export default async () => {\n  await null;\n  throw new RangeError('late');\n};",
      3,
      9,
      "RangeError: late",
      "RangeError",
    ],
  ])("is told with the place for what it throws: %s", (text, line, column, words, cause) => {
    expect(run({ "config.ts": text }, "config.ts")).toMatchObject({
      code: "config/unreadable",
      message: `config.ts threw ${words}`,
      location: { file: "config.ts", line, column },
      cause,
    });
  });

  it("is told when it throws what is no error", () => {
    expect(run({ "config.mjs": `throw "nothing";` }, "config.mjs")).toMatchObject({
      code: "config/unreadable",
      message: 'config.mjs threw "nothing"',
    });
  });

  it.each(["export const other = 1;", "export default undefined;", ""])(
    "is told when it exports no config: %j",
    (text) => {
      expect(run({ "config.mjs": text }, "config.mjs")).toMatchObject({
        code: "config/unreadable",
        message: "config.mjs exports no config",
        hint: "Give it a default export: export default defineConfig({ … }).",
      });
    },
  );

  it("says what to do when mcpvals is not installed beside it", () => {
    const text = `import { defineConfig } from "mcpvals";\nexport default defineConfig({ ${body} });`;
    for (const file of ["config.ts", "config.mjs"]) {
      expect(run({ [file]: text }, file)).toMatchObject({
        code: "config/unreadable",
        message: `${file} imports "mcpvals", which was not found`,
        hint: expect.stringContaining("npm install --save-dev mcpvals"),
      });
    }
  });

  it("names any other package or file that is missing", () => {
    expect(
      run({ "config.ts": `import "no-such-package"; export default { ${body} };` }, "config.ts"),
    ).toMatchObject({ message: 'config.ts imports "no-such-package", which was not found' });
    expect(
      run({ "config.ts": `import "./gone.ts"; export default { ${body} };` }, "config.ts").message,
    ).toMatch(/^config\.ts imports ".*gone\.ts", which was not found$/);
  });

  it("names an export that is missing", () => {
    const files = {
      "config.ts": `import { b } from "./other.ts"; export default b;`,
      "other.ts": "export const a = 1;",
    };
    expect(run(files, "config.ts").message).toBe(
      "config.ts threw SyntaxError: The requested module './other.ts' does not provide an export named 'b'",
    );
  });

  it.each([
    "await new Promise(() => {});\nexport default {};",
    "export default () => new Promise(() => {});",
    "setInterval(() => {}, 1000).unref();\nexport default () => new Promise(() => {});",
  ])("is told when it never ends: %s", (text) => {
    expect(run({ "config.mjs": text }, "config.mjs", 300)).toMatchObject({
      code: "config/unreadable",
      message: "config.mjs did not give its config within 0.3 s",
    });
  });

  it("is told when it holds what is not JSON", () => {
    const text = `const loop = {}; loop.loop = loop;
      export default { ${body}, name: () => "x", workflows: [new Date(0)], agents: { a: loop } };`;
    const { diagnostics = [] } = run({ "config.mjs": text }, "config.mjs");
    expect(diagnostics.map((each) => each.message)).toEqual([
      "name: a value of type function is not JSON",
      "workflows[0]: a Date is not JSON",
      expect.stringMatching(/^agents\.a\.loop\.loop\..*…: nested deeper than 200 levels$/),
      expect.stringMatching(/./),
      expect.stringMatching(/./),
    ]);
  });
});
