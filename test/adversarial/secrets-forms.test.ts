import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRedactor } from "../../src/core/trace/redact.ts";
import { shortened } from "../../src/core/text/visible-text.ts";
import { evaluate } from "../../src/evaluate.ts";
import { WholeLines } from "../../src/process/program-output.ts";
import { invalidLineText } from "../../src/servers/stdio/output-recorder.ts";
import { answer, startHttpFixture } from "../fixtures/servers/http-server.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf } from "../support/cli.ts";

const value = "Canary+secret/4711-äöü-AbCdEfGh";
const redact = createRedactor([{ name: "KEY", value }]);
const bytes = Buffer.from(value);

// Claim: a secret is removed when an event is recorded, however it is written. docs/security.md, "Secrets".
describe("a secret is removed in every usual encoding, with the encoding's name", () => {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  it.each<[encoding: string, text: string]>([
    ["base64", base64(value)],
    ["base64", base64(value).replace(/=+$/, "")],
    ["base64", bytes.toString("base64url")],
    ["base64", base64(value).replaceAll("+", "-").replaceAll("/", "_")],
    ["base64", encodeURIComponent(base64(value))],
    ["base64", JSON.stringify(JSON.stringify(base64(value).replaceAll("/", String.raw`\/`)))],
    ["hex", bytes.toString("hex")],
    ["hex", bytes.toString("hex").toUpperCase()],
    ["percent", bytes.toString("hex").replaceAll(/../g, "%$&")],
    ["percent", bytes.toString("hex").toUpperCase().replaceAll(/../g, "%$&")],
    ["upper case", value.toUpperCase()],
    ["lower case", value.toLowerCase()],
  ])("%s: %s", (encoding, text) => {
    expect(redact(`before ${text} after`)).toMatch(
      new RegExp(String.raw`^before \S*\[secret:KEY ${encoding}\]\S* after$`),
    );
    expect(redact.isClean(JSON.stringify({ text }))).toBe(false);
  });

  it("HTML", () => {
    const named = createRedactor([{ name: "KEY", value: `a<b>&"c"'d-secret` }]);
    for (const apostrophe of ["&#39;", "&#x27;", "&apos;"])
      expect(named(`<p>a&lt;b&gt;&amp;&quot;c&quot;${apostrophe}d-secret</p>`)).toBe(
        "<p>[secret:KEY html]</p>",
      );
  });

  it("Base64, wherever in the encoded bytes it stands", () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 9 }),
        fc.string({ maxLength: 9 }),
        fc.string({ minLength: 8, unit: "binary" }).filter((text) => text.isWellFormed()),
        (before, after, secret) => {
          const encoded = Buffer.from(`${before}${secret}${after}`).toString("base64");
          const clean = createRedactor([{ name: "S", value: secret }])(encoded);
          const left = Buffer.from(clean.replaceAll(/\[[^\]]*\]/g, "")).toString();
          expect(clean).toMatch(/\[secret:S base64\]|\[\*\*\*\]/);
          expect(Buffer.from(left, "base64").includes(secret)).toBe(false);
        },
      ),
    );
  });
});

// Claim: a run without evidence never passes. docs/security.md, "Secrets".
describe("the mark of a secret proves nothing but the secret itself", () => {
  const run = async (say: string): Promise<string> => {
    const result = await evaluate(
      {
        server: fixtureServer(),
        agent: { type: "scripted", plan: { w: [{ say }] } },
        workflows: [{ name: "w", steps: [{ user: "Say the token.", expectedState: "${MY_TOKEN}" }] }],
      },
      { output: false, env: { MY_TOKEN: value } },
    );
    return result.trials[0]?.grades.find(({ grader }) => grader === "end-to-end-success")?.verdict ?? "";
  };

  it.each([
    ["the secret", value, "pass"],
    ["the mark itself", "[secret:MY_TOKEN]", "fail"],
    ["another mark", "[***]", "fail"],
    ["an encoding of it", bytes.toString("base64"), "fail"],
    ["its upper case", value.toUpperCase(), "fail"],
    ["half of it", value.slice(0, 16), "fail"],
    ["the other half", value.slice(16), "fail"],
  ])("an agent that says %s", async (_, say, verdict) => {
    expect(await run(say)).toBe(verdict);
  });
});

