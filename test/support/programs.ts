import { join } from "node:path";
import { programFolder, root } from "./cli.ts";

// Programs that load an SDK, each made one file by `bundle-programs.ts`.

/** Where each comes from. */
export const programSources = {
  /** The agent that does what its prompt says. */
  "acp-agent": "test/fixtures/agents/acp-agent.ts",
  /** The agent that does what its arguments say. */
  "command-agent": "test/fixtures/agents/command-agent.ts",
  /** The server that asks its client for everything. */
  "asking-server": "test/fixtures/servers/asking-server.ts",
  /** The server of the official conformance suite. */
  "conforming-server": "test/fixtures/servers/conforming-server.ts",
  /** The server of the example tasks. */
  "example-platform": "examples/tasks/services/platform.js",
  /** The extension with an operation for each thing that an operation can do. */
  "sample-extension": "test/fixtures/extensions/sample-program.ts",
  // Threads and programs of mcpvals itself, for tests that run it in their own process.
  "schema-worker.js": "src/graders/schema-worker.ts",
  "grader-host.js": "src/graders/grader-host.ts",
  // Under the names that they have on the PATH.
  "mcp-server-everything": "node_modules/@modelcontextprotocol/server-everything/dist/index.js",
  "mcp-server-filesystem": "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
  "mcp-server-memory": "node_modules/@modelcontextprotocol/server-memory/dist/index.js",
} as const;

export const acpAgent: string = program("acp-agent");
export const commandAgent: string = program("command-agent");
export const askingServer: string = program("asking-server");
export const conformingServer: string = program("conforming-server");
export const examplePlatform: string = program("example-platform");
export const sampleExtension: string = program("sample-extension");
export const everythingServer: string = program("mcp-server-everything");
export const filesystemServer: string = program("mcp-server-filesystem");
export const memoryServer: string = program("mcp-server-memory");

/** Answers as the server of the examples and of the documentation does. */
export const exampleServer: string = join(root, "test/fixtures/servers/example-server.mjs");

function program(name: keyof typeof programSources): string {
  return join(programFolder, name);
}
