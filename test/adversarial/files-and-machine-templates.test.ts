import { describe, expect, it } from "vitest";
import { fillTemplate, type TemplateValues } from "../../src/agents/agent-program.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { Json } from "../../src/core/formats/model.ts";
import { envRoot, expanderOf } from "../../src/core/templates/expand.ts";
import { resolveIn, type Scope } from "../../src/core/templates/scope.ts";
import { failure } from "../load/support/load.ts";
import { folderOf } from "../support/cli.ts";

const tooLong = "more than 16777216 characters";

function messageOf(work: () => unknown): string {
  try {
    work();
    return "nothing was thrown";
  } catch (error) {
    if (error instanceof McpvalsError) return `${error.code}: ${error.message}`;
    throw error;
  }
}

function scopeOf(value: Json): Scope {
  return new Map([["a", resolveIn(value)]]);
}

describe("values that are put into one another do not grow without end (docs/security.md)", () => {
  it("variables of a task that double each other", () => {
    const names = Array.from({ length: 60 }, (_, index) => index);
    const declared = Object.fromEntries(
      names.map((index) => [`A${index}`, index === 0 ? "x" : `{env.A${index - 1}}{env.A${index - 1}}`]),
    );
    const env = envRoot({ overrides: {}, declared, shell: {} }, new Map());
    expect(env(["A10"], undefined)).toHaveLength(1024);
    expect(messageOf(() => env(["A59"], undefined))).toContain(
      `task/template: the templates give ${tooLong}`,
    );
  });

  it("many variables of a task that are long together", () => {
    const long = "x".repeat(1024 * 1024);
    const declared = Object.fromEntries(
      Array.from({ length: 20 }, (_, index) => [`A${index}`, "{env.LONG}"]),
    );
    const env = envRoot({ overrides: {}, declared, shell: { LONG: long } }, new Map());
    expect(messageOf(() => Object.keys(declared).map((name) => env([name], undefined)))).toContain(tooLong);
  });

  it("outputs of steps that double each other", () => {
    const double = (): void => {
      for (let value: Json = "x"; ; value = expanderOf(scopeOf(value)).text("{a}{a}"));
    };
    expect(messageOf(double)).toContain(tooLong);
  });

  it("texts of one step that are long together", () => {
    const { json } = expanderOf(scopeOf("x".repeat(1024 * 1024)));
    expect(messageOf(() => json(Array.from({ length: 20 }, () => "{a}")))).toContain(tooLong);
  });

  it("values of one step that are large together", () => {
    const { json } = expanderOf(scopeOf({ list: Array.from({ length: 100_000 }, () => 1234567890) }));
    expect(messageOf(() => json(Array.from({ length: 20 }, () => "{a | json $.list}")))).toContain(tooLong);
  });

  it("a prompt that is in an agent's command line often", () => {
    const values: TemplateValues = {
      prompt: "x".repeat(1024 * 1024),
      promptJson: "",
      workspace: "",
      cwd: "",
      mcpConfig: "",
      model: "",
      session: "",
      servers: new Map(),
    };
    expect(fillTemplate("{prompt}{prompt}", values)).toHaveLength(2 * 1024 * 1024);
    expect(messageOf(() => fillTemplate("{prompt}".repeat(1000), values))).toContain("config/invalid-value");
  });

  it("a variable that is in a config often", async () => {
    using folder = folderOf({ "mcp-eval.config.json": { name: "${LONG}".repeat(1000) } });
    const error = await failure(folder.path, { environment: { LONG: "x".repeat(1024 * 1024) } });
    expect([error.code, error.message]).toEqual(["config/invalid-value", expect.stringContaining(tooLong)]);
  });

  it("a long text that a YAML file repeats with aliases", async () => {
    const aliases = Array.from({ length: 900 }, (_, index) => `k${index}: *a`).join("\n");
    using folder = folderOf({ "mcp-eval.config.yaml": `a: &a ${"x".repeat(400_000)}\n${aliases}\n` });
    const error = await failure(folder.path);
    expect([error.code, error.message]).toEqual(["config/invalid-value", expect.stringContaining(tooLong)]);
  });
});
