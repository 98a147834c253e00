import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Eval } from "../../src/model/eval.ts";
import type { Requirement, Task } from "../../src/model/task.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import { missingRequirements } from "../../src/run/prepare.ts";
import { preparedExtension } from "../support/extensions.ts";
import { portableTask, taskFolder } from "../support/portable.ts";

const server: ServerSpec = {
  transport: "sse",
  url: "http://127.0.0.1:1",
  headers: {},
  startupTimeoutMs: 1,
  maxMessageBytes: 1,
};

const limits = { trialMs: 1, callMs: 1, modelMs: 1 };
const emptyEval: Eval = { name: "e", servers: {}, agents: [], tasks: [], trials: 1, limits, reporters: [] };

interface Given {
  readonly spec?: Partial<Eval>;
  readonly env?: Readonly<Record<string, string>>;
  readonly task?: NonNullable<Parameters<typeof portableTask>[0]>;
  readonly variant?: string;
}

async function missing(requirement: Requirement, given: Given = {}): Promise<readonly string[]> {
  const { spec = {}, env = {}, task: parts = {}, variant } = given;
  const task = portableTask({ requires: [requirement], ...parts });
  const found = await missingRequirements({ eval: { ...emptyEval, ...spec }, env }, [task]);
  return found({ task: task.name, variant });
}

const platformNames: Partial<Record<NodeJS.Platform, string>> = {
  linux: "linux",
  darwin: "macos",
  win32: "windows",
};
const here = platformNames[process.platform] ?? process.platform;
const elsewhere = here === "linux" ? "macos" : "linux";
const platform = (name: string): [Requirement, Given, string] => [
  { kind: "platform", name },
  {},
  `the platform "${name}", and this is ${here}`,
];

const env = { TOKEN: "x", EMPTY: "" };
const spec = { servers: { db: server }, taskServers: { "a task": { web: server }, other: { mail: server } } };
const variants = [
  { name: "both", servers: { "a task": { db: server, web: server } } },
  { name: "none", servers: { "a task": { web: server } } },
];
const { spec: k8s } = preparedExtension("go-like.mjs");
const notConfigured = 'the extension "k8s", which is not configured';

it.each<[Requirement, Given, string | undefined]>([
  [{ kind: "env", name: "TOKEN" }, { env }, undefined],
  [{ kind: "env", name: "EMPTY" }, { env }, "the variable EMPTY, which is empty"],
  [{ kind: "env", name: "toString" }, { env }, "the variable toString, which is not set"],
  [{ kind: "server", name: "db" }, { spec }, undefined],
  [{ kind: "server", name: "web" }, { spec }, undefined],
  [
    { kind: "server", name: "mail" },
    { spec },
    'the server "mail", which is not configured (there are db, web)',
  ],
  [
    { kind: "server", name: "db" },
    {},
    'the server "db", which is not configured (no servers are configured)',
  ],
  [{ kind: "server", name: "db" }, { spec: { ...spec, variants }, variant: "both" }, undefined],
  [
    { kind: "server", name: "db" },
    { spec: { ...spec, variants }, variant: "none" },
    'the server "db", which the variant "none" does not have (there are web)',
  ],
  [{ kind: "platform", name: process.platform }, {}, undefined],
  [{ kind: "platform", name: here.toUpperCase() }, {}, undefined],
  platform(elsewhere),
  platform("constructor"),
  [{ kind: "judge" }, {}, "a judge, and none is configured"],
  [{ kind: "judge" }, { spec: { judge: { model: "a/b", passThreshold: 0.5 } } }, undefined],
  [{ kind: "extension", name: "k8s" }, {}, `${notConfigured} (there are none)`],
  [{ kind: "extension", name: "k8s" }, { task: { extensions: { k8s } } }, undefined],
])("%j with %j", async (requirement, given, problem) => {
  expect(await missing(requirement, given)).toEqual(problem === undefined ? [] : [problem]);
});

it.each([
  ["my-tool", undefined],
  ["./bin/my-tool", undefined],
  ["my-other", 'the command "my-other", which is not on PATH'],
  ["./my-tool", 'the command "./my-tool", which is not an executable file'],
])("the command %s is on PATH, or a file of the task: %s", async (name, problem) => {
  using folder = taskFolder();
  const bin = join(folder.path, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "my-tool"), "", { mode: 0o755 });
  const given = { env: { PATH: bin }, task: { dir: folder.path } };
  expect(await missing({ kind: "command", name }, given)).toEqual(problem === undefined ? [] : [problem]);
});

it("all requirements of all tasks are checked, each once", async () => {
  const judge = { kind: "judge" } as const;
  const { portable: _, ...workflow }: Task = portableTask({}, { name: "workflow" });
  const tasks = [
    portableTask({ requires: [{ kind: "env", name: "TOKEN" }, judge, judge] }, { name: "first" }),
    portableTask({}, { name: "second" }),
    portableTask({ requires: [judge] }, { name: "third" }),
    workflow,
  ];
  const found = await missingRequirements({ eval: emptyEval, env: {} }, tasks);
  const noJudge = "a judge, and none is configured";
  expect(tasks.map(({ name }) => found({ task: name, variant: undefined }))).toEqual([
    ["the variable TOKEN, which is not set", noJudge],
    [],
    [noJudge],
    [],
  ]);
});
