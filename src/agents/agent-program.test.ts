import { parse } from "smol-toml";
import { expect, it } from "vitest";
import { presets } from "./programs/presets.ts";
import { mentions } from "./declared-agents.ts";
import { fillTemplate, type TemplateValues } from "./agent-program.ts";

const values: TemplateValues = {
  prompt: "say {model} and $& {{",
  promptJson: '"say"',
  workspace: "/w",
  cwd: "/c",
  mcpConfig: "/m.json",
  model: "m",
  session: "",
  servers: new Map([["my.srv-1", "http://127.0.0.1:1/x"]]),
};

it.each([
  ["{prompt}", "say {model} and $& {{"],
  ["{promptJson}", '"say"'],
  ["--in={workspace}:{cwd} @{mcpConfig} {model}{session}|", "--in=/w:/c @/m.json m|"],
  ["{servers.my.srv-1.url}", "http://127.0.0.1:1/x"],
  ["{{prompt}", "{prompt}"],
  ["{{{prompt}", "{say {model} and $& {{"],
  ['{"a":{"b":1}} {other} {} { prompt }', '{"a":{"b":1}} {other} {} { prompt }'],
  ["projects={{'{cwd}'={{x='y'}}", "projects={'/c'={x='y'}}"],
])("fills %s", (text, filled) => {
  expect(fillTemplate(text, values)).toBe(filled);
});

it("refuses a server that is not there", () => {
  expect(() => fillTemplate("{servers.x.url}", values)).toThrow(
    expect.objectContaining({
      code: "config/unknown-reference",
      message: "{servers.x.url}: the trial has no such server",
      details: { hint: "It has: my.srv-1." },
    }),
  );
});

it("refuses every address in a command line", () => {
  const { servers: _, ...visible } = values;
  expect(() => fillTemplate("{servers.my.srv-1.url}", visible)).toThrow(
    expect.objectContaining({ code: "config/public-secret" }),
  );
});

it.each(["/tmp/a.b/c.d", "/tmp/with space/é 日本", String.raw`C:\Users\me.too`])(
  "tells Codex to trust the folder %s, whatever its name",
  (cwd) => {
    const { args } = presets.codex.headless;
    const [trust = ""] = args.filter((text) => mentions(text, "cwd"));
    expect(parse(fillTemplate(trust, { ...values, cwd }))).toEqual({
      projects: { [cwd]: { trust_level: "trusted" } },
    });
  },
);
