import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checked } from "../check/support.ts";
import { folderOf, root } from "../support/cli.ts";
import { everythingServer, filesystemServer, memoryServer } from "../support/programs.ts";

/** The codes that docs/check.md explains, by server. */
const explained = new Map<string, string[]>();
let server = "";
for (const { groups = {} } of readFileSync(join(root, "docs/check.md"), "utf8").matchAll(
  /^\| (?:`(?<name>[^`]+)`)? +\| `(?<code>\w+\/[\w-]+)` +\|/gm,
)) {
  server = groups["name"] ?? server;
  explained.set(server, [...(explained.get(server) ?? []), groups["code"] ?? ""]);
}

describe.concurrent("a check of a reference server", () => {
  it.each<[name: string, program: string, ...args: string[]]>([
    ["@modelcontextprotocol/server-everything", everythingServer],
    ["@modelcontextprotocol/server-filesystem", filesystemServer, "."],
    ["@modelcontextprotocol/server-memory", memoryServer],
    ["mcp-sqlite-tools", join(root, "node_modules/mcp-sqlite-tools/dist/index.js")],
  ])(
    "finds in %s what the documentation explains, and no errors",
    async (name, program, ...args) => {
      using cwd = folderOf({});
      const { code, findings } = await checked([process.execPath, program, ...args], { cwd: cwd.path });
      // Starting takes long on a busy machine.
      const codes = findings.flatMap((finding) =>
        finding.severity === "info" || finding.code === "protocol/slow-start" ? [] : [finding.code],
      );
      expect([code, [...new Set(codes)].toSorted()]).toEqual([0, (explained.get(name) ?? []).toSorted()]);
    },
    120_000,
  );
});
