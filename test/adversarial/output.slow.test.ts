import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { McpvalsError, renderError } from "../../src/base/error.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { visibleJson, visibleText, withoutCommands } from "../../src/base/visible-text.ts";
import { xmlAttributes, xmlText } from "../../src/report/junit.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";
import { command, taskOf } from "./task-verdicts.ts";

/** Commands of CI systems, and what could deceive a reader or a terminal. */
const attacks = [
  "::error file=a.js,line=1::FORGED",
  "   ::set-output name=a::FORGED",
  "\u3000\u00a0::stop-commands::FORGED",
  "##[error]FORGED",
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
const withoutNul = everything.replaceAll("\u0000", "");
/** The fixture server reads lines as Node does, which takes U+2028 for the end of one. */
const sendable = (text: string): string => text.replaceAll(/[\u2028\u2029]/g, "");

const controls =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u2028-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u;
const ciCommand = /^\s*::|##[\w.]*\[/m;

/** Fails for a line that a CI system obeys, or that begins with text that is not mcpvals' own. */
function expectHarmless(...outputs: readonly string[]): void {
  for (const output of outputs) {
    expect(output).not.toMatch(controls);
    expect(output).not.toMatch(ciCommand);
    expect(output).not.toMatch(/^[\s✓✗]*FORGED/m);
  }
}

/** Runs mcpvals with each of these arguments in a folder of these files. */
async function runAll(
  files: Readonly<Record<string, unknown>>,
  ...all: readonly string[][]
): Promise<HereOutcome[]> {
  using folder = folderOf(files);
  return await Promise.all(all.map((args) => runHere(args, { cwd: folder.path })));
}

describe("text of servers, agents and models is never obeyed or taken for mcpvals' own", () => {
  const text = sendable(everything);
  const config: Config = {
    server: fixtureServer(`--stderr=${everything}`),
    agent: {
      type: "scripted",
      plan: { w: [{ call: "echo", args: { message: text } }, { say: everything }] },
    },
    workflows: [{ name: "w", steps: [{ user: everything, expectedState: "no such state" }] }],
    toolHealthSuites: [
      {
        name: "s",
        tests: [
          { name: "echo", args: { message: text }, expectedResult: "two\nlines" },
          ...attacks.map((attack, index) => {
            const args = { message: sendable(attack) };
            return { name: "echo", description: `echo ${index}`, args, expectedResult: "else" };
          }),
          { name: "crash", args: { code: 3, stderr: text } },
          { name: "fail", description: everything, args: { [text]: text } },
        ],
      },
    ],
  };
  const verify = [command(`cat <<'EOF' >&2\n${withoutNul}\nEOF\nexit 3`)];
  const task = {
    ...taskOf("", { prompt: "do it", verify }),
    metadata: { name: everything, description: everything },
  };

  it("in whatever form it is asked for", async () => {
    const show = ["show", "-o", "out"];
    const prove = ["validate", "t.json", "--run"];
    const all = await runAll(
      { "mcp-eval.config.json": config, "t.json": task },
      ["run", "-o", "out"],
      ["run", "t.json", "--agent", "null", "-o", "out2"],
      [...show, "--trial", "t1"],
      [...show, "-r", "junit"],
      ["list", "t.json"],
      ["validate", "t.json"],
      prove,
      [...show, "--json"],
      [...show, "--trial", "t1", "--json"],
      [...show, "--tools"],
      ["list", "t.json", "--json"],
      [...prove, "--json"],
      ["task", "export", "t.json", "--format", "json"],
    );
    const [run, ...others] = all;
    for (const { stdout, stderr } of all) expectHarmless(stdout, stderr);
    expect(run?.code).toBe(1);
    expect(run?.stdout.match(/FORGED/g)?.length).toBeGreaterThan(20);
    expect(run?.stdout).toContain(String.raw`│ \x3a:error file=a.js,line=1::FORGED`);
    const values = others.slice(6).map(({ stdout }) => {
      const documents = stdout.startsWith("{\n") ? [stdout] : stdout.trim().split("\n");
      return documents.map((document) => JSON.stringify(JSON.parse(document))).join("\n");
    });
    expect(values.filter((json) => !json.includes("FORGED"))).toEqual([]);
    expect(values[0]).toContain("::error file=a.js");
  });

  const yaml = `x${everything.replaceAll(/[^ -~]/g, "")}: 1\nserver: 2\n`;
  const invalid = `{"server": ${JSON.stringify(everything)}, ${JSON.stringify(everything)}: 1}`;
  it.each<[string[], Record<string, string>]>([
    [["run"], { "mcp-eval.config.yaml": yaml }],
    [["run"], { "mcp-eval.config.json": invalid }],
    [["run"], { "mcp-eval.config.mjs": `throw new Error(${JSON.stringify(everything)});` }],
    [[withoutNul], {}],
    // What stands behind "=" may be a secret, and is not repeated.
    [["run", `--${withoutNul.replaceAll("=", ":")}`], {}],
    [["run", "--trials", withoutNul], {}],
    [["task", "export", "a", withoutNul], {}],
    [["extensions", withoutNul], {}],
  ])("in the error for %j with %j", async (args, files) => {
    const [outcome] = await runAll(files, args);
    expect([outcome?.code, outcome?.stderr]).toEqual([2, expect.stringContaining("FORGED")]);
    expectHarmless(outcome?.stdout ?? "", outcome?.stderr ?? "");
  });

  it("in an error with its detail, hint and file", () => {
    const location = { file: everything, line: 1 };
    const details = { detail: everything, hint: everything, location };
    const error = new McpvalsError("server/exited", `it ended: ${everything}`, details);
    expectHarmless(renderError(error));
  });
});

describe("one line of text from outside", () => {
  it.each(attacks)("%j is harmless, and stays so", (attack) => {
    const shown = visibleText(attack);
    for (const pattern of [controls, ciCommand, /\n/]) expect(shown).not.toMatch(pattern);
    expect(visibleText(shown)).toBe(shown);
  });

  it.each(["std::vector<int> a", "## Heading [link]", "# [x]", "a##", ":: ", ":", "C:: x", "a ::b::"])(
    "%j stays readable",
    (text) => {
      expect(visibleText(text).endsWith(text.replaceAll(/^:/g, ""))).toBe(true);
    },
  );

  it("is harmless in lines that are broken or coloured, too", () => {
    const coloured = "\u001b[31m::error::x\u001b[39m\n  \u001b[2m ::warning::y\n a ##[group]z";
    expect(withoutCommands(coloured)).toBe(
      "\u001b[31m\\x3a:error::x\u001b[39m\n  \u001b[2m \\x3a:warning::y\n a #\\x23[group]z",
    );
  });

  it.each([
    ["colons", "::".repeat(500_000)],
    ["hashes", "#".repeat(1_000_000)],
    ["colours", "\u001b[31m".repeat(200_000)],
    ["direction marks", "\u202e".repeat(250_000)],
  ])("takes time proportional to a text of %s", (_, long) => {
    visibleText(long);
    withoutCommands(long);
    visibleJson(JSON.stringify(long));
  });
});

describe("documents", () => {
  const parts = fc.oneof(fc.constantFrom(...attacks), fc.string({ unit: "binary" }));
  const text = fc.array(parts, { maxLength: 4 }).map((all) => all.join("\n"));

  it("in JSON keep their value, and nothing in them drives a terminal or a CI system", () => {
    const property = fc.property(text, text, (key, value) => {
      const document = { [key]: [value, 1], __proto__x: null };
      const json = visibleJson(JSON.stringify(document, undefined, 2));
      expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(document)));
      expect(json.replaceAll("\n", "")).not.toMatch(controls);
      expect(json).not.toMatch(ciCommand);
    });
    fc.assert(property);
  });

  it("in XML, too", () => {
    const property = fc.property(text, (value) => {
      for (const xml of [xmlText(value), xmlAttributes({ a: value })]) {
        expect(xml.replaceAll(/[\n\t]/g, "")).not.toMatch(controls);
        expect(xml).not.toMatch(ciCommand);
      }
    });
    fc.assert(property);
  });
});
