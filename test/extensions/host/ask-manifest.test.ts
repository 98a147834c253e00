import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { askManifest } from "../../../src/extensions/host/trial-extensions.ts";
import { expanderOf } from "../../../src/templates/expand.ts";
import { noSandbox } from "../../../src/sandbox/sandboxes.ts";
import { folderOf } from "../../support/cli.ts";
import { errorOf, isGone, preparedExtension } from "../../support/extensions.ts";

const { signal } = new AbortController();
const options = { env: { PATH: process.env["PATH"] ?? "" }, signal, expander: expanderOf(new Map()) };

it("asks a program what it offers", async () => {
  expect(await askManifest(preparedExtension("go-like.mjs"), options)).toEqual({
    name: "go",
    version: "v0.1.0",
    protocol: "json-rpc",
    operations: {
      create: { description: "create", params: { type: "object" }, phases: ["setup", "verify", "cleanup"] },
    },
  });
});

it("asks nobody when there is an extension.yaml", async () => {
  const manifest = { name: "m", version: "1", protocol: "one-shot" as const, operations: {} };
  expect(await askManifest(preparedExtension("missing", { manifest }), options)).toBe(manifest);
});

it("gives it no more of the shell's variables than a trial does, and what was given for the run", async () => {
  const env = { ...options.env, FLAVOUR: "mute" };
  const all = await askManifest(preparedExtension("faulty.mjs"), { ...options, env });
  expect(Object.keys(all.operations)).toContain("ok");
  const given = { FLAVOUR: "poor" };
  const some = await askManifest(preparedExtension("faulty.mjs"), { ...options, env, given });
  expect(Object.keys(some.operations)).toEqual(["no"]);
});

it("tells both ways of a program that answers neither", async () => {
  const mute = preparedExtension("faulty.mjs", { spec: { env: { FLAVOUR: "mute" } } });
  const error = await errorOf(askManifest(mute, { ...options, timeoutMs: 100 }));
  expect(error).toMatchObject({ code: "extension/timeout" });
  expect(error.message).toMatch(/did not answer initialize in 100 ms.*must speak JSON-RPC/);
});

it.each(["no flavour", "mute"])("leaves no program that runs: %s", async (FLAVOUR) => {
  using folder = folderOf({});
  const NOTES = join(folder.path, "notes");
  const asked = preparedExtension("faulty.mjs", { spec: { env: { FLAVOUR, NOTES } }, sandbox: noSandbox });
  const controller = new AbortController();
  const asking = askManifest(asked, { ...options, signal: controller.signal }).catch(() => undefined);
  if (FLAVOUR === "mute") {
    await expect.poll(() => existsSync(NOTES), { timeout: 100_000 }).toBe(true);
    controller.abort();
  }
  await asking;
  await isGone(Number(/^start (\d+)$/m.exec(readFileSync(NOTES, "utf8"))?.[1]));
});

it("ends with the signal's reason", async () => {
  const mute = preparedExtension("faulty.mjs", { spec: { env: { FLAVOUR: "mute" } } });
  const reason = new Error("stopped");
  const signal = AbortSignal.abort(reason);
  await expect(askManifest(mute, { ...options, signal })).rejects.toBe(reason);
});
