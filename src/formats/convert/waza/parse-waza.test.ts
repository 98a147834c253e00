import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { wazaEvalJsonSchema, wazaTaskJsonSchema } from "../../../../scripts/schemas/eval-json-schemas.ts";

const ajv = new Ajv2020({ strict: false });
const isEval = ajv.compile(wazaEvalJsonSchema());
const isTask = ajv.compile(wazaTaskJsonSchema());

const config = { trials_per_task: 2, executor: "copilot-sdk" };
const task = { id: "a", inputs: { prompt: "x" } };

describe("the JSON Schemas of waza files", () => {
  it.each<[string, unknown]>([
    ["an eval", { config, tasks: ["*.yaml"] }],
    [
      "servers in every spelling",
      {
        config: {
          mcp_servers: { a: { type: "stdio", command: "x", workingDir: "." }, b: { url: "${URL}" } },
        },
      },
    ],
    [
      "graders in every spelling",
      {
        tasks: ["*.yaml"],
        graders: [
          { type: "program", config: { command: "grade", timeout: 5 } },
          { type: "program", config: { command: "grade", timeout: "5s", workspace: [] } },
          { type: "code", assertions: ["True"], config: { language: "python" } },
          { type: "script", script: "a.ts" },
          { type: "prompt", rubric: "Is it kind?" },
          { type: "prompt", config: { prompt: "Is it kind?", mode: "independent", continue_session: false } },
          { type: "trigger", config: { skill_path: "skills/a/SKILL.md", mode: "negative", threshold: 0.6 } },
        ],
      },
    ],
    ["variants", { config, variants: { none: { mcp_servers: { a: null, inherit: false } } } }],
  ])("accept %s", (_, document) => {
    expect([isEval(document), isEval.errors]).toEqual([true, null]);
  });

  it.each<[string, unknown]>([
    ["an unknown key", { hoks: {} }],
    ["a server without command and url", { config: { mcp_servers: { a: { args: ["x"] } } } }],
    ["one of them at the top", { mcp_servers: { a: {} }, tasks: ["*.yaml"] }],
    [
      "a setting that a type of grader does not have",
      { graders: [{ type: "text", config: { contain: ["x"] } }] },
    ],
    ["a setting of another type", { graders: [{ type: "text", config: { max_tokens: 1 } }] }],
    ["a grader without settings that it needs", { graders: [{ type: "tool_routing" }] }],
    ["a type that no grader has", { graders: [{ type: "human" }] }],
    ["a server with a misspelt key", { config: { mcp_servers: { a: { comand: "x" } } } }],
    ["a server with a name that cannot be", { config: { mcp_servers: { "a b": { command: "x" } } } }],
  ])("refuse %s", (_, document) => {
    expect(isEval(document)).toBe(false);
  });

  it("know tasks", () => {
    expect(
      isTask({ ...task, mcp_servers: { a: { tools: ["x"] } }, expected: { tool_calls: { min_calls: 1 } } }),
    ).toBe(true);
    const limits = { behavior: { max_tokens: 5, max_response_time_ms: 9 } };
    expect([isTask({ ...task, expected: limits }), isTask.errors]).toEqual([true, null]);
    expect(isTask({ ...task, expected: { behavior: { max_token: 5 } } })).toBe(false);
    expect(isTask({ ...task, expected: { tool_calls: { expect: [{ toool: "x" }] } } })).toBe(false);
    expect(isTask({ id: "a" })).toBe(false);
    expect(isTask({ ...task, expected: { outcomes: [1] } })).toBe(false);
  });
});
