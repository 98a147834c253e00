import { appendFileSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { evaluate } from "../../src/index.ts";
import { folderOf, runHere } from "../support/cli.ts";

const trials = 1500;
const say = [{ say: "done" }];
const turn = (expected: string): object[] => [{ user: "Do nothing.", expectedState: { equals: expected } }];

describe("a run whose journal takes long to read", () => {
  const folder = folderOf({});
  const cwd = folder.path;
  const runs = join(cwd, ".mcpvals/runs");
  let path = "";
  beforeAll(async () => {
    const config = {
      server: { transport: "mock", mock: { tools: { visit: { responses: [{ return: "seen" }] } } } },
      trials,
      agent: { type: "scripted", plan: { passes: say, fails: say } },
      workflows: [
        { name: "passes", steps: turn("done") },
        { name: "fails", steps: turn("something else") },
      ],
    };
    const { id } = await evaluate(config as Parameters<typeof evaluate>[0], { output: runs });
    path = join(runs, id);
    expect(statSync(join(path, "journal.jsonl")).size).toBeGreaterThan(8 * 1024 * 1024);
  });
  afterAll(() => folder[Symbol.dispose]());

  it("is shown and compared by its result, and by its journal once that was changed, with the same words", async () => {
    const show = async (...args: string[]): Promise<string> =>
      (await runHere(["show", ...args], { cwd })).stdout;
    expect(await show("--json")).toBe(readFileSync(join(path, "result.json"), "utf8"));
    const text = await show();
    expect(text).toContain("1,500 failed");
    // The evidence of what failed comes from the journal.
    expect(text).toContain("said      done");
    const compare = async (): Promise<string> =>
      (await runHere(["compare", "latest", path, "--format", "json"], { cwd })).stderr;
    expect(await compare()).toContain("have the same trials");

    appendFileSync(join(path, "journal.jsonl"), '{"crc":"');
    const changed = await runHere(["show"], { cwd });
    expect(changed.stderr).toContain("The journal's last line is incomplete and was ignored.");
    expect(changed.stdout).toBe(text);
    expect(await compare()).toContain("have the same trials");
  });

  it("is refused by show when a line of its journal was damaged", async () => {
    const journal = join(path, "journal.jsonl");
    appendFileSync(journal, 'x","event":{}}\n');
    const { code, stderr } = await runHere(["show"], { cwd });
    expect([code, stderr]).toEqual([
      3,
      expect.stringContaining("of the journal does not match its checksum"),
    ]);
  });
});
