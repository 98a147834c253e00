import { describe, expect, it } from "vitest";
import { parseStrictYaml } from "../../src/core/formats/parse-yaml.ts";
import { clientAdapters, mergeServers } from "../../src/servers/client-files/client-format.ts";
import { failure } from "../load/support/load.ts";
import { folderOf } from "../support/cli.ts";

const bytes = 500_000;

function filled(part: string): string {
  return part.repeat(Math.floor(bytes / part.length));
}

/** Each takes minutes where the time grows with the square of the text, and then these tests run out of time. */
const texts: readonly (readonly [name: string, text: string])[] = [
  ["tags in a row", filled("!a ")],
  ["closing brackets", filled("]")],
  ["anchors in a row, in an older task", `kind: Task\nsteps: ${filled("&a ")}`],
];

describe("a text is read in time linear to its size, whatever is in it (docs/security.md)", () => {
  it.each(texts)("a YAML file of %s", async (_, text) => {
    using folder = folderOf({ "mcp-eval.config.yaml": text });
    expect((await failure(folder.path)).kind).toBe("usage");
  });

  it("a manifest with many anchors and aliases", async () => {
    const lines = Array.from(
      { length: 20_000 },
      (_, index) => `k${index}: &a${index} x\nz${index}: *a${index}`,
    );
    await expect(parseStrictYaml(lines.join("\n"))).rejects.toThrow("more than 100 aliases");
  });

  it("a client's config file in one line", () => {
    const keys = Array.from({ length: 60_000 }, (_, index) => `"k${index}":1`);
    const merged = mergeServers(`{${keys.join(",")}}`, { calc: { url: "x" } }, clientAdapters["claude-code"]);
    expect(JSON.parse(merged)).toMatchObject({ k59999: 1, mcpServers: { calc: { url: "x" } } });
  });
});
