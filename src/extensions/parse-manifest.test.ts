import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { formatKeyPath } from "../base/json.ts";
import { goDurationPattern } from "../base/duration.ts";
import { type ParsedManifest, parseManifest } from "./manifest.ts";

function parse(yaml: string): ParsedManifest {
  return parseManifest(parseYaml(yaml));
}

function problemsOf(yaml: string): string[] {
  const parsed = parse(yaml);
  return parsed.ok ? [] : parsed.problems.map(({ message, path }) => `${formatKeyPath(path)}: ${message}`);
}

const all = ["setup", "verify", "cleanup"];

describe("extension.yaml", () => {
  it("has operations, each with its phases", () => {
    const yaml = `
name: db
version: 1.2.0
description: Asks a database
license: MIT
requires: [{ command: psql }]
program: bin/db
operations:
  query:
    description: Runs SQL
    params: { properties: { sql: { type: string } }, required: [sql] }
    phases: [cleanup, verify]
  reset:
    args:
      hard: { type: bool, default: true }
      on: { required: true, description: Which }
      within: { type: duration, default: 90s }
  ping: {}
`;
    expect(parse(yaml)).toEqual({
      ok: true,
      manifest: {
        name: "db",
        version: "1.2.0",
        description: "Asks a database",
        protocol: "json-rpc",
        program: "bin/db",
        requires: [{ command: "psql" }],
        operations: {
          query: {
            description: "Runs SQL",
            params: { type: "object", properties: { sql: { type: "string" } }, required: ["sql"] },
            phases: ["verify", "cleanup"],
          },
          reset: {
            params: {
              type: "object",
              properties: {
                hard: { type: "boolean", default: true },
                on: { description: "Which" },
                within: { type: "string", pattern: goDurationPattern, default: "90s" },
              },
              required: ["on"],
              additionalProperties: false,
            },
            phases: all,
          },
          ping: { params: { type: "object" }, phases: all },
        },
      },
    });
  });

  it("may list actions and checks, of which one name is one operation", () => {
    const yaml = `
name: files
version: "1"
requires:
actions:
  - name: make
    args: { path: { type: string, required: true }, size: { type: integer, default: 0 } }
  - { name: both, description: first }
checks:
  - { name: both, description: second }
  - { name: look, args: null }
`;
    const none = { type: "object", properties: {}, additionalProperties: false };
    expect(parse(yaml)).toEqual({
      ok: true,
      manifest: {
        name: "files",
        version: "1",
        protocol: "one-shot",
        operations: {
          make: {
            params: {
              type: "object",
              properties: { path: { type: "string" }, size: { type: "integer", default: 0 } },
              required: ["path"],
              additionalProperties: false,
            },
            phases: ["setup", "cleanup"],
          },
          both: { description: "first", params: none, phases: all },
          look: { params: none, phases: ["verify"] },
        },
      },
    });
  });

  it("is refused with everything that is wrong, and where", () => {
    const yaml = `
name: ""
verion: 1
program: ../elsewhere
operations:
  a: { params: { type: array } }
  b: { params: {}, args: {} }
  c: { phase: [setup] }
  d: { phases: [] }
  e: { args: { x: { type: text } } }
  f: { args: { x: { type: integer, default: 1.5 } } }
  g: { args: { x: { type: duration, default: 5 minutes } } }
requires: [psql]
actions: []
`;
    expect(problemsOf(yaml)).toEqual([
      'verion: unknown key "verion"',
      "name: name must not be blank",
      ': missing key "version": a string',
      "requires[0]: requires[0] must be an object, not a string",
      'operations.c.phase: unknown key "phase" in operations.c',
      "operations.d.phases: operations.d.phases must have at least 1 item",
      'operations.e.args.x.type: operations.e.args.x.type must be "string", "number", "integer", "boolean", "array", "object", "duration", "any", "int", "float", "bool", "list" or "map"',
    ]);
    const rest = yaml
      .replace('""', "x")
      .replace("verion", "version")
      .replace("version: 1", 'version: "1"')
      .replace("[psql]", "[{ command: psql }]")
      .replaceAll(/ {2}[cde]: .*\n/g, "");
    expect(problemsOf(rest)).toEqual([
      'operations.a.params: operations.a.params must be a JSON Schema of type "object": arguments are an object',
      "operations.b.args: operations.b has both params and args",
      'operations.f.args: operations.f.args gives "x" a default that is not of type integer',
      'operations.g.args: operations.g.args gives "x" a default that is not of type duration',
      "actions: actions cannot stand beside operations",
      "program: program must be a path inside the extension's folder",
    ]);
    const parsed = parse(rest);
    expect(parsed.ok ? [] : parsed.problems.map(({ code }) => code)).toEqual(
      Array.from({ length: 6 }, () => "extension/invalid-manifest"),
    );
  });

  it.each([
    ["[]", ["the manifest must be an object with name, version and operations"]],
    ['{ name: e, version: "1" }', ["the manifest has no operations"]],
    ['{ name: e, version: "1", operations: {} }', ["operations has no operation"]],
    [
      '{ name: e, version: "1", actions: [{ name: a }, { name: a }] }',
      ['two actions are named "a": actions[0] and actions[1]'],
    ],
    [
      '{ name: e, version: "1", actions: [{ name: a }], checks: [{ name: a, args: { x: {} } }] }',
      ['actions[0] and checks[0] are one operation, "a", but take other arguments'],
    ],
  ])("%s is refused", (yaml, messages) => {
    const parsed = parse(yaml);
    expect(parsed.ok ? [] : parsed.problems.map(({ message }) => message)).toEqual(messages);
  });
});
