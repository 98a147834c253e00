// A small MCP server for the examples in docs/: adds, divides, returns a weather forecast.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

serveStdio(() => {
  const server = new McpServer({ name: "example", version: "1.0.0" });
  server.registerTool(
    "add",
    { description: "Adds two numbers.", inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => text(`${a} + ${b} = ${a + b}`),
  );
  server.registerTool(
    "divide",
    { description: "Divides a by b.", inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => (b === 0 ? { ...text("division by zero"), isError: true } : text(`${a} / ${b} = ${a / b}`)),
  );
  server.registerTool(
    "forecast",
    {
      description: "Tells tomorrow's weather in a city.",
      inputSchema: z.object({ city: z.string() }),
      outputSchema: z.object({ city: z.string(), celsius: z.number() }),
    },
    ({ city }) => ({ ...text(`${city}: 12 °C`), structuredContent: { city, celsius: 12 } }),
  );
  return server;
});

function text(value) {
  return { content: [{ type: "text", text: value }] };
}
