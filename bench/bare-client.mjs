// The floor: what anybody would write with the SDK alone. Connect, call once, close.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const client = new Client({ name: "bare", version: "1.0.0" });
await client.connect(
  new StdioClientTransport({ command: process.argv[2], args: process.argv.slice(3), stderr: "ignore" }),
);
await client.callTool({ name: "echo", arguments: { message: "hello" } });
await client.close();
