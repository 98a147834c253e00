import * as z from "zod";
import {
  defineExtension,
  EnvironmentError,
  type Extension,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../src/extensions/sdk/index.ts";
import { config, Connections } from "./connections.ts";
import { rowCountText, type Table } from "./database.ts";
import { expectationArgs, expectationNames, unmet } from "./expectations.ts";
import { statementArgs, statementRules, withStatement } from "./statement.ts";

const executeParams = z
  .strictObject({
    ...statementArgs,
    transaction: z.boolean().default(true).describe("Whether to run all statements in one transaction."),
  })
  .meta({ allOf: statementRules });

/** Changes a database. */
const execute = operation({
  description: "Runs SQL statements in one transaction.",
  params: executeParams,
  phases: ["setup", "cleanup"],
  run: (args, context: OperationRun<Connections>) =>
    withStatement(args, context, async ({ database, limits, ...statement }) => {
      const rowsAffected = await database.execute({ ...statement, transaction: args.transaction }, limits);
      return { message: `${rowCountText(rowsAffected)} changed`, outputs: { rowsAffected } };
    }),
});

const queryParams = z
  .strictObject({
    ...statementArgs,
    readOnly: z.boolean().default(true).describe("False: it may change the database."),
  })
  .meta({ allOf: statementRules });

/** Reads rows for later steps. */
const query = operation({
  description: "Runs one SQL query; its rows are outputs.",
  params: queryParams,
  run: (args, context: OperationRun<Connections>) =>
    withStatement(args, context, async ({ database, limits, ...statement }) => {
      const table = await database.query({ ...statement, readOnly: args.readOnly }, limits);
      return { message: rowCountText(table.rows.length), outputs: outputsOf(table) };
    }),
});

/** `first` is missing where there is no row. */
function outputsOf(table: Table): JsonObject {
  const rows = objectsOf(table);
  const [first] = rows;
  return {
    rows,
    rowCount: rows.length,
    columns: table.columns,
    ...(first === undefined ? {} : { first }),
  };
}

function objectsOf({ columns, rows }: Table): readonly JsonObject[] {
  return rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index] ?? null])));
}

const expectParams = z
  .strictObject({ ...statementArgs, ...expectationArgs })
  .meta({ allOf: [...statementRules, { anyOf: expectationNames.map((name) => ({ required: [name] })) }] });

/** Checks what a query gives. */
const expect = operation({
  description: "Runs one read-only SQL query and checks its result.",
  params: expectParams,
  phases: ["verify"],
  run: (args, context: OperationRun<Connections>) =>
    withStatement(args, context, async ({ database, limits, ...statement }) => {
      if (expectationNames.every((name) => args[name] === undefined)) {
        throw new EnvironmentError(`nothing is expected: give one of ${expectationNames.join(", ")}`);
      }
      const table = await database.query({ ...statement, readOnly: true }, limits);
      const outputs = { rowCount: table.rows.length };
      const problems = unmet(args, table);
      if (problems.length > 0) throw new OperationFailed(problems.join("\n"), { outputs });
      return { message: "the rows are as expected", outputs };
    }),
});

/** Steps for databases: PostgreSQL and SQLite. */
export const extension: Extension = defineExtension({
  name: "sql",
  version: "0.1.0",
  description: "Sets up and checks PostgreSQL and SQLite databases.",
  config,
  open: (settings) => new Connections(settings),
  close: (connections) => connections.close(),
  operations: { execute, query, expect },
});
