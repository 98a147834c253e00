import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { documentJsonSchema, documentNames } from "../../scripts/schemas/document-json-schemas.ts";
import { eventReference } from "../../scripts/event-reference.ts";
import { eventTypes, isEventType } from "../../src/model/event.ts";
import { eventKinds } from "../../src/model/event-schema.ts";
import { isTraceWord } from "../../src/trace/redact.ts";

describe("the schemas of what mcpvals writes", () => {
  it.each(documentNames)("are JSON Schemas: %s", (name) => {
    expect(() =>
      new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(documentJsonSchema(name)),
    ).not.toThrow();
  });

  it.each(["result", "run", "trace-event"] as const)("describe every property: %s", (name) => {
    const bare: string[] = [];
    walk(documentJsonSchema(name), "", bare);
    expect(bare).toEqual([]);
  });
});

function walk(value: unknown, path: string, bare: string[]): void {
  if (typeof value !== "object" || value === null) return;
  for (const [key, child] of Object.entries(value)) {
    const at = `${path}/${key}`;
    if (path.endsWith("/properties") && !("description" in child) && !("$ref" in child)) bare.push(at);
    walk(child, at, bare);
  }
}

describe("events", () => {
  const started = { seq: 1, at: 1.5, trial: "t1", type: "trial.started", task: "a", agent: null, attempt: 1 };
  const validate = new Ajv2020({ strictTypes: false }).compile(documentJsonSchema("trace-event"));

  it("are accepted as they are recorded", () => {
    expect(validate(started) || validate.errors).toBe(true);
  });

  it.each([
    ["without its place in the trial", { ...started, seq: undefined }],
    ["with a member of another type", { ...started, attempt: "1" }],
    ["with an unknown member", { ...started, extra: 1 }],
    ["of an unknown type", { ...started, type: "trial.begun" }],
  ])("are refused %s", (_, wrong) => {
    expect(validate(JSON.parse(JSON.stringify(wrong)))).toBe(false);
  });

  it("have their types listed where no schema is loaded", () => {
    expect(eventTypes).toEqual(Object.keys(eventKinds));
    expect([isEventType("mcp.message"), isEventType("toString"), isEventType(1)]).toEqual([true, false, false]);
  });

  it("are each on the reference page, with all members", () => {
    const page = eventReference();
    for (const [type, members] of Object.entries(eventKinds)) {
      const section = page.split(`\n## ${type}\n`)[1]?.split("\n## ")[0] ?? "";
      for (const key of Object.keys(members.shape)) expect(section).toContain(`| \`${key}\` |`);
    }
  });

  it("have members and fixed values that are never taken for secrets", () => {
    const words = new Set<string>();
    collectWords(documentJsonSchema("trace-event"), words);
    // Codes of errors have a slash, as no one would choose a password.
    const plain = [...words].filter((word) => !word.includes("/"));
    expect(plain).toContain("cleanup");
    expect(plain.filter((word) => !isTraceWord(word))).toEqual([]);
  });
});

/** The names of properties, and the texts that values may be. */
function collectWords(schema: unknown, words: Set<string>): void {
  if (typeof schema !== "object" || schema === null) return;
  for (const [key, value] of Object.entries(schema)) {
    if (key === "properties") for (const name of Object.keys(value as object)) words.add(name);
    if (key === "const" || key === "enum")
      for (const word of [value].flat()) if (typeof word === "string") words.add(word);
    collectWords(value, words);
  }
}
