import { expect, it } from "vitest";
import { stringify } from "yaml";
import { failure, load } from "../formats/support/load.ts";
import { folderOf, runHere } from "../support/cli.ts";

/** A valid config with an object of every kind that the format has. */
const valid = {
  timeout: "20s",
  servers: {
    local: { transport: "stdio", command: "node", args: ["server.js"], startupTimeout: "5s" },
    remote: { transport: "shttp", url: "http://127.0.0.1:9/mcp", headers: { accept: "a" } },
    older: { transport: "sse", url: "http://127.0.0.1:9/sse", maxMessageBytes: 1000 },
  },
  agent: "script",
  agents: {
    model: { model: "anthropic/claude-sonnet-4-5", maxSteps: 3 },
    script: { type: "scripted", plan: { work: [{ call: "add", args: { a: 1 } }, { say: "Done." }] } },
  },
  judge: { model: "openai/gpt-4o", temperature: 0 },
  limits: { trial: "1m" },
  workflows: [
    {
      name: "work",
      steps: [{ user: "Add.", expectedState: "done" }],
      expectTools: ["add"],
      servers: ["local"],
    },
  ],
  toolHealthSuites: [
    { name: "suite", server: "local", parallel: true, tests: [{ name: "add", args: {}, expectedResult: 5 }] },
  ],
};

interface Typo {
  /** The object that has it. */
  readonly at: readonly string[];
  /** The key that is meant; without it the wrong key is one too many. */
  readonly key: string | undefined;
  readonly wrong: string;
  readonly path: string;
}

/** The object that has it, the key that is meant (else the wrong key is one too many), and the wrong key. */
const typos: readonly Typo[] = (
  [
    ["", "timeout", "timeOut"],
    ["servers.local", "startupTimeout", "startTimeout"],
    ["servers.remote", "headers", "header"],
    ["servers.older", "maxMessageBytes", "maxBytes"],
    ["agents.model", "maxSteps", "maxStep"],
    ["agents.script", undefined, "plans"],
    ["agents.script.plan.work.0", "args", "arguments"],
    ["agents.script.plan.work.1", undefined, "says"],
    ["judge", "temperature", "temprature"],
    ["limits", "trial", "trail"],
    ["workflows.0", "expectTools", "expectedTools"],
    ["workflows.0.steps.0", "expectedState", "expectState"],
    ["toolHealthSuites.0", "parallel", "paralel"],
    ["toolHealthSuites.0.tests.0", "expectedResult", "expectResult"],
  ] as const
).map(([at, key, wrong]) => ({
  at: at.split(".").filter(Boolean),
  key,
  wrong,
  path: `${at}.${wrong}`.replace(/^\./, "").replaceAll(/\.(\d+)/g, "[$1]"),
}));

const formats = {
  json: (config: unknown) => JSON.stringify(config, undefined, 2),
  yaml: (config: unknown) => stringify(config),
  ts: (config: unknown) =>
    `interface Any { readonly [key: string]: unknown }\nexport default ${JSON.stringify(config)} as Any;\n`,
} as const;
type Format = keyof typeof formats;
const formatNames = Object.keys(formats) as Format[];

function withTypos(mistakes: readonly Typo[]): unknown {
  const config: unknown = structuredClone(valid);
  for (const { at, key, wrong } of mistakes) {
    const object = at.reduce((inner, step) => (inner as never)[step], config) as Record<string, unknown>;
    object[wrong] = key === undefined ? "x" : object[key];
    if (key !== undefined) delete object[key];
  }
  return config;
}

/** The place of a key: its line, or in a program only its path. */
function placeIn(text: string, format: Format, { wrong, path }: Typo): object {
  const line = text.split("\n").findIndex((row) => new RegExp(`\\b${wrong}\\b"?:`).test(row)) + 1;
  return format === "ts" ? { path } : { path, line };
}

it.each(formatNames)(
  "all misspelt keys of a config in %s are reported at once, with their places",
  async (format) => {
    const file = `mcp-eval.config.${format}`;
    const text = formats[format](withTypos(typos));
    using folder = folderOf({ [file]: text, [`valid.${format}`]: formats[format](valid) });
    const { details } = await failure(folder.path);
    const { diagnostics = [] } = details;
    const found = new Map(diagnostics.map((diagnostic) => [diagnostic.location?.path, diagnostic]));
    expect(diagnostics).toHaveLength(typos.length);
    for (const typo of typos) {
      expect(found.get(typo.path)).toMatchObject({
        code: "config/unknown-key",
        message: expect.stringContaining(JSON.stringify(typo.wrong)) as string,
        location: { file, ...placeIn(text, format, typo) },
        ...(typo.key === undefined ? {} : { hint: expect.stringContaining(typo.key) as string }),
      });
    }
    expect((await load(folder.path, { source: `valid.${format}` })).eval.tasks).toHaveLength(2);
  },
);

it("one misspelt key ends run and validate with exit code 2", async () => {
  using folder = folderOf({ "mcp-eval.config.json": withTypos(typos.slice(0, 1)) });
  const run = await runHere(["run"], { cwd: folder.path });
  const validate = await runHere(["validate", "--json"], { cwd: folder.path });
  expect([run.code, run.stdout]).toEqual([2, ""]);
  expect(run.stderr).toContain('error unknown key "timeOut"');
  expect([validate.code, validate.stderr]).toEqual([2, ""]);
  expect(JSON.parse(validate.stdout)).toMatchObject({
    valid: false,
    diagnostics: [{ code: "config/unknown-key" }],
  });
});
