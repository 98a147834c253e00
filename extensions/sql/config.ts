import * as z from "zod";

const url = z
  .string()
  .describe("postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:PATH or sqlite::memory:");

/** Settings of the extension. Addresses are looked at when a database is first used. */
export const config = z
  .strictObject({
    url: url.optional().describe("The database of steps that name none."),
    connections: z.record(z.string(), url).optional().describe("Further databases, by name."),
  })
  .describe("Where the databases are.");

export type Config = z.output<typeof config>;
