import type { Step } from "../../src/core/formats/step.ts";
import { execFile } from "node:child_process";
import { join, sep } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { renderError } from "../../src/core/errors/render.ts";
import { folderOf } from "../support/cli.ts";
import { failure, failureIn, loadIn } from "./support/load.ts";

const head = "server: {transport: stdio, command: x}\n";
/** A bomb of aliases that would unfold to 9^8 values. */
const bomb = "abcdefgh"
  .split("")
  .map((letter, index) => {
    const before = "abcdefgh"[index - 1];
    const items = before === undefined ? "x" : `*${before}`;
    return `${letter}: &${letter} [${Array.from({ length: 9 }, () => items).join(", ")}]`;
  })
  .join("\n");

it.each<readonly [name: string, ending: string, text: string, code: string]>([
  ["10 MB of a list", "json", `[${"1,".repeat(5_000_000)}1]`, "config/unreadable"],
  ["10 MB of brackets", "json", "[".repeat(10_000_000), "config/unreadable"],
  [
    "4 MB of unknown keys",
    "json",
    `{${Array.from({ length: 300_000 }, (_, i) => `"k${i}":1`).join()}}`,
    "config/invalid-value",
  ],
  ["one key, many times", "json", `{${'"k":1,'.repeat(400_000)}"k":1}`, "config/syntax"],
  ["10,000 lists in one another", "json", "[".repeat(10_000) + "]".repeat(10_000), "config/syntax"],
  ["10,000 open lists", "yaml", "[".repeat(10_000), "config/syntax"],
  ["a bomb of aliases", "yaml", bomb, "config/syntax"],
  [
    "a long list, often",
    "yaml",
    `a: &a [${"x,".repeat(20_000)}]\nb: [${"*a,".repeat(900)}]`,
    "config/invalid-value",
  ],
  ["an alias of what is around it", "yaml", "a: &a [*a]", "config/unknown-key"],
  ["nothing but NUL", "yaml", "\0".repeat(1000), "config/invalid-value"],
])("%s (%s) is refused before the test times out, in words", async (_, ending, text, code) => {
  const error = await failureIn({ [`mcp-eval.config.${ending}`]: text });
  const rendered = renderError(error);
  expect([error.kind, error.code]).toEqual(["usage", code]);
  expect(rendered.length).toBeLessThan(100_000);
  // oxlint-disable-next-line no-control-regex -- that is what must not be there
  expect(rendered).not.toMatch(/[\u0000-\u0008\u000e-\u001f]/);
});

it.runIf(sep === "/")("a pipe that nobody writes to is refused at once", async () => {
  using folder = folderOf({});
  const pipe = join(folder.path, "pipe.json");
  await promisify(execFile)("mkfifo", [pipe]);
  const error = await failure(folder.path, { source: pipe });
  expect(error.message).toBe("pipe.json cannot be read: it is not a regular file");
});

it("uses an anchor as often as a config needs", async () => {
  const tests = Array.from({ length: 300 }, (_, index) => `      - {name: t${index}, args: *args}`).join(
    "\n",
  );
  const text = `${head}toolHealthSuites:\n  - name: s\n    tests:\n      - {name: first, args: &args {a: 1}}\n${tests}\n`;
  const { tasks } = (await loadIn({ "mcp-eval.config.yaml": text })).eval;
  expect(tasks).toHaveLength(301);
  expect(tasks.every((task) => JSON.stringify(argsOf(task.verify[0])) === '{"a":1}')).toBe(true);
});

function argsOf(step: Step | undefined): unknown {
  return step?.type === "mcp" && step.request.kind === "tool" ? step.request.args : undefined;
}