describe("a part of a secret of eight characters or more is removed where a text was cut", () => {
  it.each([
    ["two blocks of one message", [{ text: `a ${value.slice(0, 12)}` }, { text: `${value.slice(12)} b` }]],
    ["two texts of a list", [value.slice(0, 20), value.slice(20)]],
    ["lines", `a\n${value.slice(0, 15)}\r\n${value.slice(15)}\nb`],
    ["an excerpt", `HTTP 500: ${value.slice(0, 17)}…; the next attempt`],
    ["an end", `…${value.slice(9)} is wrong`],
    ["Base64 in two lines", bytes.toString("base64").replace(/^.{20}/, "$&\n")],
  ])("%s", (_, cut) => {
    const clean = JSON.stringify(redact(cut));
    expect(clean.match(/\[part of secret:KEY(?: base64)?\]/g)).not.toBeNull();
    for (const form of [value, bytes.toString("base64")])
      for (let at = 0; at + 8 <= form.length; at += 1)
        expect(clean).not.toContain(JSON.stringify(form.slice(at, at + 8)).slice(1, -1));
  });

  it.each([
    ["a line on stdout that is no message", invalidLineText(Buffer.from(`${"x".repeat(1985)}${value}`))],
    ["an excerpt of an answer", shortened(`${"x".repeat(180)}${value}`, 195)],
  ])("%s", (_, cut) => {
    expect(redact(`it said ${JSON.stringify(cut)}, and more`)).not.toContain("Canary");
  });

  it("but not where it only looks like one", () => {
    const address = createRedactor([{ name: "HOOK", value: "https://hooks.example.com/services/T0/B0/xyz" }]);
    for (const text of [
      "see https://hooks.example.com/",
      `the prefix ${value.slice(0, 12)} of keys`,
      `a\n${value.slice(0, 7)}`,
    ])
      expect([address(text), redact(text)]).toEqual([text, text]);
  });
});

describe("a secret in a line of a program's output", () => {
  it.each([10, 8190, 8200, 100_000])(
    "is removed wherever the line is cut on its way: after %i bytes",
    (cut) => {
      const texts: string[] = [];
      const lines = new WholeLines((text) => texts.push(redact(text)));
      const line = Buffer.from(`${"x".repeat(cut)}${value}\n`);
      lines.push(line.subarray(0, cut + 12));
      lines.push(line.subarray(cut + 12));
      lines.finish();
      expect(texts.join("")).toBe(`${"x".repeat(cut)}[secret:KEY]\n`);
    },
  );
});

// Claim: what a server echoes of its own credentials is not recorded. docs/security.md, "Secrets".
describe("an echoed Authorization header is not recorded, decoded or not", () => {
  const pair = "ada:Canary-password-77";
  const basic = Buffer.from(pair).toString("base64");
  it.each([
    ["of the config", { Authorization: `Basic ${basic}` }],
    ["in another header", { "X-Upstream": `Basic ${basic}` }],
  ])("Basic %s", async (_, headers) => {
    const echo = await startHttpFixture(({ response, message }) => {
      if (message.method !== "tools/call") return false;
      const told = `${JSON.stringify(headers)} ${basic} ${pair} ${pair.slice(4)} ${pair.toUpperCase()}`;
      answer(response, { ...message, params: { arguments: { message: told } } });
      return true;
    });
    onTestFinished(() => echo.close());
    using folder = folderOf({});
    const result = await evaluate(
      {
        server: { transport: "shttp", url: echo.url, headers },
        toolHealthSuites: [{ name: "s", tests: [{ name: "echo", expectedResult: "no such text" }] }],
      },
      { cwd: folder.path },
    );
    const written = writtenIn(folder.path) + JSON.stringify(result);
    expect(written).toContain("[secret:");
    for (const form of [basic, basic.slice(0, 12), "Canary", "CANARY", "ada:"])
      expect(written).not.toContain(form);
  });

  it.each(["Basic YTpi", "basic authentication is off", "Basic understanding of tools"])(
    "while %j stays as it is",
    (text) => expect(redact(text)).toBe(text),
  );

  it("whoever gave it", () => {
    expect(redact(`Authorization: Basic ${basic}, basic ${basic}`)).toBe(
      "Authorization: Basic [secret:key], basic [secret:key]",
    );
  });
});

describe("looking for many secrets", () => {
  it("takes time in proportion to the text, however many there are", () => {
    const many = createRedactor(
      Array.from({ length: 500 }, (_, index) => ({
        name: `K${index}`,
        value: `secret-${index}-${"ab".repeat(200)}`,
      })),
    );
    const text = `${"The quick brown fox, secret-, abababab. ".repeat(50_000)}secret-7-${"ab".repeat(200)}`;
    const before = process.cpuUsage();
    expect(many(text).endsWith("[secret:K7]")).toBe(true);
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(5000);
  });
});

/** Every byte that a run has left in a folder. */
function writtenIn(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"))
    .join("\n");
}
