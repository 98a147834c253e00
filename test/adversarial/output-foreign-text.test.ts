import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { renderError } from "../../src/core/errors/render.ts";
import { visibleJson, visibleText, withoutCommands } from "../../src/core/text/visible-text.ts";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { xmlAttributes, xmlText } from "../../src/reporters/junit.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";

/** What a CI system obeys, and what a reader or a terminal could be deceived with. */
const attacks = [
  "::error file=a.js,line=1::FORGED",
  "   ::set-output name=a::FORGED",
  "\u3000\u00a0::stop-commands::FORGED",
  "##[error]FORGED",
  "##[add-mask]FORGED",
  "FORGED ##vso[task.setvariable variable=a]b",
  "###vso[task.complete result=Succeeded;]FORGED",
  "##teamcity[buildStatus status='SUCCESS' text='FORGED']",
  "FORGED PASS",
  "  ✓ FORGED › test  t9   3 ms",
  "FORGED\r::error::FORGED",
  "FORGED\r\n::error::FORGED",
  "FORGED\u2028::error::FORGED\u2029::error::FORGED\u0085::error::FORGED",
  "FORGED\u000b::error::FORGED\u000c::error::FORGED",
  "FORGED\u001b[2J\u001b[1A\u001b]8;;http://evil\u0007link\u001b]8;;\u0007\u001b]52;c;Zm9v\u0007",
  "FORGED\u009b2J\u009d0;title\u009c",
  "FORGED\u202egnp.exe\u2066\u200b\u{e0041}\u00ad\u061c",
];
const everything = attacks.join("\n");
/** The fixture server reads lines as Node does, which takes U+2028 for the end of one. */
const sendable = (text: string): string => text.replaceAll(/[\u2028\u2029]/g, "");

const drives =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u2028-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u;

