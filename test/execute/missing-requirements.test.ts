import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Eval, Requirement, ServerSpec } from "../../src/core/formats/model.ts";
import { missingRequirements } from "../../src/execute/missing-requirements.ts";
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
  expect([...found.keys()].filter((name) => name !== task.name)).toEqual([]);
  return found.get(task.name);
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
    expect(Object.fromEntries(await missingRequirements(provided, [...tasks, workflow]))).toEqual({
      first: [
        'the command "kubectl", which is not on PATH',
        "the variable TOKEN, which is not set",
        "a judge, and none is configured",
      ],
      third: ["a judge, and none is configured"],
    });
  });

  it("may be a program on PATH, or one of the task's own", async () => {
    using folder = taskFolder();
    mkdirSync(join(folder.path, "bin"));
    writeFileSync(join(folder.path, "bin/my-tool"), "", { mode: 0o755 });
    const env = { PATH: join(folder.path, "bin") };
    const given = { env, dir: folder.path };
    expect(await missing([{ kind: "command", name: "my-tool" }], given)).toBeUndefined();
    expect(await missing([{ kind: "command", name: "./bin/my-tool" }], given)).toBeUndefined();
    expect(await missing([{ kind: "command", name: "my-other" }], given)).toEqual([
      'the command "my-other", which is not on PATH',
    ]);
    expect(await missing([{ kind: "command", name: "./my-tool" }], given)).toEqual([
      'the command "./my-tool", which is no program there',
    ]);
  });

  it("may be a variable, which is not empty", async () => {
    const env = { TOKEN: "x", EMPTY: "" };
    expect(await missing([{ kind: "env", name: "TOKEN" }], { env })).toBeUndefined();
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
    for (const name of ["db", "web"])
      expect(await missing([{ kind: "server", name }], { spec })).toBeUndefined();
    expect(await missing([{ kind: "server", name: "mail" }], { spec })).toEqual([
      'the server "mail", which is not configured (there are db, web)',
    ]);
    expect(await missing([{ kind: "server", name: "db" }])).toEqual([
      'the server "db", which is not configured (no servers are configured)',
    ]);
  });

  it("may be a platform, by any of its names", async () => {
    const names = [process.platform, here, here.toUpperCase()];
    for (const name of names) expect(await missing([{ kind: "platform", name }])).toBeUndefined();
    for (const name of [elsewhere, "plan9", "constructor"]) {
      expect(await missing([{ kind: "platform", name }])).toEqual([
        `the platform "${name}", and this is ${here}`,
      ]);
    }
  });

  it("may be a judge", async () => {
    const judge = { model: "a/b", passThreshold: 0.5 };
    expect(await missing([{ kind: "judge" }], { spec: { judge } })).toBeUndefined();
  });

  it("is never an extension, which cannot be run yet", async () => {
    expect(await missing([{ kind: "extension", name: "k8s" }])).toEqual([
      'the extension "k8s": extensions cannot be run yet',
    ]);
  });
});
