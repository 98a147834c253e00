// The floor: what anybody would write with the SDK alone. Connect, call once or list everything, close.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [what, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "bare", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
if (what === "call") await client.callTool({ name: "echo", arguments: { message: "hello" } });
else {
  await client.listTools();
  await client.listPrompts();
  await client.listResources();
  await client.listResourceTemplates();
}
await client.close();
