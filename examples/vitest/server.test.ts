import { expect, test } from "vitest";
import { startServer } from "mcpvals/vitest";

const server = startServer(["node", "server.js"]);

test("adds", async () => {
  const answer = await server.callTool("add", { a: 2, b: 3 });
  expect(answer).toHaveText("= 5");
});

test("gives what its output schema declares", async () => {
  const answer = await server.callTool("forecast", { city: "Oslo" });
  expect(answer).toMatchOutputSchema();
  expect(answer.structuredContent).toEqual({ city: "Oslo", celsius: 12 });
});

test("refuses what it cannot do", async () => {
  expect(await server.callTool("divide", { a: 1, b: 0 })).toFailWith("division by zero");
  expect(await server.callTool("add", { a: 2 })).toFailWith(/\bb\b/);
});

test("has no defect", { timeout: 60_000 }, async () => {
  expect(await server.check({ calls: "all" })).not.toHaveFinding({ severity: "error" });
});
