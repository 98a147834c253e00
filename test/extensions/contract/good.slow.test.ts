import { expect, test } from "vitest";
import { checkManifest } from "../../../src/extensions/contract/subject.ts";
import { contractHolds } from "../../../src/extensions/contract/run-contract.ts";
import { correct, manifestBeside, told, tryProgram, tryVariant } from "./try-program.ts";

const kubeconfig = {
  apiVersion: "v1",
  kind: "Config",
  "current-context": "here",
  clusters: [{ name: "here", cluster: { server: "http://127.0.0.1:1" } }],
  contexts: [{ name: "here", context: { cluster: "here", user: "nobody" } }],
  users: [{ name: "nobody", user: {} }],
};

test("a correct extension passes everything that there is", async () => {
  const verdicts = await tryProgram(correct);
  expect(verdicts.map(({ protocol, name, outcome }) => `${protocol} ${name}: ${outcome}`)).toEqual([
    "json-rpc initialize: pass",
    "json-rpc protocol version: pass",
    "json-rpc manifest: pass",
    "json-rpc manifest file: skip",
    "json-rpc unknown operation: pass",
    "json-rpc unknown method: pass",
    "json-rpc arguments: pass",
    "json-rpc requests in a row: pass",
    "json-rpc long line: pass",
    "json-rpc shutdown: pass",
    "json-rpc other version: pass",
    "json-rpc end of stdin: pass",
    "json-rpc stdout: pass",
    "json-rpc unfinished line: pass",
    "json-rpc logs: pass",
    "json-rpc answer size: pass",
    "json-rpc answers once: pass",
    "json-rpc leftovers: pass",
    "one-shot unknown operation: pass",
    "one-shot arguments: pass",
    "one-shot missing input: pass",
    "one-shot stdout: pass",
    "one-shot answer size: pass",
    "one-shot leftovers: pass",
  ]);
  expect(contractHolds({ program: "", protocols: [], verdicts })).toBe(true);
  expect(contractHolds({ program: "", protocols: [], verdicts: [] })).toBe(false);
});

test("an extension.yaml that says something else is told of, difference by difference", async () => {
  const program = correct;
  const params = { type: "object", properties: { text: { type: "number" } }, required: ["text"] };
  const verdicts = await tryProgram(program, {
    protocols: ["json-rpc"],
    manifest: {
      name: "fixture",
      version: "1.0.1",
      protocol: "json-rpc",
      operations: {
        echo: { params, phases: ["setup"] },
        shout: { params, phases: ["setup"] },
      },
    },
  });
  const [problem = ""] = told(verdicts, "fail");
  expect(problem).toContain("json-rpc manifest file: version is 1.0.0, but 1.0.1 in extension.yaml; ");
  expect(problem).toMatch(/params of echo.*"string".*"number"/);
  expect(problem).toContain("echo has the phase verify only in the program");
  expect(problem).toContain("operation shout is in extension.yaml only");
  const unwritten = await tryProgram(program, {
    protocols: ["json-rpc"],
    manifest: { name: "fixture", version: "1.0.0", protocol: "json-rpc", operations: {} },
  });
  expect(told(unwritten, "fail")).toEqual([
    "json-rpc manifest file: operation echo is not in extension.yaml",
  ]);
});

test.each([
  [{ properties: {} }, /^echo: its params do not say type: "object"$/],
  [{ $ref: "#/$defs/nowhere", type: "object" }, /^echo: its params cannot be compiled: .*nowhere/],
])("a schema that cannot be used is found: %j", (params, message) => {
  const declared = { name: "x", version: "1", protocolVersion: "0.0.1", operations: { echo: { params } } };
  const finding = checkManifest(declared);
  expect(finding.outcome).toBe("fail");
  expect(finding.message).toMatch(message);
});

test("a program for one version only, and with short lines, is told of as such", async () => {
  const any = await tryVariant("any-version", { protocols: ["json-rpc"] });
  expect(told(any, "warn")).toEqual([
    "json-rpc other version: protocolVersion 999.0.0 should be refused with an error: it was answered with a result",
  ]);
  const short = await tryProgram("test/extensions/host/programs/go-like.mjs", { protocols: ["json-rpc"] });
  expect(told(short, "fail")).toEqual([]);
  expect(told(short, "warn")).toEqual([
    expect.stringMatching(/^json-rpc long line: a line of 100000 bytes, .* ended with exit code 1 before/),
  ]);
});

test.each(["kubernetes", "sql", "csv"])(
  "the bundled extension %s passes in both protocols",
  async (name) => {
    const folder = `dist/extensions/${name}`;
    const program = `${folder}/${name === "csv" ? "main.py" : "main.js"}`;
    const config = name === "kubernetes" ? { config: { kubeconfig: "kubeconfig.json" } } : {};
    const verdicts = await tryProgram(program, {
      timeoutMs: 60_000,
      manifest: manifestBeside(program),
      ...config,
      files: { "kubeconfig.json": kubeconfig },
    });
    expect([...told(verdicts, "fail"), ...told(verdicts, "warn")]).toEqual([]);
    expect(told(verdicts, "skip")).toEqual([]);
  },
  90_000,
);

test("what other hosts take for something else is a warning", async () => {
  const verdicts = await tryVariant("lenient");
  expect(told(verdicts, "fail")).toEqual([]);
  expect(told(verdicts, "warn")).toEqual([
    "json-rpc arguments: echo without its required arguments should be answered with the error -32602, not with success: false",
    "one-shot unknown operation: an unknown operation was answered with success: false, but the exit code is 0, which other hosts may go by",
    "one-shot arguments: echo without its required arguments was answered with success: false, but the exit code is 0, which other hosts may go by",
    "one-shot missing input: an input file that does not exist was answered with success: false, but the exit code is 0, which other hosts may go by",
  ]);
});

test("an extension that needs a config is told so, and passes with it", async () => {
  const protocols = ["json-rpc"] as const;
  const without = await tryVariant("needs-config", { protocols });
  expect(told(without, "fail")).toEqual([
    "json-rpc initialize: answered with the error -32602: url is missing; it got no config, which it may need",
  ]);
  const config = { url: "http://127.0.0.1:1" };
  expect(told(await tryVariant("needs-config", { protocols, config }), "fail")).toEqual([]);
});
