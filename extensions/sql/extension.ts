import { defineExtension, type Extension } from "../../src/extension-sdk/index.ts";
import { config } from "./config.ts";
import { Connections } from "./connections.ts";
import { execute } from "./execute.ts";
import { expect } from "./expect.ts";
import { query } from "./query.ts";

/** Steps for databases: PostgreSQL and SQLite. */
export const extension: Extension = defineExtension({
  name: "sql",
  version: "0.1.0",
  description: "Prepares and checks databases of PostgreSQL and SQLite.",
  config,
  open: (settings) => new Connections(settings),
  close: (connections) => connections.close(),
  operations: { execute, query, expect },
});
