import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

const metres = { metre: 1, foot: 0.3048, mile: 1609.344 };
const unit = z.enum(Object.keys(metres)).describe("Unit of length");

const { fetch } = createMcpHandler(() => {
  const server = new McpServer({ name: "units", version: "1.0.0" });
  server.registerTool(
    "convert",
    {
      description: "Converts a length from one unit to another.",
      inputSchema: z.object({
        length: z.number().describe("The length in unit `from`"),
        from: unit,
        to: unit,
      }),
    },
    ({ length, from, to }) => ({
      content: [{ type: "text", text: `${(length * metres[from]) / metres[to]} ${to}` }],
    }),
  );
  return server;
});

export { fetch as DELETE, fetch as GET, fetch as POST };
