import * as z from "zod";
import { type JsonObject, operation, type OperationRun } from "../../src/extension-sdk/index.ts";
import type { Connections } from "./connections.ts";
import { rowCountText, type Table } from "./database.ts";
import { statementArgs, statementRules, withStatement } from "./statement.ts";

const params = z
  .strictObject({
    ...statementArgs,
    readOnly: z.boolean().default(true).describe("False: it may change the database."),
  })
  .meta({ allOf: statementRules });

/** Reads rows for later steps. */
export const query = operation({
  description: "Runs one SQL query; its rows are outputs.",
  params,
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
