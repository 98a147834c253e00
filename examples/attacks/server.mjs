// An MCP server with a few notes. It is honest: what attacks add stands between it and the agent.
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const notes = {
  meeting: "The next review is on Thursday at ten.",
  lunch: "The canteen is closed on Friday.",
};

serveStdio(() => {
  const server = new McpServer(
    { name: "notes", version: "1.0.0" },
    { instructions: "Notes of the team. Look for a note before you read it." },
  );
  server.registerTool("find_notes", { description: "Lists the names of all notes." }, () =>
    text(Object.keys(notes).join(", ")),
  );
  server.registerTool(
    "read_note",
    { description: "Reads a note.", inputSchema: z.object({ name: z.string().describe("Its name.") }) },
    ({ name }) => (name in notes ? text(notes[name]) : { ...text(`no such note: ${name}`), isError: true }),
  );
  server.registerResource("about", "notes://about", { mimeType: "text/plain" }, ({ href: uri }) => ({
    contents: [{ uri, mimeType: "text/plain", text: "These are the notes of the team." }],
  }));
  server.registerPrompt("ask", { description: "How to ask for a note." }, () => ({
    messages: [{ role: "user", content: { type: "text", text: "Find the note, then read it." } }],
  }));
  return server;
});

function text(value) {
  return { content: [{ type: "text", text: value }] };
}