/** Fails for a line that somebody obeys, or that begins with what is not ours. */
function expectHarmless(output: string): void {
  expect(output).not.toMatch(drives);
  for (const line of output.split("\n")) {
    expect(line).not.toMatch(/^\s*::/);
    expect(line).not.toMatch(/##[\w.]*\[/);
    expect(line).not.toMatch(/^[\s✓✗]*FORGED/);
  }
}

// Claim: nothing of what a server, an agent or a model writes is obeyed or taken for ours. docs/security.md, "Output".
describe("text of others in everything that the command line prints", () => {
  const config: Config = {
    server: fixtureServer(`--stderr=${everything}`),
    agent: {
      type: "scripted",
      plan: { w: [{ call: "echo", args: { message: sendable(everything) } }, { say: everything }] },
    },
    workflows: [{ name: "w", steps: [{ user: everything, expectedState: "no such state" }] }],
    toolHealthSuites: [
      {
        name: "s",
        tests: [
          { name: "echo", args: { message: sendable(everything) }, expectedResult: "two\nlines" },
          ...attacks.map((message, index) => ({
            name: "echo",
            description: `echo ${index}`,
            args: { message: sendable(message) },
            expectedResult: "else",
          })),
          { name: "crash", args: { code: 3, stderr: sendable(everything) } },
          { name: "fail", description: everything, args: { [sendable(everything)]: sendable(everything) } },
        ],
      },
    ],
  };
  const task = [
    "kind: Task",
    "apiVersion: mcp-eval/v1",
    `metadata: { name: ${JSON.stringify(everything)}, description: ${JSON.stringify(everything)} }`,
    "spec:",
    "  prompt: do it",
    "  verify:",
    `    - command: { run: ${JSON.stringify(`cat <<'EOF' >&2\n${everything.replaceAll("\u0000", "")}\nEOF\nexit 3`)} }`,
  ].join("\n");

  it("is harmless, in whatever form it is asked for", async () => {
    using folder = folderOf({ "mcp-eval.config.json": config, "t.yaml": task });
    const cli = (...args: string[]): Promise<HereOutcome> => runHere(args, { cwd: folder.path });
    const run = await cli("run", "-o", "out");
    expect(run.code).toBe(1);
    const tasks = await cli("run", "t.yaml", "--agent", "null", "-o", "out2");
    const asked = await Promise.all([
      cli("show", "-o", "out", "--trial", "t1"),
      cli("show", "-o", "out", "-r", "junit"),
      cli("list", "t.yaml"),
      cli("validate", "t.yaml"),
      cli("validate", "t.yaml", "--run"),
    ]);
    for (const { stdout, stderr } of [run, tasks, ...asked]) {
      expectHarmless(stdout);
      expectHarmless(stderr);
    }
    expect(run.stdout.match(/FORGED/g)?.length).toBeGreaterThan(20);
    expect(run.stdout).toContain(String.raw`│ \x3a:error file=a.js,line=1::FORGED`);
    const json = await Promise.all([
      cli("show", "-o", "out", "--json"),
      cli("show", "-o", "out", "--trial", "t1", "--json"),
      cli("show", "-o", "out", "--tools"),
      cli("list", "t.yaml", "--json"),
      cli("validate", "t.yaml", "--run", "--json"),
      cli("task", "export", "t.yaml", "--format", "json"),
    ]);
    for (const { stdout } of json) {
      expectHarmless(stdout);
      const documents = stdout.startsWith("{\n") ? [stdout] : stdout.trim().split("\n");
      const values = documents.map((document) => JSON.stringify(JSON.parse(document)));
      expect(values.join("\n")).toContain("FORGED");
    }
    const [shown] = json;
    expect(JSON.stringify(JSON.parse(shown?.stdout ?? ""))).toContain("::error file=a.js");
  }, 120_000);

  it.each([
    ["a config", "mcp-eval.config.yaml", `x${everything.replaceAll(/[^ -~]/g, "")}: 1\nserver: 2\n`],
    [
      "JSON",
      "mcp-eval.config.json",
      `{"server": ${JSON.stringify(everything)}, ${JSON.stringify(everything)}: 1}`,
    ],
    ["a program", "mcp-eval.config.mjs", `throw new Error(${JSON.stringify(everything)});`],
  ])("in an error of %s is harmless", async (_, name, content) => {
    using folder = folderOf({ [name]: content });
    const { code, stderr } = await runHere(["run"], { cwd: folder.path });
    expect(code).toBe(2);
    expectHarmless(stderr);
    expect(stderr).toContain("FORGED");
  });
});

describe("what stands on the command line", () => {
  const said = everything.replaceAll("\u0000", "");

  it.each([
    ["a command", [said]],
    ["an option", ["run", `--${said}`]],
    ["an option's value", ["run", "--trials", said]],
    ["one argument too many", ["task", "export", "a", said]],
    ["a command of a command", ["extensions", said]],
    ["a run", ["show", said]],
    ["a file", ["migrate", said]],
  ])("is harmless in the error for %s", async (_, args) => {
    using folder = folderOf({});
    const { code, stdout, stderr } = await runHere(args, { cwd: folder.path });
    expect(code).toBe(2);
    expect(stderr).toContain("FORGED");
    expectHarmless(stdout);
    expectHarmless(stderr);
  });

  it("keeps the suggestion of the right word on a line of its own", async () => {
    using folder = folderOf({});
    const { stderr } = await runHere(["rum"], { cwd: folder.path });
    expect(stderr).toMatch(/^error: unknown command 'rum'\n\(Did you mean run\?\)\n/);
  });
});

describe("one line of others", () => {
  it.each(attacks)("%j is harmless, and stays so", (attack) => {
    const shown = visibleText(attack);
    expect(shown).not.toMatch(drives);
    expect(shown).not.toMatch(/^\s*::|##[\w.]*\[|\n/);
    expect(visibleText(shown)).toBe(shown);
  });

  it.each(["std::vector<int> a", "## Heading [link]", "# [x]", "a##", ":: ", ":", "C:: x", "a ::b::"])(
    "%j stays readable",
    (text) => {
      const [shown, letters] = [visibleText(text), text.replaceAll(/^:/g, "")];
      expect(shown.endsWith(letters)).toBe(true);
    },
  );

  it("is harmless in lines that are broken or painted, too", () => {
    const painted = "\u001b[31m::error::x\u001b[39m\n  \u001b[2m ::warning::y\n a ##[group]z";
    expect(withoutCommands(painted)).toBe(
      "\u001b[31m\\x3a:error::x\u001b[39m\n  \u001b[2m \\x3a:warning::y\n a #\\x23[group]z",
    );
  });
});

describe("documents", () => {
  const hostileText = fc.array(fc.oneof(fc.constantFrom(...attacks), fc.string({ unit: "binary" })), {
    maxLength: 4,
  });
  const text = hostileText.map((parts) => parts.join("\n"));

  it("in JSON keep their value, and nothing in them drives a terminal or a CI system", () => {
    fc.assert(
      fc.property(text, text, (key, value) => {
        const document = { [key]: [value, 1], __proto__x: null };
        const json = visibleJson(JSON.stringify(document, undefined, 2));
        expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(document)));
        expect(json.replaceAll("\n", "")).not.toMatch(drives);
        expect(json).not.toMatch(/^\s*::|##[\w.]*\[/m);
      }),
    );
  });

  it("in XML, too", () => {
    fc.assert(
      fc.property(text, (value) => {
        for (const xml of [xmlText(value), xmlAttributes({ a: value })]) {
          expect(xml.replaceAll(/[\n\t]/g, "")).not.toMatch(drives);
          expect(xml).not.toMatch(/^\s*::|##[\w.]*\[/m);
        }
      }),
    );
  });
});

describe("an error with text of others", () => {
  it("marks every line of it", () => {
    const error = new McpvalsError("server/exited", `it ended: ${everything}`, {
      detail: everything,
      hint: everything,
      location: { file: everything, line: 1 },
    });
    for (const colors of [false, true]) {
      // oxlint-disable-next-line no-control-regex
      expectHarmless(renderError(error, { colors }).replaceAll(/\u001b\[\d+m/g, ""));
    }
  });
});

describe("making text safe to print", () => {
  it.each([
    ["colons", "::".repeat(2_000_000)],
    ["spaces and colons", `${" ".repeat(100_000)}::`.repeat(40)],
    ["hashes", "#".repeat(4_000_000)],
    ["hashes and words", "##abc".repeat(800_000)],
    ["colours", "\u001b[31m".repeat(800_000)],
    ["direction marks", "\u202e".repeat(1_000_000)],
  ])("takes time in proportion to a text of %s", (_, long) => {
    visibleText(long);
    withoutCommands(long);
    visibleJson(JSON.stringify(long));
  });
});
