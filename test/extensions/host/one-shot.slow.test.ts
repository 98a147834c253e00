import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import type { ExtensionManifest } from "../../../src/extensions/manifest.ts";
import { expectError, isGone, play } from "../../support/extensions.ts";

const names = "ok no liar coward two quiet crash large orphan signalled twins deep hang".split(" ");
const manifest: ExtensionManifest = {
  name: "one-shot",
  version: "1.0.0",
  protocol: "one-shot",
  operations: Object.fromEntries(
    names.map((name) => [
      name,
      {
        params: { type: "object", properties: { size: { type: "integer", default: 7 } } },
        phases: ["setup", "verify", "cleanup"],
      },
    ]),
  ),
};

describe("an extension that is started for each operation", () => {
  it("gets its input in a file that nobody else can read and that is gone afterwards", async () => {
    await using played = play("one-shot.py", { manifest, spec: { config: { id: "{random.id}" } } });
    const { outputs } = await played.call("ok", { args: { note: "n" } });
    expect(outputs).toMatchObject({
      kind: "check",
      mode: "0o600 0o700",
      given: {
        args: { note: "n", size: 7 },
        config: { id: "abc" },
        context: { phase: "verify", env: { NAME: "value" }, workspace: played.workspace },
      },
    });
    expect(existsSync(dirname(outputs?.["path"] as string))).toBe(false);
    expect(played.events.map(({ type }) => type)).toEqual([
      "extension.started",
      "extension.stderr",
      "extension.exited",
    ]);
    expect(played.events[0]).toMatchObject({ protocol: "one-shot" });
    expect(played.events[2]).toMatchObject({ exitCode: 0, expected: true });
  });

  it.each([
    ["setup", "action"],
    ["cleanup", "action"],
    ["verify", "check"],
  ] as const)("is told in %s to do an %s", async (phase, kind) => {
    await using played = play("one-shot.py", { manifest });
    expect((await played.call("ok", { phase })).outputs).toMatchObject({ kind });
  });

  it("has failed when it says so, whatever its exit code is", async () => {
    await using played = play("one-shot.py", { manifest });
    expect(await played.call("no")).toEqual({ success: false, message: "it is not so" });
    expect(await played.call("coward")).toEqual({ success: false });
  });

  it("is ended with all that it has started, when it has answered and when its time is up", async () => {
    await using played = play("one-shot.py", { manifest });
    const { success, outputs } = await played.call("orphan");
    expect(success).toBe(true);
    await isGone(Number(outputs?.["pid"]));
    const late = played.call("hang", { timeoutMs: 1000 });
    await expectError(late, "extension/timeout", 'extension "x" took longer than 1000 ms for hang');
    await isGone(played.eventsOf("extension.started")[1]?.pid ?? 0);
    expect(played.eventsOf("extension.exited")).toMatchObject([{ expected: true }, { expected: false }]);
  });

  it.each([
    ["liar", "extension/protocol", /in check liar: success is true, and it ended with exit code 1/],
    ["two", "extension/protocol", /its stdout is not one JSON value/],
    ["quiet", "extension/protocol", /its stdout is empty/],
    ["crash", "extension/crashed", /ended with exit code 1 before it had answered check crash/],
    ["signalled", "extension/crashed", /was ended by SIGKILL before it had answered check signalled/],
    ["twins", "extension/protocol", /in check twins: its answer has the key "success" twice/],
    ["deep", "extension/protocol", /in check deep: its answer is nested too deeply/],
    ["large", "extension/answer-too-large", /more than 10 MiB on stdout/],
  ])("names the fault %s", async (operation, code, message) => {
    await using played = play("one-shot.py", { manifest });
    const error = await expectError(played.call(operation), code, message);
    expect(error.details.detail).toContain(`one shot of ${operation}`);
    if (operation === "crash") expect(error.details.detail).toContain("RuntimeError: the disk is full");
  });

  it("is told both ways when there is no extension.yaml", async () => {
    await using played = play("one-shot.py");
    const message = /ended with exit code 1 .*; it has no extension\.yaml, so it must speak JSON-RPC$/;
    const error = await expectError(played.call("ok"), "extension/start-failed", message);
    expect(error.details.hint).toMatch(/stderr.*action\|check NAME/);
  });
});
