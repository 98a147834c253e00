import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { connectClient, openGateway, programHost, transportTo } from "../gateway/support.ts";
import { folderOf } from "../support/cli.ts";
import { createRecord, stdioSpec } from "../servers/support.ts";
import { startServer } from "../../src/servers/server-pool.ts";

const modern = "2026-07-28";
const dbhub = join(process.env["MCPVALS_AGENTS"] ?? "", "node_modules/@bytebase/dbhub/dist/index.js");
const pinned = { versionNegotiation: { mode: { pin: modern } } } as const;
const auto = { versionNegotiation: { mode: "auto" } } as const;

/** A database server of the newest protocol from the npm registry. */
describe("dbhub", () => {
  test.each([
    ["http", "pinned", pinned],
    ["http", "auto", auto],
    ["bridge", "pinned", pinned],
  ] as const)("answers over %s to a client that is %s", async (way, _how, options) => {
    using folder = folderOf({});
    const host = await programHost([dbhub, "--dsn", `sqlite://${join(folder.path, "x.db")}`]);
    const { endpoint, record } = await openGateway(host);
    const client = await connectClient(transportTo(endpoint, way), options);
    expect(client.getProtocolEra()).toBe("modern");
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain("execute_sql");
    const result = await client.callTool({ name: "execute_sql", arguments: { sql: "SELECT 1 + 2 AS sum" } });
    expect(JSON.stringify(result.content)).toContain("sum");
    const methods = record.of("mcp.message").flatMap(({ message }) => {
      const { method } = message as { readonly method?: string };
      return method === undefined ? [] : [method];
    });
    expect(methods).toEqual(expect.arrayContaining(["server/discover", "tools/list", "tools/call"]));
    expect(methods).not.toContain("initialize");
  });

  test("is used by an agent in this process, in both eras", async () => {
    using folder = folderOf({});
    const args = [dbhub, "--dsn", `sqlite://${join(folder.path, "x.db")}`];
    for (const protocol of ["legacy", "modern"] as const) {
      const record = createRecord();
      await using session = await startServer(
        "dbhub",
        { ...stdioSpec(process.execPath, args), protocol },
        { emit: record.emit, signal: new AbortController().signal, version: "0.0.0" },
      );
      const outcome = await session.callTool(
        "execute_sql",
        { sql: "SELECT 1 + 2 AS sum" },
        { timeoutMs: 10_000, signal: new AbortController().signal },
      );
      expect(outcome).toMatchObject({ kind: "result" });
      const [ready] = record.of("server.ready");
      expect(ready?.protocolVersion === modern).toBe(protocol === "modern");
    }
  });
});
