import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { folderOf, root } from "../support/cli.ts";
import type { LoadJob } from "./support/load-in-node.ts";

type Files = Readonly<Record<string, string>>;

const body = `server: { transport: "stdio", command: "node" }, toolHealthSuites: [{ name: "s", tests: [{ name: "t" }] }]`;
const named = (name: string): string => `export default { ${body}, name: ${name} };`;
const value = named(`"typed"`);
const typed = named(`"typed" as string`);
const data = { "data.json": `{"name": "typed"}` };
const helper = { "helper.ts": `export const name: string = "typed";` };
const untyped = { "package.json": "{}" };
const commonjs = { "package.json": '{"type": "commonjs"}' };

const configs: readonly (readonly [source: string, text: string, others?: Files])[] = [
  ["config.ts", `const name: string = "typed";\n${named("name")}`],
  ["config.mts", named(`"typed" satisfies string`)],
  ["config.js", value],
  ["config.mjs", `export const config = { ${body}, name: "typed" };`],
  ["config.js", `module.exports = { ${body}, name: "typed" };`],
  ["config.ts", `export default async () => ({ ${body}, name: await Promise.resolve("typed") });`],
  ["config.ts", `enum Name { One = "typed" }\n${named("Name.One")}`],
  ["config.ts", `import { name } from "./helper";\n${named("name")}`, helper],
  ["config.ts", `import data from "./data.json";\n${named("data.name")}`, data],
  ["config.ts", named(`"typed", openaiKey: process.env.NOT_SET_ANYWHERE`)],
  ["config.js", value, untyped],
  ["config.ts", typed, commonjs],
  ["config.ts", typed, { "package.json": '{"type": "module"}' }],
];

const chain = (first: string, second: string): Files => ({ "first.ts": first, "second.ts": second });
const commonModules = { "a.js": `module.exports = require("./b.js");`, "b.js": `exports.name = "old";` };

/** Configs whose modules change between two loads. */
const reloads: readonly (readonly [what: string, source: string, files: Files, changes: Files])[] = [
  [
    "by Node",
    "config.ts",
    {
      "config.ts": `import { name } from "./first.ts";\n${named("name")}`,
      ...chain(`export * from "./second.ts";`, `export const name: string = "old";`),
    },
    { "second.ts": `export const name: string = "typed";` },
  ],
  [
    "by jiti",
    "config.ts",
    {
      "config.ts": `import { name } from "./first";\n${named("name")}`,
      ...chain(`export * from "./second";`, `export const name: string = "old";`),
    },
    { "second.ts": `export const name: string = "typed";` },
  ],
  [
    "as CommonJS",
    "config.js",
    {
      "config.js": `const { name } = require("./a.js");\nmodule.exports = { ${body}, name };`,
      ...commonModules,
    },
    { "b.js": `exports.name = "typed";` },
  ],
];

const wrong = "export default {\n  a: 1,\n  b: ;\n};\n";
const frame = "  2 |   a: 1,\n> 3 |   b: ;\n    |      ^\n  4 | };";
const uninstalled = `import { defineConfig } from "mcpvals";\nexport default defineConfig({ ${body} });`;
const noConfig = {
  code: "config/unreadable",
  message: "config.mjs exports no config",
  hint: "Give it a default export: export default defineConfig({ … }). To check a server's program: npx mcpvals check -- node config.mjs",
};
const thrown = (words: string, line: number, column: number): object => ({
  code: "config/unreadable",
  message: `config.ts threw ${words}`,
  location: { file: "config.ts", line, column },
  cause: words.split(":")[0],
});
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

