import { describe, expect, test } from "vitest";
import type { ProgramSettings } from "../../src/agents/programs/options.ts";
import { presets } from "../../src/agents/programs/presets.ts";
import { type RealAgent, realAgents } from "./agents.ts";
import { echo, play, type Type, types } from "./play.ts";

/** Whether a program takes a setting; that it is refused otherwise is in the tests of the config. */
function takes<K extends keyof ProgramSettings>(
  { preset }: RealAgent,
  type: Type,
  name: K,
  value: ProgramSettings[K],
): boolean {
  const ways = type === "acp" ? presets[preset].acp.options : presets[preset].headless.options;
  const way = (ways as Partial<typeof presets.codex.headless.options>)[name];
  return way !== undefined && typeof way(value) !== "string";
}

describe.each(realAgents)("$preset", (agent) => {
  describe.each(types)("as %s", (type) => {
    test("adds a text to its system prompt", async () => {
      const {
        code,
        asked,
        agent: shown,
        output,
      } = await play(agent, type, { systemPrompt: "Mark {prompt} 1." });
      expect(code, output).toBe(0);
      expect(asked.length).toBeGreaterThan(0);
      for (const request of asked) {
        expect(request).toContain("Mark {prompt} 1.");
        expect(request).toContain(agent.ownWords);
      }
      expect(shown?.systemHash).toMatch(/^[0-9a-f]{16}$/);
    });

    const replaces = takes(agent, type, "systemPrompt", { mode: "override", text: "x" });
    // The file with the model's address is CODEX_CONFIG, which would have to have the prompt, too.
    const isFree = replaces && !(agent.preset === "codex" && type === "acp");
    test.skipIf(!isFree)("has another text in the place of its system prompt", async () => {
      const { code, asked, output } = await play(agent, type, {
        systemPrompt: { replace: "Mark {prompt} 2." },
      });
      expect(code, output).toBe(0);
      expect(asked.length).toBeGreaterThan(0);
      for (const request of asked) {
        expect(request).toContain("Mark {prompt} 2.");
        expect(request).not.toContain(agent.ownWords);
      }
    });

    test.skipIf(!takes(agent, type, "maxTurns", 2))("stops at the limit of its turns", async () => {
      const {
        trial,
        asked,
        agent: shown,
        output,
      } = await play(agent, type, { maxTurns: 2 }, { further: Array.from({ length: 8 }, () => echo) });
      expect(asked).toHaveLength(2);
      expect(trial?.verdict, output).toBe("fail");
      expect(trial?.grades.find(({ grader }) => grader === "turn-ends")?.reason).toContain(
        "had no model calls",
      );
      expect(shown?.maxTurns).toBe(2);
    });

    test.skipIf(presets[agent.preset].modelApi === undefined)(
      "is stopped at limits.maxTurns, which the proxy counts",
      async () => {
        const model = { further: Array.from({ length: 8 }, () => echo) };
        const limits = { trial: "10m", maxTurns: 2 };
        const { trial, counted, output } = await play(agent, type, { modelProxy: true }, model, limits);
        expect(trial?.verdict, output).toBe("fail");
        expect(trial?.grades.find(({ grader }) => grader === "turn-ends")?.reason).toContain(
          "it sent more than 2 requests to its model",
        );
        // The one that is too many, and perhaps one that was sent before the program had ended.
        expect([3, 4]).toContain(counted.requests);
      },
    );

    test.skipIf(!takes(agent, type, "allowedTools", []))("has only the tools that it may use", async () => {
      const { tool, args } = agent.shell;
      const model = { tool, args: args("echo hello") };
      const free = await play(agent, type, { permissions: "allow" }, model);
      expect(free.ownUses, free.output).toEqual([false]);
      const { asked, ownUses, agent: shown, output } = await play(agent, type, { allowedTools: [] }, model);
      expect(ownUses, output).toEqual([]);
      expect(asked.length).toBeGreaterThan(0);
      expect(shown?.allowedTools).toEqual([]);
      const used = await play(agent, type, { allowedTools: [] });
      expect(used.code, used.output).toBe(0);
    });

    test.skipIf(!takes(agent, type, "effort", "high"))("has its model reason as much as said", async () => {
      // Codex offers an effort in the session for models that it knows, and has them search for tools.
      const model = agent.preset === "codex" && type === "acp" ? { model: "gpt-5.5" } : {};
      const { asked, agent: shown, output } = await play(agent, type, { effort: "high", ...model });
      expect(asked.length, output).toBeGreaterThan(0);
      for (const request of asked) expect(request).toMatch(/effort":"high"/i);
      expect(shown?.effort).toBe("high");
    });
  });

  test("goes into the mode that the config says", async () => {
    const { id, words } = agent.planMode;
    const usual = await play(agent, "acp", {});
    const { asked, agent: shown, output } = await play(agent, "acp", { sessionOptions: { mode: id } });
    const [before, after] = [usual, { asked }].map((played) => played.asked.join().split(words).length);
    expect(after, output).toBeGreaterThan(before ?? 0);
    expect(shown?.sessionOptions).toEqual({ mode: id });
    const { trial } = await play(agent, "acp", { sessionOptions: { mode: "no-such-mode" } });
    expect(trial?.error?.code).toBe("agent/option-not-offered");
  });

  const harmful = {
    tool: "gzip-file-as-resource",
    args: { name: "a.gz", data: "data:text/plain,hello", outputType: "resource" },
  };
  test.each([
    ["allow", 1, false],
    ["allow-mcp", 1, true],
    ["deny", 0, true],
  ])("may do as command what %s says", async (permissions, calls, isDenied) => {
    const served = await play(agent, "command", { permissions }, harmful);
    expect(served.trial?.tools?.mcpToolCalls, served.output).toBe(calls);
    expect(served.agent?.permissions).toBe(permissions);
    const { tool, args } = agent.shell;
    const own = await play(agent, "command", { permissions }, { tool, args: args("touch made.txt") });
    // A tool that nobody could allow is not even offered by some.
    expect(own.ownUses.includes(false), own.output).toBe(!isDenied);
  });
});
