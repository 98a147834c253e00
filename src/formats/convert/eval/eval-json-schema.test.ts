import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { evalJsonSchema } from "../../../../scripts/schemas/eval-json-schemas.ts";
import { parseEvalFile } from "./eval-file.ts";

const validate = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false }).compile(
  evalJsonSchema(),
);

function parsed(document: unknown): ReturnType<typeof parseEvalFile> {
  return parseEvalFile(document, { locate: () => undefined });
}

const set = { path: "a.yaml" };

/** A strict eval with one task set and these settings. */
function evalWith(config: object, rest: object = {}): object {
  return { apiVersion: "mcp-eval/v1", kind: "Eval", config: { taskSets: [set], ...config }, ...rest };
}

function withSet(taskSet: object): object {
  return evalWith({ taskSets: [taskSet] });
}

const judgeEnv = { baseUrlKey: "URL", apiKeyKey: "KEY", modelNameKey: "MODEL" };
const model = { type: "builtin.llm-agent", model: "anthropic:claude-sonnet-4-5" };
const everyAssertion = {
  toolsUsed: [{ server: "k8s", toolPattern: "pods_.*" }, { server: "k8s" }],
  requireAny: [{ server: "k8s", tool: "list" }],
  toolsNotUsed: [{ server: "k8s", tool: "delete" }],
  minToolCalls: 0,
  maxToolCalls: 20,
  resourcesRead: [{ server: "docs", uri: "file:///a" }],
  resourcesNotRead: [{ server: "docs", uriPattern: "secret" }],
  promptsUsed: [{ server: "docs", prompt: "p" }],
  promptsNotUsed: [{ server: "docs", promptPattern: "x" }],
  callOrder: [{ type: "tool", server: "k8s", name: "list" }],
  noDuplicateCalls: true,
};

const good: Readonly<Record<string, object>> = {
  "the least there is": { kind: "Eval", config: { taskSets: [set] } },
  "an agent in a file": evalWith({ agent: { type: "file", path: "agent.yaml" } }),
  "a model as agent": evalWith({ agent: model }),
  servers: evalWith({
    mcpConfigFile: "mcp.json",
    servers: { a: { transport: "stdio", command: "docs" }, b: { transport: "shttp", url: "http://x/mcp" } },
  }),
  "a judge by variables": evalWith({ llmJudge: { env: judgeEnv } }),
  extensions: evalWith({
    extensions: { k8s: { package: "github.com/x/k@v1", env: { A: "b" }, config: { a: [1] } } },
  }),
  "a source that nothing uses": evalWith({ sources: { unused: { repo: "https://x/y.git", ref: "main" } } }),
  "every assertion": withSet({ ...set, assertions: everyAssertion }),
};

const bad: Readonly<Record<string, unknown>> = {
  "another kind": { ...evalWith({}), kind: "Task" },
  "an unknown key": evalWith({}, { spec: {} }),
  "no config": { apiVersion: "mcp-eval/v1", kind: "Eval" },
  "no task sets": evalWith({ taskSets: [] }),
  "task sets left out": { apiVersion: "mcp-eval/v1", kind: "Eval", config: {} },
  "a task set with neither path nor glob": withSet({ labelSelector: { a: "b" } }),
  "a task set with both path and glob": withSet({ path: "a", glob: "b" }),
  "an unknown kind of agent": evalWith({ agent: { type: "builtin.other" } }),
  "an agent of type file without its path": evalWith({ agent: { type: "file" } }),
  "a model as agent without the model": evalWith({ agent: { type: "builtin.llm-agent" } }),
  "a judge of type file without its path": evalWith({ llmJudge: { ref: { type: "file" } } }),
  "a judge by too few variables": evalWith({ llmJudge: { env: { ...judgeEnv, apiKeyKey: undefined } } }),
  "a source that is used": withSet({ ...set, source: "s" }),
  skills: evalWith({ skills: {} }),
};

describe("the JSON Schema of an eval and the parser", () => {
  it.each(Object.entries(good))("both take %s", (_, document) => {
    const { ok, ...rest } = parsed(document);
    const valid = validate(document);
    expect({ ok, valid, errors: validate.errors }).toEqual({ ok: true, valid: true, errors: null });
    expect(rest).not.toHaveProperty("diagnostics");
  });

  it.each(Object.entries(bad))("both refuse %s", (_, document) => {
    const clean: unknown = JSON.parse(JSON.stringify(document));
    expect({ ok: parsed(clean).ok, valid: validate(clean) }).toEqual({ ok: false, valid: false });
  });
});
