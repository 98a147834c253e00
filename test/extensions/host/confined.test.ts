import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { McpvalsError } from "../../../src/base/error.ts";
import type { ExtensionManifest } from "../../../src/extensions/manifest.ts";
import { defaultSandbox } from "../../../src/model/sandbox.ts";
import { noSandbox, sandboxOf } from "../../../src/sandbox/sandboxes.ts";
import type { Confinement, Sandbox } from "../../../src/sandbox/sandbox.ts";
import { folderOf, runHere } from "../../support/cli.ts";
import { errorOf, play } from "../../support/extensions.ts";

const confined = { ...defaultSandbox, kind: "process" as const };
const sandbox = sandboxOf("process");
const missing = await sandbox.check(confined, new AbortController().signal).then(
  () => undefined,
  (error: unknown) => String(error),
);
if (missing !== undefined) console.warn(`not tried, since there is no sandbox here: ${missing}`);

/** A sandbox that notes what it is asked for, confines nothing, and tells of a broken limit. */
function noting(asked: Confinement[], brokenLimit?: string): Sandbox {
  return {
    kind: "process",
    check: () => Promise.resolve(),
    async start(confinement) {
      asked.push(confinement);
      return Object.assign(await noSandbox.start(confinement), { brokenLimit });
    },
  };
}

const manifest: ExtensionManifest = {
  name: "one-shot",
  version: "1.0.0",
  protocol: "one-shot",
  operations: { ok: { params: { type: "object" }, phases: ["verify"] } },
};

it("asks the sandbox for the files of the extension and of the task, and no more of the environment than is named", async () => {
  const asked: Confinement[] = [];
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/home/me", SECRET: "s" };
  await using played = play("faulty.mjs", {
    env,
    sandbox: noting(asked),
    spec: {
      sandbox: { ...confined, read: ["~/.kube/config", "data", "/etc/x"], write: ["~/cache"] },
      env: { FLAVOUR: "{random.id}" },
    },
  });
  expect((await played.call("ok")).success).toBe(true);
  const [{ process: started, read, write } = expect.fail()] = asked;
  const dir = played.workspace.replace(/workspace$/, "task");
  const folder = join(import.meta.dirname, "programs");
  expect(started).toMatchObject({ command: process.execPath, args: [join(folder, "faulty.mjs")], cwd: dir });
  expect(Object.keys(started.env).toSorted()).toEqual(["FLAVOUR", "HOME", "NOTES", "PATH"]);
  expect(started.env["FLAVOUR"]).toBe("abc");
  expect(read).toEqual([
    folder,
    process.execPath,
    dir,
    "/home/me/.kube/config",
    join(folder, "data"),
    "/etc/x",
  ]);
  expect(write).toEqual([played.workspace, "/home/me/cache"]);
  expect(played.eventsOf("extension.started")).toMatchObject([{ sandbox: "process" }]);
});

it("ends a program that has started only after the call was given up", async () => {
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const slow: Sandbox = {
    kind: "process",
    check: () => Promise.resolve(),
    async start(confinement) {
      asked.resolve();
      await gate.promise;
      return await noSandbox.start(confinement);
    },
  };
  const played = play("faulty.mjs", { sandbox: slow });
  const controller = new AbortController();
  const reason = new McpvalsError("run/interrupted", "the run was interrupted");
  const work = errorOf(played.call("ok", { signal: controller.signal }));
  await asked.promise;
  controller.abort(reason);
  expect(await work).toBe(reason);
  const closing = played[Symbol.asyncDispose]();
  gate.resolve();
  await closing;
  expect(played.eventsOf("extension.started")).toHaveLength(1);
  expect(played.eventsOf("extension.exited")).toMatchObject([{ expected: true }]);
});

it("names the limit that was broken", async () => {
  const limit = "it held more than 512 MiB of memory";
  await using played = play("faulty.mjs", { sandbox: noting([], limit) });
  const error = await errorOf(played.call("killed"));
  expect(error).toMatchObject({ code: "extension/limit", message: `extension "x" broke a limit: ${limit}` });
  expect(error.details.detail).toBe("ready in no flavour");
});

it.skipIf(missing !== undefined)("works in the sandbox of this machine, if there is one", async () => {
  await using played = play("faulty.mjs", { sandbox, spec: { sandbox: confined, env: { NOTES: "" } } });
  const inside = join(played.workspace, "inside");
  await played.call("write", { phase: "setup", args: { path: inside } });
  expect(readFileSync(inside, "utf8")).toBe("written");
  const outside = join(played.workspace.replace(/workspace$/, "task"), "outside");
  const error = await errorOf(played.call("write", { phase: "setup", args: { path: outside } }));
  expect(error).toMatchObject({ code: "extension/crashed" });
  expect(existsSync(outside)).toBe(false);
  expect(await played.call("ok", { phase: "cleanup" })).toMatchObject({ success: true });
});

it.skipIf(missing !== undefined)(
  "gives a one-shot program its input in the sandbox of this machine, if there is one",
  async () => {
    await using played = play("one-shot.py", {
      manifest,
      sandbox,
      spec: { sandbox: confined, env: { NOTES: "" } },
    });
    expect(await played.call("ok", { args: { a: 1 } })).toMatchObject({
      success: true,
      outputs: { given: { args: { a: 1 } } },
    });
  },
);

it.skipIf(missing !== undefined)(
  "lets an installed package read what it depends on, and nothing else of the project",
  async () => {
    const program = `import { existsSync } from "node:fs";
import { isThere } from "helper";
const isOpen = existsSync(new URL("../../secret", import.meta.url));
console.log(JSON.stringify({ success: isThere && !isOpen, message: "open: " + isOpen }));
`;
    using folder = folderOf({
      ".git/x": "",
      secret: "",
      "node_modules/demo/package.json": { version: "1.0.0", bin: "main.mjs" },
      "node_modules/demo/main.mjs": program,
      "node_modules/demo/extension.yaml": manifest,
      "node_modules/helper/package.json": { type: "module", main: "index.js" },
      "node_modules/helper/index.js": "export const isThere = true;",
      "evals/eval.json": {
        kind: "Eval",
        metadata: { name: "e" },
        config: {
          agent: { type: "builtin.llm-agent", model: "openai:m" },
          extensions: { demo: { package: "npm:demo", sandbox: "process" } },
          taskSets: [{ path: "task.json" }],
        },
      },
      "evals/task.json": {
        kind: "Task",
        apiVersion: "mcp-eval/v1",
        metadata: { name: "t" },
        spec: { imports: [{ package: "npm:demo", as: "demo" }], prompt: "x", verify: [{ "demo.ok": {} }] },
      },
    });
    const cwd = join(folder.path, "evals");
    const { code, stderr } = await runHere(["run", "eval.json", "--agent", "null"], { cwd });
    expect([code, stderr]).toEqual([0, ""]);
  },
);
