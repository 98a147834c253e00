import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { containsText } from "../../src/core/formats/contains-text.ts";
import { evaluate } from "../../src/evaluate.ts";
import { callOptions, startSession, stdioSpec } from "../servers/support.ts";
import { root } from "../support/cli.ts";
import { hostileServer } from "../support/hostile.ts";

// Claim: however long a list is that a server sends, it ends no run. docs/security.md.
describe("a list of 130,000 items, more than a function takes as arguments", () => {
  it("of tools is a server like any other", async () => {
    const server = hostileServer("attack=tools", "count=130000");
    const tests = [{ name: "calm" }, { name: "t129999" }];
    const result = await evaluate({ server, toolHealthSuites: [{ name: "s", tests }] }, { output: false });
    expect(result.trials.map(({ task, verdict }) => [task, verdict])).toEqual([
      ["s/calm", "pass"],
      ["s/t129999", "pass"],
    ]);
  });

  it("of resources is a list like any other", async () => {
    const { args } = hostileServer("attack=list", "count=130000");
    const { session } = await startSession(stdioSpec(process.execPath, args));
    const outcome = await session.list("resources", callOptions());
    expect(outcome.kind === "result" && (outcome.result["resources"] as unknown[]).length).toBe(130_000);
  });

  it("of characters in what looks like the mark of a secret is a text like any other", () => {
    const mark = `[secret:${"x".repeat(200_000)}]`;
    expect(containsText(`a ${mark} b`, mark)).toBe(true);
    expect(containsText(`a ${mark} b`, "xxx")).toBe(false);
  });

  it("is nowhere spread into the arguments of a call that takes any number of them", () => {
    const calls =
      /\b(?:push|unshift|splice|concat|max|min|fromCharCode|fromCodePoint)\(\s*(?:[^()[\]{}]*,\s*)?\.\.\.([^;]{0,60})/g;
    const files = globSync(["src/**/*.ts", "extensions/**/*.ts"], { cwd: root });
    const found = files
      .filter((file) => !file.endsWith(".test.ts"))
      .flatMap((file) =>
        [...readFileSync(join(root, file), "utf8").matchAll(calls)].map(([written]) => `${file}: ${written}`),
      );
    // What these spread has as many items as a file of ours has lines, or a user's has agents.
    const known = [
      "src/agents/model.ts",
      "src/agents/offered-tools.ts",
      "src/core/formats/waza/read-graders.ts",
      "src/core/formats/zod-problems.ts",
      "src/extension-sdk/serve.ts",
      "src/extensions/contract/run-contract.ts",
      "src/extensions/contract/try-json-rpc.ts",
      "src/process/spawn.ts",
      "src/steps/llm.ts",
    ];
    expect(found.filter((place) => !known.some((file) => place.startsWith(`${file}:`)))).toEqual([]);
  });
});