const failures: readonly (readonly [
  what: string,
  source: string,
  text: string,
  outcome: object,
  others?: Files,
])[] = [
  [
    "by key paths",
    "config.ts",
    `export default { server: { transport: "stdio", command: "x" },
      workflows: [{ name: "a", steps: [{ user: "u", expectedState: "s" }, { user: 5 }] }] };`,
    {
      code: "config/invalid-value",
      message: "config.ts: workflows[0].steps[1].user must be a string or an object, not a number",
      diagnostics: [{ location: { file: "config.ts", path: "workflows[0].steps[1].user" } }],
    },
  ],
  ...["config.ts", "config.mts", "config.js", "config.mjs"].map((file) => {
    const diagnostic = { location: { file, line: 3, column: 6 }, frame };
    const message = `${file}:3:6: Unexpected token`;
    const outcome = { code: "config/syntax", message, diagnostics: [diagnostic] };
    return ["the place of a syntax error", file, wrong, outcome] as const;
  }),
  [
    "the file of an import that has the syntax error",
    "config.ts",
    'import "./other.ts";\nexport default {};',
    { code: "config/syntax", location: { file: matching(/other\.ts$/), line: 1 } },
    { "other.ts": "let = ;" },
  ],
  [
    "the place of what it throws",
    "config.ts",
    "const a = {};\nexport default {\n  x: a.b.c,\n};",
    thrown("TypeError: Cannot read properties of undefined (reading 'c')", 3, 10),
  ],
  [
    "the place of what its function throws",
    "config.ts",
    "export default () => {\n  throw new Error('boom');\n};",
    thrown("Error: boom", 2, 9),
  ],
  [
    "the place of what is thrown later",
    "config.ts",
    "export default async () => {\n  await null;\n  throw new RangeError('late');\n};",
    thrown("RangeError: late", 3, 9),
  ],
  [
    "what is thrown and is not an error",
    "config.mjs",
    `throw "nothing";`,
    { code: "config/unreadable", message: 'config.mjs threw "nothing"' },
  ],
  ["that undefined is exported", "config.mjs", "export default undefined;", noConfig],
  ...["config.ts", "config.mjs"].map((file) => {
    const message = `${file} imports "mcpvals", which was not found`;
    const hint = matching(/npm install --save-dev mcpvals/);
    const outcome = { code: "config/unreadable", message, hint };
    return ["what to do when mcpvals is not installed beside it", file, uninstalled, outcome] as const;
  }),
  [
    "a package that is missing",
    "config.ts",
    `import "no-such-package"; ${value}`,
    { message: 'config.ts imports "no-such-package", which was not found' },
  ],
  ...[
    "await new Promise(() => {});\nexport default {};",
    "export default () => new Promise(() => {});",
    "setInterval(() => {}, 1000).unref();\nexport default () => new Promise(() => {});",
  ].map((text) => {
    const message = "config.mjs did not give its config within 0.3 s";
    return ["that it never ends", "config.mjs", text, { code: "config/unreadable", message }] as const;
  }),
  [
    "what is not JSON",
    "config.mjs",
    `const loop = {}; loop.loop = loop;
      export default { ${body}, name: () => "x", workflows: [new Date(0)], agents: { a: loop } };`,
    {
      diagnostics: [
        { message: "name: a value of type function is not JSON" },
        { message: "workflows[0]: a Date is not JSON" },
        { message: matching(/^agents\.a\.loop\.loop\..*…: nested deeper than 200 levels$/) },
        {},
        {},
      ],
    },
  ],
];

let outcomes: readonly unknown[] = [];
let printed = "";

/** Loads all of them with the real Node, as the CLI would, in one process. */
beforeAll(() => {
  using stack = new DisposableStack();
  const all = [
    ...configs.map(([source, text, others = {}]) => [source, { [source]: text, ...others }] as const),
    ...failures.map(([, source, text, , others = {}]) => [source, { [source]: text, ...others }] as const),
    ...reloads.map(([, ...each]) => each),
  ];
  const jobs = all.map(([source, files, changes]): LoadJob => {
    const timeoutMs = files[source]?.includes("new Promise(() => {})") === true ? 300 : 20_000;
    const cwd = stack.use(folderOf(files)).path;
    return { cwd, source, timeoutMs, ...(changes === undefined ? {} : { changes }) };
  });
  const args = [join(root, "test/formats/support/load-in-node.ts"), JSON.stringify(jobs)];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 50_000 });
  if (stdout === "") throw new Error(stderr);
  outcomes = JSON.parse(stdout) as unknown[];
  printed = stderr;
});

it.each(configs.map(([source, text], index) => ({ source, text, index })))(
  "a config may be $source: $text",
  ({ index }) => {
    expect(outcomes[index]).toEqual({ name: "typed", tasks: ["s/t"] });
  },
);

describe("an error tells", () => {
  it.each(failures.map(([what, source, , outcome], index) => ({ what, source, outcome, index })))(
    "$what, in $source",
    ({ outcome, index }) => {
      expect(outcomes[configs.length + index]).toMatchObject(outcome);
    },
  );
});

it.each(reloads.map(([what, , files], index) => ({ what, files, index })))(
  "modules of a config that are imported $what are known, and read again",
  ({ files, index }) => {
    const imports = Object.keys(files).slice(1);
    expect(outcomes[configs.length + failures.length + index]).toEqual({
      name: "typed",
      tasks: ["s/t"],
      imports,
    });
  },
);

it("no warning is printed, whatever the package.json says", () => {
  expect(printed).toBe("");
});
