import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Eval, Requirement, ServerSpec, Task } from "../../src/core/formats/model.ts";
import { missingRequirements } from "../../src/run/missing-requirements.ts";
import { preparedExtension } from "../support/extensions.ts";
import { portableTask, taskFolder } from "../support/portable.ts";

const server: ServerSpec = {
  transport: "sse",
  url: "http://127.0.0.1:1",
  headers: {},
  startupTimeoutMs: 1,
  maxMessageBytes: 1,
};

function evalOf(parts: Partial<Eval> = {}): Eval {
  return {
    name: "e",
    servers: {},
    agents: [],
    tasks: [],
    trials: 1,
    limits: { trialMs: 1, callMs: 1, modelMs: 1 },
    reporters: [],
    ...parts,
  };
}

interface Given {
  readonly spec?: Partial<Eval>;
  readonly env?: Readonly<Record<string, string>>;
  readonly dir?: string;
}

async function missing(
  requires: readonly Requirement[],
  { spec = {}, env = {}, dir }: Given = {},
): Promise<unknown> {
  const task = portableTask({ requires, ...(dir === undefined ? {} : { dir }) });
  const found = await missingRequirements({ eval: evalOf(spec), env }, [task]);
  return found({ task: task.name, variant: undefined });
}

const platformNames: Partial<Record<NodeJS.Platform, string>> = {
  linux: "linux",
  darwin: "macos",
  win32: "windows",
};
const here = platformNames[process.platform] ?? process.platform;
const elsewhere = here === "linux" ? "macos" : "linux";

describe("what a task requires", () => {
  it("is told whole, by the names of the tasks that lack something", async () => {
    const judge = { kind: "judge" } as const;
    const tasks = [
      portableTask(
        { requires: [{ kind: "command", name: "kubectl" }, { kind: "env", name: "TOKEN" }, judge, judge] },
        { name: "first" },
      ),
      portableTask({}, { name: "second" }),
      portableTask({ requires: [judge] }, { name: "third" }),
    ];
    const provided = { eval: evalOf(), env: {} };
    const plain = { ...portableTask(), name: "plain" };
    const { portable: _, ...workflow } = plain;
    const found = await missingRequirements(provided, [...tasks, workflow]);
    const names = ["first", "second", "third", "plain"];
    expect(Object.fromEntries(names.map((task) => [task, found({ task, variant: undefined })]))).toEqual({
      first: [
        'the command "kubectl", which is not on PATH',
        "the variable TOKEN, which is not set",
        "a judge, and none is configured",
      ],
      second: [],
      third: ["a judge, and none is configured"],
      plain: [],
    });
  });

  it("may be a program on PATH, or one of the task's own", async () => {
    using folder = taskFolder();
    mkdirSync(join(folder.path, "bin"));
    writeFileSync(join(folder.path, "bin/my-tool"), "", { mode: 0o755 });
    const env = { PATH: join(folder.path, "bin") };
    const given = { env, dir: folder.path };
    expect(await missing([{ kind: "command", name: "my-tool" }], given)).toEqual([]);
    expect(await missing([{ kind: "command", name: "./bin/my-tool" }], given)).toEqual([]);
    expect(await missing([{ kind: "command", name: "my-other" }], given)).toEqual([
      'the command "my-other", which is not on PATH',
    ]);
    expect(await missing([{ kind: "command", name: "./my-tool" }], given)).toEqual([
      'the command "./my-tool", which is not an executable file',
    ]);
  });

  it("may be a variable, which is not empty", async () => {
    const env = { TOKEN: "x", EMPTY: "" };
    expect(await missing([{ kind: "env", name: "TOKEN" }], { env })).toEqual([]);
    expect(await missing([{ kind: "env", name: "EMPTY" }], { env })).toEqual([
      "the variable EMPTY, which is empty",
    ]);
    expect(await missing([{ kind: "env", name: "toString" }], { env })).toEqual([
      "the variable toString, which is not set",
    ]);
  });

  it("may be a server of the eval or of the task itself, not of another task", async () => {
    const spec = {
      servers: { db: server },
      taskServers: { "a task": { web: server }, other: { mail: server } },
    };
    for (const name of ["db", "web"]) expect(await missing([{ kind: "server", name }], { spec })).toEqual([]);
    expect(await missing([{ kind: "server", name: "mail" }], { spec })).toEqual([
      'the server "mail", which is not configured (there are db, web)',
    ]);
    expect(await missing([{ kind: "server", name: "db" }])).toEqual([
      'the server "db", which is not configured (no servers are configured)',
    ]);
  });

  it("may be a server that only some variants have", async () => {
    const { servers, taskServers } = { servers: { db: server }, taskServers: { "a task": { web: server } } };
    const variants = [
      { name: "both", servers: { "a task": { db: server, web: server } } },
      { name: "none", servers: { "a task": { web: server } } },
    ];
    const spec = evalOf({ servers, taskServers, variants });
    const task = portableTask({ requires: [{ kind: "server", name: "db" }] });
    const found = await missingRequirements({ eval: spec, env: {} }, [task]);
    expect(variants.map(({ name }) => found({ task: task.name, variant: name }))).toEqual([
      [],
      ['the server "db", which the variant "none" does not have (there are web)'],
    ]);
  });

  it("may be a platform, by any of its names", async () => {
    const names = [process.platform, here, here.toUpperCase()];
    for (const name of names) expect(await missing([{ kind: "platform", name }])).toEqual([]);
    for (const name of [elsewhere, "plan9", "constructor"]) {
      expect(await missing([{ kind: "platform", name }])).toEqual([
        `the platform "${name}", and this is ${here}`,
      ]);
    }
  });

  it("may be a judge", async () => {
    const judge = { model: "a/b", passThreshold: 0.5 };
    expect(await missing([{ kind: "judge" }], { spec: { judge } })).toEqual([]);
  });

  it("may be an extension, which the task has when the eval declares it", async () => {
    const requires = [{ kind: "extension", name: "k8s" }] as const;
    expect(await missing(requires)).toEqual([
      'the extension "k8s", which is not configured (there are none)',
    ]);
    const { spec: k8s } = preparedExtension("go-like.mjs");
    const task = (extensions: Record<string, typeof k8s>): Task => portableTask({ requires, extensions });
    const found = async (given: Task): Promise<readonly string[]> => {
      const look = await missingRequirements({ eval: evalOf(), env: {} }, [given]);
      return look({ task: given.name, variant: undefined });
    };
    expect(await found(task({ k8s }))).toEqual([]);
    expect(await found(task({ csv: k8s, sql: k8s }))).toEqual([
      'the extension "k8s", which is not configured (there are csv, sql)',
    ]);
  });
});
